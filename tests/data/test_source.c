#include "support_source.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/sources/part.h"

static int setup_bgr(void **state)
{
    int bad = setup_plates(state);
    options.order = XT_PIXEL_BGR;
    return bad;
}

static void add_file(const char *folder, const char *name)
{
    support_write_file(support_path(folder, name), "x", 1);
}

static void add_image(const char *folder, const char *name, int width, int height)
{
    uint8_t pixels[64 * 3];
    memset(pixels, 40, sizeof pixels);
    pixels[0] = 200;
    struct xt_image image = {.width = width, .height = height, .pixels = pixels};
    assert_int_equal(xt_png_save(support_path(folder, name), &image, XT_PIXEL_RGB, &err), XT_OK);
}

static void a_folder_is_a_sorted_tree_of_images(void **state)
{
    mkdir(support_path(*state, "b"), 0777);
    add_file(*state, "沪A2_7.PNG");
    add_file(*state, "京A1.jpg");
    add_file(*state, "b/皖C3.part.JPeG");
    add_file(*state, "notes.txt");
    add_file(*state, "jpg");
    open_good(*state);
    assert_int_equal(source->count, 3);
    assert_name(0, "/b/皖C3.part.JPeG");
    assert_label(0, "皖C3");
    assert_label(1, "京A1");
    assert_label(2, "沪A2");
    assert_non_null(strstr(source->description, "3 images in "));
    assert_non_null(strstr(source->description, "(2 other files ignored)"));
}

static void a_sample_has_pixels_and_label(void **state)
{
    add_image(*state, "京A1.png", 5, 3);
    open_good(*state);
    read_good(0);
    assert_int_equal(sample.picture.image.width, 5);
    assert_int_equal(sample.picture.image.height, 3);
    assert_int_equal(sample.picture.image.pixels[2], 200); /* red, as the order is BGR */
    assert_int_equal(sample.label_length, 3);
    unlink(support_path(*state, "京A1.png"));
    assert_bad(0, "京A1.png");
}

static void a_part_of_a_source_is_evenly_spread_over_it(void **state)
{
    struct xt_source *part = NULL;
    char name[32];
    for (int i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "京A%d.jpg", i);
        add_file(*state, name);
    }
    open_good(*state);
    assert_int_equal(xt_source_part(&part, source, false, 3, &err), XT_OK);
    assert_int_equal(part->count, 3);
    for (size_t i = 0; i < 3; i++) {
        char path[4096];
        snprintf(name, sizeof name, "京A%d.jpg", (int)i * 7 / 3);
        part->class->name(part, i, path, sizeof path);
        assert_non_null(strstr(path, name));
    }
    xt_source_destroy(part);
}

static void bad_labels_name_the_first_and_count_the_rest(void **state)
{
    add_file(*state, "a.jpg");
    add_file(*state, "b.jpg");
    add_file(*state, "京A1.jpg");
    assert_refused(*state, "/a.jpg: the label \"a\" has the symbol a");
    support_assert_error(&err, XT_ERR_DATA, "(and 1 more like it)");
}

static void a_label_that_ctc_cannot_align_is_refused(void **state)
{
    options.steps_max = 5;
    add_file(*state, "京A111.jpg");
    assert_refused(*state, "needs 7 CTC steps");
}

static void names_of_ccpd_get_a_hint(void **state)
{
    add_file(*state, "025-95_113-154&383_386&473-386&473_177&454_154&383_363&402-0_0_22_27_27_33_"
                     "16-37-15.jpg");
    assert_refused(*state, "is named as CCPD names its pictures");
}

static void labels_may_be_left_out_where_they_are_optional(void **state)
{
    options.labels_optional = true;
    add_file(*state, "a.jpg");
    add_file(*state, "京A1.jpg");
    open_good(*state);
    assert_int_equal(source->count, 2);
    assert_label(0, "");
    assert_label(1, "京A1");
}

static void an_empty_folder_says_so(void **state)
{
    assert_refused(*state, "the folder is empty");
    add_file(*state, "a.gif");
    assert_refused(*state, "none of its 1 file ends in .jpg, .jpeg, .png or .webp; convert to JPEG "
                           "or PNG what ends in .gif");
}

static void a_missing_folder_gets_the_nearest_name(void **state)
{
    mkdir(support_path(*state, "train"), 0777);
    assert_refused(support_path(*state, "trian"), "train?");
    assert_refused(support_path(*state, "trian/"), "train?");
    assert_refused(support_path(*state, "elsewhere"), "No such file");
    assert_refused("synthplates", "synth:plates");
    assert_refused("/dev/null", "neither a folder of images nor a list file");
}

static void a_list_gives_paths_from_its_own_folder(void **state)
{
    static const char text[] =
        "\xEF\xBB\xBFone.jpg\t京A1\r\n\n  \n/two/b.png\t沪B2\r\n#3.jpg\t皖C3";
    const char *list = support_path(*state, "list.txt");
    support_write_file(list, text, strlen(text));
    open_good(list);
    assert_int_equal(source->count, 3);
    assert_name(0, support_path(*state, "one.jpg"));
    assert_name(1, "/two/b.png");
    assert_name(2, "/#3.jpg");
    assert_label(0, "京A1");
    assert_label(1, "沪B2");
    assert_label(2, "皖C3");
}

static void a_bad_line_is_named_by_its_number(void **state)
{
    static const struct {
        const char *text;
        const char *part;
    } cases[] = {
        {"a.jpg\t京A1\n\nb.jpg 京A1\n", "list.txt line 3: no tab"},
        {"\t京A1\n", "list.txt line 1: no path before the tab"},
        {"a.jpg\t京A1\na.jpg\tx\nb\n", "list.txt line 2: the label \"x\""},
        {"a.jpg\t\n", "list.txt line 1: the label is empty"},
        {"a.jpg\t京A1\t\n", "U+0009"},
        {"\n\n", "list.txt lists no image"},
        {"", "list.txt lists no image"},
    };
    const char *list = support_path(*state, "list.txt");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        support_write_file(list, cases[i].text, strlen(cases[i].text));
        assert_refused(list, cases[i].part);
    }
    support_write_file(list, "a\0b\tc", 5);
    assert_refused(list, "not a list of images, which is text");
}

static void one_image_is_a_source_where_labels_are_optional(void **state)
{
    const char *path = support_path(*state, "京A1.png");
    add_image(*state, "京A1.png", 2, 2);
    assert_refused(path, "is one image; give the folder");
    options.labels_optional = true;
    open_good(path);
    assert_int_equal(source->count, 1);
    assert_label(0, "京A1");
}

static void the_real_plates_all_have_good_labels(void **state)
{
    (void)state;
    open_good(support_shared("data/plates/train"));
    assert_int_equal(source->count, 700);
}

static void images_that_links_lead_to_again_are_taken_once(void **state)
{
    mkdir(support_path(*state, "a"), 0777);
    add_file(support_path(*state, "a"), "京A1.jpg");
    assert_int_equal(symlink("a", support_path(*state, "b")), 0);
    assert_int_equal(symlink("..", support_path(*state, "a/up")), 0);
    open_good(*state);
    assert_int_equal(source->count, 1);
    assert_name(0, "/a/京A1.jpg");
}

#define source_test(f) cmocka_unit_test_setup_teardown(f, setup_bgr, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        source_test(a_folder_is_a_sorted_tree_of_images),
        source_test(images_that_links_lead_to_again_are_taken_once),
        source_test(a_sample_has_pixels_and_label),
        source_test(a_part_of_a_source_is_evenly_spread_over_it),
        source_test(bad_labels_name_the_first_and_count_the_rest),
        source_test(a_label_that_ctc_cannot_align_is_refused),
        source_test(names_of_ccpd_get_a_hint),
        source_test(labels_may_be_left_out_where_they_are_optional),
        source_test(an_empty_folder_says_so),
        source_test(a_missing_folder_gets_the_nearest_name),
        source_test(a_list_gives_paths_from_its_own_folder),
        source_test(a_bad_line_is_named_by_its_number),
        source_test(one_image_is_a_source_where_labels_are_optional),
        source_test(the_real_plates_all_have_good_labels),
    };
    return cmocka_run_group_tests_name("source", tests, NULL, NULL);
}
