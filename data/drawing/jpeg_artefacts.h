/* JPEG artefacts for a small image: it is encoded by libjpeg-turbo with halved chroma, and decoded,
 * by the accurate integer transform and the simple upsampling, which give the same pixels with
 * every version of the library, with its vector code and without. Thread-safe.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Changes RGB pixels ([height][width][3]) in place; quality is 1 to 100. */
enum xt_status xt_synth_jpeg(uint8_t *pixels, int width, int height, int quality,
                             struct xt_err *err);
