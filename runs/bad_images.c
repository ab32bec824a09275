#include "runs/bad_images.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

static const size_t file_limit = (size_t)1 << 30;

enum xt_status xt_bad_images_open(struct xt_bad_images *bad, const char *path, struct xt_err *err)
{
    *bad = (struct xt_bad_images){0};
    enum xt_status status = xt_mem_strdup(&bad->path, path, err);
    if (status || !xt_file_exists(path))
        return status;
    struct xt_bytes text = {0};
    status = xt_file_load(path, file_limit, &text, err);
    xt_str_append(&bad->lines, "\n", 1, NULL);
    if (!status)
        status = xt_str_append(&bad->lines, (const char *)text.data, text.size, err);
    bad->written = bad->lines.length;
    free(text.data);
    return status;
}

void xt_bad_images_clear(struct xt_bad_images *bad)
{
    free(bad->path);
    xt_str_clear(&bad->lines);
    *bad = (struct xt_bad_images){0};
}

enum xt_status xt_bad_images_add(struct xt_bad_images *bad, const struct xt_bad_image *image,
                                 struct xt_err *err)
{
    struct xt_str line = {0};
    char *shown = NULL;
    size_t room = 4 * strlen(image->name) + 1;
    enum xt_status status = xt_mem_calloc(&shown, room, 1, "the list of bad images", err);
    if (status)
        return status;
    xt_str_escape(image->name, shown, room);
    status = xt_str_printf(&line, err, "\n%s\t%s\n", shown, image->reason);
    if (!status && !strstr(xt_str_get(&bad->lines), xt_str_get(&line))) {
        size_t skip = bad->lines.length > 0;
        status = xt_str_append(&bad->lines, line.data + skip, line.length - skip, err);
    }
    free(shown);
    xt_str_clear(&line);
    return status;
}

enum xt_status xt_bad_images_write(struct xt_bad_images *bad, size_t count, struct xt_err *err)
{
    if (bad->lines.length == bad->written)
        return XT_OK;
    enum xt_status status =
        xt_file_save(bad->path, bad->lines.data + 1, bad->lines.length - 1, err);
    if (status)
        return status;
    bad->written = bad->lines.length;
    xt_log_warn("%s cannot be used and %s skipped; %s says why",
                xt_count((long long)count, "image").text, count == 1 ? "is" : "are", bad->path);
    return XT_OK;
}
