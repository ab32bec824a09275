/* xtrain data check, data split and data pack: a look at a set of images before it is trained on,
 * cutting one in two, packing one into few files. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "data/pack.h"
#include "data/sheet.h"
#include "data/sources/registry.h"
#include "data/survey.h"
#include "models/registry.h"
#include "train/feed.h"

enum { SHEET_SAMPLES = 32, RARE = 5 };

/* A set of images and what its labels are of. */
struct set {
    const struct xt_model_info *model;
    struct xt_alphabet *alphabet;
    struct xt_source *source;
    struct xt_err labels; /* what opening it strictly says; status XT_OK: all labels are good */
};

static void clear_set(struct set *set)
{
    xt_source_destroy(set->source);
    xt_alphabet_destroy(set->alphabet);
    *set = (struct set){0};
}

/* Without --model: classes where there are such, else plates. */
static const char *guess_model(const char *spec)
{
    struct xt_source_options options = {.task = XT_TASK_CLASSES};
    struct xt_source *source = NULL;
    struct xt_err err;
    bool classes = xt_source_open(&source, spec, &options, &err) == XT_OK;
    xt_source_destroy(source);
    return classes ? "resnet50" : "lprnet";
}

static enum xt_status open_set(struct set *set, const struct xt_settings *s, const char *spec,
                               struct xt_err *err)
{
    enum xt_status status = xt_model_get(s->model ? s->model : guess_model(spec), &set->model, err);
    if (!status && set->model->time_steps)
        status = xt_alphabet_load(&set->alphabet, s->alphabet, err);
    if (status)
        return status;
    struct xt_source_options options = {
        .task = set->model->time_steps ? XT_TASK_PLATES : XT_TASK_CLASSES,
        .alphabet = set->alphabet,
        .order = set->model->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB,
        .steps_max = set->model->time_steps,
    };
    set->labels.status = XT_OK;
    status = xt_source_open(&set->source, spec, &options, &set->labels);
    if (!status)
        return XT_OK;
    /* Labels that cannot be used are a finding here, and no end. */
    options.labels_optional = true;
    if (options.task == XT_TASK_CLASSES || status != XT_ERR_DATA ||
        xt_source_open(&set->source, spec, &options, err)) {
        *err = set->labels;
        return status;
    }
    return XT_OK;
}

static int symbols_of(const struct set *set)
{
    return set->alphabet ? xt_alphabet_count(set->alphabet) : xt_source_class_count(set->source);
}

static const char *symbol_name(const struct set *set, int index)
{
    return set->alphabet ? xt_alphabet_symbol(set->alphabet, index)
                         : xt_source_class_name(set->source, index);
}

/* The symbols that labels have `least` to `most` times; the blank is none. */
static enum xt_status list_symbols(const struct set *set, const struct xt_survey *survey,
                                   size_t least, size_t most, struct xt_str *out,
                                   struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < survey->symbols && !status; i++) {
        bool blank = set->alphabet && i == xt_alphabet_blank(set->alphabet);
        size_t count = survey->symbol_counts[i];
        if (!blank && count >= least && count <= most)
            status = xt_str_printf(out, err, "%s%s", out->length ? " " : "", symbol_name(set, i));
    }
    return status;
}

/* ---- what is said ---- */

static void print_sizes(const struct xt_survey *survey)
{
    enum { SHOWN = 4 };
    printf("  sizes        ");
    for (size_t i = 0; i < survey->size_count && i < SHOWN; i++)
        printf("%s%d x %d (%zu)", i ? ", " : "", survey->sizes[i].width, survey->sizes[i].height,
               survey->sizes[i].count);
    if (survey->size_count > SHOWN)
        printf(", and %zu more", survey->size_count - SHOWN);
    printf("\n");
}

static enum xt_status print_labels(const struct set *set, const struct xt_survey *survey,
                                   struct xt_err *err)
{
    struct xt_str never = {0};
    struct xt_str rare = {0};
    enum xt_status status = list_symbols(set, survey, 0, 0, &never, err);
    if (!status)
        status = list_symbols(set, survey, 1, RARE - 1, &rare, err);
    if (!status) {
        const char *what = set->alphabet ? "symbols" : "classes";
        if (set->alphabet)
            printf("  labels       %d to %d symbols long\n", survey->label_least,
                   survey->label_most);
        if (survey->unlabelled)
            printf("  NO LABEL     %zu; %s\n", survey->unlabelled, set->labels.text);
        printf("  never seen   %s: %s\n", what, never.length ? xt_str_get(&never) : "none");
        printf("  rare         %s seen fewer than %d times: %s\n", what, RARE,
               rare.length ? xt_str_get(&rare) : "none");
    }
    xt_str_clear(&never);
    xt_str_clear(&rare);
    return status;
}

static enum xt_status print_survey(const struct set *set, const struct xt_survey *survey,
                                   struct xt_err *err)
{
    printf("%s, looked at as %s reads them\n", set->source->description, set->model->name);
    printf("  images       %zu\n", survey->count);
    printf("  formats      %zu JPEG, %zu PNG, %zu of other kinds\n", survey->jpeg, survey->png,
           survey->other);
    print_sizes(survey);
    printf("  bad          %zu%s%s\n", survey->bad, survey->first_bad ? "; the first: " : "",
           survey->first_bad ? survey->first_bad : "");
    printf("  duplicates   %zu have the pixels of another one\n", survey->duplicates);
    printf("  mean         %.1f %.1f %.1f (%s)\n", survey->mean[0], survey->mean[1],
           survey->mean[2], set->model->bgr ? "blue, green, red" : "red, green, blue");
    printf("  deviation    %.1f %.1f %.1f\n", survey->deviation[0], survey->deviation[1],
           survey->deviation[2]);
    return print_labels(set, survey, err);
}

static bool add_counts(cJSON *json, const struct set *set, const struct xt_survey *survey)
{
    cJSON *counts = cJSON_AddObjectToObject(json, set->alphabet ? "symbols" : "classes");
    bool good = counts != NULL;
    for (int i = 0; i < survey->symbols && good; i++)
        if (!set->alphabet || i != xt_alphabet_blank(set->alphabet))
            good = cJSON_AddNumberToObject(counts, symbol_name(set, i),
                                           (double)survey->symbol_counts[i]) != NULL;
    return good;
}

static cJSON *survey_to_json(const struct set *set, const struct xt_survey *survey)
{
    cJSON *json = cJSON_CreateObject();
    cJSON *sizes = json ? cJSON_AddArrayToObject(json, "sizes") : NULL;
    cJSON *mean = json ? cJSON_CreateDoubleArray(survey->mean, 3) : NULL;
    cJSON *deviation = json ? cJSON_CreateDoubleArray(survey->deviation, 3) : NULL;
    bool good = sizes && cJSON_AddItemToObject(json, "mean", mean) &&
                cJSON_AddItemToObject(json, "deviation", deviation) &&
                cJSON_AddNumberToObject(json, "images", (double)survey->count) &&
                cJSON_AddNumberToObject(json, "bad", (double)survey->bad) &&
                cJSON_AddNumberToObject(json, "unlabelled", (double)survey->unlabelled) &&
                cJSON_AddNumberToObject(json, "duplicates", (double)survey->duplicates) &&
                cJSON_AddNumberToObject(json, "jpeg", (double)survey->jpeg) &&
                cJSON_AddNumberToObject(json, "png", (double)survey->png) &&
                cJSON_AddNumberToObject(json, "label_least", survey->label_least) &&
                cJSON_AddNumberToObject(json, "label_most", survey->label_most) &&
                add_counts(json, set, survey);
    if (good && survey->first_bad)
        good = cJSON_AddStringToObject(json, "first_bad", survey->first_bad) != NULL;
    if (good && survey->first_unlabelled)
        good = cJSON_AddStringToObject(json, "first_unlabelled", set->labels.text) != NULL;
    for (size_t i = 0; i < survey->size_count && good; i++) {
        const int size[3] = {survey->sizes[i].width, survey->sizes[i].height,
                             (int)survey->sizes[i].count};
        good = cJSON_AddItemToArray(sizes, cJSON_CreateIntArray(size, 3));
    }
    if (good)
        return json;
    cJSON_Delete(json);
    return NULL;
}

static enum xt_status print_json(const struct set *set, const struct xt_survey *survey,
                                 const struct xt_survey *against, struct xt_err *err)
{
    cJSON *json = survey_to_json(set, survey);
    if (json && against)
        cJSON_AddNumberToObject(json, "duplicates_across",
                                (double)xt_survey_common(survey, against));
    char *text = json ? cJSON_Print(json) : NULL;
    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(json);
    return text ? XT_OK : xt_err_no_memory(err, "the report", 0);
}

/* ---- data check ---- */

static enum xt_status save_sheet(const struct set *set, const struct xt_settings *s,
                                 struct xt_err *err)
{
    const char *path = s->sheet ? s->sheet : "contact-sheet.png";
    struct xt_feed_size size = {set->model->width, set->model->height, set->model->bgr};
    if (set->model->any_size)
        size.width = size.height = 112;
    struct xt_loader_config config = xt_feed_config(s, &size, true);
    config.source = set->source;
    /* What training may do to an image is to be seen, whether or not it is asked for. */
    config.augment = set->alphabet != NULL;
    config.flip = config.flip || !set->alphabet;
    enum xt_status status = xt_sheet_save(path, &config, SHEET_SAMPLES, set->alphabet, err);
    if (!status)
        xt_log_note("%s shows random images with their labels, as they are and as training may "
                    "see them",
                    path);
    return status;
}

/* Looks at --against, whose pictures must not be among the others'. */
static enum xt_status compare(const struct xt_settings *s, struct xt_survey *survey,
                              struct xt_err *err)
{
    struct set set = {0};
    enum xt_status status = open_set(&set, s, s->against, err);
    if (!status)
        status = xt_survey_take(survey, set.source, symbols_of(&set), err);
    clear_set(&set);
    return status;
}

static enum xt_status check(const struct set *set, const struct xt_settings *s, struct xt_err *err)
{
    struct xt_survey survey = {0};
    struct xt_survey against = {0};
    enum xt_status status = xt_survey_take(&survey, set->source, symbols_of(set), err);
    if (!status && s->against)
        status = compare(s, &against, err);
    if (!status)
        status = s->json ? print_json(set, &survey, s->against ? &against : NULL, err)
                         : print_survey(set, &survey, err);
    if (!status && s->against && !s->json)
        printf("  across       %zu have the pixels of one in %s\n",
               xt_survey_common(&survey, &against), s->against);
    if (!status && survey.bad < survey.count)
        status = save_sheet(set, s, err);
    xt_survey_clear(&against);
    xt_survey_clear(&survey);
    return status;
}

enum xt_status xt_cmd_data_check(struct xt_options *options, struct xt_err *err)
{
    struct set set = {0};
    enum xt_status status = open_set(&set, &options->values, options->arguments[0], err);
    if (!status)
        status = check(&set, &options->values, err);
    clear_set(&set);
    return status;
}

/* ---- data split ---- */

/* A sample's line of a list: its whole path, so that the list may lie anywhere. */
static enum xt_status add_line(const struct set *set, size_t index, struct xt_str *out,
                               struct xt_err *err)
{
    char name[4096];
    int label[XT_LABEL_MAX];
    int length = 0;
    set->source->class->name(set->source, index, name, sizeof name);
    char *path = realpath(name, NULL);
    if (!path)
        return xt_err_set(err, XT_ERR_DATA, "%s is no file: only sets of image files can be split",
                          name);
    enum xt_status status = set->source->class->label(set->source, index, label, &length, err);
    if (!status)
        status = xt_str_printf(out, err, "%s", path);
    bool labelled = !set->source->labels_in_names;
    if (!status && labelled)
        status = xt_str_append(out, "\t", 1, err);
    if (!status && labelled && set->alphabet)
        status = xt_alphabet_decode(set->alphabet, label, length, out, err);
    else if (!status && labelled)
        status = xt_str_printf(out, err, "%s", xt_source_class_name(set->source, label[0]));
    if (!status)
        status = xt_str_append(out, "\n", 1, err);
    free(path);
    return status;
}

static enum xt_status save_list(const char *folder, const char *name, const struct xt_str *text,
                                struct xt_err *err)
{
    char *path = NULL;
    enum xt_status status = xt_file_join(&path, folder, name, err);
    if (!status)
        status = xt_file_save(path, xt_str_get(text), text->length, err);
    free(path);
    return status;
}

/* Each sample goes to one side by a number drawn from seed and its index: so the parts stay as they
 * are when the same set is split again. */
static enum xt_status split(const struct set *set, const struct xt_settings *s, struct xt_err *err)
{
    struct xt_str parts[2] = {{0}, {0}};
    size_t counts[2] = {0};
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < set->source->count && !status; i++) {
        struct xt_rng rng = xt_rng_begin(s->seed, i);
        int part = (double)xt_rng_uniform(&rng) < s->val_part;
        status = add_line(set, i, &parts[part], err);
        counts[part]++;
    }
    if (!status && (!counts[0] || !counts[1]))
        status = xt_err_set(err, XT_ERR_USAGE,
                            "of %zu images %zu would be left for training and %zu for evaluation; "
                            "give another --val-part",
                            set->source->count, counts[0], counts[1]);
    if (!status)
        status = xt_file_make_folder(s->out, err);
    if (!status)
        status = save_list(s->out, "train.txt", &parts[0], err);
    if (!status)
        status = save_list(s->out, "val.txt", &parts[1], err);
    if (!status)
        printf("%zu images in %s/train.txt, %zu in %s/val.txt\n", counts[0], s->out, counts[1],
               s->out);
    xt_str_clear(&parts[0]);
    xt_str_clear(&parts[1]);
    return status;
}

/* A set whose labels are all good, and that is no mixture. */
static enum xt_status open_whole_set(struct set *set, const struct xt_settings *s, const char *spec,
                                     const char *verb, struct xt_err *err)
{
    enum xt_status status = open_set(set, s, spec, err);
    if (!status && set->source->class->draw)
        return xt_err_set(err, XT_ERR_USAGE, "%s is a mixture; %s its sources, one by one", spec,
                          verb);
    if (!status && set->labels.status) {
        *err = set->labels;
        status = err->status;
    }
    return status;
}

enum xt_status xt_cmd_data_split(struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct set set = {0};
    if (!s->out)
        return xt_err_set(err, XT_ERR_USAGE, "data split needs --out DIR: where the lists go");
    enum xt_status status = open_whole_set(&set, s, options->arguments[0], "split", err);
    if (!status)
        status = split(&set, s, err);
    clear_set(&set);
    return status;
}

/* ---- data pack ---- */

static void tell_packed(const struct xt_packed *packed, const struct xt_settings *s,
                        const char *out)
{
    double megabytes = (double)packed->bytes / 1e6;
    if (packed->bad)
        xt_log_warn("%zu image%s could not be used and %s left out; the first: %s", packed->bad,
                    packed->bad == 1 ? "" : "s", packed->bad == 1 ? "was" : "were",
                    packed->first_bad);
    if (s->quiet)
        return;
    if (s->pack_as == XT_PACK_PIXELS)
        printf("%zu images (%.1f MB of pixels) in %s; training takes them with --cache disk "
               "--cache-file %s\n",
               packed->images, megabytes, out, out);
    else if (packed->shards == 1)
        printf("%zu images (%.1f MB) in %s-000000.tar\n", packed->images, megabytes, out);
    else
        printf("%zu images (%.1f MB) in %zu shards, %s-000000.tar to %s-%06zu.tar\n",
               packed->images, megabytes, packed->shards, out, out, packed->shards - 1);
}

static enum xt_status pack(const struct set *set, const struct xt_settings *s, const char *out,
                           struct xt_err *err)
{
    const struct xt_model_info *model = set->model;
    bool any_size = s->image_size && model->any_size;
    struct xt_pack_config config = {
        .source = set->source,
        .order = model->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB,
        .strict = s->strict_data,
        .alphabet = set->alphabet,
        .prefix = out,
        .shard_bytes = (uint64_t)s->shard_size << 20,
        .path = out,
        .width = any_size ? s->image_size : model->width,
        .height = any_size ? s->image_size : model->height,
        .workers = s->workers ? s->workers : xt_thread_available(NULL),
    };
    struct xt_packed packed = {0};
    enum xt_status status = s->pack_as == XT_PACK_PIXELS ? xt_pack_pixels(&config, &packed, err)
                                                         : xt_pack_shards(&config, &packed, err);
    if (!status)
        tell_packed(&packed, s, out);
    xt_packed_clear(&packed);
    return status;
}

enum xt_status xt_cmd_data_pack(struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct set set = {0};
    if (options->argument_count != 2)
        return xt_err_set(err, XT_ERR_USAGE,
                          "data pack takes two words: what to pack, and where to (xtrain data pack "
                          "plates/train packed/train)");
    enum xt_status status = open_whole_set(&set, s, options->arguments[0], "pack", err);
    if (!status)
        status = pack(&set, s, options->arguments[1], err);
    clear_set(&set);
    return status;
}
