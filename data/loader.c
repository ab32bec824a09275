/* Work distribution: a batch is cut into chunks of a few samples, and a worker claims the next
 * chunk of all batches (of its NUMA node's, if there are several) by one atomic addition. The first
 * worker that reaches a batch once its slot is free plans its samples (under the lock, once a
 * batch, in batch order); the worker that completes its last chunk hands it to the consumer. So
 * there is no lock per sample, and only one epoch's order is held at a time. */
#include "data/loader.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/system/numa.h"
#include "base/rng.h"
#include "base/system/thread.h"
#include "data/image/augment.h"
#include "data/image/resize.h"

enum { NO_STEP = -1 };

/* Random streams: one per purpose, so that no two share numbers. */
enum stream { STREAM_ORDER = 1, STREAM_AUGMENT, STREAM_REPLACE, STREAM_CROP, STREAM_NEGATIVE };

struct slot {
    _Atomic int64_t step;    /* the step that may be filled, or NO_STEP */
    _Atomic int chunks_left; /* of that step */
    int64_t done;            /* the step that is filled; under the lock */
    bool free;               /* released by the consumer; under the lock */
    uint64_t epoch;
    int count;
    int *labels;
    int *label_lengths;
    size_t *indices;
    uint8_t *pixels;
};

struct worker {
    pthread_t thread;
    struct xt_loader *loader;
    struct xt_decoder decoder;
    struct xt_resizer resizer;
    struct xt_sample sample;
    struct xt_image scratch;
    struct xt_err err;
};

/* Every `groups`th step, filled by the workers of one NUMA node. */
struct group {
    int64_t first;          /* step */
    _Atomic int64_t ticket; /* the next chunk, counted over the group's steps */
    const struct xt_numa_node *node;
};

struct xt_loader {
    struct xt_loader_config config;
    uint64_t epoch_steps;
    int64_t end; /* the step after the last; INT64_MAX if unlimited */
    int chunk;   /* samples */
    int chunks;  /* of a batch */
    struct slot *slots;
    struct worker *workers;
    int started;
    struct xt_numa *numa;
    struct group *groups;
    int group_count; /* NUMA groups; divides the slots */
    _Atomic bool stop;
    _Atomic uint64_t busy;       /* of all workers, ns */
    _Atomic uint64_t decoded;    /* samples decoded in that time */
    _Atomic uint64_t slot_waits; /* of all workers, ns */
    double batch_waits;          /* seconds; the consumer's alone */
    int64_t next;                /* the consumer's next step; consumer only */

    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t room;  /* a slot was released, or the next batch was planned */
    pthread_cond_t ready; /* a batch was filled, or the run failed */
    int64_t planned;      /* the next step to plan */
    uint64_t order_epoch;
    bool order_planned;
    size_t *order; /* order of the epoch that is being planned */
    struct xt_bad_sample *bad;
    size_t bad_count;
    uint8_t *is_bad; /* one byte per sample */
    struct xt_err failure;
    bool failed;
};

static struct xt_rng place_rng(uint64_t seed, enum stream stream, uint64_t epoch, uint64_t position)
{
    return xt_rng_begin(seed, xt_rng_at(stream, epoch, position));
}

/* Samples in an epoch: a mixture is drawn from in training, and enumerated otherwise. */
static size_t epoch_length(const struct xt_loader_config *config)
{
    bool drawn = config->shuffle && config->source->class->draw;
    if (drawn)
        return config->source->epoch_length;
    return config->count ? config->count : config->source->count - config->first;
}

int xt_loader_rows(const struct xt_loader_config *config)
{
    return config->rows.of ? config->rows.count : config->batch;
}

uint64_t xt_loader_epoch_steps(const struct xt_loader_config *config)
{
    uint64_t batch = (uint64_t)config->batch;
    uint64_t group = config->drop_last && config->group > 1 ? (uint64_t)config->group : 1;
    uint64_t batches =
        ((uint64_t)epoch_length(config) + (config->drop_last ? 0 : batch - 1)) / batch;
    return batches / group * group;
}

/* Stops the run with this error, unless there is one already. Under the lock. */
static void fail(struct xt_loader *loader, const struct xt_err *err)
{
    if (!loader->failed)
        loader->failure = *err;
    loader->failed = true;
    atomic_store(&loader->stop, true);
    pthread_cond_broadcast(&loader->room);
    pthread_cond_signal(&loader->ready);
}

static const struct xt_bad_sample *first_bad(const struct xt_loader *loader)
{
    const struct xt_bad_sample *first = loader->bad;
    for (size_t i = 1; i < loader->bad_count; i++)
        if (loader->bad[i].index < first->index)
            first = loader->bad + i;
    return first;
}

bool xt_loader_is_too_bad(size_t bad, size_t count)
{
    return bad > 1 && bad * 100 > count;
}

/* Whether the bad samples met so far are too many. Under the lock. */
static enum xt_status judge_bad(const struct xt_loader *loader, struct xt_err *err)
{
    size_t count = loader->config.source->count;
    size_t bad = loader->bad_count;
    if (loader->config.strict)
        return xt_err_set(err, XT_ERR_DATA, "a sample is bad, and strict data was requested: %s",
                          first_bad(loader)->reason);
    if (!xt_loader_is_too_bad(bad, count))
        return XT_OK;
    return xt_err_set(
        err, XT_ERR_DATA,
        "at least %zu of %zu samples are bad, more than the 1 %% that is let pass; the first: %s",
        bad, count, first_bad(loader)->reason);
}

/* Under the lock. */
static enum xt_status note_bad(struct xt_loader *loader, size_t index, struct xt_err *err)
{
    if (loader->is_bad[index])
        return XT_OK;
    char *reason = NULL;
    struct xt_err memory;
    enum xt_status status = xt_mem_add(&loader->bad, loader->bad_count, sizeof *loader->bad,
                                       "a list of bad samples", &memory);
    if (!status)
        status = xt_mem_strdup(&reason, err->text, &memory);
    if (status) {
        *err = memory;
        return status;
    }
    loader->is_bad[index] = 1;
    loader->bad[loader->bad_count++] = (struct xt_bad_sample){.index = index, .reason = reason};
    return judge_bad(loader, err);
}

/* Reads sample `index`, directly into its row `pixels` if possible. *good is false for a bad sample
 * that does not stop the run. */
static enum xt_status try_read(struct worker *worker, uint64_t epoch, uint64_t position,
                               size_t index, uint8_t *pixels, bool *good)
{
    struct xt_loader *loader = worker->loader;
    const struct xt_loader_config *config = &loader->config;
    struct xt_want want = {
        .width = config->width,
        .height = config->height,
        .fit = config->fit,
        .crop_least = config->crop_least,
        .crop = place_rng(config->seed, STREAM_CROP, epoch, position),
    };
    /* Plates are augmented out of place. */
    if (!config->augment)
        want.into = pixels;
    enum xt_status status = config->source->class->read(
        config->source, index, &want, &worker->decoder, &worker->sample, &worker->err);
    *good = status == XT_OK;
    if (status != XT_ERR_DATA)
        return status;
    pthread_mutex_lock(&loader->lock);
    status = note_bad(loader, index, &worker->err);
    pthread_mutex_unlock(&loader->lock);
    return status;
}

/* Reads *index, or, if it is bad and this is training, the first good one of the replacements drawn
 * for this position. */
static enum xt_status read_sample(struct worker *worker, uint64_t epoch, uint64_t position,
                                  size_t *index, uint8_t *pixels, bool *good)
{
    enum { DRAWS = 1000 };
    const struct xt_loader_config *config = &worker->loader->config;
    enum xt_status status = try_read(worker, epoch, position, *index, pixels, good);
    if (status || *good || !config->repeat)
        return status;
    struct xt_rng rng = place_rng(config->seed, STREAM_REPLACE, epoch, position);
    for (int i = 0; i < DRAWS && !atomic_load_explicit(&worker->loader->stop, memory_order_relaxed);
         i++) {
        *index = (size_t)xt_rng_below(&rng, config->source->count);
        status = try_read(worker, epoch, position, *index, pixels, good);
        if (status || *good)
            return status;
    }
    return xt_err_prefix(&worker->err, "no good sample was found in place of a bad one: ");
}

static void mirror(uint8_t *pixels, int width, int height)
{
    for (int y = 0; y < height; y++, pixels += (size_t)width * 3)
        for (int left = 0, right = width - 1; left < right; left++, right--)
            for (int c = 0; c < 3; c++) {
                uint8_t moved = pixels[left * 3 + c];
                pixels[left * 3 + c] = pixels[right * 3 + c];
                pixels[right * 3 + c] = moved;
            }
}

/* Varies the row's pixels, made from `in`, as the run asks. */
static enum xt_status augment(struct worker *worker, const uint8_t *in, struct xt_rng *rng,
                              uint8_t *pixels)
{
    const struct xt_loader_config *config = &worker->loader->config;
    size_t count = (size_t)config->width * (size_t)config->height;
    enum xt_status status = XT_OK;
    if (config->augment)
        status = xt_augment_plate(in, config->width, config->height, rng, &worker->scratch, pixels,
                                  &worker->err);
    if (!status && config->jitter > 0)
        xt_augment_colours(pixels, count, config->order, config->jitter, rng);
    if (!status && config->hue > 0)
        xt_augment_hue(pixels, count, config->order, config->hue, rng);
    return status;
}

/* Makes the row's pixels from the sample just read, or from cached pixels. */
static enum xt_status transform(struct worker *worker, uint64_t epoch, uint64_t position,
                                bool cached, size_t index, uint8_t *pixels)
{
    const struct xt_loader_config *config = &worker->loader->config;
    const struct xt_picture *picture = &worker->sample.picture;
    const struct xt_image *image = &picture->image;
    struct xt_rng rng = place_rng(config->seed, STREAM_AUGMENT, epoch, position);
    bool mirrored = config->flip && xt_rng_below(&rng, 2);
    /* If the crop is not random, pixels are cached before mirroring. */
    bool fixed = config->fit != XT_FIT_RANDOM_CROP;
    bool in_place = !cached && picture->in_place;
    bool mirror_late = mirrored && (fixed || in_place);
    bool as_it_is =
        !cached && config->augment && !config->cache && !mirror_late &&
        xt_resize_is_copy(image, &picture->part, mirrored, config->width, config->height);
    enum xt_status status = XT_OK;
    if (!cached && !in_place && !as_it_is)
        status = xt_resize_part(&worker->resizer, image, &picture->part, mirrored && !fixed,
                                config->width, config->height, pixels, &worker->err);
    if (!status && !cached && config->cache)
        xt_cache_put(config->cache, index, pixels);
    if (!status && mirror_late)
        mirror(pixels, config->width, config->height);
    return status ? status : augment(worker, as_it_is ? image->pixels : pixels, &rng, pixels);
}

/* A quarter are all of a picture, the others parts of it whose shape is between the picture's and
 * the network's. */
static struct xt_want want_negative(const struct xt_loader_config *config, struct xt_rng *rng)
{
    double log_shape = log((double)config->width / config->height);
    struct xt_want want = {.width = config->width, .height = config->height};
    want.fit = xt_rng_below(rng, 4) ? XT_FIT_RANDOM_CROP : XT_FIT_STRETCH;
    want.crop_least = 0.02f;
    want.crop_aspect = (float)exp((double)xt_rng_uniform(rng) * log_shape);
    want.crop = xt_rng_begin(xt_rng_below(rng, UINT64_MAX), STREAM_NEGATIVE);
    return want;
}

/* Fills the row with a negative, in place of the sample of this position. Unreadable ones are
 * replaced by others. */
static enum xt_status fill_negative(struct worker *worker, struct xt_rng *rng, uint8_t *pixels)
{
    enum { DRAWS = 100 };
    const struct xt_loader_config *config = &worker->loader->config;
    const struct xt_source *from = config->negatives;
    const struct xt_picture *picture = &worker->sample.picture;
    enum xt_status status = XT_ERR_DATA;
    for (int i = 0; i < DRAWS && status == XT_ERR_DATA; i++) {
        struct xt_want want = want_negative(config, rng);
        status = from->class->read(from, (size_t)xt_rng_below(rng, from->count), &want,
                                   &worker->decoder, &worker->sample, &worker->err);
    }
    bool mirrored = xt_rng_below(rng, 2);
    if (status)
        return xt_err_prefix(&worker->err, "--negatives: no good picture was found: ");
    status = xt_resize_part(&worker->resizer, &picture->image, &picture->part, mirrored,
                            config->width, config->height, pixels, &worker->err);
    return status ? status : augment(worker, pixels, rng, pixels);
}

/* Fills the row from the cache. False if the sample is not cached. */
static bool from_cache(struct worker *worker, size_t index, uint8_t *pixels)
{
    const struct xt_loader_config *config = &worker->loader->config;
    struct xt_sample *sample = &worker->sample;
    return config->cache && xt_cache_get(config->cache, index, pixels) &&
           config->source->class->label(config->source, index, sample->label, &sample->label_length,
                                        &worker->err) == XT_OK;
}

static enum xt_status fill_row(struct worker *worker, struct slot *slot, int64_t step, int row)
{
    const struct xt_loader_config *config = &worker->loader->config;
    size_t size = (size_t)config->width * (size_t)config->height * 3;
    uint8_t *pixels = slot->pixels + (size_t)row * size;
    int *label = slot->labels + (size_t)row * XT_LABEL_MAX;
    memset(label, 0, XT_LABEL_MAX * sizeof *label);
    slot->label_lengths[row] = 0;
    if (row >= slot->count) {
        memset(pixels, 0, size);
        return XT_OK;
    }
    uint64_t position =
        ((uint64_t)step - slot->epoch * worker->loader->epoch_steps) * (uint64_t)config->batch +
        (uint64_t)xt_rows_at(&config->rows, row);
    struct xt_rng rng = place_rng(config->seed, STREAM_NEGATIVE, slot->epoch, position);
    if (config->negatives && (double)xt_rng_uniform(&rng) < config->negatives_part) {
        slot->label_lengths[row] = XT_LABEL_NEGATIVE;
        return fill_negative(worker, &rng, pixels);
    }
    bool cached = from_cache(worker, slot->indices[row], pixels);
    bool good = cached;
    enum xt_status status = XT_OK;
    if (!cached)
        status = read_sample(worker, slot->epoch, position, &slot->indices[row], pixels, &good);
    if (status)
        return status;
    if (!good) {
        memset(pixels, 0, size);
        return XT_OK;
    }
    const struct xt_sample *sample = &worker->sample;
    status = transform(worker, slot->epoch, position, cached, slot->indices[row], pixels);
    slot->label_lengths[row] = config->are_negatives ? XT_LABEL_NEGATIVE : sample->label_length;
    memcpy(label, sample->label, (size_t)sample->label_length * sizeof *label);
    return status;
}

/* The epoch's order: a Fisher-Yates shuffle, keyed by seed and epoch. */
static void make_order(struct xt_loader *loader, uint64_t epoch)
{
    const struct xt_source *source = loader->config.source;
    uint64_t seed = loader->config.seed;
    size_t count = epoch_length(&loader->config);
    bool drawn = loader->config.shuffle && source->class->draw;
    for (size_t i = 0; i < count; i++)
        loader->order[i] =
            drawn ? source->class->draw(source, seed, epoch, i) : loader->config.first + i;
    struct xt_rng rng = place_rng(seed, STREAM_ORDER, epoch, 0);
    for (size_t i = count; loader->config.shuffle && i > 1; i--) {
        size_t other = (size_t)xt_rng_below(&rng, i);
        size_t moved = loader->order[i - 1];
        loader->order[i - 1] = loader->order[other];
        loader->order[other] = moved;
    }
    loader->order_epoch = epoch;
    loader->order_planned = true;
}

/* Plans the samples of the next batch, and opens its slot. Under the lock. */
static void plan(struct xt_loader *loader, struct slot *slot)
{
    const struct xt_loader_config *config = &loader->config;
    uint64_t step = (uint64_t)loader->planned++;
    uint64_t epoch = step / loader->epoch_steps;
    if (!loader->order_planned || loader->order_epoch != epoch)
        make_order(loader, epoch);
    size_t first = (size_t)(step % loader->epoch_steps) * (size_t)config->batch;
    size_t left = epoch_length(config) - first;
    slot->epoch = epoch;
    int rows = xt_loader_rows(config);
    slot->count = left < (size_t)rows ? (int)left : rows;
    slot->free = false;
    memset(slot->indices, 0, (size_t)rows * sizeof *slot->indices);
    for (int i = 0; i < slot->count; i++)
        slot->indices[i] = loader->order[first + (size_t)xt_rows_at(&config->rows, i)];
    atomic_store(&slot->chunks_left, loader->chunks);
    atomic_store(&slot->step, (int64_t)step);
    pthread_cond_broadcast(&loader->room);
}

/* Waits until the step's slot is open. False if the loader stops. */
static bool wait_open(struct xt_loader *loader, struct slot *slot, int64_t step)
{
    if (atomic_load(&slot->step) == step)
        return !atomic_load(&loader->stop);
    double start = xt_thread_seconds();
    pthread_mutex_lock(&loader->lock);
    while (!atomic_load(&loader->stop) && atomic_load(&slot->step) != step) {
        if (loader->planned == step && slot->free)
            plan(loader, slot);
        else
            pthread_cond_wait(&loader->room, &loader->lock);
    }
    pthread_mutex_unlock(&loader->lock);
    atomic_fetch_add(&loader->slot_waits, (uint64_t)(1e9 * (xt_thread_seconds() - start)));
    return !atomic_load(&loader->stop);
}

static struct xt_mixup mixup_of(const struct xt_loader *loader, const struct slot *slot,
                                int64_t step)
{
    return (struct xt_mixup){.alpha = loader->config.mixup,
                             .seed = loader->config.seed,
                             .step = (uint64_t)step,
                             .first = loader->config.rows.first,
                             .count = slot->count};
}

static void finish_chunk(struct xt_loader *loader, struct slot *slot, int64_t step)
{
    if (atomic_fetch_sub(&slot->chunks_left, 1) > 1)
        return;
    struct xt_mixup mixup = mixup_of(loader, slot, step);
    size_t image = (size_t)loader->config.width * (size_t)loader->config.height * 3;
    if (mixup.alpha > 0)
        xt_mixup_pixels(&mixup, slot->pixels, image);
    pthread_mutex_lock(&loader->lock);
    slot->done = step;
    pthread_cond_signal(&loader->ready);
    pthread_mutex_unlock(&loader->lock);
}

static enum xt_status fill_chunk(struct worker *worker, struct slot *slot, int64_t step, int chunk)
{
    const struct xt_loader *loader = worker->loader;
    int first = chunk * loader->chunk;
    int end = first + loader->chunk;
    if (end > xt_loader_rows(&loader->config))
        end = xt_loader_rows(&loader->config);
    enum xt_status status = XT_OK;
    for (int row = first; !status && row < end; row++) {
        if (atomic_load_explicit(&loader->stop, memory_order_relaxed))
            break;
        status = fill_row(worker, slot, step, row);
    }
    return status;
}

static enum xt_status fill_timed(struct worker *worker, struct slot *slot, int64_t step, int chunk)
{
    struct xt_loader *loader = worker->loader;
    double start = xt_thread_seconds();
    enum xt_status status = fill_chunk(worker, slot, step, chunk);
    uint64_t taken = (uint64_t)(1e9 * (xt_thread_seconds() - start));
    atomic_fetch_add_explicit(&loader->busy, taken, memory_order_relaxed);
    atomic_fetch_add_explicit(&loader->decoded, (uint64_t)loader->chunk, memory_order_relaxed);
    return status;
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct xt_loader *loader = worker->loader;
    struct group *group = loader->groups + (worker - loader->workers) % loader->group_count;
    if (loader->group_count > 1)
        xt_numa_bind_thread(group->node);
    for (;;) {
        int64_t ticket = atomic_fetch_add(&group->ticket, 1);
        int64_t step = group->first + ticket / loader->chunks * loader->group_count;
        struct slot *slot = loader->slots + step % loader->config.slots;
        if (step >= loader->end || !wait_open(loader, slot, step))
            return NULL;
        if (fill_timed(worker, slot, step, (int)(ticket % loader->chunks))) {
            pthread_mutex_lock(&loader->lock);
            fail(loader, &worker->err);
            pthread_mutex_unlock(&loader->lock);
            return NULL;
        }
        finish_chunk(loader, slot, step);
    }
}

static enum xt_status check_config(const struct xt_loader_config *config, struct xt_err *err)
{
    if (config->batch < 1 || config->width < 1 || config->height < 1)
        return xt_err_set(err, XT_ERR_USAGE,
                          "a batch of %d images of %d x %d pixels is not possible", config->batch,
                          config->width, config->height);
    if (config->workers < 1 || config->slots < 2)
        return xt_err_set(err, XT_ERR_USAGE,
                          "the loader needs at least 1 worker and 2 batch slots, not %d and %d",
                          config->workers, config->slots);
    if (config->cache && config->fit == XT_FIT_RANDOM_CROP)
        return xt_err_set(err, XT_ERR_USAGE,
                          "images that are cropped at random differ each time, so that they cannot "
                          "be cached; use --image-cache off or --fit stretch");
    if (config->rows.of &&
        (config->rows.of != config->batch || config->rows.count < 1 || !config->drop_last))
        return xt_err_set(err, XT_ERR_USAGE,
                          "%d rows of a batch of %d cannot come from batches of %d",
                          config->rows.count, config->rows.of, config->batch);
    if (config->first + config->count > config->source->count)
        return xt_err_set(err, XT_ERR_USAGE, "%s has no %zu samples from number %zu on",
                          config->source->description, config->count, config->first);
    if (config->source->count == 0)
        return xt_err_set(err, XT_ERR_DATA, "there are no samples in %s",
                          config->source->description);
    if (xt_loader_epoch_steps(config) == 0)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s: fewer samples than one batch of %d, and smaller batches are "
                          "dropped; make the batch smaller",
                          config->source->description, config->batch);
    if (config->start_step >= INT64_MAX / (uint64_t)config->batch / 2)
        return xt_err_set(err, XT_ERR_DATA, "the loader cannot start at step %llu",
                          (unsigned long long)config->start_step);
    return XT_OK;
}

/* Small enough that all workers share the first batch, large enough that claiming costs nothing. */
static void choose_chunks(struct xt_loader *loader)
{
    enum { CHUNK_MOST = 16, CHUNKS_PER_WORKER = 4, WORKERS = 16 };
    int rows = xt_loader_rows(&loader->config);
    int workers = loader->config.workers_most < WORKERS ? loader->config.workers_most : WORKERS;
    int chunk = rows / CHUNKS_PER_WORKER / workers;
    chunk = chunk > CHUNK_MOST ? CHUNK_MOST : chunk;
    loader->chunk = chunk < 1 ? 1 : chunk;
    loader->chunks = (rows - 1) / loader->chunk + 1;
}

static enum xt_status create_slots(struct xt_loader *loader, struct xt_err *err)
{
    const char *what = "batch slots";
    size_t rows = (size_t)xt_loader_rows(&loader->config);
    enum xt_status status = xt_mem_calloc(&loader->slots, (size_t)loader->config.slots,
                                          sizeof *loader->slots, what, err);
    for (int i = 0; !status && i < loader->config.slots; i++) {
        struct slot *slot = loader->slots + i;
        slot->pixels = loader->config.slot_pixels[i];
        slot->free = true;
        slot->done = NO_STEP;
        atomic_init(&slot->step, NO_STEP);
        status = xt_mem_calloc(&slot->labels, rows * XT_LABEL_MAX, sizeof *slot->labels, what, err);
        if (!status)
            status =
                xt_mem_calloc(&slot->label_lengths, rows, sizeof *slot->label_lengths, what, err);
        if (!status)
            status = xt_mem_calloc(&slot->indices, rows, sizeof *slot->indices, what, err);
    }
    return status;
}

/* One group for each NUMA node that has at least one worker. */
static enum xt_status create_groups(struct xt_loader *loader, struct xt_err *err)
{
    const struct xt_loader_config *config = &loader->config;
    enum xt_status status = xt_mem_calloc(&loader->numa, 1, sizeof *loader->numa, "nodes", err);
    if (status)
        return status;
    xt_numa_read(loader->numa, config->nodes);
    int count = loader->numa->count < config->workers ? loader->numa->count : config->workers;
    while (config->slots % count)
        count--;
    loader->group_count = count;
    status = xt_mem_aligned(&loader->groups, (size_t)count, sizeof *loader->groups, "nodes", err);
    for (int i = 0; i < count && !status; i++) {
        int64_t ahead = (i - loader->next % count + count) % count;
        loader->groups[i].first = loader->next + ahead;
        loader->groups[i].node = loader->numa->nodes + i;
    }
    size_t bytes =
        (size_t)xt_loader_rows(config) * (size_t)config->width * (size_t)config->height * 3;
    for (int i = 0; i < config->slots && count > 1 && !status; i++)
        xt_numa_bind_memory(loader->groups[i % count].node, config->slot_pixels[i], bytes);
    return status;
}

static enum xt_status create_workers(struct xt_loader *loader, struct xt_err *err)
{
    /* On separate cache lines, as each is written by its own thread. */
    enum xt_status status = xt_mem_aligned(&loader->workers, (size_t)loader->config.workers_most,
                                           sizeof *loader->workers, "loader threads", err);
    for (int i = 0; !status && i < loader->config.workers_most; i++)
        loader->workers[i].loader = loader;
    return status;
}

static enum xt_status start_worker(struct xt_loader *loader, struct xt_err *err)
{
    struct worker *worker = loader->workers + loader->started;
    char what[32];
    snprintf(what, sizeof what, "loader thread %d", loader->started + 1);
    enum xt_status status = xt_thread_start(&worker->thread, work, worker, what, err);
    loader->started += !status;
    return status;
}

void xt_loader_grow(struct xt_loader *loader, int workers)
{
    struct xt_err own;
    int most = workers < loader->config.workers_most ? workers : loader->config.workers_most;
    while (loader->started < most && start_worker(loader, &own) == XT_OK)
        continue;
}

int xt_loader_workers(const struct xt_loader *loader)
{
    return loader->started;
}

int xt_loader_nodes(const struct xt_loader *loader)
{
    return loader->group_count;
}

double xt_loader_rate(struct xt_loader *loader)
{
    double busy = 1e-9 * (double)atomic_load(&loader->busy);
    return busy > 0 ? (double)atomic_load(&loader->decoded) / busy : 0;
}

enum xt_status xt_loader_create(struct xt_loader **out, const struct xt_loader_config *config,
                                struct xt_err *err)
{
    *out = NULL;
    struct xt_loader *loader = NULL;
    enum xt_status status = check_config(config, err);
    if (!status)
        status = xt_mem_calloc(&loader, 1, sizeof *loader, "a loader", err);
    if (status)
        return status;
    loader->config = *config;
    if (loader->config.workers_most < config->workers)
        loader->config.workers_most = config->workers;
    loader->epoch_steps = xt_loader_epoch_steps(config);
    loader->end = config->repeat ? INT64_MAX : (int64_t)loader->epoch_steps;
    loader->next = loader->planned = (int64_t)config->start_step;
    choose_chunks(loader);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->room, NULL);
    pthread_cond_init(&loader->ready, NULL);
    size_t count = config->source->count;
    status = xt_mem_calloc(&loader->order, epoch_length(config), sizeof *loader->order,
                           "the samples' order", err);
    if (!status)
        status = xt_mem_calloc(&loader->is_bad, count, 1, "the samples' state", err);
    if (!status)
        status = create_slots(loader, err);
    if (!status)
        status = create_groups(loader, err);
    if (!status)
        status = create_workers(loader, err);
    while (!status && loader->started < config->workers)
        status = start_worker(loader, err);
    if (status)
        xt_loader_destroy(loader);
    else
        *out = loader;
    return status;
}

static void stop_workers(struct xt_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    atomic_store(&loader->stop, true);
    pthread_cond_broadcast(&loader->room);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->started; i++)
        pthread_join(loader->workers[i].thread, NULL);
}

static void clear_worker(struct worker *worker)
{
    xt_decoder_clear(&worker->decoder);
    xt_resizer_clear(&worker->resizer);
    xt_image_clear(&worker->sample.picture.image);
    xt_image_clear(&worker->scratch);
}

void xt_loader_destroy(struct xt_loader *loader)
{
    if (!loader)
        return;
    stop_workers(loader);
    for (int i = 0; loader->workers && i < loader->config.workers_most; i++)
        clear_worker(loader->workers + i);
    for (int i = 0; loader->slots && i < loader->config.slots; i++) {
        free(loader->slots[i].labels);
        free(loader->slots[i].label_lengths);
        free(loader->slots[i].indices);
    }
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->room);
    pthread_mutex_destroy(&loader->lock);
    xt_loader_free_bad(loader->bad, loader->bad_count);
    free(loader->is_bad);
    free(loader->order);
    free(loader->workers);
    free(loader->groups);
    free(loader->numa);
    free(loader->slots);
    free(loader);
}

/* Waits until the slot holds the step, or the run failed. */
static enum xt_status wait_ready(struct xt_loader *loader, const struct slot *slot, int64_t step,
                                 double *waited, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    pthread_mutex_lock(&loader->lock);
    if (!loader->failed && slot->done != step) {
        double start = xt_thread_seconds();
        while (!loader->failed && slot->done != step)
            pthread_cond_wait(&loader->ready, &loader->lock);
        *waited = xt_thread_seconds() - start;
    }
    if (loader->failed) {
        status = loader->failure.status;
        if (err)
            *err = loader->failure;
    }
    pthread_mutex_unlock(&loader->lock);
    return status;
}

enum xt_status xt_loader_next(struct xt_loader *loader, struct xt_batch *out, bool *end,
                              double *waited, struct xt_err *err)
{
    int64_t step = loader->next;
    int number = (int)(step % loader->config.slots);
    const struct slot *slot = loader->slots + number;
    double seconds = 0;
    *end = step >= loader->end;
    enum xt_status status = *end ? XT_OK : wait_ready(loader, slot, step, &seconds, err);
    if (waited)
        *waited = seconds;
    loader->batch_waits += seconds;
    if (status || *end)
        return status;
    loader->next++;
    *out = (struct xt_batch){
        .slot = number,
        .count = slot->count,
        .epoch = slot->epoch,
        .step = (uint64_t)step,
        .pixels = slot->pixels,
        .labels = slot->labels,
        .label_lengths = slot->label_lengths,
        .indices = slot->indices,
        .mixup = mixup_of(loader, slot, step),
    };
    return XT_OK;
}

void xt_loader_waits(struct xt_loader *loader, double *consumer, double *worker)
{
    if (consumer)
        *consumer = loader->batch_waits;
    *worker = 1e-9 * (double)atomic_load(&loader->slot_waits) / loader->started;
}

void xt_loader_release(struct xt_loader *loader, const struct xt_batch *batch)
{
    pthread_mutex_lock(&loader->lock);
    loader->slots[batch->slot].free = true;
    pthread_cond_broadcast(&loader->room);
    pthread_mutex_unlock(&loader->lock);
}

static enum xt_status copy_bad(const struct xt_loader *loader, struct xt_bad_sample **out,
                               size_t *count, struct xt_err *err)
{
    enum xt_status status =
        xt_mem_calloc(out, loader->bad_count, sizeof **out, "a list of bad samples", err);
    for (; !status && *count < loader->bad_count; ++*count) {
        struct xt_bad_sample *bad = *out + *count;
        bad->index = loader->bad[*count].index;
        status = xt_mem_strdup(&bad->reason, loader->bad[*count].reason, err);
    }
    return status;
}

enum xt_status xt_loader_bad(struct xt_loader *loader, struct xt_bad_sample **out, size_t *count,
                             struct xt_err *err)
{
    *out = NULL;
    *count = 0;
    pthread_mutex_lock(&loader->lock);
    enum xt_status status = copy_bad(loader, out, count, err);
    pthread_mutex_unlock(&loader->lock);
    if (status) {
        xt_loader_free_bad(*out, *count);
        *out = NULL;
        *count = 0;
    }
    return status;
}

size_t xt_loader_bad_count(struct xt_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    size_t count = loader->bad_count;
    pthread_mutex_unlock(&loader->lock);
    return count;
}

void xt_loader_free_bad(struct xt_bad_sample *bad, size_t count)
{
    for (size_t i = 0; i < count; i++)
        free(bad[i].reason);
    free(bad);
}
