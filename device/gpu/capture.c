#include "device/gpu/capture.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/str.h"
#include "base/system/reexec.h"
#include "device/gpu/host_gpu.h"

/* The option's name; what it is; the driver's name of the family; slices, subslices in each,
 * execution units in each; the PCI device id; the production revision where it is known (else the
 * driver uses the first), which is part of the driver's cache key; the first driver that was found
 * to open it. A family's name means its largest GPU. */
#define GPUS(X)                                                                                    \
    X("a770", "Arc A770", "dg2", "8x4x16", 0x56a0, 8, 22.43)                                       \
    X("a750", "Arc A750", "dg2", "7x4x16", 0x56a1, 8, 22.43)                                       \
    X("a580", "Arc A580", "dg2", "6x4x16", 0x56a2, 8, 22.43)                                       \
    X("a380", "Arc A380", "dg2", "2x4x16", 0x56a5, 5, 22.43)                                       \
    X("a310", "Arc A310", "dg2", "2x3x16", 0x56a6, 5, 22.43)                                       \
    X("flex170", "Data Center GPU Flex 170", "dg2", "8x4x16", 0x56c0, 8, 22.43)                    \
    X("flex140", "Data Center GPU Flex 140", "dg2", "2x4x16", 0x56c1, 5, 22.43)                    \
    X("dg2", "Arc A770", "dg2", "8x4x16", 0x56a0, 8, 22.43)                                        \
    X("b580", "Arc B580", "bmg", "5x4x8", 0xe20b, -1, 26.27)                                       \
    X("b570", "Arc B570", "bmg", "5x4x8", 0xe20c, -1, 26.27)                                       \
    X("bmg", "Arc B580", "bmg", "5x4x8", 0xe20b, -1, 26.27)                                        \
    X("max1550", "Data Center GPU Max 1550 (a tile)", "pvc", "8x8x8", 0x0bd5, 7, 22.43)            \
    X("max1100", "Data Center GPU Max 1100", "pvc", "7x8x8", 0x0bda, 7, 22.43)                     \
    X("pvc", "Data Center GPU Max 1550 (a tile)", "pvc", "8x8x8", 0x0bd5, 7, 22.43)                \
    X("mtl", "Arc Graphics of Meteor Lake-H", "mtl", "2x4x16", 0x7d55, -1, 26.27)                  \
    X("arl", "Arc Graphics of Arrow Lake-H", "arl", "2x4x16", 0x7d51, -1, 26.27)                   \
    X("lnl", "Arc 140V of Lunar Lake", "lnl", "2x4x8", 0x64a0, -1, 26.27)                          \
    X("ptl", "Arc of Panther Lake", "ptl", "2x6x8", 0xb080, -1, 26.27)                             \
    X("dg1", "Iris Xe MAX", "dg1", "1x6x16", 0x4905, -1, 22.43)                                    \
    X("tgl", "Iris Xe of Tiger Lake", "tgllp", "1x6x16", 0x9a49, -1, 22.43)                        \
    X("adl-p", "Iris Xe of Alder Lake-P", "adlp", "1x6x16", 0x46a6, -1, 22.43)                     \
    X("adl-s", "UHD 770 of Alder Lake-S", "adls", "1x2x16", 0x4680, -1, 22.43)

struct gpu {
    const char *name;
    const char *title;
    const char *product;
    const char *config;
    uint32_t device;
    int revision;
    double since;
};

#define ROW(...) {__VA_ARGS__},
#define NAME(name, ...) name,
static const struct gpu gpus[] = {GPUS(ROW)};
const char *const xt_capture_names[] = {"none", GPUS(NAME) NULL};
enum { GPU_COUNT = sizeof gpus / sizeof *gpus };

static const struct gpu *known(uint32_t device)
{
    for (int i = 0; i < GPU_COUNT; i++)
        if (gpus[i].device == device)
            return &gpus[i];
    return NULL;
}

/* The named GPU of that id; one of the same family where the table lacks the id; else NULL. Arrow
 * Lake's ids are among those of Meteor Lake, and Alder Lake's are not told apart. */
static const struct gpu *relative(uint32_t device)
{
    static const uint32_t arrow_lake[] = {0x7d41, 0x7d51, 0x7d67, 0x7dd1};
    static const uint32_t families[] = {0x56a0, 0xe20b, 0x0bd5, 0x7d55,
                                        0x64a0, 0xb080, 0x4905, 0x9a49};
    const struct gpu *found = known(device);
    for (size_t i = 0; i < sizeof arrow_lake / sizeof *arrow_lake && !found; i++)
        if (device == arrow_lake[i])
            found = known(0x7d51);
    for (size_t i = 0; i < sizeof families / sizeof *families && !found; i++)
        if (device >> 8 == families[i] >> 8)
            found = known(families[i]);
    return found;
}

/* "0xe20b"; 0: not that. */
static uint32_t parse_id(const char *text)
{
    char *end = NULL;
    unsigned long id = strtoul(text, &end, 16);
    return end == text || *end || id > 0xffff ? 0 : (uint32_t)id;
}

bool xt_capture_find(const char *name, uint32_t *device)
{
    uint32_t id = xt_str_starts(name, "0x") ? parse_id(name) : 0;
    *device = id && relative(id) ? id : 0;
    for (int i = 0; i < GPU_COUNT && !*device; i++)
        if (strcmp(gpus[i].name, name) == 0)
            *device = gpus[i].device;
    return *device || strcmp(name, xt_capture_names[0]) == 0;
}

struct xt_capture_title xt_capture_name(uint32_t device)
{
    struct xt_capture_title name = {.text = "none"};
    const struct gpu *gpu = known(device);
    if (gpu)
        snprintf(name.text, sizeof name.text, "%s", gpu->name);
    else if (device)
        snprintf(name.text, sizeof name.text, "0x%04x", (unsigned)device);
    return name;
}

struct xt_capture_title xt_capture_title(uint32_t device)
{
    struct xt_capture_title title;
    const struct gpu *gpu = known(device);
    const struct gpu *family = relative(device);
    if (gpu)
        snprintf(title.text, sizeof title.text, "%.48s (0x%04x)", gpu->title, (unsigned)device);
    else
        snprintf(title.text, sizeof title.text, "0x%04x of the %s family", (unsigned)device,
                 family ? family->product : "same");
    return title;
}

/* ---- the driver ---- */

/* The installed driver's file, or the one that the user has set. */
static bool find_driver(char *path, size_t size)
{
    const char *given = getenv("OCL_ICD_FILENAMES");
    if (given)
        return access(given, R_OK) == 0 || strpbrk(given, ":,");
    if (!xt_host_gpu_find_library("", "intel-opencl/libigdrcl.so", path, size))
        return false;
    setenv("OCL_ICD_FILENAMES", path, 1);
    return true;
}

/* --driver has set both variables: its folder, and the driver in it. */
const char *xt_capture_driver_root(void)
{
    const char *folder = getenv("OCL_ICD_VENDORS");
    const char *driver = getenv("OCL_ICD_FILENAMES");
    return folder && driver && xt_str_starts(driver, folder) ? folder : "";
}

/* A driver's packages bring the C library that they were built with, which is loaded by a dynamic
 * loader of its own version; packages without one run by the system's. */
static bool find_loader(const char *folder, const char *libraries, char *path, size_t size)
{
    static const char name[] = "ld-linux-x86-64.so.2";
    char real[PATH_MAX];
    snprintf(path, size, "%s/%s", libraries, name);
    if (access(path, X_OK))
        snprintf(path, size, "%s/lib64/%s", folder, name);
    if (access(path, X_OK))
        snprintf(path, size, "/lib64/%s", name);
    return realpath(path, real) && (size_t)snprintf(path, size, "%s", real) < size;
}

/* Takes the driver of unpacked packages: by its own dynamic loader, once. */
static enum xt_status use_driver(const char *folder, struct xt_err *err)
{
    char file[PATH_MAX];
    char real[PATH_MAX] = "";
    char outer[PATH_MAX] = "";
    char loader[PATH_MAX + 64];
    char running[PATH_MAX] = "";
    char variable[PATH_MAX + 32];
    if (!realpath(folder, outer) ||
        !xt_host_gpu_find_library(outer, "intel-opencl/libigdrcl.so", file, sizeof file) ||
        !realpath(file, real))
        return xt_err_set(
            err, XT_ERR_DEVICE,
            "--driver %s: no intel-opencl/libigdrcl.so in its usr/lib: unpack Intel's OpenCL "
            "driver and the packages that it needs there, each by \"dpkg-deb -x FILE.deb %s\"",
            folder, folder);
    snprintf(variable, sizeof variable, "OCL_ICD_FILENAMES=%s", real);
    setenv("OCL_ICD_FILENAMES", real, 1);
    /* And no other driver beside it. */
    setenv("OCL_ICD_VENDORS", outer, 1);
    *strrchr(real, '/') = '\0';
    *strrchr(real, '/') = '\0';
    if (!find_loader(outer, real, loader, sizeof loader))
        return xt_err_set(err, XT_ERR_DEVICE, "--driver %s: this system has no dynamic loader %s",
                          folder, loader);
    ssize_t length = readlink("/proc/self/exe", running, sizeof running - 1);
    if (length > 0 && strcmp(running, loader) == 0)
        return XT_OK;
    enum xt_status status = xt_reexec_by_loader(loader, real, variable, err);
    return status
               ? status
               : xt_err_set(err, XT_ERR_DEVICE, "--driver: %s could not run this program", loader);
}

enum xt_status xt_capture_begin(uint32_t device, const char *driver, struct xt_err *err)
{
    const struct gpu *to = relative(device);
    char path[PATH_MAX];
    char text[24];
    enum xt_status status = driver ? use_driver(driver, err) : XT_OK;
    if (status)
        return status;
    if (!to || !find_driver(path, sizeof path))
        return xt_err_set(
            err, XT_ERR_DEVICE,
            "--for-gpu %s: Intel's OpenCL driver, which compiles for a GPU that is not here, is "
            "not installed: install intel-opencl-icd (Debian, Ubuntu) or intel-opencl (Fedora, "
            "RHEL), or name a folder of its unpacked packages by --driver",
            xt_capture_name(device).text);
    setenv("NEOReadDebugKeys", "1", 1);
    setenv("ProductFamilyOverride", to->product, 1);
    setenv("HardwareInfoOverride", to->config, 1);
    snprintf(text, sizeof text, "0x%04x", (unsigned)device);
    setenv("ForceDeviceId", text, 1);
    unsetenv("OverrideRevision");
    snprintf(text, sizeof text, "%d", to->revision);
    if (to->revision >= 0)
        setenv("OverrideRevision", text, 1);
    /* Commands for the GPU are written to a file, here /dev/null: it grows with every upload. */
    setenv("SetCommandStreamReceiver", "1", 1);
    setenv("AUBDumpCaptureFileName", "/dev/null", 1);
    /* The library that newer drivers would write it by crashes. */
    setenv("UseAubStream", "0", 1);
    /* No event is ever completed, and PVC waits for the time stamps. */
    setenv("EnableTimestampWaitForEvents", "0", 1);
    setenv("EnableTimestampWaitForQueues", "0", 1);
    /* The Level Zero driver has no such mode. */
    setenv("ONEAPI_DEVICE_SELECTOR", "opencl:gpu", 1);
    return XT_OK;
}

bool xt_capture_device(uint32_t *device)
{
    const char *reads = getenv("NEOReadDebugKeys");
    const char *forced = getenv("ForceDeviceId");
    if (!reads || strcmp(reads, "1") != 0 || !forced || !parse_id(forced))
        return false;
    *device = parse_id(forced);
    return true;
}

enum xt_status xt_capture_check(uint32_t device, uint32_t opened, const char *driver,
                                struct xt_err *err)
{
    const struct gpu *to = relative(device);
    if (device == opened && to && strtod(driver, NULL) >= to->since)
        return XT_OK;
    return xt_err_set(
        err, XT_ERR_DEVICE,
        "--for-gpu %s: the OpenCL driver here (%s) opens a GPU 0x%04x; one of %.2f or later "
        "compiles for %s: install it, or name a folder of its unpacked packages by --driver",
        xt_capture_name(device).text, driver, (unsigned)opened, to ? to->since : 0,
        xt_capture_title(device).text);
}
