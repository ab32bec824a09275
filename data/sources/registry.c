#include "data/sources/registry.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

/* In the order in which they are asked. */
static const struct xt_source_kind *const kinds[] = {
    &xt_source_plates, &xt_source_shapes, &xt_source_ccpd,   &xt_source_cifar, &xt_source_tar,
    &xt_source_folder, &xt_source_mix,    &xt_source_single, &xt_source_list,
};

static const char made_prefix[] = "synth:";

/* What follows the kind's prefix; NULL where the spec has another. */
static const char *after_prefix(const struct xt_source_kind *kind, const char *spec)
{
    if (!kind->prefix || !xt_str_starts(spec, kind->prefix))
        return NULL;
    const char *rest = spec + strlen(kind->prefix);
    return rest[-1] == ':' || *rest == '?' || *rest == '\0' ? rest : NULL;
}

/* The entry of `folder` whose name is nearest to `name`, or NULL. Release with free. */
static char *nearest_entry(const char *folder, const char *name)
{
    DIR *dir = opendir(folder);
    char *nearest = NULL;
    int best = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *candidate = entry->d_name;
        if (candidate[0] == '.' || !xt_str_nearest(name, &candidate, 1))
            continue;
        int distance = xt_str_distance(name, candidate);
        if (nearest && distance >= best)
            continue;
        free(nearest);
        nearest = strdup(candidate);
        best = distance;
    }
    if (dir)
        closedir(dir);
    return nearest;
}

enum xt_status xt_source_not_found(const char *spec, int error, struct xt_err *err)
{
    if (xt_str_starts(spec, "synth") || xt_str_starts(spec, "plates"))
        return xt_err_set(err, XT_ERR_DATA,
                          "there is no folder or file %s; made plates are written synth:plates",
                          spec);
    /* Slashes at the end would leave no name to compare. */
    size_t length = strlen(spec);
    while (length > 1 && spec[length - 1] == '/')
        length--;
    char *path = strndup(spec, length);
    const char *name = path ? xt_file_name(path) : "";
    size_t above = path ? (size_t)(name - path) : 0;
    char *folder = above ? strndup(spec, above) : strdup(".");
    char *nearest = folder ? nearest_entry(folder, name) : NULL;
    enum xt_status status =
        nearest ? xt_err_set(err, XT_ERR_DATA, "cannot open the data %s: %s; did you mean %.*s%s?",
                             spec, strerror(error), (int)above, spec, nearest)
                : xt_err_set(err, XT_ERR_DATA,
                             "cannot open the data %s: %s; give a folder of images, a list file or "
                             "synth:plates",
                             spec, strerror(error));
    free(nearest);
    free(folder);
    free(path);
    return status;
}

static enum xt_status not_made(const char *spec, enum xt_task task, struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_USAGE, "%s is not known; %s", spec,
                      task == XT_TASK_CLASSES
                          ? "made pictures with classes are synth:shapes?count=N&seed=S&classes=C"
                          : "plates are all that is made: "
                            "synth:plates?count=N&seed=S&style=blue,green&hard=H");
}

enum xt_status xt_source_open(struct xt_source **out, const char *spec,
                              const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    struct stat st = {0};
    int error = stat(spec, &st) ? errno : 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct xt_source_kind *kind = kinds[i];
        bool is_path = kind->is && kind->is(spec, error ? 0 : st.st_mode, options->task);
        const char *rest = is_path ? spec : after_prefix(kind, spec);
        if (rest)
            return kind->open(out, rest, options, err);
    }
    if (xt_str_starts(spec, made_prefix))
        return not_made(spec, options->task, err);
    if (error)
        return xt_source_not_found(spec, error, err);
    return xt_err_set(err, XT_ERR_DATA,
                      "%s is neither a folder of images nor a list file: it is a device, pipe or "
                      "socket",
                      spec);
}

enum xt_status xt_source_spec_from(char **out, const char *path, const char *spec,
                                   struct xt_err *err)
{
    *out = NULL;
    if (xt_str_starts(spec, made_prefix))
        return xt_mem_strdup(out, spec, err);
    const char *name = spec;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && name == spec; i++)
        name = after_prefix(kinds[i], spec) ? after_prefix(kinds[i], spec) : spec;
    int folder = *name == '/' ? 0 : (int)(xt_file_name(path) - path);
    if (asprintf(out, "%.*s%.*s%s", (int)(name - spec), spec, folder, path, name) >= 0)
        return XT_OK;
    *out = NULL;
    return xt_err_no_memory(err, "a file name", strlen(path));
}
