#include "data/sources/tar_reader.h"

#include <archive.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"

bool xt_tar_is_compressed(const char *name)
{
    static const char *const endings[] = {".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        if (xt_str_ends(name, endings[i]))
            return true;
    return false;
}

bool xt_tar_is_name(const char *name)
{
    return xt_str_ends(name, ".tar") || xt_tar_is_compressed(name);
}

/* WINDOW: what is read at once; headers are small, and contents are skipped. */
enum { BLOCK = 512, WINDOW = 4096 };

bool xt_tar_read(const struct xt_tar_reader *reader, uint64_t at, void *out, size_t count)
{
    if (at > reader->size || count > reader->size - at)
        return false;
    if (!reader->bytes)
        return xt_file_read_at(reader->fd, at, out, count);
    memcpy(out, reader->bytes + at, count);
    return true;
}

static enum xt_status cut_short(const struct xt_tar_reader *reader, const char *what,
                                struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_DATA,
                      "%s is cut short: it ends %s (%" PRIu64 " bytes); copy it again, or make it "
                      "again",
                      reader->path, what, reader->size);
}

/* A header cannot be read. libarchive has consumed it, unless the file ends in it or is no tar. */
static enum xt_status bad_header(struct xt_tar_reader *reader, struct xt_err *err)
{
    const char *reason = archive_error_string(reader->archive);
    reader->at = (uint64_t)archive_filter_bytes(reader->archive, 0);
    if (archive_errno(reader->archive) == ENOMEM)
        return xt_err_no_memory(err, "a reader of archives", 0);
    if (reader->size - reader->at < BLOCK || (reason && strstr(reason, "runcated")))
        return cut_short(reader, "in the middle of a header", err);
    reader->at -= reader->at ? BLOCK : 0;
    return xt_err_set(err, XT_ERR_DATA, "%s is damaged: an invalid header at byte %" PRIu64,
                      reader->path, reader->at);
}

static enum xt_status open_archive(struct xt_tar_reader *reader, struct xt_err *err)
{
    reader->archive = archive_read_new();
    if (!reader->archive)
        return xt_err_no_memory(err, "a reader of archives", 0);
    archive_read_support_format_tar(reader->archive);
    int failed = reader->bytes
                     ? archive_read_open_memory(reader->archive, reader->bytes, reader->size)
                     : archive_read_open_fd(reader->archive, reader->fd, WINDOW);
    return failed ? bad_header(reader, err) : XT_OK;
}

static enum xt_status no_end(const struct xt_tar_reader *reader, struct xt_err *err)
{
    return cut_short(reader, "without the empty blocks that end a tar", err);
}

/* Moves past the contents of the current file, which are there, and what fills its last block. */
static enum xt_status skip_contents(struct xt_tar_reader *reader, struct xt_err *err)
{
    int failed = archive_read_data_skip(reader->archive);
    reader->at = failed ? reader->size : (uint64_t)archive_filter_bytes(reader->archive, 0);
    return failed ? no_end(reader, err) : XT_OK;
}

static enum xt_status take_file(struct xt_tar_reader *reader, struct archive_entry *entry,
                                struct xt_err *err)
{
    reader->name = archive_entry_pathname(entry);
    reader->at = reader->member_at = (uint64_t)archive_filter_bytes(reader->archive, 0);
    reader->member_size = (uint64_t)archive_entry_size(entry);
    if (!reader->name)
        return bad_header(reader, err);
    if (archive_entry_sparse_count(entry))
        return xt_err_set(err, XT_ERR_DATA,
                          "%s holds %s as a sparse file, which is not supported; create it again "
                          "without --sparse",
                          reader->path, reader->name);
    return reader->member_at > reader->size ||
                   reader->member_size > reader->size - reader->member_at
               ? cut_short(reader, "in the middle of a file", err)
               : XT_OK;
}

enum xt_status xt_tar_next(struct xt_tar_reader *reader, bool *end, struct xt_err *err)
{
    struct archive_entry *entry = NULL;
    *end = false;
    for (;;) {
        enum xt_status status =
            reader->archive ? skip_contents(reader, err) : open_archive(reader, err);
        if (status)
            return status;
        int got = archive_read_next_header(reader->archive, &entry);
        *end = got == ARCHIVE_EOF && reader->at < reader->size;
        if (*end)
            return XT_OK;
        if (got == ARCHIVE_EOF)
            return no_end(reader, err);
        if (got != ARCHIVE_OK && got != ARCHIVE_WARN) /* a name that is not of the locale */
            return bad_header(reader, err);
        /* A link has no contents of its own. */
        if (archive_entry_filetype(entry) == AE_IFREG && !archive_entry_hardlink(entry))
            return take_file(reader, entry, err);
    }
}

void xt_tar_clear(struct xt_tar_reader *reader)
{
    archive_read_free(reader->archive);
    reader->archive = NULL;
}
