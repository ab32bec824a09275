/* The backward pass of a joined convolution and norm (conv_norm.h). Where the norm would form its
 * sums, the products are summed; before the convolution's slices they become the weights' gradient
 * and the matrices that make the input's.
 */
#include <string.h>

#include "engine/cpu/conv_norm.h"

enum { LANES = XT_CONV_NORM_LANES };

/* What is computed of the sums over pixels (struct xt_norm_product). */
struct numbers {
    float *products, *weight_grad, *scaled; /* [out_c / 16][in_c][16] */
    float *through;                         /* [in_c / 16][in_c][16], behind `scaled` */
    float *shift;                           /* [in_c] */
    float *factors;                         /* [3][out_c] */
    float *sum_of_da;                       /* [out_c] */
};

size_t xt_cpu_conv_norm_numbers(const struct xt_cpu_conv_norm *own)
{
    size_t in_c = (size_t)own->in_c;
    size_t out_c = (size_t)own->out_c;
    return 3 * in_c * out_c + in_c * in_c + in_c + 4 * out_c;
}

static struct numbers numbers_in(const struct xt_cpu_conv_norm *own)
{
    size_t in_c = (size_t)own->in_c;
    size_t out_c = (size_t)own->out_c;
    struct numbers numbers = {.products = own->numbers->data};
    numbers.weight_grad = numbers.products + in_c * out_c;
    numbers.scaled = numbers.weight_grad + in_c * out_c;
    numbers.through = numbers.scaled + in_c * out_c;
    numbers.shift = numbers.through + in_c * in_c;
    numbers.factors = numbers.shift + in_c;
    numbers.sum_of_da = numbers.factors + 3 * out_c;
    return numbers;
}

/* P, with the sum of da. */
static struct xt_weight_grad products_of(const struct xt_cpu_conv_norm *own)
{
    const struct numbers numbers = numbers_in(own);
    struct xt_weight_grad job = own->products;
    job.scratch = own->scratch[0]->data;
    job.grad = numbers.products;
    job.bias_grad = numbers.sum_of_da;
    return job;
}

/* A sample's, or a slice's if it is in memory. */
static const void *gradient_behind(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                                   int n, int pixel)
{
    float *room = xt_graph_loop_scratch(graph) + xt_cpu_conv_norm_scratch(own);
    return xt_cpu_norm_gradient_behind(own->norm, graph, n, room, pixel);
}

void xt_cpu_conv_norm_add_gradient(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                                   int n)
{
    struct xt_weight_grad job = products_of(own);
    job.in = xt_cpu_conv_norm_input(own, graph, n);
    job.out_grad = gradient_behind(own, graph, n, own->out_c);
    job.adds = n % graph->slices.worker_samples > 0;
    job.near[0] = own->room > 0;
    job.near[1] = xt_cpu_conv_norm_has_patches(own);
    graph->loops->weight_grad(&job, n / graph->slices.worker_samples);
}

/* The product of row o of W and numbers that are `apart` from each other. */
static double times_row(const struct xt_cpu_conv_norm *own, const float *weights, size_t o,
                        const float *numbers, size_t apart)
{
    const float *row = weights + xt_cpu_conv_norm_row(own, o);
    double sum = 0;
    for (size_t i = 0; i < (size_t)own->in_c; i++)
        sum += (double)row[i * LANES] * (double)numbers[i * apart];
    return sum;
}

void xt_cpu_conv_norm_total(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                            const float *mean, double *totals)
{
    const struct numbers numbers = numbers_in(own);
    const float *weights = xt_cpu_conv_norm_kept(own).weights;
    const float *bias = xt_cpu_conv_norm_bias(own, graph);
    const struct xt_weight_grad job = products_of(own);
    size_t out_c = (size_t)own->out_c;
    graph->loops->weight_grad_sum(&job, 0, job.weights);
    for (size_t o = 0; o < out_c; o++) {
        double sum = (double)numbers.sum_of_da[o];
        double about = (bias ? (double)bias[o] : 0) - (double)mean[o];
        const float *row = numbers.products + xt_cpu_conv_norm_row(own, o);
        totals[o] = sum;
        totals[out_c + o] = times_row(own, weights, o, row, LANES) + about * sum;
    }
}

/* With z = W x + the bias: that is in d then. */
static void take_factors(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                         const float *factors, float *to)
{
    size_t out_c = (size_t)own->out_c;
    const float *bias = xt_cpu_conv_norm_bias(own, graph);
    memcpy(to, factors, 3 * out_c * sizeof *to);
    for (size_t o = 0; o < out_c && bias; o++)
        to[2 * out_c + o] += factors[out_c + o] * bias[o];
}

/* The parameter's gradient from the patches' matrix. */
static void spread(const struct xt_cpu_conv_norm *own, const float *from, float *to)
{
    memset(to, 0, xt_cpu_conv_norm_weights(own) * sizeof *to);
    for (size_t k = 0; k < xt_cpu_conv_norm_places(own); k++)
        for (size_t o = 0; o < (size_t)own->out_c; o++)
            to[xt_cpu_conv_norm_place(own, o, k)] = from[xt_cpu_conv_norm_row(own, o) + k * LANES];
}

/* The sum of dz. */
static void write_bias_grad(const struct xt_cpu_conv_norm *own, const struct numbers *numbers,
                            float *bias_grad)
{
    const struct xt_tensor *z = xt_op_out(&own->conv->op, 0);
    const struct xt_conv_norm_kept kept = xt_cpu_conv_norm_kept(own);
    const float *factors = numbers->factors;
    size_t out_c = (size_t)own->out_c;
    double pixels = (double)z->n * z->h * z->w;
    for (size_t o = 0; o < out_c; o++) {
        double sum = times_row(own, kept.weights, o, kept.sum_of_x, 1);
        bias_grad[o] =
            (float)((double)factors[o] * (double)numbers->sum_of_da[o] +
                    (double)factors[out_c + o] * sum + (double)factors[2 * out_c + o] * pixels);
    }
}

/* Returns the sum of the squares of the weights' gradient. */
static double run_product(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                          const struct numbers *numbers)
{
    const struct xt_conv_norm_kept kept = xt_cpu_conv_norm_kept(own);
    const struct xt_norm_product product = {.in_c = own->in_c,
                                            .out_c = own->out_c,
                                            .weights = kept.weights,
                                            .products = numbers->products,
                                            .squares = kept.squares,
                                            .sums = kept.sum_of_x,
                                            .factors = numbers->factors,
                                            .weight_grad = numbers->weight_grad,
                                            .scaled = numbers->scaled,
                                            .through = numbers->through,
                                            .shift = numbers->shift};
    int parts = xt_norm_product_parts(&product);
    double squares[(XT_NORM_PRODUCT_CHANNELS_MAX + XT_CONV_NORM_OUT_MAX) / LANES];
    double square = 0;
#pragma omp parallel for schedule(static)
    for (int part = 0; part < parts; part++)
        squares[part] = graph->loops->norm_product(&product, part);
    for (int part = 0; part < parts; part++)
        square += squares[part];
    return square;
}

/* The share of x in both gradients. */
static void add_before(const struct xt_cpu_conv_norm *own, const struct numbers *numbers)
{
    const struct numbers before = numbers_in(own->before);
    size_t in_c = (size_t)own->in_c;
    for (size_t i = 0; i < in_c * in_c; i++)
        numbers->through[i] += before.through[i];
    for (size_t i = 0; i < in_c; i++)
        numbers->shift[i] += before.shift[i];
}

double xt_cpu_conv_norm_finish(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                               const float *factors, float *weight_grad, float *bias_grad)
{
    struct numbers numbers = numbers_in(own);
    bool has_patches = xt_cpu_conv_norm_has_patches(own);
    if (!has_patches)
        numbers.weight_grad = weight_grad;
    take_factors(own, graph, factors, numbers.factors);
    if (bias_grad)
        write_bias_grad(own, &numbers, bias_grad);
    double square = run_product(own, graph, &numbers);
    if (has_patches) {
        spread(own, numbers.weight_grad, weight_grad);
        return square;
    }
    if (own->before)
        add_before(own, &numbers);
    xt_cpu_conv_norm_copy(own, graph, XT_CONV_NORM_INPUT_GRAD, numbers.scaled);
    if (!own->is_followed && !own->with_input)
        xt_cpu_conv_norm_copy(own, graph, XT_CONV_NORM_THROUGH, numbers.through);
    return square;
}

/* x times W' b W, plus W' d, with the gradient of another reader that is in memory. */
static void multiply_input(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                           const struct xt_slice *slice, void *to)
{
    const struct xt_op *op = &own->conv->op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    struct xt_tile_conv through = own->through;
    through.in = xt_tensor_sample(in, in->value, slice->first);
    through.out = to;
    through.weights = own->matrices[XT_CONV_NORM_THROUGH]->data;
    through.bias = numbers_in(own).shift;
    through.adds = own->conv->adds_grad;
    through.added = xt_tensor_sample(in, xt_op_in_grad(op, 0), slice->first);
    graph->loops->tile_conv(&through, 0, through.units / through.n * slice->count,
                            xt_graph_loop_scratch(graph) + own->in_c);
}

/* A sample of x beside the gradient that is there. */
static void put_input(const struct xt_cpu_conv_norm *own, int n, const void *behind)
{
    enum { LINE = 32 };
    const struct xt_tensor *x = xt_op_in(&own->conv->op, 0);
    const uint16_t *from = xt_tensor_sample(x, x->value, n);
    uint16_t *to = (uint16_t *)behind + own->out_c;
    for (int pixel = 0; pixel < x->h * x->w; pixel++, to += own->out_c + own->in_c)
        for (int i = 0; i < own->in_c; i += LINE, from += LINE)
            memcpy(to + i, from, LINE * sizeof *to);
}

static void input_grad(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                       const struct xt_slice *slice)
{
    struct xt_tile_conv job = own->input_grad;
    job.in = gradient_behind(own, graph, slice->first, job.in_c);
    job.weights = own->matrices[XT_CONV_NORM_INPUT_GRAD]->data;
    if (own->with_input) {
        put_input(own, slice->first, job.in);
        job.bias = numbers_in(own).shift;
    } else if (!own->is_followed) {
        float *product = xt_cpu_conv_norm_room(own, graph);
        multiply_input(own, graph, slice, product);
        job.adds = true;
        job.added = product;
    }
    xt_cpu_tile_conv_input_grad(&job, &own->conv->op, graph, slice);
}

void xt_cpu_conv_norm_slice(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                            const struct xt_slice *slice)
{
    struct xt_slice some = *slice;
    some.count = own->room ? 1 : slice->count;
    for (; !xt_cpu_conv_norm_has_patches(own) && some.first < slice->first + slice->count;
         some.first += some.count)
        input_grad(own, graph, &some);
}
