#include "cli/overfit.h"
#include "runs/report/errors.h"

#include <inttypes.h>
#include <stdlib.h>

/* maximum number of images that are named */
enum { NAMED = 10 };

static enum xt_status name(const struct xt_trainer *trainer, const struct xt_predictor *predictor,
                           const struct xt_wrong *wrong, struct xt_report *report,
                           struct xt_report *list, struct xt_err *err)
{
    char path[1024];
    struct xt_str expected = {0};
    struct xt_str read = {0};
    xt_trainer_image_name(trainer, wrong->index, path, sizeof path);
    enum xt_status status =
        predictor->class->text(predictor, wrong->label, wrong->label_length, &expected, err);
    if (!status)
        status = predictor->class->text(predictor, wrong->said, wrong->length, &read, err);
    if (!status) {
        struct xt_report *item = xt_report_group(list, NULL);
        xt_report_values(item, "path=%s label=%s prediction=%s", path, xt_str_get(&expected),
                         xt_str_get(&read));
        xt_report_line(report, "  %s: labelled %s, read as %s", path, xt_str_get(&expected),
                       read.length ? xt_str_get(&read) : "nothing");
    }
    xt_str_clear(&expected);
    xt_str_clear(&read);
    return status;
}

/* Accuracy and loss suggest where to look. */
static void explain(const struct xt_run_summary *run, double loss, struct xt_report *report)
{
    const struct xt_evaluation *e = run->evaluation;
    if (e->loss > 10 * loss + 1)
        xt_report_line(report,
                       "in training the loss came to %.2g, in evaluation to %.2g: the running "
                       "statistics of the batch norms lag behind in so few steps; give it more "
                       "--steps",
                       loss, e->loss);
    else if (2 * e->correct >= e->images)
        xt_report_line(report, "most were learnt: check these first. A label may be wrong, two "
                               "equal images may have different labels, or nothing is visible at "
                               "the network's size (xtrain data check shows them)");
    else
        xt_report_line(report,
                       "few were learnt: either the labels do not match the images (check "
                       "with xtrain data check), or the training settings do not converge: try "
                       "more --steps, then a --lr ten times lower and ten times higher");
}

static int by_index(const void *a, const void *b)
{
    const struct xt_wrong *one = *(const struct xt_wrong *const *)a;
    const struct xt_wrong *other = *(const struct xt_wrong *const *)b;
    return (one->index > other->index) - (one->index < other->index);
}

/* Names the first images that all ranks predict wrong. */
static enum xt_status name_wrong(const struct xt_run_summary *run, struct xt_trainer *trainer,
                                 struct xt_report *report, struct xt_err *err)
{
    struct xt_errors errors;
    struct xt_report *list = xt_report_list(report, "not_learnt");
    enum xt_status status = xt_errors_init(&errors, run->predictor, 0, err);
    if (!status)
        status = xt_trainer_list_wrong(trainer, &errors, err);
    if (!status)
        status = xt_errors_end(&errors, err);
    if (!status && errors.count)
        qsort(errors.wrong, errors.count, sizeof *errors.wrong, by_index);
    for (size_t i = 0; i < errors.count && i < NAMED && !status; i++)
        status = name(trainer, run->predictor, errors.wrong[i], report, list, err);
    if (errors.count > NAMED)
        xt_report_line(report, "  and %zu more", errors.count - NAMED);
    xt_errors_clear(&errors);
    return status;
}

enum xt_status xt_overfit_describe(const struct xt_run_summary *run, struct xt_trainer *trainer,
                                   double loss, struct xt_report *report, struct xt_err *err)
{
    const struct xt_evaluation *e = run->evaluation;
    bool learnt = run->best.is_learnt;
    xt_report_flag(report, "learnt", NULL, learnt, "", "");
    if (learnt) {
        xt_report_line(report,
                       "learnt by heart: all %d by step %" PRId64 ", so images, labels and "
                       "training fit together; continue with the whole set, without --overfit",
                       run->settings->run.overfit, run->best.step);
        return XT_OK;
    }
    xt_report_line(report,
                   "not learnt: %zu of %zu are predicted correctly after %s; wrong:", e->correct,
                   e->images, xt_count(run->state.step, "step").text);
    enum xt_status status = name_wrong(run, trainer, report, err);
    explain(run, loss, report);
    return status;
}

enum xt_status xt_overfit_judge(const struct xt_run_summary *run, struct xt_err *err)
{
    const struct xt_evaluation *e = run->evaluation;
    if (run->best.is_learnt)
        return XT_OK;
    return xt_err_set(err, XT_ERR_RUN,
                      "--overfit %d: %zu of %zu images were learnt; until all of so few are, "
                      "training on more will not help",
                      run->settings->run.overfit, e->correct, e->images);
}
