#include "ranks/shares.h"

double xt_shares_seconds(const struct xt_share_speed *speeds, const int *shares, int ranks)
{
    double longest = 0;
    for (int i = 0; i < ranks; i++) {
        double seconds = shares[i] * speeds[i].seconds;
        longest = seconds > longest ? seconds : longest;
    }
    return longest;
}

/* The rank that computes one more image soonest; -1: none has memory for it. */
static int find_soonest(const struct xt_share_speed *speeds, const int *shares, int ranks)
{
    int soonest = -1;
    for (int i = 0; i < ranks; i++)
        if (shares[i] < speeds[i].most &&
            (soonest < 0 ||
             (shares[i] + 1) * speeds[i].seconds < (shares[soonest] + 1) * speeds[soonest].seconds))
            soonest = i;
    return soonest;
}

void xt_shares_cut(const struct xt_share_speed *speeds, int ranks, int images, int least,
                   int *shares)
{
    for (int i = 0; i < ranks; i++)
        shares[i] = least;
    for (int left = images - ranks * least; left > 0; left--) {
        int rank = find_soonest(speeds, shares, ranks);
        if (rank < 0)
            return;
        shares[rank]++;
    }
}
