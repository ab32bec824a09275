/* The table of class names and numbers while a data set is being opened. Used only by the sources.
 * A zeroed table is empty.
 */
#pragma once

#include "data/sources/source.h"

struct xt_classes {
    char **names;
    int count;
    int *buckets; /* open addressing by hash: number + 1, or 0 */
    size_t bucket_count;
    bool fixed; /* given by the options: a new name is refused */
};

/* Starts with the classes of the options. */
enum xt_status xt_classes_init(struct xt_classes *classes, const struct xt_source_options *options,
                               struct xt_err *err);
void xt_classes_clear(struct xt_classes *classes);

/* The number of a name, added if new. XT_ERR_DATA if classes are fixed and it is not among them, if
 * there are too many, or if the name cannot be stored in weights and lists: it must be UTF-8
 * without control characters and not too long. */
enum xt_status xt_classes_add(struct xt_classes *classes, const char *name, size_t size, int *index,
                              struct xt_err *err);
/* Sorts the classes, unless they are fixed: by number if all names are numbers (then every number
 * from 0 is a class), else by bytes. (*map)[old number] is the new one; release with free. */
enum xt_status xt_classes_sort(struct xt_classes *classes, int **map, struct xt_err *err);
/* Moves the names to the source; fewer than two are an error that names `where`, unless they are
 * fixed. */
enum xt_status xt_classes_move(struct xt_classes *classes, struct xt_source *source,
                               const char *where, struct xt_err *err);
/* Releases the names of a source. */
void xt_classes_free_names(struct xt_source *source);
