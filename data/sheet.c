#include "data/sheet.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "data/drawing/glyphs.h"
#include "data/image/resize.h"

enum {
    COLUMNS = 4,
    GAP = 8,
    TEXT_HEIGHT = 24,
    TEXT_WIDTH = 12,    /* of a glyph */
    PICTURE_LEAST = 96, /* small images are shown larger */
};

struct sheet {
    struct xt_image image;
    int scale; /* position in a picture */
    int cell_width;
    int cell_height;
};

static int glyph_of(uint32_t code)
{
    if (code >= 'a' && code <= 'z')
        code -= 'a' - 'A';
    /* The plates' glyphs have no I and no O: these are drawn instead. */
    code = code == 'I' ? '1' : code == 'O' ? '0' : code;
    for (int i = 0; i < XT_GLYPH_COUNT; i++)
        if (xt_glyph_code(i) == code)
            return i;
    return -1;
}

static void draw_glyph(struct sheet *sheet, int glyph, int left, int top)
{
    for (int y = 0; y < TEXT_HEIGHT; y++)
        for (int x = 0; x < TEXT_WIDTH; x++) {
            int from_x = x * XT_GLYPH_WIDTH / TEXT_WIDTH;
            int from_y = y * XT_GLYPH_HEIGHT / TEXT_HEIGHT;
            int sum = 0;
            for (int k = 0; k < 4; k++)
                sum += xt_glyph_coverage(glyph, from_x + k % 2, from_y + k / 2);
            uint8_t *pixel =
                sheet->image.pixels +
                ((size_t)(top + y) * (size_t)sheet->image.width + (size_t)(left + x)) * 3;
            memset(pixel, 255 - 255 * sum / (4 * XT_GLYPH_LEVELS), 3);
        }
}

static void draw_text(struct sheet *sheet, const char *text, int left, int top, int width)
{
    size_t size = strlen(text);
    for (int x = left; size > 0 && x + TEXT_WIDTH <= left + width; x += TEXT_WIDTH + 2) {
        uint32_t code = 0;
        size_t used = xt_utf8_decode(text, size, &code);
        used = used ? used : 1;
        int glyph = glyph_of(code);
        if (glyph >= 0)
            draw_glyph(sheet, glyph, x, top);
        text += used;
        size -= used;
    }
}

/* Pixels of the network's size, each as a square of the scale. */
static void draw_picture(struct sheet *sheet, const struct xt_loader_config *config,
                         const uint8_t *pixels, int left, int top)
{
    int red = config->order == XT_PIXEL_RGB ? 0 : 2;
    for (int y = 0; y < config->height * sheet->scale; y++)
        for (int x = 0; x < config->width * sheet->scale; x++) {
            const uint8_t *in = pixels + ((size_t)(y / sheet->scale) * (size_t)config->width +
                                          (size_t)(x / sheet->scale)) *
                                             3;
            uint8_t *out =
                sheet->image.pixels +
                ((size_t)(top + y) * (size_t)sheet->image.width + (size_t)(left + x)) * 3;
            out[0] = in[red];
            out[1] = in[1];
            out[2] = in[2 - red];
        }
}

static enum xt_status label_text(const struct xt_loader_config *config,
                                 const struct xt_alphabet *alphabet, const int *label, int length,
                                 struct xt_str *text, struct xt_err *err)
{
    const struct xt_source *source = config->source;
    if (length > 0 && source->class_count > 0)
        return xt_str_printf(text, err, "%s", xt_source_class_name(source, label[0]));
    return alphabet ? xt_alphabet_decode(alphabet, label, length, text, err) : XT_OK;
}

/* The sample without augmentation, at the network's size. */
static enum xt_status make_original(const struct xt_loader_config *config, size_t index,
                                    uint8_t *pixels, struct xt_err *err)
{
    struct xt_decoder decoder = {0};
    struct xt_sample sample = {0};
    struct xt_resizer resizer = {0};
    enum xt_status status =
        config->source->class->read(config->source, index, NULL, &decoder, &sample, err);
    if (!status)
        status =
            xt_resize(&resizer, &sample.picture.image, config->width, config->height, pixels, err);
    xt_decoder_clear(&decoder);
    xt_resizer_clear(&resizer);
    xt_image_clear(&sample.picture.image);
    return status;
}

static enum xt_status draw_cell(struct sheet *sheet, const struct xt_loader_config *config,
                                const struct xt_alphabet *alphabet, const struct xt_batch *batch,
                                int number, uint8_t *original, struct xt_err *err)
{
    int left = GAP + number % COLUMNS * sheet->cell_width;
    int top = GAP + number / COLUMNS * sheet->cell_height;
    size_t size = (size_t)config->width * (size_t)config->height * 3;
    struct xt_str text = {0};
    enum xt_status status = make_original(config, batch->indices[number], original, err);
    if (!status)
        status = label_text(config, alphabet, batch->labels + (size_t)number * XT_LABEL_MAX,
                            batch->label_lengths[number], &text, err);
    if (!status) {
        int next = left + config->width * sheet->scale + 2;
        draw_text(sheet, xt_str_get(&text), left, top, sheet->cell_width - GAP);
        draw_picture(sheet, config, original, left, top + TEXT_HEIGHT + 2);
        draw_picture(sheet, config, batch->pixels + (size_t)number * size, next,
                     top + TEXT_HEIGHT + 2);
    }
    xt_str_clear(&text);
    return status;
}

static enum xt_status draw(struct sheet *sheet, const struct xt_loader_config *config,
                           const struct xt_alphabet *alphabet, const struct xt_batch *batch,
                           struct xt_err *err)
{
    int rows = (batch->count - 1) / COLUMNS + 1;
    sheet->scale = PICTURE_LEAST / config->width + 1;
    sheet->cell_width = 2 * config->width * sheet->scale + 2 + GAP;
    sheet->cell_height = config->height * sheet->scale + TEXT_HEIGHT + 2 + GAP;
    enum xt_status status = xt_image_reserve(&sheet->image, COLUMNS * sheet->cell_width + GAP,
                                             rows * sheet->cell_height + GAP, err);
    uint8_t *original = NULL;
    if (!status)
        status = xt_mem_calloc(&original, (size_t)config->width * (size_t)config->height, 3,
                               "an image", err);
    if (!status)
        memset(sheet->image.pixels, 255,
               (size_t)sheet->image.width * (size_t)sheet->image.height * 3);
    for (int i = 0; i < batch->count && !status; i++)
        status = draw_cell(sheet, config, alphabet, batch, i, original, err);
    free(original);
    return status;
}

enum xt_status xt_sheet_save(const char *path, const struct xt_loader_config *config, int samples,
                             const struct xt_alphabet *alphabet, struct xt_err *err)
{
    enum { SLOTS = 2 };
    struct xt_loader_config own = *config;
    struct xt_loader *loader = NULL;
    struct xt_batch batch;
    struct sheet sheet = {0};
    uint8_t *slots[SLOTS] = {NULL};
    bool end = false;
    /* At most the samples that exist: a mixture's epoch may be shorter than its count. */
    own.drop_last = false;
    own.batch = own.source->count < (size_t)samples ? (int)own.source->count : samples;
    own.slots = SLOTS;
    own.slot_pixels = slots;
    own.repeat = own.shuffle = true;
    own.strict = false;
    size_t size = (size_t)own.batch * (size_t)own.width * (size_t)own.height;
    enum xt_status status = XT_OK;
    for (int i = 0; i < SLOTS && !status; i++)
        status = xt_mem_calloc(&slots[i], size, 3, "a contact sheet", err);
    if (!status)
        status = xt_loader_create(&loader, &own, err);
    if (!status)
        status = xt_loader_next(loader, &batch, &end, NULL, err);
    if (!status)
        status = draw(&sheet, &own, alphabet, &batch, err);
    if (!status)
        status = xt_png_save(path, &sheet.image, XT_PIXEL_RGB, err);
    xt_loader_destroy(loader);
    xt_image_clear(&sheet.image);
    for (int i = 0; i < SLOTS; i++)
        free(slots[i]);
    return status;
}
