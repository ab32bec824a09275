#include "cli/options/types.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/sources/registry.h"
#include "device/gpu/capture.h"
#include "infer/answer/confidence.h"

/* ---- showing ---- */

struct xt_shown xt_show(const char *text)
{
    struct xt_shown shown = {.text = "\""};
    enum { ROOM = sizeof shown.text - 5 }; /* for ..." and the quote before */
    size_t taken = xt_str_escape(text, shown.text + 1, ROOM);
    xt_str_append_to(shown.text, sizeof shown.text, "%s\"", text[taken] ? "..." : "");
    return shown;
}

enum xt_status xt_option_list_choices(const char *const *choices, struct xt_str *out,
                                      struct xt_err *err)
{
    for (size_t i = 0; choices[i]; i++) {
        const char *between = i == 0 ? "" : choices[i + 1] ? ", " : " or ";
        xt_str_printf(out, NULL, "%s%s", between, choices[i]);
    }
    return xt_str_check(out, err);
}

/* ---- describing ---- */

static enum xt_status describe_range(const struct xt_option *option, const char *what,
                                     struct xt_str *out, struct xt_err *err)
{
    char min[32];
    char max[32];
    snprintf(min, sizeof min, "%.15g", option->min);
    /* 1000000000000000 rather than 1e+15 */
    bool whole = option->max < 1e16 && option->max == floor(option->max);
    snprintf(max, sizeof max, whole ? "%.0f" : "%.15g", option->max);
    if (option->above_min && option->below_max)
        return xt_str_printf(out, err, "%s greater than %s and less than %s", what, min, max);
    if (option->above_min)
        return xt_str_printf(out, err, "%s greater than %s and at most %s", what, min, max);
    return xt_str_printf(out, err, "%s from %s to %s%s", what, min,
                         option->below_max ? "less than " : "", max);
}

enum xt_status xt_option_describe(const struct xt_option *option, struct xt_str *out,
                                  struct xt_err *err)
{
    const struct xt_option_type *type = option->type;
    if (type == &xt_type_integer || type == &xt_type_int64)
        return describe_range(
            option, option->automatic ? "auto or a whole number" : "a whole number", out, err);
    if (type == &xt_type_real)
        return describe_range(option, "a number", out, err);
    if (type == &xt_type_gpu) {
        xt_str_printf(out, NULL, "a PCI device id such as 0xe20b, or ");
        return xt_option_list_choices(option->choices, out, err);
    }
    if (type == &xt_type_choice)
        return xt_option_list_choices(option->choices, out, err);
    if (type->takes)
        return xt_str_printf(out, err, "%s", type->takes);
    return xt_str_printf(out, err, "%s", option->value ? option->value : type->placeholder);
}

/* "SUBJECT takes ..., not "given"" and a hint. */
static enum xt_status refuse(const struct xt_option *option, const char *subject, const char *given,
                             const char *hint, struct xt_err *err)
{
    struct xt_str takes = {0};
    enum xt_status status = xt_option_describe(option, &takes, err);
    if (!status)
        status = xt_err_set(err, XT_ERR_USAGE, "%s takes %s, not %s%s", subject, xt_str_get(&takes),
                            xt_show(given).text, hint);
    xt_str_clear(&takes);
    return status;
}

/* ---- numbers ---- */

/* Decimal digits only, without leading zeros. */
static bool is_whole(const char *text)
{
    if (*text == '0')
        return text[1] == '\0';
    return *text && strspn(text, "0123456789") == strlen(text);
}

static bool in_range(const struct xt_option *option, double value)
{
    bool enough = option->above_min ? value > option->min : value >= option->min;
    bool few = option->below_max ? value < option->max : value <= option->max;
    return enough && few;
}

/* For an int or an int64_t; auto is 0. */
static enum xt_status parse_whole(const struct xt_option *option, const char *subject,
                                  const char *text, void *value, struct xt_err *err)
{
    static const char *const automatic[] = {"auto"};
    bool is_auto = option->automatic && strcmp(text, automatic[0]) == 0;
    if (option->automatic && !is_auto && xt_str_nearest(text, automatic, 1))
        return refuse(option, subject, text, "; did you mean auto?", err);
    if (!is_auto && !is_whole(*text == '-' ? text + 1 : text))
        return refuse(option, subject, text, "", err);
    errno = 0;
    int64_t number = is_auto ? 0 : strtoll(text, NULL, 10);
    if (errno || (!is_auto && !in_range(option, (double)number)))
        return refuse(option, subject, text, "", err);
    int narrow = (int)number;
    bool is_wide = option->type->size == sizeof number;
    memcpy(value, is_wide ? (const void *)&number : &narrow, option->type->size);
    return XT_OK;
}

static enum xt_status spell_whole(const struct xt_option *option, const void *value,
                                  struct xt_str *out, struct xt_err *err)
{
    int64_t number = 0;
    int narrow = 0;
    bool is_wide = option->type->size == sizeof number;
    memcpy(is_wide ? (void *)&number : &narrow, value, option->type->size);
    if (!is_wide)
        number = narrow;
    return !number && option->automatic ? xt_str_printf(out, err, "auto")
                                        : xt_str_printf(out, err, "%lld", (long long)number);
}

static enum xt_status parse_seed(const struct xt_option *option, const char *subject,
                                 const char *text, void *value, struct xt_err *err)
{
    if (!is_whole(text))
        return refuse(option, subject, text, "", err);
    errno = 0;
    uint64_t number = strtoull(text, NULL, 10);
    if (errno)
        return refuse(option, subject, text, "", err);
    memcpy(value, &number, sizeof number);
    return XT_OK;
}

static enum xt_status spell_seed(const struct xt_option *option, const void *value,
                                 struct xt_str *out, struct xt_err *err)
{
    (void)option;
    uint64_t number = *(const uint64_t *)value;
    return xt_str_printf(out, err, "%llu", (unsigned long long)number);
}

/* The length of a decimal number at the start of `text`: digits with at most one point, an
 * exponent; 0 if there is none. strtod would also accept nan, inf and hexadecimal. */
static size_t real_length(const char *text)
{
    const char *p = text;
    p += *p == '-';
    size_t whole = strspn(p, "0123456789");
    p += whole;
    size_t part = 0;
    if (*p == '.') {
        part = strspn(p + 1, "0123456789");
        p += 1 + part;
    }
    if (whole + part == 0)
        return 0;
    if (*p == 'e' || *p == 'E') {
        const char *digits = p + 1 + (p[1] == '-' || p[1] == '+');
        size_t exponent = strspn(digits, "0123456789");
        if (exponent)
            p = digits + exponent;
    }
    return (size_t)(p - text);
}

static bool is_real(const char *text)
{
    size_t length = real_length(text);
    return length && text[length] == '\0';
}

static enum xt_status parse_real(const struct xt_option *option, const char *subject,
                                 const char *text, void *value, struct xt_err *err)
{
    if (!is_real(text))
        return refuse(option, subject, text, "", err);
    double number = strtod(text, NULL);
    if (!isfinite(number) || !in_range(option, number))
        return refuse(option, subject, text, "", err);
    memcpy(value, &number, sizeof number);
    return XT_OK;
}

/* The fewest digits that parse to the same number; 300, not 3e+02. */
static enum xt_status append_real(double number, struct xt_str *out, struct xt_err *err)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    if (strchr(text, 'e') && fabs(number) >= 1 && fabs(number) < 1e15)
        snprintf(text, sizeof text, "%.15g", number);
    return xt_str_printf(out, err, "%s", text);
}

static enum xt_status spell_real(const struct xt_option *option, const void *value,
                                 struct xt_str *out, struct xt_err *err)
{
    (void)option;
    double number = *(const double *)value;
    return append_real(number, out, err);
}

static const struct {
    const char *name;
    double seconds;
} units[] = {{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}, {"ms", 1e-3}};

static double unit_seconds(const char *name)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].name, name) == 0)
            return units[i].seconds;
    return 0;
}

static enum xt_status parse_duration(const struct xt_option *option, const char *subject,
                                     const char *text, void *value, struct xt_err *err)
{
    size_t length = real_length(text);
    const char *unit = text + length;
    double seconds = *unit ? unit_seconds(unit) : 1;
    if (length == 0 || seconds == 0)
        return refuse(option, subject, text, "", err);
    seconds *= strtod(text, NULL);
    if (!isfinite(seconds) || !in_range(option, seconds))
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s must be at least %.15g and at most %.15g seconds, "
                          "not %s",
                          subject, option->min, option->max, xt_show(text).text);
    memcpy(value, &seconds, sizeof seconds);
    return XT_OK;
}

static enum xt_status spell_duration(const struct xt_option *option, const void *value,
                                     struct xt_str *out, struct xt_err *err)
{
    (void)option;
    double number = *(const double *)value;
    if (number == 0)
        return xt_str_printf(out, err, "0");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i].seconds >= 1 && fmod(number, units[i].seconds) == 0)
            return xt_str_printf(out, err, "%.0f%s", number / units[i].seconds, units[i].name);
    append_real(number, out, NULL);
    return xt_str_printf(out, err, "s");
}

/* ---- flags and choices ---- */

static enum xt_status parse_flag(const struct xt_option *option, const char *subject,
                                 const char *text, void *value, struct xt_err *err)
{
    bool on = strcmp(text, "true") == 0;
    if (!on && strcmp(text, "false") != 0)
        return refuse(option, subject, text, "", err);
    memcpy(value, &on, sizeof on);
    return XT_OK;
}

static enum xt_status spell_flag(const struct xt_option *option, const void *value,
                                 struct xt_str *out, struct xt_err *err)
{
    (void)option;
    bool on = *(const bool *)value;
    return xt_str_printf(out, err, "%s", on ? "true" : "false");
}

/* The choice that is meant: number types have many names. */
static const char *meant(const struct xt_option *option, const char *text)
{
    const char *type = xt_dtype_usual_name(text);
    return xt_str_is_in(type, option->choices) ? type : text;
}

static enum xt_status parse_choice(const struct xt_option *option, const char *subject,
                                   const char *text, void *value, struct xt_err *err)
{
    unsigned count = 0;
    const char *name = meant(option, text);
    for (; option->choices[count]; count++) {
        if (strcmp(option->choices[count], name) == 0) {
            memcpy(value, &count, sizeof count);
            return XT_OK;
        }
    }
    char lower[32];
    size_t length = 0;
    for (; text[length] && length + 1 < sizeof lower; length++)
        lower[length] = (char)tolower((unsigned char)text[length]);
    lower[length] = '\0';
    const char *near = xt_str_nearest(lower, option->choices, count);
    char hint[80] = "";
    if (near)
        snprintf(hint, sizeof hint, "; did you mean %s?", near);
    return refuse(option, subject, text, hint, err);
}

static enum xt_status spell_choice(const struct xt_option *option, const void *value,
                                   struct xt_str *out, struct xt_err *err)
{
    unsigned index = *(const unsigned *)value;
    return xt_str_printf(out, err, "%s", option->choices[index]);
}

/* ---- GPUs ---- */

static enum xt_status parse_gpu(const struct xt_option *option, const char *subject,
                                const char *text, void *value, struct xt_err *err)
{
    uint32_t device = 0;
    unsigned index = 0;
    if (!xt_capture_find(text, &device))
        return parse_choice(option, subject, text, &index, err);
    memcpy(value, &device, sizeof device);
    return XT_OK;
}

static enum xt_status spell_gpu(const struct xt_option *option, const void *value,
                                struct xt_str *out, struct xt_err *err)
{
    (void)option;
    uint32_t device = *(const uint32_t *)value;
    return xt_str_printf(out, err, "%s", xt_capture_name(device).text);
}

/* ---- text ---- */

static enum xt_status parse_text(const struct xt_option *option, const char *subject,
                                 const char *text, void *value, struct xt_err *err)
{
    (void)option;
    if (!*text)
        return xt_err_set(err, XT_ERR_USAGE, "%s was given an empty value; give one, or omit it",
                          subject);
    size_t left = strlen(text);
    for (const char *p = text; left;) {
        uint32_t code = 0;
        size_t length = xt_utf8_decode(p, left, &code);
        if (!length)
            return xt_err_set(err, XT_ERR_USAGE, "%s takes UTF-8 text, which %s is not", subject,
                              xt_show(text).text);
        p += length;
        left -= length;
    }
    memcpy(value, &text, sizeof text);
    return XT_OK;
}

bool xt_option_is_bare_value(const char *text)
{
    static const char *const words[] = {"true", "false", "yes", "no",   "on", "off",
                                        "y",    "n",     "~",   "null", ""};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0)
            return true;
    const char *digits = text + (*text == '-' || *text == '+');
    return is_real(digits) || strncasecmp(digits, "0x", 2) == 0 ||
           strncasecmp(digits, "0o", 2) == 0 || strcasecmp(digits, ".nan") == 0 ||
           strcasecmp(digits, ".inf") == 0;
}

/* Characters that are plain text for every YAML reader, in any position. */
static bool is_plain(const char *text)
{
    for (const char *p = text; *p; p++)
        if (!isalnum((unsigned char)*p) && !strchr("_./-+=", *p))
            return false;
    return *text != '-' && *text != '=' && *text != '.' && !isdigit((unsigned char)*text);
}

/* Appends `text` as a YAML scalar that is read back as the same text. */
static enum xt_status quote(const char *text, struct xt_str *out, struct xt_err *err)
{
    if (is_plain(text) && !xt_option_is_bare_value(text))
        return xt_str_printf(out, err, "%s", text);
    size_t left = strlen(text);
    xt_str_printf(out, NULL, "\"");
    while (left) {
        uint32_t code = 0;
        size_t length = xt_utf8_decode(text, left, &code);
        bool special = code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 ||
                       code == 0x2029 || code == 0xFEFF;
        if (!length)
            return xt_err_set(err, XT_ERR_USAGE, "%s is not UTF-8 text", xt_show(text).text);
        if (special)
            xt_str_printf(out, NULL, "\\u%04X", code);
        else if (code == '"' || code == '\\')
            xt_str_printf(out, NULL, "\\%c", (char)code);
        else
            xt_str_append(out, text, length, NULL);
        text += length;
        left -= length;
    }
    return xt_str_printf(out, err, "\"");
}

static enum xt_status spell_text(const struct xt_option *option, const void *value,
                                 struct xt_str *out, struct xt_err *err)
{
    (void)option;
    const char *text = *(const char *const *)value;
    return xt_str_printf(out, err, "%s", text ? text : "");
}

/* Several sets as "A, B"; a config file has them as a list. */
static enum xt_status spell_source(const struct xt_option *option, const void *value,
                                   struct xt_str *out, struct xt_err *err)
{
    (void)option;
    const char *text = *(const char *const *)value;
    for (; text && *text; text++)
        *text == *XT_SPEC_AND ? xt_str_append(out, ", ", 2, NULL)
                              : xt_str_append(out, text, 1, NULL);
    return xt_str_append(out, "", 0, err);
}

/* "A\nB" as [A, B] */
static enum xt_status print_sources(const char *specs, struct xt_str *out, struct xt_err *err)
{
    char *copy = NULL;
    enum xt_status status = xt_mem_strdup(&copy, specs, err);
    char *rest = copy;
    const char *between = "[";
    for (char *spec; !status && (spec = strsep(&rest, XT_SPEC_AND)); between = ", ") {
        xt_str_printf(out, NULL, "%s", between);
        status = quote(spec, out, err);
    }
    free(copy);
    return status ? status : xt_str_printf(out, err, "]");
}

/* "xpu:" with a number, or possibly a name, PCI address or UUID; which one is decided when the
 * devices are known. */
static bool names_xpu(const char *text)
{
    if (!xt_str_starts(text, "xpu:"))
        return false;
    const char *rest = text + 4;
    size_t length = strlen(rest);
    if (length > 0 && strspn(rest, "0123456789") == length)
        return is_whole(rest) && length <= 3;
    for (const char *p = rest; *p; p++)
        if ((unsigned char)*p < ' ')
            return false;
    return isalnum((unsigned char)*rest) && length >= 3 && length <= 100;
}

static enum xt_status parse_device(const struct xt_option *option, const char *subject,
                                   const char *text, void *value, struct xt_err *err)
{
    static const char *const foreign[] = {"gpu", "cuda", "opencl", "sycl", "hip", "mps"};
    bool known = strcmp(text, "cpu") == 0 || strcmp(text, "xpu") == 0 || strcmp(text, "auto") == 0;
    if (known || names_xpu(text)) {
        memcpy(value, &text, sizeof text);
        return XT_OK;
    }
    const char *hint = "";
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (strncasecmp(text, foreign[i], strlen(foreign[i])) == 0)
            hint = "; for an Intel GPU use --xpu (in a config file: device: xpu)";
    return refuse(option, subject, text, hint, err);
}

static enum xt_status parse_reject(const struct xt_option *option, const char *subject,
                                   const char *text, void *value, struct xt_err *err)
{
    struct xt_reject_rule rule;
    if (!xt_reject_parse(text, &rule))
        return refuse(option, subject, text, "", err);
    memcpy(value, &rule, sizeof rule);
    return XT_OK;
}

static enum xt_status spell_reject(const struct xt_option *option, const void *value,
                                   struct xt_str *out, struct xt_err *err)
{
    (void)option;
    return xt_str_printf(out, err, "%s", xt_reject_spell(value).text);
}

static enum xt_status parse_epochs(const struct xt_option *option, const char *subject,
                                   const char *text, void *value, struct xt_err *err)
{
    double before = 0;
    size_t count = 0;
    const char *p = text;
    for (;;) {
        size_t length = strcspn(p, ",");
        size_t digits = strspn(p, "0123456789");
        double number = strtod(p, NULL);
        if (digits == 0 || digits != length || digits > 9 || *p == '0' || number <= before ||
            number > option->max)
            return refuse(option, subject, text, "", err);
        before = number;
        count++;
        if (!p[length])
            break;
        p += length + 1;
    }
    enum { MOST = 32 };
    if (count > MOST)
        return xt_err_set(err, XT_ERR_USAGE, "%s takes at most %d numbers, not %zu", subject, MOST,
                          count);
    memcpy(value, &text, sizeof text);
    return XT_OK;
}

/* "10,20" as [10, 20] */
static enum xt_status print_list(const char *text, struct xt_str *out, struct xt_err *err)
{
    xt_str_printf(out, NULL, "[");
    for (; *text; text++)
        xt_str_append(out, *text == ',' ? ", " : text, *text == ',' ? 2 : 1, NULL);
    return xt_str_printf(out, err, "]");
}

enum xt_status xt_option_print(const struct xt_option *option, const void *value,
                               struct xt_str *out, struct xt_err *err)
{
    const struct xt_option_type *type = option->type;
    if (!type->may_be_quoted)
        return type->spell(option, value, out, err);
    struct xt_str text = {0};
    const char *specs = NULL;
    if (type == &xt_type_source)
        memcpy(&specs, value, sizeof specs);
    if (specs && strpbrk(specs, XT_SPEC_AND))
        return print_sources(specs, out, err);
    enum xt_status status = type->spell(option, value, &text, err);
    if (!status)
        status = type->is_list ? print_list(xt_str_get(&text), out, err)
                               : quote(xt_str_get(&text), out, err);
    xt_str_clear(&text);
    return status;
}

/* ---- the types ---- */

const struct xt_option_type xt_type_flag = {
    .size = sizeof(bool), .parse = parse_flag, .spell = spell_flag, .takes = "true or false"};

/* Placeholder, C type, parser, printer, further fields. */
#define TYPE(word, type, read, write, ...)                                                         \
    {                                                                                              \
        .placeholder = word, .size = sizeof(type), .takes_value = true, .parse = read,             \
        .spell = write, __VA_ARGS__                                                                \
    }
#define QUOTED .may_be_quoted = true
#define TEXT(word, read, write, ...) TYPE(word, const char *, read, write, QUOTED, __VA_ARGS__)

const struct xt_option_type xt_type_integer =
    TYPE("N", int, parse_whole, spell_whole, .takes = NULL);
const struct xt_option_type xt_type_int64 =
    TYPE("N", int64_t, parse_whole, spell_whole, .takes = NULL);
const struct xt_option_type xt_type_seed =
    TYPE("N", uint64_t, parse_seed, spell_seed,
         .takes = "a whole number from 0 to 18446744073709551615");
const struct xt_option_type xt_type_real = TYPE("X", double, parse_real, spell_real, .takes = NULL);
const struct xt_option_type xt_type_duration =
    TYPE("TIME", double, parse_duration, spell_duration,
         .takes = "a time such as 90s, 10m or 2h (a bare number: seconds)");
const struct xt_option_type xt_type_choice =
    TYPE("NAME", unsigned, parse_choice, spell_choice, QUOTED);
const struct xt_option_type xt_type_gpu = TYPE("NAME", uint32_t, parse_gpu, spell_gpu, QUOTED);
const struct xt_option_type xt_type_reject =
    TYPE("P", struct xt_reject_rule, parse_reject, spell_reject, QUOTED,
         .takes = "a number from 0 to 1, stored, none, or a rule such as auto:0.995 or keep:0.98");
const struct xt_option_type xt_type_text =
    TEXT("TEXT", parse_text, spell_text, .is_free_text = true);
const struct xt_option_type xt_type_path =
    TEXT("PATH", parse_text, spell_text, .is_free_text = true, .absolute = xt_file_join);
const struct xt_option_type xt_type_source =
    TEXT("PATH", parse_text, spell_source, .is_free_text = true, .absolute = xt_source_spec_from);
const struct xt_option_type xt_type_device =
    TEXT("DEVICE", parse_device, spell_text,
         .takes = "cpu, xpu, xpu:N (the N-th, from 0; or its name, PCI address or UUID) or auto");
const struct xt_option_type xt_type_epochs =
    TEXT("N,N,...", parse_epochs, spell_text, .is_list = true,
         .takes = "ascending whole numbers separated by commas, such as 10,20");
