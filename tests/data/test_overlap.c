/* Images that two sets share. */
#include "data/overlap.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support_source.h"

static void write_image(const char *folder, const char *name, const char *bytes)
{
    mkdir(folder, 0777);
    support_write_file(support_path(folder, name), bytes, strlen(bytes));
}

static struct xt_overlap find(const char *one, const char *other)
{
    struct xt_source *sets[2] = {NULL, NULL};
    struct xt_overlap overlap;
    if (xt_source_open(&sets[0], one, &options, &err) ||
        xt_source_open(&sets[1], other, &options, &err) ||
        xt_overlap_find(&overlap, sets[0], sets[1], &err))
        fail_msg("%s", err.text);
    xt_source_destroy(sets[0]);
    xt_source_destroy(sets[1]);
    return overlap;
}

static void links_copies_and_the_same_files_are_shared(void **state)
{
    char train[256];
    char val[256];
    snprintf(train, sizeof train, "%s/train", (const char *)*state);
    snprintf(val, sizeof val, "%s/val", (const char *)*state);
    write_image(train, "A1.jpg", "one");
    write_image(train, "A2.jpg", "two");
    write_image(train, "A3.jpg", "three");
    write_image(val, "B1.jpg", "six");
    assert_int_equal(find(val, train).count, 0);
    write_image(val, "B2.jpg", "two");
    assert_int_equal(symlink("../train/A1.jpg", support_path(val, "B3.jpg")), 0);
    assert_int_equal(link(support_path(train, "A3.jpg"), support_path(val, "B4.jpg")), 0);
    struct xt_overlap overlap = find(val, train);
    assert_int_equal(overlap.count, 3);
    assert_true(xt_str_ends(overlap.first, "/B2.jpg"));
    char again[300];
    snprintf(again, sizeof again, "%s/../train/", val);
    assert_int_equal(find(again, train).count, 3);
}

static void more_files_than_are_asked_for_go_by_their_paths(void **state)
{
    struct xt_str list = {0};
    char path[512];
    char spec[512];
    mkdir(support_path(*state, "x"), 0777);
    assert_int_equal(symlink("x", support_path(*state, "y")), 0);
    for (int i = 0; i < 30000; i++)
        xt_str_printf(&list, &err, "x/%d.jpg\tA1\n", i);
    snprintf(path, sizeof path, "%s/all.txt", (const char *)*state);
    support_write_file(path, list.data, list.length);
    for (size_t i = 0; i < list.length; i++)
        list.data[i] = (char)(list.data[i] == 'x' ? 'y' : list.data[i]);
    snprintf(spec, sizeof spec, "%s/linked.txt", (const char *)*state);
    support_write_file(spec, list.data, list.length);
    assert_int_equal(find(path, spec).count, 30000);
    for (size_t i = 0; i < list.length; i++)
        list.data[i] = (char)(list.data[i] == 'y' ? 'z' : list.data[i]);
    support_write_file(spec, list.data, list.length);
    assert_int_equal(find(path, spec).count, 0);
    xt_str_clear(&list);
}

static void synthetic_pictures_are_not_compared(void **state)
{
    (void)state;
    assert_int_equal(find("synth:plates?count=9&seed=1", "synth:plates?count=9&seed=2").count, 0);
}

#define overlap_test(f) cmocka_unit_test_setup_teardown(f, setup_plates, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        overlap_test(links_copies_and_the_same_files_are_shared),
        overlap_test(more_files_than_are_asked_for_go_by_their_paths),
        overlap_test(synthetic_pictures_are_not_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
