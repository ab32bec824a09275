/* Samples at a grid's points, by each build of the loops: where points lie on pixels, between them,
 * outside of the image and nowhere. (The self-test holds the arithmetic, tests/models/test_zoo.sh
 * PyTorch's numbers.) */
#include <math.h>

#include "support.h"

#include "loop_builds.h"

static const struct xt_loops *loops; /* the build that is tested */

enum { W = 3, H = 2 };
static const float image[] = {1, 2, 4, 8, 16, 32};

/* -1 and 1 are the centres of the corners' pixels. */
static struct xt_grid_points points_of(const float *grid, size_t count, bool border)
{
    return (struct xt_grid_points){.grid = grid,
                                   .count = count,
                                   .w = W,
                                   .h = H,
                                   .c = 1,
                                   .scale = {1, 0.5F},
                                   .offset = {1, 0.5F},
                                   .border = border};
}

static float sample_at(float x, float y, bool border)
{
    const float grid[] = {x, y};
    const struct xt_grid_points points = points_of(grid, 1, border);
    float out = 0;
    loops->grid_sample(&points, XT_F32, image, &out);
    return out;
}

static void points_on_pixels_and_between_them_are_bilinear(void **state)
{
    (void)state;
    assert_float_equal(sample_at(-1, -1, false), 1, 0);
    assert_float_equal(sample_at(1, 1, false), 32, 0);
    assert_float_equal(sample_at(-0.5F, -1, false), 1.5, 0);
    assert_float_equal(sample_at(0.5F, 0, false), (2 + 4 + 16 + 32) / 4.0, 0);
}

static void outside_are_zeros_or_the_border(void **state)
{
    (void)state;
    assert_float_equal(sample_at(1.5F, -1, false), 2, 0);
    assert_float_equal(sample_at(-1, 5, false), 0, 0);
    assert_float_equal(sample_at(1e30F, -1e30F, false), 0, 0);
    assert_float_equal(sample_at(INFINITY, 1, false), 0, 0);
    assert_float_equal(sample_at(7, -3, true), 4, 0);
    assert_float_equal(sample_at(-INFINITY, 1e30F, true), 8, 0);
}

static void a_point_that_is_no_number_gives_none(void **state)
{
    const float grid[] = {0, NAN};
    const struct xt_grid_points points = points_of(grid, 1, true);
    const float dout = 1;
    float dimage[W * H] = {0};
    float dgrid[2] = {0};
    (void)state;
    assert_true(isnan(sample_at(0, NAN, false)));
    assert_true(isnan(sample_at(NAN, 0, true)));
    loops->grid_sample_backward(&points, XT_F32, image, &dout, dimage, dgrid);
    assert_true(isnan(dgrid[0]) && isnan(dgrid[1]));
}

/* A transformer begins with the identity: it would never learn with slopes of 0, which lie between
 * those of both sides. */
static void on_a_pixel_the_slope_is_that_of_the_cell_behind(void **state)
{
    const float grid[] = {0,    -1, /* behind it lies the last pixel of the row */
                          1,    1,  /* behind it lies nothing */
                          0.5F, 0};
    const double slopes[] = {4 - 2,     (16 - 2) / 2.0,          -32,
                             -32 / 2.0, (4 - 2 + 32 - 16) / 2.0, (16 - 2 + 32 - 4) / 4.0};
    const float dout[] = {1, 1, 1};
    const float wanted[] = {0, 1.25F, 0.25F, 0, 0.25F, 1.25F};
    const struct xt_grid_points points = points_of(grid, 3, false);
    float dimage[W * H] = {0};
    float dgrid[6];
    (void)state;
    loops->grid_sample_backward(&points, XT_F32, image, dout, dimage, dgrid);
    for (int i = 0; i < 6; i++)
        assert_float_equal(dgrid[i], slopes[i], 0);
    for (int i = 0; i < W * H; i++)
        assert_float_equal(dimage[i], wanted[i], 0);
}

static void at_the_border_points_do_not_move(void **state)
{
    const float grid[] = {-1, 0, 3, 0};
    const float dout[] = {1, 1};
    const struct xt_grid_points points = points_of(grid, 2, true);
    float dgrid[4];
    (void)state;
    loops->grid_sample_backward(&points, XT_F32, image, dout, NULL, dgrid);
    assert_float_equal(dgrid[0], 0, 0);
    assert_float_equal(dgrid[2], 0, 0);
    assert_float_equal(dgrid[1], (8 - 1) * 0.5, 0);
    assert_float_equal(dgrid[3], (32 - 4) * 0.5, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_on_pixels_and_between_them_are_bilinear),
        cmocka_unit_test(outside_are_zeros_or_the_border),
        cmocka_unit_test(a_point_that_is_no_number_gives_none),
        cmocka_unit_test(on_a_pixel_the_slope_is_that_of_the_cell_behind),
        cmocka_unit_test(at_the_border_points_do_not_move),
    };
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    int failed = 0;
    for (int i = 0; i < count; i++) {
        loops = all[i];
        failed += cmocka_run_group_tests_name(loops->isa, tests, NULL, NULL);
    }
    return failed;
}
