/* Reads the Exif data of a JPEG, a PNG (eXIf) or a WebP (EXIF) through libexif. Thread-safe.
 */
#ifndef XT_DATA_IMAGE_EXIF_H
#define XT_DATA_IMAGE_EXIF_H

#include "data/image/orientation.h"

/* Zeroed if there is none, or none that is valid. */
struct xt_orientation xt_exif_orientation(const uint8_t *bytes, size_t size);

#endif
