/* Pictures on standard input, answered as they come: paths, encoded images, or raw frames.
 *
 *   paths    a line each, also with a region behind it: path x y width height, or path and the four
 *            corners' x and y; a line that is a file's name as it stands is only that, and where
 *            there is a tab the path ends at the first
 *   images   the length in four bytes, the highest first, then a JPEG, PNG or WebP of that length
 *   frames   width * height * 3 bytes each, red, green, blue, nothing between
 */
#ifndef XT_CLI_SERVE_STREAM_H
#define XT_CLI_SERVE_STREAM_H

#include "base/err.h"
#include "cli/serve/ordered.h"
#include "cli/settings.h"

/* Sends what comes and prints the answers, each as soon as it and those before it are there, until
 * the input ends; answers may still be under way then. A signal ends it with XT_INTERRUPTED or
 * XT_STOPPED. width, height: of raw frames. */
enum xt_status xt_stream_run(struct xt_ordered *ordered, enum xt_stdin_kind kind, int width,
                             int height, struct xt_err *err);

#endif
