/* Where each op of a graph runs: the placement table of --dry-run and --verbose. */
#ifndef XT_CLI_PLACEMENT_H
#define XT_CLI_PLACEMENT_H

#include <stdio.h>

#include "cli/options/options.h"
#include "train/trainer.h"

/* A line an op: device, data type, memory format, implementation forward and backward, bytes
 * written. Of training (`run` not NULL) also what a step does beside: transfers, loss, scaler,
 * optimizer. */
void xt_placement_print(const struct xt_graph *graph, const struct xt_run_summary *run, FILE *out);

/* XT_ERR_USAGE where --threads are more than this process may use, and --oversubscribe does not say
 * that they are meant. */
enum xt_status xt_placement_check_threads(const struct xt_device_settings *settings,
                                          struct xt_err *err);

/* How many threads compute (`count`, the device's) and load images, why, and where they stay. */
void xt_placement_print_threads(const struct xt_train_settings *settings, int count, FILE *out);

/* What a step takes: "32 images", "128 images, in 4 batches of 32". */
void xt_placement_step_images(const struct xt_run_summary *run, char *text, size_t size);

/* Settings, parameters, memory by kind, placement: what the run would be, and nothing written. */
enum xt_status xt_placement_dry_run(const struct xt_options *options,
                                    const struct xt_trainer *trainer, struct xt_err *err);

#endif
