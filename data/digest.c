#include "data/digest.h"

#include <string.h>

#include "base/file.h"

enum { READ = 64, NAME_BYTES = 4096 };

struct xt_sha256_digest xt_source_digest_list(const struct xt_source *source, size_t begin,
                                              size_t end)
{
    struct xt_sha256 hash;
    xt_sha256_begin(&hash);
    for (size_t i = begin; i < end; i++) {
        char path[NAME_BYTES];
        int label[XT_LABEL_MAX];
        int length = 0;
        source->class->name(source, i, path, sizeof path);
        const char *name = xt_file_name(path);
        if (source->class->label(source, i, label, &length, NULL))
            length = 0;
        xt_sha256_add(&hash, name, strlen(name) + 1);
        xt_sha256_add(&hash, &length, sizeof length);
        xt_sha256_add(&hash, label, (size_t)length * sizeof *label);
    }
    return xt_sha256_end(&hash);
}

struct xt_image_digest xt_source_digest_image(const struct xt_source *source, size_t index,
                                              struct xt_decoder *decoder)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    struct xt_sample sample = {.label_length = 0};
    struct xt_image *image = &sample.picture.image;
    struct xt_image_digest out = {.unreadable = true};
    bool readable = !xt_source_bytes(source, index, decoder, &bytes, &size, NULL) &&
                    (bytes || !source->class->read(source, index, NULL, decoder, &sample, NULL));
    if (readable && !bytes) {
        bytes = image->pixels;
        size = (size_t)image->width * (size_t)image->height * 3;
    }
    if (readable)
        out = (struct xt_image_digest){.hash = xt_sha256(bytes, size), .bytes = size};
    xt_image_clear(image);
    return out;
}

struct xt_sha256_text xt_source_digest(const struct xt_source *source)
{
    struct xt_sha256 hash;
    struct xt_decoder decoder = {0};
    uint64_t count = source->count;
    size_t read = source->count < READ ? source->count : READ;
    const struct xt_sha256_digest list = xt_source_digest_list(source, 0, source->count);
    xt_sha256_begin(&hash);
    xt_sha256_add(&hash, &count, sizeof count);
    xt_sha256_add(&hash, &list, sizeof list);
    for (size_t i = 0; i < read; i++) {
        struct xt_image_digest image =
            xt_source_digest_image(source, i * source->count / read, &decoder);
        xt_sha256_add(&hash, &image.hash, sizeof image.hash);
    }
    xt_decoder_clear(&decoder);
    const struct xt_sha256_digest digest = xt_sha256_end(&hash);
    return xt_sha256_format(&digest);
}
