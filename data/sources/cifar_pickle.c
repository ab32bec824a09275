#include "data/sources/cifar_pickle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pickle.h"
#include "base/str.h"

static const struct xt_pickle_global globals[] = {
    {"numpy.core.multiarray", "_reconstruct", XT_PICKLE_ROLE_OTHER, 0},
    {"numpy._core.multiarray", "_reconstruct", XT_PICKLE_ROLE_OTHER, 0},
    {"numpy", "ndarray", XT_PICKLE_ROLE_OTHER, 0},
    {"numpy", "dtype", XT_PICKLE_ROLE_OTHER, 0},
};

static const struct xt_pickle_rules rules = {
    .globals = globals,
    .global_count = sizeof globals / sizeof *globals,
    .bytes_max = SIZE_MAX,
    .content = "CIFAR's batches",
    .remedy = "fetch the set again (xtrain data get)",
};

static bool is_string(const struct xt_pickle_value *value)
{
    return value->kind == XT_PICKLE_TEXT || value->kind == XT_PICKLE_BYTES;
}

static bool is_word(const struct xt_pickle_value *value, const char *word)
{
    return is_string(value) && value->text.length == strlen(word) &&
           memcmp(value->text.bytes, word, value->text.length) == 0;
}

/* The dictionary's value of that key and kind. */
static enum xt_status find(const struct xt_pickle_value **out, const struct xt_pickle_value *root,
                           const char *key, enum xt_pickle_kind kind, struct xt_err *err)
{
    *out = NULL;
    if (root->kind != XT_PICKLE_DICT)
        return xt_err_set(err, XT_ERR_DATA, "its pickle holds %s, where CIFAR has a dictionary",
                          xt_pickle_kind_name(root->kind));
    for (size_t i = 0; i + 1 < root->list.count; i += 2)
        if (is_word(root->list.items[i], key))
            *out = root->list.items[i + 1];
    if (!*out)
        return xt_err_set(err, XT_ERR_DATA, "its dictionary has no \"%s\", so it is not CIFAR's",
                          key);
    if ((*out)->kind != kind)
        return xt_err_set(err, XT_ERR_DATA, "its \"%s\" is %s, where CIFAR has %s", key,
                          xt_pickle_kind_name((*out)->kind), xt_pickle_kind_name(kind));
    return XT_OK;
}

static bool is_call(const struct xt_pickle_value *value, const char *name)
{
    return value->kind == XT_PICKLE_CALL && strcmp(value->call.global->name, name) == 0;
}

/* dtype("u1", ...), little- or big-endian alike. */
static bool is_of_bytes(const struct xt_pickle_value *type)
{
    return is_call(type, "dtype") && type->call.args->list.count > 0 &&
           is_word(type->call.args->list.items[0], "u1");
}

/* The state of the array: (version, shape, type, whether columns come first, bytes). */
static enum xt_status read_pixels(struct xt_cifar_pickle *out, const struct xt_pickle_value *array,
                                  size_t image_bytes, const uint8_t *bytes, struct xt_err *err)
{
    const struct xt_pickle_value *state = array->call.state;
    if (!is_call(array, "_reconstruct") || !state || state->kind != XT_PICKLE_TUPLE ||
        state->list.count != 5)
        return xt_err_set(err, XT_ERR_DATA, "its \"data\" is not an array of numpy");
    struct xt_pickle_value *const *items = state->list.items;
    const struct xt_pickle_value *shape = items[1];
    bool good = shape->kind == XT_PICKLE_TUPLE && shape->list.count == 2 &&
                shape->list.items[0]->kind == XT_PICKLE_INT &&
                shape->list.items[1]->kind == XT_PICKLE_INT && is_of_bytes(items[2]) &&
                items[3]->kind == XT_PICKLE_BOOL && !items[3]->integer && is_string(items[4]);
    if (!good)
        return xt_err_set(err, XT_ERR_DATA,
                          "its \"data\" is not a matrix of bytes, a row for each image");
    int64_t rows = shape->list.items[0]->integer;
    int64_t columns = shape->list.items[1]->integer;
    if (rows < 1 || columns != (int64_t)image_bytes ||
        (uint64_t)rows != items[4]->text.length / image_bytes ||
        items[4]->text.length % image_bytes)
        return xt_err_set(err, XT_ERR_DATA,
                          "its \"data\" says that it is of %" PRId64 " x %" PRId64
                          " bytes and has %zu; CIFAR's images take %zu each",
                          rows, columns, items[4]->text.length, image_bytes);
    out->count = (size_t)rows;
    out->pixels_at = (size_t)(items[4]->text.bytes - bytes);
    return XT_OK;
}

static enum xt_status read_labels(struct xt_cifar_pickle *out, const struct xt_pickle_value *list,
                                  const char *key, struct xt_err *err)
{
    if (list->list.count != out->count)
        return xt_err_set(err, XT_ERR_DATA, "it has %zu images, but %zu \"%s\"", out->count,
                          list->list.count, key);
    enum xt_status status = xt_mem_calloc(&out->labels, out->count, 1, "labels", err);
    for (size_t i = 0; i < out->count && !status; i++) {
        const struct xt_pickle_value *label = list->list.items[i];
        if (label->kind != XT_PICKLE_INT || label->integer < 0 || label->integer > UINT8_MAX)
            status =
                xt_err_set(err, XT_ERR_DATA, "number %zu of its \"%s\" is not a label", i, key);
        else
            out->labels[i] = (uint8_t)label->integer;
    }
    return status;
}

enum xt_status xt_cifar_pickle_read(struct xt_cifar_pickle *out, const uint8_t *bytes, size_t size,
                                    const char *labels_key, size_t image_bytes, struct xt_err *err)
{
    struct xt_pickle pickle = {.rules = &rules};
    const struct xt_pickle_value *root = NULL;
    const struct xt_pickle_value *array = NULL;
    const struct xt_pickle_value *labels = NULL;
    size_t at = 0;
    *out = (struct xt_cifar_pickle){0};
    enum xt_status status = xt_pickle_read(&pickle, bytes, size, &at, &root, err);
    if (!status)
        status = find(&array, root, "data", XT_PICKLE_CALL, err);
    if (!status)
        status = read_pixels(out, array, image_bytes, bytes, err);
    if (!status)
        status = find(&labels, root, labels_key, XT_PICKLE_LIST, err);
    if (!status)
        status = read_labels(out, labels, labels_key, err);
    xt_pickle_clear(&pickle);
    if (status) {
        free(out->labels);
        *out = (struct xt_cifar_pickle){0};
    }
    return status;
}

enum xt_status xt_cifar_pickle_names(char **out, const uint8_t *bytes, size_t size, const char *key,
                                     struct xt_err *err)
{
    struct xt_pickle pickle = {.rules = &rules};
    struct xt_str text = {0};
    const struct xt_pickle_value *root = NULL;
    const struct xt_pickle_value *list = NULL;
    size_t at = 0;
    *out = NULL;
    enum xt_status status = xt_pickle_read(&pickle, bytes, size, &at, &root, err);
    if (!status)
        status = find(&list, root, key, XT_PICKLE_LIST, err);
    for (size_t i = 0; !status && i < list->list.count; i++) {
        const struct xt_pickle_value *name = list->list.items[i];
        if (!is_string(name) || memchr(name->text.bytes, '\n', name->text.length) ||
            memchr(name->text.bytes, '\0', name->text.length))
            status = xt_err_set(err, XT_ERR_DATA, "number %zu of its \"%s\" is not a name", i, key);
        if (!status)
            xt_str_append(&text, (const char *)name->text.bytes, name->text.length, NULL);
        xt_str_append(&text, "\n", 1, NULL);
    }
    if (!status)
        status = xt_str_check(&text, err);
    xt_pickle_clear(&pickle);
    if (status)
        xt_str_clear(&text);
    *out = text.data;
    return status;
}
