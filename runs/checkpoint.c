#include "runs/checkpoint.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
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
#include "base/system/thread.h"
#include "models/registry.h"
#include "models/weights/weight_file.h"
#include "infer/network/param_files.h"
#include "runs/run_options.h"

static const char name_start[] = "state-";
enum { NAME_ROOM = 48 };

static void name_of(int64_t step, char out[NAME_ROOM])
{
    snprintf(out, NAME_ROOM, "%s%08" PRId64 ".safetensors", name_start, step);
}

/* The step in a checkpoint's file name, -1 where it is none that name_of gives. */
static int64_t step_of(const char *name)
{
    char own[NAME_ROOM];
    if (!xt_str_starts(name, name_start))
        return -1;
    int64_t step = strtoll(name + strlen(name_start), NULL, 10);
    name_of(step, own);
    return step >= 0 && strcmp(name, own) == 0 ? step : -1;
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

enum xt_status xt_checkpoint_path(const char *folder, int64_t step, char **out, struct xt_err *err)
{
    char name[NAME_ROOM];
    name_of(step, name);
    return xt_file_join(out, folder, name, err);
}

static enum xt_status remove_old(const char *folder, int keep, struct xt_err *err)
{
    int64_t *steps = NULL;
    size_t count = 0;
    enum xt_status status = list_steps(folder, &steps, &count, err);
    /* It was there a moment ago: then it is the run that fails. */
    if (status == XT_ERR_DATA)
        status =
            xt_err_set(err, XT_ERR_RUN,
                       "cannot write %s/: the folder has gone, or cannot be read any more", folder);
    for (size_t i = (size_t)keep; i < count && !status; i++) {
        char *path = NULL;
        status = xt_checkpoint_path(folder, steps[i], &path, err);
        if (!status)
            unlink(path);
        free(path);
    }
    free(steps);
    return status;
}

/* ---- writing ---- */

/* All tensors of a checkpoint: the weights, and each optimizer array and the moving average under a
 * prefix of its own. */
struct contents {
    struct xt_params_tensors groups[4];
    int group_count;
    struct xt_file_tensor *tensors;
    size_t count;
    char **names; /* of those with a prefix */
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
                             const struct xt_optim *optim, const struct xt_params_view *average,
                             struct xt_err *err)
{
    size_t most = 4 * (size_t)network->params.count;
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
    if (!status && average->values)
        status = add_group(c, network, average, "ema", err);
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

enum { TEXTS = 48 + XT_RUN_OPTIONS_MAX };

/* Key and value pairs of the metadata; `values` holds those that are not someone else's. */
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

/* What a bit for bit continuation depends on. */
static void describe_machine(struct texts *texts, const struct xt_network *network)
{
    char cpu[96];
    const dnnl_version_t *version = xt_dnnl.version();
    xt_device_cpu_name(cpu, sizeof cpu);
    add_text(texts, "cpu", "%s", cpu);
    add_text(texts, "device", "%s", network->device.place);
    add_text(texts, "library", "oneDNN %d.%d.%d %.12s", version->major, version->minor,
             version->patch, version->hash);
    add_text(texts, "threads", "%d", network->device.threads);
}

/* What watches the run. */
static void describe_watch(struct texts *texts, const struct xt_checkpoint *c)
{
    if (c->patience.begun) {
        add_text(texts, "patience_since", "%" PRId64, c->patience.since);
        add_text(texts, "patience_accuracy", "%a", c->patience.last.accuracy);
        add_text(texts, "patience_second", "%a", c->patience.last.second);
        if (isfinite(c->patience.last.loss))
            add_text(texts, "patience_loss", "%a", c->patience.last.loss);
    }
    add_text(texts, "spike_level", "%a", c->spikes.level);
    add_text(texts, "spike_distance", "%a", c->spikes.distance);
    add_text(texts, "spike_seen", "%" PRId64, c->spikes.seen);
    add_text(texts, "spike_count", "%" PRId64, c->spikes.count);
    add_text(texts, "spike_told", "%" PRId64, c->spikes.told);
    add_text(texts, "spike_within", "%d", c->spikes.within);
    add_text(texts, "lr_factor", "%a", c->lr_factor);
    add_text(texts, "left_out_steps", "%" PRId64, c->left_out);
}

static void describe(struct texts *texts, const struct xt_checkpoint *c,
                     const struct xt_network *network)
{
    add_text(texts, XT_CHECKPOINT_KEY, "%d", XT_CHECKPOINT_FORMAT);
    add_text(texts, "step", "%" PRId64, c->step);
    add_text(texts, "steps", "%" PRId64, c->steps);
    add_text(texts, "samples", "%zu", c->samples);
    add_text(texts, "bn_frozen", "%d", c->bn_frozen);
    add_text(texts, "best_step", "%" PRId64, c->best_step);
    add_text(texts, "best_accuracy", "%a", c->best.accuracy);
    add_text(texts, "best_second", "%a", c->best.second);
    if (isfinite(c->best.loss))
        add_text(texts, "best_loss", "%a", c->best.loss);
    add_text(texts, "best_is_average", "%d", c->best_is_average);
    add_text(texts, "evaluated_step", "%" PRId64, c->evaluated_step);
    add_text(texts, "loss_sum", "%a", c->loss_sum);
    add_text(texts, "loss_steps", "%" PRId64, c->loss_steps);
    add_text(texts, "seconds", "%.3f", c->seconds);
    add_text(texts, "start_seconds", "%.3f", c->costs.start);
    add_text(texts, "loading_seconds", "%.3f", c->costs.loading);
    add_text(texts, "evaluation_seconds", "%.3f", c->costs.evaluation);
    if (isfinite(c->costs.energy))
        add_text(texts, "energy_joules", "%.1f", c->costs.energy);
    if (c->scaler.on) {
        add_text(texts, "loss_scale", "%a", (double)c->scaler.scale);
        add_text(texts, "loss_scale_fine_steps", "%d", c->scaler.fine);
        add_text(texts, "skipped_steps", "%" PRId64, c->scaler.skipped);
    }
    add_text(texts, "optim_step", "%" PRId64, c->optim_step);
    add_text(texts, "ema_updates", "%" PRId64, c->ema_updates);
    describe_watch(texts, c);
    describe_machine(texts, network);
    if (network->alphabet)
        texts->meta[texts->count++] =
            (struct xt_file_meta){.key = "alphabet", .value = xt_alphabet_text(network->alphabet)};
}

enum xt_status xt_checkpoint_save(const struct xt_checkpoint *checkpoint,
                                  const struct xt_settings *settings, struct xt_network *network,
                                  const struct xt_optim *optim,
                                  const struct xt_params_view *average, const char *folder,
                                  int keep, struct xt_err *err)
{
    struct contents contents = {0};
    struct texts texts = {0};
    struct xt_str names = {0};
    struct xt_run_options options;
    char *path = NULL;
    describe(&texts, checkpoint, network);
    enum xt_status status = xt_run_options_init(&options, settings, network, err);
    for (size_t i = 0; i < options.count; i++)
        texts.meta[texts.count++] = (struct xt_file_meta){
            .key = options.items[i].key, .value = xt_str_get(&options.items[i].value)};
    if (!status)
        status = xt_class_names_print(&network->class_names, &names, err);
    if (!status && network->class_names.count)
        texts.meta[texts.count++] =
            (struct xt_file_meta){.key = "class_names", .value = xt_str_get(&names)};
    if (!status)
        status = gather(&contents, network, optim, average, err);
    if (!status)
        add_text(&texts, hash_key, "%016" PRIx64,
                 hash_all(contents.tensors, contents.count, texts.meta, texts.count));
    if (!status)
        status = xt_checkpoint_path(folder, checkpoint->step, &path, err);
    if (!status)
        status = xt_weight_file_write(path, contents.tensors, contents.count, texts.meta,
                                      texts.count, err);
    if (!status)
        status = remove_old(folder, keep, err);
    free(path);
    xt_str_clear(&names);
    xt_run_options_clear(&options);
    contents_clear(&contents);
    return status;
}

/* ---- reading ---- */

/* What a double holds exactly. */
static const int64_t count_most = INT64_C(1) << 53;

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
    if (status)
        return status;
    char *end = NULL;
    *out = strtod(text, &end);
    if (end == text || *end || !isfinite(*out))
        return xt_err_set(err, XT_ERR_DATA, "%s: its \"%s\" is not a number: %.40s", path, key,
                          text);
    return XT_OK;
}

/* A step, or a count of what happened in steps. */
static enum xt_status need_count(const struct xt_weight_file *file, const char *path,
                                 const char *key, int64_t least, int64_t most, int64_t *out,
                                 struct xt_err *err)
{
    enum xt_status status = need_integer(file, path, key, out, err);
    if (!status && (*out < least || *out > most))
        status =
            xt_err_set(err, XT_ERR_DATA,
                       "%s is damaged: its \"%s\" is %" PRId64 ", outside %" PRId64 " to %" PRId64,
                       path, key, *out, least, most);
    return status;
}

static enum xt_status check_format(const struct xt_weight_file *file, const char *path,
                                   struct xt_err *err)
{
    int64_t format = 0;
    enum xt_status status = need_integer(file, path, XT_CHECKPOINT_KEY, &format, err);
    if (!status && format != XT_CHECKPOINT_FORMAT)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is a checkpoint of format %" PRId64 "; this xtrain reads format %d",
                          path, format, XT_CHECKPOINT_FORMAT);
    return status;
}

/* Earlier versions wrote the optimizer as a number. */
static void name_optimizer(struct xt_weight_file *file)
{
    for (size_t i = 0; i < file->meta_count; i++) {
        struct xt_file_meta *meta = &file->meta[i];
        if (strcmp(meta->key, "optim") == 0 && meta->value[0] >= '0' &&
            meta->value[0] <= '0' + XT_OPTIM_RMSPROP && !meta->value[1])
            meta->value = xt_optim_names[meta->value[0] - '0'];
    }
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
        status = need_count(file, path, "loss_scale_fine_steps", 0, INT32_MAX, &fine, err);
    if (!status)
        status = need_count(file, path, "skipped_steps", 0, count_most, &scaler->skipped, err);
    if (!status && (scale < 1 || scale > 1e9))
        status = xt_err_set(err, XT_ERR_DATA, "%s holds a loss scale of %g, which cannot be", path,
                            scale);
    scaler->scale = (float)scale;
    scaler->fine = (int)fine;
    return status;
}

/* Earlier versions kept none of them. */
static enum xt_status read_costs(struct xt_run_costs *costs, const struct xt_weight_file *file,
                                 const char *path, struct xt_err *err)
{
    const struct {
        const char *key;
        double *out;
    } parts[] = {
        {"start_seconds", &costs->start},
        {"loading_seconds", &costs->loading},
        {"evaluation_seconds", &costs->evaluation},
        {"energy_joules", &costs->energy},
    };
    enum xt_status status = XT_OK;
    *costs = (struct xt_run_costs){.energy = NAN};
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !status; i++)
        if (xt_weight_file_meta(file, parts[i].key))
            status = need_real(file, path, parts[i].key, parts[i].out, err);
    return status;
}

/* What watches the run; files of earlier versions know nothing of it. */
static enum xt_status read_watch(struct xt_checkpoint *c, const struct xt_weight_file *file,
                                 const char *path, struct xt_err *err)
{
    int64_t within = 0;
    int64_t average = 0;
    const struct {
        const char *key;
        int64_t *count;
        double *real;
        int64_t least, most;
    } numbers[] = {
        {"ema_updates", &c->ema_updates, NULL, -1, count_most},
        {"best_is_average", &average, NULL, 0, 1},
        {"patience_since", &c->patience.since, NULL, 0, count_most},
        {"patience_accuracy", NULL, &c->patience.last.accuracy, 0, 0},
        {"patience_second", NULL, &c->patience.last.second, 0, 0},
        {"patience_loss", NULL, &c->patience.last.loss, 0, 0},
        {"spike_level", NULL, &c->spikes.level, 0, 0},
        {"spike_distance", NULL, &c->spikes.distance, 0, 0},
        {"spike_seen", &c->spikes.seen, NULL, 0, c->step},
        {"spike_count", &c->spikes.count, NULL, 0, c->step},
        {"spike_told", &c->spikes.told, NULL, 0, c->step},
        {"spike_within", &within, NULL, 0, 1},
        {"lr_factor", NULL, &c->lr_factor, 0, 0},
        {"left_out_steps", &c->left_out, NULL, 0, c->step},
    };
    enum xt_status status = XT_OK;
    c->lr_factor = 1;
    c->ema_updates = -1;
    c->patience.begun = xt_weight_file_meta(file, "patience_since") != NULL;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && !status; i++)
        if (!xt_weight_file_meta(file, numbers[i].key))
            continue;
        else if (numbers[i].count)
            status = need_count(file, path, numbers[i].key, numbers[i].least, numbers[i].most,
                                numbers[i].count, err);
        else
            status = need_real(file, path, numbers[i].key, numbers[i].real, err);
    c->spikes.within = within != 0;
    c->best_is_average = average != 0;
    return status;
}

static enum xt_status read_numbers(struct xt_checkpoint *c, const struct xt_weight_file *file,
                                   const char *path, struct xt_err *err)
{
    int64_t samples = 0;
    int64_t frozen = 0;
    enum xt_status status = check_format(file, path, err);
    if (!status)
        status = need_count(file, path, "step", 0, count_most, &c->step, err);
    const struct {
        const char *key;
        int64_t *out;
        int64_t least, most;
    } counts[] = {
        {"steps", &c->steps, c->step, count_most},
        {"samples", &samples, 1, count_most},
        {"bn_frozen", &frozen, 0, 1},
        {"best_step", &c->best_step, -1, count_most}, /* ahead of a rollback */
        {"loss_steps", &c->loss_steps, 0, c->step},
        {"evaluated_step", &c->evaluated_step, -1, c->step},
        {"optim_step", &c->optim_step, 0, c->step},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && !status; i++)
        status = need_count(file, path, counts[i].key, counts[i].least, counts[i].most,
                            counts[i].out, err);
    if (!status)
        status = need_real(file, path, "best_accuracy", &c->best.accuracy, err);
    /* Earlier versions kept the first of equal ones, and what they wrote still does. */
    c->best.second = INFINITY;
    c->best.loss = c->patience.last.loss = NAN;
    if (!status && xt_weight_file_meta(file, "best_second"))
        status = need_real(file, path, "best_second", &c->best.second, err);
    if (!status && xt_weight_file_meta(file, "best_loss"))
        status = need_real(file, path, "best_loss", &c->best.loss, err);
    if (!status)
        status = need_real(file, path, "loss_sum", &c->loss_sum, err);
    if (!status)
        status = need_real(file, path, "seconds", &c->seconds, err);
    if (!status)
        status = read_costs(&c->costs, file, path, err);
    if (!status)
        status = read_scaler(&c->scaler, file, path, err);
    if (!status)
        status = read_watch(c, file, path, err);
    if (status)
        return status;
    c->samples = (size_t)samples;
    c->bn_frozen = frozen != 0;
    return XT_OK;
}

static enum xt_status check_class_names(const struct xt_weight_file *file, const char *path,
                                        const struct xt_network *network, struct xt_err *err)
{
    const char *text = xt_weight_file_meta(file, "class_names");
    if (!text || network->task != XT_TASK_CLASSES)
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

/* What the weights mean must be what it was: the options that a run keeps, symbols and classes. */
static enum xt_status check_meaning(const struct xt_weight_file *file, const char *path,
                                    const struct xt_run_options *options,
                                    const struct xt_network *network, struct xt_err *err)
{
    enum xt_status status = check_class_names(file, path, network, err);
    const char *alphabet = xt_weight_file_meta(file, "alphabet");
    if (!status && network->alphabet && alphabet &&
        strcmp(alphabet, xt_alphabet_text(network->alphabet)) != 0)
        status =
            xt_err_set(err, XT_ERR_USAGE,
                       "%s was made with another alphabet; give the --alphabet, or the --init, "
                       "that the run began with",
                       path);
    return status ? status : xt_run_options_check(options, file, path, err);
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

/* The weights' own tensors: those without a prefix. */
static enum xt_status load_weights(struct xt_network *network, const struct xt_weight_file *file,
                                   const struct xt_optim *optim, const char *path,
                                   struct xt_err *err)
{
    struct xt_weight_file part = {0};
    enum xt_status status =
        xt_mem_calloc(&part.tensors, file->count, sizeof *part.tensors, "tensors", err);
    for (size_t i = 0; i < file->count && !status; i++) {
        bool state = xt_str_starts(file->tensors[i].name, "ema.");
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

static void note_machine(const char *path, const struct xt_weight_file *file,
                         const struct xt_network *network)
{
    struct texts now = {0};
    describe_machine(&now, network);
    for (size_t i = 0; i < now.count; i++) {
        const char *then = xt_weight_file_meta(file, now.meta[i].key);
        if (then && strcmp(then, now.meta[i].value) != 0)
            xt_log_note("%s was made with %s \"%s\", this is \"%s\": the losses will differ in "
                        "their last digits from a run that was not interrupted",
                        path, now.meta[i].key, then, now.meta[i].value);
    }
}

/* Reads the file and checks that it is what was written. */
static enum xt_status read_whole(struct xt_weight_file *file, const char *path, struct xt_err *err)
{
    enum xt_status status = xt_weight_file_read(file, path, XT_MODEL_BYTES_MAX, err);
    if (status)
        return status;
    if (!xt_weight_file_meta(file, XT_CHECKPOINT_KEY)) {
        xt_weight_file_clear(file);
        return xt_err_set(
            err, XT_ERR_DATA,
            "%s is no checkpoint; --resume takes a run's folder or a state-... in it, "
            "--init the weights that a new run begins with",
            path);
    }
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
            char own[NAME_ROOM];
            char before[4096];
            name_of(steps[i], own);
            snprintf(before, sizeof before, "%s%s", folder, own);
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

static enum xt_status load_states(struct xt_network *network, struct xt_optim *optim,
                                  const struct xt_weight_file *file, const char *path,
                                  struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < xt_optim_states(optim->kind, optim->momentum) && !status; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%s.", xt_optim_state_name(optim->kind, i));
        struct xt_params_view view = {optim->state[i], NULL};
        status = load_group(network, &view, file, prefix, path, err);
    }
    return status;
}

enum xt_status xt_checkpoint_load(const struct xt_checkpoint_file *from,
                                  const struct xt_settings *settings, struct xt_network *network,
                                  struct xt_optim *optim, struct xt_err *err)
{
    struct xt_run_options options;
    enum xt_status status = xt_run_options_init(&options, settings, network, err);
    if (!status)
        status = check_meaning(&from->file, from->path, &options, network, err);
    if (!status)
        status = load_weights(network, &from->file, optim, from->path, err);
    if (!status)
        status = load_states(network, optim, &from->file, from->path, err);
    if (!status) {
        optim->step = from->state.optim_step;
        note_machine(from->path, &from->file, network);
        status = xt_run_options_note(&options, &from->file, from->path, err);
    }
    xt_run_options_clear(&options);
    return status;
}

enum xt_status xt_checkpoint_load_average(const struct xt_checkpoint_file *from,
                                          struct xt_network *network,
                                          const struct xt_params_view *average, struct xt_err *err)
{
    return load_group(network, average, &from->file, "ema.", from->path, err);
}

enum xt_status xt_checkpoint_batch(const struct xt_checkpoint_file *from, int *batch,
                                   struct xt_err *err)
{
    int64_t number = 0;
    enum xt_status status = need_integer(&from->file, from->path, "batch", &number, err);
    if (!status && (number < 1 || number > INT_MAX))
        status = xt_err_set(err, XT_ERR_DATA, "%s is damaged: its batch is %" PRId64, from->path,
                            number);
    *batch = status ? 0 : (int)number;
    return status;
}

int xt_checkpoint_threads(const struct xt_checkpoint_file *from)
{
    const char *text = xt_weight_file_meta(&from->file, "threads");
    long count = text ? strtol(text, NULL, 10) : 0;
    return count > 0 && count <= xt_thread_available(NULL) ? (int)count : 0;
}

/* Of a file that is whole. */
static enum xt_status read_state(struct xt_checkpoint_file *out, struct xt_err *err)
{
    name_optimizer(&out->file);
    return read_numbers(&out->state, &out->file, out->path, err);
}

enum xt_status xt_checkpoint_open(struct xt_checkpoint_file *out, const char *path,
                                  struct xt_err *err)
{
    *out = (struct xt_checkpoint_file){.path = NULL};
    enum xt_status status = xt_mem_strdup(&out->path, path, err);
    if (status)
        return status;
    status = read_whole(&out->file, path, err);
    if (status == XT_ERR_DATA)
        offer_before(path, err);
    return status ? status : read_state(out, err);
}

void xt_checkpoint_close(struct xt_checkpoint_file *file)
{
    xt_weight_file_clear(&file->file);
    free(file->path);
    *file = (struct xt_checkpoint_file){.path = NULL};
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
        status = xt_checkpoint_path(folder, steps[i], &path, err);
        if (!status)
            status = rename_aside(path, err);
        free(path);
    }
    free(steps);
    return status;
}

enum xt_status xt_checkpoint_newest_step(const char *folder, int64_t *step, struct xt_err *err)
{
    int64_t *steps = NULL;
    size_t count = 0;
    enum xt_status status = list_steps(folder, &steps, &count, err);
    *step = count ? steps[0] : -1;
    free(steps);
    return status;
}

enum xt_status xt_checkpoint_open_newest(struct xt_checkpoint_file *out, const char *folder,
                                         struct xt_err *err)
{
    *out = (struct xt_checkpoint_file){.path = NULL};
    int64_t *steps = NULL;
    size_t count = 0;
    bool found = false;
    enum xt_status status = list_steps(folder, &steps, &count, err);
    for (size_t i = 0; i < count && !status && !found; i++) {
        status = xt_checkpoint_path(folder, steps[i], &out->path, err);
        if (status)
            break;
        struct xt_err why = {0};
        enum xt_status read = read_whole(&out->file, out->path, &why);
        found = read == XT_OK;
        if (!found)
            xt_checkpoint_close(out);
        if (read == XT_ERR_DATA)
            xt_log_warn("%s; taking the checkpoint before it", why.text);
        else if (!found)
            status = xt_err_set(err, read, "%s", why.text);
    }
    free(steps);
    return found ? read_state(out, err) : status;
}
