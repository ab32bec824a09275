/* What a network's graphs will be and what they will take of memory, before anything of them is
 * allocated. Not thread-safe.
 */
#ifndef XT_INFER_NETWORK_NETWORK_PLAN_H
#define XT_INFER_NETWORK_NETWORK_PLAN_H

#include <stdbool.h>

#include "base/err.h"
#include "infer/network/memory_plan.h"
#include "infer/network/network.h"
#include "infer/settings.h"

/* What a graph is described with beside the settings, and the graph, which is the caller's. */
struct xt_network_draft {
    struct xt_params *params;
    int batch;
    bool training;
    struct xt_graph *graph; /* NULL: none yet */
    struct xt_tensor *logits;
};

enum xt_status xt_network_describe(struct xt_network *network,
                                   const struct xt_network_settings *settings,
                                   struct xt_network_draft *draft, struct xt_err *err);
/* An XPU's kernels are made for training or for evaluation: whether there is a graph of each. */
bool xt_network_needs_evaluation(const struct xt_network *network, bool training);
/* Plans what is described, and the batch slots. `evaluation` may have no graph. XT_ERR_MEMORY where
 * the device does not take a tensor or a slot in one piece. */
enum xt_status xt_network_plan_drafts(struct xt_network *network,
                                      const struct xt_network_draft *draft,
                                      const struct xt_network_draft *evaluation,
                                      struct xt_memory_plan *plan, struct xt_err *err);
/* What building for `batch` would take of memory; nothing is allocated. XT_ERR_MEMORY where the
 * device does not take a tensor of it in one piece. */
enum xt_status xt_network_plan(struct xt_network *network,
                               const struct xt_network_settings *settings, int batch, bool training,
                               struct xt_memory_plan *plan, struct xt_err *err);

#endif
