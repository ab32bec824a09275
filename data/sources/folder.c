/* A folder of images: for plates a tree whose file names are the labels; for classes one folder per
 * class.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/sources/index/files.h"
#include "data/sources/index/index_tree.h"
#include "data/sources/registry.h"

/* Whether the file's parent folder is one that the form skips. */
static bool is_left_out(const struct xt_source_files *set, const char *path)
{
    const char *folder = set->form ? set->form->skipped : NULL;
    size_t length = folder ? strlen(folder) : 0;
    const char *name = xt_file_name(path);
    return folder && (size_t)(name - path) > length && name[-1] == '/' &&
           memcmp(name - 1 - length, folder, length) == 0;
}

enum { NAMED = 50 }; /* of the other files, with --verbose */

static void count_other(struct xt_source_files *set, const char *path)
{
    const char *ending = strrchr(path, '.');
    if (set->others++ < NAMED)
        xt_log_detail("%s is ignored: it is not an image that can be read", path);
    if (ending && xt_image_is_unread_ending(ending) && set->unread++ == 0)
        snprintf(set->unread_ending, sizeof set->unread_ending, "%s", ending);
}

/* Moves the images of `count` paths into the set, with class `class` unless that is negative. */
static enum xt_status add_images(struct xt_source_files *set, char **paths, size_t count, int class,
                                 struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; !status && i < count; i++) {
        if (!xt_image_is_name(paths[i]) || is_left_out(set, paths[i])) {
            count_other(set, paths[i]);
            continue;
        }
        char *path = paths[i];
        paths[i] = NULL;
        status = class < 0 ? xt_source_files_add_named(set, path, err)
                           : xt_source_files_add_class(set, path, class, err);
    }
    return status;
}

enum xt_status xt_source_files_finish_tree(struct xt_source_files *set, const char *folder,
                                           struct xt_err *err)
{
    enum xt_status status = xt_source_files_finish(set, folder, err);
    if (status || set->base.count)
        return status;
    if (set->others)
        return xt_err_set(err, XT_ERR_DATA,
                          "no image in %s: none of its %s ends in .jpg, .jpeg, .png or .webp%s%s",
                          folder, xt_count((long long)set->others, "file").text,
                          set->unread ? "; convert to JPEG or PNG what ends in " : "",
                          set->unread_ending);
    return xt_err_set(err, XT_ERR_DATA, "there is no image in %s: the folder is empty", folder);
}

static void describe(struct xt_source_files *set, const char *folder)
{
    struct xt_source *source = &set->base;
    char classes[32] = "";
    if (source->class_count)
        snprintf(classes, sizeof classes, " of %d classes", source->class_count);
    snprintf(source->description, sizeof source->description, "%s%s in %.150s",
             xt_count((long long)source->count, "image").text, classes, folder);
    xt_source_files_describe_others(set);
}

/* The path relative to the tree's first folder; empty for that folder itself. */
static const char *below(const struct xt_file_tree *tree, const char *path)
{
    path += strlen(tree->folders[0].path);
    return *path == '/' ? path + 1 : path;
}

/* The folders directly below the tree's root: the classes. *list borrows their paths. */
static enum xt_status list_classes(struct xt_file_list *list, const struct xt_file_tree *tree,
                                   struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 1; i < tree->folder_count && !status; i++) {
        char *path = tree->folders[i].path;
        if (strchr(below(tree, path), '/'))
            continue;
        status =
            xt_mem_add(&list->paths, list->count, sizeof *list->paths, "a list of folders", err);
        if (!status)
            list->paths[list->count++] = path;
    }
    return status;
}

/* If links make two classes share a folder, one of them would lack images. */
static enum xt_status check_again(const struct xt_file_tree *tree, struct xt_err *err)
{
    for (size_t i = 0; i < tree->repeat_count; i++) {
        const struct xt_file_repeat *repeat = &tree->repeats[i];
        const char *one = below(tree, repeat->path);
        const char *other = below(tree, repeat->entered_as);
        int size = (int)strcspn(one, "/");
        int other_size = (int)strcspn(other, "/");
        /* A link back to the root belongs to no class. */
        if (other_size && (size != other_size || strncmp(one, other, (size_t)size) != 0))
            return xt_err_set(err, XT_ERR_DATA,
                              "%s is the folder %s: its images would be of the classes %.*s and "
                              "%.*s; move the link out of the set",
                              repeat->path, repeat->entered_as, size, one, other_size, other);
    }
    return XT_OK;
}

static int compare_beginnings(const char *path, const char *folder, size_t length)
{
    int order = strncmp(path, folder, length);
    unsigned char next = order ? '/' : (unsigned char)path[length];
    return order ? order : (next > '/') - (next < '/');
}

/* The first of the sorted paths that is in the folder, or sorts after it. */
static size_t first_within(const struct xt_file_list *files, const char *folder, bool behind)
{
    size_t length = strlen(folder);
    size_t first = 0;
    size_t end = files->count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (compare_beginnings(files->paths[middle], folder, length) < (behind ? 1 : 0))
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* Whether the folders are the parts of a data set, and not classes. */
static bool are_parts(const struct xt_file_list *folders)
{
    static const char *const parts[] = {"train", "test", "val", "valid", "validation"};
    size_t found = 0;
    for (size_t i = 0; i < folders->count; i++)
        for (size_t p = 0; p < sizeof parts / sizeof parts[0]; p++)
            found += strcasecmp(xt_file_name(folders->paths[i]), parts[p]) == 0;
    return found && found == folders->count;
}

/* A class's folder, and its files in the tree. */
struct class_files {
    const char *folder;
    size_t first;
    size_t end;
};

static enum xt_status add_class(struct xt_source_files *set, char **paths,
                                const struct class_files *files, struct xt_err *err)
{
    const char *name = xt_file_name(files->folder);
    int class = 0;
    size_t before = set->base.count;
    enum xt_status status = xt_classes_add(&set->classes, name, strlen(name), &class, err);
    if (status)
        return xt_err_prefix(err, "%s: ", files->folder);
    status = add_images(set, paths + files->first, files->end - files->first, class, err);
    if (!status && set->base.count == before && !set->options.labels_optional)
        status = xt_err_set(err, XT_ERR_DATA,
                            "the class folder %s holds no image (.jpg, .jpeg, .png, .webp); put "
                            "images there, or give a list of the others (path, tab, class)",
                            files->folder);
    return status;
}

static enum xt_status no_class_folders(const char *folder, struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_DATA,
                      "there are no class folders in %s: images of a class lie in a folder of the "
                      "class's name; or give a list file (path, tab, class)",
                      folder);
}

static enum xt_status add_classes_of(struct xt_source_files *set, const struct xt_file_tree *tree,
                                     const struct xt_file_list *classes, const char *folder,
                                     struct xt_err *err)
{
    if (classes->count == 0)
        return no_class_folders(folder, err);
    if (are_parts(classes))
        return xt_err_set(err, XT_ERR_DATA,
                          "%s holds the parts of a data set, not classes; give %s as one, and the "
                          "others separately",
                          folder, classes->paths[classes->count - 1]);
    struct class_files *files = NULL;
    enum xt_status status =
        xt_mem_calloc(&files, classes->count, sizeof *files, "a list of classes", err);
    for (size_t i = 0; i < classes->count && !status; i++)
        files[i] = (struct class_files){
            .folder = classes->paths[i],
            .first = first_within(&tree->files, classes->paths[i], false),
            .end = first_within(&tree->files, classes->paths[i], true),
        };
    for (size_t i = 0; i < classes->count && !status; i++)
        status = add_class(set, tree->files.paths, &files[i], err);
    free(files);
    return status;
}

static enum xt_status add_classes(struct xt_source_files *set, const char *folder,
                                  struct xt_err *err)
{
    struct xt_file_tree tree = {0};
    struct xt_file_list classes = {0};
    enum xt_status status = xt_index_tree(&tree, folder, err);
    if (!status)
        status = check_again(&tree, err);
    if (!status)
        status = list_classes(&classes, &tree, err);
    if (!status)
        status = add_classes_of(set, &tree, &classes, folder, err);
    free(classes.paths);
    xt_file_tree_clear(&tree);
    return status;
}

/* Without labels (predict) a folder of classes is an ordinary tree of images. */
enum xt_status xt_source_files_add_tree(struct xt_source_files *set, const char *folder,
                                        struct xt_err *err)
{
    struct xt_file_tree tree = {0};
    enum xt_status status = xt_index_tree(&tree, folder, err);
    if (!status)
        status = add_images(set, tree.files.paths, tree.files.count, -1, err);
    if (!status && tree.repeat_count)
        xt_log_detail("%s: links lead to its folders more than once, %zu times (%s is %s): each "
                      "folder's images are used once",
                      folder, tree.repeat_count, tree.repeats[0].path, tree.repeats[0].entered_as);
    xt_file_tree_clear(&tree);
    return status;
}

static bool is(const char *path, mode_t mode, enum xt_task task)
{
    (void)path;
    (void)task;
    return S_ISDIR(mode);
}

static enum xt_status fill(struct xt_source_files *set, const char *folder, struct xt_err *err)
{
    bool classes = set->options.task == XT_TASK_CLASSES && !set->options.labels_optional;
    enum xt_status status =
        classes ? add_classes(set, folder, err) : xt_source_files_add_tree(set, folder, err);
    if (!status)
        status = xt_source_files_finish_tree(set, folder, err);
    if (!status)
        describe(set, folder);
    return status;
}

const struct xt_source_kind xt_source_folder = {.is = is, .fill = fill};
