/* Where each op of a graph runs: the placement table of --dry-run and --verbose. */
#pragma once

#include <stdio.h>

#include "cli/options/options.h"
#include "train/trainer.h"

/* One line per op: device, data type, memory format, implementation forward and backward, bytes
 * written. For training (`run` not NULL) also transfers, loss, loss scaler and optimizer. */
void xt_placement_print(const struct xt_graph *graph, const struct xt_run_summary *run, FILE *out);

/* XT_ERR_USAGE if --threads exceeds the CPUs that this process may use and --oversubscribe is not
 * given. */
enum xt_status xt_placement_check_threads(const struct xt_device_settings *settings,
                                          struct xt_err *err);

/* The number of compute threads (`count`, the device's) and of loader threads, why, and where they
 * are pinned. */
void xt_placement_print_threads(const struct xt_train_settings *settings, int count, FILE *out);

/* Formats the images per step: "32 images", "128 images, in 4 batches of 32". */
void xt_placement_step_images(const struct xt_run_summary *run, char *text, size_t size);

/* Prints settings, parameters, memory by kind and placement of the run; writes nothing. */
enum xt_status xt_placement_dry_run(const struct xt_options *options,
                                    const struct xt_trainer *trainer, struct xt_err *err);
