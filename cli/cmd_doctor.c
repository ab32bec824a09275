/* xtrain doctor: what --xpu needs, looked at step by step from the kernel up to a computed
 * convolution, with the command that mends what is missing. Whatever calls into a driver runs in a
 * process of its own. */
#include <cjson/cJSON.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/process.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "device/check.h"
#include "device/gpu/host_gpu.h"
#include "device/gpu/opencl.h"
#include "device/probe.h"

/* A fact is worth knowing and stops nothing. */
enum state { PASSED, FAILED, FACT, SKIPPED };

struct step {
    const char *name;
    enum state state;
    char detail[512];
    const char *debian; /* what mends it on Debian and Ubuntu; NULL: nothing to do */
    const char *fedora; /* on Fedora and RHEL */
};

enum { STEPS_MAX = 16 };

struct report {
    struct step steps[STEPS_MAX];
    int count;
    bool works; /* the device opens and computes right */
};

__attribute__((format(printf, 4, 5))) static struct step *
add(struct report *report, const char *name, enum state state, const char *format, ...)
{
    struct step *step = &report->steps[report->count++];
    va_list args;
    *step = (struct step){.name = name, .state = state};
    va_start(args, format);
    vsnprintf(step->detail, sizeof step->detail, format, args);
    va_end(args);
    return step;
}

static void mend(struct step *step, const char *debian, const char *fedora)
{
    step->debian = debian;
    step->fedora = fedora;
}

/* --- the kernel
 * ---------------------------------------------------------------------------------*/
static void look_at_nodes(struct report *report, const struct xt_host_gpu *host)
{
    if (host->count > 0) {
        const struct xt_render_node *node = &host->nodes[0];
        add(report, "kernel driver", PASSED, "%d Intel GPU%s: %s, PCI %s, device %04x, driver %s",
            host->count, host->count == 1 ? "" : "s", node->path, node->pci, node->device,
            *node->kernel ? node->kernel : "not told");
    } else if (host->wsl) {
        add(report, "kernel driver", PASSED, "WSL's /dev/dxg is there");
    } else {
        struct step *step = add(
            report, "kernel driver", FAILED,
            "no Intel render node under /dev/dri%s: there is no Intel GPU, or its kernel driver "
            "(i915, xe) is not loaded; in a container, it was not passed in (--device "
            "/dev/dri)",
            host->others ? " (only other makers')" : "");
        mend(step, "lspci -nn -d 8086::03xx; sudo modprobe xe || sudo modprobe i915",
             "lspci -nn -d 8086::03xx; sudo modprobe xe || sudo modprobe i915");
    }
}

static void look_at_access(struct report *report, const struct xt_host_gpu *host)
{
    const struct passwd *me = getpwuid(geteuid());
    const char *name = me ? me->pw_name : "this user";
    for (int i = 0; i < host->count; i++)
        if (!host->nodes[i].usable) {
            struct step *step =
                add(report, "access", FAILED, "%s may not open %s, which belongs to group %s", name,
                    host->nodes[i].path, host->nodes[i].group);
            mend(step, XT_HOST_GPU_JOIN, XT_HOST_GPU_JOIN);
            return;
        }
    if (host->count > 0)
        add(report, "access", PASSED, "%s may open every render node", name);
    else if (host->wsl)
        add(report, "access", host->wsl_usable ? PASSED : FAILED, "%s %s open /dev/dxg", name,
            host->wsl_usable ? "may" : "may not");
    else
        add(report, "access", SKIPPED, "there is no render node");
}

/* --- Level Zero and OpenCL
 * ----------------------------------------------------------------------*/
struct level_zero_seen {
    enum xt_status status;
    char why[512];
    int count;
    struct xt_gpu_facts first;
    struct xt_telemetry telemetry;
    enum xt_yes_no bar;
    char bar_why[96];
};

static void see_level_zero(const void *argument, void *result)
{
    (void)argument;
    struct level_zero_seen *seen = result;
    struct xt_level_zero *zero = NULL;
    struct xt_err err = {0};
    seen->status = xt_level_zero_open(&zero, &err);
    snprintf(seen->why, sizeof seen->why, "%.511s", err.text);
    seen->count = xt_level_zero_count(zero);
    if (seen->count > 0) {
        seen->first = *xt_level_zero_facts(zero, 0);
        seen->bar = xt_level_zero_resizable_bar(zero, 0, seen->bar_why);
        xt_level_zero_read(zero, 0, &seen->telemetry);
    }
    xt_level_zero_close(zero);
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
    seen->status = xt_opencl_gpus(&seen->count, seen->name, seen->driver, &err);
    snprintf(seen->why, sizeof seen->why, "%.511s", err.text);
}

enum { DRIVER_SECONDS = 60 };

static enum xt_status look_at_level_zero(struct report *report, struct level_zero_seen *seen,
                                         struct xt_err *err)
{
    struct xt_err why = {0};
    const struct xt_process process = {.work = see_level_zero, .seconds = DRIVER_SECONDS};
    enum xt_status status = xt_process_run(&process, seen, sizeof *seen, NULL, &why);
    if (status && status != XT_ERR_DEVICE)
        return xt_err_set(err, status, "%s", why.text);
    bool no_loader = !status && strstr(seen->why, "libze_loader") != NULL;
    struct step *loader =
        add(report, "Level Zero loader", no_loader ? FAILED : PASSED, "%s",
            no_loader ? "libze_loader.so.1 is not here" : "libze_loader.so.1 is here");
    if (no_loader)
        mend(loader, "sudo apt-get install -y libze1", "sudo dnf install -y oneapi-level-zero");
    struct step *driver = NULL;
    if (no_loader)
        add(report, "Level Zero driver", SKIPPED, "there is no loader");
    else if (status)
        driver = add(report, "Level Zero driver", FAILED, "asking it failed: %.400s", why.text);
    else if (seen->status)
        driver = add(report, "Level Zero driver", FAILED, "%.400s", seen->why);
    else if (seen->count == 0)
        driver = add(report, "Level Zero driver", FAILED, "it starts, and finds no GPU");
    else
        add(report, "Level Zero driver", PASSED, "driver %s finds %d: %s", seen->first.driver,
            seen->count, seen->first.name);
    if (driver)
        mend(driver,
             "sudo apt-get install -y libze-intel-gpu1   (Debian 12: from Intel's repository, "
             "https://dgpu-docs.intel.com)",
             "sudo dnf install -y intel-level-zero");
    return XT_OK;
}

static enum xt_status look_at_opencl(struct report *report, struct xt_err *err)
{
    struct opencl_seen seen;
    struct xt_err why = {0};
    const struct xt_process process = {.work = see_opencl, .seconds = DRIVER_SECONDS};
    enum xt_status status = xt_process_run(&process, &seen, sizeof seen, NULL, &why);
    if (status && status != XT_ERR_DEVICE)
        return xt_err_set(err, status, "%s", why.text);
    if (!status && !seen.status && seen.count > 0) {
        add(report, "OpenCL driver", PASSED, "driver %s finds %d: %s", seen.driver, seen.count,
            seen.name);
        return XT_OK;
    }
    struct step *step = add(report, "OpenCL driver", FAILED, "%.500s",
                            status        ? why.text
                            : seen.status ? seen.why
                                          : "no OpenCL driver offers a GPU");
    mend(step, "sudo apt-get install -y intel-opencl-icd", "sudo dnf install -y intel-opencl");
    return XT_OK;
}

/* --- oneDNN
 * -------------------------------------------------------------------------------------*/
static void look_at_kernels(struct report *report, const struct xt_probe *probe)
{
    const struct xt_xpu *xpu = &probe->xpus.items[0];
    const struct xt_types *types = &probe->types[0];
    struct xt_architecture is = xt_xpu_architecture(&xpu->facts);
    const char *name = is.name ? is.name : "this GPU's architecture";
    if (types->machine_code) {
        add(report, "architecture", PASSED, "oneDNN %s has machine code for %s (%s)",
            probe->version, name, types->implementation);
        return;
    }
    struct step *step = add(
        report, "architecture", FACT,
        "oneDNN %s has no machine code for %s and takes OpenCL C kernels (%s), which are slow%s%s",
        probe->version, name, types->implementation, is.since ? "; there is from oneDNN " : "",
        is.since ? is.since : "");
    if (is.since)
        mend(step, "make deps XPU=1", "make deps XPU=1");
}

static enum xt_status look_at_onednn(struct report *report, struct xt_probe *probe,
                                     struct xt_err *err)
{
    enum xt_status status = xt_probe_xpus(probe, err);
    if (status)
        return status;
    if (!*probe->version) {
        struct step *step = add(report, "oneDNN for GPUs", FAILED, "%.500s", probe->why);
        mend(step, "make deps XPU=1", "make deps XPU=1");
        add(report, "engine", SKIPPED, "there is no oneDNN for GPUs");
        return XT_OK;
    }
    add(report, "oneDNN for GPUs", PASSED, "%s, runtime %s%s, %s", probe->version, probe->runtime,
        probe->experimental ? " (experimental)" : "", probe->library);
    if (probe->status || probe->xpus.count == 0) {
        struct step *step = add(report, "engine", FAILED, "%.500s",
                                probe->status ? probe->why : "oneDNN finds no Intel GPU");
        mend(step, "mend the first step above that failed",
             "mend the first step above that failed");
        return XT_OK;
    }
    add(report, "engine", PASSED, "oneDNN lists %d: %s, through %s", probe->xpus.count,
        probe->xpus.items[0].facts.name,
        *probe->xpus.items[0].backend ? probe->xpus.items[0].backend
                                      : "a backend it does not name");
    look_at_kernels(report, probe);
    return XT_OK;
}

static enum xt_status look_at_convolution(struct report *report, const struct xt_probe *probe,
                                          struct xt_err *err)
{
    struct xt_check check;
    if (probe->status || probe->xpus.count == 0) {
        add(report, "convolution", SKIPPED, "there is no engine");
        return XT_OK;
    }
    enum xt_status status = xt_check_device("xpu", &check, err);
    if (status)
        return status;
    report->works = check.status == XT_OK;
    if (report->works)
        add(report, "convolution", PASSED,
            "right to %.1g of the largest value; opened in %.2f s, compiled and run in %.2f s",
            check.error, check.open_s, check.check_s);
    else
        add(report, "convolution", FAILED, "%.500s", check.why);
    return XT_OK;
}

/* --- facts
 * --------------------------------------------------------------------------------------*/
static void look_at_facts(struct report *report, const struct level_zero_seen *seen,
                          const struct xt_host_gpu *host)
{
    const struct xt_reading *limit = &seen->telemetry.power_limit;
    if (seen->count == 0)
        return;
    if (seen->bar == XT_NOT_KNOWN && host->count > 0 && !seen->first.integrated)
        add(report, "Resizable BAR", FACT, "not readable: %s; the largest PCI region has %.1f GB",
            seen->bar_why, (double)host->nodes[0].largest / 1e9);
    else if (seen->bar == XT_NOT_KNOWN)
        add(report, "Resizable BAR", FACT, "not readable: %s", seen->bar_why);
    else
        add(report, "Resizable BAR", FACT, "%s",
            seen->bar == XT_YES ? "on"
                                : "off: uploads are slow; switch it on in the firmware's set-up "
                                  "(with Above 4G decoding)");
    if (limit->known)
        add(report, "power limit", FACT, "%.0f W", limit->value);
    else
        add(report, "power limit", FACT, "not readable: %s", limit->why);
}

static enum xt_status look_at_cache(struct report *report, struct xt_err *err)
{
    char library[4096];
    struct xt_kernel_cache cache;
    enum xt_status status = xt_dnnl_find(XT_DNNL_GPU, library, sizeof library, err);
    if (!status)
        status = xt_kernel_cache_begin(&cache, NULL, false, library, err);
    if (status)
        return status;
    if (cache.folder)
        add(report, "kernel cache", PASSED, "%s: %d kernels, %.1f MB%s", cache.folder, cache.kept,
            (double)cache.bytes / 1e6, cache.writable ? "" : ", read only");
    else
        add(report, "kernel cache", FACT, "%s", cache.note);
    xt_kernel_cache_end(&cache);
    return XT_OK;
}

/* --- the report
 * ---------------------------------------------------------------------------------*/
static const char *state_name(enum state state)
{
    static const char *const names[] = {"passed", "failed", "fact", "skipped"};
    return names[state];
}

static void print_text(const struct report *report, const char *masks)
{
    for (int i = 0; i < report->count; i++) {
        const struct step *step = &report->steps[i];
        printf("%-8s %-18s %s\n", state_name(step->state), step->name, step->detail);
        if (step->state == PASSED || !step->debian)
            continue;
        if (strcmp(step->debian, step->fedora) == 0) {
            printf("%28s%s\n", "-> ", step->debian);
        } else {
            printf("%28sDebian, Ubuntu: %s\n", "-> ", step->debian);
            printf("%28sFedora, RHEL:   %s\n", "-> ", step->fedora);
        }
    }
    if (*masks)
        printf("environment: %s\n", masks);
    printf("%s\n", report->works ? "--xpu works here" : "--xpu does not work here");
}

static enum xt_status print_json(const struct report *report, const char *masks, struct xt_err *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *steps = root ? cJSON_AddArrayToObject(root, "steps") : NULL;
    bool ok = steps && cJSON_AddBoolToObject(root, "works", report->works) &&
              cJSON_AddStringToObject(root, "environment", masks);
    for (int i = 0; i < report->count && ok; i++) {
        const struct step *step = &report->steps[i];
        cJSON *item = cJSON_CreateObject();
        ok = cJSON_AddItemToArray(steps, item) &&
             cJSON_AddStringToObject(item, "step", step->name) &&
             cJSON_AddStringToObject(item, "state", state_name(step->state)) &&
             cJSON_AddStringToObject(item, "detail", step->detail);
        if (ok && step->debian)
            ok = cJSON_AddStringToObject(item, "debian", step->debian) &&
                 cJSON_AddStringToObject(item, "fedora", step->fedora);
    }
    char *text = ok ? cJSON_Print(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the report", 0);
}

static enum xt_status look(struct report *report, struct xt_probe *probe, struct xt_err *err)
{
    struct xt_host_gpu host;
    struct level_zero_seen seen = {0};
    xt_host_gpu_read(&host, "");
    look_at_nodes(report, &host);
    look_at_access(report, &host);
    enum xt_status status = look_at_level_zero(report, &seen, err);
    if (!status)
        status = look_at_opencl(report, err);
    if (!status)
        status = look_at_onednn(report, probe, err);
    if (!status)
        status = look_at_convolution(report, probe, err);
    look_at_facts(report, &seen, &host);
    return status ? status : look_at_cache(report, err);
}

static enum xt_status first_failure(const struct report *report, struct xt_err *err)
{
    for (int i = 0; i < report->count; i++)
        if (report->steps[i].state == FAILED)
            return xt_err_set(err, XT_ERR_DEVICE,
                              "--xpu does not work here; the first step that "
                              "failed: %s: %s",
                              report->steps[i].name, report->steps[i].detail);
    return xt_err_set(err, XT_ERR_DEVICE, "--xpu does not work here");
}

enum xt_status xt_cmd_doctor(struct xt_options *options, struct xt_err *err)
{
    struct xt_probe *probe = NULL;
    struct report *report = NULL;
    struct xt_str masks = {0};
    enum xt_status status = xt_mem_calloc(&probe, 1, sizeof *probe, "the list of XPUs", err);
    if (!status)
        status = xt_mem_calloc(&report, 1, sizeof *report, "the report", err);
    if (!status)
        status = look(report, probe, err);
    if (!status)
        status = xt_xpu_masks(&masks, err);
    if (!status && options->values.json)
        status = print_json(report, xt_str_get(&masks), err);
    else if (!status)
        print_text(report, xt_str_get(&masks));
    if (!status && !report->works)
        status = first_failure(report, err);
    xt_str_clear(&masks);
    free(report);
    free(probe);
    return status;
}
