/* Normalisation of pixels as text: for --normalize and for the metadata of weights.
 *
 * Text is always in RGB order, as in the papers; a struct xt_normalise (graph.h) is in the order
 * that the network reads, given by `bgr`. Thread-safe.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "engine/graph.h"

enum { XT_NORMALISE_TEXT = 128 };

/* "imagenet" (as torchvision's weights), "half" (mean and deviation 0.5), "bytes" (from 0 to 255,
 * as they are), or MEAN/STD of values from 0 to 1, one number for all channels or three: (v / 255 -
 * MEAN) / STD. XT_ERR_USAGE names --normalize. */
enum xt_status xt_normalise_parse(struct xt_normalise *out, const char *text, bool bgr,
                                  struct xt_err *err);
/* The reverse: a name where there is one. */
void xt_normalise_print(const struct xt_normalise *normalise, bool bgr,
                        char out[XT_NORMALISE_TEXT]);

/* From metadata: in units of bytes and the network's channel order, one number or three. */
enum xt_status xt_normalise_from_meta(struct xt_normalise *out, const char *mean, const char *scale,
                                      const char *where, struct xt_err *err);
/* The reverse, for normalise->mean or normalise->scale. */
void xt_normalise_to_meta(const float numbers[3], char out[XT_NORMALISE_TEXT]);
