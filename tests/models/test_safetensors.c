#include "cut_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "models/weights/weight_file.h"

#define FIXTURE "tests/models/fixtures/state.safetensors"

/* A file of this header and `data_bytes` zeros. */
struct made {
    uint8_t bytes[4096];
    size_t size;
};

static struct made make(const char *header, size_t data_bytes)
{
    struct made made = {.size = 8 + strlen(header) + data_bytes};
    uint64_t length = strlen(header);
    assert_true(made.size <= sizeof made.bytes);
    memcpy(made.bytes, &length, sizeof length);
    memcpy(made.bytes + 8, header, length);
    return made;
}

static enum xt_status parse(struct xt_weight_file *file, const struct made *made,
                            struct xt_err *err)
{
    return xt_weight_file_parse(file, made->bytes, made->size, "w.safetensors", err);
}

static void assert_refused(const char *header, size_t data_bytes, const char *part)
{
    struct made made = make(header, data_bytes);
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(parse(&file, &made, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "w.safetensors: ");
    support_assert_error(&err, XT_ERR_DATA, part);
    assert_null(file.tensors);
    assert_null(file.owned);
}

static void assert_taken(const char *header, size_t data_bytes, size_t count)
{
    struct made made = make(header, data_bytes);
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(parse(&file, &made, &err), XT_OK);
    assert_int_equal(file.count, count);
    xt_weight_file_clear(&file);
}

static void assert_floats(const struct xt_weight_file *file, const char *name, const float *wanted,
                          size_t count)
{
    const struct xt_file_tensor *tensor = xt_weight_file_find(file, name);
    float got[16];
    struct xt_err err;
    assert_non_null(tensor);
    assert_int_equal(xt_file_tensor_floats(tensor, got, count, &err), XT_OK);
    assert_memory_equal(got, wanted, count * sizeof *got);
}

static void what_python_wrote_is_read(void **state)
{
    (void)state;
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(xt_weight_file_read(&file, FIXTURE, SIZE_MAX, &err), XT_OK);
    assert_int_equal(file.count, 13);
    assert_string_equal(xt_weight_file_meta(&file, "alphabet"), "京沪\n");
    assert_null(xt_weight_file_meta(&file, "nothing"));
    assert_null(xt_weight_file_find(&file, "nothing"));
    assert_floats(&file, "f32", (float[]){0, 0.5F, 1, 1.5F, 2, 2.5F}, 6);
    assert_floats(&file, "f64", (float[]){0.1F, -2.5F}, 2);
    assert_floats(&file, "f16", (float[]){1.5F, -65504, 0x1p-24F}, 3);
    assert_floats(&file, "bf16", (float[]){1.5F, -3.0040553e38F}, 2);
    assert_floats(&file, "empty", NULL, 0);
    const struct xt_file_tensor *scalar = xt_weight_file_find(&file, "i64");
    assert_int_equal(scalar->ndims, 0);
    assert_int_equal(xt_file_tensor_count(scalar), 1);
    assert_int_equal(*(const uint8_t *)scalar->data, 7);
    xt_weight_file_clear(&file);
}

static void what_is_written_is_read_back(void **state)
{
    const float weights[] = {1, -2, 3};
    const uint16_t halves[] = {0x3C00};
    const struct xt_file_tensor tensors[] = {
        {.name = "z.\"weight\"\\", .ndims = 2, .dims = {1, 3}, .data = weights, .bytes = 12},
        {.name = "a", .dtype = XT_F16, .data = halves, .bytes = 2},
        {.name = "none", .ndims = 1, .dims = {0}, .data = weights, .bytes = 0},
    };
    const struct xt_file_meta meta[] = {{"alphabet", "京\n\"-"}, {"empty", ""}};
    const char *path = support_path(*state, "w.safetensors");
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(xt_weight_file_write(path, tensors, 3, meta, 2, &err), XT_OK);
    assert_int_equal(xt_weight_file_read(&file, path, SIZE_MAX, &err), XT_OK);
    assert_int_equal(file.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(file.tensors[i].ndims, tensors[i].ndims);
        assert_int_equal(file.tensors[i].dtype, tensors[i].dtype);
        assert_int_equal(file.tensors[i].bytes, tensors[i].bytes);
        assert_memory_equal(file.tensors[i].data, tensors[i].data, tensors[i].bytes);
    }
    assert_string_equal(file.tensors[0].name, tensors[0].name);
    assert_string_equal(file.meta[0].value, meta[0].value);
    assert_string_equal(file.meta[1].value, "");
    xt_weight_file_clear(&file);
}

static void metadata_of_another_file_brings_no_hashes_along(void **state)
{
    float weight = 1;
    const struct xt_file_tensor tensor = {.name = "w", .data = &weight, .bytes = 4};
    const char *path = support_path(*state, "w.safetensors");
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(xt_weight_file_write(path, &tensor, 1, NULL, 0, &err), XT_OK);
    assert_int_equal(xt_weight_file_read(&file, path, SIZE_MAX, &err), XT_OK);
    weight = 2;
    file.tensors[0].data = &weight;
    assert_int_equal(
        xt_weight_file_write(path, file.tensors, file.count, file.meta, file.meta_count, &err),
        XT_OK);
    xt_weight_file_clear(&file);
    assert_int_equal(xt_weight_file_read(&file, path, SIZE_MAX, &err), XT_OK);
    assert_int_equal(file.meta_count, 2);
    xt_weight_file_clear(&file);
}

static void the_written_data_begins_on_a_multiple_of_eight(void **state)
{
    const float weight = 1;
    char name[] = "aaaaaaaa";
    for (size_t length = 1; length < sizeof name; length++) {
        const struct xt_file_tensor tensor = {
            .name = name + sizeof name - 1 - length, .data = &weight, .bytes = 4};
        const char *path = support_path(*state, "w.safetensors");
        uint8_t *bytes = NULL;
        size_t capacity = 0;
        size_t size = 0;
        struct xt_err err;
        assert_int_equal(xt_weight_file_write(path, &tensor, 1, NULL, 0, &err), XT_OK);
        assert_int_equal(xt_file_read(path, 4096, &bytes, &capacity, &size, &err), XT_OK);
        assert_int_equal((size - 4) % 8, 0);
        free(bytes);
    }
}

static void a_tensor_that_does_not_fit_its_shape_is_not_written(void **state)
{
    const float weights[] = {1, 2};
    const struct xt_file_tensor tensor = {
        .name = "w", .ndims = 1, .dims = {3}, .data = weights, .bytes = 8};
    const char *path = support_path(*state, "w.safetensors");
    struct xt_err err;
    assert_int_equal(xt_weight_file_write(path, &tensor, 1, NULL, 0, &err), XT_ERR_DATA);
    assert_false(xt_file_exists(path));
}

static void two_tensors_of_one_name_are_not_written(void **state)
{
    const float weight = 1;
    const struct xt_file_tensor tensors[] = {{.name = "w", .data = &weight, .bytes = 4},
                                             {.name = "w", .data = &weight, .bytes = 4}};
    const char *path = support_path(*state, "w.safetensors");
    struct xt_err err;
    assert_int_equal(xt_weight_file_write(path, tensors, 2, NULL, 0, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "two tensors named 'w'");
}

#define TENSOR(name, shape, begin, end)                                                            \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"

static void tensors_come_in_the_order_of_their_data(void **state)
{
    (void)state;
    struct made made =
        make("{" TENSOR("b", "[1]", "4", "8") "," TENSOR("a", "[1]", "0", "4") "}", 8);
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(parse(&file, &made, &err), XT_OK);
    assert_string_equal(file.tensors[0].name, "a");
    assert_string_equal(file.tensors[1].name, "b");
    xt_weight_file_clear(&file);
}

static void what_wrappers_put_before_all_names_is_dropped(void **state)
{
    (void)state;
    struct made made = make("{\"_orig_mod.module.a.b\":{\"dtype\":\"F32\",\"shape\":[1],"
                            "\"data_offsets\":[0,4]},\"_orig_mod.module.module.c\":{\"dtype\":"
                            "\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
                            8);
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(parse(&file, &made, &err), XT_OK);
    assert_non_null(xt_weight_file_find(&file, "a.b"));
    assert_non_null(xt_weight_file_find(&file, "module.c"));
    xt_weight_file_clear(&file);
}

static void small_files_are_taken(void **state)
{
    (void)state;
    assert_taken("{}", 0, 0);
    assert_taken("{}      ", 0, 0);
    assert_taken("{" TENSOR("w", "[]", "0", "4") "}", 4, 1);
    assert_taken("{" TENSOR("w", "[1,1,1,1,1,1,1,1]", "0", "4") "}", 4, 1);
    assert_taken("{\"__metadata__\":{}," TENSOR("w", "[2,0,3]", "0", "0") "}", 0, 1);
}

static void overlapping_tensors_are_refused(void **state)
{
    (void)state;
    assert_refused("{" TENSOR("a", "[2]", "0", "8") "," TENSOR("b", "[2]", "4", "12") "}", 12,
                   "tensors a and b overlap at byte 4");
    assert_refused("{" TENSOR("a", "[2]", "0", "8") "," TENSOR("b", "[2]", "0", "8") "}", 8,
                   "overlap");
}

static void holes_and_bytes_left_over_are_refused(void **state)
{
    (void)state;
    assert_refused("{" TENSOR("a", "[1]", "4", "8") "}", 8, "before tensor a, belong to no tensor");
    assert_refused("{" TENSOR("a", "[1]", "0", "4") "}", 5, "1 bytes after the last tensor");
    assert_refused("{}", 1, "1 bytes after the last tensor");
}

static void data_that_is_missing_is_refused(void **state)
{
    (void)state;
    assert_refused("{" TENSOR("a", "[2]", "0", "8") "}", 7, "tensor a ends at byte 8");
    assert_refused("{" TENSOR("a", "[2]", "0", "4") "}", 4, "span 4 bytes where");
    assert_refused("{" TENSOR("a", "[1]", "4", "0") "}", 4, "data_offsets");
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    assert_refused("{" TENSOR("a", "[4294967296,4294967296]", "0", "0") "}", 0, "too large");
    assert_refused("{" TENSOR("a", "[4294967296,4294967296,0]", "0", "0") "}", 0, "too large");
    assert_refused("{" TENSOR("a", "[1e300]", "0", "4") "}", 4, "other than integers");
    assert_refused("{" TENSOR("a", "[18446744073709551617]", "0", "4") "}", 4,
                   "other than integers");
    assert_refused("{" TENSOR("a", "[1]", "0", "1e300") "}", 4, "data_offsets");
}

static void numbers_that_are_not_whole_are_refused(void **state)
{
    (void)state;
    assert_refused("{" TENSOR("a", "[-1]", "0", "4") "}", 4, "other than integers");
    assert_refused("{" TENSOR("a", "[1.5]", "0", "4") "}", 4, "other than integers");
    assert_refused("{" TENSOR("a", "[\"1\"]", "0", "4") "}", 4, "other than integers");
    assert_refused("{" TENSOR("a", "[1]", "-4", "0") "}", 4, "data_offsets");
    assert_refused("{" TENSOR("a", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4,
                   "more than 8 dimensions");
}

static void a_header_longer_than_the_file_is_refused(void **state)
{
    (void)state;
    struct made made = make("{}", 0);
    struct xt_weight_file file;
    struct xt_err err;
    made.bytes[0] = 3;
    assert_int_equal(parse(&file, &made, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "claims 3 bytes, but the file has only 10");
    made.bytes[7] = 0xFF;
    assert_int_equal(parse(&file, &made, &err), XT_ERR_DATA);
}

static void a_header_that_is_no_object_is_refused(void **state)
{
    (void)state;
    assert_refused("{", 0, "not JSON");
    assert_refused("{\"a\":1,", 0, "not JSON");
    assert_refused("{}{}", 0, "not one JSON object");
    assert_refused("{\"a\":1}", 0, "not an object");
    assert_refused("{\"a\":{}}", 0, "it has no dtype");
    assert_refused("[]", 0, "neither safetensors nor");
}

static void names_that_deceive_are_refused(void **state)
{
    (void)state;
    assert_refused("{" TENSOR("a", "[0]", "0", "0") "," TENSOR("a", "[0]", "0", "0") "}", 0,
                   "two tensors named 'a'");
    assert_refused("{" TENSOR("a\\u0000b", "[0]", "0", "0") "}", 0, "NUL");
    assert_refused("{" TENSOR("a\\u001b[31m", "[0]", "0", "0") "}", 0, "control characters");
    assert_refused("{" TENSOR("a\xff", "[0]", "0", "0") "}", 0, "not UTF-8");
    assert_refused("{" TENSOR("", "[0]", "0", "0") "}", 0, "name has 0 bytes");
    assert_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[0],\"shape\":[1],\"data_offsets\":[0,4]}}",
                   4, "two of shape");
}

static void an_unknown_data_type_is_named(void **state)
{
    (void)state;
    assert_refused("{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
                   "tensor a: the data type 'F8_E4M3'");
}

static void metadata_must_be_strings(void **state)
{
    (void)state;
    assert_refused("{\"__metadata__\":{\"a\":1}}", 0, "__metadata__");
    assert_refused("{\"__metadata__\":[]}", 0, "__metadata__");
    assert_refused("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "two of __metadata__");
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    char header[4000] = "{\"a\":";
    memset(header + 5, '[', sizeof header - 6);
    assert_refused(header, 0, "not JSON");
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    assert_refused_when_cut(FIXTURE);
}

/* The file takes a few bytes on the disk. */
static void a_large_file_takes_no_memory(void **state)
{
    const char *path = support_path(*state, "sparse");
    struct made made = make("{" TENSOR("w", "[2147483648]", "0", "8589934592") "}", 0);
    struct rusage before;
    struct rusage after;
    struct xt_weight_file file;
    struct xt_err err;
    support_write_file(path, made.bytes, made.size);
    assert_int_equal(truncate(path, (off_t)made.size + 8589934592), 0);
    getrusage(RUSAGE_SELF, &before);
    assert_int_equal(xt_weight_file_read(&file, path, 1 << 20, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "sparse: its tensors take 8589934592 bytes, more than");
    support_write_file(path, "", 0);
    assert_int_equal(truncate(path, 8589934592), 0);
    assert_int_equal(xt_weight_file_read(&file, path, SIZE_MAX, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "sparse: it is neither safetensors");
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10);
}

static void a_missing_file_is_named(void **state)
{
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(xt_weight_file_read(&file, support_path(*state, "none"), SIZE_MAX, &err),
                     XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "/none");
    xt_weight_file_clear(&file);
}

static float half_by_arithmetic(unsigned bits)
{
    int exponent = (int)(bits >> 10 & 0x1F);
    double fraction = bits & 0x3FF;
    double value = exponent == 31 ? (double)INFINITY
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return (float)(bits & 0x8000 ? -value : value);
}

static void every_half_converts_exactly(void **state)
{
    (void)state;
    for (unsigned bits = 0; bits < 0x10000; bits++) {
        uint16_t half = (uint16_t)bits;
        const struct xt_file_tensor tensor = {
            .name = "h", .dtype = XT_F16, .data = &half, .bytes = 2};
        float got = 0;
        assert_int_equal(xt_file_tensor_floats(&tensor, &got, 1, NULL), XT_OK);
        if ((bits & 0x7C00) == 0x7C00 && (bits & 0x3FF))
            assert_true(isnan(got));
        else
            assert_true(got == half_by_arithmetic(bits) && !signbit(got) == !(bits & 0x8000));
    }
}

static void integers_and_wrong_counts_give_no_floats(void **state)
{
    (void)state;
    const int64_t number = 1;
    const struct xt_file_tensor tensor = {
        .name = "n", .dtype = XT_I64, .data = &number, .bytes = 8};
    float got = 0;
    struct xt_err err;
    assert_int_equal(xt_file_tensor_floats(&tensor, &got, 1, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "tensor n holds I64");
    assert_int_equal(xt_file_tensor_floats(&tensor, &got, 2, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "has 1 elements where 2");
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_python_wrote_is_read),
        IN_FOLDER(what_is_written_is_read_back),
        IN_FOLDER(metadata_of_another_file_brings_no_hashes_along),
        IN_FOLDER(the_written_data_begins_on_a_multiple_of_eight),
        IN_FOLDER(a_tensor_that_does_not_fit_its_shape_is_not_written),
        IN_FOLDER(two_tensors_of_one_name_are_not_written),
        cmocka_unit_test(tensors_come_in_the_order_of_their_data),
        cmocka_unit_test(what_wrappers_put_before_all_names_is_dropped),
        cmocka_unit_test(small_files_are_taken),
        cmocka_unit_test(overlapping_tensors_are_refused),
        cmocka_unit_test(holes_and_bytes_left_over_are_refused),
        cmocka_unit_test(data_that_is_missing_is_refused),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(numbers_that_are_not_whole_are_refused),
        cmocka_unit_test(a_header_longer_than_the_file_is_refused),
        cmocka_unit_test(a_header_that_is_no_object_is_refused),
        cmocka_unit_test(names_that_deceive_are_refused),
        cmocka_unit_test(an_unknown_data_type_is_named),
        cmocka_unit_test(metadata_must_be_strings),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        IN_FOLDER(a_large_file_takes_no_memory),
        IN_FOLDER(a_missing_file_is_named),
        cmocka_unit_test(every_half_converts_exactly),
        cmocka_unit_test(integers_and_wrong_counts_give_no_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
