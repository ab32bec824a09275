/* Level Zero or OpenCL, by what both offer. */
#include "device/gpu/back_end.h"

#include "support.h"

static void assert_choice(struct xt_back_end_choice choice, bool opencl, const char *said)
{
    char text[160];
    assert_int_equal(xt_back_end_is_opencl(&choice), opencl);
    xt_back_end_say(&choice, opencl ? "OpenCL" : "Level Zero", text, sizeof text);
    assert_string_equal(text, said);
    /* The runtime may not have followed. */
    xt_back_end_say(&choice, opencl ? "Level Zero" : "OpenCL", text, sizeof text);
    assert_string_equal(text, "");
}

static const char own_kernels[] = "through OpenCL, where the program's own kernels run";

static void opencl_is_taken_where_it_has_all_gpus(void **state)
{
    (void)state;
    assert_choice((struct xt_back_end_choice){.level_zero = 1, .opencl = 1}, true, own_kernels);
    assert_choice((struct xt_back_end_choice){.level_zero = 1, .opencl = 2}, true, own_kernels);
    assert_choice((struct xt_back_end_choice){.level_zero = 2, .opencl = 1}, false,
                  "through Level Zero, which has 2 GPUs; OpenCL has 1 with shared memory");
    assert_choice((struct xt_back_end_choice){.level_zero = 1}, false,
                  "through Level Zero, which has 1 GPU; OpenCL has 0 with shared memory");
}

/* A driver that does not read Level Zero's mask would offer GPUs that the user has excluded. */
static void a_mask_of_level_zero_is_not_got_round(void **state)
{
    (void)state;
    assert_choice((struct xt_back_end_choice){.level_zero = 1, .opencl = 2, .masked = true}, false,
                  "through Level Zero, which has 1 GPU by ZE_AFFINITY_MASK; OpenCL has 2 with "
                  "shared memory");
    assert_choice((struct xt_back_end_choice){.level_zero = 1, .opencl = 1, .masked = true}, true,
                  own_kernels);
}

static void where_there_is_no_choice_nothing_is_said(void **state)
{
    (void)state;
    assert_choice((struct xt_back_end_choice){.level_zero = 1, .opencl = 1, .settled = true}, false,
                  "");
    assert_choice((struct xt_back_end_choice){.opencl = 1}, false, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opencl_is_taken_where_it_has_all_gpus),
        cmocka_unit_test(a_mask_of_level_zero_is_not_got_round),
        cmocka_unit_test(where_there_is_no_choice_nothing_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
