#include "models/normalise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    double mean[3], deviation[3];
} presets[] = {
    {"imagenet", {0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}},
    {"half", {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}},
    {"bytes", {0, 0, 0}, {1 / 255.0, 1 / 255.0, 1 / 255.0}},
};
enum { PRESETS = sizeof presets / sizeof *presets };

/* Parses one number or three, separated by commas, up to the byte `end`; returns what follows it,
 * NULL for anything else. */
static const char *read_numbers(const char *text, char end, double out[3])
{
    for (int count = 0; count < 3; text++) {
        char *after = NULL;
        if (!strspn(text, "0123456789.+-"))
            return NULL;
        out[count++] = strtod(text, &after);
        text = after;
        if (*text == end && count != 2) {
            if (count == 1)
                out[1] = out[2] = out[0];
            return end ? text + 1 : text;
        }
        if (*text != ',')
            return NULL;
    }
    return NULL;
}

static struct xt_normalise of_bytes(const double mean[3], const double deviation[3], bool bgr)
{
    struct xt_normalise out;
    for (int k = 0; k < 3; k++) {
        int from = bgr ? 2 - k : k;
        out.mean[k] = (float)(255 * mean[from]);
        out.scale[k] = (float)(1 / (255 * deviation[from]));
    }
    return out;
}

static bool are_within(const double numbers[3], double least, double most)
{
    for (int k = 0; k < 3; k++)
        if (!(numbers[k] >= least && numbers[k] <= most))
            return false;
    return true;
}

enum xt_status xt_normalise_parse(struct xt_normalise *out, const char *text, bool bgr,
                                  struct xt_err *err)
{
    double mean[3];
    double deviation[3];
    for (int i = 0; i < PRESETS; i++)
        if (strcmp(text, presets[i].name) == 0) {
            *out = of_bytes(presets[i].mean, presets[i].deviation, bgr);
            return XT_OK;
        }
    const char *rest = read_numbers(text, '/', mean);
    if (!rest || !read_numbers(rest, '\0', deviation) || !are_within(mean, 0, 1) ||
        !are_within(deviation, 0.001, 1))
        return xt_err_set(
            err, XT_ERR_USAGE,
            "--normalize takes imagenet, half, bytes, or MEAN/STD of values from 0 to 1, "
            "such as 0.5/0.25 or 0.485,0.456,0.406/0.229,0.224,0.225, not \"%.60s\"",
            text);
    *out = of_bytes(mean, deviation, bgr);
    return XT_OK;
}

static bool are_same(const struct xt_normalise *a, const struct xt_normalise *b)
{
    for (int k = 0; k < 3; k++)
        if (a->mean[k] != b->mean[k] || a->scale[k] != b->scale[k])
            return false;
    return true;
}

/* "1,2,3", or "1" where all are equal. */
static int print_numbers(const double numbers[3], char *out, size_t size)
{
    if (numbers[0] == numbers[1] && numbers[0] == numbers[2])
        return snprintf(out, size, "%.9g", numbers[0]);
    return snprintf(out, size, "%.9g,%.9g,%.9g", numbers[0], numbers[1], numbers[2]);
}

void xt_normalise_print(const struct xt_normalise *normalise, bool bgr, char out[XT_NORMALISE_TEXT])
{
    double mean[3];
    double deviation[3];
    for (int i = 0; i < PRESETS; i++) {
        struct xt_normalise preset = of_bytes(presets[i].mean, presets[i].deviation, bgr);
        if (are_same(&preset, normalise)) {
            snprintf(out, XT_NORMALISE_TEXT, "%s", presets[i].name);
            return;
        }
    }
    for (int k = 0; k < 3; k++) {
        int from = bgr ? 2 - k : k;
        mean[k] = (double)normalise->mean[from] / 255;
        deviation[k] = 1 / (255 * (double)normalise->scale[from]);
    }
    int length = print_numbers(mean, out, XT_NORMALISE_TEXT);
    out[length++] = '/';
    print_numbers(deviation, out + length, XT_NORMALISE_TEXT - (size_t)length);
}

enum xt_status xt_normalise_from_meta(struct xt_normalise *out, const char *mean, const char *scale,
                                      const char *where, struct xt_err *err)
{
    double means[3];
    double scales[3];
    if (!read_numbers(mean, '\0', means) || !read_numbers(scale, '\0', scales) ||
        !are_within(means, 0, 255) || !are_within(scales, 1e-4, 10))
        return xt_err_set(err, XT_ERR_DATA,
                          "%s: its metadata has mean \"%.40s\" and scale \"%.40s\" of pixels, "
                          "which are invalid; give them with --normalize",
                          where, mean, scale);
    for (int k = 0; k < 3; k++) {
        out->mean[k] = (float)means[k];
        out->scale[k] = (float)scales[k];
    }
    return XT_OK;
}

void xt_normalise_to_meta(const float numbers[3], char out[XT_NORMALISE_TEXT])
{
    const double wide[] = {(double)numbers[0], (double)numbers[1], (double)numbers[2]};
    print_numbers(wide, out, XT_NORMALISE_TEXT);
}
