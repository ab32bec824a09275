/* xtrain cache: lists, checks, deletes, exports and imports the cached kernels that GPU drivers
 * compiled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/system/stop.h"
#include "cli/commands/cache_carry.h"
#include "cli/commands/cache_stores.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "cli/signature.h"
#include "device/kernels/ahead.h"

static void format_day(int64_t when, char out[24])
{
    time_t seconds = (time_t)when;
    struct tm day;
    if (when == 0 || !localtime_r(&seconds, &day) || !strftime(out, 24, "%F %H:%M", &day))
        snprintf(out, 24, "never");
}

/* ---- info, list, verify ---- */
static void describe_all(struct xt_report *report, const struct xt_cache_stores *stores)
{
    uint64_t bytes = 0;
    size_t kernels = 0;
    const struct xt_cache_store *ours = NULL;
    for (size_t i = 0; i < stores->count; i++) {
        bytes += stores->items[i].bytes;
        kernels += stores->items[i].files.count;
        if (stores->items[i].ours)
            ours = &stores->items[i];
    }
    xt_report_add(report, NULL, "kernels", "%zu", kernels);
    xt_report_add(report, NULL, "", " in %zu", stores->count);
    xt_report_add(report, NULL, "", stores->count == 1 ? " cache, %.1f MB" : " caches, %.1f MB",
                  (double)bytes / 1e6);
    xt_report_add(report, NULL, "used here", "%s",
                  ours ? xt_file_name(ours->folder)
                       : "none yet: the first run on an XPU creates one");
    if (ours)
        xt_report_add(report, NULL, "", ": %s",
                      xt_count((long long)ours->files.count, "kernel").text);
    if (ours)
        xt_report_add(report, NULL, "", ", %.1f MB", (double)ours->bytes / 1e6);
}

/* Values of the "# key: value" lines, shown below the row in their own format. */
static void describe_about(struct xt_report *row, const struct xt_cache_store *store,
                           const char *key, const char *label, const char *format)
{
    char text[96];
    xt_cache_about(xt_str_get(&store->files.about), key, text, sizeof text);
    xt_report_add(row, key, label, format, text);
}

static void describe_store(struct xt_report *table, const struct xt_cache_store *store)
{
    struct xt_report *row = xt_report_group(table, NULL);
    char day[24];
    format_day(store->used, day);
    xt_report_add(row, "path", NULL, "%s", store->folder);
    xt_report_add(row, NULL, "cache", "%s", xt_file_name(store->folder));
    xt_report_add(row, "kernels", "kernels", "%zu", store->files.count);
    xt_report_add(row, "bad_kernels", "bad", "%zu", store->bad);
    xt_report_scaled(row, "bytes", "MB", 1e-6, "%8.1f", (double)store->bytes);
    xt_report_add(row, "last_used", NULL, "%lld", (long long)store->used);
    xt_report_add(row, NULL, "last used", "%-16s", day);
    xt_report_flag(row, "this_machine", "used by", store->ours, "this machine", "");
    if (*store->unsafe)
        xt_report_add(row, "unsafe", "", "                 %s\n", store->unsafe);
    describe_about(row, store, "runtime", NULL, "%s");
    describe_about(row, store, "device", "", "                 %s");
    describe_about(row, store, "driver", "", ", driver %s");
    describe_about(row, store, "onednn", "", ", oneDNN %s");
    if (strstr(xt_str_get(&store->files.about), xt_ahead_mark)) {
        describe_about(row, store, "made", "", "\n                 created %s");
        describe_about(row, store, "run", "", "; run %s");
    }
}

/* JSON has each cache, also for `cache info`. */
static enum xt_status report(const struct xt_cache_stores *stores, bool each, struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "path", "folder", "%s", stores->base);
    describe_all(report, stores);
    struct xt_report *table = xt_report_table(report, "caches");
    for (size_t i = 0; i < stores->count && (each || xt_result_is_json()); i++)
        describe_store(table, &stores->items[i]);
    return xt_result_put(report, err);
}

static enum xt_status verify(const struct xt_cache_stores *stores, struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    struct xt_report *faults = xt_report_list(report, "faults");
    size_t fine = 0;
    size_t bad = 0;
    for (size_t i = 0; i < stores->count; i++) {
        const struct xt_cache_store *store = &stores->items[i];
        if (*store->unsafe) {
            xt_report_add(faults, NULL, "", "%s\n", store->unsafe);
            bad++;
        }
        for (size_t f = 0; f < store->files.count; f++) {
            const struct xt_cache_file *file = &store->files.items[f];
            struct xt_report *fault = file->fine ? NULL : xt_report_group(faults, NULL);
            if (fault) {
                xt_report_add(fault, "cache", "", "%s/", xt_file_name(store->folder));
                xt_report_add(fault, "file", "", "%s: ", file->name);
                xt_report_add(fault, "reason", "", "%s\n", file->why);
            }
            fine += file->fine;
            bad += !file->fine;
        }
    }
    xt_report_add(report, "good_kernels", "",
                  fine == 1 ? "%zu kernel matches its record" : "%zu kernels match their record",
                  fine);
    xt_report_add(report, "bad_kernels", "", bad == 1 ? ", %zu does not" : ", %zu do not", bad);
    enum xt_status status = xt_result_put(report, err);
    if (status)
        return status;
    return bad ? xt_err_set(err, XT_ERR_RUN,
                            "%zu of the cached kernels do not match; they will not be used, and "
                            "the next run recompiles them",
                            bad)
               : XT_OK;
}

/* ---- prune, clear ---- */
static enum xt_status remove_file(const char *folder, const char *name, struct xt_err *err)
{
    enum xt_status status = xt_stop_check(err, "before all selected kernels were removed");
    const struct xt_path path = xt_file_path(folder, name);
    if (!status && unlink(path.text))
        status = xt_err_set(err, XT_ERR_RUN, "cannot remove %s", path.text);
    return status;
}

/* A file and its store, for sorting by age. */
struct aged {
    const struct xt_cache_store *store;
    const struct xt_cache_file *file;
};

static int by_age(const void *a, const void *b)
{
    const struct aged *x = a;
    const struct aged *y = b;
    return (x->file->used > y->file->used) - (x->file->used < y->file->used);
}

static enum xt_status sort_files(const struct xt_cache_stores *stores, struct aged **out,
                                 size_t *count, uint64_t *bytes, struct xt_err *err)
{
    size_t all = 0;
    for (size_t i = 0; i < stores->count; i++)
        all += stores->items[i].files.count;
    *count = 0;
    *bytes = 0;
    enum xt_status status = xt_mem_calloc(out, all, sizeof **out, "the list of kernels", err);
    for (size_t i = 0; i < stores->count && !status; i++)
        for (size_t f = 0; f < stores->items[i].files.count; f++) {
            (*out)[(*count)++] = (struct aged){&stores->items[i], &stores->items[i].files.items[f]};
            *bytes += stores->items[i].files.items[f].bytes;
        }
    if (!status && *count)
        qsort(*out, *count, sizeof **out, by_age);
    return status;
}

static enum xt_status report_removed(size_t removed, uint64_t freed, uint64_t left,
                                     struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "removed", NULL, "%zu", removed);
    xt_report_add(report, NULL, "", "removed %s", xt_count((long long)removed, "kernel").text);
    xt_report_scaled(report, "bytes", "", 1e-6, ", %.1f MB", (double)freed);
    xt_report_scaled(report, "bytes_left", "", 1e-6, "; %.1f MB are left", (double)left);
    return xt_result_put(report, err);
}

/* Deletes oldest first, until the rest is within the age and size limits. Indexes keep the names of
 * deleted files; the next run drops them. */
static enum xt_status prune(const struct xt_cache_stores *stores,
                            const struct xt_prune_settings *settings, struct xt_err *err)
{
    struct aged *files = NULL;
    size_t count = 0;
    uint64_t bytes = 0;
    size_t removed = 0;
    uint64_t freed = 0;
    if (settings->max_age <= 0 && settings->max_size <= 0)
        return xt_err_set(err, XT_ERR_USAGE,
                          "cache prune needs --max-size MB or --max-age TIME, or both");
    enum xt_status status = sort_files(stores, &files, &count, &bytes, err);
    int64_t oldest = settings->max_age > 0 ? (int64_t)time(NULL) - (int64_t)settings->max_age : 0;
    uint64_t most = settings->max_size > 0 ? (uint64_t)settings->max_size * 1000000 : UINT64_MAX;
    for (size_t i = 0; i < count && !status; i++) {
        const struct xt_cache_file *file = files[i].file;
        if (file->used >= oldest && bytes - freed <= most)
            break;
        status = remove_file(files[i].store->folder, file->name, err);
        removed += !status;
        freed += status ? 0 : file->bytes;
    }
    free(files);
    return status ? status : report_removed(removed, freed, bytes - freed, err);
}

/* Deletes only files that this program or a driver writes; a folder with anything else stays. */
static enum xt_status clear(const struct xt_cache_stores *stores, struct xt_err *err)
{
    static const char *const own[] = {"index.txt", "lock", "config.file"};
    size_t removed = 0;
    uint64_t bytes = 0;
    uint64_t freed = 0;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < stores->count && !status; i++) {
        const struct xt_cache_store *store = &stores->items[i];
        bytes += store->bytes;
        for (size_t f = 0; f < store->files.count && !status; f++) {
            status = remove_file(store->folder, store->files.items[f].name, err);
            removed += !status;
            freed += status ? 0 : store->files.items[f].bytes;
        }
        for (size_t o = 0; o < sizeof own / sizeof *own && !*store->unsafe; o++)
            remove_file(store->folder, own[o], NULL);
        xt_cache_remove_folders(store->folder);
        rmdir(store->folder);
    }
    return status ? status : report_removed(removed, freed, bytes - freed, err);
}

/* ---- the command ---- */
static const char *const verbs[] = {"info", "list", "prune", "clear", "verify", "export", "import"};
enum verb { INFO, LIST, PRUNE, CLEAR, VERIFY, EXPORT, IMPORT, VERBS };

static enum xt_status find_verb(const struct xt_options *options, enum verb *out,
                                struct xt_err *err)
{
    const char *word = options->arguments[0];
    for (int verb = 0; verb < VERBS; verb++)
        if (strcmp(word, verbs[verb]) == 0) {
            bool takes_file = verb == EXPORT || verb == IMPORT;
            if (options->argument_count != (takes_file ? 2 : 1))
                return xt_err_set(err, XT_ERR_USAGE, "cache %s takes %s", word,
                                  takes_file ? "one file" : "no further argument");
            *out = (enum verb)verb;
            return XT_OK;
        }
    const char *near = xt_str_nearest(word, verbs, VERBS);
    return xt_err_set(
        err, XT_ERR_USAGE,
        "cache has no command %s; it has info, list, prune, clear, verify, export and import%s%s%s",
        xt_show(word).text, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

enum xt_status xt_cmd_cache(struct xt_options *options, struct xt_err *err)
{
    struct xt_cache_stores stores = {0};
    enum verb verb = INFO;
    enum xt_status status = find_verb(options, &verb, err);
    const struct xt_trust_settings *trust = &options->values.trust;
    if (!status && trust->key && verb != IMPORT)
        status = xt_err_set(err, XT_ERR_USAGE, "--key is for cache import");
    if (!status && trust->sign && verb != EXPORT)
        status = xt_err_set(err, XT_ERR_USAGE, "--sign is for cache export");
    if (!status && trust->key)
        status = xt_signature_check(options->arguments[1], trust->key, err);
    if (!status)
        status = xt_cache_stores_read(&stores, options->values.device.cache_dir, err);
    if (!status && (verb == INFO || verb == LIST))
        status = report(&stores, verb == LIST, err);
    else if (!status && verb == VERIFY)
        status = verify(&stores, err);
    else if (!status && verb == PRUNE)
        status = prune(&stores, &options->values.prune, err);
    else if (!status && verb == CLEAR)
        status = clear(&stores, err);
    else if (!status && verb == EXPORT)
        status = xt_cache_export(&stores, options->arguments[1], err);
    else if (!status && verb == IMPORT)
        status = xt_cache_import(&stores, options->arguments[1], err);
    if (!status && trust->sign)
        status = xt_signature_make(options->arguments[1], trust->sign, err);
    xt_cache_stores_clear(&stores);
    return status;
}
