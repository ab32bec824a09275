/* Weights that are computed of parameters: values of one sample, [1][output channels][the rest]. */
#include <stdio.h>
#include <string.h>

#include "models/onnx/read/ops.h"

/* One of the vectors of torch.nn.utils.spectral_norm, or of the parametrization of that name. */
static bool is_spectral(const struct xt_reader *reader, const char *name)
{
    char beside[XT_PARAM_NAME_MAX];
    if (!xt_str_ends(name, "_u"))
        return false;
    int length = snprintf(beside, sizeof beside, "%.*s_orig", (int)strlen(name) - 2, name);
    return (strstr(name, "parametrizations.") && xt_str_ends(name, "._u")) ||
           (length < (int)sizeof beside && xt_read_is_initializer(reader, beside));
}

bool xt_read_check_weights(struct xt_reader *reader)
{
    for (size_t i = 0; i < reader->value_count; i++) {
        const struct xt_read_value *value = reader->by_name[i];
        if (value->initializer && value->readers && is_spectral(reader, value->name))
            return xt_reader_refuse(
                reader, NULL,
                "%s is of spectral normalisation, whose vectors move in training, which is not "
                "supported: remove_spectral_norm or remove_parametrizations store the result as "
                "the weight",
                xt_str_quote(value->name, strlen(value->name)).text);
    }
    return true;
}

struct xt_read_view *xt_read_computed_weight(struct xt_reader *reader, struct xt_read_node *node,
                                             int i, int ndims)
{
    const struct xt_read_value *value = xt_read_input(node, i);
    const struct xt_read_view *view = value ? value->view : NULL;
    if (!view)
        return NULL;
    if (view->value->of_parameter && view->ndims == ndims)
        return xt_read_copy(reader, view);
    return xt_reader_refuse(reader, node,
                            view->value->of_parameter
                                ? "has weights of %d dimensions, where %d are wanted"
                                : "has weights that are computed from the images, which is not "
                                  "supported; of parameters alone they can be",
                            view->ndims, ndims);
}

struct xt_value *xt_read_weight_rows(struct xt_reader *reader, struct xt_read_node *node,
                                     struct xt_read_view *weight, int channels)
{
    int homes[XT_READ_DIMS_MAX];
    for (int i = 0; i < weight->ndims; i++)
        homes[i] = i == channels ? XT_AXIS_W : XT_AXIS_C;
    return xt_read_lay_out(reader, node, weight, homes);
}

struct xt_read_view *xt_read_contract(struct xt_reader *reader, struct xt_read_node *node,
                                      struct xt_read_view *view, int axis, int groups,
                                      struct xt_read_view *weight)
{
    int homes[XT_READ_DIMS_MAX] = {0};
    long long numbers = groups * (long long)xt_read_dim(weight, 1);
    if (xt_read_dim(view, axis) != numbers)
        return xt_reader_refuse(reader, node, "has a weight for %lld numbers, and reads %lld",
                                numbers, (long long)xt_read_dim(view, axis));
    const struct xt_net_conv spec = {
        .channels = (int)xt_read_dim(weight, 0), .kernel = {1, 1}, .groups = groups};
    xt_read_channel_homes(view, axis, homes);
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    struct xt_value *rows = value ? xt_read_weight_rows(reader, node, weight, 0) : NULL;
    value = rows ? xt_net_conv_by(reader->net, value, rows, &spec) : NULL;
    return xt_read_after(reader, node, view, NULL, homes, value);
}

struct xt_read_view *xt_read_matrix(struct xt_reader *reader, int rows, int columns,
                                    const float *numbers)
{
    static const int homes[] = {XT_AXIS_W, XT_AXIS_C};
    const struct xt_net_constant spec = {.h = 1,
                                         .w = rows,
                                         .c = columns,
                                         .numbers = numbers,
                                         .count = (size_t)rows * (size_t)columns};
    struct xt_value *value = numbers ? xt_net_constant(reader->net, &spec) : NULL;
    return value ? xt_read_view(reader, value, 2, homes) : NULL;
}

/* The axes that stay, then those that go, each of them as one. */
static struct xt_read_view *as_rows(struct xt_reader *reader, const struct xt_read_node *node,
                                    const struct xt_read_view *view, const bool goes[])
{
    struct xt_read_view *apart = xt_read_copy(reader, view);
    int64_t dims[] = {1, 1};
    int at = 0;
    for (int part = 0; apart && part < 2; part++)
        for (int i = 0; i < view->ndims; i++) {
            if (goes[i] != (part == 1))
                continue;
            apart->axes[at++] = view->axes[i];
            dims[part] *= xt_read_dim(view, i);
        }
    return apart ? xt_read_reshape(reader, node, apart, 2, dims) : NULL;
}

struct xt_read_view *xt_read_parameter_mean(struct xt_reader *reader,
                                            const struct xt_read_node *node,
                                            const struct xt_read_view *view, const bool goes[])
{
    static const int homes[] = {XT_AXIS_W, XT_AXIS_C};
    int64_t dims[XT_READ_DIMS_MAX];
    for (int i = 0; i < view->ndims; i++)
        dims[i] = goes[i] ? 1 : xt_read_dim(view, i);
    struct xt_read_view *rows = as_rows(reader, node, view, goes);
    if (!rows)
        return NULL;
    double scale = rows->scale; /* of the means instead, which are fewer */
    rows->scale = 1;
    struct xt_value *value = xt_read_lay_out(reader, node, rows, homes);
    value = value ? xt_net_channel_mean(reader->net, value, NULL) : NULL;
    struct xt_read_view *out = xt_read_after(reader, node, rows, NULL, homes, value);
    out = out ? xt_read_reshape(reader, node, out, view->ndims, dims) : NULL;
    if (out)
        out->scale = scale;
    return out;
}
