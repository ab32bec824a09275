#include "train/report/errors.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum xt_status xt_errors_init(struct xt_errors *errors, const struct xt_objective *objective,
                              size_t most, struct xt_err *err)
{
    size_t symbols = (size_t)objective->network->classes;
    *errors = (struct xt_errors){.objective = objective, .most = most, .symbols = (int)symbols};
    enum xt_status status = xt_mem_calloc(&errors->seen, symbols, sizeof *errors->seen,
                                          "the count of each symbol", err);
    if (!status)
        status = xt_mem_calloc(&errors->right, symbols, sizeof *errors->right,
                               "the count of each symbol", err);
    return status;
}

void xt_errors_clear(struct xt_errors *errors)
{
    for (size_t i = 0; i < errors->count; i++)
        free(errors->wrong[i]);
    free(errors->wrong);
    free(errors->seen);
    free(errors->right);
    free(errors->pairs);
    *errors = (struct xt_errors){0};
}

/* ---- pairs ---- */

static int by_pair(const void *a, const void *b)
{
    const struct xt_confused *one = a;
    const struct xt_confused *other = b;
    if (one->expected != other->expected)
        return one->expected < other->expected ? -1 : 1;
    return (one->read > other->read) - (one->read < other->read);
}

static int by_count(const void *a, const void *b)
{
    const struct xt_confused *one = a;
    const struct xt_confused *other = b;
    if (one->count != other->count)
        return one->count > other->count ? -1 : 1;
    return by_pair(a, b);
}

/* Makes one of equal pairs. */
static void merge_pairs(struct xt_errors *errors)
{
    size_t kept = 0;
    if (errors->pair_count)
        qsort(errors->pairs, errors->pair_count, sizeof *errors->pairs, by_pair);
    for (size_t i = 0; i < errors->pair_count; i++)
        if (kept && by_pair(&errors->pairs[kept - 1], &errors->pairs[i]) == 0)
            errors->pairs[kept - 1].count += errors->pairs[i].count;
        else
            errors->pairs[kept++] = errors->pairs[i];
    errors->pair_count = kept;
}

static enum xt_status add_pair(struct xt_errors *errors, const struct xt_mistake *mistake)
{
    enum xt_status status = XT_OK;
    if (errors->pair_count == errors->pair_capacity)
        merge_pairs(errors);
    /* Room for as many again, so that merging does not come with every pair. */
    if (2 * errors->pair_count >= errors->pair_capacity)
        status = xt_mem_grow(&errors->pairs, &errors->pair_capacity, 2 * errors->pair_count + 1,
                             sizeof *errors->pairs, "what was taken for what", &errors->err);
    if (!status)
        errors->pairs[errors->pair_count++] =
            (struct xt_confused){mistake->expected, mistake->read, 1};
    return status;
}

/* A symbol that stands in the label was read, unless it is among the mistakes. */
static enum xt_status count_symbols(struct xt_errors *errors, const struct xt_answer *a)
{
    struct xt_mistake mistakes[XT_MISTAKES_MAX];
    enum xt_status status = XT_OK;
    int count =
        a->right ? 0
                 : errors->objective->class->mistakes(a->label, a->label_length, a->said, mistakes);
    for (int i = 0; i < a->label_length; i++) {
        errors->seen[a->label[i]]++;
        errors->right[a->label[i]]++;
    }
    for (int i = 0; i < count && !status; i++) {
        if (mistakes[i].expected >= 0)
            errors->right[mistakes[i].expected]--;
        status = add_pair(errors, &mistakes[i]);
    }
    return status;
}

/* ---- images ---- */

static int by_confidence(const void *a, const void *b)
{
    const struct xt_wrong *one = *(const struct xt_wrong *const *)a;
    const struct xt_wrong *other = *(const struct xt_wrong *const *)b;
    if (one->confidence != other->confidence)
        return one->confidence > other->confidence ? -1 : 1;
    return (one->index > other->index) - (one->index < other->index);
}

static void keep_worst(struct xt_errors *errors)
{
    if (errors->count)
        qsort(errors->wrong, errors->count, sizeof *errors->wrong, by_confidence);
    while (errors->most && errors->count > errors->most)
        free(errors->wrong[--errors->count]);
}

/* `bytes` of memory behind *at. */
static void *take(char **at, const void *from, size_t bytes)
{
    void *to = *at;
    memcpy(to, from, bytes);
    *at += bytes;
    return to;
}

enum xt_status xt_wrong_create(struct xt_wrong **out, const struct xt_objective *objective,
                               const struct xt_answer *a, struct xt_err *err)
{
    struct xt_decode_step steps[XT_DECODE_MAX];
    int count = 0;
    enum xt_status status = XT_OK;
    if (objective->class->steps)
        status = objective->class->steps(objective, a->logits, steps, &count, err);
    size_t label_bytes = (size_t)a->label_length * sizeof *a->label;
    size_t length = (size_t)a->said->length;
    size_t step_bytes = (size_t)count * sizeof *steps;
    char *block = NULL;
    if (!status)
        status = xt_mem_calloc(&block, 1,
                               sizeof **out + label_bytes + step_bytes +
                                   length * (sizeof(int) + sizeof(float)),
                               "an answer", err);
    if (status)
        return status;
    char *at = block + sizeof **out;
    *out = (struct xt_wrong *)(void *)block;
    **out = (struct xt_wrong){
        .index = a->index,
        .confidence = a->said->probability,
        .label = take(&at, a->label, label_bytes),
        .label_length = a->label_length,
        .said = take(&at, a->said->symbols, length * sizeof(int)),
        .confidences = take(&at, a->said->confidence, length * sizeof(float)),
        .length = a->said->length,
        .steps = take(&at, steps, step_bytes),
        .step_count = count,
    };
    return XT_OK;
}

void xt_errors_add(struct xt_errors *errors, const struct xt_answer *answer)
{
    struct xt_wrong *wrong = NULL;
    if (errors->err.status)
        return;
    errors->images++;
    errors->wrong_images += !answer->right;
    enum xt_status status = count_symbols(errors, answer);
    if (status || answer->right)
        return;
    if (errors->most && errors->count >= 2 * errors->most)
        keep_worst(errors);
    status = xt_mem_grow(&errors->wrong, &errors->capacity, errors->count + 1,
                         sizeof *errors->wrong, "the list of wrong answers", &errors->err);
    if (!status)
        status = xt_wrong_create(&wrong, errors->objective, answer, &errors->err);
    if (!status)
        errors->wrong[errors->count++] = wrong;
}

enum xt_status xt_errors_end(struct xt_errors *errors, struct xt_err *err)
{
    keep_worst(errors);
    merge_pairs(errors);
    if (errors->pair_count)
        qsort(errors->pairs, errors->pair_count, sizeof *errors->pairs, by_count);
    if (errors->err.status)
        return xt_err_set(err, errors->err.status, "%s", errors->err.text);
    return XT_OK;
}
