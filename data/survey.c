#include "data/survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/system/stop.h"
#include "data/loader.h"

/* Sums over all pixels of all images. */
struct sums {
    double pixels;
    double sum[3];
    double square[3];
};

static uint64_t hash_image(const struct xt_image *image)
{
    uint64_t hash = xt_rng_at(1, (uint64_t)image->width, (uint64_t)image->height);
    size_t size = (size_t)image->width * (size_t)image->height * 3;
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0;
        memcpy(&word, image->pixels + i, size - i < 8 ? size - i : 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash ? hash : 1;
}

static void add_pixels(struct sums *sums, const struct xt_image *image)
{
    size_t count = (size_t)image->width * (size_t)image->height;
    uint64_t sum[3] = {0};
    uint64_t square[3] = {0};
    for (size_t i = 0; i < count; i++)
        for (int c = 0; c < 3; c++) {
            unsigned value = image->pixels[3 * i + (size_t)c];
            sum[c] += value;
            square[c] += (uint64_t)value * value;
        }
    sums->pixels += (double)count;
    for (int c = 0; c < 3; c++) {
        sums->sum[c] += (double)sum[c];
        sums->square[c] += (double)square[c];
    }
}

static enum xt_status add_size(struct xt_survey *survey, const struct xt_image *image,
                               struct xt_err *err)
{
    for (size_t i = 0; i < survey->size_count; i++) {
        struct xt_survey_size *size = &survey->sizes[i];
        if (size->width != image->width || size->height != image->height)
            continue;
        size->count++;
        /* Frequent sizes are moved to the front, where they are found first. */
        if (i > 0 && survey->sizes[i - 1].count < size->count) {
            struct xt_survey_size moved = survey->sizes[i - 1];
            survey->sizes[i - 1] = *size;
            *size = moved;
        }
        return XT_OK;
    }
    enum xt_status status =
        xt_mem_add(&survey->sizes, survey->size_count, sizeof *survey->sizes, "sizes", err);
    if (!status)
        survey->sizes[survey->size_count++] =
            (struct xt_survey_size){image->width, image->height, 1};
    return status;
}

static void add_format(struct xt_survey *survey, const char *name)
{
    size_t length = strlen(name);
    if (length > 4 && strcasecmp(name + length - 4, ".png") == 0)
        survey->png++;
    else if (length > 5 && strcasecmp(name + length - 5, ".webp") == 0)
        survey->webp++;
    else if ((length > 4 && strcasecmp(name + length - 4, ".jpg") == 0) ||
             (length > 5 && strcasecmp(name + length - 5, ".jpeg") == 0))
        survey->jpeg++;
    else
        survey->other++;
}

static enum xt_status add_label(struct xt_survey *survey, const struct xt_source *source,
                                size_t index, const char *name, bool bad, struct xt_err *err)
{
    int label[XT_LABEL_MAX];
    int length = 0;
    enum xt_status status = source->class->label(source, index, label, &length, err);
    if (status)
        return status;
    /* A placeholder of a damaged shard has no label either. */
    if (length == 0 && bad)
        return XT_OK;
    if (length == 0) {
        survey->unlabelled++;
        return survey->first_unlabelled ? XT_OK
                                        : xt_mem_strdup(&survey->first_unlabelled, name, err);
    }
    for (int i = 0; i < length; i++)
        if (label[i] >= 0 && label[i] < survey->symbols)
            survey->symbol_counts[label[i]]++;
    survey->label_least =
        survey->label_least == 0 || length < survey->label_least ? length : survey->label_least;
    survey->label_most = length > survey->label_most ? length : survey->label_most;
    return XT_OK;
}

static enum xt_status add_sample(struct xt_survey *survey, const struct xt_source *source,
                                 size_t index, struct xt_decoder *decoder, struct xt_sample *sample,
                                 struct sums *sums, struct xt_err *err)
{
    char name[1024];
    struct xt_err why;
    source->class->name(source, index, name, sizeof name);
    add_format(survey, name);
    enum xt_status read = source->class->read(source, index, NULL, decoder, sample, &why);
    enum xt_status status = add_label(survey, source, index, name, read == XT_ERR_DATA, err);
    if (status)
        return status;
    if (read == XT_ERR_DATA) {
        survey->bad++;
        return survey->first_bad ? XT_OK : xt_mem_strdup(&survey->first_bad, why.text, err);
    }
    if (read) {
        *err = why;
        return read;
    }
    survey->turned += sample->picture.turned;
    survey->hashes[index] = hash_image(&sample->picture.image);
    add_pixels(sums, &sample->picture.image);
    return add_size(survey, &sample->picture.image, err);
}

static int compare_hashes(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a;
    uint64_t other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

static int compare_sizes(const void *a, const void *b)
{
    size_t one = ((const struct xt_survey_size *)a)->count;
    size_t other = ((const struct xt_survey_size *)b)->count;
    return one > other ? -1 : one < other;
}

static void finish(struct xt_survey *survey, const struct sums *sums)
{
    qsort(survey->hashes, survey->count, sizeof *survey->hashes, compare_hashes);
    for (size_t i = 1; i < survey->count; i++)
        survey->duplicates += survey->hashes[i] != 0 && survey->hashes[i] == survey->hashes[i - 1];
    if (survey->size_count)
        qsort(survey->sizes, survey->size_count, sizeof *survey->sizes, compare_sizes);
    for (int c = 0; c < 3 && sums->pixels > 0; c++) {
        survey->mean[c] = sums->sum[c] / sums->pixels;
        double variance = sums->square[c] / sums->pixels - survey->mean[c] * survey->mean[c];
        survey->deviation[c] = variance > 0 ? sqrt(variance) : 0;
    }
}

enum xt_status xt_survey_take(struct xt_survey *survey, const struct xt_source *source, int symbols,
                              bool strict, struct xt_err *err)
{
    *survey = (struct xt_survey){.count = source->count, .symbols = symbols};
    struct xt_decoder decoder = {0};
    struct xt_sample sample = {0};
    struct sums sums = {0};
    enum xt_status status = xt_mem_calloc(&survey->hashes, source->count, sizeof *survey->hashes,
                                          "the images' hashes", err);
    if (!status)
        status = xt_mem_calloc(&survey->symbol_counts, (size_t)symbols,
                               sizeof *survey->symbol_counts, "symbol counts", err);
    for (size_t i = 0; i < source->count && !status; i++) {
        status = xt_stop_check(err, "after %zu of %zu images", i, source->count);
        if (!status)
            status = add_sample(survey, source, i, &decoder, &sample, &sums, err);
        if (!status && strict && survey->bad)
            status = xt_err_set(err, XT_ERR_DATA, "%s", survey->first_bad);
    }
    if (!status)
        finish(survey, &sums);
    xt_decoder_clear(&decoder);
    xt_image_clear(&sample.picture.image);
    return status;
}

enum xt_status xt_survey_check(const struct xt_survey *survey, struct xt_err *err)
{
    if (survey->bad < survey->count && !xt_loader_is_too_bad(survey->bad, survey->count))
        return XT_OK;
    return xt_err_set(
        err, XT_ERR_DATA, "%zu of %s cannot be used, more than the 1 %% allowed; the first: %s",
        survey->bad, xt_count((long long)survey->count, "image").text, survey->first_bad);
}

void xt_survey_clear(struct xt_survey *survey)
{
    free(survey->first_bad);
    free(survey->first_unlabelled);
    free(survey->sizes);
    free(survey->symbol_counts);
    free(survey->hashes);
    *survey = (struct xt_survey){0};
}

size_t xt_survey_common(const struct xt_survey *a, const struct xt_survey *b)
{
    size_t common = 0;
    size_t j = 0;
    for (size_t i = 0; i < a->count; i++) {
        while (j < b->count && b->hashes[j] < a->hashes[i])
            j++;
        common += a->hashes[i] != 0 && j < b->count && b->hashes[j] == a->hashes[i];
    }
    return common;
}
