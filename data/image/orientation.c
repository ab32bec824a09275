#include "data/image/orientation.h"

#include <string.h>

bool xt_orientation_is_stored(const struct xt_orientation *orientation)
{
    return !orientation->transpose && !orientation->mirror_x && !orientation->mirror_y;
}

static struct xt_box transpose(struct xt_box box)
{
    return (struct xt_box){
        .left = box.top, .top = box.left, .width = box.height, .height = box.width};
}

static struct xt_box mirror(const struct xt_orientation *orientation, struct xt_box box,
                            double width, double height)
{
    if (orientation->mirror_x)
        box.left = width - box.left - box.width;
    if (orientation->mirror_y)
        box.top = height - box.top - box.height;
    return box;
}

struct xt_box xt_orientation_to_stored(const struct xt_orientation *orientation, struct xt_box seen,
                                       double width, double height)
{
    return mirror(orientation, orientation->transpose ? transpose(seen) : seen, width, height);
}

struct xt_box xt_orientation_to_seen(const struct xt_orientation *orientation, struct xt_box stored,
                                     double width, double height)
{
    struct xt_box box = mirror(orientation, stored, width, height);
    return orientation->transpose ? transpose(box) : box;
}

enum xt_status xt_orientation_apply(const struct xt_orientation *orientation,
                                    const struct xt_image *stored, struct xt_image *out,
                                    struct xt_err *err)
{
    int width = orientation->transpose ? stored->height : stored->width;
    int height = orientation->transpose ? stored->width : stored->height;
    enum xt_status status = xt_image_reserve(out, width, height, err);
    if (status)
        return status;
    uint8_t *to = out->pixels;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++, to += 3) {
            int column = orientation->transpose ? y : x;
            int row = orientation->transpose ? x : y;
            column = orientation->mirror_x ? stored->width - 1 - column : column;
            row = orientation->mirror_y ? stored->height - 1 - row : row;
            memcpy(to, stored->pixels + ((size_t)row * (size_t)stored->width + (size_t)column) * 3,
                   3);
        }
    return XT_OK;
}
