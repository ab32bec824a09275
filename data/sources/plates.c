/* Plates made on the fly: sample i is drawn from seed and i alone, its label first and then its
 * picture. */
#include "data/sources/source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "data/drawing/glyphs.h"
#include "data/drawing/plate.h"

/* Keeps these numbers apart from others that are drawn from the same seed. */
static const uint64_t stream_of_plates = 0x706C61746573u;

static const uint64_t count_max = (uint64_t)1 << 31;
static const char what[] = "synth:plates";
static const char *const keys[] = {"count", "seed", "style", "hard"};
enum { KEYS = sizeof keys / sizeof keys[0], KEY_COUNT = 0, KEY_SEED, KEY_STYLE, KEY_HARD };

static const char *const style_names[XT_PLATE_STYLES] = {"blue", "green", "yellow", "white"};
/* How often a style comes, among those that were asked for. */
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

/* A piece of the query. */
struct piece {
    const char *text;
    size_t length;
};

static struct piece cut(const char **at, char separator)
{
    const char *end = strchrnul(*at, separator);
    struct piece piece = {*at, (size_t)(end - *at)};
    *at = *end ? end + 1 : NULL;
    return piece;
}

static bool piece_is(struct piece piece, const char *word)
{
    return strlen(word) == piece.length && !memcmp(piece.text, word, piece.length);
}

static enum xt_status parse_number(struct piece value, const char *key, uint64_t low, uint64_t high,
                                   uint64_t *out, struct xt_err *err)
{
    uint64_t number = 0;
    bool good = value.length > 0;
    for (size_t i = 0; i < value.length && good; i++) {
        unsigned digit = (unsigned)(value.text[i] - '0');
        good = digit <= 9 && !__builtin_mul_overflow(number, 10, &number) &&
               !__builtin_add_overflow(number, digit, &number);
    }
    if (!good || number < low || number > high)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s: %s is \"%.*s\", but must be a whole number from %" PRIu64
                          " to %" PRIu64,
                          what, key, (int)value.length, value.text, low, high);
    *out = number;
    return XT_OK;
}

static enum xt_status parse_styles(struct synth *synth, struct piece value, struct xt_err *err)
{
    bool all = piece_is(value, all_styles);
    for (int style = 0; style < XT_PLATE_STYLES; style++)
        synth->styles[style] = all;
    for (size_t at = 0; !all && at <= value.length;) {
        const char *from = value.text + at;
        const char *comma = memchr(from, ',', value.length - at);
        struct piece name = {from, comma ? (size_t)(comma - from) : value.length - at};
        int style = 0;
        while (style < XT_PLATE_STYLES && !piece_is(name, style_names[style]))
            style++;
        if (style == XT_PLATE_STYLES || synth->styles[style])
            return xt_err_set(err, XT_ERR_USAGE,
                              "%s: style holds \"%.*s\"%s; write all, or some of blue, green, "
                              "yellow and white with commas between",
                              what, (int)name.length, name.text,
                              style < XT_PLATE_STYLES ? " twice" : "");
        synth->styles[style] = true;
        at += name.length + 1;
    }
    return XT_OK;
}

static enum xt_status unknown_key(struct piece key, struct xt_err *err)
{
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)key.length, key.text);
    const char *nearest = xt_str_nearest(word, keys, KEYS);
    return xt_err_set(err, XT_ERR_USAGE,
                      "%s has no setting \"%.*s\"%s%s%s; the settings are count, seed, style and "
                      "hard",
                      what, (int)key.length, key.text, nearest ? " (did you mean " : "",
                      nearest ? nearest : "", nearest ? "?)" : "");
}

static enum xt_status parse_setting(struct synth *synth, struct piece setting, bool *seen,
                                    struct xt_err *err)
{
    const char *equals = memchr(setting.text, '=', setting.length);
    size_t length = equals ? (size_t)(equals - setting.text) : setting.length;
    struct piece key = {setting.text, length};
    struct piece value = {equals ? equals + 1 : NULL, equals ? setting.length - length - 1 : 0};
    int which = 0;
    while (which < KEYS && !piece_is(key, keys[which]))
        which++;
    if (which == KEYS)
        return unknown_key(key, err);
    if (!equals)
        return xt_err_set(err, XT_ERR_USAGE, "%s: %s has no value; write %s=...", what, keys[which],
                          keys[which]);
    if (seen[which])
        return xt_err_set(err, XT_ERR_USAGE, "%s: %s is given twice; keep one", what, keys[which]);
    seen[which] = true;
    if (which == KEY_STYLE)
        return parse_styles(synth, value, err);
    static const uint64_t lows[KEYS] = {[KEY_COUNT] = 1};
    const uint64_t highs[KEYS] = {
        [KEY_COUNT] = count_max, [KEY_SEED] = UINT64_MAX, [KEY_HARD] = XT_PLATE_HARD_MAX};
    uint64_t number = 0;
    enum xt_status status =
        parse_number(value, keys[which], lows[which], highs[which], &number, err);
    if (status)
        return status;
    if (which == KEY_COUNT)
        synth->base.count = (size_t)number;
    else if (which == KEY_SEED)
        synth->seed = number;
    else
        synth->hard = (int)number;
    return XT_OK;
}

static enum xt_status parse(struct synth *synth, const char *query, struct xt_err *err)
{
    const char *at = query;
    struct piece name = cut(&at, '?');
    if (!piece_is(name, "plates"))
        return xt_err_set(err, XT_ERR_USAGE,
                          "synth:%.*s is not known; plates are all that is made: "
                          "synth:plates?count=N&seed=S&style=blue,green&hard=H",
                          (int)name.length, name.text);
    bool seen[KEYS] = {false};
    enum xt_status status = XT_OK;
    while (at && !status)
        status = parse_setting(synth, cut(&at, '&'), seen, err);
    return status;
}

static void fill_pool(struct synth *synth, struct pool *pool, int first, int last)
{
    for (int glyph = first; glyph < last; glyph++)
        if (synth->symbols[glyph] >= 0)
            pool->glyphs[pool->count++] = glyph;
}

/* What the alphabet lacks, or has as its blank, is left out of the draw. */
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
    const char *missing = !synth->provinces.count ? "province"
                          : !synth->digits.count  ? "digit"
                          : !synth->letters.count ? "letter"
                                                  : NULL;
    if (missing)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s needs an alphabet with provinces, digits and letters, but this one "
                          "has no %s; use another alphabet or pictures of your own",
                          what, missing);
    return XT_OK;
}

/* The most that any plate of these styles needs: every symbol the same, blanks between. */
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
    snprintf(synth->base.description, sizeof synth->base.description,
             "%zu made plate%s (%s, seed %" PRIu64 ", %s)", synth->base.count,
             synth->base.count == 1 ? "" : "s", what, synth->seed, styles);
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

/* Begins sample `index`: its style and glyphs; the picture takes its numbers from what follows. */
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
    xt_plate_paint(synth->painter, style, glyphs, synth->hard, &rng, sample->picture.image.pixels);
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

enum xt_status xt_source_open_synth(struct xt_source **out, const char *query,
                                    const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    struct synth *synth;
    enum xt_status status = xt_mem_calloc(&synth, 1, sizeof *synth, "the made plates", err);
    if (status)
        return status;
    synth->base.class = &synth_class;
    synth->base.count = 50000;
    synth->seed = 1;
    synth->hard = 3;
    synth->styles[XT_PLATE_BLUE] = synth->styles[XT_PLATE_GREEN] = true;
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
