/* Batch normalisation on an XPU: oneDNN's primitive with the ReLU in it, or, where a residual is
 * added in between, apart from it; then the pools.
 *
 * The running statistics follow the batch's for all norms at once (xpu_graph.c). */
#include "models/graph/xpu_ops.h"

static const char what_forward[] = "the batch norm";
static const char what_backward[] = "the batch norm's gradient";

/* What the two directions share. */
struct plan {
    struct norm *norm;
    struct xt_graph *graph;
    struct xt_xpu_program *program;
    bool learns;            /* a backward pass follows */
    bool own_stats;         /* of the batch; else the running ones */
    bool fused_relu;        /* within the primitive */
    unsigned flags;         /* of the primitive */
    struct xt_buffer *y;    /* before the pools */
    struct xt_buffer *relu; /* the fused ReLU's workspace */
    dnnl_primitive_desc_t hint;
    struct xt_xpu_pooling max, average;
};

static void plan_init(struct plan *plan, struct norm *norm, struct xt_graph *graph)
{
    bool training = graph->options.training;
    *plan = (struct plan){
        .norm = norm,
        .graph = graph,
        .program = norm->op.program,
        .learns = training && !norm->op.frozen,
        .own_stats = training && !norm->op.frozen && !graph->options.bn_frozen,
        .fused_relu = norm->spec.relu && !norm->spec.residual,
    };
    plan->flags = dnnl_use_scale | dnnl_use_shift;
    if (plan->fused_relu)
        plan->flags |= dnnl_fuse_norm_relu;
    if (!plan->own_stats)
        plan->flags |= dnnl_use_global_stats;
}

static enum xt_status use_buffers(struct plan *plan, struct xt_err *err)
{
    struct norm *norm = plan->norm;
    struct xt_graph *graph = plan->graph;
    int forward = xt_op_forward_time(&norm->op);
    int backward = xt_op_backward_time(graph, &norm->op);
    enum xt_status status = xt_graph_use_value(graph, norm->in, forward, err);
    if (!status && norm->spec.residual)
        status = xt_graph_use_value(graph, norm->spec.residual, forward, err);
    if (!status && plan->learns)
        status = xt_graph_use_value(graph, norm->in, backward, err);
    if (!status && plan->learns)
        status = xt_norm_share_gradients(norm, graph, err);
    if (!status)
        status = xt_norm_use_outputs(norm, graph, err);
    if (status)
        return status;
    plan->y = norm->full
                  ? norm->full->value
                  : xt_xpu_temporary(graph, norm->in, xt_tensor_bytes(norm->in), forward, err);
    if (!plan->y)
        return err->status;
    if (plan->learns && norm->spec.relu && !plan->fused_relu)
        xt_buffer_use(plan->y, backward);
    return XT_OK;
}

static enum xt_status describe(struct plan *plan, dnnl_primitive_desc_t *pd, bool backward,
                               struct xt_err *err)
{
    struct xt_xpu_operand in = xt_xpu_tensor(plan->norm->in, NULL);
    dnnl_engine_t engine = plan->program->device->engine;
    dnnl_memory_desc_t md = NULL;
    dnnl_primitive_attr_t attr = NULL;
    enum xt_status status = xt_xpu_attr(NULL, &attr, err);
    if (!status)
        status = xt_xpu_desc(&in, &md, err);
    if (!status && !backward)
        status = xt_dnnl_check(xt_dnnl.batch_normalization_forward_primitive_desc_create(
                                   pd, engine,
                                   plan->learns ? dnnl_forward_training : dnnl_forward_inference,
                                   md, md, (float)XT_BN_EPS, plan->flags, attr),
                               what_forward, err);
    if (!status && backward)
        status = xt_dnnl_check(xt_dnnl.batch_normalization_backward_primitive_desc_create(
                                   pd, engine, dnnl_backward, md, md, md, (float)XT_BN_EPS,
                                   plan->flags, plan->hint, attr),
                               what_backward, err);
    if (md)
        xt_dnnl.memory_desc_destroy(md);
    if (attr)
        xt_dnnl.primitive_attr_destroy(attr);
    return status;
}

static enum xt_status add_workspace(struct plan *plan, struct xt_err *err)
{
    const_dnnl_memory_desc_t md =
        xt_dnnl.primitive_desc_query_md(plan->hint, dnnl_query_workspace_md, 0);
    size_t bytes = md ? xt_dnnl.memory_desc_get_size(md) : 0;
    if (!bytes)
        return XT_OK;
    struct norm *norm = plan->norm;
    plan->relu = xt_graph_add_buffer(plan->graph, norm->op.name, "ReLU", bytes, err);
    if (!plan->relu)
        return err->status;
    xt_buffer_use(plan->relu, xt_op_forward_time(&norm->op));
    xt_buffer_use(plan->relu, xt_op_backward_time(plan->graph, &norm->op));
    return XT_OK;
}

static void add_statistics(const struct plan *plan, struct xt_xpu_step *step)
{
    const struct xt_norm_params *param = &plan->norm->param;
    const struct xt_graph *graph = plan->graph;
    xt_xpu_arg(step, DNNL_ARG_MEAN,
               plan->own_stats ? xt_xpu_batch_stat_of(graph, param->mean)
                               : xt_xpu_value_of(graph, param->mean));
    xt_xpu_arg(step, DNNL_ARG_VARIANCE,
               plan->own_stats ? xt_xpu_batch_stat_of(graph, param->var)
                               : xt_xpu_value_of(graph, param->var));
}

static enum xt_status prepare_norm(struct plan *plan, struct xt_err *err)
{
    const struct norm *norm = plan->norm;
    dnnl_primitive_desc_t pd = NULL;
    enum xt_status status = describe(plan, &pd, false, err);
    struct xt_xpu_step *step =
        status ? NULL : xt_xpu_add(plan->program, XT_XPU_FORWARD, pd, what_forward, err);
    if (!step)
        return err->status;
    plan->hint = pd;
    xt_xpu_arg(step, DNNL_ARG_SRC, xt_xpu_in_buffer(norm->in->value));
    xt_xpu_arg(step, DNNL_ARG_DST, xt_xpu_in_buffer(plan->y));
    xt_xpu_arg(step, DNNL_ARG_SCALE, xt_xpu_value_of(plan->graph, norm->param.scale));
    xt_xpu_arg(step, DNNL_ARG_SHIFT, xt_xpu_value_of(plan->graph, norm->param.shift));
    add_statistics(plan, step);
    if (!plan->learns)
        return XT_OK;
    status = add_workspace(plan, err);
    if (!status && plan->relu)
        xt_xpu_arg(step, DNNL_ARG_WORKSPACE, xt_xpu_in_buffer(plan->relu));
    return status;
}

static enum xt_status prepare_residual(struct plan *plan, struct xt_err *err)
{
    const struct norm *norm = plan->norm;
    if (!norm->spec.residual)
        return XT_OK;
    struct xt_xpu_operand y = xt_xpu_tensor(norm->in, plan->y);
    struct xt_xpu_operand residual = xt_xpu_tensor(norm->spec.residual, norm->spec.residual->value);
    struct xt_xpu_posts posts = {.count = norm->spec.relu,
                                 .items = {xt_xpu_then(dnnl_eltwise_relu, 0, 0)}};
    return xt_xpu_binary(plan->program, XT_XPU_FORWARD, dnnl_binary_add, &y, &residual, &y, &posts,
                         err);
}

static struct xt_xpu_pooling pooling_of(const struct plan *plan, const struct xt_tensor *out,
                                        const struct xt_window *window, bool average)
{
    return (struct xt_xpu_pooling){
        .in = plan->norm->in,
        .from = plan->y,
        .out = out,
        .window = window,
        .average = average,
        .training = plan->learns,
        .forward = xt_op_forward_time(&plan->norm->op),
        .backward = xt_op_backward_time(plan->graph, &plan->norm->op),
    };
}

static enum xt_status prepare_pools(struct plan *plan, struct xt_err *err)
{
    const struct norm *norm = plan->norm;
    enum xt_status status = XT_OK;
    plan->max = pooling_of(plan, norm->max, &norm->spec.max, false);
    plan->average = pooling_of(plan, norm->average, &norm->spec.average, true);
    if (norm->max)
        status = xt_xpu_pool_forward(plan->program, plan->graph, &plan->max, err);
    if (!status && norm->average)
        status = xt_xpu_pool_forward(plan->program, plan->graph, &plan->average, err);
    return status;
}

/* ---- backward ---- */

/* The buffer that gathers the gradient of y, and holds the one before the ReLU after it. */
static struct xt_buffer *gathered(const struct norm *norm)
{
    const struct xt_tensor *residual = norm->spec.residual;
    return residual ? residual->grad[norm->residual_reader] : norm->in->grad[norm->reader];
}

static enum xt_status add_to(const struct plan *plan, const struct xt_buffer *more,
                             struct xt_err *err)
{
    struct xt_xpu_operand sum = xt_xpu_tensor(plan->norm->in, gathered(plan->norm));
    struct xt_xpu_operand operand = xt_xpu_tensor(plan->norm->in, more);
    return xt_xpu_binary(plan->program, XT_XPU_BACKWARD, dnnl_binary_add, &sum, &operand, &sum,
                         NULL, err);
}

/* A pool's gradient, into the sum or added to what is there. */
static enum xt_status gather_pool(struct plan *plan, const struct xt_xpu_pooling *pool, bool first,
                                  struct xt_err *err)
{
    const struct norm *norm = plan->norm;
    const struct xt_tensor *out = pool->out;
    const struct xt_buffer *to =
        first ? gathered(norm)
              : xt_xpu_temporary(plan->graph, norm->in, xt_tensor_bytes(norm->in), pool->backward,
                                 err);
    if (!to)
        return err->status;
    enum xt_status status = XT_OK;
    if (out->readers > 1) {
        struct xt_xpu_operand a = xt_xpu_tensor(out, out->grad[0]);
        struct xt_xpu_operand b = xt_xpu_tensor(out, out->grad[1]);
        status =
            xt_xpu_binary(plan->program, XT_XPU_BACKWARD, dnnl_binary_add, &a, &b, &a, NULL, err);
    }
    if (!status)
        status = xt_xpu_pool_backward(plan->program, plan->graph, pool, out->grad[0], to, err);
    return status || first ? status : add_to(plan, to, err);
}

static enum xt_status gather(struct plan *plan, struct xt_err *err)
{
    const struct norm *norm = plan->norm;
    bool first = !norm->full;
    enum xt_status status = XT_OK;
    /* full's own first gradient lies in the sum already. */
    if (norm->full && norm->full->readers > 1)
        status = add_to(plan, norm->full->grad[1], err);
    if (!status && norm->max) {
        status = gather_pool(plan, &plan->max, first, err);
        first = false;
    }
    if (!status && norm->average)
        status = gather_pool(plan, &plan->average, first, err);
    return status;
}

static enum xt_status prepare_backward(struct plan *plan, struct xt_err *err)
{
    const struct norm *norm = plan->norm;
    enum xt_status status = gather(plan, err);
    if (!status && norm->spec.relu && !plan->fused_relu) {
        struct xt_xpu_operand y = xt_xpu_tensor(norm->in, plan->y);
        struct xt_xpu_operand sum = xt_xpu_tensor(norm->in, gathered(norm));
        status = xt_xpu_relu_backward(plan->program, &y, &sum, &sum, err);
    }
    dnnl_primitive_desc_t pd = NULL;
    if (!status)
        status = describe(plan, &pd, true, err);
    struct xt_xpu_step *step =
        status ? NULL : xt_xpu_add(plan->program, XT_XPU_BACKWARD, pd, what_backward, err);
    if (!step)
        return err->status;
    xt_xpu_arg(step, DNNL_ARG_SRC, xt_xpu_in_buffer(norm->in->value));
    xt_xpu_arg(step, DNNL_ARG_DIFF_DST, xt_xpu_in_buffer(gathered(norm)));
    xt_xpu_arg(step, DNNL_ARG_DIFF_SRC, xt_xpu_in_buffer(norm->in->grad[norm->reader]));
    xt_xpu_arg(step, DNNL_ARG_SCALE, xt_xpu_value_of(plan->graph, norm->param.scale));
    xt_xpu_arg(step, DNNL_ARG_DIFF_SCALE, xt_xpu_grad_of(plan->graph, norm->param.scale));
    xt_xpu_arg(step, DNNL_ARG_DIFF_SHIFT, xt_xpu_grad_of(plan->graph, norm->param.shift));
    add_statistics(plan, step);
    if (plan->relu)
        xt_xpu_arg(step, DNNL_ARG_WORKSPACE, xt_xpu_in_buffer(plan->relu));
    return XT_OK;
}

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct plan plan;
    enum xt_status status = xt_xpu_op_begin(op, graph, err);
    plan_init(&plan, (struct norm *)op, graph);
    if (!status)
        status = use_buffers(&plan, err);
    if (!status)
        status = prepare_norm(&plan, err);
    if (!status)
        status = prepare_residual(&plan, err);
    if (!status)
        status = prepare_pools(&plan, err);
    return status || !plan.learns ? status : prepare_backward(&plan, err);
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    return xt_xpu_program_implementation(op->program,
                                         is_backward ? XT_XPU_BACKWARD : XT_XPU_FORWARD,
                                         is_backward ? what_backward : what_forward);
}

const struct xt_op_class xt_xpu_norm = {
    .kind = "batch norm",
    .prepare = prepare,
    .forward = xt_xpu_op_forward,
    .backward = xt_xpu_op_backward,
    .implementation = implementation,
};
