/* The convolutions' primitives in the formats that oneDNN prefers, each alone and repeated, on
 * random data: what a perfect program on oneDNN's convolutions would take. CPU only. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/rng.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "engine/executor.h"
#include "engine/ops/conv_primitives.h"
#include "engine/ops/ops.h"

enum part { FORWARD, WEIGHTS, DATA, PARTS };
enum { BUFFERS = 5 };

/* One primitive with memory of its own. */
struct trial {
    const struct xt_conv_op *conv;
    struct xt_program program;
    struct xt_conv_primitives of;
    dnnl_memory_desc_t weights_grad;
    struct xt_buffer buffers[BUFFERS];
    int count;
};

static void describe_layouts(struct trial *t)
{
    const struct xt_conv_op *conv = t->conv;
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    struct xt_program *p = &t->program;
    dnnl_data_type_t dtype = xt_dtype_dnnl(in->dtype);
    dnnl_dims_t dims;
    int ndims = xt_conv_weight_dims(conv, dims);
    t->of = xt_conv_primitives_of(p, conv);
    t->of.in = xt_program_layout_as(p, dtype, 4, (int64_t[]){in->n, in->c, in->h, in->w},
                                    dnnl_format_tag_any);
    t->of.out =
        xt_program_layout_as(p, xt_dtype_dnnl(out->dtype), 4,
                             (int64_t[]){out->n, out->c, out->h, out->w}, dnnl_format_tag_any);
    t->of.weights = xt_program_layout_as(p, dtype, ndims, dims, dnnl_format_tag_any);
    t->weights_grad = xt_program_layout_as(p, dnnl_f32, ndims, dims, dnnl_format_tag_any);
    if (conv->bias >= 0)
        t->of.bias = xt_program_layout_as(p, dnnl_f32, 1, (int64_t[]){out->c}, dnnl_a);
}

static dnnl_primitive_desc_t describe_part(struct trial *t, enum part part)
{
    static const char what[] = "the convolution's gradient";
    xt_conv_forward(&t->of, dnnl_forward_training, t->of.attr, "the convolution");
    if (xt_program_fails(&t->program) || part == FORWARD)
        return t->of.forward;
    xt_program_keep(&t->program, t->of.forward);
    return part == WEIGHTS ? xt_conv_backward_weights(&t->of, t->weights_grad, t->of.bias, what)
                           : xt_conv_backward_data(&t->of, what);
}

/* Random numbers between -1 and 1, a block of them repeated. */
static void fill(enum xt_dtype dtype, char *to, size_t bytes)
{
    enum { BLOCK = 4096 };
    float numbers[BLOCK];
    float block[BLOCK];
    struct xt_rng rng = xt_rng_begin(1, 0);
    for (int i = 0; i < BLOCK; i++)
        numbers[i] = (float)(int32_t)(xt_rng_next(&rng) >> 32) * 0x1p-31F;
    xt_number_from_float(dtype, numbers, BLOCK, block);
    size_t each = BLOCK * xt_dtype_size(dtype);
#pragma omp parallel for schedule(static)
    for (size_t at = 0; at < bytes; at += each)
        memcpy(to + at, block, bytes - at < each ? bytes - at : each);
}

static const struct xt_buffer *add_buffer(struct trial *t, enum xt_dtype dtype, size_t bytes)
{
    struct xt_program *p = &t->program;
    struct xt_buffer *buffer = &t->buffers[t->count++];
    *buffer = (struct xt_buffer){.bytes = bytes ? bytes : 1, .device = p->device};
    if (!xt_program_fails(p) &&
        !xt_mem_map(&buffer->data, buffer->bytes, "a convolution alone", p->err))
        fill(dtype, buffer->data, buffer->bytes);
    return buffer;
}

static void add_argument(struct trial *t, struct xt_step *step, const_dnnl_primitive_desc_t pd,
                         dnnl_query_t query, int arg, const struct xt_tensor *tensor)
{
    enum xt_dtype dtype = query == dnnl_query_diff_weights_md ? XT_F32 : tensor->dtype;
    int index = arg == DNNL_ARG_BIAS || arg == DNNL_ARG_DIFF_BIAS;
    const_dnnl_memory_desc_t md = xt_layout_of(pd, query, index);
    xt_step_arg(step, arg, xt_in_buffer(add_buffer(t, dtype, xt_layout_bytes(md))));
}

static void add_step(struct trial *t, enum part part)
{
    static const dnnl_query_t queries[PARTS][3] = {
        {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md},
        {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md}};
    static const int args[PARTS][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                       {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
                                       {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}};
    const struct xt_tensor *in = xt_op_in(&t->conv->op, 0);
    const struct xt_tensor *tensors[] = {in, in, xt_op_out(&t->conv->op, 0)};
    describe_layouts(t);
    dnnl_primitive_desc_t pd = describe_part(t, part);
    struct xt_step *step = xt_program_add(&t->program, XT_FORWARD, pd, "a convolution alone");
    for (int i = 0; i < 3 && step; i++)
        add_argument(t, step, pd, queries[part][i], args[part][i], tensors[i]);
    if (step && t->of.bias && part != DATA)
        add_argument(t, step, pd, queries[part][1],
                     part == FORWARD ? DNNL_ARG_BIAS : DNNL_ARG_DIFF_BIAS, in);
}

static enum xt_status run(struct trial *t, double *seconds, struct xt_err *err)
{
    double start = xt_thread_seconds();
    enum xt_status status = xt_program_run(&t->program, XT_FORWARD, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.stream_wait(t->program.device->stream), "the device", err);
    *seconds = fmin(*seconds, xt_thread_seconds() - start);
    return status;
}

/* *seconds: the fastest of the runs. */
static enum xt_status time_part(const struct xt_conv_op *conv, struct xt_device *device,
                                enum part part, int runs, double *seconds, struct xt_err *err)
{
    double first = INFINITY;
    struct trial t = {.conv = conv};
    *seconds = INFINITY;
    xt_program_init(&t.program, device, conv->op.name, err);
    add_step(&t, part);
    const struct xt_buffer *scratchpad = add_buffer(&t, XT_F32, t.program.scratchpad_bytes);
    if (!err->status && !xt_program_bind(&t.program, xt_in_buffer(scratchpad), err))
        run(&t, &first, err);
    for (int i = 0; i < runs && !err->status; i++)
        run(&t, seconds, err);
    xt_program_clear(&t.program);
    for (int i = 0; i < t.count; i++)
        xt_mem_unmap(t.buffers[i].data, t.buffers[i].bytes);
    return err->status;
}

static enum xt_status time_op(const struct xt_conv_op *conv, const struct xt_graph *graph, int runs,
                              double *seconds, struct xt_err *err)
{
    bool learns = xt_op_learns(&conv->op, graph);
    const bool has[PARTS] = {true, learns, learns && xt_op_in(&conv->op, 0)->wants_grad};
    *seconds = 0;
    for (int part = 0; part < PARTS && !err->status; part++) {
        double best = 0;
        if (has[part])
            time_part(conv, graph->options.device, (enum part)part, runs, &best, err);
        *seconds += best;
    }
    return err->status ? err->status : xt_stop_check(err, "before all convolutions were timed");
}

static bool same_shape(const struct xt_tensor *a, const struct xt_tensor *b)
{
    return a->n == b->n && a->h == b->h && a->w == b->w && a->c == b->c && a->dtype == b->dtype;
}

static bool same_work(const struct xt_conv_op *a, const struct xt_conv_op *b,
                      const struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&a->op, 0);
    bool same = same_shape(in, xt_op_in(&b->op, 0)) &&
                same_shape(xt_op_out(&a->op, 0), xt_op_out(&b->op, 0)) && a->groups == b->groups &&
                (a->bias < 0) == (b->bias < 0) &&
                in->wants_grad == xt_op_in(&b->op, 0)->wants_grad &&
                xt_op_learns(&a->op, graph) == xt_op_learns(&b->op, graph);
    for (int i = 0; i < 2; i++)
        same = same && a->kernel[i] == b->kernel[i] && a->strides[i] == b->strides[i] &&
               a->dilates[i] == b->dilates[i] && a->pads[i] == b->pads[i] &&
               a->pads_after[i] == b->pads_after[i];
    return same;
}

enum xt_status xt_graph_convolutions_free(struct xt_graph *graph, int runs, double *seconds,
                                          struct xt_err *err)
{
    const struct xt_conv_op *known[XT_OPS_MAX];
    double each[XT_OPS_MAX];
    int count = 0;
    xt_device_use_threads(graph->options.device);
    *seconds = 0;
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_conv_op *conv = (const struct xt_conv_op *)graph->ops[i];
        int like = 0;
        if (graph->ops[i]->kind != &xt_kind_conv)
            continue;
        while (like < count && !same_work(conv, known[like], graph))
            like++;
        if (like == count) {
            known[count] = conv;
            if (time_op(conv, graph, runs, &each[count++], err))
                return err->status;
        }
        *seconds += each[like];
    }
    return XT_OK;
}
