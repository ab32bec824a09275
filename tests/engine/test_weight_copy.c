/* The loop that copies weights for bf16 kernels, against the formats' definition. */
#include "loop_builds.h"
#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/rng.h"
#include "engine/loops/loops.h"

static int source_index(const struct xt_weight_copy *w, int o, int i, int tap)
{
    int block = (o / 16 * (w->in / 16) + i / 16) * w->taps + tap;
    int row = w->out_is_row ? o % 16 : i % 16;
    int column = w->out_is_row ? i % 16 : o % 16;
    return (block * 16 + row) * 16 + column;
}

static int copy_index(const struct xt_weight_copy *w, int o, int i, int tap)
{
    int wide = w->out_is_wide ? o : i;
    int paired = w->out_is_wide ? i : o;
    int pairs = (w->out_is_wide ? w->in : w->out) / 2;
    int at = (wide / w->wide * w->taps + tap) * pairs + paired / 2;
    return (at * w->wide + wide % w->wide) * 2 + paired % 2;
}

/* Copies random weights, and keeps them in *from. */
static uint16_t *copy_random(const struct xt_loops *loops, struct xt_weight_copy *w, uint64_t seed,
                             float **from)
{
    size_t count = (size_t)w->out * (size_t)w->in * (size_t)w->taps;
    size_t bytes = xt_weight_copy_panels(w) * xt_weight_copy_panel(w) * sizeof *w->to;
    struct xt_rng rng = xt_rng_begin(1, seed);
    uint16_t *to = aligned_alloc(64, bytes);
    *from = aligned_alloc(64, count * sizeof **from);
    assert_true(*from && to);
    memset(to, UINT8_MAX, bytes);
    for (size_t i = 0; i < count; i++)
        (*from)[i] = 2 * xt_rng_uniform(&rng) - 1;
    w->from = *from;
    w->to = (uint32_t *)(void *)to;
    size_t blocks = xt_weight_copy_blocks(w);
    loops->copy_weights(w, 0, blocks / 2);
    loops->copy_weights(w, blocks / 2, blocks);
    return to;
}

static void copies(const struct xt_loops *loops, bool out_is_row, bool out_is_wide, int wide)
{
    struct xt_weight_copy w = {.out = out_is_wide ? 2 * wide : 64,
                               .in = out_is_wide ? 96 : 2 * wide,
                               .taps = 3,
                               .out_is_row = out_is_row,
                               .out_is_wide = out_is_wide,
                               .summands = 1,
                               .wide = wide};
    float *from = NULL;
    uint16_t *to = copy_random(loops, &w, (uint64_t)wide, &from);
    for (int o = 0; o < w.out; o++)
        for (int i = 0; i < w.in; i++)
            for (int tap = 0; tap < w.taps; tap++) {
                uint16_t expected =
                    (uint16_t)(xt_bf16_round(from[source_index(&w, o, i, tap)]) >> 16);
                assert_int_equal(to[copy_index(&w, o, i, tap)], expected);
            }
    free(from);
    free(to);
}

/* Where a summand of it lies by tiles, and the bits of what those before it leave out. */
static size_t tile_index(const struct xt_weight_copy *w, int o, int i, int tap, int summand)
{
    int wide = w->out_is_wide ? o : i;
    int paired = w->out_is_wide ? i : o;
    int tiles = ((w->out_is_wide ? w->in : w->out) + 31) / 32;
    int at = ((wide / 16 * w->summands + summand) * tiles + paired / 32) * w->taps + tap;
    return (size_t)((at * 16 + paired % 32 / 2) * 16 + wide % 16) * 2 + (size_t)(paired % 2);
}

static uint16_t summand_of(float weight, int summand)
{
    for (; summand > 0; summand--)
        weight -= xt_bf16_to_float((uint16_t)(xt_bf16_round(weight) >> 16));
    return (uint16_t)(xt_bf16_round(weight) >> 16);
}

/* The paired axis has five blocks of 16, so half of each last tile is zero. */
static void copies_by_tiles(const struct xt_loops *loops, bool out_is_row, bool out_is_wide,
                            int summands)
{
    struct xt_weight_copy w = {.out = out_is_wide ? 48 : 80,
                               .in = out_is_wide ? 80 : 48,
                               .taps = 3,
                               .out_is_row = out_is_row,
                               .out_is_wide = out_is_wide,
                               .by_tiles = true,
                               .summands = summands,
                               .wide = 16};
    size_t count = xt_weight_copy_panels(&w) * xt_weight_copy_panel(&w) * 2;
    size_t zeros = 0;
    float *from = NULL;
    uint16_t *to = copy_random(loops, &w, (uint64_t)summands, &from);
    for (int o = 0; o < w.out; o++)
        for (int i = 0; i < w.in; i++)
            for (int tap = 0; tap < w.taps; tap++)
                for (int k = 0; k < summands; k++) {
                    uint16_t *at = &to[tile_index(&w, o, i, tap, k)];
                    assert_int_equal(*at, summand_of(from[source_index(&w, o, i, tap)], k));
                    *at = 0;
                }
    for (size_t i = 0; i < count; i++)
        zeros += to[i] == 0;
    assert_int_equal(zeros, count);
    free(from);
    free(to);
}

static void tiles_hold_each_summand_and_zeros_beside_it(void **state)
{
    const struct xt_loops *all[BUILDS_MAX];
    (void)state;
    for (int b = builds(all) - 1; b >= 0; b--)
        for (int which = 0; which < 4; which++)
            for (int summands = 1; summands <= 3; summands += 2)
                copies_by_tiles(all[b], which & 1, which & 2, summands);
}

static void every_format_holds_each_weight_in_its_place(void **state)
{
    static const int wides[] = {32, 48, 64};
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    for (int b = builds(all) - 1; b >= 0; b--)
        for (size_t k = 0; k < sizeof wides / sizeof wides[0]; k++)
            for (int which = 0; which < 4; which++)
                copies(all[b], which & 1, which & 2, wides[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_holds_each_weight_in_its_place),
        cmocka_unit_test(tiles_hold_each_summand_and_zeros_beside_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
