/* Plans a network's graphs and their memory before anything is allocated. Not thread-safe. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "infer/network/memory_plan.h"
#include "infer/network/network.h"
#include "infer/settings.h"

/* The description of a graph beside the settings, and the graph, which is the caller's. */
struct xt_network_draft {
    struct xt_params *params;
    int batch;
    bool training;
    struct xt_graph *graph; /* NULL: not described yet */
    struct xt_tensor *logits;
};

enum xt_status xt_network_describe(struct xt_network *network,
                                   const struct xt_network_settings *settings,
                                   struct xt_network_draft *draft, struct xt_err *err);
/* Whether evaluation needs a graph of its own: an XPU's kernels are created for training or for
 * evaluation. */
bool xt_network_needs_evaluation(const struct xt_network *network, bool training);
/* Plans the described graphs and the batch slots. `evaluation` may have no graph. XT_ERR_MEMORY
 * where a tensor or a slot exceeds the device's largest allocation. */
enum xt_status xt_network_plan_drafts(struct xt_network *network,
                                      const struct xt_network_draft *draft,
                                      const struct xt_network_draft *evaluation,
                                      struct xt_memory_plan *plan, struct xt_err *err);
/* The memory that building for `batch` would need; nothing is allocated. XT_ERR_MEMORY where a
 * tensor exceeds the device's largest allocation. */
enum xt_status xt_network_plan(struct xt_network *network,
                               const struct xt_network_settings *settings, int batch, bool training,
                               struct xt_memory_plan *plan, struct xt_err *err);
