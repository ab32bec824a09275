#include "device/kernels/ahead.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

const char xt_ahead_mark[] = "# made: ahead of time, in capture mode\n";
const char xt_ahead_never_run[] = "# run: never on a GPU\n";
const char xt_ahead_run[] = "# run: on a GPU\n";

enum { RUNTIME = 1, FIELDS = 4, VALUE_MAX = 96 };
static const struct {
    const char *key;
    const char *name;
} fields[FIELDS] = {
    {"onednn", "oneDNN"}, {"runtime", "runtime"}, {"device id", "GPU"}, {"driver", "driver"}};

static bool compiled_ahead(const struct xt_kernel_cache *cache)
{
    return cache->valid && strstr(xt_str_get(&cache->about), xt_ahead_mark);
}

/* The number of fields that differ; the first of them in words. *runtime: the runtime differs,
 * which can be selected. */
static int compare(const char *there, const char *here, char *why, size_t size, bool *runtime)
{
    int count = 0;
    *why = '\0';
    *runtime = false;
    for (int i = 0; i < FIELDS; i++) {
        char values[2][VALUE_MAX];
        xt_cache_about(there, fields[i].key, values[0], VALUE_MAX);
        xt_cache_about(here, fields[i].key, values[1], VALUE_MAX);
        if (strcmp(values[0], values[1]) == 0)
            continue;
        *runtime |= i == RUNTIME;
        if (!count++)
            snprintf(why, size, "made for %s %s, and here it is %s", fields[i].name, values[0],
                     values[1]);
    }
    return count;
}

/* The first part of `there`'s key, a file and its size or a GPU, that is not in `here`'s. */
static void compare_keys(const char *there, const char *here, char *why, size_t size)
{
    char keys[2][1024];
    char *next = keys[0];
    xt_cache_about(there, "key", keys[0], sizeof keys[0]);
    snprintf(keys[1], sizeof keys[1], "%s", here);
    for (const char *part; (part = strsep(&next, ";"));) {
        part += strspn(part, " ");
        if (!strstr(keys[1], part)) {
            snprintf(why, size, "made with %.80s, which is not here", part);
            return;
        }
    }
    snprintf(why, size, "here are more driver files, or GPUs of other kinds");
}

/* ---- those of this folder ---- */

/* Results of device checks from before these kernels do not apply to them. */
static void forget_checks(const struct xt_kernel_cache *cache)
{
    DIR *dir = opendir(cache->folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (xt_str_starts(entry->d_name, "checked-"))
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
}

static enum xt_status check_ours(struct xt_kernel_cache *cache, const char *about,
                                 struct xt_err *err)
{
    char why[256];
    bool runtime = false;
    const char *there = xt_str_get(&cache->about);
    const struct xt_counted count = xt_count(cache->valid, "kernel");
    int differences = compare(there, about, why, sizeof why, &runtime);
    cache->ahead = differences == 0;
    if (differences == 0 && strstr(there, xt_ahead_never_run)) {
        char driver[VALUE_MAX];
        xt_cache_about(there, "driver", driver, sizeof driver);
        forget_checks(cache);
        xt_log_note("%s made ahead of time: GPU, driver %s, oneDNN and every hash are as recorded; "
                    "no GPU has run them yet",
                    count.text, driver);
    }
    if (differences == 0)
        return XT_OK;
    if (differences == 1 && runtime) {
        cache->preserve_about = true;
        xt_log_note("%s made ahead of time, not used: %s; ONEAPI_DEVICE_SELECTOR=opencl:gpu takes "
                    "them",
                    count.text, why);
        return XT_OK;
    }
    if (!xt_kernel_cache_drop(cache))
        return xt_err_set(err, XT_ERR_DEVICE,
                          "the kernels in %s, made ahead of time, are not for this machine (%s), "
                          "and cannot be removed; go without by --no-kernel-cache, or name another "
                          "--kernel-cache-dir",
                          cache->folder, why);
    xt_log_warn("%s made ahead of time, not used: %s; compiling afresh", count.text, why);
    return XT_OK;
}

/* ---- those of other folders, if this one is empty ---- */

struct nearest {
    int differences;
    char why[256];
    char name[64];
};

static void inspect_folder(const char *kernels, const char *name, const char *about,
                           const struct xt_kernel_cache *cache, struct nearest *nearest)
{
    char folder[PATH_MAX];
    char why[256];
    bool runtime = false;
    struct xt_cache_files files;
    if ((size_t)snprintf(folder, sizeof folder, "%s/%s", kernels, name) >= sizeof folder ||
        xt_cache_files_read(&files, folder, NULL))
        return;
    const char *there = xt_str_get(&files.about);
    if (files.count && strstr(there, xt_ahead_mark)) {
        int differences = compare(there, about, why, sizeof why, &runtime);
        if (!differences)
            compare_keys(there, xt_str_get(&cache->key), why, sizeof why);
        if (differences < nearest->differences) {
            nearest->differences = differences;
            snprintf(nearest->why, sizeof nearest->why, "%s", why);
            snprintf(nearest->name, sizeof nearest->name, "%.63s", name);
        }
    }
    xt_cache_files_clear(&files);
}

static void check_others(const struct xt_kernel_cache *cache, const char *about)
{
    char kernels[PATH_MAX];
    struct nearest nearest = {.differences = FIELDS + 1};
    const char *own = xt_file_name(cache->folder);
    if ((size_t)snprintf(kernels, sizeof kernels, "%.*s", (int)(own - cache->folder - 1),
                         cache->folder) >= sizeof kernels)
        return;
    DIR *dir = opendir(kernels);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (*entry->d_name != '.' && strcmp(entry->d_name, own) != 0)
            inspect_folder(kernels, entry->d_name, about, cache, &nearest);
    if (dir)
        closedir(dir);
    if (*nearest.name)
        xt_log_note("the kernels of cache %s, made ahead of time, are not used: %s; compiling "
                    "afresh",
                    nearest.name, nearest.why);
}

enum xt_status xt_ahead_check(struct xt_kernel_cache *cache, const char *about, struct xt_err *err)
{
    if (!cache->folder)
        return XT_OK;
    if (compiled_ahead(cache))
        return check_ours(cache, about, err);
    if (!cache->valid)
        check_others(cache, about);
    return XT_OK;
}
