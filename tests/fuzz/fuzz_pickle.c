/* The pickle machine alone, then the bytes as a .pth file: what is taken must be readable. */
#include <archive.h>
#include <archive_entry.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "models/weights/pth.h"
#include "models/weights/weight_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed);

enum { ENTRY_MAX = 8192, ENTRIES_MAX = 16 };

/* libarchive's zip writer, which the mutator uses, loses memory where it runs out of room. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libarchive";
}

/* Copies one entry, its contents changed where it is the one to change. */
static int copy_entry(struct archive *in, struct archive *out, struct archive_entry *entry,
                      int changes)
{
    static uint8_t contents[ENTRY_MAX];
    la_ssize_t got = archive_read_data(in, contents, ENTRY_MAX);
    if (got < 0)
        return 0;
    size_t size = changes ? LLVMFuzzerMutate(contents, (size_t)got, ENTRY_MAX) : (size_t)got;
    archive_entry_set_size(entry, (la_int64_t)size);
    return archive_write_header(out, entry) == ARCHIVE_OK &&
           archive_write_data(out, contents, size) == (la_ssize_t)size;
}

/* A zip archive written again with one of its entries changed, so that checksums, lengths and the
 * directory fit. 0: it is not one, or there is no room. */
static size_t change_zip(const uint8_t *bytes, size_t size, uint8_t *to, size_t room, unsigned seed)
{
    struct archive *in = archive_read_new();
    struct archive *out = archive_write_new();
    struct archive_entry *entry = NULL;
    size_t used = 0;
    unsigned count = 0;
    int fine = in && out && archive_read_support_format_zip(in) == ARCHIVE_OK &&
               archive_read_open_memory(in, bytes, size) == ARCHIVE_OK &&
               archive_write_set_format_zip(out) == ARCHIVE_OK &&
               archive_write_zip_set_compression_store(out) == ARCHIVE_OK &&
               archive_write_set_bytes_in_last_block(out, 1) == ARCHIVE_OK &&
               archive_write_open_memory(out, to, room, &used) == ARCHIVE_OK;
    /* The pickle comes first; the others are tensors' bytes and a version. */
    while (fine && count < ENTRIES_MAX && archive_read_next_header(in, &entry) == ARCHIVE_OK) {
        fine = copy_entry(in, out, entry, count == (seed & 8 ? 0 : seed % 4));
        count++;
    }
    fine = fine && count && archive_write_close(out) == ARCHIVE_OK;
    archive_read_free(in);
    archive_write_free(out);
    return fine ? used : 0;
}

/* Room for all that change_zip may write: libarchive's writer leaks if it runs out. */
static size_t all_of(size_t size)
{
    return (size_t)ENTRIES_MAX * ENTRY_MAX + 8 * size + 65536;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed)
{
    size_t changed = 0;
    size_t all = all_of(size);
    uint8_t *copy = seed % 3 && size > 4 && memcmp(bytes, "PK\3\4", 4) == 0 ? malloc(all) : NULL;
    if (copy)
        changed = change_zip(bytes, size, copy, all, seed / 3);
    if (changed > room)
        changed = 0;
    if (changed)
        memcpy(bytes, copy, changed);
    free(copy);
    return changed ? changed : LLVMFuzzerMutate(bytes, size, room);
}

static void read_pickle(const uint8_t *bytes, size_t size)
{
    struct xt_pickle pickle = {.rules = &xt_pth_pickles};
    struct xt_err err;
    const struct xt_pickle_value *root = NULL;
    size_t at = 0;
    enum xt_status status = xt_pickle_read(&pickle, bytes, size, &at, &root, &err);
    if (status ? status != XT_ERR_DATA : !root || at > size)
        abort();
    xt_pickle_clear(&pickle);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct xt_weight_file file;
    struct xt_err err;
    read_pickle(bytes, size);
    enum xt_status status = xt_weight_file_parse(&file, bytes, size, "input", &err);
    if (status && status != XT_ERR_DATA)
        abort();
    unsigned sum = 0;
    for (size_t i = 0; !status && i < file.count; i++)
        for (size_t j = 0; j < file.tensors[i].bytes; j++)
            sum += ((const uint8_t *)file.tensors[i].data)[j];
    xt_weight_file_clear(&file);
    return sum == UINT32_MAX;
}
