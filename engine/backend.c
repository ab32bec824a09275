#include "engine/backend.h"

const struct xt_backend *xt_backend_of(const struct xt_device *device)
{
    return device->own_memory ? &xt_backend_xpu : &xt_backend_cpu;
}

const struct xt_override *xt_backend_override(const struct xt_backend *backend,
                                              const struct xt_op_kind *kind)
{
    for (const struct xt_override *o = backend->overrides; o && o->kind; o++)
        if (o->kind == kind)
            return o;
    return NULL;
}
