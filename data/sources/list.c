#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/sources/files.h"

enum { LIST_BYTES_MAX = 1 << 30 };

struct line {
    const char *text;
    size_t size; /* without the line end */
    size_t number;
};

/* The next line from *text on; false at the end. */
static bool next_line(const char **text, size_t *left, struct line *line)
{
    if (*left == 0)
        return false;
    const char *end = memchr(*text, '\n', *left);
    size_t taken = end ? (size_t)(end - *text) + 1 : *left;
    line->text = *text;
    line->size = end ? taken - 1 : taken;
    line->number++;
    if (line->size && line->text[line->size - 1] == '\r')
        line->size--;
    *text += taken;
    *left -= taken;
    return true;
}

static enum xt_status refuse(struct xt_source_files *set, const char *where, const char *reason)
{
    struct xt_err why;
    xt_err_set(&why, XT_ERR_DATA, "%s: %s", where, reason);
    xt_source_files_refuse(set, &why);
    return XT_OK;
}

/* The path of `size` bytes, from the list's folder, into *out. */
static enum xt_status full_path(char **out, const char *folder, const char *text, size_t size,
                                struct xt_err *err)
{
    char *name = strndup(text, size);
    if (!name)
        return xt_err_no_memory(err, "a file name", size);
    enum xt_status status = xt_file_join(out, folder, name, err);
    free(name);
    return status;
}

static enum xt_status add_line(struct xt_source_files *set, const struct line *line,
                               const char *folder, const char *name, struct xt_err *err)
{
    char where[512];
    snprintf(where, sizeof where, "%.400s line %zu", name, line->number);
    const char *tab = memchr(line->text, '\t', line->size);
    size_t path_size = tab ? (size_t)(tab - line->text) : line->size;
    if (memchr(line->text, '\0', line->size))
        return refuse(set, where, "a zero byte; a list is text: path, tab, label");
    if (path_size == 0)
        return refuse(set, where, "no path before the tab");
    bool named = set->form && set->form->label && !tab;
    if (!tab && !named && !set->options.labels_optional)
        return refuse(set, where, "no tab; a line is path, tab, label");
    char *path = NULL;
    enum xt_status status = full_path(&path, folder, line->text, path_size, err);
    if (status)
        return status;
    if (named)
        return xt_source_files_add_named(set, path, err);
    const char *label = tab ? tab + 1 : line->text + line->size;
    return xt_source_files_add(set, path, label, (size_t)(line->text + line->size - label), where,
                               err);
}

static bool is_blank(const struct line *line)
{
    for (size_t i = 0; i < line->size; i++)
        if (line->text[i] != ' ' && line->text[i] != '\t')
            return false;
    return true;
}

enum xt_status xt_source_files_parse(struct xt_source_files *set, const char *text, size_t size,
                                     const char *folder, const char *name, struct xt_err *err)
{
    static const char bom[] = "\xEF\xBB\xBF";
    if (size >= 3 && memcmp(text, bom, 3) == 0) {
        text += 3;
        size -= 3;
    }
    struct line line = {0};
    enum xt_status status = XT_OK;
    while (!status && next_line(&text, &size, &line))
        if (!is_blank(&line))
            status = add_line(set, &line, folder, name, err);
    return status;
}

/* The folder that holds the list, into *out. */
static enum xt_status folder_of(char **out, const char *path, struct xt_err *err)
{
    size_t length = (size_t)(xt_file_name(path) - path);
    *out = length ? strndup(path, length) : strdup(".");
    return *out ? XT_OK : xt_err_no_memory(err, "a file name", length);
}

enum xt_status xt_source_files_add_list(struct xt_source_files *set, const char *path,
                                        const char *folder, struct xt_err *err)
{
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    size_t size = 0;
    char *own = NULL;
    enum xt_status status = xt_file_read(path, LIST_BYTES_MAX, &bytes, &capacity, &size, err);
    if (!status)
        status = folder_of(&own, path, err);
    if (!status)
        status =
            xt_source_files_parse(set, (const char *)bytes, size, folder ? folder : own, path, err);
    if (!status)
        status = xt_source_files_finish(set, path, err);
    if (!status && set->base.count == 0)
        status = xt_err_set(err, XT_ERR_DATA, "%s lists no image; a line is %s", path,
                            set->form ? "a path" : "path, tab, label");
    free(own);
    free(bytes);
    return status;
}

enum xt_status xt_source_open_list(struct xt_source **out, const char *path,
                                   const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    struct xt_source_files *set = NULL;
    enum xt_status status = xt_source_files_create(&set, options, err);
    if (status)
        return status;
    status = xt_source_files_add_list(set, path, NULL, err);
    if (status) {
        xt_source_destroy(&set->base);
        return status;
    }
    snprintf(set->base.description, sizeof set->base.description, "%zu image%s listed in %.160s",
             set->base.count, set->base.count == 1 ? "" : "s", path);
    *out = &set->base;
    return XT_OK;
}
