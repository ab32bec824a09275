#include "data/sources/mix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/yaml.h"
#include "data/sources/registry.h"

enum { FILE_BYTES_MAX = 1 << 20 };
static const double weight_max = 1e6;
static const uint64_t epoch_max = (uint64_t)1 << 31;
/* A stream of its own, distinct from others with the same seed. */
static const uint64_t stream_of_mixtures = 0x6D697874757265u;

/* ---- the file ---- */

static enum xt_status read_text(struct xt_yaml *yaml, const char *key, struct xt_str *text,
                                struct xt_err *err)
{
    text->length = 0;
    enum xt_status status = xt_yaml_next(yaml, err);
    if (!status && yaml->event.type != YAML_SCALAR_EVENT)
        return xt_err_set(err, XT_ERR_USAGE, "%s:%d: %s is a single value, not a list", yaml->name,
                          xt_yaml_line(yaml), key);
    if (!status)
        status = xt_yaml_append(yaml, text, err);
    if (!status && text->length == 0)
        return xt_err_set(err, XT_ERR_USAGE, "%s:%d: %s has no value", yaml->name,
                          xt_yaml_line(yaml), key);
    return status;
}

/* Digits with at most one point among them. */
static bool is_decimal(const char *text)
{
    size_t points = 0;
    size_t digits = 0;
    for (; *text; text++) {
        points += *text == '.';
        digits += *text >= '0' && *text <= '9';
        if (*text != '.' && (*text < '0' || *text > '9'))
            return false;
    }
    return digits > 0 && points <= 1;
}

static enum xt_status read_weight(struct xt_yaml *yaml, struct xt_str *text, double *weight,
                                  struct xt_err *err)
{
    enum xt_status status = read_text(yaml, "weight", text, err);
    if (status)
        return status;
    *weight = is_decimal(text->data) ? strtod(text->data, NULL) : 0;
    if (*weight > 0 && *weight <= weight_max)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "%s:%d: weight is \"%.40s\", but must be a number above 0, at most %.0f; "
                      "omit the source if none of it is wanted",
                      yaml->name, xt_yaml_line(yaml), text->data, weight_max);
}

static enum xt_status read_epoch(struct xt_yaml *yaml, struct xt_str *text, uint64_t *epoch,
                                 struct xt_err *err)
{
    enum xt_status status = read_text(yaml, "epoch", text, err);
    if (status)
        return status;
    bool whole = strspn(text->data, "0123456789") == text->length && text->length < 19;
    *epoch = whole ? strtoull(text->data, NULL, 10) : 0;
    if (*epoch > 0 && *epoch <= epoch_max)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "%s:%d: epoch is \"%.40s\", but must be how many samples an epoch has, 1 to "
                      "%llu",
                      yaml->name, xt_yaml_line(yaml), text->data, (unsigned long long)epoch_max);
}

/* Reads the current key into `text`, which must be one of two; *second says which. */
static enum xt_status read_key(struct xt_yaml *yaml, const char *first_key, const char *second_key,
                               unsigned *seen, bool *second, struct xt_str *text,
                               struct xt_err *err)
{
    text->length = 0;
    if (yaml->event.type != YAML_SCALAR_EVENT)
        return xt_yaml_refuse(yaml, "a key must be a word", err);
    enum xt_status status = xt_yaml_append(yaml, text, err);
    if (status)
        return status;
    *second = strcmp(xt_str_get(text), second_key) == 0;
    if (!*second && strcmp(xt_str_get(text), first_key) != 0)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s:%d: \"%.40s\" is not known here; there are %s and "
                          "%s",
                          yaml->name, xt_yaml_line(yaml), xt_str_get(text), first_key, second_key);
    unsigned bit = *second ? 2 : 1;
    if (*seen & bit)
        return xt_err_set(err, XT_ERR_USAGE, "%s:%d: %s is given twice; keep one", yaml->name,
                          xt_yaml_line(yaml), xt_str_get(text));
    *seen |= bit;
    return XT_OK;
}

static enum xt_status read_part_keys(struct xt_yaml *yaml, struct xt_mix_part *part,
                                     struct xt_str *text, struct xt_err *err)
{
    unsigned seen = 0;
    enum xt_status status = xt_yaml_next(yaml, err);
    while (!status && yaml->event.type != YAML_MAPPING_END_EVENT) {
        bool weight = false;
        status = read_key(yaml, "data", "weight", &seen, &weight, text, err);
        if (!status && weight)
            status = read_weight(yaml, text, &part->weight, err);
        else if (!status)
            status = read_text(yaml, "data", text, err);
        if (!status && !weight)
            status = xt_mem_strdup(&part->data, text->data, err);
        if (!status)
            status = xt_yaml_next(yaml, err);
    }
    return status;
}

static enum xt_status read_part(struct xt_yaml *yaml, struct xt_mix_plan *plan, struct xt_str *text,
                                struct xt_err *err)
{
    if (yaml->event.type != YAML_MAPPING_START_EVENT)
        return xt_yaml_refuse(yaml, "a source is written `- data: DIR`, and below it `weight: 3`",
                              err);
    if (plan->count >= XT_MIX_SOURCES_MAX)
        return xt_err_set(err, XT_ERR_USAGE, "%s:%d: more than %d sources", yaml->name,
                          xt_yaml_line(yaml), XT_MIX_SOURCES_MAX);
    enum xt_status status = xt_mem_grow(&plan->parts, &plan->capacity, plan->count + 1,
                                        sizeof *plan->parts, "a list of sources", err);
    if (status)
        return status;
    struct xt_mix_part *part = &plan->parts[plan->count++];
    *part = (struct xt_mix_part){.weight = 1, .line = xt_yaml_line(yaml)};
    status = read_part_keys(yaml, part, text, err);
    if (!status && !part->data)
        return xt_err_set(err, XT_ERR_USAGE, "%s:%d: the source has no data: which images it is of",
                          yaml->name, part->line);
    return status;
}

static enum xt_status read_parts(struct xt_yaml *yaml, struct xt_mix_plan *plan,
                                 struct xt_str *text, struct xt_err *err)
{
    enum xt_status status = xt_yaml_next(yaml, err);
    if (!status && yaml->event.type != YAML_SEQUENCE_START_EVENT)
        return xt_yaml_refuse(yaml, "sources is a list; each begins with `- data: DIR`", err);
    if (!status)
        status = xt_yaml_next(yaml, err);
    while (!status && yaml->event.type != YAML_SEQUENCE_END_EVENT) {
        status = read_part(yaml, plan, text, err);
        if (!status)
            status = xt_yaml_next(yaml, err);
    }
    return status;
}

static enum xt_status read_plan(struct xt_yaml *yaml, struct xt_mix_plan *plan, struct xt_str *text,
                                struct xt_err *err)
{
    bool nothing = true;
    unsigned seen = 0;
    enum xt_status status = xt_yaml_enter(yaml, &nothing, err);
    if (!status && (nothing || yaml->event.type != YAML_MAPPING_START_EVENT))
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s:1: a mixture's file has `sources:` and a list of them", yaml->name);
    if (!status)
        status = xt_yaml_next(yaml, err);
    while (!status && yaml->event.type != YAML_MAPPING_END_EVENT) {
        bool sources = false;
        status = read_key(yaml, "epoch", "sources", &seen, &sources, text, err);
        if (!status)
            status = sources ? read_parts(yaml, plan, text, err)
                             : read_epoch(yaml, text, &plan->epoch, err);
        if (!status)
            status = xt_yaml_next(yaml, err);
    }
    if (!status)
        status = xt_yaml_leave(yaml, err);
    if (!status && plan->count == 0)
        return xt_err_set(err, XT_ERR_USAGE, "%s:1: the mixture has no sources", yaml->name);
    return status;
}

enum xt_status xt_mix_parse(struct xt_mix_plan *plan, const char *name, const uint8_t *bytes,
                            size_t size, struct xt_err *err)
{
    struct xt_yaml yaml;
    struct xt_str text = {0};
    enum xt_status status = xt_yaml_begin(&yaml, name, bytes, size, err);
    if (!status)
        status = read_plan(&yaml, plan, &text, err);
    xt_yaml_end(&yaml);
    xt_str_clear(&text);
    return status;
}

void xt_mix_plan_clear(struct xt_mix_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++)
        free(plan->parts[i].data);
    free(plan->parts);
    *plan = (struct xt_mix_plan){0};
}

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
    size_t first;   /* the index of its first sample in the mixture */
    uint64_t place; /* its first position in an epoch */
    uint64_t place_after;
};

struct mix {
    struct xt_source base;
    struct part *parts;
    size_t count;
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
    return part->source->class->read(part->source, index - part->first, want, decoder, sample, err);
}

static enum xt_status mix_label(const struct xt_source *source, size_t index, int *label,
                                int *length, struct xt_err *err)
{
    const struct part *part = part_of(source, index);
    return part->source->class->label(part->source, index - part->first, label, length, err);
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
    for (size_t i = 0; i < mix->count; i++)
        xt_source_destroy(mix->parts[i].source);
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

static bool is_name(const char *path)
{
    return xt_str_ends(path, ".yaml") || xt_str_ends(path, ".yml");
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
    part->first = mix->base.count;
    mix->base.count += part->source->count;
    if (mix->count++ == 0) {
        mix->base.class_names = part->source->class_names;
        mix->base.class_count = part->source->class_count;
    }
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

static enum xt_status read_file(struct xt_mix_plan *plan, const char *path, struct xt_err *err)
{
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    size_t size = 0;
    enum xt_status status = xt_file_read(path, FILE_BYTES_MAX, &bytes, &capacity, &size, err);
    if (!status)
        status = xt_mix_parse(plan, path, bytes, size, err);
    free(bytes);
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
    status = read_file(&plan, path, err);
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
