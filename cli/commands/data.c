/* xtrain data check, data split and data pack: checks a set of images before training, splits it in
 * two, packs it into few files. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/image_set.h"
#include "cli/options/options.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "data/pack.h"
#include "data/sheet.h"
#include "data/sources/part.h"
#include "data/survey.h"
#include "infer/feed.h"

enum { SHEET_SAMPLES = 32, RARE = 5 };

/* Names are separated by spaces; one that contains a space is quoted. */
static enum xt_status add_name(struct xt_str *out, const char *name, struct xt_err *err)
{
    const char *quote = strchr(name, ' ') ? "\"" : "";
    return xt_str_printf(out, err, "%s%s%s%s", out->length ? " " : "", quote, name, quote);
}

/* Lists the symbols that occur `least` to `most` times in labels, without the blank. */
static enum xt_status list_symbols(const struct xt_image_set *set, const struct xt_survey *survey,
                                   size_t least, size_t most, struct xt_str *out,
                                   struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < survey->symbols && !status; i++) {
        bool blank = set->alphabet && i == xt_alphabet_blank(set->alphabet);
        size_t count = survey->symbol_counts[i];
        if (!blank && count >= least && count <= most)
            status = add_name(out, xt_image_set_symbol(set, i), err);
    }
    return status;
}

/* ---- reporting ---- */

static void describe_sizes(struct xt_report *report, const struct xt_survey *survey)
{
    enum { SHOWN = 4 };
    struct xt_report *sizes = xt_report_list(report, "sizes");
    for (size_t i = 0; i < survey->size_count; i++) {
        const struct xt_survey_size *size = &survey->sizes[i];
        struct xt_report *item = xt_report_group(sizes, NULL);
        const char *label = i == 0 ? "  sizes" : i < SHOWN ? "" : NULL;
        xt_report_add(item, "width", label, i ? ", %d" : "%d", size->width);
        xt_report_add(item, "height", i < SHOWN ? "" : NULL, " x %d", size->height);
        xt_report_add(item, "count", i < SHOWN ? "" : NULL, " (%zu)", size->count);
    }
    if (survey->size_count > SHOWN)
        xt_report_add(report, NULL, "", ", and %zu more", survey->size_count - SHOWN);
}

static void describe_channels(struct xt_report *report, const char *key, const char *label,
                              const double values[3])
{
    struct xt_report *list = xt_report_list(report, key);
    for (int i = 0; i < 3; i++)
        xt_report_add(list, NULL, i ? "" : label, i ? " %.1f" : "%.1f", values[i]);
}

static void describe_counts(struct xt_report *report, const struct xt_image_set *set,
                            const struct xt_survey *survey)
{
    struct xt_report *counts = xt_report_list(report, "label_counts");
    for (int i = 0; i < survey->symbols; i++)
        if (!set->alphabet || i != xt_alphabet_blank(set->alphabet)) {
            struct xt_report *item = xt_report_group(counts, NULL);
            xt_report_values(item, "label=%s count=%zu", xt_image_set_symbol(set, i),
                             survey->symbol_counts[i]);
        }
}

static void describe_labels(struct xt_report *report, const struct xt_image_set *set,
                            const struct xt_survey *survey)
{
    struct xt_str never = {0};
    struct xt_str rare = {0};
    const char *what = set->alphabet ? "symbols" : "classes";
    if (list_symbols(set, survey, 0, 0, &never, NULL) ||
        list_symbols(set, survey, 1, RARE - 1, &rare, NULL))
        xt_report_fail(report);
    xt_report_add(report, "shortest_label", set->alphabet ? "  labels" : NULL, "%d",
                  survey->label_least);
    xt_report_add(report, "longest_label", NULL, "%d", survey->label_most);
    xt_report_add(report, NULL, set->alphabet ? "" : NULL, " to %s long",
                  xt_count((long long)survey->label_most, "symbol").text);
    xt_report_add(report, "unlabelled", survey->unlabelled ? "  NO LABEL" : NULL, "%zu",
                  survey->unlabelled);
    if (survey->first_unlabelled)
        xt_report_add(report, "first_unlabelled", "", "; %s", set->labels.text);
    describe_counts(report, set, survey);
    xt_report_add(report, NULL, "  never seen", "%s", what);
    xt_report_add(report, NULL, "", ": %s", never.length ? xt_str_get(&never) : "none");
    xt_report_add(report, NULL, "  rare", "%s", what);
    xt_report_add(report, NULL, "", " seen fewer than %d times", RARE);
    xt_report_add(report, NULL, "", ": %s", rare.length ? xt_str_get(&rare) : "none");
    xt_str_clear(&never);
    xt_str_clear(&rare);
}

/* The other set (--against), which must not share images with this one. */
static const char *others_of(const struct xt_settings *s)
{
    return s->bench.against ? s->bench.against : s->data.val;
}

/* `against`: findings on the other set, else NULL. */
static enum xt_status report(const struct xt_image_set *set, const struct xt_settings *s,
                             const struct xt_survey *survey, const struct xt_survey *against,
                             struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    xt_report_line(report, "%s, checked for %s", set->source->description, set->model->name);
    xt_report_add(report, "images", "  images", "%zu", survey->count);
    xt_report_add(report, "jpeg", "  formats", "%zu JPEG", survey->jpeg);
    xt_report_add(report, "png", "", ", %zu PNG", survey->png);
    xt_report_add(report, "webp", "", ", %zu WebP", survey->webp);
    xt_report_add(report, NULL, "", ", %zu of other kinds", survey->other);
    xt_report_add(report, "turned", "  turned", "%zu by their Exif orientation", survey->turned);
    describe_sizes(report, survey);
    xt_report_add(report, "bad_images", "  bad", "%zu", survey->bad);
    if (survey->first_bad)
        xt_report_add(report, "first_bad_image", "", "; the first: %s", survey->first_bad);
    xt_report_add(report, "duplicates", "  duplicates", "%zu duplicate the pixels of another one",
                  survey->duplicates);
    describe_channels(report, "channel_mean", "  mean", survey->mean);
    xt_report_add(report, NULL, "", " (%s)",
                  set->model->bgr ? "blue, green, red" : "red, green, blue");
    describe_channels(report, "channel_deviation", "  deviation", survey->deviation);
    describe_labels(report, set, survey);
    if (against) {
        xt_report_add(report, "duplicates_across", "  across", "%zu have the pixels of one in ",
                      xt_survey_common(survey, against));
        xt_report_add(report, NULL, "", "%s", others_of(s));
    }
    return xt_result_put(report, err);
}

/* ---- data check ---- */

static enum xt_status save_sheet(const struct xt_image_set *set, const struct xt_settings *s,
                                 struct xt_err *err)
{
    struct xt_feed_size size = {set->model->width, set->model->height, set->model->bgr};
    if (set->model->any_size)
        size.width = size.height = 112;
    struct xt_loader_config config = xt_feed_config(&s->data, &size, true);
    config.source = set->source;
    /* Shows the augmentation that training would use, even if --augment is off. */
    config.augment = set->alphabet != NULL;
    config.flip = config.flip || !set->alphabet;
    enum xt_status status =
        xt_sheet_save(s->dataset.sheet, &config, SHEET_SAMPLES, set->alphabet, err);
    if (!status)
        xt_log_note("%s shows random images with their labels, as stored and as training may "
                    "see them",
                    s->dataset.sheet);
    return status;
}

/* A finding that would stop a training run gives its exit code, after all is reported. */
static enum xt_status judge(const struct xt_image_set *set, const struct xt_survey *survey,
                            struct xt_err *err)
{
    if (set->labels.status) {
        *err = set->labels;
        return err->status;
    }
    return xt_survey_check(survey, err);
}

/* Compares with the other set, which must not share images with this one; its errors go to *fault.
 */
static enum xt_status compare(const struct xt_model_info *model, const struct xt_settings *s,
                              struct xt_survey *survey, struct xt_err *fault, struct xt_err *err)
{
    struct xt_image_set set = {.model = model, .held_out = true};
    enum xt_status status = xt_image_set_open(&set, s, others_of(s), err);
    if (!status)
        status =
            xt_survey_take(survey, set.source, xt_image_set_symbols(&set), s->data.strict, err);
    if (!status)
        judge(&set, survey, fault);
    xt_image_set_clear(&set);
    return status;
}

static enum xt_status check(const struct xt_image_set *set, const struct xt_settings *s,
                            struct xt_err *err)
{
    struct xt_survey survey = {0};
    struct xt_survey against = {0};
    struct xt_err fault = {.status = XT_OK};
    bool others = others_of(s) != NULL;
    enum xt_status status =
        xt_survey_take(&survey, set->source, xt_image_set_symbols(set), s->data.strict, err);
    if (!status && others)
        status = compare(set->model, s, &against, &fault, err);
    if (!status)
        status = report(set, s, &survey, others ? &against : NULL, err);
    if (!status && s->dataset.sheet && !xt_survey_check(&survey, NULL))
        status = save_sheet(set, s, err);
    if (!status)
        status = judge(set, &survey, err);
    if (!status && fault.status) {
        *err = fault;
        status = err->status;
    }
    xt_survey_clear(&against);
    xt_survey_clear(&survey);
    return status;
}

enum xt_status xt_cmd_data_check(struct xt_options *options, struct xt_err *err)
{
    struct xt_image_set set = {0};
    enum xt_status status = xt_image_set_open(&set, &options->values, options->arguments[0], err);
    if (!status)
        status = check(&set, &options->values, err);
    xt_image_set_clear(&set);
    return status;
}

/* ---- data split ---- */

/* Refuses existing lists: with another seed, training images would be in the evaluation list. */
static enum xt_status refuse_lists(const char *folder, struct xt_err *err)
{
    static const char *const names[] = {"train.txt", "val.txt"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const struct xt_path path = xt_file_path(folder, names[i]);
        if (xt_file_exists(path.text))
            return xt_err_set(err, XT_ERR_RUN,
                              "%s exists; images that a model was trained on could become "
                              "evaluation images: give another --out, or rename train.txt and "
                              "val.txt",
                              path.text);
    }
    return XT_OK;
}

static enum xt_status save_list(const char *folder, const char *name, const struct xt_str *text,
                                struct xt_err *err)
{
    const struct xt_path path = xt_file_path(folder, name);
    enum xt_status status = xt_file_save(path.text, xt_str_get(text), text->length, err);
    return status;
}

static enum xt_status tell_split(const size_t counts[2], const struct xt_settings *s,
                                 struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    xt_report_line(report, "%s in %s/train.txt, %zu in %s/val.txt",
                   xt_count((long long)counts[0], "image").text, s->record.out, counts[1],
                   s->record.out);
    xt_report_values(report, "path=%s train=%zu val=%zu", s->record.out, counts[0], counts[1]);
    return xt_result_put(report, err);
}

/* The parts are the same when the same set is split again, and those of train --val-part. */
static enum xt_status split(const struct xt_image_set *set, const struct xt_settings *s,
                            struct xt_err *err)
{
    struct xt_str parts[2] = {{0}, {0}};
    size_t counts[2] = {0};
    double share = s->data.val_part > 0 ? s->data.val_part : 0.1;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < set->source->count && !status; i++) {
        bool held = false;
        status = xt_stop_check(err, "after %zu of %zu images; no list was written", i,
                               set->source->count);
        if (!status)
            status = xt_source_holds_out(set->source, i, share, s->data.seed, &held, err);
        if (!status)
            status = xt_image_set_add_line(set, i, &parts[held], err);
        counts[held]++;
    }
    if (!status && (!counts[0] || !counts[1]))
        status = xt_err_set(
            err, XT_ERR_USAGE,
            "of %s %zu would be left for training and %zu for evaluation; give another --val-part",
            xt_count((long long)set->source->count, "image").text, counts[0], counts[1]);
    if (!status)
        status = refuse_lists(s->record.out, err);
    if (!status)
        status = xt_file_make_folder(s->record.out, err);
    if (!status)
        status = save_list(s->record.out, "train.txt", &parts[0], err);
    if (!status)
        status = save_list(s->record.out, "val.txt", &parts[1], err);
    if (!status)
        status = tell_split(counts, s, err);
    xt_str_clear(&parts[0]);
    xt_str_clear(&parts[1]);
    return status;
}

enum xt_status xt_cmd_data_split(struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct xt_image_set set = {0};
    if (!s->record.out)
        return xt_err_set(err, XT_ERR_USAGE, "data split needs --out DIR for the lists");
    enum xt_status status = xt_image_set_open_whole(&set, s, options->arguments[0], "split", err);
    if (!status)
        status = split(&set, s, err);
    xt_image_set_clear(&set);
    return status;
}

/* ---- data pack ---- */

static void describe_packed(struct xt_report *report, const struct xt_packed *packed,
                            const struct xt_settings *s, const char *out)
{
    const struct xt_counted images = xt_count((long long)packed->images, "image");
    double megabytes = (double)packed->bytes / 1e6;
    if (s->dataset.pack_as == XT_PACK_PIXELS)
        xt_report_line(report,
                       "%s (%.1f MB of pixels) in %s; training takes them with --image-cache disk "
                       "--image-cache-file %s",
                       images.text, megabytes, out, out);
    else if (packed->shards == 1)
        xt_report_line(report, "%s (%.1f MB) in %s-000000.tar", images.text, megabytes, out);
    else
        xt_report_line(report, "%s (%.1f MB) in %zu shards, %s-000000.tar to %s-%06zu.tar",
                       images.text, megabytes, packed->shards, out, out, packed->shards - 1);
    xt_report_values(report, "path=%s images=%zu bad_images=%zu bytes=%lld", out, packed->images,
                     packed->bad, (long long)packed->bytes);
    if (s->dataset.pack_as == XT_PACK_SHARDS)
        xt_report_add(report, "shards", NULL, "%zu", packed->shards);
}

static enum xt_status tell_packed(const struct xt_packed *packed, const struct xt_settings *s,
                                  const char *out, struct xt_err *err)
{
    if (packed->bad)
        xt_log_warn("%s could not be used and %s skipped; the first: %s",
                    xt_count((long long)packed->bad, "image").text,
                    packed->bad == 1 ? "was" : "were", packed->first_bad);
    if (s->output.quiet && !xt_result_is_json())
        return XT_OK;
    struct xt_report *report = xt_report_create();
    describe_packed(report, packed, s, out);
    return xt_result_put(report, err);
}

static enum xt_status pack(const struct xt_image_set *set, const struct xt_settings *s,
                           const char *out, struct xt_err *err)
{
    const struct xt_model_info *model = set->model;
    bool any_size = s->network.image_size && model->any_size;
    struct xt_pack_config config = {
        .source = set->source,
        .order = model->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB,
        .strict = s->data.strict,
        .alphabet = set->alphabet,
        .prefix = out,
        .shard_bytes = (uint64_t)s->dataset.shard_size << 20,
        .path = out,
        .width = any_size ? s->network.image_size : model->width,
        .height = any_size ? s->network.image_size : model->height,
        .workers = s->data.workers ? s->data.workers : xt_thread_available(NULL),
    };
    struct xt_packed packed = {0};
    enum xt_status status = s->dataset.pack_as == XT_PACK_PIXELS
                                ? xt_pack_pixels(&config, &packed, err)
                                : xt_pack_shards(&config, &packed, err);
    if (!status)
        status = tell_packed(&packed, s, out, err);
    xt_packed_clear(&packed);
    return status;
}

enum xt_status xt_cmd_data_pack(struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct xt_image_set set = {0};
    if (options->argument_count != 2)
        return xt_err_set(err, XT_ERR_USAGE,
                          "data pack takes two arguments: what to pack, and where to (xtrain data "
                          "pack plates/train packed/train)");
    enum xt_status status = xt_image_set_open_whole(&set, s, options->arguments[0], "pack", err);
    if (!status)
        status = pack(&set, s, options->arguments[1], err);
    xt_image_set_clear(&set);
    return status;
}
