/* Saving of a run: the weights under their names, and checkpoints to resume from. */
#include "train/trainer/trainer_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "train/ranks/state.h"
#include "train/trainer/parts.h"
#include "train/trainer/state.h"
#include "train/trainer/step.h"

enum xt_status xt_trainer_check_weights(struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = xt_train_step_judge(trainer, NULL, err);
    if (!status)
        status = xt_params_pull(&trainer->network.params, err);
    if (status || (!xt_train_step_check_statistics(trainer, trainer->step, err) &&
                   !xt_train_step_check_values(trainer, trainer->step, err)))
        return status;
    trainer->diverged = true;
    trainer->diverged_step = trainer->step;
    return err->status;
}

/* What weights and checkpoints say of their run. */
static void mark_run(struct xt_trainer *trainer)
{
    struct xt_run_mark *mark = &trainer->network.mark;
    *mark = (struct xt_run_mark){.head = trainer->log.head};
    snprintf(mark->run, sizeof mark->run, "%s", xt_file_name(trainer->folder.path));
    snprintf(mark->step, sizeof mark->step, "%" PRId64, trainer->step);
    snprintf(mark->id.text, sizeof mark->id.text, "%s", xt_proof_id(trainer->proof.all));
}

enum xt_status xt_trainer_save_weights(struct xt_trainer *trainer, const char *name,
                                       struct xt_err *err)
{
    const struct xt_path path = xt_run_folder_file(&trainer->folder, name);
    enum xt_status status = xt_trainer_check_weights(trainer, err);
    /* In case of a power failure: lines are on the disk before anything carries their hash. */
    if (!status)
        status = xt_log_writer_sync(&trainer->log, err);
    if (!status)
        status = xt_proof_before(&trainer->proof, name, err);
    mark_run(trainer);
    if (!status)
        status = xt_network_save(&trainer->network, path.text, err);
    if (!status)
        status = xt_proof_after(&trainer->proof, name, trainer->step, trainer->log.head.text, err);
    return status;
}

enum xt_status xt_trainer_save_settings(struct xt_trainer *trainer, const char *text, size_t length,
                                        struct xt_err *err)
{
    static const char name[] = "config.yaml";
    const struct xt_path path = xt_run_folder_file(&trainer->folder, name);
    enum xt_status status = xt_proof_before(&trainer->proof, name, err);
    if (!status)
        status = xt_file_save(path.text, text, length, err);
    if (!status)
        status = xt_proof_after(&trainer->proof, name, trainer->step, NULL, err);
    return status;
}

/* The checkpoint, and its hash in the run's record. */
static enum xt_status save_state(struct xt_trainer *trainer, const struct xt_train_state *state,
                                 struct xt_err *err)
{
    const struct xt_path path = xt_checkpoint_path(trainer->folder.path, trainer->step);
    const char *name = xt_file_name(path.text);
    enum xt_status status = xt_proof_before(&trainer->proof, name, err);
    mark_run(trainer);
    if (!status)
        status = xt_train_state_save(trainer, state, err);
    if (!status)
        status = xt_proof_after(&trainer->proof, name, trainer->step, trainer->log.head.text, err);
    return status;
}

enum xt_status xt_trainer_add_bad(struct xt_trainer *trainer, const struct xt_source *source,
                                  const struct xt_bad_sample *bad, size_t count, struct xt_err *err)
{
    char name[4096];
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < count && !status; i++) {
        source->class->name(source, bad[i].index, name, sizeof name);
        status = xt_bad_images_add(&trainer->bad, &(struct xt_bad_image){name, bad[i].reason}, err);
    }
    return status ? status : xt_bad_images_write(&trainer->bad, count, err);
}

enum xt_status xt_trainer_list_bad(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_bad_sample *bad = NULL;
    size_t count = 0;
    struct xt_ranks *ranks = trainer->settings->ranks;
    enum xt_status status = xt_loader_bad(xt_feed_loader(trainer->feed), &bad, &count, err);
    if (!status)
        status = xt_ranks_share_bad(ranks, &bad, &count, err);
    if (!status && xt_ranks_is_first(ranks))
        status = xt_trainer_add_bad(trainer, trainer->source, bad, count, err);
    xt_loader_free_bad(bad, count);
    return status;
}

enum xt_status xt_trainer_save_average(struct xt_trainer *trainer, const char *name,
                                       struct xt_err *err)
{
    struct xt_err own;
    enum xt_status status = xt_ema_exchange(trainer->ema, err);
    if (!status)
        status = xt_trainer_save_weights(trainer, name, err);
    enum xt_status back = xt_ema_exchange(trainer->ema, status ? &own : err);
    return status ? status : back;
}

/* --check-device every: what is saved comes of a device that computes correctly before and after.
 */
static enum xt_status check_device(struct xt_trainer *trainer, struct xt_err *err)
{
    char trust[96] = "nothing that this run has computed is to be trusted";
    struct xt_err why = {0};
    if (trainer->settings->device.check != XT_CHECK_EVERY)
        return XT_OK;
    enum xt_status status = xt_trainer_check_device(trainer, true, &why);
    if (!status)
        return XT_OK;
    if (trainer->saved_step >= 0)
        snprintf(trust, sizeof trust, "the checkpoint of step %" PRId64 " is the last one to trust",
                 trainer->saved_step);
    return xt_err_set(err, status, "at step %" PRId64 ", which is not saved: %s; %s", trainer->step,
                      why.text, trust);
}

enum xt_status xt_trainer_save(struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = xt_train_step_judge(trainer, NULL, err);
    if (status || trainer->saved_step == trainer->step)
        return status;
    status = check_device(trainer, err);
    if (status)
        return status;
    const struct xt_train_state state = xt_train_state_of(trainer);
    struct xt_ranks *ranks = trainer->settings->ranks;
    const struct xt_rank_state all = {&trainer->network.params, &trainer->optim, trainer->ema,
                                      trainer->residual};
    status = xt_trainer_list_bad(trainer, err);
    if (!status && trainer->residual)
        status = xt_gradient_residual_level(ranks, trainer->residual,
                                            trainer->network.params.value_floats, err);
    if (!status && !trainer->xpu_optim)
        status = xt_rank_state_check(ranks, &all, err);
    /* On all ranks, so that with --on-nan rollback they return to the same checkpoint. */
    if (!status && ranks)
        status = xt_trainer_check_weights(trainer, err);
    if (!status && !xt_ranks_is_first(ranks)) {
        trainer->saved_step = trainer->step;
        trainer->rollbacks = 0;
        return XT_OK;
    }
    if (!status)
        status = xt_trainer_save_weights(trainer, "last.safetensors", err);
    if (!status && trainer->ema)
        status = xt_trainer_save_average(trainer, "ema.safetensors", err);
    if (!status && trainer->xpu_optim)
        status = xt_xpu_optim_pull(trainer->xpu_optim, err);
    if (!status)
        status = save_state(trainer, &state, err);
    if (status)
        return status;
    trainer->saved_step = trainer->step;
    trainer->rollbacks = 0;
    return XT_OK;
}
