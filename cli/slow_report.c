#include "cli/slow_report.h"

#include <math.h>

void xt_slow_report(struct xt_report *to, const struct xt_slow *slow, bool said)
{
    struct xt_report *list = xt_report_list(to, "slow");
    for (int i = 0; i < slow->count; i++) {
        const struct xt_slow_finding *finding = &slow->found[i];
        struct xt_report *one = xt_report_group(list, NULL);
        xt_report_values(one, "cause=%s because=%s remedy=%s", xt_slow_cause_key(finding->cause),
                         finding->because, finding->remedy);
        if (!said)
            xt_report_line(to, "slow because %s; %s", finding->because, finding->remedy);
    }
}

/* Host time of a step by part; GPU only. */
static void describe_step(struct xt_report *to, const struct xt_slow_facts *facts)
{
    xt_report_values(to, "step_ms=%f launches_ms=%f waits_ms=%f loss_ms=%f busy=%f",
                     1e3 * facts->step, 1e3 * facts->launches, 1e3 * facts->waits,
                     1e3 * facts->loss, facts->busy);
    if (isfinite(facts->launches))
        xt_report_line(
            to,
            "of a step of %.1f ms the host submits work for %.1f ms, waits for the device "
            "%.1f ms and computes the loss for %.1f ms",
            1e3 * facts->step, 1e3 * facts->launches, 1e3 * facts->waits, 1e3 * facts->loss);
}

void xt_slow_report_why(struct xt_report *to, const struct xt_slow *slow,
                        const struct xt_slow_facts *facts)
{
    char examined[256];
    char rest[1024];
    xt_slow_report(to, slow, false);
    describe_step(to, facts);
    xt_slow_describe_examined(slow, examined, sizeof examined);
    xt_slow_describe_rest(slow, facts, rest, sizeof rest);
    xt_report_values(to, "examined=%s not_examined=%s", examined, rest);
    if (!*examined)
        xt_report_line(to, "nothing was examined: on the CPU --profile shows where the time goes");
    else if (slow->count)
        xt_report_line(to, "examined: %s", examined);
    else
        xt_report_line(to, "no cause was found; examined: %s", examined);
    if (*rest)
        xt_report_line(to, "not examined: %s", rest);
}
