#include "support.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void memory_comes_zeroed(void **state)
{
    (void)state;
    struct xt_err err = {0};
    uint32_t *numbers = NULL;
    assert_int_equal(xt_mem_calloc(&numbers, 1000, sizeof *numbers, "numbers", &err), XT_OK);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], 0);
    free(numbers);
}

static void none_of_a_thing_is_a_pointer_too(void **state)
{
    (void)state;
    struct xt_err err = {0};
    char *none = NULL;
    assert_int_equal(xt_mem_calloc(&none, 0, 8, "nothing", &err), XT_OK);
    assert_non_null(none);
    free(none);
    assert_int_equal(xt_mem_aligned(&none, 0, 8, "nothing", &err), XT_OK);
    assert_non_null(none);
    free(none);
}

static void aligned_memory_starts_a_cache_line_and_is_zeroed(void **state)
{
    (void)state;
    struct xt_err err = {0};
    for (size_t count = 1; count < 300; count += 7) {
        unsigned char *bytes = NULL;
        assert_int_equal(xt_mem_aligned(&bytes, count, 1, "bytes", &err), XT_OK);
        assert_int_equal((uintptr_t)bytes % 64, 0);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(bytes[i], 0);
        free(bytes);
    }
}

/* Its last one is whole only where that adds little. */
static void an_array_of_about_a_huge_page_starts_one(void **state)
{
    enum { HUGE_PAGE = 2 << 20 };
    (void)state;
    static const size_t sizes[] = {HUGE_PAGE - HUGE_PAGE / 16, HUGE_PAGE, HUGE_PAGE + 1,
                                   3 * (HUGE_PAGE / 2), 5 * HUGE_PAGE - 1};
    struct xt_err err = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *bytes = NULL;
        assert_int_equal(xt_mem_aligned(&bytes, sizes[i], 1, "bytes", &err), XT_OK);
        assert_int_equal((uintptr_t)bytes % HUGE_PAGE, 0);
        assert_int_equal(bytes[0] | bytes[sizes[i] - 1], 0);
        free(bytes);
    }
}

static void mapped_memory_starts_a_huge_page_and_is_zeroed(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 2 << 20, (2 << 20) + 1, 5 << 20};
    struct xt_err err = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *bytes = NULL;
        assert_int_equal(xt_mem_map(&bytes, sizes[i], "the arena", &err), XT_OK);
        assert_int_equal((uintptr_t)bytes % (2 << 20), 0);
        for (size_t k = 0; k < sizes[i]; k += 1009)
            assert_int_equal(bytes[k]++, 0);
        xt_mem_unmap(bytes, sizes[i]);
    }
    xt_mem_unmap(NULL, 5);
}

static void mapped_memory_is_not_occupied_before_it_is_touched(void **state)
{
    (void)state;
    struct xt_err err = {0};
    enum { PAGE = 2 << 20 };
    char *bytes = NULL;
    assert_int_equal(xt_mem_map(&bytes, 3 * PAGE, "the arena", &err), XT_OK);
    assert_int_equal(xt_mem_untouched(bytes, 3 * PAGE), 3 * PAGE);
    memset(bytes + PAGE, 1, PAGE);
    assert_int_equal(xt_mem_untouched(bytes, 3 * PAGE), 2 * PAGE);
    assert_int_equal(xt_mem_untouched(bytes + PAGE, PAGE), 0);
    assert_int_equal(xt_mem_untouched(bytes + 1, PAGE - 1) < PAGE, true);
    memset(bytes, 1, 3 * PAGE);
    assert_int_equal(xt_mem_untouched(bytes, 3 * PAGE), 0);
    xt_mem_unmap(bytes, 3 * PAGE);
}

/* The sizes are read from a variable, so that the compiler does not warn of what is meant here. */
static volatile size_t huge = SIZE_MAX / 2;

static void a_size_that_overflows_is_refused(void **state)
{
    (void)state;
    struct xt_err err = {0};
    char *bytes = (char *)1;
    assert_int_equal(xt_mem_calloc(&bytes, huge, 3, "the table", &err), XT_ERR_MEMORY);
    assert_null(bytes);
    support_assert_error(&err, XT_ERR_MEMORY, "the table");
    bytes = (char *)1;
    assert_int_equal(xt_mem_aligned(&bytes, huge, 3, "the arena", &err), XT_ERR_MEMORY);
    assert_null(bytes);
    support_assert_error(&err, XT_ERR_MEMORY, "the arena");
    bytes = (char *)1;
    assert_int_equal(xt_mem_map(&bytes, huge, "the arena", &err), XT_ERR_MEMORY);
    assert_null(bytes);
    assert_int_equal(xt_mem_map(&bytes, huge * 2 + 1, "the arena", &err), XT_ERR_MEMORY);
    assert_int_equal(xt_mem_aligned(&bytes, huge * 2 + 1, 1, "the rest", &err), XT_ERR_MEMORY);
}

static void growing_keeps_what_is_there(void **state)
{
    (void)state;
    struct xt_err err = {0};
    int *numbers = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(
            xt_mem_grow(&numbers, &capacity, (size_t)i + 1, sizeof *numbers, "numbers", &err),
            XT_OK);
        assert_true(capacity > (size_t)i);
        numbers[i] = i;
    }
    for (int i = 0; i < 10000; i++)
        assert_int_equal(numbers[i], i);
    free(numbers);
}

static void growing_to_less_does_nothing(void **state)
{
    (void)state;
    struct xt_err err = {0};
    int *numbers = NULL;
    size_t capacity = 0;
    assert_int_equal(xt_mem_grow(&numbers, &capacity, 100, sizeof *numbers, "numbers", &err),
                     XT_OK);
    int *before = numbers;
    size_t had = capacity;
    assert_int_equal(xt_mem_grow(&numbers, &capacity, 1, sizeof *numbers, "numbers", &err), XT_OK);
    assert_ptr_equal(numbers, before);
    assert_int_equal(capacity, had);
    free(numbers);
}

static void a_growth_that_fails_leaves_the_array(void **state)
{
    (void)state;
    struct xt_err err = {0};
    long *numbers = NULL;
    size_t capacity = 0;
    assert_int_equal(xt_mem_grow(&numbers, &capacity, 4, sizeof *numbers, "numbers", &err), XT_OK);
    numbers[3] = 42;
    size_t had = capacity;
    assert_int_equal(xt_mem_grow(&numbers, &capacity, huge, sizeof *numbers, "numbers", &err),
                     XT_ERR_MEMORY);
    assert_int_equal(
        xt_mem_grow(&numbers, &capacity, huge * 2 + 1, sizeof *numbers, "numbers", &err),
        XT_ERR_MEMORY);
    assert_int_equal(numbers[3], 42);
    assert_int_equal(capacity, had);
    free(numbers);
}

/* Also where elements go in between. */
static void there_is_room_for_one_more(void **state)
{
    (void)state;
    struct xt_err err = {0};
    int *numbers = NULL;
    size_t count = 0;
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(xt_mem_add(&numbers, count, sizeof *numbers, "numbers", &err), XT_OK);
        assert_true(malloc_usable_size(numbers) >= (count + 1) * sizeof *numbers);
        numbers[count] = (int)count;
        count++;
        count -= i % 100 == 99 ? count / 2 : 0;
    }
    for (size_t i = 0; i < count; i++)
        assert_int_equal(numbers[i], (int)i);
    free(numbers);
}

static void a_string_is_copied(void **state)
{
    (void)state;
    struct xt_err err = {0};
    const char *text = "\u6caa";
    char *copy = NULL;
    assert_int_equal(xt_mem_strdup(&copy, text, &err), XT_OK);
    assert_string_equal(copy, text);
    assert_ptr_not_equal(copy, text);
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_comes_zeroed),
        cmocka_unit_test(none_of_a_thing_is_a_pointer_too),
        cmocka_unit_test(aligned_memory_starts_a_cache_line_and_is_zeroed),
        cmocka_unit_test(an_array_of_about_a_huge_page_starts_one),
        cmocka_unit_test(mapped_memory_starts_a_huge_page_and_is_zeroed),
        cmocka_unit_test(mapped_memory_is_not_occupied_before_it_is_touched),
        cmocka_unit_test(a_size_that_overflows_is_refused),
        cmocka_unit_test(growing_keeps_what_is_there),
        cmocka_unit_test(growing_to_less_does_nothing),
        cmocka_unit_test(a_growth_that_fails_leaves_the_array),
        cmocka_unit_test(there_is_room_for_one_more),
        cmocka_unit_test(a_string_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
