#include "train/watch/slow.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const struct {
    const char *key;
    const char *name;
} causes[XT_SLOW_CAUSES] = {
    [XT_SLOW_KERNELS] = {"kernels", "kernels"},
    [XT_SLOW_TYPE] = {"type", "data type"},
    [XT_SLOW_GPU] = {"gpu", "other GPUs"},
    [XT_SLOW_BAR] = {"resizable_bar", "Resizable BAR"},
    [XT_SLOW_LAUNCHES] = {"launches", "launches"},
    [XT_SLOW_LOADER] = {"loader", "loader"},
    [XT_SLOW_IDLE] = {"idle", "busy time"},
};

const char *xt_slow_cause_key(enum xt_slow_cause cause)
{
    return causes[cause].key;
}

/* A finding whose remedy follows. */
__attribute__((format(printf, 3, 4))) static char *
find(struct xt_slow *out, enum xt_slow_cause cause, const char *format, ...)
{
    struct xt_slow_finding *finding = &out->found[out->count++];
    va_list args;
    va_start(args, format);
    finding->cause = cause;
    vsnprintf(finding->because, sizeof finding->because, format, args);
    va_end(args);
    return finding->remedy;
}

enum { REMEDY = sizeof(((struct xt_slow_finding *)0)->remedy) };

static void judge_kernels(const struct xt_slow_facts *f, struct xt_slow *out)
{
    char *remedy = NULL;
    out->examined[XT_SLOW_KERNELS] = f->kernels > 0;
    if (f->kernels <= 0)
        return;
    if (f->reference)
        remedy = find(out, XT_SLOW_KERNELS,
                      "%d of %d kernels are oneDNN's reference ones, which are not made for speed "
                      "(the first: %s)",
                      f->reference, f->kernels, f->first);
    else if (f->opencl)
        remedy = find(out, XT_SLOW_KERNELS,
                      "%d of the convolutions' %d kernels are OpenCL C in place of machine code "
                      "(the first: %s)",
                      f->opencl, f->convolutions, f->first);
    if (remedy && *f->newer)
        snprintf(remedy, REMEDY, "%s: make deps XPU=1", f->newer);
    else if (remedy)
        snprintf(remedy, REMEDY,
                 "another --amp, or a newer oneDNN (make deps XPU=1), may have machine code for "
                 "it");
}

static void judge_type(const struct xt_slow_facts *f, struct xt_slow *out)
{
    out->examined[XT_SLOW_TYPE] = f->matrix != XT_NOT_KNOWN;
    if (f->matrix == XT_YES && f->type == XT_F32)
        snprintf(find(out, XT_SLOW_TYPE,
                      "the matrix engines (XMX) of this GPU (%s) are not for float32",
                      f->architecture),
                 REMEDY, "--amp bf16 (or fp16) uses them");
    else if (f->matrix == XT_NO && f->type == XT_BF16)
        snprintf(find(out, XT_SLOW_TYPE,
                      "this GPU (%s) has no matrix engines (XMX), and bf16 is not faster without",
                      f->architecture),
                 REMEDY, "--amp fp16, or off, suits it better");
}

static void judge_gpu(const struct xt_slow_facts *f, struct xt_slow *out)
{
    out->examined[XT_SLOW_GPU] = f->discrete != XT_NOT_KNOWN;
    if (f->discrete == XT_YES)
        snprintf(find(out, XT_SLOW_GPU, "this GPU is the integrated one, and %.100s", f->better),
                 REMEDY, "--device %.*s takes the discrete one", (int)strcspn(f->better, " "),
                 f->better);
}

static void judge_bar(const struct xt_slow_facts *f, struct xt_slow *out)
{
    out->examined[XT_SLOW_BAR] = f->bar != XT_NOT_KNOWN;
    if (f->bar == XT_NO)
        snprintf(find(out, XT_SLOW_BAR,
                      "Resizable BAR is off, and the host reaches only a small window of the GPU's "
                      "memory"),
                 REMEDY, "switch it on in the firmware's set-up, with Above 4G decoding");
}

/* The share of a step, or NAN. */
static double share(double part, double step)
{
    return step > 0 ? part / step : (double)NAN;
}

/* The host is always submitting, and when it waits, the GPU has already finished. */
static bool judge_launches(const struct xt_slow_facts *f, struct xt_slow *out)
{
    const double most_of_it = 0.6;
    const double hardly = 0.15;
    const double at_work = 0.85;
    double launches = share(f->launches, f->step);
    double waits = share(f->waits, f->step);
    out->examined[XT_SLOW_LAUNCHES] = isfinite(launches) && isfinite(waits);
    if (!(launches >= most_of_it && waits <= hardly) || f->busy >= at_work)
        return false;
    char *remedy = find(out, XT_SLOW_LAUNCHES,
                        "of a step of %.1f ms the host takes %.1f ms to submit the GPU's work, and "
                        "waits for it %.1f ms: the GPU is done as soon as it has everything",
                        1e3 * f->step, 1e3 * f->launches, 1e3 * f->waits);
    snprintf(remedy, REMEDY, "a larger --batch has as many launches for more images");
    return true;
}

static bool judge_loader(const struct xt_slow_facts *f, struct xt_slow *out)
{
    const double noticeable = 0.1;
    double loader = share(f->loader, f->step);
    out->examined[XT_SLOW_LOADER] = isfinite(loader);
    if (!(loader >= noticeable))
        return false;
    snprintf(
        find(out, XT_SLOW_LOADER, "steps wait for images %.0f %% of the time", 100 * loader),
        REMEDY,
        "more --workers, --image-cache ram where there are several epochs, or `xtrain data pack`");
    return true;
}

static void judge_idle(const struct xt_slow_facts *f, struct xt_slow *out)
{
    const double long_time = 0.5;
    double loss = share(f->loss, f->step);
    out->examined[XT_SLOW_IDLE] = isfinite(f->busy);
    if (!(f->busy <= 1 - long_time))
        return;
    char *remedy = find(out, XT_SLOW_IDLE, "the GPU's engines were idle %.0f %% of the time",
                        100 * (1 - f->busy));
    if (loss >= 0.25)
        snprintf(remedy, REMEDY,
                 "the host's loss takes %.0f %% of a step: more --threads, or fewer other "
                 "processes beside it",
                 100 * loss);
    else
        snprintf(remedy, REMEDY, "a larger --batch gives it more work at a time");
}

void xt_slow_judge(const struct xt_slow_facts *facts, struct xt_slow *out)
{
    *out = (struct xt_slow){.count = 0};
    judge_kernels(facts, out);
    judge_type(facts, out);
    judge_gpu(facts, out);
    judge_bar(facts, out);
    bool launches = judge_launches(facts, out);
    bool loader = judge_loader(facts, out);
    if (!launches && !loader)
        judge_idle(facts, out);
    else
        out->examined[XT_SLOW_IDLE] = isfinite(facts->busy);
}

void xt_slow_describe_examined(const struct xt_slow *slow, char *text, size_t size)
{
    *text = '\0';
    for (int i = 0; i < XT_SLOW_CAUSES; i++)
        if (slow->examined[i])
            xt_str_append_to(text, size, "%s%s", *text ? ", " : "", causes[i].name);
}

void xt_slow_describe_rest(const struct xt_slow *slow, const struct xt_slow_facts *facts,
                           char *text, size_t size)
{
    *text = '\0';
    for (int i = 0; i < XT_SLOW_CAUSES; i++)
        if (!slow->examined[i] && *facts->why[i])
            xt_str_append_to(text, size, "%s%s (%s)", *text ? ", " : "", causes[i].name,
                             facts->why[i]);
}
