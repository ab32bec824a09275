/* The XPUs: Intel GPUs as the loaded oneDNN library lists them, described through Level Zero or
 * OpenCL, and the choice of one by what a user wrote.
 *
 * oneDNN's list is the truth about what can run; its order is what xpu:N counts. A device is
 * described by the native handle that its engine gives away, never by its place in another list.
 * xt_xpu_list needs xt_dnnl_load(XT_DNNL_GPU); choosing is stateless.
 */
#ifndef XT_DEVICE_XPU_H
#define XT_DEVICE_XPU_H

#include "base/err.h"
#include "base/str.h"
#include "device/dnnl.h"
#include "device/gpu/level_zero.h"

enum { XT_XPUS_MAX = 16 };

struct xt_xpu {
    int index;          /* oneDNN's */
    char backend[24];   /* "Level Zero", "OpenCL"; "" where the library does not say */
    bool shared_memory; /* OpenCL's, which has addresses; where the backend is OpenCL */
    int zero_index;     /* in Level Zero's list; -1: not there */
    struct xt_gpu_facts facts;
    char broken[192]; /* why it cannot be opened; "": it can */
};

struct xt_xpus {
    struct xt_xpu items[XT_XPUS_MAX];
    int count;
};

/* Lists them. `zero` may be NULL. One that cannot be opened is listed with its reason and has no
 * facts, so that it hides no other and numbers stay. No XPU at all is an empty list, not an error.
 */
void xt_xpu_list(struct xt_xpus *list, const struct xt_level_zero *zero);

/* The one that `spec` names: "xpu" (the discrete one with most memory, else the integrated one),
 * "xpu:N", and after "xpu:" or alone a UUID, a PCI address ("03:00.0" or with the domain) or a part
 * of the name that fits one device only. XT_ERR_DEVICE lists what there is. */
enum xt_status xt_xpu_choose(const struct xt_xpus *list, const char *spec, int *index,
                             struct xt_err *err);

/* How many of them can be opened. */
int xt_xpu_working(const struct xt_xpus *list);

/* Whether `text` is written like a UUID, as device options take it. */
bool xt_xpu_is_uuid(const char *text);

/* "xpu:1 is Intel(R) Arc(TM) ...": the discrete one with most memory that can be opened, where the
 * chosen one is integrated; "" else. */
void xt_xpu_better(const struct xt_xpus *list, int chosen, char *text, size_t size);

/* What an Intel GPU's architecture is called, from which oneDNN on it has machine-code kernels
 * (release notes of oneDNN 3.3, 3.6, 3.8 and 3.12; NULL where not known, or none has), and whether
 * it has matrix engines (XMX), which multiply bf16, fp16 and int8. */
struct xt_architecture {
    const char *name;
    const char *since;
    enum xt_yes_no matrix;
};
struct xt_architecture xt_xpu_architecture(const struct xt_gpu_facts *facts);

/* Whether the version is an older one than `since` ("3.6"). */
bool xt_xpu_is_before(const char *version, const char *since);

/* The environment variables in force that change which devices there are: "ZE_AFFINITY_MASK=1,
 * ..."; empty where none is set. */
enum xt_status xt_xpu_masks(struct xt_str *out, struct xt_err *err);

#endif
