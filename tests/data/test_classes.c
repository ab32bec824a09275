/* Sources whose labels are classes: folders, lists, CIFAR's batches, synthetic shapes. */
#include "support_source.h"

#include <archive.h>
#include <archive_entry.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void add_file(const char *folder, const char *class, const char *name)
{
    mkdir(support_path(folder, class), 0777);
    support_write_file(support_path(support_path(folder, class), name), "x", 1);
}

static void the_folders_sorted_by_name_are_the_classes(void **state)
{
    add_file(*state, "dog", "1.jpg");
    add_file(*state, "cat-big", "2.jpg");
    add_file(*state, "cat", "3.jpg");
    add_file(*state, "cat", "4.png");
    add_file(*state, "cat", "notes.txt");
    open_good(*state);
    assert_int_equal(source->count, 4);
    assert_int_equal(xt_source_class_count(source), 3);
    assert_string_equal(xt_source_class_name(source, 0), "cat");
    assert_string_equal(xt_source_class_name(source, 1), "cat-big");
    assert_string_equal(xt_source_class_name(source, 2), "dog");
    assert_int_equal(label_of(0), 0);
    assert_int_equal(label_of(1), 0);
    assert_int_equal(label_of(2), 1);
    assert_int_equal(label_of(3), 2);
    assert_non_null(strstr(source->description, "4 images of 3 classes in "));
    assert_non_null(strstr(source->description, "(1 other file ignored)"));
}

static void classes_whose_names_begin_alike_are_distinct(void **state)
{
    static const char *const names[] = {"a", "a b", "a-b", "a.b", "a0", "aa", "a京"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        add_file(*state, names[i], "1.jpg");
        add_file(*state, names[i], "2.jpg");
    }
    support_write_file(support_path(*state, "a.jpg"), "x", 1); /* of no class */
    open_good(*state);
    assert_int_equal(source->count, 14);
    assert_int_equal(xt_source_class_count(source), 7);
    for (size_t i = 0; i < 14; i++) {
        char name[512];
        char part[64];
        int label = -1;
        int length = 0;
        source->class->name(source, i, name, sizeof name);
        snprintf(part, sizeof part, "/%s/%zu.jpg", names[i / 2], i % 2 + 1);
        assert_true(xt_str_ends(name, part));
        assert_int_equal(source->class->label(source, i, &label, &length, &err), XT_OK);
        assert_int_equal(label, i / 2);
    }
}

static void a_class_folder_may_be_a_link(void **state)
{
    add_file(*state, "beside", "1.jpg");
    mkdir(support_path(*state, "in"), 0777);
    add_file(support_path(*state, "in"), "dog", "2.jpg");
    assert_int_equal(symlink("../beside", support_path(*state, "in/cat")), 0);
    assert_int_equal(symlink("..", support_path(*state, "in/dog/up")), 0);
    open_good(support_path(*state, "in"));
    assert_int_equal(source->count, 2);
    assert_string_equal(xt_source_class_name(source, label_of(0)), "cat");
}

static void images_of_two_classes_are_refused(void **state)
{
    add_file(*state, "cat", "1.jpg");
    add_file(*state, "dog", "2.jpg");
    assert_int_equal(symlink("cat", support_path(*state, "ape")), 0);
    assert_refused(*state, "/ape is the folder ");
    assert_refused(
        *state,
        "/cat: its images would be of the classes ape and cat; move the link out of the set");
    assert_int_equal(unlink(support_path(*state, "ape")), 0);
    mkdir(support_path(*state, "cat/deep"), 0777);
    assert_int_equal(symlink("../cat/deep", support_path(*state, "dog/more")), 0);
    assert_refused(*state, "would be of the classes dog and cat");
    /* Without labels each is read once. */
    options.labels_optional = true;
    open_good(*state);
    assert_int_equal(source->count, 2);
}

static void a_validation_set_takes_the_training_classes_by_name(void **state)
{
    static const char *const names[] = {"ape", "cat", "dog"};
    options.class_names = names;
    options.class_count = 3;
    add_file(*state, "dog", "1.jpg");
    add_file(*state, "cat", "2.jpg");
    open_good(*state);
    assert_int_equal(xt_source_class_count(source), 3);
    assert_int_equal(label_of(0), 1);
    assert_int_equal(label_of(1), 2);
    add_file(*state, "cats", "3.jpg");
    assert_refused(*state,
                   "the class \"cats\" is not among the 3 that the network knows; did you mean "
                   "\"cat\"?");
}

static void one_class_only_is_refused(void **state)
{
    add_file(*state, "dog", "1.jpg");
    assert_refused(*state, "has one class only (dog); a classifier needs at least two");
}

static void an_empty_class_folder_is_refused(void **state)
{
    add_file(*state, "dog", "1.jpg");
    add_file(*state, "cat", "1.txt");
    assert_refused(*state, "/cat holds no image");
}

static void a_folder_without_class_folders_is_refused(void **state)
{
    support_write_file(support_path(*state, "1.jpg"), "x", 1);
    assert_refused(*state, "there are no class folders in ");
}

static void the_parts_of_a_set_are_not_classes(void **state)
{
    add_file(*state, "test", "1.jpg");
    add_file(*state, "train", "1.jpg");
    assert_refused(*state, "holds the parts of a data set, not classes; give ");
    support_assert_error(&err, XT_ERR_DATA, "/train as one");
}

static void images_without_labels_can_be_read_too(void **state)
{
    options.labels_optional = true;
    support_write_file(support_path(*state, "1.jpg"), "x", 1);
    open_good(*state);
    int length = -1;
    int label[XT_LABEL_MAX];
    assert_int_equal(source->class->label(source, 0, label, &length, &err), XT_OK);
    assert_int_equal(length, 0);
}

static const char *write_list(void **state, const char *text)
{
    const char *path = support_path(*state, "list.txt");
    support_write_file(path, text, strlen(text));
    return path;
}

static void a_list_names_classes(void **state)
{
    open_good(write_list(state, "a.jpg\tdog\nb.jpg\tcat \nc.jpg\tdog\n"));
    assert_int_equal(xt_source_class_count(source), 2);
    assert_int_equal(label_of(0), 1);
    assert_int_equal(label_of(1), 0);
    assert_int_equal(label_of(2), 1);
}

static void a_list_may_number_classes(void **state)
{
    const char *list = write_list(state, "a.jpg\t10\nb.jpg\t2\n");
    open_good(list);
    assert_int_equal(xt_source_class_count(source), 11);
    assert_string_equal(xt_source_class_name(source, 10), "10");
    assert_int_equal(label_of(0), 10);
    assert_int_equal(label_of(1), 2);
    options.class_count = 10;
    assert_refused(list, "list.txt line 1: the label 10 is out of range: there are 10 classes, 0 "
                         "to 9");
    assert_refused(write_list(state, "a.jpg\t\n"), "the label is empty");
}

static void write_batch(const char *folder, const char *name, int label_bytes, int records)
{
    static uint8_t bytes[20 * 3074];
    size_t size = (size_t)label_bytes + 3072;
    for (int i = 0; i < records; i++) {
        uint8_t *record = bytes + (size_t)i * size;
        memset(record, i, size);
        record[label_bytes - 1] = (uint8_t)(i % 10);
        record[label_bytes] = 100;             /* red of the first pixel */
        record[label_bytes + 1024 + 33] = 101; /* green of (1, 1) */
    }
    support_write_file(support_path(folder, name), bytes, size * (size_t)records);
}

static void cifar_batches_are_read_in_order(void **state)
{
    write_batch(*state, "data_batch_2.bin", 1, 3);
    write_batch(*state, "data_batch_1.bin", 1, 12);
    write_batch(*state, "test_batch.bin", 1, 2);
    open_good(*state);
    assert_int_equal(source->count, 15);
    assert_int_equal(xt_source_class_count(source), 10);
    assert_string_equal(xt_source_class_name(source, 9), "truck");
    assert_int_equal(label_of(11), 1);
    assert_int_equal(label_of(13), 1);
    read_good(13);
    assert_int_equal(sample.picture.image.width, 32);
    assert_int_equal(sample.label[0], 1);
    assert_int_equal(sample.picture.image.pixels[0], 100);
    assert_int_equal(sample.picture.image.pixels[(32 + 1) * 3 + 1], 101);
    assert_int_equal(sample.picture.image.pixels[(32 + 1) * 3 + 2], 1);
    char name[512];
    source->class->name(source, 13, name, sizeof name);
    assert_non_null(strstr(name, "/data_batch_2.bin #1"));
    options.held_out = true;
    open_good(*state);
    assert_int_equal(source->count, 2);
    open_good(support_path(*state, "data_batch_2.bin"));
    assert_int_equal(source->count, 3);
}

static void the_file_of_names_counts(void **state)
{
    static const char text[] = "a0\na1\na2\na3\na4\na5\na6\na7\na8\na9\n\n";
    write_batch(*state, "data_batch_1.bin", 1, 2);
    support_write_file(support_path(*state, "batches.meta.txt"), text, sizeof text - 1);
    open_good(*state);
    assert_string_equal(xt_source_class_name(source, 9), "a9");
}

static void cifar_classes_are_matched_by_name_too(void **state)
{
    static const char *const names[] = {"bird", "automobile", "airplane", "cat",  "deer",
                                        "dog",  "frog",       "horse",    "ship", "truck"};
    options.class_names = names;
    options.class_count = 10;
    write_batch(*state, "test_batch.bin", 1, 3);
    open_good(*state);
    assert_int_equal(label_of(0), 2);
    assert_int_equal(label_of(1), 1);
    assert_int_equal(label_of(2), 0);
}

static void a_record_of_cifar100_has_two_labels(void **state)
{
    write_batch(*state, "train.bin", 2, 4);
    open_good(*state);
    assert_int_equal(source->count, 4);
    assert_int_equal(xt_source_class_count(source), 100);
    assert_int_equal(label_of(3), 3);
}

static void a_wrong_record_length_is_refused(void **state)
{
    write_batch(*state, "data_batch_1.bin", 1, 2);
    truncate(support_path(*state, "data_batch_1.bin"), 5000);
    assert_refused(*state, "/data_batch_1.bin has 5000 bytes, which is not a whole number of "
                           "CIFAR-10's records of 3073 bytes; it is damaged or cut short");
    write_batch(*state, "data_batch_1.bin", 2, 2);
    assert_refused(*state, "it may be a batch of CIFAR-100");
    support_write_file(support_path(*state, "data_batch_1.bin"), "", 0);
    assert_refused(*state, "has 0 bytes");
}

static void a_label_out_of_range_is_refused(void **state)
{
    static uint8_t bytes[2 * 3073];
    bytes[3073] = 77;
    support_write_file(support_path(*state, "test_batch.bin"), bytes, sizeof bytes);
    assert_refused(*state, "record 1 of ");
    support_assert_error(&err, XT_ERR_DATA,
                         "has the label 77, which is out of range: CIFAR-10's go from 0 to 9");
}

static void a_batch_that_shrinks_is_a_bad_sample(void **state)
{
    write_batch(*state, "data_batch_1.bin", 1, 4);
    open_good(*state);
    truncate(support_path(*state, "data_batch_1.bin"), 4000);
    read_good(0);
    assert_bad(1, "data_batch_1.bin: the file has become shorter");
}

/* Opening it for reading would block until there is a writer. */
static void a_pipe_among_the_data_is_refused_at_once(void **state)
{
    alarm(20);
    const char *pipe = support_path(*state, "data_batch_1.bin");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_refused(*state, "not a regular file");
    assert_refused(pipe, "it is a device, pipe or socket");
    char spec[512];
    snprintf(spec, sizeof spec, "ccpd:%s", pipe);
    read_plates();
    assert_refused(spec, "not a regular file");
    assert_int_equal(rename(pipe, support_path(*state, "x.tar")), 0);
    assert_refused(*state, "not a regular file");
    alarm(0);
}

static void write_tar(const char *path, const char *member, size_t size)
{
    static uint8_t bytes[2 * 3073];
    struct archive *archive = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    archive_write_set_format_ustar(archive);
    archive_write_add_filter_gzip(archive);
    assert_int_equal(archive_write_open_filename(archive, path), ARCHIVE_OK);
    archive_entry_set_pathname(entry, member);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_perm(entry, 0644);
    archive_write_header(archive, entry);
    archive_write_data(archive, bytes, size);
    archive_entry_free(entry);
    archive_write_free(archive);
}

static void batches_are_read_out_of_a_tar(void **state)
{
    const char *path = support_path(*state, "cifar.tar.gz");
    write_tar(path, "cifar-10-batches-bin/data_batch_1.bin", (size_t)2 * 3073);
    open_good(path);
    assert_int_equal(source->count, 2);
    read_good(1);
    write_tar(path, "cifar-10-batches-bin/data_batch_1.bin", 3074);
    assert_refused(path, "data_batch_1.bin has 3074 bytes");
    write_tar(path, "other.bin", 10);
    assert_refused(path, "no image in ");
    support_write_file(path, "no archive at all", 17);
    assert_refused(path, "cannot be read as a tar");
}

static void shapes_are_a_function_of_seed_and_index(void **state)
{
    (void)state;
    struct xt_sample one = {0};
    struct xt_sample same = {0};
    open_good("synth:shapes?count=100&seed=3&size=48");
    assert_int_equal(source->count, 100);
    assert_int_equal(xt_source_class_count(source), 10);
    assert_string_equal(xt_source_class_name(source, 3), "star");
    assert_int_equal(source->class->read(source, 13, NULL, NULL, &one, &err), XT_OK);
    assert_int_equal(one.label[0], 3);
    assert_int_equal(one.picture.image.width, 48);
    open_good("synth:shapes?seed=3&size=48");
    assert_int_equal(source->class->read(source, 13, NULL, NULL, &same, &err), XT_OK);
    assert_memory_equal(one.picture.image.pixels, same.picture.image.pixels, 48 * 48 * 3);
    open_good("synth:shapes?seed=4&size=48");
    assert_int_equal(source->class->read(source, 13, NULL, NULL, &same, &err), XT_OK);
    assert_memory_not_equal(one.picture.image.pixels, same.picture.image.pixels, 48 * 48 * 3);
    xt_image_clear(&one.picture.image);
    xt_image_clear(&same.picture.image);
}

static void shapes_take_the_classes_that_they_are_given(void **state)
{
    (void)state;
    open_good("synth:shapes?classes=4");
    assert_int_equal(xt_source_class_count(source), 4);
    assert_int_equal(label_of(7), 3);
    options.class_count = 3;
    open_good("synth:shapes");
    assert_int_equal(xt_source_class_count(source), 3);
    assert_int_equal(label_of(5), 2);
    assert_refused("synth:shapes?classes=4", "the label 3 is out of range");
}

static void settings_of_shapes_are_checked(void **state)
{
    (void)state;
    assert_refused_with(XT_ERR_USAGE, "synth:shapes?clases=4", "did you mean classes?");
    assert_refused_with(XT_ERR_USAGE, "synth:shapes?classes=1", "from 2 to 10");
    assert_refused_with(XT_ERR_USAGE, "synth:shapes?seed=1&seed=2", "given twice");
    assert_refused_with(XT_ERR_USAGE, "synth:shapes?seed", "has no value");
    assert_refused_with(XT_ERR_USAGE, "synth:shapesX", "is not known");
    assert_refused_with(XT_ERR_USAGE, "synth:plates",
                        "synthetic pictures with classes are synth:shapes");
    options.task = XT_TASK_PLATES;
    assert_refused_with(XT_ERR_USAGE, "synth:shapes", "has classes and no plates");
}

#define classes_test(f) cmocka_unit_test_setup_teardown(f, setup_classes, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        classes_test(the_folders_sorted_by_name_are_the_classes),
        classes_test(classes_whose_names_begin_alike_are_distinct),
        classes_test(a_class_folder_may_be_a_link),
        classes_test(images_of_two_classes_are_refused),
        classes_test(a_validation_set_takes_the_training_classes_by_name),
        classes_test(one_class_only_is_refused),
        classes_test(an_empty_class_folder_is_refused),
        classes_test(a_folder_without_class_folders_is_refused),
        classes_test(the_parts_of_a_set_are_not_classes),
        classes_test(images_without_labels_can_be_read_too),
        classes_test(a_list_names_classes),
        classes_test(a_list_may_number_classes),
        classes_test(cifar_batches_are_read_in_order),
        classes_test(the_file_of_names_counts),
        classes_test(cifar_classes_are_matched_by_name_too),
        classes_test(a_record_of_cifar100_has_two_labels),
        classes_test(a_wrong_record_length_is_refused),
        classes_test(a_label_out_of_range_is_refused),
        classes_test(a_batch_that_shrinks_is_a_bad_sample),
        classes_test(a_pipe_among_the_data_is_refused_at_once),
        classes_test(batches_are_read_out_of_a_tar),
        classes_test(shapes_are_a_function_of_seed_and_index),
        classes_test(shapes_take_the_classes_that_they_are_given),
        classes_test(settings_of_shapes_are_checked),
    };
    return cmocka_run_group_tests_name("classes", tests, NULL, NULL);
}
