#include "slices.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/rng.h"
#include "engine/backend.h"
#include "engine/loops/loops.h"
#include "infer/network/param_files.h"

/* One pass of a network, by slices or op by op, and its results. */
struct pass {
    const char *model; /* of the registry, unless info is given */
    const struct xt_model_info *info;
    enum xt_dtype dtype;
    int batch, threads;
    int image_size;    /* 0: small */
    uint64_t pictures; /* the random ones' seed */
    const char *learn_from;
    bool by_slices, watched, recompute, bn_frozen;
    bool forgets; /* values that are held for a segment: ops read what is stored */
    int held;     /* such values */
    bool once;    /* instead of two passes one after the other, of which the last is looked at */
    bool mixed;   /* some pieces run whole, some by slices */
    int sums[2], adds; /* norms whose sums come with a convolution; of those that add gradients */
    int masked;        /* ReLUs of convolutions whose gradient their reader makes */
    int joined;        /* norms whose backward pass is the convolution's before them */
    int over;          /* gradients of taps and of dropouts that lie where the value did */
    size_t bytes;
    size_t logits;
    float *values; /* logits, gradients, statistics, one behind the other */
    size_t count;
    int learned, learning; /* ops reported to the communicator; ops that learn */
    const struct xt_graph *graph;
    int workers;            /* that somebody saw, a bit each */
    int normal, normalised; /* the last norm without activation whose output was seen; of all */
};

static void describe(struct network *net, const struct pass *pass)
{
    const struct xt_model_info *model = pass->info ? pass->info : xt_model_find(pass->model);
    struct xt_graph_options options = {.device = &net->device,
                                       .params = &net->params,
                                       .batch = pass->batch,
                                       .training = true,
                                       .dtype = pass->dtype,
                                       .by_slices = pass->by_slices,
                                       .recompute = pass->recompute,
                                       .learn_from = pass->learn_from};
    struct xt_model_options of_model = small_images(model);
    if (pass->image_size)
        of_model.height = of_model.width = pass->image_size;
    ok(net, xt_graph_create(&net->graph, &options, &net->err));
    ok(net, xt_graph_build(net->graph, xt_model_describe(model, net->graph, &of_model), &net->err));
    ok(net, xt_params_initialise(&net->params, &net->device, 1, model->initial_bias, &net->err));
}

static void make_room(struct pass *pass, size_t count)
{
    pass->values = realloc(pass->values, (pass->count + count) * sizeof *pass->values);
    assert_non_null(pass->values);
}

static void keep(struct pass *pass, const float *from, size_t count)
{
    memcpy(pass->values + pass->count, from, count * sizeof *from);
    pass->count += count;
}

static void keep_params(struct pass *pass, struct network *net)
{
    struct xt_params_view view = {net->params.grads, net->params.stats};
    struct xt_params_tensors tensors;
    ok(net, xt_params_to_tensors(&net->params, &net->device, &view, &tensors, &net->err));
    make_room(pass, net->params.value_floats + net->params.stat_floats);
    for (int i = 0; i < tensors.count; i++)
        if (tensors.items[i].dtype == XT_F32)
            keep(pass, tensors.items[i].data, xt_file_tensor_count(&tensors.items[i]));
    xt_params_free_tensors(&tensors);
}

static enum xt_status learned(void *context, const struct xt_op *op, struct xt_err *err)
{
    (void)op;
    (void)err;
    ((struct pass *)context)->learned++;
    return XT_OK;
}

/* The mean square of the first channel. */
static double power(const struct xt_tensor *tensor)
{
    size_t pixels = xt_tensor_count(tensor) / (size_t)tensor->c;
    const uint16_t *values = tensor->value->data;
    double sum = 0;
    for (size_t i = 0; i < pixels; i++) {
        double v = (double)xt_bf16_to_float(values[i * (size_t)tensor->c]);
        sum += v * v;
    }
    return sum / (double)pixels;
}

/* How many values are held for their segment, if the pass does not forget them. */
static int count_held(const struct pass *pass, struct xt_graph *graph)
{
    int held = 0;
    for (int i = 0; i < graph->tensor_count; i++) {
        if (pass->forgets)
            graph->tensors[i]->held = NULL;
        held += graph->tensors[i]->held != NULL;
    }
    return held;
}

/* Counts norms without activation whose output is normalised, as their scales are 1 and their
 * shifts 0; after each of their slices it is called. */
static void saw(void *context, const struct xt_op *op, bool backward)
{
    struct pass *pass = context;
    const struct xt_tensor *full = op->outputs[0];
    pass->workers |= 1 << pass->graph->watch.worker;
    if (backward || op->kind != &xt_kind_norm || pass->dtype != XT_BF16 || !full ||
        ((const struct xt_norm_op *)op)->spec.relu)
        return;
    if (op->index == pass->normal || !(fabs(power(full) - 1) < 0.05))
        return;
    pass->normal = op->index;
    pass->normalised++;
}

static int count_over(const struct xt_op *op)
{
    int over = op->kind == &xt_kind_dropout && op->outputs[0]->value == op->outputs[0]->grad[0];
    for (int i = 0; i < op->input_count && op->kind == &xt_kind_context; i++)
        over += xt_op_in(op, i)->value == xt_op_in_grad(op, i);
    return over;
}

static void look_at_pieces(struct pass *pass, const struct xt_graph *graph)
{
    int by_slices = 0;
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_op *op = graph->ops[i];
        by_slices += graph->slices.workers && op->kind == &xt_kind_conv && op->by_slices[0];
        for (int backward = 0; backward < 2 && op->kind == &xt_kind_conv; backward++)
            pass->sums[backward] += ((const struct xt_conv_op *)op)->sums_for[backward] != NULL;
        pass->adds += op->kind == &xt_kind_conv && ((const struct xt_conv_op *)op)->adds_grad;
        pass->over += count_over(op);
        pass->masked += op->kind == &xt_kind_conv && ((const struct xt_conv_op *)op)->is_masked;
        pass->joined +=
            op->kind == &xt_kind_norm && xt_op_learns(op, graph) && !xt_op_in_grad(op, 0);
        pass->learning += xt_op_learns(op, graph) && op->kind->what[1];
    }
    pass->mixed = by_slices > 0;
    pass->bytes = graph->plan.bytes;
}

static int turns_of(const struct pass *pass)
{
    return pass->once ? 1 : 2;
}

/* The squares that the pass has summed are those of the gradients; loops form some. */
static void check_squares(const struct pass *pass, const struct xt_params *params)
{
    int known = 0;
    for (int i = 0; i < params->count; i++) {
        const float *grad = params->grads + params->items[i].offset;
        double square = params->grad_squares[i];
        double sum = 0;
        if (isnan(square))
            continue;
        for (size_t k = 0; k < params->items[i].floats; k++)
            sum += (double)grad[k] * (double)grad[k];
        assert_true(fabs(square - sum) <= 1e-9 * sum);
        known++;
    }
    assert_true(known > 0 || pass->dtype == XT_BF16 || !xt_loops_get()->lanes);
}

/* Forward and backward on random pictures with a random gradient of the logits. */
static void run(struct pass *pass)
{
    struct network net = {.graph = NULL};
    if (pass->dtype == XT_BF16)
        support_need_bf16();
    ok(&net, xt_device_open(&net.device, "cpu", pass->threads, &net.err));
    describe(&net, pass);
    pass->held = count_held(pass, net.graph);
    struct xt_rng rng = xt_rng_begin(pass->pictures, 0);
    const struct xt_tensor *in = net.graph->ops[0]->outputs[0];
    size_t count = xt_tensor_count(in);
    uint8_t *pixels = malloc(count);
    assert_non_null(pixels);
    for (size_t i = 0; i < count; i++)
        pixels[i] = (uint8_t)(xt_rng_uniform(&rng) * 255);
    net.graph->pass = (struct xt_graph_pass){.pixels = pixels,
                                             .count = pass->batch,
                                             .training = true,
                                             .bn_frozen = pass->bn_frozen,
                                             .dropout = 0.5,
                                             .seed = 3};
    struct xt_graph_communicator communicator = {
        .context = pass, .samples = pass->batch, .learned = learned};
    net.graph->communicator = &communicator;
    pass->graph = net.graph;
    if (pass->watched)
        net.graph->watch = (struct xt_graph_watch){.ran = saw, .context = pass};
    for (int turn = 0; turn < turns_of(pass); turn++) {
        free(pass->values);
        pass->values = NULL;
        pass->count = 0;
        ok(&net, xt_graph_forward(net.graph, &net.err));
        pass->logits = xt_tensor_count(net.graph->logits);
        make_room(pass, pass->logits);
        keep(pass, xt_graph_logits(net.graph), pass->logits);
        rng = xt_rng_begin(8, 0);
        for (size_t i = 0; i < pass->logits; i++)
            xt_graph_logits_grad(net.graph)[i] = xt_rng_uniform(&rng) - 0.5f;
        memset(net.params.grads, 0, net.params.value_floats * sizeof(float));
        ok(&net, xt_graph_backward(net.graph, &net.err));
        check_squares(pass, &net.params);
        keep_params(pass, &net);
    }
    look_at_pieces(pass, net.graph);
    free(pixels);
    close_network(&net);
}

/* Op by op, and by slices. */
static void run_both_ways(struct pass pass, struct pass *whole, struct pass *slices)
{
    *whole = *slices = pass;
    slices->by_slices = true;
    run(whole);
    run(slices);
    assert_int_equal(whole->count, slices->count);
    assert_true(slices->mixed && !whole->mixed);
    assert_int_equal(slices->learned, turns_of(&pass) * slices->learning);
}

/* Of the logits; of the gradients and statistics. */
static void distances(const struct pass *one, const struct pass *other, double apart[2])
{
    size_t logits = one->logits;
    assert_int_equal(one->count, other->count);
    apart[0] = distance(one->values, other->values, logits);
    apart[1] = distance(one->values + logits, other->values + logits, one->count - logits);
}

/* On some pictures of PICTURES: where a ReLU's or a pool's decision hangs on the last bit of a
 * statistic, the gradient moves by 1e-3, and on half of the pictures of LPRNet one does. Returns
 * the one by slices, without its values. */
static struct pass both_ways_agree(struct pass pass, double most)
{
    enum { PICTURES = 8 };
    struct pass whole;
    struct pass slices;
    double apart[2];
    for (pass.pictures = 0; pass.pictures < PICTURES; pass.pictures++) {
        run_both_ways(pass, &whole, &slices);
        distances(&whole, &slices, apart);
        if (apart[0] <= most && apart[1] <= most)
            break;
        free(whole.values);
        free(slices.values);
    }
    if (pass.pictures == PICTURES)
        fail_msg("logits are %g apart, gradients and statistics %g", apart[0], apart[1]);
    free(whole.values);
    free(slices.values);
    slices.values = NULL;
    return slices;
}

/* A rounding of bf16 that falls the other way, of which statistics that differ in their last bit
 * make a few, moves all that follows: so both ways are compared with float32. Returns as above. */
static struct pass both_are_as_near_to_float32(struct pass pass)
{
    struct pass exact = pass;
    struct pass whole;
    struct pass slices;
    double of_whole[2];
    double of_slices[2];
    support_need_bf16();
    exact.dtype = XT_F32;
    run(&exact);
    run_both_ways(pass, &whole, &slices);
    distances(&whole, &exact, of_whole);
    distances(&slices, &exact, of_slices);
    for (int i = 0; i < 2; i++)
        if (!(of_slices[i] <= 1.15 * of_whole[i]))
            fail_msg("%s are %g from float32 by slices, %g op by op",
                     i ? "gradients and statistics" : "logits", of_slices[i], of_whole[i]);
    free(exact.values);
    free(whole.values);
    free(slices.values);
    slices.values = NULL;
    return slices;
}

static void lprnet_in_float32(void **state)
{
    enum { TAPS = 6 };
    (void)state;
    struct pass slices = both_ways_agree(
        (struct pass){.model = "lprnet", .dtype = XT_F32, .batch = 8, .threads = 2}, 1e-4);
    assert_true(slices.over >= TAPS);
    both_ways_agree((struct pass){.model = "lprnet", .dtype = XT_F32, .batch = 5, .threads = 1},
                    1e-4);
}

static void lprnet_in_bf16(void **state)
{
    enum { TAPS = 6, DROPOUTS = 2, RELUS = 9, JOINED = 6 };
    (void)state;
    struct pass slices = both_are_as_near_to_float32(
        (struct pass){.model = "lprnet", .dtype = XT_BF16, .batch = 12, .threads = 3});
    bool by_tiles = xt_loops_get()->tile_conv && xt_device_cpu_has_tiles();
    assert_int_equal(slices.masked, by_tiles ? RELUS : 0);
    assert_true(!by_tiles || slices.over == TAPS + DROPOUTS);
    assert_int_equal(slices.joined, by_tiles ? JOINED : 0);
    both_are_as_near_to_float32(
        (struct pass){.model = "lprnet", .dtype = XT_BF16, .batch = 3, .threads = 1});
}

static void resnet50(void **state)
{
    (void)state;
    /* Slices run oneDNN's 1x1 convolutions and whole passes own ones, which round differently: the
     * logits are 8e-6 apart, by AVX2 2e-5, and a ReLU that flips amplifies it. */
    both_ways_agree((struct pass){.model = "resnet50", .dtype = XT_F32, .batch = 4, .threads = 2},
                    0.02);
}

/* Norms' sums that come with 1x1 convolutions, also of parts that end within a sample. Statistics
 * that are rounded the other way move a few ReLUs; from running ones the gradients are the same. */
static void resnet50_sums_with_convolutions(void **state)
{
    const struct pass plain = {
        .model = "resnet50", .dtype = XT_F32, .batch = 17, .threads = 2, .once = true};
    struct pass passes[] = {plain, plain, plain, plain};
    struct pass slices[4];
    (void)state;
    passes[1].recompute = true;
    passes[2].bn_frozen = true;
    passes[3].learn_from = "layer3.1";
    for (int i = 0; i < 4; i++)
        slices[i] = both_ways_agree(passes[i], passes[i].bn_frozen ? 3e-6 : 0.02);
    assert_true(slices[0].sums[0] > 0 && slices[0].sums[1] > slices[0].adds && slices[0].adds > 0);
}

/* In bf16 by matrix tiles: as it is, with --recompute, from running statistics, and of a part that
 * learns. */
static void near_to_float32_by_tiles(const char *model, const char *learn_from,
                                     struct pass slices[4])
{
    const struct pass plain = {
        .model = model, .dtype = XT_BF16, .batch = 17, .threads = 2, .once = true};
    struct pass passes[] = {plain, plain, plain, plain};
    if (!xt_loops_get()->tile_conv || !xt_device_cpu_has_tiles())
        support_skip("this CPU has no tiles");
    passes[1].recompute = true;
    passes[2].bn_frozen = true;
    passes[3].learn_from = learn_from;
    for (int i = 0; i < 4; i++)
        slices[i] = both_are_as_near_to_float32(passes[i]);
}

/* Of all convolutions, within slices and whole. A gradient of two readers is rounded once less, as
 * is a residual that is normalised. */
static void resnet18_sums_with_convolutions_by_tiles(void **state)
{
    struct pass slices[4];
    (void)state;
    near_to_float32_by_tiles("resnet18", "layer3.1", slices);
    assert_true(slices[0].sums[0] > 0 && slices[0].sums[1] > slices[0].adds && slices[0].adds > 0);
}

/* The convolutions to four times 64 channels have their norms' gradients by products of 64, also
 * that of a residual; from running statistics there is less to add. */
static void resnet50_joins_norms_to_convolutions(void **state)
{
    enum { BLOCKS = 3, DOWNSAMPLED = 1 };
    struct pass slices[4];
    (void)state;
    near_to_float32_by_tiles("resnet50", "layer1.2", slices);
    assert_int_equal(slices[0].joined, BLOCKS + DOWNSAMPLED);
    assert_int_equal(slices[3].joined, 1);
}

static struct xt_value *conv_and_norm(struct xt_net *net, struct xt_value *in, const char *names[2],
                                      int channels, int kernel)
{
    int pad = kernel / 2;
    const struct xt_net_conv conv = {.name = names[0],
                                     .channels = channels,
                                     .kernel = {kernel, kernel},
                                     .pad = {pad, pad, pad, pad}};
    struct xt_value *x = xt_net_conv(net, in, &conv);
    return xt_net_batch_norm(net, x, &(struct xt_net_norm){.name = names[1]});
}

/* The first reader of what the shortcut reads is the last one backward, and adds to its gradient.
 */
static struct xt_value *describe_wide(struct xt_net *net, const struct xt_model_info *model,
                                      const struct xt_model_options *options)
{
    (void)model;
    struct xt_value *in = xt_net_input(net, options->height, options->width, 3);
    in = xt_net_relu(net, conv_and_norm(net, in, (const char *[]){"conv0", "bn0"}, 64, 3));
    struct xt_value *x = conv_and_norm(net, in, (const char *[]){"wide", "wide_bn"}, 256, 1);
    x = conv_and_norm(net, xt_net_relu(net, x), (const char *[]){"narrow", "narrow_bn"}, 64, 1);
    x = conv_and_norm(net, xt_net_relu(net, x), (const char *[]){"conv1", "bn1"}, 64, 3);
    struct xt_value *shortcut =
        conv_and_norm(net, in, (const char *[]){"shortcut", "shortcut_bn"}, 64, 3);
    x = xt_net_relu(net, xt_net_add(net, x, shortcut, NULL));
    x = xt_net_flatten(net, xt_net_global_avg_pool(net, x, "pool"), NULL);
    return xt_net_linear(net, x,
                         &(struct xt_net_linear){.name = "fc", .channels = options->classes});
}

static struct pass near_to_float32_in_bf16(const struct xt_model_info *info)
{
    if (!xt_loops_get()->tile_conv || !xt_device_cpu_has_tiles())
        support_skip("this CPU has no tiles");
    return both_are_as_near_to_float32(
        (struct pass){.info = info, .dtype = XT_BF16, .batch = 8, .threads = 2});
}

/* The first convolution is joined to its norm too. */
static void a_joined_convolution_adds_to_another_readers_gradient(void **state)
{
    const struct xt_model_info info = {
        .name = "wide", .height = 40, .width = 24, .describe = describe_wide};
    (void)state;
    struct pass slices = near_to_float32_in_bf16(&info);
    assert_int_equal(slices.joined, 2);
    assert_int_equal(slices.adds, 1);
}

/* Their patches of the image differ, and are as many numbers. A pool alone reads one of them. */
static struct xt_value *describe_two_first(struct xt_net *net, const struct xt_model_info *model,
                                           const struct xt_model_options *options)
{
    const struct xt_net_pool pool = {
        .name = "max", .kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
    (void)model;
    struct xt_value *in = xt_net_input(net, options->height, options->width, 3);
    struct xt_value *x = conv_and_norm(net, in, (const char *[]){"three", "three_bn"}, 64, 3);
    struct xt_value *y =
        xt_net_conv(net, in,
                    &(struct xt_net_conv){
                        .name = "five", .channels = 64, .kernel = {1, 5}, .pad = {0, 2, 0, 2}});
    y = xt_net_batch_norm(net, y, &(struct xt_net_norm){.name = "five_bn"});
    x = conv_and_norm(net, xt_net_relu(net, x), (const char *[]){"conv0", "bn0"}, 64, 3);
    x = xt_net_max_pool(net, xt_net_relu(net, x), &pool);
    y = xt_net_max_pool(net, xt_net_relu(net, y), &pool);
    y = conv_and_norm(net, y, (const char *[]){"conv1", "bn1"}, 64, 3);
    x = xt_net_relu(net, xt_net_add(net, x, y, NULL));
    x = xt_net_flatten(net, xt_net_global_avg_pool(net, x, "pool"), NULL);
    return xt_net_linear(net, x,
                         &(struct xt_net_linear){.name = "fc", .channels = options->classes});
}

static void two_first_convolutions_have_sums_of_their_own(void **state)
{
    const struct xt_model_info info = {
        .name = "two", .height = 40, .width = 24, .describe = describe_two_first};
    (void)state;
    struct pass slices = near_to_float32_in_bf16(&info);
    assert_int_equal(slices.joined, 2);
}

/* A norm that the sum behind it applies writes its output all the same where somebody looks. */
static void what_somebody_looks_at_is_written(void **state)
{
    enum { DOWNSAMPLED = 3 };
    (void)state;
    struct pass pass = {.model = "resnet18",
                        .dtype = XT_BF16,
                        .batch = 8,
                        .threads = 2,
                        .by_slices = true,
                        .watched = true,
                        .once = true};
    run(&pass);
    assert_int_equal(pass.normalised, DOWNSAMPLED);
    assert_int_equal(pass.workers, 3);
    free(pass.values);
}

static void a_part_that_learns(void **state)
{
    (void)state;
    both_ways_agree((struct pass){.model = "lprnet",
                                  .dtype = XT_F32,
                                  .batch = 4,
                                  .threads = 2,
                                  .learn_from = "backbone.8"},
                    1e-4);
}

/* The same bits each time, and where a worker follows the other because somebody watches. */
static void it_is_the_same_every_time(void **state)
{
    (void)state;
    struct pass passes[3];
    for (int i = 0; i < 3; i++) {
        passes[i] = (struct pass){.model = "lprnet",
                                  .dtype = xt_device_cpu_has_bf16() ? XT_BF16 : XT_F32,
                                  .batch = 16,
                                  .threads = 2,
                                  .by_slices = true,
                                  .watched = i == 2};
        run(&passes[i]);
        assert_memory_equal(passes[0].values, passes[i].values,
                            passes[0].count * sizeof *passes[0].values);
    }
    for (int i = 0; i < 3; i++)
        free(passes[i].values);
}

/* What is written past the caches, and held for the slice that reads it, is the same. */
static void what_is_held_is_the_value(void **state)
{
    const enum xt_dtype types[] = {XT_F32, XT_BF16};
    (void)state;
    if (!xt_loops_get()->tile_conv || !xt_device_cpu_has_tiles())
        support_skip("this CPU has no tiles");
    for (int i = 0; i < 2; i++) {
        struct pass holds = {.model = "lprnet",
                             .dtype = types[i],
                             .batch = types[i] == XT_F32 ? 48 : 96,
                             .threads = 2,
                             .by_slices = true,
                             .once = true};
        struct pass forgets = holds;
        forgets.forgets = true;
        run(&holds);
        run(&forgets);
        assert_true(holds.held > 2 && !forgets.held);
        assert_memory_equal(holds.values, forgets.values, holds.count * sizeof *holds.values);
        free(holds.values);
        free(forgets.values);
    }
}

/* With --recompute each op is a segment of its own, of as many samples: fewer than it could take
 * where others of the segment cannot. */
static void recomputed_outputs_have_the_same_bits(void **state)
{
    const char *models[] = {"lprnet", "resnet50"};
    const int image_sizes[] = {0, 160};
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct pass stored = {.model = models[i],
                              .dtype = XT_BF16,
                              .image_size = image_sizes[i],
                              .batch = 16,
                              .threads = 2,
                              .by_slices = true,
                              .once = true};
        struct pass recomputed = stored;
        recomputed.recompute = true;
        run(&stored);
        run(&recomputed);
        assert_memory_equal(stored.values, recomputed.values, stored.count * sizeof *stored.values);
        free(stored.values);
        free(recomputed.values);
    }
}

/* Gradients that exist only for a slice take less memory than those of all samples. Of the weights
 * of 1x1 convolutions only primitives, which run them by slices, need copies. */
static void it_takes_no_more_memory(void **state)
{
    enum { WEIGHT_COPIES = 3 << 19 };
    (void)state;
    struct pass whole = {
        .model = "lprnet", .dtype = XT_F32, .batch = 32, .threads = 2, .once = true};
    struct pass slices = whole;
    slices.by_slices = true;
    run(&whole);
    run(&slices);
    if (slices.bytes > whole.bytes + WEIGHT_COPIES)
        fail_msg("%zu bytes by slices, %zu whole", slices.bytes, whole.bytes);
    free(whole.values);
    free(slices.values);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lprnet_in_float32),
        cmocka_unit_test(lprnet_in_bf16),
        cmocka_unit_test(resnet50),
        cmocka_unit_test(resnet50_sums_with_convolutions),
        cmocka_unit_test(resnet18_sums_with_convolutions_by_tiles),
        cmocka_unit_test(resnet50_joins_norms_to_convolutions),
        cmocka_unit_test(a_joined_convolution_adds_to_another_readers_gradient),
        cmocka_unit_test(two_first_convolutions_have_sums_of_their_own),
        cmocka_unit_test(what_somebody_looks_at_is_written),
        cmocka_unit_test(a_part_that_learns),
        cmocka_unit_test(it_is_the_same_every_time),
        cmocka_unit_test(what_is_held_is_the_value),
        cmocka_unit_test(recomputed_outputs_have_the_same_bits),
        cmocka_unit_test(it_takes_no_more_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
