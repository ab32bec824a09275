/* A subset of another source's samples, evenly spaced: for the first check of a data set, which
 * reads few. */
#ifndef XT_DATA_SOURCES_PART_H
#define XT_DATA_SOURCES_PART_H

#include <stdbool.h>

#include "data/sources/source.h"

/* `count` of the samples of `whole`, 1 to whole->count of them; sample i is whole's i *
 * whole->count / count. `whole` must outlive it, unless it `owns` it and destroys it, also after a
 * failure. */
enum xt_status xt_source_part(struct xt_source **out, struct xt_source *whole, bool owns,
                              size_t count, struct xt_err *err);

#endif
