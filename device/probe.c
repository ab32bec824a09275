#include "device/probe.h"

#include <stdio.h>
#include <string.h>

#include "base/system/process.h"
#include "base/str.h"
#include "device/faults/watchdog.h"
#include "device/gpu/back_end.h"
#include "device/gpu/figures.h"

enum { LIST_SECONDS = 120 };

static void read_memory(struct xt_level_zero *zero, struct xt_probe *out, int i)
{
    struct xt_figures figures;
    struct xt_telemetry telemetry;
    const struct xt_xpu *xpu = &out->xpus.items[i];
    xt_figures_init(&figures, zero, xpu->zero_index, &xpu->facts, "");
    xt_figures_read(&figures, &telemetry);
    out->memory_free[i] = telemetry.memory_free;
    out->tile_counts[i] = telemetry.tile_count;
    memcpy(out->tiles[i], telemetry.tiles, sizeof out->tiles[i]);
}

static void ask_types(struct xt_probe *out, int i)
{
    dnnl_engine_t engine = NULL;
    if (xt_dnnl.engine_create(&engine, dnnl_gpu, (size_t)i) != dnnl_success)
        return;
    xt_types_ask(engine, &out->types[i]);
    xt_dnnl.engine_destroy(engine);
}

static void list_xpus(const void *argument, void *result)
{
    (void)argument;
    struct xt_probe *out = result;
    struct xt_level_zero *zero = NULL;
    struct xt_back_end_choice choice;
    struct xt_err err = {0};
    const char *outer = xt_watchdog_begin_query("while GPUs are listed");
    if (xt_level_zero_open(&zero, &err))
        xt_str_append_to(out->level_zero, sizeof out->level_zero, "%s", err.text);
    out->status = xt_dnnl_load(XT_DNNL_GPU, &err);
    if (!out->status) {
        xt_str_append_to(out->library, sizeof out->library, "%s", xt_dnnl_path());
        xt_str_append_to(out->version, sizeof out->version, "%s", xt_dnnl_version_text().text);
        xt_str_append_to(out->commit, sizeof out->commit, "%s", xt_dnnl.version()->hash);
        xt_str_append_to(out->runtime, sizeof out->runtime, "%s", xt_dnnl_gpu_runtime());
        out->experimental = xt_dnnl_is_experimental();
        xt_back_end_choose(&choice, zero);
        xt_xpu_list(&out->xpus, zero);
    }
    if (out->status)
        xt_str_append_to(out->why, sizeof out->why, "%s", err.text);
    for (int i = 0; !out->status && i < out->xpus.count; i++) {
        if (*out->xpus.items[i].broken)
            continue;
        read_memory(zero, out, i);
        ask_types(out, i);
    }
    xt_level_zero_close(zero);
    xt_watchdog_end_query(outer);
}

enum xt_status xt_probe_xpus(struct xt_probe *out, struct xt_err *err)
{
    struct xt_err why = {0};
    const struct xt_process process = {.work = list_xpus,
                                       .seconds = xt_watchdog_seconds(LIST_SECONDS)};
    enum xt_status status = xt_process_run(&process, out, sizeof *out, NULL, &why);
    if (status == XT_ERR_DEVICE) {
        /* The child may have died half way: its result is ignored. */
        memset(out, 0, sizeof *out);
        out->status = XT_ERR_DEVICE;
        out->crashed = true;
        snprintf(out->why, sizeof out->why, "asking the GPU driver failed: %.900s", why.text);
        return XT_OK;
    }
    return status ? xt_err_set(err, status, "%s", why.text) : XT_OK;
}
