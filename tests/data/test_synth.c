#include "support.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/drawing/glyphs.h"
#include "data/drawing/jpeg_artefacts.h"
#include "data/drawing/plate.h"
#include "data/sources/registry.h"

enum { PIXELS = XT_PLATE_WIDTH * XT_PLATE_HEIGHT, BYTES = PIXELS * 3 };

static enum xt_status open_made(struct xt_source **out, const char *query,
                                const struct xt_source_options *options, struct xt_err *err)
{
    char spec[128];
    snprintf(spec, sizeof spec, "synth:%s", query);
    return xt_source_open(out, spec, options, err);
}

static struct xt_source *open_plates(const char *query, enum xt_pixel_order order)
{
    /* The sources of a test outlive the call, and so must their alphabet. */
    static struct xt_alphabet *alphabet;
    struct xt_err err = {0};
    if (!alphabet)
        assert_int_equal(xt_alphabet_load(&alphabet, NULL, &err), XT_OK);
    struct xt_source_options options = {.alphabet = alphabet, .order = order, .steps_max = 18};
    struct xt_source *source;
    enum xt_status status = open_made(&source, query, &options, &err);
    if (status)
        fail_msg("%s", err.text);
    return source;
}

static void read_plate(const struct xt_source *source, size_t index, struct xt_sample *sample)
{
    struct xt_err err = {0};
    assert_int_equal(source->class->read(source, index, NULL, NULL, sample, &err), XT_OK);
    assert_int_equal(sample->picture.image.width, XT_PLATE_WIDTH);
    assert_int_equal(sample->picture.image.height, XT_PLATE_HEIGHT);
}

/* 64-bit FNV-1a. */
static uint64_t checksum(uint64_t sum, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum = (sum ^ bytes[i]) * 0x100000001B3u;
    return sum;
}

/* A hash of the first plates' pixels and labels; *mean is their pixels' mean in thousandths. */
static uint64_t checksum_of(const char *query, size_t plates, int *mean)
{
    struct xt_source *source = open_plates(query, XT_PIXEL_RGB);
    struct xt_sample sample = {0};
    uint64_t sum = 0xCBF29CE484222325u;
    uint64_t all = 0;
    for (size_t i = 0; i < plates; i++) {
        read_plate(source, i, &sample);
        sum = checksum(sum, sample.picture.image.pixels, BYTES);
        for (int s = 0; s < sample.label_length; s++)
            sum = checksum(sum, &(uint8_t){(uint8_t)sample.label[s]}, 1);
        for (size_t b = 0; b < BYTES; b++)
            all += sample.picture.image.pixels[b];
    }
    *mean = (int)(all * 1000 / (plates * BYTES));
    xt_image_clear(&sample.picture.image);
    xt_source_destroy(source);
    return sum;
}

static void plates_are_the_stored_ones(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        uint64_t sum;
        int mean;
    } stored[] = {
        /* No distortion, so no JPEG either. */
        {"plates?seed=7&hard=0", 0x09AF7F2EEBBE9AEB, 125666},
        {"plates?seed=7", 0x9B232FD3F96F9875, 125617},
        {"plates?seed=7&hard=10&style=all", 0x63D02CACD1305F15, 133603},
    };
    for (size_t i = 0; i < sizeof stored / sizeof stored[0]; i++) {
        int mean;
        uint64_t sum = checksum_of(stored[i].query, 64, &mean);
        if (sum != stored[i].sum || mean != stored[i].mean)
            fail_msg("%s: 0x%016" PRIX64 ", mean %d", stored[i].query, sum, mean);
    }
}

static void a_plate_is_the_same_whenever_it_is_read(void **state)
{
    (void)state;
    struct xt_source *first = open_plates("plates?count=100&seed=3", XT_PIXEL_RGB);
    struct xt_source *second = open_plates("plates?seed=3&count=200", XT_PIXEL_RGB);
    struct xt_sample a = {0};
    struct xt_sample b = {0};
    read_plate(second, 98, &b);
    for (size_t i = 100; i-- > 90;) {
        read_plate(first, i, &a);
        read_plate(second, i, &b);
        assert_memory_equal(a.picture.image.pixels, b.picture.image.pixels, BYTES);
        assert_int_equal(a.label_length, b.label_length);
        assert_memory_equal(a.label, b.label, (size_t)a.label_length * sizeof *a.label);
    }
    xt_image_clear(&a.picture.image);
    xt_image_clear(&b.picture.image);
    xt_source_destroy(first);
    xt_source_destroy(second);
}

static void label_text(const struct xt_source *source, size_t index, char *out, size_t size)
{
    int label[XT_LABEL_MAX];
    int length;
    struct xt_err err = {0};
    assert_int_equal(source->class->label(source, index, label, &length, &err), XT_OK);
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < length; i++)
        used += (size_t)snprintf(out + used, size - used, "%d ", label[i]);
}

static void another_seed_makes_other_plates(void **state)
{
    (void)state;
    struct xt_source *first = open_plates("plates?seed=1", XT_PIXEL_RGB);
    struct xt_source *second = open_plates("plates?seed=2", XT_PIXEL_RGB);
    for (size_t i = 0; i < 100; i++) {
        char a[64];
        char b[64];
        label_text(first, i, a, sizeof a);
        for (size_t j = 0; j < 100; j++) {
            label_text(second, j, b, sizeof b);
            assert_string_not_equal(a, b);
        }
    }
    xt_source_destroy(first);
    xt_source_destroy(second);
}

static void the_label_alone_is_the_read_one(void **state)
{
    (void)state;
    struct xt_source *source = open_plates("plates?style=all", XT_PIXEL_RGB);
    struct xt_sample sample = {0};
    for (size_t i = 0; i < 50; i++) {
        int label[XT_LABEL_MAX];
        int length;
        struct xt_err err = {0};
        assert_int_equal(source->class->label(source, i, label, &length, &err), XT_OK);
        read_plate(source, i, &sample);
        assert_int_equal(length, sample.label_length);
        assert_memory_equal(label, sample.label, (size_t)length * sizeof *label);
    }
    xt_image_clear(&sample.picture.image);
    xt_source_destroy(source);
}

/* In the default alphabet: provinces 0-30, digits 31-40, letters 41-64, I and O 65 and 66. */
static void assert_labels(const char *query, size_t plates, int shortest, int longest)
{
    struct xt_source *source = open_plates(query, XT_PIXEL_RGB);
    for (size_t i = 0; i < plates; i++) {
        int label[XT_LABEL_MAX];
        int length;
        struct xt_err err = {0};
        assert_int_equal(source->class->label(source, i, label, &length, &err), XT_OK);
        assert_in_range(length, shortest, longest);
        assert_in_range(label[0], 0, 30);
        assert_in_range(label[1], 41, 64);
        for (int s = 2; s < length; s++)
            assert_in_range(label[s], 31, 64);
    }
    xt_source_destroy(source);
}

static void labels_are_those_of_real_plates(void **state)
{
    (void)state;
    assert_labels("plates?style=blue", 500, 7, 7);
    assert_labels("plates?style=yellow", 500, 7, 7);
    assert_labels("plates?style=white", 500, 7, 7);
    assert_labels("plates?style=green", 500, 8, 8);
    assert_labels("plates", 2000, 7, 8);
}

static void every_symbol_comes_and_a_quarter_is_green(void **state)
{
    (void)state;
    enum { PLATES = 4000 };
    struct xt_source *source = open_plates("plates", XT_PIXEL_RGB);
    int seen[68] = {0};
    int green = 0;
    for (size_t i = 0; i < PLATES; i++) {
        int label[XT_LABEL_MAX];
        int length;
        struct xt_err err = {0};
        assert_int_equal(source->class->label(source, i, label, &length, &err), XT_OK);
        for (int s = 0; s < length; s++)
            seen[label[s]]++;
        green += length == 8;
    }
    for (int symbol = 0; symbol < 65; symbol++)
        assert_true(seen[symbol] > PLATES / 62);
    for (int symbol = 65; symbol < 68; symbol++)
        assert_int_equal(seen[symbol], 0);
    assert_in_range(green, PLATES * 23 / 100, PLATES * 27 / 100);
    xt_source_destroy(source);
}

static void bgr_is_rgb_with_the_ends_swapped(void **state)
{
    (void)state;
    struct xt_source *rgb = open_plates("plates", XT_PIXEL_RGB);
    struct xt_source *bgr = open_plates("plates", XT_PIXEL_BGR);
    struct xt_sample a = {0};
    struct xt_sample b = {0};
    for (size_t i = 0; i < 10; i++) {
        read_plate(rgb, i, &a);
        read_plate(bgr, i, &b);
        for (size_t p = 0; p < PIXELS; p++)
            for (size_t c = 0; c < 3; c++)
                assert_int_equal(a.picture.image.pixels[3 * p + c],
                                 b.picture.image.pixels[3 * p + 2 - c]);
    }
    xt_image_clear(&a.picture.image);
    xt_image_clear(&b.picture.image);
    xt_source_destroy(rgb);
    xt_source_destroy(bgr);
}

/* The mean colour of some undistorted plates. */
static void mean_colour(const char *query, int mean[3])
{
    struct xt_source *source = open_plates(query, XT_PIXEL_RGB);
    struct xt_sample sample = {0};
    int64_t sum[3] = {0};
    for (size_t i = 0; i < 20; i++) {
        read_plate(source, i, &sample);
        for (size_t b = 0; b < BYTES; b++)
            sum[b % 3] += sample.picture.image.pixels[b];
    }
    for (int c = 0; c < 3; c++)
        mean[c] = (int)(sum[c] / (20 * PIXELS));
    xt_image_clear(&sample.picture.image);
    xt_source_destroy(source);
}

static void each_style_has_its_colour(void **state)
{
    (void)state;
    int mean[3];
    mean_colour("plates?hard=0&style=blue", mean);
    assert_true(mean[2] > mean[0] + 50 && mean[2] > mean[1] + 30);
    mean_colour("plates?hard=0&style=green", mean);
    assert_true(mean[1] > mean[0] + 20 && mean[1] > mean[2] + 15);
    mean_colour("plates?hard=0&style=yellow", mean);
    assert_true(mean[0] > mean[2] + 80 && mean[1] > mean[2] + 50);
    mean_colour("plates?hard=0&style=white", mean);
    assert_true(abs(mean[0] - mean[1]) < 10 && abs(mean[1] - mean[2]) < 10 && mean[0] > 120);
}

static void a_source_says_what_it_is(void **state)
{
    (void)state;
    char name[64];
    struct xt_source *source = open_plates("plates?count=45000&seed=7", XT_PIXEL_RGB);
    assert_int_equal(source->count, 45000);
    assert_string_equal(source->description,
                        "45000 synthetic plates (synth:plates, seed 7, blue and green)");
    source->class->name(source, 17, name, sizeof name);
    assert_string_equal(name, "synth:plates #17");
    xt_source_destroy(source);
    source = open_plates("plates?style=white,blue,yellow&count=1", XT_PIXEL_RGB);
    assert_string_equal(source->description,
                        "1 synthetic plate (synth:plates, seed 1, blue, yellow and white)");
    xt_source_destroy(source);
    source = open_plates("plates", XT_PIXEL_RGB);
    assert_int_equal(source->count, 50000);
    xt_source_destroy(source);
}

static enum xt_status try_open(const char *query, const char *symbols, int steps_max,
                               struct xt_err *err)
{
    struct xt_alphabet *alphabet;
    *err = (struct xt_err){0};
    assert_int_equal(xt_alphabet_create(&alphabet, symbols, strlen(symbols), "test", err), XT_OK);
    struct xt_source_options options = {.alphabet = alphabet, .steps_max = steps_max};
    struct xt_source *source;
    enum xt_status status = open_made(&source, query, &options, err);
    assert_true((status == XT_OK) == (source != NULL));
    xt_source_destroy(source);
    xt_alphabet_destroy(alphabet);
    return status;
}

static void a_query_that_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        const char *says;
    } refused[] = {
        {"cars", "synth:cars is not known; only plates are synthesized: "
                 "synth:plates?count=N&seed=S&style=blue,green&hard=H"},
        {"plates?cuont=7", "synth:plates has no setting \"cuont\" (did you mean count?); the "
                           "settings are count, seed, style and hard"},
        {"plates?",
         "synth:plates has no setting \"\"; the settings are count, seed, style and hard"},
        {"plates?count", "synth:plates: count has no value; write count=..."},
        {"plates?count=", "synth:plates: count is \"\", but must be a whole number from 1 to "
                          "2147483648"},
        {"plates?count=0", "synth:plates: count is \"0\", but must be a whole number from 1 to "
                           "2147483648"},
        {"plates?seed=3&count=2147483649", "synth:plates: count is \"2147483649\", but must be a "
                                           "whole number from 1 to 2147483648"},
        {"plates?count=1e5", "synth:plates: count is \"1e5\", but must be a whole number from 1 to "
                             "2147483648"},
        {"plates?seed=-1", "synth:plates: seed is \"-1\", but must be a whole number from 0 to "
                           "18446744073709551615"},
        {"plates?seed=18446744073709551616",
         "synth:plates: seed is \"18446744073709551616\", but must be a whole number from 0 to "
         "18446744073709551615"},
        {"plates?hard=11", "synth:plates: hard is \"11\", but must be a whole number from 0 to 10"},
        {"plates?seed=1&seed=1", "synth:plates: seed is given twice; keep one"},
        {"plates?style=red", "synth:plates: style holds \"red\"; write all, or some of blue, "
                             "green, yellow and white separated by commas"},
        {"plates?style=blue,blue", "synth:plates: style holds \"blue\" twice; write all, or some "
                                   "of blue, green, yellow and white separated by commas"},
        {"plates?style=blue,", "synth:plates: style holds \"\"; write all, or some of blue, green, "
                               "yellow and white separated by commas"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct xt_err err;
        assert_int_equal(try_open(refused[i].query, xt_alphabet_default, 18, &err), XT_ERR_USAGE);
        assert_string_equal(err.text, refused[i].says);
    }
}

static void an_alphabet_without_plate_symbols_is_refused(void **state)
{
    (void)state;
    struct xt_err err;
    assert_int_equal(try_open("plates", "абв-", 18, &err), XT_ERR_USAGE);
    assert_string_equal(err.text,
                        "synth:plates draws provinces, digits and letters of Chinese plates, of "
                        "which the alphabet has none; use pictures of your own");
}

static void symbols_that_the_alphabet_lacks_are_not_drawn(void **state)
{
    (void)state;
    static const struct {
        const char *symbols;
        const char *first, *second, *others; /* a label's */
    } cases[] = {
        {"B7京A-", "2", "03", "013"},
        {"012ABC-", "345", "345", "012345"},
        {"京沪-", "01", "01", "01"},
        {"01-", "01", "01", "01"},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct xt_alphabet *alphabet;
        struct xt_err err = {0};
        const char *symbols = cases[c].symbols;
        assert_int_equal(xt_alphabet_create(&alphabet, symbols, strlen(symbols), "test", &err),
                         XT_OK);
        struct xt_source_options options = {.alphabet = alphabet, .steps_max = 18};
        struct xt_source *source;
        assert_int_equal(xt_source_open(&source, "synth:plates", &options, &err), XT_OK);
        for (size_t i = 0; i < 100; i++) {
            int label[XT_LABEL_MAX];
            int length;
            assert_int_equal(source->class->label(source, i, label, &length, &err), XT_OK);
            assert_non_null(strchr(cases[c].first, '0' + label[0]));
            assert_non_null(strchr(cases[c].second, '0' + label[1]));
            for (int s = 2; s < length; s++)
                assert_non_null(strchr(cases[c].others, '0' + label[s]));
        }
        xt_source_destroy(source);
        xt_alphabet_destroy(alphabet);
    }
}

static void a_network_of_too_few_steps_is_refused(void **state)
{
    (void)state;
    struct xt_err err;
    assert_int_equal(try_open("plates?style=blue", xt_alphabet_default, 13, &err), XT_OK);
    assert_int_equal(try_open("plates", xt_alphabet_default, 14, &err), XT_ERR_USAGE);
    assert_string_equal(err.text, "synth:plates makes labels of up to 15 steps, but the network "
                                  "reads 14; use another network");
}

static void each_glyph_has_ink_of_its_own(void **state)
{
    (void)state;
    for (int glyph = 0; glyph < XT_GLYPH_COUNT; glyph++) {
        int ink = 0;
        int other = 0;
        for (int y = 0; y < XT_GLYPH_HEIGHT; y++)
            for (int x = 0; x < XT_GLYPH_WIDTH; x++) {
                int coverage = xt_glyph_coverage(glyph, x, y);
                assert_in_range(coverage, 0, XT_GLYPH_LEVELS);
                ink += coverage;
                other += coverage != xt_glyph_coverage((glyph + 1) % XT_GLYPH_COUNT, x, y);
            }
        const int all = XT_GLYPH_WIDTH * XT_GLYPH_HEIGHT * XT_GLYPH_LEVELS;
        assert_in_range(ink, all / 8, all * 3 / 4);
        assert_true(other > XT_GLYPH_WIDTH);
    }
    assert_int_equal(xt_glyph_code(XT_GLYPH_PROVINCE), U'京');
    assert_int_equal(xt_glyph_code(XT_GLYPH_DIGIT), U'0');
    assert_int_equal(xt_glyph_code(XT_GLYPH_LETTER), U'A');
    assert_int_equal(xt_glyph_code(XT_GLYPH_COUNT - 1), U'Z');
}

/* The sum of absolute differences between a plate's pixels and the original ones. */
static long lost_at(const uint8_t *pixels, int quality)
{
    uint8_t after[BYTES];
    long lost = 0;
    memcpy(after, pixels, BYTES);
    assert_int_equal(xt_synth_jpeg(after, XT_PLATE_WIDTH, XT_PLATE_HEIGHT, quality, NULL), XT_OK);
    for (size_t b = 0; b < BYTES; b++)
        lost += abs(pixels[b] - after[b]);
    return lost;
}

static void a_lower_quality_loses_more(void **state)
{
    (void)state;
    struct xt_source *source = open_plates("plates?style=all&hard=0", XT_PIXEL_RGB);
    struct xt_sample sample = {0};
    for (size_t i = 0; i < 20; i++) {
        read_plate(source, i, &sample);
        const uint8_t *pixels = sample.picture.image.pixels;
        long fine = lost_at(pixels, 95);
        long coarse = lost_at(pixels, 40);
        assert_true(0 < fine && fine < coarse);
        /* It remains a picture of the plate: a mean difference below 24 of 255. */
        assert_true(coarse < 24L * BYTES);
    }
    xt_image_clear(&sample.picture.image);
    xt_source_destroy(source);
}

/* Chroma is subsampled by two each way, luma is not. */
static void colours_of_neighbours_are_one(void **state)
{
    (void)state;
    uint8_t pixels[16 * 16 * 3];
    for (int i = 0; i < 16 * 16; i++) {
        pixels[3 * i] = i % 2 ? 200 : 40;
        pixels[3 * i + 1] = 100;
        pixels[3 * i + 2] = i % 2 ? 40 : 200;
    }
    assert_int_equal(xt_synth_jpeg(pixels, 16, 16, 100, NULL), XT_OK);
    for (int i = 0; i < 16 * 16; i++) {
        int dark = pixels[3 * i] < pixels[3 * (i ^ 1)] ? i : i ^ 1;
        assert_int_equal(dark % 2, 0);
        assert_in_range(pixels[3 * i] - pixels[3 * i + 2] + 255, 245, 265);
    }
}

static void artefacts_stay_within_an_image_of_any_size(void **state)
{
    (void)state;
    for (int height = 1; height < 20; height += 3)
        for (int width = 1; width < 20; width += 3) {
            size_t size = (size_t)width * (size_t)height * 3;
            uint8_t *pixels = malloc(size);
            assert_non_null(pixels);
            memset(pixels, 200, size);
            assert_int_equal(xt_synth_jpeg(pixels, width, height, 90, NULL), XT_OK);
            for (size_t i = 0; i < size; i++)
                assert_in_range(pixels[i], 197, 203);
            free(pixels);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plates_are_the_stored_ones),
        cmocka_unit_test(a_plate_is_the_same_whenever_it_is_read),
        cmocka_unit_test(another_seed_makes_other_plates),
        cmocka_unit_test(the_label_alone_is_the_read_one),
        cmocka_unit_test(labels_are_those_of_real_plates),
        cmocka_unit_test(every_symbol_comes_and_a_quarter_is_green),
        cmocka_unit_test(bgr_is_rgb_with_the_ends_swapped),
        cmocka_unit_test(each_style_has_its_colour),
        cmocka_unit_test(a_source_says_what_it_is),
        cmocka_unit_test(a_query_that_cannot_be_meant_is_refused),
        cmocka_unit_test(an_alphabet_without_plate_symbols_is_refused),
        cmocka_unit_test(symbols_that_the_alphabet_lacks_are_not_drawn),
        cmocka_unit_test(a_network_of_too_few_steps_is_refused),
        cmocka_unit_test(each_glyph_has_ink_of_its_own),
        cmocka_unit_test(a_lower_quality_loses_more),
        cmocka_unit_test(colours_of_neighbours_are_one),
        cmocka_unit_test(artefacts_stay_within_an_image_of_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
