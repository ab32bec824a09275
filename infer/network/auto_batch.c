#include "infer/network/auto_batch.h"

#include <stdio.h>

#include "base/log.h"
#include "infer/network/network_plan.h"

/* ---- the batches that are tried ---- */

enum { SMALL = 8, MIDDLE = 64, SMALL_STEP = 8, STEP = 32 };

/* The index-th batch size: 1 to 8, then multiples of 8 up to 64, then of 32. */
static size_t round_batch(size_t index)
{
    const size_t middle = (MIDDLE - SMALL) / SMALL_STEP;
    if (index < SMALL)
        return index + 1;
    if (index < SMALL + middle)
        return SMALL + SMALL_STEP * (index - SMALL + 1);
    return MIDDLE + STEP * (index - SMALL - middle + 1);
}

static enum xt_status try_batch(struct xt_network *network,
                                const struct xt_network_settings *settings, bool training,
                                size_t batch, bool *fits, struct xt_err *err)
{
    struct xt_memory_plan plan;
    struct xt_err why = {0};
    enum xt_status status = xt_network_plan(network, settings, (int)batch, training, &plan, &why);
    *fits = !status && xt_memory_plan_fits_well(&plan);
    /* One tensor may be too large for the device. */
    return status && status != XT_ERR_MEMORY ? xt_err_set(err, status, "%s", why.text) : XT_OK;
}

enum xt_status xt_auto_batch_find(struct xt_network *network,
                                  const struct xt_network_settings *settings, bool training,
                                  size_t most, int *batch, struct xt_err *err)
{
    if (most > XT_BATCH_MAX)
        most = XT_BATCH_MAX;
    bool fits = false;
    *batch = 0;
    enum xt_status status = most ? try_batch(network, settings, training, most, &fits, err) : XT_OK;
    if (fits)
        *batch = (int)most;
    /* All below `low` fit, none from `high` on does. */
    size_t low = 0;
    size_t high = 0;
    while (round_batch(high) < most)
        high++;
    while (!status && !fits && low < high) {
        size_t middle = (low + high) / 2;
        bool middle_fits = false;
        status = try_batch(network, settings, training, round_batch(middle), &middle_fits, err);
        if (middle_fits) {
            *batch = (int)round_batch(middle);
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return status;
}

/* ---- messages ---- */

/* "14.13 GB of the 15.70 GB on xpu:0 that are free" */
static void describe_side(const struct xt_network *network, const struct xt_memory_plan *plan,
                          char *text, size_t size)
{
    bool of_device = network->device.own_memory;
    const struct xt_memory_side *side = of_device ? &plan->device : &plan->host;
    snprintf(text, size, "%.2f GB of the %.2f GB %s%s", xt_memory_need(side) / 1e9,
             side->available / 1e9, of_device ? "on " : "of memory",
             of_device ? network->device.place : "");
    if (*side->why && side->own > 0)
        xt_str_append_to(text, size,
                         ", all but the %.2f GB of this process counted as free (other processes' "
                         "use is not readable: %s), of which a fifth stays for those",
                         side->own / 1e9, side->why);
    else if (*side->why)
        xt_str_append_to(text, size,
                         ", all counted as free (its use is not readable: %s), of which a fifth "
                         "stays for others",
                         side->why);
    else
        xt_str_append_to(text, size, " that are free");
}

static void note(const struct xt_network *network, const struct xt_memory_plan *plan,
                 const char *remark, size_t images, int batch)
{
    char memory[384];
    describe_side(network, plan, memory, sizeof memory);
    if (!remark && network->over_batch)
        remark = "; this network's context norm is over the batch: another batch gives other "
                 "answers";
    xt_log_note("--batch auto takes %d: %s, for %s%s", batch,
                (size_t)batch >= images ? "all the images" : "the largest that fits", memory,
                remark ? remark : "");
}

static enum xt_status check_readable(const struct xt_network *network,
                                     const struct xt_memory_plan *plan, struct xt_err *err)
{
    bool has_own = network->device.own_memory;
    if (plan->host.limit > 0 && (!has_own || plan->device.limit > 0))
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "--batch auto: how much memory %s has cannot be read; give --batch N",
                      has_own && plan->host.limit > 0 ? network->device.name : "this machine");
}

enum xt_status xt_auto_batch_take(struct xt_network *network,
                                  const struct xt_network_settings *settings, bool training,
                                  size_t images, const char *remark, int *batch, struct xt_err *err)
{
    struct xt_memory_plan plan;
    enum xt_status status = xt_network_plan(network, settings, 1, training, &plan, err);
    if (!status)
        status = check_readable(network, &plan, err);
    if (!status)
        status = xt_auto_batch_find(network, settings, training, images, batch, err);
    if (!status)
        status = xt_network_plan(network, settings, *batch ? *batch : 1, training, &plan, err);
    if (status)
        return status;
    char memory[384];
    describe_side(network, &plan, memory, sizeof memory);
    if (!*batch)
        return xt_err_set(
            err, XT_ERR_MEMORY,
            "--batch auto: not even one image fits: it would take %s, of which a part stays free",
            memory);
    note(network, &plan, remark, images, *batch);
    return XT_OK;
}
