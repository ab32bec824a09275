#include "cli/diff/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "models/loaded.h"
#include "models/weights/weight_file.h"
#include "infer/network/network.h"

enum { SHAPE_TEXT = 96, META_SHOWN = 60 };

/* The distance between two tensors of the same shape. */
struct distance {
    bool same;        /* bit for bit */
    double largest;   /* largest difference; NAN for non-float types or non-finite values */
    double relative;  /* L2 norm of the difference over that of A */
    size_t different; /* number of differing elements */
};

static void print_shape(char out[SHAPE_TEXT], const struct xt_file_tensor *tensor)
{
    size_t at = 0;
    snprintf(out, SHAPE_TEXT, "scalar");
    for (int i = 0; i < tensor->ndims && at < SHAPE_TEXT; i++)
        at += (size_t)snprintf(out + at, SHAPE_TEXT - at, "%s%" PRId64, i ? "x" : "",
                               tensor->dims[i]);
}

static bool same_shape(const struct xt_file_tensor *a, const struct xt_file_tensor *b)
{
    return a->ndims == b->ndims &&
           memcmp(a->dims, b->dims, (size_t)a->ndims * sizeof *a->dims) == 0;
}

static struct distance measure(const float *a, const float *b, size_t count)
{
    struct distance out = {0};
    double squares = 0;
    double own = 0;
    for (size_t i = 0; i < count; i++) {
        double by = (double)b[i] - (double)a[i];
        out.different += a[i] != b[i];
        out.largest = isnan(by) || isnan(out.largest) ? NAN : fmax(out.largest, fabs(by));
        squares += by * by;
        own += (double)a[i] * (double)a[i];
    }
    out.relative = squares > 0 ? sqrt(squares / own) : squares;
    return out;
}

static enum xt_status compare(const struct xt_file_tensor *a, const struct xt_file_tensor *b,
                              struct distance *out, struct xt_err *err)
{
    size_t count = xt_file_tensor_count(a);
    float *numbers[2] = {NULL, NULL};
    *out = (struct distance){.same = true};
    if (a->dtype == b->dtype && memcmp(a->data, b->data, a->bytes) == 0)
        return XT_OK;
    *out = (struct distance){.largest = NAN, .relative = NAN, .different = count};
    if (!xt_dtype_is_float(a->dtype) || !xt_dtype_is_float(b->dtype))
        return XT_OK;
    enum xt_status status = xt_mem_aligned(&numbers[0], count, sizeof(float), a->name, err);
    if (!status)
        status = xt_mem_aligned(&numbers[1], count, sizeof(float), a->name, err);
    if (!status)
        status = xt_file_tensor_floats(a, numbers[0], count, err);
    if (!status)
        status = xt_file_tensor_floats(b, numbers[1], count, err);
    if (!status)
        *out = measure(numbers[0], numbers[1], count);
    free(numbers[0]);
    free(numbers[1]);
    return status;
}

static void describe_tensor(struct xt_report *to, const struct xt_file_tensor *a,
                            const struct distance *d)
{
    char shape[SHAPE_TEXT];
    print_shape(shape, a);
    xt_report_add(to, "name", "tensor", "%s", a->name);
    xt_report_add(to, "shape", "shape", "%s", shape);
    xt_report_add(to, "different", "elements", "%zu", d->different);
    xt_report_add(to, "largest", "largest", "%.3g", d->largest);
    xt_report_add(to, "relative", "relative", "%.3g", d->relative);
}

struct count {
    size_t same, differ, only[2], shapes;
};

/* Compares the tensors in both files, in A's order. */
static enum xt_status compare_shared(const struct xt_weight_file files[2], struct xt_report *report,
                                     struct count *count, struct xt_err *err)
{
    struct xt_report *table = xt_report_table(report, "tensors");
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < files[0].count && !status; i++) {
        const struct xt_file_tensor *a = &files[0].tensors[i];
        const struct xt_file_tensor *b = xt_weight_file_find(&files[1], a->name);
        struct distance distance;
        if (!b || !same_shape(a, b))
            continue;
        status = compare(a, b, &distance, err);
        count->same += !status && distance.same;
        count->differ += !status && !distance.same;
        if (!status && !distance.same)
            describe_tensor(xt_report_group(table, NULL), a, &distance);
    }
    return status;
}

static void describe_shapes(const struct xt_weight_file files[2], struct xt_report *report,
                            struct count *count)
{
    struct xt_report *list = xt_report_list(report, "other_shapes");
    char shapes[2][SHAPE_TEXT];
    for (size_t i = 0; i < files[0].count; i++) {
        const struct xt_file_tensor *a = &files[0].tensors[i];
        const struct xt_file_tensor *b = xt_weight_file_find(&files[1], a->name);
        if (!b || same_shape(a, b))
            continue;
        struct xt_report *to = xt_report_group(list, NULL);
        print_shape(shapes[0], a);
        print_shape(shapes[1], b);
        xt_report_values(to, "name=%s shape_a=%s shape_b=%s", a->name, shapes[0], shapes[1]);
        xt_report_line(report, "different shape: %s, %s in A and %s in B", a->name, shapes[0],
                       shapes[1]);
        count->shapes++;
    }
}

static void describe_lone(const struct xt_weight_file files[2], int side, struct xt_report *report,
                          struct count *count)
{
    enum { SHOWN = 8 };
    struct xt_report *list = xt_report_list(report, side ? "only_in_b" : "only_in_a");
    for (size_t i = 0; i < files[side].count; i++) {
        const char *name = files[side].tensors[i].name;
        if (xt_weight_file_find(&files[1 - side], name))
            continue;
        xt_report_add(list, NULL, NULL, "%s", name);
        if (count->only[side]++ < SHOWN)
            xt_report_line(report, "only in %c: %s", "AB"[side], name);
    }
    if (count->only[side] > SHOWN)
        xt_report_line(report, "only in %c: %zu more", "AB"[side], count -> only[side] - SHOWN);
}

/* ---- metadata ---- */

static void add_value(struct xt_report *to, const char *key, const char *value)
{
    if (value)
        xt_report_add(to, key, NULL, "%s", value);
    else
        xt_report_null(to, key);
}

static void describe_pair(struct xt_report *report, struct xt_report *list, const char *key,
                          const char *a, const char *b)
{
    struct xt_report *to = xt_report_group(list, NULL);
    struct xt_quoted quoted[2] = {xt_str_quote(a ? a : "", a ? strlen(a) : 0),
                                  xt_str_quote(b ? b : "", b ? strlen(b) : 0)};
    xt_report_add(to, "key", NULL, "%s", key);
    add_value(to, "value_a", a);
    add_value(to, "value_b", b);
    xt_report_line(report, "metadata: %s is %s%s%s in A, %s%s%s in B", key, a ? "\"" : "",
                   a ? quoted[0].text : "not", a ? "\"" : "", b ? "\"" : "",
                   b ? quoted[1].text : "not", b ? "\"" : "");
}

static void describe_meta(const struct xt_weight_file files[2], struct xt_report *report)
{
    struct xt_report *list = xt_report_list(report, "metadata");
    for (size_t i = 0; i < files[0].meta_count; i++) {
        const struct xt_file_meta *a = &files[0].meta[i];
        const char *b = xt_weight_file_meta(&files[1], a->key);
        if (!b || strcmp(a->value, b) != 0)
            describe_pair(report, list, a->key, a->value, b);
    }
    for (size_t i = 0; i < files[1].meta_count; i++) {
        const struct xt_file_meta *b = &files[1].meta[i];
        if (!xt_weight_file_meta(&files[0], b->key))
            describe_pair(report, list, b->key, NULL, b->value);
    }
}

/* ---- reading both files ---- */

/* Those that an ONNX file's network begins as. */
static enum xt_status read_model(struct xt_weight_file *file, const char *path, struct xt_err *err)
{
    struct xt_loaded_model *model = NULL;
    enum xt_status status = xt_model_open(&model, path, 0, err);
    if (status)
        return status;
    *file = model->weights;
    model->weights = (struct xt_weight_file){0};
    xt_model_close(model);
    return XT_OK;
}

static enum xt_status read_weights(struct xt_weight_file *file, const char *path,
                                   struct xt_err *err)
{
    if (xt_model_is_file(path))
        return read_model(file, path, err);
    enum xt_status status = xt_weight_file_read(file, path, XT_MODEL_BYTES_MAX, err);
    return status ? status : xt_network_refuse_checkpoint(file, path, err);
}

enum xt_status xt_diff_weights(const char *const paths[2], struct xt_report *report,
                               struct xt_err *err)
{
    struct xt_weight_file files[2] = {{0}, {0}};
    struct count count = {0};
    enum xt_status status = XT_OK;
    for (int i = 0; i < 2 && !status; i++)
        status = read_weights(&files[i], paths[i], err);
    if (!status)
        status = compare_shared(files, report, &count, err);
    if (!status) {
        describe_shapes(files, report, &count);
        describe_lone(files, 0, report, &count);
        describe_lone(files, 1, report, &count);
        describe_meta(files, report);
        xt_report_add(report, "same_tensors", NULL, "%zu", count.same);
        xt_report_line(report, "%zu of %s of A %s bit for bit the same in B", count.same,
                       xt_count((long long)files[0].count, "tensor").text,
                       count.same == 1 ? "is" : "are");
    }
    xt_weight_file_clear(&files[0]);
    xt_weight_file_clear(&files[1]);
    return status;
}
