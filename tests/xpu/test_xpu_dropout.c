/* The masks that a device generates: their share, what they depend on, and that they come again. */
#include <math.h>
#include <stdlib.h>

#include "engine/program.h"
#include "support.h"

enum { ROWS = 8, COLUMNS = 4099, COUNT = ROWS * COLUMNS };

static struct {
    struct xt_device device;
    struct xt_device_memory values, scratchpad;
    struct xt_device_dropout numbers;
    struct xt_program program;
    struct xt_err err;
    float ones[COUNT];
} f;

static void ok(enum xt_status status)
{
    if (status)
        fail_msg("%s", f.err.text);
}

static int setup(void **state)
{
    (void)state;
    if (!getenv("OPENCL_LAYERS"))
        return 0;
    ok(xt_device_open(&f.device, "xpu", 0, &f.err));
    ok(xt_device_memory_create_bytes(&f.device, sizeof f.ones, XT_ON_DEVICE, "values", &f.values,
                                     &f.err));
    ok(xt_device_memory_create_bytes(&f.device, 1, XT_ON_DEVICE, "a scratchpad", &f.scratchpad,
                                     &f.err));
    for (int i = 0; i < COUNT; i++)
        f.ones[i] = 1;
    if (!xt_device_dropout_create(&f.numbers))
        return 0;
    xt_program_init(&f.program, &f.device, "dropout", &f.err);
    struct xt_operand data = xt_operand_matrix(xt_in_memory(&f.values), dnnl_f32, ROWS, COLUMNS);
    assert_true(xt_program_dropout(&f.program, XT_FORWARD, &data, &f.numbers));
    ok(xt_program_bind(&f.program, xt_in_memory(&f.scratchpad), &f.err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (!getenv("OPENCL_LAYERS"))
        return 0;
    xt_program_clear(&f.program);
    xt_device_dropout_destroy(&f.numbers);
    xt_device_memory_destroy(&f.values);
    xt_device_memory_destroy(&f.scratchpad);
    xt_device_close(&f.device);
    return 0;
}

static void need_numbers(void)
{
    if (!getenv("OPENCL_LAYERS"))
        support_skip("no test double of a GPU: run \"make test-xpu\"");
    if (!f.numbers.seed)
        support_skip("this oneDNN draws no masks on a device");
}

/* What becomes of ones. */
static void draw(double probability, uint64_t seed, uint64_t offset, float *out)
{
    ok(xt_device_memory_write(&f.values, f.ones, sizeof f.ones, XT_CAUSE_OTHER, &f.err));
    ok(xt_device_dropout_set(&f.numbers, probability, seed, offset, &f.err));
    ok(xt_program_run(&f.program, XT_FORWARD, &f.err));
    ok(xt_device_memory_read(&f.values, out, sizeof f.ones, XT_CAUSE_OTHER, &f.err));
}

static void check_near(double share, double expected, double count, const char *what)
{
    if (!(fabs(share - expected) < 4 * sqrt(expected * (1 - expected) / count)))
        fail_msg("%s: a share of %.4f, not %.4f", what, share, expected);
}

static void the_expected_share_is_kept_and_scaled_up(void **state)
{
    (void)state;
    static const double probabilities[] = {0.5, 0.1, 0.9};
    static float out[COUNT];
    need_numbers();
    for (int k = 0; k < 3; k++) {
        double p = probabilities[k];
        double retained = 0;
        draw(p, 7, 0, out);
        for (int i = 0; i < COUNT; i++) {
            retained += out[i] != 0;
            assert_true(out[i] == 0 || fabs((double)out[i] * (1 - p) - 1) < 1e-5);
        }
        check_near(retained / COUNT, 1 - p, COUNT, "kept");
    }
}

static void the_same_numbers_make_the_same_mask(void **state)
{
    (void)state;
    static float first[COUNT], between[COUNT], again[COUNT];
    need_numbers();
    draw(0.5, 123456789012345, 3, first);
    draw(0.25, 5, 0, between);
    draw(0.5, 123456789012345, 3, again);
    assert_memory_equal(first, again, sizeof first);
}

/* Of independent masks of a half, half of the elements agree; so do neighbours within one. */
static void check_independent(const float *a, const float *b, int count, const char *what)
{
    double same = 0;
    for (int i = 0; i < count; i++)
        same += (a[i] == 0) == (b[i] == 0);
    check_near(same / count, 0.5, count, what);
}

static void masks_of_other_seeds_and_offsets_are_independent(void **state)
{
    (void)state;
    static float first[COUNT], other[COUNT];
    need_numbers();
    draw(0.5, 1, 0, first);
    draw(0.5, 2, 0, other);
    check_independent(first, other, COUNT, "the next seed");
    draw(0.5, 1 + (1ULL << 32), 0, other);
    check_independent(first, other, COUNT, "a seed apart in its upper half");
    draw(0.5, 1, 1, other);
    check_independent(first, other, COUNT, "the next offset");
}

static void neighbours_are_independent(void **state)
{
    (void)state;
    static const int apart[] = {1, 2, 3, 4, 64, 256, COLUMNS};
    static float out[COUNT];
    need_numbers();
    draw(0.5, 99, 0, out);
    for (size_t k = 0; k < sizeof apart / sizeof *apart; k++)
        check_independent(out, out + apart[k], COUNT - apart[k], "elements apart");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_expected_share_is_kept_and_scaled_up),
        cmocka_unit_test(the_same_numbers_make_the_same_mask),
        cmocka_unit_test(masks_of_other_seeds_and_offsets_are_independent),
        cmocka_unit_test(neighbours_are_independent),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
