/* libxtrain: inference with networks trained by xtrain, for other programs.
 *
 *     xtrain_open     a weights file on a device, ready for inference
 *     xtrain_read     a picture (a file, a JPEG, PNG or WebP in memory, or pixels): its answer
 *     xtrain_answer_  the plate's text or the likeliest classes, with confidences
 *
 * xtrain_send and xtrain_wait are the two halves of xtrain_read: several pictures sent before
 * waiting are computed together.
 *
 * Threads: a handle may be used by any number of threads at once; its own threads compute, so
 * that pictures from several threads share batches. Decoding runs on the sending thread. An answer
 * belongs to one thread at a time. Several handles may be open at once, but only one on GPUs.
 * Nothing here may be used in a child after fork.
 *
 * Who owns what: xtrain_close and xtrain_answer_free release what xtrain_open, xtrain_send and
 * xtrain_read returned; both accept NULL, which all functions that return a status refuse.
 * Arguments are not referenced after the call returns. Texts are UTF-8, and live as long as the
 * handle or answer that they come from.
 *
 * Failures: functions return XTRAIN_OK (0) or an enum xtrain_status, and fill *error (may be NULL)
 * with a sentence; *out is then NULL. Nothing is printed: see xtrain_log.
 *
 * Compatible: a program that was linked with libxtrain.so.1 runs with every later one of that name.
 */
#ifndef XTRAIN_H
#define XTRAIN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

enum xtrain_status {
    XTRAIN_OK = 0,
    XTRAIN_FAILED = 1, /* in computing */
    XTRAIN_USAGE = 2,  /* invalid options or arguments */
    XTRAIN_DATA = 3,   /* a picture or weights that cannot be used */
    XTRAIN_DEVICE = 4, /* no such device, or no oneDNN library for it */
    XTRAIN_MEMORY = 5, /* out of memory */
    XTRAIN_BUSY = 6,   /* the queue is full: see xtrain_options.refuse */
    XTRAIN_COSTLY = 7, /* a picture that takes longer to decode than the service allows */
};

struct xtrain_error {
    int status;      /* enum xtrain_status */
    char text[1024]; /* one sentence, UTF-8 */
};

/* An opened network. */
struct xtrain;
/* The answer for one picture. */
struct xtrain_answer;

/* Zero selects each default. */
struct xtrain_options {
    const char *device;    /* "cpu", "xpu", "xpu:N", "auto"; NULL: cpu */
    const char *type;      /* "f32", "bf16", "fp16", "int8"; NULL: f32 */
    const char *calibrate; /* int8: a folder of images like those to be read; NULL: the ranges that
                              `xtrain export` wrote into the weights */
    const char *model;     /* for weights that do not name their network */
    const char *alphabet;  /* a file of the symbols, for weights that do not name them */
    int batch;             /* most pictures in one pass; 0: 16 */
    int threads;           /* computing threads; 0: as many as the process may use */
    int top;               /* number of likeliest classes in an answer; 0: 5 */
    int beam;              /* not 0: plates are decoded by beam search, else greedily */
    int queue;             /* most pictures that wait for a pass; 0: four batches */
    int refuse;  /* not 0: xtrain_send returns XTRAIN_BUSY when the queue is full, else it blocks */
    double wait; /* seconds that a picture may wait for others to share its pass; 0: a pass starts
                    as soon as the previous one is done */
    const char *reject; /* "0.9": answers of less confidence are rejected; "none": none is; NULL: as
                           the weights say, which training chose by --reject */
    void *reserved[7];  /* zero, else XTRAIN_USAGE */
};

/* The order of a pixel's bytes. */
enum xtrain_pixels { XTRAIN_RGB, XTRAIN_BGR, XTRAIN_GREY };

/* A picture, of one of three kinds; unused fields are zero. */
struct xtrain_image {
    const char *path; /* a file: JPEG, PNG or WebP */
    const void
        *bytes;  /* or a JPEG, PNG or WebP in memory, or, where width is not 0, pixels in rows */
    size_t size; /* of bytes */
    int width, height; /* of pixels */
    size_t stride;     /* bytes from one row of pixels to the next; 0: rows without padding */
    int pixels;        /* enum xtrain_pixels */
    /* The part that is read, in pixels from the left top corner. NULL: the whole picture. */
    const double *region;
    int region_numbers; /* 0 without a region. 4: x, y, width, height. 8: x and y of four corners as
                           seen upright, left top, right top, right bottom, left bottom; they are
                           rectified */
    /* Called once the answer is ready, on a thread of the library. It must not block, nor call
     * functions of this library other than xtrain_answer_*. May be NULL. */
    void (*done)(void *context);
    void *context;
    void *reserved[8]; /* zero, else XTRAIN_USAGE */
};

/* Opens the weights (a .safetensors or .pth file, or a run's folder), builds the network for its
 * device and warms it up: takes seconds, on a GPU up to minutes the first time. */
int xtrain_open(struct xtrain **out, const char *weights, const struct xtrain_options *options,
                struct xtrain_error *error);
/* A GPU that does not respond blocks calls of this library for ever, since nothing ends a call to
 * its driver. `lost` is then called with one sentence, once, on a thread of the library, after so
 * many seconds in one call; 0: ten minutes. It must not call functions of this library, and cannot
 * do more than let the process end, without exit handlers (_exit). For networks that are opened
 * later; NULL: nobody is told. */
void xtrain_device_timeout(double seconds, void (*lost)(void *context, const char *sentence),
                           void *context);
/* Waits for the pictures that were sent. No thread may use the handle during or after the call;
 * finished answers may still be read and freed. */
void xtrain_close(struct xtrain *network);

/* "lprnet"; whether it reads plates (1) or classifies (0); and the size to which pictures are
 * scaled. */
const char *xtrain_model(const struct xtrain *network);
int xtrain_reads_plates(const struct xtrain *network);
void xtrain_image_size(const struct xtrain *network, int *width, int *height);
/* "cpu: ..., 8 threads" */
const char *xtrain_device(const struct xtrain *network);

/* Decodes the picture, crops the region and queues it. Errors in the picture are returned here. */
int xtrain_send(struct xtrain *network, const struct xtrain_image *image,
                struct xtrain_answer **out, struct xtrain_error *error);
/* Whether the answer is ready (1): waiting then returns at once. */
int xtrain_ready(const struct xtrain_answer *answer);
/* Waits until the answer is ready; returns the status of its computation. */
int xtrain_wait(struct xtrain_answer *answer, struct xtrain_error *error);
/* Send and wait. */
int xtrain_read(struct xtrain *network, const struct xtrain_image *image,
                struct xtrain_answer **out, struct xtrain_error *error);
/* Starts a pass over what was sent so far as soon as possible, without waiting for a full batch. */
void xtrain_flush(struct xtrain *network);

/* Only after waiting for the answer. The text is the plate, or the likeliest class. */
const char *xtrain_answer_text(const struct xtrain_answer *answer);
double xtrain_answer_confidence(const struct xtrain_answer *answer);
/* Whether it is rejected (1): its confidence is too low, or nothing was read. The text is what it
 * would be otherwise. */
int xtrain_answer_rejected(const struct xtrain_answer *answer);
/* Its parts: a plate's characters from left to right, or the likeliest classes, best first. */
int xtrain_answer_count(const struct xtrain_answer *answer);
const char *xtrain_answer_part(const struct xtrain_answer *answer, int part);
double xtrain_answer_part_confidence(const struct xtrain_answer *answer, int part);
/* A pending answer is cancelled if its pass has not started. */
void xtrain_answer_free(struct xtrain_answer *answer);

/* Sets the receiver of notes and warnings, a sentence each, from any thread; one for the whole
 * process. NULL, the default: no receiver. */
void xtrain_log(void (*said)(void *context, const char *sentence), void *context);
/* "0.1.0" */
const char *xtrain_version(void);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
