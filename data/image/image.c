#include "data/image/image.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"

bool xt_image_is_ending(const char *ending)
{
    return strcasecmp(ending, ".jpg") == 0 || strcasecmp(ending, ".jpeg") == 0 ||
           strcasecmp(ending, ".png") == 0 || strcasecmp(ending, ".webp") == 0;
}

bool xt_image_is_unread_ending(const char *ending)
{
    static const char *const endings[] = {".gif",  ".bmp",  ".tif",  ".tiff",
                                          ".heic", ".heif", ".avif", ".jxl"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strcasecmp(ending, endings[i]) == 0)
            return true;
    return false;
}

bool xt_image_is_name(const char *name)
{
    const char *ending = strrchr(name, '.');
    return ending && xt_image_is_ending(ending);
}

enum xt_status xt_image_check(int width, int height, struct xt_err *err)
{
    if (width < 1 || height < 1)
        return xt_err_set(err, XT_ERR_DATA, "the image has no pixels (%d x %d)", width, height);
    if (width > XT_IMAGE_PIXELS_MAX / height)
        return xt_err_set(err, XT_ERR_DATA,
                          "it says it has %d x %d pixels, more than the %d million that are "
                          "read; a smaller copy can be",
                          width, height, XT_IMAGE_PIXELS_MAX / 1000000);
    return XT_OK;
}

enum xt_status xt_image_reserve(struct xt_image *image, int width, int height, struct xt_err *err)
{
    enum xt_status status = xt_image_check(width, height, err);
    if (status)
        return status;
    size_t bytes = (size_t)width * (size_t)height * 3 + XT_IMAGE_SLACK;
    status = xt_mem_grow(&image->pixels, &image->capacity, bytes, 1, "an image", err);
    if (status)
        return status;
    image->width = width;
    image->height = height;
    return XT_OK;
}

void xt_image_clear(struct xt_image *image)
{
    free(image->pixels);
    *image = (struct xt_image){0};
}
