/* What makes a run slow, and what helps, judged only from a record of facts.
 *
 * A fact that could not be read is omitted from the judgement, with the reason; nothing is guessed.
 * Stateless.
 */
#pragma once

#include <stdbool.h>

#include "base/dtype.h"
#include "device/gpu/level_zero.h"

enum xt_slow_cause {
    XT_SLOW_KERNELS,  /* reference ones, or OpenCL C in place of machine code */
    XT_SLOW_TYPE,     /* one that the GPU's matrix engines do not support */
    XT_SLOW_GPU,      /* an integrated one beside a discrete one */
    XT_SLOW_BAR,      /* Resizable BAR is off */
    XT_SLOW_LAUNCHES, /* submitting the work takes the host as long as the step */
    XT_SLOW_LOADER,   /* steps wait for images */
    XT_SLOW_IDLE,     /* the GPU is idle for neither of these two reasons */
    XT_SLOW_CAUSES,
};
/* "kernels", "type", "gpu", "resizable_bar", "launches", "loader", "idle". */
const char *xt_slow_cause_key(enum xt_slow_cause cause);

struct xt_slow_facts {
    enum xt_dtype type;
    int kernels;              /* passes of ops whose oneDNN implementation is known; 0: not known */
    int convolutions, opencl; /* of these, and how many of them are OpenCL C */
    int reference;            /* of all */
    char first[128];          /* the first of these that is slow: "conv1, ocl:ref:any" */
    char newer[128]; /* "oneDNN 3.6 has machine code for Xe2, and this is 3.5"; "": no newer one is
                      * known to
                      */
    char architecture[16];
    enum xt_yes_no matrix;   /* it has matrix engines (XMX), for bf16, fp16 and int8 */
    enum xt_yes_no discrete; /* there is a discrete GPU, and this one is integrated */
    char better[128];        /* the discrete one: "xpu:1 is Intel(R) Arc(TM) ..." */
    enum xt_yes_no bar;
    /* Means of some steps, in seconds; NAN: not measured. The host's time for submitting work to
     * the GPU, waiting for it, waiting for images, and the loss. */
    double step, launches, waits, loader, loss;
    double busy;                   /* of the GPU's engines, 0 to 1; NAN: not known */
    char why[XT_SLOW_CAUSES][128]; /* why a cause cannot be examined; "" if it can, or unknown
                                    */
};

struct xt_slow_finding {
    enum xt_slow_cause cause;
    char because[256]; /* "14 of 40 convolutions are OpenCL C, ..." */
    char remedy[256];
};

struct xt_slow {
    bool examined[XT_SLOW_CAUSES]; /* its facts are known */
    int count;
    struct xt_slow_finding found[XT_SLOW_CAUSES];
};

void xt_slow_judge(const struct xt_slow_facts *facts, struct xt_slow *out);

/* "kernels, data type, Resizable BAR": what was examined; and what was not, with the reason. */
void xt_slow_describe_examined(const struct xt_slow *slow, char *text, size_t size);
void xt_slow_describe_rest(const struct xt_slow *slow, const struct xt_slow_facts *facts,
                           char *text, size_t size);
