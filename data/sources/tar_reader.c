#include "data/sources/tar_reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

bool xt_tar_is_compressed(const char *name)
{
    static const char *const endings[] = {".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (xt_str_ends(name, endings[i]))
            return true;
    return false;
}

bool xt_tar_is_name(const char *name)
{
    return xt_str_ends(name, ".tar") || xt_tar_is_compressed(name);
}

enum { BLOCK = 512, NAME_BYTES_MAX = 1 << 16, PAX_BYTES_MAX = 1 << 20 };
static const uint64_t size_max = (uint64_t)1 << 62;

/* A header's fields (POSIX.1-1988 ustar): offset and length. */
enum {
    NAME_AT = 0,
    NAME_SIZE = 100,
    SIZE_AT = 124,
    SIZE_SIZE = 12,
    SUM_AT = 148,
    SUM_SIZE = 8,
    TYPE_AT = 156,
    MAGIC_AT = 257,
    PREFIX_AT = 345,
    PREFIX_SIZE = 155,
};

/* ---- bytes ---- */

/* Headers and labels are small and often adjacent: one buffered window of the file serves
 * several. */
static bool read_window(struct xt_tar_reader *reader, uint64_t at, uint8_t *out, size_t count)
{
    if (at < reader->window_at || at + count > reader->window_at + reader->window_size) {
        uint64_t left = reader->size - at;
        reader->window_at = at;
        reader->window_size = left < sizeof reader->window ? (size_t)left : sizeof reader->window;
        if (!xt_file_read_at(reader->fd, at, reader->window, reader->window_size)) {
            reader->window_size = 0;
            return false;
        }
    }
    memcpy(out, reader->window + (at - reader->window_at), count);
    return true;
}

bool xt_tar_read(struct xt_tar_reader *reader, uint64_t at, void *out, size_t count)
{
    if (at > reader->size || count > reader->size - at)
        return false;
    if (reader->bytes) {
        memcpy(out, reader->bytes + at, count);
        return true;
    }
    return count <= sizeof reader->window ? read_window(reader, at, out, count)
                                          : xt_file_read_at(reader->fd, at, out, count);
}

/* ---- headers ---- */

static bool is_empty(const uint8_t *block)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

/* A number in octal digits between blanks, or binary if the first byte's highest bit is set
 * (GNU). */
static bool read_number(const uint8_t *field, size_t size, uint64_t *number)
{
    uint64_t value = 0;
    *number = 0;
    if (field[0] & 0x80) {
        value = field[0] & 0x7F;
        for (size_t i = 1; i < size; i++) {
            if (value >= size_max >> 8)
                return false;
            value = value << 8 | field[i];
        }
        *number = value;
        return true;
    }
    size_t i = 0;
    while (i < size && field[i] == ' ')
        i++;
    for (; i < size && field[i] >= '0' && field[i] <= '7'; i++)
        value = value * 8 + (uint64_t)(field[i] - '0');
    *number = value;
    return i == size || field[i] == '\0' || field[i] == ' ';
}

/* The checksum is over all bytes, with its own field as blanks. */
static bool sum_is_right(const uint8_t *block)
{
    uint64_t wanted = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= SUM_AT && i < SUM_AT + SUM_SIZE ? ' ' : block[i];
    return read_number(block + SUM_AT, SUM_SIZE, &wanted) && sum == wanted;
}

static enum xt_status damaged(const struct xt_tar_reader *reader, const char *what,
                              struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_DATA, "%s is damaged: %s at byte %" PRIu64, reader->path, what,
                      reader->at);
}

static enum xt_status cut_short(const struct xt_tar_reader *reader, const char *what,
                                struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_DATA,
                      "%s is cut short: it ends %s (%" PRIu64 " bytes); copy it again, or make it "
                      "again",
                      reader->path, what, reader->size);
}

static enum xt_status set_text(struct xt_str *text, const void *bytes, size_t size,
                               struct xt_err *err)
{
    text->length = 0;
    return xt_str_append(text, bytes, strnlen(bytes, size), err);
}

static enum xt_status set_name(struct xt_tar_reader *reader, const uint8_t *block,
                               struct xt_err *err)
{
    const char *name = (const char *)block + NAME_AT;
    const char *prefix = (const char *)block + PREFIX_AT;
    if (reader->has_long_name)
        return set_text(&reader->name, xt_str_get(&reader->long_name), reader->long_name.length,
                        err);
    /* GNU's own magic ("ustar  ") has no prefix there. */
    bool has_prefix = memcmp(block + MAGIC_AT, "ustar\0", 6) == 0 && prefix[0];
    reader->name.length = 0;
    enum xt_status status = XT_OK;
    if (has_prefix)
        status = xt_str_printf(&reader->name, err, "%.*s/", PREFIX_SIZE, prefix);
    return status ? status : xt_str_printf(&reader->name, err, "%.*s", NAME_SIZE, name);
}

/* The next record of a pax header, "length key=value\n", advancing *at; false at the end or if it
 * is invalid. */
static bool next_record(const char *text, size_t size, size_t *at, const char **key,
                        const char **value, size_t *value_size)
{
    size_t length = 0;
    size_t i = *at;
    for (; i < size && text[i] >= '0' && text[i] <= '9' && length <= size; i++)
        length = length * 10 + (size_t)(text[i] - '0');
    if (i >= size || text[i] != ' ' || length > size - *at || length < i - *at + 3)
        return false;
    const char *end = text + *at + length;
    *key = text + i + 1;
    const char *equals = memchr(*key, '=', (size_t)(end - *key));
    if (!equals || end[-1] != '\n')
        return false;
    *value = equals + 1;
    *value_size = (size_t)(end - 1 - *value);
    *at += length;
    return true;
}

static bool read_decimal(const char *text, size_t size, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || *number > size_max / 10)
            return false;
        *number = *number * 10 + (uint64_t)(text[i] - '0');
    }
    return size > 0;
}

static bool key_is(const char *key, const char *value, const char *name)
{
    size_t size = (size_t)(value - 1 - key);
    return size == strlen(name) && memcmp(key, name, size) == 0;
}

static enum xt_status take_pax(struct xt_tar_reader *reader, const char *text, size_t size,
                               struct xt_err *err)
{
    static const char sparse[] = "GNU.sparse.";
    const char *key = NULL;
    const char *value = NULL;
    size_t value_size = 0;
    size_t at = 0;
    enum xt_status status = XT_OK;
    while (!status && next_record(text, size, &at, &key, &value, &value_size)) {
        if (key_is(key, value, "path")) {
            status = set_text(&reader->long_name, value, value_size, err);
            reader->has_long_name = true;
        } else if (key_is(key, value, "size")) {
            if (!read_decimal(value, value_size, &reader->long_size))
                return damaged(reader, "a pax header with an invalid size", err);
            reader->has_long_size = true;
        } else if ((size_t)(value - key) > strlen(sparse) &&
                   memcmp(key, sparse, strlen(sparse)) == 0) {
            reader->is_sparse = true;
        }
    }
    if (!status && at < size)
        status = damaged(reader, "a pax header that cannot be read", err);
    return status;
}

/* Applies what precedes a file's own header: its long name, or a pax header. */
static enum xt_status take_extension(struct xt_tar_reader *reader, char type, uint64_t data,
                                     uint64_t size, struct xt_err *err)
{
    if (size > (type == 'x' ? PAX_BYTES_MAX : NAME_BYTES_MAX))
        return damaged(reader, "a name that is too long", err);
    char *text = NULL;
    enum xt_status status = xt_mem_calloc(&text, (size_t)size + 1, 1, "a tar's header", err);
    if (status)
        return status;
    if (!xt_tar_read(reader, data, text, (size_t)size))
        status = damaged(reader, "a header that cannot be read", err);
    else if (type == 'x')
        status = take_pax(reader, text, (size_t)size, err);
    else
        status = set_text(&reader->long_name, text, (size_t)size, err);
    reader->has_long_name |= type == 'L';
    free(text);
    return status;
}

static enum xt_status take_file(struct xt_tar_reader *reader, const uint8_t *block, uint64_t data,
                                uint64_t size, struct xt_err *err)
{
    enum xt_status status = set_name(reader, block, err);
    reader->member_at = data;
    reader->member_size = size;
    if (!status && (reader->is_sparse || block[TYPE_AT] == 'S'))
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s holds %s as a sparse file, which is not supported; create it again "
                            "without --sparse",
                            reader->path, xt_str_get(&reader->name));
    return status;
}

static void forget_extension(struct xt_tar_reader *reader)
{
    reader->has_long_name = reader->has_long_size = reader->is_sparse = false;
}

/* Processes the header in `block` and moves past its contents; *file if it is a regular file. */
static enum xt_status take_header(struct xt_tar_reader *reader, const uint8_t *block, bool *file,
                                  struct xt_err *err)
{
    char type = (char)block[TYPE_AT];
    uint64_t size = 0;
    uint64_t data = reader->at + BLOCK;
    if (!sum_is_right(block) || !read_number(block + SIZE_AT, SIZE_SIZE, &size))
        return damaged(reader, "an invalid header", err);
    bool extension = type == 'x' || type == 'L' || type == 'K' || type == 'g';
    bool empty = type >= '1' && type <= '6'; /* links, devices, folders */
    if (reader->has_long_size && !extension)
        size = reader->long_size;
    *file = type == '0' || type == '\0' || type == '7' || type == 'S';
    if (empty)
        size = 0;
    if (size > size_max)
        return damaged(reader, "a file of an impossible size", err);
    enum xt_status status = *file ? take_file(reader, block, data, size, err) : XT_OK;
    if (!status && (data > reader->size || size > reader->size - data))
        status = cut_short(reader, "in the middle of a file", err);
    if (!status && (type == 'x' || type == 'L'))
        status = take_extension(reader, type, data, size, err);
    if (!extension)
        forget_extension(reader);
    reader->at = data + (size + BLOCK - 1) / BLOCK * BLOCK;
    /* Older programs marked folders so. */
    if (*file && reader->name.length && reader->name.data[reader->name.length - 1] == '/')
        *file = false;
    return status;
}

enum xt_status xt_tar_next(struct xt_tar_reader *reader, bool *end, struct xt_err *err)
{
    uint8_t block[BLOCK];
    reader->name.length = 0;
    *end = false;
    for (;;) {
        if (reader->at >= reader->size)
            return cut_short(reader, "without the empty blocks that end a tar", err);
        if (!xt_tar_read(reader, reader->at, block, BLOCK))
            return cut_short(reader, "in the middle of a header", err);
        *end = is_empty(block);
        if (*end)
            return XT_OK;
        bool file = false;
        enum xt_status status = take_header(reader, block, &file, err);
        if (status || file)
            return status;
    }
}

void xt_tar_clear(struct xt_tar_reader *reader)
{
    xt_str_clear(&reader->name);
    xt_str_clear(&reader->long_name);
}
