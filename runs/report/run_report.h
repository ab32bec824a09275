/* A run's reports, during and after it: report.html, the page; report.json, the page's facts beside
 * the record's curves and the settings; and TensorBoard's events.
 *
 * A failure never stops a run: the first is warned of. To limit the cost, the page is deferred to
 * the next evaluation while pages have taken more than a hundredth of the run's time (and more than
 * a second); at the end it is always written. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "infer/answer/reliability.h"
#include "runs/report/errors.h"
#include "runs/report/events.h"
#include "runs/report/findings.h"
#include "runs/run_costs.h"
#include "runs/run_folder.h"

/* A cause, its evidence, and the remedy. */
struct xt_run_remark {
    const char *cause, *because, *remedy;
};

/* The trainer's facts about the run. */
struct xt_run_facts {
    const struct xt_network *network;
    const char *data; /* descriptions */
    const char *val;  /* NULL: no evaluation */
    int64_t step;
    int64_t steps;
    int64_t epoch_steps;
    int images;     /* of a step */
    double seconds; /* trained */
    struct xt_run_costs costs;
    int64_t best_step; /* -1: none */
    struct xt_selection_metric best;
    int profiled;                     /* steps whose ops were timed */
    const struct xt_run_remark *slow; /* causes of slowness, [slow_count] */
    int slow_count;
    const struct xt_reliability_report *reliability; /* of the best weights */
    /* "running"; "done", "done: WHY" before the last step; else why it stopped */
    const char *state;
};

struct xt_run_report {
    const struct xt_run_folder *folder;
    const struct xt_data_settings *data; /* how images are shown */
    bool shows_pictures;
    struct xt_events events;
    cJSON *evaluation; /* the newest findings; NULL: no evaluation yet */
    bool unwritten;    /* they are not in report.json yet */
    bool warned;
    double spent; /* seconds of this process, on pages */
};

/* Continues an earlier start's reports. `keep` as for the record. */
void xt_run_report_open(struct xt_run_report *report, const struct xt_run_folder *folder,
                        const struct xt_data_settings *data, bool pictures,
                        struct xt_log_keep keep);
void xt_run_report_close(struct xt_run_report *report);

/* Wrong images of an evaluation that a run's page shows. */
enum { XT_RUN_ERRORS = 24 };
/* Takes an evaluation's findings; its errors need not be ended. */
void xt_run_report_take(struct xt_run_report *report, struct xt_errors *errors,
                        const struct xt_evaluation *evaluation, const struct xt_source *source,
                        int64_t step);

/* Writes report.json and report.html. Without `last` they are deferred where pages have taken more
 * than 1 % of the run, but findings are written at once. */
void xt_run_report_write(struct xt_run_report *report, const struct xt_run_facts *facts, bool last);
