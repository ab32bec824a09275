/* xtrain eval: trained weights on labelled images. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "train/evaluate.h"

struct view {
    struct xt_progress progress;
    double start;
    const struct xt_alphabet *alphabet;
    size_t show;
};

static void print_symbols(const struct xt_alphabet *alphabet, const int *symbols, int length)
{
    for (int i = 0; i < length; i++)
        fputs(xt_alphabet_symbol(alphabet, symbols[i]), stdout);
}

static void show_answer(void *context, size_t index, const int *label, int label_length,
                        const struct xt_decoded *answer)
{
    struct view *view = context;
    if (index >= view->show)
        return;
    xt_progress_clear(&view->progress);
    bool right = answer->length == label_length &&
                 memcmp(answer->symbols, label, (size_t)label_length * sizeof *label) == 0;
    printf("  %s  ", right ? "right" : "wrong");
    print_symbols(view->alphabet, label, label_length);
    printf("  read as  ");
    print_symbols(view->alphabet, answer->symbols, answer->length);
    printf("  confidence %.3f\n", answer->probability);
}

static void show(void *context, size_t done, size_t all)
{
    struct view *view = context;
    double now = xt_thread_seconds();
    double elapsed = now - view->start;
    struct xt_progress_state state = {
        .step = (int64_t)done,
        .steps = (int64_t)all,
        .loss = NAN,
        .lr = NAN,
        .images_per_s = elapsed > 0 ? (double)done / elapsed : NAN,
        .seconds_left = elapsed / (double)done * (double)(all - done),
        .wait = NAN,
    };
    xt_progress_show(&view->progress, &state, now, false);
}

static void print_result(const struct xt_settings *s, const struct xt_source *source,
                         const struct xt_evaluation *e)
{
    const struct xt_plate_score *score = &e->score;
    double plates = xt_plate_score_accuracy(score);
    double characters = xt_plate_score_char_accuracy(score);
    if (s->json) {
        printf("{\"images\": %zu, \"correct\": %zu, \"plate_accuracy\": %.6f, "
               "\"char_accuracy\": %.6f, \"images_per_s\": %.1f, \"bad_images\": %zu}\n",
               score->images, score->correct, plates, characters, e->images_per_s, e->bad_images);
        return;
    }
    printf("%s\n", source->description);
    printf("%zu of %zu plates read right (%.2f %%), %.2f %% of the characters\n", score->correct,
           score->images, 100 * plates, 100 * characters);
    printf("%.0f images/s\n", e->images_per_s);
    if (e->bad_images)
        printf("%zu images could not be used and do not count\n", e->bad_images);
}

static enum xt_status evaluate(const struct xt_options *options, struct xt_network *network,
                               struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct xt_source *source = NULL;
    struct xt_source_options source_options = xt_network_source_options(network);
    enum xt_status status = xt_source_open(&source, s->data ? s->data : network->model->default_val,
                                           &source_options, err);
    struct view view = {.start = xt_thread_seconds(),
                        .alphabet = network->alphabet,
                        .show = s->json ? 0 : (size_t)s->show};
    struct xt_evaluate_observer observer = {
        .context = &view, .progress = show, .answer = show_answer};
    /* Standard output belongs to the result alone. */
    xt_progress_init(&view.progress, s->quiet, true);
    struct xt_evaluation evaluation;
    if (!status)
        status = xt_evaluate(network, source, s, &observer, &evaluation, err);
    xt_progress_clear(&view.progress);
    if (!status)
        print_result(s, source, &evaluation);
    xt_source_destroy(source);
    return status;
}

enum xt_status xt_cmd_eval(struct xt_options *options, struct xt_err *err)
{
    struct xt_network network;
    enum xt_status status =
        xt_network_init(&network, &options->values, options->values.batch, false, err);
    if (!status)
        status = evaluate(options, &network, err);
    xt_network_clear(&network);
    return status;
}
