#include "cli/doctor/backends.h"

#include <stdbool.h>
#include <stdio.h>

static bool works(const struct xt_backend_tried *tried)
{
    return tried->result.there && !tried->result.status;
}

enum xt_status xt_backends_try(struct xt_backend_tried out[XT_BACKENDS], struct xt_err *err)
{
    static const struct xt_backend_tried all[XT_BACKENDS] = {
        {.name = "Level Zero", .selector = "level_zero:gpu"},
        {.name = "OpenCL", .selector = "opencl:gpu"},
    };
    enum xt_status status = XT_OK;
    for (int i = 0; i < XT_BACKENDS && !status; i++) {
        out[i] = all[i];
        status = xt_device_try("xpu", out[i].selector, &out[i].result, err);
    }
    return status;
}

int xt_backends_choose(const struct xt_backend_tried tried[XT_BACKENDS])
{
    const double noticeable = 1.1;
    bool both = works(&tried[0]) && works(&tried[1]);
    if (both)
        return tried[1].result.pass_s > noticeable * tried[0].result.pass_s ? 0 : 1;
    return works(&tried[0]) ? 0 : works(&tried[1]) ? 1 : -1;
}

void xt_backends_advise(const struct xt_backend_tried tried[XT_BACKENDS], char *text, size_t size)
{
    int choice = xt_backends_choose(tried);
    if (choice < 0) {
        snprintf(text, size, "%s",
                 tried[0].result.there || tried[1].result.there
                     ? "no back end computes correctly here"
                     : "none: neither has a GPU here");
        return;
    }
    const struct xt_backend_tried *taken = &tried[choice];
    const struct xt_backend_tried *other = &tried[1 - choice];
    double ms = 1e3 * taken->result.pass_s;
    double other_ms = 1e3 * other->result.pass_s;
    if (!other->result.there)
        snprintf(text, size, "%s is the only one here", taken->name);
    else if (!works(other))
        snprintf(text, size, "%s, since %s does not work: export ONEAPI_DEVICE_SELECTOR=%s",
                 taken->name, other->name, taken->selector);
    else if (choice == 0)
        snprintf(text, size,
                 "%s, which takes %.2f ms where %s takes %.2f: export ONEAPI_DEVICE_SELECTOR=%s",
                 taken->name, ms, other->name, other_ms, taken->selector);
    else
        snprintf(text, size,
                 "%s, which takes %.2f ms where %s takes %.2f (the default; to be sure of it: "
                 "export ONEAPI_DEVICE_SELECTOR=%s)",
                 taken->name, ms, other->name, other_ms, taken->selector);
}
