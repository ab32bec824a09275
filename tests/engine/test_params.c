#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/form.h"
#include "engine/params.h"
#include "infer/network/param_files.h"

static const int even[] = {0, 2, 4};
static const int odd[] = {3, 1};
static const int columns[] = {2, 0, 1};

struct fixture {
    struct xt_device device;
    struct xt_params params;
    struct xt_err err;
};

static void ok(const struct fixture *f, enum xt_status status)
{
    if (status)
        print_error("%s\n", f->err.text);
    assert_int_equal(status, XT_OK);
}

static struct xt_param *add(struct fixture *f, const struct xt_param *param)
{
    int index = xt_params_add(&f->params, param, &f->err);
    assert_true(index >= 0);
    return &f->params.items[index];
}

/* The maps of a parameter that is described are read, never written. */
static int *map_of(const int *map)
{
    union {
        const int *in;
        int *out;
    } pointer = {.in = map};
    return pointer.out;
}

static void use_blocks(struct fixture *f, struct xt_param *param)
{
    dnnl_dims_t dims = {param->dims[0], param->dims[1], param->dims[2], param->dims[3]};
    ok(f, xt_dnnl_check(
              xt_dnnl.memory_desc_create_with_tag(&param->md, 4, dims, dnnl_f32, dnnl_OIhw16i16o),
              "a blocked weight", &f->err));
}

static void add_vector(struct fixture *f, const char *name, enum xt_param_role role, int count)
{
    struct xt_param param = {.role = role, .ndims = 1, .dims = {count}, .file_dims = {count}};
    snprintf(param.name, sizeof param.name, "%s", name);
    add(f, &param);
}

/* A whole weight in blocks, one weight in two parts (one in blocks), a batch norm. */
static void open_fixture(struct fixture *f)
{
    *f = (struct fixture){0};
    ok(f, xt_device_open(&f->device, "cpu", 1, &f->err));
    use_blocks(f, add(f, &(struct xt_param){.name = "whole.weight",
                                            .role = XT_PARAM_WEIGHT,
                                            .ndims = 4,
                                            .dims = {20, 3, 1, 2},
                                            .file_dims = {20, 3, 1, 2}}));
    add_vector(f, "whole.bias", XT_PARAM_BIAS, 20);
    struct xt_param part = {.name = "split.weight",
                            .role = XT_PARAM_WEIGHT,
                            .ndims = 4,
                            .dims = {3, 3, 1, 1},
                            .file_dims = {5, 3, 1, 1},
                            .rows = map_of(even),
                            .columns = map_of(columns)};
    use_blocks(f, add(f, &part));
    part.dims[0] = 2;
    part.rows = map_of(odd);
    add(f, &part);
    add_vector(f, "norm.weight", XT_PARAM_BN_SCALE, 5);
    add_vector(f, "norm.bias", XT_PARAM_BN_SHIFT, 5);
    add_vector(f, "norm.running_mean", XT_PARAM_BN_MEAN, 5);
    add_vector(f, "norm.running_var", XT_PARAM_BN_VAR, 5);
    add_vector(f, "norm.num_batches_tracked", XT_PARAM_BN_COUNT, 1);
    ok(f, xt_params_allocate(&f->params, true, &f->err));
}

static void close_fixture(struct fixture *f)
{
    xt_params_clear(&f->params);
    xt_device_close(&f->device);
}

static struct xt_params_view view_of(const struct fixture *f)
{
    return (struct xt_params_view){f->params.values, f->params.stats};
}

static struct xt_params_tensors tensors_of(struct fixture *f)
{
    struct xt_params_tensors tensors;
    struct xt_params_view view = view_of(f);
    ok(f, xt_params_to_tensors(&f->params, &f->device, &view, &tensors, &f->err));
    return tensors;
}

/* A weight file of all the tensors: element i of tensor t is 100 t + i. */
struct file {
    struct xt_file_tensor tensors[16];
    float data[16][256];
    int64_t batches;
    struct xt_weight_file file;
};

static void make_file(struct fixture *f, struct file *file)
{
    struct xt_params_tensors names = tensors_of(f);
    *file = (struct file){.batches = 77};
    for (int t = 0; t < names.count; t++) {
        file->tensors[t] = names.items[t];
        file->tensors[t].data = file->data[t];
        if (names.items[t].dtype == XT_I64)
            file->tensors[t].data = &file->batches;
        for (int i = 0; i < 256; i++)
            file->data[t][i] = (float)(100 * t + i);
    }
    file->file.tensors = file->tensors;
    file->file.count = (size_t)names.count;
    xt_params_free_tensors(&names);
}

static enum xt_status take_except(struct fixture *f, const struct file *file, const char *head)
{
    const struct xt_class_layer except[] = {{"other"}, {head, .is_head = true}, {NULL}};
    struct xt_params_view view = view_of(f);
    return xt_params_from_file(&f->params, &f->device, &view, &file->file, "some.pth", false,
                               except, &f->err);
}

static enum xt_status take(struct fixture *f, const struct file *file, bool partial)
{
    struct xt_params_view view = view_of(f);
    return xt_params_from_file(&f->params, &f->device, &view, &file->file, "some.pth", partial,
                               NULL, &f->err);
}

static const struct xt_file_tensor *find(const struct xt_params_tensors *tensors, const char *name)
{
    for (int i = 0; i < tensors->count; i++)
        if (strcmp(tensors->items[i].name, name) == 0)
            return &tensors->items[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

static void tensors_have_the_files_names_shapes_and_order(void **state)
{
    (void)state;
    static const char *const names[] = {
        "whole.weight", "whole.bias",        "split.weight",     "norm.weight",
        "norm.bias",    "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"};
    struct fixture f;
    open_fixture(&f);
    f.params.tracked[f.params.count - 1] = 12;
    struct xt_params_tensors tensors = tensors_of(&f);
    assert_int_equal(tensors.count, 8);
    for (int i = 0; i < 8; i++)
        assert_string_equal(tensors.items[i].name, names[i]);
    const struct xt_file_tensor *split = find(&tensors, "split.weight");
    assert_int_equal(split->ndims, 4);
    assert_int_equal(split->dims[0], 5);
    assert_int_equal(split->dims[1], 3);
    const struct xt_file_tensor *count = find(&tensors, "norm.num_batches_tracked");
    assert_int_equal(count->ndims, 0);
    assert_int_equal(count->dtype, XT_I64);
    assert_int_equal(*(const int64_t *)count->data, 12);
    xt_params_free_tensors(&tensors);
    close_fixture(&f);
}

static void a_file_goes_in_and_comes_out_the_same(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    uint64_t version = f.params.version;
    ok(&f, take(&f, &file, false));
    assert_true(f.params.version != version);
    assert_int_equal(f.params.tracked[f.params.count - 1], 77);
    struct xt_params_tensors tensors = tensors_of(&f);
    for (int t = 0; t < tensors.count; t++)
        assert_memory_equal(tensors.items[t].data, file.tensors[t].data, tensors.items[t].bytes);
    xt_params_free_tensors(&tensors);
    close_fixture(&f);
}

static void norms_have_their_own_counts(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    add_vector(&f, "other.num_batches_tracked", XT_PARAM_BN_COUNT, 1);
    make_file(&f, &file);
    int64_t others = 5;
    file.tensors[8].data = &others;
    ok(&f, take(&f, &file, false));
    struct xt_params_tensors tensors = tensors_of(&f);
    assert_int_equal(*(const int64_t *)tensors.items[7].data, 77);
    assert_int_equal(*(const int64_t *)tensors.items[8].data, 5);
    xt_params_free_tensors(&tensors);
    close_fixture(&f);
}

static void parts_hold_their_rows_and_columns(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    ok(&f, take(&f, &file, false));
    const struct xt_param *part = &f.params.items[3];
    const float *values = xt_params_value(&f.params, part);
    const float *whole = file.data[2];
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < 3; c++)
            assert_true(values[3 * r + c] == whole[3 * odd[r] + columns[c]]);
    close_fixture(&f);
}

static void exporting_a_part_leaves_other_rows_alone(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    ok(&f, take(&f, &file, false));
    float reference[15];
    for (int i = 0; i < 15; i++)
        reference[i] = -1;
    struct xt_params_view view = view_of(&f);
    ok(&f, xt_params_export(&f.params.items[2], &f.device, &view, reference, &f.err));
    for (int i = 0; i < 15; i++)
        assert_true(reference[i] == (i / 3 % 2 ? -1 : file.data[2][i]));
    close_fixture(&f);
}

/* The padding of a blocked format takes part in updates: it has to stay zero. */
static void padding_of_blocks_is_zero(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    ok(&f, take(&f, &file, false));
    const struct xt_param *whole = &f.params.items[0];
    assert_int_equal(whole->floats, 32 * 16 * 2);
    const float *values = xt_params_value(&f.params, whole);
    size_t others = 0;
    for (size_t i = 0; i < whole->floats; i++)
        others += values[i] != 0;
    assert_int_equal(others, 20 * 3 * 2 - 1); /* element 0 is 0 */
    close_fixture(&f);
}

/* As on an XPU, where the arena's copy of half the size begins each on a cache line too. */
static void weights_may_be_h_w_i_o(void **state)
{
    (void)state;
    struct fixture f = {0};
    ok(&f, xt_device_open(&f.device, "cpu", 1, &f.err));
    struct xt_param param = {.name = "a.weight",
                             .role = XT_PARAM_WEIGHT,
                             .ndims = 4,
                             .dims = {2, 3, 1, 2},
                             .file_dims = {2, 3, 1, 2},
                             .hwio = true};
    add(&f, &param);
    add_vector(&f, "a.bias", XT_PARAM_BIAS, 2);
    ok(&f, xt_params_allocate(&f.params, false, &f.err));
    assert_int_equal(f.params.items[1].offset, 32);
    const float file[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const float arena[] = {0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11};
    float out[12] = {0};
    struct xt_params_view view = view_of(&f);
    ok(&f, xt_params_import(&f.params.items[0], &f.device, &view, file, &f.err));
    assert_memory_equal(f.params.values, arena, sizeof arena);
    ok(&f, xt_params_export(&f.params.items[0], &f.device, &view, out, &f.err));
    assert_memory_equal(out, file, sizeof file);
    close_fixture(&f);
}

/* Each element of a weight of 20x12x3x2 is where oneDNN's reorder puts it. */
static void forms_are_onednns_formats(void **state)
{
    enum { OUT = 20, IN = 12, H = 3, W = 2, COUNT = OUT * IN * H * W };
    static const dnnl_format_tag_t tags[] = {dnnl_oihw, dnnl_hwio, dnnl_OIhw8i8o, dnnl_OIhw16i16o,
                                             dnnl_Oihw16o};
    static const dnnl_dims_t dims = {OUT, IN, H, W};
    (void)state;
    struct fixture f = {0};
    ok(&f, xt_device_open(&f.device, "cpu", 1, &f.err));
    float plain[COUNT];
    for (int i = 0; i < COUNT; i++)
        plain[i] = (float)(i + 1);
    dnnl_memory_desc_t dense = NULL;
    assert_int_equal(xt_dnnl.memory_desc_create_with_tag(&dense, 4, dims, dnnl_f32, dnnl_oihw),
                     dnnl_success);
    for (size_t k = 0; k < sizeof tags / sizeof *tags; k++) {
        dnnl_memory_desc_t md = NULL;
        struct xt_form form;
        float *there = NULL;
        assert_int_equal(xt_dnnl.memory_desc_create_with_tag(&md, 4, dims, dnnl_f32, tags[k]),
                         dnnl_success);
        assert_true(xt_form_of(md, &form));
        size_t count = xt_dnnl.memory_desc_get_size(md) / sizeof(float);
        assert_int_equal(xt_form_count(&form), count);
        ok(&f, xt_mem_aligned(&there, count, sizeof *there, "a weight", &f.err));
        ok(&f, xt_device_reorder(&f.device, dense, plain, md, there, &f.err));
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint32_t at[] = {0, i / (IN * H * W), i / (H * W) % IN, i / W % H, i % W};
            assert_true(there[xt_form_place(&form, at)] == plain[i]);
        }
        free(there);
        xt_dnnl.memory_desc_destroy(md);
    }
    xt_dnnl.memory_desc_destroy(dense);
    const struct xt_form hwio = xt_form_hwio((int[]){OUT, IN, H, W});
    assert_int_equal(xt_form_place(&hwio, (uint32_t[]){0, 3, 5, 1, 1}),
                     ((1 * W + 1) * IN + 5) * OUT + 3);
    close_fixture(&f);
}

static void tensors_stand_on_cache_lines_and_do_not_overlap(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    for (int i = 0; i < f.params.count; i++) {
        const struct xt_param *a = &f.params.items[i];
        assert_int_equal(a->offset % 16, 0);
        for (int k = 0; k < i; k++) {
            const struct xt_param *b = &f.params.items[k];
            if (a->role == XT_PARAM_BN_COUNT ||
                xt_param_is_statistic(a) != xt_param_is_statistic(b))
                continue;
            assert_true(a->offset >= b->offset + b->floats || b->offset >= a->offset + a->floats);
        }
    }
    close_fixture(&f);
}

static void gradients_have_no_statistics(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    struct xt_params_tensors tensors;
    struct xt_params_view view = {f.params.grads, NULL};
    ok(&f, xt_params_to_tensors(&f.params, &f.device, &view, &tensors, &f.err));
    assert_int_equal(tensors.count, 5);
    xt_params_free_tensors(&tensors);
    close_fixture(&f);
}

static void a_file_that_does_not_fit_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    ok(&f, take(&f, &file, false));
    file.tensors[0].dims[0] = 19;
    file.tensors[0].bytes = 19 * 3 * 2 * sizeof(float);
    file.tensors[4].name = "norm.shift";
    for (int i = 0; i < 256; i++)
        file.data[1][i] = -5;
    assert_int_equal(take(&f, &file, false), XT_ERR_DATA);
    assert_string_equal(f.err.text,
                        "some.pth does not fit the network; 3 tensors differ: of another shape "
                        "whole.weight (19x3x1x2, not 20x3x1x2), missing norm.bias, extra "
                        "norm.shift; --init-partial takes "
                        "the ones that fit");
    struct xt_params_tensors tensors = tensors_of(&f);
    assert_true(((const float *)find(&tensors, "whole.bias")->data)[0] == 100);
    xt_params_free_tensors(&tensors);
    close_fixture(&f);
}

static void a_partial_file_gives_what_fits(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    ok(&f, take(&f, &file, false));
    file.tensors[0].dims[0] = 19;
    file.tensors[0].bytes = 19 * 3 * 2 * sizeof(float);
    file.tensors[4].name = "norm.shift";
    for (int t = 0; t < 8; t++)
        for (int i = 0; i < 256; i++)
            file.data[t][i] = t == 6 ? 5 : -5; /* a variance is not below 0 */
    ok(&f, take(&f, &file, true));
    struct xt_params_tensors tensors = tensors_of(&f);
    assert_true(((const float *)find(&tensors, "whole.weight")->data)[1] == 1);
    assert_true(((const float *)find(&tensors, "norm.bias")->data)[0] == 400);
    assert_true(((const float *)find(&tensors, "whole.bias")->data)[0] == -5);
    assert_true(((const float *)find(&tensors, "split.weight")->data)[14] == -5);
    xt_params_free_tensors(&tensors);
    close_fixture(&f);
}

/* Another head: its tensors keep what they have, whatever the file says. */
static void what_is_excepted_is_passed_over(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    ok(&f, take(&f, &file, false));
    file.tensors[0].dims[0] = 19;
    file.tensors[0].bytes = 19 * 3 * 2 * sizeof(float);
    for (int t = 0; t < 8; t++)
        for (int i = 0; i < 256; i++)
            file.data[t][i] = t == 6 ? 5 : -5; /* a variance is not below 0 */
    ok(&f, take_except(&f, &file, "whole"));
    struct xt_params_tensors tensors = tensors_of(&f);
    assert_true(((const float *)find(&tensors, "whole.weight")->data)[1] == 1);
    assert_true(((const float *)find(&tensors, "whole.bias")->data)[1] == 101);
    assert_true(((const float *)find(&tensors, "split.weight")->data)[1] == -5);
    xt_params_free_tensors(&tensors);
    file.tensors[2].name = "other.weight";
    assert_int_equal(take_except(&f, &file, "whole"), XT_ERR_DATA);
    assert_string_equal(f.err.text, "some.pth does not fit the network; 2 tensors differ: missing "
                                    "split.weight, extra other.weight; --init-partial takes the "
                                    "ones that fit");
    close_fixture(&f);
}

static void numbers_that_no_training_leaves_behind_are_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    const struct {
        int tensor, element;
        float value;
        const char *said;
    } cases[] = {
        {0, 7, NAN, "some.pth: whole.weight[1, 0, 0, 1] is nan, which is not finite"},
        {1, 3, INFINITY, "some.pth: whole.bias[3] is inf, which is not finite"},
        {5, 4, -INFINITY, "some.pth: norm.running_mean[4] is -inf, which is not finite"},
        {6, 2, -0.25F, "some.pth: norm.running_var[2] is -0.25, and a variance is not below 0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float *value = &file.data[cases[i].tensor][cases[i].element];
        float before = *value;
        *value = cases[i].value;
        assert_int_equal(take(&f, &file, false), XT_ERR_DATA);
        support_assert_error(&f.err, XT_ERR_DATA, cases[i].said);
        *value = before;
    }
    file.data[6][2] = 0;
    ok(&f, take(&f, &file, false));
    close_fixture(&f);
}

static void a_long_list_of_differences_is_cut(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    static const char *const others[] = {"a", "b", "c", "d", "e", "f", "g"};
    for (int t = 0; t < 7; t++)
        file.tensors[t].name = others[t];
    assert_int_equal(take(&f, &file, false), XT_ERR_DATA);
    assert_string_equal(
        f.err.text, "some.pth does not fit the network; 14 tensors differ: missing whole.weight, "
                    "missing whole.bias, missing split.weight, missing norm.weight, missing "
                    "norm.bias, missing norm.running_mean, missing norm.running_var, extra a, ...; "
                    "--init-partial takes the ones that fit");
    close_fixture(&f);
}

static void untouched_statistics_are_noticed(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    ok(&f, take(&f, &file, false));
    assert_false(f.params.frozen_at_init);
    for (int i = 0; i < 5; i++) {
        file.data[5][i] = 0;
        file.data[6][i] = 1;
    }
    ok(&f, take(&f, &file, false));
    assert_true(f.params.frozen_at_init);
    file.tensors[5].dims[0] = 4; /* not taken, so not of the file's training */
    file.tensors[5].bytes = 4 * sizeof(float);
    ok(&f, take(&f, &file, true));
    assert_false(f.params.frozen_at_init);
    close_fixture(&f);
}

static void initialisation_is_a_function_of_seed_and_name(void **state)
{
    (void)state;
    struct fixture f;
    open_fixture(&f);
    ok(&f, xt_params_initialise(&f.params, &f.device, 1, 0.25f, &f.err));
    struct xt_params_tensors first = tensors_of(&f);
    struct fixture other = {0};
    /* Alone, whole and dense: the same numbers as among others, in parts and blocks. */
    add(&other, &(struct xt_param){.name = "split.weight",
                                   .role = XT_PARAM_WEIGHT,
                                   .ndims = 4,
                                   .dims = {5, 3, 1, 1},
                                   .file_dims = {5, 3, 1, 1}});
    ok(&other, xt_params_allocate(&other.params, false, &other.err));
    ok(&other, xt_params_initialise(&other.params, &f.device, 1, 0, &other.err));
    assert_memory_equal(other.params.values, find(&first, "split.weight")->data,
                        15 * sizeof(float));
    ok(&other, xt_params_initialise(&other.params, &f.device, 2, 0, &other.err));
    assert_memory_not_equal(other.params.values, find(&first, "split.weight")->data,
                            15 * sizeof(float));
    xt_params_clear(&other.params);
    xt_params_free_tensors(&first);
    close_fixture(&f);
}

static void each_role_begins_as_it_should(void **state)
{
    (void)state;
    struct fixture f;
    struct file file;
    open_fixture(&f);
    make_file(&f, &file);
    ok(&f, take(&f, &file, false));
    ok(&f, xt_params_initialise(&f.params, &f.device, 1, 0.25f, &f.err));
    assert_int_equal(f.params.tracked[f.params.count - 1], 0);
    struct xt_params_tensors tensors = tensors_of(&f);
    static const struct {
        const char *name;
        float value;
    } wanted[] = {{"whole.bias", 0.25f},
                  {"norm.weight", 1},
                  {"norm.bias", 0},
                  {"norm.running_mean", 0},
                  {"norm.running_var", 1}};
    for (int i = 0; i < 5; i++) {
        const struct xt_file_tensor *tensor = find(&tensors, wanted[i].name);
        for (size_t k = 0; k < xt_file_tensor_count(tensor); k++)
            assert_true(((const float *)tensor->data)[k] == wanted[i].value);
    }
    xt_params_free_tensors(&tensors);
    close_fixture(&f);
}

/* Kaiming with fan-out: variance 2 / (out * kh * kw). */
static void weights_have_the_spread_of_kaiming(void **state)
{
    (void)state;
    enum { COUNT = 64 * 50 * 9 };
    struct fixture f = {0};
    ok(&f, xt_device_open(&f.device, "cpu", 1, &f.err));
    add(&f, &(struct xt_param){.name = "conv.weight",
                               .role = XT_PARAM_WEIGHT,
                               .ndims = 4,
                               .dims = {64, 50, 3, 3},
                               .file_dims = {64, 50, 3, 3}});
    ok(&f, xt_params_allocate(&f.params, false, &f.err));
    ok(&f, xt_params_initialise(&f.params, &f.device, 3, 0, &f.err));
    double sum = 0;
    double square = 0;
    for (int i = 0; i < COUNT; i++) {
        double v = (double)f.params.values[i];
        sum += v / COUNT;
        square += v * v / COUNT;
    }
    double wanted = 2.0 / (64 * 9);
    assert_true(sum * sum < 16 * wanted / COUNT);
    assert_true(square > 0.95 * wanted && square < 1.05 * wanted);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_have_the_files_names_shapes_and_order),
        cmocka_unit_test(a_file_goes_in_and_comes_out_the_same),
        cmocka_unit_test(norms_have_their_own_counts),
        cmocka_unit_test(parts_hold_their_rows_and_columns),
        cmocka_unit_test(exporting_a_part_leaves_other_rows_alone),
        cmocka_unit_test(padding_of_blocks_is_zero),
        cmocka_unit_test(weights_may_be_h_w_i_o),
        cmocka_unit_test(forms_are_onednns_formats),
        cmocka_unit_test(tensors_stand_on_cache_lines_and_do_not_overlap),
        cmocka_unit_test(gradients_have_no_statistics),
        cmocka_unit_test(a_file_that_does_not_fit_is_refused_and_changes_nothing),
        cmocka_unit_test(a_partial_file_gives_what_fits),
        cmocka_unit_test(what_is_excepted_is_passed_over),
        cmocka_unit_test(numbers_that_no_training_leaves_behind_are_refused),
        cmocka_unit_test(a_long_list_of_differences_is_cut),
        cmocka_unit_test(untouched_statistics_are_noticed),
        cmocka_unit_test(initialisation_is_a_function_of_seed_and_name),
        cmocka_unit_test(each_role_begins_as_it_should),
        cmocka_unit_test(weights_have_the_spread_of_kaiming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
