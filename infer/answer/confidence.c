#include "infer/answer/confidence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

double xt_confidence_temperature(const struct xt_confidence *confidence, int length)
{
    double own = length >= 0 && length <= XT_DECODE_MAX ? confidence->by_length[length] : 0;
    double found = own > 0 ? own : confidence->temperature;
    return found > 0 ? found : 1;
}

bool xt_confidence_rejects(const struct xt_confidence *confidence, const struct xt_decoded *said)
{
    int length = said->length;
    bool other =
        confidence->longest > 0 && (length < confidence->shortest || length > confidence->longest);
    return confidence->threshold > 0 &&
           (length == 0 || other || said->probability < confidence->threshold);
}

/* ---- rules ---- */

/* A whole decimal number in [0, 1]. */
static bool read_part(const char *text, double *out)
{
    char *end = NULL;
    if (strspn(text, "0123456789.eE-+") != strlen(text) || !*text)
        return false;
    *out = strtod(text, &end);
    return !*end && *out >= 0 && *out <= 1;
}

bool xt_reject_parse(const char *text, struct xt_reject_rule *out)
{
    *out = (struct xt_reject_rule){.kind = XT_REJECT_STORED};
    if (strcmp(text, "stored") == 0)
        return true;
    if (strcmp(text, "none") == 0) {
        out->kind = XT_REJECT_NONE;
        return true;
    }
    bool chosen = xt_str_starts(text, "auto:") || xt_str_starts(text, "keep:");
    out->kind = !chosen ? XT_REJECT_BELOW : *text == 'a' ? XT_REJECT_AUTO : XT_REJECT_KEEP;
    if (!read_part(chosen ? text + 5 : text, &out->value))
        return false;
    if (chosen && out->kind == XT_REJECT_AUTO)
        return out->value > 0 && out->value < 1;
    return !chosen || out->value > 0;
}

struct xt_reject_text xt_reject_spell(const struct xt_reject_rule *rule)
{
    struct xt_reject_text out;
    static const char *const words[] = {[XT_REJECT_STORED] = "stored",
                                        [XT_REJECT_NONE] = "none",
                                        [XT_REJECT_BELOW] = "",
                                        [XT_REJECT_AUTO] = "auto:",
                                        [XT_REJECT_KEEP] = "keep:"};
    int length = snprintf(out.text, sizeof out.text, "%s", words[rule->kind]);
    for (int digits = 1; rule->kind >= XT_REJECT_BELOW && digits <= 17; digits++) {
        snprintf(out.text + length, sizeof out.text - (size_t)length, "%.*g", digits, rule->value);
        if (strtod(out.text + length, NULL) == rule->value)
            break;
    }
    return out;
}

enum xt_status xt_reject_settle(const struct xt_reject_rule *rule,
                                const struct xt_confidence *stored, struct xt_confidence *out,
                                struct xt_err *err)
{
    *out = (struct xt_confidence){.threshold = rule->kind == XT_REJECT_BELOW ? rule->value : 0};
    /* A run's settings say what its weights have stored. */
    if (rule->kind == XT_REJECT_STORED || strcmp(stored->rule, xt_reject_spell(rule).text) == 0)
        *out = *stored;
    if (rule->kind <= XT_REJECT_BELOW)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "--reject %s chooses a threshold on labelled images, in training (which "
                      "stores it in the weights) or in eval; here it is a number, none or stored",
                      xt_reject_spell(rule).text);
}

/* ---- metadata ---- */

static enum xt_status refuse(const char *key, const char *value, struct xt_err *err)
{
    char shown[64];
    xt_str_escape(value, shown, sizeof shown);
    return xt_err_set(err, XT_ERR_DATA, "the metadata of the weights say %s \"%s\", which is no %s",
                      key, shown, key);
}

static bool is_temperature(double number)
{
    return number >= 0.001 && number <= 1000;
}

/* "7:1.41 8:1.22". */
static bool read_lengths(const char *text, double *by_length)
{
    while (*text) {
        char *end = NULL;
        long length = strtol(text, &end, 10);
        if (end == text || *end != ':' || length < 0 || length > XT_DECODE_MAX)
            return false;
        text = end + 1;
        by_length[length] = strtod(text, &end);
        if (end == text || !is_temperature(by_length[length]) || (*end && *end != ' '))
            return false;
        text = end + (*end == ' ');
    }
    return true;
}

/* "7-8". */
static bool read_range(const char *text, struct xt_confidence *out)
{
    char end = '\0';
    return sscanf(text, "%2d-%2d%c", &out->shortest, &out->longest, &end) == 2 &&
           out->shortest >= 0 && out->longest >= out->shortest && out->longest <= XT_DECODE_MAX;
}

static void copy(char *out, size_t size, const char *text)
{
    if (text)
        xt_str_escape(text, out, size);
}

enum xt_status xt_confidence_read(struct xt_confidence *out, const struct xt_weight_file *file,
                                  struct xt_err *err)
{
    *out = (struct xt_confidence){0};
    char *end = NULL;
    const char *temperature = xt_weight_file_meta(file, "temperature");
    const char *by_length = xt_weight_file_meta(file, "temperature_by_length");
    const char *threshold = xt_weight_file_meta(file, "reject");
    if (temperature)
        out->temperature = strtod(temperature, &end);
    if (temperature && (*end || !is_temperature(out->temperature)))
        return refuse("temperature", temperature, err);
    if (by_length && !read_lengths(by_length, out->by_length))
        return refuse("temperature_by_length", by_length, err);
    if (threshold && !read_part(threshold, &out->threshold))
        return refuse("reject", threshold, err);
    const char *lengths = xt_weight_file_meta(file, "reject_lengths");
    if (lengths && !read_range(lengths, out))
        return refuse("reject_lengths", lengths, err);
    copy(out->rule, sizeof out->rule, xt_weight_file_meta(file, "reject_rule"));
    copy(out->evidence, sizeof out->evidence, xt_weight_file_meta(file, "reject_evidence"));
    return XT_OK;
}

static void add(struct xt_confidence_text *out, const char *key, const char *value)
{
    if (*value)
        out->items[out->count++] = (struct xt_file_meta){key, value};
}

void xt_confidence_meta(const struct xt_confidence *confidence, struct xt_confidence_text *out)
{
    out->count = 0;
    *out->by_length = *out->threshold = *out->lengths = '\0';
    if (!(confidence->temperature > 0))
        return;
    snprintf(out->temperature, sizeof out->temperature, "%.9g", confidence->temperature);
    for (int i = 0; i <= XT_DECODE_MAX; i++)
        if (confidence->by_length[i] > 0)
            xt_str_append_to(out->by_length, sizeof out->by_length, "%s%d:%.9g",
                             *out->by_length ? " " : "", i, confidence->by_length[i]);
    if (confidence->threshold > 0)
        snprintf(out->threshold, sizeof out->threshold, "%.9g", confidence->threshold);
    if (confidence->longest > 0)
        snprintf(out->lengths, sizeof out->lengths, "%d-%d", confidence->shortest,
                 confidence->longest);
    add(out, "temperature", out->temperature);
    add(out, "temperature_by_length", out->by_length);
    add(out, "reject", out->threshold);
    add(out, "reject_lengths", out->lengths);
    add(out, "reject_rule", confidence->rule);
    add(out, "reject_evidence", confidence->evidence);
}
