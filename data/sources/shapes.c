/* Synthetic filled shapes, for a classifier's first run: sample i is drawn from seed and i alone.
 * Its class is i modulo the number of classes, so that all are equally frequent. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/classes.h"
#include "data/sources/query.h"
#include "data/sources/registry.h"

/* A stream of its own, distinct from others with the same seed. */
static const uint64_t stream_of_shapes = 0x736861706573u;

static const char what[] = "synth:shapes";
enum { CLASSES_LEAST = 2, SIZE_LEAST = 8, SIZE_MOST = 1024, NOISE_MOST = 100 };

/* The edge function of a shape in its own plane, in units of its half width: positive inside. */
typedef float edge_function(float x, float y);

static float least(float a, float b)
{
    return a < b ? a : b;
}

static float most(float a, float b)
{
    return a > b ? a : b;
}

static float magnitude(float value)
{
    return value < 0 ? -value : value;
}

static float radius(float x, float y)
{
    return __builtin_sqrtf(x * x + y * y);
}

static float circle(float x, float y)
{
    return 0.9F - radius(x, y);
}

static float square(float x, float y)
{
    return 0.8F - most(magnitude(x), magnitude(y));
}

static float triangle(float x, float y)
{
    float sides = 0.45F - 0.5F * y - 0.866F * magnitude(x);
    return least(sides, y + 0.75F);
}

/* Two triangles, one inverted. */
static float star(float x, float y)
{
    float up = least(0.5F - 0.5F * y - 0.866F * magnitude(x), y + 0.5F);
    float down = least(0.5F + 0.5F * y - 0.866F * magnitude(x), 0.5F - y);
    return most(up, down);
}

static float cross(float x, float y)
{
    float upright = least(0.28F - magnitude(x), 0.9F - magnitude(y));
    float level = least(0.28F - magnitude(y), 0.9F - magnitude(x));
    return most(upright, level);
}

static float ring(float x, float y)
{
    return 0.22F - magnitude(radius(x, y) - 0.68F);
}

static float diamond(float x, float y)
{
    return (0.95F - magnitude(x) * 1.4F - magnitude(y)) * 0.6F;
}

static float moon(float x, float y)
{
    return least(0.9F - radius(x, y), radius(x - 0.45F, y) - 0.75F);
}

static float stripes(float x, float y)
{
    float bar = 0.14F - magnitude(magnitude(x) - 0.5F);
    return least(most(bar, 0.14F - magnitude(x)), 0.85F - magnitude(y));
}

static float arrow(float x, float y)
{
    float head = least(0.62F - 0.62F * y - 0.78F * magnitude(x), y - 0.05F);
    float shaft = least(0.2F - magnitude(x), least(0.1F - y, y + 0.9F));
    return most(head, shaft);
}

static const struct {
    const char *name;
    edge_function *edge;
} shapes[] = {
    {"circle", circle},   {"square", square}, {"triangle", triangle}, {"star", star},
    {"cross", cross},     {"ring", ring},     {"diamond", diamond},   {"moon", moon},
    {"stripes", stripes}, {"arrow", arrow},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

struct shapes {
    struct xt_source base;
    uint64_t seed;
    int size;
    int noise;
    int made; /* classes that are drawn */
    int labels[SHAPES];
};

/* Which shapes are drawn, and their labels: the set's own, or the classes of the options that have
 * shapes' names. */
static enum xt_status choose_classes(struct shapes *set, const struct xt_source_options *options,
                                     const struct xt_query_setting *wanted, struct xt_err *err)
{
    int count = (int)wanted->number;
    bool by_count = options->class_count > 0 && !options->class_names;
    if (by_count && !wanted->given)
        count = options->class_count < SHAPES ? options->class_count : SHAPES;
    struct xt_classes classes;
    enum xt_status status = xt_classes_init(&classes, options, err);
    for (int i = 0; i < count && !status; i++) {
        set->labels[i] = i;
        if (!by_count)
            status = xt_classes_add(&classes, shapes[i].name, strlen(shapes[i].name),
                                    &set->labels[i], err);
        else if (i >= options->class_count)
            status = xt_err_set(err, XT_ERR_DATA,
                                "the label %d is out of range: the network has %d classes", i,
                                options->class_count);
    }
    set->made = count;
    if (!status)
        status = xt_classes_move(&classes, &set->base, what, err);
    else
        xt_err_prefix(err, "%s: ", what);
    xt_classes_clear(&classes);
    return status;
}

/* A number in [low, high). */
static float draw(struct xt_rng *rng, float low, float high)
{
    return low + (high - low) * xt_rng_uniform(rng);
}

struct picture {
    float x;
    float y;    /* the middle, pixels */
    float half; /* half the width, pixels */
    float turn_x;
    float turn_y;    /* cosine and sine of the rotation */
    float ground[3]; /* colours */
    float ink[3];
    float slope[2]; /* brightness gradient over the picture */
    float noise;
};

static struct picture draw_picture(const struct shapes *set, struct xt_rng *rng)
{
    float size = (float)set->size;
    /* Up to 0.35 radians, by the tangent of the half angle: without a library's sine, which may
     * differ. */
    float tangent = draw(rng, -0.177F, 0.177F);
    struct picture p = {
        .half = size * draw(rng, 0.22F, 0.42F),
        .turn_x = (1 - tangent * tangent) / (1 + tangent * tangent),
        .turn_y = 2 * tangent / (1 + tangent * tangent),
        .slope = {draw(rng, -40, 40) / size, draw(rng, -40, 40) / size},
        .noise = (float)set->noise,
    };
    float room = size / 2 - p.half;
    p.x = size / 2 + draw(rng, -room, room);
    p.y = size / 2 + draw(rng, -room, room);
    float difference = 0;
    /* The shape must be visible: colours that are too similar are drawn anew. */
    for (int i = 0; i < 8 && difference < 120; i++) {
        difference = 0;
        for (int c = 0; c < 3; c++) {
            p.ground[c] = draw(rng, 20, 235);
            p.ink[c] = draw(rng, 20, 235);
            difference += magnitude(p.ground[c] - p.ink[c]);
        }
    }
    return p;
}

static uint8_t as_byte(float value)
{
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void paint(const struct shapes *set, edge_function *edge, struct xt_rng *rng,
                  uint8_t *pixels)
{
    struct picture p = draw_picture(set, rng);
    float scale = 1 / p.half;
    int middle = set->size / 2;
    for (int row = 0; row < set->size; row++)
        for (int column = 0; column < set->size; column++) {
            float dx = ((float)column + 0.5F - p.x) * scale;
            float dy = (p.y - (float)row - 0.5F) * scale;
            float inside = 0;
            if (dx * dx + dy * dy < 2) {
                inside = edge(dx * p.turn_x + dy * p.turn_y, dy * p.turn_x - dx * p.turn_y);
                inside = most(0, least(1, inside * p.half + 0.5F));
            }
            float light =
                p.slope[0] * (float)(column - middle) + p.slope[1] * (float)(row - middle);
            uint64_t bits = xt_rng_next(rng);
            for (int c = 0; c < 3; c++, bits >>= 16) {
                float noise = ((float)(bits & 0xFFFF) * 0x1p-15F - 1) * p.noise;
                *pixels++ =
                    as_byte(p.ground[c] + (p.ink[c] - p.ground[c]) * inside + light + noise);
            }
        }
}

static const struct shapes *shapes_of(const struct xt_source *source)
{
    return (const struct shapes *)source;
}

static enum xt_status shapes_label(const struct xt_source *source, size_t index, int *label,
                                   int *length, struct xt_err *err)
{
    (void)err;
    const struct shapes *set = shapes_of(source);
    label[0] = set->labels[index % (size_t)set->made];
    *length = 1;
    return XT_OK;
}

static enum xt_status shapes_read(const struct xt_source *source, size_t index,
                                  const struct xt_want *want, struct xt_decoder *decoder,
                                  struct xt_sample *sample, struct xt_err *err)
{
    (void)decoder;
    const struct shapes *set = shapes_of(source);
    enum xt_status status = xt_image_reserve(&sample->picture.image, set->size, set->size, err);
    if (status)
        return status;
    struct xt_rng rng = xt_rng_begin(xt_rng_at(set->seed, stream_of_shapes, 0), index);
    /* The colours are random, so their order is irrelevant. */
    paint(set, shapes[index % (size_t)set->made].edge, &rng, sample->picture.image.pixels);
    xt_picture_whole(&sample->picture, want);
    return shapes_label(source, index, sample->label, &sample->label_length, err);
}

static void shapes_name(const struct xt_source *source, size_t index, char *out, size_t size)
{
    (void)source;
    snprintf(out, size, "%s #%zu", what, index);
}

static void shapes_destroy(struct xt_source *source)
{
    xt_classes_free_names(source);
    free(source);
}

static const struct xt_source_class shapes_class = {
    .read = shapes_read, .label = shapes_label, .name = shapes_name, .destroy = shapes_destroy};

static enum xt_status open_shapes(struct xt_source **out, const char *query,
                                  const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    if (options->task != XT_TASK_CLASSES)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s has classes and no plates; synthetic plates are synth:plates", what);
    enum { COUNT, SEED, CLASSES, SIZE, NOISE, SETTINGS };
    struct xt_query_setting settings[SETTINGS] = {
        [COUNT] = {.key = "count", .low = 1, .high = (uint64_t)1 << 31, .number = 50000},
        [SEED] = {.key = "seed", .high = UINT64_MAX, .number = 1},
        [CLASSES] = {.key = "classes", .low = CLASSES_LEAST, .high = SHAPES, .number = SHAPES},
        [SIZE] = {.key = "size", .low = SIZE_LEAST, .high = SIZE_MOST, .number = 64},
        [NOISE] = {.key = "noise", .high = NOISE_MOST, .number = 12},
    };
    enum xt_status status = xt_query_read(what, query, settings, SETTINGS, err);
    struct shapes *set = NULL;
    if (!status)
        status = xt_mem_calloc(&set, 1, sizeof *set, "the synthetic shapes", err);
    if (status)
        return status;
    set->base.class = &shapes_class;
    set->base.count = (size_t)settings[COUNT].number;
    set->seed = settings[SEED].number;
    set->size = (int)settings[SIZE].number;
    set->noise = (int)settings[NOISE].number;
    status = choose_classes(set, options, &settings[CLASSES], err);
    if (status) {
        shapes_destroy(&set->base);
        return status;
    }
    snprintf(set->base.description, sizeof set->base.description,
             "%zu synthetic shapes of %d kinds (%s, seed %" PRIu64 ")", set->base.count, set->made,
             what, set->seed);
    *out = &set->base;
    return XT_OK;
}

const struct xt_source_kind xt_source_shapes = {.prefix = what, .open = open_shapes};
