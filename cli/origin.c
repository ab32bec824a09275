#include "cli/origin.h"

#include <stdlib.h>

#include "base/log.h"

void xt_origin_note(const struct xt_run_mark *mark)
{
    const struct xt_run_mark_text text = xt_run_mark_format(mark);
    if (*text.text)
        xt_log_note("weights of %s", text.text);
}

void xt_origin_report(struct xt_report *to, const struct xt_run_mark *mark, bool line)
{
    const struct xt_run_mark_text text = xt_run_mark_format(mark);
    if (!*text.text)
        return;
    struct xt_report *run = xt_report_group(to, "origin");
    xt_report_values(run, "run=%s step=%lld record=%s", mark->run, atoll(mark->step),
                     xt_run_mark_short(mark).text);
    if (line)
        xt_report_line(to, "weights of %s", text.text);
}
