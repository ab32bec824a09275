/* --balance: the ranks' shares of a batch are cut anew by measured speed. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "infer/network/auto_batch.h"
#include "infer/network/network_build.h"
#include "ranks/shares.h"
#include "train/trainer/parts.h"
#include "train/trainer/step.h"
#include "train/trainer/trainer_internal.h"

/* Steps after a cut that are not measured, and that are at first; twice as many after each cut. */
enum { WARM_UP = 4, WINDOW = 8, WINDOW_MOST = 384 };
/* Shares are cut anew where the slowest rank computes less than this part of what it did: building
 * the graphs costs time. */
static const double gain_least = 0.95;

/* Shares are in images, with mixup in pairs of them. */
static bool in_pairs(const struct xt_trainer *trainer)
{
    return trainer->settings->data.mixup > 0;
}

static int units(const struct xt_trainer *trainer)
{
    return in_pairs(trainer) ? trainer->batch / 2 : trainer->batch;
}

/* A rank needs two images at least. */
static int least(const struct xt_trainer *trainer)
{
    return in_pairs(trainer) ? 1 : 2;
}

static struct xt_rows rows_of(const struct xt_trainer *trainer, const int *shares)
{
    int first = 0;
    int rank = trainer->settings->ranks->rank;
    for (int i = 0; i < rank; i++)
        first += shares[i];
    return xt_rows_cut(trainer->batch, first, shares[rank], in_pairs(trainer));
}

static enum xt_status find_most(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_balance *balance = &trainer->balance;
    int ranks = trainer->settings->ranks->size;
    int others = (ranks - 1) * least(trainer) * (in_pairs(trainer) ? 2 : 1);
    enum xt_status status =
        xt_auto_batch_find(&trainer->network, &trainer->settings->network, true,
                           (size_t)(trainer->batch - others), &balance->most, err);
    if (in_pairs(trainer))
        balance->most /= 2;
    int own = balance->shares[trainer->settings->ranks->rank];
    balance->most = balance->most > own ? balance->most : own;
    return status;
}

enum xt_status xt_trainer_open_balance(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    struct xt_balance *balance = &trainer->balance;
    if (!s->ranks || !s->rank.balance)
        return XT_OK;
    if (trainer->network.device.own_memory)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--balance cuts shares anew on CPUs only, and --device is %s; omit it",
                          trainer->network.device.name);
    enum xt_status status = xt_mem_calloc(&balance->shares, (size_t)s->ranks->size,
                                          sizeof *balance->shares, "the shares", err);
    for (int i = 0; i < s->ranks->size && !status; i++) {
        struct xt_rows rows = xt_rows_share(trainer->batch, i, s->ranks->size, in_pairs(trainer));
        balance->shares[i] = in_pairs(trainer) ? rows.count / 2 : rows.count;
    }
    balance->window = WINDOW;
    return status ? status : find_most(trainer, err);
}

enum xt_status xt_trainer_print_shares(const struct xt_trainer *trainer, const char *between,
                                       struct xt_str *out, struct xt_err *err)
{
    const struct xt_balance *balance = &trainer->balance;
    enum xt_status status = XT_OK;
    for (int i = 0; balance->shares && i < trainer->settings->ranks->size && !status; i++)
        status = xt_str_printf(out, err, "%s%d", i ? between : "", balance->shares[i]);
    return status;
}

/* The network keeps its parameters, in their layout. */
static enum xt_status take_shares(struct xt_trainer *trainer, const int *shares, struct xt_err *err)
{
    struct xt_balance *balance = &trainer->balance;
    size_t size = (size_t)trainer->settings->ranks->size * sizeof *shares;
    bool runs = trainer->feed != NULL;
    enum xt_status status = runs ? xt_trainer_list_bad(trainer, err) : XT_OK;
    if (status)
        return status;
    int own = shares[trainer->settings->ranks->rank];
    memcpy(balance->shares, shares, size);
    balance->most = balance->most > own ? balance->most : own;
    balance->steps = 0;
    balance->busy = 0;
    trainer->rows = rows_of(trainer, shares);
    xt_trainer_close_share(trainer);
    status = xt_network_rebuild(&trainer->network, &trainer->settings->network, trainer->rows.count,
                                err);
    if (!status)
        status = xt_trainer_open_share(trainer, err);
    trainer->profiled = 0;
    trainer->built_step = trainer->step;
    return status || !runs ? status : xt_trainer_open_feed(trainer, err);
}

/* "2,6" of a checkpoint into `shares`; false: they are another batch's, or other ranks'. */
static bool parse(const struct xt_trainer *trainer, const char *text, int *shares)
{
    int ranks = trainer->settings->ranks->size;
    int left = units(trainer);
    for (int i = 0; i < ranks; i++) {
        char *end = NULL;
        long share = strtol(text, &end, 10);
        if (end == text || share < least(trainer) || share > left ||
            *end != (i + 1 < ranks ? ',' : '\0'))
            return false;
        shares[i] = (int)share;
        left -= shares[i];
        text = end + 1;
    }
    return left == 0;
}

enum xt_status xt_trainer_resume_shares(struct xt_trainer *trainer, const char *text,
                                        struct xt_err *err)
{
    struct xt_balance *balance = &trainer->balance;
    struct xt_ranks *ranks = trainer->settings->ranks;
    int *shares = NULL;
    int found = 0;
    if (!balance->shares)
        return XT_OK;
    size_t size = (size_t)ranks->size * sizeof *shares;
    enum xt_status status =
        xt_mem_calloc(&shares, (size_t)ranks->size, sizeof *shares, "the shares", err);
    if (!status && xt_ranks_is_first(ranks))
        found = text && parse(trainer, text, shares);
    if (!status)
        status = xt_ranks_copy(ranks, &found, sizeof found, 0, "the shares", err);
    if (!status && found)
        status = xt_ranks_copy(ranks, shares, size, 0, "the shares", err);
    if (!status && found && memcmp(shares, balance->shares, size) != 0)
        status = take_shares(trainer, shares, err);
    free(shares);
    return status;
}

static void say(const struct xt_trainer *trainer, double before, double after)
{
    struct xt_str shares = {0};
    struct xt_err own;
    if (xt_trainer_print_shares(trainer, ", ", &shares, &own) == XT_OK)
        xt_log_note("the ranks' shares of a batch from step %" PRId64 " on: %s %s (--balance; the "
                    "slowest computed for %.3g s a step, and is to for %.3g s)",
                    trainer->step + 1, xt_str_get(&shares), in_pairs(trainer) ? "pairs" : "images",
                    before, after);
    xt_str_clear(&shares);
}

static enum xt_status cut(struct xt_trainer *trainer, const struct xt_share_speed *speeds,
                          int *shares, struct xt_err *err)
{
    struct xt_balance *balance = &trainer->balance;
    struct xt_ranks *ranks = trainer->settings->ranks;
    xt_shares_cut(speeds, ranks->size, units(trainer), least(trainer), shares);
    double before = xt_shares_seconds(speeds, balance->shares, ranks->size);
    double after = xt_shares_seconds(speeds, shares, ranks->size);
    balance->steps = WARM_UP;
    balance->busy = 0;
    if (!(after < gain_least * before))
        return XT_OK;
    balance->window = balance->window < WINDOW_MOST ? 2 * balance->window : WINDOW_MOST;
    enum xt_status status = take_shares(trainer, shares, err);
    if (!status)
        say(trainer, before, after);
    return status;
}

void xt_trainer_measure_share(struct xt_trainer *trainer, double waited)
{
    struct xt_balance *balance = &trainer->balance;
    const struct xt_step_seconds *took = &trainer->step_seconds;
    if (balance->shares && ++balance->steps > WARM_UP)
        balance->busy += took->forward + took->loss + took->backward - waited;
}

enum xt_status xt_trainer_balance(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_balance *balance = &trainer->balance;
    if (!balance->shares || balance->steps < WARM_UP + balance->window)
        return XT_OK;
    struct xt_ranks *ranks = trainer->settings->ranks;
    int images = balance->shares[ranks->rank] * xt_train_step_batches(trainer->settings);
    const struct xt_share_speed own = {fmax(balance->busy, 1e-9) / balance->window / images,
                                       balance->most};
    struct xt_share_speed *speeds = NULL;
    int *shares = NULL;
    enum xt_status status = xt_ranks_gather(ranks, &own, sizeof own, &speeds, "the shares", err);
    if (!status)
        status = xt_mem_calloc(&shares, (size_t)ranks->size, sizeof *shares, "the shares", err);
    if (!status)
        status = cut(trainer, speeds, shares, err);
    free(speeds);
    free(shares);
    return status;
}
