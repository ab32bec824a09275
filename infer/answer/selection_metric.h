/* The selection metric: which of two evaluations is better. Used for the weights that training
 * saves as the best, for --patience, and by readers of a run's record.
 */
#pragma once

#include <stdbool.h>

enum { XT_METRICS_MAX = 2 };

/* One metric of a score. */
struct xt_metric {
    const char *key; /* in records: "plate_accuracy" */
    double value;    /* a fraction */
};

/* Compared in this order: accuracy, the second metric (0 where it is not compared), the smaller
 * loss. */
struct xt_selection_metric {
    double accuracy, second, loss;
};

/* metrics: [count], in the order of the record, at least one. */
struct xt_selection_metric xt_selection_metric_of(const struct xt_metric *metrics, int count,
                                                  double loss);
/* A loss that is NaN is worse than any. */
bool xt_selection_metric_is_better(const struct xt_selection_metric *metric,
                                   const struct xt_selection_metric *than);
