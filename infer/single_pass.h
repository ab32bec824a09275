/* A single pass over a source's images: their feed and its transfer to the device. The caller runs
 * the batches. One thread at a time.
 */
#pragma once

#include "base/err.h"
#include "infer/feed.h"
#include "infer/network/network.h"
#include "infer/settings.h"

struct xt_single_pass {
    struct xt_upload upload;
    struct xt_feed *feed; /* NULL: not opened */
};

/* Each image of the source once, in its order, unchanged; the caller may change that. */
struct xt_loader_config xt_single_pass_config(const struct xt_network *network,
                                              const struct xt_data_settings *settings,
                                              const struct xt_source *source);

/* Close it also after a failure, and before the network changes. */
enum xt_status xt_single_pass_open(struct xt_single_pass *pass, struct xt_network *network,
                                   const struct xt_loader_config *config, struct xt_err *err);
/* Does nothing on a zeroed struct. */
void xt_single_pass_close(struct xt_single_pass *pass);
