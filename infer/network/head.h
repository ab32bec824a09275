/* Weights that were trained for other symbols or classes: what they know of those that remain is
 * kept, in its new place. Symbols go by their characters, and the blank is the blank whatever it is
 * written as; classes go by their names.
 *
 * Kept rows are taken as they are. The logit of a new symbol or class begins as the mean of the
 * kept ones' logits, which is never the largest: before training nothing new is answered. What a
 * class feeds back into the network (LPRNet's last tap) a new one takes over from a dropped one, so
 * that the kept logits stay what they were; where more are new than dropped, from a kept one, and
 * nothing reads it yet.
 */
#ifndef XT_INFER_NETWORK_HEAD_H
#define XT_INFER_NETWORK_HEAD_H

#include <stdbool.h>

#include "base/err.h"
#include "infer/network/network.h"
#include "infer/settings.h"

/* Where the weights that were read (network->weights) are for other symbols than --alphabet gives,
 * or in training for other classes than the data has, and share some with them: makes them weights
 * for the network's, notes what is new and what was dropped, and sets *adapted. */
enum xt_status xt_head_adapt(struct xt_network *network, const struct xt_network_settings *settings,
                             bool training, bool *adapted, struct xt_err *err);

#endif
