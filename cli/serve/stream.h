/* Images on standard input, answered as they arrive: paths, encoded images, or raw frames.
 *
 *   paths    one per line, optionally followed by a region: path x y width height, or path and the
 *            four corners' x and y; a line that is an existing file's name as a whole is only that,
 *            and if there is a tab the path ends at the first
 *   images   the length as four bytes, big-endian, then a JPEG, PNG or WebP of that length
 *   frames   width * height * 3 bytes each, red, green, blue, without separators
 */
#pragma once

#include "base/err.h"
#include "cli/serve/ordered.h"
#include "cli/settings.h"

/* Sends the input and prints the predictions, in order and as soon as they are ready, until the
 * input ends; predictions may still be pending then. A signal stops it with XT_INTERRUPTED or
 * XT_STOPPED. width, height: of raw frames. */
enum xt_status xt_stream_run(struct xt_ordered *ordered, enum xt_stdin_kind kind, int width,
                             int height, struct xt_err *err);
