/* What ops read and write: tensors, dense N, H, W, C, and the segments of the graph's arena that
 * hold their values and gradients. The graph owns both.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

/* Most readers of a tensor, and of one that was fanned out (ops/fan_out.c). */
enum { XT_READERS_MAX = 2, XT_FAN_OUT_MAX = 256, XT_TENSORS_MAX = 8192 };

/* A segment of the arena with a lifetime in steps of the schedule: op i runs forward at time i and
 * backward at 2 * ops - i; the loss is between. */
struct xt_buffer {
    const char *tensor; /* the name of the tensor it belongs to */
    const char *kind;   /* "value", "gradient", "argmax" */
    size_t bytes;
    int first;
    int last;
    int loss;           /* the time of the loss */
    int forward_last;   /* the last use up to then; -1: none */
    int backward_first; /* the first one after it; 0: none */
    int recompute;      /* --recompute: the time before which it is recomputed; 0: it is stored */
    int ring; /* samples per worker that it holds at a time (slices.h); 0: it holds all samples
               */
    int worker_samples;  /* of a ring: total samples per worker */
    size_t worker_bytes; /* of a ring: from a worker's part to the next one's */
    bool of_worker;      /* `bytes` are one worker's, in an arena of the worker's own */
    size_t segment;      /* of the arena, and where in it; once planned */
    size_t offset;
    void *data; /* once built; an address on `device` */
    const struct xt_device *device;
};

struct xt_tensor {
    char name[64];
    int n, h, w, c;
    enum xt_dtype dtype;
    float scale;  /* int8: q represents (q + offset) * scale; else 1 */
    float offset; /* 0 except for the image's bytes */
    int index;    /* in the graph */
    bool above_0; /* non-negative after a ReLU: int8 is unsigned */
    int range;    /* from 1: the range that int8 calibration records of it; 0: none */
    bool wants_grad;
    bool of_parameters; /* computed of parameters alone: the same until they change */
    bool one_reader;    /* its op's backward accepts one gradient: a second reader is an error */
    bool fanned_out;    /* its op's backward accepts any number */
    bool overwritten;   /* overwritten by an op's output: no op described later may read it */
    bool shared;        /* other tensors share its memory: no op may overwrite it */
    int readers;        /* ops that read it, each with a gradient of its own */
    /* slices.h: the value is stored for one slice only; so is the gradient that a reader writes; it
     * overwrites the value, of which that reader is the last. */
    bool value_ring;
    bool ring[XT_FAN_OUT_MAX];
    bool written_over;
    struct xt_buffer *value;
    /* A ring that the ops of the segment `held_in` read, while the value is written past the
     * caches. NULL: they read the value. */
    struct xt_buffer *held;
    int held_in;
    struct xt_buffer *grad[XT_FAN_OUT_MAX]; /* summed by the producer's backward as it reads them */
};

size_t xt_tensor_count(const struct xt_tensor *tensor); /* elements */
size_t xt_tensor_bytes(const struct xt_tensor *tensor);
size_t xt_tensor_sample_bytes(const struct xt_tensor *tensor);
/* How many ops may read it in training. */
int xt_tensor_readers_most(const struct xt_tensor *tensor);

/* Where sample n is, of `sample` bytes each. */
void *xt_buffer_sample(const struct xt_buffer *buffer, size_t sample, int n);
/* Sample n's part of the tensor in a host-accessible buffer; NULL if there is no buffer.
 */
void *xt_tensor_sample(const struct xt_tensor *tensor, const struct xt_buffer *buffer, int n);

/* Marks the buffer (may be NULL) as alive at `time`. */
void xt_buffer_use(struct xt_buffer *buffer, int time);
