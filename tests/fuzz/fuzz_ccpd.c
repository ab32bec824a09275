/* Any bytes as the name of one of CCPD's pictures; what is taken is spelled and has places that can
 * be computed with. */
#include <stdlib.h>
#include <string.h>

#include "data/sources/ccpd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct xt_ccpd_name *name)
{
    uint8_t pixels[4 * 4 * 3] = {0};
    struct xt_image in = {.width = 4, .height = 4, .pixels = pixels};
    struct xt_image out = {0};
    struct xt_err err;
    size_t length = strlen(name->plate);
    if (length < 9 || length > 10 || name->box[1].x > 1000000 || name->corners.left_top.y < 0)
        abort();
    const struct xt_corners *q = &name->corners;
    bool small = q->left_top.x + q->right_top.x + q->right_bottom.x + q->left_bottom.x < 999 &&
                 q->left_top.y + q->right_top.y + q->right_bottom.y + q->left_bottom.y < 999;
    if (small && xt_corners_are_convex(&name->corners) &&
        !xt_straighten(&in, &name->corners, &out, &err) && (out.width < 1 || out.height < 1))
        abort();
    xt_image_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct xt_ccpd_name name;
    struct xt_err err;
    char *text = strndup((const char *)data, size);
    if (!text)
        return 0;
    if (!xt_ccpd_read_name(text, &name, &err))
        check(&name);
    free(text);
    return 0;
}
