#include "models/weights/weight_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/str.h"
#include "models/weights/pth.h"
#include "models/weights/safetensors.h"
#include "models/weights/weight_store.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "weight files are little-endian");

static const size_t file_bytes_max = (size_t)1 << 36;

enum format { FORMAT_SAFETENSORS, FORMAT_ZIP, FORMAT_LEGACY, FORMAT_NONE };

static enum format find_format(const uint8_t *bytes, size_t size)
{
    if (size >= 4 && bytes[0] == 'P' && bytes[1] == 'K' && bytes[2] < 8 && bytes[3] < 9)
        return FORMAT_ZIP;
    /* A pickle's third byte is an opcode, never 0; in a header's length it is, or the header is
     * larger than can be read. */
    if (size >= 3 && bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5 && bytes[2] != 0)
        return FORMAT_LEGACY;
    return size > 8 && bytes[8] != '{' ? FORMAT_NONE : FORMAT_SAFETENSORS;
}

static enum xt_status parse(struct xt_weight_file *file, enum format format, const uint8_t *bytes,
                            size_t size, struct xt_err *err)
{
    switch (format) {
    case FORMAT_SAFETENSORS:
        return xt_safetensors_parse(file, bytes, size, err);
    case FORMAT_ZIP:
        return xt_pth_parse_zip(file, bytes, size, err);
    case FORMAT_LEGACY:
        return xt_pth_parse_legacy(file, bytes, size, err);
    case FORMAT_NONE:
        break;
    }
    return xt_err_set(err, XT_ERR_DATA,
                      "it is neither safetensors nor a .pth file of PyTorch, the two kinds of "
                      "weights that can be read");
}

/* Takes the prefix from the names where all have it and are more. */
static bool drop_prefix(struct xt_weight_file *file, const char *prefix)
{
    size_t length = strlen(prefix);
    for (size_t i = 0; i < file->count; i++)
        if (!xt_str_starts(file->tensors[i].name, prefix) || !file->tensors[i].name[length])
            return false;
    for (size_t i = 0; i < file->count; i++)
        file->tensors[i].name += length;
    return file->count > 0;
}

/* What DataParallel and torch.compile put before every name of the network inside. */
static void drop_wrappers(struct xt_weight_file *file)
{
    while (drop_prefix(file, "module.") || drop_prefix(file, "_orig_mod."))
        ;
}

enum xt_status xt_weight_file_parse(struct xt_weight_file *file, const uint8_t *bytes, size_t size,
                                    const char *name, struct xt_err *err)
{
    struct xt_err own;
    *file = (struct xt_weight_file){0};
    enum xt_status status = parse(file, find_format(bytes, size), bytes, size, &own);
    if (!status) {
        drop_wrappers(file);
        return XT_OK;
    }
    xt_weight_file_clear(file);
    return xt_err_set(err, status, "%s: %s", name, own.text);
}

enum xt_status xt_weight_file_read(struct xt_weight_file *file, const char *path,
                                   struct xt_err *err)
{
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    size_t size = 0;
    *file = (struct xt_weight_file){0};
    enum xt_status status = xt_file_read(path, file_bytes_max, &bytes, &capacity, &size, err);
    if (!status)
        status = xt_weight_file_parse(file, bytes, size, path, err);
    /* The zip form was unpacked: its tensors do not point into the bytes. */
    if (status || find_format(bytes, size) == FORMAT_ZIP) {
        free(bytes);
        return status;
    }
    status = xt_weight_store_adopt(file, bytes, err);
    if (status)
        xt_weight_file_clear(file);
    return status;
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

size_t xt_file_tensor_count(const struct xt_file_tensor *tensor)
{
    return tensor->bytes / xt_dtype_size(tensor->dtype);
}

enum xt_status xt_file_tensor_floats(const struct xt_file_tensor *tensor, float *out, size_t count,
                                     struct xt_err *err)
{
    if (count != xt_file_tensor_count(tensor))
        return xt_err_set(err, XT_ERR_DATA, "tensor %s has %zu elements where %zu are wanted",
                          tensor->name, xt_file_tensor_count(tensor), count);
    if (!xt_dtype_is_float(tensor->dtype))
        return xt_err_set(err, XT_ERR_DATA,
                          "tensor %s holds %s where floating-point numbers are wanted",
                          tensor->name, xt_dtype_file_name(tensor->dtype));
    xt_number_to_float(tensor->dtype, tensor->data, count, out);
    return XT_OK;
}

static enum xt_status write_all(struct xt_file_writer *writer, const uint8_t *header,
                                size_t header_size, const struct xt_file_tensor *tensors,
                                size_t count, struct xt_err *err)
{
    enum xt_status status = xt_file_write(writer, header, header_size, err);
    for (size_t i = 0; i < count && !status; i++)
        status = xt_file_write(writer, tensors[i].data, tensors[i].bytes, err);
    return status;
}

enum xt_status xt_weight_file_write(const char *path, const struct xt_file_tensor *tensors,
                                    size_t count, const struct xt_file_meta *meta,
                                    size_t meta_count, struct xt_err *err)
{
    uint8_t *header = NULL;
    size_t header_size = 0;
    /* Only read through here: the fields are not const because readers fill them. */
    struct xt_weight_file file = {.tensors = (struct xt_file_tensor *)tensors, .count = count};
    struct xt_err own;
    enum xt_status status = xt_weight_store_check_unique(&file, &own);
    if (!status)
        status =
            xt_safetensors_header(&header, &header_size, tensors, count, meta, meta_count, &own);
    if (status)
        return xt_err_set(err, status, "%s cannot be written: %s", path, own.text);
    struct xt_file_writer writer = {0};
    status = xt_file_begin(&writer, path, err);
    if (!status)
        status = write_all(&writer, header, header_size, tensors, count, err);
    if (!status)
        status = xt_file_commit(&writer, err);
    xt_file_abandon(&writer);
    free(header);
    return status;
}
