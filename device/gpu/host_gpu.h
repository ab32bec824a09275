/* Intel GPUs according to the operating system, with no driver library loaded: the PCI bus, render
 * nodes, whether this user may open them, WSL's /dev/dxg, and the files of the user-space drivers.
 *
 * `root` is a prefix of every path ("" for the machine itself), so that a test can use a tree of
 * its own. Stateless, thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { XT_RENDER_NODES_MAX = 16 };

struct xt_render_node {
    char path[64];   /* "/dev/dri/renderD128" */
    char pci[24];    /* "0000:03:00.0"; "" if unknown */
    char kernel[24]; /* the kernel's driver: "i915", "xe" */
    char group[48];  /* the group that may open it: "render" */
    uint32_t vendor; /* 0x8086: Intel */
    uint32_t device; /* the PCI device id */
    uint64_t
        largest; /* bytes of the largest PCI region: as large as the memory with Resizable BAR */
    bool usable; /* this user may read and write it */
};

struct xt_host_gpu {
    struct xt_render_node nodes[XT_RENDER_NODES_MAX]; /* Intel only */
    int count;
    int others; /* render nodes of other vendors */
    /* GPUs on the PCI bus without a render node, and the first of them: pci, device, kernel. */
    int without_node;
    struct xt_render_node bare;
    bool wsl; /* /dev/dxg exists */
    bool wsl_usable;
};

void xt_host_gpu_read(struct xt_host_gpu *out, const char *root);

/* One line for each file of a user-space GPU driver that would be loaded (Level Zero, OpenCL, the
 * kernel compiler), each once: its name, which contains the version, and its size. Machines with
 * the same text have the same driver. Empty if there is none. */
enum xt_status xt_host_gpu_driver_files(const char *root, struct xt_str *out, struct xt_err *err);

/* The path of a file of a user-space driver ("intel-opencl/libigdrcl.so"), if it is installed. */
bool xt_host_gpu_find_library(const char *root, const char *name, char *path, size_t size);

/* The exact command that gives this user access to render nodes. */
struct xt_host_gpu_hint {
    char text[208];
};
struct xt_host_gpu_hint xt_host_gpu_join(const struct xt_render_node *node);
