/* The loader: threads that read, decode, resize and augment samples and pack them into batch slots
 * ahead of the step.
 *
 * The caller owns the slots' pixel memory (so that it can be pinned, or device memory) and passes
 * it in; the loader fills slots in batch order. Which samples a batch holds and how they are
 * augmented is a function of seed, epoch and position alone, whatever the number of workers.
 *
 * On a machine with several NUMA nodes slots and workers are divided among the nodes, if there are
 * workers for each: a worker fills only the slots of its node, and stays on its CPUs.
 *
 * xt_loader_next and xt_loader_release are for one consumer thread. The last, smaller batch of an
 * epoch is delivered if drop_last is false.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rows.h"
#include "data/cache.h"
#include "data/image/mixup.h"
#include "data/sources/source.h"
#include "data/image/transform.h"

struct xt_loader_config {
    const struct xt_source *source; /* borrowed */
    int batch;                      /* samples per step */
    struct xt_rows rows; /* the rows of a batch that are made here, for complete batches only;
                            zeroed: all. A row's contents do not depend on it */
    size_t first;        /* evaluation: from this sample on, */
    size_t count;        /* this many; 0: to the last */
    int width;
    int height;
    int workers;       /* initially; at least 1 */
    int workers_most;  /* the limit of xt_loader_grow; 0: `workers` */
    const char *nodes; /* NULL: the system's NUMA nodes; else a sysfs-like folder, for tests */
    int slots;         /* at least 2 */
    uint8_t *const
        *slot_pixels; /* [slots] pointers to [rows][height][width][3] bytes; the caller's */
    bool shuffle;
    bool drop_last;
    int group;    /* with drop_last: an epoch has a multiple of this many batches; 0 counts as 1 */
    bool augment; /* augment plates: xt_augment_plate */
    enum xt_fit fit;  /* zeroed: stretch */
    float crop_least; /* random crops: the minimum share of the area; 0 means 0.08 */
    bool flip;        /* mirror with probability 1/2 */
    float jitter;     /* jitter of brightness, contrast and saturation: up to this part; 0: off */
    float hue;        /* jitter of hue: up to this part of the circle, at most 0.5; 0: off */
    double mixup;     /* training: mixup of pairs of images, alpha of their shares; 0: off */
    enum xt_pixel_order order; /* channel order of the source's pixels, for jitter and hue */
    bool repeat; /* training: continue with the next epoch after the last batch, and replace a bad
                    sample by another; else stop after the first epoch */
    bool strict; /* the first bad sample is an error */
    uint64_t seed;
    struct xt_cache *cache; /* borrowed; NULL: no cache. Not with random crops */
    uint64_t start_step;    /* batches already consumed, from epoch 0 (resume) */
    /* Training: at random places, this part of a batch shows negatives instead, random crops of
     * these pictures or all of one. Borrowed; NULL: none. */
    const struct xt_source *negatives;
    double negatives_part;
    bool are_negatives; /* evaluation: all samples are negatives, whatever their labels */
};

/* A filled slot. Valid until it is released. */
struct xt_batch {
    int slot;
    int count; /* samples in it, at most the number of rows; rows beyond are zero */
    uint64_t epoch;
    uint64_t step;            /* batches before this one, over all epochs */
    const uint8_t *pixels;    /* [rows][height][width][3] */
    const int *labels;        /* [rows][XT_LABEL_MAX] */
    const int *label_lengths; /* [rows]; 0 marks a bad sample (evaluation skips it; in training it
                                 is replaced by another one, drawn from seed, epoch and position);
                                 XT_LABEL_NEGATIVE a negative */
    const size_t *indices;    /* [rows] index in the source */
    struct xt_mixup mixup;    /* mixup of the pixels; labels are the rows' own */
};

/* A sample that could not be used. */
struct xt_bad_sample {
    size_t index;
    char *reason;
};

struct xt_loader;

enum xt_status xt_loader_create(struct xt_loader **out, const struct xt_loader_config *config,
                                struct xt_err *err);
/* Stops and joins the threads. NULL is allowed. */
void xt_loader_destroy(struct xt_loader *loader);

/* Waits for the next batch; *waited (may be NULL) gets the seconds spent waiting. *end is set, and
 * nothing delivered, after the last batch (repeat false). Errors: a worker's error; more than 1 %
 * (and more than one) of the source's samples bad; strict and one bad. */
enum xt_status xt_loader_next(struct xt_loader *loader, struct xt_batch *out, bool *end,
                              double *waited, struct xt_err *err);
/* Returns the slot to the workers. */
void xt_loader_release(struct xt_loader *loader, const struct xt_batch *batch);

/* Whether this many bad samples are too many: more than one, and more than 1 %. */
bool xt_loader_is_too_bad(size_t bad, size_t count);

/* Seconds that the consumer has waited for batches, and that a worker on average has waited for
 * slots: the first is large if loading is the bottleneck, the second if it is not. `consumer` may
 * be NULL, and is for the consumer thread only. */
void xt_loader_waits(struct xt_loader *loader, double *consumer, double *worker);

/* The number of running workers, and the images that each makes per second of work; 0 before the
 * first. */
int xt_loader_workers(const struct xt_loader *loader);
double xt_loader_rate(struct xt_loader *loader);
/* Starts workers until this many run, at most workers_most; one that cannot be started is skipped.
 * Call it from the thread that created the loader. */
void xt_loader_grow(struct xt_loader *loader, int workers);
/* The number of NUMA nodes that slots and workers are divided among; 1: nothing is bound. */
int xt_loader_nodes(const struct xt_loader *loader);

/* Rows of a batch that are made here. */
int xt_loader_rows(const struct xt_loader_config *config);
/* Batches in one epoch. */
uint64_t xt_loader_epoch_steps(const struct xt_loader_config *config);

/* The bad samples met so far (each once): a copy; release it with xt_loader_free_bad. */
enum xt_status xt_loader_bad(struct xt_loader *loader, struct xt_bad_sample **out, size_t *count,
                             struct xt_err *err);
void xt_loader_free_bad(struct xt_bad_sample *bad, size_t count);
/* The number of bad samples. */
size_t xt_loader_bad_count(struct xt_loader *loader);
