#include "data/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/system/stop.h"
#include "data/cache.h"
#include "data/loader.h"

/* The overhead of a file in a tar: its header and padding, at most. */
enum { BLOCK = 512, FILE_MODE = 0644 };

struct packing {
    const struct xt_pack_config *config;
    struct xt_packed *packed;
    struct xt_decoder decoder;
    struct xt_sample sample; /* in the source's order */
    struct xt_str encoded;
    struct xt_str label;
    /* the shard */
    struct xt_file_writer file;
    struct archive *archive;
    uint64_t filled;
    size_t images;
    enum xt_status written; /* result of the last write, and why it failed */
    struct xt_err why;
};

void xt_packed_clear(struct xt_packed *packed)
{
    free(packed->first_bad);
    *packed = (struct xt_packed){0};
}

static enum xt_status check_stop(const struct packing *packing, struct xt_err *err)
{
    return xt_stop_check(
        err, "after %zu of %zu images; the %zu finished shards are complete, but the set is not",
        packing->packed->images, packing->config->source->count, packing->packed->shards);
}

static enum xt_status count_bad(struct packing *packing, const struct xt_err *why,
                                struct xt_err *err)
{
    struct xt_packed *packed = packing->packed;
    size_t count = packing->config->source->count;
    packed->bad++;
    if (!packed->first_bad) {
        enum xt_status status = xt_mem_strdup(&packed->first_bad, why->text, err);
        if (status)
            return status;
    }
    if (packing->config->strict || xt_loader_is_too_bad(packed->bad, count))
        return xt_err_set(err, XT_ERR_DATA, "%zu of %s cannot be used; the first: %s", packed->bad,
                          xt_count((long long)count, "image").text, packed->first_bad);
    return XT_OK;
}

/* ---- a shard ---- */

static la_ssize_t on_write(struct archive *archive, void *context, const void *bytes, size_t size)
{
    struct packing *packing = context;
    packing->written = xt_file_write(&packing->file, bytes, size, &packing->why);
    if (!packing->written)
        return (la_ssize_t)size;
    archive_set_error(archive, 0, "the shard cannot be written");
    return -1;
}

/* Maps libarchive's status: a failed write, or out of memory. */
static enum xt_status archive_failed(const struct packing *packing, struct xt_err *err)
{
    if (packing->written) {
        *err = packing->why;
        return packing->written;
    }
    const char *why = packing->archive ? archive_error_string(packing->archive) : NULL;
    return xt_err_set(err, XT_ERR_RUN, "cannot write %s: %s", packing->file.path,
                      why ? why : "out of memory");
}

static enum xt_status begin_shard(struct packing *packing, struct xt_err *err)
{
    char *path = NULL;
    if (asprintf(&path, "%s-%06zu.tar", packing->config->prefix, packing->packed->shards) < 0)
        return xt_err_no_memory(err, "a file name", strlen(packing->config->prefix));
    enum xt_status status = XT_OK;
    if (xt_file_exists(path))
        status =
            xt_err_set(err, XT_ERR_RUN,
                       "%s exists already; give another name, or move the old shards aside", path);
    if (!status)
        status = xt_file_begin(&packing->file, path, err);
    free(path);
    if (status)
        return status;
    packing->filled = 0;
    packing->images = 0;
    packing->written = XT_OK;
    packing->archive = archive_write_new();
    if (packing->archive && archive_write_set_format_ustar(packing->archive) == ARCHIVE_OK &&
        archive_write_set_bytes_in_last_block(packing->archive, BLOCK) == ARCHIVE_OK &&
        archive_write_open(packing->archive, packing, NULL, on_write, NULL) == ARCHIVE_OK)
        return XT_OK;
    return archive_failed(packing, err);
}

static enum xt_status end_shard(struct packing *packing, struct xt_err *err)
{
    if (archive_write_close(packing->archive) != ARCHIVE_OK)
        return archive_failed(packing, err);
    archive_write_free(packing->archive);
    packing->archive = NULL;
    enum xt_status status = xt_file_commit(&packing->file, err);
    if (!status)
        packing->packed->shards++;
    return status;
}

/* Reproducible bytes: no owner, no time. */
static enum xt_status add_file(struct packing *packing, size_t index, const char *ending,
                               const void *bytes, size_t size, struct xt_err *err)
{
    char name[64];
    snprintf(name, sizeof name, "%08zu.%s", index, ending);
    struct archive_entry *entry = archive_entry_new();
    if (!entry)
        return xt_err_no_memory(err, "a shard's entry", 0);
    archive_entry_set_pathname(entry, name);
    archive_entry_set_size(entry, (la_int64_t)size);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, FILE_MODE);
    bool good = archive_write_header(packing->archive, entry) == ARCHIVE_OK &&
                archive_write_data(packing->archive, bytes, size) == (la_ssize_t)size;
    archive_entry_free(entry);
    return good ? XT_OK : archive_failed(packing, err);
}

/* ---- a sample ---- */

static enum xt_status encode(struct packing *packing, size_t index, const char **ending,
                             const void **bytes, size_t *size, struct xt_err *err)
{
    const uint8_t *stored = NULL;
    struct xt_err own;
    if (xt_source_bytes(packing->config->source, index, &packing->decoder, &stored, size, &own) ==
            XT_OK &&
        stored) {
        *ending = xt_jpeg_is(stored, *size) ? "jpg" : xt_webp_is(stored, *size) ? "webp" : "png";
        *bytes = stored;
        return XT_OK;
    }
    packing->encoded.length = 0;
    enum xt_status status = xt_png_encode(&packing->sample.picture.image, packing->config->order,
                                          &packing->encoded, err);
    *ending = "png";
    *bytes = packing->encoded.data;
    *size = packing->encoded.length;
    return status;
}

static enum xt_status spell_label(struct packing *packing, struct xt_err *err)
{
    const struct xt_pack_config *config = packing->config;
    const struct xt_sample *sample = &packing->sample;
    packing->label.length = 0;
    if (config->alphabet)
        return xt_alphabet_decode(config->alphabet, sample->label, sample->label_length,
                                  &packing->label, err);
    const char *name = xt_source_class_name(config->source, sample->label[0]);
    return xt_str_append(&packing->label, name, strlen(name), err);
}

static uint64_t blocks(size_t size)
{
    return ((uint64_t)size + BLOCK - 1) / BLOCK * BLOCK + BLOCK;
}

static enum xt_status add_sample(struct packing *packing, size_t index, struct xt_err *err)
{
    const char *ending = NULL;
    const void *bytes = NULL;
    size_t size = 0;
    enum xt_status status = encode(packing, index, &ending, &bytes, &size, err);
    if (!status)
        status = spell_label(packing, err);
    uint64_t needed = blocks(size) + blocks(packing->label.length);
    /* A tar ends with two empty blocks. */
    bool full = packing->archive && packing->images &&
                packing->filled + needed + 2 * BLOCK > packing->config->shard_bytes;
    if (!status && full)
        status = end_shard(packing, err);
    if (!status && !packing->archive)
        status = begin_shard(packing, err);
    if (!status)
        status = add_file(packing, index, ending, bytes, size, err);
    if (!status)
        status = add_file(packing, index, packing->config->alphabet ? "txt" : "cls",
                          packing->label.data, packing->label.length, err);
    packing->filled += needed;
    packing->images++;
    packing->packed->images += !status;
    packing->packed->bytes += size;
    return status;
}

static enum xt_status pack_sample(struct packing *packing, size_t index, struct xt_err *err)
{
    const struct xt_source *source = packing->config->source;
    enum xt_status status = check_stop(packing, err);
    if (status)
        return status;
    struct xt_err why;
    status = source->class->read(source, index, NULL, &packing->decoder, &packing->sample, &why);
    if (status == XT_ERR_DATA)
        return count_bad(packing, &why, err);
    if (status) {
        *err = why;
        return status;
    }
    return add_sample(packing, index, err);
}

static enum xt_status make_folder_of(const char *path, struct xt_err *err)
{
    size_t length = (size_t)(xt_file_name(path) - path);
    char *folder = length ? strndup(path, length) : NULL;
    if (!length)
        return XT_OK;
    if (!folder)
        return xt_err_no_memory(err, "a file name", length);
    enum xt_status status = xt_file_make_folder(folder, err);
    free(folder);
    return status;
}

static void clear(struct packing *packing)
{
    /* Freeing an archive that is not closed writes its end; the file is discarded. */
    archive_write_free(packing->archive);
    xt_file_abandon(&packing->file);
    xt_decoder_clear(&packing->decoder);
    xt_image_clear(&packing->sample.picture.image);
    xt_str_clear(&packing->encoded);
    xt_str_clear(&packing->label);
}

enum xt_status xt_pack_shards(const struct xt_pack_config *config, struct xt_packed *packed,
                              struct xt_err *err)
{
    *packed = (struct xt_packed){0};
    struct packing packing = {.config = config, .packed = packed, .file = {.fd = -1}};
    enum xt_status status = make_folder_of(config->prefix, err);
    for (size_t i = 0; i < config->source->count && !status; i++)
        status = pack_sample(&packing, i, err);
    if (!status && packing.archive)
        status = end_shard(&packing, err);
    clear(&packing);
    return status;
}

/* ---- pixels ---- */

enum { PIXEL_SLOTS = 2, PIXEL_BATCH = 64 };

/* The loader puts what it decodes into the cache: running it is all that is needed. */
static enum xt_status run_loader(struct xt_loader *loader, size_t count, struct xt_packed *packed,
                                 struct xt_err *err)
{
    bool end = false;
    enum xt_status status = XT_OK;
    while (!status && !end) {
        struct xt_batch batch;
        status = xt_loader_next(loader, &batch, &end, NULL, err);
        if (status || end)
            break;
        packed->images += (size_t)batch.count;
        xt_loader_release(loader, &batch);
        status = xt_stop_check(
            err, "after %zu of %zu images; the file stays and is used when it is packed again",
            packed->images, count);
    }
    return status;
}

static enum xt_status take_bad(struct xt_loader *loader, struct xt_packed *packed,
                               struct xt_err *err)
{
    struct xt_bad_sample *bad = NULL;
    size_t count = 0;
    enum xt_status status = xt_loader_bad(loader, &bad, &count, err);
    if (!status && count)
        status = xt_mem_strdup(&packed->first_bad, bad[0].reason, err);
    xt_loader_free_bad(bad, count);
    packed->bad = count;
    packed->images -= count < packed->images ? count : packed->images;
    return status;
}

enum xt_status xt_pack_pixels(const struct xt_pack_config *config, struct xt_packed *packed,
                              struct xt_err *err)
{
    *packed = (struct xt_packed){0};
    struct xt_cache_config file = {.source = config->source,
                                   .kind = XT_CACHE_DISK,
                                   .path = config->path,
                                   .shared = true,
                                   .width = config->width,
                                   .height = config->height,
                                   .order = config->order};
    size_t size = (size_t)config->width * (size_t)config->height * 3;
    uint8_t *pixels = NULL;
    struct xt_cache *cache = NULL;
    struct xt_loader *loader = NULL;
    enum xt_status status =
        xt_mem_calloc(&pixels, PIXEL_SLOTS * PIXEL_BATCH, size, "batches to pack", err);
    if (!status)
        status = make_folder_of(config->path, err);
    if (!status)
        status = xt_cache_create(&cache, &file, err);
    uint8_t *const slots[PIXEL_SLOTS] = {pixels, pixels + PIXEL_BATCH * size};
    struct xt_loader_config loading = {.source = config->source,
                                       .batch = PIXEL_BATCH,
                                       .width = config->width,
                                       .height = config->height,
                                       .workers = config->workers,
                                       .slots = PIXEL_SLOTS,
                                       .slot_pixels = slots,
                                       .order = config->order,
                                       .strict = config->strict,
                                       .cache = cache};
    if (!status)
        status = xt_loader_create(&loader, &loading, err);
    if (!status)
        status = run_loader(loader, config->source->count, packed, err);
    if (!status)
        status = take_bad(loader, packed, err);
    xt_loader_destroy(loader);
    if (!status)
        status = xt_cache_check(cache, err);
    packed->bytes = (uint64_t)packed->images * size;
    xt_cache_destroy(cache);
    free(pixels);
    return status;
}
