#include "device/dnnl.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* One of the program's three pieces of global state, with the path it came from. */
struct xt_dnnl_table xt_dnnl;
static char loaded_path[PATH_MAX];

const char *xt_dnnl_path(void)
{
    return loaded_path;
}

static enum xt_status bind(void *library, const char *path, struct xt_err *err)
{
    struct xt_dnnl_table table;
#define XT_DNNL_BIND(name)                                                                         \
    {                                                                                              \
        void *symbol = dlsym(library, "dnnl_" #name);                                              \
        if (!symbol)                                                                               \
            return xt_err_set(err, XT_ERR_DEVICE,                                                  \
                              "%s has no function dnnl_" #name                                     \
                              ": it is not oneDNN 3.2 or later; run \"make deps\" for one",        \
                              path);                                                               \
        memcpy(&table.name, &symbol, sizeof symbol);                                               \
    }
    XT_DNNL_FUNCTIONS(XT_DNNL_BIND)
#undef XT_DNNL_BIND
    const dnnl_version_t *version = table.version();
    if (version->major != 3)
        return xt_err_set(err, XT_ERR_DEVICE, "%s is oneDNN %d.%d; 3.2 or a later 3.x is needed",
                          path, version->major, version->minor);
    xt_dnnl = table;
    return XT_OK;
}

static void remember_path(const char *asked)
{
    Dl_info info;
    void *symbol = NULL;
    memcpy(&symbol, &xt_dnnl.version, sizeof symbol);
    const char *found = dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : asked;
    if (!realpath(found, loaded_path))
        snprintf(loaded_path, sizeof loaded_path, "%s", found);
}

static enum xt_status open_library(const char *path, struct xt_err *err)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return xt_err_set(err, XT_ERR_DEVICE, "the oneDNN library %s cannot be loaded: %s", path,
                          dlerror());
    enum xt_status status = bind(library, path, err);
    if (status)
        dlclose(library);
    else
        remember_path(path);
    return status;
}

enum xt_status xt_dnnl_load(struct xt_err *err)
{
    if (xt_dnnl.version)
        return XT_OK;
    const char *given = getenv("XTRAIN_DNNL");
    if (given && *given)
        return open_library(given, err);
    char *folder = NULL;
    enum xt_status status = xt_file_program_folder(&folder, err);
    if (status)
        return status;
    /* Beside the installed program; in the build tree (also from build/tests/GROUP and sanitizer
     * builds). */
    static const char *const places[] = {
        "../lib/xtrain/libdnnl.so.3",
        "../deps/dnnl/lib/libdnnl.so.3",
        "../../deps/dnnl/lib/libdnnl.so.3",
        "../../../deps/dnnl/lib/libdnnl.so.3",
        "../../../../deps/dnnl/lib/libdnnl.so.3",
    };
    bool found = false;
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !found && !status; i++) {
        char *path = NULL;
        status = xt_file_join(&path, folder, places[i], err);
        found = !status && xt_file_exists(path);
        if (found)
            status = open_library(path, err);
        free(path);
    }
    free(folder);
    if (found || status)
        return status;
    if (open_library("libdnnl.so.3", NULL) == XT_OK)
        return XT_OK;
    return xt_err_set(
        err, XT_ERR_DEVICE,
        "no oneDNN library was found: not in ../lib/xtrain beside the program, not in "
        "deps/dnnl, not as the system's libdnnl.so.3; run \"make deps\", install "
        "libdnnl 3, or set XTRAIN_DNNL to the file");
}

enum xt_status xt_dnnl_check(dnnl_status_t status, const char *what, struct xt_err *err)
{
    switch (status) {
    case dnnl_success:
        return XT_OK;
    case dnnl_out_of_memory:
        return xt_err_set(err, XT_ERR_MEMORY, "oneDNN ran out of memory in %s", what);
    case dnnl_invalid_arguments:
        return xt_err_set(err, XT_ERR_DEVICE, "oneDNN refused the arguments of %s", what);
    case dnnl_unimplemented:
        return xt_err_set(err, XT_ERR_DEVICE, "oneDNN has no kernel on this device for %s", what);
    default:
        return xt_err_set(err, XT_ERR_DEVICE, "oneDNN failed in %s (status %d)", what, (int)status);
    }
}

const char *xt_dnnl_implementation(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    if (xt_dnnl.primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success)
        return "";
    return name;
}
