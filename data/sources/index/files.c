#include "data/sources/index/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

static const struct xt_source_file *file_at(const struct xt_source *source, size_t index)
{
    return ((const struct xt_source_files *)source)->files + index;
}

static enum xt_status files_label(const struct xt_source *source, size_t index, int *label,
                                  int *length, struct xt_err *err)
{
    (void)err;
    const struct xt_source_files *set = (const struct xt_source_files *)source;
    const struct xt_source_file *file = file_at(source, index);
    for (int i = 0; i < file->label_length; i++)
        label[i] = set->labels[file->label + (size_t)i];
    *length = file->label_length;
    return XT_OK;
}

static enum xt_status files_bytes(const struct xt_source *source, size_t index,
                                  struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                                  struct xt_err *err)
{
    const struct xt_source_files *set = (const struct xt_source_files *)source;
    if (set->form && set->form->load)
        return XT_OK;
    if (set->form && set->form->bytes)
        return set->form->bytes(set, index, decoder, bytes, size, err);
    return xt_decoder_read(decoder, set->files[index].path, bytes, size, err);
}

/* The stored bytes, from memory if they are cached. */
static enum xt_status load_stored(const struct xt_source_files *set, size_t index,
                                  const struct xt_want *want, struct xt_decoder *decoder,
                                  struct xt_picture *picture, struct xt_err *err)
{
    const char *path = set->files[index].path;
    const uint8_t *bytes = NULL;
    size_t size = 0;
    bool cached = set->cached && xt_cached_files_get(set->cached, index, &bytes, &size);
    enum xt_status status =
        cached ? XT_OK : files_bytes(&set->base, index, decoder, &bytes, &size, err);
    if (!status)
        status =
            xt_decoder_decode(decoder, bytes, size, set->options.order, want, path, picture, err);
    if (!status && !cached && set->cached)
        xt_cached_files_put(set->cached, index, bytes, size);
    return status;
}

static enum xt_status files_read(const struct xt_source *source, size_t index,
                                 const struct xt_want *want, struct xt_decoder *decoder,
                                 struct xt_sample *sample, struct xt_err *err)
{
    const struct xt_source_files *set = (const struct xt_source_files *)source;
    struct xt_picture *picture = &sample->picture;
    bool derived = set->form && set->form->load;
    enum xt_status status = derived ? set->form->load(set, index, decoder, &picture->image, err)
                                    : load_stored(set, index, want, decoder, picture, err);
    if (status)
        return status;
    if (derived)
        xt_picture_whole(picture, want);
    return files_label(source, index, sample->label, &sample->label_length, err);
}

static void files_name(const struct xt_source *source, size_t index, char *out, size_t size)
{
    snprintf(out, size, "%s", file_at(source, index)->path);
}

static uint64_t files_stamp(const struct xt_source *source, size_t index)
{
    const struct xt_source_files *set = (const struct xt_source_files *)source;
    if (set->form && set->form->stamp)
        return set->form->stamp(set, index);
    const char *path = file_at(source, index)->path;
    struct stat st;
    return stat(path, &st) == 0 ? xt_source_stamp_of(path, &st) : 0;
}

static enum xt_status files_cache(struct xt_source *source, uint64_t limit, struct xt_err *err)
{
    struct xt_source_files *set = (struct xt_source_files *)source;
    return set->form ? XT_OK : xt_cached_files_create(&set->cached, source->count, limit, err);
}

static void files_destroy(struct xt_source *source)
{
    struct xt_source_files *set = (struct xt_source_files *)source;
    xt_cached_files_destroy(set->cached);
    if (set->form && set->form->clear)
        set->form->clear(set);
    for (size_t i = 0; i < source->count; i++)
        free(set->files[i].path);
    free(set->files);
    free(set->labels);
    xt_classes_clear(&set->classes);
    xt_classes_free_names(source);
    free(set);
}

static const struct xt_source_class files_class = {
    .read = files_read,
    .label = files_label,
    .name = files_name,
    .stamp = files_stamp,
    .bytes = files_bytes,
    .cache = files_cache,
    .destroy = files_destroy,
};

enum xt_status xt_source_files_create(struct xt_source_files **out,
                                      const struct xt_source_options *options, struct xt_err *err)
{
    enum xt_status status = xt_mem_calloc(out, 1, sizeof **out, "a data source", err);
    if (status)
        return status;
    (*out)->base.class = &files_class;
    (*out)->options = *options;
    if (options->task == XT_TASK_CLASSES)
        status = xt_classes_init(&(*out)->classes, options, err);
    if (status) {
        xt_source_destroy(&(*out)->base);
        *out = NULL;
    }
    return status;
}

enum xt_status xt_source_files_open(struct xt_source **out,
                                    enum xt_status (*fill)(struct xt_source_files *set,
                                                           const char *spec, struct xt_err *err),
                                    const char *spec, const struct xt_source_options *options,
                                    struct xt_err *err)
{
    *out = NULL;
    struct xt_source_files *set = NULL;
    enum xt_status status = xt_source_files_create(&set, options, err);
    if (status)
        return status;
    status = fill(set, spec, err);
    if (status)
        xt_source_destroy(&set->base);
    else
        *out = &set->base;
    return status;
}

void xt_source_files_describe_others(struct xt_source_files *set)
{
    char *text = set->base.description;
    size_t used = strlen(text);
    if (set->unread)
        xt_log_warn("%s skipped, of formats that are not read (%s); convert them to JPEG or PNG",
                    xt_count((long long)set->unread, "picture").text, set->unread_ending);
    if (set->others)
        snprintf(text + used, sizeof set->base.description - used, " (%s ignored)",
                 xt_count((long long)set->others, "other file").text);
}

static void refuse(struct xt_source_files *set, const struct xt_err *why)
{
    if (set->refused++ == 0)
        set->first_refused = *why;
}

void xt_source_files_refuse(struct xt_source_files *set, const char *where, const char *why)
{
    struct xt_err sentence;
    xt_err_set(&sentence, XT_ERR_DATA, "%s: %s", where, why);
    refuse(set, &sentence);
}

static enum xt_status refused_error(const struct xt_source_files *set, struct xt_err *err)
{
    char more[64] = "";
    if (set->refused > 1)
        snprintf(more, sizeof more, " (and %zu more like it)", set->refused - 1);
    return xt_err_set(err, XT_ERR_DATA, "%.800s%s%s", set->first_refused.text, more,
                      set->labels_named && set->refused > 1 && !set->base.count
                          ? "; name each image by what is written on it, or put images of classes "
                            "into a folder a class"
                          : "");
}

enum xt_status xt_source_files_finish(struct xt_source_files *set, const char *where,
                                      struct xt_err *err)
{
    if (set->refused)
        return refused_error(set, err);
    bool labelled = set->label_count > 0 || !set->options.labels_optional;
    if (set->options.task != XT_TASK_CLASSES || set->base.count == 0 || !labelled)
        return XT_OK;
    int *map = NULL;
    enum xt_status status = xt_classes_sort(&set->classes, &map, err);
    if (status)
        xt_err_prefix(err, "%s: ", where);
    for (size_t i = 0; !status && i < set->label_count; i++)
        set->labels[i] = (uint16_t)map[set->labels[i]];
    free(map);
    set->classes.fixed |= set->options.labels_optional;
    return status ? status : xt_classes_move(&set->classes, &set->base, where, err);
}

/* Pattern of CCPD's file names: seven groups of numbers between dashes; the corners' coordinates
 * joined by an ampersand. */
static bool looks_like_ccpd(const char *name)
{
    size_t length = strcspn(name, ".");
    int dashes = 0;
    int ampersands = 0;
    for (size_t i = 0; i < length; i++) {
        dashes += name[i] == '-';
        ampersands += name[i] == '&';
        if (!strchr("0123456789-&_", name[i]))
            return false;
    }
    return dashes == 6 && ampersands >= 2;
}

/* Fills symbols, or returns what is wrong with the label. */
static enum xt_status check_label(const struct xt_source_options *options, const char *label,
                                  size_t size, int *symbols, int *length, struct xt_err *err)
{
    enum xt_status status =
        xt_alphabet_encode(options->alphabet, label, size, symbols, XT_LABEL_MAX, length, err);
    if (status)
        return status;
    int steps = xt_label_steps(symbols, *length);
    if (options->steps_max <= 0 || steps <= options->steps_max)
        return XT_OK;
    *length = 0;
    return xt_err_set(err, XT_ERR_DATA,
                      "the label \"%.*s\" needs %d CTC steps (one a symbol, and one between equal "
                      "neighbours), more than the network's %d",
                      (int)size, label, steps, options->steps_max);
}

/* Takes over `path`. */
static enum xt_status append(struct xt_source_files *set, char *path, const int *symbols,
                             int length, struct xt_err *err)
{
    enum xt_status status =
        xt_mem_add(&set->files, set->base.count, sizeof *set->files, "a list of files", err);
    if (!status)
        status = xt_mem_grow(&set->labels, &set->label_capacity, set->label_count + (size_t)length,
                             sizeof *set->labels, "labels", err);
    if (status) {
        free(path);
        return status;
    }
    set->files[set->base.count++] =
        (struct xt_source_file){.path = path, .label = set->label_count, .label_length = length};
    for (int i = 0; i < length; i++)
        set->labels[set->label_count++] = (uint16_t)symbols[i];
    return XT_OK;
}

enum xt_status xt_source_files_add_class(struct xt_source_files *set, char *path, int class,
                                         struct xt_err *err)
{
    return append(set, path, &class, class < 0 ? 0 : 1, err);
}

/* A label that is a class: its name or number. */
static enum xt_status check_class(struct xt_source_files *set, const char *label, size_t size,
                                  int *symbols, int *length, struct xt_err *err)
{
    while (size && (label[size - 1] == ' ' || label[size - 1] == '\t'))
        size--;
    if (size == 0)
        return xt_err_set(err, XT_ERR_DATA, "the label is empty; write a class after the tab");
    enum xt_status status = xt_classes_add(&set->classes, label, size, &symbols[0], err);
    *length = status ? 0 : 1;
    return status;
}

enum xt_status xt_source_files_add(struct xt_source_files *set, char *path, const char *label,
                                   size_t label_size, const char *where, struct xt_err *err)
{
    int symbols[XT_LABEL_MAX];
    int length = 0;
    struct xt_err why;
    enum xt_status status =
        set->options.task == XT_TASK_CLASSES
            ? check_class(set, label, label_size, symbols, &length, &why)
            : check_label(&set->options, label, label_size, symbols, &length, &why);
    if (status && status != XT_ERR_DATA) {
        free(path);
        *err = why;
        return status;
    }
    if (status && !set->options.labels_optional) {
        if (set->refused == 0 && looks_like_ccpd(xt_file_name(path)))
            xt_err_set(&why, XT_ERR_DATA,
                       "%s is named as CCPD names its pictures, which show more than the plate; "
                       "write ccpd: before the folder's name",
                       where);
        else if (set->refused == 0)
            xt_err_prefix(&why, "%s: ", where);
        refuse(set, &why);
        free(path);
        return XT_OK;
    }
    return append(set, path, symbols, length, err);
}

static enum xt_status add_formed(struct xt_source_files *set, char *path, const char *name,
                                 struct xt_err *err)
{
    char label[XT_LABEL_MAX * 4];
    struct xt_err why;
    if (!set->form->label(name, label, sizeof label, &why))
        return xt_source_files_add(set, path, label, strlen(label), path, err);
    if (set->options.labels_optional)
        return append(set, path, NULL, 0, err);
    if (set->refused == 0)
        xt_err_prefix(&why, "%s: ", path);
    refuse(set, &why);
    free(path);
    return XT_OK;
}

enum xt_status xt_source_files_add_named(struct xt_source_files *set, char *path,
                                         struct xt_err *err)
{
    if (set->options.task == XT_TASK_CLASSES)
        return xt_source_files_add_class(set, path, -1, err);
    const char *name = xt_file_name(path);
    if (set->form && set->form->label)
        return add_formed(set, path, name, err);
    set->labels_named = true;
    return xt_source_files_add(set, path, name, strcspn(name, "_."), path, err);
}
