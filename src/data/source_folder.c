#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/file.h"
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

/* Moves the images of the list into the set; *others gets how many files are something else. */
static enum xt_status add_images(struct xt_source_files *set, struct xt_file_list *list,
                                 size_t *others, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; !status && i < list->count; i++) {
        if (!is_image_name(list->paths[i])) {
            ++*others;
            continue;
        }
        char *path = list->paths[i];
        list->paths[i] = NULL;
        status = xt_source_files_add_named(set, path, err);
    }
    return status;
}

static enum xt_status no_images(const char *folder, size_t others, struct xt_err *err)
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
    char ignored[64] = "";
    if (others)
        snprintf(ignored, sizeof ignored, " (%zu other file%s ignored)", others,
                 others == 1 ? "" : "s");
    snprintf(source->description, sizeof source->description, "%zu image%s in %.160s%s",
             source->count, source->count == 1 ? "" : "s", folder, ignored);
}

enum xt_status xt_source_open_folder(struct xt_source **out, const char *folder,
                                     const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    struct xt_source_files *set = NULL;
    struct xt_file_list list = {0};
    size_t others = 0;
    enum xt_status status = xt_source_files_create(&set, options, err);
    if (status)
        return status;
    status = xt_file_list_tree(&list, folder, err);
    if (!status)
        status = add_images(set, &list, &others, err);
    if (!status)
        status = xt_source_files_check(set, err);
    if (!status && set->base.count == 0)
        status = no_images(folder, others, err);
    xt_file_list_clear(&list);
    if (status) {
        xt_source_destroy(&set->base);
        return status;
    }
    describe(&set->base, folder, others);
    *out = &set->base;
    return XT_OK;
}
