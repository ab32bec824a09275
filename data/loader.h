/* The loader: threads that read, decode, resize and augment samples and pack them into batch slots
 * ahead of the step.
 *
 * The caller owns the slots' pixel memory (so that it can be pinned, or be a device's own) and
 * hands it in; the loader fills slots in batch order. Which samples a batch holds and how they are
 * augmented is a function of seed, epoch and position alone, whatever the number of workers.
 *
 * On a machine of several NUMA nodes slots and workers are shared out among the nodes, as far as
 * there are workers for each: a worker fills the slots of its node alone, and stays on its CPUs.
 *
 * xt_loader_next and xt_loader_release are for one consumer thread. The last, smaller batch of an
 * epoch is delivered when drop_last is false.
 */
#ifndef XT_DATA_LOADER_H
#define XT_DATA_LOADER_H

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
    int batch;                      /* samples a step */
    struct xt_rows rows; /* those of a batch that are made here, of whole batches alone; zeroed:
                            all. What is made of a row does not depend on it */
    size_t first;        /* evaluation: the samples from this one on, */
    size_t count;        /* so many of them; 0: to the last */
    int width;
    int height;
    int workers;       /* at the beginning; at least 1 */
    int workers_most;  /* that xt_loader_grow may go up to; 0: `workers` */
    const char *nodes; /* NULL: the system's NUMA nodes; else a folder that shows some, for tests */
    int slots;         /* at least 2 */
    uint8_t *const
        *slot_pixels; /* [slots] pointers to [rows][height][width][3] bytes; the caller's */
    bool shuffle;
    bool drop_last;
    int group;       /* with drop_last: an epoch has a multiple of so many batches; 0 counts as 1 */
    bool augment;    /* vary plates: xt_augment_plate */
    enum xt_fit fit; /* zeroed: stretch */
    float crop_least; /* of random crops: the least part of the area; 0 means 0.08 */
    bool flip;        /* mirror every second image */
    float jitter;     /* change brightness, contrast and saturation by up to this part; 0: off */
    float hue;        /* turn the hue by up to this part of the circle, at most 0.5; 0: off */
    double mixup;     /* training: mix pairs of images, alpha of their shares; 0: off */
    enum xt_pixel_order order; /* of the source's pixels, for jitter and hue */
    bool repeat; /* training: go on with the next epoch after the last batch, and put another
                    sample in a bad one's place; else end after the first epoch */
    bool strict; /* the first bad sample ends the run */
    uint64_t seed;
    struct xt_cache *cache; /* borrowed; NULL: none. Not with random crops */
    uint64_t start_step;    /* batches already consumed, from epoch 0 (resume) */
};

/* A filled slot. Valid until it is released. */
struct xt_batch {
    int slot;
    int count; /* samples in it, at most as many as there are rows; rows beyond are zero */
    uint64_t epoch;
    uint64_t step;            /* batches before this one, over all epochs */
    const uint8_t *pixels;    /* [rows][height][width][3] */
    const int *labels;        /* [rows][XT_LABEL_MAX] */
    const int *label_lengths; /* [rows]; 0 marks a bad sample (evaluation leaves it out; training
                                 never sees one: another sample, drawn from seed, epoch and
                                 position, stands in its place) */
    const size_t *indices;    /* [rows] index in the source */
    struct xt_mixup mixup;    /* how pixels were mixed; labels are the rows' own */
};

/* A sample that could not be used. */
struct xt_bad_sample {
    size_t index;
    char *reason;
};

struct xt_loader;

enum xt_status xt_loader_create(struct xt_loader **out, const struct xt_loader_config *config,
                                struct xt_err *err);
/* Stops the threads and waits for them. NULL is allowed. */
void xt_loader_destroy(struct xt_loader *loader);

/* Waits for the next batch; *waited (may be NULL) gets the seconds spent waiting. *end is set, and
 * nothing delivered, after the last batch (repeat false). Errors: a worker's error; more than 1 %
 * (and more than one) of the source's samples bad; strict and one bad. */
enum xt_status xt_loader_next(struct xt_loader *loader, struct xt_batch *out, bool *end,
                              double *waited, struct xt_err *err);
/* Gives the slot back to the workers. */
void xt_loader_release(struct xt_loader *loader, const struct xt_batch *batch);

/* Whether so many bad samples are too many: more than one, and more than 1 %. */
bool xt_loader_is_too_bad(size_t bad, size_t count);

/* Seconds that the consumer has waited for batches, and that a worker on average has waited for
 * slots: the first says that loading is what takes the time, the second that it is not. `consumer`
 * may be NULL, and is for its thread alone. */
void xt_loader_waits(struct xt_loader *loader, double *consumer, double *worker);

/* The workers that run, and the images that each of them makes in a second while it is at work; 0
 * before the first. */
int xt_loader_workers(const struct xt_loader *loader);
double xt_loader_rate(struct xt_loader *loader);
/* Starts workers until so many run, at most workers_most; one that cannot be started is done
 * without. By the thread that created the loader. */
void xt_loader_grow(struct xt_loader *loader, int workers);
/* Among how many NUMA nodes slots and workers are shared out; 1: nothing is bound. */
int xt_loader_nodes(const struct xt_loader *loader);

/* Rows of a batch that are made here. */
int xt_loader_rows(const struct xt_loader_config *config);
/* Batches in one epoch. */
uint64_t xt_loader_epoch_steps(const struct xt_loader_config *config);

/* The bad samples met so far (each once): a copy that the caller releases with xt_loader_free_bad.
 */
enum xt_status xt_loader_bad(struct xt_loader *loader, struct xt_bad_sample **out, size_t *count,
                             struct xt_err *err);
void xt_loader_free_bad(struct xt_bad_sample *bad, size_t count);
/* How many they are. */
size_t xt_loader_bad_count(struct xt_loader *loader);

#endif
