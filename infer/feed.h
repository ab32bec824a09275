/* How batches are fed to a network: what the loader is told, from settings and the network's size,
 * and the transfer of its batches to the device. Shared by training, evaluation and benchmarks.
 *
 * On the CPU a step reads the loader's slot. On an XPU a transfer thread takes batches from the
 * loader, moves their pixels to the device ahead of the step and gives the slots back; the step
 * gets the labels and the device's buffer. An error of loader, transfer or thread is the next
 * batch's error.
 *
 * Without --workers there is one loader thread a NUMA node at first. After a few steps the rates of
 * a thread and of the steps are known, and threads are added if needed.
 */
#pragma once

#include "data/loader.h"
#include "device/upload.h"
#include "infer/settings.h"

/* The images that a network reads. */
struct xt_feed_size {
    int width;
    int height;
    bool bgr;
};

/* For training: shuffled, augmented, repeating. For evaluation: each image once, unchanged. The
 * caller sets source and batch. */
struct xt_loader_config xt_feed_config(const struct xt_data_settings *settings,
                                       const struct xt_feed_size *size, bool training);

/* Batch slots of training: --slots, else 4; and of a single pass over the images. */
int xt_feed_slots(const struct xt_data_settings *settings);
enum { XT_FEED_EVALUATION_SLOTS = 3 };

/* Opens the cache requested by --image-cache and sets it in the loader's configuration; *out is
 * NULL without a cache, and where config's source caches its files itself. `path` is the file of a
 * cache on disk, unless --image-cache-file names one. Destroy it after the loader. */
enum xt_status xt_feed_open_cache(const struct xt_data_settings *settings, const char *path,
                                  struct xt_source *source, struct xt_loader_config *config,
                                  struct xt_cache **out, struct xt_err *err);

/* The memory that this cache will take, estimated from the files' sizes. */
double xt_feed_cache_bytes(const struct xt_data_settings *settings,
                           const struct xt_loader_config *config);

struct xt_feed;

/* A batch that a step may read until it is released. */
struct xt_feed_batch {
    struct xt_batch host;                    /* its pixels are NULL where they were uploaded */
    const struct xt_device_memory *uploaded; /* NULL: the step reads host.pixels */
};

/* Starts a loader on the upload's slots, and the transfer thread where pixels are copied to a
 * device. `upload` outlives the feed; slots and slot_pixels of the configuration are filled in.
 * `synchronous`: no thread, each batch is transferred when it is requested (for benchmarks). */
enum xt_status xt_feed_create(struct xt_feed **out, struct xt_upload *upload,
                              const struct xt_loader_config *config, bool synchronous,
                              struct xt_err *err);
/* Stops the threads. NULL is allowed. */
void xt_feed_destroy(struct xt_feed *feed);

/* As xt_loader_next and xt_loader_release. A batch is released once the device has read it, so
 * after a result of its step has been read back. */
enum xt_status xt_feed_next(struct xt_feed *feed, struct xt_feed_batch *out, bool *end,
                            double *waited, struct xt_err *err);
void xt_feed_release(struct xt_feed *feed, const struct xt_feed_batch *batch);

/* Gives access to its bad samples. */
struct xt_loader *xt_feed_loader(struct xt_feed *feed);

/* Logs whether a run of `seconds` was bound by loading or by computing, and which option would
 * help. */
void xt_feed_note_waits(struct xt_feed *feed, const struct xt_loader_config *config,
                        double seconds);
