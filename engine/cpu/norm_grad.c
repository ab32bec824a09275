/* The backward pass of a 1x1 convolution and the norm behind it by slices of bf16, without the
 * tensor between them (loops/norm_product_job.h). Where the norm would form its sums, the products
 * are summed; before the convolution's slices they become the weights' gradient and the matrices
 * that make the input's.
 */
#include <string.h>

#include "base/number.h"
#include "engine/cpu/cpu.h"
#include "engine/slices.h"

enum { LANES = 16, OUT_CHANNELS_MAX = 1024 };

/* What is computed of the sums over pixels (struct xt_norm_product); da's sum is [out_c]. */
struct numbers {
    float *products, *weights, *scaled, *squares, *through, *sum_of_x, *shift, *factors, *sum_of_da;
    float *weight_grad; /* the parameter's */
};

static size_t numbers_of(const struct xt_cpu_norm_grad *own)
{
    size_t in_c = (size_t)own->in_c;
    size_t out_c = (size_t)own->out_c;
    return 3 * in_c * out_c + 2 * in_c * in_c + 2 * in_c + 4 * out_c;
}

static struct numbers numbers_in(const struct xt_cpu_norm_grad *own)
{
    size_t in_c = (size_t)own->in_c;
    size_t out_c = (size_t)own->out_c;
    struct numbers numbers = {.products = own->numbers->data};
    numbers.weights = numbers.products + in_c * out_c;
    numbers.scaled = numbers.weights + in_c * out_c;
    numbers.squares = numbers.scaled + in_c * out_c;
    numbers.through = numbers.squares + in_c * in_c;
    numbers.sum_of_x = numbers.through + in_c * in_c;
    numbers.shift = numbers.sum_of_x + in_c;
    numbers.factors = numbers.shift + in_c;
    numbers.sum_of_da = numbers.factors + 3 * out_c;
    return numbers;
}

/* Where a matrix of in_c columns has row o, of column 0. */
static size_t row_at(const struct xt_cpu_norm_grad *own, size_t o)
{
    return o / LANES * LANES * (size_t)own->in_c + o % LANES;
}

/* Of few channels for each of the tensor between: that is what is saved, and the matrices cost. */
bool xt_cpu_norm_grad_can(const struct xt_conv_op *conv)
{
    const struct xt_tensor *x = xt_op_in(&conv->op, 0);
    const struct xt_tensor *z = xt_op_out(&conv->op, 0);
    return conv->op.by_slices[1] && x->dtype == XT_BF16 && !conv->relu && x->wants_grad &&
           x->c <= XT_NORM_PRODUCT_CHANNELS_MAX && z->c >= 2 * x->c && z->c <= OUT_CHANNELS_MAX &&
           z->readers == 1;
}

/* Of one sample at a time, which a worker adds to its sums. */
static struct xt_weight_grad plan_products(const struct xt_tensor *x, int out_c,
                                           const struct xt_graph *graph)
{
    struct xt_weight_grad job = {.n = 1,
                                 .h = x->h,
                                 .w = x->w,
                                 .in_c = x->c,
                                 .out_h = x->h,
                                 .out_w = x->w,
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

/* Floats of a loop's scratch, behind which is the product of a slice's x. */
static size_t loop_scratch(const struct xt_cpu_norm_grad *own)
{
    size_t one = xt_tile_conv_scratch(&own->input_grad);
    size_t other = xt_tile_conv_scratch(&own->through);
    size_t pivot = (size_t)own->in_c;
    return (pivot + (one > other ? one : other) + LANES - 1) / LANES * LANES;
}

void xt_cpu_norm_grad_prepare(struct xt_cpu_norm_grad *own, const struct xt_conv_op *conv,
                              const struct xt_tile_conv *input_grad, const struct xt_op *norm,
                              struct xt_graph *graph)
{
    const struct xt_tensor *x = xt_op_in(&conv->op, 0);
    int out_c = xt_op_out(&conv->op, 0)->c;
    size_t slice = xt_tensor_bytes(x) / (size_t)x->n * (size_t)conv->op.by_slices[1];
    *own = (struct xt_cpu_norm_grad){
        .conv = conv,
        .behind = xt_op_out(norm, XT_NORM_FULL),
        .in_c = x->c,
        .out_c = out_c,
        .products = plan_products(x, out_c, graph),
        .squares = plan_products(x, x->c, graph),
        .input_grad = *input_grad,
        .through = describe_through(input_grad),
        .copies = {describe_copy(out_c, x->c, false), describe_copy(x->c, x->c, true)},
    };
    own->scratch[0] = add_buffer(conv, norm, graph, xt_weight_grad_scratch(&own->products));
    own->scratch[1] = add_buffer(conv, norm, graph, xt_weight_grad_scratch(&own->squares));
    own->numbers = add_buffer(conv, norm, graph, numbers_of(own) * sizeof(float));
    for (int i = 0; i < 2; i++)
        own->matrices[i] = add_buffer(conv, norm, graph, xt_weight_copy_bytes(&own->copies[i]));
    xt_graph_want_scratch(graph, loop_scratch(own) + slice / sizeof(float));
    xt_buffer_use(x->value, xt_op_backward_time(graph, norm));
}

/* A worker's sums are in the scratch, or where they are added up. */
void xt_cpu_norm_grad_begin(const struct xt_cpu_norm_grad *own)
{
    memset(own->numbers->data, 0, numbers_of(own) * sizeof(float));
    memset(own->scratch[0]->data, 0, xt_weight_grad_scratch(&own->products));
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

void xt_cpu_norm_grad_add(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph, int n)
{
    const struct xt_tensor *x = xt_op_in(&own->conv->op, 0);
    int worker = n / graph->slices.worker_samples;
    for (int squares = 0; squares < 2; squares++) {
        struct xt_weight_grad job = job_of(own, squares);
        job.in = xt_tensor_sample(x, x->value, n);
        job.out_grad = squares ? job.in : xt_tensor_sample(own->behind, own->behind->grad[0], n);
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

/* As the convolution has them. */
static void round_weights(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                          float *to)
{
    struct xt_params *params = graph->options.params;
    const float *from = xt_params_value(params, &params->items[own->conv->weight]);
    for (size_t i = 0; i < (size_t)own->in_c * (size_t)own->out_c; i++)
        to[i] = xt_bf16_to_float((uint16_t)(xt_bf16_round(from[i]) >> 16));
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
    for (int squares = 0; squares < 2; squares++) {
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
    const struct xt_tensor *x = xt_op_in(&own->conv->op, 0);
    const float *factors = numbers->factors;
    size_t out_c = (size_t)own->out_c;
    double pixels = (double)x->n * x->h * x->w;
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

double xt_cpu_norm_grad_finish(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                               const float *factors, float *weight_grad, float *bias_grad)
{
    struct numbers numbers = numbers_in(own);
    numbers.weight_grad = weight_grad;
    take_factors(own, graph, factors, numbers.factors);
    if (bias_grad)
        write_bias_grad(own, &numbers, bias_grad);
    double square = run_product(own, graph, &numbers);
    copy(&own->copies[0], graph, numbers.scaled, own->matrices[0]);
    copy(&own->copies[1], graph, numbers.through, own->matrices[1]);
    return square;
}

void xt_cpu_norm_grad_slice(const struct xt_cpu_norm_grad *own, const struct xt_graph *graph,
                            const struct xt_slice *slice)
{
    const struct xt_op *op = &own->conv->op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    float *scratch = xt_graph_loop_scratch(graph);
    struct xt_tile_conv through = own->through;
    struct xt_tile_conv job = own->input_grad;
    through.in = xt_tensor_sample(in, in->value, slice->first);
    through.out = scratch + loop_scratch(own);
    through.weights = own->matrices[1]->data;
    through.bias = numbers_in(own).shift;
    through.adds = own->conv->adds_grad;
    through.added = xt_tensor_sample(in, xt_op_in_grad(op, 0), slice->first);
    graph->loops->tile_conv(&through, 0, through.units / through.n * slice->count,
                            scratch + own->in_c);
    job.in = xt_tensor_sample(own->behind, own->behind->grad[0], slice->first);
    job.weights = own->matrices[0]->data;
    job.adds = true;
    job.added = through.out;
    xt_cpu_tile_conv_input_grad(&job, op, graph, slice);
}
