/* A convolution: which loops compute its passes, where they are faster than oneDNN's primitives
 * (docs/notes/performance.md), and the ReLU's gradient with the sum of two readers' gradients in
 * one pass. The loops' own files are winograd.c, tile_conv.c, pointwise.c, pointwise_infer.c,
 * depthwise.c, depthwise_infer.c, weight_grad.c and data_grad.c; the program runs what they do not.
 */
#include "base/mem.h"
#include "engine/cpu/conv_norm.h"

struct state {
    enum { LOOPS, WINOGRAD, DEPTHWISE, DEPTHWISE_INFER, POINTWISE_INFER } by;
    struct xt_cpu_weight_grad weight_grad;
    struct xt_cpu_data_grad data_grad;
    bool by_pointwise; /* beside the loops for the weights' gradient */
    bool by_tiles;     /* likewise; or in inference */
    struct xt_cpu_pointwise pointwise;
    struct xt_cpu_tile_conv tiles;
    struct xt_cpu_conv_norm joined;
    struct xt_cpu_winograd winograd;
    struct xt_cpu_depthwise depthwise;
    struct xt_cpu_depthwise_infer depthwise_infer;
    struct xt_cpu_pointwise_infer pointwise_infer;
};

/* Whether loops of tiles compute it, from copies of weights in their gradient's format. */
static bool tiles_can(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    const struct xt_weight_grad job = xt_cpu_weight_grad_describe(conv);
    return xt_cpu_tile_conv_can(conv, graph) &&
           xt_cpu_weights_are(conv, graph, xt_cpu_weight_grad_format(&job));
}

/* Whether its backward pass is these loops', of any number of samples. */
static bool loops_can_all(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    return xt_op_learns(&conv->op, graph) && xt_cpu_weight_grad_loop(conv, graph) &&
           tiles_can(conv, graph) &&
           (!xt_op_in(&conv->op, 0)->wants_grad || xt_cpu_data_grad_can(conv, graph) ||
            xt_cpu_tile_conv_can_input_grad(conv));
}

/* Bytes of weights that stay in their cache beside a slice, in training with their sums. */
static size_t weights_most(const struct xt_graph *graph)
{
    enum { TRAINING = 640 << 10, INFERENCE = 1 << 20 };
    if (graph->options.training)
        return TRAINING;
    return graph->slices.of_last_cache ? graph->slices.bytes_most : INFERENCE;
}

/* If a slice fits in its cache together with weights and their sums, and every thread has work. A
 * norm's sums are formed within smaller slices by tiles alone, for which half the size is enough.
 */
static bool can_slice(const struct xt_op *op, struct xt_graph *graph, bool backward, int samples)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    int64_t weights = conv->kernel[0] * conv->kernel[1] * in->c * out->c / conv->groups;
    size_t slice = (xt_tensor_bytes(in) + xt_tensor_bytes(out)) / (size_t)in->n * (size_t)samples;
    bool training = graph->options.training;
    bool by_tiles = loops_can_all(conv, graph);
    size_t most = graph->slices.bytes_most / (by_tiles && samples > 1 ? 2 : 1);
    if (samples < graph->slices.samples && !by_tiles)
        return false;
    if (!graph->slices.even || (training && in->dtype != out->dtype) || slice > most ||
        (size_t)weights * xt_dtype_size(in->dtype) > weights_most(graph))
        return false;
    if (!backward || !xt_op_learns(op, graph))
        return !backward;
    return xt_cpu_winograd_can(conv, graph)
               ? conv->kernel[0] == 1 || conv->kernel[1] == 1
               : xt_cpu_weight_grad_loop(conv, graph) || xt_cpu_depthwise_can(conv, graph);
}

/* NULL: not run by Winograd's loops. */
static const struct xt_cpu_winograd *winograd_of(const struct xt_op *op)
{
    const struct state *state = op->own;
    return state && state->by == WINOGRAD ? &state->winograd : NULL;
}

/* NULL: not run by the loops for depthwise convolutions. */
static const struct xt_cpu_depthwise *depthwise_of(const struct xt_op *op)
{
    const struct state *state = op->own;
    return state && state->by == DEPTHWISE ? &state->depthwise : NULL;
}

/* NULL: not run by them in inference. */
static const struct xt_cpu_depthwise_infer *depthwise_infer_of(const struct xt_op *op)
{
    const struct state *state = op->own;
    return state && state->by == DEPTHWISE_INFER ? &state->depthwise_infer : NULL;
}

/* NULL: not run by the loops for 1x1 convolutions of inference. */
static const struct xt_cpu_pointwise_infer *pointwise_infer_of(const struct xt_op *op)
{
    const struct state *state = op->own;
    return state && state->by == POINTWISE_INFER ? &state->pointwise_infer : NULL;
}

/* NULL: it is not joined to the norm behind it. */
static const struct xt_cpu_conv_norm *joined_of(const struct xt_op *op)
{
    const struct state *state = op->own;
    return state && state->joined.conv ? &state->joined : NULL;
}

/* oneDNN's data gradient of a strided 1x1 takes twice as long as one without strides followed by
 * zero-insertion. */
static struct xt_buffer *read_grad_of(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    bool strided = conv->strides[0] > 1 || conv->strides[1] > 1;
    if (conv->kernel[0] != 1 || conv->kernel[1] != 1 || !strided || !xt_conv_is_even(conv) ||
        conv->pads[0] || conv->pads[1] || conv->groups > 1 || in->dtype != out->dtype ||
        !in->wants_grad || conv->op.by_slices[1] || !xt_op_learns(&conv->op, graph))
        return NULL;
    size_t count = xt_tensor_count(out) / (size_t)out->c * (size_t)in->c;
    return xt_graph_temporary(graph, out, count * xt_dtype_size(in->dtype),
                              xt_op_backward_time(graph, &conv->op));
}

/* ---- what tiles do beside ---- */

/* Whether loops of tiles compute its output in training. */
static bool trains_by_tiles(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    if (xt_cpu_winograd_can(conv, graph))
        return xt_cpu_winograd_leaves_to_tiles(conv, graph);
    return xt_op_learns(&conv->op, graph) && xt_cpu_weight_grad_loop(conv, graph) &&
           tiles_can(conv, graph);
}

/* Whether they compute its input's gradient. */
static bool learns_by_tiles(const struct xt_conv_op *conv, struct xt_graph *graph)
{
    bool by_others = !xt_cpu_winograd_can(conv, graph) && xt_cpu_data_grad_can(conv, graph);
    return trains_by_tiles(conv, graph) && !by_others && xt_op_in(&conv->op, 0)->wants_grad &&
           xt_cpu_tile_conv_can_input_grad(conv);
}

/* The place of its backward pass among the pieces. */
static size_t backward_piece(const struct xt_op *op, const struct xt_graph *graph)
{
    size_t i = 0;
    while (i < graph->slices.count[1] && graph->slices.pieces[1][i].op != op)
        i++;
    return i;
}

/* The readers of a ReLU's output, all of them such convolutions, and alike if they are two: the one
 * that runs last backward; NULL: it is not so. */
static struct xt_conv_op *last_of_readers(const struct xt_tensor *y, struct xt_graph *graph,
                                          struct xt_op_input *inputs[XT_READERS_MAX])
{
    struct xt_conv_op *last = NULL;
    int found = 0;
    for (int i = 0; i < graph->op_count; i++) {
        struct xt_conv_op *reader = (struct xt_conv_op *)graph->ops[i];
        if (reader->op.kind != &xt_kind_conv || xt_op_in(&reader->op, 0) != y)
            continue;
        if (found == XT_READERS_MAX || !learns_by_tiles(reader, graph))
            return NULL;
        inputs[found++] = &reader->op.inputs[0];
        if (!last || backward_piece(&reader->op, graph) > backward_piece(&last->op, graph))
            last = reader;
    }
    bool one = found == 1;
    bool two = found == 2 && graph->slices.workers && y->ring[0] == y->ring[1] &&
               last->strides[0] == 1 && last->strides[1] == 1;
    return found == y->readers && (one || two) ? last : NULL;
}

/* The last reader of a ReLU's output makes the gradient before it, as it writes the one behind or
 * adds it to the other reader's. Ops run alone, for tests, only where passes do not run by slices.
 */
static void leave_relu_to_reader(struct xt_conv_op *conv, struct xt_graph *graph)
{
    struct xt_tensor *y = xt_op_out(&conv->op, 0);
    struct xt_op_input *inputs[XT_READERS_MAX] = {NULL};
    conv->is_masked = false;
    if (!conv->relu || y->c % XT_TILE_CONV_CHANNELS || !graph->options.by_slices ||
        !xt_op_learns(&conv->op, graph))
        return;
    struct xt_conv_op *last = last_of_readers(y, graph, inputs);
    if (!last)
        return;
    last->masks_grad = conv->is_masked = true;
    last->adds_grad = y->readers > 1;
    for (int i = 0; i < y->readers; i++)
        inputs[i]->reader = 0;
    y->readers = 1;
}

static bool holds(const struct xt_op *op, struct xt_graph *graph, const struct xt_tensor *out)
{
    return xt_cpu_is_large(out) && out->c % XT_TILE_CONV_CHANNELS == 0 &&
           trains_by_tiles((const struct xt_conv_op *)op, graph);
}

static bool reads_held(const struct xt_op *op, struct xt_graph *graph)
{
    return trains_by_tiles((const struct xt_conv_op *)op, graph);
}

/* By slices and by these loops the weights' gradient comes before the input's. */
static bool writes_over(const struct xt_op *op, struct xt_graph *graph)
{
    return op->by_slices[1] || trains_by_tiles((const struct xt_conv_op *)op, graph);
}

bool xt_cpu_conv_forms_sums(const struct xt_op *op, struct xt_graph *graph, bool backward)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    if (op->kind != &xt_kind_conv || !xt_op_learns(op, graph))
        return false;
    int channels = backward ? xt_op_in(op, 0)->c : xt_op_out(op, 0)->c;
    if (channels % XT_TILE_CONV_CHANNELS == 0 &&
        (backward ? learns_by_tiles(conv, graph) : trains_by_tiles(conv, graph)))
        return true;
    return !xt_cpu_winograd_can(conv, graph) && xt_cpu_weight_grad_loop(conv, graph) &&
           xt_cpu_pointwise_can(conv, graph);
}

/* Another such convolution of the same input; NULL: there is none. Patches are a convolution's own.
 */
static struct xt_cpu_conv_norm *joined_beside(const struct xt_cpu_conv_norm *own,
                                              const struct xt_graph *graph)
{
    for (int i = 0; i < own->conv->op.index && !xt_cpu_conv_norm_has_patches(own); i++) {
        const struct xt_op *op = graph->ops[i];
        struct state *state = op->own;
        if (op->kind == &xt_kind_conv && state && state->joined.conv && !state->joined.before &&
            !state->joined.is_followed && xt_op_in(op, 0) == xt_op_in(&own->conv->op, 0))
            return &state->joined;
    }
    return NULL;
}

static void join_norm(struct state *state, struct xt_conv_op *conv, struct xt_graph *graph)
{
    struct xt_cpu_conv_norm *own = &state->joined;
    bool by_tiles = state->by_tiles && state->tiles.phase_count == 1 &&
                    state->weight_grad.job.flat && !state->weight_grad.job.turned;
    bool by_patches =
        state->weight_grad.job.turned &&
        xt_cpu_weights_are(conv, graph, xt_cpu_weight_grad_format(&state->weight_grad.job));
    const struct xt_cpu_tile_conv *tiles = by_tiles ? &state->tiles : NULL;
    const struct xt_op *norm = state->weight_grad.job.tiles && (by_tiles || by_patches)
                                   ? xt_cpu_conv_norm_find(conv, graph, tiles)
                                   : NULL;
    if (!norm)
        return;
    xt_cpu_conv_norm_describe(own, conv, norm, graph, tiles);
    struct xt_cpu_conv_norm *beside = joined_beside(own, graph);
    if (beside)
        xt_cpu_conv_norm_join(own, beside,
                              backward_piece(&conv->op, graph) <
                                  backward_piece(&beside->conv->op, graph));
    xt_cpu_conv_norm_plan(own, graph);
    conv->op.own_name[1] = "xtrain AMX, with the norm";
    conv->op.with_other[0] = own->rows > 0;
    conv->op.with_other[1] = true;
    if (own->rows) {
        conv->own[0] = true;
        conv->op.own_name[0] = conv->op.own_name[1];
    }
}

const struct xt_cpu_conv_norm *xt_cpu_conv_joined(const struct xt_op *conv,
                                                  const struct xt_op *norm)
{
    const struct xt_cpu_conv_norm *joined =
        conv && conv->kind == &xt_kind_conv ? joined_of(conv) : NULL;
    return joined && joined->norm == norm ? joined : NULL;
}

void xt_cpu_conv_prepare(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_conv_op *conv = (struct xt_conv_op *)op;
    struct state *state = NULL;
    op->own_name[0] = op->own_name[1] = NULL;
    bool by_winograd = xt_cpu_winograd_can(conv, graph);
    xt_weight_grad_loop *loop =
        !by_winograd && xt_op_learns(op, graph) ? xt_cpu_weight_grad_loop(conv, graph) : NULL;
    bool by_depthwise = xt_cpu_depthwise_can(conv, graph);
    bool by_depthwise_infer = xt_cpu_depthwise_infer_can(conv, graph);
    bool infers_by_tiles = xt_cpu_tile_conv_can_infer(conv, graph);
    bool by_pointwise_infer = !infers_by_tiles && xt_cpu_pointwise_infer_can(conv, graph);
    conv->own[0] = conv->own[1] = conv->own_weights = conv->own_weight_grad = false;
    leave_relu_to_reader(conv, graph);
    bool by_tiles = loop && tiles_can(conv, graph);
    conv->read_grad = by_tiles ? NULL : read_grad_of(conv, graph);
    if (loop || by_winograd || by_depthwise || by_depthwise_infer || infers_by_tiles ||
        by_pointwise_infer) {
        if (xt_mem_calloc(&state, 1, sizeof *state, op->name, &graph->err))
            return;
        state->by = by_depthwise         ? DEPTHWISE
                    : by_depthwise_infer ? DEPTHWISE_INFER
                    : by_winograd        ? WINOGRAD
                    : by_pointwise_infer ? POINTWISE_INFER
                                         : LOOPS;
        op->own = state;
    }
    if (loop) {
        xt_cpu_weight_grad_prepare(&state->weight_grad, conv, graph, loop);
        if (xt_cpu_data_grad_can(conv, graph))
            xt_cpu_data_grad_prepare(&state->data_grad, conv, graph);
        state->by_tiles = by_tiles;
        if (by_tiles) {
            xt_cpu_tile_conv_prepare(&state->tiles, conv, graph,
                                     xt_weight_grad_is_turned(&state->weight_grad.job),
                                     xt_op_in(op, 0)->wants_grad && !state->data_grad.weights &&
                                         xt_cpu_tile_conv_can_input_grad(conv));
            op->own_name[0] = "xtrain AMX";
            op->own_name[1] = conv->own[1] ? op->own_name[0] : op->own_name[1];
        }
        state->by_pointwise = xt_cpu_pointwise_can(conv, graph);
        if (state->by_pointwise) {
            xt_cpu_pointwise_prepare(&state->pointwise, conv, graph);
            op->own_name[0] = op->own_name[1];
        }
    } else if (by_winograd) {
        xt_cpu_winograd_prepare(&state->winograd, conv, graph);
        op->own_name[0] = op->own_name[1] = "xtrain Winograd";
        state->by_tiles = state->winograd.weights_alone;
        if (state->by_tiles) {
            xt_cpu_tile_conv_prepare(&state->tiles, conv, graph, false,
                                     xt_op_in(op, 0)->wants_grad);
            op->own_name[0] = "xtrain AMX";
            op->own_name[1] = "xtrain AMX, Winograd";
        }
    } else if (by_depthwise) {
        xt_cpu_depthwise_prepare(&state->depthwise, conv, graph);
        op->own_name[0] = op->own_name[1] = "xtrain depthwise";
    } else if (by_depthwise_infer) {
        xt_cpu_depthwise_infer_prepare(&state->depthwise_infer, conv, graph);
        op->own_name[0] = "xtrain depthwise";
    } else if (infers_by_tiles) {
        state->by_tiles = true;
        xt_cpu_tile_conv_prepare_inference(&state->tiles, conv, graph);
        op->own_name[0] = "xtrain AMX";
    } else if (by_pointwise_infer) {
        xt_cpu_pointwise_infer_prepare(&state->pointwise_infer, conv, graph);
        op->own_name[0] = xt_cpu_vectors_name(graph);
    }
    if (loop)
        join_norm(state, conv, graph);
    xt_kind_conv.describe(op, graph);
}

static void relu_backward(const struct xt_tensor *out, const struct xt_graph *graph, int n)
{
    graph->loops->relu_backward(out->dtype, xt_tensor_sample(out, out->value, n),
                                xt_tensor_sample(out, out->grad[0], n),
                                out->readers > 1 ? xt_tensor_sample(out, out->grad[1], n) : NULL,
                                xt_tensor_count(out) / (size_t)out->n);
}

/* The weights' gradient, and the input's if a loop computes it. */
static enum xt_status own_gradients(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    int n = xt_op_in(op, 0)->n;
    int each = (n + graph->options.device->threads - 1) / graph->options.device->threads;
    struct state *state = op->own;
    enum xt_status status = xt_cpu_weight_grad_backward(&state->weight_grad, op, graph, err);
    if (!status && state->by_pointwise)
        return xt_cpu_pointwise_backward(&state->pointwise, op, graph, err);
    if (status || !state->data_grad.weights)
        return status;
#pragma omp parallel for schedule(static)
    for (int first = 0; first < n; first += each)
        xt_cpu_data_grad_backward(&state->data_grad, op, graph, first,
                                  n - first < each ? n - first : each);
    return XT_OK;
}

static enum xt_status depthwise_forward(const struct xt_op *op, const struct xt_graph *graph,
                                        struct xt_err *err)
{
    const struct xt_cpu_depthwise *depthwise = depthwise_of(op);
    if (xt_cpu_depthwise_begin(depthwise, op, false, err))
        return err->status;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < xt_op_in(op, 0)->n; n++)
        xt_cpu_depthwise_forward(depthwise, op, graph, n);
    return XT_OK;
}

static enum xt_status depthwise_backward(const struct xt_op *op, const struct xt_graph *graph,
                                         struct xt_err *err)
{
    const struct xt_cpu_depthwise *depthwise = depthwise_of(op);
    if (xt_cpu_depthwise_begin(depthwise, op, true, err))
        return err->status;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < xt_op_in(op, 0)->n; n++)
        xt_cpu_depthwise_backward(depthwise, op, graph, n);
    return xt_cpu_depthwise_end(depthwise, op, graph, err);
}

enum xt_status xt_cpu_conv_refresh(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct state *state = op->own;
    if (state && state->by_tiles && !graph->options.training)
        xt_cpu_tile_conv_refresh(&state->tiles, graph);
    if (pointwise_infer_of(op))
        xt_cpu_pointwise_infer_refresh(pointwise_infer_of(op), (const struct xt_conv_op *)op,
                                       graph);
    if (depthwise_infer_of(op))
        xt_cpu_depthwise_infer_refresh(depthwise_infer_of(op), (const struct xt_conv_op *)op,
                                       graph);
    if (!winograd_of(op) || graph->options.training)
        return XT_OK;
    return xt_cpu_winograd_fold(&state->winograd, (const struct xt_conv_op *)op, graph, err);
}

enum xt_status xt_cpu_conv_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_cpu_winograd *winograd = winograd_of(op);
    const struct state *state = op->own;
    if (depthwise_of(op))
        return depthwise_forward(op, graph, err);
    if (state && state->by_pointwise)
        return xt_cpu_pointwise_forward(&state->pointwise, op, graph, err);
    if (state && state->by_tiles) {
        xt_cpu_tile_conv_forward(&state->tiles, op, graph, NULL);
        return XT_OK;
    }
    if (pointwise_infer_of(op)) {
        xt_cpu_pointwise_infer_forward(pointwise_infer_of(op), op, graph);
        return XT_OK;
    }
    if (depthwise_infer_of(op)) {
        xt_cpu_depthwise_infer_forward(depthwise_infer_of(op), op, graph);
        return XT_OK;
    }
    return winograd ? xt_cpu_winograd_forward(winograd, op, graph, err)
                    : xt_program_run(&op->program, XT_FORWARD, err);
}

static void insert_zeros(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    size_t pixel = (size_t)in->c * xt_dtype_size(in->dtype);
    size_t sample = (size_t)(out->h * out->w) * pixel;
    const int size[] = {in->h, in->w};
    const int strides[] = {(int)conv->strides[0], (int)conv->strides[1]};
#pragma omp parallel for schedule(static)
    for (int n = 0; n < in->n; n++)
        graph->loops->zero_insert((const char *)conv->read_grad->data + (size_t)n * sample, pixel,
                                  size, strides,
                                  xt_tensor_sample(in, xt_op_in_grad(&conv->op, 0), n));
}

enum xt_status xt_cpu_conv_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    const struct xt_cpu_winograd *winograd = winograd_of(op);
    const struct state *state = op->own;
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_status status = XT_OK;
    if (conv->relu && !conv->is_masked) {
#pragma omp parallel for schedule(static)
        for (int n = 0; n < out->n; n++)
            relu_backward(out, graph, n);
    }
    if (winograd)
        status = xt_cpu_winograd_backward(winograd, op, graph, err);
    else if (depthwise_of(op))
        status = depthwise_backward(op, graph, err);
    else if (state)
        status = own_gradients(op, graph, err);
    if (!status && state && state->by_tiles)
        xt_cpu_tile_conv_backward(&state->tiles, op, graph, NULL);
    if (!status)
        status = xt_program_run(&op->program, XT_BACKWARD, err);
    if (conv->read_grad && !status)
        insert_zeros(conv, graph);
    return status;
}

/* ---- by slices ---- */

static enum xt_status begin_slices(struct xt_op *op, struct xt_graph *graph, bool backward,
                                   bool second, struct xt_err *err)
{
    (void)second;
    if (depthwise_of(op))
        return xt_cpu_depthwise_begin(depthwise_of(op), op, backward, err);
    if (winograd_of(op))
        return xt_cpu_winograd_begin(winograd_of(op), op, graph, backward, err);
    struct state *state = op->own;
    const struct xt_cpu_conv_norm *joined = joined_of(op);
    if (!backward && joined)
        xt_cpu_conv_norm_begin_forward(joined, graph);
    if (!backward)
        return XT_OK;
    if (xt_cpu_weight_grad_place(&state->weight_grad, op, graph, err))
        return err->status;
    if (joined)
        xt_cpu_weight_grad_know_square(
            &state->weight_grad, (const struct xt_conv_op *)op, graph,
            xt_cpu_conv_norm_finish(joined, graph, xt_cpu_norm_factors(joined->norm),
                                    state->weight_grad.job.grad, state->weight_grad.job.bias_grad));
    return XT_OK;
}

/* Sums the workers' weight gradients; the program then only changes the format. */
static enum xt_status end_slices(struct xt_op *op, struct xt_graph *graph, bool backward,
                                 bool second, struct xt_err *err)
{
    const struct state *state = op->own;
    const struct xt_cpu_conv_norm *joined = joined_of(op);
    (void)second;
    if (!backward && joined)
        xt_cpu_conv_norm_end_forward(joined, graph);
    if (!backward)
        return XT_OK;
    if (depthwise_of(op))
        return xt_cpu_depthwise_end(depthwise_of(op), op, graph, err);
    if (winograd_of(op))
        return xt_cpu_winograd_end(winograd_of(op), op, graph, err);
    if (!joined)
        xt_cpu_weight_grad_add_up(&state->weight_grad, (const struct xt_conv_op *)op, graph);
    return xt_program_run(&op->program, XT_BACKWARD, err);
}

static enum xt_status forward_slice(struct xt_op *op, struct xt_graph *graph, bool second,
                                    const struct xt_slice *slice, struct xt_err *err)
{
    const struct xt_cpu_winograd *winograd = winograd_of(op);
    const struct xt_cpu_conv_norm *joined = joined_of(op);
    const struct state *state = op->own;
    (void)second;
    if (depthwise_of(op)) {
        for (int i = 0; i < slice->count; i++)
            xt_cpu_depthwise_forward(depthwise_of(op), op, graph, slice->first + i);
        return XT_OK;
    }
    if (pointwise_infer_of(op)) {
        xt_cpu_pointwise_infer_forward_slice(pointwise_infer_of(op), op, graph, slice);
        return XT_OK;
    }
    if (depthwise_infer_of(op)) {
        xt_cpu_depthwise_infer_forward_slice(depthwise_infer_of(op), op, graph, slice);
        return XT_OK;
    }
    if (joined)
        xt_cpu_conv_norm_add_input(joined, graph, slice);
    if (joined && joined->rows)
        return XT_OK;
    if (state && state->by_tiles) {
        xt_cpu_tile_conv_forward(&state->tiles, op, graph, slice);
        return XT_OK;
    }
    if (winograd)
        return xt_cpu_winograd_forward_slice(winograd, op, graph, slice, err);
    return xt_program_run_slice(&op->program, XT_FORWARD, slice->worker, slice->first, err);
}

static enum xt_status backward_slice(struct xt_op *op, struct xt_graph *graph, bool second,
                                     const struct xt_slice *slice, struct xt_err *err)
{
    const struct state *state = op->own;
    enum xt_status status = XT_OK;
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    (void)second;
    if (joined_of(op)) {
        xt_cpu_conv_norm_slice(joined_of(op), graph, slice);
        return XT_OK;
    }
    for (int i = 0; i < slice->count && conv->relu && !conv->is_masked; i++)
        relu_backward(xt_op_out(op, 0), graph, slice->first + i);
    if (depthwise_of(op)) {
        for (int i = 0; i < slice->count; i++)
            xt_cpu_depthwise_backward(depthwise_of(op), op, graph, slice->first + i);
        return XT_OK;
    }
    if (winograd_of(op))
        status = xt_cpu_winograd_backward_slice(winograd_of(op), op, graph, slice, err);
    else
        xt_cpu_weight_grad_slice(&state->weight_grad, op, slice);
    /* The input's gradient may lie where the input does, which the weights' gradient reads. */
    if (!status && state->by_tiles)
        xt_cpu_tile_conv_backward(&state->tiles, op, graph, slice);
    if (status || winograd_of(op))
        return status;
    if (state->data_grad.weights)
        xt_cpu_data_grad_backward(&state->data_grad, op, graph, slice->first, slice->count);
    return xt_program_run_slice(&op->program, XT_BACKWARD, slice->worker, slice->first, err);
}

const struct xt_by_slices xt_cpu_conv_by_slices = {.can = can_slice,
                                                   .begin = begin_slices,
                                                   .end = end_slices,
                                                   .forward = forward_slice,
                                                   .backward = backward_slice,
                                                   .holds = holds,
                                                   .reads_held = reads_held,
                                                   .writes_over = writes_over};
