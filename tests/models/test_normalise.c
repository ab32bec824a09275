/* Normalisation of pixels as text and back. */
#include "models/normalise.h"

#include "support.h"

static struct xt_normalise parse(const char *text, bool bgr)
{
    struct xt_normalise out;
    struct xt_err err = {0};
    if (xt_normalise_parse(&out, text, bgr, &err))
        fail_msg("%s", err.text);
    return out;
}

static void names_and_numbers_come_back_as_they_were(void **state)
{
    (void)state;
    static const char *const texts[] = {"imagenet", "half", "0.25/0.5", "0/1",
                                        "0.1,0.2,0.3/0.5,0.25,0.125"};
    for (size_t i = 0; i < 2 * sizeof texts / sizeof *texts; i++) {
        char out[XT_NORMALISE_TEXT];
        bool bgr = i % 2;
        struct xt_normalise read = parse(texts[i / 2], bgr);
        xt_normalise_print(&read, bgr, out);
        struct xt_normalise recompute = parse(out, bgr);
        assert_memory_equal(&read, &recompute, sizeof read);
    }
    char out[XT_NORMALISE_TEXT];
    struct xt_normalise said = parse("0.485,0.456,0.406/0.229,0.224,0.225", false);
    xt_normalise_print(&said, false, out);
    assert_string_equal(out, "imagenet");
}

static void red_comes_first_whatever_the_network_reads(void **state)
{
    (void)state;
    struct xt_normalise rgb = parse("imagenet", false);
    struct xt_normalise bgr = parse("imagenet", true);
    assert_true(rgb.mean[0] == 123.675F && rgb.scale[0] == (float)(1 / (255 * 0.229)));
    for (int k = 0; k < 3; k++)
        assert_true(rgb.mean[k] == bgr.mean[2 - k] && rgb.scale[k] == bgr.scale[2 - k]);
    assert_true(xt_normalise_is_uniform(&(struct xt_normalise){{1, 1, 1}, {2, 2, 2}}));
    assert_false(xt_normalise_is_uniform(&rgb));
}

static void what_cannot_be_meant_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",        "imagenet2", "0.5",       "0.5/",      "/0.5",     "0.5/0",
        "127.5/1", "0.5/nan",   "0.5,1/0.5", "0.5/0.5 ",  "-0.1/0.5", "0.5/0.5,0.5",
        "0.5/inf", "a/b",       "0.5//0.5",  "1,1,1,1/1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct xt_normalise out;
        struct xt_err err = {0};
        if (!xt_normalise_parse(&out, texts[i], false, &err))
            fail_msg("\"%s\" was taken", texts[i]);
        support_assert_error(&err, XT_ERR_USAGE,
                             "--normalize takes imagenet, half, bytes, or MEAN/STD");
    }
}

static void metadata_comes_back_bit_for_bit(void **state)
{
    (void)state;
    static const char *const texts[] = {"imagenet", "half", "0.1,0.2,0.3/0.7"};
    struct xt_err err = {0};
    struct xt_normalise read;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char mean[XT_NORMALISE_TEXT];
        char scale[XT_NORMALISE_TEXT];
        struct xt_normalise given = parse(texts[i], false);
        xt_normalise_to_meta(given.mean, mean);
        xt_normalise_to_meta(given.scale, scale);
        assert_int_equal(xt_normalise_from_meta(&read, mean, scale, "w.safetensors", &err), XT_OK);
        assert_memory_equal(&read, &given, sizeof read);
    }
    assert_int_equal(xt_normalise_from_meta(&read, "127.5", "0", "w.safetensors", &err),
                     XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "w.safetensors: its metadata has mean \"127.5\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_numbers_come_back_as_they_were),
        cmocka_unit_test(red_comes_first_whatever_the_network_reads),
        cmocka_unit_test(what_cannot_be_meant_is_refused),
        cmocka_unit_test(metadata_comes_back_bit_for_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
