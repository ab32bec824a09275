#include "models/weights/pth.h"

#include <archive.h>
#include <archive_entry.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "models/weights/pickle.h"
#include "models/weights/weight_store.h"

/* A storage that the pickle refers to; `bytes` is NULL until it is found in the file. */
struct storage {
    const uint8_t *key;
    size_t key_length;
    const uint8_t *bytes;
    size_t size;
    size_t width; /* of an element */
};

struct reader {
    struct xt_weight_file *file;
    struct xt_pickle pickle;
    struct storage *storages; /* sorted by key */
    size_t storage_count;
    size_t copy_left; /* bytes that strided tensors may yet take when made dense */
    struct xt_err *err;
};

/* An entry of the zip, its name without the archive's own folder. */
struct entry {
    char *name;
    const uint8_t *bytes;
    size_t size;
};

struct entry_list {
    struct entry *entries;
    size_t count;
    size_t capacity;
    size_t left; /* bytes that the entries may yet unpack to */
};

static const char again[] = "it was cut short or damaged, fetch or save it again";

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
        items[4]->kind != XT_PICKLE_INT || items[4]->integer < 0)
        return xt_err_set(err, XT_ERR_DATA,
                          "its pickle refers to something outside that is no storage of numbers");
    if (id->list.count > 5 && items[5]->kind != XT_PICKLE_NONE)
        return xt_err_set(err, XT_ERR_DATA,
                          "its storages are views of each other, as PyTorch before 0.4 wrote them: "
                          "save it again with a newer PyTorch");
    *dtype = items[1]->global->dtype;
    *storage = (struct storage){.key = items[2]->text.bytes,
                                .key_length = items[2]->text.length,
                                .width = xt_dtype_size(*dtype)};
    if (__builtin_mul_overflow((size_t)items[4]->integer, storage->width, &storage->size))
        return xt_err_set(err, XT_ERR_DATA, "a storage of %" PRId64 " elements cannot be meant",
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

/* The storages that the pickle named, each once. */
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

/* A tuple of whole numbers from 0, into `out`. */
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

/* The index behind the last element that the strides reach, false where it overflows. */
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
            /* Its stride leads nowhere, and may be any number. */
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
    if (!xt_weight_store_measure(tensor, &tensor->bytes))
        return xt_err_set(reader->err, XT_ERR_DATA, "tensor %s: its shape is too large to be meant",
                          tensor->name);
    const struct storage *storage = find_storage(reader, named.key, named.key_length);
    if (!storage || !storage->bytes)
        return xt_err_set(reader->err, XT_ERR_DATA, "tensor %s: its storage is missing, %s",
                          tensor->name, again);
    return place(reader, tensor, storage, items[1]->integer, strides);
}

/* The arguments of the call that rebuilds a tensor (a parameter is one in a wrapper), else NULL. */
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

/* The dictionary of tensors under one of the names that training scripts use, else the root. */
static const struct xt_pickle_value *unwrap(const struct xt_pickle_value *root)
{
    static const char *const names[] = {"state_dict", "model_state_dict", "model"};
    if (root->kind != XT_PICKLE_DICT)
        return root;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t i = 0; i < root->list.count; i += 2)
            if (xt_pickle_is_text(root->list.items[i], names[n]) &&
                count_tensors(root->list.items[i + 1]))
                return root->list.items[i + 1];
    return root;
}

/* "a dictionary with epoch, optimizer": what was found where tensors were looked for. */
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
                            "no tensors were found in it: it holds %s%s, where a dictionary of "
                            "tensors is wanted, or one under state_dict, model_state_dict or model",
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

static enum xt_status read_state(struct reader *reader, const struct xt_pickle_value *root)
{
    const struct xt_pickle_value *dict = unwrap(root);
    size_t count = count_tensors(dict);
    if (count == 0)
        return refuse_empty(root, reader->err);
    enum xt_status status =
        xt_weight_store_alloc(reader->file, &reader->file->tensors, count,
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
static enum xt_status read_storage(struct reader *reader, const struct xt_pickle_value *key,
                                   const uint8_t *bytes, size_t size, size_t *at)
{
    char shown[48] = "?";
    struct storage *storage = NULL;
    if (key->kind == XT_PICKLE_TEXT) {
        storage = find_storage(reader, key->text.bytes, key->text.length);
        xt_weight_store_printable(shown, sizeof shown, key->text.bytes, key->text.length);
    }
    if (!storage || storage->bytes)
        return xt_err_set(reader->err, XT_ERR_DATA,
                          "storage '%s' is in its list but in no tensor, or twice in its list",
                          shown);
    uint64_t elements = 0;
    if (size - *at < sizeof elements || storage->size > size - *at - sizeof elements)
        return xt_err_set(reader->err, XT_ERR_DATA,
                          "storage '%s' of %zu bytes ends beyond the file's %zu: %s", shown,
                          storage->size, size, again);
    memcpy(&elements, bytes + *at, sizeof elements);
    *at += sizeof elements;
    if (elements != storage->size / storage->width)
        return xt_err_set(reader->err, XT_ERR_DATA,
                          "storage '%s' has %" PRIu64 " elements at byte %zu, which is not what "
                          "its pickle says: it is damaged",
                          shown, elements, *at - sizeof elements);
    storage->bytes = bytes + *at;
    *at += storage->size;
    return XT_OK;
}

static enum xt_status read_legacy(struct reader *reader, const uint8_t *bytes, size_t size)
{
    size_t at = 0;
    const struct xt_pickle_value *root = NULL;
    const struct xt_pickle_value *keys = NULL;
    enum xt_status status = read_preamble(reader, bytes, size, &at);
    if (!status)
        status = xt_pickle_read(&reader->pickle, bytes, size, &at, &root, reader->err);
    if (!status)
        status = collect_storages(reader);
    if (!status)
        status = xt_pickle_read(&reader->pickle, bytes, size, &at, &keys, reader->err);
    if (!status && keys->kind != XT_PICKLE_LIST)
        status = xt_err_set(reader->err, XT_ERR_DATA, "its list of storages is %s",
                            xt_pickle_kind_name(keys->kind));
    for (size_t i = 0; !status && i < keys->list.count; i++)
        status = read_storage(reader, keys->list.items[i], bytes, size, &at);
    if (!status && at != size)
        status = xt_err_set(reader->err, XT_ERR_DATA,
                            "%zu bytes after its last storage belong to none", size - at);
    return status ? status : read_state(reader, root);
}

enum xt_status xt_pth_parse_legacy(struct xt_weight_file *file, const uint8_t *bytes, size_t size,
                                   struct xt_err *err)
{
    struct reader reader = {.file = file, .copy_left = 4 * size, .err = err};
    enum xt_status status = read_legacy(&reader, bytes, size);
    reader_clear(&reader);
    return status;
}

/* The zip form: NAME/data.pkl, NAME/byteorder, and a NAME/data/KEY for each storage. */

static enum xt_status refuse_archive(struct archive *archive, struct xt_err *err)
{
    const char *why = archive_error_string(archive);
    return xt_err_set(err, XT_ERR_DATA, "its zip archive cannot be read (%s): %s",
                      why ? why : "no reason given", again);
}

/* PyTorch stores entries as they are, so that together they are smaller than the file. */
static enum xt_status read_content(struct xt_weight_file *file, struct archive *archive,
                                   struct entry_list *list, struct entry *entry, int64_t size,
                                   struct xt_err *err)
{
    if (size < 0 || (uint64_t)size > list->left)
        return xt_err_set(err, XT_ERR_DATA,
                          "entry %s of its zip archive unpacks to more than the file holds, where "
                          "PyTorch stores entries uncompressed: save it again with torch.save",
                          entry->name);
    uint8_t *content = NULL;
    enum xt_status status =
        xt_weight_store_alloc(file, &content, (size_t)size, 1, "an entry of a zip archive", err);
    if (status)
        return status;
    la_ssize_t got = archive_read_data(archive, content, (size_t)size);
    /* The checksum is looked at behind the last byte. */
    uint8_t more = 0;
    la_ssize_t behind = got == size ? archive_read_data(archive, &more, 1) : 0;
    if (got < 0 || behind < 0)
        return refuse_archive(archive, err);
    if (got != size || behind != 0)
        return xt_err_set(err, XT_ERR_DATA,
                          "entry %s of its zip archive is not of the size it claims: %s",
                          entry->name, again);
    list->left -= (size_t)size;
    entry->bytes = content;
    entry->size = (size_t)size;
    return XT_OK;
}

static enum xt_status read_entry(struct xt_weight_file *file, struct archive *archive,
                                 struct archive_entry *header, struct entry_list *list,
                                 struct xt_err *err)
{
    const char *path = archive_entry_pathname(header);
    if (!path)
        path = archive_entry_pathname_utf8(header);
    const char *slash = path ? strchr(path, '/') : NULL;
    if (!slash || !slash[1])
        return XT_OK;
    enum xt_status status = xt_mem_grow(&list->entries, &list->capacity, list->count + 1,
                                        sizeof *list->entries, "a zip archive", err);
    if (status)
        return status;
    struct entry *entry = &list->entries[list->count];
    size_t length = strlen(slash + 1);
    *entry = (struct entry){0};
    status = xt_weight_store_alloc(file, &entry->name, length + 1, 1, "a name", err);
    if (status)
        return status;
    xt_weight_store_printable(entry->name, length + 1, slash + 1, length);
    list->count++;
    return read_content(file, archive, list, entry,
                        archive_entry_size_is_set(header) ? archive_entry_size(header) : -1, err);
}

static enum xt_status read_entries(struct xt_weight_file *file, struct archive *archive,
                                   struct entry_list *list, struct xt_err *err)
{
    for (;;) {
        struct archive_entry *header = NULL;
        int result = archive_read_next_header(archive, &header);
        if (result == ARCHIVE_EOF)
            return XT_OK;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
            return refuse_archive(archive, err);
        enum xt_status status = read_entry(file, archive, header, list, err);
        if (status)
            return status;
    }
}

static enum xt_status unpack(struct xt_weight_file *file, const uint8_t *bytes, size_t size,
                             struct entry_list *list, struct xt_err *err)
{
    struct archive *archive = archive_read_new();
    if (!archive)
        return xt_err_no_memory(err, "a zip archive", size);
    enum xt_status status = XT_OK;
    if (archive_read_support_format_zip_seekable(archive) != ARCHIVE_OK ||
        archive_read_open_memory(archive, bytes, size) != ARCHIVE_OK)
        status = refuse_archive(archive, err);
    if (!status)
        status = read_entries(file, archive, list, err);
    archive_read_free(archive);
    return status;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

static const struct entry *find_entry(const struct entry_list *list, const char *name)
{
    struct entry wanted = {.name = (char *)name};
    return list->count
               ? bsearch(&wanted, list->entries, list->count, sizeof wanted, compare_entries)
               : NULL;
}

static enum xt_status sort_entries(struct entry_list *list, struct xt_err *err)
{
    if (list->count)
        qsort(list->entries, list->count, sizeof *list->entries, compare_entries);
    for (size_t i = 1; i < list->count; i++)
        if (!compare_entries(&list->entries[i - 1], &list->entries[i]))
            return xt_err_set(err, XT_ERR_DATA, "its zip archive holds two entries %s",
                              list->entries[i].name);
    return XT_OK;
}

static enum xt_status attach_storages(struct reader *reader, const struct entry_list *list)
{
    static const char folder[] = "data/";
    for (size_t i = 0; i < list->count; i++) {
        const struct entry *entry = &list->entries[i];
        if (!xt_str_starts(entry->name, folder))
            continue;
        const char *key = entry->name + sizeof folder - 1;
        struct storage *storage = find_storage(reader, key, strlen(key));
        if (!storage)
            continue;
        if (storage->size != entry->size)
            return xt_err_set(reader->err, XT_ERR_DATA,
                              "entry %s of its zip archive has %zu bytes where its pickle says %zu",
                              entry->name, entry->size, storage->size);
        storage->bytes = entry->bytes;
    }
    return XT_OK;
}

static enum xt_status read_zip(struct reader *reader, struct entry_list *list)
{
    const struct entry *order = find_entry(list, "byteorder");
    if (order && order->size == 3 && !memcmp(order->bytes, "big", 3))
        return xt_err_set(reader->err, XT_ERR_DATA, "%s", big_endian);
    const struct entry *pickle = find_entry(list, "data.pkl");
    if (!pickle)
        return xt_err_set(reader->err, XT_ERR_DATA,
                          "it is a zip archive without a data.pkl: not a file that torch.save "
                          "wrote");
    size_t at = 0;
    const struct xt_pickle_value *root = NULL;
    enum xt_status status =
        xt_pickle_read(&reader->pickle, pickle->bytes, pickle->size, &at, &root, reader->err);
    if (!status)
        status = collect_storages(reader);
    if (!status)
        status = attach_storages(reader, list);
    return status ? status : read_state(reader, root);
}

enum xt_status xt_pth_parse_zip(struct xt_weight_file *file, const uint8_t *bytes, size_t size,
                                struct xt_err *err)
{
    struct reader reader = {.file = file, .copy_left = 4 * size, .err = err};
    struct entry_list list = {.left = size};
    enum xt_status status = unpack(file, bytes, size, &list, err);
    if (!status)
        status = sort_entries(&list, err);
    if (!status)
        status = read_zip(&reader, &list);
    reader_clear(&reader);
    free(list.entries);
    return status;
}
