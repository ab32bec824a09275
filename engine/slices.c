#include "engine/slices.h"

#include "base/system/thread.h"
#include "engine/backend.h"
#include "engine/recompute.h"

/* ---- ops that run by slices ---- */

static const struct xt_by_slices *slices_of(const struct xt_graph *graph, const struct xt_op *op)
{
    const struct xt_override *override = xt_backend_override(graph->backend, op->kind);
    return override ? override->by_slices : NULL;
}

static bool is_norm(const struct xt_op *op)
{
    return op->kind == &xt_kind_norm;
}

/* A constant is one for all samples, windows are several of each. */
static bool has_samples(const struct xt_graph *graph, const struct xt_op *op)
{
    for (int i = 0; i < op->input_count; i++)
        if (xt_op_in(op, i)->n != graph->options.batch)
            return false;
    for (int i = 0; i < op->output_count; i++)
        if (op->outputs[i] && xt_op_out(op, i)->n != graph->options.batch)
            return false;
    return true;
}

/* The most samples of its slices; 0: it runs whole. */
static int samples_of(struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    const struct xt_by_slices *by = slices_of(graph, op);
    int samples = graph->slices.samples;
    for (int i = 0; i < op->param_count && backward; i++)
        if (xt_op_adds_grad(graph, op, op->params[i]))
            return 0;
    if (!by || !has_samples(graph, op))
        return 0;
    while (samples > 0 && by->can && !by->can(op, graph, backward, samples))
        samples /= 2;
    return samples;
}

/* A norm by slices: its sums, then what uses them. */
static bool has_halves(const struct xt_op *op, bool backward)
{
    return is_norm(op) && op->by_slices[backward];
}

static bool runs(const struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    return !backward || (xt_op_learns(op, graph) && op->kind->what[1]);
}

/* ---- segments ---- */

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
    return !op || !runs(graph, op, backward) || op->segment[backward][1] >= 0;
}

/* Ops that have a parameter in common keep their order. */
static bool is_in_turn(const struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    int end = backward ? graph->op_count : op->index;
    for (int i = backward ? op->index + 1 : 0; i < end; i++)
        for (int p = 0; p < op->param_count && !is_done(graph, graph->ops[i], backward); p++)
            if (xt_op_takes(graph->ops[i], op->params[p]))
                return false;
    return true;
}

/* Its inputs have been written. */
static bool is_ready(const struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    for (int i = 0; i < op->input_count && !backward; i++)
        if (!is_done(graph, xt_graph_writer(graph, op->inputs[i].tensor), backward))
            return false;
    for (int i = 0; i < op->output_count && backward; i++)
        for (int r = 0; op->outputs[i] && r < op->outputs[i]->readers; r++)
            if (!is_done(graph, reader_of(graph, op->outputs[i], r), backward))
                return false;
    return is_in_turn(graph, op, backward);
}

static void place(struct xt_slices *slices, struct xt_op *op, bool backward, int segment)
{
    bool second = op->segment[backward][0] >= 0;
    if (!second)
        op->segment[backward][0] = segment;
    if (second || !has_halves(op, backward))
        op->segment[backward][1] = segment;
    slices->pieces[backward][slices->count[backward]++] = (struct xt_piece){
        .op = op, .second = second || !has_halves(op, backward), .segment = segment};
}

/* One op that has to wait may be overtaken, which joins the two halves of a layer. */
static void fill_segment(struct xt_graph *graph, bool backward, int segment, bool alone)
{
    enum { PASSED_MOST = 1 };
    const struct xt_slices *slices = &graph->slices;
    size_t most = alone ? slices->count[backward] + 1 : SIZE_MAX;
    int passed = 0;
    for (int i = 0; i < graph->op_count && passed <= PASSED_MOST; i++) {
        if (slices->count[backward] == most)
            return;
        struct xt_op *op = graph->ops[backward ? graph->op_count - 1 - i : i];
        if (is_done(graph, op, backward))
            continue;
        int first = op->segment[backward][0];
        if (first < 0 ? is_ready(graph, op, backward) : first < segment)
            place(&graph->slices, op, backward, segment);
        else
            passed += first < 0;
    }
}

/* An op that runs whole is a segment of its own and separates its neighbours. */
static void split_at_whole(struct xt_graph *graph, bool backward)
{
    struct xt_piece *pieces = graph->slices.pieces[backward];
    bool whole = false;
    int before = 0;
    int segment = 0;
    for (size_t i = 0; i < graph->slices.count[backward]; i++) {
        struct xt_op *op = pieces[i].op;
        bool ends = whole;
        whole = !op->by_slices[backward];
        segment += i > 0 && (ends || whole || pieces[i].segment != before);
        before = pieces[i].segment;
        pieces[i].segment = segment;
        if (!pieces[i].second || !has_halves(op, backward))
            op->segment[backward][0] = segment;
        if (pieces[i].second)
            op->segment[backward][1] = segment;
    }
    graph->slices.segments[backward] = segment + 1;
}

/* `alone`: each op is a segment of its own. */
static void plan_direction(struct xt_graph *graph, bool backward, bool alone)
{
    struct xt_slices *slices = &graph->slices;
    size_t pieces = 0;
    slices->count[backward] = 0;
    slices->segments[backward] = 0;
    for (int i = 0; i < graph->op_count; i++) {
        struct xt_op *op = graph->ops[i];
        op->segment[backward][0] = op->segment[backward][1] = -1;
        if (runs(graph, op, backward))
            pieces += has_halves(op, backward) ? 2 : 1;
    }
    for (; slices->count[backward] < pieces; slices->segments[backward]++)
        fill_segment(graph, backward, slices->segments[backward], alone);
    split_at_whole(graph, backward);
}

/* ---- the samples of a segment's slices ---- */

/* The piece behind the last one of piece i's segment. */
static size_t segment_end(const struct xt_slices *slices, bool backward, size_t i)
{
    const struct xt_piece *pieces = slices->pieces[backward];
    size_t end = i + 1;
    while (end < slices->count[backward] && pieces[end].segment == pieces[i].segment)
        end++;
    return end;
}

/* As many as the op that takes the fewest; a norm takes them one by one. */
static int fewest_samples(const struct xt_slices *slices, bool backward, size_t first, size_t end)
{
    int samples = slices->samples;
    for (size_t i = first; i < end; i++) {
        const struct xt_op *op = slices->pieces[backward][i].op;
        if (!is_norm(op) && op->by_slices[backward] < samples)
            samples = op->by_slices[backward];
    }
    return samples;
}

/* An op has the same primitives forward and backward. Whether anything changed. */
static bool set_samples(struct xt_graph *graph, bool backward, size_t first, size_t end)
{
    struct xt_piece *pieces = graph->slices.pieces[backward];
    int samples = fewest_samples(&graph->slices, backward, first, end);
    bool changed = false;
    for (size_t i = first; i < end; i++) {
        int *own = pieces[i].op->by_slices;
        pieces[i].samples = samples;
        for (int b = 0; b < 2 && !is_norm(pieces[i].op); b++) {
            changed = changed || own[b] > samples;
            own[b] = own[b] < samples ? own[b] : samples;
        }
    }
    return changed;
}

static void agree_on_samples(struct xt_graph *graph)
{
    const struct xt_slices *slices = &graph->slices;
    bool changed = true;
    while (changed) {
        changed = false;
        for (int backward = 0; backward < 2; backward++)
            for (size_t i = 0, end = 0; i < slices->count[backward]; i = end) {
                end = segment_end(slices, backward, i);
                if (slices->pieces[backward][i].op->by_slices[backward])
                    changed |= set_samples(graph, backward, i, end);
            }
    }
}

/* Written and read within one segment. */
static bool can_ring(const struct xt_graph *graph, const struct xt_tensor *tensor, int reader)
{
    const struct xt_op *writer = reader_of(graph, tensor, reader);
    const struct xt_op *producer = xt_graph_writer(graph, tensor);
    return writer && !is_norm(producer) && writer->by_slices[1] && producer->by_slices[1] &&
           runs(graph, producer, true) && writer->segment[1][1] == producer->segment[1][0];
}

bool xt_slices_read_at_once(const struct xt_graph *graph, const struct xt_op *norm, bool backward)
{
    int segment = norm->segment[backward][1];
    const struct xt_tensor *full = norm->outputs[XT_NORM_FULL];
    const struct xt_op *producer = xt_graph_writer(graph, norm->inputs[0].tensor);
    if (!graph->slices.workers || backward)
        return graph->slices.workers && producer && producer->segment[1][0] == segment;
    for (int r = 0; full && r < full->readers; r++)
        if (reader_of(graph, full, r)->segment[0][0] == segment)
            return true;
    return false;
}

/* NULL: nobody, or several. */
static const struct xt_op *only_reader(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    return tensor->readers == 1 ? reader_of(graph, tensor, 0) : NULL;
}

/* A norm needs only its own input. A dropout's input and output share the memory of their
 * gradient, and that of their values is free once the output's reader has used it. */
static bool can_write_over(struct xt_graph *graph, const struct xt_tensor *tensor)
{
    const struct xt_op *writer = only_reader(graph, tensor);
    while (writer && writer->kind == &xt_kind_dropout)
        writer = only_reader(graph, xt_op_out(writer, 0));
    if (!writer || !is_norm(xt_graph_writer(graph, tensor)) || !runs(graph, writer, true))
        return false;
    const struct xt_by_slices *by = slices_of(graph, writer);
    return by && by->writes_over && by->writes_over(writer, graph);
}

/* ---- values that are held for their segment ---- */

/* Rings of a segment, which its tensors take in turn: how many, and the bytes of a worker's that
 * stay in L2 beside what else is read and written. */
enum { RINGS_MOST = 4, RING_BYTES_MOST = 1 << 20 };
struct rings {
    int count;
    struct xt_buffer *buffers[RINGS_MOST];
    size_t last[RINGS_MOST]; /* the piece that reads it last */
};

static bool reads(const struct xt_op *op, const struct xt_tensor *tensor)
{
    for (int i = 0; i < op->input_count; i++)
        if (xt_op_in(op, i) == tensor)
            return true;
    return false;
}

/* The last piece before `end` that reads what piece i writes; i: none does, or one not from a ring.
 */
static size_t last_reader(struct xt_graph *graph, size_t i, size_t end,
                          const struct xt_tensor *tensor)
{
    size_t last = i;
    for (size_t k = i + 1; k < end; k++) {
        const struct xt_op *op = graph->slices.pieces[0][k].op;
        const struct xt_by_slices *by = slices_of(graph, op);
        if (!reads(op, tensor))
            continue;
        if (!by->reads_held || !by->reads_held(op, graph))
            return i;
        last = k;
    }
    return last;
}

/* One that nobody reads from piece i on; NULL: none is left. */
static struct xt_buffer *take_ring(struct xt_graph *graph, struct rings *rings, size_t i,
                                   size_t last)
{
    int at = 0;
    while (at < rings->count && rings->last[at] >= i)
        at++;
    if (at == RINGS_MOST)
        return NULL;
    if (at == rings->count) {
        struct xt_buffer *ring = xt_graph_add_buffer(graph, "slices", "held values", 0);
        if (!ring)
            return NULL;
        ring->ring = graph->slices.pieces[0][i].samples;
        ring->worker_samples = graph->slices.worker_samples;
        rings->buffers[rings->count++] = ring;
    }
    rings->last[at] = last;
    return rings->buffers[at];
}

static void hold_value(struct xt_graph *graph, struct rings *rings, size_t i, size_t last,
                       struct xt_tensor *tensor)
{
    const struct xt_piece *pieces = graph->slices.pieces[0];
    size_t bytes = xt_tensor_sample_bytes(tensor) * (size_t)pieces[i].samples;
    struct xt_buffer *ring = bytes <= RING_BYTES_MOST ? take_ring(graph, rings, i, last) : NULL;
    if (!ring)
        return;
    ring->worker_bytes = bytes > ring->worker_bytes ? bytes : ring->worker_bytes;
    ring->bytes = ring->worker_bytes * (size_t)graph->slices.workers;
    xt_buffer_use(ring, xt_op_forward_time(pieces[i].op));
    xt_buffer_use(ring, xt_op_forward_time(pieces[last].op));
    tensor->held = ring;
    tensor->held_in = pieces[i].segment;
}

static void hold_values(struct xt_graph *graph)
{
    const struct xt_slices *slices = &graph->slices;
    struct rings rings = {.count = 0};
    for (size_t i = 0, end = 0; i < slices->count[0]; i++) {
        const struct xt_piece *piece = &slices->pieces[0][i];
        const struct xt_by_slices *by = slices_of(graph, piece->op);
        if (i == end) {
            end = segment_end(slices, false, i);
            rings.count = 0;
        }
        if (!piece->second || !piece->op->by_slices[0] || !by->holds)
            continue;
        for (int k = 0; k < piece->op->output_count; k++) {
            struct xt_tensor *out = piece->op->outputs[k];
            size_t last =
                out && by->holds(piece->op, graph, out) ? last_reader(graph, i, end, out) : i;
            if (last > i)
                hold_value(graph, &rings, i, last, out);
        }
    }
}

const struct xt_buffer *xt_slices_value(const struct xt_op *op, const struct xt_tensor *in)
{
    return in->held && in->held_in == op->segment[0][1] ? in->held : in->value;
}

/* ---- inference: all ops run by slices, or none does ---- */

/* The output that shares the memory of an op's input, if it is in place; else NULL. */
static const struct xt_tensor *written_in_place(const struct xt_op *op, const struct xt_tensor *in)
{
    bool residual =
        op->kind == &xt_kind_conv && ((const struct xt_conv_op *)op)->fold.residual == in;
    return residual || op->kind == &xt_kind_dropout ? op->outputs[0] : NULL;
}

/* Written and read within one segment, as are later tensors in its memory. */
static bool stays_in_segment(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    const struct xt_op *producer = xt_graph_writer(graph, tensor);
    if (tensor == graph->logits || !producer->by_slices[0])
        return false;
    for (int i = 0; i < graph->op_count; i++)
        for (int k = 0; k < graph->ops[i]->input_count; k++) {
            const struct xt_op *op = graph->ops[i];
            if (xt_op_in(op, k) != tensor)
                continue;
            const struct xt_tensor *over = written_in_place(op, tensor);
            if (!op->by_slices[0] || op->segment[0][1] != producer->segment[0][1] ||
                (over && !stays_in_segment(graph, over)))
                return false;
        }
    return true;
}

/* A context over the batch may stand between two segments. */
static bool infers_by_slices(const struct xt_graph *graph)
{
    for (int i = 0; i < graph->op_count; i++)
        if (!graph->ops[i]->by_slices[0] && graph->ops[i]->kind != &xt_kind_context)
            return false;
    return graph->slices.even;
}

/* ---- the plan ---- */

/* To save memory each op is a segment of its own, with the samples that segments agreed on before:
 * the same sums in less memory. */
static void plan_segments(struct xt_graph *graph, bool alone)
{
    for (int backward = 0; backward < 2; backward++)
        plan_direction(graph, backward != 0, alone);
    agree_on_samples(graph);
}

/* Such a network is bound by memory: even one sample's slice that only the last cache holds is
 * quicker than the whole batch. */
static bool has_depthwise(const struct xt_graph *graph)
{
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_op *op = graph->ops[i];
        if (op->kind == &xt_kind_conv && ((const struct xt_conv_op *)op)->groups > 1 &&
            ((const struct xt_conv_op *)op)->groups == xt_op_in(op, 0)->c)
            return true;
    }
    return false;
}

/* Most samples of a slice: 8 of int8, 4 of 16 bits, 2 of float32. */
static int samples_most(const struct xt_graph *graph)
{
    enum { ELEMENT_BYTES = 8 /* of one number of all samples */ };
    const struct xt_graph_options *options = &graph->options;
    enum xt_dtype dtype = options->int8 ? XT_U8 : options->dtype;
    return graph->slices.of_last_cache ? 1 : ELEMENT_BYTES / (int)xt_dtype_size(dtype);
}

void xt_slices_plan(struct xt_graph *graph)
{
    enum { OF_L2 = 2560 << 10, OF_LAST_CACHE = 8 << 20 };
    const struct xt_graph_options *options = &graph->options;
    struct xt_slices *slices = &graph->slices;
    int n = options->batch;
    int threads = options->device->threads;
    *slices = (struct xt_slices){.workers = 0};
    /* In inference the lower bound's convolutions need each tensor whole. */
    if (!options->by_slices || !graph->backend->by_slices ||
        (!options->training && options->lower_bound))
        return;
    slices->of_last_cache = has_depthwise(graph);
    slices->bytes_most = slices->of_last_cache ? OF_LAST_CACHE : OF_L2;
    int most = samples_most(graph);
    slices->samples = 1;
    while (slices->samples < most && n % (2 * slices->samples) == 0 &&
           n / (2 * slices->samples) >= threads)
        slices->samples *= 2;
    int count = n / slices->samples;
    int each = (count + threads - 1) / threads;
    slices->worker_samples = each * slices->samples;
    slices->workers = (count + each - 1) / each;
    slices->even = 8 * each * threads <= 9 * count;
    for (int i = 0; i < graph->op_count; i++)
        for (int backward = 0; backward < 2; backward++)
            graph->ops[i]->by_slices[backward] = samples_of(graph, graph->ops[i], backward != 0);
    if (!options->training && !infers_by_slices(graph)) {
        slices->workers = 0;
        for (int i = 0; i < graph->op_count; i++)
            graph->ops[i]->by_slices[0] = 0;
        return;
    }
    plan_segments(graph, false);
    if (options->recompute)
        plan_segments(graph, true);
    if (options->training)
        hold_values(graph);
    for (int i = 0; i < graph->tensor_count; i++) {
        struct xt_tensor *tensor = graph->tensors[i];
        tensor->value_ring = !options->training && stays_in_segment(graph, tensor);
        tensor->written_over = options->training && can_write_over(graph, tensor);
        for (int r = 0; r < tensor->readers && options->training; r++)
            tensor->ring[r] = can_ring(graph, tensor, r);
    }
}

/* ---- lifetimes ---- */

/* The segments in which an op of the time runs: those forward, the loss, those backward, the end.
 */
static void segments_at(const struct xt_graph *graph, int time, int *first, int *last)
{
    const struct xt_slices *slices = &graph->slices;
    bool backward = time > graph->op_count;
    int loss = slices->segments[0];
    int index = backward ? 2 * graph->op_count - time : time;
    if (index < 0 || index == graph->op_count) {
        *first = *last = index < 0 ? loss + slices->segments[1] + 1 : loss;
        return;
    }
    const int *segment = graph->ops[index]->segment[backward];
    *first = segment[0] + (backward ? loss + 1 : 0);
    *last = segment[0] < 0 ? -1 : segment[1] + (backward ? loss + 1 : 0);
}

/* The first segment in which something of that time or later runs. */
static int recompute_at(const struct xt_graph *graph, int time)
{
    int from = 1 << 30;
    for (; time <= 2 * graph->op_count; time++) {
        int first = 0;
        int last = 0;
        segments_at(graph, time, &first, &last);
        from = last >= 0 && first < from ? first : from;
    }
    return from;
}

/* The segments of times [from, to]. */
static void segments_of(const struct xt_graph *graph, int from, int to, int *first, int *last)
{
    *first = 1 << 30;
    *last = -1;
    for (int time = from; time <= to; time++) {
        int begin = 0;
        int end = 0;
        segments_at(graph, time, &begin, &end);
        *first = end >= 0 && begin < *first ? begin : *first;
        *last = end > *last ? end : *last;
    }
}

void xt_slices_extend(const struct xt_graph *graph, struct xt_plan_item *items, size_t count)
{
    for (size_t i = 0; i < count && graph->slices.workers; i++) {
        struct xt_plan_item *item = &items[i];
        int unused = 0;
        int rest = 0;
        int first = 0;
        if (item->recompute) {
            segments_of(graph, item->first, item->rest, &first, &rest);
            segments_of(graph, item->recompute, item->last, &unused, &item->last);
            item->recompute = recompute_at(graph, item->recompute);
            item->rest = rest;
        } else {
            segments_of(graph, item->first, item->last, &first, &item->last);
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

static enum xt_status run_piece(struct xt_graph *graph, const struct xt_piece *piece, bool backward,
                                const struct xt_slice *slice, struct xt_err *err)
{
    struct xt_op *op = piece->op;
    const struct xt_by_slices *by = op->override->by_slices;
    if (!by->sample)
        return (backward ? by->backward : by->forward)(op, graph, piece->second, slice, err);
    for (int i = 0; i < slice->count; i++)
        by->sample(op, graph, backward, piece->second, slice->first + i);
    return XT_OK;
}

/* The segment's pieces on one slice. */
static enum xt_status run_slice(struct xt_graph *graph, struct xt_piece *pieces, size_t count,
                                bool backward, const struct xt_slice *slice, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    bool times = graph->profile && slice->worker == 0;
    double before = times ? xt_thread_seconds() : 0;
    for (size_t i = 0; i < count && !status; i++) {
        struct xt_op *op = pieces[i].op;
        status = say_which(run_piece(graph, &pieces[i], backward, slice, err), op, err);
        if (times) {
            double now = xt_thread_seconds();
            pieces[i].seconds += now - before;
            before = now;
        }
        if (graph->watch.ran && pieces[i].second && !status) {
            graph->watch.worker = slice->worker;
            graph->watch.ran(graph->watch.context, op, backward);
        }
    }
    return status;
}

static enum xt_status run_worker(struct xt_graph *graph, struct xt_piece *pieces, size_t count,
                                 bool backward, int worker, struct xt_err *err)
{
    int each = graph->slices.worker_samples;
    int samples = pieces->samples;
    int n = graph->options.batch;
    int first = worker * each;
    int end = first + each < n ? first + each : n;
    enum xt_status status = XT_OK;
    for (int at = first; at < end && !status; at += samples) {
        struct xt_slice slice = {.worker = worker,
                                 .first = at,
                                 .count = samples,
                                 .begins = at == first,
                                 .ends = at + samples >= end};
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

/* The first worker's times represent all; its waiting time is distributed in proportion. */
static void share_out(struct xt_piece *pieces, size_t count, bool backward, double took)
{
    double worker = 0;
    for (size_t i = 0; i < count; i++)
        worker += pieces[i].seconds;
    for (size_t i = 0; i < count; i++) {
        pieces[i].op->seconds[backward] += worker > 0 ? pieces[i].seconds * took / worker : 0;
        pieces[i].seconds = 0;
    }
}

/* If watched, one worker after another. */
static enum xt_status run_pieces(struct xt_graph *graph, struct xt_piece *pieces, size_t count,
                                 bool backward, struct xt_err *err)
{
    int workers = graph->slices.workers;
    enum xt_status status = prepare_or_finish(graph, pieces, count, backward, false, err);
    if (status)
        return status;
    double start = graph->profile ? xt_thread_seconds() : 0;
#pragma omp parallel for schedule(static, 1) if (!graph->watch.ran)
    for (int worker = 0; worker < workers; worker++) {
        struct xt_err own = {.status = XT_OK};
        if (run_worker(graph, pieces, count, backward, worker, &own)) {
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

static enum xt_status tell_reduction(struct xt_graph *graph, const struct xt_piece *pieces,
                                     size_t count, struct xt_err *err)
{
    const struct xt_graph_communicator *communicator = graph->communicator;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status && communicator && communicator->learned; i++)
        if (pieces[i].second)
            status = communicator->learned(communicator->context, pieces[i].op, err);
    return status;
}

/* Recomputes what the backward pass reads from a segment on. */
static void recompute_due(struct xt_graph *graph, int segment)
{
    for (int i = 0; i < graph->op_count; i++) {
        struct xt_op *op = graph->ops[i];
        if (op->recompute &&
            recompute_at(graph, op->recompute) == graph->slices.segments[0] + 1 + segment)
            xt_op_recompute(op, graph);
    }
}

enum xt_status xt_slices_run(struct xt_graph *graph, bool backward, xt_slices_whole *whole,
                             struct xt_err *err)
{
    struct xt_slices *slices = &graph->slices;
    struct xt_piece *pieces = slices->pieces[backward];
    enum xt_status status = XT_OK;
    for (size_t i = 0, next = 0; i < slices->count[backward] && !status; i = next) {
        next = segment_end(slices, backward, i);
        if (backward)
            recompute_due(graph, pieces[i].segment);
        if (!pieces[i].op->by_slices[backward])
            status = whole(graph, pieces[i].op, backward, err);
        else
            status = run_pieces(graph, &pieces[i], next - i, backward, err);
        if (!status && backward)
            status = tell_reduction(graph, &pieces[i], next - i, err);
    }
    return status;
}
