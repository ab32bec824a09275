/* Synthetic plates: sample i is drawn from seed and i alone, its label first and then its
 * picture. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "data/drawing/glyphs.h"
#include "data/drawing/plate.h"
#include "data/sources/query.h"
#include "data/sources/registry.h"

/* A stream of its own, distinct from others with the same seed. */
static const uint64_t stream_of_plates = 0x706C61746573u;

static const uint64_t count_max = (uint64_t)1 << 31;
static const char what[] = "synth:plates";

static const char *const style_names[XT_PLATE_STYLES] = {"blue", "green", "yellow", "white"};
/* Relative frequency of a style, among those requested. */
static const uint64_t style_shares[XT_PLATE_STYLES] = {3, 1, 1, 1};
static const char all_styles[] = "all";

/* Of 100 symbols after the first letter this many are letters. */
enum { LETTERS_OF_100 = 40 };

/* Glyphs that the alphabet has too. */
struct pool {
    int count;
    int glyphs[XT_GLYPH_COUNT];
};

struct synth {
    struct xt_source base;
    struct xt_plate_painter *painter;
    uint64_t seed;
    int hard;
    enum xt_pixel_order order;
    bool styles[XT_PLATE_STYLES];
    struct pool provinces;
    struct pool digits;
    struct pool letters;
    int symbols[XT_GLYPH_COUNT]; /* a glyph's index in the alphabet, or -1 */
};

static enum xt_status parse_styles(struct synth *synth, struct xt_query_piece value,
                                   struct xt_err *err)
{
    bool all = xt_query_piece_is(value, all_styles);
    for (int style = 0; style < XT_PLATE_STYLES; style++)
        synth->styles[style] = all;
    for (size_t at = 0; !all && at <= value.length;) {
        const char *from = value.text + at;
        const char *comma = memchr(from, ',', value.length - at);
        struct xt_query_piece name = {from, comma ? (size_t)(comma - from) : value.length - at};
        int style = 0;
        while (style < XT_PLATE_STYLES && !xt_query_piece_is(name, style_names[style]))
            style++;
        if (style == XT_PLATE_STYLES || synth->styles[style])
            return xt_err_set(err, XT_ERR_USAGE,
                              "%s: style holds \"%.*s\"%s; write all, or some of blue, green, "
                              "yellow and white separated by commas",
                              what, (int)name.length, name.text,
                              style < XT_PLATE_STYLES ? " twice" : "");
        synth->styles[style] = true;
        at += name.length + 1;
    }
    return XT_OK;
}

static enum xt_status parse(struct synth *synth, const char *query, struct xt_err *err)
{
    enum { COUNT, SEED, STYLE, HARD, SETTINGS };
    struct xt_query_setting settings[SETTINGS] = {
        [COUNT] = {.key = "count", .low = 1, .high = count_max, .number = 50000},
        [SEED] = {.key = "seed", .high = UINT64_MAX, .number = 1},
        [STYLE] = {.key = "style"},
        [HARD] = {.key = "hard", .high = XT_PLATE_HARD_MAX, .number = 3},
    };
    synth->styles[XT_PLATE_BLUE] = synth->styles[XT_PLATE_GREEN] = true;
    enum xt_status status = xt_query_read(what, query, settings, SETTINGS, err);
    if (!status && settings[STYLE].given)
        status = parse_styles(synth, settings[STYLE].text, err);
    synth->base.count = (size_t)settings[COUNT].number;
    synth->seed = settings[SEED].number;
    synth->hard = (int)settings[HARD].number;
    return status;
}

static void fill_pool(struct synth *synth, struct pool *pool, int first, int last)
{
    for (int glyph = first; glyph < last; glyph++)
        if (synth->symbols[glyph] >= 0)
            pool->glyphs[pool->count++] = glyph;
}

/* Glyphs that the alphabet lacks, or has as its blank, are never drawn; where it lacks a whole kind
 * (other countries' plates have no provinces), another kind stands in its place. */
static enum xt_status match_alphabet(struct synth *synth, const struct xt_alphabet *alphabet,
                                     struct xt_err *err)
{
    for (int glyph = 0; glyph < XT_GLYPH_COUNT; glyph++) {
        int symbol = xt_alphabet_find(alphabet, xt_glyph_code(glyph));
        synth->symbols[glyph] = symbol == xt_alphabet_blank(alphabet) ? -1 : symbol;
    }
    fill_pool(synth, &synth->provinces, XT_GLYPH_PROVINCE, XT_GLYPH_DIGIT);
    fill_pool(synth, &synth->digits, XT_GLYPH_DIGIT, XT_GLYPH_LETTER);
    fill_pool(synth, &synth->letters, XT_GLYPH_LETTER, XT_GLYPH_COUNT);
    if (!synth->letters.count)
        synth->letters = synth->digits.count ? synth->digits : synth->provinces;
    if (!synth->letters.count)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s draws provinces, digits and letters of Chinese plates, of which the "
                          "alphabet has none; use pictures of your own",
                          what);
    if (!synth->digits.count)
        synth->digits = synth->letters;
    if (!synth->provinces.count)
        synth->provinces = synth->letters;
    return XT_OK;
}

/* The most CTC steps that any plate of these styles needs: all symbols equal, blanks between. */
static enum xt_status check_steps(const struct synth *synth, int steps_max, struct xt_err *err)
{
    int length = xt_plate_length(synth->styles[XT_PLATE_GREEN] ? XT_PLATE_GREEN : XT_PLATE_BLUE);
    int steps = 2 * length - 1;
    if (steps_max > 0 && steps > steps_max)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s makes labels of up to %d steps, but the network reads %d; use "
                          "another network",
                          what, steps, steps_max);
    return XT_OK;
}

static void describe(struct synth *synth)
{
    char styles[64] = "";
    int left = 0;
    for (int style = 0; style < XT_PLATE_STYLES; style++)
        left += synth->styles[style];
    for (int style = 0; style < XT_PLATE_STYLES; style++) {
        if (!synth->styles[style])
            continue;
        left--;
        size_t used = strlen(styles);
        snprintf(styles + used, sizeof styles - used, "%s%s", style_names[style],
                 left > 1    ? ", "
                 : left == 1 ? " and "
                             : "");
    }
    snprintf(
        synth->base.description, sizeof synth->base.description, "%s (%s, seed %" PRIu64 ", %s)",
        xt_count((long long)synth->base.count, "synthetic plate").text, what, synth->seed, styles);
}

static const struct synth *synth_of(const struct xt_source *source)
{
    return (const struct synth *)source;
}

static int draw_from(const struct pool *pool, struct xt_rng *rng)
{
    return pool->glyphs[xt_rng_below(rng, (uint64_t)pool->count)];
}

static enum xt_plate_style draw_style(const struct synth *synth, struct xt_rng *rng)
{
    uint64_t all = 0;
    for (int style = 0; style < XT_PLATE_STYLES; style++)
        all += synth->styles[style] ? style_shares[style] : 0;
    uint64_t place = xt_rng_below(rng, all);
    for (int style = 0; style < XT_PLATE_STYLES - 1; style++) {
        uint64_t share = synth->styles[style] ? style_shares[style] : 0;
        if (place < share)
            return (enum xt_plate_style)style;
        place -= share;
    }
    return XT_PLATE_STYLES - 1;
}

/* Begins sample `index`: its style and glyphs; the picture continues with the same generator. */
static enum xt_plate_style draw_plate(const struct synth *synth, size_t index, struct xt_rng *rng,
                                      int glyphs[XT_PLATE_SYMBOLS_MAX])
{
    *rng = xt_rng_begin(xt_rng_at(synth->seed, stream_of_plates, 0), index);
    enum xt_plate_style style = draw_style(synth, rng);
    glyphs[0] = draw_from(&synth->provinces, rng);
    glyphs[1] = draw_from(&synth->letters, rng);
    for (int i = 2; i < xt_plate_length(style); i++) {
        bool letter = xt_rng_below(rng, 100) < LETTERS_OF_100;
        glyphs[i] = draw_from(letter ? &synth->letters : &synth->digits, rng);
    }
    return style;
}

static void write_label(const struct synth *synth, enum xt_plate_style style, const int *glyphs,
                        int *label, int *length)
{
    *length = xt_plate_length(style);
    for (int i = 0; i < *length; i++)
        label[i] = synth->symbols[glyphs[i]];
}

static void swap_ends(uint8_t *pixels, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t first = pixels[3 * i];
        pixels[3 * i] = pixels[3 * i + 2];
        pixels[3 * i + 2] = first;
    }
}

static enum xt_status synth_read(const struct xt_source *source, size_t index,
                                 const struct xt_want *want, struct xt_decoder *decoder,
                                 struct xt_sample *sample, struct xt_err *err)
{
    (void)decoder;
    const struct synth *synth = synth_of(source);
    enum xt_status status =
        xt_image_reserve(&sample->picture.image, XT_PLATE_WIDTH, XT_PLATE_HEIGHT, err);
    if (status)
        return status;
    struct xt_rng rng;
    int glyphs[XT_PLATE_SYMBOLS_MAX] = {0};
    enum xt_plate_style style = draw_plate(synth, index, &rng, glyphs);
    write_label(synth, style, glyphs, sample->label, &sample->label_length);
    status = xt_plate_paint(synth->painter, style, glyphs, synth->hard, &rng,
                            sample->picture.image.pixels, err);
    if (status)
        return status;
    if (synth->order == XT_PIXEL_BGR)
        swap_ends(sample->picture.image.pixels, XT_PLATE_WIDTH * XT_PLATE_HEIGHT);
    xt_picture_whole(&sample->picture, want);
    return XT_OK;
}

static enum xt_status synth_label(const struct xt_source *source, size_t index, int *label,
                                  int *length, struct xt_err *err)
{
    (void)err;
    struct xt_rng rng;
    int glyphs[XT_PLATE_SYMBOLS_MAX] = {0};
    enum xt_plate_style style = draw_plate(synth_of(source), index, &rng, glyphs);
    write_label(synth_of(source), style, glyphs, label, length);
    return XT_OK;
}

static void synth_name(const struct xt_source *source, size_t index, char *out, size_t size)
{
    (void)source;
    snprintf(out, size, "%s #%zu", what, index);
}

static void synth_destroy(struct xt_source *source)
{
    struct synth *synth = (struct synth *)source;
    xt_plate_painter_destroy(synth->painter);
    free(synth);
}

static const struct xt_source_class synth_class = {
    .read = synth_read, .label = synth_label, .name = synth_name, .destroy = synth_destroy};

static enum xt_status open_plates(struct xt_source **out, const char *query,
                                  const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    if (options->task == XT_TASK_CLASSES)
        return xt_err_set(
            err, XT_ERR_USAGE,
            "%s has plates and no classes; synthetic pictures with classes are synth:shapes", what);
    struct synth *synth;
    enum xt_status status = xt_mem_calloc(&synth, 1, sizeof *synth, "the synthetic plates", err);
    if (status)
        return status;
    synth->base.class = &synth_class;
    synth->order = options->order;
    status = parse(synth, query, err);
    if (!status)
        status = match_alphabet(synth, options->alphabet, err);
    if (!status)
        status = check_steps(synth, options->steps_max, err);
    if (!status)
        status = xt_plate_painter_create(&synth->painter, err);
    if (status) {
        synth_destroy(&synth->base);
        return status;
    }
    describe(synth);
    *out = &synth->base;
    return XT_OK;
}

const struct xt_source_kind xt_source_plates = {.prefix = what, .open = open_plates};
