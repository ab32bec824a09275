#include "cli/verify/replay.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/system/stop.h"
#include "cli/bench/scratch.h"
#include "cli/options/options.h"
#include "runs/checkpoint.h"
#include "runs/report/json.h"
#include "train/trainer.h"

/* docs/running.md: how far runs with other threads or kernels come apart in some steps. */
static const double tolerance = 0.1;
static const size_t record_limit = (size_t)1 << 32;

struct replaying {
    const struct xt_replay *replay;
    struct xt_report *to;
    int64_t from, end; /* steps of the checkpoint, and to train to */
    size_t lines;      /* compared */
    char other[512];   /* the first difference; "": none */
};

/* ---- from where to where ---- */

static int64_t step_of(const char *name)
{
    long long step = -1;
    int end = 0;
    bool is_name = sscanf(name, "state-%lld.safetensors%n", &step, &end) == 1 && end && !name[end];
    return is_name ? step : -1;
}

/* The newest checkpoint with this many recorded steps after it, else the oldest. */
static enum xt_status choose(struct replaying *at, struct xt_err *err)
{
    struct xt_file_list list = {0};
    int64_t oldest = -1;
    at->from = at->end = -1;
    enum xt_status status = xt_file_list_folder(&list, at->replay->folder, err);
    for (size_t i = 0; !status && i < list.count; i++) {
        int64_t step = step_of(xt_file_name(list.paths[i]));
        at->end = step > at->end ? step : at->end;
        oldest = step >= 0 && (oldest < 0 || step < oldest) ? step : oldest;
    }
    for (size_t i = 0; !status && i < list.count; i++) {
        int64_t step = step_of(xt_file_name(list.paths[i]));
        if (step > at->from && step + at->replay->steps <= at->end)
            at->from = step;
    }
    xt_file_list_clear(&list);
    if (at->from < 0)
        at->from = oldest;
    if (!status && at->from == at->end)
        return xt_err_set(err, XT_ERR_DATA,
                          "--replay: %s has no checkpoint before its last one, from which recorded "
                          "steps could be trained again; --save-every and --keep make some",
                          at->replay->folder);
    if (at->end - at->from > at->replay->steps)
        at->end = at->from + at->replay->steps;
    return status;
}

/* ---- training ---- */

static enum xt_status run(const struct xt_train_settings *settings, struct xt_err *err)
{
    const struct xt_train_observer observer = {.context = NULL};
    struct xt_trainer *trainer = NULL;
    enum xt_status status = xt_trainer_create(&trainer, settings, err);
    if (!status)
        status = xt_trainer_prepare(trainer, err);
    if (!status)
        status = xt_trainer_open_run(trainer, err);
    if (!status)
        status = xt_trainer_run(trainer, &observer, err);
    xt_trainer_destroy(trainer);
    /* It stops at the last step to replay; a signal stops this command. */
    return status == XT_STOPPED && !xt_stop_status() ? XT_OK : status;
}

/* With the run's own settings, into `out`. */
static enum xt_status train(const struct replaying *at, const char *state, const char *out,
                            struct xt_err *err)
{
    const char *const arguments[] = {
        "--resume",     state, "--out",    out,    "--quiet",          "--max-time", "0",
        "--stop-after", "0",   "--on-nan", "stop", "--on-device-loss", "stop",       "--no-images"};
    enum { COUNT = sizeof arguments / sizeof *arguments };
    struct xt_options options;
    enum xt_status status =
        xt_options_parse(&options, COUNT, arguments, XT_COMMAND_TRAIN, NULL, err);
    if (!status) {
        options.values.run.stop_at = at->end;
        const struct xt_train_settings settings = xt_options_train(&options.values);
        status = run(&settings, err);
    }
    xt_options_clear(&options);
    return status;
}

/* ---- comparing ---- */

static enum xt_status read_text(const char *folder, struct xt_bytes *text, struct xt_err *err)
{
    const struct xt_path path = xt_file_path(folder, "metrics.jsonl");
    return xt_file_load(path.text, record_limit, text, err);
}

/* The lines of the steps that were replayed; NULL: out of memory. */
static cJSON *parse_lines(const struct replaying *at, const struct xt_bytes *bytes)
{
    cJSON *lines = cJSON_CreateArray();
    const char *text = (const char *)bytes->data;
    const char *end = text + bytes->size;
    for (const char *next; (next = bytes->size ? memchr(text, '\n', (size_t)(end - text)) : NULL);
         text = next + 1) {
        cJSON *line = cJSON_ParseWithLength(text, (size_t)(next - text));
        double step = xt_json_get(line, "step", -1);
        if (step <= (double)at->from || step > (double)at->end ||
            cJSON_HasObjectItem(line, "rolled_back_to") || !cJSON_AddItemToArray(lines, line))
            cJSON_Delete(line);
    }
    return lines;
}

static bool is_near(const struct replaying *at, double then, double now)
{
    if (at->replay->same_machine)
        return then == now || (isnan(then) && isnan(now));
    return fabs(then - now) <= tolerance * fmax(fabs(then), fabs(now));
}

static void compare_line(struct replaying *at, const cJSON *then, const cJSON *others)
{
    const char *key = cJSON_HasObjectItem(then, "val_loss") ? "val_loss" : "loss";
    double step = xt_json_get(then, "step", -1);
    const cJSON *now;
    cJSON_ArrayForEach(now, others)
    {
        if (xt_json_get(now, "step", -1) != step || !cJSON_HasObjectItem(now, key))
            continue;
        double values[2] = {xt_json_get(then, key, NAN), xt_json_get(now, key, NAN)};
        at->lines++;
        if (!*at->other && !is_near(at, values[0], values[1]))
            snprintf(at->other, sizeof at->other,
                     "%s of step %.0f is %.17g, and was recorded as %.17g", key, step, values[1],
                     values[0]);
        return;
    }
}

static enum xt_status compare_records(struct replaying *at, const char *replayed,
                                      struct xt_err *err)
{
    struct xt_bytes texts[2] = {0};
    enum xt_status status = read_text(at->replay->folder, &texts[0], err);
    if (!status)
        status = read_text(replayed, &texts[1], err);
    if (!status) {
        cJSON *then = parse_lines(at, &texts[0]);
        cJSON *now = parse_lines(at, &texts[1]);
        const cJSON *line;
        cJSON_ArrayForEach(line, then)
        {
            compare_line(at, line, now);
        }
        cJSON_Delete(then);
        cJSON_Delete(now);
    }
    free(texts[0].data);
    free(texts[1].data);
    return status;
}

static void compare_tensors(struct replaying *at, const struct xt_weight_file *then,
                            const struct xt_weight_file *now)
{
    for (size_t i = 0; i < then->count && !*at->other; i++) {
        const struct xt_file_tensor *a = &then->tensors[i];
        const struct xt_file_tensor *b = xt_weight_file_find(now, a->name);
        if (!b || a->bytes != b->bytes || memcmp(a->data, b->data, a->bytes) != 0)
            snprintf(at->other, sizeof at->other,
                     "tensor %.200s of step %" PRId64 " is not the recorded one", a->name, at->end);
    }
}

/* The weights and the optimizer's state of the last step, where the run has a checkpoint of it. */
static enum xt_status compare_states(struct replaying *at, const char *replayed, bool *compared,
                                     struct xt_err *err)
{
    struct xt_checkpoint_file files[2] = {{0}, {0}};
    const struct xt_path paths[] = {xt_checkpoint_path(at->replay->folder, at->end),
                                    xt_checkpoint_path(replayed, at->end)};
    enum xt_status status = XT_OK;
    *compared = at->replay->same_machine && xt_file_exists(paths[0].text);
    for (int i = 0; i < 2 && !status && *compared; i++)
        status = xt_checkpoint_open(&files[i], paths[i].text, err);
    if (!status && *compared)
        compare_tensors(at, &files[0].file, &files[1].file);
    for (int i = 0; i < 2; i++)
        xt_checkpoint_close(&files[i]);
    return status;
}

static void describe(const struct replaying *at, struct xt_report *report, bool weights)
{
    struct xt_report *to = xt_report_group(report, "replay");
    bool bits = at->replay->same_machine;
    xt_report_values(to, "from=%lld to=%lld lines=%zu", (long long)at->from, (long long)at->end,
                     at->lines);
    xt_report_flag(to, "same_weights", NULL, weights, "", "");
    xt_report_add(to, "by", NULL, "%s", bits ? "bits" : "tolerance");
    xt_report_flag(to, "same", NULL, !*at->other, "", "");
    if (*at->other)
        xt_report_add(to, "difference", NULL, "%s", at->other);
    xt_report_line(
        report, "replay of steps %lld to %lld, compared %s: %s", (long long)at->from + 1,
        (long long)at->end,
        bits ? "bit by bit"
             : "within a tenth (other instruction set, threads or versions than recorded)",
        *at->other ? at->other : "");
    if (!*at->other)
        xt_report_line(report, "  %s of the record%s %s",
                       xt_count((long long)at->lines, "line").text,
                       weights ? ", weights and optimizer state" : "",
                       bits ? "are the same" : "agree; weights are compared by bits alone");
}

enum xt_status xt_replay(const struct xt_replay *replay, struct xt_report *report, bool *differs,
                         struct xt_err *err)
{
    struct replaying at = {.replay = replay};
    struct xt_scratch scratch = {""};
    bool weights = false;
    enum xt_status status = choose(&at, err);
    const struct xt_path state = xt_checkpoint_path(replay->folder, at.from);
    if (!status)
        status = xt_scratch_make(&scratch, "the replay", err);
    const struct xt_path out = xt_file_path(scratch.folder, "run");
    if (!status)
        status = train(&at, state.text, out.text, err);
    if (!status)
        status = compare_records(&at, out.text, err);
    if (!status)
        status = compare_states(&at, out.text, &weights, err);
    if (!status && !at.lines && !weights)
        status = xt_err_set(err, XT_ERR_DATA,
                            "--replay: %s has neither a line nor a checkpoint of steps %" PRId64
                            " to %" PRId64 "; replay more steps",
                            replay->folder, at.from + 1, at.end);
    if (!status)
        describe(&at, report, weights);
    xt_scratch_remove(&scratch);
    *differs = *at.other != '\0';
    return status;
}
