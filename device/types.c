#include "device/types.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* The shape of every convolution here: a batch of 2, 16 to 32 channels, 8x8, a 3x3 kernel. */
enum { N = 2, C = 16, K = 32, H = 8, W = 8, R = 3 };

struct shapes {
    dnnl_memory_desc_t source, weights, bias, out;
};

static dnnl_status_t describe(struct shapes *s, dnnl_data_type_t in, dnnl_data_type_t weights,
                              dnnl_data_type_t out, dnnl_format_tag_t weights_tag)
{
    const dnnl_dims_t source_dims = {N, C, H, W};
    const dnnl_dims_t weights_dims = {K, C, R, R};
    const dnnl_dims_t out_dims = {N, K, H, W};
    const dnnl_dims_t bias_dims = {K};
    *s = (struct shapes){0};
    dnnl_status_t status =
        xt_dnnl.memory_desc_create_with_tag(&s->source, 4, source_dims, in, dnnl_nhwc);
    if (!status)
        status =
            xt_dnnl.memory_desc_create_with_tag(&s->weights, 4, weights_dims, weights, weights_tag);
    if (!status)
        status = xt_dnnl.memory_desc_create_with_tag(&s->bias, 1, bias_dims, dnnl_f32, dnnl_a);
    if (!status)
        status = xt_dnnl.memory_desc_create_with_tag(&s->out, 4, out_dims, out, dnnl_nhwc);
    return status;
}

static void clear(struct shapes *s)
{
    const dnnl_memory_desc_t all[] = {s->source, s->weights, s->bias, s->out};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            xt_dnnl.memory_desc_destroy(all[i]);
}

static const dnnl_dims_t ones = {1, 1};
static const dnnl_dims_t zeros = {0, 0};

static dnnl_status_t forward(dnnl_engine_t engine, const struct shapes *s, dnnl_prop_kind_t kind,
                             dnnl_primitive_desc_t *pd)
{
    return xt_dnnl.convolution_forward_primitive_desc_create(
        pd, engine, kind, dnnl_convolution_direct, s->source, s->weights, s->bias, s->out, ones,
        zeros, ones, ones, NULL);
}

bool xt_types_is_machine_code(const char *implementation)
{
    return xt_str_starts(implementation, "jit") || xt_str_starts(implementation, "brg");
}

bool xt_types_is_reference(const char *implementation)
{
    return xt_str_starts(implementation, "ref") || strstr(implementation, ":ref");
}

/* Whether it is generated code, and oneDNN's name for it. */
static void name_of(const_dnnl_primitive_desc_t pd, struct xt_types *out)
{
    const char *name = xt_dnnl_implementation(pd);
    snprintf(out->implementation, sizeof out->implementation, "%.63s", name);
    out->machine_code = xt_types_is_machine_code(name);
}

static bool trains(dnnl_engine_t engine, dnnl_data_type_t type, struct xt_types *out)
{
    struct shapes s;
    dnnl_primitive_desc_t fwd = NULL;
    dnnl_primitive_desc_t data = NULL;
    dnnl_primitive_desc_t weights = NULL;
    bool fine = !describe(&s, type, type, type, dnnl_format_tag_any) &&
                !forward(engine, &s, dnnl_forward_training, &fwd);
    if (fine && type == dnnl_f32)
        name_of(fwd, out);
    fine = fine && !xt_dnnl.convolution_backward_data_primitive_desc_create(
                       &data, engine, dnnl_convolution_direct, s.source, s.weights, s.out, ones,
                       zeros, ones, ones, fwd, NULL);
    fine = fine && !xt_dnnl.convolution_backward_weights_primitive_desc_create(
                       &weights, engine, dnnl_convolution_direct, s.source, s.weights, NULL, s.out,
                       ones, zeros, ones, ones, fwd, NULL);
    if (weights)
        xt_dnnl.primitive_desc_destroy(weights);
    if (data)
        xt_dnnl.primitive_desc_destroy(data);
    if (fwd)
        xt_dnnl.primitive_desc_destroy(fwd);
    clear(&s);
    return fine;
}

static bool infers_int8(dnnl_engine_t engine)
{
    struct shapes s;
    dnnl_primitive_desc_t pd = NULL;
    bool fine = !describe(&s, dnnl_u8, dnnl_s8, dnnl_u8, dnnl_format_tag_any) &&
                !forward(engine, &s, dnnl_forward_inference, &pd);
    if (pd)
        xt_dnnl.primitive_desc_destroy(pd);
    clear(&s);
    return fine;
}

void xt_types_ask(dnnl_engine_t engine, struct xt_types *out)
{
    *out = (struct xt_types){0};
    out->trains_f32 = trains(engine, dnnl_f32, out);
    out->trains_bf16 = trains(engine, dnnl_bf16, out);
    out->trains_fp16 = trains(engine, dnnl_f16, out);
    out->infers_int8 = infers_int8(engine);
}
