#include "data/classes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

static size_t hash(const char *name, size_t size)
{
    /* FNV-1a */
    uint64_t value = 14695981039346656037u;
    for (size_t i = 0; i < size; i++)
        value = (value ^ (uint8_t)name[i]) * 1099511628211u;
    return (size_t)(value ^ (value >> 32));
}

static bool is_named(const char *name, const char *text, size_t size)
{
    return strncmp(name, text, size) == 0 && name[size] == '\0';
}

/* The bucket that holds the name, or the empty one where it is to be inserted. */
static int *bucket_of(const struct xt_classes *classes, const char *name, size_t size)
{
    size_t at = hash(name, size) % classes->bucket_count;
    while (classes->buckets[at] && !is_named(classes->names[classes->buckets[at] - 1], name, size))
        at = (at + 1) % classes->bucket_count;
    return classes->buckets + at;
}

static enum xt_status make_buckets(struct xt_classes *classes, struct xt_err *err)
{
    size_t count = (size_t)classes->count * 4 + 64;
    int *buckets = NULL;
    enum xt_status status = xt_mem_calloc(&buckets, count, sizeof *buckets, "class names", err);
    if (status)
        return status;
    free(classes->buckets);
    classes->buckets = buckets;
    classes->bucket_count = count;
    for (int i = 0; i < classes->count; i++)
        *bucket_of(classes, classes->names[i], strlen(classes->names[i])) = i + 1;
    return XT_OK;
}

static enum xt_status append(struct xt_classes *classes, const char *name, size_t size,
                             struct xt_err *err)
{
    if (classes->count >= XT_CLASSES_MAX)
        return xt_err_set(err, XT_ERR_DATA, "there are more than %d classes", XT_CLASSES_MAX);
    enum xt_status status = xt_mem_add(&classes->names, (size_t)classes->count,
                                       sizeof *classes->names, "class names", err);
    if (status)
        return status;
    char *copy = strndup(name, size);
    if (!copy)
        return xt_err_no_memory(err, "a class name", size);
    classes->names[classes->count++] = copy;
    if (!classes->buckets || (size_t)classes->count * 2 > classes->bucket_count)
        return make_buckets(classes, err);
    *bucket_of(classes, name, size) = classes->count;
    return XT_OK;
}

/* Names classes 0 to count - 1 by their numbers. */
static enum xt_status number_all(struct xt_classes *classes, int count, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = classes->count; i < count && !status; i++) {
        char name[16];
        int length = snprintf(name, sizeof name, "%d", i);
        status = append(classes, name, (size_t)length, err);
    }
    return status;
}

enum xt_status xt_classes_init(struct xt_classes *classes, const struct xt_source_options *options,
                               struct xt_err *err)
{
    *classes = (struct xt_classes){0};
    enum xt_status status = make_buckets(classes, err);
    if (!status && options->class_count > 0 && !options->class_names)
        status = number_all(classes, options->class_count, err);
    for (int i = 0; options->class_names && i < options->class_count && !status; i++)
        status = append(classes, options->class_names[i], strlen(options->class_names[i]), err);
    classes->fixed = options->class_count > 0;
    return status;
}

void xt_classes_clear(struct xt_classes *classes)
{
    for (int i = 0; i < classes->count; i++)
        free(classes->names[i]);
    free(classes->names);
    free(classes->buckets);
    *classes = (struct xt_classes){0};
}

/* The number of a name, or -1. */
static int find(const struct xt_classes *classes, const char *name, size_t size)
{
    return *bucket_of(classes, name, size) - 1;
}

static bool read_number(const char *text, size_t size, int *number)
{
    *number = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9' || *number > XT_CLASSES_MAX)
            return false;
        *number = *number * 10 + (text[i] - '0');
    }
    /* "007" is a name, not a number: printing the number would not give it back. */
    return size == 1 || (size > 1 && text[0] != '0');
}

static bool all_numbers(const struct xt_classes *classes)
{
    int number;
    for (int i = 0; i < classes->count; i++)
        if (!read_number(classes->names[i], strlen(classes->names[i]), &number))
            return false;
    return classes->count > 0;
}

static enum xt_status refuse(const struct xt_classes *classes, const char *name, size_t size,
                             struct xt_err *err)
{
    int number;
    if (read_number(name, size, &number) && all_numbers(classes))
        return xt_err_set(err, XT_ERR_DATA,
                          "the label %d is out of range: there are %d classes, 0 to %d", number,
                          classes->count, classes->count - 1);
    struct xt_quoted word = xt_str_quote(name, size);
    const char *nearest =
        xt_str_nearest(word.text, (const char *const *)classes->names, (size_t)classes->count);
    return xt_err_set(err, XT_ERR_DATA,
                      "the class \"%s\" is not among the %d that the network knows%s%s%s",
                      word.text, classes->count, nearest ? "; did you mean \"" : "",
                      nearest ? nearest : "", nearest ? "\"?" : "");
}

/* Why a new name cannot be a class, or NULL. */
static const char *fault_of(const char *name, size_t size)
{
    uint32_t code = 0;
    if (size == 0)
        return "is empty";
    if (size > XT_CLASS_NAME_MAX)
        return "is longer than 255 bytes";
    for (size_t at = 0, used = 0; at < size; at += used) {
        used = xt_utf8_decode(name + at, size - at, &code);
        if (!used)
            return "is not UTF-8 (it may be GBK; convmv changes the names of folders, iconv lists)";
        if (xt_utf8_is_control(code))
            return "holds a control character";
    }
    return NULL;
}

static enum xt_status add_new(struct xt_classes *classes, const char *name, size_t size,
                              struct xt_err *err)
{
    const char *fault = fault_of(name, size);
    if (!fault)
        return append(classes, name, size, err);
    return xt_err_set(err, XT_ERR_DATA, "the class name \"%s\" %s", xt_str_quote(name, size).text,
                      fault);
}

enum xt_status xt_classes_add(struct xt_classes *classes, const char *name, size_t size, int *index,
                              struct xt_err *err)
{
    *index = find(classes, name, size);
    int number;
    if (*index < 0 && classes->fixed && read_number(name, size, &number) &&
        number < classes->count && !all_numbers(classes)) {
        *index = number;
        return XT_OK;
    }
    if (*index >= 0)
        return XT_OK;
    if (classes->fixed)
        return refuse(classes, name, size, err);
    *index = classes->count;
    return add_new(classes, name, size, err);
}

struct named {
    const char *name;
    int index;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static enum xt_status sort_by_name(struct xt_classes *classes, int *map, struct xt_err *err)
{
    struct named *order = NULL;
    enum xt_status status =
        xt_mem_calloc(&order, (size_t)classes->count, sizeof *order, "class names", err);
    if (status)
        return status;
    for (int i = 0; i < classes->count; i++)
        order[i] = (struct named){classes->names[i], i};
    qsort(order, (size_t)classes->count, sizeof *order, compare_names);
    for (int i = 0; i < classes->count; i++) {
        map[order[i].index] = i;
        classes->names[i] = (char *)order[i].name;
    }
    free(order);
    return make_buckets(classes, err);
}

static enum xt_status sort_by_number(struct xt_classes *classes, int *map, struct xt_err *err)
{
    int most = 0;
    for (int i = 0; i < classes->count; i++) {
        read_number(classes->names[i], strlen(classes->names[i]), &map[i]);
        most = map[i] > most ? map[i] : most;
    }
    if (most >= XT_CLASSES_MAX)
        return xt_err_set(err, XT_ERR_DATA, "the label %d is out of range: at most %d classes",
                          most, XT_CLASSES_MAX);
    struct xt_classes numbered = {0};
    enum xt_status status = number_all(&numbered, most + 1, err);
    if (status) {
        xt_classes_clear(&numbered);
        return status;
    }
    xt_classes_clear(classes);
    *classes = numbered;
    return XT_OK;
}

enum xt_status xt_classes_sort(struct xt_classes *classes, int **map, struct xt_err *err)
{
    *map = NULL;
    enum xt_status status =
        xt_mem_calloc(map, (size_t)classes->count, sizeof **map, "class numbers", err);
    if (status)
        return status;
    for (int i = 0; i < classes->count; i++)
        (*map)[i] = i;
    if (classes->fixed)
        return XT_OK;
    return all_numbers(classes) ? sort_by_number(classes, *map, err)
                                : sort_by_name(classes, *map, err);
}

enum xt_status xt_classes_move(struct xt_classes *classes, struct xt_source *source,
                               const char *where, struct xt_err *err)
{
    if (!classes->fixed && classes->count < 2)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s has one class only (%s); a classifier needs at least two", where,
                          classes->count ? classes->names[0] : "none");
    source->class_names = classes->names;
    source->class_count = classes->count;
    classes->names = NULL;
    classes->count = 0;
    xt_classes_clear(classes);
    return XT_OK;
}

void xt_classes_free_names(struct xt_source *source)
{
    for (int i = 0; i < source->class_count; i++)
        free(source->class_names[i]);
    free(source->class_names);
    source->class_names = NULL;
    source->class_count = 0;
}
