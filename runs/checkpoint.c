#include "runs/checkpoint.h"

#include <assert.h>
#include <dirent.h>
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
#include "infer/machine.h"
#include "models/registry.h"
#include "models/weights/weight_file.h"
#include "models/weights/weight_hash.h"
#include "infer/network/param_files.h"
#include "runs/run_options.h"

static const char name_start[] = "state-";
enum { NAME_ROOM = 48 };

static void name_of(int64_t step, char out[NAME_ROOM])
{
    snprintf(out, NAME_ROOM, "%s%08" PRId64 ".safetensors", name_start, step);
}

/* The step in a checkpoint's file name, -1 where name_of gives no such name. */
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
        return xt_err_system(err, XT_ERR_DATA, "cannot read the run folder %s", folder);
    enum xt_status status = XT_OK;
    for (struct dirent *entry; !status && (entry = readdir(dir));) {
        int64_t step = step_of(entry->d_name);
        if (step < 0)
            continue;
        status = xt_mem_add(steps, *count, sizeof **steps, "checkpoints", err);
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

struct xt_path xt_checkpoint_path(const char *folder, int64_t step)
{
    char name[NAME_ROOM];
    name_of(step, name);
    return xt_file_path(folder, name);
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
    for (size_t i = (size_t)keep; i < count && !status; i++)
        unlink(xt_checkpoint_path(folder, steps[i]).text);
    free(steps);
    return status;
}

/* ---- writing ---- */

/* All tensors of a checkpoint: the weights, and each of the trainer's arrays under its own prefix.
 */
struct contents {
    struct xt_params_tensors groups[1 + XT_CHECKPOINT_ARRAYS];
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

static enum xt_status fill_contents(struct contents *c, struct xt_network *network,
                                    const struct xt_checkpoint_extra *extra, struct xt_err *err)
{
    size_t most = (1 + XT_CHECKPOINT_ARRAYS) * (size_t)network->params.count;
    enum xt_status status = xt_mem_calloc(&c->tensors, most, sizeof *c->tensors, "tensors", err);
    if (!status)
        status = xt_mem_calloc(&c->names, most, sizeof *c->names, "tensors", err);
    struct xt_params_view weights = {network->params.values, network->params.stats};
    if (!status)
        status = add_group(c, network, &weights, NULL, err);
    for (int i = 0; i < extra->array_count && !status; i++)
        status = add_group(c, network, &extra->arrays[i].view, extra->arrays[i].name, err);
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

/* The hash of format 1: of all tensors and of the metadata but the hash itself. */
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

enum { TEXTS = 56 + XT_RUN_OPTIONS_MAX };

/* Key and value pairs of the metadata; `values` owns those that are not borrowed. */
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

/* What bit-exact continuation depends on. */
static void describe_machine(struct texts *texts, const struct xt_network *network)
{
    struct xt_machine machine;
    xt_machine_of_bits(&machine, &network->device);
    for (int i = 0; i < machine.count; i++)
        add_text(texts, machine.texts[i].key, "%s", machine.texts[i].value);
}

static const struct xt_number_field step_field = {"step", offsetof(struct xt_checkpoint, step),
                                                  XT_NUMBER_COUNT, 0, true};
/* Fields that are not needed were added by later versions. */
static const struct xt_number_field fields[] = {
    {"steps", offsetof(struct xt_checkpoint, steps), XT_NUMBER_LENGTH, 0, true},
    {"samples", offsetof(struct xt_checkpoint, samples), XT_NUMBER_COUNT, 1, true},
    {"bn_frozen", offsetof(struct xt_checkpoint, bn_frozen), XT_NUMBER_FLAG, 0, true},
    /* After a rollback the best step may lie ahead. */
    {"best_step", offsetof(struct xt_checkpoint, best_step), XT_NUMBER_COUNT, -1, true},
    {"best_accuracy", offsetof(struct xt_checkpoint, best.accuracy), XT_NUMBER_REAL, 0, true},
    {"best_second", offsetof(struct xt_checkpoint, best.second), XT_NUMBER_REAL, 0, false},
    {"best_loss", offsetof(struct xt_checkpoint, best.loss), XT_NUMBER_REAL, 0, false},
    {"best_is_average", offsetof(struct xt_checkpoint, best_is_average), XT_NUMBER_FLAG, 0, false},
    {"evaluated_step", offsetof(struct xt_checkpoint, evaluated_step), XT_NUMBER_PAST, -1, true},
    {"loss_sum", offsetof(struct xt_checkpoint, loss_sum), XT_NUMBER_REAL, 0, true},
    {"loss_steps", offsetof(struct xt_checkpoint, loss_steps), XT_NUMBER_PAST, 0, true},
    {"seconds", offsetof(struct xt_checkpoint, seconds), XT_NUMBER_REAL, 0, true},
    {"start_seconds", offsetof(struct xt_checkpoint, costs.start), XT_NUMBER_REAL, 0, false},
    {"loading_seconds", offsetof(struct xt_checkpoint, costs.loading), XT_NUMBER_REAL, 0, false},
    {"evaluation_seconds", offsetof(struct xt_checkpoint, costs.evaluation), XT_NUMBER_REAL, 0,
     false},
    {"energy_joules", offsetof(struct xt_checkpoint, costs.energy), XT_NUMBER_REAL, 0, false},
};

static void add_numbers(struct texts *texts, const struct xt_number_field *list, size_t count,
                        const void *of)
{
    char text[XT_NUMBER_TEXT];
    for (size_t i = 0; i < count; i++)
        if (xt_number_print(&list[i], of, text))
            add_text(texts, list[i].key, "%s", text);
}

static void describe(struct texts *texts, const struct xt_checkpoint *c,
                     const struct xt_checkpoint_extra *extra, const struct xt_network *network)
{
    add_text(texts, XT_CHECKPOINT_KEY, "%d", XT_CHECKPOINT_FORMAT);
    add_numbers(texts, &step_field, 1, c);
    add_numbers(texts, fields, sizeof fields / sizeof *fields, c);
    add_numbers(texts, extra->fields, extra->field_count, extra->numbers);
    describe_machine(texts, network);
    if (extra->text.key)
        texts->meta[texts->count++] = extra->text;
    texts->count += xt_run_mark_meta(&network->mark, texts->meta + texts->count);
    if (network->loaded)
        texts->meta[texts->count++] =
            (struct xt_file_meta){.key = XT_NET_TEXT_KEY, .value = network->loaded->text};
    if (network->alphabet)
        texts->meta[texts->count++] =
            (struct xt_file_meta){.key = "alphabet", .value = xt_alphabet_text(network->alphabet)};
}

enum xt_status xt_checkpoint_save(const struct xt_checkpoint *checkpoint,
                                  const struct xt_checkpoint_extra *extra,
                                  const struct xt_run_lister *lister, struct xt_network *network,
                                  const char *folder, int keep, struct xt_err *err)
{
    struct contents contents = {0};
    struct texts texts = {0};
    struct xt_str names = {0};
    struct xt_run_options options;
    describe(&texts, checkpoint, extra, network);
    enum xt_status status = xt_run_options_init(&options, lister, network, err);
    for (size_t i = 0; i < options.count; i++)
        texts.meta[texts.count++] = (struct xt_file_meta){
            .key = options.items[i].key, .value = xt_str_get(&options.items[i].value)};
    if (!status)
        status = xt_class_names_print(&network->class_names, &names, err);
    if (!status && network->class_names.count)
        texts.meta[texts.count++] =
            (struct xt_file_meta){.key = "class_names", .value = xt_str_get(&names)};
    if (!status)
        status = fill_contents(&contents, network, extra, err);
    if (!status)
        status =
            xt_weight_file_write(xt_checkpoint_path(folder, checkpoint->step).text,
                                 contents.tensors, contents.count, texts.meta, texts.count, err);
    if (!status)
        status = remove_old(folder, keep, err);
    xt_str_clear(&names);
    xt_run_options_clear(&options);
    contents_clear(&contents);
    return status;
}

/* ---- reading ---- */

/* Earlier versions wrote the optimizer as a number. */
static void name_optimizer(struct xt_weight_file *file)
{
    static const char *const names[] = {"sgd", "adam", "adamw", "rmsprop"};
    enum { COUNT = sizeof names / sizeof *names };
    for (size_t i = 0; i < file->meta_count; i++) {
        struct xt_file_meta *meta = &file->meta[i];
        if (strcmp(meta->key, "optim") == 0 && meta->value[0] >= '0' &&
            meta->value[0] < '0' + COUNT && !meta->value[1])
            meta->value = names[meta->value[0] - '0'];
    }
}

static enum xt_status check_format(const struct xt_weight_file *file, const char *path,
                                   struct xt_err *err)
{
    struct {
        int64_t format;
    } found = {0};
    static const struct xt_number_field field = {
        .key = XT_CHECKPOINT_KEY, .kind = XT_NUMBER_COUNT, .least = INT_MIN, .needed = true};
    enum xt_status status = xt_numbers_read(&field, 1, &found, 0, file, path, err);
    if (!status && (found.format < XT_CHECKPOINT_FIRST || found.format > XT_CHECKPOINT_FORMAT))
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is a checkpoint of format %" PRId64 "; this xtrain reads format %d",
                          path, found.format, XT_CHECKPOINT_FORMAT);
    return status;
}

/* Earlier versions preferred the first of equal evaluations; their checkpoints still do. */
static enum xt_status read_numbers(struct xt_checkpoint *c, const struct xt_weight_file *file,
                                   const char *path, struct xt_err *err)
{
    *c =
        (struct xt_checkpoint){.best = {.second = INFINITY, .loss = NAN}, .costs = {.energy = NAN}};
    enum xt_status status = check_format(file, path, err);
    if (!status)
        status = xt_numbers_read(&step_field, 1, c, 0, file, path, err);
    return status ? status
                  : xt_numbers_read(fields, sizeof fields / sizeof *fields, c, c->step, file, path,
                                    err);
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

/* The weights' meaning must be unchanged: the options fixed for a run, symbols and classes. */
static enum xt_status check_meaning(const struct xt_weight_file *file, const char *path,
                                    const struct xt_run_options *options,
                                    const struct xt_network *network, struct xt_err *err)
{
    enum xt_status status = check_class_names(file, path, network, err);
    const char *alphabet = xt_weight_file_meta(file, "alphabet");
    if (!status && network->alphabet && alphabet &&
        strcmp(alphabet, xt_alphabet_text(network->alphabet)) != 0)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "%s was made with another alphabet; give the --alphabet, or the "
                            "--init, that the run began with",
                            path);
    return status ? status : xt_run_options_check(options, file, path, err);
}

static bool is_parameter(const struct xt_params *params, const char *name)
{
    for (int i = 0; i < params->count; i++)
        if (strcmp(params->items[i].name, name) == 0)
            return true;
    return false;
}

/* The tensors of an array, by its name; NULL: the weights, by exact names, since a layer may be
 * named as an array is. */
static enum xt_status load_part(const struct xt_checkpoint_file *from, struct xt_network *network,
                                const char *array, const struct xt_params_view *view,
                                struct xt_err *err)
{
    const struct xt_weight_file *file = &from->file;
    struct xt_weight_file part = {0};
    enum xt_status status =
        xt_mem_calloc(&part.tensors, file->count, sizeof *part.tensors, "tensors", err);
    size_t length = array ? strlen(array) : 0;
    for (size_t i = 0; i < file->count && !status; i++) {
        const char *name = file->tensors[i].name;
        if (array ? !xt_str_starts(name, array) || name[length] != '.'
                  : !is_parameter(&network->params, name))
            continue;
        part.tensors[part.count] = file->tensors[i];
        part.tensors[part.count++].name += array ? length + 1 : 0;
    }
    if (!status)
        status = xt_params_from_file(&network->params, &network->device, view, &part, from->path,
                                     false, NULL, err);
    free(part.tensors);
    return status;
}

enum xt_status xt_checkpoint_load_array(const struct xt_checkpoint_file *from,
                                        struct xt_network *network,
                                        const struct xt_checkpoint_array *array, struct xt_err *err)
{
    return load_part(from, network, array->name, &array->view, err);
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

/* Format 1 had a hash of its own; since then every file of weights is checked on reading. */
static enum xt_status check_hash(const struct xt_weight_file *file, const char *path,
                                 struct xt_err *err)
{
    const char *wanted = NULL;
    char hash[32];
    if (xt_weight_file_meta(file, XT_WEIGHT_HASH_KEY))
        return XT_OK;
    snprintf(hash, sizeof hash, "%016" PRIx64,
             hash_all(file->tensors, file->count, file->meta, file->meta_count));
    enum xt_status status = xt_number_need_text(file, path, hash_key, &wanted, err);
    if (!status && strcmp(wanted, hash) != 0)
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s is damaged: it does not hold what was written (hash %s, not %.32s)",
                            path, hash, wanted);
    return status;
}

/* Reads the file and verifies its hash. */
static enum xt_status read_whole(struct xt_weight_file *file, const char *path, struct xt_err *err)
{
    enum xt_status status = xt_weight_file_read(file, path, XT_MODEL_BYTES_MAX, err);
    if (status)
        return status;
    if (!xt_weight_file_meta(file, XT_CHECKPOINT_KEY)) {
        xt_weight_file_clear(file);
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is not a checkpoint; --resume takes a run's folder or a state-... in "
                          "it, --init the weights that a new run begins with",
                          path);
    }
    status = check_hash(file, path, err);
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

/* Adds to the error the newest intact checkpoint before the one at `path`, if any. */
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

enum xt_status xt_checkpoint_load(const struct xt_checkpoint_file *from,
                                  const struct xt_run_lister *lister, struct xt_network *network,
                                  const struct xt_checkpoint_array *arrays, int count,
                                  struct xt_err *err)
{
    struct xt_run_options options;
    const struct xt_params_view weights = {network->params.values, network->params.stats};
    enum xt_status status = xt_run_options_init(&options, lister, network, err);
    if (!status)
        status = check_meaning(&from->file, from->path, &options, network, err);
    if (!status)
        status = load_part(from, network, NULL, &weights, err);
    for (int i = 0; i < count && !status; i++)
        status = xt_checkpoint_load_array(from, network, &arrays[i], err);
    if (!status) {
        note_machine(from->path, &from->file, network);
        status = xt_run_options_note(&options, &from->file, from->path, err);
    }
    xt_run_options_clear(&options);
    return status;
}

enum xt_status xt_checkpoint_batch(const struct xt_checkpoint_file *from, int *batch,
                                   struct xt_err *err)
{
    struct {
        int64_t batch;
    } found = {0};
    static const struct xt_number_field field = {
        .key = "batch", .kind = XT_NUMBER_COUNT, .least = 1, .needed = true};
    enum xt_status status = xt_numbers_read(&field, 1, &found, 0, &from->file, from->path, err);
    if (!status && found.batch > INT_MAX)
        status = xt_err_set(err, XT_ERR_DATA, "%s is damaged: its batch is %" PRId64, from->path,
                            found.batch);
    *batch = status ? 0 : (int)found.batch;
    return status;
}

int xt_checkpoint_threads(const struct xt_checkpoint_file *from)
{
    const char *text = xt_weight_file_meta(&from->file, "threads");
    long count = text ? strtol(text, NULL, 10) : 0;
    return count > 0 && count <= xt_thread_available(NULL) ? (int)count : 0;
}

/* Of an intact file. */
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
    const struct xt_path aside = xt_file_beside(path, ".aside");
    if (rename(path, aside.text))
        return xt_err_system(err, XT_ERR_RUN, "cannot rename %s to %s", path, aside.text);
    xt_log_note("%s lies after the step that the run resumes from; it is %s now", path, aside.text);
    return XT_OK;
}

enum xt_status xt_checkpoint_set_aside(const char *folder, int64_t step, struct xt_err *err)
{
    int64_t *steps = NULL;
    size_t count = 0;
    enum xt_status status = list_steps(folder, &steps, &count, err);
    for (size_t i = 0; i < count && steps[i] > step && !status; i++)
        status = rename_aside(xt_checkpoint_path(folder, steps[i]).text, err);
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
        status = xt_mem_strdup(&out->path, xt_checkpoint_path(folder, steps[i]).text, err);
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
