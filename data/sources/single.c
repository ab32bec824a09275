/* A single image, to predict. An image of an unsupported format counts too, so that the error names
 * its format instead of reading it as a list. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/sources/index/files.h"
#include "data/sources/registry.h"

static bool is(const char *path, mode_t mode, enum xt_task task)
{
    (void)task;
    uint8_t start[16] = {0};
    int fd = S_ISREG(mode) ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0)
        return false;
    ssize_t got = read(fd, start, sizeof start);
    close(fd);
    size_t size = got > 0 ? (size_t)got : 0;
    return xt_decoder_reads(start, size) || xt_decoder_other_format(start, size);
}

static enum xt_status fill(struct xt_source_files *set, const char *path, struct xt_err *err)
{
    char *copy = NULL;
    if (!set->options.labels_optional)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is one image; give the folder that holds it, or a list file (path, "
                          "tab, label)",
                          path);
    snprintf(set->base.description, sizeof set->base.description, "the image %.200s", path);
    enum xt_status status = xt_mem_strdup(&copy, path, err);
    return status ? status : xt_source_files_add_named(set, copy, err);
}

const struct xt_source_kind xt_source_single = {.is = is, .fill = fill};
