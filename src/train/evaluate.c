#include "train/evaluate.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/stop.h"
#include "base/thread.h"
#include "device/slot.h"
#include "train/loss_ctc.h"

int xt_evaluate_workers(const struct xt_settings *settings)
{
    return settings->workers > 0 ? settings->workers : 1;
}

enum xt_status xt_evaluate_answer(const struct xt_network *network, int sample,
                                  enum xt_decode_kind kind, struct xt_decoded *out,
                                  struct xt_err *err)
{
    int t = network->model->time_steps;
    int classes = xt_alphabet_count(network->alphabet);
    const float *logits =
        xt_graph_logits(network->graph) + (size_t)sample * (size_t)t * (size_t)classes;
    return xt_decode(kind, logits, t, classes, xt_alphabet_blank(network->alphabet), out, err);
}

/* What an evaluation needs while it runs. */
struct work {
    struct xt_network *network;
    const struct xt_settings *settings;
    struct xt_ctc *ctc;
    float *losses;
    double loss_sum;
    const struct xt_evaluate_observer *observer;
    struct xt_evaluation *out;
};

static enum xt_status score_batch(struct work *work, const struct xt_batch *batch,
                                  struct xt_err *err)
{
    struct xt_network *network = work->network;
    enum xt_status status = XT_OK;
    for (int i = 0; i < batch->count && !status; i++) {
        int length = batch->label_lengths[i];
        if (length == 0)
            continue;
        struct xt_decoded answer;
        status = xt_evaluate_answer(network, i, work->settings->decode, &answer, err);
        if (status)
            break;
        const int *label = batch->labels + (size_t)i * XT_LABEL_MAX;
        xt_plate_score_add(&work->out->score, label, length, answer.symbols, answer.length);
        if (work->observer->answer)
            work->observer->answer(work->observer->context, batch->indices[i], label, length,
                                   &answer);
    }
    if (status)
        return status;
    xt_ctc_loss(work->ctc, xt_graph_logits(network->graph), batch->labels, XT_LABEL_MAX,
                batch->label_lengths, batch->count, xt_alphabet_blank(network->alphabet),
                work->losses, NULL);
    for (int i = 0; i < batch->count; i++)
        if (batch->label_lengths[i])
            work->loss_sum += (double)work->losses[i] / batch->label_lengths[i];
    return XT_OK;
}

static enum xt_status run_batch(struct work *work, const struct xt_batch *batch, struct xt_err *err)
{
    work->network->graph->pass =
        (struct xt_graph_pass){.pixels = batch->pixels, .count = batch->count};
    enum xt_status status = xt_graph_forward(work->network->graph, err);
    return status ? status : score_batch(work, batch, err);
}

static enum xt_status run_all(struct work *work, struct xt_loader *loader, size_t all,
                              struct xt_err *err)
{
    for (size_t done = 0;;) {
        struct xt_batch batch;
        bool end = false;
        enum xt_status status = xt_loader_next(loader, &batch, &end, NULL, err);
        if (status || end)
            return status;
        int signal_number = xt_stop_requested();
        if (signal_number)
            status = xt_err_set(err, signal_number == SIGINT ? XT_INTERRUPTED : XT_STOPPED,
                                "interrupted after %zu of %zu images", done, all);
        if (!status)
            status = run_batch(work, &batch, err);
        done += (size_t)batch.count;
        xt_loader_release(loader, &batch);
        if (status)
            return status;
        if (work->observer->progress)
            work->observer->progress(work->observer->context, done, all);
    }
}

void xt_evaluation_clear(struct xt_evaluation *evaluation)
{
    xt_loader_free_bad(evaluation->bad, evaluation->bad_images);
    *evaluation = (struct xt_evaluation){.loss = NAN};
}

enum xt_status xt_evaluate(struct xt_network *network, const struct xt_source *source,
                           const struct xt_settings *settings,
                           const struct xt_evaluate_observer *observer, struct xt_evaluation *out,
                           struct xt_err *err)
{
    *out = (struct xt_evaluation){.loss = NAN};
    const struct xt_model_info *model = network->model;
    struct work work = {.network = network, .settings = settings, .observer = observer, .out = out};
    struct xt_loader *loader = NULL;
    struct xt_slots slots;
    enum { SLOTS = 3 };
    size_t bytes = (size_t)network->batch * (size_t)model->height * (size_t)model->width * 3;
    enum xt_status status = xt_slots_init(&slots, SLOTS, bytes, err);
    if (status)
        return status;
    status =
        xt_mem_calloc(&work.losses, (size_t)network->batch, sizeof *work.losses, "losses", err);
    if (!status)
        status = xt_ctc_create(&work.ctc, network->batch, model->time_steps,
                               xt_alphabet_count(network->alphabet), XT_LABEL_MAX, err);
    struct xt_loader_config config = {.source = source,
                                      .batch = network->batch,
                                      .width = model->width,
                                      .height = model->height,
                                      .workers = xt_evaluate_workers(settings),
                                      .slots = SLOTS,
                                      .slot_pixels = slots.pixels,
                                      .strict = settings->strict_data};
    if (!status)
        status = xt_loader_create(&loader, &config, err);
    double start = xt_thread_seconds();
    if (!status)
        status = run_all(&work, loader, source->count, err);
    out->seconds = xt_thread_seconds() - start;
    struct xt_err own;
    if (loader) {
        enum xt_status listed =
            xt_loader_bad(loader, &out->bad, &out->bad_images, status ? &own : err);
        status = status ? status : listed;
    }
    if (out->score.images) {
        out->loss = work.loss_sum / (double)out->score.images;
        out->images_per_s = (double)out->score.images / out->seconds;
    }
    xt_loader_destroy(loader);
    xt_ctc_destroy(work.ctc);
    free(work.losses);
    xt_slots_clear(&slots);
    return status;
}
