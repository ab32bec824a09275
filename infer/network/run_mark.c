#include "infer/network/run_mark.h"

#include <stdio.h>

#include "base/str.h"

static void copy(char *out, size_t size, const struct xt_weight_file *file, const char *key)
{
    const char *value = xt_weight_file_meta(file, key);
    snprintf(out, size, "%s", value ? value : "");
}

void xt_run_mark_read(struct xt_run_mark *mark, const struct xt_weight_file *file)
{
    copy(mark->run, sizeof mark->run, file, "run");
    copy(mark->step, sizeof mark->step, file, "run_step");
    copy(mark->id.text, sizeof mark->id.text, file, "run_id");
    copy(mark->head.text, sizeof mark->head.text, file, "run_head");
}

size_t xt_run_mark_meta(const struct xt_run_mark *mark, struct xt_file_meta out[XT_RUN_MARK_META])
{
    if (!*mark->id.text)
        return 0;
    out[0] = (struct xt_file_meta){"run", mark->run};
    out[1] = (struct xt_file_meta){"run_step", mark->step};
    out[2] = (struct xt_file_meta){"run_id", mark->id.text};
    out[3] = (struct xt_file_meta){"run_head", mark->head.text};
    return XT_RUN_MARK_META;
}

struct xt_run_mark_text xt_run_mark_short(const struct xt_run_mark *mark)
{
    struct xt_run_mark_text out;
    snprintf(out.text, sizeof out.text, "%.12s", mark->head.text);
    return out;
}

struct xt_run_mark_text xt_run_mark_format(const struct xt_run_mark *mark)
{
    struct xt_run_mark_text out = {""};
    char run[sizeof mark->run];
    xt_str_escape(mark->run, run, sizeof run);
    if (*mark->id.text)
        snprintf(out.text, sizeof out.text, "run %s, step %.20s, record %.12s", run, mark->step,
                 mark->head.text);
    return out;
}
