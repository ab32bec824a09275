#include "device/xpu.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/gpu/opencl.h"

/* --- the backend of an engine ---------------------------------------------------------------- */
enum backend { BACKEND_UNKNOWN, BACKEND_OPENCL, BACKEND_LEVEL_ZERO };

struct native {
    enum backend backend;
    uint64_t handle; /* a cl_device_id or a ze_device_handle_t */
};

typedef dnnl_status_t get_device(dnnl_engine_t engine, void **device);
typedef uint64_t sycl_get_native(const void *device);
typedef unsigned char sycl_get_backend(const void *device); /* an enum of type char */

/* sycl::device's own methods, called by their mangled names: oneDNN's C interface returns a
 * sycl::device, and only these identify the device. */
static void native_of_sycl(const void *device, struct native *out)
{
    enum { SYCL_OPENCL = 1, SYCL_LEVEL_ZERO = 2 }; /* of sycl::backend */
    void *native_symbol = xt_dnnl_symbol("_ZNK4sycl3_V16device9getNativeEv");
    void *backend_symbol = xt_dnnl_symbol("_ZNK4sycl3_V16device11get_backendEv");
    sycl_get_native *get_native = NULL;
    sycl_get_backend *get_backend = NULL;
    if (!native_symbol || !backend_symbol)
        return;
    memcpy(&get_native, &native_symbol, sizeof get_native);
    memcpy(&get_backend, &backend_symbol, sizeof get_backend);
    unsigned backend = get_backend(device);
    if (backend == SYCL_OPENCL)
        out->backend = BACKEND_OPENCL;
    else if (backend == SYCL_LEVEL_ZERO)
        out->backend = BACKEND_LEVEL_ZERO;
    else
        return;
    out->handle = get_native(device);
}

static void native_of(dnnl_engine_t engine, struct native *out)
{
    static const struct {
        const char *function;
        enum backend backend; /* UNKNOWN: its handle is a sycl::device */
    } ways[] = {
        {"dnnl_sycl_interop_engine_get_device", BACKEND_UNKNOWN},
        {"dnnl_ze_interop_engine_get_device", BACKEND_LEVEL_ZERO},
        {"dnnl_ocl_interop_get_device", BACKEND_OPENCL},
    };
    *out = (struct native){0};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        void *symbol = xt_dnnl_symbol(ways[i].function);
        void *device = NULL;
        get_device *get = NULL;
        if (!symbol)
            continue;
        memcpy(&get, &symbol, sizeof get);
        if (get(engine, &device) != dnnl_success || !device)
            continue;
        if (ways[i].backend == BACKEND_UNKNOWN)
            native_of_sycl(device, out);
        else
            *out = (struct native){ways[i].backend, (uint64_t)(uintptr_t)device};
        return;
    }
}

static void describe(const struct native *native, const struct xt_level_zero *zero,
                     struct xt_xpu *xpu)
{
    char version[64];
    xpu->zero_index = -1;
    if (native->backend == BACKEND_OPENCL) {
        snprintf(xpu->backend, sizeof xpu->backend, "OpenCL");
        xpu->shared_memory = xt_opencl_has_shared_memory(native->handle);
        if (xt_opencl_describe(native->handle, &xpu->facts, version, NULL) == XT_OK)
            xpu->zero_index = xt_level_zero_find(zero, &xpu->facts.uuid, &xpu->facts.pci);
    } else if (native->backend == BACKEND_LEVEL_ZERO) {
        snprintf(xpu->backend, sizeof xpu->backend, "Level Zero");
        xpu->zero_index = xt_level_zero_find_handle(zero, native->handle);
        if (xpu->zero_index >= 0)
            xpu->facts = *xt_level_zero_facts(zero, xpu->zero_index);
    }
    if (!*xpu->facts.name)
        snprintf(xpu->facts.name, sizeof xpu->facts.name, "a GPU that does not say its name");
}

void xt_xpu_list(struct xt_xpus *list, const struct xt_level_zero *zero)
{
    *list = (struct xt_xpus){0};
    size_t count = xt_dnnl.engine_get_count(dnnl_gpu);
    for (size_t i = 0; i < count && i < XT_XPUS_MAX; i++) {
        dnnl_engine_t engine = NULL;
        struct native native;
        struct xt_err why = {0};
        struct xt_xpu *xpu = &list->items[list->count++];
        *xpu = (struct xt_xpu){.index = (int)i, .zero_index = -1};
        if (xt_dnnl_check(xt_dnnl.engine_create(&engine, dnnl_gpu, i), "the start of its engine",
                          &why)) {
            snprintf(xpu->broken, sizeof xpu->broken, "%.191s", why.text);
            snprintf(xpu->facts.name, sizeof xpu->facts.name, "a GPU that cannot be opened");
            continue;
        }
        native_of(engine, &native);
        describe(&native, zero, xpu);
        xt_dnnl.engine_destroy(engine);
    }
}

int xt_xpu_working(const struct xt_xpus *list)
{
    int count = 0;
    for (int i = 0; i < list->count; i++)
        count += !*list->items[i].broken;
    return count;
}

/* --- choosing
 * -----------------------------------------------------------------------------------*/
static bool is_hexadecimal(const char *text, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isxdigit((unsigned char)text[i]))
            return false;
    return true;
}

static bool is_uuid(const char *text)
{
    static const size_t groups[] = {8, 4, 4, 4, 12};
    for (size_t i = 0; i < 5; i++) {
        if (strnlen(text, groups[i]) < groups[i] || !is_hexadecimal(text, groups[i]))
            return false;
        text += groups[i];
        if (*text != (i < 4 ? '-' : '\0'))
            return false;
        text++;
    }
    return true;
}

static bool parse_pci(const char *text, struct xt_pci_address *out)
{
    struct xt_pci_address pci = {.known = true};
    int used = 0;
    size_t colons = 0;
    for (const char *p = text; *p; p++)
        colons += *p == ':';
    bool fine = colons == 2 ? sscanf(text, "%4x:%2x:%2x.%1x%n", &pci.domain, &pci.bus, &pci.device,
                                     &pci.function, &used) == 4
                            : sscanf(text, "%2x:%2x.%1x%n", &pci.bus, &pci.device, &pci.function,
                                     &used) == 3;
    if (!fine || text[used] || !isxdigit((unsigned char)*text))
        return false;
    *out = pci;
    return true;
}

static enum xt_status list_them(const struct xt_xpus *list, struct xt_str *out, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < list->count && !status; i++) {
        const struct xt_gpu_facts *facts = &list->items[i].facts;
        struct xt_pci_text pci = xt_pci_format(&facts->pci);
        const char *more = *list->items[i].broken ? list->items[i].broken : pci.text;
        status = xt_str_printf(out, err, "%sxpu:%d is %s%s%s%s", i ? ", " : "", i, facts->name,
                               *more ? " (" : "", more, *more ? ")" : "");
    }
    return status;
}

static enum xt_status refuse(const struct xt_xpus *list, const char *spec, const char *why,
                             struct xt_err *err)
{
    struct xt_str there = {0};
    enum xt_status status = list_them(list, &there, err);
    if (!status)
        status = xt_err_set(err, XT_ERR_DEVICE, "--device %s: %s; here %s", spec, why,
                            xt_str_get(&there));
    xt_str_clear(&there);
    return status;
}

static bool is_better(const struct xt_gpu_facts *a, const struct xt_gpu_facts *b)
{
    if (a->integrated != b->integrated)
        return !a->integrated;
    return a->memory > b->memory;
}

static int best_of(const struct xt_xpus *list)
{
    int best = -1;
    for (int i = 0; i < list->count; i++)
        if (!*list->items[i].broken &&
            (best < 0 || is_better(&list->items[i].facts, &list->items[best].facts)))
            best = i;
    return best;
}

void xt_xpu_better(const struct xt_xpus *list, int chosen, char *text, size_t size)
{
    int best = best_of(list);
    *text = '\0';
    if (best >= 0 && list->items[chosen].facts.integrated && !list->items[best].facts.integrated)
        snprintf(text, size, "xpu:%d is %s", best, list->items[best].facts.name);
}

static bool fits(const struct xt_gpu_facts *facts, const char *text)
{
    struct xt_pci_address pci;
    if (is_uuid(text))
        return facts->uuid.known && strcasecmp(xt_uuid_format(&facts->uuid).text, text) == 0;
    if (parse_pci(text, &pci))
        return facts->pci.known && facts->pci.domain == pci.domain && facts->pci.bus == pci.bus &&
               facts->pci.device == pci.device && facts->pci.function == pci.function;
    return strcasestr(facts->name, text) != NULL;
}

enum xt_status xt_xpu_choose(const struct xt_xpus *list, const char *spec, int *index,
                             struct xt_err *err)
{
    if (list->count == 0)
        return xt_err_set(err, XT_ERR_DEVICE, "--device %s: there is no XPU here", spec);
    if (strcmp(spec, "xpu") == 0) {
        *index = best_of(list);
        return *index >= 0 ? XT_OK : refuse(list, spec, "no XPU can be opened", err);
    }
    const char *text = xt_str_starts(spec, "xpu:") ? spec + 4 : spec;
    if (*text && text[strspn(text, "0123456789")] == '\0') {
        long number = strtol(text, NULL, 10);
        if (number < 0 || number >= list->count)
            return refuse(list, spec, "there is no XPU of that number", err);
        *index = (int)number;
        return *list->items[number].broken ? refuse(list, spec, "this XPU cannot be opened", err)
                                           : XT_OK;
    }
    int found = 0;
    for (int i = 0; i < list->count && *text; i++)
        if (!*list->items[i].broken && fits(&list->items[i].facts, text)) {
            *index = i;
            found++;
        }
    if (found == 1)
        return XT_OK;
    return refuse(list, spec,
                  found ? "that fits more than one XPU: say its number, UUID or PCI address"
                        : "no XPU has that name, UUID or PCI address",
                  err);
}

/* --- architectures
 * ------------------------------------------------------------------------------*/
struct xt_architecture xt_xpu_architecture(const struct xt_gpu_facts *facts)
{
    static const struct {
        unsigned major, minor_from, minor_to;
        struct xt_architecture is;
    } by_version[] = {
        {12, 0, 10, {"Xe-LP", "3.0", XT_NO}},          {12, 50, 50, {"Xe-HP", NULL, XT_YES}},
        {12, 55, 57, {"Xe-HPG", "3.0", XT_YES}},       {12, 60, 60, {"Xe-HPC", "3.0", XT_YES}},
        {12, 61, 61, {"Xe-HPC", "3.0", XT_NOT_KNOWN}}, {12, 70, 71, {"Xe-LPG", "3.3", XT_NO}},
        {12, 72, 73, {"Xe-LPG", "3.3", XT_NOT_KNOWN}}, {12, 74, 74, {"Xe-LPG", "3.3", XT_YES}},
        {20, 0, 99, {"Xe2", "3.6", XT_YES}},           {30, 0, 9, {"Xe3", "3.8", XT_YES}},
        {30, 10, 99, {"Xe3p", "3.12", XT_YES}},        {35, 0, 99, {"Xe3p", "3.12", XT_YES}},
    };
    /* By the high byte of the PCI device id, if the driver reports no version, or in the format of
     * drivers of 2022. */
    static const struct {
        unsigned id;
        struct xt_architecture is;
    } by_id[] = {
        {0x0b, {"Xe-HPC", "3.0", XT_NOT_KNOWN}}, {0x49, {"Xe-LP", "3.0", XT_NO}},
        {0x4c, {"Xe-LP", "3.0", XT_NO}},         {0x46, {"Xe-LP", "3.0", XT_NO}},
        {0x56, {"Xe-HPG", "3.0", XT_YES}},       {0x64, {"Xe2", "3.6", XT_YES}},
        {0x7d, {"Xe-LPG", "3.3", XT_NOT_KNOWN}}, {0x9a, {"Xe-LP", "3.0", XT_NO}},
        {0xa7, {"Xe-LP", "3.0", XT_NO}},         {0xb0, {"Xe3", "3.8", XT_YES}},
        {0xe2, {"Xe2", "3.6", XT_YES}},
    };
    unsigned major = facts->ip_version >> 22;
    unsigned minor = facts->ip_version >> 14 & 0xff;
    for (size_t i = 0; facts->ip_version && i < sizeof by_version / sizeof *by_version; i++)
        if (by_version[i].major == major && minor >= by_version[i].minor_from &&
            minor <= by_version[i].minor_to)
            return by_version[i].is;
    for (size_t i = 0; i < sizeof by_id / sizeof *by_id; i++)
        if (by_id[i].id == facts->device_id >> 8)
            return by_id[i].is;
    return (struct xt_architecture){NULL, NULL, XT_NOT_KNOWN};
}

bool xt_xpu_is_before(const char *version, const char *since)
{
    int have[2] = {0};
    int need[2] = {0};
    return sscanf(version, "%d.%d", &have[0], &have[1]) == 2 &&
           sscanf(since, "%d.%d", &need[0], &need[1]) == 2 &&
           (have[0] < need[0] || (have[0] == need[0] && have[1] < need[1]));
}

enum xt_status xt_xpu_masks(struct xt_str *out, struct xt_err *err)
{
    static const char *const names[] = {
        "ZE_AFFINITY_MASK",       "ZE_FLAT_DEVICE_HIERARCHY",
        "ONEAPI_DEVICE_SELECTOR", "SYCL_UR_USE_LEVEL_ZERO_V2",
        "ZE_ENABLE_ALT_DRIVERS",  "OCL_ICD_FILENAMES",
        "OCL_ICD_VENDORS",        "OPENCL_LAYERS",
        "NEOReadDebugKeys",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        if (value)
            xt_str_printf(out, NULL, "%s%s=%s", out->length ? ", " : "", names[i], value);
    }
    return xt_str_check(out, err);
}
