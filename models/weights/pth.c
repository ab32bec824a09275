#include "models/weights/pth.h"

#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pickle.h"
#include "base/str.h"
#include "models/weights/weight_store.h"

/* PyTorch's keys are numbers; longer ones would make sorting slow. */
enum { KEY_MAX = 64 };

static const struct xt_pickle_global globals[] = {
    {"collections", "OrderedDict", XT_PICKLE_ROLE_DICT, 0},
    {"torch._utils", "_rebuild_tensor_v2", XT_PICKLE_ROLE_TENSOR, 0},
    {"torch._utils", "_rebuild_tensor", XT_PICKLE_ROLE_TENSOR, 0},
    {"torch._utils", "_rebuild_parameter", XT_PICKLE_ROLE_PARAMETER, 0},
    {"torch", "FloatStorage", XT_PICKLE_ROLE_STORAGE, XT_F32},
    {"torch", "DoubleStorage", XT_PICKLE_ROLE_STORAGE, XT_F64},
    {"torch", "HalfStorage", XT_PICKLE_ROLE_STORAGE, XT_F16},
    {"torch", "BFloat16Storage", XT_PICKLE_ROLE_STORAGE, XT_BF16},
    {"torch", "LongStorage", XT_PICKLE_ROLE_STORAGE, XT_I64},
    {"torch", "IntStorage", XT_PICKLE_ROLE_STORAGE, XT_I32},
    {"torch", "ShortStorage", XT_PICKLE_ROLE_STORAGE, XT_I16},
    {"torch", "CharStorage", XT_PICKLE_ROLE_STORAGE, XT_S8},
    {"torch", "ByteStorage", XT_PICKLE_ROLE_STORAGE, XT_U8},
    {"torch", "BoolStorage", XT_PICKLE_ROLE_STORAGE, XT_BOOL},
    {"torch", "Size", XT_PICKLE_ROLE_OTHER, 0},
    {"torch", "device", XT_PICKLE_ROLE_OTHER, 0},
    {"torch", "float32", XT_PICKLE_ROLE_OTHER, 0},
    {"torch", "float64", XT_PICKLE_ROLE_OTHER, 0},
    {"torch", "float16", XT_PICKLE_ROLE_OTHER, 0},
    {"torch", "bfloat16", XT_PICKLE_ROLE_OTHER, 0},
    {"torch", "int64", XT_PICKLE_ROLE_OTHER, 0},
    /* Left in checkpoints by learning-rate schedulers and Python's sets and bytes. */
    {"collections", "Counter", XT_PICKLE_ROLE_OTHER, 0},
    {"__builtin__", "set", XT_PICKLE_ROLE_OTHER, 0},
    {"builtins", "set", XT_PICKLE_ROLE_OTHER, 0},
    {"_codecs", "encode", XT_PICKLE_ROLE_OTHER, 0},
};

const struct xt_pickle_rules xt_pth_pickles = {
    .globals = globals,
    .global_count = sizeof globals / sizeof *globals,
    .bytes_max = XT_WEIGHT_HEADER_MAX,
    .content = "weights",
    .remedy = "a file that you trust can be made readable in Python by "
              "torch.save(model.state_dict(), ...)",
};

/* A storage that the pickle refers to; `bytes` is NULL until it is read, and stays so where no
 * tensor needs it (an optimizer's, say). */
struct storage {
    const uint8_t *key;
    size_t key_length;
    const uint8_t *bytes;
    size_t size;
    size_t width; /* of an element */
    size_t at;    /* its offset in a file of the legacy form; 0: not found yet */
    bool wanted;
};

struct reader {
    struct xt_weight_file *file;
    const struct xt_weight_input *input;
    struct xt_pickle pickle;
    struct storage *storages; /* sorted by key */
    size_t storage_count;
    size_t copy_left; /* budget of bytes for dense copies of strided tensors */
    struct xt_err *err;
};

static const char recompute[] = "it was cut short or damaged, fetch or save it again";

static void reader_clear(struct reader *reader)
{
    xt_pickle_clear(&reader->pickle);
    free(reader->storages);
}

/* ("storage", type, key, location, count[, view]) */
static enum xt_status read_storage_id(const struct xt_pickle_value *persistent,
                                      struct storage *storage, enum xt_dtype *dtype,
                                      struct xt_err *err)
{
    const struct xt_pickle_value *id = persistent->id;
    struct xt_pickle_value *const *items = id->list.items;
    if (id->kind != XT_PICKLE_TUPLE || id->list.count < 5 ||
        !xt_pickle_is_text(items[0], "storage") || items[1]->kind != XT_PICKLE_GLOBAL ||
        items[1]->global->role != XT_PICKLE_ROLE_STORAGE || items[2]->kind != XT_PICKLE_TEXT ||
        items[2]->text.length > KEY_MAX || items[4]->kind != XT_PICKLE_INT || items[4]->integer < 0)
        return xt_err_set(
            err, XT_ERR_DATA,
            "its pickle refers to something outside that is not a storage of numbers");
    if (id->list.count > 5 && items[5]->kind != XT_PICKLE_NONE)
        return xt_err_set(err, XT_ERR_DATA,
                          "its storages are views of each other, as PyTorch before 0.4 wrote them: "
                          "save it again with a newer PyTorch");
    *dtype = items[1]->global->dtype;
    *storage = (struct storage){.key = items[2]->text.bytes,
                                .key_length = items[2]->text.length,
                                .width = xt_dtype_size(*dtype)};
    if (__builtin_mul_overflow((size_t)items[4]->integer, storage->width, &storage->size))
        return xt_err_set(err, XT_ERR_DATA, "a storage of %" PRId64 " elements is invalid",
                          items[4]->integer);
    return XT_OK;
}

static int compare_storages(const void *a, const void *b)
{
    const struct storage *p = a;
    const struct storage *q = b;
    if (p->key_length != q->key_length)
        return p->key_length < q->key_length ? -1 : 1;
    return p->key_length ? memcmp(p->key, q->key, p->key_length) : 0;
}

static struct storage *find_storage(const struct reader *reader, const void *key, size_t length)
{
    struct storage wanted = {.key = key, .key_length = length};
    return reader->storage_count ? bsearch(&wanted, reader->storages, reader->storage_count,
                                           sizeof *reader->storages, compare_storages)
                                 : NULL;
}

/* The storages that the pickle names, each once. */
static enum xt_status collect_storages(struct reader *reader)
{
    const struct xt_pickle *pickle = &reader->pickle;
    enum xt_status status = xt_mem_calloc(&reader->storages, pickle->persistent_count,
                                          sizeof *reader->storages, "storages", reader->err);
    if (status)
        return status;
    for (size_t i = 0; i < pickle->persistent_count && !status; i++) {
        enum xt_dtype dtype = XT_F32;
        status = read_storage_id(pickle->persistent[i], &reader->storages[i], &dtype, reader->err);
    }
    if (status)
        return status;
    qsort(reader->storages, pickle->persistent_count, sizeof *reader->storages, compare_storages);
    for (size_t i = 0; i < pickle->persistent_count; i++) {
        struct storage *last = reader->storages + reader->storage_count;
        if (i == 0 || compare_storages(last - 1, &reader->storages[i]) != 0) {
            *last = reader->storages[i];
            reader->storage_count++;
        } else if (last[-1].size != reader->storages[i].size) {
            return xt_err_set(reader->err, XT_ERR_DATA,
                              "its pickle gives two sizes for one storage");
        }
    }
    return XT_OK;
}

/* Reads a tuple of non-negative integers into `out`. */
static bool read_numbers(const struct xt_pickle_value *value, int64_t *out, int *count)
{
    if (value->kind != XT_PICKLE_TUPLE || value->list.count > XT_FILE_DIMS_MAX)
        return false;
    for (size_t i = 0; i < value->list.count; i++) {
        const struct xt_pickle_value *item = value->list.items[i];
        if (item->kind != XT_PICKLE_INT || item->integer < 0)
            return false;
        out[i] = item->integer;
    }
    *count = (int)value->list.count;
    return true;
}

static bool is_dense(const struct xt_file_tensor *tensor, const int64_t *strides)
{
    int64_t dense = 1;
    for (int i = tensor->ndims - 1; i >= 0; i--) {
        if (tensor->dims[i] != 1 && strides[i] != dense)
            return false;
        dense *= tensor->dims[i];
    }
    return true;
}

/* The index past the last element that the strides reach; false where it overflows. */
static bool reach(const struct xt_file_tensor *tensor, int64_t offset, const int64_t *strides,
                  int64_t *end)
{
    int64_t last = offset;
    for (int i = 0; i < tensor->ndims; i++) {
        int64_t far = 0;
        if (__builtin_mul_overflow(tensor->dims[i] - 1, strides[i], &far) ||
            __builtin_add_overflow(last, far, &last))
            return false;
    }
    return !__builtin_add_overflow(last, 1, end);
}

static void copy_strided(uint8_t *out, const uint8_t *from, const struct xt_file_tensor *tensor,
                         const int64_t *strides)
{
    size_t width = xt_dtype_size(tensor->dtype);
    int64_t index[XT_FILE_DIMS_MAX] = {0};
    int64_t at = 0;
    for (size_t done = 0; done < tensor->bytes; done += width) {
        memcpy(out + done, from + (size_t)at * width, width);
        for (int i = tensor->ndims - 1; i >= 0; i--) {
            /* Its stride is unused, and may be any number. */
            if (tensor->dims[i] == 1)
                continue;
            at += strides[i];
            if (++index[i] < tensor->dims[i])
                break;
            at -= strides[i] * tensor->dims[i];
            index[i] = 0;
        }
    }
}

static enum xt_status make_dense(struct reader *reader, struct xt_file_tensor *tensor,
                                 const uint8_t *from, const int64_t *strides)
{
    if (tensor->bytes > reader->copy_left)
        return xt_err_set(reader->err, XT_ERR_DATA,
                          "tensor %s: its strides make far more of the file than it holds: save it "
                          "again with .contiguous()",
                          tensor->name);
    reader->copy_left -= tensor->bytes;
    uint8_t *copy = NULL;
    enum xt_status status = xt_weight_store_alloc(reader->file, &copy, tensor->bytes, 1,
                                                  "a strided tensor", reader->err);
    if (status)
        return status;
    copy_strided(copy, from, tensor, strides);
    tensor->data = copy;
    return XT_OK;
}

/* Points the tensor at its part of the storage, or at a dense copy of it. */
static enum xt_status place(struct reader *reader, struct xt_file_tensor *tensor,
                            const struct storage *storage, int64_t offset, const int64_t *strides)
{
    size_t width = xt_dtype_size(tensor->dtype);
    int64_t elements = (int64_t)(storage->size / width);
    tensor->data = storage->bytes;
    if (tensor->bytes == 0)
        return XT_OK;
    int64_t end = 0;
    if (!reach(tensor, offset, strides, &end) || end > elements)
        return xt_err_set(reader->err, XT_ERR_DATA,
                          "tensor %s reaches beyond its storage of %" PRId64 " elements",
                          tensor->name, elements);
    const uint8_t *from = storage->bytes + (size_t)offset * width;
    tensor->data = from;
    return is_dense(tensor, strides) ? XT_OK : make_dense(reader, tensor, from, strides);
}

/* (storage, offset, size, stride, ...) */
static enum xt_status read_tensor(struct reader *reader, struct xt_file_tensor *tensor,
                                  const struct xt_pickle_value *args)
{
    struct xt_pickle_value *const *items = args->list.items;
    int64_t strides[XT_FILE_DIMS_MAX];
    int stride_count = 0;
    if (args->list.count < 4 || items[0]->kind != XT_PICKLE_PERSISTENT ||
        items[1]->kind != XT_PICKLE_INT || items[1]->integer < 0 ||
        !read_numbers(items[2], tensor->dims, &tensor->ndims) ||
        !read_numbers(items[3], strides, &stride_count) || stride_count != tensor->ndims)
        return xt_err_set(reader->err, XT_ERR_DATA,
                          "tensor %s: its offset, shape or strides are negative, no whole numbers, "
                          "or of more than %d dimensions",
                          tensor->name, XT_FILE_DIMS_MAX);
    struct storage named;
    enum xt_status status = read_storage_id(items[0], &named, &tensor->dtype, reader->err);
    if (status)
        return status;
    if (!xt_file_tensor_measure(tensor, &tensor->bytes))
        return xt_err_set(reader->err, XT_ERR_DATA, "tensor %s: its shape is too large to be meant",
                          tensor->name);
    const struct storage *storage = find_storage(reader, named.key, named.key_length);
    if (!storage || !storage->bytes)
        return xt_err_set(reader->err, XT_ERR_DATA, "tensor %s: its storage is missing, %s",
                          tensor->name, recompute);
    return place(reader, tensor, storage, items[1]->integer, strides);
}

/* The arguments of the call that rebuilds a tensor (a parameter wraps one), else NULL. */
static const struct xt_pickle_value *tensor_args(const struct xt_pickle_value *value)
{
    if (value->kind == XT_PICKLE_CALL && value->call.global->role == XT_PICKLE_ROLE_PARAMETER &&
        value->call.args->list.count > 0)
        value = value->call.args->list.items[0];
    if (value->kind == XT_PICKLE_CALL && value->call.global->role == XT_PICKLE_ROLE_TENSOR)
        return value->call.args;
    return NULL;
}

static size_t count_tensors(const struct xt_pickle_value *value)
{
    size_t count = 0;
    for (size_t i = 0; value->kind == XT_PICKLE_DICT && i < value->list.count; i += 2)
        count += tensor_args(value->list.items[i + 1]) != NULL;
    return count;
}

/* The dictionary's value of that key: the last of repeated ones, as in Python. */
static const struct xt_pickle_value *find_key(const struct xt_pickle_value *dict, const char *name)
{
    for (size_t i = dict->list.count; i > 0; i -= 2)
        if (xt_pickle_is_text(dict->list.items[i - 2], name))
            return dict->list.items[i - 1];
    return NULL;
}

/* The dictionary of tensors under the names that training scripts use, of which one may hold
 * another; NULL where there is none. */
static const struct xt_pickle_value *find_tensors(const struct xt_pickle_value *root, int depth)
{
    enum { DEPTH = 4 };
    static const char *const names[] = {"state_dict", "model_state_dict", "model", "net",
                                        "network"};
    const struct xt_pickle_value *found = NULL;
    if (root->kind != XT_PICKLE_DICT || depth == DEPTH)
        return NULL;
    for (size_t n = 0; n < sizeof names / sizeof *names && !found; n++) {
        const struct xt_pickle_value *inner = find_key(root, names[n]);
        found = inner ? find_tensors(inner, depth + 1) : NULL;
    }
    return found ? found : count_tensors(root) ? root : NULL;
}

static const struct xt_pickle_value *unwrap(const struct xt_pickle_value *root)
{
    const struct xt_pickle_value *found = find_tensors(root, 0);
    return found ? found : root;
}

/* "a dictionary with epoch, optimizer": for the message about a file without tensors. */
static enum xt_status refuse_empty(const struct xt_pickle_value *root, struct xt_err *err)
{
    struct xt_str keys = {0};
    bool is_dict = root->kind == XT_PICKLE_DICT;
    size_t shown = 0;
    enum xt_status status = XT_OK;
    for (size_t i = 0; is_dict && i < root->list.count && shown < 5 && !status; i += 2) {
        const struct xt_pickle_value *key = root->list.items[i];
        char text[48];
        if (key->kind == XT_PICKLE_TEXT)
            status = xt_str_printf(
                &keys, err, "%s%s", shown++ ? ", " : " with ",
                xt_weight_store_printable(text, sizeof text, key->text.bytes, key->text.length));
    }
    if (!status)
        status = xt_err_set(err, XT_ERR_DATA,
                            "no tensors were found in it: it holds %s%s, instead of a dictionary "
                            "of tensors, or one under state_dict, model_state_dict, model or net",
                            xt_pickle_kind_name(root->kind), xt_str_get(&keys));
    xt_str_clear(&keys);
    return status;
}

static enum xt_status add_tensor(struct reader *reader, const struct xt_pickle_value *key,
                                 const struct xt_pickle_value *args)
{
    struct xt_file_tensor *tensor = &reader->file->tensors[reader->file->count];
    if (key->kind != XT_PICKLE_TEXT)
        return xt_err_set(reader->err, XT_ERR_DATA, "a tensor's name is %s, not a text",
                          xt_pickle_kind_name(key->kind));
    enum xt_status status = xt_weight_store_name(
        reader->file, &tensor->name, (const char *)key->text.bytes, key->text.length, reader->err);
    if (!status)
        status = read_tensor(reader, tensor, args);
    if (!status)
        reader->file->count++;
    return status;
}

/* Marks the storages of the dictionary's tensors, and refuses more than may be read. */
static enum xt_status want_storages(struct reader *reader, const struct xt_pickle_value *dict)
{
    size_t bytes = 0;
    for (size_t i = 0; i < dict->list.count; i += 2) {
        const struct xt_pickle_value *args = tensor_args(dict->list.items[i + 1]);
        struct storage named;
        enum xt_dtype dtype = XT_F32;
        /* An invalid tensor is reported when it is read. */
        if (!args || !args->list.count || args->list.items[0]->kind != XT_PICKLE_PERSISTENT ||
            read_storage_id(args->list.items[0], &named, &dtype, NULL))
            continue;
        struct storage *storage = find_storage(reader, named.key, named.key_length);
        if (!storage || storage->wanted)
            continue;
        storage->wanted = true;
        if (__builtin_add_overflow(bytes, storage->size, &bytes))
            bytes = SIZE_MAX;
    }
    enum xt_status status = xt_weight_input_check(reader->input, bytes, reader->err);
    if (!status) {
        size_t left = reader->input->most - bytes;
        reader->copy_left = left < 4 * reader->input->size ? left : 4 * reader->input->size;
    }
    return status;
}

/* Finds the dictionary of tensors and marks its storages. */
static enum xt_status find_state(struct reader *reader, const struct xt_pickle_value *root,
                                 const struct xt_pickle_value **dict)
{
    *dict = unwrap(root);
    return count_tensors(*dict) ? want_storages(reader, *dict) : refuse_empty(root, reader->err);
}

static enum xt_status read_state(struct reader *reader, const struct xt_pickle_value *dict)
{
    enum xt_status status =
        xt_weight_store_alloc(reader->file, &reader->file->tensors, count_tensors(dict),
                              sizeof *reader->file->tensors, "the tensor list", reader->err);
    for (size_t i = 0; i < dict->list.count && !status; i += 2) {
        const struct xt_pickle_value *args = tensor_args(dict->list.items[i + 1]);
        if (args)
            status = add_tensor(reader, dict->list.items[i], args);
    }
    return status ? status : xt_weight_store_check_unique(reader->file, reader->err);
}

/* The legacy form: magic number, protocol, system, state, storage keys, storages. */

static bool is_magic(const struct xt_pickle_value *value)
{
    static const uint8_t magic[] = {0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
    return value->kind == XT_PICKLE_LONG && value->text.length == sizeof magic &&
           !memcmp(value->text.bytes, magic, sizeof magic);
}

static bool is_big_endian(const struct xt_pickle_value *system)
{
    for (size_t i = 0; system->kind == XT_PICKLE_DICT && i < system->list.count; i += 2) {
        const struct xt_pickle_value *value = system->list.items[i + 1];
        if (xt_pickle_is_text(system->list.items[i], "little_endian"))
            return value->kind == XT_PICKLE_BOOL && !value->integer;
    }
    return false;
}

static const char big_endian[] =
    "its numbers are big-endian: save it again on a little-endian machine";

static enum xt_status read_preamble(struct reader *reader, const uint8_t *bytes, size_t size,
                                    size_t *at)
{
    const struct xt_pickle_value *magic = NULL;
    const struct xt_pickle_value *protocol = NULL;
    const struct xt_pickle_value *system = NULL;
    struct xt_err *err = reader->err;
    enum xt_status status = xt_pickle_read(&reader->pickle, bytes, size, at, &magic, err);
    if (status)
        return status;
    if (!is_magic(magic))
        return xt_err_set(err, XT_ERR_DATA,
                          "it is a Python pickle that torch.save did not write: save the weights "
                          "with torch.save(model.state_dict(), ...)");
    status = xt_pickle_read(&reader->pickle, bytes, size, at, &protocol, err);
    if (!status && (protocol->kind != XT_PICKLE_INT || protocol->integer != 1001))
        status = xt_err_set(err, XT_ERR_DATA,
                            "its form is not PyTorch's protocol 1001, the only one before the zip "
                            "form that can be read");
    if (!status)
        status = xt_pickle_read(&reader->pickle, bytes, size, at, &system, err);
    if (!status && is_big_endian(system))
        status = xt_err_set(err, XT_ERR_DATA, "%s", big_endian);
    return status;
}

/* A storage in the file: its number of elements in eight bytes, then the elements. */
static enum xt_status locate_storage(struct reader *reader, const struct xt_pickle_value *key,
                                     size_t *at)
{
    char shown[48] = "?";
    size_t size = reader->input->size;
    struct storage *storage = NULL;
    if (key->kind == XT_PICKLE_TEXT) {
        storage = find_storage(reader, key->text.bytes, key->text.length);
        xt_weight_store_printable(shown, sizeof shown, key->text.bytes, key->text.length);
    }
    if (!storage || storage->at)
        return xt_err_set(reader->err, XT_ERR_DATA,
                          "storage '%s' is in its list but in no tensor, or twice in its list",
                          shown);
    uint64_t elements = 0;
    if (size - *at < sizeof elements || storage->size > size - *at - sizeof elements)
        return xt_err_set(reader->err, XT_ERR_DATA,
                          "storage '%s' of %zu bytes ends beyond the file's %zu: %s", shown,
                          storage->size, size, recompute);
    enum xt_status status =
        xt_weight_input_read(reader->input, *at, &elements, sizeof elements, reader->err);
    if (status)
        return status;
    storage->at = *at + sizeof elements;
    *at = storage->at + storage->size;
    if (elements != storage->size / storage->width)
        return xt_err_set(reader->err, XT_ERR_DATA,
                          "storage '%s' has %" PRIu64 " elements at byte %zu, which is not what "
                          "its pickle says: it is damaged",
                          shown, elements, storage->at - sizeof elements);
    return XT_OK;
}

static enum xt_status read_storage(struct reader *reader, struct storage *storage)
{
    uint8_t *bytes = NULL;
    enum xt_status status =
        xt_weight_store_alloc(reader->file, &bytes, storage->size, 1, "a storage", reader->err);
    storage->bytes = bytes;
    return status ? status
                  : xt_weight_input_read(reader->input, storage->at, bytes, storage->size,
                                         reader->err);
}

static enum xt_status read_legacy(struct reader *reader, const uint8_t *head, size_t size)
{
    size_t at = 0;
    const struct xt_pickle_value *root = NULL;
    const struct xt_pickle_value *keys = NULL;
    const struct xt_pickle_value *dict = NULL;
    enum xt_status status = read_preamble(reader, head, size, &at);
    if (!status)
        status = xt_pickle_read(&reader->pickle, head, size, &at, &root, reader->err);
    if (!status)
        status = collect_storages(reader);
    if (!status)
        status = xt_pickle_read(&reader->pickle, head, size, &at, &keys, reader->err);
    if (!status && keys->kind != XT_PICKLE_LIST)
        status = xt_err_set(reader->err, XT_ERR_DATA, "its list of storages is %s",
                            xt_pickle_kind_name(keys->kind));
    for (size_t i = 0; !status && i < keys->list.count; i++)
        status = locate_storage(reader, keys->list.items[i], &at);
    if (!status && at != reader->input->size)
        status =
            xt_err_set(reader->err, XT_ERR_DATA, "%zu bytes after its last storage belong to none",
                       reader->input->size - at);
    if (!status)
        status = find_state(reader, root, &dict);
    for (size_t i = 0; !status && i < reader->storage_count; i++)
        if (reader->storages[i].wanted && reader->storages[i].at)
            status = read_storage(reader, &reader->storages[i]);
    return status ? status : read_state(reader, dict);
}

/* The pickles precede all numbers. */
enum xt_status xt_pth_parse_legacy(struct xt_weight_file *file, const struct xt_weight_input *input,
                                   struct xt_err *err)
{
    struct reader reader = {
        .file = file, .input = input, .pickle.rules = &xt_pth_pickles, .err = err};
    size_t size = input->size < XT_WEIGHT_HEADER_MAX ? input->size : XT_WEIGHT_HEADER_MAX;
    uint8_t *head = NULL;
    enum xt_status status = xt_mem_calloc(&head, size, 1, "a pickle", err);
    if (!status)
        status = xt_weight_input_read(input, 0, head, size, err);
    if (!status)
        status = read_legacy(&reader, head, size);
    reader_clear(&reader);
    free(head);
    return status;
}

/* The zip form: NAME/data.pkl, NAME/byteorder, and a NAME/data/KEY for each storage. It is read in
 * two passes: for the pickle, then for the storages that its tensors need. */

struct part {
    const uint8_t *bytes; /* NULL: not read yet */
    size_t size;
};

struct zip {
    struct reader *reader;
    struct archive *archive;
    struct part pickle;
    struct part order;
};

/* An entry, `name` without the archive's own folder. */
typedef enum xt_status take_entry(struct zip *zip, const char *name, size_t size);

static enum xt_status refuse_archive(struct archive *archive, struct xt_err *err)
{
    const char *why = archive_error_string(archive);
    return xt_err_set(err, XT_ERR_DATA, "its zip archive cannot be read (%s): %s",
                      why ? why : "no reason given", recompute);
}

__attribute__((format(printf, 3, 4))) static enum xt_status
refuse_entry(struct zip *zip, const char *name, const char *format, ...)
{
    char shown[96];
    char why[192];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    return xt_err_set(zip->reader->err, XT_ERR_DATA, "entry %s of its zip archive %s",
                      xt_weight_store_printable(shown, sizeof shown, name, strlen(name)), why);
}

static enum xt_status read_content(struct zip *zip, const char *name, size_t size,
                                   const uint8_t **out)
{
    struct reader *reader = zip->reader;
    uint8_t *content = NULL;
    if (*out)
        return xt_err_set(reader->err, XT_ERR_DATA, "its zip archive holds two entries %s", name);
    enum xt_status status = xt_weight_store_alloc(reader->file, &content, size, 1,
                                                  "an entry of a zip archive", reader->err);
    if (status)
        return status;
    la_ssize_t got = archive_read_data(zip->archive, content, size);
    /* The checksum is verified on reading past the last byte. */
    uint8_t more = 0;
    la_ssize_t behind = (size_t)got == size ? archive_read_data(zip->archive, &more, 1) : 0;
    if (got < 0 || behind < 0)
        return refuse_archive(zip->archive, reader->err);
    if ((size_t)got != size || behind != 0)
        return refuse_entry(zip, name, "is not of the size it claims: %s", recompute);
    *out = content;
    return XT_OK;
}

static enum xt_status take_pickle(struct zip *zip, const char *name, size_t size)
{
    struct part *part = !strcmp(name, "data.pkl")    ? &zip->pickle
                        : !strcmp(name, "byteorder") ? &zip->order
                                                     : NULL;
    if (!part)
        return XT_OK;
    if (size > XT_WEIGHT_HEADER_MAX)
        return refuse_entry(zip, name, "has %zu bytes, more than the %d that are read", size,
                            XT_WEIGHT_HEADER_MAX);
    part->size = size;
    return read_content(zip, name, size, &part->bytes);
}

static enum xt_status take_storage(struct zip *zip, const char *name, size_t size)
{
    static const char folder[] = "data/";
    const char *key = name + sizeof folder - 1;
    struct storage *storage =
        xt_str_starts(name, folder) ? find_storage(zip->reader, key, strlen(key)) : NULL;
    if (!storage || !storage->wanted)
        return XT_OK;
    if (storage->size != size)
        return refuse_entry(zip, name, "has %zu bytes where its pickle says %zu", size,
                            storage->size);
    return read_content(zip, name, size, &storage->bytes);
}

/* PyTorch stores entries uncompressed, so their total is smaller than the file. */
static enum xt_status read_entry(struct zip *zip, struct archive_entry *header, size_t *left,
                                 take_entry *take)
{
    const char *path = archive_entry_pathname(header);
    if (!path)
        path = archive_entry_pathname_utf8(header);
    const char *slash = path ? strchr(path, '/') : NULL;
    if (!slash || !slash[1])
        return XT_OK;
    int64_t size = archive_entry_size_is_set(header) ? archive_entry_size(header) : -1;
    if (size < 0 || (uint64_t)size > *left)
        return refuse_entry(zip, slash + 1,
                            "unpacks to more than the file holds, where PyTorch stores entries "
                            "uncompressed: save it again with torch.save");
    *left -= (size_t)size;
    return take(zip, slash + 1, (size_t)size);
}

static enum xt_status read_entries(struct zip *zip, take_entry *take)
{
    size_t left = zip->reader->input->size;
    enum xt_status status = XT_OK;
    while (!status) {
        struct archive_entry *header = NULL;
        int result = archive_read_next_header(zip->archive, &header);
        if (result == ARCHIVE_EOF)
            break;
        status = result == ARCHIVE_OK || result == ARCHIVE_WARN
                     ? read_entry(zip, header, &left, take)
                     : refuse_archive(zip->archive, zip->reader->err);
    }
    return status;
}

static int open_archive(struct archive *archive, const struct xt_weight_input *input)
{
    enum { BLOCK = 1 << 16 };
    if (input->bytes)
        return archive_read_open_memory(archive, input->bytes, input->size);
    return lseek(input->fd, 0, SEEK_SET) ? ARCHIVE_FATAL
                                         : archive_read_open_fd(archive, input->fd, BLOCK);
}

static enum xt_status visit_entries(struct zip *zip, take_entry *take)
{
    const struct xt_weight_input *input = zip->reader->input;
    zip->archive = archive_read_new();
    if (!zip->archive)
        return xt_err_no_memory(zip->reader->err, "a zip archive", input->size);
    bool open = archive_read_support_format_zip_seekable(zip->archive) == ARCHIVE_OK &&
                open_archive(zip->archive, input) == ARCHIVE_OK;
    enum xt_status status =
        open ? read_entries(zip, take) : refuse_archive(zip->archive, zip->reader->err);
    archive_read_free(zip->archive);
    return status;
}

static enum xt_status read_zip(struct zip *zip)
{
    struct reader *reader = zip->reader;
    enum xt_status status = visit_entries(zip, take_pickle);
    if (!status && zip->order.size == 3 && !memcmp(zip->order.bytes, "big", 3))
        status = xt_err_set(reader->err, XT_ERR_DATA, "%s", big_endian);
    if (!status && !zip->pickle.bytes)
        status = xt_err_set(reader->err, XT_ERR_DATA,
                            "it is a zip archive without a data.pkl: not a file that torch.save "
                            "wrote");
    size_t at = 0;
    const struct xt_pickle_value *root = NULL;
    const struct xt_pickle_value *dict = NULL;
    if (!status)
        status = xt_pickle_read(&reader->pickle, zip->pickle.bytes, zip->pickle.size, &at, &root,
                                reader->err);
    if (!status)
        status = collect_storages(reader);
    if (!status)
        status = find_state(reader, root, &dict);
    if (!status)
        status = visit_entries(zip, take_storage);
    return status ? status : read_state(reader, dict);
}

enum xt_status xt_pth_parse_zip(struct xt_weight_file *file, const struct xt_weight_input *input,
                                struct xt_err *err)
{
    struct reader reader = {
        .file = file, .input = input, .pickle.rules = &xt_pth_pickles, .err = err};
    struct zip zip = {.reader = &reader};
    enum xt_status status = read_zip(&zip);
    reader_clear(&reader);
    return status;
}
