/* A run's list of images that could not be used: <run>/bad_images.txt, a line each, path, tab,
 * reason.
 *
 * An image is listed once, over all starts. The file is created with the first bad image. One
 * thread uses it at a time; clear may be called after a failure.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct xt_bad_images {
    char *path;
    struct xt_str lines; /* begins and ends with a newline unless empty */
    size_t written;      /* bytes of them already in the file */
};

/* Reads the file where it exists. */
enum xt_status xt_bad_images_open(struct xt_bad_images *bad, const char *path, struct xt_err *err);
void xt_bad_images_clear(struct xt_bad_images *bad);

struct xt_bad_image {
    const char *name;
    const char *reason;
};

/* Adds one that is not in the list yet. */
enum xt_status xt_bad_images_add(struct xt_bad_images *bad, const struct xt_bad_image *image,
                                 struct xt_err *err);
/* Writes the file if images were added, and logs how many are bad. */
enum xt_status xt_bad_images_write(struct xt_bad_images *bad, size_t count, struct xt_err *err);
