#include "models/weights/weight_hash.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { DIGITS = 64 };

bool xt_weight_hash_is_key(const char *key)
{
    return strcmp(key, XT_WEIGHT_HASH_KEY) == 0 || strcmp(key, XT_WEIGHT_TENSORS_KEY) == 0;
}

static void add_text(struct xt_sha256 *hash, const char *text)
{
    xt_sha256_add(hash, text, strlen(text) + 1);
}

static struct xt_sha256_text end_text(struct xt_sha256 *hash)
{
    const struct xt_sha256_digest digest = xt_sha256_end(hash);
    return xt_sha256_format(&digest);
}

static struct xt_sha256_text hash_tensor(const struct xt_file_tensor *tensor)
{
    struct xt_sha256 hash;
    xt_sha256_begin(&hash);
    add_text(&hash, xt_dtype_name(tensor->dtype));
    xt_sha256_add(&hash, tensor->dims, (size_t)tensor->ndims * sizeof *tensor->dims);
    xt_sha256_add(&hash, tensor->data, tensor->bytes);
    return end_text(&hash);
}

static int by_name(const void *a, const void *b)
{
    const struct xt_file_tensor *const *one = a;
    const struct xt_file_tensor *const *other = b;
    return strcmp((*one)->name, (*other)->name);
}

static int by_key(const void *a, const void *b)
{
    const struct xt_file_meta *const *one = a;
    const struct xt_file_meta *const *other = b;
    return strcmp((*one)->key, (*other)->key);
}

/* Pointers to the elements of an array of any type, sorted. */
static enum xt_status sort(const void *array, size_t count, size_t size,
                           int (*compare)(const void *, const void *), const void ***out,
                           struct xt_err *err)
{
    enum xt_status status = xt_mem_calloc(out, count, sizeof **out, "a file's hash", err);
    for (size_t i = 0; !status && i < count; i++)
        (*out)[i] = (const char *)array + i * size;
    if (!status && count)
        qsort(*out, count, sizeof **out, compare);
    return status;
}

static enum xt_status add_tensors(struct xt_weight_hash *out, struct xt_sha256 *whole,
                                  const struct xt_weight_file *file, struct xt_err *err)
{
    const void **sorted = NULL;
    enum xt_status status =
        sort(file->tensors, file->count, sizeof *file->tensors, by_name, &sorted, err);
    for (size_t i = 0; !status && i < file->count; i++) {
        const struct xt_file_tensor *tensor = sorted[i];
        const struct xt_sha256_text hash = hash_tensor(tensor);
        add_text(whole, tensor->name);
        add_text(whole, hash.text);
        status = xt_str_append(&out->tensors, hash.text, DIGITS, err);
    }
    free(sorted);
    return status;
}

static enum xt_status add_metadata(struct xt_sha256 *whole, const struct xt_weight_file *file,
                                   struct xt_err *err)
{
    const void **sorted = NULL;
    enum xt_status status =
        sort(file->meta, file->meta_count, sizeof *file->meta, by_key, &sorted, err);
    for (size_t i = 0; !status && i < file->meta_count; i++) {
        const struct xt_file_meta *meta = sorted[i];
        if (xt_weight_hash_is_key(meta->key))
            continue;
        add_text(whole, meta->key);
        add_text(whole, meta->value);
    }
    free(sorted);
    return status;
}

enum xt_status xt_weight_hash_make(struct xt_weight_hash *out, const struct xt_weight_file *file,
                                   struct xt_err *err)
{
    struct xt_sha256 whole;
    *out = (struct xt_weight_hash){.whole = {""}};
    xt_sha256_begin(&whole);
    enum xt_status status = add_tensors(out, &whole, file, err);
    if (!status)
        status = add_metadata(&whole, file, err);
    out->whole = end_text(&whole);
    return status;
}

void xt_weight_hash_clear(struct xt_weight_hash *hash)
{
    xt_str_clear(&hash->tensors);
    *hash = (struct xt_weight_hash){.whole = {""}};
}

/* The first tensor, in the order of their names, whose hash is another one. */
static enum xt_status name_tensor(const struct xt_weight_file *file, const char *now,
                                  const char *then, struct xt_err *err)
{
    const void **sorted = NULL;
    size_t at = 0;
    enum xt_status status =
        sort(file->tensors, file->count, sizeof *file->tensors, by_name, &sorted, err);
    if (status)
        return status;
    while (memcmp(now + at * DIGITS, then + at * DIGITS, DIGITS) == 0)
        at++;
    const struct xt_file_tensor *tensor = sorted[at];
    status = xt_err_set(err, XT_ERR_DATA,
                        "it is damaged: tensor %s is not what was written (its SHA-256 differs); "
                        "take another copy, or remove xtrain_sha256... from its metadata if it was "
                        "changed on purpose",
                        tensor->name);
    free(sorted);
    return status;
}

enum xt_status xt_weight_hash_check(const struct xt_weight_file *file, struct xt_err *err)
{
    const char *whole = xt_weight_file_meta(file, XT_WEIGHT_HASH_KEY);
    const char *tensors = xt_weight_file_meta(file, XT_WEIGHT_TENSORS_KEY);
    struct xt_weight_hash now;
    if (!whole && !tensors)
        return XT_OK;
    enum xt_status status = xt_weight_hash_make(&now, file, err);
    const char *list = xt_str_get(&now.tensors);
    bool is_list = tensors && strlen(tensors) == now.tensors.length;
    if (!status && is_list && strcmp(tensors, list) != 0)
        status = name_tensor(file, list, tensors, err);
    else if (!status && (!is_list || !whole || strcmp(whole, now.whole.text) != 0))
        status = xt_err_set(err, XT_ERR_DATA,
                            "it is damaged: its metadata or the names of its tensors are not what "
                            "was written (their SHA-256 differs); take another copy");
    xt_weight_hash_clear(&now);
    return status;
}
