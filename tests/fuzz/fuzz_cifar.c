/* Any bytes as CIFAR's batches: a file of records, a tar of them, and pickles. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "data/sources/cifar_pickle.h"
#include "data/sources/registry.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_as(const char *ending, const uint8_t *data, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/xtrain-fuzz-XXXXXX%s", ending);
    int fd = mkstemps(path, 4);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (!file)
        return;
    fwrite(data, 1, size, file);
    fclose(file);
    struct xt_source_options options = {.task = XT_TASK_CLASSES};
    struct xt_source *source = NULL;
    struct xt_sample sample = {0};
    struct xt_err err;
    if (!xt_source_cifar.open(&source, path, &options, &err) &&
        (source->class->read(source, source->count - 1, NULL, NULL, &sample, &err) ||
         sample.label[0] < 0 || sample.label[0] >= source->class_count))
        abort();
    xt_image_clear(&sample.picture.image);
    xt_source_destroy(source);
    unlink(path);
}

/* What is taken lies within the bytes. */
static void read_pickle(const uint8_t *data, size_t size)
{
    enum { IMAGE = 12 };
    struct xt_cifar_pickle batch;
    char *names = NULL;
    struct xt_err err;
    if (!xt_cifar_pickle_read(&batch, data, size, "labels", IMAGE, &err) &&
        (batch.pixels_at > size || batch.count > (size - batch.pixels_at) / IMAGE))
        abort();
    free(batch.labels);
    if (xt_cifar_pickle_names(&names, data, size, "label_names", &err) && names)
        abort();
    free(names);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && data[0] == 0x80) {
        read_pickle(data, size);
        return 0;
    }
    open_as(".bin", data, size);
    open_as(".tar", data, size);
    return 0;
}
