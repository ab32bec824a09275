/* The backward pass of a 1x1 convolution and the norm behind it by slices of bf16, without the
 * tensor between them (loops/norm_product_job.h). Where the norm would form its sums, the products
 * are summed; before the convolution's slices they become the weights' gradient and the matrices
 * that make the input's. The network's first convolution, whose kernel covers few numbers, is one
 * of those, its patches (loops/patches_job.h).
 */
#include <string.h>

#include "base/number.h"
#include "engine/cpu/cpu.h"
#include "engine/slices.h"

enum { LANES = 16, OUT_CHANNELS_MAX = 1024 };

/* What is computed of the sums over pixels (struct xt_norm_product); da's sum is [out_c]. */
struct numbers {
    float *products, *weights, *scaled, *squares, *through, *sum_of_x, *shift, *factors, *sum_of_da;
    float *weight_grad;
};

static size_t numbers_of(const struct xt_cpu_norm_grad *own)
{
    size_t in_c = (size_t)own->in_c;
    size_t out_c = (size_t)own->out_c;
    return 4 * in_c * out_c + 2 * in_c * in_c + 2 * in_c + 4 * out_c;
}

static struct numbers numbers_in(const struct xt_cpu_norm_grad *own)
{
    size_t in_c = (size_t)own->in_c;
    size_t out_c = (size_t)own->out_c;
    struct numbers numbers = {.products = own->numbers->data};
    numbers.weights = numbers.products + in_c * out_c;
    numbers.scaled = numbers.weights + in_c * out_c;
    numbers.weight_grad = numbers.scaled + in_c * out_c;
    numbers.squares = numbers.weight_grad + in_c * out_c;
    numbers.through = numbers.squares + in_c * in_c;
    numbers.sum_of_x = numbers.through + in_c * in_c;
    numbers.shift = numbers.sum_of_x + in_c;
    numbers.factors = numbers.shift + in_c;
    numbers.sum_of_da = numbers.factors + 3 * out_c;
    if (own->before) {
        const struct numbers before = numbers_in(own->before);
        numbers.squares = before.squares;
        numbers.sum_of_x = before.sum_of_x;
    }
    return numbers;
}

/* Where a matrix of in_c columns has row o, of column 0. */
static size_t row_at(const struct xt_cpu_norm_grad *own, size_t o)
{
    return o / LANES * LANES * (size_t)own->in_c + o % LANES;
}

bool xt_cpu_norm_grad_can(const struct xt_conv_op *conv)
{
    const struct xt_tensor *x = xt_op_in(&conv->op, 0);
    const struct xt_tensor *z = xt_op_out(&conv->op, 0);
    return conv->op.by_slices[1] && x->dtype == XT_BF16 && !conv->relu &&
           z->c % XT_TILE_CHANNELS == 0 && z->c <= OUT_CHANNELS_MAX && z->readers == 1;
}

/* Of few channels for each of the tensor between: that is what is saved, and the matrices cost. A
 * gradient that the norm makes is made of one sample at a time, sums for another norm are formed of
 * a slice. */
bool xt_cpu_norm_grad_pays(const struct xt_conv_op *conv, const struct xt_op *norm)
{
    const struct xt_tensor *x = xt_op_in(&conv->op, 0);
    bool pools = !xt_op_out(norm, XT_NORM_FULL);
    return x->c <= XT_NORM_PRODUCT_CHANNELS_MAX &&
           xt_op_out(&conv->op, 0)->c >= (pools ? 1 : 2) * x->c && !(pools && conv->sums_for[1]);
}

bool xt_cpu_norm_grad_by_patches(const struct xt_conv_op *conv)
{
    const struct xt_tensor *x = xt_op_in(&conv->op, 0);
    return !x->wants_grad && conv->kernel[0] * conv->kernel[1] * x->c <= XT_PATCH_MAX;
}

/* Of one sample at a time, which a worker adds to its sums. */
static struct xt_weight_grad plan_products(const struct xt_cpu_norm_grad *own, int out_c,
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
    job.adds = job.more = true;
    return job;
}

static struct xt_buffer *add_buffer(const struct xt_conv_op *conv, const struct xt_op *norm,
                                    struct xt_graph *graph, size_t bytes)
{
    struct xt_buffer *buffer = xt_graph_temporary(graph, xt_op_out(&conv->op, 0), bytes,
                                                  xt_op_backward_time(graph, &conv->op));
    if (buffer)
        xt_buffer_use(buffer, xt_op_backward_time(graph, norm));
    return buffer;
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

static bool has_patches(const struct xt_cpu_norm_grad *own)
{
    return own->patches.width > 0;
}

/* Floats of a sample's. */
static size_t patch_room(const struct xt_cpu_norm_grad *own)
{
    const struct xt_patches *patches = &own->patches;
    return (size_t)patches->out_h * (size_t)patches->out_w * (size_t)patches->width / 2;
}

/* Floats of the loops' scratch, behind which are a sample's gradient behind the norm, unless that
 * is in memory, and the product of a slice's x or a sample's patches. */
static size_t loop_scratch(const struct xt_cpu_norm_grad *own)
{
    size_t convs = has_patches(own) ? 0
                                    : larger(xt_tile_conv_scratch(&own->input_grad),
                                             xt_tile_conv_scratch(&own->through));
    size_t most = larger((size_t)own->in_c + convs, xt_cpu_norm_scratch(own->norm));
    return (most + LANES - 1) / LANES * LANES;
}

static void plan_input_grad(struct xt_cpu_norm_grad *own, const struct xt_tile_conv *input_grad,
                            struct xt_graph *graph)
{
    const struct xt_tensor *x = xt_op_in(&own->conv->op, 0);
    size_t slice = xt_tensor_bytes(x) / (size_t)x->n * (size_t)own->conv->op.by_slices[1];
    own->input_grad = *input_grad;
    own->through = describe_through(input_grad);
    own->copies[0] = describe_copy(own->out_c, own->in_c, false);
    own->copies[1] = describe_copy(own->in_c, own->in_c, true);
    for (int i = 0; i < 2; i++)
        own->matrices[i] =
            add_buffer(own->conv, own->norm, graph, xt_weight_copy_bytes(&own->copies[i]));
    xt_graph_want_scratch(graph, loop_scratch(own) + own->room + slice / sizeof(float));
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

void xt_cpu_norm_grad_prepare(struct xt_cpu_norm_grad *own, const struct xt_conv_op *conv,
                              const struct xt_tile_conv *input_grad, const struct xt_op *norm,
                              struct xt_graph *graph)
{
    const struct xt_tensor *x = xt_op_in(&conv->op, 0);
    const struct xt_tensor *z = xt_op_out(&conv->op, 0);
    *own = (struct xt_cpu_norm_grad){.conv = conv, .norm = norm, .in_c = x->c, .out_c = z->c};
    if (!input_grad) {
        own->patches = describe_patches(conv);
        own->in_c = own->patches.width;
    }
    own->products = plan_products(own, z->c, graph);
    own->squares = plan_products(own, own->in_c, graph);
    own->scratch[0] = add_buffer(conv, norm, graph, xt_weight_grad_scratch(&own->products));
    own->scratch[1] = add_buffer(conv, norm, graph, xt_weight_grad_scratch(&own->squares));
    own->numbers = add_buffer(conv, norm, graph, numbers_of(own) * sizeof(float));
    if (!xt_op_out(norm, XT_NORM_FULL))
        own->room = xt_tensor_bytes(z) / (size_t)z->n / sizeof(float);
    if (input_grad)
        plan_input_grad(own, input_grad, graph);
    else
        xt_graph_want_scratch(graph, loop_scratch(own) + own->room + patch_room(own));
    xt_buffer_use(x->value, xt_op_backward_time(graph, norm));
}

void xt_cpu_norm_grad_join(struct xt_cpu_norm_grad *before, struct xt_cpu_norm_grad *own,
                           struct xt_graph *graph)
{
    own->before = before;
    before->is_followed = true;
    xt_buffer_use(before->numbers, xt_op_backward_time(graph, &own->conv->op));
}

/* A worker's sums are in the scratch, or where they are added up. */
void xt_cpu_norm_grad_begin(const struct xt_cpu_norm_grad *own)
{
    memset(own->numbers->data, 0, numbers_of(own) * sizeof(float));
    memset(own->scratch[0]->data, 0, xt_weight_grad_scratch(&own->products));
    if (!own->before)
        memset(own->scratch[1]->data, 0, xt_weight_grad_scratch(&own->squares));
}

/* P, with the sum of da, or S, with that of x. */
static struct xt_weight_grad job_of(const struct xt_cpu_norm_grad *own, bool squares)
{
    const struct numbers numbers = numbers_in(own);
    struct xt_weight_grad job = squares ? own->squares : own->products;
    job.scratch = own->scratch[squares]->data;
    job.grad = squares ? numbers.squares : numbers.products;
    job.bias_grad = squares ? numbers.sum_of_x : numbers.sum_of_da;
    return job;
}

/* P, and S unless another has it. */
static int sums_of(const struct xt_cpu_norm_grad *own)
{
    return own->before ? 1 : 2;
}

/* A sample's, or a slice's if it is in memory. */
static const void *gradient_behind(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                                   int n)
{
    return xt_cpu_norm_gradient_behind(own->norm, graph, n,
                                       xt_graph_loop_scratch(graph) + loop_scratch(own));
}

/* What the matrix multiplies of a sample. */
static const void *sample_of_input(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                                   int n)
{
    const struct xt_tensor *x = xt_op_in(&own->conv->op, 0);
    const void *sample = xt_tensor_sample(x, x->value, n);
    if (!has_patches(own))
        return sample;
    float *room = xt_graph_loop_scratch(graph) + loop_scratch(own) + own->room;
    graph->loops->patches(&own->patches, sample, room);
    return room;
}

void xt_cpu_norm_grad_add(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph, int n)
{
    const void *x = sample_of_input(own, graph, n);
    const void *behind = gradient_behind(own, graph, n);
    int worker = n / graph->slices.worker_samples;
    for (int squares = 0; squares < sums_of(own); squares++) {
        struct xt_weight_grad job = job_of(own, squares);
        job.in = x;
        job.out_grad = squares ? x : behind;
        job.near[0] = squares || own->room;
        job.near[1] = squares || has_patches(own);
        graph->loops->weight_grad(&job, worker);
    }
}

/* NULL: it has none. */
static const float *bias_of(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph)
{
    struct xt_params *params = graph->options.params;
    int bias = own->conv->bias;
    return bias < 0 ? NULL : xt_params_value(params, &params->items[bias]);
}

static size_t taps_of(const struct xt_patches *patches)
{
    return (size_t)patches->kernel_h * (size_t)patches->kernel_w;
}

/* Where the convolution's parameter has the weight of channel o and place k of a patch. */
static size_t place_of(const struct xt_cpu_norm_grad *own, size_t o, size_t k)
{
    const struct xt_patches *patches = &own->patches;
    size_t c = (size_t)patches->c;
    size_t i = k % c;
    size_t tile = (o / LANES * ((c + LANES - 1) / LANES) + i / LANES) * taps_of(patches) + k / c;
    return tile * LANES * LANES + o % LANES * LANES + i % LANES;
}

static size_t covered_by(const struct xt_patches *patches)
{
    return taps_of(patches) * (size_t)patches->c;
}

static float rounded(float weight)
{
    return xt_bf16_to_float((uint16_t)(xt_bf16_round(weight) >> 16));
}

/* As the convolution has them. */
static void round_weights(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                          float *to)
{
    struct xt_params *params = graph->options.params;
    const float *from = xt_params_value(params, &params->items[own->conv->weight]);
    size_t out_c = (size_t)own->out_c;
    for (size_t i = 0; i < (size_t)own->in_c * out_c && !has_patches(own); i++)
        to[i] = rounded(from[i]);
    for (size_t k = 0; k < covered_by(&own->patches); k++)
        for (size_t o = 0; o < out_c; o++)
            to[row_at(own, o) + k * LANES] = rounded(from[place_of(own, o, k)]);
}

/* The parameter's gradient from the patches' matrix. */
static void spread(const struct xt_cpu_norm_grad *own, const float *from, float *to)
{
    size_t columns = ((size_t)own->patches.c + LANES - 1) / LANES * LANES;
    memset(to, 0, columns * taps_of(&own->patches) * (size_t)own->out_c * sizeof *to);
    for (size_t k = 0; k < covered_by(&own->patches); k++)
        for (size_t o = 0; o < (size_t)own->out_c; o++)
            to[place_of(own, o, k)] = from[row_at(own, o) + k * LANES];
}

/* The product of row o of W and numbers that are `apart` from each other. */
static double times_row(const struct xt_cpu_norm_grad *own, const float *weights, size_t o,
                        const float *numbers, size_t apart)
{
    const float *row = weights + row_at(own, o);
    double sum = 0;
    for (size_t i = 0; i < (size_t)own->in_c; i++)
        sum += (double)row[i * LANES] * (double)numbers[i * apart];
    return sum;
}

void xt_cpu_norm_grad_total(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                            const float *mean, double *totals)
{
    const struct numbers numbers = numbers_in(own);
    const float *bias = bias_of(own, graph);
    size_t out_c = (size_t)own->out_c;
    for (int squares = 0; squares < sums_of(own); squares++) {
        const struct xt_weight_grad job = job_of(own, squares);
        graph->loops->weight_grad_sum(&job, 0, job.weights);
    }
    round_weights(own, graph, numbers.weights);
    for (size_t o = 0; o < out_c; o++) {
        double sum = (double)numbers.sum_of_da[o];
        double about = (bias ? (double)bias[o] : 0) - (double)mean[o];
        totals[o] = sum;
        totals[out_c + o] =
            times_row(own, numbers.weights, o, numbers.products + row_at(own, o), LANES) +
            about * sum;
    }
}

static void copy(const struct xt_weight_copy *planned, const struct xt_graph *graph,
                 const float *from, const struct xt_buffer *to)
{
    struct xt_weight_copy some = *planned;
    some.from = from;
    some.to = to->data;
    graph->loops->copy_weights(&some, 0, xt_weight_copy_blocks(&some));
}

/* With z = W x + the bias: that is in d then. */
static void take_factors(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                         const float *factors, float *to)
{
    size_t out_c = (size_t)own->out_c;
    const float *bias = bias_of(own, graph);
    memcpy(to, factors, 3 * out_c * sizeof *to);
    for (size_t o = 0; o < out_c && bias; o++)
        to[2 * out_c + o] += factors[out_c + o] * bias[o];
}

/* The sum of dz. */
static void write_bias_grad(const struct xt_cpu_norm_grad *own, const struct numbers *numbers,
                            float *bias_grad)
{
    const struct xt_tensor *z = xt_op_out(&own->conv->op, 0);
    const float *factors = numbers->factors;
    size_t out_c = (size_t)own->out_c;
    double pixels = (double)z->n * z->h * z->w;
    for (size_t o = 0; o < out_c; o++) {
        double sum = times_row(own, numbers->weights, o, numbers->sum_of_x, 1);
        bias_grad[o] =
            (float)((double)factors[o] * (double)numbers->sum_of_da[o] +
                    (double)factors[out_c + o] * sum + (double)factors[2 * out_c + o] * pixels);
    }
}

/* Returns the sum of the squares of the weights' gradient. */
static double run_product(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                          const struct numbers *numbers)
{
    const struct xt_norm_product product = {.in_c = own->in_c,
                                            .out_c = own->out_c,
                                            .weights = numbers->weights,
                                            .products = numbers->products,
                                            .squares = numbers->squares,
                                            .sums = numbers->sum_of_x,
                                            .factors = numbers->factors,
                                            .weight_grad = numbers->weight_grad,
                                            .scaled = numbers->scaled,
                                            .through = numbers->through,
                                            .shift = numbers->shift};
    int parts = xt_norm_product_parts(&product);
    double squares[(XT_NORM_PRODUCT_CHANNELS_MAX + OUT_CHANNELS_MAX) / LANES];
    double square = 0;
#pragma omp parallel for schedule(static)
    for (int part = 0; part < parts; part++)
        squares[part] = graph->loops->norm_product(&product, part);
    for (int part = 0; part < parts; part++)
        square += squares[part];
    return square;
}

/* The share of x in both gradients. */
static void add_before(const struct xt_cpu_norm_grad *own, const struct numbers *numbers)
{
    const struct numbers before = numbers_in(own->before);
    size_t in_c = (size_t)own->in_c;
    for (size_t i = 0; i < in_c * in_c; i++)
        numbers->through[i] += before.through[i];
    for (size_t i = 0; i < in_c; i++)
        numbers->shift[i] += before.shift[i];
}

double xt_cpu_norm_grad_finish(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                               const float *factors, float *weight_grad, float *bias_grad)
{
    struct numbers numbers = numbers_in(own);
    if (!has_patches(own))
        numbers.weight_grad = weight_grad;
    take_factors(own, graph, factors, numbers.factors);
    if (bias_grad)
        write_bias_grad(own, &numbers, bias_grad);
    double square = run_product(own, graph, &numbers);
    if (has_patches(own)) {
        spread(own, numbers.weight_grad, weight_grad);
        return square;
    }
    copy(&own->copies[0], graph, numbers.scaled, own->matrices[0]);
    if (own->before)
        add_before(own, &numbers);
    if (!own->is_followed)
        copy(&own->copies[1], graph, numbers.through, own->matrices[1]);
    return square;
}

/* x times W' b W, plus W' d, with the gradient of another reader that is in memory. */
static void multiply_input(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                           const struct xt_slice *slice, void *to)
{
    const struct xt_op *op = &own->conv->op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    struct xt_tile_conv through = own->through;
    through.in = xt_tensor_sample(in, in->value, slice->first);
    through.out = to;
    through.weights = own->matrices[1]->data;
    through.bias = numbers_in(own).shift;
    through.adds = own->conv->adds_grad;
    through.added = xt_tensor_sample(in, xt_op_in_grad(op, 0), slice->first);
    graph->loops->tile_conv(&through, 0, through.units / through.n * slice->count,
                            xt_graph_loop_scratch(graph) + own->in_c);
}

static void input_grad(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                       const struct xt_slice *slice)
{
    struct xt_tile_conv job = own->input_grad;
    job.in = gradient_behind(own, graph, slice->first);
    job.weights = own->matrices[0]->data;
    if (!own->is_followed) {
        float *product = xt_graph_loop_scratch(graph) + loop_scratch(own) + own->room;
        multiply_input(own, graph, slice, product);
        job.adds = true;
        job.added = product;
    }
    xt_cpu_tile_conv_input_grad(&job, &own->conv->op, graph, slice);
}

void xt_cpu_norm_grad_slice(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                            const struct xt_slice *slice)
{
    struct xt_slice some = *slice;
    some.count = own->room ? 1 : slice->count;
    for (; !has_patches(own) && some.first < slice->first + slice->count; some.first += some.count)
        input_grad(own, graph, &some);
}
