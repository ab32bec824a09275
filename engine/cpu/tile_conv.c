/* Convolutions of bf16 and float32 by matrix tiles on CPUs that have them (loops/tile_conv_job.h):
 * in training forward and for the input's gradient, and those of inference. */
#include "engine/cpu/cpu.h"
#include "engine/slices.h"

/* The rest of a block is multiplied too: in bf16 oneDNN's primitives take less time then. */
static bool has_channels(const struct xt_tensor *tensor)
{
    return tensor->c >= XT_TILE_CONV_CHANNELS &&
           (tensor->dtype == XT_F32 || tensor->c % XT_TILE_CONV_CHANNELS == 0);
}

static bool has_shape(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    enum { STRIDE_MOST = 2 };
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    return graph->loops->tile_conv && xt_device_cpu_has_tiles() &&
           (in->dtype == XT_BF16 || in->dtype == XT_F32) && out->dtype == in->dtype &&
           conv->groups == 1 && xt_conv_is_even(conv) && conv->strides[0] <= STRIDE_MOST &&
           conv->strides[1] <= STRIDE_MOST &&
           conv->kernel[0] * conv->kernel[1] <= XT_TILE_CONV_TAPS_MAX && has_channels(in) &&
           has_channels(out);
}

bool xt_cpu_tile_conv_can(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    return graph->options.training && xt_op_learns(&conv->op, graph) && has_shape(conv, graph);
}

/* Products with padding are formed too: of a low output of a high kernel most are. */
bool xt_cpu_tile_conv_can_input_grad(const struct xt_conv_op *conv)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    int64_t strides = conv->strides[0] * conv->strides[1];
    return (int64_t)in->h * in->w <= 2 * strides * out->h * out->w;
}

/* Of slices, which L2 holds, oneDNN's primitives in bf16 are faster if few products go into a sum.
 */
bool xt_cpu_tile_conv_can_infer(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    enum { SLICE_INPUTS_LEAST = 128 };
    const struct xt_tensor *residual = conv->fold.residual;
    int64_t inputs = conv->kernel[0] * conv->kernel[1] * xt_op_in(&conv->op, 0)->c;
    if (conv->op.by_slices[0] && inputs < SLICE_INPUTS_LEAST &&
        xt_op_in(&conv->op, 0)->dtype == XT_BF16)
        return false;
    return !graph->options.training && !conv->fold.activation &&
           (!residual || residual->dtype == xt_op_out(&conv->op, 0)->dtype) &&
           has_shape(conv, graph);
}

/* In inference the next op reads the output, from the last cache if it was not written past it. */
static struct xt_tile_conv describe_output(const struct xt_conv_op *conv,
                                           const struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    int kernel_w = (int)conv->kernel[1];
    struct xt_tile_conv job = {.f32 = in->dtype == XT_F32,
                               .n = in->n,
                               .in_h = in->h,
                               .in_w = in->w,
                               .in_c = in->c,
                               .out_h = out->h,
                               .out_w = out->w,
                               .out_c = out->c,
                               .rows = out->h,
                               .columns = out->w,
                               .step_h = (int)conv->strides[0],
                               .step_w = (int)conv->strides[1],
                               .out_step_h = 1,
                               .out_step_w = 1,
                               .tap_count = (int)conv->kernel[0] * kernel_w,
                               .adds = conv->fold.residual != NULL,
                               .relu = conv->relu,
                               .far = graph->options.training && xt_cpu_is_large(out)};
    job.weight_taps = job.tap_count;
    for (int tap = 0; tap < job.tap_count; tap++)
        job.taps[tap] = (struct xt_tile_conv_tap){.y = tap / kernel_w - (int)conv->pads[0],
                                                  .x = tap % kernel_w - (int)conv->pads[1],
                                                  .weights = tap};
    return job;
}

/* The input's pixels (y, x) and every stride-th after them. */
static struct xt_tile_conv describe_input_grad(const struct xt_conv_op *conv, int y, int x)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    int strides[] = {(int)conv->strides[0], (int)conv->strides[1]};
    int kernel_w = (int)conv->kernel[1];
    struct xt_tile_conv job = {.f32 = in->dtype == XT_F32,
                               .n = in->n,
                               .in_h = out->h,
                               .in_w = out->w,
                               .in_c = out->c,
                               .out_h = in->h,
                               .out_w = in->w,
                               .out_c = in->c,
                               .rows = (in->h - y + strides[0] - 1) / strides[0],
                               .columns = (in->w - x + strides[1] - 1) / strides[1],
                               .step_h = 1,
                               .step_w = 1,
                               .out_y = y,
                               .out_x = x,
                               .out_step_h = strides[0],
                               .out_step_w = strides[1],
                               .far = xt_cpu_is_large(in)};
    job.weight_taps = (int)conv->kernel[0] * kernel_w;
    for (int tap = 0; tap < job.weight_taps; tap++) {
        int from_y = y + (int)conv->pads[0] - tap / kernel_w;
        int from_x = x + (int)conv->pads[1] - tap % kernel_w;
        if (from_y % strides[0] == 0 && from_x % strides[1] == 0)
            job.taps[job.tap_count++] = (struct xt_tile_conv_tap){
                .y = from_y / strides[0], .x = from_x / strides[1], .weights = tap};
    }
    return job;
}

static struct xt_buffer *copy_weights(struct xt_conv_op *conv, struct xt_graph *graph,
                                      bool out_is_row, bool out_is_wide)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    struct xt_weight_copy copy = {.out = out->c,
                                  .in = in->c,
                                  .taps = (int)(conv->kernel[0] * conv->kernel[1]),
                                  .out_is_row = out_is_row,
                                  .out_is_wide = out_is_wide,
                                  .by_tiles = true,
                                  .summands = xt_summands_of(in->dtype == XT_F32),
                                  .wide = XT_TILE_CONV_WIDE};
    return xt_cpu_add_weight_copy(conv, graph, &copy);
}

static int panels_of(const struct xt_tile_conv *job)
{
    return (job->out_c + XT_TILE_CONV_WIDE - 1) / XT_TILE_CONV_WIDE;
}

/* Floats of a norm's pivot, in front of a loop's scratch. */
static size_t pivot_of(const struct xt_tile_conv *job)
{
    return (size_t)panels_of(job) * XT_TILE_CONV_WIDE;
}

static void plan(struct xt_tile_conv *job, struct xt_graph *graph, int parts)
{
    xt_tile_conv_plan(job, parts);
    xt_graph_want_scratch(graph, pivot_of(job) + xt_tile_conv_scratch(job));
}

void xt_cpu_tile_conv_prepare(struct xt_cpu_tile_conv *tiles, struct xt_conv_op *conv,
                              struct xt_graph *graph, bool out_is_row, bool input_grad)
{
    int strides[] = {(int)conv->strides[0], (int)conv->strides[1]};
    tiles->output = describe_output(conv, graph);
    tiles->shares = 1;
    plan(&tiles->output, graph, 1);
    tiles->weights = copy_weights(conv, graph, out_is_row, true);
    conv->own[0] = true;
    if (!input_grad)
        return;
    for (int phase = 0; phase < strides[0] * strides[1]; phase++) {
        struct xt_tile_conv *job = &tiles->input_grads[tiles->phase_count++];
        *job = describe_input_grad(conv, phase / strides[1], phase % strides[1]);
        plan(job, graph, 1);
    }
    tiles->turned = copy_weights(conv, graph, out_is_row, false);
    conv->own[1] = true;
}

/* ---- inference ---- */

/* Numbers of bf16 for an output channel. */
static size_t channel_weights(const struct xt_tile_conv *job)
{
    return xt_tile_conv_weights(job) * (size_t)xt_summands_of(job->f32);
}

/* Among how many shares of `blocks` of output channels the threads are divided: more than one where
 * that makes each thread read less. */
static int channel_shares(size_t weight_bytes, size_t input_bytes, int blocks, int threads)
{
    size_t shares = 1;
    while ((size_t)threads % (2 * shares) == 0 && (size_t)blocks % (2 * shares) == 0 &&
           weight_bytes / shares > input_bytes * 2 * shares / (size_t)threads)
        shares *= 2;
    return (int)shares;
}

void xt_cpu_tile_conv_prepare_inference(struct xt_cpu_tile_conv *tiles, struct xt_conv_op *conv,
                                        struct xt_graph *graph)
{
    enum { BLOCK = 2 * XT_TILE_CONV_WIDE };
    int threads = graph->options.device->threads;
    tiles->output = describe_output(conv, graph);
    int panels = panels_of(&tiles->output);
    size_t weights =
        channel_weights(&tiles->output) * (size_t)panels * XT_TILE_CONV_WIDE * sizeof(uint16_t);
    int blocks = tiles->output.out_c % BLOCK ? 1 : tiles->output.out_c / BLOCK;
    tiles->shares =
        channel_shares(weights, xt_tensor_bytes(xt_op_in(&conv->op, 0)), blocks, threads);
    plan(&tiles->output, graph, threads / tiles->shares);
    tiles->weights = xt_graph_permanent(graph, conv->op.name, XT_WORKING_WEIGHTS, weights);
    conv->own[0] = conv->own_weights = true;
}

/* Takes a summand of two input channels' weight from O, I, H, W, of what is left of it; beyond the
 * tensors' channels it is zero. */
static uint32_t take_pair(float *dense, const struct xt_tile_conv *job, int o, int i, int tap)
{
    float none[2] = {0};
    size_t taps = (size_t)job->weight_taps;
    bool first = o < job->out_c && i < job->in_c;
    bool second = o < job->out_c && i + 1 < job->in_c;
    size_t at = ((size_t)o * (size_t)job->in_c + (size_t)i) * taps + (size_t)tap;
    return xt_bf16_take_pair(first ? &dense[at] : &none[0], second ? &dense[at + taps] : &none[1]);
}

/* A summand of the weights of XT_TILE_CONV_WIDE output channels: by blocks of input channels and
 * taps, of which a tile has pairs of input channels in its rows. */
static void sort_panel(float *dense, const struct xt_tile_conv *job, int first, uint32_t *to)
{
    for (int block = 0; block < job->in_c; block += XT_TILE_CONV_CHANNELS)
        for (int tap = 0; tap < job->weight_taps; tap++)
            for (int i = block; i < block + XT_TILE_CONV_CHANNELS; i += 2)
                for (int o = first; o < first + XT_TILE_CONV_WIDE; o++)
                    *to++ = take_pair(dense, job, o, i, tap);
}

void xt_cpu_tile_conv_refresh(const struct xt_cpu_tile_conv *tiles, const struct xt_graph *graph)
{
    const struct xt_tile_conv *job = &tiles->output;
    float *dense = graph->staging.host;
    uint32_t *to = tiles->weights->data;
    size_t panel = xt_tile_conv_weights(job) * XT_TILE_CONV_WIDE / 2;
    size_t summands = (size_t)xt_summands_of(job->f32);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < panels_of(job); i++)
        for (size_t k = 0; k < summands; k++)
            sort_panel(dense, job, i * XT_TILE_CONV_WIDE, to + panel * ((size_t)i * summands + k));
}

/* ---- running ---- */

/* Units [first, end). The norm: whose sums of this part are formed too; NULL: none. */
static void run_units(const struct xt_tile_conv *job, const struct xt_graph *graph,
                      const struct xt_op *norm, int part, int first, int end)
{
    struct xt_tile_conv some = *job;
    bool backward = job->norm.y != NULL;
    if (norm)
        xt_cpu_norm_begin_part(norm, graph, backward, part, &some.norm);
    graph->loops->tile_conv(&some, first, end, xt_graph_loop_scratch(graph) + pivot_of(job));
    if (norm && !backward)
        xt_cpu_norm_end_part(norm, graph, part, xt_tile_conv_pixels(job, first, end), &some.norm);
}

/* What is read in the same segment stays in the caches: by all but a norm that has its sums, and
 * from what is held. */
static void run_slice(const struct xt_tile_conv *job, const struct xt_graph *graph,
                      const struct xt_op *norm, const struct xt_slice *slice)
{
    struct xt_tile_conv some = *job;
    some.far = job->far && (norm || job->held);
    run_units(&some, graph, norm, slice->first / slice->count, 0,
              job->units / job->n * slice->count);
}

/* One of `shares` of the output's channels. */
static struct xt_tile_conv share_of(const struct xt_tile_conv *job, int share, int shares)
{
    struct xt_tile_conv some = *job;
    some.out_c = job->out_c / shares;
    size_t channel = (size_t)share * (size_t)some.out_c;
    some.weights += channel_weights(&some) * (size_t)some.out_c / 2 * (size_t)share;
    some.bias = job->bias ? job->bias + channel : NULL;
    some.out = (char *)job->out + channel * xt_tile_conv_element(job);
    return some;
}

/* A slice in the caller's thread; NULL: the batch, by all threads. */
static void run(const struct xt_tile_conv *job, int shares, const struct xt_graph *graph,
                const struct xt_op *norm, const struct xt_slice *slice)
{
    if (slice) {
        run_slice(job, graph, norm, slice);
        return;
    }
    int parts = graph->options.device->threads;
#pragma omp parallel for schedule(static)
    for (int part = 0; part < parts; part++) {
        struct xt_tile_conv some = share_of(job, part % shares, shares);
        int first = 0;
        int end = xt_tile_conv_part(job, part / shares, parts / shares, &first);
        run_units(&some, graph, norm, part, first, end);
    }
}

void xt_cpu_tile_conv_forward(const struct xt_cpu_tile_conv *tiles, const struct xt_op *op,
                              const struct xt_graph *graph, const struct xt_slice *slice)
{
    struct xt_params *params = graph->options.params;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    const struct xt_op *norm = conv->sums_for[0];
    int sample = slice ? slice->first : 0;
    struct xt_tile_conv job = tiles->output;
    job.in = xt_tensor_sample(in, slice ? xt_slices_value(op, in) : in->value, sample);
    job.out = xt_tensor_sample(out, out->value, sample);
    job.held = xt_tensor_sample(out, out->held, sample);
    job.weights = tiles->weights->data;
    job.bias = conv->host_bias.host;
    if (graph->options.training && conv->bias >= 0)
        job.bias = xt_params_value(params, &params->items[conv->bias]);
    run(&job, tiles->shares, graph, norm && xt_cpu_norm_wants_sums(norm, graph) ? norm : NULL,
        slice);
}

void xt_cpu_tile_conv_input_grad(const struct xt_tile_conv *job, const struct xt_op *op,
                                 const struct xt_graph *graph, const struct xt_slice *slice)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    const struct xt_op *norm = conv->sums_for[1];
    const struct xt_tensor *in = xt_op_in(op, 0);
    int sample = slice ? slice->first : 0;
    struct xt_tile_conv some = *job;
    some.out = xt_tensor_sample(in, xt_op_in_grad(op, 0), sample);
    some.adds = job->adds || conv->adds_grad;
    if (norm)
        some.norm = xt_cpu_norm_gradient(norm, sample);
    else if (conv->masks_grad)
        some.norm.y = xt_tensor_sample(in, in->value, sample);
    run(&some, 1, graph, norm, slice);
}

void xt_cpu_tile_conv_backward(const struct xt_cpu_tile_conv *tiles, const struct xt_op *op,
                               const struct xt_graph *graph, const struct xt_slice *slice)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    for (int phase = 0; phase < tiles->phase_count; phase++) {
        struct xt_tile_conv job = tiles->input_grads[phase];
        job.in = xt_tensor_sample(out, out->grad[0], slice ? slice->first : 0);
        job.weights = tiles->turned->data;
        xt_cpu_tile_conv_input_grad(&job, op, graph, slice);
    }
}
