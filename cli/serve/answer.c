#include "cli/serve/answer.h"

enum xt_status xt_answer_check(const struct xtrain *network, const struct xt_options *options,
                               struct xt_err *err)
{
    if (!xtrain_reads_plates(network) ||
        xt_options_source(options, "top") != XT_SOURCE_COMMAND_LINE)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE, "--top: %s reads plates and has no classes",
                      xtrain_model(network));
}

/* The parts are separated by tabs: for a plate the confidences of its characters, separated by
 * spaces; for classes each name with its probability. */
static void describe_parts(struct xt_report *line, bool plates, int most,
                           const struct xtrain_answer *answer)
{
    struct xt_report *list = xt_report_list(line, plates ? "characters" : "top");
    for (int i = 0; i < most; i++) {
        struct xt_report *item = plates ? list : xt_report_group(list, NULL);
        if (!plates)
            xt_report_add(item, "prediction", "", "\t%s", xtrain_answer_part(answer, i));
        xt_report_add(item, plates ? NULL : "confidence", "", plates && !i ? "\t%.3f" : " %.3f",
                      xtrain_answer_part_confidence(answer, i));
    }
}

void xt_answer_describe(struct xt_report *line, const struct xtrain *network,
                        const struct xt_answer_settings *settings, const char *path,
                        const struct xtrain_answer *answer)
{
    const char *text = xtrain_answer_text(answer);
    double confidence = xtrain_answer_confidence(answer);
    bool plates = xtrain_reads_plates(network);
    bool rejected = xtrain_answer_rejected(answer);
    int most = xtrain_answer_count(answer);
    if (!plates && most > settings->top)
        most = settings->top;
    if (path)
        xt_report_add(line, "path", "", "%s\t", path);
    xt_report_add(line, "prediction", rejected ? NULL : "", "%s", text);
    if (rejected)
        xt_report_add(line, NULL, "", "%s", "-");
    xt_report_add(line, "confidence", "", "\t%.4f", confidence);
    describe_parts(line, plates, most, answer);
    xt_report_flag(line, "rejected", "", rejected, "\trejected ", "");
    if (rejected)
        xt_report_add(line, NULL, "", "%s", text);
}
