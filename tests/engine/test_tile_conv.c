#include "loop_builds.h"
#include "norm_sums.h"
#include "random_tensor.h"

#include <math.h>

#include "device/device.h"

/* A convolution by tiles with random tensors; without tiles there is nothing to test. */
struct work {
    struct xt_tile_conv job;
    size_t inputs, outputs, output_bytes;
    void *in_memory, *out, *added; /* added: what the output's memory held */
    uint16_t *weights_memory;
    float *scale, *bias, *scratch;
    double *in, *weights; /* [taps][in_c][out_c] */
};

static const struct xt_loops *tiles(void)
{
    static bool loaded;
    if (!loaded)
        assert_int_equal(xt_dnnl_load(XT_DNNL_CPU, &(struct xt_err){0}), XT_OK);
    loaded = true;
    const struct xt_loops *loops = xt_loops_get();
    if (!loops->tile_conv || !xt_device_cpu_has_tiles())
        skip();
    return loops;
}

static enum xt_dtype dtype_of(const struct xt_tile_conv *job)
{
    return job->f32 ? XT_F32 : XT_BF16;
}

static double number_at(const struct xt_tile_conv *job, const void *tensor, size_t at)
{
    return job->f32 ? (double)((const float *)tensor)[at]
                    : (double)xt_bf16_to_float(((const uint16_t *)tensor)[at]);
}

static void *address_of(const struct xt_tile_conv *job, void *tensor, size_t at)
{
    return (char *)tensor + at * xt_tile_conv_element(job);
}

/* Where weight [tap][i][o] lies, its first summand, in numbers of 16 bits; the next ones are a
 * panel apart. */
static size_t panel_of(const struct xt_tile_conv *job)
{
    return xt_tile_conv_weights(job) * XT_TILE_CONV_WIDE;
}

static size_t place(const struct xt_tile_conv *job, int tap, int i, int o)
{
    size_t panel = panel_of(job) * (size_t)xt_summands_of(job->f32);
    size_t line = (size_t)((i / 32 * job->weight_taps + tap) * 16 + i % 32 / 2);
    return (size_t)(o / 16) * panel + line * 32 + (size_t)(o % 16 * 2 + i % 2);
}

static void place_weight(const struct xt_tile_conv *job, double weight, uint16_t *to)
{
    for (int i = 0; i < xt_summands_of(job->f32); i++, to += panel_of(job)) {
        *to = (uint16_t)(xt_bf16_round((float)weight) >> 16);
        weight -= (double)xt_bf16_to_float(*to);
    }
}

static void make_weights(struct work *work, struct xt_rng *rng)
{
    const struct xt_tile_conv *job = &work->job;
    size_t count = (size_t)(job->weight_taps * job->in_c * job->out_c);
    void *plain = aligned_memory(count * sizeof(float));
    size_t panels = (size_t)(job->out_c + XT_TILE_CONV_WIDE - 1) / XT_TILE_CONV_WIDE;
    size_t bytes = panels * panel_of(job) * (size_t)xt_summands_of(job->f32) * sizeof(uint16_t);
    work->weights_memory = aligned_memory(bytes);
    memset(work->weights_memory, 0, bytes);
    work->weights = random_numbers(rng, dtype_of(job), count, plain);
    for (int tap = 0; tap < job->weight_taps; tap++)
        for (int i = 0; i < job->in_c; i++)
            for (int o = 0; o < job->out_c; o++)
                place_weight(job, work->weights[(tap * job->in_c + i) * job->out_c + o],
                             work->weights_memory + place(job, tap, i, o));
    free(plain);
}

/* What the job adds to, else NaN. */
static void fill_output(struct work *work)
{
    memcpy(work->out, work->added, work->output_bytes);
}

static void setup(struct work *work, const struct xt_tile_conv *shape)
{
    struct xt_rng rng = xt_rng_begin(7, 0);
    *work = (struct work){.job = *shape};
    struct xt_tile_conv *job = &work->job;
    xt_tile_conv_plan(job, 1);
    work->inputs = (size_t)(job->n * job->in_h * job->in_w * job->in_c);
    work->outputs = (size_t)(job->n * job->out_h * job->out_w * job->out_c);
    work->output_bytes = work->outputs * xt_tile_conv_element(job);
    work->in_memory = aligned_memory(work->inputs * xt_tile_conv_element(job));
    work->out = aligned_memory(work->output_bytes);
    work->added = aligned_memory(work->output_bytes);
    memset(work->added, UINT8_MAX, work->output_bytes);
    if (job->adds)
        free(random_numbers(&rng, dtype_of(job), work->outputs, work->added));
    work->bias = aligned_memory((size_t)job->out_c * sizeof(float));
    work->scratch = aligned_memory(xt_tile_conv_scratch(job) * sizeof(float));
    work->in = random_numbers(&rng, dtype_of(job), work->inputs, work->in_memory);
    free(random_numbers(&rng, XT_F32, (size_t)job->out_c, work->bias));
    work->scale = aligned_memory((size_t)job->out_c * sizeof(float));
    free(random_numbers(&rng, XT_F32, (size_t)job->out_c, work->scale));
    make_weights(work, &rng);
    job->in = work->in_memory;
    job->weights = (const uint32_t *)(const void *)work->weights_memory;
    job->out = work->out;
    if (job->relu)
        job->bias = work->bias;
    if (job->adds)
        job->scale = work->scale;
    fill_output(work);
}

static void clear(struct work *work)
{
    free(work->in_memory);
    free(work->weights_memory);
    free(work->out);
    free(work->added);
    free(work->bias);
    free(work->scale);
    free(work->scratch);
    free(work->in);
    free(work->weights);
}

static double input(const struct work *work, int n, int y, int x, int i)
{
    const struct xt_tile_conv *job = &work->job;
    bool inside = y >= 0 && y < job->in_h && x >= 0 && x < job->in_w;
    return inside ? work->in[((n * job->in_h + y) * job->in_w + x) * job->in_c + i] : 0;
}

/* Of the destination's element; the grid's place, or none. */
static size_t element(const struct xt_tile_conv *job, int n, int row, int column, int o)
{
    int y = row * job->out_step_h + job->out_y;
    int x = column * job->out_step_w + job->out_x;
    return (size_t)(((n * job->out_h + y) * job->out_w + x) * job->out_c + o);
}

/* [out_c], all at once, since weights are read fastest in their order. */
static void make_wanted(const struct work *work, int n, int row, int column, double *sums)
{
    const struct xt_tile_conv *job = &work->job;
    for (int o = 0; o < job->out_c; o++)
        sums[o] = 0;
    for (int t = 0; t < job->tap_count; t++) {
        const struct xt_tile_conv_tap *tap = &job->taps[t];
        for (int i = 0; i < job->in_c; i++) {
            double by =
                input(work, n, row * job->step_h + tap->y, column * job->step_w + tap->x, i);
            const double *weights = work->weights + (tap->weights * job->in_c + i) * job->out_c;
            for (int o = 0; o < job->out_c; o++)
                sums[o] += by * weights[o];
        }
    }
    for (int o = 0; o < job->out_c; o++) {
        sums[o] *= job->scale ? (double)job->scale[o] : 1;
        sums[o] += job->bias ? (double)job->bias[o] : 0;
        if (job->adds)
            sums[o] += number_at(job, work->added, element(job, n, row, column, o));
        sums[o] = job->relu && sums[o] < 0 ? 0 : sums[o];
    }
}

/* Products are of numbers below 1; without one of a pair's six the error is larger. */
static double error_most(const struct xt_tile_conv *job, double right)
{
    double products = job->in_c * job->tap_count;
    return job->f32 ? (fabs(right) + products) * 0x1p-24 : fabs(right) / 256 + 1e-5 * products;
}

/* What the grid does not have stays as it was. */
static void check(struct work *work)
{
    const struct xt_tile_conv *job = &work->job;
    static double wanted[1024];
    for (int n = 0; n < job->n; n++)
        for (int row = 0; row < job->rows; row++)
            for (int column = 0; column < job->columns; column++) {
                make_wanted(work, n, row, column, wanted);
                for (int o = 0; o < job->out_c; o++) {
                    size_t at = element(job, n, row, column, o);
                    double right = wanted[o];
                    double got = number_at(job, work->out, at);
                    double most = error_most(job, right);
                    if (!(fabs(got - right) <= most))
                        fail_msg("%d, %d, %d, channel %d is %g, not %g", n, row, column, o, got,
                                 right);
                    memcpy(address_of(job, work->out, at), address_of(job, work->added, at),
                           xt_tile_conv_element(job));
                }
            }
    assert_memory_equal(work->out, work->added, work->output_bytes);
}

/* ---- shapes ---- */

static struct xt_tile_conv forward(int in_c, int out_c, int h, int w, const int kernel[2],
                                   int stride)
{
    int pads[] = {kernel[0] / 2, kernel[1] / 2};
    struct xt_tile_conv job = {.n = 3, .in_h = h, .in_w = w, .in_c = in_c, .out_c = out_c};
    job.out_h = job.rows = (h + 2 * pads[0] - kernel[0]) / stride + 1;
    job.out_w = job.columns = (w + 2 * pads[1] - kernel[1]) / stride + 1;
    job.step_h = job.step_w = stride;
    job.out_step_h = job.out_step_w = 1;
    job.weight_taps = job.tap_count = kernel[0] * kernel[1];
    for (int i = 0; i < job.tap_count; i++)
        job.taps[i] =
            (struct xt_tile_conv_tap){i / kernel[1] - pads[0], i % kernel[1] - pads[1], i};
    return job;
}

enum { SHAPES = 11, TYPES = 2 };

/* In bf16, and the same in float32. */
static struct xt_tile_conv shape_of(int of_type)
{
    int number = of_type % SHAPES;
    static const struct {
        int in_c, out_c, h, w, kernel[2], stride;
    } shapes[SHAPES] = {
        {64, 96, 7, 7, {1, 1}, 1},  {32, 32, 9, 13, {3, 3}, 1},   {32, 64, 13, 9, {3, 3}, 2},
        {96, 32, 8, 8, {1, 1}, 2},  {32, 32, 1, 1, {1, 1}, 1},    {32, 160, 17, 5, {5, 1}, 1},
        {64, 32, 4, 94, {7, 7}, 2}, {512, 1024, 5, 3, {1, 1}, 1}, {256, 256, 24, 22, {3, 3}, 1},
        {40, 68, 6, 5, {5, 1}, 1},  {68, 84, 5, 7, {1, 1}, 1}};
    struct xt_tile_conv job =
        forward(shapes[number].in_c, shapes[number].out_c, shapes[number].h, shapes[number].w,
                shapes[number].kernel, shapes[number].stride);
    job.f32 = of_type >= SHAPES;
    return job;
}

/* Divided among parts it is the same, bit for bit. */
static void check_parts(struct work *work, const struct xt_loops *loops)
{
    enum { PARTS = 5 };
    const struct xt_tile_conv *job = &work->job;
    void *whole = work->out;
    int pixels = 0;
    int from = 0;
    work->out = aligned_memory(work->output_bytes);
    work->job.out = work->out;
    fill_output(work);
    for (int part = 0; part < PARTS; part++) {
        int first = 0;
        int end = xt_tile_conv_part(job, part, PARTS, &first);
        assert_int_equal(first, from);
        loops->tile_conv(job, first, end, work->scratch);
        pixels += xt_tile_conv_pixels(job, first, end);
        from = end;
    }
    assert_int_equal(pixels, job->n * job->rows * job->columns);
    assert_memory_equal(whole, work->out, work->output_bytes);
    free(whole);
}

/* Whether blocks of tiles are full of channels; else neither are there shares nor norms' sums. */
static bool is_even(const struct xt_tile_conv *job)
{
    return job->out_c % XT_TILE_CONV_CHANNELS == 0;
}

/* So are shares of the channels, each of which is a job. */
static void check_shares(struct work *work, const struct xt_loops *loops)
{
    enum { SHARE = 2 * XT_TILE_CONV_WIDE };
    struct xt_tile_conv some = work->job;
    if (!is_even(&some))
        return;
    void *whole = work->out;
    work->out = aligned_memory(work->output_bytes);
    work->job.out = work->out;
    fill_output(work);
    some.out_c = SHARE;
    for (int o = 0; o < work->job.out_c; o += SHARE) {
        some.out = address_of(&some, work->out, (size_t)o);
        some.bias = work->job.bias ? work->job.bias + o : NULL;
        some.scale = work->job.scale ? work->job.scale + o : NULL;
        some.weights =
            (const uint32_t *)(const void *)(work->weights_memory + place(&work->job, 0, 0, o));
        loops->tile_conv(&some, 0, some.units, work->scratch);
    }
    assert_memory_equal(whole, work->out, work->output_bytes);
    free(whole);
}

static void it_is_what_plain_loops_make_of_it(void **state)
{
    const struct xt_loops *loops = tiles();
    (void)state;
    for (int i = 0; i < SHAPES * TYPES; i++)
        for (int variant = 0; variant < 3; variant++) {
            struct work work;
            struct xt_tile_conv shape = shape_of(i);
            shape.relu = shape.far = variant > 0;
            shape.adds = variant > 1;
            setup(&work, &shape);
            loops->tile_conv(&work.job, 0, work.job.units, work.scratch);
            check_parts(&work, loops);
            check_shares(&work, loops);
            check(&work);
            clear(&work);
        }
}

/* Three rows each: of two each one part would have four. */
static void a_sample_is_divided_among_parts(void **state)
{
    struct xt_tile_conv job = forward(32, 32, 9, 13, (int[]){3, 3}, 1);
    (void)state;
    job.n = 1;
    xt_tile_conv_plan(&job, 1);
    assert_int_equal(job.units, 1);
    xt_tile_conv_plan(&job, 4);
    assert_int_equal(job.units, 3);
    assert_int_equal(job.unit_rows, 3);
}

/* Once more, with the gradient of a ReLU before it: of the phase's pixels alone. */
static void check_masked_phase(const struct xt_loops *loops, struct work *work)
{
    struct xt_tile_conv *job = &work->job;
    struct xt_rng rng = xt_rng_begin(9, 0);
    size_t size = xt_tile_conv_element(job);
    void *y = aligned_memory(work->output_bytes);
    void *plain = aligned_memory(work->output_bytes);
    free(random_numbers(&rng, dtype_of(job), work->outputs, y));
    loops->tile_conv(job, 0, job->units, work->scratch);
    memcpy(plain, work->out, work->output_bytes);
    job->norm = (struct xt_norm_sums){.y = y};
    loops->tile_conv(job, 0, job->units, work->scratch);
    for (size_t at = 0; at < work->outputs; at++) {
        size_t pixel = at / (size_t)job->out_c;
        size_t x = pixel % (size_t)job->out_w;
        size_t line = pixel / (size_t)job->out_w % (size_t)job->out_h;
        bool masked = line % 2 == 0 && x % 2 == 1 && !(number_at(job, y, at) > 0);
        /* What others write is NaN here. */
        if (masked)
            assert_true(number_at(job, work->out, at) == 0);
        else
            assert_memory_equal((char *)work->out + at * size, (char *)plain + at * size, size);
    }
    free(y);
    free(plain);
}

/* Phase (0, 1) of the input's gradient of a 3x3 with strides of 2, between which others write; and
 * one that no tap reaches. */
static void a_phase_writes_its_own_pixels(void **state)
{
    const struct xt_loops *loops = tiles();
    (void)state;
    for (int i = 0; i < 2 * TYPES; i++) {
        int taps = i % 2 * 2;
        struct work work;
        struct xt_tile_conv shape = {.f32 = i >= 2,
                                     .n = 2,
                                     .in_h = 5,
                                     .in_w = 7,
                                     .in_c = 64,
                                     .out_h = 10,
                                     .out_w = 13,
                                     .out_c = 32,
                                     .rows = 5,
                                     .columns = 6,
                                     .step_h = 1,
                                     .step_w = 1,
                                     .out_x = 1,
                                     .out_step_h = 2,
                                     .out_step_w = 2,
                                     .tap_count = taps,
                                     .taps = {{.x = 1, .weights = 3}, {.weights = 5}},
                                     .weight_taps = 9};
        setup(&work, &shape);
        loops->tile_conv(&work.job, 0, work.job.units, work.scratch);
        check(&work);
        check_masked_phase(loops, &work);
        clear(&work);
    }
}

/* Returns the output; the next one goes elsewhere. */
static void *run_alone(const struct xt_loops *loops, struct work *work)
{
    void *alone = work->out;
    loops->tile_conv(&work->job, 0, work->job.units, work->scratch);
    work->out = work->job.out = aligned_memory(work->output_bytes);
    return alone;
}

static void what_is_held_is_the_output(void **state)
{
    const struct xt_loops *loops = tiles();
    (void)state;
    for (int i = 0; i < SHAPES * TYPES; i++) {
        struct work work;
        struct xt_tile_conv shape = shape_of(i);
        if (!is_even(&shape))
            continue;
        shape.relu = i % 2;
        setup(&work, &shape);
        void *plain = run_alone(loops, &work);
        void *held = aligned_memory(work.output_bytes);
        work.job.far = true;
        work.job.held = held;
        loops->tile_conv(&work.job, 0, work.job.units, work.scratch);
        assert_memory_equal(plain, work.out, work.output_bytes);
        assert_memory_equal(plain, held, work.output_bytes);
        free(plain);
        free(held);
        clear(&work);
    }
}

/* ---- sums for a norm ---- */

static void check_statistics(const struct work *work, int from)
{
    const struct xt_tile_conv *job = &work->job;
    size_t c = (size_t)job->out_c;
    for (size_t o = 0; o < c; o++) {
        size_t first = (size_t)from * c + o;
        struct sum sum = {0};
        assert_true((double)job->norm.pivot[o] == number_at(job, work->out, first));
        for (size_t at = first; at < work->outputs; at += c) {
            double value = number_at(job, work->out, at) - (double)job->norm.pivot[o];
            add_to_sum(&sum, value, value * value);
        }
        check_sum(&sum, &job->norm, (int)o, 3e-6);
    }
}

/* Of what is stored, about the first pixel; and the output stays what it is without them. */
static void statistics_come_with_the_output(void **state)
{
    const struct xt_loops *loops = tiles();
    static double sums[2 * 1024];
    static float pivot[1024];
    (void)state;
    for (int i = 0; i < SHAPES * TYPES; i++) {
        struct work work;
        struct xt_tile_conv shape = shape_of(i);
        if (!is_even(&shape))
            continue;
        shape.relu = i % 2;
        setup(&work, &shape);
        void *alone = run_alone(loops, &work);
        int first = 0;
        xt_tile_conv_part(&work.job, 1, 2, &first);
        for (int from = first; from >= 0; from -= first > 0 ? first : 1) {
            begin_sums(&work.job.norm, work.job.out_c, sums, pivot);
            loops->tile_conv(&work.job, from, work.job.units, work.scratch);
            check_statistics(&work, xt_tile_conv_pixels(&work.job, 0, from));
        }
        assert_memory_equal(alone, work.out, work.output_bytes);
        free(alone);
        clear(&work);
    }
}

/* From the gradient that the convolution alone computes, `plain`, rounded. */
static void check_gradient(const struct work *work, const void *plain, const void *before)
{
    const struct xt_tile_conv *job = &work->job;
    size_t c = (size_t)job->out_c;
    double most = job->f32 ? 0x1p-23 : 0x1p-7;
    for (size_t o = 0; o < c; o++) {
        struct sum sum = {0};
        for (size_t at = o; at < work->outputs; at += c) {
            double grad = number_at(job, plain, at) + (job->adds ? number_at(job, before, at) : 0);
            double got = number_at(job, work->out, at);
            bool above = number_at(job, job->norm.y, at) > 0;
            double size = fabs(number_at(job, plain, at)) + fabs(got);
            assert_true(above ? fabs(got - grad) <= size * most : got == 0);
            add_to_sum(&sum, got,
                       got * (number_at(job, job->norm.z, at) - (double)job->norm.pivot[o]));
        }
        /* Their terms are not rounded to bf16, as what is stored is. */
        check_sum(&sum, &job->norm, (int)o, job->f32 ? 3e-6 : 4e-3);
    }
}

static void run_gradient(const struct xt_loops *loops, struct work *work, bool adds)
{
    size_t bytes = work->output_bytes;
    struct xt_rng rng = xt_rng_begin(9, 0);
    void *tensors[4];
    static double sums[2 * 1024];
    static float pivot[1024];
    for (int i = 0; i < 4; i++) {
        tensors[i] = aligned_memory(bytes);
        free(random_numbers(&rng, dtype_of(&work->job), work->outputs, tensors[i]));
    }
    for (int o = 0; o < work->job.out_c; o++)
        pivot[o] = 0.25F;
    work->job.out = tensors[0];
    loops->tile_conv(&work->job, 0, work->job.units, work->scratch);
    memcpy(work->out, tensors[1], bytes);
    work->job.out = work->out;
    begin_sums(&work->job.norm, work->job.out_c, sums, pivot);
    work->job.norm.z = tensors[2];
    work->job.norm.y = tensors[3];
    work->job.adds = adds;
    loops->tile_conv(&work->job, 0, work->job.units, work->scratch);
    check_gradient(work, tensors[0], tensors[1]);
    /* Of a ReLU without a norm there are no sums, and it is the same. */
    memcpy(tensors[0], work->out, bytes);
    memcpy(work->out, tensors[1], bytes);
    work->job.norm = (struct xt_norm_sums){.y = tensors[3]};
    loops->tile_conv(&work->job, 0, work->job.units, work->scratch);
    assert_memory_equal(tensors[0], work->out, bytes);
    for (int i = 0; i < 4; i++)
        free(tensors[i]);
}

static void the_gradient_before_relu_comes_with_its_sums(void **state)
{
    const struct xt_loops *loops = tiles();
    (void)state;
    for (int i = 0; i < SHAPES * TYPES * 2; i++) {
        struct work work;
        struct xt_tile_conv shape = shape_of(i / 2);
        if (!is_even(&shape))
            continue;
        shape.far = i / 2 % 2;
        setup(&work, &shape);
        run_gradient(loops, &work, i % 2);
        clear(&work);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_plain_loops_make_of_it),
        cmocka_unit_test(a_sample_is_divided_among_parts),
        cmocka_unit_test(a_phase_writes_its_own_pixels),
        cmocka_unit_test(what_is_held_is_the_output),
        cmocka_unit_test(statistics_come_with_the_output),
        cmocka_unit_test(the_gradient_before_relu_comes_with_its_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
