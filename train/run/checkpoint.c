#include "train/run/checkpoint.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "models/registry.h"
#include "models/weights/weight_file.h"
#include "train/optim/schedule.h"

static const char name_start[] = "state-";
static const char name_end[] = ".safetensors";

/* The step in a checkpoint's file name, -1 where it is none. */
static int64_t step_of(const char *name)
{
    if (!xt_str_starts(name, name_start) || !xt_str_ends(name, name_end))
        return -1;
    char *end = NULL;
    long long step = strtoll(name + strlen(name_start), &end, 10);
    return end && strcmp(end, name_end) == 0 && step >= 0 ? step : -1;
}

/* The steps of the folder's checkpoints, newest first. */
static enum xt_status list_steps(const char *folder, int64_t **steps, size_t *count,
                                 struct xt_err *err)
{
    *steps = NULL;
    *count = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return xt_err_set(err, XT_ERR_DATA, "cannot read the run folder %s: %s", folder,
                          strerror(errno));
    size_t capacity = 0;
    enum xt_status status = XT_OK;
    for (struct dirent *entry; !status && (entry = readdir(dir));) {
        int64_t step = step_of(entry->d_name);
        if (step < 0)
            continue;
        status = xt_mem_grow(steps, &capacity, *count + 1, sizeof **steps, "checkpoints", err);
        if (status)
            break;
        size_t at = (*count)++;
        for (; at > 0 && (*steps)[at - 1] < step; at--)
            (*steps)[at] = (*steps)[at - 1];
        (*steps)[at] = step;
    }
    closedir(dir);
    return status;
}

static enum xt_status path_of(const char *folder, int64_t step, char **out, struct xt_err *err)
{
    if (asprintf(out, "%s/%s%08" PRId64 "%s", folder, name_start, step, name_end) >= 0)
        return XT_OK;
    *out = NULL;
    return xt_err_no_memory(err, "a file name", strlen(folder));
}

static enum xt_status remove_old(const char *folder, int keep, struct xt_err *err)
{
    int64_t *steps = NULL;
    size_t count = 0;
    enum xt_status status = list_steps(folder, &steps, &count, err);
    for (size_t i = (size_t)keep; i < count && !status; i++) {
        char *path = NULL;
        status = path_of(folder, steps[i], &path, err);
        if (!status)
            unlink(path);
        free(path);
    }
    free(steps);
    return status;
}

/* ---- writing ---- */

/* All tensors of a checkpoint: the weights, and each optimizer array under a prefix of its own. */
struct contents {
    struct xt_params_tensors groups[3];
    int group_count;
    struct xt_file_tensor *tensors;
    size_t count;
    char **names; /* of the optimizer's tensors */
    size_t name_count;
};

static void contents_clear(struct contents *c)
{
    for (int i = 0; i < c->group_count; i++)
        xt_params_free_tensors(&c->groups[i]);
    for (size_t i = 0; i < c->name_count; i++)
        free(c->names[i]);
    free(c->names);
    free(c->tensors);
}

static enum xt_status add_group(struct contents *c, struct xt_network *network,
                                const struct xt_params_view *view, const char *prefix,
                                struct xt_err *err)
{
    struct xt_params_tensors *group = &c->groups[c->group_count];
    enum xt_status status =
        xt_params_to_tensors(&network->params, &network->device, view, group, err);
    if (status)
        return status;
    c->group_count++;
    for (int i = 0; i < group->count && !status; i++) {
        struct xt_file_tensor *tensor = &c->tensors[c->count++];
        *tensor = group->items[i];
        if (!prefix)
            continue;
        char **name = &c->names[c->name_count];
        if (asprintf(name, "%s.%s", prefix, tensor->name) < 0)
            return xt_err_no_memory(err, "a tensor's name", strlen(prefix));
        c->name_count++;
        tensor->name = *name;
    }
    return XT_OK;
}

static enum xt_status gather(struct contents *c, struct xt_network *network,
                             const struct xt_optim *optim, struct xt_err *err)
{
    size_t most = 3 * (size_t)network->params.count;
    enum xt_status status = xt_mem_calloc(&c->tensors, most, sizeof *c->tensors, "tensors", err);
    if (!status)
        status = xt_mem_calloc(&c->names, most, sizeof *c->names, "tensors", err);
    struct xt_params_view weights = {network->params.values, network->params.stats};
    if (!status)
        status = add_group(c, network, &weights, NULL, err);
    int states = xt_optim_states(optim->kind, optim->momentum);
    for (int i = 0; i < states && !status; i++) {
        struct xt_params_view view = {optim->state[i], NULL};
        status = add_group(c, network, &view, xt_optim_state_name(optim->kind, i), err);
    }
    return status;
}

static const char hash_key[] = "hash";

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t left)
{
    const unsigned char *bytes = data;
    for (; left >= sizeof hash; left -= sizeof hash, bytes += sizeof hash) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        hash = xt_rng_mix(hash ^ word);
    }
    for (; left; left--)
        hash = xt_rng_mix(hash ^ *bytes++);
    return hash;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
    return hash_bytes(hash, text, strlen(text) + 1);
}

/* A hash of all tensors and of the metadata but the hash itself, so that a flipped bit is seen when
 * the file is read again. */
static uint64_t hash_all(const struct xt_file_tensor *tensors, size_t count,
                         const struct xt_file_meta *meta, size_t meta_count)
{
    uint64_t hash = 0;
    for (size_t i = 0; i < count; i++) {
        hash = hash_text(hash, tensors[i].name);
        hash = hash_bytes(hash, tensors[i].dims, (size_t)tensors[i].ndims * sizeof(int64_t));
        hash = hash_bytes(hash, tensors[i].data, tensors[i].bytes);
    }
    for (size_t i = 0; i < meta_count; i++) {
        if (strcmp(meta[i].key, hash_key) == 0)
            continue;
        hash = hash_text(hash, meta[i].key);
        hash = hash_text(hash, meta[i].value);
    }
    return hash;
}

/* CPU and library: what a bit for bit continuation depends on. */
static void describe_machine(char *cpu, size_t cpu_size, char *library, size_t library_size)
{
    xt_device_cpu_name(cpu, cpu_size);
    const dnnl_version_t *version = xt_dnnl.version();
    snprintf(library, library_size, "oneDNN %d.%d.%d %.12s", version->major, version->minor,
             version->patch, version->hash);
}

enum { TEXTS = 64 };

/* Key and value pairs of the metadata. */
struct texts {
    struct xt_file_meta meta[TEXTS];
    char values[TEXTS][128];
    size_t count;
};

__attribute__((format(printf, 3, 4))) static void add_text(struct texts *texts, const char *key,
                                                           const char *format, ...)
{
    assert(texts->count < TEXTS);
    va_list args;
    va_start(args, format);
    vsnprintf(texts->values[texts->count], sizeof texts->values[0], format, args);
    va_end(args);
    texts->meta[texts->count] =
        (struct xt_file_meta){.key = key, .value = texts->values[texts->count]};
    texts->count++;
}

static const char *yes_no(bool value)
{
    return value ? "on" : "off";
}

/* What may be changed from one start to the next, but changes the losses: option and value. */
static void describe_recipe(struct texts *texts, const struct xt_settings *s,
                            const struct xt_network *network)
{
    add_text(texts, "--lr", "%.9g", s->lr);
    add_text(texts, "--momentum", "%.9g", s->momentum);
    add_text(texts, "--nesterov", "%s", yes_no(s->nesterov));
    add_text(texts, "--weight-decay", "%.9g", s->weight_decay);
    add_text(texts, "--decay-all", "%s", yes_no(s->decay_all));
    add_text(texts, "--sched", "%s", xt_schedule_name(s->sched));
    add_text(texts, "--milestones", "%.100s", s->milestones ? s->milestones : "none");
    add_text(texts, "--gamma", "%.9g", s->gamma);
    add_text(texts, "--warmup", "%.9g", s->warmup);
    add_text(texts, "--clip", "%.9g", s->clip);
    add_text(texts, "--dropout", "%.9g", s->dropout);
    add_text(texts, "--label-smoothing", "%.9g", s->label_smoothing);
    add_text(texts, "--mixup", "%.9g", s->mixup);
    add_text(texts, "--freeze-until", "%.100s", s->freeze_until ? s->freeze_until : "none");
    add_text(texts, "--head-lr-factor", "%.9g", s->head_lr_factor);
    add_text(texts, "--augment", "%s", yes_no(s->augment));
    add_text(texts, "--fit", "%s", s->fit == XT_IMAGES_CROP ? "crop" : "stretch");
    add_text(texts, "--flip", "%s", yes_no(s->flip));
    add_text(texts, "--jitter", "%.9g", s->jitter);
    add_text(texts, "--hue", "%.9g", s->hue);
    add_text(texts, "--amp", "%s", xt_dtype_name(network->graph->options.dtype));
}

static void describe(struct texts *texts, const struct xt_checkpoint *c,
                     const struct xt_network *network, const struct xt_optim *optim)
{
    char cpu[96];
    char library[64];
    describe_machine(cpu, sizeof cpu, library, sizeof library);
    add_text(texts, "xtrain_state", "%d", XT_CHECKPOINT_FORMAT);
    add_text(texts, "model", "%s", network->model->name);
    add_text(texts, "lprnet_norm", "%s", network->over_batch ? "batch" : "sample");
    add_text(texts, "step", "%" PRId64, c->step);
    add_text(texts, "steps", "%" PRId64, c->steps);
    add_text(texts, "seed", "%" PRIu64, c->seed);
    add_text(texts, "batch", "%d", c->batch);
    add_text(texts, "samples", "%zu", c->samples);
    add_text(texts, "bn_frozen", "%d", c->bn_frozen);
    add_text(texts, "best_step", "%" PRId64, c->best_step);
    add_text(texts, "best_accuracy", "%a", c->best_accuracy);
    add_text(texts, "evaluated_step", "%" PRId64, c->evaluated_step);
    add_text(texts, "loss_sum", "%a", c->loss_sum);
    add_text(texts, "loss_steps", "%" PRId64, c->loss_steps);
    add_text(texts, "seconds", "%.3f", c->seconds);
    if (c->scaler.on) {
        add_text(texts, "loss_scale", "%a", (double)c->scaler.scale);
        add_text(texts, "loss_scale_fine_steps", "%d", c->scaler.fine);
        add_text(texts, "skipped_steps", "%" PRId64, c->scaler.skipped);
    }
    add_text(texts, "optim", "%d", (int)optim->kind);
    add_text(texts, "optim_step", "%" PRId64, optim->step);
    add_text(texts, "cpu", "%s", cpu);
    add_text(texts, "library", "%s", library);
    add_text(texts, "threads", "%d", network->device.threads);
    if (network->alphabet)
        texts->meta[texts->count++] =
            (struct xt_file_meta){.key = "alphabet", .value = xt_alphabet_text(network->alphabet)};
}

enum xt_status xt_checkpoint_save(const struct xt_checkpoint *checkpoint,
                                  const struct xt_settings *settings, struct xt_network *network,
                                  const struct xt_optim *optim, const char *folder, int keep,
                                  struct xt_err *err)
{
    struct contents contents = {0};
    struct texts texts = {0};
    struct xt_str names = {0};
    char *path = NULL;
    describe(&texts, checkpoint, network, optim);
    describe_recipe(&texts, settings, network);
    enum xt_status status = xt_class_names_print(&network->class_names, &names, err);
    if (!status && network->class_names.count)
        texts.meta[texts.count++] =
            (struct xt_file_meta){.key = "class_names", .value = xt_str_get(&names)};
    if (!status)
        status = gather(&contents, network, optim, err);
    if (!status)
        add_text(&texts, hash_key, "%016" PRIx64,
                 hash_all(contents.tensors, contents.count, texts.meta, texts.count));
    if (!status)
        status = path_of(folder, checkpoint->step, &path, err);
    if (!status)
        status = xt_weight_file_write(path, contents.tensors, contents.count, texts.meta,
                                      texts.count, err);
    if (!status)
        status = remove_old(folder, keep, err);
    free(path);
    xt_str_clear(&names);
    contents_clear(&contents);
    return status;
}

/* ---- reading ---- */

static enum xt_status need_text(const struct xt_weight_file *file, const char *path,
                                const char *key, const char **out, struct xt_err *err)
{
    *out = xt_weight_file_meta(file, key);
    if (*out)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s is not a checkpoint of xtrain: its metadata has no \"%s\"", path, key);
}

static enum xt_status need_integer(const struct xt_weight_file *file, const char *path,
                                   const char *key, int64_t *out, struct xt_err *err)
{
    const char *text = NULL;
    enum xt_status status = need_text(file, path, key, &text, err);
    if (status)
        return status;
    char *end = NULL;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (errno || end == text || *end)
        return xt_err_set(err, XT_ERR_DATA, "%s: its \"%s\" is not a number: %.40s", path, key,
                          text);
    return XT_OK;
}

static enum xt_status need_real(const struct xt_weight_file *file, const char *path,
                                const char *key, double *out, struct xt_err *err)
{
    const char *text = NULL;
    enum xt_status status = need_text(file, path, key, &text, err);
    if (!status)
        *out = strtod(text, NULL);
    return status;
}

static enum xt_status check_kind(const struct xt_weight_file *file, const char *path,
                                 const struct xt_optim *optim, struct xt_err *err)
{
    int64_t format = 0;
    int64_t kind = 0;
    enum xt_status status = need_integer(file, path, "xtrain_state", &format, err);
    if (!status && format != XT_CHECKPOINT_FORMAT)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is a checkpoint of format %" PRId64 "; this xtrain reads format %d",
                          path, format, XT_CHECKPOINT_FORMAT);
    if (!status)
        status = need_integer(file, path, "optim", &kind, err);
    if (!status && kind != (int64_t)optim->kind)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s was trained with another optimizer; give the same --optim", path);
    return status;
}

/* A run without loss scaling keeps none. */
static enum xt_status read_scaler(struct xt_scaler *scaler, const struct xt_weight_file *file,
                                  const char *path, struct xt_err *err)
{
    double scale = 0;
    int64_t fine = 0;
    xt_scaler_init(scaler, xt_weight_file_meta(file, "loss_scale") != NULL);
    if (!scaler->on)
        return XT_OK;
    enum xt_status status = need_real(file, path, "loss_scale", &scale, err);
    if (!status)
        status = need_integer(file, path, "loss_scale_fine_steps", &fine, err);
    if (!status)
        status = need_integer(file, path, "skipped_steps", &scaler->skipped, err);
    if (!status && (scale < 1 || scale > 1e9 || fine < 0 || fine > INT32_MAX))
        status = xt_err_set(err, XT_ERR_DATA, "%s holds a loss scale of %g, which cannot be", path,
                            scale);
    scaler->scale = (float)scale;
    scaler->fine = (int)fine;
    return status;
}

static enum xt_status read_numbers(struct xt_checkpoint *c, struct xt_optim *optim,
                                   const struct xt_weight_file *file, const char *path,
                                   struct xt_err *err)
{
    int64_t batch = 0;
    int64_t samples = 0;
    int64_t frozen = 0;
    const char *seed = NULL;
    const struct {
        const char *key;
        int64_t *out;
    } integers[] = {
        {"step", &c->step},
        {"steps", &c->steps},
        {"batch", &batch},
        {"samples", &samples},
        {"bn_frozen", &frozen},
        {"best_step", &c->best_step},
        {"loss_steps", &c->loss_steps},
        {"evaluated_step", &c->evaluated_step},
        {"optim_step", &optim->step},
    };
    enum xt_status status = check_kind(file, path, optim, err);
    for (size_t i = 0; i < sizeof integers / sizeof integers[0] && !status; i++)
        status = need_integer(file, path, integers[i].key, integers[i].out, err);
    if (!status)
        status = need_text(file, path, "seed", &seed, err);
    if (!status)
        status = need_real(file, path, "best_accuracy", &c->best_accuracy, err);
    if (!status)
        status = need_real(file, path, "loss_sum", &c->loss_sum, err);
    if (!status)
        status = need_real(file, path, "seconds", &c->seconds, err);
    if (!status)
        status = read_scaler(&c->scaler, file, path, err);
    if (status)
        return status;
    c->batch = (int)batch;
    c->samples = (size_t)samples;
    c->bn_frozen = frozen != 0;
    c->seed = strtoull(seed, NULL, 10);
    return XT_OK;
}

static enum xt_status check_class_names(const struct xt_weight_file *file, const char *path,
                                        const struct xt_network *network, struct xt_err *err)
{
    const char *text = xt_weight_file_meta(file, "class_names");
    if (!text)
        return XT_OK;
    struct xt_class_names names = {0};
    enum xt_status status = xt_class_names_parse(&names, text, path, err);
    if (!status && !xt_class_names_equal(&names, &network->class_names))
        status = xt_err_set(err, XT_ERR_USAGE,
                            "%s was made on other classes than those of --data; give the data that "
                            "the run began with",
                            path);
    xt_class_names_clear(&names);
    return status;
}

/* What the weights mean must be what it was: the network, its symbols and its context norm. */
static enum xt_status check_meaning(const struct xt_weight_file *file, const char *path,
                                    const struct xt_network *network, struct xt_err *err)
{
    const char *model = NULL;
    const char *norm = NULL;
    enum xt_status status = need_text(file, path, "model", &model, err);
    if (!status)
        status = need_text(file, path, "lprnet_norm", &norm, err);
    if (status)
        return status;
    if (strcmp(model, network->model->name) != 0)
        return xt_err_set(err, XT_ERR_USAGE, "%s is of the network %.40s, not of %s", path, model,
                          network->model->name);
    if (strcmp(norm, network->over_batch ? "batch" : "sample") != 0)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s was made with the context norm %.40s; give --lprnet-norm %.40s", path,
                          norm, norm);
    const char *alphabet = xt_weight_file_meta(file, "alphabet");
    if (network->alphabet && alphabet && strcmp(alphabet, xt_alphabet_text(network->alphabet)) != 0)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s was made with another alphabet; give the --alphabet, or the --init, "
                          "that the run began with",
                          path);
    return check_class_names(file, path, network, err);
}

static enum xt_status load_group(struct xt_network *network, const struct xt_params_view *view,
                                 const struct xt_weight_file *file, const char *prefix,
                                 const char *path, struct xt_err *err)
{
    struct xt_weight_file part = {0};
    enum xt_status status =
        xt_mem_calloc(&part.tensors, file->count, sizeof *part.tensors, "tensors", err);
    size_t skip = strlen(prefix);
    for (size_t i = 0; i < file->count && !status; i++) {
        if (!xt_str_starts(file->tensors[i].name, prefix))
            continue;
        part.tensors[part.count] = file->tensors[i];
        part.tensors[part.count++].name += skip;
    }
    if (!status)
        status = xt_params_from_file(&network->params, &network->device, view, &part, path, false,
                                     NULL, err);
    free(part.tensors);
    return status;
}

/* The weights' own tensors: those without an optimizer's prefix. */
static enum xt_status load_weights(struct xt_network *network, const struct xt_weight_file *file,
                                   const struct xt_optim *optim, const char *path,
                                   struct xt_err *err)
{
    struct xt_weight_file part = {0};
    enum xt_status status =
        xt_mem_calloc(&part.tensors, file->count, sizeof *part.tensors, "tensors", err);
    for (size_t i = 0; i < file->count && !status; i++) {
        bool state = false;
        for (int k = 0; k < xt_optim_states(optim->kind, optim->momentum); k++)
            state =
                state || xt_str_starts(file->tensors[i].name, xt_optim_state_name(optim->kind, k));
        if (!state)
            part.tensors[part.count++] = file->tensors[i];
    }
    struct xt_params_view view = {network->params.values, network->params.stats};
    if (!status)
        status = xt_params_from_file(&network->params, &network->device, &view, &part, path, false,
                                     NULL, err);
    free(part.tensors);
    return status;
}

static void note_change(const char *path, const struct xt_weight_file *file, const char *key,
                        const char *now)
{
    const char *then = xt_weight_file_meta(file, key);
    if (then && strcmp(then, now) != 0)
        xt_log_note("%s was made with %s \"%s\", this is \"%s\": the losses will differ in their "
                    "last digits from a run that was not interrupted",
                    path, key, then, now);
}

static void note_changes(const char *path, const struct xt_weight_file *file,
                         const struct xt_network *network)
{
    char cpu[96];
    char library[64];
    char threads[16];
    describe_machine(cpu, sizeof cpu, library, sizeof library);
    snprintf(threads, sizeof threads, "%d", network->device.threads);
    note_change(path, file, "cpu", cpu);
    note_change(path, file, "library", library);
    note_change(path, file, "threads", threads);
}

/* Says which options of the recipe have changed. */
static void note_recipe(const char *path, const struct xt_weight_file *file,
                        const struct xt_settings *settings, const struct xt_network *network)
{
    struct texts now = {0};
    describe_recipe(&now, settings, network);
    for (size_t i = 0; i < now.count; i++) {
        const char *then = xt_weight_file_meta(file, now.meta[i].key);
        if (then && strcmp(then, now.meta[i].value) != 0)
            xt_log_note("%s was made with %s %s; the run goes on with %s", path, now.meta[i].key,
                        then, now.meta[i].value);
    }
}

/* Reads the file and checks that it is what was written. */
static enum xt_status read_whole(struct xt_weight_file *file, const char *path, struct xt_err *err)
{
    enum xt_status status = xt_weight_file_read(file, path, XT_MODEL_BYTES_MAX, err);
    if (status)
        return status;
    const char *wanted = NULL;
    char hash[32];
    snprintf(hash, sizeof hash, "%016" PRIx64,
             hash_all(file->tensors, file->count, file->meta, file->meta_count));
    status = need_text(file, path, hash_key, &wanted, err);
    if (!status && strcmp(wanted, hash) != 0)
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s is damaged: it does not hold what was written (hash %s, not %.32s)",
                            path, hash, wanted);
    if (status)
        xt_weight_file_clear(file);
    return status;
}

static bool is_whole(const char *path)
{
    struct xt_weight_file file;
    struct xt_err why;
    if (read_whole(&file, path, &why))
        return false;
    xt_weight_file_clear(&file);
    return true;
}

/* Adds to the error the newest whole checkpoint before the one at `path`, where there is one. */
static void offer_before(const char *path, struct xt_err *err)
{
    const char *name = xt_file_name(path);
    int64_t step = step_of(name);
    char *folder = strndup(path, (size_t)(name - path));
    int64_t *steps = NULL;
    size_t count = 0;
    struct xt_err none;
    if (folder && step >= 0 && list_steps(*folder ? folder : ".", &steps, &count, &none) == XT_OK)
        for (size_t i = 0; i < count; i++) {
            char before[4096];
            snprintf(before, sizeof before, "%s%s%08" PRId64 "%s", folder, name_start, steps[i],
                     name_end);
            if (steps[i] >= step || !is_whole(before))
                continue;
            struct xt_err why = *err;
            xt_err_set(err, why.status, "%s; the checkpoint before it is whole: --resume %s",
                       why.text, before);
            break;
        }
    free(steps);
    free(folder);
}

static enum xt_status take(struct xt_checkpoint *checkpoint, const struct xt_weight_file *file,
                           struct xt_network *network, struct xt_optim *optim, const char *path,
                           struct xt_err *err)
{
    enum xt_status status = read_numbers(checkpoint, optim, file, path, err);
    if (!status)
        status = check_meaning(file, path, network, err);
    if (!status)
        status = load_weights(network, file, optim, path, err);
    for (int i = 0; i < xt_optim_states(optim->kind, optim->momentum) && !status; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%s.", xt_optim_state_name(optim->kind, i));
        struct xt_params_view view = {optim->state[i], NULL};
        status = load_group(network, &view, file, prefix, path, err);
    }
    return status;
}

enum xt_status xt_checkpoint_load(struct xt_checkpoint *checkpoint,
                                  const struct xt_settings *settings, struct xt_network *network,
                                  struct xt_optim *optim, const char *path, struct xt_err *err)
{
    struct xt_weight_file file;
    enum xt_status status = read_whole(&file, path, err);
    if (status == XT_ERR_DATA)
        offer_before(path, err);
    if (status)
        return status;
    status = take(checkpoint, &file, network, optim, path, err);
    if (!status) {
        network->bn_frozen = checkpoint->bn_frozen;
        note_changes(path, &file, network);
        note_recipe(path, &file, settings, network);
    }
    xt_weight_file_clear(&file);
    return status;
}

enum xt_status xt_checkpoint_batch(const char *path, int *batch, struct xt_err *err)
{
    struct xt_weight_file file;
    int64_t number = 0;
    enum xt_status status = read_whole(&file, path, err);
    if (status)
        return status;
    status = need_integer(&file, path, "batch", &number, err);
    if (!status && (number < 1 || number > INT_MAX))
        status = xt_err_set(err, XT_ERR_DATA, "%s is damaged: its batch is %" PRId64, path, number);
    *batch = status ? 0 : (int)number;
    xt_weight_file_clear(&file);
    return status;
}

static enum xt_status rename_aside(const char *path, struct xt_err *err)
{
    char *aside = NULL;
    if (asprintf(&aside, "%s.aside", path) < 0)
        return xt_err_no_memory(err, "a file name", strlen(path));
    enum xt_status status = XT_OK;
    if (rename(path, aside))
        status =
            xt_err_set(err, XT_ERR_RUN, "cannot rename %s to %s: %s", path, aside, strerror(errno));
    else
        xt_log_note("%s lies after the step that the run goes on from; it is %s now", path, aside);
    free(aside);
    return status;
}

enum xt_status xt_checkpoint_set_aside(const char *folder, int64_t step, struct xt_err *err)
{
    int64_t *steps = NULL;
    size_t count = 0;
    enum xt_status status = list_steps(folder, &steps, &count, err);
    for (size_t i = 0; i < count && steps[i] > step && !status; i++) {
        char *path = NULL;
        status = path_of(folder, steps[i], &path, err);
        if (!status)
            status = rename_aside(path, err);
        free(path);
    }
    free(steps);
    return status;
}

enum xt_status xt_checkpoint_newest(const char *folder, char **out, struct xt_err *err)
{
    *out = NULL;
    int64_t *steps = NULL;
    size_t count = 0;
    enum xt_status status = list_steps(folder, &steps, &count, err);
    for (size_t i = 0; i < count && !status && !*out; i++) {
        char *path = NULL;
        status = path_of(folder, steps[i], &path, err);
        if (status)
            break;
        struct xt_weight_file file;
        struct xt_err why = {0};
        enum xt_status read = read_whole(&file, path, &why);
        if (read == XT_OK) {
            xt_weight_file_clear(&file);
            *out = path;
            break;
        }
        if (read == XT_ERR_DATA)
            xt_log_warn("%s; taking the checkpoint before it", why.text);
        else
            status = xt_err_set(err, read, "%s", why.text);
        free(path);
    }
    free(steps);
    return status;
}
