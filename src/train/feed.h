/* How batches are fed to a network: what the loader is told, from settings and the network's size.
 * One place, so that training, evaluation and benches cannot differ.
 */
#ifndef XT_TRAIN_FEED_H
#define XT_TRAIN_FEED_H

#include "data/loader.h"
#include "train/settings.h"

/* What a network reads. */
struct xt_feed_size {
    int width;
    int height;
    bool bgr;
};

/* For training: shuffled, varied, without end. For evaluation: each image once, as it is. Slots and
 * their pixels, source and batch are the caller's to add. */
struct xt_loader_config xt_feed_config(const struct xt_settings *settings,
                                       const struct xt_feed_size *size, bool training);

/* Loader threads for the settings: --workers, else one for a CPU run. */
int xt_feed_workers(const struct xt_settings *settings);

/* Batch slots: --slots, else 4. */
int xt_feed_slots(const struct xt_settings *settings);

/* Opens the cache that --cache asks for, and gives it to the loader's configuration; *out is NULL
 * where none is asked for. `path` is the file of a cache on disk. Destroy it after the loader. */
enum xt_status xt_feed_open_cache(const struct xt_settings *settings, const char *path,
                                  struct xt_loader_config *config, struct xt_cache **out,
                                  struct xt_err *err);

/* Notes whether loading or computing took the time of a run of so many seconds, and which option
 * would help. */
void xt_feed_note_waits(struct xt_loader *loader, const struct xt_loader_config *config,
                        double seconds);

#endif
