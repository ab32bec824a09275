#include "data/sources/part.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

struct part {
    struct xt_source source;
    struct xt_source *whole;
    bool owns;
};

static const struct part *part_of(const struct xt_source *source)
{
    return (const struct part *)source;
}

static size_t place_of(const struct xt_source *source, size_t index)
{
    return index * part_of(source)->whole->count / source->count;
}

static enum xt_status read(const struct xt_source *source, size_t index, const struct xt_want *want,
                           struct xt_decoder *decoder, struct xt_sample *sample, struct xt_err *err)
{
    const struct xt_source *whole = part_of(source)->whole;
    return whole->class->read(whole, place_of(source, index), want, decoder, sample, err);
}

static enum xt_status label(const struct xt_source *source, size_t index, int *label, int *length,
                            struct xt_err *err)
{
    const struct xt_source *whole = part_of(source)->whole;
    return whole->class->label(whole, place_of(source, index), label, length, err);
}

static void name(const struct xt_source *source, size_t index, char *out, size_t size)
{
    const struct xt_source *whole = part_of(source)->whole;
    whole->class->name(whole, place_of(source, index), out, size);
}

static uint64_t stamp(const struct xt_source *source, size_t index)
{
    const struct xt_source *whole = part_of(source)->whole;
    return whole->class->stamp ? whole->class->stamp(whole, place_of(source, index)) : 0;
}

static enum xt_status bytes(const struct xt_source *source, size_t index,
                            struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                            struct xt_err *err)
{
    return xt_source_bytes(part_of(source)->whole, place_of(source, index), decoder, bytes, size,
                           err);
}

static enum xt_status cache_files(struct xt_source *source, uint64_t limit, struct xt_err *err)
{
    return xt_source_cache(((struct part *)source)->whole, limit, err);
}

static void destroy(struct xt_source *source)
{
    struct part *part = (struct part *)source;
    if (part->owns)
        xt_source_destroy(part->whole);
    free(part);
}

static const struct xt_source_class class_part = {
    .read = read,
    .label = label,
    .name = name,
    .stamp = stamp,
    .bytes = bytes,
    .cache = cache_files,
    .destroy = destroy,
};

enum xt_status xt_source_part(struct xt_source **out, struct xt_source *whole, bool owns,
                              size_t count, struct xt_err *err)
{
    struct part *part = NULL;
    *out = NULL;
    enum xt_status status = xt_mem_calloc(&part, 1, sizeof *part, "a part of the images", err);
    if (status) {
        if (owns)
            xt_source_destroy(whole);
        return status;
    }
    part->source = (struct xt_source){
        .class = &class_part,
        .count = count,
        .class_names = whole->class_names,
        .class_count = whole->class_count,
        .labels_in_names = whole->labels_in_names,
    };
    char of[32] = "";
    if (count < whole->count)
        snprintf(of, sizeof of, "%zu of ", count);
    snprintf(part->source.description, sizeof part->source.description, "%s%.220s", of,
             whole->description);
    part->whole = whole;
    part->owns = owns;
    *out = &part->source;
    return XT_OK;
}
