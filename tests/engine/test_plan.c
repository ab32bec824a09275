#include "support.h"

#include "base/rng.h"
#include "engine/plan.h"

enum { ITEMS_MAX = 64 };

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static size_t layout(struct xt_plan_item *items, size_t count)
{
    struct xt_err err = {0};
    struct xt_plan plan;
    assert_int_equal(xt_plan_layout(items, count, 0, &plan, &err), XT_OK);
    assert_true(plan.segments <= 1);
    return plan.bytes;
}

/* The most that is alive at one time. */
static size_t peak_of(const struct xt_plan_item *items, size_t count)
{
    size_t peak = 0;
    for (size_t i = 0; i < count; i++) {
        size_t alive = 0;
        for (size_t k = 0; k < count; k++)
            if (items[k].first <= items[i].first && items[i].first <= items[k].last)
                alive += rounded(items[k].bytes);
        peak = alive > peak ? alive : peak;
    }
    return peak;
}

static void check_layout(const struct xt_plan_item *items, size_t count, size_t total)
{
    for (size_t i = 0; i < count; i++) {
        const struct xt_plan_item *a = &items[i];
        assert_int_equal(a->offset % 64, 0);
        assert_true(a->offset + a->bytes <= total);
        for (size_t k = 0; k < i; k++) {
            const struct xt_plan_item *b = &items[k];
            bool together = a->first <= b->last && b->first <= a->last;
            bool apart = a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
            assert_true(apart || !together);
        }
    }
    assert_true(total >= peak_of(items, count));
}

/* Any number of items of up to 5000 bytes. */
static size_t make_items(struct xt_plan_item items[ITEMS_MAX], uint64_t seed)
{
    struct xt_rng rng = xt_rng_begin(seed, 0);
    size_t count = 1 + (size_t)xt_rng_below(&rng, ITEMS_MAX);
    for (size_t i = 0; i < count; i++) {
        int first = (int)xt_rng_below(&rng, 40);
        items[i] = (struct xt_plan_item){.bytes = 1 + (size_t)xt_rng_below(&rng, 5000),
                                         .first = first,
                                         .last = first + (int)xt_rng_below(&rng, 12)};
    }
    return count;
}

static void items_alive_together_never_overlap(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 500; seed++) {
        struct xt_plan_item items[ITEMS_MAX];
        size_t count = make_items(items, seed);
        check_layout(items, count, layout(items, count));
    }
}

static bool lives(const struct xt_plan_item *item, int time)
{
    bool rests = item->recompute && time > item->rest && time < item->recompute;
    return item->first <= time && time <= item->last && !rests;
}

static void an_item_leaves_its_place_while_it_rests(void **state)
{
    (void)state;
    struct xt_plan_item two[] = {
        {.bytes = 640, .first = 0, .last = 9, .rest = 2, .recompute = 7},
        {.bytes = 640, .first = 3, .last = 6},
    };
    assert_int_equal(layout(two, 2), 640);
    two[1].last = 7;
    assert_int_equal(layout(two, 2), 1280);
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct xt_plan_item items[ITEMS_MAX];
        size_t count = make_items(items, seed);
        for (size_t i = 0; i < count; i += 2)
            if (items[i].last - items[i].first > 3) {
                items[i].rest = items[i].first + 1;
                items[i].recompute = items[i].last - 1;
            }
        size_t total = layout(items, count);
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < i; k++)
                for (int time = 0; time < 64; time++) {
                    bool apart = items[i].offset + items[i].bytes <= items[k].offset ||
                                 items[k].offset + items[k].bytes <= items[i].offset;
                    assert_true(apart || !lives(&items[i], time) || !lives(&items[k], time));
                }
        assert_true(items[0].offset + items[0].bytes <= total);
    }
}

/* The items of each segment are a plan of their own. */
static void check_segments(const struct xt_plan_item *items, size_t count,
                           const struct xt_plan *plan, size_t most)
{
    size_t all = 0;
    for (size_t s = 0; s < plan->segments; s++) {
        struct xt_plan_item own[ITEMS_MAX];
        size_t own_count = 0;
        for (size_t i = 0; i < count; i++)
            if (items[i].segment == s)
                own[own_count++] = items[i];
        assert_true(own_count > 0);
        assert_true(plan->segment_bytes[s] <= most);
        check_layout(own, own_count, plan->segment_bytes[s]);
        all += plan->segment_bytes[s];
    }
    assert_int_equal(all, plan->bytes);
}

static void no_item_crosses_a_segment(void **state)
{
    (void)state;
    static const size_t segments[] = {5056, 8192, 8200, 65536};
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct xt_plan_item items[ITEMS_MAX];
        struct xt_plan plan;
        struct xt_err err = {0};
        size_t most = segments[seed % 4];
        size_t count = make_items(items, seed);
        assert_int_equal(xt_plan_layout(items, count, most, &plan, &err), XT_OK);
        check_segments(items, count, &plan, most);
        size_t one = layout(items, count);
        if (plan.bytes > 2 * one)
            fail_msg("%zu bytes in segments of %zu, %zu in one", plan.bytes, most, one);
    }
}

static void a_segment_that_holds_all_is_the_one_plan(void **state)
{
    (void)state;
    struct xt_plan_item items[ITEMS_MAX];
    struct xt_plan plan;
    struct xt_err err = {0};
    size_t count = make_items(items, 7);
    size_t one = layout(items, count);
    assert_int_equal(xt_plan_layout(items, count, one, &plan, &err), XT_OK);
    assert_int_equal(plan.segments, 1);
    assert_int_equal(plan.bytes, one);
}

static void items_of_a_whole_segment_have_one_each(void **state)
{
    (void)state;
    struct xt_plan_item items[] = {
        {.bytes = 4096, .first = 0, .last = 2},
        {.bytes = 4090, .first = 1, .last = 3},
        {.bytes = 64, .first = 2, .last = 2},
        {.bytes = 4096, .first = 4, .last = 4},
    };
    struct xt_plan plan;
    struct xt_err err = {0};
    assert_int_equal(xt_plan_layout(items, 4, 4096, &plan, &err), XT_OK);
    check_segments(items, 4, &plan, 4096);
    assert_int_equal(plan.segments, 3);
    assert_int_equal(plan.bytes, 2 * 4096 + 64);
}

static void more_segments_than_there_can_be_is_an_error(void **state)
{
    (void)state;
    enum { COUNT = XT_PLAN_SEGMENTS_MAX + 1 };
    struct xt_plan_item items[COUNT];
    struct xt_plan plan;
    struct xt_err err = {0};
    for (int i = 0; i < COUNT; i++)
        items[i] = (struct xt_plan_item){.bytes = 64, .last = 1};
    assert_int_equal(xt_plan_layout(items, COUNT, 64, &plan, &err), XT_ERR_MEMORY);
    support_assert_error(&err, XT_ERR_MEMORY, "more than 256 allocations");
}

static void items_that_never_meet_share_one_place(void **state)
{
    (void)state;
    struct xt_plan_item items[] = {
        {.bytes = 100, .first = 0, .last = 1},
        {.bytes = 1000, .first = 2, .last = 5},
        {.bytes = 500, .first = 6, .last = 6},
    };
    assert_int_equal(layout(items, 3), 1024);
    check_layout(items, 3, 1024);
}

static void items_that_all_meet_stand_side_by_side(void **state)
{
    (void)state;
    struct xt_plan_item items[] = {
        {.bytes = 64, .first = 0, .last = 9},
        {.bytes = 65, .first = 3, .last = 9},
        {.bytes = 1, .first = 9, .last = 9},
    };
    assert_int_equal(layout(items, 3), 64 + 128 + 64);
}

/* A chain of layers in training: each value lives until its backward pass. */
static void a_chain_needs_no_more_than_its_peak(void **state)
{
    (void)state;
    enum { LAYERS = 10 };
    struct xt_plan_item items[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        items[i] = (struct xt_plan_item){.bytes = 256, .first = i, .last = 2 * LAYERS - i};
    assert_int_equal(layout(items, LAYERS), peak_of(items, LAYERS));
}

/* A chain in evaluation: two places in turn. */
static void a_chain_in_evaluation_alternates(void **state)
{
    (void)state;
    enum { LAYERS = 10 };
    struct xt_plan_item items[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        items[i] = (struct xt_plan_item){.bytes = 256, .first = i, .last = i + 1};
    assert_int_equal(layout(items, LAYERS), 512);
}

static void the_last_moment_of_one_and_the_first_of_another_meet(void **state)
{
    (void)state;
    struct xt_plan_item items[] = {
        {.bytes = 64, .first = 0, .last = 3},
        {.bytes = 64, .first = 3, .last = 4},
    };
    assert_int_equal(layout(items, 2), 128);
}

static void a_plan_of_nothing_is_empty(void **state)
{
    (void)state;
    assert_int_equal(layout(NULL, 0), 0);
}

static void the_same_items_give_the_same_plan(void **state)
{
    (void)state;
    struct xt_plan_item first[32];
    struct xt_plan_item second[32];
    for (int i = 0; i < 32; i++)
        first[i] = second[i] =
            (struct xt_plan_item){.bytes = (size_t)(i % 3 + 1) * 64, .first = i, .last = i + i % 5};
    layout(first, 32);
    layout(second, 32);
    for (int i = 0; i < 32; i++)
        assert_int_equal(first[i].offset, second[i].offset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_alive_together_never_overlap),
        cmocka_unit_test(an_item_leaves_its_place_while_it_rests),
        cmocka_unit_test(no_item_crosses_a_segment),
        cmocka_unit_test(a_segment_that_holds_all_is_the_one_plan),
        cmocka_unit_test(items_of_a_whole_segment_have_one_each),
        cmocka_unit_test(more_segments_than_there_can_be_is_an_error),
        cmocka_unit_test(items_that_never_meet_share_one_place),
        cmocka_unit_test(items_that_all_meet_stand_side_by_side),
        cmocka_unit_test(a_chain_needs_no_more_than_its_peak),
        cmocka_unit_test(a_chain_in_evaluation_alternates),
        cmocka_unit_test(the_last_moment_of_one_and_the_first_of_another_meet),
        cmocka_unit_test(a_plan_of_nothing_is_empty),
        cmocka_unit_test(the_same_items_give_the_same_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
