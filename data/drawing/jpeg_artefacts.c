#include "data/drawing/jpeg_artefacts.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "base/mem.h"

struct trip {
    struct jpeg_error_mgr errors;
    struct jpeg_compress_struct encoder;
    struct jpeg_decompress_struct decoder;
    jmp_buf escape;
    uint8_t *pixels;
    int width, height, quality;
    uint8_t *bytes;
    unsigned long size;
};

/* The library fails here only when out of memory. */
static void escape(j_common_ptr library)
{
    struct trip *trip = library->client_data;
    longjmp(trip->escape, 1);
}

static JSAMPROW row_of(const struct trip *trip, unsigned y)
{
    return trip->pixels + (size_t)y * (size_t)trip->width * 3;
}

static void encode(struct trip *trip)
{
    struct jpeg_compress_struct *encoder = &trip->encoder;
    jpeg_create_compress(encoder);
    jpeg_mem_dest(encoder, &trip->bytes, &trip->size);
    encoder->image_width = (JDIMENSION)trip->width;
    encoder->image_height = (JDIMENSION)trip->height;
    encoder->input_components = 3;
    encoder->in_color_space = JCS_RGB;
    jpeg_set_defaults(encoder);
    jpeg_set_quality(encoder, trip->quality, TRUE);
    encoder->dct_method = JDCT_ISLOW;
    jpeg_start_compress(encoder, TRUE);
    while (encoder->next_scanline < encoder->image_height)
        jpeg_write_scanlines(encoder, (JSAMPROW[]){row_of(trip, encoder->next_scanline)}, 1);
    jpeg_finish_compress(encoder);
}

static void decode(struct trip *trip)
{
    struct jpeg_decompress_struct *decoder = &trip->decoder;
    jpeg_create_decompress(decoder);
    jpeg_mem_src(decoder, trip->bytes, trip->size);
    jpeg_read_header(decoder, TRUE);
    decoder->dct_method = JDCT_ISLOW;
    decoder->do_fancy_upsampling = FALSE;
    jpeg_start_decompress(decoder);
    while (decoder->output_scanline < decoder->output_height)
        jpeg_read_scanlines(decoder, (JSAMPROW[]){row_of(trip, decoder->output_scanline)}, 1);
    jpeg_finish_decompress(decoder);
}

static bool attempt(struct trip *trip, void (*step)(struct trip *trip))
{
    if (setjmp(trip->escape))
        return false;
    step(trip);
    return true;
}

enum xt_status xt_synth_jpeg(uint8_t *pixels, int width, int height, int quality,
                             struct xt_err *err)
{
    static const char what[] = "the JPEG of a drawn image";
    struct trip trip = {.width = width, .height = height, .quality = quality};
    /* An upper bound for any JPEG of that size, so that the library never allocates: 26 bits for
     * each coefficient, half of them for chroma, in whole blocks; and the headers. */
    trip.size = 2048 + ((unsigned long)width + 16) * ((unsigned long)height + 16) * 6;
    uint8_t *bytes = NULL;
    enum xt_status status = xt_mem_calloc(&bytes, 1, trip.size, what, err);
    if (status)
        return status;
    trip.pixels = pixels;
    trip.bytes = bytes;
    trip.encoder.err = trip.decoder.err = jpeg_std_error(&trip.errors);
    trip.encoder.client_data = trip.decoder.client_data = &trip;
    trip.errors.error_exit = escape;
    if (!attempt(&trip, encode) || !attempt(&trip, decode))
        status = xt_err_no_memory(err, what, trip.size);
    jpeg_destroy_compress(&trip.encoder);
    jpeg_destroy_decompress(&trip.decoder);
    free(bytes);
    return status;
}
