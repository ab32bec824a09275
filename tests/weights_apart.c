/* How far two files of weights are apart, and a file that is as little apart from another as
 * float32 allows: weights_apart A B            "NAME DISTANCE" a line: |a - b| / |a|, of each
 * tensor of A in float32 weights_apart --nudge A OUT  each weight of A one step in its last place
 * up or down
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "models/weights/weight_file.h"

static const size_t most = (size_t)1 << 30;

static float *floats_of(const struct xt_file_tensor *tensor, struct xt_err *err)
{
    size_t count = xt_file_tensor_count(tensor);
    float *out = NULL;
    if (xt_mem_calloc(&out, count, sizeof *out, "a tensor", err) ||
        xt_file_tensor_floats(tensor, out, count, err)) {
        free(out);
        return NULL;
    }
    return out;
}

static enum xt_status print_distance(const struct xt_file_tensor *a, const struct xt_file_tensor *b,
                                     struct xt_err *err)
{
    float *one = floats_of(a, err);
    float *other = one ? floats_of(b, err) : NULL;
    double apart = 0;
    double length = 0;
    for (size_t i = 0; other && i < xt_file_tensor_count(a); i++) {
        double gap = (double)one[i] - (double)other[i];
        apart += gap * gap;
        length += (double)one[i] * (double)one[i];
    }
    if (other)
        printf("%s %.3g\n", a->name, apart > 0 ? sqrt(apart / length) : 0);
    free(one);
    free(other);
    return other ? XT_OK : err->status;
}

static enum xt_status compare(const struct xt_weight_file *a, const struct xt_weight_file *b,
                              struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < a->count && !status; i++) {
        const struct xt_file_tensor *one = &a->tensors[i];
        const struct xt_file_tensor *other = xt_weight_file_find(b, one->name);
        if (!other || other->bytes != one->bytes)
            status = xt_err_set(err, XT_ERR_DATA, "%s is not in both", one->name);
        else if (one->dtype == XT_F32)
            status = print_distance(one, other, err);
    }
    return status;
}

/* Random, but the same each time. */
static enum xt_status nudge(struct xt_weight_file *file, const char *out, struct xt_err *err)
{
    struct xt_rng rng = xt_rng_begin(1, 0);
    for (size_t i = 0; i < file->count; i++) {
        struct xt_file_tensor *tensor = &file->tensors[i];
        float *values = tensor->dtype == XT_F32 ? floats_of(tensor, err) : NULL;
        if (tensor->dtype == XT_F32 && !values)
            return err->status;
        for (size_t k = 0; values && k < xt_file_tensor_count(tensor); k++)
            values[k] = nextafterf(values[k], xt_rng_next(&rng) & 1 ? INFINITY : -INFINITY);
        /* Until the process ends. */
        tensor->data = values ? values : tensor->data;
    }
    return xt_weight_file_write(out, file->tensors, file->count, file->meta, file->meta_count, err);
}

int main(int argc, char **argv)
{
    struct xt_weight_file a = {0};
    struct xt_weight_file b = {0};
    struct xt_err err = {.status = XT_OK};
    bool nudges = argc == 4 && strcmp(argv[1], "--nudge") == 0;
    if (argc != 3 && !nudges) {
        fprintf(stderr, "usage: weights_apart A B | --nudge A OUT\n");
        return 2;
    }
    enum xt_status status = xt_weight_file_read(&a, argv[nudges ? 2 : 1], most, &err);
    if (!status && !nudges)
        status = xt_weight_file_read(&b, argv[2], most, &err);
    if (!status)
        status = nudges ? nudge(&a, argv[3], &err) : compare(&a, &b, &err);
    if (status)
        fprintf(stderr, "weights_apart: %s\n", err.text);
    xt_weight_file_clear(&a);
    xt_weight_file_clear(&b);
    return (int)status;
}
