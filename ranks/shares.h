/* How a batch is cut into the ranks' shares: by what an image takes each of them. */
#pragma once

/* Of one rank; with mixup images are pairs of them. */
struct xt_share_speed {
    double seconds; /* that an image takes */
    int most;       /* images that it has memory for */
};

/* The seconds that the slowest rank computes. */
double xt_shares_seconds(const struct xt_share_speed *speeds, const int *shares, int ranks);

/* Cuts `images` so that the slowest rank computes as briefly as it can; each gets `least` or more.
 * All shares together can hold them. The same speeds give the same shares. */
void xt_shares_cut(const struct xt_share_speed *speeds, int ranks, int images, int least,
                   int *shares);
