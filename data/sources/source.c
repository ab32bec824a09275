#include "data/sources/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "data/image/jpeg.h"
#include "data/image/png.h"
#include "data/sources/files.h"

static const char synth_prefix[] = "synth:";
static const char shapes_prefix[] = "synth:shapes";
static const char ccpd_prefix[] = "ccpd:";

void xt_source_destroy(struct xt_source *source)
{
    if (source)
        source->class->destroy(source);
}

enum xt_status xt_source_bytes(const struct xt_source *source, size_t index,
                               struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                               struct xt_err *err)
{
    *bytes = NULL;
    *size = 0;
    return source->class->bytes ? source->class->bytes(source, index, decoder, bytes, size, err)
                                : XT_OK;
}

enum xt_status xt_source_keep(struct xt_source *source, uint64_t limit, struct xt_err *err)
{
    return source->class->keep ? source->class->keep(source, limit, err) : XT_OK;
}

double xt_source_small_bytes(const struct xt_source *source)
{
    enum { LOOKS = 64 };
    size_t looks = source->count < LOOKS ? source->count : LOOKS;
    double bytes = 0;
    for (size_t i = 0; i < looks && source->class->keep; i++) {
        char path[4096];
        struct stat st;
        source->class->name(source, source->count / looks * i, path, sizeof path);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= XT_KEPT_FILE_MAX)
            bytes += (double)st.st_size;
    }
    return looks ? bytes / (double)looks * (double)source->count : 0;
}

uint64_t xt_source_stamp_of(const char *path, const struct stat *st)
{
    uint64_t hash = 14695981039346656037u;
    for (; *path; path++)
        hash = (hash ^ (uint8_t)*path) * 1099511628211u;
    hash = xt_rng_at(hash, (uint64_t)st->st_size, (uint64_t)st->st_mtim.tv_sec);
    hash = xt_rng_at(hash, (uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ino);
    return hash ? hash : 1;
}

int xt_source_class_count(const struct xt_source *source)
{
    return source->class_count;
}

const char *xt_source_class_name(const struct xt_source *source, int index)
{
    return source->class_names[index];
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

static bool is_image_file(const char *path)
{
    uint8_t start[8] = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, start, sizeof start);
    close(fd);
    size_t size = got > 0 ? (size_t)got : 0;
    return xt_jpeg_is(start, size) || xt_png_is(start, size);
}

bool xt_source_is_mix(const char *spec)
{
    return xt_str_ends(spec, ".yaml") || xt_str_ends(spec, ".yml");
}

enum xt_status xt_source_spec_from(char **out, const char *path, const char *spec,
                                   struct xt_err *err)
{
    *out = NULL;
    if (xt_str_starts(spec, synth_prefix))
        return xt_mem_strdup(out, spec, err);
    size_t prefix = xt_str_starts(spec, ccpd_prefix) ? strlen(ccpd_prefix) : 0;
    int folder = spec[prefix] == '/' ? 0 : (int)(xt_file_name(path) - path);
    if (asprintf(out, "%.*s%.*s%s", (int)prefix, spec, folder, path, spec + prefix) >= 0)
        return XT_OK;
    *out = NULL;
    return xt_err_no_memory(err, "a file name", strlen(path));
}

/* A set of the one image at `path`. */
static enum xt_status open_image(struct xt_source **out, const char *path,
                                 const struct xt_source_options *options, struct xt_err *err)
{
    if (!options->labels_optional)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is one image; give the folder that holds it, or a list file (path, "
                          "tab, label)",
                          path);
    struct xt_source_files *set = NULL;
    char *copy = NULL;
    enum xt_status status = xt_source_files_create(&set, options, err);
    if (status)
        return status;
    status = xt_mem_strdup(&copy, path, err);
    if (!status)
        status = xt_source_files_add_named(set, copy, err);
    if (status) {
        xt_source_destroy(&set->base);
        return status;
    }
    snprintf(set->base.description, sizeof set->base.description, "the image %.200s", path);
    *out = &set->base;
    return XT_OK;
}

enum xt_status xt_source_open(struct xt_source **out, const char *spec,
                              const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    if (xt_str_starts(spec, shapes_prefix))
        return xt_source_open_shapes(out, spec + strlen(shapes_prefix), options, err);
    if (xt_str_starts(spec, synth_prefix) && options->task == XT_TASK_CLASSES)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s has plates or is not known; made pictures with classes are "
                          "synth:shapes",
                          spec);
    if (xt_str_starts(spec, synth_prefix))
        return xt_source_open_synth(out, spec + strlen(synth_prefix), options, err);
    if (xt_str_starts(spec, ccpd_prefix))
        return xt_source_open_ccpd(out, spec + strlen(ccpd_prefix), options, err);
    struct stat st;
    if (stat(spec, &st) && strchr(spec, '{') && xt_source_is_tar(spec))
        return xt_source_open_tar(out, spec, options, err);
    if (stat(spec, &st))
        return xt_source_not_found(spec, errno, err);
    bool classes = options->task == XT_TASK_CLASSES;
    if (S_ISDIR(st.st_mode) && classes && xt_source_is_cifar(spec))
        return xt_source_open_cifar(out, spec, options, err);
    if (S_ISDIR(st.st_mode) && xt_source_is_tar_folder(spec))
        return xt_source_open_tar(out, spec, options, err);
    if (S_ISDIR(st.st_mode))
        return xt_source_open_folder(out, spec, options, err);
    if (!S_ISREG(st.st_mode))
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is neither a folder of images nor a list file: it is a device, pipe "
                          "or socket",
                          spec);
    bool tar = xt_source_is_tar(spec);
    if (classes && (tar ? xt_source_is_cifar_tar(spec) : xt_str_ends(spec, ".bin")))
        return xt_source_open_cifar(out, spec, options, err);
    if (tar)
        return xt_source_open_tar(out, spec, options, err);
    if (xt_source_is_mix(spec))
        return xt_source_open_mix(out, spec, options, err);
    if (is_image_file(spec))
        return open_image(out, spec, options, err);
    return xt_source_open_list(out, spec, options, err);
}
