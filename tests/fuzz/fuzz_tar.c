/* Any bytes as a shard: what is found in it lies in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/sources/index/files.h"
#include "data/sources/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed);

enum { BLOCK = 512, SIZE_AT = 124, SUM_AT = 148, SUM_BYTES = 8 };

/* Gives each header the sum of its bytes, for which the sum's own count as spaces. */
static void mend_sums(uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + BLOCK <= size;) {
        uint8_t *head = bytes + at;
        char sum_text[SUM_BYTES + 1];
        char size_text[13] = "";
        unsigned sum = 0;
        memset(head + SUM_AT, ' ', SUM_BYTES);
        for (size_t i = 0; i < BLOCK; i++)
            sum += head[i];
        snprintf(sum_text, sizeof sum_text, "%06o", sum);
        memcpy(head + SUM_AT, sum_text, 7);
        memcpy(size_text, head + SIZE_AT, 12);
        size_t contents = strtoul(size_text, NULL, 8);
        if (contents > size)
            return;
        at += BLOCK + (contents + BLOCK - 1) / BLOCK * BLOCK;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed)
{
    size_t changed = LLVMFuzzerMutate(bytes, size, room);
    if (seed % 4)
        mend_sums(bytes, changed);
    return changed;
}

static void open_as(const char *path, enum xt_task task, bool labels_optional,
                    const struct xt_alphabet *alphabet)
{
    struct xt_source_options options = {
        .task = task, .alphabet = alphabet, .labels_optional = labels_optional};
    struct xt_source *source = NULL;
    struct xt_decoder decoder = {0};
    struct xt_sample sample = {0};
    struct xt_err err;
    if (!xt_source_files_open(&source, xt_source_tar.fill, path, &options, &err)) {
        for (size_t i = 0; i < source->count; i++) {
            char name[256];
            source->class->name(source, i, name, sizeof name);
            enum xt_status status = source->class->read(source, i, NULL, &decoder, &sample, &err);
            if (status != XT_OK && status != XT_ERR_DATA && status != XT_ERR_MEMORY)
                abort();
        }
    }
    xt_source_destroy(source);
    xt_image_clear(&sample.picture.image);
    xt_decoder_clear(&decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[] = "/tmp/xtrain-fuzz-XXXXXX.tar";
    struct xt_alphabet *alphabet = NULL;
    struct xt_err err;
    int fd = mkstemps(path, 4);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!file)
        return 0;
    fwrite(data, 1, size, file);
    fclose(file);
    if (!xt_alphabet_load(&alphabet, NULL, &err)) {
        open_as(path, XT_TASK_CLASSES, true, NULL);
        open_as(path, XT_TASK_PLATES, false, alphabet);
    }
    xt_alphabet_destroy(alphabet);
    unlink(path);
    return 0;
}
