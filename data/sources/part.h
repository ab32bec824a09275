/* A subset of another source's samples: evenly spaced, for the first check of a data set, which
 * reads few; or those held out for evaluation, and the others. */
#pragma once

#include <stdbool.h>

#include "data/sources/source.h"

/* `count` of the samples of `whole`, 1 to whole->count of them; sample i is whole's i *
 * whole->count / count. `whole` must outlive it, unless it `owns` it and destroys it, also after a
 * failure. */
enum xt_status xt_source_part(struct xt_source **out, struct xt_source *whole, bool owns,
                              size_t count, struct xt_err *err);

/* Whether a sample is held out where `share` of them, 0 to 1, is: by `seed`, and the same for all
 * plates with one label, so that no plate is in both parts. */
enum xt_status xt_source_holds_out(const struct xt_source *whole, size_t index, double share,
                                   uint64_t seed, bool *out, struct xt_err *err);
/* The samples that are not held out and those that are; XT_ERR_USAGE where one part is empty.
 * *training owns `whole`, also after a failure; *held must not outlive it. */
enum xt_status xt_source_hold_out(struct xt_source *whole, double share, uint64_t seed,
                                  struct xt_source **training, struct xt_source **held,
                                  struct xt_err *err);
