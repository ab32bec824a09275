/* Samples that are image files with a label each: the common part of folders and lists. Used only
 * by the sources.
 *
 * A caller creates the set, adds files, and finishes it; an invalid label is counted, not returned
 * at once, so that the error can say how many there are.
 */
#pragma once

#include "data/classes.h"
#include "data/cached_files.h"

struct xt_source_files;

/* Samples other than whole picture files labelled by their names: CCPD's, and those in tars. A
 * member that is NULL is as for picture files. */
struct xt_source_form {
    /* Parses the label in a file's name; XT_ERR_DATA says what is wrong with it. */
    enum xt_status (*label)(const char *name, char *label, size_t size, struct xt_err *err);
    /* The image's bytes, if they are not a file of their own. */
    enum xt_status (*bytes)(const struct xt_source_files *set, size_t index,
                            struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                            struct xt_err *err);
    /* Makes the sample's image from the stored one, if they differ. */
    enum xt_status (*load)(const struct xt_source_files *set, size_t index,
                           struct xt_decoder *decoder, struct xt_image *image, struct xt_err *err);
    uint64_t (*stamp)(const struct xt_source_files *set, size_t index);
    void (*clear)(struct xt_source_files *set); /* its `extra` */
    const char *skipped;                        /* a folder to skip */
};

struct xt_source_file {
    char *path;
    size_t label; /* its offset in `labels` */
    int label_length;
};

struct xt_source_files {
    struct xt_source base;
    struct xt_source_options options;
    const struct xt_source_form *form; /* NULL: picture files */
    void *extra;                       /* the form's own */
    struct xt_source_file *files;      /* base.count of them */
    struct xt_cached_files *cached;    /* NULL: not cached */
    uint16_t *labels;                  /* all labels, concatenated */
    size_t label_count;
    size_t label_capacity;
    struct xt_classes classes; /* only while the set is being filled */
    size_t others;             /* files that are not samples */
    size_t unread;             /* of them, pictures of formats that are not read, by their names */
    char unread_ending[8];     /* of the first */
    bool labels_named;         /* by the names of files in a folder */
    size_t refused;
    struct xt_err first_refused;
};

enum xt_status xt_source_files_create(struct xt_source_files **out,
                                      const struct xt_source_options *options, struct xt_err *err);
/* Creates a set, fills it from `spec`, finishes and describes it. */
enum xt_status xt_source_files_open(struct xt_source **out,
                                    enum xt_status (*fill)(struct xt_source_files *set,
                                                           const char *spec, struct xt_err *err),
                                    const char *spec, const struct xt_source_options *options,
                                    struct xt_err *err);
/* Adds the number of files that are not samples to the description, if there are any. */
void xt_source_files_describe_others(struct xt_source_files *set);
/* Adds a file; the set takes over `path`, also after a failure. `where` is for messages: the path,
 * or the list and its line. */
enum xt_status xt_source_files_add(struct xt_source_files *set, char *path, const char *label,
                                   size_t label_size, const char *where, struct xt_err *err);
/* Counts the entry at `where` as invalid for another reason. */
void xt_source_files_refuse(struct xt_source_files *set, const char *where, const char *why);
/* Finishes the set: returns the error for the entries refused so far; numbers classes in order and
 * names them. `where` is the set's name in messages. */
enum xt_status xt_source_files_finish(struct xt_source_files *set, const char *where,
                                      struct xt_err *err);
/* Adds a file of a class that is already in `classes`; the set takes over `path`, also after a
 * failure. A negative class means no label. */
enum xt_status xt_source_files_add_class(struct xt_source_files *set, char *path, int class,
                                         struct xt_err *err);
/* Adds a list's lines; `folder` is the base of relative paths, `name` the list's in messages. */
enum xt_status xt_source_files_parse(struct xt_source_files *set, const char *text, size_t size,
                                     const char *folder, const char *name, struct xt_err *err);
/* Adds the lines of the list at `path`; `folder` is the base of relative paths (NULL: the list's
 * own). */
enum xt_status xt_source_files_add_list(struct xt_source_files *set, const char *path,
                                        const char *folder, struct xt_err *err);
/* Adds the images of a tree. */
enum xt_status xt_source_files_add_tree(struct xt_source_files *set, const char *folder,
                                        struct xt_err *err);
/* Finishes the set of a tree: an empty one is an error. */
enum xt_status xt_source_files_finish_tree(struct xt_source_files *set, const char *folder,
                                           struct xt_err *err);
/* Adds one file, labelled by its name. */
enum xt_status xt_source_files_add_named(struct xt_source_files *set, char *path,
                                         struct xt_err *err);
