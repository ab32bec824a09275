/* What JPEG does to a small image: colours to YCbCr with halved chroma, 8x8 cosine transform,
 * quantisation by the standard's example tables (ITU-T T.81, annex K) scaled as the IJG's library
 * scales them, and back. No bytes are coded, so it costs a fraction of a round trip through a
 * library, allocates nothing, and gives the same pixels with every version of one.
 *
 * Integer arithmetic only. Thread-safe.
 */
#ifndef XT_DATA_DRAWING_JPEG_ARTEFACTS_H
#define XT_DATA_DRAWING_JPEG_ARTEFACTS_H

#include <stdint.h>

/* Changes RGB pixels ([height][width][3]) in place; quality is 1 to 100. */
void xt_synth_jpeg(uint8_t *pixels, int width, int height, int quality);

#endif
