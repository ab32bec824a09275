/* A folder of images: for plates a tree whose file names are the labels; for classes a folder each.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/source_files.h"

static bool is_image_name(const char *path)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png"};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t size = strlen(endings[i]);
        if (length > size && strcasecmp(path + length - size, endings[i]) == 0)
            return true;
    }
    return false;
}

/* Whether the folder right above the file is one that the form leaves out. */
static bool is_left_out(const struct xt_source_files *set, const char *path)
{
    const char *folder = set->form ? set->form->leave_out : NULL;
    size_t length = folder ? strlen(folder) : 0;
    const char *name = xt_file_name(path);
    return folder && (size_t)(name - path) > length && name[-1] == '/' &&
           memcmp(name - 1 - length, folder, length) == 0;
}

/* Moves the images of the list into the set, of class `class` where that is not negative; *others
 * counts the files that are something else. */
static enum xt_status add_images(struct xt_source_files *set, struct xt_file_list *list, int class,
                                 size_t *others, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; !status && i < list->count; i++) {
        if (!is_image_name(list->paths[i]) || is_left_out(set, list->paths[i])) {
            ++*others;
            continue;
        }
        char *path = list->paths[i];
        list->paths[i] = NULL;
        status = class < 0 ? xt_source_files_add_named(set, path, err)
                           : xt_source_files_add_class(set, path, class, err);
    }
    return status;
}

enum xt_status xt_source_files_no_images(const char *folder, size_t others, struct xt_err *err)
{
    if (others)
        return xt_err_set(err, XT_ERR_DATA,
                          "there is no image in %s: none of its %zu files ends in .jpg, .jpeg or "
                          ".png",
                          folder, others);
    return xt_err_set(err, XT_ERR_DATA, "there is no image in %s: the folder is empty", folder);
}

static void describe(struct xt_source *source, const char *folder, size_t others)
{
    char classes[32] = "";
    if (source->class_count)
        snprintf(classes, sizeof classes, " of %d classes", source->class_count);
    char ignored[64] = "";
    if (others)
        snprintf(ignored, sizeof ignored, " (%zu other file%s ignored)", others,
                 others == 1 ? "" : "s");
    snprintf(source->description, sizeof source->description, "%zu image%s%s in %.150s%s",
             source->count, source->count == 1 ? "" : "s", classes, folder, ignored);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes over `path`. */
static enum xt_status add_path(struct xt_file_list *list, char *path, struct xt_err *err)
{
    enum xt_status status = xt_mem_grow(&list->paths, &list->capacity, list->count + 1,
                                        sizeof *list->paths, "a list of folders", err);
    if (status)
        free(path);
    else
        list->paths[list->count++] = path;
    return status;
}

/* The folders right under `folder`, sorted by name: the classes. */
static enum xt_status list_folders(struct xt_file_list *list, const char *folder,
                                   struct xt_err *err)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return xt_err_set(err, XT_ERR_DATA, "cannot read the folder %s: %s", folder,
                          strerror(errno));
    enum xt_status status = XT_OK;
    for (struct dirent *entry; !status && (entry = readdir(dir));) {
        char *path = NULL;
        if (entry->d_name[0] == '.')
            continue;
        status = xt_file_join(&path, folder, entry->d_name, err);
        if (!status && xt_file_is_folder(path))
            status = add_path(list, path, err);
        else
            free(path);
    }
    closedir(dir);
    if (list->count)
        qsort(list->paths, list->count, sizeof *list->paths, compare_names);
    return status;
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

static enum xt_status add_class(struct xt_source_files *set, const char *path, size_t *others,
                                struct xt_err *err)
{
    const char *name = xt_file_name(path);
    struct xt_file_list list = {0};
    int class = 0;
    size_t before = set->base.count;
    enum xt_status status = xt_classes_add(&set->classes, name, strlen(name), &class, err);
    if (status)
        return xt_err_prefix(err, "%s: ", path);
    status = xt_file_list_tree(&list, path, err);
    if (!status)
        status = add_images(set, &list, class, others, err);
    xt_file_list_clear(&list);
    if (!status && set->base.count == before && !set->options.labels_optional)
        status = xt_err_set(err, XT_ERR_DATA,
                            "the class folder %s holds no image (.jpg, .jpeg, .png); remove it or "
                            "put images there",
                            path);
    return status;
}

static enum xt_status no_class_folders(const char *folder, struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_DATA,
                      "there are no class folders in %s: images of a class lie in a folder of the "
                      "class's name; or give a list file (path, tab, class)",
                      folder);
}

static enum xt_status add_classes(struct xt_source_files *set, const char *folder, size_t *others,
                                  struct xt_err *err)
{
    struct xt_file_list folders = {0};
    enum xt_status status = list_folders(&folders, folder, err);
    if (!status && folders.count == 0)
        status = no_class_folders(folder, err);
    if (!status && are_parts(&folders))
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s holds the parts of a data set, not classes; give %s as one, and "
                            "the others apart",
                            folder, folders.paths[folders.count - 1]);
    for (size_t i = 0; i < folders.count && !status; i++)
        status = add_class(set, folders.paths[i], others, err);
    xt_file_list_clear(&folders);
    return status;
}

/* Without labels (predict) a folder of classes is a tree of images like any other. */
enum xt_status xt_source_files_add_tree(struct xt_source_files *set, const char *folder,
                                        size_t *others, struct xt_err *err)
{
    struct xt_file_list list = {0};
    enum xt_status status = xt_file_list_tree(&list, folder, err);
    if (!status)
        status = add_images(set, &list, -1, others, err);
    xt_file_list_clear(&list);
    return status;
}

enum xt_status xt_source_open_folder(struct xt_source **out, const char *folder,
                                     const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    struct xt_source_files *set = NULL;
    size_t others = 0;
    enum xt_status status = xt_source_files_create(&set, options, err);
    if (status)
        return status;
    bool classes = options->task == XT_TASK_CLASSES && !options->labels_optional;
    status = classes ? add_classes(set, folder, &others, err)
                     : xt_source_files_add_tree(set, folder, &others, err);
    if (!status)
        status = xt_source_files_finish(set, folder, err);
    if (!status && set->base.count == 0)
        status = xt_source_files_no_images(folder, others, err);
    if (status) {
        xt_source_destroy(&set->base);
        return status;
    }
    describe(&set->base, folder, others);
    *out = &set->base;
    return XT_OK;
}
