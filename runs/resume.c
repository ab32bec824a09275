#include "runs/resume.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "infer/network/run_mark.h"
#include "models/loaded.h"
#include "runs/proof.h"

static bool is_auto(const struct xt_record_settings *record)
{
    return strcmp(record->resume, "auto") == 0;
}

/* The folder that --resume searches for the newest checkpoint; NULL: it names a file, or the folder
 * does not exist yet. Errors of the folder are reported on opening it. */
static const char *folder_to_search(const struct xt_record_settings *record)
{
    const char *folder = is_auto(record) ? record->out : record->resume;
    return xt_file_is_folder(folder) ? folder : NULL;
}

/* Checked before another network is built in vain. */
static enum xt_status check_network(const struct xt_checkpoint_file *from, const char *asked,
                                    struct xt_err *err)
{
    const char *model = from->path ? xt_weight_file_meta(&from->file, "model") : NULL;
    const char *name = xt_model_is_file(asked) ? xt_file_name(asked) : asked;
    if (!model || strcmp(model, name) == 0)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "%s is a checkpoint of %s, and --model is %s; continue with --model %s, or "
                      "begin a run in another folder",
                      from->path, model, asked, model);
}

enum xt_status xt_resume_read(struct xt_resume *resume, const struct xt_record_settings *record,
                              const char *model, struct xt_err *err)
{
    *resume = (struct xt_resume){.newest = -1};
    if (!record->resume)
        return XT_OK;
    if (is_auto(record) && !record->out)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--resume auto needs --out DIR: the run's folder to look in");
    if (!is_auto(record) && !xt_file_exists(record->resume))
        return xt_err_set(err, XT_ERR_DATA, "--resume %s: there is no such file or folder",
                          record->resume);
    const char *folder = folder_to_search(record);
    enum xt_status status = XT_OK;
    if (folder)
        status = xt_checkpoint_newest_step(folder, &resume->newest, err);
    if (!status && folder)
        status = xt_checkpoint_open_newest(&resume->from, folder, err);
    else if (!is_auto(record) && !status)
        status = xt_checkpoint_open(&resume->from, record->resume, err);
    if (!status && !resume->from.path && !is_auto(record))
        status = xt_err_set(err, XT_ERR_DATA, "--resume %s: the folder holds no intact checkpoint",
                            record->resume);
    return status ? status : check_network(&resume->from, model, err);
}

void xt_resume_clear(struct xt_resume *resume)
{
    xt_checkpoint_close(&resume->from);
}

/* The folder may hold a run already where the checkpoint lies in it. */
enum xt_status xt_resume_open_folder(struct xt_run_folder *folder,
                                     const struct xt_record_settings *record, const char *model,
                                     struct xt_err *err)
{
    const char *out = record->out;
    if (!record->resume || is_auto(record))
        return xt_run_folder_open(folder, out, model, record->resume != NULL, err);
    char *own = NULL;
    enum xt_status status = xt_file_folder_of(&own, record->resume, err);
    bool is_own = !out || (!status && xt_file_is_same(out, own));
    if (!status)
        status = xt_run_folder_open(folder, out ? out : own, model, is_own, err);
    free(own);
    return status;
}

/* Another process may have trained between the reading of the checkpoint and the lock of its
 * folder. */
static enum xt_status check_newest(const struct xt_resume *resume,
                                   const struct xt_resume_into *into, struct xt_err *err)
{
    const char *folder = folder_to_search(into->record);
    if (!folder || !xt_file_is_same(folder, into->folder->path))
        return XT_OK;
    int64_t newest = -1;
    enum xt_status status = xt_checkpoint_newest_step(folder, &newest, err);
    if (!status && newest != resume->newest)
        status =
            xt_err_set(err, XT_ERR_USAGE,
                       "another xtrain has continued the run in %s meanwhile; restart", folder);
    return status;
}

static enum xt_status check_same_run(const struct xt_checkpoint_file *from,
                                     const struct xt_resume_into *into, struct xt_err *err)
{
    if (from->state.step > into->steps)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s is of step %" PRId64 ", after the end of a run of %" PRId64
                          " steps; give more --steps or --epochs",
                          from->path, from->state.step, into->steps);
    if (from->state.samples != into->samples)
        xt_log_warn("%s was made on %" PRId64 " images, --data now has %" PRId64
                    ": the run continues, in another order of the images",
                    from->path, from->state.samples, into->samples);
    return XT_OK;
}

/* A file of another run may have been copied into the folder. A record that was begun in the middle
 * of the run knows nothing of checkpoints before. */
static enum xt_status check_own(const struct xt_checkpoint_file *from, const char *folder,
                                struct xt_err *err)
{
    cJSON *proof = NULL;
    enum xt_proof_seal seal;
    struct xt_run_mark mark;
    if (xt_proof_read(folder, &proof, &seal, NULL))
        return XT_OK;
    xt_run_mark_read(&mark, &from->file);
    const char *id = xt_proof_id(proof);
    const cJSON *chain = cJSON_GetObjectItemCaseSensitive(proof, "chain");
    bool is_late = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(chain, "earlier"));
    bool is_own = !*id || is_late || strcmp(mark.id.text, id) == 0;
    cJSON_Delete(proof);
    if (is_own)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s is a checkpoint of another run%s%s than the one in %s; move it away, or "
                      "continue from it in a new --out",
                      from->path, *mark.run ? ": " : "", xt_run_mark_format(&mark).text, folder);
}

static enum xt_status start_fresh(const struct xt_run_folder *folder, struct xt_err *err)
{
    xt_log_note("no checkpoint in %s: starting from the beginning", folder->path);
    static const char *const weights[] = {"last.safetensors", "best.safetensors",
                                          "ema.safetensors"};
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < sizeof weights / sizeof *weights && !status; i++)
        status = xt_run_folder_set_aside(folder, weights[i], err);
    return status;
}

enum xt_status xt_resume_load(const struct xt_resume *resume, const struct xt_resume_into *into,
                              struct xt_err *err)
{
    const struct xt_checkpoint_file *from = &resume->from;
    if (!into->record->resume)
        return XT_OK;
    enum xt_status status = check_newest(resume, into, err);
    if (!status && from->path)
        status = xt_checkpoint_load(from, into->lister, into->network, into->arrays,
                                    into->array_count, err);
    if (!status && from->path)
        status = check_same_run(from, into, err);
    if (!status && from->path)
        status = check_own(from, into->folder->path, err);
    if (!status)
        status =
            xt_checkpoint_set_aside(into->folder->path, from->path ? from->state.step : -1, err);
    if (!status && !from->path)
        status = start_fresh(into->folder, err);
    return status;
}
