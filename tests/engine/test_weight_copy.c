/* The loop that copies weights for bf16 kernels, against the formats' definition. */
#include "loop_builds.h"
#include "support.h"

#include <stdlib.h>

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

static void copies(const struct xt_loops *loops, bool out_is_row, bool out_is_wide, int wide)
{
    struct xt_weight_copy w = {.out = out_is_wide ? 2 * wide : 64,
                               .in = out_is_wide ? 96 : 2 * wide,
                               .taps = 3,
                               .out_is_row = out_is_row,
                               .out_is_wide = out_is_wide,
                               .wide = wide};
    size_t count = (size_t)w.out * (size_t)w.in * (size_t)w.taps;
    float *from = aligned_alloc(64, count * sizeof *from);
    uint16_t *to = aligned_alloc(64, count * sizeof *to);
    struct xt_rng rng = xt_rng_begin(1, (uint64_t)wide);
    assert_non_null(from);
    assert_non_null(to);
    for (size_t i = 0; i < count; i++)
        from[i] = 2 * xt_rng_uniform(&rng) - 1;
    w.from = from;
    w.to = (uint32_t *)(void *)to;
    for (int row = 0; row < w.out / 16; row++)
        loops->copy_weights(&w, row);
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
        cmocka_unit_test(every_format_holds_each_weight_in_its_place)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
