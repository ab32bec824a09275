#include "support_source.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "data/sources/ccpd.h"

/* The example name of the data set's own description, and one of its green plates. */
static const char blue[] =
    "025-95_113-154&383_386&473-386&473_177&454_154&383_363&402-0_0_22_27_27_33_16-37-15.jpg";
static const char green[] =
    "04-90_267-158&448_542&553-541&553_162&551_158&448_542&453-0_1_3_24_27_33_30_24-99-116.jpg";

static const char *spec_of(const char *path)
{
    static char spec[1024];
    snprintf(spec, sizeof spec, "ccpd:%s", path);
    return spec;
}

/* A picture of 40 x 30: its left half is dark inside of the quadrangle 10,5 30,8 28,18 9,13
 * (upright), its right half bright, and its border is 128. */
static void add_picture(const char *folder, const char *name)
{
    static const struct xt_point corners[] = {{10, 5}, {30, 8}, {28, 18}, {9, 13}};
    uint8_t pixels[30 * 40 * 3];
    for (int y = 0; y < 30; y++)
        for (int x = 0; x < 40; x++) {
            bool inside = true;
            for (int i = 0; i < 4; i++) {
                struct xt_point a = corners[i];
                struct xt_point b = corners[(i + 1) % 4];
                inside &= (b.x - a.x) * (y + 0.5 - a.y) - (b.y - a.y) * (x + 0.5 - a.x) > 0;
            }
            memset(pixels + (y * 40 + x) * 3, !inside ? 128 : x < 19 ? 0 : 255, 3);
        }
    struct xt_image image = {.width = 40, .height = 30, .pixels = pixels};
    assert_int_equal(xt_png_save(support_path(folder, name), &image, XT_PIXEL_RGB, &err), XT_OK);
}

static const char slanted[] = "0-0_0-9&5_30&18-28&18_9&13_10&5_30&8-0_0_22_27_27_33_16-37-15.png";

static void a_name_says_plate_box_and_corners(void **state)
{
    (void)state;
    struct xt_ccpd_name name;
    assert_int_equal(xt_ccpd_read_name(blue, &name, &err), XT_OK);
    assert_string_equal(name.plate, "皖AY339S");
    assert_int_equal(name.box[0].x, 154);
    assert_int_equal(name.box[1].y, 473);
    assert_int_equal(name.corners.right_bottom.x, 386);
    assert_int_equal(name.corners.left_bottom.y, 454);
    assert_int_equal(name.corners.left_top.x, 154);
    assert_int_equal(name.corners.right_top.y, 402);
    assert_int_equal(xt_ccpd_read_name(green, &name, &err), XT_OK);
    assert_string_equal(name.plate, "皖BD03960");
}

static void every_province_is_our_symbol_of_that_name(void **state)
{
    (void)state;
    static const char order[] = "皖沪津渝冀晋蒙辽吉黑苏浙京闽赣鲁豫鄂湘粤桂琼川贵云藏陕甘青宁新";
    struct xt_ccpd_name name;
    for (int i = 0; i < 31; i++) {
        char text[128];
        snprintf(text, sizeof text, "0-0_0-0&0_1&1-1&1_0&1_0&0_1&0-%d_23_33_0_9_24_8-1-1.jpg", i);
        assert_int_equal(xt_ccpd_read_name(text, &name, &err), XT_OK);
        assert_memory_equal(name.plate, order + (size_t)3 * (size_t)i, 3);
        assert_string_equal(name.plate + 3, "Z9AK0J");
    }
}

static void a_wrong_name_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *part;
    } cases[] = {
        {"京A12345.jpg", "not CCPD's"},
        {"", "from character 1 on"},
        {"0-0_0-0&0_1&1-1&1_0&1_0&0_1&0-0_0_0_0_0_0-1-1.jpg", "not CCPD's"},
        {"0-0_0-0&0_1&1-1&1_0&1_0&0_1&0-0_0_0_0_0_0_0_0_0-1-1.jpg", "not CCPD's"},
        {"0-0_0-0&0_1&1-1&1_0&1_0&0-0_0_0_0_0_0_0-1-1.jpg", "not CCPD's"},
        {"0-0_0-0&0_9999999&1-1&1_0&1_0&0_1&0-0_0_0_0_0_0_0-1-1.jpg", "not CCPD's"},
        {"0-0_0-0&0_1&1-1&1_0&1_0&0_1&0-0_0_0_0_0_0_0-1.jpg", "not CCPD's"},
        {"0-0_0-0&0_1&1-1&1_0&1_0&0_1&0-0_0_0_0_0_0_0-1-1.", "not CCPD's"},
        {"0-0_0-0&0_1&1-1&1_0&1_0&0_1&0-34_0_0_0_0_0_0-1-1.jpg", "number 1 is out of range"},
        {"0-0_0-0&0_1&1-1&1_0&1_0&0_1&0-0_25_0_0_0_0_0-1-1.jpg", "from 0 to 23 there"},
        {"0-0_0-0&0_1&1-1&1_0&1_0&0_1&0-0_0_0_0_0_0_99999999999-1-1.jpg",
         "number 7 is out of range"},
        {"0-0_0-0&0_1&1-1&1_0&1_0&0_1&0-0_0_34_0_0_0_0-1-1.jpg", "there is no symbol"},
    };
    struct xt_ccpd_name name;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        xt_ccpd_read_name(cases[i].name, &name, &err);
        support_assert_error(&err, XT_ERR_DATA, cases[i].part);
    }
}

static void a_slanted_plate_is_made_upright(void **state)
{
    add_picture(*state, slanted);
    open_good(spec_of(*state));
    assert_label(0, "皖AY339S");
    assert_non_null(strstr(source->description, "1 plate of CCPD (cut out by corners) in "));
    read_good(0);
    assert_int_equal(sample.label_length, 7);
    assert_int_equal(sample.picture.image.width, 21);  /* of the longer edge, 20.2 */
    assert_int_equal(sample.picture.image.height, 11); /* 10.2 */
    const uint8_t *pixels = sample.picture.image.pixels;
    for (int y = 1; y < 10; y++) {
        for (int x = 1; x < 8; x++)
            assert_int_equal(pixels[(y * 21 + x) * 3], 0);
        for (int x = 13; x < 20; x++)
            assert_int_equal(pixels[(y * 21 + x) * 3], 255);
    }
}

static void the_box_is_cut_out_as_it_is(void **state)
{
    add_picture(*state, slanted);
    char spec[512];
    snprintf(spec, sizeof spec, "%s?cut=box", (char *)*state);
    open_good(spec_of(spec));
    read_good(0);
    assert_int_equal(sample.picture.image.width, 21);
    assert_int_equal(sample.picture.image.height, 13);
    assert_int_equal(sample.picture.image.pixels[0], 128);
    assert_int_equal(sample.picture.image.pixels[(6 * 21 + 4) * 3], 0);
    assert_int_equal(sample.picture.image.pixels[(6 * 21 + 15) * 3], 255);
    uint64_t stamp = source->class->stamp(source, 0);
    open_good(spec_of(*state));
    assert_int_not_equal(source->class->stamp(source, 0), stamp);
}

static void what_the_loader_wants_is_not_wanted_of_the_picture(void **state)
{
    add_picture(*state, slanted);
    open_good(spec_of(*state));
    const struct xt_want want = {.width = 2, .height = 2, .fit = XT_FIT_CENTRE_CROP};
    assert_int_equal(source->class->read(source, 0, &want, &decoder, &sample, &err), XT_OK);
    assert_int_equal(sample.picture.image.width, 21);
    assert_true(sample.picture.part.left > 0 && sample.picture.part.width < 11);
}

static void corners_outside_of_the_picture_make_a_bad_sample(void **state)
{
    add_picture(*state, "0-0_0-9&5_30&18-41&18_9&13_10&5_30&8-0_0_22_27_27_33_16-37-15.png");
    add_picture(*state, "0-0_0-9&5_30&18-9&13_28&18_10&5_30&8-0_0_22_27_27_33_16-37-15.png");
    open_good(spec_of(*state));
    assert_int_equal(source->count, 2);
    assert_bad(0, "41, 18, outside the picture of 40 x 30");
    assert_bad(1, "16-37-15.png: the four corners");
}

static void a_box_without_size_makes_a_bad_sample(void **state)
{
    char spec[512];
    add_picture(*state, "0-0_0-30&5_30&18-28&18_9&13_10&5_30&8-0_0_22_27_27_33_16-37-15.png");
    snprintf(spec, sizeof spec, "%s?cut=box", (char *)*state);
    open_good(spec_of(spec));
    assert_bad(0, "has no size");
}

static void pictures_without_plates_are_left_out(void **state)
{
    mkdir(support_path(*state, "ccpd_np"), 0777);
    support_write_file(support_path(*state, "ccpd_np/1234.jpg"), "x", 1);
    support_write_file(support_path(*state, blue), "x", 1);
    open_good(spec_of(*state));
    assert_int_equal(source->count, 1);
    assert_non_null(strstr(source->description, "(1 other file ignored)"));
}

static void the_paths_of_a_list_start_at_it_or_above(void **state)
{
    char text[512];
    mkdir(support_path(*state, "splits"), 0777);
    mkdir(support_path(*state, "ccpd_base"), 0777);
    snprintf(text, sizeof text, "ccpd_base/%s\r\nccpd_base/%s\n", slanted, green);
    support_write_file(support_path(*state, "splits/train.txt"), text, strlen(text));
    add_picture(support_path(*state, "ccpd_base"), slanted);
    open_good(spec_of(support_path(*state, "splits/train.txt")));
    assert_int_equal(source->count, 2);
    assert_label(1, "皖BD03960");
    read_good(0);
    support_write_file(support_path(*state, "train.txt"), text, strlen(text));
    open_good(spec_of(support_path(*state, "train.txt")));
    read_good(0);
}

static void refusals_name_the_file(void **state)
{
    support_write_file(support_path(*state, "a.jpg"), "x", 1);
    support_write_file(support_path(*state, "b.jpg"), "x", 1);
    assert_refused(spec_of(*state), "/a.jpg: the name is not CCPD's");
    assert_refused(spec_of(*state), "(and 1 more like it)");
    assert_refused(spec_of(support_path(*state, "none")), "No such file");
    support_write_file(support_path(*state, "list.txt"), "\n\n", 2);
    assert_refused(spec_of(support_path(*state, "list.txt")), "lists no image; a line is a path");
    char spec[512];
    snprintf(spec, sizeof spec, "%s?cut=bxo", (char *)*state);
    assert_refused_with(XT_ERR_USAGE, spec_of(spec), "has no setting \"cut=bxo\"");
    options.task = XT_TASK_CLASSES;
    assert_refused_with(XT_ERR_USAGE, spec_of(*state), "distinguishes classes");
}

#define ccpd_test(f) cmocka_unit_test_setup_teardown(f, setup_plates, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ccpd_test(a_name_says_plate_box_and_corners),
        ccpd_test(every_province_is_our_symbol_of_that_name),
        ccpd_test(a_wrong_name_is_refused),
        ccpd_test(a_slanted_plate_is_made_upright),
        ccpd_test(the_box_is_cut_out_as_it_is),
        ccpd_test(what_the_loader_wants_is_not_wanted_of_the_picture),
        ccpd_test(corners_outside_of_the_picture_make_a_bad_sample),
        ccpd_test(a_box_without_size_makes_a_bad_sample),
        ccpd_test(pictures_without_plates_are_left_out),
        ccpd_test(the_paths_of_a_list_start_at_it_or_above),
        ccpd_test(refusals_name_the_file),
    };
    return cmocka_run_group_tests_name("ccpd", tests, NULL, NULL);
}
