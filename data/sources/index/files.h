/* Samples that are image files with a label each: what a folder and a list have in common. Only the
 * sources use it.
 *
 * A caller creates the set, adds files, and finishes it; a label that cannot be used is counted,
 * not returned at once, so that the error can say how many there are.
 */
#ifndef XT_DATA_SOURCES_INDEX_FILES_H
#define XT_DATA_SOURCES_INDEX_FILES_H

#include "data/classes.h"
#include "data/cached_files.h"

struct xt_source_files;

/* Samples that are not whole picture files with the label at the start of their names: CCPD's, and
 * those in tars. What is NULL is as for picture files. */
struct xt_source_form {
    /* Reads the label off a file's name; XT_ERR_DATA says what is wrong with it. */
    enum xt_status (*label)(const char *name, char *label, size_t size, struct xt_err *err);
    /* The image's bytes, where they are no file of their own. */
    enum xt_status (*bytes)(const struct xt_source_files *set, size_t index,
                            struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                            struct xt_err *err);
    /* Makes the sample's whole image, where it is not all that is stored. */
    enum xt_status (*load)(const struct xt_source_files *set, size_t index,
                           struct xt_decoder *decoder, struct xt_image *image, struct xt_err *err);
    uint64_t (*stamp)(const struct xt_source_files *set, size_t index);
    void (*clear)(struct xt_source_files *set); /* its `extra` */
    const char *leave_out;                      /* a folder whose files are no samples */
};

struct xt_source_file {
    char *path;
    size_t label; /* where it begins in `labels` */
    int label_length;
};

struct xt_source_files {
    struct xt_source base;
    struct xt_source_options options;
    const struct xt_source_form *form; /* NULL: picture files */
    void *extra;                       /* the form's own */
    struct xt_source_file *files;      /* base.count of them */
    struct xt_cached_files *kept;      /* NULL: they are read each time */
    size_t capacity;
    uint16_t *labels; /* all labels, one after the other */
    size_t label_count;
    size_t label_capacity;
    struct xt_classes classes; /* while the set is being filled */
    size_t others;             /* files that are no samples */
    size_t refused;
    struct xt_err first_refused;
};

enum xt_status xt_source_files_create(struct xt_source_files **out,
                                      const struct xt_source_options *options, struct xt_err *err);
/* Creates a set and has it filled from `spec`, finished and described. */
enum xt_status xt_source_files_open(struct xt_source **out,
                                    enum xt_status (*fill)(struct xt_source_files *set,
                                                           const char *spec, struct xt_err *err),
                                    const char *spec, const struct xt_source_options *options,
                                    struct xt_err *err);
/* Adds to the description how many files are no samples, where there are any. */
void xt_source_files_describe_others(struct xt_source_files *set);
/* Adds a file; `path` is the set's from here on, also after a failure. `where` names the place in
 * messages: the path, or the list and its line. */
enum xt_status xt_source_files_add(struct xt_source_files *set, char *path, const char *label,
                                   size_t label_size, const char *where, struct xt_err *err);
/* Counts the entry at `where`, which is wrong in another way. */
void xt_source_files_refuse(struct xt_source_files *set, const char *where, const char *why);
/* Ends the set: the error for the entries refused so far; for classes, numbers them in order and
 * names them. `where` is the set's in messages. */
enum xt_status xt_source_files_finish(struct xt_source_files *set, const char *where,
                                      struct xt_err *err);
/* Adds a file of a class that was added to `classes`; `path` is the set's from here on, also after
 * a failure. A negative class leaves it without a label. */
enum xt_status xt_source_files_add_class(struct xt_source_files *set, char *path, int class,
                                         struct xt_err *err);
/* Adds a list's lines; `folder` is where relative paths start, `name` the list's in messages. */
enum xt_status xt_source_files_parse(struct xt_source_files *set, const char *text, size_t size,
                                     const char *folder, const char *name, struct xt_err *err);
/* Adds the lines of the list at `path`; relative paths start at `folder` (NULL: the list's own). */
enum xt_status xt_source_files_add_list(struct xt_source_files *set, const char *path,
                                        const char *folder, struct xt_err *err);
/* Adds the images of a tree. */
enum xt_status xt_source_files_add_tree(struct xt_source_files *set, const char *folder,
                                        struct xt_err *err);
/* Ends the set of a tree: also without images it is an error. */
enum xt_status xt_source_files_finish_tree(struct xt_source_files *set, const char *folder,
                                           struct xt_err *err);
/* Adds one file, its label read off its name. */
enum xt_status xt_source_files_add_named(struct xt_source_files *set, char *path,
                                         struct xt_err *err);

#endif
