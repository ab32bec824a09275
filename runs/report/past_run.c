#include "runs/report/past_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "infer/answer/selection_metric.h"
#include "runs/report/json.h"
#include "runs/run_folder.h"

static const size_t record_limit = (size_t)1 << 32;
static const size_t facts_limit = (size_t)256 << 20;

/* ---- settings ---- */

/* The text of a config file and the read position. */
struct config {
    struct xt_past_run *run;
    const char *text;
    size_t size;
    int line; /* that `text` begins with, from 1 */
};

/* The comment at the end of a line, which names the value's origin. */
static enum xt_status read_comment(struct config *config, int line, char **out, struct xt_err *err)
{
    const char *end = NULL;
    for (;; config->line++) {
        end = memchr(config->text, '\n', config->size);
        end = end ? end : config->text + config->size;
        if (config->line >= line || !config->size)
            break;
        size_t used = (size_t)(end - config->text) + (end < config->text + config->size);
        config->text += used;
        config->size -= used;
    }
    const char *mark = end;
    while (mark > config->text && *mark != '#')
        mark--;
    size_t length = mark > config->text ? (size_t)(end - mark) - 1 : 0;
    mark++;
    while (length && *mark == ' ')
        mark++, length--;
    *out = strndup(mark, length);
    return *out ? XT_OK : xt_err_no_memory(err, "a setting", length);
}

static enum xt_status take_setting(void *context, const struct xt_config_entry *entry,
                                   struct xt_err *err)
{
    struct config *config = context;
    struct xt_past_run *run = config->run;
    enum xt_status status = xt_mem_add(&run->settings, run->setting_count, sizeof *run->settings,
                                       "the settings of a run", err);
    if (status)
        return status;
    struct xt_past_setting *setting = &run->settings[run->setting_count++];
    *setting = (struct xt_past_setting){0};
    status = xt_mem_strdup(&setting->key, entry->key, err);
    if (!status)
        status = xt_mem_strdup(&setting->value, entry->text, err);
    if (!status && entry->form == XT_CONFIG_SEQUENCE)
        xt_config_join(setting->value);
    return status ? status : read_comment(config, entry->line, &setting->from, err);
}

/* Reads a whole file of the run; a missing one is empty. */
static enum xt_status read_file(const struct xt_past_run *run, const char *name, size_t limit,
                                struct xt_bytes *out, struct xt_err *err)
{
    const struct xt_path path = xt_file_path(run->folder, name);
    *out = (struct xt_bytes){0};
    return xt_file_exists(path.text) ? xt_file_load(path.text, limit, out, err) : XT_OK;
}

static enum xt_status read_settings(struct xt_past_run *run, struct xt_err *err)
{
    struct xt_bytes bytes;
    enum xt_status status = read_file(run, "config.yaml", XT_CONFIG_LIMIT, &bytes, err);
    if (!status && bytes.data) {
        const char *text = (const char *)bytes.data;
        struct config config = {.run = run, .text = text, .size = bytes.size, .line = 1};
        status = xt_config_parse("config.yaml", bytes.data, bytes.size, take_setting, &config, err);
        if (status == XT_ERR_USAGE) {
            status = XT_ERR_DATA;
            xt_err_prefix(err, "%s/", run->folder);
        }
    }
    free(bytes.data);
    return status;
}

/* ---- the record ---- */

/* A number of a flat line of JSON, without parsing it into a tree. */
static double number_in(const char *line, size_t length, const char *key)
{
    char mark[48];
    char text[40];
    int marked = snprintf(mark, sizeof mark, "\"%s\":", key);
    const char *at = memmem(line, length, mark, (size_t)marked);
    if (!at)
        return NAN;
    at += marked;
    size_t left = length - (size_t)(at - line);
    size_t taken = left < sizeof text - 1 ? left : sizeof text - 1;
    memcpy(text, at, taken);
    text[taken] = '\0';
    char *end = NULL;
    double value = strtod(text, &end);
    return end == text ? NAN : value;
}

/* A step, epoch or the like; `otherwise` where the number is not one. */
static int64_t whole(double value, int64_t otherwise)
{
    return value >= 0 && value < 9e15 ? (int64_t)value : otherwise;
}

static struct xt_selection_metric metric_of(const struct xt_past_evaluation *e)
{
    struct xt_metric metrics[XT_PAST_FIGURES];
    for (int i = 0; i < XT_PAST_FIGURES; i++)
        metrics[i] = (struct xt_metric){e->keys[i], e->figures[i]};
    return xt_selection_metric_of(metrics, XT_PAST_FIGURES, e->loss);
}

static bool is_better(const struct xt_past_evaluation *a, const struct xt_past_evaluation *than)
{
    const struct xt_selection_metric metric = metric_of(a);
    const struct xt_selection_metric best = metric_of(than);
    return than->step < 0 || xt_selection_metric_is_better(&metric, &best);
}

/* An evaluation in a line of the record: the weights', or with "ema_" before each key their moving
 * average's. Its figures follow the number of correct ones. */
static struct xt_past_evaluation read_evaluation(const cJSON *record, const char *prefix)
{
    struct xt_past_evaluation e = {
        .step = whole(xt_json_get(record, "step", -1), -1),
        .epoch = whole(xt_json_get(record, "epoch", 0), 0),
        .time = xt_json_get(record, "time", 0),
        .loss = NAN,
    };
    char key[64];
    size_t skip = strlen(prefix);
    snprintf(key, sizeof key, "%scorrect", prefix);
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(record, key);
    snprintf(key, sizeof key, "%sval_loss", prefix);
    e.loss = xt_json_get(record, key, NAN);
    if (!cJSON_HasObjectItem(record, key))
        e.step = -1;
    item = item ? item->next : NULL;
    for (int i = 0; i < XT_PAST_FIGURES && item && cJSON_IsNumber(item); i++, item = item->next) {
        if (strcmp(item->string, key) == 0 || strncmp(item->string, prefix, skip) != 0)
            break;
        snprintf(e.keys[i], sizeof e.keys[i], "%s", item->string + skip);
        e.figures[i] = item->valuedouble;
    }
    return e;
}

static void take_evaluation(struct xt_past_run *run, const char *line, size_t length)
{
    cJSON *record = cJSON_ParseWithLength(line, length);
    const struct xt_past_evaluation of_weights = read_evaluation(record, "");
    const struct xt_past_evaluation of_average = read_evaluation(record, "ema_");
    cJSON_Delete(record);
    if (of_weights.step < 0)
        return;
    run->last = of_weights;
    if (is_better(&of_weights, &run->best))
        run->best = of_weights;
    if (of_average.step >= 0 && is_better(&of_average, &run->best))
        run->best = of_average;
}

static int64_t step_of(const char *line, size_t length)
{
    return memchr(line, '\0', length) ? -1 : whole(number_in(line, length, "step"), -1);
}

static void take_line(struct xt_past_run *run, const char *line, size_t length, bool evaluation)
{
    /* A rollback's line is of a failed step, which is repeated. */
    if (memmem(line, length, "\"rolled_back_to\":", 17))
        return;
    run->step = step_of(line, length);
    run->epoch = whole(number_in(line, length, "epoch"), 0);
    run->time = number_in(line, length, "time");
    if (evaluation)
        take_evaluation(run, line, length);
    else
        run->loss = number_in(line, length, "loss");
}

/* The length of the whole line at `text`, with its newline; 0: there is none. */
static size_t line_length(const char *text, size_t size)
{
    const char *end = size ? memchr(text, '\n', size) : NULL;
    return end ? (size_t)(end - text) + 1 : 0;
}

static bool is_evaluation(const char *line, size_t length)
{
    return memmem(line, length, "\"val_loss\":", 11);
}

static size_t count_training(const char *text, size_t size)
{
    size_t count = 0;
    for (size_t length; (length = line_length(text, size)); text += length, size -= length)
        count += step_of(text, length) >= 0 && !is_evaluation(text, length);
    return count;
}

static enum xt_status read_lines(struct xt_past_run *run, const char *text, size_t size,
                                 double *rates, struct xt_err *err)
{
    size_t all = count_training(text, size);
    size_t every = all / XT_PAST_LINES + 1;
    size_t seen = 0;
    size_t rate_count = 0;
    size_t jumps = 0;
    double usual = NAN; /* the loss of the last sampled line */
    enum xt_status status = XT_OK;
    for (size_t length; !status && (length = line_length(text, size));
         text += length, size -= length) {
        if (step_of(text, length) < 0)
            continue;
        bool evaluation = is_evaluation(text, length);
        seen += !evaluation;
        /* The last line is always included, and so are jumps of the loss. */
        bool turn = evaluation || (all - seen) % every == 0;
        if (!turn && (number_in(text, length, "loss") <= 2 * usual || jumps++ >= XT_PAST_LINES))
            continue;
        take_line(run, text, length, evaluation);
        if (turn && !evaluation)
            usual = run->loss;
        double rate = evaluation ? NAN : number_in(text, length, "images_per_s");
        if (!isnan(rate) && rate_count < XT_PAST_LINES)
            rates[rate_count++] = rate;
        status = xt_str_append(&run->metrics, text, length, err);
    }
    qsort(rates, rate_count, sizeof *rates, xt_number_compare);
    if (rate_count)
        run->images_per_s = rates[rate_count / 2];
    return status;
}

static enum xt_status read_record(struct xt_past_run *run, struct xt_err *err)
{
    struct xt_bytes text;
    double *rates = NULL;
    enum xt_status status = read_file(run, "metrics.jsonl", record_limit, &text, err);
    if (!status && text.data)
        status = xt_mem_calloc(&rates, XT_PAST_LINES, sizeof *rates, "a run's rates", err);
    if (!status && text.data)
        status = read_lines(run, (const char *)text.data, text.size, rates, err);
    free(rates);
    free(text.data);
    return status;
}

/* ---- the folder ---- */

static enum xt_status read_facts(struct xt_past_run *run, struct xt_err *err)
{
    struct xt_bytes text;
    enum xt_status status = read_file(run, "report.json", facts_limit, &text, err);
    if (!status && text.data)
        run->facts = cJSON_ParseWithLength((const char *)text.data, text.size);
    if (!status && text.data && !cJSON_IsObject(run->facts)) {
        cJSON_Delete(run->facts);
        run->facts = NULL;
        xt_log_warn("%s/report.json is damaged: its facts are skipped", run->folder);
    }
    free(text.data);
    return status;
}

/* The best weights, where a rollback removed their evaluation from the record. */
static void take_best(struct xt_past_run *run)
{
    const cJSON *best = cJSON_GetObjectItemCaseSensitive(run->facts, "best");
    struct xt_past_evaluation e = run->last;
    e.step = whole(xt_json_get(best, "step", -1), -1);
    e.epoch = 0;
    e.time = NAN;
    e.loss = xt_json_get(best, "loss", NAN);
    e.figures[0] = xt_json_get(best, "accuracy", 0);
    e.figures[1] = xt_json_get(best, "second", 0);
    if (strcmp(e.keys[1], "char_accuracy") != 0)
        *e.keys[1] = '\0';
    if (run->last.step >= 0 && e.step >= 0 && is_better(&e, &run->best))
        run->best = e;
}

/* Where that is unknown, neither flag is set. */
static void look_for_lock(struct xt_past_run *run)
{
    bool known = false;
    run->running = xt_run_folder_in_use(run->folder, &known);
    run->killed =
        known && !run->running && strcmp(xt_json_get_text(run->facts, "state", ""), "running") == 0;
}

enum xt_status xt_past_run_read(struct xt_past_run *run, const char *folder, struct xt_err *err)
{
    *run = (struct xt_past_run){
        .loss = NAN, .images_per_s = NAN, .best = {.step = -1}, .last = {.step = -1}};
    enum xt_status status = xt_mem_strdup(&run->folder, folder, err);
    /* Without trailing slashes, as in "runs/a/". */
    for (size_t end = status ? 0 : strlen(folder); end > 1 && run->folder[end - 1] == '/'; end--)
        run->folder[end - 1] = '\0';
    if (!status)
        status = read_settings(run, err);
    if (!status)
        status = read_record(run, err);
    if (!status)
        status = read_facts(run, err);
    if (!status)
        take_best(run);
    if (!status)
        look_for_lock(run);
    if (!status && !run->setting_count && !run->metrics.length)
        status = xt_err_set(err, XT_ERR_DATA,
                            xt_file_exists(folder)
                                ? "%s holds no run: it has neither config.yaml nor metrics.jsonl"
                                : "there is no run %s: no such folder",
                            folder);
    return status;
}

void xt_past_run_clear(struct xt_past_run *run)
{
    for (size_t i = 0; i < run->setting_count; i++) {
        free(run->settings[i].key);
        free(run->settings[i].value);
        free(run->settings[i].from);
    }
    free(run->settings);
    free(run->folder);
    cJSON_Delete(run->facts);
    xt_str_clear(&run->metrics);
    *run = (struct xt_past_run){0};
}

const char *xt_past_run_setting(const struct xt_past_run *run, const char *key)
{
    for (size_t i = 0; i < run->setting_count; i++)
        if (strcmp(run->settings[i].key, key) == 0)
            return run->settings[i].value;
    return NULL;
}

/* ---- several ---- */

static bool is_about_looking(const char *key)
{
    static const char *const keys[] = {"out", "quiet", "verbose", "log_time", "images", NULL};
    return xt_str_is_in(key, keys);
}

static bool is_everywhere_the_same(const struct xt_past_run *runs, size_t count, const char *key)
{
    const char *first = xt_past_run_setting(&runs[0], key);
    for (size_t i = 1; i < count; i++) {
        const char *other = xt_past_run_setting(&runs[i], key);
        if (!first || !other ? first != other : strcmp(first, other) != 0)
            return false;
    }
    return true;
}

static bool is_in(const char *const *keys, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

enum xt_status xt_past_runs_differ(const struct xt_past_run *runs, size_t count, const char ***keys,
                                   size_t *key_count, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    *keys = NULL;
    *key_count = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < runs[i].setting_count && !status; k++) {
            const char *key = runs[i].settings[k].key;
            if (is_about_looking(key) || is_everywhere_the_same(runs, count, key) ||
                is_in(*keys, *key_count, key))
                continue;
            status = xt_mem_add(keys, *key_count, sizeof **keys, "the settings that differ", err);
            if (!status)
                (*keys)[(*key_count)++] = key;
        }
    return status;
}
