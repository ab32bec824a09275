/* Labels that look wrong: what a network that was not trained on an image reads there, and how much
 * likelier that is than the label. Also which symbols or classes are read wrong most often.
 *
 * Not thread-safe.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "infer/settings.h"

/* Labels are suspect from these odds on. */
#define XT_SUSPECT_ODDS 3.0

/* An image whose prediction is not its label. */
struct xt_suspect {
    double odds;  /* ln of the prediction's probability over the label's, times its confidence */
    cJSON *found; /* as an error of runs/report/findings.h, and "odds" */
};

/* How often a symbol or class stands in labels that are not suspect, and how often it is read. */
struct xt_read_count {
    char *name;
    size_t seen, right;
};

/* Zeroed is empty; clear it also after a failure. */
struct xt_suspects {
    struct xt_suspect *items; /* the likeliest to be wrong first, once sorted */
    size_t count;
    size_t suspect;       /* how many of them are */
    size_t images, right; /* judged, and whose prediction is the label */
    struct xt_read_count *reads;
    int read_count;
};

/* Adds the images of `data`, judged by the weights that the settings name. */
enum xt_status xt_suspects_judge(struct xt_suspects *suspects,
                                 const struct xt_infer_settings *settings, const char *data,
                                 bool pictures, struct xt_err *err);
void xt_suspects_clear(struct xt_suspects *suspects);

/* Sorts the suspects, and the reads: what is most in need of more images first. */
void xt_suspects_sort(struct xt_suspects *suspects);

/* A table of all: path, label, prediction, confidence, odds. */
enum xt_status xt_suspects_save(const struct xt_suspects *suspects, const char *path,
                                struct xt_err *err);
