/* Any bytes as a shard: what is found in it lies in it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/sources/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_as(const char *path, enum xt_task task, bool labels_optional,
                    const struct xt_alphabet *alphabet)
{
    struct xt_source_options options = {
        .task = task, .alphabet = alphabet, .labels_optional = labels_optional};
    struct xt_source *source = NULL;
    struct xt_decoder decoder = {0};
    struct xt_sample sample = {0};
    struct xt_err err;
    if (!xt_source_tar.open(&source, path, &options, &err)) {
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
    char path[64];
    struct xt_alphabet *alphabet = NULL;
    struct xt_err err;
    snprintf(path, sizeof path, "/tmp/xtrain-fuzz-%ld.tar", (long)getpid());
    FILE *file = fopen(path, "wb");
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
