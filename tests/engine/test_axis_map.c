/* The coefficients of an axis's map are PyTorch's, and what cannot be is refused. (The self-test
 * holds the arithmetic.) */
#include <math.h>
#include <string.h>

#include "support.h"

#include "engine/net/axis_map.h"
#include "engine/net/net.h"

static const double x[] = {1, 4, 2, 8, 5};
enum { IN = 5, OUT_MOST = 12 };

/* The map of x. */
static void check(struct xt_axis_map map, int count, const double wanted[OUT_MOST])
{
    assert_null(xt_axis_map_refusal(&map, IN));
    assert_int_equal(xt_axis_map_length(&map, IN), count);
    for (int j = 0; j < count; j++) {
        struct xt_axis_map_row row = xt_axis_map_row(&map, IN, count, j);
        double sum = row.add;
        for (int k = 0; k < row.count; k++)
            sum += row.weight[k] * x[row.at[k]];
        assert_float_equal(sum, wanted[j], 1e-7);
    }
}

/* torch.nn.functional.interpolate of x in float64 */
static void resizing_is_pytorchs(void **state)
{
    (void)state;
    check((struct xt_axis_map){.kind = XT_MAP_LINEAR, .count = 7}, 7,
          (double[OUT_MOST]){1, 2.71428571, 3.42857143, 2, 6.28571429, 6.71428571, 5});
    check((struct xt_axis_map){.kind = XT_MAP_LINEAR, .count = 7, .place = XT_PLACE_ALIGN_CORNERS},
          7, (double[OUT_MOST]){1, 3, 3.33333333, 2, 6, 7, 5});
    check((struct xt_axis_map){.kind = XT_MAP_LINEAR, .count = 1, .place = XT_PLACE_ALIGN_CORNERS},
          1, (double[OUT_MOST]){1});
    check((struct xt_axis_map){.kind = XT_MAP_LINEAR, .count = 3}, 3, (double[OUT_MOST]){2, 2, 6});
    check((struct xt_axis_map){.kind = XT_MAP_LINEAR, .scale = 1.7F}, 8,
          (double[OUT_MOST]){1, 2.14705882, 3.91176471, 2.88235294, 2.88235294, 6.41176471,
                             7.02941176, 5.26470588});
    check((struct xt_axis_map){.kind = XT_MAP_CUBIC, .count = 8, .cubic = -0.75F}, 8,
          (double[OUT_MOST]){0.721496582, 2.45092773, 4.00775146, 2.07110596, 3.68365479,
                             7.82000732, 6.77392578, 4.72149658});
    check(
        (struct xt_axis_map){
            .kind = XT_MAP_CUBIC, .count = 3, .cubic = -0.75F, .place = XT_PLACE_ALIGN_CORNERS},
        3, (double[OUT_MOST]){1, 2, 5});
    const struct xt_axis_map nearest = {
        .kind = XT_MAP_NEAREST, .place = XT_PLACE_ASYMMETRIC, .rounding = XT_ROUND_FLOOR};
    struct xt_axis_map by = nearest;
    by.count = 7;
    check(by, 7, (double[OUT_MOST]){1, 1, 4, 2, 2, 8, 5});
    by.count = 3;
    check(by, 3, (double[OUT_MOST]){1, 4, 8});
    by.count = 0;
    by.scale = 2.2F; /* 5 in float32 is 11 / 2.2, and less in float64 */
    check(by, 11, (double[OUT_MOST]){1, 1, 1, 4, 4, 2, 2, 8, 8, 5, 5});
}

/* torch.nn.functional.adaptive_avg_pool1d of x */
static void pooling_to_a_size_is_pytorchs(void **state)
{
    (void)state;
    check((struct xt_axis_map){.kind = XT_MAP_MEAN, .count = 1}, 1, (double[OUT_MOST]){4});
    check((struct xt_axis_map){.kind = XT_MAP_MEAN, .count = 3}, 3,
          (double[OUT_MOST]){2.5, 4.66666667, 6.5});
    check((struct xt_axis_map){.kind = XT_MAP_MEAN, .count = 7}, 7,
          (double[OUT_MOST]){1, 2.5, 3, 2, 5, 6.5, 5});
}

/* onnx.reference's interpolation by Keys's cubic, a = -0.5 */
static void elements_outside_may_not_count(void **state)
{
    (void)state;
    check((struct xt_axis_map){.kind = XT_MAP_CUBIC,
                               .scale = 1.6F,
                               .cubic = -0.5F,
                               .place = XT_PLACE_ASYMMETRIC,
                               .excludes_outside = true},
          8,
          (double[OUT_MOST]){1, 3.02057998, 3.6640625, 1.90136719, 5.0625, 8.01454898, 5.70072993,
                             4.6641791});
}

/* torch.nn.functional.interpolate of x with antialias=True, whose cubic has a = -0.5 */
static void a_shorter_axis_has_no_aliasing(void **state)
{
    struct xt_axis_map map = {
        .kind = XT_MAP_LINEAR, .count = 2, .excludes_outside = true, .antialias = true};
    (void)state;
    check(map, 2, (double[OUT_MOST]){2.77272727, 5.5});
    map.count = 3;
    check(map, 3, (double[OUT_MOST]){2.28571429, 3.77777778, 6.28571429});
    map.kind = XT_MAP_CUBIC;
    map.cubic = -0.5F;
    check(map, 3, (double[OUT_MOST]){2.12307692, 3.89767442, 6.36923077});
    map.count = 2;
    check(map, 2, (double[OUT_MOST]){2.56522664, 5.62460098});
    map.count = 1;
    assert_null(xt_axis_map_refusal(&map, 16));
    assert_non_null(strstr(xt_axis_map_refusal(&map, 17), "of more than 64 elements"));
}

/* 0.5 and 2.5 are between 1 and 4, and between 2 and 8. */
static void halves_go_as_the_rounding_says(void **state)
{
    static const double wanted[XT_ROUNDINGS][OUT_MOST] = {[XT_ROUND_PREFER_FLOOR] = {1, 2},
                                                          [XT_ROUND_PREFER_CEIL] = {4, 8},
                                                          [XT_ROUND_FLOOR] = {1, 2},
                                                          [XT_ROUND_CEIL] = {4, 8}};
    (void)state;
    for (int i = 0; i < XT_ROUNDINGS; i++)
        check((struct xt_axis_map){.kind = XT_MAP_NEAREST,
                                   .scale = 0.5F,
                                   .rounding = (enum xt_resize_rounding)i},
              2, wanted[i]);
    check((struct xt_axis_map){.kind = XT_MAP_NEAREST,
                               .scale = 0.5F,
                               .place = XT_PLACE_TF_HALF_PIXEL,
                               .rounding = XT_ROUND_FLOOR},
          2, (double[OUT_MOST]){4, 8});
}

/* torch.nn.functional.pad(x, (3, 2)) in each mode */
static void padding_is_pytorchs(void **state)
{
    struct xt_axis_map map = {.kind = XT_MAP_REFLECT, .before = 3, .behind = 2};
    (void)state;
    check(map, 10, (double[OUT_MOST]){8, 2, 4, 1, 4, 2, 8, 5, 8, 2});
    map.kind = XT_MAP_EDGE;
    check(map, 10, (double[OUT_MOST]){1, 1, 1, 1, 4, 2, 8, 5, 5, 5});
    map.kind = XT_MAP_WRAP;
    check(map, 10, (double[OUT_MOST]){2, 8, 5, 1, 4, 2, 8, 5, 1, 4});
    map.kind = XT_MAP_CONSTANT;
    map.fill = -3;
    check(map, 10, (double[OUT_MOST]){-3, -3, -3, 1, 4, 2, 8, 5, -3, -3});
}

static void elements_are_picked_and_reversed(void **state)
{
    static const int picked[] = {4, 0, 0, 3};
    (void)state;
    check((struct xt_axis_map){.kind = XT_MAP_PICK, .picked = picked, .picked_count = 4}, 4,
          (double[OUT_MOST]){5, 1, 1, 8});
    check((struct xt_axis_map){.kind = XT_MAP_REVERSE}, IN, (double[OUT_MOST]){5, 8, 2, 4, 1});
}

static void refuse(struct xt_axis_map map, const char *part)
{
    struct xt_err err = {0};
    struct xt_net *net = xt_net_create(&err);
    const struct xt_net_axis_map spec = {.axis = XT_AXIS_W, .map = map};
    assert_null(xt_net_axis_map(net, xt_net_input(net, 9, IN, 3), &spec));
    support_assert_error(&net->err, XT_ERR_DATA, part);
    xt_net_destroy(net);
}

static void what_cannot_be_is_refused(void **state)
{
    static const int picked[] = {5};
    (void)state;
    refuse((struct xt_axis_map){.kind = XT_MAP_REFLECT, .before = 5},
           "an axis of 5 is padded by reflection with as much as it has");
    refuse((struct xt_axis_map){.kind = XT_MAP_WRAP, .behind = 6}, "by its other end");
    refuse((struct xt_axis_map){.kind = XT_MAP_EDGE, .before = -1}, "by less than nothing");
    refuse((struct xt_axis_map){.kind = XT_MAP_EDGE, .before = 1 << 24}, "more elements than");
    refuse((struct xt_axis_map){.kind = XT_MAP_CONSTANT, .fill = -INFINITY}, "by infinity");
    refuse((struct xt_axis_map){.kind = XT_MAP_REVERSE, .before = 1}, "reversed and padded");
    refuse((struct xt_axis_map){.kind = XT_MAP_PICK, .picked = picked, .picked_count = 1},
           "has elements picked that it does not have");
    const struct xt_axis_map three = {.kind = XT_MAP_MEAN, .count = 3};
    refuse((struct xt_axis_map){.kind = XT_MAP_MEAN}, "is pooled to no size");
    assert_non_null(strstr(xt_axis_map_refusal(&three, 200), "windows of more than 62"));
    assert_null(xt_axis_map_refusal(&three, 186));
    refuse((struct xt_axis_map){.kind = XT_MAP_LINEAR}, "is resized to no size");
    refuse((struct xt_axis_map){.kind = XT_MAP_LINEAR, .count = 3, .scale = 2}, "to no size");
    refuse((struct xt_axis_map){.kind = XT_MAP_NEAREST, .scale = 0.1F}, "no elements");
    refuse((struct xt_axis_map){.kind = XT_MAP_NEAREST, .scale = 1e30F}, "more elements than");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resizing_is_pytorchs),
        cmocka_unit_test(pooling_to_a_size_is_pytorchs),
        cmocka_unit_test(elements_outside_may_not_count),
        cmocka_unit_test(a_shorter_axis_has_no_aliasing),
        cmocka_unit_test(halves_go_as_the_rounding_says),
        cmocka_unit_test(padding_is_pytorchs),
        cmocka_unit_test(elements_are_picked_and_reversed),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
