#include "infer/network/head.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

/* The map from the weights' classes ("before") to the network's. */
struct map {
    int *from;         /* [count]; -1: it is new */
    int *takes;        /* [count] whose columns it takes: its own, or for a new class another's */
    bool *is_retained; /* [before] */
    int count;
    int before; /* classes of the weights */
    int blank;  /* of the network's; -1: there is none */
    int blank_before;
    int retained; /* retained ones of the count, the blank included */
};

/* A tensor of a class layer, before and after the mapping. */
struct rows {
    const struct map *map;
    const struct xt_class_layer *layer;
    const float *in;
    float *out;
    size_t columns_in, columns_out; /* of a row */
    size_t inner;                   /* values in a column: those of a kernel */
    bool is_vector;
};

/* ---- values ---- */

/* Whether a new class would copy a retained one's columns: these stay 0. */
static bool is_copy(const struct map *map, int i)
{
    return map->from[i] < 0 && map->is_retained[map->takes[i]];
}

/* Adds `part` times a row, its columns of classes permuted to their new places. */
static void add_row(const struct rows *r, int before, double part, float *out)
{
    const float *in = r->in + (size_t)before * r->columns_in * r->inner;
    size_t same = r->columns_out;
    if (r->layer->last_columns && !r->is_vector)
        same -= (size_t)r->map->count;
    for (size_t i = 0; i < r->columns_out; i++) {
        size_t from = i;
        if (i >= same && is_copy(r->map, (int)(i - same)))
            continue;
        if (i >= same)
            from = same + (size_t)r->map->takes[i - same];
        for (size_t k = 0; k < r->inner; k++)
            out[i * r->inner + k] += (float)(part * (double)in[from * r->inner + k]);
    }
}

static void fill(const struct rows *r)
{
    const struct map *map = r->map;
    for (int i = 0; i < map->count; i++) {
        float *row = r->out + (size_t)i * r->columns_out * r->inner;
        if (map->from[i] >= 0 || !r->layer->is_head) {
            add_row(r, map->takes[i], 1, row);
            continue;
        }
        for (int k = 0; k < map->count; k++)
            if (map->from[k] >= 0)
                add_row(r, map->from[k], 1.0 / map->retained, row);
    }
}

/* ---- a tensor of the file ---- */

/* Whether it has a class layer's size; else the shape check reports it later. */
static bool has_classes(const struct xt_file_tensor *tensor, const struct xt_class_layer *layer,
                        const struct map *map)
{
    bool rows = tensor->ndims > 0 && tensor->dims[0] == map->before;
    return rows && (!layer->last_columns || tensor->ndims == 1 || tensor->dims[1] >= map->before);
}

static enum xt_status adapt_tensor(struct xt_weight_file *file, struct xt_file_tensor *tensor,
                                   const struct xt_class_layer *layer, const struct map *map,
                                   struct xt_err *err)
{
    struct rows r = {.map = map, .layer = layer, .columns_in = 1, .inner = 1};
    size_t count = xt_file_tensor_count(tensor);
    float *in = NULL;
    r.is_vector = tensor->ndims == 1;
    r.columns_in = r.is_vector ? 1 : (size_t)tensor->dims[1];
    for (int i = 2; i < tensor->ndims; i++)
        r.inner *= (size_t)tensor->dims[i];
    r.columns_out = r.columns_in;
    if (layer->last_columns && !r.is_vector)
        r.columns_out += (size_t)map->count - (size_t)map->before;
    size_t after = (size_t)map->count * r.columns_out * r.inner;
    enum xt_status status = xt_mem_aligned(&in, count, sizeof *in, tensor->name, err);
    if (!status)
        status = xt_file_tensor_floats(tensor, in, count, err);
    if (!status)
        status = xt_weight_store_alloc(file, &r.out, after, sizeof *r.out, tensor->name, err);
    if (!status) {
        r.in = in;
        fill(&r);
        tensor->dtype = XT_F32;
        tensor->dims[0] = map->count;
        if (!r.is_vector)
            tensor->dims[1] = (int64_t)r.columns_out;
        tensor->data = r.out;
        tensor->bytes = after * sizeof *r.out;
    }
    free(in);
    return status;
}

static enum xt_status adapt_file(struct xt_network *network, const struct map *map,
                                 struct xt_err *err)
{
    struct xt_weight_file *file = &network->weights;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < file->count && !status; i++) {
        struct xt_file_tensor *tensor = &file->tensors[i];
        const struct xt_class_layer *layer =
            xt_class_layer_of(network->model->class_layers, tensor->name);
        if (layer && has_classes(tensor, layer, map))
            status = adapt_tensor(file, tensor, layer, map, err);
    }
    return status;
}

/* ---- mapping ---- */

/* Names, in the order of the logits. */
typedef const char *name_of(const void *list, int index);

static enum xt_status allocate(struct map *map, struct xt_err *err)
{
    static const char what[] = "the map of classes";
    size_t count = (size_t)map->count;
    enum xt_status status = xt_mem_calloc(&map->from, count, sizeof *map->from, what, err);
    if (!status)
        status = xt_mem_calloc(&map->takes, count, sizeof *map->takes, what, err);
    if (!status)
        status = xt_mem_calloc(&map->is_retained, (size_t)map->before, sizeof *map->is_retained,
                               what, err);
    return status;
}

/* Matches by name; the blank matches only the blank. */
static void find_retained(struct map *map, name_of *name, const void *before, const void *after)
{
    for (int i = 0; i < map->count; i++) {
        map->from[i] = i == map->blank ? map->blank_before : -1;
        for (int k = 0; k < map->before && i != map->blank; k++)
            if (k != map->blank_before && strcmp(name(before, k), name(after, i)) == 0)
                map->from[i] = k;
        if (map->from[i] < 0)
            continue;
        map->is_retained[map->from[i]] = true;
        map->retained++;
    }
}

/* The first class from `at` on whose is_retained equals `retained`; -1: there is none. */
static int next_of(const struct map *map, int at, bool retained)
{
    while (at < map->before && map->is_retained[at] != retained)
        at++;
    return at < map->before ? at : -1;
}

/* New classes take the places of dropped ones, then of retained ones, a different one each while
 * there are enough. */
static void find_places(struct map *map)
{
    int dropped = -1;
    int retained = -1;
    for (int i = 0; i < map->count; i++) {
        map->takes[i] = map->from[i];
        if (map->from[i] >= 0)
            continue;
        int next = next_of(map, dropped + 1, false);
        if (next >= 0) {
            map->takes[i] = dropped = next;
            continue;
        }
        next = next_of(map, retained + 1, true);
        map->takes[i] = retained = next >= 0 ? next : next_of(map, 0, true);
    }
}

/* Appends "; WORD: I, O and 12 more", or "none". */
static enum xt_status list(struct xt_str *out, const char *word, const struct map *map,
                           name_of *name, const void *names, bool is_new, struct xt_err *err)
{
    enum { SHOWN = 16 };
    int count = 0;
    int all = is_new ? map->count : map->before;
    xt_str_printf(out, NULL, "; %s: ", word);
    for (int i = 0; i < all; i++) {
        bool listed = is_new ? map->from[i] < 0 : !map->is_retained[i];
        if (listed && count < SHOWN)
            xt_str_printf(out, NULL, "%s%s", count ? ", " : "", name(names, i));
        count += listed;
    }
    if (count > SHOWN)
        xt_str_printf(out, NULL, " and %d more", count - SHOWN);
    return count ? xt_str_check(out, err) : xt_str_printf(out, err, "none");
}

static enum xt_status say(const char *file, const char *what, const struct map *map, name_of *name,
                          const void *before, const void *after, struct xt_err *err)
{
    struct xt_str text = {0};
    enum xt_status status = list(&text, "new", map, name, after, true, err);
    if (!status)
        status = list(&text, "dropped", map, name, before, false, err);
    if (!status)
        xt_log_note("%s has %d %s: the weights of %d of the %d here are retained%s", file,
                    map->before, what, map->retained, map->count, xt_str_get(&text));
    xt_str_clear(&text);
    return status;
}

/* Adapts the weights where at least one class is in both. */
static enum xt_status adapt(struct xt_network *network, struct map *map, name_of *name,
                            const void *before, const void *after, bool *adapted,
                            struct xt_err *err)
{
    bool is_plates = network->task == XT_TASK_PLATES;
    enum xt_status status = allocate(map, err);
    if (!status)
        find_retained(map, name, before, after);
    if (!status && map->retained > 0) {
        find_places(map);
        *adapted = true;
        /* A resumed run logged it when it started. */
        if (network->bn_before == XT_BN_AUTO)
            status =
                say(network->weights_name, is_plates ? "symbols, the blank among them" : "classes",
                    map, name, before, after, err);
        if (!status)
            status = adapt_file(network, map, err);
    }
    free(map->from);
    free(map->takes);
    free(map->is_retained);
    return status;
}

/* ---- symbols ---- */

static const char *symbol_name(const void *alphabet, int index)
{
    return xt_alphabet_symbol(alphabet, index);
}

/* The number of symbols of weights that do not name them; 0: unknown. */
static int64_t head_rows(const struct xt_network *network)
{
    const struct xt_class_layer *layer = network->model->class_layers;
    char name[64];
    while (layer->name && !layer->is_head)
        layer++;
    snprintf(name, sizeof name, "%s.weight", layer->name ? layer->name : "");
    const struct xt_file_tensor *tensor = xt_weight_file_find(&network->weights, name);
    return tensor && tensor->ndims > 0 ? tensor->dims[0] : 0;
}

/* The alphabet of weights that do not name theirs, guessed by the number of symbols: that of
 * --alphabet, else that of the published weights. NULL: unknown. */
static const char *guess_alphabet(const struct xt_network *network,
                                  const struct xt_network_settings *settings,
                                  const struct xt_alphabet *published)
{
    int64_t rows = head_rows(network);
    bool is_published = rows != network->classes && rows == xt_alphabet_count(published);
    bool says = network->bn_before == XT_BN_AUTO;
    if (says && rows == network->classes)
        xt_log_note(
            "%s does not name its symbols: they are assumed to be those of %s, in that order",
            network->weights_name, settings->alphabet);
    else if (says && is_published)
        xt_log_note("%s does not name its symbols: they are assumed to be the %" PRId64
                    " of Chinese plates",
                    network->weights_name, rows);
    return is_published ? xt_alphabet_text(published) : NULL;
}

static enum xt_status adapt_symbols(struct xt_network *network,
                                    const struct xt_network_settings *settings, bool *adapted,
                                    struct xt_err *err)
{
    struct xt_alphabet *published = NULL;
    struct xt_alphabet *own = NULL;
    const char *text = xt_weight_file_meta(&network->weights, "alphabet");
    enum xt_status status = xt_alphabet_load(&published, NULL, err);
    if (!status && !text)
        text = guess_alphabet(network, settings, published);
    if (!status && text)
        status = xt_alphabet_create_blank(
            &own, text, strlen(text),
            xt_blank_of_meta(xt_weight_file_meta(&network->weights, "blank")),
            network->weights_name, err);
    if (!status && own &&
        (strcmp(xt_alphabet_text(own), xt_alphabet_text(network->alphabet)) != 0 ||
         (xt_alphabet_blank(own) == 0) != (xt_alphabet_blank(network->alphabet) == 0))) {
        struct map map = {.count = network->classes,
                          .before = xt_alphabet_count(own),
                          .blank = xt_alphabet_blank(network->alphabet),
                          .blank_before = xt_alphabet_blank(own)};
        status = adapt(network, &map, symbol_name, own, network->alphabet, adapted, err);
    }
    xt_alphabet_destroy(own);
    xt_alphabet_destroy(published);
    return status;
}

/* ---- classes ---- */

static const char *class_name(const void *names, int index)
{
    return ((const struct xt_class_names *)names)->names[index];
}

static enum xt_status adapt_classes(struct xt_network *network, bool *adapted, struct xt_err *err)
{
    const char *text = xt_weight_file_meta(&network->weights, "class_names");
    struct xt_class_names own;
    if (!text || !network->class_names.count)
        return XT_OK;
    enum xt_status status = xt_class_names_parse(&own, text, network->weights_name, err);
    if (!status && own.count == xt_network_head_classes(network) &&
        !xt_class_names_equal(&own, &network->class_names)) {
        struct map map = {
            .count = network->classes, .before = own.count, .blank = -1, .blank_before = -1};
        status = adapt(network, &map, class_name, &own, &network->class_names, adapted, err);
    }
    xt_class_names_clear(&own);
    return status;
}

enum xt_status xt_head_adapt(struct xt_network *network, const struct xt_network_settings *settings,
                             bool training, bool *adapted, struct xt_err *err)
{
    *adapted = false;
    if (!network->model->class_layers[0].name)
        return XT_OK;
    if (network->task == XT_TASK_PLATES)
        return settings->alphabet ? adapt_symbols(network, settings, adapted, err) : XT_OK;
    return training ? adapt_classes(network, adapted, err) : XT_OK;
}
