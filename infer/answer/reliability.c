#include "infer/answer/reliability.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "infer/evaluate.h"

/* ---- figures of outcomes ---- */

/* Confidences of 0 and 1 that are wrong would cost infinitely much. */
static double bounded(double p)
{
    const double least = 1e-7;
    return p < least ? least : p > 1 - least ? 1 - least : p;
}

struct xt_reliability xt_reliability_of(const struct xt_outcome *outcomes, size_t count)
{
    struct xt_reliability out = {.images = count};
    for (size_t i = 0; i < count; i++) {
        double p = outcomes[i].confidence;
        int bin = (int)(p * XT_RELIABILITY_BINS);
        struct xt_reliability_bin *at =
            &out.bins[bin < 0                     ? 0
                      : bin < XT_RELIABILITY_BINS ? bin
                                                  : XT_RELIABILITY_BINS - 1];
        at->images++;
        at->right += outcomes[i].right;
        at->confidence += p;
        out.right += outcomes[i].right;
        out.nll -= log(outcomes[i].right ? bounded(p) : 1 - bounded(p)) / (double)count;
    }
    for (int i = 0; i < XT_RELIABILITY_BINS; i++) {
        struct xt_reliability_bin *at = &out.bins[i];
        out.ece += fabs(at->confidence - (double)at->right) / (double)(count ? count : 1);
        at->confidence = at->images ? at->confidence / (double)at->images : 0;
    }
    return out;
}

/* P(at most `wrong` of `count` trials fail), where one is right with probability p. */
static double tail(size_t wrong, size_t count, double p)
{
    double sum = 0;
    for (size_t i = 0; i <= wrong; i++)
        sum += exp(lgamma((double)count + 1) - lgamma((double)i + 1) -
                   lgamma((double)(count - i) + 1) + (double)i * log1p(-p) +
                   (double)(count - i) * log(p));
    return sum;
}

static const double doubt = 0.05;

double xt_binomial_bound(size_t right, size_t count)
{
    double low = 0;
    double high = 1;
    if (!right)
        return 0;
    for (int i = 0; i < 50; i++) {
        double middle = (low + high) / 2;
        /* It grows with p: with a smaller p so few failures would be rarer. */
        if (tail(count - right, count, middle) < doubt)
            low = middle;
        else
            high = middle;
    }
    return low;
}

size_t xt_binomial_needed(double part)
{
    return (size_t)ceil(log(doubt) / log(part) - 1e-9);
}

/* ---- the threshold ---- */

/* Thresholds have six digits, so that they are the same wherever they are written. */
static double rounded_down(double confidence)
{
    return confidence < 1e-6 ? 1e-9 : floor(confidence * 1e6) / 1e6;
}

/* Midway between the last confidence that is accepted and the next, as that of one image differs in
 * its last digits between batches, types and machines. */
static double between(double accepted, double next)
{
    double middle = rounded_down((accepted + (next > 0 ? next : 0.98 * accepted)) / 2);
    return middle > rounded_down(next) ? middle : accepted;
}

static int by_confidence(const void *a, const void *b)
{
    double x = ((const struct xt_outcome *)a)->confidence;
    double y = ((const struct xt_outcome *)b)->confidence;
    return x < y ? 1 : x > y ? -1 : 0;
}

static bool fits(const struct xt_reject_rule *rule, const struct xt_acceptance *a, bool promised)
{
    if (rule->kind == XT_REJECT_KEEP)
        return (double)a->accepted >= rule->value * (double)a->images - 1e-9;
    if ((double)a->right < rule->value * (double)a->accepted - 1e-9)
        return false;
    return !promised || xt_binomial_bound(a->right, a->accepted) >= rule->value;
}

/* The highest threshold for XT_REJECT_KEEP, else the lowest, that fits; false: none does. The
 * outcomes are sorted. */
static bool find(const struct xt_reject_rule *rule, const struct xt_outcome *outcomes, size_t count,
                 bool promised, int slack, struct xt_acceptance *out)
{
    bool found = false;
    struct xt_acceptance a = {.images = count, .slack = slack};
    for (size_t i = 0; i < count; i++) {
        bool even = outcomes[i].odd <= slack;
        a.accepted += even;
        a.right += even && outcomes[i].right;
        a.threshold = rounded_down(outcomes[i].confidence);
        bool last = i + 1 == count || rounded_down(outcomes[i + 1].confidence) < a.threshold;
        if (!last || !a.accepted || !fits(rule, &a, promised))
            continue;
        *out = a;
        out->threshold = between(a.threshold, i + 1 < count ? outcomes[i + 1].confidence : 0);
        found = true;
        if (rule->kind == XT_REJECT_KEEP)
            return true;
    }
    return found;
}

static struct xt_acceptance accept_from(double threshold, const struct xt_outcome *outcomes,
                                        size_t count)
{
    struct xt_acceptance a = {.threshold = threshold, .images = count};
    for (size_t i = 0; i < count; i++) {
        bool accepted =
            !(threshold > 0) || (!outcomes[i].odd && outcomes[i].confidence >= threshold);
        a.accepted += accepted;
        a.right += accepted && outcomes[i].right;
    }
    return a;
}

struct xt_acceptance xt_acceptance_choose(const struct xt_reject_rule *rule,
                                          struct xt_outcome *outcomes, size_t count)
{
    struct xt_acceptance a = {.images = count};
    qsort(outcomes, count, sizeof *outcomes, by_confidence);
    int slacks = rule->kind == XT_REJECT_KEEP   ? XT_OUTCOME_EMPTY
                 : rule->kind == XT_REJECT_AUTO ? 1
                                                : 0;
    bool found = rule->kind == XT_REJECT_AUTO && find(rule, outcomes, count, true, 0, &a);
    a.promised = found;
    for (int slack = 0; !found && slack < slacks; slack++)
        found = find(rule, outcomes, count, false, slack, &a);
    if (!found)
        a = accept_from(rule->kind == XT_REJECT_BELOW  ? rule->value
                        : rule->kind == XT_REJECT_AUTO ? 1
                        : rule->kind == XT_REJECT_KEEP ? 1e-9
                                                       : 0,
                        outcomes, count);
    a.bound = xt_binomial_bound(a.right, a.accepted);
    return a;
}

void xt_acceptance_describe(const struct xt_acceptance *a, const struct xt_reject_rule *rule,
                            char *out, size_t size)
{
    if (!a->accepted) {
        snprintf(out, size, "none of %s accepted", xt_count((long long)a->images, "image").text);
        if (rule->kind == XT_REJECT_AUTO)
            xt_str_append_to(
                out, size,
                ": above no confidence are %.6g %% of the answers right; --reject none accepts all",
                100 * rule->value);
        return;
    }
    snprintf(out, size,
             "%zu of %s accepted, %zu of them right: at least %.2f %% with 95 %% confidence",
             a->accepted, xt_count((long long)a->images, "image").text, a->right, 100 * a->bound);
    if (rule->kind == XT_REJECT_AUTO && !a->promised)
        xt_str_append_to(out, size,
                         ", too few to promise %.6g %% (that takes %zu or more accepted)",
                         100 * rule->value, xt_binomial_needed(rule->value));
}

/* ---- observed predictions ---- */

enum xt_status xt_observations_init(struct xt_observations *out,
                                    const struct xt_predictor *predictor, size_t images,
                                    struct xt_err *err)
{
    *out = (struct xt_observations){.predictor = predictor};
    out->every = (images + XT_RELIABILITY_IMAGES - 1) / XT_RELIABILITY_IMAGES;
    out->every += !out->every;
    out->capacity = (images + out->every - 1) / out->every;
    enum xt_status status =
        xt_mem_calloc(&out->items, out->capacity, sizeof *out->items, "the predictions", err);
    return status
               ? status
               : xt_mem_aligned(&out->logits, out->capacity,
                                predictor->sample_logits * sizeof(float), "the predictions", err);
}

void xt_observations_add(void *observations, const struct xt_answer *answer)
{
    struct xt_observations *to = observations;
    if (answer->index % to->every || to->count == to->capacity)
        return;
    size_t logits = to->predictor->sample_logits;
    memcpy(to->logits + to->count * logits, answer->logits, logits * sizeof(float));
    to->items[to->count++] =
        (struct xt_observation){*answer->said, answer->label_length, answer->right};
}

void xt_observations_clear(struct xt_observations *observations)
{
    free(observations->items);
    free(observations->logits);
    *observations = (struct xt_observations){0};
}

static enum xt_status confidence_at(const struct xt_observations *from, size_t index,
                                    double temperature, double *out, struct xt_err *err)
{
    const struct xt_predictor *predictor = from->predictor;
    struct xt_decoded said = from->items[index].said;
    enum xt_status status = xt_predictor_confide(
        predictor, from->logits + index * predictor->sample_logits, temperature, &said, err);
    *out = said.probability;
    return status;
}

/* The predictions that share a temperature. */
struct group {
    const struct xt_observations *from;
    int length; /* -1: of any */
    size_t count;
    double targets[2]; /* of wrong and of right predictions */
};

static const double exact[2] = {0, 1};

static struct group group_of(const struct xt_observations *from, int length)
{
    struct group group = {.from = from, .length = length};
    size_t right = 0;
    for (size_t i = 0; i < from->count; i++)
        if (length < 0 || from->items[i].said.length == length) {
            group.count++;
            right += from->items[i].right;
        }
    /* Platt's (1999): instead of 0 and 1 what one more wrong and one more right prediction would
     * make of them, so that a few that are all right do not ask for certainty. */
    group.targets[0] = 1 / ((double)(group.count - right) + 2);
    group.targets[1] = ((double)right + 1) / ((double)right + 2);
    return group;
}

/* The mean log loss at a temperature. */
static enum xt_status loss_at(const struct group *group, double temperature, double *out,
                              struct xt_err *err)
{
    enum xt_status status = XT_OK;
    *out = 0;
    for (size_t i = 0; i < group->from->count && !status; i++) {
        const struct xt_observation *item = &group->from->items[i];
        double p = 0;
        if (group->length >= 0 && item->said.length != group->length)
            continue;
        status = confidence_at(group->from, i, temperature, &p, err);
        double target = group->targets[item->right];
        p = bounded(p);
        *out -= (target * log(p) + (1 - target) * log(1 - p)) / (double)group->count;
    }
    return status;
}

/* Coarsely, then by golden sections of ln temperature around the best. */
static enum xt_status search_temperature(const struct group *group, double *out, struct xt_err *err)
{
    const double step = 0.35;
    const double golden = 0.6180339887498949;
    enum { COARSE = 9, FINE = 12 };
    double best = INFINITY;
    double at = 0;
    enum xt_status status = XT_OK;
    for (int i = -COARSE; i <= COARSE && !status; i++) {
        double loss = 0;
        status = loss_at(group, exp(i * step), &loss, err);
        if (loss < best) {
            best = loss;
            at = i * step;
        }
    }
    double low = at - step;
    double high = at + step;
    for (int i = 0; i < FINE && !status; i++) {
        double left = high - golden * (high - low);
        double right = low + golden * (high - low);
        double loss_left = 0;
        double loss_right = 0;
        status = loss_at(group, exp(left), &loss_left, err);
        if (!status)
            status = loss_at(group, exp(right), &loss_right, err);
        bool leftwards = loss_left < loss_right;
        if ((leftwards ? loss_left : loss_right) < best) {
            best = leftwards ? loss_left : loss_right;
            at = leftwards ? left : right;
        }
        low = leftwards ? low : left;
        high = leftwards ? right : high;
    }
    *out = round(exp(at) * 1e4) / 1e4;
    return status;
}

/* 1 where the best one makes the loss larger: with one wrong prediction Platt's target for it is a
 * third, which can ask for more confidence in it. */
static enum xt_status find_temperature(const struct group *group, double *out, struct xt_err *err)
{
    struct group plain = *group;
    double before = 0;
    double after = 0;
    memcpy(plain.targets, exact, sizeof exact);
    enum xt_status status = search_temperature(group, out, err);
    if (!status)
        status = loss_at(&plain, 1, &before, err);
    if (!status)
        status = loss_at(&plain, *out, &after, err);
    if (!status && after > before)
        *out = 1;
    return status;
}

enum xt_status xt_observations_calibrate(const struct xt_observations *observations,
                                         struct xt_confidence *out, struct xt_err *err)
{
    *out = (struct xt_confidence){0};
    const struct group all = group_of(observations, -1);
    if (!all.count)
        return XT_OK;
    enum xt_status status = find_temperature(&all, &out->temperature, err);
    bool plates = observations->predictor->network->task == XT_TASK_PLATES;
    for (int length = 0; plates && length <= XT_DECODE_MAX && !status; length++) {
        const struct group own = group_of(observations, length);
        if (own.count >= XT_RELIABILITY_OWN && own.count < all.count)
            status = find_temperature(&own, &out->by_length[length], err);
    }
    for (size_t i = 0; plates && i < observations->count; i++) {
        int length = observations->items[i].label_length;
        out->shortest = i && out->shortest < length ? out->shortest : length;
        out->longest = out->longest > length ? out->longest : length;
    }
    return status;
}

static int odd_by(const struct xt_confidence *confidence, const struct xt_decoded *said)
{
    int length = said->length;
    if (!length)
        return XT_OUTCOME_EMPTY;
    if (!confidence->longest)
        return 0;
    return length < confidence->shortest  ? confidence->shortest - length
           : length > confidence->longest ? length - confidence->longest
                                          : 0;
}

enum xt_status xt_observations_outcomes(const struct xt_observations *observations,
                                        const struct xt_confidence *confidence,
                                        struct xt_outcome *out, struct xt_err *err)
{
    static const struct xt_confidence none;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < observations->count && !status; i++) {
        const struct xt_observation *item = &observations->items[i];
        double temperature =
            xt_confidence_temperature(confidence ? confidence : &none, item->said.length);
        out[i] = (struct xt_outcome){.right = item->right,
                                     .odd = odd_by(confidence ? confidence : &none, &item->said)};
        status = confidence_at(observations, i, temperature, &out[i].confidence, err);
    }
    return status;
}
