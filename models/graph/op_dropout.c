/* Dropout (Srivastava et al. 2014), in place. The mask is a function of seed, step, op and element,
 * so the backward pass makes it again instead of keeping it.
 */
#include "base/rng.h"
#include "models/graph/xpu_ops.h"

/* The output is the input's memory, and the same for the gradients. */
enum xt_status xt_dropout_use_buffers(struct dropout *dropout, struct xt_graph *graph,
                                      struct xt_err *err)
{
    struct xt_op *op = &dropout->op;
    enum xt_status status = xt_graph_use_value(graph, dropout->in, xt_op_forward_time(op), err);
    dropout->out->value = dropout->in->value;
    if (!status && graph->options.training && !op->frozen) {
        status = xt_graph_use_grad(graph, dropout->in, dropout->reader,
                                   xt_op_backward_time(graph, op), err);
        dropout->out->grad[0] = dropout->in->grad[dropout->reader];
    }
    return status;
}

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    return xt_dropout_use_buffers((struct dropout *)op, graph, err);
}

uint32_t xt_dropout_key(const struct dropout *dropout, const struct xt_graph_pass *pass, int n)
{
    uint64_t key = xt_rng_at(pass->seed, pass->step, (uint64_t)dropout->op.index);
    return (uint32_t)xt_rng_mix(key ^ (uint64_t)n);
}

uint32_t xt_dropout_threshold(const struct xt_graph_pass *pass)
{
    return (uint32_t)(pass->dropout * 4294967296.0);
}

static void run(const struct dropout *dropout, const struct xt_graph *graph, void *data)
{
    const struct xt_graph_pass *pass = &graph->pass;
    const struct xt_tensor *t = dropout->in;
    size_t sample = xt_tensor_count(t) / (size_t)t->n;
    size_t bytes = sample * xt_dtype_size(t->dtype);
    float factor = (float)(1 / (1 - pass->dropout));
#pragma omp parallel for schedule(static)
    for (int n = 0; n < t->n; n++) {
        char *at = (char *)data + (size_t)n * bytes;
        graph->loops->dropout(t->dtype, at, at, sample, xt_dropout_key(dropout, pass, n), 0,
                              xt_dropout_threshold(pass), factor);
    }
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    struct dropout *dropout = (struct dropout *)op;
    if (graph->pass.training && graph->pass.dropout > 0)
        run(dropout, graph, dropout->in->value->data);
    return XT_OK;
}

static enum xt_status backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    struct dropout *dropout = (struct dropout *)op;
    if (graph->pass.dropout > 0)
        run(dropout, graph, dropout->in->grad[dropout->reader]->data);
    return XT_OK;
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    (void)op;
    (void)is_backward;
    return "xtrain loops";
}

static const struct xt_op_class class_dropout = {
    .kind = "dropout",
    .prepare = prepare,
    .forward = forward,
    .backward = backward,
    .implementation = implementation,
};

struct xt_tensor *xt_graph_dropout(struct xt_graph *graph, struct xt_tensor *in, const char *name,
                                   struct xt_err *err)
{
    struct dropout *dropout = xt_graph_add_op(
        graph, sizeof *dropout, xt_on_xpu(graph) ? &xt_xpu_dropout : &class_dropout, name, err);
    if (!dropout)
        return NULL;
    dropout->in = in;
    dropout->reader = xt_graph_read(in, err);
    if (dropout->reader < 0)
        return NULL;
    dropout->out = xt_graph_add_tensor(graph, name, in->n, in->h, in->w, in->c, in->dtype, err);
    if (!dropout->out)
        return NULL;
    dropout->out->scale = in->scale;
    dropout->out->wants_grad = !dropout->op.frozen;
    dropout->out->one_reader = true;
    dropout->op.dtype = in->dtype;
    return dropout->out;
}
