/* xtrain verify: checks that a run's files are as recorded, and compares the recorded versions and
 * device with the current ones. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/report.h"
#include "engine/selftest/selftest.h"
#include "runs/report/past_run.h"
#include "runs/checkpoint.h"
#include "runs/proof.h"

struct look {
    const char *folder;
    struct xt_report *report;
    int files;
    int wrong;             /* files that are not as recorded */
    int unproven;          /* that were being written when the run exited */
    int changed;           /* changed versions and devices */
    bool here;             /* the device could be opened */
    enum xt_status device; /* XT_OK, or the result of the device check */
    char why[1024];
};

static const char *text_of(const cJSON *at, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(at, key));
}

static const char *told(const cJSON *at, const char *key)
{
    const char *text = text_of(at, key);
    return text ? text : "not told";
}

/* --- files
 * --------------------------------------------------------------------------------------*/
static void add_file(struct look *look, struct xt_report *table, const char *name,
                     const char *state, const char *detail)
{
    struct xt_report *row = xt_report_group(table, NULL);
    look->files++;
    xt_report_add(row, "file", "file", "%s", name);
    xt_report_add(row, "state", "is", "%s", state);
    xt_report_add(row, "detail", *detail ? "" : NULL, "    %s", detail);
}

static enum xt_status look_at_weights(struct look *look, struct xt_report *table,
                                      const cJSON *recorded, struct xt_err *err)
{
    const char *want = text_of(recorded, "sha256");
    const char *name = recorded->string;
    struct xt_sha256_text hash;
    struct xt_err why;
    size_t bytes = 0;
    char *path = NULL;
    char detail[200] = "";
    if (strchr(name, '/'))
        return xt_err_set(err, XT_ERR_DATA, "%s/%s is damaged: it names a file outside the folder",
                          look->folder, XT_PROOF_FILE);
    enum xt_status status = xt_file_join(&path, look->folder, name, err);
    if (status)
        return status;
    bool there = xt_file_exists(path);
    enum xt_status read = there ? xt_proof_hash(path, &hash, &bytes, &why) : XT_OK;
    free(path);
    if (!want) {
        look->unproven++;
        add_file(look, table, name, "not recorded",
                 "the run was killed while it wrote this file; --resume rewrites it");
    } else if (!there || read) {
        look->wrong++;
        add_file(look, table, name, there ? "unreadable" : "missing", there ? why.text : "");
    } else if (strcmp(want, hash.text) != 0) {
        look->wrong++;
        snprintf(detail, sizeof detail, "SHA-256 %s, recorded %s", hash.text, want);
        add_file(look, table, name, "changed", detail);
    } else {
        add_file(look, table, name, "as recorded", "");
    }
    return XT_OK;
}

/* Checkpoints contain their own hash. */
static enum xt_status look_at_checkpoints(struct look *look, struct xt_report *table,
                                          struct xt_err *err)
{
    struct xt_file_list list = {0};
    enum xt_status status = xt_file_list_folder(&list, look->folder, err);
    for (size_t i = 0; i < list.count && !status; i++) {
        const char *name = xt_file_name(list.paths[i]);
        size_t length = strlen(name);
        const char end[] = ".safetensors";
        struct xt_checkpoint_file file = {0};
        struct xt_err why;
        if (!xt_str_starts(name, "state-") || length < sizeof end ||
            strcmp(name + length + 1 - sizeof end, end) != 0)
            continue;
        enum xt_status read = xt_checkpoint_open(&file, list.paths[i], &why);
        xt_checkpoint_close(&file);
        if (read == XT_ERR_MEMORY)
            status = xt_err_set(err, read, "%s", why.text);
        look->wrong += read != XT_OK;
        add_file(look, table, name, read ? "damaged" : "as recorded", read ? why.text : "");
    }
    xt_file_list_clear(&list);
    return status;
}

static enum xt_status look_at_files(struct look *look, const cJSON *proof, struct xt_err *err)
{
    struct xt_report *table = xt_report_table(look->report, "files");
    const cJSON *file;
    enum xt_status status = XT_OK;
    cJSON_ArrayForEach(file, cJSON_GetObjectItemCaseSensitive(proof, "files"))
    {
        if (!status)
            status = look_at_weights(look, table, file, err);
    }
    return status ? status : look_at_checkpoints(look, table, err);
}

/* --- what computes
 * ------------------------------------------------------------------------------*/
static void compare(struct look *look, const cJSON *with, const cJSON *now)
{
    struct xt_report *table = xt_report_table(look->report, "made_with");
    const cJSON *then;
    cJSON_ArrayForEach(then, with)
    {
        const char *was = cJSON_GetStringValue(then);
        const char *is = text_of(now, then->string);
        struct xt_report *row = xt_report_group(table, NULL);
        bool same = was && is && strcmp(was, is) == 0;
        look->changed += now && !same;
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
    const char *text = text_of(with, "threads");
    long count = text ? strtol(text, NULL, 10) : 1;
    int may = xt_thread_available(NULL);
    return count < 1 ? 1 : count < may ? (int)count : may;
}

/* Opens the device of the run's last start, and checks it again. */
static enum xt_status look_at_device(struct look *look, const struct xt_settings *s,
                                     const cJSON *with, struct xt_err *err)
{
    const char *place = text_of(with, "device");
    const struct xt_device_options options = {.spec = place,
                                              .threads = threads_of(with),
                                              .cache_folder = s->device.cache_dir,
                                              .no_cache = !s->device.kernel_cache};
    enum xt_dtype type = type_of(text_of(with, "type"));
    struct xt_device device;
    struct xt_err why = {0};
    enum xt_status status = xt_device_open_with(&device, &options, &why);
    if (status == XT_ERR_MEMORY)
        return xt_err_set(err, status, "%s", why.text);
    look->here = !status;
    struct xt_machine machine = {.count = 0};
    if (!status)
        xt_machine_describe(&machine, &device, type);
    cJSON *now = status ? NULL : xt_proof_describe(&machine);
    compare(look, with, now);
    cJSON_Delete(now);
    if (!status && device.own_memory)
        look->device = xt_selftest_device(&device, type, &why);
    snprintf(look->why, sizeof look->why, "%s", why.text);
    const char *verdict = !look->here         ? "not asked"
                          : look->device      ? "failed"
                          : device.own_memory ? "passed"
                                              : "not needed on the CPU";
    xt_report_add(look->report, "device_check_now", NULL, "%s", verdict);
    if (!look->here)
        xt_report_line(look->report, "%s cannot be opened here, so it was not checked again: %s",
                       place, why.text);
    else if (device.own_memory)
        xt_report_line(look->report, "device check now: %s%s%s", verdict, *look->why ? ": " : "",
                       look->why);
    if (look->here)
        xt_device_close(&device);
    return XT_OK;
}

static void describe_start(const struct look *look, const cJSON *start, int environments)
{
    const char *last = told(start, "last");
    const char *check = told(start, "device_check");
    const char *checked = told(start, "device_checked");
    bool passed = strcmp(check, "passed") == 0;
    xt_report_add(look->report, "started", NULL, "%s", last);
    xt_report_add(look->report, "environments", NULL, "%d", environments);
    xt_report_add(look->report, "device_check", NULL, "%s", check);
    xt_report_add(look->report, "device_checked", NULL, "%s", checked);
    xt_report_line(look->report, "last start %s%s; device check of the run: %s%s%s", last,
                   environments > 1 ? ", after starts with other versions (proof.json has them)"
                                    : "",
                   check, passed ? ", " : "", passed ? checked : "");
}

static enum xt_status look_at_all(struct look *look, const struct xt_settings *s,
                                  const cJSON *proof, struct xt_err *err)
{
    const cJSON *starts = cJSON_GetObjectItemCaseSensitive(proof, "starts");
    int count = cJSON_GetArraySize(starts);
    const cJSON *start = cJSON_GetArrayItem(starts, count - 1);
    const cJSON *with = cJSON_GetObjectItemCaseSensitive(start, "with");
    if (!text_of(with, "device"))
        return xt_err_set(err, XT_ERR_DATA,
                          "%s/%s is damaged: it does not say what the run was made with",
                          look->folder, XT_PROOF_FILE);
    enum xt_status status = look_at_files(look, proof, err);
    describe_start(look, start, count);
    return status ? status : look_at_device(look, s, with, err);
}

static void conclude(struct look *look)
{
    bool all = !look->wrong && !look->unproven && !look->changed && look->here && !look->device;
    xt_report_flag(look->report, "as_recorded", NULL, all, "", "");
    if (all)
        xt_report_line(look->report, "all is as recorded: %s, versions and device",
                       xt_count(look->files, "file").text);
    else
        xt_report_line(look->report, "%s, %d not as recorded, %d not recorded; %s",
                       xt_count(look->files, "file").text, look->wrong, look->unproven,
                       !look->here ? "versions and device were not compared"
                       : look->changed
                           ? "versions or device have changed since, so that results may "
                             "differ in their last bits"
                           : "versions and device are as recorded");
}

static enum xt_status read_run(const char *folder, cJSON **proof, struct xt_report *report,
                               struct xt_err *err)
{
    struct xt_past_run run;
    char *path = NULL;
    enum xt_status status = xt_past_run_read(&run, folder, err);
    bool running = !status && run.running;
    xt_past_run_clear(&run);
    if (!status)
        status = xt_file_join(&path, folder, XT_PROOF_FILE, err);
    if (!status && !xt_file_exists(path))
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s has no %s: it was written by a version of xtrain without one, so "
                            "there is nothing to "
                            "compare with; --resume creates one",
                            folder, XT_PROOF_FILE);
    free(path);
    if (!status)
        status = xt_proof_read(folder, proof, err);
    xt_report_flag(report, "running", NULL, running, "", "");
    if (running)
        xt_report_line(report, "the run is still running: files may change while they are read");
    return status;
}

enum xt_status xt_cmd_verify(struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct look look = {.folder = options->arguments[0], .report = xt_report_create()};
    cJSON *proof = NULL;
    if (options->argument_count > 1) {
        xt_report_destroy(look.report);
        return xt_err_set(err, XT_ERR_USAGE, "verify takes one run; %s is a second",
                          options->arguments[1]);
    }
    xt_report_add(look.report, "run", NULL, "%s", options->arguments[0]);
    enum xt_status status = read_run(look.folder, &proof, look.report, err);
    if (!status)
        status = look_at_all(&look, s, proof, err);
    cJSON_Delete(proof);
    if (status) {
        xt_report_destroy(look.report);
        return status;
    }
    conclude(&look);
    status =
        xt_report_end(look.report, s->output.json ? XT_REPORT_JSON : XT_REPORT_TEXT, stdout, err);
    if (!status && look.device)
        return xt_err_set(err, look.device, "%s", look.why);
    if (!status && look.wrong)
        return xt_err_set(err, XT_ERR_RUN, "not as recorded: %s of %s",
                          xt_count(look.wrong, "file").text, look.folder);
    return status;
}
