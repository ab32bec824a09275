/* A run's figures and pictures for TensorBoard: <run>/events.out.tfevents.xtrain, records of
 * TFRecord (length, masked CRC-32C, data, masked CRC-32C) that each hold an Event of protocol
 * buffers (tensorflow/core/util/event.proto, tensorflow/core/framework/summary.proto).
 *
 * A run never fails because of it: the first failed write is warned of, and later records are still
 * tried. A record is written whole or not at all. The caller owns it; one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runs/log_writer.h"

#define XT_EVENTS_FILE "events.out.tfevents.xtrain"

struct xt_events {
    int fd; /* -1: none */
    char *path;
    bool warned;
};

/* Opens `path` to append, creating it where it is missing. As in metrics.jsonl, an earlier start's
 * records of steps after those to retain are removed, and so is a torn or damaged end.
 */
void xt_events_open(struct xt_events *events, const char *path, struct xt_log_keep keep);
void xt_events_close(struct xt_events *events);

/* The figures of a line of metrics.jsonl, as scalars "training/KEY" or "evaluation/KEY". */
void xt_events_line(struct xt_events *events, const char *line, size_t length);

/* A PNG, of an evaluation of that step. */
struct xt_event_picture {
    const char *tag; /* "errors/1" */
    int width;
    int height;
    const void *png;
    size_t size;
};
void xt_events_picture(struct xt_events *events, int64_t step,
                       const struct xt_event_picture *picture);

/* CRC-32C (Castagnoli) as TFRecord masks it. */
uint32_t xt_events_masked_crc(const void *bytes, size_t count);
