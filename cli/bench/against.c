#include "cli/bench/against.h"

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "runs/report/json.h"

enum { OLD_LIMIT = 16 << 20 };

struct xt_bench_old {
    char *path;
    cJSON *json;
};

enum xt_status xt_bench_old_read(struct xt_bench_old **out, const char *path, struct xt_err *err)
{
    struct xt_bytes bytes = {0};
    enum xt_status status = xt_file_load(path, OLD_LIMIT, &bytes, err);
    if (!status)
        status = xt_mem_calloc(out, 1, sizeof **out, "an earlier run's results", err);
    if (!status)
        status = xt_mem_strdup(&(*out)->path, path, err);
    if (!status) {
        (*out)->json = cJSON_ParseWithLength((const char *)bytes.data, bytes.size);
        if (!cJSON_IsObject((*out)->json))
            status = xt_err_set(err, XT_ERR_DATA,
                                "--against %s: this is not JSON; write the file with `xtrain bench "
                                "step --json ... > FILE`",
                                path);
    }
    free(bytes.data);
    return status;
}

void xt_bench_old_destroy(struct xt_bench_old *old)
{
    if (!old)
        return;
    cJSON_Delete(old->json);
    free(old->path);
    free(old);
}

static bool is_text(const cJSON *run, const char *key, const char *text)
{
    return strcmp(xt_json_get_text(run, key, ""), text) == 0;
}

static bool is_same(const cJSON *run, const struct xt_settings *settings)
{
    return is_text(run, "model", settings->network.model) &&
           is_text(run, "device", settings->device.name) &&
           is_text(run, "type", xt_amp_name(settings->network.amp)) &&
           xt_json_get(run, "batch", 0) == settings->network.batch &&
           xt_json_get(run, "beside", 0) == settings->bench.beside;
}

static const cJSON *find_run(const cJSON *json, const struct xt_settings *settings)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "runs");
    if (!list)
        return is_same(json, settings) ? json : NULL;
    const cJSON *run = NULL;
    cJSON_ArrayForEach(run, list)
    {
        if (is_same(run, settings))
            return run;
    }
    return NULL;
}

enum xt_status xt_bench_old_rate(const struct xt_bench_old *old, const struct xt_settings *settings,
                                 int threads, double *rate, struct xt_err *err)
{
    const cJSON *run = find_run(old->json, settings);
    if (!run)
        return xt_err_set(err, XT_ERR_DATA,
                          "--against %s has no run of %s on %s in %s at batch %d to compare with",
                          old->path, settings->network.model, settings->device.name,
                          xt_amp_name(settings->network.amp), settings->network.batch);
    double old_threads = xt_json_get(run, "threads", 0);
    if (threads && old_threads != threads)
        return xt_err_set(
            err, XT_ERR_DATA,
            "--against %s was measured with %s, this run with %d; give --threads %.0f", old->path,
            xt_count((long long)old_threads, "thread").text, threads, old_threads);
    *rate = xt_json_get(run, "images_per_s", 0);
    if (*rate > 0)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA, "--against %s: the run of batch %d has no images_per_s",
                      old->path, settings->network.batch);
}

enum xt_status xt_bench_compare(const struct xt_bench_run *runs, int count, const char *path,
                                struct xt_err *err)
{
    for (int i = 0; i < count; i++) {
        const struct xt_bench_step *r = &runs[i].result;
        double rate = xt_bench_images_per_s(r);
        if (rate < XT_BENCH_SLOWEST * runs[i].old_rate)
            return xt_err_set(err, XT_ERR_RUN,
                              "%s on %s in %s at batch %d: %.1f images/s, %.0f %% slower than the "
                              "%.1f of %s",
                              runs[i].model, runs[i].device, xt_dtype_name(r->dtype), r->batch,
                              rate, 100 * (1 - rate / runs[i].old_rate), runs[i].old_rate, path);
    }
    return XT_OK;
}
