#include "device/dnnl.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/str.h"
#include "base/system/openmp.h"
#include "base/system/thread.h"
#include "device/gpu/neighbours.h"
#include "device/faults/guard.h"

/* One of the program's three pieces of global state: the loaded library and its origin. */
struct xt_dnnl_table xt_dnnl;
static struct {
    void *library;
    enum xt_dnnl_build build;
    char path[PATH_MAX];
    void (*no_memory)(void);
    pthread_mutex_t lock; /* libxtrain's handles may be opened by several threads at once */
} loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

const char *xt_dnnl_path(void)
{
    return loaded.path;
}

struct xt_dnnl_version_text xt_dnnl_version_text(void)
{
    struct xt_dnnl_version_text out = {""};
    if (!xt_dnnl.version)
        return out;
    const dnnl_version_t *v = xt_dnnl.version();
    snprintf(out.text, sizeof out.text, "%d.%d.%d", v->major, v->minor, v->patch);
    return out;
}

/* The values of the DNNL_RUNTIME_ macros of oneDNN 3; Level Zero's is newer than the headers. */
enum { RUNTIME_OPENCL = 256, RUNTIME_SYCL = 512, RUNTIME_LEVEL_ZERO = 1024 };

static const char *runtime_name(unsigned runtime)
{
    switch (runtime) {
    case RUNTIME_OPENCL:
        return "OpenCL";
    case RUNTIME_SYCL:
        return "SYCL";
    case RUNTIME_LEVEL_ZERO:
        return "Level Zero";
    default:
        return "none";
    }
}

const char *xt_dnnl_gpu_runtime(void)
{
    return runtime_name(xt_dnnl.version ? xt_dnnl.version()->gpu_runtime : 0);
}

bool xt_dnnl_is_experimental(void)
{
    unsigned runtime = xt_dnnl.version ? xt_dnnl.version()->gpu_runtime : 0;
    return runtime == RUNTIME_OPENCL || runtime == RUNTIME_LEVEL_ZERO;
}

bool xt_dnnl_runs_opencl(void)
{
    return xt_dnnl.version && xt_dnnl.version()->gpu_runtime == RUNTIME_OPENCL;
}

xt_dnnl_opencl_memory *xt_dnnl_find_opencl_memory(void)
{
    xt_dnnl_opencl_memory *create = NULL;
    if (!xt_dnnl_runs_opencl())
        return NULL;
    void *symbol = xt_dnnl_symbol("dnnl_ocl_interop_memory_create");
    memcpy(&create, &symbol, sizeof create);
    return create;
}

void *xt_dnnl_symbol(const char *name)
{
    return loaded.library ? dlsym(loaded.library, name) : NULL;
}

/* Missing in older headers. */
union deterministic {
    void *symbol;
    dnnl_status_t (*set)(dnnl_primitive_attr_t attr, int value);
};

static union deterministic find_deterministic(void)
{
    return (union deterministic){.symbol = xt_dnnl_symbol("dnnl_primitive_attr_set_deterministic")};
}

bool xt_dnnl_has_deterministic(void)
{
    return find_deterministic().symbol != NULL;
}

dnnl_status_t xt_dnnl_set_deterministic(dnnl_primitive_attr_t attr)
{
    const union deterministic function = find_deterministic();
    return function.symbol ? function.set(attr, 1) : dnnl_unimplemented;
}

static const char *const function_names[] = {
#define XT_DNNL_NAME(name) "dnnl_" #name,
    XT_DNNL_FUNCTIONS(XT_DNNL_NAME)
#undef XT_DNNL_NAME
};
enum { FUNCTIONS = sizeof function_names / sizeof *function_names };
_Static_assert(sizeof(struct xt_dnnl_table) == FUNCTIONS * sizeof(void *),
               "the table holds one pointer for each name, in the order of the names");

/* The folder of the program, or of the shared library that contains this code; release with
 * free. */
static enum xt_status own_folder(char **out, struct xt_err *err)
{
    Dl_info info;
    struct link_map *map = NULL;
    char path[PATH_MAX];
    if (!dladdr1(&xt_dnnl, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || !*map->l_name ||
        !realpath(map->l_name, path))
        return xt_file_program_folder(out, err);
    return xt_file_folder_of(out, path, err);
}

/* `folder`/`name` into `path` if that file exists. */
static bool is_at(const char *folder, const char *name, char *path, size_t room)
{
    int length = snprintf(path, room, "%s/%s", folder, name);
    return length > 0 && (size_t)length < room && xt_file_exists(path);
}

/* The first of `places` (NULL-terminated) that exists, relative to our own folder, into `path`;
 * else "". */
static enum xt_status search(const char *const *places, char *path, size_t room, struct xt_err *err)
{
    char *folder = NULL;
    enum xt_status status = own_folder(&folder, err);
    bool found = false;
    for (; *places && !found && !status; places++)
        found = is_at(folder, *places, path, room);
    free(folder);
    if (!found)
        *path = '\0';
    return status;
}

/* In the build tree, also for build/tests/GROUP; and installed. */
static const char *const guard_places[] = {
    "libxtrain_guard.so",
    "../libxtrain_guard.so",
    "../../libxtrain_guard.so",
    "../lib/xtrain/libxtrain_guard.so",
    NULL,
};

static enum xt_status guard(struct xt_dnnl_table *table, struct xt_err *err)
{
    char path[PATH_MAX];
    enum xt_status status = search(guard_places, path, sizeof path, err);
    if (status)
        return status;
    void *library = *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct xt_catcher *catcher = library ? dlsym(library, XT_CATCHER_SYMBOL) : NULL;
    if (!catcher || catcher->version != XT_CATCHER_VERSION)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "libxtrain_guard.so, which catches the errors of a GPU's driver, %s: %s; "
                          "run \"make\" and install again",
                          *path ? "cannot be used" : "is not here",
                          !*path    ? "neither beside the program nor in ../lib/xtrain"
                          : library ? "it belongs to another version of xtrain"
                                    : dlerror());
    xt_guard_begin(table, catcher);
    return XT_OK;
}

static enum xt_status bind(void *library, enum xt_dnnl_build build, const char *path,
                           struct xt_err *err)
{
    struct xt_dnnl_table table;
    for (size_t i = 0; i < FUNCTIONS; i++) {
        void *symbol = dlsym(library, function_names[i]);
        if (!symbol)
            return xt_err_set(err, XT_ERR_DEVICE,
                              "%s has no function %s: it is not oneDNN 3.2 or later; run \"make "
                              "deps\" for one",
                              path, function_names[i]);
        memcpy((char *)&table + i * sizeof symbol, &symbol, sizeof symbol);
    }
    const dnnl_version_t *version = table.version();
    if (version->major != 3)
        return xt_err_set(err, XT_ERR_DEVICE, "%s is oneDNN %d.%d; 3.2 or a later 3.x is needed",
                          path, version->major, version->minor);
    unsigned runtime = version->gpu_runtime;
    if (build == XT_DNNL_GPU && strcmp(runtime_name(runtime), "none") == 0)
        return xt_err_set(
            err, XT_ERR_DEVICE,
            "%s is oneDNN %d.%d without a runtime for Intel GPUs (gpu_runtime %u); run "
            "\"make deps XPU=1\", or set XTRAIN_DNNL_XPU to a library that has one",
            path, version->major, version->minor, runtime);
    enum xt_status status = XT_OK;
    if (build == XT_DNNL_GPU)
        status = guard(&table, err);
    if (!status)
        xt_dnnl = table;
    return status;
}

static void remember(void *library, enum xt_dnnl_build build, const char *asked)
{
    Dl_info info;
    void *symbol = NULL;
    memcpy(&symbol, &xt_dnnl.version, sizeof symbol);
    const char *found = dladdr(symbol, &info) && info.dli_fname ? info.dli_fname : asked;
    if (!realpath(found, loaded.path))
        snprintf(loaded.path, sizeof loaded.path, "%s", found);
    loaded.library = library;
    loaded.build = build;
}

/* The folders in which oneAPI has the dependencies of its oneDNN. */
static const char *const oneapi_folders[] = {
    "/opt/intel/oneapi/compiler/latest/lib",
    "/opt/intel/oneapi/tbb/latest/lib",
    "/opt/intel/oneapi/umf/latest/lib",
    "/opt/intel/oneapi/tcm/latest/lib",
    NULL,
};

/* The library's dependencies, and those of the OpenCL loader beside it: SYCL opens that one with
 * dlopen, and it does not name the folder of its dependencies either. */
static void load_neighbours(const char *path)
{
    char loader[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash - path) : 0;
    xt_neighbours_load(path, oneapi_folders);
    if (snprintf(loader, sizeof loader, "%.*s/libOpenCL.so.1", length, path) < (int)sizeof loader)
        xt_neighbours_load(loader, oneapi_folders);
}

/* ---- out of memory ---- */

void xt_dnnl_on_no_memory(void (*handler)(void))
{
    loaded.no_memory = handler;
}

/* The exception that ends the process, by the C++ ABI: a type's second word is its name. */
static void on_terminate(void)
{
    const char *const *(*current)(void) = NULL;
    void *symbol = dlsym(loaded.library, "__cxa_current_exception_type");
    memcpy(&current, &symbol, sizeof symbol);
    const char *const *type = current ? current() : NULL;
    if (type && strcmp(type[1], "St9bad_alloc") == 0)
        loaded.no_memory();
    signal(SIGABRT, SIG_DFL);
    raise(SIGABRT);
}

static void watch_memory(void *library)
{
    void (*(*set)(void (*handler)(void)))(void) = NULL;
    void *symbol = loaded.no_memory ? dlsym(library, "_ZSt13set_terminatePFvvE") : NULL;
    memcpy(&set, &symbol, sizeof symbol);
    if (set)
        set(on_terminate);
}

/* What a loader says where there is no room. */
static bool lacks_memory(const char *why)
{
    return strstr(why, "failed to map segment") || strstr(why, "annot allocate memory");
}

/* A library's constructors may crash where memory runs out in them: there has to be some beside
 * what the file takes. */
static const char *lack_of_room(const char *path)
{
    enum { BESIDE = 24 << 20 };
    struct stat st;
    unsigned long long left = xt_thread_address_left();
    bool lacks = left && stat(path, &st) == 0 && left < (unsigned long long)st.st_size + BESIDE;
    return lacks ? "cannot allocate memory for it" : NULL;
}

static enum xt_status cannot_load(const char *path, const char *why, struct xt_err *err)
{
    if (lacks_memory(why))
        return xt_err_set(err, XT_ERR_MEMORY,
                          "out of memory: the oneDNN library %s cannot be loaded: %s; this process "
                          "may have %.2f GB (ulimit -v, the cgroup)",
                          path, why, (double)xt_thread_memory_limit() / 1e9);
    return xt_err_set(err, XT_ERR_DEVICE, "the oneDNN library %s cannot be loaded: %s", path, why);
}

static enum xt_status open_library(const char *path, enum xt_dnnl_build build, struct xt_err *err)
{
    if (build == XT_DNNL_GPU)
        load_neighbours(path);
    const char *lack = lack_of_room(path);
    void *library = lack ? NULL : xt_openmp_open(path);
    if (!library)
        return cannot_load(path, lack ? lack : dlerror(), err);
    enum xt_status status = bind(library, build, path, err);
    if (status) {
        dlclose(library);
        return status;
    }
    remember(library, build, path);
    if (build == XT_DNNL_CPU)
        watch_memory(library);
    xt_openmp_use(library);
    return XT_OK;
}

/* Beside the installed program; in the build tree, also for build/tests/GROUP and sanitizer
 * builds. */
static const char *const cpu_places[] = {
    "../lib/xtrain/libdnnl.so.3",
    "../deps/dnnl/lib/libdnnl.so.3",
    "../../deps/dnnl/lib/libdnnl.so.3",
    "../../../deps/dnnl/lib/libdnnl.so.3",
    "../../../../deps/dnnl/lib/libdnnl.so.3",
    NULL,
};
static const char *const gpu_places[] = {
    "../lib/xtrain-xpu/libdnnl.so.3",        "../deps/xpu/lib/libdnnl.so.3",
    "../../deps/xpu/lib/libdnnl.so.3",       "../../../deps/xpu/lib/libdnnl.so.3",
    "../../../../deps/xpu/lib/libdnnl.so.3", NULL,
};

enum xt_status xt_dnnl_find(enum xt_dnnl_build build, char *path, size_t room, struct xt_err *err)
{
    const char *given = getenv(build == XT_DNNL_GPU ? "XTRAIN_DNNL_XPU" : "XTRAIN_DNNL");
    const char *oneapi = getenv("DNNLROOT");
    snprintf(path, room, "%s", given && *given ? given : "");
    if (*path)
        return XT_OK;
    enum xt_status status = search(build == XT_DNNL_GPU ? gpu_places : cpu_places, path, room, err);
    bool found =
        *path || (build == XT_DNNL_GPU &&
                  ((oneapi && is_at(oneapi, "lib/libdnnl.so.3", path, room)) ||
                   is_at("/opt/intel/oneapi/dnnl/latest", "lib/libdnnl.so.3", path, room)));
    if (!found)
        snprintf(path, room, "libdnnl.so.3");
    return status;
}

static enum xt_status not_found(enum xt_dnnl_build build, struct xt_err *err)
{
    if (build == XT_DNNL_GPU)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "an Intel GPU needs oneDNN's GPU build, and it was not found: not in "
                          "../lib/xtrain-xpu beside the program, not in deps/xpu, not in oneAPI; "
                          "run \"make deps XPU=1\", or set XTRAIN_DNNL_XPU to the file");
    return xt_err_set(err, XT_ERR_DEVICE,
                      "no oneDNN library was found: not in ../lib/xtrain beside the program, not "
                      "in deps/dnnl, not as the system's libdnnl.so.3; run \"make deps\", install "
                      "libdnnl 3, or set XTRAIN_DNNL to the file");
}

/* The system's library, also under Debian's name: libdnnl.so.3.6 is oneDNN 3.7 there. */
static bool open_system(enum xt_dnnl_build build)
{
    enum { NEWEST_MINOR = 40, OLDEST_MINOR = 2 };
    bool found = open_library("libdnnl.so.3", build, NULL) == XT_OK;
    for (int minor = NEWEST_MINOR; minor >= OLDEST_MINOR && !found; minor--) {
        char name[32];
        snprintf(name, sizeof name, "libdnnl.so.3.%d", minor);
        found = open_library(name, build, NULL) == XT_OK;
    }
    return found;
}

static enum xt_status load(enum xt_dnnl_build build, struct xt_err *err)
{
    if (loaded.library && loaded.build != build)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "this process runs on oneDNN's %s build (%s); the other device needs a "
                          "process of its own",
                          loaded.build == XT_DNNL_GPU ? "GPU" : "CPU", loaded.path);
    if (loaded.library)
        return XT_OK;
    char path[PATH_MAX];
    enum xt_status status = xt_dnnl_find(build, path, sizeof path, err);
    if (status)
        return status;
    /* The system's is the last resort; if it cannot be used, the advice is to install one. */
    if (strcmp(path, "libdnnl.so.3") != 0)
        return open_library(path, build, err);
    return open_system(build) ? XT_OK : not_found(build, err);
}

enum xt_status xt_dnnl_load(enum xt_dnnl_build build, struct xt_err *err)
{
    pthread_mutex_lock(&loaded.lock);
    enum xt_status status = load(build, err);
    pthread_mutex_unlock(&loaded.lock);
    return status;
}

enum xt_status xt_dnnl_failed(const char *said, dnnl_status_t failure, const char *what,
                              struct xt_err *err)
{
    char op[128];
    enum xt_status status =
        *said
            ? xt_err_set(err, XT_ERR_DEVICE, "%s: the driver says: %s", what, said)
            : xt_err_set(err, XT_ERR_DEVICE, "oneDNN failed in %s (status %d)", what, (int)failure);
    xt_guard_last_op(op, sizeof op);
    if (err && xt_guard_is_lost() && *op && !strstr(op, what))
        xt_str_append_to(err->text, sizeof err->text, "; the last op submitted: %s", op);
    if (err && strstr(said, "OUT_OF_RESOURCES"))
        xt_str_append_to(err->text, sizeof err->text,
                         " (a driver also says so where memory runs out: then a smaller --batch "
                         "helps)");
    return status;
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
        return xt_dnnl_failed(xt_guard_said(), status, what, err);
    }
}

const char *xt_dnnl_implementation(const_dnnl_primitive_desc_t pd)
{
    const char *name = "";
    if (xt_dnnl.primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) != dnnl_success)
        return "";
    return name;
}

dnnl_data_type_t xt_dtype_dnnl(enum xt_dtype dtype)
{
    static const dnnl_data_type_t types[XT_DTYPE_COUNT] = {
        [XT_F32] = dnnl_f32, [XT_BF16] = dnnl_bf16, [XT_F16] = dnnl_f16,
        [XT_S8] = dnnl_s8,   [XT_U8] = dnnl_u8,
    };
    return types[dtype];
}
