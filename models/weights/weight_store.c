#include "models/weights/weight_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/str.h"

enum { NAME_BYTES_MAX = 512 };

struct store {
    void **blocks;
    size_t count;
};

/* Transfers ownership of a block to the file; frees it on failure. */
static enum xt_status adopt(struct xt_weight_file *file, void *block, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (!file->owned)
        status = xt_mem_calloc(&file->owned, 1, sizeof(struct store), "weights", err);
    struct store *store = file->owned;
    if (!status)
        status = xt_mem_add(&store->blocks, store->count, sizeof *store->blocks, "weights", err);
    if (status) {
        free(block);
        return status;
    }
    store->blocks[store->count++] = block;
    return XT_OK;
}

enum xt_status xt_weight_store_alloc(struct xt_weight_file *file, void *out, size_t count,
                                     size_t size, const char *what, struct xt_err *err)
{
    void *block = NULL;
    enum xt_status status = xt_mem_calloc(&block, count, size, what, err);
    if (!status)
        status = adopt(file, block, err);
    if (!status)
        memcpy(out, &block, sizeof block);
    return status;
}

void xt_weight_file_clear(struct xt_weight_file *file)
{
    struct store *store = file->owned;
    for (size_t i = 0; store && i < store->count; i++)
        free(store->blocks[i]);
    if (store)
        free(store->blocks);
    free(store);
    *file = (struct xt_weight_file){0};
}

const struct xt_file_tensor *xt_weight_file_find(const struct xt_weight_file *file,
                                                 const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (!strcmp(file->tensors[i].name, name))
            return &file->tensors[i];
    return NULL;
}

const char *xt_weight_file_meta(const struct xt_weight_file *file, const char *key)
{
    for (size_t i = 0; i < file->meta_count; i++)
        if (!strcmp(file->meta[i].key, key))
            return file->meta[i].value;
    return NULL;
}

bool xt_weight_store_is_text(const char *bytes, size_t length, bool allow_controls)
{
    for (size_t at = 0; at < length;) {
        uint32_t code = 0;
        size_t step = xt_utf8_decode(bytes + at, length - at, &code);
        if (step == 0 || code == 0)
            return false;
        if (!allow_controls && (code < 0x20 || (code >= 0x7F && code < 0xA0)))
            return false;
        at += step;
    }
    return true;
}

enum xt_status xt_weight_store_name(struct xt_weight_file *file, const char **out,
                                    const char *bytes, size_t length, struct xt_err *err)
{
    if (length == 0 || length > NAME_BYTES_MAX)
        return xt_err_set(err, XT_ERR_DATA, "a tensor's name has %zu bytes, not 1 to %d", length,
                          NAME_BYTES_MAX);
    if (!xt_weight_store_is_text(bytes, length, false)) {
        char shown[96];
        return xt_err_set(err, XT_ERR_DATA,
                          "the tensor name '%s' is not UTF-8 or holds control characters",
                          xt_weight_store_printable(shown, sizeof shown, bytes, length));
    }
    char *copy = NULL;
    enum xt_status status = xt_weight_store_alloc(file, &copy, length + 1, 1, "a name", err);
    if (status)
        return status;
    memcpy(copy, bytes, length);
    *out = copy;
    return XT_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum xt_status copy_text(struct xt_weight_file *file, const char **out, const char *text,
                                struct xt_err *err)
{
    size_t bytes = strlen(text) + 1;
    char *copy = NULL;
    enum xt_status status = xt_weight_store_alloc(file, &copy, bytes, 1, "the metadata", err);
    if (!status)
        memcpy(copy, text, bytes);
    *out = copy;
    return status;
}

enum xt_status xt_weight_store_copy_meta(struct xt_weight_file *file,
                                         const struct xt_weight_file *from, struct xt_err *err)
{
    struct xt_file_meta *meta = NULL;
    enum xt_status status =
        xt_weight_store_alloc(file, &meta, from->meta_count + 1, sizeof *meta, "the metadata", err);
    for (size_t i = 0; i < from->meta_count && !status; i++) {
        status = copy_text(file, &meta[i].key, from->meta[i].key, err);
        if (!status)
            status = copy_text(file, &meta[i].value, from->meta[i].value, err);
    }
    if (status)
        return status;
    file->meta = meta;
    file->meta_count = from->meta_count;
    return XT_OK;
}

enum xt_status xt_weight_store_check_unique(const struct xt_weight_file *file, struct xt_err *err)
{
    const char **names = NULL;
    enum xt_status status = xt_mem_calloc(&names, file->count, sizeof *names, "names", err);
    if (status)
        return status;
    for (size_t i = 0; i < file->count; i++)
        names[i] = file->tensors[i].name;
    qsort(names, file->count, sizeof *names, compare_names);
    for (size_t i = 1; i < file->count && !status; i++)
        if (!strcmp(names[i - 1], names[i]))
            status = xt_err_set(err, XT_ERR_DATA, "it holds two tensors named '%s'", names[i]);
    free(names);
    return status;
}

const char *xt_weight_store_printable(char *out, size_t size, const void *bytes, size_t length)
{
    const unsigned char *from = bytes;
    size_t count = length < size - 1 ? length : size - 1;
    for (size_t i = 0; i < count; i++)
        out[i] = (char)(from[i] >= 0x20 && from[i] < 0x7F ? from[i] : '?');
    out[count] = '\0';
    return out;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weight files are little-endian");

size_t xt_file_tensor_count(const struct xt_file_tensor *tensor)
{
    return tensor->bytes / xt_dtype_size(tensor->dtype);
}

bool xt_file_tensor_measure(const struct xt_file_tensor *tensor, size_t *bytes)
{
    /* Zero-sized dimensions last, so that the others must not overflow either. */
    int64_t product = (int64_t)xt_dtype_size(tensor->dtype);
    bool empty = false;
    for (int i = 0; i < tensor->ndims; i++) {
        if (tensor->dims[i] < 0)
            return false;
        if (tensor->dims[i] == 0)
            empty = true;
        else if (__builtin_mul_overflow(product, tensor->dims[i], &product))
            return false;
    }
    *bytes = empty ? 0 : (size_t)product;
    return true;
}

enum xt_status xt_file_tensor_floats(const struct xt_file_tensor *tensor, float *out, size_t count,
                                     struct xt_err *err)
{
    if (count != xt_file_tensor_count(tensor))
        return xt_err_set(err, XT_ERR_DATA, "tensor %s has %zu elements where %zu are wanted",
                          tensor->name, xt_file_tensor_count(tensor), count);
    if (!xt_dtype_is_float(tensor->dtype))
        return xt_err_set(err, XT_ERR_DATA,
                          "tensor %s holds %s where floating-point numbers are expected",
                          tensor->name, xt_dtype_file_name(tensor->dtype));
    xt_number_to_float(tensor->dtype, tensor->data, count, out);
    return XT_OK;
}
