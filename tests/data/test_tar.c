#include "support_source.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "data/survey.h"

/* A tar that is being written. */
struct writer {
    struct archive *archive;
    const char *path;
};

static struct writer begin_as(const char *path, int (*format)(struct archive *))
{
    struct writer writer = {archive_write_new(), path};
    format(writer.archive);
    if (xt_str_ends(path, ".gz") || xt_str_ends(path, ".tgz"))
        archive_write_add_filter_gzip(writer.archive);
    archive_write_set_bytes_in_last_block(writer.archive, 1);
    return writer;
}

static struct writer begin(const char *path)
{
    return begin_as(path, archive_write_set_format_gnutar);
}

static void add(struct writer *writer, const char *name, const void *bytes, size_t size)
{
    if (writer->path) {
        assert_int_equal(archive_write_open_filename(writer->archive, writer->path), ARCHIVE_OK);
        writer->path = NULL;
    }
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, name);
    archive_entry_set_filetype(entry, name[strlen(name) - 1] == '/' ? AE_IFDIR : AE_IFREG);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_perm(entry, 0644);
    assert_int_equal(archive_write_header(writer->archive, entry), ARCHIVE_OK);
    assert_int_equal(archive_write_data(writer->archive, bytes, size), size);
    archive_entry_free(entry);
}

static void add_text(struct writer *writer, const char *name, const char *text)
{
    add(writer, name, text, strlen(text));
}

/* An image that is identified by its width. */
static void add_image(struct writer *writer, const char *name, int width)
{
    static uint8_t pixels[64 * 64 * 3];
    char path[64] = "/tmp/xtrain-test-tar-XXXXXX";
    size_t size = 0;
    struct xt_image image = {.width = width, .height = 5, .pixels = pixels};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(xt_png_save(path, &image, XT_PIXEL_RGB, &err), XT_OK);
    uint8_t *bytes = support_read_file(path, &size);
    add(writer, name, bytes, size);
    unlink(path);
    free(bytes);
}

static void end(struct writer *writer)
{
    assert_int_equal(archive_write_close(writer->archive), ARCHIVE_OK);
    archive_write_free(writer->archive);
}

/* Three samples of classes cat, dog, cat, of widths 1, 2, 3. */
static void write_three(const char *path)
{
    struct writer writer = begin(path);
    add_text(&writer, "./", "");
    add_image(&writer, "./a/001.png", 1);
    add_text(&writer, "./a/001.cls", "cat\n");
    add_text(&writer, "a/001.json", "{}");
    add_text(&writer, "a/002.cls", "dog");
    add_image(&writer, "a/002.PNG", 2);
    add_image(&writer, "a/b/001.x.png", 9); /* another ending: ignored */
    add_image(&writer, "b.d/001.png", 3);
    add_text(&writer, "b.d/001.cls", "cat");
    add_text(&writer, "b.d/._001.png", "of a Mac");
    end(&writer);
}

static void files_of_one_key_are_a_sample(void **state)
{
    const char *path = support_path(*state, "data.tar");
    write_three(path);
    open_good(path);
    assert_int_equal(source->count, 3);
    assert_int_equal(xt_source_class_count(source), 2);
    assert_int_equal(label_of(0), 0);
    assert_int_equal(label_of(1), 1);
    assert_int_equal(label_of(2), 0);
    for (int i = 2; i >= 0; i--) {
        read_good((size_t)i);
        assert_int_equal(sample.picture.image.width, i + 1);
        assert_int_equal(sample.label[0], i % 2);
    }
    assert_name(0, "data.tar:a/001.png");
    assert_name(2, "data.tar:b.d/001.png");
    assert_non_null(strstr(source->description, "3 images of 2 classes in 1 shard "));
    assert_non_null(strstr(source->description, "(2 other files ignored)"));
    uint64_t stamp = source->class->stamp(source, 0);
    assert_int_not_equal(stamp, 0);
    assert_int_not_equal(stamp, source->class->stamp(source, 1));
}

static void a_plate_is_in_the_text_or_in_the_name(void **state)
{
    read_plates();
    const char *path = support_path(*state, "data.tar");
    struct writer writer = begin(path);
    add_image(&writer, "0001.png", 1);
    add_text(&writer, "0001.txt", "京A12345 \r\n");
    add_image(&writer, "x/沪B2_7.png", 2);
    end(&writer);
    open_good(path);
    assert_int_equal(source->count, 2);
    int label[XT_LABEL_MAX];
    int length = 0;
    assert_int_equal(source->class->label(source, 0, label, &length, &err), XT_OK);
    assert_int_equal(length, 7);
    assert_int_equal(source->class->label(source, 1, label, &length, &err), XT_OK);
    assert_int_equal(length, 3);
    read_good(1);
    assert_int_equal(sample.picture.image.width, 2);
}

static void labels_that_cannot_be_used_are_refused(void **state)
{
    const char *path = support_path(*state, "data.tar");
    struct writer writer = begin(path);
    add_image(&writer, "q.png", 1);
    add_image(&writer, "2.png", 1);
    add_text(&writer, "2.txt", "京A1");
    end(&writer);
    assert_refused(path, "data.tar:q.png: there is no .cls file");
    assert_refused(path, "(and 1 more like it)");
    read_plates();
    assert_refused(path, "data.tar:q.png: the label \"q\"");
    options.labels_optional = true;
    open_good(path);
    assert_int_equal(source->count, 2);
    assert_int_equal(label_of(0), -1);
}

static void a_key_has_one_image_and_one_label(void **state)
{
    const char *path = support_path(*state, "data.tar");
    struct writer writer = begin(path);
    add_image(&writer, "1.png", 1);
    add_image(&writer, "1.jpg", 1);
    end(&writer);
    assert_refused(path, "holds 1.png and 1.jpg, which are one key's");
}

static void several_shards_are_one_set(void **state)
{
    mkdir(support_path(*state, "set"), 0777);
    write_three(support_path(*state, "set/x-09.tar"));
    write_three(support_path(*state, "set/x-10.tar"));
    write_three(support_path(*state, "set/x-11.tgz"));
    open_good(support_path(*state, "set"));
    assert_int_equal(source->count, 9);
    assert_name(3, "x-10.tar:a/001.png");
    open_good(support_path(*state, "set/x-{09..10}.tar"));
    assert_int_equal(source->count, 6);
    assert_name(5, "x-10.tar:b.d/001.png");
    read_good(5);
    assert_int_equal(sample.picture.image.width, 3);
    assert_refused(support_path(*state, "set/x-{09..12}.tar"), "x-11.tar: No such file");
    assert_refused_with(XT_ERR_USAGE, support_path(*state, "set/x-{10..09}.tar"),
                        "between the braces");
    assert_refused_with(XT_ERR_USAGE, support_path(*state, "set/x-{a..b}.tar"),
                        "between the braces");
    assert_refused_with(XT_ERR_USAGE, support_path(*state, "set/x-{1..2}-{1..2}.tar"),
                        "between the braces");
    assert_refused(support_path(*state, "set/y.tar"), "cannot open the data");
    /* A tar beside folders is not a shard. */
    mkdir(support_path(*state, "set/cat"), 0777);
    assert_refused(support_path(*state, "set"), "the class folder");
}

static void a_compressed_shard_is_read_through_memory(void **state)
{
    const char *path = support_path(*state, "data.tar.gz");
    write_three(path);
    open_good(path);
    assert_int_equal(source->count, 3);
    read_good(2);
    assert_int_equal(sample.picture.image.width, 3);
    xt_source_destroy(source);
    source = NULL;
    support_write_file(path, "\x1f\x8b\x08 no gzip", 11);
    assert_refused(path, "data.tar.gz");
    support_write_file(path, "", 0);
    assert_refused(path, "is empty");
}

/* libarchive would run whatever PATH has as lrzip, lzop and grzip. */
static void no_program_is_started_for_a_shard(void **state)
{
    static const struct {
        const char *program;
        const char *start;
        size_t size;
    } packers[] = {
        {"lrzip", "LRZI\0\6", 6},
        {"lzop", "\x89LZO\0\r\n\x1a\n", 9},
        {"grzip", "GRZipII\0\2\4:)", 12},
    };
    const char *trace = support_path(*state, "started");
    const char *given = getenv("PATH");
    char *before = strdup(given ? given : "");
    char bytes[1024] = "";
    char script[512];
    assert_non_null(before);
    snprintf(script, sizeof script, "#!/bin/sh\n: > '%s'\n", trace);
    setenv("PATH", *state, 1);
    for (size_t i = 0; i < sizeof packers / sizeof packers[0]; i++) {
        const char *program = support_path(*state, packers[i].program);
        const char *path = support_path(*state, "data.tar.gz");
        support_write_file(program, script, strlen(script));
        assert_int_equal(chmod(program, 0700), 0);
        memcpy(bytes, packers[i].start, packers[i].size);
        support_write_file(path, bytes, sizeof bytes);
        assert_refused(path, "cannot be read as a tar");
        options.task = XT_TASK_CLASSES;
        assert_int_equal(xt_source_cifar.open(&source, path, &options, &err), XT_ERR_DATA);
        assert_false(xt_file_exists(trace));
    }
    setenv("PATH", before, 1);
    free(before);
}

/* 70 MB of zeros in a file of 70 kB. */
static void a_shard_that_grows_beyond_all_images_is_refused(void **state)
{
    enum { MANY = 70 << 20 };
    const char *path = support_path(*state, "data.tar.gz");
    uint8_t *zeros = calloc(MANY, 1);
    assert_non_null(zeros);
    static const char *const names[] = {"001.png", "data_batch_1.bin"};
    for (size_t i = 0; i < 2; i++) {
        struct writer writer = begin(path);
        add(&writer, names[i], zeros, MANY);
        end(&writer);
        assert_refused(path, "memory once it is unpacked");
    }
    free(zeros);
}

static void long_names_are_whole_in_every_format(void **state)
{
    static int (*const formats[])(struct archive *) = {
        archive_write_set_format_gnutar, archive_write_set_format_pax,
        archive_write_set_format_pax_restricted, archive_write_set_format_ustar};
    char name[200];
    snprintf(name, sizeof name, "%0120d/%070d.png", 1, 2);
    char label[200];
    snprintf(label, sizeof label, "%0120d/%070d.cls", 1, 2);
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        const char *path = support_path(*state, "long.tar");
        struct writer writer = begin_as(path, formats[i]);
        add_image(&writer, name, 7);
        add_text(&writer, label, "0");
        add_image(&writer, "short.png", 8);
        add_text(&writer, "short.cls", "1");
        end(&writer);
        open_good(path);
        assert_int_equal(source->count, 2);
        assert_name(0, name);
        assert_name(1, "long.tar:short.png");
        read_good(0);
        assert_int_equal(sample.picture.image.width, 7);
        assert_int_equal(label_of(1), 1);
    }
}

static void cut(const char *path, off_t size)
{
    assert_int_equal(truncate(path, size), 0);
}

static void a_shard_that_is_cut_short_is_named_and_counted(void **state)
{
    const char *path = support_path(*state, "data.tar");
    /* In the third image's data; the last key is complete before it or not. */
    write_three(path);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    off_t whole = st.st_size;
    for (off_t size = whole - 1024; size > 4096; size -= 100) {
        write_three(path);
        cut(path, size);
        if (xt_source_open(&source, path, &options, &err)) {
            /* Only one class is left. */
            support_assert_error(&err, XT_ERR_DATA, "one class only");
            continue;
        }
        size_t last = source->count - 1;
        assert_non_null(strstr(source->description, "1 SHARD CUT SHORT OR DAMAGED"));
        assert_bad(last, "data.tar is cut short");
        assert_name(last, "data.tar:what follows");
        assert_int_equal(label_of(last), -1);
        for (size_t i = 0; i < last; i++)
            read_good(i);
        xt_source_destroy(source);
        source = NULL;
    }
    write_three(path);
    cut(path, whole - 512); /* one empty block is enough */
    open_good(path);
    assert_int_equal(source->count, 3);
}

static void a_damaged_header_ends_a_shard(void **state)
{
    const char *path = support_path(*state, "data.tar");
    write_three(path);
    open_good(path);
    size_t size = 0;
    uint8_t *bytes = support_read_file(path, &size);
    uint8_t *header = memmem(bytes, size, "b.d/001.png", 11);
    assert_non_null(header);
    header[0] = 'c';
    xt_source_destroy(source);
    source = NULL;
    support_write_file(path, bytes, size);
    /* The part before it has two keys, of which the last is skipped, as it may lack files. */
    read_plates();
    options.labels_optional = true;
    open_good(path);
    assert_int_equal(source->count, 3);
    assert_bad(2, "is damaged: an invalid header at byte");
    support_write_file(path, "no tar at all, but long enough to be read", 41);
    assert_refused(path, "cannot be read as a tar");
    memset(bytes, 'x', size);
    support_write_file(path, bytes, size);
    assert_refused(path, "cannot be read as a tar");
    free(bytes);
}

static void a_shard_that_changes_makes_bad_samples(void **state)
{
    const char *path = support_path(*state, "data.tar");
    write_three(path);
    open_good(path);
    read_good(0);
    cut(path, 600);
    assert_bad(0, "data.tar:a/001.png: the shard has changed");
    uint64_t stamp = source->class->stamp(source, 1);
    cut(path, 700);
    assert_int_not_equal(source->class->stamp(source, 1), stamp);
}

static void a_survey_counts_what_is_lost_as_bad(void **state)
{
    const char *path = support_path(*state, "data.tar");
    struct stat st;
    write_three(path);
    assert_int_equal(stat(path, &st), 0);
    cut(path, st.st_size - 1536);
    struct xt_survey survey;
    open_good(path);
    assert_int_equal(xt_survey_take(&survey, source, 2, false, &err), XT_OK);
    assert_int_equal(survey.bad, 1);
    assert_int_equal(survey.unlabelled, 0);
    assert_non_null(strstr(survey.first_bad, "data.tar is cut short"));
    xt_survey_clear(&survey);
}

static void a_tar_without_images_is_refused(void **state)
{
    const char *path = support_path(*state, "data.tar");
    struct writer writer = begin(path);
    add_text(&writer, "readme.md", "x");
    end(&writer);
    assert_refused(path, "none of the 1 file in its 1 shard");
}

#define tar_test(f) cmocka_unit_test_setup_teardown(f, setup_classes, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        tar_test(files_of_one_key_are_a_sample),
        tar_test(a_plate_is_in_the_text_or_in_the_name),
        tar_test(labels_that_cannot_be_used_are_refused),
        tar_test(a_key_has_one_image_and_one_label),
        tar_test(several_shards_are_one_set),
        tar_test(a_compressed_shard_is_read_through_memory),
        tar_test(no_program_is_started_for_a_shard),
        tar_test(a_shard_that_grows_beyond_all_images_is_refused),
        tar_test(long_names_are_whole_in_every_format),
        tar_test(a_shard_that_is_cut_short_is_named_and_counted),
        tar_test(a_damaged_header_ends_a_shard),
        tar_test(a_shard_that_changes_makes_bad_samples),
        tar_test(a_survey_counts_what_is_lost_as_bad),
        tar_test(a_tar_without_images_is_refused),
    };
    return cmocka_run_group_tests_name("tar", tests, NULL, NULL);
}
