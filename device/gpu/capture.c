#include "device/gpu/capture.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/gpu/host_gpu.h"

const char *const xt_capture_names[] = {
    "none",    "a770",    "a750", "a580", "a380",  "a310",  "flex170", "flex140",
    "max1550", "max1100", "dg1",  "tgl",  "adl-p", "adl-s", NULL,
};

/* The driver's name of the architecture; slices, subslices in each, execution units in each; the
 * PCI device id; the production revision, if it is known (else the driver uses the first), which is
 * part of the driver's cache key. */
struct gpu {
    const char *title;
    const char *product;
    const char *config;
    uint32_t device;
    int revision;
};

static const struct gpu gpus[XT_CAPTURE_COUNT] = {
    [XT_CAPTURE_A770] = {"Arc A770", "dg2", "8x4x16", 0x56a0, 8},
    [XT_CAPTURE_A750] = {"Arc A750", "dg2", "7x4x16", 0x56a1, 8},
    [XT_CAPTURE_A580] = {"Arc A580", "dg2", "6x4x16", 0x56a2, 8},
    [XT_CAPTURE_A380] = {"Arc A380", "dg2", "2x4x16", 0x56a5, 5},
    [XT_CAPTURE_A310] = {"Arc A310", "dg2", "2x3x16", 0x56a6, 5},
    [XT_CAPTURE_FLEX170] = {"Data Center GPU Flex 170", "dg2", "8x4x16", 0x56c0, 8},
    [XT_CAPTURE_FLEX140] = {"Data Center GPU Flex 140", "dg2", "2x4x16", 0x56c1, 5},
    [XT_CAPTURE_MAX1550] = {"Data Center GPU Max 1550 (a tile)", "pvc", "8x8x8", 0x0bd5, 7},
    [XT_CAPTURE_MAX1100] = {"Data Center GPU Max 1100", "pvc", "7x8x8", 0x0bda, 7},
    [XT_CAPTURE_DG1] = {"Iris Xe MAX", "dg1", "1x6x16", 0x4905, -1},
    [XT_CAPTURE_TGL] = {"Iris Xe of Tiger Lake", "tgllp", "1x6x16", 0x9a49, -1},
    [XT_CAPTURE_ADLP] = {"Iris Xe of Alder Lake-P", "adlp", "1x6x16", 0x46a6, -1},
    [XT_CAPTURE_ADLS] = {"UHD 770 of Alder Lake-S", "adls", "1x2x16", 0x4680, -1},
};

struct xt_capture_title xt_capture_title(enum xt_capture_gpu gpu)
{
    struct xt_capture_title title;
    snprintf(title.text, sizeof title.text, "%.48s (0x%04x)", gpus[gpu].title,
             (unsigned)gpus[gpu].device);
    return title;
}

/* The driver's file, which the user may have set. */
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

enum xt_status xt_capture_begin(enum xt_capture_gpu gpu, struct xt_err *err)
{
    const struct gpu *to = &gpus[gpu];
    char path[PATH_MAX];
    char text[24];
    if (!find_driver(path, sizeof path))
        return xt_err_set(err, XT_ERR_DEVICE,
                          "--for-gpu %s: Intel's OpenCL driver, which compiles for a GPU that is "
                          "not here, is not installed: install intel-opencl-icd (Debian 12, "
                          "Ubuntu) or intel-opencl (Fedora, RHEL)",
                          xt_capture_names[gpu]);
    setenv("NEOReadDebugKeys", "1", 1);
    setenv("ProductFamilyOverride", to->product, 1);
    setenv("HardwareInfoOverride", to->config, 1);
    snprintf(text, sizeof text, "0x%04x", (unsigned)to->device);
    setenv("ForceDeviceId", text, 1);
    unsetenv("OverrideRevision");
    snprintf(text, sizeof text, "%d", to->revision);
    if (to->revision >= 0)
        setenv("OverrideRevision", text, 1);
    /* Commands for the GPU are written to a file, here /dev/null: it grows with every upload. */
    setenv("SetCommandStreamReceiver", "1", 1);
    setenv("AUBDumpCaptureFileName", "/dev/null", 1);
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
    char *end = NULL;
    if (!reads || strcmp(reads, "1") != 0 || !forced)
        return false;
    unsigned long id = strtoul(forced, &end, 16);
    if (end == forced || *end || id == 0 || id > 0xffff)
        return false;
    *device = (uint32_t)id;
    return true;
}

enum xt_status xt_capture_check(enum xt_capture_gpu gpu, uint32_t device, struct xt_err *err)
{
    if (device == gpus[gpu].device)
        return XT_OK;
    return xt_err_set(
        err, XT_ERR_DEVICE,
        "--for-gpu %s: the OpenCL driver here does not take itself for an %s but "
        "opens a GPU 0x%04x: only Intel's driver of its 22.43 releases (Debian 12) is "
        "known to",
        xt_capture_names[gpu], xt_capture_title(gpu).text, (unsigned)device);
}
