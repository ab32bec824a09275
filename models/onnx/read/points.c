/* Images that are read at points which the network computes: spatial transformers. */
#include <string.h>

#include "models/onnx/read/ops.h"

/* A grid, [n][h][w][2]. */
static const int grid_homes[] = {XT_READ_N, XT_AXIS_H, XT_AXIS_W, XT_AXIS_C};

/* ---- AffineGrid ---- */

/* The centres of an axis's pixels, -1 and 1 being its ends or the centres of the last ones. */
static struct xt_value *centres(struct xt_reader *reader, int count, bool align, bool of_rows)
{
    float *numbers = xt_reader_take(reader, (size_t)count, sizeof *numbers);
    for (int i = 0; numbers && i < count; i++)
        numbers[i] = !align       ? (float)((2 * i + 1) / (double)count - 1)
                     : count == 1 ? 0
                                  : (float)(2 * i / (double)(count - 1) - 1);
    const struct xt_net_constant spec = {.h = of_rows ? count : 1,
                                         .w = of_rows ? 1 : count,
                                         .c = 1,
                                         .numbers = numbers,
                                         .count = (size_t)count};
    return numbers ? xt_net_constant(reader->net, &spec) : NULL;
}

/* A column of the transformations, [n][2][3], as an image of one pixel. */
static struct xt_value *column(struct xt_reader *reader, const struct xt_read_node *node,
                               struct xt_read_view *theta, int which)
{
    static const int homes[] = {XT_READ_N, XT_AXIS_C, XT_AXIS_W};
    struct xt_read_view *view = xt_read_take(reader, node, theta, 2, which, 1, 1);
    return view ? xt_read_lay_out(reader, node, view, homes) : NULL;
}

static bool read_sides(struct xt_reader *reader, struct xt_read_node *node, int sides[2])
{
    int64_t size[XT_READ_DIMS_MAX];
    int count = xt_read_ints(reader, node, "size", 1, size);
    if (count == 5)
        return xt_reader_refuse(reader, node, "transforms volumes; only images are supported");
    for (int i = 0; i < 2 && count == 4; i++) {
        if (size[2 + i] < 1 || size[2 + i] > XT_READ_NUMBERS_MAX)
            return xt_reader_refuse(reader, node, "makes a grid of %lld points along an axis",
                                    (long long)size[2 + i]);
        sides[i] = (int)size[2 + i];
    }
    return count == 4 || xt_reader_refuse(reader, node,
                                          "makes a grid of a size that is not known while it is "
                                          "read");
}

/* theta (x, y, 1) for each point: the columns of theta times x, times y, and the last one. */
bool xt_read_affine_grid(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *theta = xt_read_data(reader, node, 0);
    bool align = xt_read_int(node, "align_corners", 0) != 0;
    int sides[2] = {0};
    if (!theta || !read_sides(reader, node, sides))
        return false;
    if (theta->ndims != 3 || xt_read_dim(theta, 1) != 2 || xt_read_dim(theta, 2) != 3 ||
        xt_read_dim(theta, 0) != XT_READ_BATCH)
        return xt_reader_refuse(reader, node, "reads transformations that are not [n][2][3]");
    struct xt_value *grid = column(reader, node, theta, 2);
    for (int axis = 1; axis >= 0 && grid; axis--) {
        struct xt_value *by = column(reader, node, theta, axis);
        struct xt_value *part =
            xt_net_mul(reader->net, by, centres(reader, sides[1 - axis], align, axis == 1), NULL);
        grid = xt_net_add(reader->net, part, grid, NULL);
    }
    return xt_read_give(node, grid ? xt_read_view(reader, grid, 4, grid_homes) : NULL);
}

/* ---- GridSample ---- */

static bool read_manner(struct xt_reader *reader, struct xt_read_node *node,
                        struct xt_net_grid_sample *out)
{
    const struct xt_read_text mode = xt_read_string(node, "mode");
    const struct xt_read_text padding = xt_read_string(node, "padding_mode");
    out->border = strcmp(padding.text, "border") == 0;
    out->align_corners = xt_read_int(node, "align_corners", 0) != 0;
    if (*mode.text && strcmp(mode.text, "linear") != 0 && strcmp(mode.text, "bilinear") != 0)
        return xt_reader_refuse(
            reader, node, "samples by mode \"%s\"; only bilinear samples are supported", mode.text);
    if (*padding.text && !out->border && strcmp(padding.text, "zeros") != 0)
        return xt_reader_refuse(
            reader, node, "has padding_mode \"%s\"; zeros and border are supported", padding.text);
    return true;
}

bool xt_read_grid_sample(struct xt_reader *reader, struct xt_read_node *node)
{
    static const int image_homes[] = {XT_READ_N, XT_AXIS_C, XT_AXIS_H, XT_AXIS_W};
    struct xt_net_grid_sample spec = {0};
    struct xt_read_view *image = xt_read_data(reader, node, 0);
    struct xt_read_view *grid = image ? xt_read_data(reader, node, 1) : NULL;
    if (!grid || !read_manner(reader, node, &spec))
        return false;
    if (image->ndims != 4 || grid->ndims != 4 || xt_read_dim(grid, 3) != 2)
        return xt_reader_refuse(reader, node,
                                "samples %d dimensions by a grid of %d; only images are "
                                "supported, [n][c][h][w] by [n][h][w][2]",
                                image->ndims, grid->ndims);
    if (xt_read_dim(image, 0) != XT_READ_BATCH || xt_read_dim(grid, 0) != XT_READ_BATCH)
        return xt_reader_refuse(reader, node,
                                "reads an image or a grid that is the same for all samples, which "
                                "is not supported");
    struct xt_value *pixels = xt_read_lay_out(reader, node, image, image_homes);
    struct xt_value *points = pixels ? xt_read_lay_out(reader, node, grid, grid_homes) : NULL;
    if (!points)
        return false;
    return xt_read_give(node,
                        xt_read_view(reader, xt_net_grid_sample(reader->net, pixels, points, &spec),
                                     4, image_homes));
}
