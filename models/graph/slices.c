#include "models/graph/slices.h"

#include "base/system/thread.h"
#include "models/graph/backend.h"
#include "models/graph/recompute.h"

/* ---- what goes by slices ---- */

static const struct xt_by_slices *slices_of(const struct xt_graph *graph, const struct xt_op *op)
{
    const struct xt_override *override = xt_backend_override(graph->backend, op->kind);
    return override ? override->by_slices : NULL;
}

static bool is_norm(const struct xt_op *op)
{
    return op->kind == &xt_kind_norm;
}

static bool goes_by_slices(const struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    const struct xt_by_slices *by = slices_of(graph, op);
    return by && (!by->can || by->can(op, graph, backward));
}

static bool runs(const struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    return !backward || (xt_op_learns(op, graph) && op->kind->what[1]);
}

/* ---- stretches ---- */

static const struct xt_op *producer_of(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    for (int i = 0; i < graph->op_count; i++)
        for (int k = 0; k < graph->ops[i]->output_count; k++)
            if (graph->ops[i]->outputs[k] == tensor)
                return graph->ops[i];
    return NULL;
}

static const struct xt_op *reader_of(const struct xt_graph *graph, const struct xt_tensor *tensor,
                                     int reader)
{
    for (int i = 0; i < graph->op_count; i++)
        for (int k = 0; k < graph->ops[i]->input_count; k++)
            if (graph->ops[i]->inputs[k].tensor == tensor &&
                graph->ops[i]->inputs[k].reader == reader)
                return graph->ops[i];
    return NULL;
}

static bool is_done(const struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    return !op || !runs(graph, op, backward) || op->stretch[backward][1] >= 0;
}

/* What it reads has been written. */
static bool is_ready(const struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    for (int i = 0; i < op->input_count && !backward; i++)
        if (!is_done(graph, producer_of(graph, op->inputs[i].tensor), backward))
            return false;
    for (int i = 0; i < op->output_count && backward; i++)
        for (int r = 0; op->outputs[i] && r < op->outputs[i]->readers; r++)
            if (!is_done(graph, reader_of(graph, op->outputs[i], r), backward))
                return false;
    return true;
}

static void place(struct xt_slices *slices, struct xt_op *op, bool backward, int stretch)
{
    bool second = op->stretch[backward][0] >= 0;
    if (!second)
        op->stretch[backward][0] = stretch;
    if (second || !is_norm(op))
        op->stretch[backward][1] = stretch;
    slices->pieces[backward][slices->count[backward]++] =
        (struct xt_piece){.op = op, .second = second || !is_norm(op), .stretch = stretch};
}

/* One op that has to wait may be passed by: the two halves of a layer come together then. Where
 * memory is to be saved, each op is a stretch of its own: the same sums in less of it. */
static void fill_stretch(struct xt_graph *graph, bool backward, int stretch)
{
    enum { PASSED_MOST = 1 };
    const struct xt_slices *slices = &graph->slices;
    size_t most = graph->options.recompute ? slices->count[backward] + 1 : SIZE_MAX;
    int passed = 0;
    for (int i = 0; i < graph->op_count && passed <= PASSED_MOST; i++) {
        if (slices->count[backward] == most)
            return;
        struct xt_op *op = graph->ops[backward ? graph->op_count - 1 - i : i];
        if (is_done(graph, op, backward))
            continue;
        int first = op->stretch[backward][0];
        if (first < 0 ? is_ready(graph, op, backward) : first < stretch)
            place(&graph->slices, op, backward, stretch);
        else
            passed += first < 0;
    }
}

/* What runs whole is a stretch by itself, so that those before and behind it are two. */
static void split_at_whole(struct xt_graph *graph, bool backward)
{
    struct xt_piece *pieces = graph->slices.pieces[backward];
    bool whole = false;
    int before = 0;
    int stretch = 0;
    for (size_t i = 0; i < graph->slices.count[backward]; i++) {
        struct xt_op *op = pieces[i].op;
        bool ends = whole;
        whole = !op->by_slices[backward];
        stretch += i > 0 && (ends || whole || pieces[i].stretch != before);
        before = pieces[i].stretch;
        pieces[i].stretch = stretch;
        if (!pieces[i].second || !is_norm(op))
            op->stretch[backward][0] = stretch;
        if (pieces[i].second)
            op->stretch[backward][1] = stretch;
    }
    graph->slices.stretches[backward] = stretch + 1;
}

static void plan_direction(struct xt_graph *graph, bool backward)
{
    struct xt_slices *slices = &graph->slices;
    size_t pieces = 0;
    for (int i = 0; i < graph->op_count; i++) {
        struct xt_op *op = graph->ops[i];
        op->stretch[backward][0] = op->stretch[backward][1] = -1;
        if (runs(graph, op, backward))
            pieces += is_norm(op) ? 2 : 1;
    }
    for (; slices->count[backward] < pieces; slices->stretches[backward]++)
        fill_stretch(graph, backward, slices->stretches[backward]);
    split_at_whole(graph, backward);
}

/* Written and read within one stretch. */
static bool can_ring(const struct xt_graph *graph, const struct xt_tensor *tensor, int reader)
{
    const struct xt_op *writer = reader_of(graph, tensor, reader);
    const struct xt_op *producer = producer_of(graph, tensor);
    return writer && !is_norm(producer) && writer->by_slices[1] && producer->by_slices[1] &&
           runs(graph, producer, true) && writer->stretch[1][1] == producer->stretch[1][0];
}

bool xt_slices_read_at_once(const struct xt_graph *graph, const struct xt_op *norm, bool backward)
{
    int stretch = norm->stretch[backward][1];
    const struct xt_tensor *full = norm->outputs[XT_NORM_FULL];
    const struct xt_op *producer = producer_of(graph, norm->inputs[0].tensor);
    if (!graph->slices.lanes || backward)
        return graph->slices.lanes && producer && producer->stretch[1][0] == stretch;
    for (int r = 0; full && r < full->readers; r++)
        if (reader_of(graph, full, r)->stretch[0][0] == stretch)
            return true;
    return false;
}

/* A convolution makes its weights' gradient of its input, then that of the input; a norm asks for
 * its own input alone. */
static bool can_write_over(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    const struct xt_op *writer = reader_of(graph, tensor, 0);
    return writer && tensor->readers == 1 && writer->kind == &xt_kind_conv &&
           writer->by_slices[1] && is_norm(producer_of(graph, tensor));
}

/* ---- inference: all ops go by slices, or none does ---- */

/* Where an op writes over what it reads, the output that has that memory; else NULL. */
static const struct xt_tensor *written_in_place(const struct xt_op *op, const struct xt_tensor *in)
{
    bool residual =
        op->kind == &xt_kind_conv && ((const struct xt_conv_op *)op)->fold.residual == in;
    return residual || op->kind == &xt_kind_dropout ? op->outputs[0] : NULL;
}

/* Written and read, as is what lies in its memory later, within one stretch. */
static bool stays_in_stretch(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    const struct xt_op *producer = producer_of(graph, tensor);
    if (tensor == graph->logits || !producer->by_slices[0])
        return false;
    for (int i = 0; i < graph->op_count; i++)
        for (int k = 0; k < graph->ops[i]->input_count; k++) {
            const struct xt_op *op = graph->ops[i];
            if (xt_op_in(op, k) != tensor)
                continue;
            const struct xt_tensor *over = written_in_place(op, tensor);
            if (!op->by_slices[0] || op->stretch[0][1] != producer->stretch[0][1] ||
                (over && !stays_in_stretch(graph, over)))
                return false;
        }
    return true;
}

/* A context over the batch may stand between two stretches. */
static bool infers_by_slices(const struct xt_graph *graph)
{
    for (int i = 0; i < graph->op_count; i++)
        if (!graph->ops[i]->by_slices[0] && graph->ops[i]->kind != &xt_kind_context)
            return false;
    return graph->slices.even;
}

/* ---- the plan ---- */

/* Samples of a slice, where there are so many: 8 of int8, 4 of 16 bits, 2 of float32. */
static int samples_most(const struct xt_graph_options *options)
{
    enum { ELEMENT_BYTES = 8 }; /* of one number of all of them */
    return ELEMENT_BYTES / (int)xt_dtype_size(options->int8 ? XT_U8 : options->dtype);
}

void xt_slices_plan(struct xt_graph *graph)
{
    int most = samples_most(&graph->options);
    const struct xt_graph_options *options = &graph->options;
    struct xt_slices *slices = &graph->slices;
    int n = options->batch;
    int threads = options->device->threads;
    *slices = (struct xt_slices){.lanes = 0};
    /* Of inference the convolutions alone need each tensor whole. */
    if (!options->by_slices || !graph->backend->by_slices || (!options->training && options->floor))
        return;
    slices->samples = 1;
    while (slices->samples < most && n % (2 * slices->samples) == 0 &&
           n / (2 * slices->samples) >= threads)
        slices->samples *= 2;
    int count = n / slices->samples;
    int each = (count + threads - 1) / threads;
    slices->lane_samples = each * slices->samples;
    slices->lanes = (count + each - 1) / each;
    slices->even = 8 * each * threads <= 9 * count;
    for (int i = 0; i < graph->op_count; i++)
        for (int backward = 0; backward < 2; backward++)
            graph->ops[i]->by_slices[backward] =
                goes_by_slices(graph, graph->ops[i], backward != 0);
    if (!options->training && !infers_by_slices(graph)) {
        slices->lanes = 0;
        for (int i = 0; i < graph->op_count; i++)
            graph->ops[i]->by_slices[0] = false;
        return;
    }
    for (int backward = 0; backward < 2; backward++)
        plan_direction(graph, backward != 0);
    for (int i = 0; i < graph->tensor_count; i++) {
        struct xt_tensor *tensor = graph->tensors[i];
        tensor->value_ring = !options->training && stays_in_stretch(graph, tensor);
        tensor->written_over = options->training && can_write_over(graph, tensor);
        for (int r = 0; r < tensor->readers && options->training; r++)
            tensor->ring[r] = can_ring(graph, tensor, r);
    }
}

/* ---- lifetimes ---- */

/* The stretches in which an op of the time runs: those forward, the loss, those backward, the end.
 */
static void stretches_at(const struct xt_graph *graph, int time, int *first, int *last)
{
    const struct xt_slices *slices = &graph->slices;
    bool backward = time > graph->op_count;
    int loss = slices->stretches[0];
    int index = backward ? 2 * graph->op_count - time : time;
    if (index < 0 || index == graph->op_count) {
        *first = *last = index < 0 ? loss + slices->stretches[1] + 1 : loss;
        return;
    }
    const int *stretch = graph->ops[index]->stretch[backward];
    *first = stretch[0] + (backward ? loss + 1 : 0);
    *last = stretch[0] < 0 ? -1 : stretch[1] + (backward ? loss + 1 : 0);
}

/* The first stretch in which something of that time or later runs. */
static int again_at(const struct xt_graph *graph, int time)
{
    int from = 1 << 30;
    for (; time <= 2 * graph->op_count; time++) {
        int first = 0;
        int last = 0;
        stretches_at(graph, time, &first, &last);
        from = last >= 0 && first < from ? first : from;
    }
    return from;
}

/* The stretches of times [from, to]. */
static void stretches_of(const struct xt_graph *graph, int from, int to, int *first, int *last)
{
    *first = 1 << 30;
    *last = -1;
    for (int time = from; time <= to; time++) {
        int begin = 0;
        int end = 0;
        stretches_at(graph, time, &begin, &end);
        *first = end >= 0 && begin < *first ? begin : *first;
        *last = end > *last ? end : *last;
    }
}

void xt_slices_extend(const struct xt_graph *graph, struct xt_plan_item *items, size_t count)
{
    for (size_t i = 0; i < count && graph->slices.lanes; i++) {
        struct xt_plan_item *item = &items[i];
        int unused = 0;
        int rest = 0;
        int first = 0;
        if (item->again) {
            stretches_of(graph, item->first, item->rest, &first, &rest);
            stretches_of(graph, item->again, item->last, &unused, &item->last);
            item->again = again_at(graph, item->again);
            item->rest = rest;
        } else {
            stretches_of(graph, item->first, item->last, &first, &item->last);
        }
        item->first = first;
    }
}

/* ---- running ---- */

static enum xt_status say_which(enum xt_status status, const struct xt_op *op, struct xt_err *err)
{
    if (status)
        xt_err_prefix(err, "%s: ", op->name);
    return status;
}

/* The stretch's pieces on one slice. */
static enum xt_status run_slice(struct xt_graph *graph, struct xt_piece *pieces, size_t count,
                                bool backward, const struct xt_slice *slice, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    bool times = graph->profile && slice->lane == 0;
    double before = times ? xt_thread_seconds() : 0;
    for (size_t i = 0; i < count && !status; i++) {
        struct xt_op *op = pieces[i].op;
        const struct xt_by_slices *by = op->override->by_slices;
        if (backward)
            status = by->backward(op, graph, pieces[i].second, slice, err);
        else
            status = by->forward(op, graph, pieces[i].second, slice, err);
        say_which(status, op, err);
        if (times) {
            double now = xt_thread_seconds();
            pieces[i].seconds += now - before;
            before = now;
        }
        if (graph->watch.ran && pieces[i].second && !status)
            graph->watch.ran(graph->watch.context, op, backward);
    }
    return status;
}

static enum xt_status run_lane(struct xt_graph *graph, struct xt_piece *pieces, size_t count,
                               bool backward, int lane, struct xt_err *err)
{
    const struct xt_slices *slices = &graph->slices;
    int n = graph->options.batch;
    int first = lane * slices->lane_samples;
    int end = first + slices->lane_samples < n ? first + slices->lane_samples : n;
    enum xt_status status = XT_OK;
    for (int at = first; at < end && !status; at += slices->samples) {
        struct xt_slice slice = {.lane = lane,
                                 .first = at,
                                 .count = slices->samples,
                                 .begins = at == first,
                                 .ends = at + slices->samples >= end};
        status = run_slice(graph, pieces, count, backward, &slice, err);
    }
    return status;
}

/* Before the first slice and behind the last one, on the caller's thread. */
static enum xt_status prepare_or_finish(struct xt_graph *graph, const struct xt_piece *pieces,
                                        size_t count, bool backward, bool finish,
                                        struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        struct xt_op *op = pieces[i].op;
        const struct xt_by_slices *by = op->override->by_slices;
        double start = graph->profile ? xt_thread_seconds() : 0;
        if (!finish && by->begin)
            status = by->begin(op, graph, backward, pieces[i].second, err);
        if (finish && by->end)
            status = by->end(op, graph, backward, pieces[i].second, err);
        if (graph->profile)
            op->seconds[backward] += xt_thread_seconds() - start;
        say_which(status, op, err);
    }
    return status;
}

/* The first lane's times stand for all; what it waited for the others is shared out like them. */
static void share_out(struct xt_piece *pieces, size_t count, bool backward, double took)
{
    double lane = 0;
    for (size_t i = 0; i < count; i++)
        lane += pieces[i].seconds;
    for (size_t i = 0; i < count; i++) {
        pieces[i].op->seconds[backward] += lane > 0 ? pieces[i].seconds * took / lane : 0;
        pieces[i].seconds = 0;
    }
}

/* Where somebody watches, one lane after another. */
static enum xt_status run_pieces(struct xt_graph *graph, struct xt_piece *pieces, size_t count,
                                 bool backward, struct xt_err *err)
{
    int lanes = graph->slices.lanes;
    enum xt_status status = prepare_or_finish(graph, pieces, count, backward, false, err);
    if (status)
        return status;
    double start = graph->profile ? xt_thread_seconds() : 0;
#pragma omp parallel for schedule(static, 1) if (!graph->watch.ran)
    for (int lane = 0; lane < lanes; lane++) {
        struct xt_err own = {.status = XT_OK};
        if (run_lane(graph, pieces, count, backward, lane, &own)) {
#pragma omp critical
            if (!status) {
                *err = own;
                status = own.status;
            }
        }
    }
    if (graph->profile)
        share_out(pieces, count, backward, xt_thread_seconds() - start);
    return status ? status : prepare_or_finish(graph, pieces, count, backward, true, err);
}

static enum xt_status tell_team(struct xt_graph *graph, const struct xt_piece *pieces, size_t count,
                                struct xt_err *err)
{
    const struct xt_graph_team *team = graph->team;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status && team && team->learned; i++)
        if (pieces[i].second)
            status = team->learned(team->context, pieces[i].op, err);
    return status;
}

/* What the backward pass reads from a stretch on, and was not kept. */
static void make_again(struct xt_graph *graph, int stretch)
{
    for (int i = 0; i < graph->op_count; i++) {
        struct xt_op *op = graph->ops[i];
        if (op->again && again_at(graph, op->again) == graph->slices.stretches[0] + 1 + stretch)
            xt_op_make_again(op, graph);
    }
}

enum xt_status xt_slices_run(struct xt_graph *graph, bool backward, xt_slices_whole *whole,
                             struct xt_err *err)
{
    struct xt_slices *slices = &graph->slices;
    struct xt_piece *pieces = slices->pieces[backward];
    enum xt_status status = XT_OK;
    for (size_t i = 0, next = 0; i < slices->count[backward] && !status; i = next) {
        for (next = i + 1;
             next < slices->count[backward] && pieces[next].stretch == pieces[i].stretch;)
            next++;
        if (backward)
            make_again(graph, pieces[i].stretch);
        if (!pieces[i].op->by_slices[backward])
            status = whole(graph, pieces[i].op, backward, err);
        else
            status = run_pieces(graph, &pieces[i], next - i, backward, err);
        if (!status && backward)
            status = tell_team(graph, &pieces[i], next - i, err);
    }
    return status;
}
