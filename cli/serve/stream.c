#include "cli/serve/stream.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/system/stop.h"
#include "data/image/image.h"

enum { CHUNK = 65536, LINE_MOST = 65536, LENGTH_BYTES = 4, POLL_MS = 500 };

struct stream {
    struct xt_ordered *ordered;
    enum xt_stdin_kind kind;
    int width, height;
    char *bytes; /* read but not yet sent: `held` bytes from `start` */
    size_t start, held, capacity;
    bool ended;
    size_t records; /* sent so far */
};

/* ---- paths ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Parses the numbers at the end of a line and cuts them off: at most nine, where eight are valid.
 * Numbers at or before `least` are not taken. */
static int take_numbers(char *line, size_t least, double numbers[8])
{
    double found[9];
    int count = 0;
    char *end = line + strlen(line);
    while (count < 9) {
        char *word = end;
        char *after = NULL;
        while (word > line + least && !is_blank(word[-1]))
            word--;
        found[count] = strtod(word, &after);
        if (word == line || word == end || after != end)
            break;
        count++;
        for (end = word; end > line + least && is_blank(end[-1]);)
            end--;
        *end = '\0';
    }
    for (int i = 0; i < count && i < 8; i++)
        numbers[i] = found[count - 1 - i];
    return count;
}

/* Splits a path and an optional region. *count is -1 if the text after a tab is not numbers. */
static void split_line(char *line, double numbers[8], int *count)
{
    char *tab = strchr(line, '\t');
    *count = 0;
    if (xt_file_exists(line))
        return;
    for (char *end = line + strlen(line); end > line && is_blank(end[-1]);)
        *--end = '\0';
    *count = take_numbers(line, tab ? (size_t)(tab - line) + 1 : 0, numbers);
    if (tab && tab[1])
        *count = -1;
    if (tab)
        *tab = '\0';
}

static enum xt_status send_line(struct stream *stream, const char *line, struct xt_err *err)
{
    double numbers[8];
    int count = 0;
    char *path = NULL;
    struct xt_err why = {0};
    enum xt_status status = xt_mem_strdup(&path, line, err);
    if (status)
        return status;
    split_line(path, numbers, &count);
    const struct xtrain_image image = {
        .path = path, .region = count ? numbers : NULL, .region_numbers = count};
    if (count != 0 && count != 4 && count != 8) {
        xt_err_set(&why, XT_ERR_USAGE,
                   "%s: there is no such file; a path may be followed by 4 numbers (x y width "
                   "height) or 8 (the four corners)",
                   line);
        status = xt_ordered_skip(stream->ordered, line, &why, err);
    } else {
        status = xt_ordered_send(stream->ordered, line, &image, err);
    }
    free(path);
    return status;
}

/* ---- records ---- */

/* The length of the next record, including its prefix; 0: not known yet. */
static enum xt_status record_length(const struct stream *stream, size_t *out, struct xt_err *err)
{
    const char *at = stream->held ? stream->bytes + stream->start : "";
    *out = 0;
    if (stream->kind == XT_STDIN_FRAMES) {
        *out = (size_t)stream->width * (size_t)stream->height * 3;
    } else if (stream->kind == XT_STDIN_IMAGES && stream->held >= LENGTH_BYTES) {
        uint32_t length = 0;
        for (int i = 0; i < LENGTH_BYTES; i++)
            length = length << 8 | (uint8_t)at[i];
        *out = LENGTH_BYTES + (size_t)length;
        if (length > XT_IMAGE_BYTES_MAX)
            return xt_err_set(
                err, XT_ERR_DATA,
                "standard input: image %zu has a length of %u bytes, more than the limit of %d: is "
                "each image preceded by its length as four bytes, big-endian?",
                stream->records, length, XT_IMAGE_BYTES_MAX);
    } else if (stream->kind == XT_STDIN_PATHS && stream->held) {
        const char *end = memchr(at, '\n', stream->held);
        *out = end ? (size_t)(end - at) + 1 : stream->ended ? stream->held : 0;
        if (!*out && stream->held > LINE_MOST)
            return xt_err_set(err, XT_ERR_DATA,
                              "standard input: line %zu is longer than %d bytes: is it one path "
                              "per line?",
                              stream->records + 1, LINE_MOST);
    }
    return XT_OK;
}

/* The line without its newline; the buffer has a byte behind the data. */
static enum xt_status end_line(const struct stream *stream, char *line, size_t length,
                               struct xt_err *err)
{
    length -= line[length - 1] == '\n';
    length -= length && line[length - 1] == '\r';
    line[length] = '\0';
    if (strlen(line) == length)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "standard input: line %zu contains a NUL byte: is it one path per line? "
                      "(find -print, not -print0)",
                      stream->records + 1);
}

static enum xt_status send_record(struct stream *stream, size_t length, struct xt_err *err)
{
    char name[32];
    char *at = stream->bytes + stream->start;
    if (stream->kind == XT_STDIN_PATHS) {
        enum xt_status status = end_line(stream, at, length, err);
        return !status && *at ? send_line(stream, at, err) : status;
    }
    bool is_raw = stream->kind == XT_STDIN_FRAMES;
    size_t before = is_raw ? 0 : LENGTH_BYTES;
    struct xtrain_image image = {.bytes = at + before, .size = length - before};
    if (is_raw) {
        image.width = stream->width;
        image.height = stream->height;
    }
    snprintf(name, sizeof name, "%s %zu", is_raw ? "frame" : "image", stream->records);
    return xt_ordered_send(stream->ordered, name, &image, err);
}

static enum xt_status check_stop(const struct stream *stream, struct xt_err *err)
{
    return xt_stop_check(err, "after %s",
                         xt_count((long long)stream->ordered->images, "file").text);
}

/* Sends all complete records. */
static enum xt_status send_records(struct stream *stream, struct xt_err *err)
{
    enum xt_status status = check_stop(stream, err);
    for (size_t length = 0; !status;) {
        status = record_length(stream, &length, err);
        if (status || !length || length > stream->held)
            break;
        status = send_record(stream, length, err);
        stream->records++;
        stream->start += length;
        stream->held -= length;
        if (!status)
            status = check_stop(stream, err);
    }
    if (!status && stream->ended && stream->held)
        status = xt_err_set(
            err, XT_ERR_DATA, "standard input ends in the middle of %s %zu, %zu bytes into it",
            stream->kind == XT_STDIN_FRAMES ? "frame" : "image", stream->records, stream->held);
    return status;
}

/* ---- reading ---- */

static enum xt_status make_room(struct stream *stream, struct xt_err *err)
{
    size_t length = 0;
    enum xt_status status = record_length(stream, &length, err);
    if (status)
        return status;
    if (stream->start) {
        memmove(stream->bytes, stream->bytes + stream->start, stream->held);
        stream->start = 0;
    }
    size_t need = stream->held + CHUNK > length ? stream->held + CHUNK : length;
    return xt_mem_grow(&stream->bytes, &stream->capacity, need + 1, 1, "standard input", err);
}

static enum xt_status read_some(struct stream *stream, struct xt_err *err)
{
    enum xt_status status = make_room(stream, err);
    if (status)
        return status;
    ssize_t got =
        read(STDIN_FILENO, stream->bytes + stream->held, stream->capacity - stream->held - 1);
    if (got < 0 && errno != EINTR && errno != EAGAIN)
        return xt_err_system(err, XT_ERR_RUN, "standard input cannot be read");
    stream->ended = got == 0;
    stream->held += got > 0 ? (size_t)got : 0;
    return XT_OK;
}

/* Waits for input or a prediction. */
static enum xt_status wait_for_either(struct stream *stream, struct xt_err *err)
{
    uint64_t count;
    struct pollfd either[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                              {.fd = stream->ordered->wake, .events = POLLIN}};
    if (poll(either, 2, 0) == 0) {
        /* No more input for now: a partial batch must not wait for it. */
        xtrain_flush(stream->ordered->network);
        /* The reader of the output may be gone (`| head`): main distinguishes that from a full
         * disk. */
        stream->ended = fflush(stdout) != 0;
        if (stream->ended)
            return XT_OK;
        /* The timeout covers a signal that arrived just before. */
        poll(either, 2, POLL_MS);
    }
    if (either[1].revents && read(stream->ordered->wake, &count, sizeof count) < 0)
        either[1].revents = 0;
    return either[0].revents ? read_some(stream, err) : XT_OK;
}

enum xt_status xt_stream_run(struct xt_ordered *ordered, enum xt_stdin_kind kind, int width,
                             int height, struct xt_err *err)
{
    struct stream stream = {.ordered = ordered, .kind = kind, .width = width, .height = height};
    enum xt_status status = XT_OK;
    while (!status && !stream.ended) {
        status = wait_for_either(&stream, err);
        if (!status)
            status = send_records(&stream, err);
        if (!status)
            status = xt_ordered_print(ordered, false, err);
    }
    free(stream.bytes);
    return status;
}
