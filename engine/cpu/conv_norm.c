#include "engine/cpu/conv_norm.h"

#include <string.h>

#include "base/number.h"

enum {
    LANES = XT_CONV_NORM_LANES,
    ROWS_BYTES = 256 << 10 /* of z, beside what else is in L2 */
};

/* ---- planning ---- */

/* The only reader of the convolution's output; NULL: it is no norm. */
static const struct xt_op *norm_behind(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    const struct xt_tensor *z = xt_op_out(&conv->op, 0);
    for (int i = conv->op.index + 1; i < graph->op_count && z->readers == 1; i++)
        if (xt_op_in(graph->ops[i], 0) == z && graph->ops[i]->kind == &xt_kind_norm)
            return graph->ops[i];
    return NULL;
}

/* Few channels for each of z: that is what is saved, and the matrices cost. A gradient that the
 * norm makes is made of one sample at a time, sums for another norm are formed of a slice. */
static bool pays(const struct xt_conv_op *conv, const struct xt_op *norm)
{
    const struct xt_tensor *x = xt_op_in(&conv->op, 0);
    bool pools = !xt_op_out(norm, XT_NORM_FULL);
    return x->c <= XT_NORM_PRODUCT_CHANNELS_MAX &&
           xt_op_out(&conv->op, 0)->c >= (pools ? 1 : 2) * x->c && !(pools && conv->sums_for[1]);
}

static bool has_few_places(const struct xt_conv_op *conv)
{
    const struct xt_tensor *x = xt_op_in(&conv->op, 0);
    return !x->wants_grad && conv->kernel[0] * conv->kernel[1] * x->c <= XT_PATCH_MAX;
}

const struct xt_op *xt_cpu_conv_norm_find(const struct xt_conv_op *conv, struct xt_graph *graph,
                                          const struct xt_cpu_tile_conv *by_tiles)
{
    const struct xt_tensor *x = xt_op_in(&conv->op, 0);
    const struct xt_tensor *z = xt_op_out(&conv->op, 0);
    const struct xt_op *norm = norm_behind(conv, graph);
    if (!norm || !xt_op_learns(&conv->op, graph) || !conv->op.by_slices[0] ||
        !conv->op.by_slices[1] || x->dtype != XT_BF16 || conv->relu ||
        z->c % XT_TILE_CONV_CHANNELS || z->c > XT_CONV_NORM_OUT_MAX ||
        !xt_cpu_norm_can_join(norm, graph))
        return NULL;
    return (by_tiles ? pays(conv, norm) : has_few_places(conv)) ? norm : NULL;
}

/* Of one sample at a time. */
static struct xt_weight_grad plan_products(const struct xt_cpu_conv_norm *own, int out_c,
                                           const struct xt_graph *graph)
{
    const struct xt_tensor *z = xt_op_out(&own->conv->op, 0);
    struct xt_weight_grad job = {.n = 1,
                                 .h = z->h,
                                 .w = z->w,
                                 .in_c = own->in_c,
                                 .out_h = z->h,
                                 .out_w = z->w,
                                 .out_c = out_c,
                                 .kernel_h = 1,
                                 .kernel_w = 1,
                                 .stride_h = 1,
                                 .stride_w = 1,
                                 .tiles = true,
                                 .edge = XT_TILE_CHANNELS};
    xt_weight_grad_plan_workers(&job, graph->slices.workers);
    return job;
}

/* A copy of a matrix that is laid out like the convolution's weights. */
static struct xt_weight_copy describe_copy(int out, int in, bool out_is_wide)
{
    return (struct xt_weight_copy){.out = out,
                                   .in = in,
                                   .taps = 1,
                                   .out_is_wide = out_is_wide,
                                   .by_tiles = true,
                                   .summands = 1,
                                   .wide = XT_TILE_CONV_WIDE};
}

/* x times W' b W, a tensor of x's shape. */
static struct xt_tile_conv describe_through(const struct xt_tile_conv *input_grad)
{
    struct xt_tile_conv job = *input_grad;
    job.in_c = job.out_c;
    job.far = false;
    xt_tile_conv_plan(&job, 1);
    return job;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static struct xt_patches describe_patches(const struct xt_conv_op *conv)
{
    enum { WIDE = 32 };
    const struct xt_tensor *x = xt_op_in(&conv->op, 0);
    const struct xt_tensor *z = xt_op_out(&conv->op, 0);
    int covered = (int)(conv->kernel[0] * conv->kernel[1]) * x->c;
    return (struct xt_patches){.h = x->h,
                               .w = x->w,
                               .c = x->c,
                               .out_h = z->h,
                               .out_w = z->w,
                               .kernel_h = (int)conv->kernel[0],
                               .kernel_w = (int)conv->kernel[1],
                               .stride_h = (int)conv->strides[0],
                               .stride_w = (int)conv->strides[1],
                               .pad_h = (int)conv->pads[0],
                               .pad_w = (int)conv->pads[1],
                               .width = (covered + WIDE - 1) / WIDE * WIDE};
}

/* The patches times the weights, of some rows. */
static struct xt_tile_conv describe_output(const struct xt_patches *patches, int out_c)
{
    struct xt_tile_conv job = {.n = 1,
                               .in_h = patches->out_h,
                               .in_w = patches->out_w,
                               .in_c = patches->width,
                               .out_h = patches->out_h,
                               .out_w = patches->out_w,
                               .out_c = out_c,
                               .rows = patches->out_h,
                               .columns = patches->out_w,
                               .step_h = 1,
                               .step_w = 1,
                               .out_step_h = 1,
                               .out_step_w = 1,
                               .tap_count = 1,
                               .weight_taps = 1};
    xt_tile_conv_plan(&job, 1);
    return job;
}

static size_t row_bytes(const struct xt_tensor *z)
{
    return (size_t)z->w * (size_t)z->c * sizeof(uint16_t);
}

/* Pools need a sample. */
static int rows_of(const struct xt_cpu_conv_norm *own)
{
    const struct xt_tensor *z = xt_op_out(&own->conv->op, 0);
    size_t most = ROWS_BYTES / row_bytes(z);
    return !xt_op_out(own->norm, XT_NORM_FULL) || most >= (size_t)z->h ? z->h
           : most > 1                                                  ? (int)most
                                                                       : 1;
}

void xt_cpu_conv_norm_describe(struct xt_cpu_conv_norm *own, struct xt_conv_op *conv,
                               const struct xt_op *norm, const struct xt_graph *graph,
                               const struct xt_cpu_tile_conv *by_tiles)
{
    const struct xt_tensor *z = xt_op_out(&conv->op, 0);
    *own = (struct xt_cpu_conv_norm){
        .conv = conv, .norm = norm, .in_c = xt_op_in(&conv->op, 0)->c, .out_c = z->c};
    if (!xt_cpu_norm_is_plain(norm))
        own->rows = rows_of(own);
    if (!xt_op_out(norm, XT_NORM_FULL))
        own->room = xt_tensor_sample_bytes(z) / sizeof(float);
    if (by_tiles) {
        own->output = by_tiles->output;
        own->output.far = false;
        own->matrices[XT_CONV_NORM_OUTPUT] = by_tiles->weights;
        own->input_grad = by_tiles->input_grads[0];
        own->through = describe_through(&own->input_grad);
        own->copies[XT_CONV_NORM_INPUT_GRAD] = describe_copy(own->out_c, own->in_c, false);
        own->copies[XT_CONV_NORM_THROUGH] = describe_copy(own->in_c, own->in_c, true);
    } else {
        own->patches = describe_patches(conv);
        own->in_c = own->patches.width;
        own->output = describe_output(&own->patches, own->out_c);
        own->copies[XT_CONV_NORM_OUTPUT] = describe_copy(own->out_c, own->in_c, true);
    }
    own->products = plan_products(own, own->out_c, graph);
    own->products.more = true;
    own->squares = plan_products(own, own->in_c, graph);
}

void xt_cpu_conv_norm_join(struct xt_cpu_conv_norm *own, struct xt_cpu_conv_norm *beside,
                           bool is_before)
{
    own->beside = beside;
    own->is_followed = is_before;
    beside->before = is_before ? own : NULL;
}

/* z is read by the norm alone, which asks for some rows of a sample, with --recompute again before
 * the backward pass. */
static void keep_rows(const struct xt_cpu_conv_norm *own, struct xt_graph *graph)
{
    struct xt_tensor *z = own->conv->op.outputs[0];
    if (own->rows)
        xt_graph_use_value(graph, z, xt_op_forward_time(&own->conv->op));
    if (!own->rows || !z->value)
        return;
    xt_buffer_use(z->value, graph->options.recompute ? xt_op_backward_time(graph, own->norm)
                                                     : xt_op_forward_time(own->norm));
    z->value->ring = 1;
    z->value->worker_samples = graph->slices.worker_samples;
    z->value->worker_bytes = row_bytes(z) * (size_t)own->rows;
    z->value->bytes = z->value->worker_bytes * (size_t)graph->slices.workers;
}

static struct xt_buffer *add_buffer(const struct xt_cpu_conv_norm *own, struct xt_graph *graph,
                                    const char *kind, size_t bytes, const int times[2])
{
    struct xt_buffer *buffer = xt_graph_add_buffer(graph, own->conv->op.name, kind, bytes);
    xt_buffer_use(buffer, times[0]);
    xt_buffer_use(buffer, times[1]);
    return buffer;
}

/* Doubles of a worker's sums of x and x x'. */
static size_t sums_of(const struct xt_cpu_conv_norm *own)
{
    return (size_t)own->in_c * ((size_t)own->in_c + 1);
}

static size_t kept_of(const struct xt_cpu_conv_norm *own)
{
    return (size_t)own->in_c * (size_t)own->out_c + sums_of(own);
}

/* What both need lives until the last of them has run. */
static void plan_beside(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph)
{
    const struct xt_cpu_conv_norm *other = own->beside;
    int first = xt_op_backward_time(graph, &own->conv->op);
    int last = xt_op_backward_time(graph, &other->conv->op);
    xt_buffer_use(own->numbers, own->is_followed ? last : first);
    xt_buffer_use(other->kept, first);
    xt_buffer_use(other->sums, xt_op_forward_time(own->norm));
}

/* Floats of a sample's patches. */
static size_t patch_room(const struct xt_cpu_conv_norm *own)
{
    const struct xt_patches *patches = &own->patches;
    return (size_t)patches->out_h * (size_t)patches->out_w * (size_t)patches->width / 2;
}

/* The input's gradient of both at once: the matrices lie one behind the other. */
static void put_beside(struct xt_cpu_conv_norm *own)
{
    const struct xt_tensor *z = xt_op_out(&own->conv->op, 0);
    int channels = own->out_c + own->in_c;
    own->with_input = true;
    own->input_grad.in_c = channels;
    xt_tile_conv_plan(&own->input_grad, 1);
    own->copies[XT_CONV_NORM_INPUT_GRAD] = describe_copy(channels, own->in_c, false);
    own->copies[XT_CONV_NORM_THROUGH].out = 0;
    own->room = (size_t)z->h * (size_t)z->w * (size_t)channels / 2;
}

void xt_cpu_conv_norm_plan(struct xt_cpu_conv_norm *own, struct xt_graph *graph)
{
    const struct xt_op *conv = &own->conv->op;
    const struct xt_tensor *x = xt_op_in(conv, 0);
    const int all[] = {xt_op_forward_time(conv), xt_op_backward_time(graph, conv)};
    const int forward[] = {xt_op_forward_time(conv), xt_op_forward_time(own->norm)};
    const int backward[] = {xt_op_backward_time(graph, own->norm), all[1]};
    size_t workers = (size_t)graph->slices.workers;
    size_t slice = xt_tensor_sample_bytes(x) * (size_t)conv->by_slices[1] / sizeof(float);
    bool has_patches = xt_cpu_conv_norm_has_patches(own);
    if (own->room && !has_patches && !own->is_followed)
        put_beside(own);
    own->kept = add_buffer(own, graph, "weights and sums", kept_of(own) * sizeof(float), all);
    own->numbers =
        add_buffer(own, graph, "products", xt_cpu_conv_norm_numbers(own) * sizeof(float), backward);
    own->scratch[0] =
        add_buffer(own, graph, "scratch", xt_weight_grad_scratch(&own->products), backward);
    if (!own->beside) {
        own->sums =
            add_buffer(own, graph, "sums", workers * sums_of(own) * sizeof(double), forward);
        own->scratch[1] =
            add_buffer(own, graph, "scratch", xt_weight_grad_scratch(&own->squares), forward);
    } else {
        plan_beside(own, graph);
    }
    for (int i = 0; i < XT_CONV_NORM_MATRICES; i++)
        if (own->copies[i].out)
            own->matrices[i] =
                add_buffer(own, graph, "matrix", xt_weight_copy_bytes(&own->copies[i]),
                           i == XT_CONV_NORM_OUTPUT ? all : backward);
    keep_rows(own, graph);
    xt_graph_want_scratch(graph, xt_cpu_conv_norm_scratch(own) + own->room +
                                     (has_patches ? patch_room(own) : slice));
    xt_buffer_use(x->value, forward[1]);
    xt_buffer_use(x->value, backward[0]);
}

/* ---- shared by both directions ---- */

struct xt_conv_norm_kept xt_cpu_conv_norm_kept(const struct xt_cpu_conv_norm *own)
{
    size_t in_c = (size_t)own->in_c;
    struct xt_conv_norm_kept kept = {.weights = own->kept->data};
    kept.squares = kept.weights + in_c * (size_t)own->out_c;
    kept.sum_of_x = kept.squares + in_c * in_c;
    if (own->beside) {
        const struct xt_conv_norm_kept beside = xt_cpu_conv_norm_kept(own->beside);
        kept.squares = beside.squares;
        kept.sum_of_x = beside.sum_of_x;
    }
    return kept;
}

static size_t taps_of(const struct xt_patches *patches)
{
    return (size_t)patches->kernel_h * (size_t)patches->kernel_w;
}

size_t xt_cpu_conv_norm_place(const struct xt_cpu_conv_norm *own, size_t o, size_t k)
{
    const struct xt_patches *patches = &own->patches;
    size_t c = (size_t)patches->c;
    size_t i = k % c;
    size_t tile = (o / LANES * ((c + LANES - 1) / LANES) + i / LANES) * taps_of(patches) + k / c;
    return tile * LANES * LANES + o % LANES * LANES + i % LANES;
}

size_t xt_cpu_conv_norm_places(const struct xt_cpu_conv_norm *own)
{
    return taps_of(&own->patches) * (size_t)own->patches.c;
}

size_t xt_cpu_conv_norm_weights(const struct xt_cpu_conv_norm *own)
{
    size_t columns = ((size_t)own->patches.c + LANES - 1) / LANES * LANES;
    return columns * taps_of(&own->patches) * (size_t)own->out_c;
}

const float *xt_cpu_conv_norm_bias(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph)
{
    struct xt_params *params = graph->options.params;
    int bias = own->conv->bias;
    return bias < 0 ? NULL : xt_params_value(params, &params->items[bias]);
}

size_t xt_cpu_conv_norm_scratch(const struct xt_cpu_conv_norm *own)
{
    size_t convs = xt_tile_conv_scratch(&own->output);
    if (!xt_cpu_conv_norm_has_patches(own)) {
        convs = larger(convs, xt_tile_conv_scratch(&own->input_grad));
        convs = larger(convs, xt_tile_conv_scratch(&own->through));
    }
    size_t pivot = larger((size_t)own->in_c, (size_t)own->out_c);
    size_t most = larger(pivot + convs, xt_cpu_norm_scratch(own->norm));
    return (most + LANES - 1) / LANES * LANES;
}

float *xt_cpu_conv_norm_room(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph)
{
    return xt_graph_loop_scratch(graph) + xt_cpu_conv_norm_scratch(own) + own->room;
}

const void *xt_cpu_conv_norm_input(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                                   int n)
{
    const struct xt_tensor *x = xt_op_in(&own->conv->op, 0);
    const void *sample = xt_tensor_sample(x, x->value, n);
    if (!xt_cpu_conv_norm_has_patches(own))
        return sample;
    float *patches = xt_cpu_conv_norm_room(own, graph);
    graph->loops->patches(&own->patches, sample, patches);
    return patches;
}

void xt_cpu_conv_norm_copy(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                           int which, const float *from)
{
    struct xt_weight_copy copy = own->copies[which];
    copy.from = from;
    copy.to = own->matrices[which]->data;
    graph->loops->copy_weights(&copy, 0, xt_weight_copy_blocks(&copy));
}

/* ---- forward ---- */

static float rounded(float weight)
{
    return xt_bf16_to_float((uint16_t)(xt_bf16_round(weight) >> 16));
}

static void round_weights(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                          float *to)
{
    struct xt_params *params = graph->options.params;
    const float *from = xt_params_value(params, &params->items[own->conv->weight]);
    size_t in_c = (size_t)own->in_c;
    size_t out_c = (size_t)own->out_c;
    if (!xt_cpu_conv_norm_has_patches(own)) {
        for (size_t i = 0; i < in_c * out_c; i++)
            to[i] = rounded(from[i]);
        return;
    }
    memset(to, 0, in_c * out_c * sizeof *to);
    for (size_t k = 0; k < xt_cpu_conv_norm_places(own); k++)
        for (size_t o = 0; o < out_c; o++)
            to[xt_cpu_conv_norm_row(own, o) + k * LANES] =
                rounded(from[xt_cpu_conv_norm_place(own, o, k)]);
}

void xt_cpu_conv_norm_begin_forward(const struct xt_cpu_conv_norm *own,
                                    const struct xt_graph *graph)
{
    const struct xt_conv_norm_kept kept = xt_cpu_conv_norm_kept(own);
    round_weights(own, graph, kept.weights);
    if (own->sums)
        memset(own->sums->data, 0, own->sums->bytes);
    if (xt_cpu_conv_norm_has_patches(own))
        xt_cpu_conv_norm_copy(own, graph, XT_CONV_NORM_OUTPUT, kept.weights);
}

/* A sample's are summed in float32, from zero on, and added to doubles: the variance is what is
 * left of them without the mean. */
static void add_sample(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph, int n,
                       const void *x, bool near)
{
    int worker = n / graph->slices.worker_samples;
    size_t in_c = (size_t)own->in_c;
    struct xt_weight_grad job = own->squares;
    job.in = job.out_grad = x;
    job.near[0] = true;
    job.near[1] = near;
    job.scratch = own->scratch[1]->data;
    job.grad = xt_cpu_conv_norm_kept(own).squares;
    job.bias_grad = xt_cpu_conv_norm_kept(own).sum_of_x;
    graph->loops->weight_grad(&job, worker);
    const float *squares = xt_weight_grad_sums(&job, worker);
    const float *sum_of_x = xt_weight_grad_bias(&job, worker);
    double *sums = (double *)own->sums->data + (size_t)worker * sums_of(own);
    for (size_t i = 0; i < in_c * in_c; i++)
        sums[i] += (double)squares[i];
    for (size_t i = 0; i < in_c; i++)
        sums[in_c * in_c + i] += (double)sum_of_x[i];
}

/* What somebody watches is written, as far as there is room. */
void xt_cpu_conv_norm_add_input(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                                const struct xt_slice *slice)
{
    const struct xt_tensor *x = xt_op_in(&own->conv->op, 0);
    const struct xt_buffer *values = xt_slices_value(&own->conv->op, x);
    for (int n = slice->first; n < slice->first + slice->count; n++) {
        if (own->sums && graph->pass.training && xt_cpu_conv_norm_has_patches(own))
            add_sample(own, graph, n, xt_cpu_conv_norm_input(own, graph, n), true);
        else if (own->sums && graph->pass.training)
            add_sample(own, graph, n, xt_tensor_sample(x, values, n), values->ring > 0);
        if (own->rows && graph->watch.ran)
            xt_cpu_conv_norm_output(own, graph, n, 0, own->rows);
    }
}

/* The workers' in their order. */
void xt_cpu_conv_norm_end_forward(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph)
{
    const struct xt_conv_norm_kept kept = xt_cpu_conv_norm_kept(own);
    size_t in_c = (size_t)own->in_c;
    size_t count = sums_of(own);
    if (!own->sums)
        return;
    double *sums = own->sums->data;
    for (size_t worker = 1; worker < (size_t)graph->slices.workers; worker++)
        for (size_t i = 0; i < count; i++)
            sums[i] += sums[worker * count + i];
    for (size_t i = 0; i < in_c * in_c; i++)
        kept.squares[i] = (float)sums[i];
    for (size_t i = 0; i < in_c; i++)
        kept.sum_of_x[i] = (float)sums[in_c * in_c + i];
}

void xt_cpu_conv_norm_statistics(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                                 const float *mean, double *totals)
{
    const struct xt_tensor *z = xt_op_out(&own->conv->op, 0);
    const float *bias = xt_cpu_conv_norm_bias(own, graph);
    size_t in_c = (size_t)own->in_c;
    size_t out_c = (size_t)own->out_c;
    double pixels = (double)z->n * z->h * z->w;
    const double *sums = (own->beside ? own->beside : own)->sums->data;
    const struct xt_norm_statistics job = {.in_c = own->in_c,
                                           .weights = xt_cpu_conv_norm_kept(own).weights,
                                           .squares = sums,
                                           .sums = sums + in_c * in_c,
                                           .totals = {totals, totals + out_c}};
#pragma omp parallel for schedule(static)
    for (int part = 0; part < own->out_c / LANES; part++)
        graph->loops->norm_statistics(&job, part);
    for (size_t o = 0; o < out_c; o++) {
        double about = (bias ? (double)bias[o] : 0) - (double)mean[o];
        totals[out_c + o] += about * (2 * totals[o] + about * pixels);
        totals[o] += about * pixels;
    }
}

const void *xt_cpu_conv_norm_output(const struct xt_cpu_conv_norm *own,
                                    const struct xt_graph *graph, int n, int row, int rows)
{
    const struct xt_tensor *z = xt_op_out(&own->conv->op, 0);
    bool has_patches = row > 0 && xt_cpu_conv_norm_has_patches(own);
    const void *x =
        has_patches ? xt_cpu_conv_norm_room(own, graph) : xt_cpu_conv_norm_input(own, graph, n);
    size_t first = (size_t)row * (size_t)z->w * (size_t)own->in_c;
    struct xt_tile_conv job = own->output;
    job.in = (const uint16_t *)x + first;
    job.out = xt_tensor_sample(z, z->value, n);
    job.weights = own->matrices[XT_CONV_NORM_OUTPUT]->data;
    job.bias = xt_cpu_conv_norm_bias(own, graph);
    graph->loops->tile_conv(&job, 0, rows * z->w, xt_graph_loop_scratch(graph) + own->out_c);
    return job.out;
}

void xt_cpu_conv_norm_write(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph, int n,
                            const struct xt_norm_sample *sample)
{
    const float *bias = xt_cpu_conv_norm_bias(own, graph);
    float *shift = xt_graph_loop_scratch(graph);
    struct xt_tile_conv job = own->output;
    for (int o = 0; o < own->out_c; o++)
        shift[o] = sample->shift[o] + (bias ? sample->scale[o] * bias[o] : 0);
    job.in = xt_cpu_conv_norm_input(own, graph, n);
    job.out = sample->y;
    job.held = sample->held;
    job.weights = own->matrices[XT_CONV_NORM_OUTPUT]->data;
    job.scale = sample->scale;
    job.bias = shift;
    job.relu = sample->relu;
    job.far = sample->far;
    graph->loops->tile_conv(&job, 0, sample->h * sample->w, shift + own->out_c);
}

bool xt_cpu_conv_norm_can_recompute(const struct xt_cpu_conv_norm *own)
{
    return own->rows && !xt_op_in(&own->conv->op, 0)->value->recompute;
}
