#include "data/digest.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"

enum { LISTED = 4096, READ = 64, NAME_BYTES = 4096 };

static void add_listed(struct xt_sha256 *hash, const struct xt_source *source, size_t index)
{
    char name[NAME_BYTES];
    int label[XT_LABEL_MAX];
    int length = 0;
    source->class->name(source, index, name, sizeof name);
    const char *own = xt_file_name(name);
    xt_sha256_add(hash, own, strlen(own) + 1);
    if (!source->class->label(source, index, label, &length, NULL))
        xt_sha256_add(hash, label, (size_t)length * sizeof *label);
}

static void add_bytes(struct xt_sha256 *hash, const struct xt_source *source, size_t index,
                      struct xt_decoder *decoder)
{
    const uint8_t *bytes = NULL;
    size_t size = 0;
    if (!xt_source_bytes(source, index, decoder, &bytes, &size, NULL) && bytes)
        xt_sha256_add(hash, bytes, size);
}

struct xt_sha256_text xt_source_digest(const struct xt_source *source)
{
    struct xt_sha256 hash;
    struct xt_decoder decoder = {0};
    uint64_t count = source->count;
    size_t listed = source->count < LISTED ? source->count : LISTED;
    size_t read = source->count < READ ? source->count : READ;
    xt_sha256_begin(&hash);
    xt_sha256_add(&hash, &count, sizeof count);
    for (size_t i = 0; i < listed; i++)
        add_listed(&hash, source, i * source->count / listed);
    for (size_t i = 0; i < read; i++)
        add_bytes(&hash, source, i * source->count / read, &decoder);
    xt_decoder_clear(&decoder);
    const struct xt_sha256_digest digest = xt_sha256_end(&hash);
    return xt_sha256_format(&digest);
}
