/* Reads the Exif data of a JPEG, a PNG (eXIf) or a WebP (EXIF) through libexif. Thread-safe.
 */
#pragma once

#include "data/image/orientation.h"

/* Zeroed if there is none, or none that is valid. */
struct xt_orientation xt_exif_orientation(const uint8_t *bytes, size_t size);
