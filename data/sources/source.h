/* The interface of a source of samples. The kinds, one file each, are listed in registry.h, which
 * opens them.
 *
 * A source knows its number of samples and makes the i-th; order, batches, threads and augmentation
 * are the loader's. The class's functions that take a const source may be called from several
 * threads at once, each with its own decoder and sample.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/alphabet.h"
#include "data/image/decoder.h"

/* The name of a class is as long as any folder's. */
enum { XT_LABEL_MAX = 32, XT_CLASSES_MAX = 65535, XT_CLASS_NAME_MAX = 255 };
/* The length of the label of a negative: a picture of nothing that the network reads. */
enum { XT_LABEL_NEGATIVE = -1 };

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
    /* Fills the sample as requested (NULL: the whole image). Errors: XT_ERR_DATA with path and
     * reason for a bad sample; others stop the run. */
    enum xt_status (*read)(const struct xt_source *source, size_t index, const struct xt_want *want,
                           struct xt_decoder *decoder, struct xt_sample *sample,
                           struct xt_err *err);
    /* The label alone, without decoding the image. */
    enum xt_status (*label)(const struct xt_source *source, size_t index, int *label, int *length,
                            struct xt_err *err);
    /* The sample's name in messages and lists: its path, or "synth:plates #17". */
    void (*name)(const struct xt_source *source, size_t index, char *out, size_t size);
    /* A number that changes with the sample's file (its name, size, time), 0 if it cannot be read.
     * NULL: the samples are not files. */
    uint64_t (*stamp)(const struct xt_source *source, size_t index);
    /* The image as stored, a whole JPEG, PNG or WebP: *bytes are in the decoder's buffer or the
     * source's, until the next call with either; NULL if the sample is not stored so. */
    enum xt_status (*bytes)(const struct xt_source *source, size_t index,
                            struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                            struct xt_err *err);
    /* A mixture's sample for a position in an epoch, below epoch_length: a function of seed, epoch
     * and position, in any order. NULL: an epoch of training has each sample once. */
    size_t (*draw)(const struct xt_source *source, uint64_t seed, uint64_t epoch, size_t place);
    /* From now on caches the bytes of small files, at most `limit` of them (cached_files.h); before
     * the first read. NULL: the samples are not small files. */
    enum xt_status (*cache)(struct xt_source *source, uint64_t limit, struct xt_err *err);
    void (*destroy)(struct xt_source *source);
};

/* Each kind embeds this as its first member. */
struct xt_source {
    const struct xt_source_class *class;
    size_t count;
    size_t epoch_length;   /* samples in an epoch of training, if the class draws them */
    char description[256]; /* for the run's first lines: "700 plates in data/train" */
    char **class_names;    /* class_count of them, the source's; NULL for plates */
    int class_count;
    bool labels_in_names; /* lists of its files hold paths alone (CCPD) */
    bool has_other_part;  /* training and test images stood side by side (see held_out) */
};

struct xt_source_options {
    enum xt_task task;
    const struct xt_alphabet *alphabet; /* plates: borrowed; outlives the source */
    /* Classes that the labels must be of (the training set's for a validation set, the weights' for
     * an evaluation), matched by name; only read while the source is opened. With a count and NULL,
     * a label is an index below the count. 0: found in the data. */
    const char *const *class_names;
    int class_count;
    enum xt_pixel_order order;
    int steps_max;        /* labels that need more CTC steps are refused when the set is opened */
    bool labels_optional; /* predict: files without a label are accepted */
    bool held_out;        /* of a set with both parts (CIFAR's batches): use the test part */
};

void xt_source_destroy(struct xt_source *source);
/* The class's `bytes` (NULL if it has none) and `cache`. */
enum xt_status xt_source_bytes(const struct xt_source *source, size_t index,
                               struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                               struct xt_err *err);
enum xt_status xt_source_cache(struct xt_source *source, uint64_t limit, struct xt_err *err);
/* An estimate of the bytes of small files that can be cached, from a few of them. */
double xt_source_small_bytes(const struct xt_source *source);

/* For `stamp`: of a file's name and its stat. */
struct stat;
uint64_t xt_source_stamp_of(const char *path, const struct stat *st);

/* The number of classes; 0 for plates. */
int xt_source_class_count(const struct xt_source *source);
/* The name of a class: its folder's, or its number. */
const char *xt_source_class_name(const struct xt_source *source, int index);
