#include "data/image/jpeg.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jerror.h>
#include <jpeglib.h>

#include "base/mem.h"
#include "base/system/thread.h"

/* The library reports an error through a callback, which must not return. */
struct xt_jpeg_state {
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char reason[JMSG_LENGTH_MAX];
    bool no_memory;
    struct xt_jpeg *owner;
};

/* One image being decoded. */
struct job {
    const uint8_t *bytes;
    size_t size;
    /* What to decode, in pixels of the scaled image. */
    unsigned reduction; /* 1, 2, 4 or 8 */
    unsigned left;
    unsigned top;
    unsigned width;
    unsigned height;
    J_COLOR_SPACE colours;
    size_t pixel_bytes;
    uint8_t *out;
};

static struct xt_jpeg_state *state_of(j_common_ptr library)
{
    return (struct xt_jpeg_state *)library;
}

_Noreturn static void escape(j_common_ptr library)
{
    struct xt_jpeg_state *state = state_of(library);
    state->errors.format_message(library, state->reason);
    state->no_memory = state->errors.msg_code == JERR_OUT_OF_MEMORY;
    longjmp(state->escape, 1);
}

/* A warning counts as an error: a truncated file would be grey from where it ends. */
static void on_message(j_common_ptr library, int level)
{
    if (level < 0)
        escape(library);
}

static void on_output(j_common_ptr library)
{
    (void)library;
}

/* A small file with very many scans would take very long: each is a pass over all pixels. */
static void on_progress(j_common_ptr library)
{
    enum { SCANS_MOST = 100, PIXELS_MOST = 2000 * 1000 * 1000 };
    struct xt_jpeg_state *state = state_of(library);
    struct xt_jpeg *jpeg = state->owner;
    jpeg->is_late = jpeg->until > 0 && xt_thread_cpu_seconds() > jpeg->until;
    if (jpeg->is_late) {
        snprintf(state->reason, sizeof state->reason, "it takes too long to decode");
        longjmp(state->escape, 1);
    }
    uint64_t pixels = (uint64_t)state->library.image_width * state->library.image_height;
    uint64_t most = pixels * SCANS_MOST > PIXELS_MOST ? PIXELS_MOST / pixels : SCANS_MOST;
    if ((uint64_t)state->library.input_scan_number <= most)
        return;
    snprintf(state->reason, sizeof state->reason, "it has more than %d scans", (int)most);
    longjmp(state->escape, 1);
}

/* False if the library failed; `reason` says why. */
static bool attempt(struct xt_jpeg_state *state,
                    void (*step)(struct jpeg_decompress_struct *library, struct job *job),
                    struct job *job)
{
    state->no_memory = false;
    if (setjmp(state->escape))
        return false;
    step(&state->library, job);
    return true;
}

static void create(struct jpeg_decompress_struct *library, struct job *job)
{
    (void)job;
    jpeg_create_decompress(library);
}

static void read_header(struct jpeg_decompress_struct *library, struct job *job)
{
    jpeg_mem_src(library, job->bytes, (unsigned long)job->size);
    jpeg_read_header(library, TRUE);
}

/* The library widens the part of a row to whole blocks. */
static void start(struct jpeg_decompress_struct *library, struct job *job)
{
    library->out_color_space = job->colours;
    library->scale_num = 1;
    library->scale_denom = job->reduction;
    jpeg_start_decompress(library);
    if (job->width < library->output_width)
        jpeg_crop_scanline(library, &job->left, &job->width);
    if (job->top)
        (void)jpeg_skip_scanlines(library, job->top);
}

/* Rows below the part are not decoded. */
static void read_rows(struct jpeg_decompress_struct *library, struct job *job)
{
    enum { ROWS = 16 };
    size_t stride = (size_t)job->width * job->pixel_bytes;
    for (unsigned done = 0; done < job->height;) {
        JSAMPROW rows[ROWS];
        unsigned count = job->height - done < ROWS ? job->height - done : ROWS;
        for (unsigned i = 0; i < count; i++)
            rows[i] = job->out + (done + i) * stride;
        done += jpeg_read_scanlines(library, rows, count);
    }
    /* Reads on to the end of a whole image, so that a truncated file is an error. */
    if (library->output_scanline == library->output_height)
        jpeg_finish_decompress(library);
}

static enum xt_status begin(struct xt_jpeg *jpeg, struct xt_err *err)
{
    enum xt_status status =
        xt_mem_calloc(&jpeg->state, 1, sizeof *jpeg->state, "a JPEG decoder", err);
    if (status)
        return status;
    struct xt_jpeg_state *state = jpeg->state;
    state->library.err = jpeg_std_error(&state->errors);
    state->errors.error_exit = escape;
    state->errors.emit_message = on_message;
    state->errors.output_message = on_output;
    if (!attempt(state, create, NULL)) {
        xt_jpeg_clear(jpeg);
        return xt_err_no_memory(err, "a JPEG decoder", 0);
    }
    state->progress.progress_monitor = on_progress;
    state->library.progress = &state->progress;
    return XT_OK;
}

void xt_jpeg_clear(struct xt_jpeg *jpeg)
{
    if (jpeg->state)
        jpeg_destroy_decompress(&jpeg->state->library);
    free(jpeg->state);
    free(jpeg->inks);
    *jpeg = (struct xt_jpeg){0};
}

bool xt_jpeg_is(const uint8_t *bytes, size_t size)
{
    return size >= 3 && bytes[0] == 0xFF && bytes[1] == 0xD8 && bytes[2] == 0xFF;
}

/* Fill bytes and markers that have no segment, which libjpeg skips too. */
static size_t skipped_before_marker(const uint8_t *bytes, size_t size)
{
    enum { TEM = 0x01, RST0 = 0xD0, RST7 = 0xD7 };
    size_t at = 0;
    while (at + 1 < size && bytes[at] == 0xFF) {
        uint8_t code = bytes[at + 1];
        if (code != 0xFF && code != TEM && (code < RST0 || code > RST7))
            break;
        at += code == 0xFF ? 1 : 2;
    }
    return at;
}

bool xt_jpeg_next_segment(const uint8_t *bytes, size_t size, size_t *at,
                          struct xt_jpeg_segment *segment)
{
    enum { SOI_SIZE = 2, SOS = 0xDA };
    size_t from = *at ? *at : SOI_SIZE;
    from += skipped_before_marker(bytes + from, size - from);
    if (from + 4 > size || bytes[from] != 0xFF || bytes[from + 1] == SOS)
        return false;
    size_t length = (size_t)bytes[from + 2] << 8 | bytes[from + 3];
    if (length < 2 || length > size - from - 2)
        return false;
    *segment = (struct xt_jpeg_segment){bytes[from + 1], bytes + from + 4, length - 2};
    *at = from + 2 + length;
    return true;
}

/* The frame header is SOF0 to SOF15, but for three of these codes that mean something else. */
uint64_t xt_jpeg_pixels(const uint8_t *bytes, size_t size)
{
    enum { SOF0 = 0xC0, DHT = 0xC4, JPG = 0xC8, DAC = 0xCC, SOF15 = 0xCF };
    struct xt_jpeg_segment s;
    for (size_t at = 0; xt_jpeg_next_segment(bytes, size, &at, &s);)
        if (s.size >= 5 && s.marker >= SOF0 && s.marker <= SOF15 && s.marker != DHT &&
            s.marker != JPG && s.marker != DAC)
            return (uint64_t)(s.data[1] << 8 | s.data[2]) * (uint64_t)(s.data[3] << 8 | s.data[4]);
    return 0;
}

static enum xt_status bad_jpeg(struct xt_jpeg_state *state, const char *name, struct xt_err *err)
{
    jpeg_abort_decompress(&state->library);
    if (state->no_memory)
        return xt_err_set(err, XT_ERR_MEMORY, "out of memory decoding %s", name);
    return xt_err_set(err, XT_ERR_DATA, "%s is a damaged or incomplete JPEG: %s", name,
                      state->reason);
}

/* CMYK to RGB. With an Adobe marker 255 is no ink; without, 0 is. */
static void pixels_from_inks(const uint8_t *inks, size_t count, bool inverted,
                             enum xt_pixel_order order, uint8_t *pixels)
{
    int flip = inverted ? 0 : 255;
    for (size_t i = 0; i < count; i++, inks += 4, pixels += 3) {
        int black = inks[3] ^ flip;
        for (int c = 0; c < 3; c++) {
            int light = inks[c] ^ flip;
            pixels[order == XT_PIXEL_RGB ? c : 2 - c] = (uint8_t)((light * black + 127) / 255);
        }
    }
}

/* The strongest reduction that leaves the part at least as large as requested. */
static unsigned choose_reduction(const struct xt_want *want, const struct xt_box *part,
                                 bool transpose)
{
    int width = transpose ? want->height : want->width;
    int height = transpose ? want->width : want->height;
    unsigned reduction = 8;
    while (reduction > 1 &&
           (part->width < (double)reduction * width || part->height < (double)reduction * height))
        reduction /= 2;
    return reduction;
}

/* The whole pixels that an interval of an axis of `size` overlaps. */
static void cover(double from, double length, unsigned size, unsigned *first, unsigned *count)
{
    double end = ceil(from + length);
    *first = from > 0 ? (unsigned)from : 0;
    *first = *first < size ? *first : size - 1;
    unsigned last = end < size ? (unsigned)end : size;
    *count = last > *first ? last - *first : 1;
}

/* Chooses what to decode, and *part in its pixels. */
static void plan(const struct jpeg_decompress_struct *library,
                 const struct xt_orientation *orientation, const struct xt_want *want,
                 struct job *job, struct xt_box *part)
{
    unsigned width = library->image_width;
    unsigned height = library->image_height;
    bool transpose = orientation->transpose;
    *part =
        xt_want_part(want, (int)(transpose ? height : width), (int)(transpose ? width : height));
    *part = xt_orientation_to_stored(orientation, *part, width, height);
    job->reduction = want ? choose_reduction(want, part, transpose) : 1;
    part->left /= job->reduction;
    part->top /= job->reduction;
    part->width /= job->reduction;
    part->height /= job->reduction;
    width = (width + job->reduction - 1) / job->reduction;
    height = (height + job->reduction - 1) / job->reduction;
    cover(part->left, part->width, width, &job->left, &job->width);
    cover(part->top, part->height, height, &job->top, &job->height);
}

/* Whether the whole image is requested, at its own size. */
static bool is_wanted_as_it_is(const struct jpeg_decompress_struct *library,
                               const struct xt_want *want, const struct xt_box *part)
{
    return (int)library->image_width == want->width && (int)library->image_height == want->height &&
           part->width == want->width && part->height == want->height;
}

static bool is_sane(const struct jpeg_decompress_struct *library)
{
    return library->image_width <= XT_IMAGE_PIXELS_MAX &&
           library->image_height <= XT_IMAGE_PIXELS_MAX;
}

enum xt_status xt_jpeg_decode(struct xt_jpeg *jpeg, const uint8_t *bytes, size_t size,
                              const struct xt_orientation *orientation, enum xt_pixel_order order,
                              const struct xt_want *want, const char *name, struct xt_picture *out,
                              struct xt_err *err)
{
    enum xt_status status = jpeg->state ? XT_OK : begin(jpeg, err);
    if (status)
        return status;
    struct xt_jpeg_state *state = jpeg->state;
    state->owner = jpeg;
    struct jpeg_decompress_struct *library = &state->library;
    struct job job = {.bytes = bytes, .size = size};
    if (!attempt(state, read_header, &job))
        return bad_jpeg(state, name, err);
    /* Refused by the header, before the library allocates for it. */
    status = is_sane(library)
                 ? xt_image_check((int)library->image_width, (int)library->image_height, err)
                 : xt_err_set(err, XT_ERR_DATA, "the image is too large");
    if (status) {
        jpeg_abort_decompress(library);
        return xt_err_prefix(err, "%s: ", name);
    }
    out->width = (int)library->image_width;
    out->height = (int)library->image_height;
    plan(library, orientation, want, &job, &out->part);
    bool inks = library->num_components == 4;
    bool inverted = library->saw_Adobe_marker;
    job.colours = inks ? JCS_CMYK : order == XT_PIXEL_RGB ? JCS_RGB : JCS_EXT_BGR;
    job.pixel_bytes = inks ? 4 : 3;
    if (!attempt(state, start, &job))
        return bad_jpeg(state, name, err);
    out->in_place = want && want->into && !inks && xt_orientation_is_stored(orientation) &&
                    is_wanted_as_it_is(library, want, &out->part);
    size_t pixels = (size_t)job.width * job.height;
    if (!out->in_place)
        status = xt_image_reserve(&out->image, (int)job.width, (int)job.height, err);
    if (!status && inks)
        status = xt_mem_grow(&jpeg->inks, &jpeg->inks_capacity, pixels * 4, 1, name, err);
    if (status) {
        jpeg_abort_decompress(library);
        return status;
    }
    job.out = inks ? jpeg->inks : out->in_place ? want->into : out->image.pixels;
    if (!attempt(state, read_rows, &job))
        return bad_jpeg(state, name, err);
    jpeg_abort_decompress(library);
    if (inks)
        pixels_from_inks(jpeg->inks, pixels, inverted, order, out->image.pixels);
    out->part.left -= job.left;
    out->part.top -= job.top;
    return XT_OK;
}
