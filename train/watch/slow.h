/* What makes a run slow, and what helps: judged from a record of facts alone, in this one place.
 *
 * A fact that could not be read is left out of the judgement, and says why it is not there; nothing
 * is guessed. Stateless.
 */
#ifndef XT_TRAIN_WATCH_SLOW_H
#define XT_TRAIN_WATCH_SLOW_H

#include <stdbool.h>

#include "base/dtype.h"
#include "device/gpu/level_zero.h"

enum xt_slow_cause {
    XT_SLOW_KERNELS,  /* reference ones, or OpenCL C in place of machine code */
    XT_SLOW_TYPE,     /* one that the GPU's matrix engines are not for */
    XT_SLOW_GPU,      /* an integrated one beside a discrete one */
    XT_SLOW_BAR,      /* Resizable BAR is off */
    XT_SLOW_LAUNCHES, /* the host takes as long to give the work as the step takes */
    XT_SLOW_LOADER,   /* steps wait for images */
    XT_SLOW_IDLE,     /* the GPU has nothing to do, by neither of these two */
    XT_SLOW_CAUSES,
};
/* "kernels", "type", "gpu", "resizable_bar", "launches", "loader", "idle". */
const char *xt_slow_cause_key(enum xt_slow_cause cause);

struct xt_slow_facts {
    enum xt_dtype type;
    int kernels;              /* passes of ops of which oneDNN says what runs; 0: not known */
    int convolutions, opencl; /* of these, and how many of those are OpenCL C */
    int reference;            /* of all */
    char first[128];          /* the first of these that is slow: "conv1, ocl:ref:any" */
    char newer[128]; /* "oneDNN 3.6 has machine code for Xe2, and this is 3.5"; "": none is known to
                      */
    char architecture[16];
    enum xt_yes_no matrix;   /* it has matrix engines (XMX), for bf16, fp16 and int8 */
    enum xt_yes_no discrete; /* there is a discrete GPU, and this one is integrated */
    char better[128];        /* that one: "xpu:1 is Intel(R) Arc(TM) ..." */
    enum xt_yes_no bar;
    /* Means of some steps, in seconds; NAN: not measured. What the host spends in giving work to
     * the GPU and in waiting for it, in waiting for images, and on the loss. */
    double step, launches, waits, loader, loss;
    double busy;                   /* the GPU's engines', 0 to 1; NAN: not known */
    char why[XT_SLOW_CAUSES][128]; /* a cause cannot be looked at; "" where it can, or is not said
                                    */
};

struct xt_slow_finding {
    enum xt_slow_cause cause;
    char because[256]; /* "14 of 40 convolutions are OpenCL C, ..." */
    char remedy[256];
};

struct xt_slow {
    bool looked[XT_SLOW_CAUSES]; /* its facts are known */
    int count;
    struct xt_slow_finding found[XT_SLOW_CAUSES];
};

void xt_slow_judge(const struct xt_slow_facts *facts, struct xt_slow *out);

/* "kernels, data type, Resizable BAR": what was looked at; and what was not, with the reason. */
void xt_slow_describe_looked(const struct xt_slow *slow, char *text, size_t size);
void xt_slow_describe_rest(const struct xt_slow *slow, const struct xt_slow_facts *facts,
                           char *text, size_t size);

#endif
