#include "models/weights/weight_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "models/weights/pth.h"
#include "models/weights/safetensors.h"
#include "models/weights/weight_hash.h"
#include "models/weights/weight_input.h"

enum { START_BYTES = 9 };

static bool is_zip(const uint8_t *start, size_t size)
{
    return size >= 4 && start[0] == 'P' && start[1] == 'K' && start[2] < 8 && start[3] < 9;
}

/* A pickle's third byte is an opcode, never 0; that of a header's length is 0, else the header is
 * too large to read. */
static bool is_pickle(const uint8_t *start, size_t size)
{
    return size >= 3 && start[0] == 0x80 && start[1] >= 2 && start[1] <= 5 && start[2] != 0;
}

static bool is_safetensors(const uint8_t *start, size_t size)
{
    return size < START_BYTES || start[8] == '{';
}

/* The formats by a file's first bytes; the first match applies. */
static const struct {
    bool (*begins)(const uint8_t *start, size_t size);
    enum xt_status (*parse)(struct xt_weight_file *file, const struct xt_weight_input *input,
                            struct xt_err *err);
} formats[] = {
    {is_zip, xt_pth_parse_zip},
    {is_pickle, xt_pth_parse_legacy},
    {is_safetensors, xt_safetensors_parse},
};

static enum xt_status parse(struct xt_weight_file *file, const struct xt_weight_input *input,
                            struct xt_err *err)
{
    uint8_t start[START_BYTES];
    size_t size = input->size < sizeof start ? input->size : sizeof start;
    enum xt_status status = xt_weight_input_read(input, 0, start, size, err);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].begins(start, size))
            return formats[i].parse(file, input, err);
    return xt_err_set(err, XT_ERR_DATA,
                      "it is neither safetensors nor a .pth file of PyTorch, the two kinds of "
                      "weights that can be read");
}

/* Removes the prefix where all names start with it and are longer. */
static bool drop_prefix(struct xt_weight_file *file, const char *prefix)
{
    size_t length = strlen(prefix);
    for (size_t i = 0; i < file->count; i++)
        if (!xt_str_starts(file->tensors[i].name, prefix) || !file->tensors[i].name[length])
            return false;
    for (size_t i = 0; i < file->count; i++)
        file->tensors[i].name += length;
    file->prefix_length += file->count ? length : 0;
    return file->count > 0;
}

/* Removes the prefixes that DataParallel, torch.compile and training frameworks add to every name.
 * Names that this program wrote, with metadata, are the network's own. */
static void drop_wrappers(struct xt_weight_file *file)
{
    static const char *const prefixes[] = {"module.", "_orig_mod.", "model.", "net.", "network."};
    bool dropped = !xt_weight_file_meta(file, "model");
    while (dropped) {
        dropped = false;
        for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
            dropped = drop_prefix(file, prefixes[i]) || dropped;
    }
}

void xt_weight_file_restore_prefix(struct xt_weight_file *file)
{
    for (size_t i = 0; i < file->count; i++)
        file->tensors[i].name -= file->prefix_length;
    file->prefix_length = 0;
}

static enum xt_status read_input(struct xt_weight_file *file, const struct xt_weight_input *input,
                                 const char *name, struct xt_err *err)
{
    struct xt_err own;
    *file = (struct xt_weight_file){0};
    enum xt_status status = parse(file, input, &own);
    if (!status)
        status = xt_weight_hash_check(file, &own);
    if (!status) {
        drop_wrappers(file);
        return XT_OK;
    }
    xt_weight_file_clear(file);
    return xt_err_set(err, status, "%s: %s", name, own.text);
}

enum xt_status xt_weight_file_parse(struct xt_weight_file *file, const uint8_t *bytes, size_t size,
                                    const char *name, struct xt_err *err)
{
    const struct xt_weight_input input = {
        .size = size, .most = SIZE_MAX, .bytes = size ? bytes : (const uint8_t *)"", .fd = -1};
    return read_input(file, &input, name, err);
}

enum xt_status xt_weight_file_locate(char **out, const char *path, struct xt_err *err)
{
    static const char *const names[] = {"best.safetensors", "last.safetensors"};
    if (!xt_file_is_folder(path))
        return xt_mem_strdup(out, path, err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        enum xt_status status = xt_file_join(out, path, names[i], err);
        if (status || xt_file_exists(*out))
            return status;
        free(*out);
        *out = NULL;
    }
    return xt_err_set(err, XT_ERR_DATA,
                      "%s is a folder with neither best.safetensors nor last.safetensors in it; "
                      "give a run's folder, or a file of weights",
                      path);
}

enum xt_status xt_weight_file_read(struct xt_weight_file *file, const char *path, size_t most,
                                   struct xt_err *err)
{
    struct xt_weight_input input = {.most = most};
    *file = (struct xt_weight_file){0};
    enum xt_status status = xt_file_open(path, &input.fd, &input.size, err);
    if (status)
        return status;
    status = read_input(file, &input, path, err);
    close(input.fd);
    return status;
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

static enum xt_status write_file(const char *path, const struct xt_weight_file *file,
                                 struct xt_err *err)
{
    uint8_t *header = NULL;
    size_t header_size = 0;
    struct xt_err own;
    enum xt_status status = xt_weight_store_check_unique(file, &own);
    if (!status)
        status = xt_safetensors_header(&header, &header_size, file->tensors, file->count,
                                       file->meta, file->meta_count, &own);
    if (status)
        return xt_err_set(err, status, "%s cannot be written: %s", path, own.text);
    struct xt_file_writer writer = {0};
    status = xt_file_begin(&writer, path, err);
    if (!status)
        status = write_all(&writer, header, header_size, file->tensors, file->count, err);
    if (!status)
        status = xt_file_commit(&writer, err);
    xt_file_abandon(&writer);
    free(header);
    return status;
}

enum xt_status xt_weight_file_write(const char *path, const struct xt_file_tensor *tensors,
                                    size_t count, const struct xt_file_meta *meta,
                                    size_t meta_count, struct xt_err *err)
{
    /* Not modified here: the fields are not const because readers fill them. */
    struct xt_weight_file file = {.tensors = (struct xt_file_tensor *)tensors, .count = count};
    struct xt_weight_hash hash;
    enum xt_status status =
        xt_mem_calloc(&file.meta, meta_count + 2, sizeof *file.meta, "metadata", err);
    if (status)
        return status;
    for (size_t i = 0; i < meta_count; i++)
        if (!xt_weight_hash_is_key(meta[i].key))
            file.meta[file.meta_count++] = meta[i];
    status = xt_weight_hash_make(&hash, &file, err);
    file.meta[file.meta_count++] = (struct xt_file_meta){XT_WEIGHT_HASH_KEY, hash.whole.text};
    file.meta[file.meta_count++] =
        (struct xt_file_meta){XT_WEIGHT_TENSORS_KEY, xt_str_get(&hash.tensors)};
    if (!status)
        status = write_file(path, &file, err);
    xt_weight_hash_clear(&hash);
    free(file.meta);
    return status;
}
