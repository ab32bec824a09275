#include "runs/bad_images.h"

#include <stdlib.h>

#include "base/file.h"
#include "support.h"

static const struct xt_bad_image empty = {"1.jpg", "it is empty"};
static const struct xt_bad_image broken = {"11.jpg", "it is broken"};

static void assert_holds(const char *path, const char *wanted)
{
    size_t size = 0;
    uint8_t *text = support_read_file(path, &size);
    assert_string_equal((const char *)text, wanted);
    free(text);
}

static void each_image_is_listed_once_over_all_starts(void **state)
{
    const char *path = support_path(*state, "bad_images.txt");
    struct xt_bad_images bad;
    struct xt_err err = {0};
    assert_int_equal(xt_bad_images_open(&bad, path, &err), XT_OK);
    assert_int_equal(xt_bad_images_write(&bad, 0, &err), XT_OK);
    assert_false(xt_file_exists(path));
    assert_int_equal(xt_bad_images_add(&bad, &broken, &err), XT_OK);
    assert_int_equal(xt_bad_images_write(&bad, 1, &err), XT_OK);
    assert_int_equal(xt_bad_images_add(&bad, &empty, &err), XT_OK);
    assert_int_equal(xt_bad_images_add(&bad, &broken, &err), XT_OK);
    assert_int_equal(xt_bad_images_write(&bad, 2, &err), XT_OK);
    xt_bad_images_clear(&bad);
    assert_holds(path, "11.jpg\tit is broken\n1.jpg\tit is empty\n");
    assert_int_equal(xt_bad_images_open(&bad, path, &err), XT_OK);
    assert_int_equal(xt_bad_images_add(&bad, &empty, &err), XT_OK);
    assert_int_equal(xt_bad_images_write(&bad, 1, &err), XT_OK);
    xt_bad_images_clear(&bad);
    assert_holds(path, "11.jpg\tit is broken\n1.jpg\tit is empty\n");
}

static void a_name_of_several_lines_stays_one(void **state)
{
    const char *path = support_path(*state, "bad_images.txt");
    const struct xt_bad_image lines = {"a\nb\t0.jpg", "it is broken"};
    struct xt_bad_images bad;
    struct xt_err err = {0};
    assert_int_equal(xt_bad_images_open(&bad, path, &err), XT_OK);
    assert_int_equal(xt_bad_images_add(&bad, &lines, &err), XT_OK);
    assert_int_equal(xt_bad_images_write(&bad, 1, &err), XT_OK);
    xt_bad_images_clear(&bad);
    assert_holds(path, "a\\x0Ab\\x090.jpg\tit is broken\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_image_is_listed_once_over_all_starts,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(a_name_of_several_lines_stays_one, support_make_folder,
                                        support_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
