#include "train/optim/gradient_sum.h"

#include <stdlib.h>

#include "base/mem.h"
#include "engine/program.h"

enum program { BEGIN, ADD, TAKE, PROGRAMS };

struct xt_gradient_sum {
    struct xt_params *params;
    struct xt_device_memory sum, scratchpad;
    struct xt_program programs[PROGRAMS];
};

static void describe(struct xt_gradient_sum *own, const struct xt_params *params)
{
    struct xt_operand sum =
        xt_operand_matrix(xt_in_memory(&own->sum), dnnl_f32, 1, params->value_floats);
    struct xt_operand grads = sum;
    grads.place = xt_in_memory(&params->device.grads);
    xt_program_reorder(&own->programs[BEGIN], XT_FORWARD, &grads, &sum);
    xt_program_binary(&own->programs[ADD], XT_FORWARD, dnnl_binary_add, &sum, &grads, &sum, NULL);
    xt_program_reorder(&own->programs[TAKE], XT_FORWARD, &sum, &grads);
}

enum xt_status xt_gradient_sum_create(struct xt_gradient_sum **out, struct xt_device *device,
                                      struct xt_params *params, struct xt_err *err)
{
    struct xt_gradient_sum *own = NULL;
    struct xt_err failure = {0};
    *out = NULL;
    enum xt_status status = xt_mem_calloc(&own, 1, sizeof *own, "the sum of gradients", err);
    if (status)
        return status;
    own->params = params;
    for (int i = 0; i < PROGRAMS; i++)
        xt_program_init(&own->programs[i], device, "the sum of gradients", &failure);
    status = xt_device_memory_create_bytes(device, params->value_floats * sizeof(float),
                                           XT_ON_DEVICE, "the sum of gradients", &own->sum, err);
    if (!status)
        describe(own, params);
    if (!status)
        status = xt_programs_bind(own->programs, PROGRAMS, "the sum of gradients", &own->scratchpad,
                                  err);
    if (status)
        xt_gradient_sum_destroy(own);
    else
        *out = own;
    return status;
}

void xt_gradient_sum_destroy(struct xt_gradient_sum *own)
{
    if (!own)
        return;
    for (int i = 0; i < PROGRAMS; i++)
        xt_program_clear(&own->programs[i]);
    xt_device_memory_destroy(&own->sum);
    xt_device_memory_destroy(&own->scratchpad);
    free(own);
}

enum xt_status xt_gradient_sum_add(struct xt_gradient_sum *own, bool first, struct xt_err *err)
{
    return xt_program_run(&own->programs[first ? BEGIN : ADD], XT_FORWARD, err);
}

enum xt_status xt_gradient_sum_take(struct xt_gradient_sum *own, struct xt_err *err)
{
    xt_params_grads_changed(own->params);
    return xt_program_run(&own->programs[TAKE], XT_FORWARD, err);
}
