/* The kinds of sources, and which of them opens what --data and --val name.
 *
 * A new kind is one file that defines a `struct xt_source_kind`, its name below, and its line in
 * the table of registry.c. All constant.
 */
#pragma once

#include <sys/types.h>

#include "data/sources/source.h"

struct xt_source_files;
struct xt_source_kind {
    /* The prefix, "ccpd:", or the whole name but the settings, "synth:plates"; NULL if it is
     * recognised by `is`. */
    const char *prefix;
    /* Whether the path names one: `mode` is its file mode, 0 if it does not exist. */
    bool (*is)(const char *path, mode_t mode, enum xt_task task);
    /* Adds the image files that are named by what follows the prefix (index/files.h). */
    enum xt_status (*fill)(struct xt_source_files *set, const char *spec, struct xt_err *err);
    /* Kinds without it: opens what follows the prefix. */
    enum xt_status (*open)(struct xt_source **out, const char *spec,
                           const struct xt_source_options *options, struct xt_err *err);
};

/* Those in the table. */
extern const struct xt_source_kind xt_source_plates;
extern const struct xt_source_kind xt_source_shapes;
extern const struct xt_source_kind xt_source_ccpd;
extern const struct xt_source_kind xt_source_cifar;
extern const struct xt_source_kind xt_source_tar;
extern const struct xt_source_kind xt_source_folder;
extern const struct xt_source_kind xt_source_mix;
extern const struct xt_source_kind xt_source_single;
extern const struct xt_source_kind xt_source_list;

/* Between the names of several sets that are joined to one: --data A --data B is "A\nB". */
#define XT_SPEC_AND "\n"

/* The names for messages: "A, B". */
struct xt_specs_shown {
    char text[256];
};
struct xt_specs_shown xt_source_specs_shown(const char *specs);

/* Several sets as one: their samples in their order, classes matched by name. All are of the same
 * task, and none is a mixture. */
enum xt_status xt_source_open_joined(struct xt_source **out, const char *specs,
                                     const struct xt_source_options *options, struct xt_err *err);

/* Opens the named set, or several. Every label is checked here; the first error names file and
 * reason, and how many more there are. Labels that look like plates where classes are wanted, or
 * like classes, get a hint: in the error, or as a warning. Destroy with xt_source_destroy. */
enum xt_status xt_source_open(struct xt_source **out, const char *spec,
                              const struct xt_source_options *options, struct xt_err *err);

/* The task of a set if the user did not name it: classes if it opens as such and the labels do not
 * look like plates. */
enum xt_task xt_source_guess_task(const char *spec, const struct xt_alphabet *alphabet);

/* Resolves `spec`, written in the file at `path`: a relative path starts at that file's folder. Of
 * several sets each is resolved.
 * Into *out (release with free). */
enum xt_status xt_source_spec_from(char **out, const char *path, const char *spec,
                                   struct xt_err *err);
/* The error for a name that does not exist: with the nearest one that does. */
enum xt_status xt_source_not_found(const char *spec, int error, struct xt_err *err);
