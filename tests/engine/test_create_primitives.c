/* Primitives of several programs, made by any number of threads: all of them, each counted once,
 * and of failures always the same one. */
#include "support.h"

#include <stdio.h>
#include <time.h>

#include "engine/create_primitives.h"

enum { PROGRAMS = 7, STEPS = 9, ALL = PROGRAMS * STEPS, FLOATS = 40 };

struct bench {
    struct xt_device device;
    struct xt_err err;
    struct xt_device_memory memory;
    struct xt_program programs[PROGRAMS];
    struct xt_program *list[PROGRAMS];
    int seen; /* primitives that were reported */
};

/* Step k of program i: numbers times i + 1, plus k. */
static void open_bench(struct bench *b)
{
    *b = (struct bench){0};
    assert_int_equal(xt_device_open(&b->device, "cpu", 1, &b->err), XT_OK);
    assert_int_equal(xt_device_memory_create_bytes(&b->device, FLOATS * sizeof(float), XT_ON_HOST,
                                                   "numbers", &b->memory, &b->err),
                     XT_OK);
    struct xt_operand numbers = xt_operand_matrix(xt_in_memory(&b->memory), dnnl_f32, 1, FLOATS);
    for (int i = 0; i < PROGRAMS; i++) {
        char name[16];
        snprintf(name, sizeof name, "program %d", i);
        xt_program_init(&b->programs[i], &b->device, name, &b->err);
        for (int k = 0; k < STEPS; k++)
            xt_program_eltwise(&b->programs[i], k % 2 ? XT_FORWARD : XT_BACKWARD,
                               dnnl_eltwise_linear, (float)(i + 1), (float)k, &numbers, &numbers);
        b->list[i] = &b->programs[i];
    }
}

static void close_bench(struct bench *b)
{
    for (int i = 0; i < PROGRAMS; i++)
        xt_program_clear(&b->programs[i]);
    xt_device_memory_destroy(&b->memory);
    xt_device_close(&b->device);
}

static void count_created(void *context, int done, int all)
{
    struct bench *b = context;
    assert_int_equal(done, ++b->seen);
    assert_int_equal(all, ALL);
}

static enum xt_status make(struct bench *b, int threads)
{
    const struct xt_creation creation = {
        .threads = threads, .created = count_created, .context = b};
    b->seen = 0;
    return xt_programs_create(b->list, PROGRAMS, &creation, &b->err);
}

/* What program `i` makes of numbers that are 1 to begin with. */
static float result_of(int i)
{
    float value = 1;
    for (int k = 1; k < STEPS; k += 2)
        value = value * (float)(i + 1) + (float)k;
    return value;
}

static void any_number_of_threads_makes_them_all(void **state)
{
    (void)state;
    static const int counts[] = {1, 2, 5, 100};
    for (size_t t = 0; t < sizeof counts / sizeof *counts; t++) {
        struct bench b;
        open_bench(&b);
        assert_int_equal(make(&b, counts[t]), XT_OK);
        assert_int_equal(b.seen, ALL);
        float *numbers = b.memory.host;
        for (int i = 0; i < PROGRAMS; i++) {
            for (int k = 0; k < FLOATS; k++)
                numbers[k] = 1;
            assert_int_equal(xt_program_bind(b.list[i], xt_in_memory(&b.memory), &b.err), XT_OK);
            assert_int_equal(xt_program_run(b.list[i], XT_FORWARD, &b.err), XT_OK);
            assert_true(numbers[FLOATS - 1] == result_of(i));
        }
        close_bench(&b);
    }
}

static void nothing_to_make_is_made(void **state)
{
    (void)state;
    const struct xt_creation creation = {.threads = 4};
    struct xt_err err = {0};
    assert_int_equal(xt_programs_create(NULL, 0, &creation, &err), XT_OK);
}

/* A oneDNN that fails from the third program on, where later ones do so sooner. */
static dnnl_status_t (*real_create)(dnnl_primitive_t *, const_dnnl_primitive_desc_t);

static dnnl_status_t fail_some(dnnl_primitive_t *primitive, const_dnnl_primitive_desc_t pd)
{
    float factor = 0;
    xt_dnnl.primitive_desc_query(pd, dnnl_query_alpha_f32, 0, &factor);
    if (factor < 3)
        return real_create(primitive, pd);
    float offset = 0;
    xt_dnnl.primitive_desc_query(pd, dnnl_query_beta_f32, 0, &offset);
    const struct timespec pause = {.tv_nsec = 5000000L * (STEPS - (long)offset)};
    nanosleep(&pause, NULL);
    return dnnl_out_of_memory;
}

static void the_first_failure_is_said(void **state)
{
    (void)state;
    for (int threads = 1; threads < 6; threads += 2) {
        struct bench b;
        open_bench(&b);
        real_create = xt_dnnl.primitive_create;
        xt_dnnl.primitive_create = fail_some;
        enum xt_status status = make(&b, threads);
        xt_dnnl.primitive_create = real_create;
        assert_int_equal(status, XT_ERR_MEMORY);
        support_assert_error(&b.err, XT_ERR_MEMORY, "program 2: oneDNN ran out of memory");
        assert_int_equal(b.seen, 2 * STEPS);
        close_bench(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_threads_makes_them_all),
        cmocka_unit_test(nothing_to_make_is_made),
        cmocka_unit_test(the_first_failure_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
