#include "data/image/png.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/system/thread.h"

/* One image being read or written. libpng reports an error by longjmp: what is needed after it is
 * kept here and not in locals, and so is everything that must be released. */
struct work {
    png_structp png;
    png_infop info;
    const char *name;
    struct xt_png *state;
    const uint8_t *bytes;
    size_t size;
    struct xt_image *image;
    bool is_whole; /* the end of the image was reached */
    struct xt_str written;
    enum xt_pixel_order order;
    enum xt_status status; /* `err` already holds the sentence */
    struct xt_err *err;
    bool no_memory;
    char reason[128];
};

static void on_error(png_structp png, png_const_charp message)
{
    struct work *work = png_get_error_ptr(png);
    snprintf(work->reason, sizeof work->reason, "%s", message);
    png_longjmp(png, 1);
}

/* libpng would only print it. Pixels after the last row are an error here: a file of some MB can
 * hold GB of them. */
static void on_warning(png_structp png, png_const_charp message)
{
    if (strncmp(message, "Extra compress", 14) == 0)
        png_error(png, "its pixels continue after the last row");
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t size)
{
    struct work *work = png_get_mem_ptr(png);
    void *p = malloc(size ? size : 1);
    if (!p)
        work->no_memory = true;
    return p;
}

static void on_free(png_structp png, png_voidp p)
{
    (void)png;
    free(p);
}

static void on_write(png_structp png, png_bytep bytes, size_t size)
{
    struct work *work = png_get_io_ptr(png);
    work->status = xt_str_append(&work->written, (const char *)bytes, size, work->err);
    if (work->status)
        png_error(png, "out of memory");
}

static void on_flush(png_structp png)
{
    (void)png;
}

static enum xt_status failure(const struct work *work)
{
    if (work->status)
        return work->status;
    if (work->no_memory)
        return xt_err_set(work->err, XT_ERR_MEMORY, "out of memory for the PNG %s", work->name);
    return xt_err_set(work->err, XT_ERR_DATA, "%s is a damaged or incomplete PNG: %s", work->name,
                      work->reason);
}

/* Aborts reading with the error in work->err. */
static void give_up(struct work *work, enum xt_status status)
{
    work->status = status;
    png_longjmp(work->png, 1);
}

/* Colour profiles, text and the like: unused, and not worth the time or the risk. */
static void skip_extras(png_structp png)
{
    static const png_byte extras[] = "bKGD\0cHRM\0eXIf\0gAMA\0hIST\0iCCP\0iTXt\0"
                                     "pHYs\0sBIT\0sPLT\0sRGB\0tEXt\0tIME\0zTXt";
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, extras, (int)(sizeof extras / 5));
}

/* Requests 8-bit colour in the wanted order, with alpha if the file has any. */
static void set_transforms(struct work *work)
{
    png_set_expand(work->png);
    png_set_scale_16(work->png);
    png_set_gray_to_rgb(work->png);
    if (work->order == XT_PIXEL_BGR)
        png_set_bgr(work->png);
}

static void over_black(const uint8_t *rgba, uint8_t *out, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++)
        for (size_t c = 0; c < 3; c++)
            out[i * 3 + c] = (uint8_t)((rgba[i * 4 + c] * rgba[i * 4 + 3] + 127) / 255);
}

static bool has_alpha(const struct work *work)
{
    return png_get_channels(work->png, work->info) == 4;
}

/* Rows of RGBA are held until their last pass: all of them for an interlaced image, else one. */
static bool holds_all(const struct work *work)
{
    return png_get_interlace_type(work->png, work->info) != PNG_INTERLACE_NONE;
}

static uint8_t *rgba_row(const struct work *work, size_t y)
{
    return work->state->rows + (holds_all(work) ? y * (size_t)work->image->width * 4 : 0);
}

static void on_header(png_structp png, png_infop info)
{
    struct work *work = png_get_progressive_ptr(png);
    png_uint_32 width = png_get_image_width(png, info);
    png_uint_32 height = png_get_image_height(png, info);
    if (width > XT_IMAGE_PIXELS_MAX || height > XT_IMAGE_PIXELS_MAX)
        width = height = XT_IMAGE_PIXELS_MAX;
    enum xt_status status = xt_image_reserve(work->image, (int)width, (int)height, work->err);
    if (status) {
        xt_err_prefix(work->err, "%s: ", work->name);
        give_up(work, status);
    }
    set_transforms(work);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (!has_alpha(work))
        return;
    size_t held = holds_all(work) ? height : 1;
    status = xt_mem_grow(&work->state->rows, &work->state->rows_capacity, held * width * 4, 1,
                         work->name, work->err);
    if (status)
        give_up(work, status);
}

/* row is NULL if an interlaced image's pass changes nothing in it. */
static void on_row(png_structp png, png_bytep row, png_uint_32 y, int pass)
{
    enum { CHECK_EACH = 32 }; /* rows */
    (void)pass;
    struct work *work = png_get_progressive_ptr(png);
    struct xt_png *state = work->state;
    state->is_late =
        state->until > 0 && y % CHECK_EACH == 0 && xt_thread_cpu_seconds() > state->until;
    if (state->is_late)
        png_error(png, "it takes too long to decode");
    size_t width = (size_t)work->image->width;
    uint8_t *pixels = work->image->pixels + y * width * 3;
    if (!row)
        return;
    if (!has_alpha(work)) {
        png_progressive_combine_row(png, pixels, row);
        return;
    }
    png_progressive_combine_row(png, rgba_row(work, y), row);
    over_black(rgba_row(work, y), pixels, width);
}

static void on_end(png_structp png, png_infop info)
{
    (void)info;
    struct work *work = png_get_progressive_ptr(png);
    work->is_whole = true;
}

/* Uses libpng's progressive reader, which stops at the last row, where the other one inflates
 * whatever follows. It takes the bytes without `const` but does not change them. */
static void read_image(struct work *work)
{
    skip_extras(work->png);
    png_set_progressive_read_fn(work->png, work, on_header, on_row, on_end);
    png_process_data(work->png, work->info, (png_bytep)(uintptr_t)work->bytes, work->size);
    if (!work->is_whole)
        png_error(work->png, "it ends too early");
}

static enum xt_status read_guarded(struct work *work)
{
    if (setjmp(png_jmpbuf(work->png)))
        return failure(work);
    read_image(work);
    return XT_OK;
}

void xt_png_clear(struct xt_png *state)
{
    free(state->rows);
    *state = (struct xt_png){0};
}

bool xt_png_is(const uint8_t *bytes, size_t size)
{
    return size >= 8 && memcmp(bytes, "\x89PNG\r\n\x1a\n", 8) == 0;
}

/* The header is the first chunk and begins with width and height. */
uint64_t xt_png_pixels(const uint8_t *bytes, size_t size)
{
    return size >= 24 ? (uint64_t)xt_number_be32(bytes + 16) * xt_number_be32(bytes + 20) : 0;
}

enum xt_status xt_png_decode(struct xt_png *state, const uint8_t *bytes, size_t size,
                             enum xt_pixel_order order, const char *name, struct xt_image *out,
                             struct xt_err *err)
{
    struct work work = {.name = name,
                        .state = state,
                        .bytes = bytes,
                        .size = size,
                        .image = out,
                        .order = order,
                        .err = err};
    work.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &work, on_error, on_warning, &work,
                                        on_malloc, on_free);
    work.info = work.png ? png_create_info_struct(work.png) : NULL;
    enum xt_status status =
        work.info ? read_guarded(&work) : xt_err_no_memory(err, "a PNG decoder", 0);
    png_destroy_read_struct(&work.png, &work.info, NULL);
    return status;
}

static enum xt_status write_guarded(struct work *work)
{
    if (setjmp(png_jmpbuf(work->png)))
        return failure(work);
    png_set_write_fn(work->png, work, on_write, on_flush);
    png_set_IHDR(work->png, work->info, (png_uint_32)work->image->width,
                 (png_uint_32)work->image->height, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
    png_write_info(work->png, work->info);
    if (work->order == XT_PIXEL_BGR)
        png_set_bgr(work->png);
    for (int y = 0; y < work->image->height; y++)
        png_write_row(work->png, work->image->pixels + (size_t)y * (size_t)work->image->width * 3);
    png_write_end(work->png, NULL);
    return XT_OK;
}

enum xt_status xt_png_encode(const struct xt_image *image, enum xt_pixel_order order,
                             struct xt_str *out, struct xt_err *err)
{
    struct xt_image view = *image;
    struct work work = {
        .name = "a PNG", .image = &view, .order = order, .written = *out, .err = err};
    work.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &work, on_error, on_warning, &work,
                                         on_malloc, on_free);
    work.info = work.png ? png_create_info_struct(work.png) : NULL;
    enum xt_status status =
        work.info ? write_guarded(&work) : xt_err_no_memory(err, "a PNG encoder", 0);
    png_destroy_write_struct(&work.png, &work.info);
    *out = work.written;
    return status;
}

enum xt_status xt_png_save(const char *path, const struct xt_image *image,
                           enum xt_pixel_order order, struct xt_err *err)
{
    struct xt_str bytes = {0};
    enum xt_status status = xt_png_encode(image, order, &bytes, err);
    if (!status)
        status = xt_file_save(path, bytes.data, bytes.length, err);
    xt_str_clear(&bytes);
    return status;
}
