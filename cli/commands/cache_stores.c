#include "cli/commands/cache_stores.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/system/stop.h"
#include "device/dnnl.h"

void xt_cache_stores_clear(struct xt_cache_stores *stores)
{
    for (size_t i = 0; i < stores->count; i++) {
        xt_cache_files_clear(&stores->items[i].files);
        free(stores->items[i].folder);
    }
    free(stores->items);
    free(stores->base);
    *stores = (struct xt_cache_stores){0};
}

bool xt_cache_is_key(const char *name)
{
    return strlen(name) == 16 && strspn(name, "0123456789abcdef") == 16;
}

static enum xt_status read_store(struct xt_cache_store *store, struct xt_err *err)
{
    struct xt_err why = {0};
    enum xt_status status = xt_cache_files_read(&store->files, store->folder, &why);
    if (status == XT_ERR_DATA) {
        snprintf(store->unsafe, sizeof store->unsafe, "%.319s", why.text);
        return XT_OK;
    }
    if (status)
        return xt_err_set(err, status, "%s", why.text);
    for (size_t i = 0; i < store->files.count; i++) {
        const struct xt_cache_file *file = &store->files.items[i];
        store->bytes += file->bytes;
        store->bad += !file->fine;
        if (file->used > store->used)
            store->used = file->used;
    }
    return XT_OK;
}

static enum xt_status add_store(struct xt_cache_stores *stores, const char *folder,
                                const char *name, const char *ours, struct xt_err *err)
{
    enum xt_status status =
        xt_mem_add(&stores->items, stores->count, sizeof *stores->items, "the list of caches", err);
    if (!status)
        status = xt_stop_check(err, "before all kernels were read");
    if (status)
        return status;
    struct xt_cache_store *store = &stores->items[stores->count];
    *store = (struct xt_cache_store){0};
    status = xt_file_join(&store->folder, folder, name, err);
    if (status)
        return status;
    stores->count++;
    store->ours = strcmp(store->folder, ours) == 0;
    return read_store(store, err);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_key_entry(const struct dirent *entry)
{
    return xt_cache_is_key(entry->d_name);
}

static enum xt_status our_folder(const char *base, char **out, struct xt_err *err)
{
    char library[PATH_MAX];
    enum xt_status status = xt_dnnl_find(XT_DNNL_GPU, library, sizeof library, err);
    return status ? status : xt_kernel_cache_folder(base, library, out, err);
}

enum xt_status xt_cache_stores_read(struct xt_cache_stores *stores, const char *given,
                                    struct xt_err *err)
{
    char *ours = NULL;
    struct dirent **entries = NULL;
    *stores = (struct xt_cache_stores){0};
    enum xt_status status = xt_kernel_cache_base(given, &stores->base, err);
    if (status)
        return status;
    const struct xt_path kernels = xt_file_path(stores->base, "kernels");
    status = our_folder(stores->base, &ours, err);
    if (!status)
        status = xt_kernel_cache_check_folder(stores->base, err);
    if (!status)
        status = xt_kernel_cache_check_folder(kernels.text, err);
    int count = status ? 0 : scandir(kernels.text, &entries, is_key_entry, by_name);
    for (int i = 0; i < count; i++) {
        if (!status)
            status = add_store(stores, kernels.text, entries[i]->d_name, ours, err);
        free(entries[i]);
    }
    free(entries);
    free(ours);
    return status;
}
