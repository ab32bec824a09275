/* xtrain bench loader: the loader's throughput, compared with decoding only.
 *
 * Both are measured alternately, a fraction of a second each, so that other load on the machine
 * affects both. Decoding only is whole images from bytes in memory, by as many threads as the
 * loader has workers; synthetic images are generated instead of decoded.
 *
 * With an XPU, also the rate of host-device transfers.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "data/sources/registry.h"
#include "device/upload.h"
#include "models/loaded.h"
#include "cli/bench/upload.h"
#include "infer/feed.h"
#include "infer/network/network.h"

enum { ROUNDS = 8, FILES_BYTES_MAX = 256 << 20 };
static const double round_seconds = 0.35;

struct bench {
    const struct xt_model_info *model;
    struct xt_loaded_model *loaded; /* of a weight file, else NULL */
    struct xt_alphabet *alphabet;
    struct xt_source *source;
    struct xt_upload upload;
    struct xt_loader_config config;
    struct xt_loader *loader;
    struct xt_cache *cache;
    char cache_path[64];
    struct xt_bytes *files; /* the first file_count of the source; empty: not a file */
    size_t file_count;
    double loader_images;
    double loader_seconds;
    double decode_images;
    double decode_seconds;
    struct xt_device device; /* open with an XPU only */
    struct xt_bench_upload transfer;
};

/* A thread that only decodes. */
struct decoding {
    pthread_t thread;
    const struct bench *bench;
    struct xt_decoder decoder;
    struct xt_sample sample;
    _Atomic size_t *next; /* shared: the next sample to decode */
    double until;
    size_t done;
    enum xt_status status;
    struct xt_err err;
};

static enum xt_status open_source(struct bench *bench, const struct xt_settings *s,
                                  struct xt_err *err)
{
    enum xt_status status = xt_model_choose(s->network.model, s->network.image_size, &bench->loaded,
                                            &bench->model, err);
    if (!status && bench->model->time_steps)
        status = xt_network_alphabet(&s->network, &bench->alphabet, err);
    if (status)
        return status;
    struct xt_source_options options = {
        .task = bench->model->time_steps ? XT_TASK_PLATES : XT_TASK_CLASSES,
        .alphabet = bench->alphabet,
        .order = bench->model->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB,
        .labels_optional = true,
    };
    return xt_source_open(&bench->source, s->data.images, &options, err);
}

/* A bench has no run folder: its cache is a temporary file. */
static enum xt_status make_cache_file(struct bench *bench, struct xt_err *err)
{
    snprintf(bench->cache_path, sizeof bench->cache_path, "xtrain-cache-XXXXXX");
    int fd = mkstemp(bench->cache_path);
    if (fd < 0) {
        bench->cache_path[0] = '\0';
        return xt_err_system(err, XT_ERR_RUN, "cannot write a cache here");
    }
    close(fd);
    return XT_OK;
}

static enum xt_status open_loader(struct bench *bench, const struct xt_settings *s,
                                  struct xt_err *err)
{
    struct xt_feed_size size = {bench->model->width, bench->model->height, bench->model->bgr};
    if (s->network.image_size && bench->model->any_size)
        size.width = size.height = s->network.image_size;
    bench->config = xt_feed_config(&s->data, &size, true);
    bench->config.source = bench->source;
    bench->config.batch = s->network.batch;
    /* A few files are enough for a bench. */
    if (bench->source->count < (size_t)s->network.batch)
        bench->config.batch = (int)bench->source->count;
    bench->config.slots = xt_feed_slots(&s->data);
    const struct xt_upload_config reference = {.slots = bench->config.slots,
                                               .batch = bench->config.batch,
                                               .height = size.height,
                                               .width = size.width};
    enum xt_status status = xt_upload_init(&bench->upload, &reference, err);
    bench->config.slot_pixels = bench->upload.pixels;
    if (!status && s->data.cache == XT_CACHE_CHOICE_DISK && !s->data.cache_file)
        status = make_cache_file(bench, err);
    if (!status)
        status = xt_feed_open_cache(&s->data, bench->cache_path, bench->source, &bench->config,
                                    &bench->cache, err);
    return status ? status : xt_loader_create(&bench->loader, &bench->config, err);
}

/* Reads the files' bytes, up to the memory limit. Samples that are not files have none. */
static enum xt_status read_files(struct bench *bench, struct xt_err *err)
{
    const struct xt_source *source = bench->source;
    enum xt_status status =
        xt_mem_calloc(&bench->files, source->count, sizeof *bench->files, "files", err);
    size_t all = 0;
    while (!status && bench->file_count < source->count && all < FILES_BYTES_MAX) {
        char path[4096];
        struct xt_bytes *file = &bench->files[bench->file_count++];
        source->class->name(source, bench->file_count - 1, path, sizeof path);
        if (!xt_file_exists(path))
            continue;
        status = xt_file_load(path, XT_IMAGE_BYTES_MAX, file, err);
        all += file->size;
    }
    return status;
}

static enum xt_status decode_one(struct decoding *decoding, size_t index)
{
    const struct bench *bench = decoding->bench;
    const struct xt_bytes *file = &bench->files[index];
    if (!file->data)
        return bench->source->class->read(bench->source, index, NULL, &decoding->decoder,
                                          &decoding->sample, &decoding->err);
    return xt_decoder_decode(&decoding->decoder, file->data, file->size, bench->config.order, NULL,
                             "an image", &decoding->sample.picture, &decoding->err);
}

static void *decode(void *argument)
{
    enum { CHUNK = 8 };
    struct decoding *decoding = argument;
    const struct bench *bench = decoding->bench;
    while (!decoding->status && xt_thread_seconds() < decoding->until) {
        size_t first = atomic_fetch_add(decoding->next, CHUNK);
        for (size_t i = 0; i < CHUNK && !decoding->status; i++) {
            enum xt_status status = decode_one(decoding, (first + i) % bench->file_count);
            /* The loader counts bad images. */
            decoding->status = status == XT_ERR_DATA ? XT_OK : status;
            decoding->done++;
        }
    }
    return NULL;
}

static enum xt_status decode_round(struct bench *bench, struct decoding *decodings,
                                   struct xt_err *err)
{
    int count = bench->config.workers;
    int started = 0;
    double start = xt_thread_seconds();
    enum xt_status status = XT_OK;
    for (; started < count && !status; started++) {
        decodings[started].done = 0;
        decodings[started].until = start + round_seconds;
        if (pthread_create(&decodings[started].thread, NULL, decode, &decodings[started])) {
            status = xt_err_set(err, XT_ERR_RUN, "cannot start a decoding thread");
            break;
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(decodings[i].thread, NULL);
        bench->decode_images += (double)decodings[i].done;
        if (!status && decodings[i].status) {
            status = decodings[i].status;
            *err = decodings[i].err;
        }
    }
    bench->decode_seconds += xt_thread_seconds() - start;
    return status;
}

static enum xt_status take_batch(struct bench *bench, int *count, struct xt_err *err)
{
    struct xt_batch batch;
    bool end = false;
    enum xt_status status = xt_loader_next(bench->loader, &batch, &end, NULL, err);
    if (status)
        return status;
    *count = batch.count;
    xt_loader_release(bench->loader, &batch);
    return XT_OK;
}

/* Batches prepared while others ran do not count. */
static enum xt_status loader_round(struct bench *bench, struct xt_err *err)
{
    int count = 0;
    enum xt_status status = XT_OK;
    for (int i = 0; i < bench->config.slots && !status; i++)
        status = take_batch(bench, &count, err);
    double start = xt_thread_seconds();
    double images = 0;
    double now = start;
    while (!status && now - start < round_seconds) {
        status = take_batch(bench, &count, err);
        images += count;
        now = xt_thread_seconds();
    }
    bench->loader_images += images;
    bench->loader_seconds += now - start;
    return status;
}

static enum xt_status measure(struct bench *bench, struct decoding *decodings, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < ROUNDS && !status; i++) {
        status = xt_stop_check(err, "before all rounds were timed");
        if (!status)
            status = loader_round(bench, err);
        /* The first round starts with cold caches. */
        if (i == 0)
            bench->loader_images = bench->loader_seconds = 0;
        if (!status && i > 0)
            status = decode_round(bench, decodings, err);
    }
    return status;
}

static enum xt_status measure_all(struct bench *bench, struct xt_err *err)
{
    struct decoding *decodings = NULL;
    _Atomic size_t next = 0;
    int count = bench->config.workers;
    enum xt_status status =
        xt_mem_calloc(&decodings, (size_t)count, sizeof *decodings, "decoders", err);
    for (int i = 0; i < count && !status; i++) {
        decodings[i].bench = bench;
        decodings[i].next = &next;
    }
    if (!status)
        status = measure(bench, decodings, err);
    for (int i = 0; decodings && i < count; i++) {
        xt_decoder_clear(&decodings[i].decoder);
        xt_image_clear(&decodings[i].sample.picture.image);
    }
    free(decodings);
    return status;
}

/* Measures transfers to the device, if batches need them. */
static enum xt_status measure_transfer(struct bench *bench, const struct xt_settings *s,
                                       struct xt_err *err)
{
    if (strcmp(s->device.name, "cpu") == 0)
        return XT_OK;
    const struct xt_device_options options = xt_network_device_options(&s->device);
    enum xt_status status = xt_device_open_with(&bench->device, &options, err);
    if (status)
        return status;
    if (bench->device.own_memory)
        return xt_bench_upload(&bench->transfer, &bench->device, bench->config.batch,
                               bench->config.height, bench->config.width, err);
    xt_log_note("--device %s: %s (%s): no transfers", s->device.name, bench->device.name,
                bench->device.chosen);
    return XT_OK;
}

static void describe_transfer(struct xt_report *report, const struct bench *bench)
{
    const struct xt_bench_upload *transfer = &bench->transfer;
    xt_report_add(report, "device", "  to", "%s", bench->device.name);
    xt_report_add(report, "slots_are", "  slots", "the driver reports pinned slots as: %s",
                  xt_pointer_kind_name(transfer->slots));
    xt_report_add(report, "upload_ms", "  an upload", "%.2f ms a batch, in isolation",
                  1e3 * transfer->upload_s);
    xt_report_add(report, "compute_ms", "  beside it", "%.2f ms a batch, work of the device",
                  1e3 * transfer->compute_s);
    struct xt_report *table = xt_report_table(report, "uploads");
    for (int i = 0; i < XT_BENCH_UPLOAD_ROWS; i++) {
        const struct xt_bench_upload_row *upload = &transfer->rows[i];
        struct xt_report *row = xt_report_group(table, NULL);
        xt_report_add(row, "memory", "  memory", "  %s", upload->pageable ? "pageable" : "pinned");
        xt_report_flag(row, "overlapped", "uploads", upload->overlapped, "while it works",
                       "in turn");
        xt_report_scaled(row, "bytes_per_s", "GB/s", 1e-9, "%8.3f", upload->bytes_per_s);
        xt_report_add(row, "images_per_s", "images/s", "%10.0f", upload->images_per_s);
    }
}

static enum xt_status report(const struct bench *bench, const struct xt_settings *s, size_t bad,
                             struct xt_err *err)
{
    const struct xt_loader_config *c = &bench->config;
    struct xt_report *report = xt_report_create();
    double rate = bench->loader_images / bench->loader_seconds;
    double decode_rate = bench->decode_images / bench->decode_seconds;
    bool keeps = s->data.cache == XT_CACHE_CHOICE_FILES && bench->source->class->cache;
    xt_report_line(report, "%s, brought to %d x %d, batches of %d, %s", bench->source->description,
                   c->width, c->height, c->batch, xt_count((long long)c->workers, "worker").text);
    xt_report_values(report, "model=%s images=%zu width=%d height=%d batch=%d workers=%d slots=%d",
                     bench->model->name, bench->source->count, c->width, c->height, c->batch,
                     c->workers, c->slots);
    xt_report_add(report, "images_per_s", "  loader", "%10.0f images/s", rate);
    if (keeps)
        xt_report_add(report, NULL, "", " (small files from memory; %s reads them each time)",
                      "--image-cache off");
    xt_report_add(report, "decode_only_images_per_s", "  decode only",
                  "%10.0f images/s (whole images, from memory)", decode_rate);
    xt_report_add(report, "efficiency", "  efficiency", "%10.3f", rate / decode_rate);
    xt_report_add(report, "bad_images", bad ? "  bad" : NULL, "%10zu of the images", bad);
    if (bench->device.own_memory)
        describe_transfer(report, bench);
    return xt_result_put(report, err);
}

static enum xt_status run(struct bench *bench, const struct xt_settings *s, struct xt_err *err)
{
    enum xt_status status = open_source(bench, s, err);
    if (!status)
        status = read_files(bench, err);
    if (!status)
        status = open_loader(bench, s, err);
    if (!status)
        status = measure_all(bench, err);
    struct xt_bad_sample *bad = NULL;
    size_t bad_count = 0;
    if (!status)
        status = xt_loader_bad(bench->loader, &bad, &bad_count, err);
    /* The loader's threads are idle by then: their slots are full. */
    if (!status)
        status = measure_transfer(bench, s, err);
    if (!status)
        status = report(bench, s, bad_count, err);
    xt_loader_free_bad(bad, bad_count);
    return status;
}

enum xt_status xt_cmd_bench_loader(struct xt_options *options, struct xt_err *err)
{
    struct bench bench = {0};
    enum xt_status status = run(&bench, &options->values, err);
    xt_loader_destroy(bench.loader);
    xt_cache_destroy(bench.cache);
    if (bench.cache_path[0])
        unlink(bench.cache_path);
    xt_upload_clear(&bench.upload);
    if (bench.device.engine)
        xt_device_close(&bench.device);
    for (size_t i = 0; i < bench.file_count; i++)
        free(bench.files[i].data);
    free(bench.files);
    xt_source_destroy(bench.source);
    xt_alphabet_destroy(bench.alphabet);
    xt_model_close(bench.loaded);
    return status;
}
