/* Images and labels named by a text file: path, tab, label, a line each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "data/sources/index/files.h"
#include "data/sources/registry.h"

enum { LIST_BYTES_MAX = 1 << 30 };

struct line {
    const char *text;
    size_t size; /* without the line end */
    size_t number;
};

/* The next line, advancing *text; false at the end. */
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

/* The path of `size` bytes, relative to the list's folder, into *out. */
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

/* What is wrong with a line's form, or NULL. */
static const char *fault_of(const struct xt_source_files *set, const struct line *line,
                            size_t path_size, bool named)
{
    if (memchr(line->text, '\0', line->size))
        return "a zero byte; a list is text: path, tab, label";
    if (path_size == 0)
        return "no path before the tab";
    if (path_size == line->size && !named && !set->options.labels_optional)
        return "no tab; a line is path, tab, label";
    return NULL;
}

static enum xt_status add_line(struct xt_source_files *set, const struct line *line,
                               const char *folder, const char *name, struct xt_err *err)
{
    char where[512];
    snprintf(where, sizeof where, "%.400s line %zu", name, line->number);
    const char *tab = memchr(line->text, '\t', line->size);
    size_t path_size = tab ? (size_t)(tab - line->text) : line->size;
    bool named = set->form && set->form->label && !tab;
    const char *fault = fault_of(set, line, path_size, named);
    char *path = NULL;
    if (fault) {
        xt_source_files_refuse(set, where, fault);
        return XT_OK;
    }
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

/* A file with zero bytes is no text, and its lines are not worth naming. */
static enum xt_status check_text(const uint8_t *bytes, size_t size, const char *path,
                                 struct xt_err *err)
{
    if (!memchr(bytes, '\0', size))
        return XT_OK;
    return xt_err_set(
        err, XT_ERR_DATA,
        "%s is not an image that can be read, and not a list of images, which is text", path);
}

/* Images to predict are listed by their paths alone, so any text looks like a list: if none of the
 * first lines names a file, it is something else. */
static enum xt_status check_paths(const struct xt_source_files *set, const char *path,
                                  struct xt_err *err)
{
    enum { LOOKS = 20 };
    size_t looks = set->base.count < LOOKS ? set->base.count : LOOKS;
    for (size_t i = 0; i < looks; i++)
        if (access(set->files[i].path, F_OK) == 0)
            return XT_OK;
    if (!looks || !set->options.labels_optional || set->form)
        return XT_OK;
    return xt_err_set(
        err, XT_ERR_DATA,
        "%s is not an image, and not a list of images (a path a line): there is no %s", path,
        set->files[0].path);
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
    struct xt_bytes bytes = {0};
    char *own = NULL;
    enum xt_status status = xt_file_load(path, LIST_BYTES_MAX, &bytes, err);
    if (!status)
        status = check_text(bytes.data, bytes.size, path, err);
    if (!status)
        status = folder_of(&own, path, err);
    if (!status)
        status = xt_source_files_parse(set, (const char *)bytes.data, bytes.size,
                                       folder ? folder : own, path, err);
    if (!status)
        status = xt_source_files_finish(set, path, err);
    if (!status)
        status = check_paths(set, path, err);
    if (!status && set->base.count == 0)
        status = xt_err_set(err, XT_ERR_DATA, "%s lists no image; a line is %s", path,
                            set->form ? "a path" : "path, tab, label");
    free(own);
    free(bytes.data);
    return status;
}

static bool is(const char *path, mode_t mode, enum xt_task task)
{
    (void)path;
    (void)task;
    return S_ISREG(mode);
}

static enum xt_status fill(struct xt_source_files *set, const char *path, struct xt_err *err)
{
    enum xt_status status = xt_source_files_add_list(set, path, NULL, err);
    snprintf(set->base.description, sizeof set->base.description, "%s listed in %.160s",
             xt_count((long long)set->base.count, "image").text, path);
    return status;
}

const struct xt_source_kind xt_source_list = {.is = is, .fill = fill};
