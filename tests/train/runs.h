/* A trainer driven as a library. */
#pragma once

#include "support.h"

#include "train/trainer/trainer_internal.h"

static inline void trainer_run(struct xt_trainer *trainer, const struct xt_train_settings *settings)
{
    struct xt_err err = {0};
    enum xt_status status = xt_trainer_init(trainer, settings, &err);
    if (!status)
        status = xt_trainer_open_run(trainer, &err);
    if (!status)
        status = xt_trainer_run(trainer, &(struct xt_train_observer){0}, &err);
    if (status)
        fail_msg("%s", err.text);
}
