/* xtrain doctor: checks each requirement of --xpu from the kernel up to a computed network, with
 * the command that fixes what is missing. All calls into a driver run in a child process. */
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/system/process.h"
#include "cli/commands.h"
#include "cli/doctor/backends.h"
#include "cli/doctor/merge.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "device/gpu/figures.h"
#include "device/gpu/host_gpu.h"
#include "device/gpu/opencl.h"
#include "device/probe.h"
#include "device/faults/watchdog.h"
#include "device/faults/why.h"

/* FACT: information, not a requirement. */
enum state { PASSED, FAILED, FACT, SKIPPED };

struct diagnosis {
    struct xt_report *steps; /* a table */
    struct xt_report *node;  /* for --merge: what should be equal on all machines; JSON only */
    char failed[640];        /* the first failed step and the reason; "": none */
    bool works;              /* the device opens and computes correct results */
};

__attribute__((format(printf, 4, 5))) static struct xt_report *
add(struct diagnosis *diagnosis, const char *name, enum state state, const char *format, ...)
{
    static const char *const states[] = {"passed", "failed", "fact", "skipped"};
    struct xt_report *step = xt_report_group(diagnosis->steps, NULL);
    char detail[512];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    xt_report_add(step, "state", "state", "%-8s", states[state]);
    xt_report_add(step, "name", "step", "%-18s", name);
    xt_report_add(step, "detail", "detail", "%s", detail);
    if (state == FAILED && !*diagnosis->failed)
        snprintf(diagnosis->failed, sizeof diagnosis->failed, "%s: %s", name, detail);
    return step;
}

/* The command that fixes a step, on Debian and Ubuntu and on Fedora and RHEL. */
static void mend(struct xt_report *step, const char *debian, const char *fedora)
{
    bool same = strcmp(debian, fedora) == 0;
    xt_report_add(step, "debian", "",
                  same ? "                         -> %s"
                       : "                         -> Debian, Ubuntu: %s\n",
                  debian);
    xt_report_add(step, "fedora", same ? NULL : "",
                  "                         -> Fedora, RHEL:   %s", fedora);
}

/* ---- the kernel ---- */

static void check_nodes(struct diagnosis *diagnosis, const struct xt_host_gpu *host)
{
    if (host->count > 0) {
        const struct xt_render_node *node = &host->nodes[0];
        add(diagnosis, "kernel driver", PASSED, "%s: %s, PCI %s, device %04x, driver %s",
            xt_count(host->count, "Intel GPU").text, node->path, node->pci, node->device,
            *node->kernel ? node->kernel : "not told");
    } else if (host->wsl) {
        add(diagnosis, "kernel driver", PASSED, "WSL's /dev/dxg exists");
    } else if (host->without_node > 0) {
        struct xt_report *step =
            add(diagnosis, "kernel driver", FAILED,
                "PCI %s is an Intel GPU (device %04x) without a render node under /dev/dri: %s%s",
                host->bare.pci, host->bare.device,
                *host->bare.kernel ? "its driver made none or it was not passed to this container "
                                     "(--device /dev/dri); driver "
                                   : "no kernel driver serves it; docs/xpu.md says since which "
                                     "kernel one does",
                host->bare.kernel);
        mend(step, "uname -r; sudo modprobe xe || sudo modprobe i915",
             "uname -r; sudo modprobe xe || sudo modprobe i915");
    } else {
        struct xt_report *step =
            add(diagnosis, "kernel driver", FAILED,
                "no Intel GPU on the PCI bus, and no Intel render node under /dev/dri%s; a virtual "
                "machine or a container has it only if it was passed in (--device /dev/dri)",
                host->others ? " (only other makers')" : "");
        mend(step, "lspci -nn -d 8086::03xx; sudo modprobe xe || sudo modprobe i915",
             "lspci -nn -d 8086::03xx; sudo modprobe xe || sudo modprobe i915");
    }
}

static void check_access(struct diagnosis *diagnosis, const struct xt_host_gpu *host)
{
    const struct passwd *me = getpwuid(geteuid());
    const char *name = me ? me->pw_name : "this user";
    for (int i = 0; i < host->count; i++)
        if (!host->nodes[i].usable) {
            struct xt_report *step =
                add(diagnosis, "access", FAILED, "%s may not open %s, which belongs to group %s",
                    name, host->nodes[i].path, host->nodes[i].group);
            const struct xt_host_gpu_hint join = xt_host_gpu_join(&host->nodes[i]);
            mend(step, join.text, join.text);
            return;
        }
    if (host->count > 0)
        add(diagnosis, "access", PASSED, "%s may open every render node", name);
    else if (host->wsl)
        add(diagnosis, "access", host->wsl_usable ? PASSED : FAILED, "%s %s open /dev/dxg", name,
            host->wsl_usable ? "may" : "may not");
    else
        add(diagnosis, "access", SKIPPED, "there is no render node");
}

/* ---- Level Zero and OpenCL ---- */

struct level_zero_seen {
    enum xt_status status;
    char why[512];
    int count;
    struct xt_gpu_facts first;
    struct xt_telemetry telemetry;
    enum xt_yes_no bar;
    char bar_why[96];
    char bars[64]; /* of all GPUs: "on, off" */
};

/* Some figures need two readings. */
static void read_twice(struct xt_level_zero *zero, const struct xt_gpu_facts *facts,
                       struct xt_telemetry *out)
{
    enum { BETWEEN_US = 20000 };
    struct xt_figures figures;
    xt_figures_init(&figures, zero, 0, facts, "");
    xt_figures_read(&figures, out);
    usleep(BETWEEN_US);
    xt_figures_read(&figures, out);
}

static void see_level_zero(const void *argument, void *result)
{
    (void)argument;
    struct level_zero_seen *seen = result;
    struct xt_level_zero *zero = NULL;
    struct xt_err err = {0};
    const char *outer = xt_watchdog_begin_query("while Level Zero is queried");
    seen->status = xt_level_zero_open(&zero, &err);
    snprintf(seen->why, sizeof seen->why, "%.511s", err.text);
    seen->count = xt_level_zero_count(zero);
    if (seen->count > 0) {
        seen->first = *xt_level_zero_facts(zero, 0);
        seen->bar = xt_level_zero_resizable_bar(zero, 0, seen->bar_why);
        read_twice(zero, &seen->first, &seen->telemetry);
    }
    for (int i = 0; i < seen->count; i++) {
        static const char *const words[] = {"not readable", "off", "on"};
        xt_str_append_to(seen->bars, sizeof seen->bars, "%s%s", i ? ", " : "",
                         words[xt_level_zero_resizable_bar(zero, i, NULL)]);
    }
    xt_level_zero_close(zero);
    xt_watchdog_end_query(outer);
}

struct opencl_seen {
    enum xt_status status;
    char why[512];
    int count;
    char name[64];
    char driver[64];
};

static void see_opencl(const void *argument, void *result)
{
    (void)argument;
    struct opencl_seen *seen = result;
    struct xt_err err = {0};
    const char *outer = xt_watchdog_begin_query("while OpenCL is queried");
    seen->status = xt_opencl_gpus(&seen->count, seen->name, seen->driver, &err);
    snprintf(seen->why, sizeof seen->why, "%.511s", err.text);
    xt_watchdog_end_query(outer);
}

enum { DRIVER_SECONDS = 60 };

static enum xt_status check_level_zero(struct diagnosis *diagnosis, struct level_zero_seen *seen,
                                       struct xt_err *err)
{
    struct xt_err why = {0};
    const struct xt_process process = {.work = see_level_zero,
                                       .seconds = xt_watchdog_seconds(DRIVER_SECONDS)};
    enum xt_status status = xt_process_run(&process, seen, sizeof *seen, NULL, &why);
    if (status && status != XT_ERR_DEVICE)
        return xt_err_set(err, status, "%s", why.text);
    bool no_loader = !status && strstr(seen->why, "libze_loader") != NULL;
    struct xt_report *loader =
        add(diagnosis, "Level Zero loader", no_loader ? FAILED : PASSED, "%s",
            no_loader ? "libze_loader.so.1 is not here" : "libze_loader.so.1 is here");
    if (no_loader)
        mend(loader, "sudo apt-get install -y libze1", "sudo dnf install -y oneapi-level-zero");
    struct xt_report *driver = NULL;
    if (no_loader)
        add(diagnosis, "Level Zero driver", SKIPPED, "there is no loader");
    else if (status)
        driver = add(diagnosis, "Level Zero driver", FAILED, "the query failed: %.400s", why.text);
    else if (seen->status)
        driver = add(diagnosis, "Level Zero driver", FAILED, "%.400s", seen->why);
    else if (seen->count == 0)
        driver = add(diagnosis, "Level Zero driver", FAILED, "it loads, but finds no GPU");
    else
        add(diagnosis, "Level Zero driver", PASSED, "driver %s finds %d: %s", seen->first.driver,
            seen->count, seen->first.name);
    if (driver)
        mend(
            driver,
            "sudo apt-get install -y libze-intel-gpu1   (not in Debian 12 and 13: see docs/xpu.md)",
            "sudo dnf install -y intel-level-zero");
    return XT_OK;
}

static enum xt_status check_opencl(struct diagnosis *diagnosis, struct xt_err *err)
{
    struct opencl_seen seen;
    struct xt_err why = {0};
    const struct xt_process process = {.work = see_opencl,
                                       .seconds = xt_watchdog_seconds(DRIVER_SECONDS)};
    enum xt_status status = xt_process_run(&process, &seen, sizeof seen, NULL, &why);
    if (status && status != XT_ERR_DEVICE)
        return xt_err_set(err, status, "%s", why.text);
    if (!status && !seen.status && seen.count > 0) {
        add(diagnosis, "OpenCL driver", PASSED, "driver %s finds %d: %s", seen.driver, seen.count,
            seen.name);
        xt_report_add(diagnosis->node, "opencl_driver", NULL, "%s", seen.driver);
        return XT_OK;
    }
    struct xt_report *step = add(diagnosis, "OpenCL driver", FAILED, "%.500s",
                                 status        ? why.text
                                 : seen.status ? seen.why
                                               : "no OpenCL driver offers a GPU");
    mend(step, "sudo apt-get install -y intel-opencl-icd   (not in Debian 13: see docs/xpu.md)",
         "sudo dnf install -y intel-opencl");
    return XT_OK;
}

/* ---- oneDNN ---- */

/* What the runtimes below oneDNN log about a failure. */
static void quote_reason(struct diagnosis *diagnosis, int index)
{
    char why[256];
    xt_why_no_engine(index, why, sizeof why);
    add(diagnosis, "engine's log", FACT, "%s", *why ? why : "the runtimes log no reason");
}

/* The first device that can be opened; -1: none. */
static int first_working(const struct xt_probe *probe)
{
    for (int i = 0; !probe->status && i < probe->xpus.count; i++)
        if (!*probe->xpus.items[i].broken)
            return i;
    return -1;
}

static void check_kernels(struct diagnosis *diagnosis, const struct xt_probe *probe, int first)
{
    const struct xt_xpu *xpu = &probe->xpus.items[first];
    const struct xt_types *types = &probe->types[first];
    struct xt_architecture is = xt_xpu_architecture(&xpu->facts);
    const char *name = is.name ? is.name : "this GPU's architecture";
    if (types->machine_code) {
        add(diagnosis, "architecture", PASSED, "oneDNN %s has machine code for %s (%s)",
            probe->version, name, types->implementation);
        return;
    }
    struct xt_report *step = add(
        diagnosis, "architecture", FACT,
        "oneDNN %s has no machine code for %s and uses OpenCL C kernels (%s), which are slow%s%s",
        probe->version, name, types->implementation, is.since ? "; there is from oneDNN " : "",
        is.since ? is.since : "");
    if (is.since)
        mend(step, "make deps XPU=1", "make deps XPU=1");
}

static enum xt_status check_onednn(struct diagnosis *diagnosis, struct xt_probe *probe,
                                   struct xt_err *err)
{
    enum xt_status status = xt_probe_xpus(probe, err);
    if (status)
        return status;
    if (!*probe->version) {
        struct xt_report *step = add(diagnosis, "oneDNN for GPUs", FAILED, "%.500s", probe->why);
        const char *cure = probe->crashed
                               ? "the row \"back end\" below shows whether another one works"
                               : "make deps XPU=1";
        mend(step, cure, cure);
        add(diagnosis, "engine", SKIPPED, "%s",
            probe->crashed ? "it is checked below" : "there is no oneDNN for GPUs");
        return XT_OK;
    }
    add(diagnosis, "oneDNN for GPUs", PASSED, "%s, runtime %s%s, %s", probe->version,
        probe->runtime, probe->experimental ? " (experimental)" : "", probe->library);
    int first = first_working(probe);
    for (int i = 0; !probe->status && i < probe->xpus.count; i++)
        if (*probe->xpus.items[i].broken) {
            add(diagnosis, "engine", first < 0 ? FAILED : FACT, "xpu:%d cannot be opened: %s", i,
                probe->xpus.items[i].broken);
            quote_reason(diagnosis, i);
        }
    if (first < 0 && !probe->status && probe->xpus.count > 0)
        return XT_OK;
    if (first < 0) {
        struct xt_report *step = add(diagnosis, "engine", FAILED, "%.500s",
                                     probe->status ? probe->why : "oneDNN finds no Intel GPU");
        mend(step, "fix the first failed step above", "fix the first failed step above");
        quote_reason(diagnosis, 0);
        return XT_OK;
    }
    add(diagnosis, "engine", PASSED, "oneDNN lists %d: %s, through %s", probe->xpus.count,
        probe->xpus.items[first].facts.name,
        *probe->xpus.items[first].backend ? probe->xpus.items[first].backend
                                          : "a backend it does not name");
    check_kernels(diagnosis, probe, first);
    return XT_OK;
}

static enum xt_status check_answers(struct diagnosis *diagnosis, const struct xt_probe *probe,
                                    struct xt_err *err)
{
    static const char name[] = "known answers";
    struct xt_device_try try;
    if (first_working(probe) < 0) {
        add(diagnosis, name, SKIPPED, "there is no engine");
        return XT_OK;
    }
    enum xt_status status = xt_device_try("xpu", NULL, &try, err);
    if (status)
        return status;
    diagnosis->works = try.status == XT_OK;
    if (diagnosis->works)
        add(diagnosis, name, PASSED,
            "the ops of a small network are correct, forward and backward; opened in %.2f s, "
            "compiled and run in %.2f s",
            try.open_s, try.check_s);
    else
        add(diagnosis, name, FAILED, "%.500s", try.why);
    return XT_OK;
}

/* A failed back end does not fail --xpu, which may run on the other. */
static void show_backend(struct diagnosis *diagnosis, const struct xt_backend_tried *tried)
{
    const struct xt_device_try *result = &tried->result;
    char name[32];
    snprintf(name, sizeof name, "on %s", tried->name);
    if (!result->there)
        add(diagnosis, name, SKIPPED, "no GPU");
    else if (result->status)
        add(diagnosis, name, FACT, "does not work: %.480s", result->why);
    else
        add(diagnosis, name, PASSED, "correct; %.2f ms a pass of the small test network",
            1e3 * result->pass_s);
}

/* oneDNN's own runtimes have one back end each; SYCL supports both. */
static enum xt_status compare_backends(struct diagnosis *diagnosis, const struct xt_probe *probe,
                                       struct xt_err *err)
{
    struct xt_backend_tried tried[XT_BACKENDS];
    char advice[256];
    if ((!*probe->version && !probe->crashed) || probe->experimental) {
        add(diagnosis, "back end", SKIPPED, "%s",
            probe->experimental ? "oneDNN runs GPUs with a runtime of its own here, which has one"
                                : "there is no oneDNN for GPUs");
        return XT_OK;
    }
    enum xt_status status = xt_backends_try(tried, err);
    if (status)
        return status;
    for (int i = 0; i < XT_BACKENDS; i++)
        show_backend(diagnosis, &tried[i]);
    xt_backends_advise(tried, advice, sizeof advice);
    struct xt_report *step = add(diagnosis, "back end", FACT, "%s", advice);
    int choice = xt_backends_choose(tried);
    if (choice >= 0)
        xt_report_add(step, "selector", NULL, "%s", tried[choice].selector);
    if (*probe->version)
        add(diagnosis, "runtime", FACT,
            "SYCL, over either of these; oneDNN's own Level Zero runtime (ZE) is not in this "
            "package");
    return XT_OK;
}

/* ---- facts ---- */

/* Which of a run's device figures can be read here, and their source. */
static void check_figures(struct diagnosis *diagnosis, const struct xt_telemetry *now)
{
    const struct {
        const char *key;
        const struct xt_reading *reading;
    } all[] = {
        {"memory_source", &now->memory_used},
        {"memory_free_source", &now->memory_free},
        {"busy_source", &now->busy},
        {"power_source", &now->power},
        {"energy_source", &now->energy},
        {"frequency_source", &now->frequency},
        {"temperature_source", &now->temperature},
    };
    char text[512];
    xt_figures_describe_all(now, text, sizeof text);
    struct xt_report *step = add(diagnosis, "figures", FACT, "%s", text);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        xt_report_add(step, all[i].key, NULL, "%s",
                      all[i].reading->known ? all[i].reading->source : NULL);
}

static void check_facts(struct diagnosis *diagnosis, const struct level_zero_seen *seen,
                        const struct xt_host_gpu *host)
{
    const struct xt_reading *limit = &seen->telemetry.power_limit;
    if (seen->count == 0)
        return;
    if (seen->bar == XT_NOT_KNOWN && host->count > 0 && !seen->first.integrated)
        add(diagnosis, "Resizable BAR", FACT,
            "not readable: %s; the largest PCI region has %.1f GB", seen->bar_why,
            (double)host->nodes[0].largest / 1e9);
    else if (seen->bar == XT_NOT_KNOWN)
        add(diagnosis, "Resizable BAR", FACT, "not readable: %s", seen->bar_why);
    else
        add(diagnosis, "Resizable BAR", FACT, "%s",
            seen->bar == XT_YES ? "on"
                                : "off: uploads are slow; switch it on in the firmware's set-up "
                                  "(with Above 4G decoding)");
    if (limit->known)
        add(diagnosis, "power limit", FACT, "%.0f W (%s)", limit->value, limit->source);
    else
        add(diagnosis, "power limit", FACT, "not readable: %s", limit->why);
    check_figures(diagnosis, &seen->telemetry);
}

static enum xt_status check_cache(struct diagnosis *diagnosis, struct xt_err *err)
{
    char library[4096];
    struct xt_kernel_cache cache;
    enum xt_status status = xt_dnnl_find(XT_DNNL_GPU, library, sizeof library, err);
    if (!status)
        status = xt_kernel_cache_begin(&cache, NULL, false, library, err);
    if (status)
        return status;
    if (cache.folder)
        add(diagnosis, "kernel cache", PASSED, "%s: %d kernels, %.1f MB%s", cache.folder,
            cache.valid, (double)cache.bytes / 1e6, cache.writable ? "" : ", read only");
    else
        add(diagnosis, "kernel cache", FACT, "%s", cache.note);
    xt_kernel_cache_end(&cache);
    return XT_OK;
}

/* ---- what --merge compares ---- */

static void describe_xpus(struct diagnosis *diagnosis, const struct xt_probe *probe)
{
    struct xt_report *list = xt_report_list(diagnosis->node, "xpus");
    for (int i = 0; !probe->status && i < probe->xpus.count; i++) {
        const struct xt_xpu *xpu = &probe->xpus.items[i];
        const struct xt_types *types = &probe->types[i];
        struct xt_report *to = xt_report_group(list, NULL);
        char text[32];
        xt_report_values(to, "name=%s opens=%s", xpu->facts.name, *xpu->broken ? "no" : "yes");
        if (*xpu->broken)
            continue;
        snprintf(text, sizeof text, "%.1f GB", (double)xpu->facts.memory / 1e9);
        xt_report_values(
            to,
            "memory=%s execution_units=%d driver=%s backend=%s kernel_kind=%s implementation=%s",
            text, xpu->facts.units, xpu->facts.driver, *xpu->backend ? xpu->backend : "not told",
            types->machine_code ? "machine code" : "OpenCL C, slow", types->implementation);
    }
}

static void describe_node(struct diagnosis *diagnosis, const struct xt_host_gpu *host,
                          const struct level_zero_seen *seen, const struct xt_probe *probe)
{
    struct utsname system;
    bool told = uname(&system) == 0;
    xt_report_values(diagnosis->node, "host=%s xtrain=%s linux=%s kernel_driver=%s xpu_count=%d",
                     told ? system.nodename : "not told", XT_VERSION,
                     told ? system.release : "not told",
                     host->count > 0 && *host->nodes[0].kernel ? host->nodes[0].kernel : "none",
                     probe->status ? 0 : probe->xpus.count);
    if (seen->count > 0)
        xt_report_add(diagnosis->node, "level_zero_driver", NULL, "%s", seen->first.driver);
    if (seen->count > 0)
        xt_report_add(diagnosis->node, "resizable_bar", NULL, "%s", seen->bars);
    if (*probe->version) {
        xt_report_values(diagnosis->node, "onednn=%s onednn_commit=%s onednn_runtime=%s",
                         probe->version, probe->commit, probe->runtime);
    }
    describe_xpus(diagnosis, probe);
}

/* ---- all of it ---- */

static enum xt_status examine(struct diagnosis *diagnosis, struct xt_probe *probe,
                              struct xt_err *err)
{
    struct xt_host_gpu host;
    struct level_zero_seen seen = {0};
    xt_host_gpu_read(&host, "");
    check_nodes(diagnosis, &host);
    check_access(diagnosis, &host);
    enum xt_status status = check_level_zero(diagnosis, &seen, err);
    if (!status)
        status = check_opencl(diagnosis, err);
    if (!status)
        status = check_onednn(diagnosis, probe, err);
    if (!status)
        status = check_answers(diagnosis, probe, err);
    if (!status)
        status = compare_backends(diagnosis, probe, err);
    check_facts(diagnosis, &seen, &host);
    describe_node(diagnosis, &host, &seen, probe);
    return status ? status : check_cache(diagnosis, err);
}

enum xt_status xt_cmd_doctor(struct xt_options *options, struct xt_err *err)
{
    struct xt_probe *probe = NULL;
    if (options->values.merge)
        return xt_doctor_merge(options, err);
    if (options->argument_count)
        return xt_err_set(err, XT_ERR_USAGE,
                          "doctor checks this machine; to compare files, "
                          "write xtrain doctor --merge FILE.json...");
    struct xt_report *report = xt_report_create();
    struct diagnosis diagnosis = {.steps = xt_report_table(report, "checks"),
                                  .node = xt_report_group(report, "node")};
    struct xt_str masks = {0};
    enum xt_status status = xt_mem_calloc(&probe, 1, sizeof *probe, "the list of XPUs", err);
    if (!status)
        status = examine(&diagnosis, probe, err);
    if (!status)
        status = xt_xpu_masks(&masks, err);
    xt_report_add(report, "environment", masks.length ? "environment" : NULL, "%s",
                  xt_str_get(&masks));
    xt_report_flag(report, "works", NULL, diagnosis.works, "", "");
    xt_report_line(report, diagnosis.works ? "--xpu works here" : "--xpu does not work here");
    status = xt_result_put_unless(status, report, err);
    if (!status && !diagnosis.works)
        status =
            xt_err_set(err, XT_ERR_DEVICE, "--xpu does not work here%s%s",
                       *diagnosis.failed ? "; the first step that failed: " : "", diagnosis.failed);
    xt_str_clear(&masks);
    free(probe);
    return status;
}
