#include "train/ranks/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "data/digest.h"
#include "ranks/facts.h"

enum { SAMPLES = 256, PARTS = 64, NAME_BYTES = 4096 };

/* ---- the network ---- */

/* Long texts count by their hash. */
static void add_text(struct xt_str *facts, const char *name, const char *text)
{
    const struct xt_sha256_digest digest = xt_sha256(text, text ? strlen(text) : 0);
    xt_ranks_add_fact(facts, name, "%.16s", xt_sha256_format(&digest).text);
}

static enum xt_status add_labels(struct xt_str *facts, const struct xt_network *network,
                                 struct xt_err *err)
{
    struct xt_str names = {0};
    if (network->task == XT_TASK_PLATES) {
        xt_ranks_add_fact(facts, "the symbols of --alphabet", "%.900s",
                          xt_alphabet_text(network->alphabet));
        return XT_OK;
    }
    enum xt_status status = xt_class_names_print(&network->class_names, &names, err);
    xt_ranks_add_fact(facts, "the number of classes", "%d", network->classes);
    add_text(facts, "the hash of the classes' names", xt_str_get(&names));
    xt_str_clear(&names);
    return status;
}

enum xt_status xt_ranks_compare_network(struct xt_ranks *ranks, const struct xt_network *network,
                                        struct xt_err *err)
{
    struct xt_str facts = {0};
    if (!ranks)
        return XT_OK;
    xt_ranks_add_fact(&facts, "oneDNN", "%s", xt_dnnl_version_text().text);
    xt_ranks_add_fact(&facts, "--image-size of the network", "%dx%d", network->width,
                      network->height);
    xt_ranks_add_fact(&facts, "--normalize, by the weights", "%s", network->normalise_text);
    xt_ranks_add_fact(&facts, "--lprnet-norm, by the weights", "%s",
                      network->over_batch ? "batch" : "sample");
    if (network->loaded)
        add_text(&facts, "the hash of the network in --model", network->loaded->text);
    enum xt_status status = add_labels(&facts, network, err);
    if (!status)
        status = xt_ranks_compare(ranks, &facts, err);
    xt_str_clear(&facts);
    return status;
}

/* ---- the list of images ---- */

/* Enough of a digest to tell sets apart that differ by mistake. */
static uint64_t shorten(struct xt_sha256_digest digest)
{
    uint64_t word = 0;
    memcpy(&word, &digest, sizeof word);
    return word;
}

static void name_of(const struct xt_source *source, size_t index, char name[NAME_BYTES])
{
    char path[NAME_BYTES];
    source->class->name(source, index, path, sizeof path);
    snprintf(name, NAME_BYTES, "%s", xt_file_name(path));
}

/* The first of `count` numbers that is not the same on all ranks; `count` if all are. */
static enum xt_status find_other(struct xt_ranks *ranks, const uint64_t *own, size_t count,
                                 size_t *first, size_t *others, struct xt_err *err)
{
    uint64_t *all = NULL;
    *first = count;
    *others = 0;
    enum xt_status status =
        xt_ranks_gather(ranks, own, count * sizeof *all, &all, "the images", err);
    for (size_t k = count; k-- > 0 && !status;) {
        bool same = true;
        for (int i = 1; i < ranks->size; i++)
            same = same && all[(size_t)i * count + k] == all[k];
        *first = same ? *first : k;
        *others += !same;
    }
    free(all);
    return status;
}

/* Narrows down where the lists begin to differ; *at is `count` if they do not. */
static enum xt_status find_image(struct xt_ranks *ranks, const struct xt_source *source,
                                 size_t count, size_t *at, struct xt_err *err)
{
    size_t begin = 0;
    size_t end = count;
    enum xt_status status = XT_OK;
    while (begin < end && !status) {
        uint64_t hashes[PARTS];
        size_t part = (end - begin + PARTS - 1) / PARTS;
        size_t parts = (end - begin + part - 1) / part;
        size_t first = 0;
        size_t others = 0;
        for (size_t k = 0; k < parts; k++)
            hashes[k] = shorten(xt_source_digest_list(
                source, begin + k * part, k + 1 < parts ? begin + (k + 1) * part : end));
        status = find_other(ranks, hashes, parts, &first, &others, err);
        if (!status && first < parts && part == 1) {
            *at = begin + first;
            return XT_OK;
        }
        end = first + 1 < parts ? begin + (first + 1) * part : end;
        begin = first < parts ? begin + first * part : end;
    }
    *at = count;
    return status;
}

static enum xt_status compare_list(struct xt_ranks *ranks, const struct xt_source *source,
                                   const char *option, struct xt_err *err)
{
    size_t count = source ? source->count : 0;
    double most = 0;
    size_t at = 0;
    char name[NAME_BYTES] = "";
    struct xt_str facts = {0};
    size_t *counts = NULL;
    enum xt_status status =
        xt_ranks_gather(ranks, &count, sizeof count, &counts, "the images", err);
    size_t least = count;
    for (int i = 0; i < ranks->size && !status; i++) {
        least = counts[i] < least ? counts[i] : least;
        most = (double)counts[i] > most ? (double)counts[i] : most;
    }
    free(counts);
    if (!status && source)
        status = find_image(ranks, source, least, &at, err);
    if (status || (at == least && (double)least == most))
        return status;
    if (source && at < count)
        name_of(source, at, name);
    xt_ranks_add_fact(&facts, option, "%s, of which number %zu is %.900s",
                      xt_count((long long)count, "image").text, at + 1, *name ? name : "none");
    status = xt_ranks_compare(ranks, &facts, err);
    xt_str_clear(&facts);
    return status;
}

/* ---- a sample of them ---- */

/* One of each of `samples` equal parts. */
static size_t sample_at(size_t count, size_t samples, size_t k, uint64_t seed)
{
    size_t begin = count / samples * k + count % samples * k / samples;
    size_t end = count / samples * (k + 1) + count % samples * (k + 1) / samples;
    struct xt_rng rng = xt_rng_begin(seed, k);
    return begin + (size_t)xt_rng_below(&rng, end - begin);
}

static enum xt_status compare_sample(struct xt_ranks *ranks, const struct xt_source *source,
                                     const char *option, uint64_t seed, struct xt_err *err)
{
    size_t samples = source->count < SAMPLES ? source->count : SAMPLES;
    struct xt_image_digest images[SAMPLES];
    uint64_t hashes[SAMPLES];
    struct xt_decoder decoder = {0};
    size_t first = 0;
    size_t others = 0;
    char name[NAME_BYTES];
    char fact[NAME_BYTES + 128];
    struct xt_str facts = {0};
    if (!samples)
        return XT_OK;
    for (size_t k = 0; k < samples; k++) {
        size_t index = sample_at(source->count, samples, k, seed);
        images[k] = xt_source_digest_image(source, index, &decoder);
        hashes[k] = shorten(images[k].hash);
    }
    xt_decoder_clear(&decoder);
    ranks->compared.samples += samples;
    enum xt_status status = find_other(ranks, hashes, samples, &first, &others, err);
    if (status || !others)
        return status;
    name_of(source, sample_at(source->count, samples, first, seed), name);
    snprintf(fact, sizeof fact, "the image %s of %s, the first of %zu that differ of %zu sampled",
             name, option, others, samples);
    const struct xt_image_digest *image = &images[first];
    if (image->unreadable)
        xt_ranks_add_fact(&facts, fact, "unreadable");
    else
        xt_ranks_add_fact(&facts, fact, "%zu bytes with the hash %016" PRIx64, image->bytes,
                          hashes[first]);
    status = xt_ranks_compare(ranks, &facts, err);
    xt_str_clear(&facts);
    return status;
}

enum xt_status xt_ranks_compare_images(struct xt_ranks *ranks, const struct xt_source *source,
                                       const char *option, uint64_t seed, struct xt_err *err)
{
    if (!ranks)
        return XT_OK;
    double start = xt_thread_seconds();
    enum xt_status status = compare_list(ranks, source, option, err);
    if (!status && source) {
        ranks->compared.names += source->count;
        status = compare_sample(ranks, source, option, seed, err);
    }
    ranks->compared.seconds += xt_thread_seconds() - start;
    return status;
}
