/* For the tests of sources: one that is open, what it was opened with, and a sample of it. Each
 * test program has its own.
 */
#pragma once

#include "data/sources/registry.h"
#include "support.h"

static struct xt_alphabet *alphabet;
static struct xt_source *source;
static struct xt_source_options options;
static struct xt_decoder decoder;
static struct xt_sample sample;
static struct xt_err err;

static inline void read_plates(void)
{
    options = (struct xt_source_options){.alphabet = alphabet, .steps_max = 18};
}

/* With support_make_folder; the labels are classes. */
static inline int setup_classes(void **state)
{
    options = (struct xt_source_options){.task = XT_TASK_CLASSES};
    source = NULL;
    sample = (struct xt_sample){0};
    return support_make_folder(state) || xt_alphabet_load(&alphabet, NULL, &err);
}

static inline int setup_plates(void **state)
{
    int bad = setup_classes(state);
    read_plates();
    return bad;
}

static inline int teardown(void **state)
{
    xt_source_destroy(source);
    xt_image_clear(&sample.picture.image);
    xt_decoder_clear(&decoder);
    xt_alphabet_destroy(alphabet);
    return support_remove_folder(state);
}

static inline void open_good(const char *spec)
{
    xt_source_destroy(source);
    if (xt_source_open(&source, spec, &options, &err))
        fail_msg("%s", err.text);
}

static inline void assert_refused_with(enum xt_status status, const char *spec, const char *part)
{
    xt_source_destroy(source);
    assert_int_equal(xt_source_open(&source, spec, &options, &err), status);
    assert_null(source);
    support_assert_error(&err, status, part);
}

static inline void assert_refused(const char *spec, const char *part)
{
    assert_refused_with(XT_ERR_DATA, spec, part);
}

static inline void read_good(size_t index)
{
    if (source->class->read(source, index, NULL, &decoder, &sample, &err))
        fail_msg("%s", err.text);
}

static inline void assert_bad(size_t index, const char *part)
{
    assert_int_equal(source->class->read(source, index, NULL, &decoder, &sample, &err),
                     XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, part);
}

static inline void assert_name(size_t index, const char *ending)
{
    char name[1024];
    source->class->name(source, index, name, sizeof name);
    if (!xt_str_ends(name, ending))
        fail_msg("%s does not end in %s", name, ending);
}

/* The class of a sample; -1 where it has no label. */
static inline int label_of(size_t index)
{
    int label[XT_LABEL_MAX] = {-1};
    int length = -1;
    assert_int_equal(source->class->label(source, index, label, &length, &err), XT_OK);
    assert_in_range(length, 0, 1);
    return length ? label[0] : -1;
}

static inline void assert_label(size_t index, const char *text)
{
    int label[XT_LABEL_MAX];
    int length = -1;
    struct xt_str str = {0};
    assert_int_equal(source->class->label(source, index, label, &length, &err), XT_OK);
    assert_int_equal(xt_alphabet_decode(alphabet, label, length, &str, &err), XT_OK);
    assert_string_equal(xt_str_get(&str), text);
    xt_str_clear(&str);
}
