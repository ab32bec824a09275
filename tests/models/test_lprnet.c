#include "support.h"

#include <math.h>
#include <stdlib.h>

#include "engine/executor.h"
#include "models/registry.h"
#include "infer/network/param_files.h"

enum { CLASSES = 68, STEPS = 18 };

struct network {
    struct xt_device *device;
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_err err;
};

static void ok(const struct network *net, enum xt_status status)
{
    if (status)
        print_error("%s\n", net->err.text);
    assert_int_equal(status, XT_OK);
}

static void open_network(struct network *net, struct xt_device *device, int batch, bool training)
{
    *net = (struct network){.device = device};
    const struct xt_model_info *model = xt_model_find("lprnet");
    struct xt_graph_options options = {.device = device,
                                       .params = &net->params,
                                       .batch = batch,
                                       .training = training,
                                       .dtype = XT_F32};
    struct xt_model_options model_options = {.classes = CLASSES};
    ok(net, xt_graph_create(&net->graph, &options, &net->err));
    struct xt_tensor *logits = xt_model_describe(model, net->graph, &model_options);
    assert_non_null(logits);
    ok(net, xt_graph_build(net->graph, logits, &net->err));
    ok(net, xt_params_initialise(&net->params, device, 1, model->initial_bias, &net->err));
}

static void close_network(struct network *net)
{
    xt_graph_destroy(net->graph);
    xt_params_clear(&net->params);
}

static int open_device(void **state)
{
    static struct xt_device device;
    struct xt_err err = {0};
    *state = &device;
    return (int)xt_device_open(&device, "cpu", 0, &err);
}

static int close_device(void **state)
{
    xt_device_close(*state);
    return 0;
}

static struct xt_params_tensors tensors_of(struct network *net)
{
    struct xt_params_view view = {net->params.values, net->params.stats};
    struct xt_params_tensors tensors;
    ok(net, xt_params_to_tensors(&net->params, net->device, &view, &tensors, &net->err));
    return tensors;
}

static void load(struct network *net, const struct xt_weight_file *file)
{
    struct xt_params_view view = {net->params.values, net->params.stats};
    ok(net, xt_params_from_file(&net->params, net->device, &view, file, "weights", false, NULL,
                                &net->err));
}

static void it_has_446976_parameters(void **state)
{
    struct network net;
    open_network(&net, *state, 1, true);
    struct xt_params_tensors tensors;
    struct xt_params_view view = {net.params.values, NULL};
    ok(&net, xt_params_to_tensors(&net.params, net.device, &view, &tensors, &net.err));
    size_t count = 0;
    for (int i = 0; i < tensors.count; i++)
        count += xt_file_tensor_count(&tensors.items[i]);
    assert_int_equal(count, 446976);
    xt_params_free_tensors(&tensors);
    close_network(&net);
}

static void its_logits_are_18_steps_of_68_classes(void **state)
{
    struct network net;
    open_network(&net, *state, 2, false);
    const struct xt_tensor *logits = net.graph->logits;
    assert_int_equal(logits->n, 2);
    assert_int_equal(logits->h * logits->w, STEPS);
    assert_int_equal(logits->c, CLASSES);
    assert_int_equal(logits->dtype, XT_F32);
    assert_int_equal(xt_model_find("lprnet")->time_steps, STEPS);
    close_network(&net);
}

/* Names, shapes, order and types of the published file, num_batches_tracked included. */
static void its_tensors_are_those_of_the_published_weights(void **state)
{
    const char *path = support_shared("data/weights/lprnet_sirius.pth");
    struct network net;
    open_network(&net, *state, 1, true);
    struct xt_weight_file file;
    ok(&net, xt_weight_file_read(&file, path, SIZE_MAX, &net.err));
    struct xt_params_tensors tensors = tensors_of(&net);
    assert_int_equal(tensors.count, file.count);
    for (int i = 0; i < tensors.count; i++) {
        const struct xt_file_tensor *mine = &tensors.items[i];
        assert_string_equal(mine->name, file.tensors[i].name);
        assert_int_equal(mine->dtype, file.tensors[i].dtype);
        assert_int_equal(mine->ndims, file.tensors[i].ndims);
        for (int d = 0; d < mine->ndims; d++)
            assert_int_equal(mine->dims[d], file.tensors[i].dims[d]);
    }
    xt_params_free_tensors(&tensors);
    xt_weight_file_clear(&file);
    close_network(&net);
}

static void the_published_weights_come_out_as_they_went_in(void **state)
{
    const char *path = support_shared("data/weights/lprnet_sirius.pth");
    struct network net;
    open_network(&net, *state, 1, true);
    struct xt_weight_file file;
    ok(&net, xt_weight_file_read(&file, path, SIZE_MAX, &net.err));
    load(&net, &file);
    assert_true(net.params.frozen_at_init);
    struct xt_params_tensors tensors = tensors_of(&net);
    for (int i = 0; i < tensors.count; i++) {
        const struct xt_file_tensor *wanted = xt_weight_file_find(&file, tensors.items[i].name);
        assert_int_equal(wanted->bytes, tensors.items[i].bytes);
        if (wanted->dtype == XT_F32)
            assert_memory_equal(wanted->data, tensors.items[i].data, wanted->bytes);
    }
    xt_params_free_tensors(&tensors);
    xt_weight_file_clear(&file);
    close_network(&net);
}

static void run(struct network *net, const float *x)
{
    net->graph->pass = (struct xt_graph_pass){.floats = x, .count = net->graph->options.batch};
    ok(net, xt_graph_forward(net->graph, &net->err));
}

static float *some_images(int count)
{
    size_t floats = (size_t)count * 24 * 94 * 3;
    float *x = malloc(floats * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < floats; i++)
        x[i] = (float)((i * 2654435761u >> 8) % 255) / 128 - 1;
    return x;
}

/* From a training graph through a file into an inference graph, whose formats are others. */
static void written_weights_give_the_same_answers(void **state)
{
    void *folder = NULL;
    assert_int_equal(support_make_folder(&folder), 0);
    const char *path = support_path(folder, "weights.safetensors");
    struct network trained;
    open_network(&trained, *state, 2, true);
    for (size_t i = 0; i < trained.params.stat_floats; i++)
        trained.params.stats[i] += 0.01f * (float)(i % 7);
    struct xt_params_tensors tensors = tensors_of(&trained);
    ok(&trained,
       xt_weight_file_write(path, tensors.items, (size_t)tensors.count, NULL, 0, &trained.err));
    xt_params_free_tensors(&tensors);

    struct network net;
    open_network(&net, *state, 2, false);
    struct xt_weight_file file;
    ok(&net, xt_weight_file_read(&file, path, SIZE_MAX, &net.err));
    load(&net, &file);
    assert_false(net.params.frozen_at_init);
    xt_weight_file_clear(&file);
    float *x = some_images(2);
    run(&trained, x);
    run(&net, x);
    double largest = 0;
    double error = 0;
    for (size_t i = 0; i < xt_tensor_count(net.graph->logits); i++) {
        double wanted = (double)xt_graph_logits(trained.graph)[i];
        largest = fmax(largest, fabs(wanted));
        error = fmax(error, fabs((double)xt_graph_logits(net.graph)[i] - wanted));
    }
    assert_true(largest > 0 && error < 1e-5 * largest);
    free(x);
    close_network(&net);
    close_network(&trained);
    support_remove_folder(&folder);
}

/* The global context is over one plate: the others of the batch do not affect it. */
static void an_answer_does_not_depend_on_the_batch(void **state)
{
    struct network two;
    struct network one;
    open_network(&two, *state, 2, false);
    open_network(&one, *state, 1, false);
    float *x = some_images(2);
    run(&two, x);
    double largest = 0;
    double error = 0;
    for (int n = 0; n < 2; n++) {
        run(&one, x + (size_t)n * 24 * 94 * 3);
        size_t count = xt_tensor_count(one.graph->logits);
        for (size_t i = 0; i < count; i++) {
            double wanted = (double)xt_graph_logits(two.graph)[(size_t)n * count + i];
            largest = fmax(largest, fabs(wanted));
            error = fmax(error, fabs((double)xt_graph_logits(one.graph)[i] - wanted));
        }
    }
    assert_true(largest > 0 && error < 1e-5 * largest);
    free(x);
    close_network(&one);
    close_network(&two);
}

/* Values that are no longer needed share memory: an inference graph takes far less than the sum of
 * its tensors. */
static void inference_needs_a_fraction_of_the_memory(void **state)
{
    struct network net;
    open_network(&net, *state, 4, false);
    size_t all = 0;
    for (int i = 0; i < net.graph->tensor_count; i++)
        all += xt_tensor_bytes(net.graph->tensors[i]);
    assert_true(net.graph->plan.bytes < all / 2);
    close_network(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_446976_parameters),
        cmocka_unit_test(its_logits_are_18_steps_of_68_classes),
        cmocka_unit_test(its_tensors_are_those_of_the_published_weights),
        cmocka_unit_test(the_published_weights_come_out_as_they_went_in),
        cmocka_unit_test(written_weights_give_the_same_answers),
        cmocka_unit_test(an_answer_does_not_depend_on_the_batch),
        cmocka_unit_test(inference_needs_a_fraction_of_the_memory),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
