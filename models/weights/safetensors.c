#include "models/weights/safetensors.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "models/weights/weight_store.h"

enum { PREFIX_BYTES = 8 };

/* Integers up to here are exact in a double, cJSON's number type. */
static const double exact_max = 9007199254740992.0;

struct placed {
    struct xt_file_tensor tensor;
    uint64_t begin;
    uint64_t end;
    size_t index;
};

static bool read_whole(const cJSON *item, uint64_t *out)
{
    if (!cJSON_IsNumber(item))
        return false;
    double value = item->valuedouble;
    if (!(value >= 0 && value <= exact_max) || value != floor(value))
        return false;
    *out = (uint64_t)value;
    return true;
}

static enum xt_status read_dtype(struct placed *placed, const cJSON *item, struct xt_err *err)
{
    const char *name = placed->tensor.name;
    if (!cJSON_IsString(item))
        return xt_err_set(err, XT_ERR_DATA, "tensor %s: its dtype is not a string", name);
    if (xt_dtype_find_file_name(item->valuestring, &placed->tensor.dtype))
        return XT_OK;
    char shown[32];
    return xt_err_set(err, XT_ERR_DATA,
                      "tensor %s: the data type '%s' cannot be read, only F32, F64, F16, BF16, "
                      "I64, I32, I16, I8, U8 and BOOL",
                      name,
                      xt_weight_store_printable(shown, sizeof shown, item->valuestring,
                                                strlen(item->valuestring)));
}

static enum xt_status read_shape(struct placed *placed, const cJSON *item, struct xt_err *err)
{
    struct xt_file_tensor *tensor = &placed->tensor;
    if (!cJSON_IsArray(item))
        return xt_err_set(err, XT_ERR_DATA, "tensor %s: its shape is not a list", tensor->name);
    const cJSON *dim = NULL;
    cJSON_ArrayForEach(dim, item)
    {
        uint64_t value = 0;
        if (tensor->ndims == XT_FILE_DIMS_MAX)
            return xt_err_set(err, XT_ERR_DATA, "tensor %s has more than %d dimensions",
                              tensor->name, XT_FILE_DIMS_MAX);
        if (!read_whole(dim, &value))
            return xt_err_set(err, XT_ERR_DATA,
                              "tensor %s: its shape holds something other than integers from 0",
                              tensor->name);
        tensor->dims[tensor->ndims++] = (int64_t)value;
    }
    return XT_OK;
}

static enum xt_status read_offsets(struct placed *placed, const cJSON *item, struct xt_err *err)
{
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 ||
        !read_whole(cJSON_GetArrayItem(item, 0), &placed->begin) ||
        !read_whole(cJSON_GetArrayItem(item, 1), &placed->end) || placed->begin > placed->end)
        return xt_err_set(err, XT_ERR_DATA,
                          "tensor %s: its data_offsets are not two rising whole numbers",
                          placed->tensor.name);
    return XT_OK;
}

static enum xt_status read_fields(struct placed *placed, const cJSON *entry, struct xt_err *err)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    static enum xt_status (*const readers[])(struct placed *, const cJSON *, struct xt_err *) = {
        read_dtype, read_shape, read_offsets};
    bool seen[3] = {false};
    const cJSON *field = NULL;
    cJSON_ArrayForEach(field, entry)
    {
        for (int i = 0; i < 3; i++) {
            if (strcmp(field->string, names[i]) != 0)
                continue;
            if (seen[i])
                return xt_err_set(err, XT_ERR_DATA, "tensor %s: it has two of %s",
                                  placed->tensor.name, names[i]);
            seen[i] = true;
            enum xt_status status = readers[i](placed, field, err);
            if (status)
                return status;
        }
    }
    for (int i = 0; i < 3; i++)
        if (!seen[i])
            return xt_err_set(err, XT_ERR_DATA, "tensor %s: it has no %s", placed->tensor.name,
                              names[i]);
    return XT_OK;
}

static enum xt_status read_entry(struct xt_weight_file *file, struct placed *placed,
                                 const cJSON *entry, size_t data_bytes, struct xt_err *err)
{
    struct xt_file_tensor *tensor = &placed->tensor;
    enum xt_status status =
        xt_weight_store_name(file, &tensor->name, entry->string, strlen(entry->string), err);
    if (status)
        return status;
    if (!cJSON_IsObject(entry))
        return xt_err_set(err, XT_ERR_DATA, "tensor %s: its entry in the header is not an object",
                          tensor->name);
    status = read_fields(placed, entry, err);
    if (status)
        return status;
    if (!xt_file_tensor_measure(tensor, &tensor->bytes))
        return xt_err_set(err, XT_ERR_DATA, "tensor %s: its shape is too large to be meant",
                          tensor->name);
    uint64_t range = placed->end - placed->begin;
    if (range != tensor->bytes)
        return xt_err_set(err, XT_ERR_DATA,
                          "tensor %s: its data_offsets span %" PRIu64
                          " bytes where its shape and data type take %zu",
                          tensor->name, range, tensor->bytes);
    if (placed->end > data_bytes)
        return xt_err_set(err, XT_ERR_DATA,
                          "tensor %s ends at byte %" PRIu64
                          " of the data, but the file holds only %zu: it was cut short, fetch or "
                          "save it again",
                          tensor->name, placed->end, data_bytes);
    return XT_OK;
}

static enum xt_status read_metadata(struct xt_weight_file *file, const cJSON *metadata,
                                    struct xt_err *err)
{
    if (file->meta)
        return xt_err_set(err, XT_ERR_DATA, "its header has two of __metadata__");
    if (!cJSON_IsObject(metadata))
        return xt_err_set(err, XT_ERR_DATA, "__metadata__ in its header is not an object");
    enum xt_status status =
        xt_weight_store_alloc(file, &file->meta, (size_t)cJSON_GetArraySize(metadata),
                              sizeof *file->meta, "metadata", err);
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, metadata)
    {
        if (status)
            return status;
        const char *texts[2] = {item->string, item->valuestring};
        char *copies[2] = {NULL};
        for (int i = 0; i < 2; i++) {
            if (!cJSON_IsString(item) || !xt_weight_store_is_text(texts[i], strlen(texts[i]), true))
                return xt_err_set(
                    err, XT_ERR_DATA,
                    "__metadata__ in its header holds something other than UTF-8 strings");
            size_t length = strlen(texts[i]);
            status = xt_weight_store_alloc(file, &copies[i], length + 1, 1, "metadata", err);
            if (status)
                return status;
            memcpy(copies[i], texts[i], length);
        }
        file->meta[file->meta_count++] =
            (struct xt_file_meta){.key = copies[0], .value = copies[1]};
    }
    return status;
}

static int compare_placed(const void *a, const void *b)
{
    const struct placed *p = a;
    const struct placed *q = b;
    if (p->begin != q->begin)
        return p->begin < q->begin ? -1 : 1;
    if (p->end != q->end)
        return p->end < q->end ? -1 : 1;
    return p->index < q->index ? -1 : p->index > q->index;
}

/* The tensors, sorted, must tile the data: no hole, no overlap, nothing after the last. */
static enum xt_status check_tiling(const struct placed *placed, size_t count, size_t data_bytes,
                                   struct xt_err *err)
{
    uint64_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (placed[i].begin < at)
            return xt_err_set(err, XT_ERR_DATA,
                              "tensors %s and %s overlap at byte %" PRIu64 " of the data",
                              placed[i - 1].tensor.name, placed[i].tensor.name, placed[i].begin);
        if (placed[i].begin > at)
            return xt_err_set(err, XT_ERR_DATA,
                              "bytes %" PRIu64 " to %" PRIu64
                              " of the data, before tensor %s, belong to no tensor",
                              at, placed[i].begin, placed[i].tensor.name);
        at = placed[i].end;
    }
    if (at != data_bytes)
        return xt_err_set(err, XT_ERR_DATA,
                          "%" PRIu64 " bytes after the last tensor belong to none",
                          data_bytes - at);
    return XT_OK;
}

/* Reads the bytes of all tensors, at the end of the file. */
static enum xt_status read_data(struct xt_weight_file *file, const struct xt_weight_input *input,
                                size_t data_bytes, const uint8_t **out, struct xt_err *err)
{
    uint8_t *data = NULL;
    enum xt_status status = xt_weight_input_check(input, data_bytes, err);
    if (!status)
        status = xt_weight_store_alloc(file, &data, data_bytes, 1, "weights", err);
    *out = data;
    return status ? status
                  : xt_weight_input_read(input, input->size - data_bytes, data, data_bytes, err);
}

static enum xt_status read_entries(struct xt_weight_file *file, const struct xt_weight_input *input,
                                   const cJSON *root, size_t data_bytes, struct xt_err *err)
{
    size_t room = (size_t)cJSON_GetArraySize(root);
    struct placed *placed = NULL;
    enum xt_status status = xt_mem_calloc(&placed, room, sizeof *placed, "the tensor list", err);
    if (!status)
        status = xt_weight_store_alloc(file, &file->tensors, room, sizeof *file->tensors,
                                       "the tensor list", err);
    size_t count = 0;
    const uint8_t *data = NULL;
    const cJSON *entry = NULL;
    cJSON_ArrayForEach(entry, root)
    {
        if (status)
            goto out;
        if (!strcmp(entry->string, "__metadata__")) {
            status = read_metadata(file, entry, err);
            continue;
        }
        placed[count].index = count;
        status = read_entry(file, &placed[count], entry, data_bytes, err);
        count++;
    }
    if (status)
        goto out;
    qsort(placed, count, sizeof *placed, compare_placed);
    status = check_tiling(placed, count, data_bytes, err);
    if (!status)
        status = read_data(file, input, data_bytes, &data, err);
    if (status)
        goto out;
    for (size_t i = 0; i < count; i++) {
        file->tensors[i] = placed[i].tensor;
        file->tensors[i].data = data + placed[i].begin;
    }
    file->count = count;
    status = xt_weight_store_check_unique(file, err);
out:
    free(placed);
    return status;
}

static bool all_space(const char *text)
{
    return text[strspn(text, " \t\r\n")] == '\0';
}

/* `text` is the header followed by a NUL: some versions of cJSON read one byte past the end. */
static enum xt_status parse_header(cJSON **root, const char *text, size_t length,
                                   struct xt_err *err)
{
    /* Either would silently truncate a name. */
    if (memchr(text, 0, length) || xt_str_has_json_nul(text))
        return xt_err_set(err, XT_ERR_DATA, "its header holds a NUL character");
    const char *end = text;
    *root = cJSON_ParseWithLengthOpts(text, length, &end, false);
    if (!*root)
        return xt_err_set(err, XT_ERR_DATA, "its header is not JSON at byte %zu",
                          PREFIX_BYTES + (size_t)(end - text));
    if (!cJSON_IsObject(*root) || !all_space(end))
        return xt_err_set(err, XT_ERR_DATA, "its header is not one JSON object");
    return XT_OK;
}

enum xt_status xt_safetensors_parse(struct xt_weight_file *file,
                                    const struct xt_weight_input *input, struct xt_err *err)
{
    uint64_t length = 0;
    if (input->size < PREFIX_BYTES)
        return xt_err_set(err, XT_ERR_DATA, "%zu bytes are too few for a file of weights",
                          input->size);
    enum xt_status status = xt_weight_input_read(input, 0, &length, sizeof length, err);
    if (status)
        return status;
    if (length > XT_WEIGHT_HEADER_MAX)
        return xt_err_set(err, XT_ERR_DATA,
                          "its header claims %" PRIu64 " bytes, more than the %d that are read",
                          length, XT_WEIGHT_HEADER_MAX);
    if (length > input->size - PREFIX_BYTES)
        return xt_err_set(err, XT_ERR_DATA,
                          "its header claims %" PRIu64
                          " bytes, but the file has only %zu: it was cut short, fetch or save it "
                          "again",
                          length, input->size);
    char *text = NULL;
    cJSON *root = NULL;
    status = xt_mem_calloc(&text, (size_t)length + 1, 1, "a header", err);
    if (!status)
        status = xt_weight_input_read(input, PREFIX_BYTES, text, (size_t)length, err);
    if (!status)
        status = parse_header(&root, text, (size_t)length, err);
    if (!status)
        status = read_entries(file, input, root, input->size - PREFIX_BYTES - (size_t)length, err);
    cJSON_Delete(root);
    free(text);
    return status;
}

static enum xt_status put_string(struct xt_str *out, const char *text, struct xt_err *err)
{
    if (!xt_weight_store_is_text(text, strlen(text), true))
        return xt_err_set(err, XT_ERR_DATA, "a name or text to be saved is not UTF-8");
    xt_str_append(out, "\"", 1, NULL);
    for (const char *c = text; *c; c++) {
        if (*c == '"' || *c == '\\')
            xt_str_printf(out, NULL, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            xt_str_printf(out, NULL, "\\u%04x", (unsigned)*c);
        else
            xt_str_append(out, c, 1, NULL);
    }
    return xt_str_append(out, "\"", 1, err);
}

static enum xt_status put_metadata(struct xt_str *out, const struct xt_file_meta *meta,
                                   size_t count, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    xt_str_printf(out, NULL, "\"__metadata__\":{");
    for (size_t i = 0; i < count && !status; i++) {
        if (i)
            xt_str_append(out, ",", 1, NULL);
        status = put_string(out, meta[i].key, err);
        xt_str_append(out, ":", 1, NULL);
        if (!status)
            status = put_string(out, meta[i].value, err);
    }
    return status ? status : xt_str_append(out, "}", 1, err);
}

static enum xt_status put_tensor(struct xt_str *out, const struct xt_file_tensor *tensor,
                                 uint64_t *at, struct xt_err *err)
{
    size_t bytes = 0;
    if (tensor->ndims < 0 || tensor->ndims > XT_FILE_DIMS_MAX ||
        !xt_file_tensor_measure(tensor, &bytes) || bytes != tensor->bytes)
        return xt_err_set(err, XT_ERR_DATA,
                          "tensor %s cannot be saved: its %zu bytes do not match its shape",
                          tensor->name, tensor->bytes);
    if (!strcmp(tensor->name, "__metadata__"))
        return xt_err_set(err, XT_ERR_DATA, "a tensor cannot have the name __metadata__");
    enum xt_status status = put_string(out, tensor->name, err);
    xt_str_printf(out, NULL, ":{\"dtype\":\"%s\",\"shape\":[", xt_dtype_file_name(tensor->dtype));
    for (int i = 0; i < tensor->ndims; i++)
        xt_str_printf(out, NULL, "%s%" PRId64, i ? "," : "", tensor->dims[i]);
    xt_str_printf(out, NULL, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", *at, *at + bytes);
    *at += bytes;
    return status;
}

static enum xt_status put_header(struct xt_str *out, const struct xt_file_tensor *tensors,
                                 size_t count, const struct xt_file_meta *meta, size_t meta_count,
                                 struct xt_err *err)
{
    static const char prefix[PREFIX_BYTES];
    enum xt_status status = XT_OK;
    xt_str_append(out, prefix, sizeof prefix, NULL);
    xt_str_append(out, "{", 1, NULL);
    if (meta_count)
        status = put_metadata(out, meta, meta_count, err);
    uint64_t at = 0;
    for (size_t i = 0; i < count && !status; i++) {
        if (i || meta_count)
            xt_str_append(out, ",", 1, NULL);
        status = put_tensor(out, &tensors[i], &at, err);
    }
    xt_str_append(out, "}", 1, NULL);
    while (out->length % 8 && !out->failed)
        xt_str_append(out, " ", 1, NULL);
    return status ? status : xt_str_check(out, err);
}

enum xt_status xt_safetensors_header(uint8_t **header, size_t *size,
                                     const struct xt_file_tensor *tensors, size_t count,
                                     const struct xt_file_meta *meta, size_t meta_count,
                                     struct xt_err *err)
{
    struct xt_str out = {0};
    enum xt_status status = put_header(&out, tensors, count, meta, meta_count, err);
    if (!status && out.length - PREFIX_BYTES > XT_WEIGHT_HEADER_MAX)
        status = xt_err_set(err, XT_ERR_DATA, "names and texts are too large to be saved");
    if (status) {
        xt_str_clear(&out);
        return status;
    }
    uint64_t length = out.length - PREFIX_BYTES;
    memcpy(out.data, &length, sizeof length);
    *header = (uint8_t *)out.data;
    *size = out.length;
    return XT_OK;
}
