/* A network's parameters and running statistics: one float32 arena each for values, gradients and
 * statistics.
 *
 * Files hold the published names, shapes and order; the arena may hold a tensor in another
 * memory format, or only a part of a file's tensor (some rows or columns). import and
 * export convert. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "device/device.h"

enum { XT_PARAM_NAME_MAX = 96, XT_PARAMS_MAX = 2048 };

/* `value_floats` is a multiple of this: sums over the arena can be split into equal parts. */
enum { XT_PARAMS_CHUNK = 4096 };

enum xt_param_role {
    XT_PARAM_WEIGHT,   /* a convolution's, O, I, H, W */
    XT_PARAM_BIAS,     /* [O] */
    XT_PARAM_BN_SCALE, /* [C] */
    XT_PARAM_BN_SHIFT, /* [C] */
    XT_PARAM_BN_MEAN,  /* [C] running mean: a statistic, not trained */
    XT_PARAM_BN_VAR,   /* [C] running variance, unbiased */
    XT_PARAM_BN_COUNT, /* [] num_batches_tracked: written as int64, else unused */
    XT_PARAM_OTHER,    /* a network's own: a class token, a position embedding, a layer scale */
    XT_PARAM_RAW,      /* of which a convolution's weight is computed, O, I, H, W */
};

/* Initial values of a parameter. */
enum xt_init_rule {
    XT_INIT_BY_ROLE,
    XT_INIT_UNIFORM, /* in [-value, value] */
    XT_INIT_NORMAL,  /* with the standard deviation `value` */
    XT_INIT_CONSTANT,
};
struct xt_init {
    enum xt_init_rule rule;
    float value;
};

struct xt_param {
    char name[XT_PARAM_NAME_MAX]; /* of the file's tensor */
    enum xt_param_role role;
    int ndims;
    int dims[4];      /* of this part */
    int file_dims[4]; /* of the file's tensor; 1 beyond file_ndims */
    int file_ndims;   /* 0: the same as ndims */
    int *rows;     /* [dims[0]] index along the file tensor's axis 0; NULL: all, in order; owned */
    int *columns;  /* [dims[1]] the same along axis 1; owned */
    bool in_first; /* a linear layer's whose file has [in][out], where PyTorch's is [out][in] */
    bool frozen;   /* its value does not change in training */
    bool hwio;     /* the arena holds O, I, H, W as H, W, I, O */
    struct xt_init init;
    dnnl_memory_desc_t md; /* the arena's format; NULL: row-major; owned */
    size_t offset;         /* floats, in its arena, a multiple of 16 */
    size_t floats;         /* in its arena, padding of the format included */
};

/* The same arrays on the device. On an XPU the host's copies are updated on request; on the CPU
 * they are the host's own. */
struct xt_params_on_device {
    struct xt_device_memory values, grads, stats;
    bool is_newer;   /* the device's values are newer than the host's */
    uint64_t pushed; /* version that the device has */
};

struct xt_params {
    struct xt_param items[XT_PARAMS_MAX]; /* in the file's order */
    int count;
    float *values;
    float *grads; /* the same layout; NULL for inference */
    float *stats; /* running means and variances */
    size_t value_floats;
    size_t stat_floats;
    uint64_t version; /* incremented with every change to the values; working copies follow it */
    /* The sum of the squares of each one's gradient, where the last backward pass formed it as it
     * wrote that on the host; NaN: not known. */
    double grad_squares[XT_PARAMS_MAX];
    int64_t tracked[XT_PARAMS_MAX]; /* the value of those whose role is XT_PARAM_BN_COUNT */
    bool frozen_at_init; /* read from weights whose running means are 0 and variances 1 (bn auto) */
    struct xt_params_on_device device; /* once placed */
};

bool xt_param_is_statistic(const struct xt_param *param);
/* A weight, or what one is computed of: it decays, and begins as random numbers. */
bool xt_param_is_weight(const struct xt_param *param);
/* Its part of the arena, without what may follow for the next one's address. */
size_t xt_param_floats(const struct xt_param *param);
/* Elements of the file's tensor, of which it may be a part. */
size_t xt_param_file_count(const struct xt_param *param);
/* Whether it has a gradient. */
bool xt_param_learns(const struct xt_param *param);

/* Adds a parameter (the graph's builder does); returns its index, or -1 with err set. file_dims as
 * dims, rows and columns usually NULL. rows and columns are copied. */
int xt_params_add(struct xt_params *params, const struct xt_param *param, struct xt_err *err);

/* Lays out the arenas, once every md is known: sets value_floats and stat_floats. */
void xt_params_lay_out(struct xt_params *params);
/* Lays them out and allocates them. */
enum xt_status xt_params_allocate(struct xt_params *params, bool gradients, struct xt_err *err);
void xt_params_clear(struct xt_params *params);
/* A hash of each parameter's offset and format in the arena, which depend on the CPU and on
 * oneDNN's version: arrays of two processes can be summed if it is equal. */
uint64_t xt_params_layout(const struct xt_params *params);

/* Allocates memory on the device, once; gradients may be added later. */
enum xt_status xt_params_place(struct xt_params *params, struct xt_device *device, bool gradients,
                               struct xt_err *err);
/* Uploads what changed on the host (by version), and downloads. A no-op on the CPU. Code that
 * changes values on the device calls xt_params_changed_on_device. */
enum xt_status xt_params_push(struct xt_params *params, struct xt_err *err);
enum xt_status xt_params_pull(struct xt_params *params, struct xt_err *err);
void xt_params_changed_on_device(struct xt_params *params);
/* Downloads the gradients to `grads` on the host, which is allocated if NULL. */
enum xt_status xt_params_pull_grads(struct xt_params *params, struct xt_err *err);

/* The parameter's data: its value, or its statistic. NULL for XT_PARAM_BN_COUNT. */
float *xt_params_value(struct xt_params *params, const struct xt_param *param);
float *xt_params_grad(struct xt_params *params, const struct xt_param *param);
/* For code that changes gradients: what is known of them is not so any more. */
void xt_params_grads_changed(struct xt_params *params);

/* The array of the parameters to transfer: values and statistics, gradients, or an array of the
 * caller's in the layout of `values` (optimizer state). */
struct xt_params_view {
    float *values;
    float *stats; /* NULL: trained parameters only */
};

/* Copies between the arena and a row-major tensor of the file's shape (only the part's own rows and
 * columns are touched). */
enum xt_status xt_params_import(const struct xt_param *param, struct xt_device *device,
                                const struct xt_params_view *view, const float *reference,
                                struct xt_err *err);
enum xt_status xt_params_export(const struct xt_param *param, struct xt_device *device,
                                const struct xt_params_view *view, float *reference,
                                struct xt_err *err);

/* The part from the arena, row-major. */
enum xt_status xt_param_read(const struct xt_param *param, struct xt_device *device,
                             const float *arena, float *part, struct xt_err *err);

/* Kaiming normal with fan-out for weights, `bias` for biases, BN 1 and 0, statistics 0 and 1, or
 * the parameter's own rule; determined by seed and the tensor's name. He et al. 2015. */
enum xt_status xt_params_initialise(struct xt_params *params, struct xt_device *device,
                                    uint64_t seed, float bias, struct xt_err *err);
