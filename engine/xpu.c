/* The back end of Intel GPUs: every op is its program. */
#include "engine/backend.h"

/* Buffers are addresses within allocations. oneDNN's OpenCL runtime accepts only those of unified
 * shared memory: its other memories are cl_mem objects. */
static enum xt_status begin(struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_device *device = graph->options.device;
    if (xt_dnnl_runs_opencl() && !device->opencl_memory)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "%s: this oneDNN runs GPUs with OpenCL, and %s has no unified shared "
                          "memory there (cl_intel_unified_shared_memory), which networks need; "
                          "take a oneDNN with the SYCL runtime (`make deps XPU=1`, or oneAPI's)",
                          xt_dnnl_path(), device->name);
    return XT_OK;
}

const struct xt_backend xt_backend_xpu = {
    .hwio = true,
    .adds_in_norm = true,
    .adds_own_type = true,
    .begin = begin,
};
