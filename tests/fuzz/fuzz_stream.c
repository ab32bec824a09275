/* Any bytes on standard input of predict and serve, in pieces of any size: lines with regions,
 * images behind their lengths, raw frames. What would get the network is checked here and cut as
 * the network would have it; every record gets its answer.
 *
 * The first three bytes say the kind, the size of the frames and that of the pieces. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/serve/stream.h"
#include "infer/session/cutter.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { HEAD = 3 };

/* Stands behind the stream in the place of ordered.c and the network. */
static struct xt_cutter cutter;

void xtrain_flush(struct xtrain *network)
{
    (void)network;
}

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

enum xt_status xt_ordered_send(struct xt_ordered *ordered, const char *name,
                               const struct xtrain_image *image, struct xt_err *err)
{
    static const uint8_t picture[7 * 5 * 3];
    const struct xt_feed_size size = {.width = 6, .height = 4, .bgr = true};
    const struct xt_pixels pixels = {
        .bytes = image->path ? picture : image->bytes,
        .width = image->path ? 7 : image->width,
        .height = image->path ? 5 : image->height,
        .stride = 3 * (size_t)(image->path ? 7 : image->width),
    };
    struct xt_region region = {.count = image->region ? image->region_numbers : 0};
    uint8_t out[6 * 4 * 3];
    struct xt_err why;
    (void)err;
    check(*name && !image->path != !image->bytes);
    check(region.count == 0 || region.count == 4 || region.count == 8);
    for (int i = 0; i < region.count; i++)
        region.numbers[i] = image->region[i];
    ordered->images++;
    if (xt_region_check(&region, &why))
        return XT_OK;
    if (image->path || image->width) {
        check(image->path || image->size == (size_t)image->height * pixels.stride);
        xt_cutter_pixels(&cutter, &size, &pixels, &region, out, &why);
    } else {
        xt_cutter_encoded(&cutter, &size, image->bytes, image->size, name, &region, out, &why);
    }
    return XT_OK;
}

enum xt_status xt_ordered_skip(struct xt_ordered *ordered, const char *name,
                               const struct xt_err *why, struct xt_err *err)
{
    (void)err;
    check(*name && why->status == XT_ERR_USAGE && strlen(why->text) > 20);
    ordered->images++;
    return XT_OK;
}

enum xt_status xt_ordered_print(struct xt_ordered *ordered, bool all, struct xt_err *err)
{
    (void)ordered;
    (void)all;
    (void)err;
    return XT_OK;
}

/* Standard input gets these bytes, in as many pieces as a pipe holds at most, and ends. */
static void feed(const uint8_t *bytes, size_t size, size_t piece)
{
    int ends[2];
    check(pipe2(ends, O_DIRECT | O_CLOEXEC) == 0);
    check(dup2(ends[0], STDIN_FILENO) == STDIN_FILENO);
    close(ends[0]);
    if (piece < size / 15 + 1)
        piece = size / 15 + 1;
    for (size_t at = 0; at < size; at += piece)
        check(write(ends[1], bytes + at, piece < size - at ? piece : size - at) > 0);
    close(ends[1]);
}

/* The lines that are not empty. */
static size_t count_lines(const uint8_t *bytes, size_t size)
{
    size_t count = 0;
    size_t length = 0;
    for (size_t i = 0; i <= size; i++) {
        bool ends = i == size || bytes[i] == '\n';
        count += ends && (length > 1 || (length == 1 && bytes[i - 1] != '\r'));
        length = ends ? 0 : length + 1;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const enum xt_stdin_kind kinds[] = {XT_STDIN_PATHS, XT_STDIN_IMAGES, XT_STDIN_FRAMES};
    struct xt_ordered ordered = {.wake = -1};
    struct xt_err err = {0};
    if (size < HEAD)
        return 0;
    enum xt_stdin_kind kind = kinds[bytes[0] % 3];
    int width = bytes[1] % 16 + 1;
    int height = bytes[1] / 16 + 1;
    const uint8_t *rest = bytes + HEAD;
    size_t count = size - HEAD;
    feed(rest, count, (size_t)bytes[2] + 1);
    enum xt_status status = xt_stream_run(&ordered, kind, width, height, &err);
    check(!status || (status == XT_ERR_DATA && strlen(err.text) > 20));
    if (!status && kind == XT_STDIN_PATHS)
        check(!memchr(rest, '\0', count) && ordered.images == count_lines(rest, count));
    if (!status && kind == XT_STDIN_FRAMES)
        check(ordered.images * (size_t)width * (size_t)height * 3 == count);
    return 0;
}
