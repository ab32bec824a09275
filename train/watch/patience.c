#include "train/watch/patience.h"

#include <math.h>

static bool gains(const struct xt_selection_metric *metric, const struct xt_selection_metric *last,
                  double min_delta)
{
    if (last->accuracy == 0 && metric->accuracy == 0)
        return metric->second > last->second || metric->loss < last->loss;
    if (min_delta > 0 && last->accuracy > 0)
        return metric->accuracy > last->accuracy + min_delta;
    return xt_selection_metric_is_better(metric, last);
}

void xt_patience_see(struct xt_patience *patience, const struct xt_selection_metric *metric,
                     double min_delta)
{
    struct xt_selection_metric *last = &patience->last;
    bool gain = !patience->begun || gains(metric, last, min_delta);
    bool each = patience->begun && last->accuracy == 0 && metric->accuracy == 0;
    if (each)
        *last = (struct xt_selection_metric){.second = fmax(last->second, metric->second),
                                             .loss = fmin(last->loss, metric->loss)};
    else if (gain)
        *last = *metric;
    patience->since = gain ? 0 : patience->since + 1;
    patience->begun = true;
}

bool xt_patience_is_over(const struct xt_patience *patience, int most)
{
    return most > 0 && patience->since >= most;
}
