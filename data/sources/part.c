#include "data/sources/part.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"

struct part {
    struct xt_source source;
    struct xt_source *whole;
    bool owns;
    size_t *places; /* [count] in `whole`; NULL: evenly spaced */
};

static const struct part *part_of(const struct xt_source *source)
{
    return (const struct part *)source;
}

static size_t place_of(const struct xt_source *source, size_t index)
{
    const size_t *places = part_of(source)->places;
    return places ? places[index] : index * part_of(source)->whole->count / source->count;
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
    free(part->places);
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

enum xt_status xt_source_holds_out(const struct xt_source *whole, size_t index, double share,
                                   uint64_t seed, bool *out, struct xt_err *err)
{
    int symbols[XT_LABEL_MAX];
    int length = 0;
    uint64_t key = index;
    enum xt_status status = XT_OK;
    if (!xt_source_class_count(whole)) {
        status = whole->class->label(whole, index, symbols, &length, err);
        for (int i = 0; i < length; i++)
            key = (i ? key : 0) * 4099 + (uint64_t)symbols[i] + 1;
    }
    struct xt_rng rng = xt_rng_begin(seed, key);
    *out = (double)xt_rng_uniform(&rng) < share;
    return status;
}

/* Takes `places`, also after a failure. */
static enum xt_status take_places(struct xt_source **out, struct xt_source *whole, bool owns,
                                  size_t *places, size_t count, struct xt_err *err)
{
    enum xt_status status = xt_source_part(out, whole, owns, count, err);
    if (status)
        free(places);
    else
        ((struct part *)*out)->places = places;
    return status;
}

static enum xt_status list_places(const struct xt_source *whole, double share, uint64_t seed,
                                  size_t *places[2], size_t counts[2], struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < 2 && !status; i++)
        status =
            xt_mem_calloc(&places[i], whole->count, sizeof *places[i], "the parts of images", err);
    for (size_t i = 0; i < whole->count && !status; i++) {
        bool held = false;
        status = xt_source_holds_out(whole, i, share, seed, &held, err);
        places[held][counts[held]++] = i;
    }
    if (!status && (!counts[0] || !counts[1]))
        status = xt_err_set(err, XT_ERR_USAGE,
                            "holding out %g of %zu images leaves %zu for training and %zu for "
                            "evaluation; give more images or another part",
                            share, whole->count, counts[0], counts[1]);
    return status;
}

enum xt_status xt_source_hold_out(struct xt_source *whole, double share, uint64_t seed,
                                  struct xt_source **training, struct xt_source **held,
                                  struct xt_err *err)
{
    size_t *places[2] = {NULL, NULL};
    size_t counts[2] = {0, 0};
    *training = *held = NULL;
    enum xt_status status =
        whole->class->draw ? xt_err_set(err, XT_ERR_USAGE,
                                        "a mixture has no fixed images to hold out; give --val "
                                        "instead of --val-part, and a folder as --negatives")
                           : list_places(whole, share, seed, places, counts, err);
    if (status) {
        free(places[0]);
        free(places[1]);
        xt_source_destroy(whole);
        return status;
    }
    status = take_places(training, whole, true, places[0], counts[0], err);
    if (status) {
        free(places[1]);
        return status;
    }
    return take_places(held, whole, false, places[1], counts[1], err);
}
