#include "train/watch/nonfinite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine/executor.h"

struct search {
    struct xt_network *network;
    float *values; /* of one buffer */
    size_t room;
    char *text;
    size_t size;
};

static bool is_found(const struct search *search)
{
    return *search->text != '\0';
}

static size_t count_bad(const float *values, size_t count)
{
    size_t bad = 0;
    for (size_t i = 0; i < count; i++)
        bad += isfinite(values[i]) ? 0 : 1;
    return bad;
}

/* Reports the first find only. */
static void judge(struct search *search, const float *values, size_t count, const char *what,
                  const char *name, const char *kind)
{
    size_t bad = is_found(search) ? 0 : count_bad(values, count);
    if (bad)
        snprintf(search->text, search->size, "%s %.64s%s%s%s, %zu of %zu numbers", what, name,
                 *kind ? " (" : "", kind, *kind ? ")" : "", bad, count);
}

static void judge_buffer(struct search *search, const struct xt_tensor *tensor,
                         const struct xt_buffer *buffer, const char *what, const struct xt_op *op)
{
    struct xt_err none;
    size_t count = xt_tensor_count(tensor);
    if (!buffer || is_found(search))
        return;
    /* A ring holds only the samples of the worker's last slice. */
    struct xt_buffer part = *buffer;
    if (buffer->ring) {
        part.bytes = buffer->worker_bytes;
        part.data =
            (char *)buffer->data + part.bytes * (size_t)search->network->graph->watch.worker;
        count = part.bytes / xt_dtype_size(tensor->dtype);
    }
    if (count > search->room) {
        free(search->values);
        search->values = NULL;
        search->room = 0;
        if (xt_mem_aligned(&search->values, count, sizeof(float), "a tensor to examine", &none))
            return;
        search->room = count;
    }
    if (xt_graph_read_back(search->network->graph, &part, tensor->dtype, search->values, count,
                           &none) == XT_OK)
        judge(search, search->values, count, what, op->name, xt_op_kind_name(op));
}

/* Checks these parameters' values or gradients if they are trained, or the statistics. */
static void judge_params(struct search *search, const int *indices, int count, bool gradients,
                         bool statistics, const char *what)
{
    struct xt_params *params = &search->network->params;
    for (int i = 0; i < count; i++) {
        const struct xt_param *param = &params->items[indices ? indices[i] : i];
        if (xt_param_is_statistic(param) != statistics || param->role == XT_PARAM_BN_COUNT)
            continue;
        judge(search, gradients ? xt_params_grad(params, param) : xt_params_value(params, param),
              xt_param_floats(param), what, param->name, "");
    }
}

static void ran(void *context, const struct xt_op *op, bool backward)
{
    struct search *search = context;
    for (int i = 0; i < op->output_count && !backward; i++)
        if (op->outputs[i])
            judge_buffer(search, op->outputs[i], op->outputs[i]->value, "the output of", op);
    bool host = !search->network->device.own_memory;
    if (!backward && host)
        judge_params(search, op->params, op->param_count, false, true, "the running statistic");
    if (backward && host)
        judge_params(search, op->params, op->param_count, true, false, "the gradient of");
    for (int i = 0; i < op->input_count && backward; i++)
        judge_buffer(search, op->inputs[i].tensor, op->inputs[i].tensor->grad[op->inputs[i].reader],
                     "the gradient that goes back from", op);
}

static enum xt_status run_backward(struct search *search, struct xt_loss *trained_for,
                                   const struct xt_batch *batch, const struct xt_scaler *scaler,
                                   struct xt_err *err)
{
    struct xt_graph *graph = search->network->graph;
    struct xt_params *params = &search->network->params;
    size_t count = xt_tensor_count(graph->logits);
    float *grad = xt_graph_logits_grad(graph);
    double loss = xt_loss_mean(trained_for, batch, xt_graph_logits(graph), grad);
    if (!isfinite(loss))
        snprintf(search->text, search->size, "the loss itself, of logits that are finite");
    xt_scaler_apply(scaler, grad, count);
    judge(search, grad, count, "the gradient of the", "logits", "");
    enum xt_status status = is_found(search) ? XT_OK : xt_graph_backward(graph, err);
    /* An XPU's are transferred together. */
    if (!status && !is_found(search))
        status = xt_params_pull_grads(params, err);
    if (!status)
        judge_params(search, NULL, params->count, true, false, "the gradient of");
    return status;
}

void xt_nonfinite_find(struct xt_network *network, struct xt_loss *trained_for,
                       const struct xt_batch *batch, const struct xt_scaler *scaler, char *text,
                       size_t size)
{
    struct search search = {.network = network, .text = text, .size = size};
    struct xt_graph *graph = network->graph;
    struct xt_err none;
    *text = '\0';
    if (xt_params_pull(&network->params, &none))
        return;
    judge_params(&search, NULL, network->params.count, false, false, "the weights");
    judge_params(&search, NULL, network->params.count, false, true, "the running statistic");
    graph->watch = (struct xt_graph_watch){.ran = ran, .context = &search};
    graph->pass.keeps_logits = false;
    if (!is_found(&search) && xt_graph_forward(graph, &none) == XT_OK && !is_found(&search))
        run_backward(&search, trained_for, batch, scaler, &none);
    graph->watch = (struct xt_graph_watch){.ran = NULL};
    free(search.values);
}
