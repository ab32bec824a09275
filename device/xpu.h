/* The XPUs: Intel GPUs as listed by the loaded oneDNN library, described through Level Zero or
 * OpenCL, and the choice of one by the user's option.
 *
 * oneDNN's list determines what can run; its order is that of xpu:N. A device is described by the
 * native handle of its engine, never by its position in another list. xt_xpu_list needs
 * xt_dnnl_load(XT_DNNL_GPU); choosing is stateless.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "device/dnnl.h"
#include "device/gpu/level_zero.h"

enum { XT_XPUS_MAX = 16 };

struct xt_xpu {
    int index;          /* oneDNN's */
    char backend[24];   /* "Level Zero", "OpenCL"; "" if unknown */
    bool shared_memory; /* OpenCL's unified shared memory, which has addresses */
    int zero_index;     /* index in Level Zero's list; -1: not in it */
    struct xt_gpu_facts facts;
    char broken[192]; /* why it cannot be opened; "": it can */
};

struct xt_xpus {
    struct xt_xpu items[XT_XPUS_MAX];
    int count;
};

/* Lists them. `zero` may be NULL. One that cannot be opened is listed with its reason and without
 * facts, so that the others keep their numbers. No XPU is an empty list, not an error. */
void xt_xpu_list(struct xt_xpus *list, const struct xt_level_zero *zero);

/* The one that `spec` names: "xpu" (the discrete one with most memory, else the integrated one),
 * "xpu:N", and after "xpu:" or alone a UUID, a PCI address ("03:00.0" or with the domain) or a part
 * of the name that matches one device only. XT_ERR_DEVICE lists the devices. */
enum xt_status xt_xpu_choose(const struct xt_xpus *list, const char *spec, int *index,
                             struct xt_err *err);

/* The number of them that can be opened. */
int xt_xpu_working(const struct xt_xpus *list);

/* "xpu:1 is Intel(R) Arc(TM) ...": the discrete one with most memory that can be opened, if the
 * chosen one is integrated; else "". */
void xt_xpu_better(const struct xt_xpus *list, int chosen, char *text, size_t size);

/* The name of an Intel GPU's architecture, the oneDNN version that introduced machine-code kernels
 * for it (release notes of oneDNN 3.3, 3.6, 3.8 and 3.12; NULL if unknown or none), and whether it
 * has matrix engines (XMX), which multiply bf16, fp16 and int8. */
struct xt_architecture {
    const char *name;
    const char *since;
    enum xt_yes_no matrix;
};
struct xt_architecture xt_xpu_architecture(const struct xt_gpu_facts *facts);

/* Whether the version is older than `since` ("3.6"). */
bool xt_xpu_is_before(const char *version, const char *since);

/* The environment variables in force that change the set of devices: "ZE_AFFINITY_MASK=1, ...";
 * empty if none is set. */
enum xt_status xt_xpu_masks(struct xt_str *out, struct xt_err *err);
