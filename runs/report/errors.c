#include "runs/report/errors.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum xt_status xt_errors_init(struct xt_errors *errors, const struct xt_predictor *predictor,
                              size_t most, struct xt_err *err)
{
    size_t symbols = (size_t)predictor->network->classes;
    *errors = (struct xt_errors){.predictor = predictor, .most = most, .symbols = (int)symbols};
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

/* Merges equal pairs. */
static void merge_pairs(struct xt_errors *errors)
{
    size_t used = 0;
    if (errors->pair_count)
        qsort(errors->pairs, errors->pair_count, sizeof *errors->pairs, by_pair);
    for (size_t i = 0; i < errors->pair_count; i++)
        if (used && by_pair(&errors->pairs[used - 1], &errors->pairs[i]) == 0)
            errors->pairs[used - 1].count += errors->pairs[i].count;
        else
            errors->pairs[used++] = errors->pairs[i];
    errors->pair_count = used;
}

static enum xt_status add_pair(struct xt_errors *errors, const struct xt_mistake *mistake)
{
    enum xt_status status = XT_OK;
    if (errors->pair_count == errors->pair_capacity)
        merge_pairs(errors);
    /* Doubles the room, so that not every pair causes a merge. */
    if (2 * errors->pair_count >= errors->pair_capacity)
        status = xt_mem_grow(&errors->pairs, &errors->pair_capacity, 2 * errors->pair_count + 1,
                             sizeof *errors->pairs, "the confusions", &errors->err);
    if (!status)
        errors->pairs[errors->pair_count++] =
            (struct xt_confused){mistake->expected, mistake->read, 1};
    return status;
}

/* A symbol of the label was read correctly unless it is among the mistakes. */
static enum xt_status count_symbols(struct xt_errors *errors, const struct xt_answer *a)
{
    struct xt_mistake mistakes[XT_MISTAKES_MAX];
    enum xt_status status = XT_OK;
    int count =
        a->right ? 0
                 : errors->predictor->class->mistakes(a->label, a->label_length, a->said, mistakes);
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

enum xt_status xt_wrong_create(struct xt_wrong **out, const struct xt_predictor *predictor,
                               const struct xt_answer *a, struct xt_err *err)
{
    struct xt_decode_step steps[XT_DECODE_MAX];
    int count = 0;
    enum xt_status status = XT_OK;
    if (predictor->class->steps)
        status = predictor->class->steps(predictor, a->logits, steps, &count, err);
    size_t label_bytes = (size_t)a->label_length * sizeof *a->label;
    size_t length = (size_t)a->said->length;
    size_t step_bytes = (size_t)count * sizeof *steps;
    char *block = NULL;
    size_t bytes = sizeof **out + label_bytes + step_bytes + length * (sizeof(int) + sizeof(float));
    if (!status)
        status = xt_mem_calloc(&block, 1, bytes, "an answer", err);
    if (status)
        return status;
    char *at = block + sizeof **out;
    *out = (struct xt_wrong *)(void *)block;
    **out = (struct xt_wrong){
        .bytes = bytes,
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
    status = xt_mem_add(&errors->wrong, errors->count, sizeof *errors->wrong,
                        "the list of wrong answers", &errors->err);
    if (!status)
        status = xt_wrong_create(&wrong, errors->predictor, answer, &errors->err);
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

/* ---- from process to process ---- */

struct packed {
    size_t images, wrong_images, count, pair_count;
    struct xt_err err;
};

static enum xt_status append(struct xt_str *out, const void *data, size_t count, size_t size,
                             struct xt_err *err)
{
    return count ? xt_str_append(out, data, count * size, err) : XT_OK;
}

enum xt_status xt_errors_pack(struct xt_errors *errors, struct xt_str *out, struct xt_err *err)
{
    keep_worst(errors);
    merge_pairs(errors);
    const struct packed head = {errors->images, errors->wrong_images, errors->count,
                                errors->pair_count, errors->err};
    size_t symbols = (size_t)errors->symbols;
    enum xt_status status = append(out, &head, 1, sizeof head, err);
    if (!status)
        status = append(out, errors->seen, symbols, sizeof *errors->seen, err);
    if (!status)
        status = append(out, errors->right, symbols, sizeof *errors->right, err);
    if (!status)
        status = append(out, errors->pairs, errors->pair_count, sizeof *errors->pairs, err);
    for (size_t i = 0; i < errors->count && !status; i++)
        status = append(out, errors->wrong[i], 1, errors->wrong[i]->bytes, err);
    return status;
}

/* The remaining bytes. */
struct rest {
    const char *at;
    size_t left;
};

/* `count` items of `size` bytes, NULL where there are fewer. They need not be aligned. */
static const void *next(struct rest *rest, size_t count, size_t size)
{
    const char *at = rest->at;
    if (count > rest->left / size)
        return NULL;
    rest->at += count * size;
    rest->left -= count * size;
    return at;
}

static void add_counts(size_t *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t value = 0;
        memcpy(&value, (const char *)from + i * sizeof value, sizeof value);
        to[i] += value;
    }
}

/* Adds a block, with its pointers from another process relocated. */
static enum xt_status add_block(struct xt_errors *errors, const void *from, size_t bytes,
                                struct xt_err *err)
{
    char *block = NULL;
    enum xt_status status = xt_mem_add(&errors->wrong, errors->count, sizeof *errors->wrong,
                                       "the list of wrong answers", err);
    if (!status)
        status = xt_mem_calloc(&block, 1, bytes, "a wrong answer", err);
    if (status)
        return status;
    memcpy(block, from, bytes);
    struct xt_wrong *wrong = (struct xt_wrong *)(void *)block;
    char *at = block + sizeof *wrong;
    wrong->label = (int *)(void *)at;
    at += (size_t)wrong->label_length * sizeof(int);
    wrong->said = (int *)(void *)at;
    at += (size_t)wrong->length * sizeof(int);
    wrong->confidences = (float *)(void *)at;
    at += (size_t)wrong->length * sizeof(float);
    wrong->steps = (struct xt_decode_step *)(void *)at;
    errors->wrong[errors->count++] = wrong;
    return XT_OK;
}

static enum xt_status add_wrong(struct xt_errors *errors, struct rest *rest, size_t count,
                                struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        struct xt_wrong head;
        struct rest before = *rest;
        const void *bytes = next(rest, 1, sizeof head);
        if (bytes)
            memcpy(&head, bytes, sizeof head);
        *rest = before;
        bytes = bytes && head.bytes >= sizeof head ? next(rest, 1, head.bytes) : NULL;
        status = bytes ? add_block(errors, bytes, head.bytes, err)
                       : xt_err_set(err, XT_ERR_RUN, "another rank's wrong answers are cut short");
    }
    return status;
}

enum xt_status xt_errors_add_packed(struct xt_errors *errors, const void *bytes, size_t count,
                                    struct xt_err *err)
{
    struct packed head;
    struct rest rest = {bytes, count};
    size_t symbols = (size_t)errors->symbols;
    const void *from = next(&rest, 1, sizeof head);
    if (from)
        memcpy(&head, from, sizeof head);
    const void *seen = from ? next(&rest, symbols, sizeof *errors->seen) : NULL;
    const void *right = seen ? next(&rest, symbols, sizeof *errors->right) : NULL;
    const void *pairs = right ? next(&rest, head.pair_count, sizeof *errors->pairs) : NULL;
    if (!pairs)
        return xt_err_set(err, XT_ERR_RUN, "another rank's wrong answers are cut short");
    enum xt_status status = xt_mem_grow(&errors->pairs, &errors->pair_capacity,
                                        errors->pair_count + head.pair_count + 1,
                                        sizeof *errors->pairs, "the confusions", err);
    if (status)
        return status;
    if (!errors->err.status)
        errors->err = head.err;
    errors->images += head.images;
    errors->wrong_images += head.wrong_images;
    add_counts(errors->seen, seen, symbols);
    add_counts(errors->right, right, symbols);
    memcpy(errors->pairs + errors->pair_count, pairs, head.pair_count * sizeof *errors->pairs);
    errors->pair_count += head.pair_count;
    return add_wrong(errors, &rest, head.count, err);
}
