/* A mixture's file, and reading it (mix.h). */
#include "data/sources/mix.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/yaml.h"

enum { FILE_BYTES_MAX = 1 << 20 };
static const double weight_max = 1e6;
static const uint64_t epoch_max = (uint64_t)1 << 31;

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
                          "%s:%d: \"%.40s\" is not known here; there are %s and %s", yaml->name,
                          xt_yaml_line(yaml), xt_str_get(text), first_key, second_key);
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
    enum xt_status status =
        xt_mem_add(&plan->parts, plan->count, sizeof *plan->parts, "a list of sources", err);
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

enum xt_status xt_mix_read(struct xt_mix_plan *plan, const char *path, struct xt_err *err)
{
    struct xt_bytes bytes = {0};
    enum xt_status status = xt_file_load(path, FILE_BYTES_MAX, &bytes, err);
    if (!status)
        status = xt_mix_parse(plan, path, bytes.data, bytes.size, err);
    free(bytes.data);
    return status;
}
