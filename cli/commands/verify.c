/* xtrain verify: checks that a run's files and the chain of its record are as recorded, and
 * compares the recorded versions and device with the current ones. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "cli/signature.h"
#include "cli/verify/record.h"
#include "cli/verify/replay.h"
#include "engine/selftest/selftest.h"
#include "runs/report/json.h"
#include "runs/report/past_run.h"
#include "runs/proof.h"

struct checks {
    struct xt_record_check record;
    struct xt_report *report;
    int changed;           /* changed versions and devices */
    bool other_bits;       /* some of them change last bits */
    bool differs;          /* a replayed step */
    bool here;             /* the device could be opened */
    enum xt_status device; /* XT_OK, or the result of the device check */
    char why[1024];
};

/* ---- what computes ---- */

/* docs/running.md: what the bits of a run depend on. */
static bool affects_bits(const char *key)
{
    static const char *const others[] = {"cpu", "linux", "libpng", NULL};
    return !xt_str_is_in(key, others);
}

static void compare(struct checks *checks, const cJSON *with, const cJSON *now)
{
    struct xt_report *table = xt_report_table(checks->report, "made_with");
    const cJSON *then;
    cJSON_ArrayForEach(then, with)
    {
        const char *was = cJSON_GetStringValue(then);
        const char *is = xt_json_get_text(now, then->string, NULL);
        struct xt_report *row = xt_report_group(table, NULL);
        bool same = was && is && strcmp(was, is) == 0;
        checks->changed += now && !same;
        checks->other_bits = checks->other_bits || (!same && affects_bits(then->string));
        xt_report_add(row, "what", "made with", "%s", then->string);
        xt_report_add(row, "then", "then", "%s", was);
        xt_report_add(row, "now", "now", "%s", is ? is : "not told");
        if (now)
            xt_report_flag(row, "same", "is", same, "the same", "changed");
    }
}

static enum xt_dtype type_of(const char *name)
{
    for (enum xt_dtype type = XT_F32; type <= XT_F16; type++)
        if (name && strcmp(name, xt_dtype_name(type)) == 0)
            return type;
    return XT_F32;
}

/* The thread count of the run's last start, limited to what this process may use. */
static int threads_of(const cJSON *with)
{
    const char *text = xt_json_get_text(with, "threads", NULL);
    long count = text ? strtol(text, NULL, 10) : 1;
    int may = xt_thread_available(NULL);
    return count < 1 ? 1 : count < may ? (int)count : may;
}

/* Opens the device of the run's last start, and checks it again. */
static enum xt_status check_device(struct checks *checks, const struct xt_settings *s,
                                   const cJSON *with, struct xt_err *err)
{
    const char *place = xt_json_get_text(with, "device", NULL);
    const struct xt_device_options options = {.spec = place,
                                              .threads = threads_of(with),
                                              .cache_folder = s->device.cache_dir,
                                              .no_cache = !s->device.kernel_cache};
    enum xt_dtype type = type_of(xt_json_get_text(with, "type", NULL));
    struct xt_device device;
    struct xt_err why = {0};
    enum xt_status status = xt_device_open_with(&device, &options, &why);
    if (status == XT_ERR_MEMORY)
        return xt_err_set(err, status, "%s", why.text);
    checks->here = !status;
    struct xt_machine machine = {.count = 0};
    if (!status)
        xt_machine_describe(&machine, &device, type);
    cJSON *now = status ? NULL : xt_proof_describe(&machine);
    compare(checks, with, now);
    cJSON_Delete(now);
    if (!status && device.own_memory)
        checks->device = xt_selftest_device(&device, type, &why);
    snprintf(checks->why, sizeof checks->why, "%s", why.text);
    const char *verdict = !checks->here       ? "not asked"
                          : checks->device    ? "failed"
                          : device.own_memory ? "passed"
                                              : "not needed on the CPU";
    xt_report_add(checks->report, "device_check_now", NULL, "%s", verdict);
    if (!checks->here)
        xt_report_line(checks->report, "%s cannot be opened here, so it was not checked again: %s",
                       place, why.text);
    else if (device.own_memory)
        xt_report_line(checks->report, "device check now: %s%s%s", verdict,
                       *checks->why ? ": " : "", checks->why);
    if (checks->here)
        xt_device_close(&device);
    return XT_OK;
}

static void describe_start(const struct checks *checks, const cJSON *start, int environments)
{
    const char *last = xt_json_get_text(start, "last", "not told");
    const char *check = xt_json_get_text(start, "device_check", "not told");
    const char *checked = xt_json_get_text(start, "device_checked", "not told");
    bool passed = strcmp(check, "passed") == 0;
    xt_report_values(checks->report, "started=%s environments=%d device_check=%s device_checked=%s",
                     last, environments, check, checked);
    xt_report_line(checks->report, "last start %s%s; device check of the run: %s%s%s", last,
                   environments > 1 ? ", after starts with other versions (proof.json has them)"
                                    : "",
                   check, passed ? ", " : "", passed ? checked : "");
}

static void check_signature(struct checks *checks, const char *key)
{
    struct xt_err why = {0};
    const struct xt_path path = xt_file_path(checks->record.folder, XT_PROOF_FILE);
    enum xt_status status = xt_signature_check(path.text, key, &why);
    checks->record.is_signed = !status;
    checks->record.wrong += status != XT_OK;
    xt_report_flag(checks->report, "signed", NULL, !status, "", "");
    if (status)
        xt_report_line(checks->report, "%s", why.text);
    else
        xt_report_line(checks->report, "signed by the owner of %s", key);
}

static enum xt_status replay(struct checks *checks, int64_t steps, const cJSON *start,
                             struct xt_err *err)
{
    const struct xt_replay replay = {
        .folder = checks->record.folder,
        .steps = steps,
        .same_machine = checks->here && !checks->other_bits,
    };
    double ranks = xt_json_get(start, "ranks", 1);
    if (ranks != 1)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--replay: the run was trained by %.0f processes; one alone cannot train "
                          "its steps again",
                          ranks);
    return xt_replay(&replay, checks->report, &checks->differs, err);
}

static enum xt_status check_all(struct checks *checks, const struct xt_settings *s,
                                const cJSON *proof, struct xt_err *err)
{
    const cJSON *starts = cJSON_GetObjectItemCaseSensitive(proof, "starts");
    int count = cJSON_GetArraySize(starts);
    const cJSON *start = cJSON_GetArrayItem(starts, count - 1);
    const cJSON *with = cJSON_GetObjectItemCaseSensitive(start, "with");
    if (!xt_json_get_text(with, "device", NULL))
        return xt_err_set(err, XT_ERR_DATA,
                          "%s/%s is damaged: it does not record what the run was trained with",
                          checks->record.folder, XT_PROOF_FILE);
    enum xt_status status = xt_record_check(&checks->record, err);
    describe_start(checks, start, count);
    if (!status)
        status = check_device(checks, s, with, err);
    if (!status && s->trust.key)
        check_signature(checks, s->trust.key);
    return !status && s->trust.replay ? replay(checks, s->trust.replay, start, err) : status;
}

/* What the chain proves, and what it does not. */
static void say_what_is_proven(const struct checks *checks)
{
    const struct xt_record_check *record = &checks->record;
    bool proven = record->is_chained && !record->wrong && !record->unchained;
    const char *head = xt_proof_head(record->proof);
    xt_report_flag(checks->report, "proven", NULL, proven, "", "");
    xt_report_values(checks->report, "lines=%zu unproven_lines=%zu id=%s head=%s", record->lines,
                     record->unchained, xt_proof_id(record->proof), head);
    if (record->is_chained && record->unchained)
        xt_report_line(checks->report, "%s were recorded before chains; not proven",
                       xt_count((long long)record->unchained, "line").text);
    if (record->is_chained && !record->wrong)
        xt_report_line(checks->report,
                       "proven: %s of the record, settings, weights and checkpoints are unchanged "
                       "since they were recorded (record %.12s)%s; not proven: %sthat the images "
                       "were what they were called",
                       xt_count((long long)record->lines, "line").text, head,
                       record->is_signed ? ", by the owner of --key" : "",
                       record->is_signed ? "" : "who recorded them, and ");
}

static void conclude(struct checks *checks)
{
    const struct xt_record_check *record = &checks->record;
    bool all = !record->wrong && !record->unproven && !checks->differs && !checks->changed &&
               checks->here && !checks->device;
    xt_report_flag(checks->report, "as_recorded", NULL, all, "", "");
    say_what_is_proven(checks);
    if (all)
        xt_report_line(checks->report, "all is as recorded: %s, versions and device",
                       xt_count(record->files, "file").text);
    else
        xt_report_line(checks->report, "%s, %d not as recorded, %d not recorded; %s",
                       xt_count(record->files, "file").text, record->wrong, record->unproven,
                       !checks->here     ? "versions and device were not compared"
                       : checks->changed ? "versions or device have changed since, so that results "
                                           "may differ in their last bits"
                                         : "versions and device are as recorded");
}

static enum xt_status read_run(const char *folder, cJSON **proof, enum xt_proof_seal *seal,
                               struct xt_report *report, struct xt_err *err)
{
    struct xt_past_run run;
    enum xt_status status = xt_past_run_read(&run, folder, err);
    bool running = !status && run.running;
    xt_past_run_clear(&run);
    const struct xt_path path = xt_file_path(folder, XT_PROOF_FILE);
    if (!status && !xt_file_exists(path.text))
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s has no %s: it was written by a version of xtrain without one, so "
                            "there is nothing to compare with; --resume creates one",
                            folder, XT_PROOF_FILE);
    if (!status)
        status = xt_proof_read(folder, proof, seal, err);
    xt_report_flag(report, "running", NULL, running, "", "");
    if (running)
        xt_report_line(report, "the run is still running: files may change while they are read");
    return status;
}

enum xt_status xt_cmd_verify(struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct checks checks = {.report = xt_report_create()};
    struct xt_record_check *record = &checks.record;
    cJSON *proof = NULL;
    *record = (struct xt_record_check){.folder = options->arguments[0], .report = checks.report};
    if (options->argument_count > 1) {
        xt_report_destroy(checks.report);
        return xt_err_set(err, XT_ERR_USAGE, "verify takes one run; %s is a second",
                          options->arguments[1]);
    }
    xt_report_add(checks.report, "run", NULL, "%s", options->arguments[0]);
    enum xt_status status = read_run(record->folder, &proof, &record->seal, checks.report, err);
    record->proof = proof;
    if (!status)
        status = check_all(&checks, s, proof, err);
    if (!status)
        conclude(&checks);
    cJSON_Delete(proof);
    status = xt_result_put_unless(status, checks.report, err);
    if (!status && checks.device)
        return xt_err_set(err, checks.device, "%s", checks.why);
    if (!status && checks.differs)
        return xt_err_set(err, XT_ERR_RUN, "%s: steps trained again are not as recorded",
                          record->folder);
    if (!status && record->wrong)
        return xt_err_set(err, XT_ERR_RUN, "not as recorded: %s of %s",
                          xt_count(record->wrong, "file").text, record->folder);
    return status;
}
