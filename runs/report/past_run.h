/* A run read from its folder, whether running, stopped or done: its settings (config.yaml), its
 * record (metrics.jsonl, the source of every curve) and its last report (report.json). Nothing in
 * the folder is changed. The input is untrusted: invalid parts are skipped.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct xt_past_setting {
    char *key; /* as in a config file: weight_decay */
    char *value;
    char *from; /* "default", "command line"; "" where unknown */
};

enum { XT_PAST_FIGURES = 2 };

/* A line of the record that is an evaluation. */
struct xt_past_evaluation {
    int64_t step; /* -1: there is none */
    int64_t epoch;
    double time;
    char keys[XT_PAST_FIGURES][32]; /* "plate_accuracy"; "" where there are fewer */
    double figures[XT_PAST_FIGURES];
    double loss;
};

struct xt_past_run {
    char *folder;
    cJSON *facts; /* report.json; NULL: there is none */
    struct xt_past_setting *settings;
    size_t setting_count;
    struct xt_str metrics; /* lines of the record: every evaluation, and of the training lines at
                              most XT_PAST_LINES, evenly sampled, and losses that jump */
    struct xt_past_evaluation best; /* of the weights or their moving average */
    struct xt_past_evaluation last;
    int64_t step; /* of the last line; 0: there is none */
    int64_t epoch;
    double time;         /* seconds trained */
    double loss;         /* of the last training line; NAN: there is none */
    double images_per_s; /* of the training lines, the median; NAN: there is none */
    bool running;        /* a process holds the run's lock */
    bool killed;         /* no process does, and its last state is "running" */
};

enum { XT_PAST_LINES = 5000 };

/* XT_ERR_DATA where the folder holds no run. Clear it also after a failure. */
enum xt_status xt_past_run_read(struct xt_past_run *run, const char *folder, struct xt_err *err);
void xt_past_run_clear(struct xt_past_run *run);

/* The value of a setting; NULL where it is missing. */
const char *xt_past_run_setting(const struct xt_past_run *run, const char *key);

/* The settings that differ between the runs, in the order of the first run that has them: sets
 * keys[0] and on (borrowed from the runs) and *count. A run's location and display options are not
 * compared. Release *keys with free. */
enum xt_status xt_past_runs_differ(const struct xt_past_run *runs, size_t count, const char ***keys,
                                   size_t *key_count, struct xt_err *err);
