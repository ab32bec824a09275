/* What ops read and write: tensors, dense N, H, W, C, and the segments of the graph's arena that
 * hold their values and gradients. The graph owns both.
 */
#ifndef XT_ENGINE_TENSOR_H
#define XT_ENGINE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>

#include "device/device.h"

/* Readers of a tensor as a rule, and of one that was fanned out (ops/fan_out.c). */
enum { XT_READERS_MAX = 2, XT_FAN_OUT_MAX = 64, XT_TENSORS_MAX = 2048 };

/* A segment of the arena with a lifetime in steps of the schedule: op i runs forward at time i and
 * backward at 2 * ops - i; the loss stands between. */
struct xt_buffer {
    const char *tensor; /* the name of the tensor it belongs to */
    const char *kind;   /* "value", "gradient", "argmax" */
    size_t bytes;
    int first;
    int last;
    int loss;           /* the time at which it stands */
    int forward_last;   /* the last use up to then; -1: none */
    int backward_first; /* the first one after it; 0: none */
    int recompute;      /* --recompute: the time before which it is made again; 0: it is kept */
    int ring; /* samples of each worker that it holds at a time (slices.h); 0: it holds all samples
               */
    int worker_samples;  /* of a ring: how many a worker has in all */
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
    float scale;  /* int8: what is held, q, stands for (q + offset) * scale; else 1 */
    float offset; /* 0 but for the image's bytes */
    int index;    /* in the graph */
    bool above_0; /* a ReLU has left no negative value in it: int8 needs no sign */
    bool wants_grad;
    bool one_reader;  /* its op's backward takes one gradient: a second reader is refused */
    bool fanned_out;  /* its op's backward takes any number */
    bool overwritten; /* an op writes its output over it: no op described later may read it */
    bool shared;      /* other tensors have its memory: no op writes its output over it */
    int readers;      /* ops that read it, each with a gradient of its own */
    /* slices.h: the value is kept of a slice alone; so is the gradient that a reader writes; that
     * is written over the value, which that reader is the last to read. */
    bool value_ring;
    bool ring[XT_FAN_OUT_MAX];
    bool written_over;
    struct xt_buffer *value;
    struct xt_buffer *grad[XT_FAN_OUT_MAX]; /* the producer's backward adds them up as it reads */
};

size_t xt_tensor_count(const struct xt_tensor *tensor); /* elements */
size_t xt_tensor_bytes(const struct xt_tensor *tensor);
/* How many ops may read it in training. */
int xt_tensor_readers_most(const struct xt_tensor *tensor);

/* Where sample n is, of `sample` bytes each. */
void *xt_buffer_sample(const struct xt_buffer *buffer, size_t sample, int n);
/* Sample n's part of the tensor in a buffer that the host reaches; NULL where there is no buffer.
 */
void *xt_tensor_sample(const struct xt_tensor *tensor, const struct xt_buffer *buffer, int n);

/* The buffer (NULL: nothing is done) is alive at `time`. */
void xt_buffer_use(struct xt_buffer *buffer, int time);

#endif
