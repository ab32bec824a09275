/* Adapts weights trained for other symbols or classes: the rows of those that remain are retained,
 * in their new places. Symbols are matched by their characters, and the blank by its role, however
 * it is written; classes by their names.
 *
 * Retained rows are unchanged. The logit of a new symbol or class starts as the mean of the
 * retained ones' logits, which is never the largest: before training no new class is predicted.
 * Where a layer reads the classes' channels (LPRNet's last tap), a new class takes the columns of a
 * dropped one, so that the retained logits do not change; when there are more new than dropped
 * ones, the columns of the rest are 0.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "infer/network/network.h"
#include "infer/settings.h"

/* Where the weights read (network->weights) are for other symbols than --alphabet gives, or in
 * training for other classes than the data has, and share some with them: converts them, logs what
 * is new and what was dropped, and sets *adapted. */
enum xt_status xt_head_adapt(struct xt_network *network, const struct xt_network_settings *settings,
                             bool training, bool *adapted, struct xt_err *err);
