/* Some of another source's samples, spread evenly over it: the first check of a data set looks at
 * few. */
#ifndef XT_DATA_SOURCES_PART_H
#define XT_DATA_SOURCES_PART_H

#include <stdbool.h>

#include "data/sources/source.h"

/* `count` of the samples of `whole`, 1 to whole->count of them; sample i is whole's
 * i * whole->count / count. `whole` outlives it, or is its to destroy where it `owns` it, also
 * after a failure. */
enum xt_status xt_source_part(struct xt_source **out, struct xt_source *whole, bool owns,
                              size_t count, struct xt_err *err);

#endif
