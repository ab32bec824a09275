#include "runs/checkpoint_numbers.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The largest count that a double holds exactly. */
static const int64_t count_most = INT64_C(1) << 53;

bool xt_number_print(const struct xt_number_field *field, const void *of, char out[XT_NUMBER_TEXT])
{
    const void *at = (const char *)of + field->at;
    if (field->kind == XT_NUMBER_REAL) {
        double real = *(const double *)at;
        snprintf(out, XT_NUMBER_TEXT, "%a", real);
        return field->needed || isfinite(real);
    }
    int64_t count = field->kind == XT_NUMBER_FLAG ? *(const bool *)at : *(const int64_t *)at;
    snprintf(out, XT_NUMBER_TEXT, "%" PRId64, count);
    return true;
}

enum xt_status xt_number_need_text(const struct xt_weight_file *file, const char *path,
                                   const char *key, const char **out, struct xt_err *err)
{
    *out = xt_weight_file_meta(file, key);
    if (*out)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s is not a checkpoint of xtrain: its metadata has no \"%s\"", path, key);
}

static enum xt_status refuse(const char *path, const char *key, const char *text,
                             struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_DATA, "%s: its \"%s\" is not a number: %.40s", path, key, text);
}

static enum xt_status read_real(const char *path, const char *key, const char *text, double *out,
                                struct xt_err *err)
{
    char *end = NULL;
    *out = strtod(text, &end);
    return end == text || *end || !isfinite(*out) ? refuse(path, key, text, err) : XT_OK;
}

static enum xt_status read_count(const struct xt_number_field *field, int64_t step,
                                 const char *path, const char *text, int64_t *out,
                                 struct xt_err *err)
{
    int64_t least = field->kind == XT_NUMBER_LENGTH ? step : field->least;
    int64_t most = field->kind == XT_NUMBER_PAST   ? step
                   : field->kind == XT_NUMBER_FLAG ? 1
                                                   : count_most;
    char *end = NULL;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (errno || end == text || *end)
        return refuse(path, field->key, text, err);
    if (*out >= least && *out <= most)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s is damaged: its \"%s\" is %" PRId64 ", outside %" PRId64 " to %" PRId64,
                      path, field->key, *out, least, most);
}

enum xt_status xt_numbers_read(const struct xt_number_field *fields, size_t count, void *into,
                               int64_t step, const struct xt_weight_file *file, const char *path,
                               struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        const struct xt_number_field *field = &fields[i];
        const char *text = xt_weight_file_meta(file, field->key);
        void *at = (char *)into + field->at;
        int64_t number = 0;
        if (!text && field->needed)
            return xt_number_need_text(file, path, field->key, &text, err);
        if (!text)
            continue;
        if (field->kind == XT_NUMBER_REAL) {
            status = read_real(path, field->key, text, at, err);
            continue;
        }
        status = read_count(field, step, path, text, &number, err);
        if (field->kind == XT_NUMBER_FLAG)
            *(bool *)at = number != 0;
        else
            *(int64_t *)at = number;
    }
    return status;
}
