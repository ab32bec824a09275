/* Where samples come from: what a source is, and how it is read. The kinds, a file each, are in
 * registry.h, which opens them.
 *
 * A source knows how many samples it has and makes the i-th; order, batches, threads and
 * augmentation are the loader's. The class's functions that take a const source may be called from
 * several threads at once, each with its own decoder and sample.
 */
#ifndef XT_DATA_SOURCES_SOURCE_H
#define XT_DATA_SOURCES_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/alphabet.h"
#include "data/image/decoder.h"

/* The name of a class is as long as any folder's. */
enum { XT_LABEL_MAX = 32, XT_CLASSES_MAX = 65535, XT_CLASS_NAME_MAX = 255 };

/* What a label is: a plate's symbols, or the index of one class. */
enum xt_task { XT_TASK_PLATES, XT_TASK_CLASSES };

/* One sample: a picture of any size and its label (a plate's symbols; a class index alone is a
 * label of length 1). */
struct xt_sample {
    struct xt_picture picture;
    int label[XT_LABEL_MAX];
    int label_length;
};

struct xt_source;

struct xt_source_class {
    /* Fills the sample for what is wanted of it (NULL: all). Errors: XT_ERR_DATA with path and
     * reason for a bad sample, others end the run. */
    enum xt_status (*read)(const struct xt_source *source, size_t index, const struct xt_want *want,
                           struct xt_decoder *decoder, struct xt_sample *sample,
                           struct xt_err *err);
    /* The label alone, without decoding the image. */
    enum xt_status (*label)(const struct xt_source *source, size_t index, int *label, int *length,
                            struct xt_err *err);
    /* What to call the sample in messages and lists: its path, or "synth:plates #17". */
    void (*name)(const struct xt_source *source, size_t index, char *out, size_t size);
    /* A number that changes when the sample's file does (its name, size, time), 0 where it cannot
     * be read. NULL: the samples are no files. */
    uint64_t (*stamp)(const struct xt_source *source, size_t index);
    /* The image as it is stored, a whole JPEG, PNG or WebP: *bytes lie in the decoder's buffer or
     * are the source's, until the next call with either; NULL where the sample is made in another
     * way. */
    enum xt_status (*bytes)(const struct xt_source *source, size_t index,
                            struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                            struct xt_err *err);
    /* A mixture's sample for a place of an epoch, below epoch_length: a function of seed, epoch and
     * place, any of them as often as the next. NULL: an epoch of training has each sample once. */
    size_t (*draw)(const struct xt_source *source, uint64_t seed, uint64_t epoch, size_t place);
    /* From now on keeps the bytes of small files once they were read, `limit` of them at most
     * (kept.h); before the first read. NULL: the samples are no small files. */
    enum xt_status (*keep)(struct xt_source *source, uint64_t limit, struct xt_err *err);
    void (*destroy)(struct xt_source *source);
};

/* Each kind embeds this as its first member. */
struct xt_source {
    const struct xt_source_class *class;
    size_t count;
    size_t epoch_length;   /* samples in an epoch of training, where the class draws them */
    char description[256]; /* for the run's first lines: "700 plates in data/train" */
    char **class_names;    /* class_count of them, the source's; NULL for plates */
    int class_count;
    bool labels_in_names; /* a list of its files holds paths alone (CCPD) */
    bool has_other_part;  /* training and test images stood side by side (see held_out) */
};

struct xt_source_options {
    enum xt_task task;
    const struct xt_alphabet *alphabet; /* plates: borrowed; outlives the source */
    /* Classes: those that the labels must be of (the training set's for a validation set, the
     * weights' for an evaluation), matched by name; only read while the source is opened. With a
     * count and NULL, a label is an index below the count. 0: found in the data. */
    const char *const *class_names;
    int class_count;
    enum xt_pixel_order order;
    int steps_max;        /* labels that need more CTC steps are refused when the set is read */
    bool labels_optional; /* predict: files without a label are taken */
    bool held_out;        /* of a set with both parts (CIFAR's batches): the one to evaluate on */
};

void xt_source_destroy(struct xt_source *source);
/* The class's `bytes` (NULL where it has none) and `keep`. */
enum xt_status xt_source_bytes(const struct xt_source *source, size_t index,
                               struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                               struct xt_err *err);
enum xt_status xt_source_keep(struct xt_source *source, uint64_t limit, struct xt_err *err);
/* About how many bytes of small files there are that can be kept: a few are looked at. */
double xt_source_small_bytes(const struct xt_source *source);

/* For `stamp`: of a file's name and what the system says about it. */
struct stat;
uint64_t xt_source_stamp_of(const char *path, const struct stat *st);

/* How many classes the labels are of; 0 for plates. */
int xt_source_class_count(const struct xt_source *source);
/* What a class is called: its folder's name, or its number where it has no name. */
const char *xt_source_class_name(const struct xt_source *source, int index);

#endif
