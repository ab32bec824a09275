#include "data/sources/mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/classes.h"
#include "data/sources/registry.h"

/* A stream of its own, distinct from others with the same seed. */
static const uint64_t stream_of_mixtures = 0x6D697874757265u;

/* ---- the order ---- */

/* A Feistel network over the next power of four, iterated until the number is in range: less than
 * four times on average. */
uint64_t xt_mix_permute(uint64_t number, uint64_t count, uint64_t key)
{
    enum { ROUNDS = 4 };
    unsigned half = 1;
    while (half < 32 && ((uint64_t)1 << (2 * half)) < count)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = number >> half;
        uint64_t right = number & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            uint64_t moved = left ^ (xt_rng_at(key, round, right) & mask);
            left = right;
            right = moved;
        }
        number = left << half | right;
    } while (number >= count);
    return number;
}

/* ---- the set ---- */

struct part {
    struct xt_source *source;
    int *classes;   /* of joined sets: the joined number of each of its classes; NULL: the same */
    size_t first;   /* the index of its first sample in the mixture */
    uint64_t place; /* its first position in an epoch */
    uint64_t place_after;
};

struct mix {
    struct xt_source base;
    struct part *parts;
    size_t count;
    bool owns_names; /* of the classes; else they are the first source's */
};

static const struct part *part_of(const struct xt_source *source, size_t index)
{
    const struct mix *mix = (const struct mix *)source;
    const struct part *part = mix->parts + mix->count - 1;
    while (part->first > index)
        part--;
    return part;
}

static enum xt_status mix_read(const struct xt_source *source, size_t index,
                               const struct xt_want *want, struct xt_decoder *decoder,
                               struct xt_sample *sample, struct xt_err *err)
{
    const struct part *part = part_of(source, index);
    enum xt_status status =
        part->source->class->read(part->source, index - part->first, want, decoder, sample, err);
    if (!status && part->classes)
        sample->label[0] = part->classes[sample->label[0]];
    return status;
}

static enum xt_status mix_label(const struct xt_source *source, size_t index, int *label,
                                int *length, struct xt_err *err)
{
    const struct part *part = part_of(source, index);
    enum xt_status status =
        part->source->class->label(part->source, index - part->first, label, length, err);
    if (!status && part->classes)
        label[0] = part->classes[label[0]];
    return status;
}

static void mix_name(const struct xt_source *source, size_t index, char *out, size_t size)
{
    const struct part *part = part_of(source, index);
    part->source->class->name(part->source, index - part->first, out, size);
}

static uint64_t mix_stamp(const struct xt_source *source, size_t index)
{
    const struct part *part = part_of(source, index);
    return part->source->class->stamp
               ? part->source->class->stamp(part->source, index - part->first)
               : 0;
}

static enum xt_status mix_bytes(const struct xt_source *source, size_t index,
                                struct xt_decoder *decoder, const uint8_t **bytes, size_t *size,
                                struct xt_err *err)
{
    const struct part *part = part_of(source, index);
    return xt_source_bytes(part->source, index - part->first, decoder, bytes, size, err);
}

/* The source's samples are drawn in a sequence that continues across epochs; each pass over them
 * has another order. */
static size_t mix_draw(const struct xt_source *source, uint64_t seed, uint64_t epoch, size_t place)
{
    const struct mix *mix = (const struct mix *)source;
    size_t number = 0;
    while (place >= mix->parts[number].place_after)
        number++;
    const struct part *part = &mix->parts[number];
    uint64_t count = part->source->count;
    uint64_t at = epoch * (part->place_after - part->place) + (place - part->place);
    uint64_t key = xt_rng_at(seed ^ stream_of_mixtures, number, at / count);
    return part->first + (size_t)xt_mix_permute(at % count, count, key);
}

static void mix_destroy(struct xt_source *source)
{
    struct mix *mix = (struct mix *)source;
    for (size_t i = 0; i < mix->count; i++) {
        xt_source_destroy(mix->parts[i].source);
        free(mix->parts[i].classes);
    }
    if (mix->owns_names)
        xt_classes_free_names(source);
    free(mix->parts);
    free(mix);
}

/* Each part gets its share of the memory, by its number of samples. */
static enum xt_status mix_cache(struct xt_source *source, uint64_t limit, struct xt_err *err)
{
    const struct mix *mix = (const struct mix *)source;
    double each = (double)limit / (double)source->count;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < mix->count && !status; i++) {
        struct xt_source *part = mix->parts[i].source;
        status = xt_source_cache(part, (uint64_t)(each * (double)part->count), err);
    }
    return status;
}

static const struct xt_source_class mix_class = {
    .read = mix_read,
    .label = mix_label,
    .name = mix_name,
    .stamp = mix_stamp,
    .bytes = mix_bytes,
    .draw = mix_draw,
    .cache = mix_cache,
    .destroy = mix_destroy,
};

/* The same without an order of its own: an epoch has each sample once. */
static const struct xt_source_class joined_class = {
    .read = mix_read,
    .label = mix_label,
    .name = mix_name,
    .stamp = mix_stamp,
    .bytes = mix_bytes,
    .cache = mix_cache,
    .destroy = mix_destroy,
};

static bool is_name(const char *path)
{
    return xt_str_ends(path, ".yaml") || xt_str_ends(path, ".yml");
}

/* Counts the part that was opened last. */
static void count_part(struct mix *mix)
{
    struct part *part = &mix->parts[mix->count];
    part->first = mix->base.count;
    mix->base.count += part->source->count;
    if (mix->count++ == 0) {
        mix->base.class_names = part->source->class_names;
        mix->base.class_count = part->source->class_count;
    }
}

/* Opens a part; its paths are relative to the folder of the mixture's file. */
static enum xt_status open_part(struct mix *mix, const char *path, const struct xt_mix_part *wanted,
                                const struct xt_source_options *options, struct xt_err *err)
{
    struct xt_source_options own = *options;
    struct part *part = &mix->parts[mix->count];
    char *spec = NULL;
    if (is_name(wanted->data))
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s:%d: %s is a mixture itself; write its sources here", path,
                          wanted->line, wanted->data);
    if (mix->count && !own.class_count) {
        own.class_names = (const char *const *)mix->base.class_names;
        own.class_count = mix->base.class_count;
    }
    enum xt_status status = xt_source_spec_from(&spec, path, wanted->data, err);
    if (!status)
        status = xt_source_open(&part->source, spec, &own, err);
    free(spec);
    if (status == XT_ERR_USAGE || status == XT_ERR_DATA)
        return xt_err_prefix(err, "%s:%d: ", path, wanted->line);
    if (status)
        return status;
    count_part(mix);
    return XT_OK;
}

/* The epoch's positions are divided by the weights, rounded to whole numbers. */
static enum xt_status deal(struct mix *mix, const char *path, const struct xt_mix_plan *plan,
                           struct xt_err *err)
{
    double all = 0;
    for (size_t i = 0; i < plan->count; i++)
        all += plan->parts[i].weight;
    uint64_t length = plan->epoch ? plan->epoch : mix->base.count;
    double before = 0;
    for (size_t i = 0; i < mix->count; i++) {
        struct part *part = &mix->parts[i];
        part->place = i ? part[-1].place_after : 0;
        before += plan->parts[i].weight;
        part->place_after =
            i + 1 < mix->count ? (uint64_t)((double)length * (before / all) + 0.5) : length;
        if (part->place_after <= part->place)
            return xt_err_set(err, XT_ERR_USAGE,
                              "%s:%d: of an epoch of %s this source's weight gives it "
                              "no sample; raise the weight, or epoch",
                              path, plan->parts[i].line,
                              xt_count((long long)length, "sample").text);
    }
    mix->base.epoch_length = (size_t)length;
    return XT_OK;
}

static void describe(struct mix *mix, const char *path, const struct xt_mix_plan *plan)
{
    snprintf(mix->base.description, sizeof mix->base.description,
             "%s of %s in %.130s, %zu an epoch", xt_count((long long)mix->base.count, "image").text,
             xt_count((long long)mix->count, "source").text, path, mix->base.epoch_length);
    for (size_t i = 0; i < mix->count; i++) {
        const struct part *part = &mix->parts[i];
        xt_log_detail("%s: %llu an epoch of %s (%s)", path,
                      (unsigned long long)(part->place_after - part->place), plan->parts[i].data,
                      part->source->description);
    }
}

static enum xt_status open_all(struct mix *mix, const char *path, const struct xt_mix_plan *plan,
                               const struct xt_source_options *options, struct xt_err *err)
{
    enum xt_status status =
        xt_mem_calloc(&mix->parts, plan->count, sizeof *mix->parts, "a mixture", err);
    for (size_t i = 0; i < plan->count && !status; i++)
        status = open_part(mix, path, &plan->parts[i], options, err);
    if (!status)
        status = deal(mix, path, plan, err);
    if (!status)
        describe(mix, path, plan);
    return status;
}

static bool is(const char *path, mode_t mode, enum xt_task task)
{
    (void)task;
    return S_ISREG(mode) && is_name(path);
}

static enum xt_status open_mix(struct xt_source **out, const char *path,
                               const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    struct mix *mix = NULL;
    struct xt_mix_plan plan = {0};
    enum xt_status status = xt_mem_calloc(&mix, 1, sizeof *mix, "a data source", err);
    if (status)
        return status;
    mix->base.class = &mix_class;
    status = xt_mix_read(&plan, path, err);
    if (!status)
        status = open_all(mix, path, &plan, options, err);
    xt_mix_plan_clear(&plan);
    if (status)
        mix_destroy(&mix->base);
    else
        *out = &mix->base;
    return status;
}

const struct xt_source_kind xt_source_mix = {.is = is, .open = open_mix};

/* ---- several sets as one ---- */

static const char *const kinds[] = {
    [XT_TASK_PLATES] = "plates", [XT_TASK_CLASSES] = "images of classes"};

/* Plates and images of classes may open as each other: file names are labels of either. */
static enum xt_status check_kinds(const char *first, enum xt_task one, const char *spec,
                                  const struct xt_source_options *options, struct xt_err *err)
{
    enum xt_task other = xt_source_guess_task(spec, options->alphabet);
    if (one == other)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "%.*s holds %s, and %s %s: sets of different kinds cannot be joined",
                      (int)strcspn(first, XT_SPEC_AND), first, kinds[one], spec, kinds[other]);
}

static enum xt_status open_set(struct mix *mix, const char *first, enum xt_task kind,
                               const char *spec, const struct xt_source_options *options,
                               struct xt_err *err)
{
    struct part *part = &mix->parts[mix->count];
    enum xt_status status = xt_source_open(&part->source, spec, options, err);
    if (status == XT_ERR_DATA && mix->count)
        xt_err_prefix(err, "%.*s and %s are joined, so both must hold %s: ",
                      (int)strcspn(first, XT_SPEC_AND), first, spec, kinds[options->task]);
    if (!status && part->source->class->draw)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "%s is a mixture, which names its sets itself; give it alone", spec);
    if (!status && mix->count && !options->labels_optional)
        status = check_kinds(first, kind, spec, options, err);
    if (status) {
        xt_source_destroy(part->source);
        return status;
    }
    mix->base.has_other_part =
        part->source->has_other_part && (mix->base.has_other_part || mix->count == 0);
    mix->base.labels_in_names =
        part->source->labels_in_names && (mix->base.labels_in_names || mix->count == 0);
    count_part(mix);
    return XT_OK;
}

/* The classes of all sets, matched by name. */
static enum xt_status join_classes(struct mix *mix, const struct xt_source_options *options,
                                   struct xt_err *err)
{
    struct xt_classes all = {0};
    int *map = NULL;
    if (options->task != XT_TASK_CLASSES || options->class_count || options->labels_optional)
        return XT_OK;
    enum xt_status status = xt_classes_init(&all, options, err);
    for (size_t i = 0; i < mix->count && !status; i++) {
        struct part *part = &mix->parts[i];
        int count = part->source->class_count;
        status = xt_mem_calloc(&part->classes, (size_t)count, sizeof(int), "class numbers", err);
        for (int k = 0; k < count && !status; k++) {
            const char *name = part->source->class_names[k];
            status = xt_classes_add(&all, name, strlen(name), &part->classes[k], err);
        }
    }
    if (!status)
        status = xt_classes_sort(&all, &map, err);
    for (size_t i = 0; i < mix->count && !status; i++)
        for (int k = 0; k < mix->parts[i].source->class_count; k++)
            mix->parts[i].classes[k] = map[mix->parts[i].classes[k]];
    if (!status)
        status = xt_classes_move(&all, &mix->base, "the joined sets", err);
    mix->owns_names = !status;
    xt_classes_clear(&all);
    free(map);
    return status;
}

static enum xt_status open_sets(struct mix *mix, const char *specs,
                                const struct xt_source_options *options, struct xt_err *err)
{
    char *copy = NULL;
    size_t count = 1;
    for (const char *at = specs; (at = strpbrk(at, XT_SPEC_AND)); at++)
        count++;
    enum xt_status status =
        xt_mem_calloc(&mix->parts, count, sizeof *mix->parts, "joined sets", err);
    if (!status)
        status = xt_mem_strdup(&copy, specs, err);
    enum xt_task kind =
        options->labels_optional ? options->task : xt_source_guess_task(specs, options->alphabet);
    char *rest = copy;
    for (char *spec; !status && (spec = strsep(&rest, XT_SPEC_AND));)
        status = open_set(mix, specs, kind, spec, options, err);
    free(copy);
    if (!status)
        status = join_classes(mix, options, err);
    if (!status)
        snprintf(mix->base.description, sizeof mix->base.description, "%s of %s: %.150s",
                 xt_count((long long)mix->base.count, "image").text,
                 xt_count((long long)mix->count, "set").text, xt_source_specs_shown(specs).text);
    return status;
}

enum xt_status xt_source_open_joined(struct xt_source **out, const char *specs,
                                     const struct xt_source_options *options, struct xt_err *err)
{
    struct mix *mix = NULL;
    *out = NULL;
    enum xt_status status = xt_mem_calloc(&mix, 1, sizeof *mix, "a data source", err);
    if (status)
        return status;
    mix->base.class = &joined_class;
    status = open_sets(mix, specs, options, err);
    if (status)
        mix_destroy(&mix->base);
    else
        *out = &mix->base;
    return status;
}
