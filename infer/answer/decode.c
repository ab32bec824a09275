#include "infer/answer/decode.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "infer/answer/ctc_recursion.h"

_Static_assert((int)XT_DECODE_MAX <= (int)XT_CTC_STEPS_MAX, "every decoded string can be scored");

/* One sample's logits, and what turns them into log probabilities. */
struct steps {
    const float *logits;
    int t;
    int classes;
    int blank;
    double log_sum[XT_DECODE_MAX]; /* ln of the sum of e^logit, a step */
};

struct string {
    int symbols[XT_DECODE_MAX];
    int length;
};

/* A prefix in the beam, with the probability of all paths so far that spell it, by how they end. */
struct prefix {
    struct string string;
    double log_blank;  /* in a blank */
    double log_symbol; /* in the string's last symbol */
    double log_total;
};

/* A candidate for the next beam: prefix `from` unchanged, or with `symbol` appended. */
struct candidate {
    int from;
    int symbol; /* the blank: unchanged */
    double log_total;
};

struct beam {
    struct prefix prefixes[XT_BEAM_WIDTH];
    int count;
};

static double log_p(const struct steps *steps, int t, int k)
{
    return (double)steps->logits[(size_t)t * (size_t)steps->classes + (size_t)k] -
           steps->log_sum[t];
}

static double log_add(double a, double b)
{
    double max = a > b ? a : b;
    double min = a > b ? b : a;
    return isinf(min) ? max : max + log1p(exp(min - max));
}

/* Fills log_sum. */
static enum xt_status measure(struct steps *steps, struct xt_err *err)
{
    int classes = steps->classes;
    if (steps->t < 1 || steps->t > XT_DECODE_MAX)
        return xt_err_set(err, XT_ERR_DATA,
                          "an output of %d steps cannot be decoded: 1 to %d steps can", steps->t,
                          XT_DECODE_MAX);
    for (int i = 0; i < steps->t; i++) {
        const float *row = steps->logits + (size_t)i * (size_t)classes;
        double max = -HUGE_VAL;
        double sum = 0;
        for (int k = 0; k < classes; k++)
            max = (double)row[k] > max ? (double)row[k] : max;
        for (int k = 0; k < classes; k++)
            sum += exp((double)row[k] - max);
        steps->log_sum[i] = max + log(sum);
        if (!isfinite(steps->log_sum[i]))
            return xt_err_set(err, XT_ERR_RUN,
                              "the network's output is not a finite number, at position %d: its "
                              "weights are damaged, or its training diverged",
                              i);
    }
    return XT_OK;
}

static int best_class(const struct steps *steps, int t)
{
    const float *row = steps->logits + (size_t)t * (size_t)steps->classes;
    int best = 0;
    for (int k = 1; k < steps->classes; k++)
        if (row[k] > row[best])
            best = k;
    return best;
}

static void greedy(const struct steps *steps, struct string *out)
{
    out->length = 0;
    int last = steps->blank;
    for (int t = 0; t < steps->t; t++) {
        int best = best_class(steps, t);
        if (best != steps->blank && best != last)
            out->symbols[out->length++] = best;
        last = best;
    }
}

/* Whether `child` is `parent` and one symbol more. */
static bool is_child(const struct string *child, const struct string *parent)
{
    return child->length == parent->length + 1 &&
           memcmp(child->symbols, parent->symbols, (size_t)parent->length * sizeof(int)) == 0;
}

/* The probability that paths spelling `from` add to the prefix extended by `symbol`. A repeat needs
 * a blank between. */
static double extended(const struct steps *steps, int t, const struct prefix *from, int symbol)
{
    bool repeat =
        from->string.length > 0 && from->string.symbols[from->string.length - 1] == symbol;
    return (repeat ? from->log_blank : from->log_total) + log_p(steps, t, symbol);
}

static bool would_enter(const struct candidate *best, int count, double log_total)
{
    return !isinf(log_total) &&
           (count < XT_BEAM_WIDTH || log_total > best[XT_BEAM_WIDTH - 1].log_total);
}

/* Inserts a candidate into a list of the best XT_BEAM_WIDTH, best first; equal ones stay in
 * insertion order. */
static void offer(struct candidate *best, int *count, struct candidate candidate)
{
    if (!would_enter(best, *count, candidate.log_total))
        return;
    int place = *count < XT_BEAM_WIDTH ? (*count)++ : XT_BEAM_WIDTH - 1;
    for (; place > 0 && best[place - 1].log_total < candidate.log_total; place--)
        best[place] = best[place - 1];
    best[place] = candidate;
}

/* The prefixes that stay in the beam at step t: extended by a blank, by a repeat of their last
 * symbol, or from their parent, if that is in the beam, by their last symbol.
 */
static void stay(const struct steps *steps, int t, const struct beam *beam, struct prefix *stayed)
{
    for (int i = 0; i < beam->count; i++) {
        const struct prefix *prefix = &beam->prefixes[i];
        const struct string *string = &prefix->string;
        stayed[i] = *prefix;
        stayed[i].log_blank = prefix->log_total + log_p(steps, t, steps->blank);
        if (string->length > 0) {
            int last = string->symbols[string->length - 1];
            stayed[i].log_symbol = prefix->log_symbol + log_p(steps, t, last);
            for (int j = 0; j < beam->count; j++)
                if (is_child(string, &beam->prefixes[j].string))
                    stayed[i].log_symbol =
                        log_add(stayed[i].log_symbol, extended(steps, t, &beam->prefixes[j], last));
        }
        stayed[i].log_total = log_add(stayed[i].log_blank, stayed[i].log_symbol);
    }
}

/* Whether `parent` extended by `symbol` is in the beam (and so counted by `stay` already). */
static bool in_beam(const struct beam *beam, const struct string *parent, int symbol)
{
    for (int i = 0; i < beam->count; i++) {
        const struct string *string = &beam->prefixes[i].string;
        if (is_child(string, parent) && string->symbols[parent->length] == symbol)
            return true;
    }
    return false;
}

static void advance(const struct steps *steps, int t, struct beam *beam)
{
    struct prefix stayed[XT_BEAM_WIDTH];
    struct candidate best[XT_BEAM_WIDTH];
    int count = 0;
    stay(steps, t, beam, stayed);
    for (int i = 0; i < beam->count; i++)
        offer(best, &count, (struct candidate){i, steps->blank, stayed[i].log_total});
    for (int i = 0; i < beam->count; i++)
        for (int k = 0; k < steps->classes; k++) {
            struct candidate grown = {i, k, extended(steps, t, &beam->prefixes[i], k)};
            /* The expensive test last: few candidates reach it. */
            if (k != steps->blank && would_enter(best, count, grown.log_total) &&
                !in_beam(beam, &beam->prefixes[i].string, k))
                offer(best, &count, grown);
        }
    struct beam next = {.count = count};
    for (int i = 0; i < count; i++) {
        struct prefix *to = &next.prefixes[i];
        *to = stayed[best[i].from];
        if (best[i].symbol == steps->blank)
            continue;
        to->string.symbols[to->string.length++] = best[i].symbol;
        to->log_blank = -HUGE_VAL;
        to->log_symbol = to->log_total = best[i].log_total;
    }
    *beam = next;
}

static double score(const struct steps *steps, const struct string *string)
{
    return xt_ctc_log_probability(steps->logits, steps->t, steps->classes, string->symbols,
                                  string->length, steps->blank);
}

/* `out` holds the greedy string and is replaced where a string of the beam is likelier. The beam
 * has pruned paths, so the strings are compared by their probability over all alignments. */
static void search(const struct steps *steps, struct string *out)
{
    struct beam beam = {.count = 1};
    beam.prefixes[0].log_symbol = -HUGE_VAL;
    for (int t = 0; t < steps->t; t++)
        advance(steps, t, &beam);
    double best = score(steps, out);
    for (int i = 0; i < beam.count; i++) {
        double found = score(steps, &beam.prefixes[i].string);
        if (found > best) {
            best = found;
            *out = beam.prefixes[i].string;
        }
    }
}

/* The state (blank, symbol, blank, ..., blank) of the likeliest alignment at each step (Viterbi).
 */
static void align(const struct steps *steps, const struct string *string, int *states)
{
    enum { STATES = 2 * XT_DECODE_MAX + 1 };
    uint8_t back[XT_DECODE_MAX][STATES];
    double before[STATES];
    double after[STATES];
    int count = 2 * string->length + 1;
    for (int s = 0; s < STATES; s++)
        before[s] = s == 0 ? 0 : -HUGE_VAL; /* as if in the first blank before the first step */
    for (int t = 0; t < steps->t; t++) {
        for (int s = 0; s < count; s++) {
            int symbol = s % 2 ? string->symbols[s / 2] : steps->blank;
            int from = 0;
            if (s > 0 && before[s - 1] > before[s])
                from = 1;
            if (s > 2 && s % 2 && symbol != string->symbols[s / 2 - 1] &&
                before[s - 2] > before[s - from])
                from = 2;
            back[t][s] = (uint8_t)from;
            after[s] = before[s - from] + log_p(steps, t, symbol);
        }
        memcpy(before, after, (size_t)count * sizeof *after);
    }
    int s = count - 1;
    if (s > 0 && before[s - 1] > before[s])
        s--;
    for (int t = steps->t - 1; t >= 0; t--) {
        states[t] = s;
        s -= back[t][s];
    }
}

static void fill_confidence(const struct steps *steps, const struct string *string,
                            float *confidence)
{
    int states[XT_DECODE_MAX];
    align(steps, string, states);
    for (int i = 0; i < string->length; i++)
        confidence[i] = 0;
    for (int t = 0; t < steps->t; t++) {
        if (states[t] % 2 == 0)
            continue;
        int i = states[t] / 2;
        float p = (float)exp(log_p(steps, t, string->symbols[i]));
        if (p > confidence[i])
            confidence[i] = p;
    }
}

static void fill_confidences(const struct steps *steps, const struct string *string,
                             struct xt_decoded *out)
{
    fill_confidence(steps, string, out->confidence);
    double p = exp(score(steps, string));
    out->probability = p < 1 ? p : 1;
}

enum xt_status xt_decode(enum xt_decode_kind kind, const float *logits, int t, int classes,
                         int blank, struct xt_decoded *out, struct xt_err *err)
{
    struct steps steps = {.logits = logits, .t = t, .classes = classes, .blank = blank};
    enum xt_status status = measure(&steps, err);
    if (status)
        return status;
    struct string string;
    greedy(&steps, &string);
    if (kind == XT_DECODE_BEAM)
        search(&steps, &string);
    memcpy(out->symbols, string.symbols, (size_t)string.length * sizeof *out->symbols);
    out->length = string.length;
    fill_confidences(&steps, &string, out);
    return XT_OK;
}

enum xt_status xt_decode_confidence(const float *logits, int t, int classes, int blank,
                                    struct xt_decoded *out, struct xt_err *err)
{
    struct steps steps = {.logits = logits, .t = t, .classes = classes, .blank = blank};
    struct string string = {.length = out->length};
    if (out->length < 0 || out->length > XT_DECODE_MAX)
        return xt_err_set(err, XT_ERR_DATA, "an answer of %d symbols; there are at most %d",
                          out->length, XT_DECODE_MAX);
    enum xt_status status = measure(&steps, err);
    memcpy(string.symbols, out->symbols, (size_t)out->length * sizeof *out->symbols);
    if (!status)
        fill_confidences(&steps, &string, out);
    return status;
}

enum xt_status xt_decode_steps(const float *logits, int t, int classes, struct xt_decode_step *out,
                               struct xt_err *err)
{
    struct steps steps = {.logits = logits, .t = t, .classes = classes};
    enum xt_status status = measure(&steps, err);
    for (int i = 0; i < t && !status; i++) {
        int best = best_class(&steps, i);
        out[i] = (struct xt_decode_step){best, (float)exp(log_p(&steps, i, best))};
    }
    return status;
}
