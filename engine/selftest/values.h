/* The parameters of a self-test: functions of their names and elements, so that each graph of a
 * network has the same. */
#pragma once

#include "engine/params.h"

/* The seed of all that is random in a self-test. */
enum { XT_SELFTEST_SEED = 11 };

/* Where element `index` of the part stands in the file's tensor. */
size_t xt_selftest_file_index(const struct xt_param *param, size_t index);

/* Of the key of the parameter's name. Weights are scaled so that sums of products with numbers up
 * to 1 stay near 1. */
uint64_t xt_selftest_key(const struct xt_param *param);
float xt_selftest_value(const struct xt_param *param, uint64_t key, size_t file_element);

/* One parameter, by its index, or all of them. */
enum xt_status xt_selftest_fill(struct xt_params *params, struct xt_device *device, int index,
                                struct xt_err *err);
enum xt_status xt_selftest_fill_all(struct xt_params *params, struct xt_device *device,
                                    struct xt_err *err);
