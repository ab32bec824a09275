#include "runs/bad_images.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "support.h"

static void name(const struct xt_source *source, size_t index, char *out, size_t size)
{
    (void)source;
    snprintf(out, size, index ? "%zu.jpg" : "a\nb\t%zu.jpg", index);
}

static const struct xt_source_class class = {.name = name};
static const struct xt_source source = {.class = &class, .count = 1000};

static void assert_holds(const char *path, const char *wanted)
{
    uint8_t *text = NULL;
    size_t capacity = 0;
    size_t size = 0;
    struct xt_err err = {0};
    assert_int_equal(xt_file_read(path, 1 << 20, &text, &capacity, &size, &err), XT_OK);
    text[size] = '\0';
    assert_string_equal((const char *)text, wanted);
    free(text);
}

static void each_image_is_listed_once_over_all_starts(void **state)
{
    const char *path = support_path(*state, "bad_images.txt");
    char empty[] = "it is empty";
    char broken[] = "it is broken";
    struct xt_bad_sample samples[] = {{1, empty}, {11, broken}};
    struct xt_bad_images bad;
    struct xt_err err = {0};
    assert_int_equal(xt_bad_images_open(&bad, path, &err), XT_OK);
    assert_int_equal(xt_bad_images_add(&bad, &source, samples, 0, &err), XT_OK);
    assert_false(xt_file_exists(path));
    assert_int_equal(xt_bad_images_add(&bad, &source, samples + 1, 1, &err), XT_OK);
    assert_int_equal(xt_bad_images_add(&bad, &source, samples, 2, &err), XT_OK);
    xt_bad_images_clear(&bad);
    assert_holds(path, "11.jpg\tit is broken\n1.jpg\tit is empty\n");
    assert_int_equal(xt_bad_images_open(&bad, path, &err), XT_OK);
    assert_int_equal(xt_bad_images_add(&bad, &source, samples, 2, &err), XT_OK);
    xt_bad_images_clear(&bad);
    assert_holds(path, "11.jpg\tit is broken\n1.jpg\tit is empty\n");
}

static void a_name_of_several_lines_stays_one(void **state)
{
    const char *path = support_path(*state, "bad_images.txt");
    char broken[] = "it is broken";
    struct xt_bad_sample sample = {0, broken};
    struct xt_bad_images bad;
    struct xt_err err = {0};
    assert_int_equal(xt_bad_images_open(&bad, path, &err), XT_OK);
    assert_int_equal(xt_bad_images_add(&bad, &source, &sample, 1, &err), XT_OK);
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
