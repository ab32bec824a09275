/* Winograd's convolutions against reference loops, in every build that has them. */
#include "loop_builds.h"
#include "random_tensor.h"
#include "reference.h"

#include "engine/backend.h"

/* n, h, w, in_c, out_c: tiles that fit and tiles that do not, fewer of them than a chunk has and
 * more, and enough weights that threads divide the channels. */
static const struct shape {
    int n, h, w, in_c, out_c;
} shapes[] = {
    {2, 8, 8, 32, 32},  {1, 1, 1, 32, 64},   {3, 7, 5, 64, 32},   {1, 14, 15, 96, 64},
    {1, 2, 99, 32, 32}, {2, 3, 4, 160, 192}, {1, 4, 4, 352, 128},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* The largest error of a sum of numbers between -1 and 1. */
static double error_most(enum xt_winograd_form form, int terms)
{
    return (form == XT_WINOGRAD_LARGE   ? 6e-6
            : form == XT_WINOGRAD_SMALL ? 1e-6
                                        : 2e-6) *
           sqrt(terms);
}

struct work {
    struct shape shape;
    enum xt_winograd_form form;
    enum xt_dtype dtype;
    size_t taps;
    struct xt_reference_conv reference;
    size_t in_count, out_count, weight_count;
    void *in, *out_grad;
    float *weights; /* as OIhw16i16o */
    double *reference_in, *reference_out_grad, *reference_weights;
};

static float *aligned_floats(size_t count)
{
    return aligned_memory(count * sizeof(float));
}

static void *fill(struct xt_rng *rng, enum xt_dtype dtype, size_t count, double **reference)
{
    void *memory = aligned_memory(count * xt_dtype_size(dtype));
    *reference = random_numbers(rng, dtype, count, memory);
    return memory;
}

/* As float32; frees them. */
static float *widen(void *from, enum xt_dtype dtype, size_t count)
{
    float *to = aligned_floats(count);
    xt_number_to_float(dtype, from, count, to);
    free(from);
    return to;
}

/* Where weight [o][i][tap] lies. */
static size_t block_place(const struct work *work, size_t weight)
{
    size_t blocks = (size_t)work->shape.in_c / 16;
    size_t tap = weight % work->taps;
    size_t i = weight / work->taps % (size_t)work->shape.in_c;
    size_t o = weight / work->taps / (size_t)work->shape.in_c;
    return (((o / 16 * blocks + i / 16) * work->taps + tap) * 16 + i % 16) * 16 + o % 16;
}

/* Whole numbers times `scale`, which bf16 holds exactly, as it does their transforms. */
static void make_whole(double *reference, enum xt_dtype dtype, size_t count, float scale, void *to)
{
    for (size_t i = 0; i < count; i++) {
        float whole = scale * rintf(3 * (float)reference[i]);
        reference[i] = (double)whole;
        xt_number_from_float(dtype, &whole, 1, (char *)to + i * xt_dtype_size(dtype));
    }
}

/* Kernels of an even size have one output more than input. */
static void setup(struct work *work, struct shape s, enum xt_winograd_form form,
                  enum xt_dtype dtype)
{
    struct xt_rng rng = xt_rng_begin(7, (uint64_t)s.in_c);
    int high = xt_winograd_forms[form].taps_h;
    int wide = xt_winograd_forms[form].taps_w;
    *work = (struct work){
        .shape = s,
        .form = form,
        .dtype = dtype,
        .taps = (size_t)high * (size_t)wide,
        .reference = {.in = {s.n, s.h, s.w, s.in_c},
                      .out = {s.n, s.h + (high + 1) % 2, s.w + (wide + 1) % 2, s.out_c},
                      .kernel_h = high,
                      .kernel_w = wide,
                      .stride_h = 1,
                      .stride_w = 1,
                      .pad_h = high / 2,
                      .pad_w = wide / 2}};
    work->in_count = xt_reference_count(&work->reference.in);
    work->out_count = xt_reference_count(&work->reference.out);
    work->weight_count = work->taps * (size_t)s.in_c * (size_t)s.out_c;
    work->in = fill(&rng, dtype, work->in_count, &work->reference_in);
    work->out_grad = fill(&rng, dtype, work->out_count, &work->reference_out_grad);
    float *dense = fill(&rng, XT_F32, work->weight_count, &work->reference_weights);
    if (xt_winograd_is_paired(form, dtype)) {
        make_whole(work->reference_in, dtype, work->in_count, 1, work->in);
        make_whole(work->reference_weights, XT_F32, work->weight_count, 4, dense);
    }
    work->weights = aligned_floats(work->weight_count);
    for (size_t i = 0; i < work->weight_count; i++)
        work->weights[block_place(work, i)] = dense[i];
    free(dense);
}

static void clear(struct work *work)
{
    free(work->in);
    free(work->out_grad);
    free(work->weights);
    free(work->reference_in);
    free(work->reference_out_grad);
    free(work->reference_weights);
}

/* Of the convolution, or of its data gradient; the caller frees it. */
static float *convolve(const struct work *work, const struct xt_loops *loops, bool is_stored,
                       bool backward, int threads)
{
    const struct shape *s = &work->shape;
    float *stored =
        aligned_floats((size_t)xt_winograd_places(work->form) * (size_t)s->in_c * (size_t)s->out_c);
    struct xt_winograd_weights weights = {.form = work->form,
                                          .turned = backward,
                                          .from = work->weights,
                                          .out = s->out_c,
                                          .in = s->in_c,
                                          .paired = xt_winograd_is_paired(work->form, work->dtype),
                                          .to = stored};
    int pads[2] = {work->reference.pad_h, work->reference.pad_w};
    for (int block = 0; block < xt_winograd_blocks(s->in_c, s->out_c); block++)
        loops->winograd_weights(&weights, block);
    size_t count = backward ? work->in_count : work->out_count;
    struct xt_winograd job = {.form = work->form,
                              .dtype = work->dtype,
                              .n = s->n,
                              .h = backward ? work->reference.out.h : s->h,
                              .w = backward ? work->reference.out.w : s->w,
                              .in_c = backward ? s->out_c : s->in_c,
                              .out_c = backward ? s->in_c : s->out_c,
                              .pads = {backward ? work->reference.kernel_h - 1 - pads[0] : pads[0],
                                       backward ? work->reference.kernel_w - 1 - pads[1] : pads[1]},
                              .in = backward ? work->out_grad : work->in,
                              .stored = is_stored,
                              .weights = is_stored ? stored : work->weights,
                              .turned = backward,
                              .out = aligned_memory(count * xt_dtype_size(work->dtype))};
    float *scratch = aligned_floats(xt_winograd_scratch(work->form, job.in_c));
    xt_winograd_plan(&job, threads);
    assert_in_range(job.groups * job.shares, 1, threads);
    for (int part = 0; part < job.groups * job.shares; part++)
        loops->winograd(&job, part, scratch);
    free(scratch);
    free(stored);
    return widen(job.out, work->dtype, count);
}

static void check(const struct work *work, const float *got, size_t count, bool backward)
{
    int terms = (int)work->taps * (backward ? work->shape.out_c : work->shape.in_c);
    double half_step = work->dtype == XT_BF16 ? 1.0 / 256 : 0;
    for (size_t i = 0; i < count; i++) {
        double wanted =
            backward ? xt_reference_conv_input_grad(&work->reference, work->reference_out_grad,
                                                    work->reference_weights, i)
                     : xt_reference_conv_output(&work->reference, work->reference_in,
                                                work->reference_weights, i);
        if (!(fabs((double)got[i] - wanted) <=
              error_most(work->form, terms) + half_step * fabs(wanted)))
            fail_msg("[%zu]: %g, not %g", i, (double)got[i], wanted);
    }
}

/* The builds that have the loops. */
static int find(const struct xt_loops *with[BUILDS_MAX])
{
    const struct xt_loops *all[BUILDS_MAX];
    int count = 0;
    for (int b = builds(all) - 1; b >= 0; b--)
        if (all[b]->winograd)
            with[count++] = all[b];
    if (!count)
        print_message("skipped: no AVX2 here\n");
    return count;
}

static void by_stored_weights_it_is_as_by_plain_loops(void **state)
{
    (void)state;
    const struct xt_loops *loops[BUILDS_MAX];
    int count = find(loops);
    for (int i = 0; i < count * SHAPES; i++)
        for (int form = 0; form < 2 * XT_WINOGRAD_FORMS; form++) {
            bool backward = form % 2;
            struct work work;
            setup(&work, shapes[i % SHAPES], (enum xt_winograd_form)(form / 2), XT_F32);
            float *got = convolve(&work, loops[i / SHAPES], true, backward, 1);
            check(&work, got, backward ? work.in_count : work.out_count, backward);
            free(got);
            clear(&work);
        }
}

static void pairs_in_bf16_are_multiplied_as_by_plain_loops(void **state)
{
    (void)state;
    static const struct shape paired[] = {
        {3, 7, 5, 64, 32}, {1, 14, 15, 128, 96}, {2, 3, 4, 192, 64}};
    const struct xt_loops *loops[BUILDS_MAX];
    int count = find(loops);
    for (int i = 0; i < count * 3; i++) {
        struct work work;
        setup(&work, paired[i % 3], XT_WINOGRAD_SMALL, XT_BF16);
        float *got = convolve(&work, loops[i / 3], true, false, 1);
        check(&work, got, work.out_count, false);
        free(got);
        clear(&work);
    }
}

static void training_transforms_weights_on_the_way(void **state)
{
    (void)state;
    const struct xt_loops *loops[BUILDS_MAX];
    int count = find(loops);
    for (int i = 0; i < count * SHAPES; i++)
        for (int k = 0; k < 4; k++) {
            bool backward = k % 2;
            struct work work;
            setup(&work, shapes[i % SHAPES], XT_WINOGRAD_LARGE, k < 2 ? XT_F32 : XT_BF16);
            float *got = convolve(&work, loops[i / SHAPES], false, backward, 1);
            check(&work, got, backward ? work.in_count : work.out_count, backward);
            free(got);
            clear(&work);
        }
}

static void outputs_do_not_depend_on_threads(void **state)
{
    (void)state;
    const struct xt_loops *loops[BUILDS_MAX];
    int count = find(loops);
    for (int i = 0; i < XT_WINOGRAD_FORMS * count * SHAPES; i++) {
        struct work work;
        const struct xt_loops *some = loops[i / SHAPES / XT_WINOGRAD_FORMS];
        enum xt_winograd_form form = (enum xt_winograd_form)(i / SHAPES % XT_WINOGRAD_FORMS);
        bool is_stored = form != XT_WINOGRAD_LARGE;
        setup(&work, shapes[i % SHAPES], form, XT_F32);
        float *whole = convolve(&work, some, is_stored, false, 1);
        for (int threads = 2; threads <= 8; threads++) {
            float *parts = convolve(&work, some, is_stored, false, threads);
            assert_memory_equal(whole, parts, work.out_count * sizeof *whole);
            free(parts);
        }
        free(whole);
        clear(&work);
    }
}

/* The weights' gradient and behind it the bias's; the caller frees it. In two slices of the same
 * samples, if there is one thread: both gradients are twice as large. */
static float *weight_gradient(const struct work *work, const struct xt_loops *loops, int threads)
{
    const struct shape *s = &work->shape;
    struct xt_winograd_grad job = {.form = work->form,
                                   .dtype = work->dtype,
                                   .n = s->n,
                                   .h = s->h,
                                   .w = s->w,
                                   .in_c = s->in_c,
                                   .out_c = s->out_c,
                                   .pads = {work->reference.pad_h, work->reference.pad_w},
                                   .in = work->in,
                                   .out_grad = work->out_grad};
    size_t bias = (size_t)s->out_c;
    xt_winograd_grad_plan(&job, threads);
    assert_in_range(job.groups * job.shares, 1, threads);
    job.grads = aligned_floats((size_t)job.groups * (work->weight_count + bias));
    job.bias_grads = job.grads + (size_t)job.groups * work->weight_count;
    float *scratch = aligned_floats(xt_winograd_grad_scratch(work->form, s->in_c));
    for (int slice = 0; slice < (threads == 1 ? 2 : 1); slice++) {
        job.adds = slice > 0;
        for (int part = 0; part < job.groups * job.shares; part++)
            loops->winograd_grad(&job, part, scratch);
    }
    for (size_t i = work->weight_count; i < (size_t)job.groups * work->weight_count; i++)
        job.grads[i % work->weight_count] += job.grads[i];
    for (size_t i = bias; i < (size_t)job.groups * bias; i++)
        job.bias_grads[i % bias] += job.bias_grads[i];
    memmove(job.grads + work->weight_count, job.bias_grads, bias * sizeof *job.bias_grads);
    free(scratch);
    return job.grads;
}

static void check_weight_gradient(const struct work *work, const float *got, double times)
{
    double most = error_most(work->form, work->shape.n * work->shape.h * work->shape.w) * times;
    size_t channels = (size_t)work->shape.out_c;
    for (size_t k = 0; k < work->weight_count; k++) {
        double wanted = times * xt_reference_conv_weight_grad(&work->reference, work->reference_in,
                                                              work->reference_out_grad, k);
        double is = (double)got[block_place(work, k)];
        if (!(fabs(is - wanted) <= most))
            fail_msg("weight %zu: %g, not %g", k, is, wanted);
    }
    for (size_t o = 0; o < channels; o++) {
        double wanted = 0;
        for (size_t i = o; i < work->out_count; i += channels)
            wanted += times * work->reference_out_grad[i];
        double is = (double)got[work->weight_count + o];
        if (!(fabs(is - wanted) <= most))
            fail_msg("bias %zu: %g, not %g", o, is, wanted);
    }
}

static void check_weight_gradients(enum xt_winograd_form form, enum xt_dtype dtype)
{
    const struct xt_loops *loops[BUILDS_MAX];
    int count = find(loops);
    for (int i = 0; i < count * SHAPES; i++)
        for (int threads = 1; threads <= 4; threads++) {
            struct work work;
            setup(&work, shapes[i % SHAPES], form, dtype);
            float *got = weight_gradient(&work, loops[i / SHAPES], threads);
            check_weight_gradient(&work, got, threads == 1 ? 2 : 1);
            free(got);
            clear(&work);
        }
}

static void weight_gradients_are_those_of_plain_loops(void **state)
{
    (void)state;
    for (int form = XT_WINOGRAD_LARGE; form < XT_WINOGRAD_FORMS; form++)
        check_weight_gradients((enum xt_winograd_form)form, XT_F32);
    check_weight_gradients(XT_WINOGRAD_LARGE, XT_BF16);
}

/* ---- in a graph ---- */

static const struct xt_conv_spec line_specs[] = {
    {.name = "3x1", .kernel_h = 3, .kernel_w = 1, .pad_h = 1},
    {.name = "1x3", .kernel_h = 1, .kernel_w = 3, .pad_w = 1},
    {.name = "1x4", .kernel_h = 1, .kernel_w = 4},
};
enum { LINES = sizeof line_specs / sizeof line_specs[0] };

/* Whose bias and ReLU are their own, not a norm's. */
static struct xt_tensor *add_lines(struct net *net, struct xt_tensor *x)
{
    for (int i = 0; i < LINES; i++) {
        struct xt_conv_spec spec = line_specs[i];
        spec.channels = i ? 64 : 32;
        spec.bias = spec.relu = true;
        x = net_conv(net, x, spec);
    }
    return x;
}

static struct xt_tensor *describe(struct net *net)
{
    struct xt_conv_spec spec = {
        .name = "conv", .channels = 64, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
    struct xt_tensor *x = net_conv(net, net_stem(net, 20, 21, 64), spec);
    return net_head(net, net_outlet(net, add_lines(net, x), "outlet"));
}

/* Gradients; who made those of "conv" and of the lines, [1 + LINES]. */
static struct xt_params_tensors gradients(const struct xt_backend *backend, const char **by)
{
    struct net net = {.pass = {.training = true}, .backend = backend};
    net_open(&net, XT_F32, true);
    net_build(&net, describe(&net));
    net_forward(&net);
    net_backward(&net);
    for (int i = 0; i < net.graph->op_count; i++)
        for (int k = 0; k <= LINES; k++)
            if (!strcmp(net.graph->ops[i]->name, k ? line_specs[k - 1].name : "conv"))
                by[k] = xt_op_implementation(net.graph->ops[i], true);
    struct xt_params_tensors grads = net_grads(&net);
    net_clear(&net);
    return grads;
}

static void a_graph_learns_by_it_as_by_primitives(void **state)
{
    (void)state;
    const char *own_by[1 + LINES];
    const char *wanted_by[1 + LINES];
    struct xt_params_tensors own = gradients(NULL, own_by);
    struct xt_params_tensors wanted = gradients(&xt_backend_programs, wanted_by);
    double distance = net_distance(&own, &wanted);
    xt_params_free_tensors(&own);
    xt_params_free_tensors(&wanted);
    if (!xt_loops_get()->winograd)
        support_skip("no AVX2 here");
    for (int k = 0; k <= LINES; k++) {
        assert_non_null(strstr(own_by[k], "Winograd"));
        assert_string_not_equal(wanted_by[k], own_by[k]);
    }
    assert_true(distance < 1e-5);
}

static struct xt_tensor *conv_norm(struct net *net, struct xt_tensor *in, const char *name,
                                   const char *norm, struct xt_tensor *residual)
{
    struct xt_conv_spec spec = {
        .name = name, .channels = 64, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
    struct xt_norm_spec norm_spec = {
        .name = norm, .relu = true, .residual = residual, .full = true};
    return net_norm(net, net_conv(net, in, spec), norm_spec).full;
}

/* Who makes the output of the op of that name. */
static const char *maker_of(const struct net *net, const char *name)
{
    for (int i = 0; i < net->graph->op_count; i++)
        if (!strcmp(net->graph->ops[i]->name, name))
            return xt_op_implementation(net->graph->ops[i], false);
    return "no such op";
}

/* With the norms, the residual and ReLU as part of the convolutions. */
static void infer(int h, int w, enum xt_dtype dtype, double tolerance)
{
    struct net net = {.fuse = true};
    net_open(&net, dtype, false);
    struct xt_tensor *x = conv_norm(&net, net_input(&net, h, w), "first", "first.norm", NULL);
    struct xt_tensor *y = conv_norm(&net, x, "a", "a.norm", NULL);
    struct xt_tensor *last = net_outlet(&net, conv_norm(&net, y, "b", "b.norm", x), "outlet");
    net_build(&net, net_head(&net, last));
    net_forward(&net);
    net_loss(&net);
    bool by_winograd = xt_loops_get()->winograd && (dtype == XT_F32 || !xt_device_cpu_has_tiles());
    if (dtype == XT_BF16 && h < 24) /* small tiles */
        by_winograd = by_winograd && xt_loops_get()->multiplies_bf16;
    if (dtype == XT_F32 && h < 14) /* few small tiles, whose weights AVX2 reads fast enough */
        by_winograd = by_winograd && xt_loops_get()->lanes == 8;
    assert_int_equal(!strcmp(maker_of(&net, "b"), "xtrain Winograd"), by_winograd);
    net_check_logits(&net, tolerance);
    net_clear(&net);
}

/* By small tiles, and by large ones where an image has enough: 16 by AVX2, 48 by AVX-512. */
static void inference_is_that_of_plain_loops(void **state)
{
    (void)state;
    infer(7, 7, XT_F32, 1e-5);
    infer(14, 14, XT_F32, 1e-5);
    infer(27, 28, XT_F32, 1e-5);
}

/* In bf16 both sides alone, where the CPU has no matrix tiles. */
static void in_bf16_graphs_compute_as_in_float32(void **state)
{
    (void)state;
    struct net net = {.pass = {.training = true}};
    net_open(&net, XT_BF16, true);
    net_build(&net, describe(&net));
    bool by_winograd = xt_loops_get()->winograd && !xt_device_cpu_has_tiles();
    assert_int_equal(!strcmp(maker_of(&net, "conv"), "xtrain Winograd"), by_winograd);
    assert_string_not_equal(maker_of(&net, line_specs[0].name), "xtrain Winograd");
    net_clear(&net);
    check_net_bf16(describe, (struct xt_graph_pass){.training = true});
    infer(27, 28, XT_BF16, net_bf16_logits);
    infer(14, 14, XT_BF16, net_bf16_logits);
    infer(7, 7, XT_BF16, net_bf16_logits);
}

static void inference_along_one_side_is_that_of_plain_loops(void **state)
{
    (void)state;
    struct net net = {.fuse = true};
    net_open(&net, XT_F32, false);
    struct xt_tensor *x = conv_norm(&net, net_input(&net, 20, 21), "first", "first.norm", NULL);
    net_build(&net, net_head(&net, add_lines(&net, x)));
    net_forward(&net);
    net_loss(&net);
    for (int i = 0; i < LINES && xt_loops_get()->winograd; i++)
        assert_string_equal(maker_of(&net, line_specs[i].name),
                            xt_device_cpu_has_tiles() ? "xtrain AMX" : "xtrain Winograd");
    net_check_logits(&net, 1e-5);
    net_clear(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_stored_weights_it_is_as_by_plain_loops),
        cmocka_unit_test(pairs_in_bf16_are_multiplied_as_by_plain_loops),
        cmocka_unit_test(training_transforms_weights_on_the_way),
        cmocka_unit_test(outputs_do_not_depend_on_threads),
        cmocka_unit_test(weight_gradients_are_those_of_plain_loops),
        cmocka_unit_test(a_graph_learns_by_it_as_by_primitives),
        cmocka_unit_test(inference_is_that_of_plain_loops),
        cmocka_unit_test(in_bf16_graphs_compute_as_in_float32),
        cmocka_unit_test(inference_along_one_side_is_that_of_plain_loops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
