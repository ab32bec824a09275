#include "infer/evaluate.h"

#include <math.h>

#include "base/system/stop.h"
#include "base/system/thread.h"
#include "infer/single_pass.h"

/* What an evaluation needs while it runs. */
struct work {
    struct xt_network *network;
    struct xt_predictor *predictor;
    double loss_sum;
    struct xt_latency latency;
    const struct xt_evaluate_config *config;
    struct xt_evaluation *out;
};

static enum xt_status score_batch(struct work *work, const struct xt_batch *batch,
                                  struct xt_err *err)
{
    struct xt_predictor *predictor = work->predictor;
    const struct xt_evaluate_observer *observer = &work->config->observer;
    const struct xt_evaluate_loss *loss = &work->config->loss;
    int counted = 0;
    for (int i = 0; i < batch->count; i++) {
        int length = batch->label_lengths[i];
        if (length == 0)
            continue;
        struct xt_decoded answer;
        enum xt_status status = xt_predictor_predict(predictor, i, &answer, err);
        bool is_nan = status == XT_ERR_RUN && work->config->nan_is_loss;
        if (status && !is_nan)
            return status;
        if (is_nan) {
            answer = (struct xt_decoded){.length = 0};
            work->loss_sum = NAN;
        }
        const int *label = batch->labels + (size_t)i * XT_LABEL_MAX;
        bool right = length > 0 && xt_predictor_is_right(predictor, label, length, &answer);
        if (length > 0)
            predictor->class->add(&work->out->score, label, length, &answer);
        if (!xt_predictor_rejects(predictor, &answer)) {
            work->out->score.accepted++;
            work->out->score.accepted_right += right;
        }
        counted++;
        if (observer->answer && !is_nan)
            observer->answer(observer->context, &(struct xt_answer){
                                                    .index = batch->indices[i],
                                                    .label = label,
                                                    .label_length = length,
                                                    .said = &answer,
                                                    .logits = xt_predictor_logits(predictor, i),
                                                    .right = right,
                                                });
    }
    if (loss->mean)
        work->loss_sum +=
            counted * loss->mean(loss->context, batch, xt_graph_logits(work->network->inference));
    return XT_OK;
}

static enum xt_status run_batch(struct work *work, const struct xt_feed_batch *batch,
                                struct xt_err *err)
{
    struct xt_graph *graph = work->network->inference;
    double start = xt_thread_seconds();
    graph->pass = (struct xt_graph_pass){
        .pixels = batch->host.pixels,
        .uploaded = batch->uploaded,
        .count = batch->host.count,
    };
    enum xt_status status = xt_graph_forward(graph, err);
    if (!status)
        status = score_batch(work, &batch->host, err);
    if (!status)
        status =
            xt_latency_add(&work->latency, xt_thread_seconds() - start, batch->host.count, err);
    return status;
}

static enum xt_status run_all(struct work *work, struct xt_feed *feed, size_t all,
                              struct xt_err *err)
{
    for (size_t done = 0;;) {
        struct xt_feed_batch batch;
        bool end = false;
        enum xt_status status = xt_feed_next(feed, &batch, &end, NULL, err);
        if (status || end)
            return status;
        status =
            xt_stop_check(err, "after %zu of %s", done, xt_count((long long)all, "image").text);
        if (!status)
            status = run_batch(work, &batch, err);
        done += (size_t)batch.host.count;
        xt_feed_release(feed, &batch);
        if (status)
            return status;
        if (work->config->observer.progress)
            work->config->observer.progress(work->config->observer.context, done, all);
    }
}

void xt_evaluation_clear(struct xt_evaluation *evaluation)
{
    xt_loader_free_bad(evaluation->bad, evaluation->bad_images);
    *evaluation = (struct xt_evaluation){.loss = NAN};
}

static void take_share(const struct xt_evaluate_share *share, struct xt_loader_config *config)
{
    size_t all = config->source->count;
    config->count = all;
    if (share->count < 2)
        return;
    config->first = all * (size_t)share->index / (size_t)share->count;
    config->count = all * (size_t)(share->index + 1) / (size_t)share->count - config->first;
}

/* A failure in one process stops them all elsewhere. */
static enum xt_status reduce(struct work *work, enum xt_status status, struct xt_err *err)
{
    const struct xt_evaluate_share *share = &work->config->share;
    if (!share->reduce || (status && status != XT_STOPPED && status != XT_INTERRUPTED))
        return status;
    return share->reduce(share->context, work->config->source->count, work->out, &work->loss_sum,
                         status, err);
}

enum xt_status xt_evaluate(struct xt_network *network, struct xt_predictor *predictor,
                           const struct xt_evaluate_config *config, struct xt_evaluation *out,
                           struct xt_err *err)
{
    *out = (struct xt_evaluation){.loss = NAN};
    struct work work = {.network = network, .predictor = predictor, .config = config, .out = out};
    struct xt_single_pass once = {.feed = NULL};
    struct xt_loader_config images = xt_single_pass_config(network, config->data, config->source);
    enum xt_status status = XT_OK;
    take_share(&config->share, &images);
    images.are_negatives = config->are_negatives;
    /* There may be fewer images than processes. */
    if (images.count || !config->share.reduce)
        status = xt_single_pass_open(&once, network, &images, err);
    double start = xt_thread_seconds();
    if (!status && once.feed)
        status = run_all(&work, once.feed, images.count, err);
    out->seconds = xt_thread_seconds() - start;
    struct xt_err own;
    if (once.feed) {
        enum xt_status listed = xt_loader_bad(xt_feed_loader(once.feed), &out->bad,
                                              &out->bad_images, status ? &own : err);
        status = status ? status : listed;
    }
    status = reduce(&work, status, err);
    out->metric_count =
        predictor->class->metrics(&out->score, &out->images, &out->correct, out->metrics);
    if (out->images) {
        out->loss = config->loss.mean ? work.loss_sum / (double)out->images : NAN;
        out->images_per_s = (double)out->images / out->seconds;
    }
    if (!status)
        status = xt_latency_sum_up(&work.latency, &out->latency, err);
    xt_latency_clear(&work.latency);
    xt_single_pass_close(&once);
    return status;
}
