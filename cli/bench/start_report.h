/* What a start took, as text and as JSON. Nothing here measures. Not thread-safe. */
#ifndef XT_CLI_BENCH_START_REPORT_H
#define XT_CLI_BENCH_START_REPORT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/bench/start.h"

enum { XT_START_PHASES = 5 };

/* "library load", ... ; the last is what the others leave of xt_start's `all`. */
const char *xt_start_phase_name(int phase);
struct xt_span xt_start_phase(const struct xt_start *start, int phase);

/* "41 kernels compiled, 0 from the cache", or why that is not known; "" on the CPU. */
void xt_start_describe_kernels(const struct xt_start *start, char *text, size_t size);

/* For a training run: a line a phase that took more than `least` seconds, nothing for quick ones.
 */
void xt_start_print(const struct xt_start *start, double least, FILE *out);

/* Phases and kernels as a JSON object; NULL where memory ran out. */
cJSON *xt_start_to_json(const struct xt_start *start);

#endif
