#include "infer/answer/selection_metric.h"

#include <math.h>
#include <string.h>

/* For classes the second metric, top-5, is not compared. */
struct xt_selection_metric xt_selection_metric_of(const struct xt_metric *metrics, int count,
                                                  double loss)
{
    bool two = count > 1 && strcmp(metrics[1].key, "char_accuracy") == 0;
    return (struct xt_selection_metric){
        .accuracy = metrics[0].value, .second = two ? metrics[1].value : 0, .loss = loss};
}

bool xt_selection_metric_is_better(const struct xt_selection_metric *metric,
                                   const struct xt_selection_metric *than)
{
    if (metric->accuracy != than->accuracy)
        return metric->accuracy > than->accuracy;
    if (metric->second != than->second)
        return metric->second > than->second;
    return metric->loss < than->loss || (isnan(than->loss) && !isnan(metric->loss));
}
