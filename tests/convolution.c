/* Opens an XPU, computes one small convolution there in f32 and compares it with reference loops:
 * the least that makes a driver compile something and keep it. For the tests of kernel caches. Exit
 * code 4 where it is off or fails. */
#include <math.h>
#include <stdio.h>

#include "device/device.h"
#include "device/primitive.h"

/* A batch of 2, 16 to 32 channels, 8x8, a 3x3 kernel. */
enum { N = 2, C = 16, K = 32, H = 8, W = 8, R = 3, MEMORIES = 4 };

static const char what[] = "the convolution";

/* Small whole numbers divided by 8: exact in every type, and different everywhere. */
static float value_at(size_t i, unsigned salt)
{
    return (float)((int)((i * 2654435761u + salt) >> 7 & 15) - 7) / 8.0f;
}

static double expected(size_t n, size_t k, int h, int w)
{
    double sum = value_at(k, 3);
    for (size_t c = 0; c < C; c++)
        for (int r = 0; r < R; r++)
            for (int q = 0; q < R; q++) {
                int y = h + r - 1;
                int x = w + q - 1;
                if (y < 0 || y >= H || x < 0 || x >= W)
                    continue;
                size_t in = ((n * H + (size_t)y) * W + (size_t)x) * C + c;
                size_t at = ((k * C + c) * R + (size_t)r) * R + (size_t)q;
                sum += (double)value_at(in, 1) * (double)value_at(at, 2);
            }
    return sum;
}

static enum xt_status fill(struct xt_device_memory *memory, unsigned salt, struct xt_err *err)
{
    void *data = NULL;
    enum xt_status status = xt_device_memory_map(memory, XT_CAUSE_OTHER, &data, err);
    if (status)
        return status;
    for (size_t i = 0; i < memory->bytes / sizeof(float); i++)
        ((float *)data)[i] = value_at(i, salt);
    return xt_device_memory_unmap(memory, true, XT_CAUSE_OTHER, err);
}

static enum xt_status compare(struct xt_device_memory *memory, double *error, struct xt_err *err)
{
    void *data = NULL;
    double largest = 0;
    double off = 0;
    enum xt_status status = xt_device_memory_map(memory, XT_CAUSE_OTHER, &data, err);
    if (status)
        return status;
    for (size_t i = 0; i < (size_t)N * H * W * K; i++) {
        double right = expected(i / (H * W * K), i % K, (int)(i / (W * K) % H), (int)(i / K % W));
        double difference = fabs((double)((const float *)data)[i] - right);
        largest = fmax(largest, fabs(right));
        off = isnan(difference) ? INFINITY : fmax(off, difference);
    }
    *error = off / largest;
    return xt_device_memory_unmap(memory, false, XT_CAUSE_OTHER, err);
}

/* Source, weights, bias, result. */
static dnnl_status_t describe(dnnl_memory_desc_t out[MEMORIES])
{
    static const dnnl_dims_t dims[] = {{N, C, H, W}, {K, C, R, R}, {K}, {N, K, H, W}};
    static const dnnl_format_tag_t tags[] = {dnnl_nhwc, dnnl_oihw, dnnl_a, dnnl_nhwc};
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < MEMORIES && !status; i++)
        status = xt_dnnl.memory_desc_create_with_tag(&out[i], i == 2 ? 1 : 4, dims[i], dnnl_f32,
                                                     tags[i]);
    return status;
}

static dnnl_status_t forward(dnnl_engine_t engine, const dnnl_memory_desc_t descs[MEMORIES],
                             dnnl_primitive_desc_t *pd)
{
    static const dnnl_dims_t ones = {1, 1};
    static const dnnl_dims_t zeros = {0, 0};
    return xt_dnnl.convolution_forward_primitive_desc_create(
        pd, engine, dnnl_forward_training, dnnl_convolution_direct, descs[0], descs[1], descs[2],
        descs[3], ones, zeros, ones, ones, NULL);
}

static enum xt_status run(struct xt_device *device, const dnnl_memory_desc_t descs[MEMORIES],
                          struct xt_device_memory memories[MEMORIES], struct xt_err *err)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    enum xt_status status = xt_dnnl_check(forward(device->engine, descs, &pd), what, err);
    if (!status)
        status = xt_primitive_create(device, pd, what, &primitive, err);
    for (unsigned i = 0; i < 4 && !status; i++) {
        status = xt_device_memory_create(device, descs[i], XT_ON_DEVICE, what, &memories[i], err);
        if (!status && i < 3)
            status = fill(&memories[i], i + 1, err);
    }
    if (!status) {
        const dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, memories[0].memory},
                                        {DNNL_ARG_WEIGHTS, memories[1].memory},
                                        {DNNL_ARG_BIAS, memories[2].memory},
                                        {DNNL_ARG_DST, memories[3].memory}};
        status =
            xt_dnnl_check(xt_dnnl.primitive_execute(primitive, device->stream, 4, args), what, err);
    }
    if (!status)
        status = xt_dnnl_check(xt_dnnl.stream_wait(device->stream), what, err);
    if (primitive)
        xt_dnnl.primitive_destroy(primitive);
    if (pd)
        xt_dnnl.primitive_desc_destroy(pd);
    return status;
}

static enum xt_status check(struct xt_device *device, double *error, struct xt_err *err)
{
    dnnl_memory_desc_t descs[MEMORIES] = {NULL};
    struct xt_device_memory memories[MEMORIES] = {0};
    enum xt_status status = xt_dnnl_check(describe(descs), what, err);
    if (!status)
        status = run(device, descs, memories, err);
    if (!status)
        status = compare(&memories[3], error, err);
    for (int i = 0; i < MEMORIES; i++) {
        xt_device_memory_destroy(&memories[i]);
        if (descs[i])
            xt_dnnl.memory_desc_destroy(descs[i]);
    }
    /* Sums of a hundred and more exact products: float32 keeps six digits. */
    if (!status && !(*error < 1e-6))
        status =
            xt_err_set(err, XT_ERR_DEVICE, "%s is off by %.2g of the largest value", what, *error);
    return status;
}

int main(void)
{
    struct xt_device device;
    struct xt_err err = {0};
    double error = 0;
    enum xt_status status = xt_device_open(&device, "xpu", 0, &err);
    if (!status)
        status = check(&device, &error, &err);
    xt_device_close(&device);
    if (status)
        fprintf(stderr, "%s\n", err.text);
    return (int)status;
}
