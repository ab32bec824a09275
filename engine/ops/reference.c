#include "engine/ops/reference.h"

#include <math.h>

#include "base/rng.h"

#define CONTEXT_EPS 1e-12

/* ---- convolution ---- */

struct place {
    int n, y, x, k;
};

static struct place place_of(const struct xt_reference_shape *s, size_t index)
{
    size_t c = (size_t)s->c;
    size_t w = (size_t)s->w;
    size_t h = (size_t)s->h;
    return (struct place){.n = (int)(index / c / w / h),
                          .y = (int)(index / c / w % h),
                          .x = (int)(index / c % w),
                          .k = (int)(index % c)};
}

static int or_1(int number)
{
    return number ? number : 1;
}

static int groups_of(const struct xt_reference_conv *conv)
{
    return or_1(conv->groups);
}

/* The number of input channels that one output channel reads, and the first. */
static int fan_in(const struct xt_reference_conv *conv)
{
    return conv->in.c / groups_of(conv);
}

static int first_in(const struct xt_reference_conv *conv, int o)
{
    return o / (conv->out.c / groups_of(conv)) * fan_in(conv);
}

/* `i` counts from the first channel that o reads. */
static size_t weight_at(const struct xt_reference_conv *conv, int o, int i, int ky, int kx)
{
    size_t row = (size_t)o * (size_t)fan_in(conv) + (size_t)i;
    return (row * (size_t)conv->kernel_h + (size_t)ky) * (size_t)conv->kernel_w + (size_t)kx;
}

static bool is_inside(const struct xt_reference_shape *s, int y, int x)
{
    return y >= 0 && y < s->h && x >= 0 && x < s->w;
}

/* From the weights of one channel that an output channel reads to the next one's. */
static size_t taps_of(const struct xt_reference_conv *conv)
{
    return (size_t)conv->kernel_h * (size_t)conv->kernel_w;
}

double xt_reference_conv_output(const struct xt_reference_conv *conv, const double *in,
                                const double *weight, size_t index)
{
    struct place at = place_of(&conv->out, index);
    int first = first_in(conv, at.k);
    size_t count = (size_t)fan_in(conv);
    size_t taps = taps_of(conv);
    double sum = 0;
    for (int ky = 0; ky < conv->kernel_h; ky++)
        for (int kx = 0; kx < conv->kernel_w; kx++) {
            int y = at.y * conv->stride_h - conv->pad_h + ky * or_1(conv->dilation_h);
            int x = at.x * conv->stride_w - conv->pad_w + kx * or_1(conv->dilation_w);
            if (!is_inside(&conv->in, y, x))
                continue;
            const double *pixel = in + xt_reference_at(&conv->in, at.n, y, x, first);
            const double *tap = weight + weight_at(conv, at.k, 0, ky, kx);
            for (size_t i = 0; i < count; i++)
                sum += pixel[i] * tap[i * taps];
        }
    return sum;
}

double xt_reference_conv_input_grad(const struct xt_reference_conv *conv, const double *out_grad,
                                    const double *weight, size_t index)
{
    struct place at = place_of(&conv->in, index);
    int own = conv->out.c / groups_of(conv); /* output channels that read this one */
    int first = at.k / fan_in(conv) * own;
    size_t apart = (size_t)fan_in(conv) * taps_of(conv);
    double sum = 0;
    for (int ky = 0; ky < conv->kernel_h; ky++)
        for (int kx = 0; kx < conv->kernel_w; kx++) {
            int down = at.y + conv->pad_h - ky * or_1(conv->dilation_h);
            int right = at.x + conv->pad_w - kx * or_1(conv->dilation_w);
            if (down < 0 || down % conv->stride_h || right < 0 || right % conv->stride_w)
                continue;
            int y = down / conv->stride_h;
            int x = right / conv->stride_w;
            if (!is_inside(&conv->out, y, x))
                continue;
            const double *pixel = out_grad + xt_reference_at(&conv->out, at.n, y, x, first);
            const double *tap = weight + weight_at(conv, first, at.k % fan_in(conv), ky, kx);
            for (size_t o = 0; o < (size_t)own; o++)
                sum += pixel[o] * tap[o * apart];
        }
    return sum;
}

double xt_reference_bias_grad(const struct xt_reference_shape *out, const double *out_grad,
                              size_t channel)
{
    size_t count = (size_t)out->n * (size_t)out->h * (size_t)out->w * (size_t)out->c;
    double sum = 0;
    for (size_t i = channel; i < count; i += (size_t)out->c)
        sum += out_grad[i];
    return sum;
}

double xt_reference_conv_weight_grad(const struct xt_reference_conv *conv, const double *in,
                                     const double *out_grad, size_t index)
{
    int kx = (int)(index % (size_t)conv->kernel_w);
    int ky = (int)(index / (size_t)conv->kernel_w % (size_t)conv->kernel_h);
    size_t pair = index / taps_of(conv);
    int o = (int)(pair / (size_t)fan_in(conv));
    int i = first_in(conv, o) + (int)(pair % (size_t)fan_in(conv));
    size_t in_c = (size_t)conv->in.c;
    size_t out_c = (size_t)conv->out.c;
    double sum = 0;
    for (int n = 0; n < conv->out.n; n++)
        for (int oy = 0; oy < conv->out.h; oy++) {
            int y = oy * conv->stride_h - conv->pad_h + ky * or_1(conv->dilation_h);
            if (!is_inside(&conv->in, y, 0))
                continue;
            const double *row = in + xt_reference_at(&conv->in, n, y, 0, i);
            const double *grad = out_grad + xt_reference_at(&conv->out, n, oy, 0, o);
            for (int ox = 0; ox < conv->out.w; ox++) {
                int x = ox * conv->stride_w - conv->pad_w + kx * or_1(conv->dilation_w);
                if (is_inside(&conv->in, y, x))
                    sum += row[(size_t)x * in_c] * grad[(size_t)ox * out_c];
            }
        }
    return sum;
}

/* -1 or 1. */
static double sign_of(size_t channel)
{
    return xt_rng_mix(channel) & 1 ? 1 : -1;
}

void xt_reference_sum_channels(const struct xt_reference_groups *groups, const double *values,
                               double *sums)
{
    const struct xt_reference_groups g = *groups;
#pragma omp parallel for schedule(static)
    for (size_t row = 0; row < g.outer * g.groups; row++)
        for (size_t k = 0; k < g.inner; k++) {
            double sum = 0;
            for (size_t j = 0; j < g.channels; j++)
                sum += sign_of(j) * values[(row * g.channels + j) * g.inner + k];
            sums[row * g.inner + k] = sum;
        }
}

/* ---- batch normalisation ---- */

void xt_reference_moments(const struct xt_reference_shape *shape, const double *z, int k,
                          double *mean, double *variance)
{
    size_t count = xt_reference_count(shape);
    double pixels = (double)count / shape->c;
    *mean = *variance = 0;
    for (size_t i = (size_t)k; i < count; i += (size_t)shape->c)
        *mean += z[i] / pixels;
    for (size_t i = (size_t)k; i < count; i += (size_t)shape->c)
        *variance += (z[i] - *mean) * (z[i] - *mean) / pixels;
}

void xt_reference_norm(const struct xt_reference_norm *norm, const double *z,
                       const double *residual, double *out)
{
    size_t c = (size_t)norm->shape.c;
    for (size_t i = 0; i < xt_reference_count(&norm->shape); i++) {
        size_t k = i % c;
        double hat = (z[i] - norm->mean[k]) / sqrt(norm->variance[k] + norm->eps);
        out[i] = hat * norm->gamma[k] + norm->beta[k] + (residual ? residual[i] : 0);
    }
}

void xt_reference_norm_grad(const struct xt_reference_norm *norm, const double *z,
                            const double *out_grad, double *z_grad, double *gamma_grad,
                            double *beta_grad)
{
    size_t c = (size_t)norm->shape.c;
    size_t count = xt_reference_count(&norm->shape);
    double pixels = (double)count / (double)c;
    for (size_t k = 0; k < c; k++) {
        double invstd = 1 / sqrt(norm->variance[k] + norm->eps);
        gamma_grad[k] = beta_grad[k] = 0;
        for (size_t i = k; i < count; i += c) {
            beta_grad[k] += out_grad[i];
            gamma_grad[k] += out_grad[i] * (z[i] - norm->mean[k]) * invstd;
        }
        for (size_t i = k; i < count; i += c) {
            double hat = (z[i] - norm->mean[k]) * invstd;
            double through = (beta_grad[k] + hat * gamma_grad[k]) / pixels;
            z_grad[i] = norm->gamma[k] * invstd * (out_grad[i] - (norm->of_batch ? through : 0));
        }
    }
}

/* ---- pools ---- */

/* The indices of a window's elements, in row-major order. */
struct view {
    size_t at[512];
    int count;
};

static struct view view_of(const struct xt_reference_shape *in, const struct xt_window *w,
                           struct place out)
{
    struct view view = {.count = 0};
    for (int ky = 0; ky < w->kernel_h; ky++)
        for (int kx = 0; kx < w->kernel_w; kx++) {
            int y = out.y * w->stride_h - w->pad_h + ky;
            int x = out.x * w->stride_w - w->pad_w + kx;
            if (is_inside(in, y, x) && view.count < (int)(sizeof view.at / sizeof *view.at))
                view.at[view.count++] = xt_reference_at(in, out.n, y, x, out.k);
        }
    return view;
}

static struct xt_reference_shape pooled_shape(const struct xt_reference_shape *in,
                                              const struct xt_window *w)
{
    return (struct xt_reference_shape){in->n, w->out_h, w->out_w, in->c};
}

static int first_largest(const struct view *view, const double *from)
{
    int best = 0;
    for (int i = 1; i < view->count; i++)
        best = from[view->at[i]] > from[view->at[best]] ? i : best;
    return best;
}

void xt_reference_max_pool(const struct xt_reference_shape *in, const struct xt_window *window,
                           const double *from, double *to, double *lead)
{
    struct xt_reference_shape out = pooled_shape(in, window);
    for (size_t i = 0; i < xt_reference_count(&out); i++) {
        struct view view = view_of(in, window, place_of(&out, i));
        int best = first_largest(&view, from);
        to[i] = from[view.at[best]];
        if (!lead)
            continue;
        lead[i] = INFINITY;
        for (int k = 0; k < view.count; k++)
            if (k != best)
                lead[i] = fmin(lead[i], to[i] - from[view.at[k]]);
    }
}

void xt_reference_max_pool_grad(const struct xt_reference_shape *in, const struct xt_window *window,
                                const double *from, const double *to_grad, double *in_grad)
{
    struct xt_reference_shape out = pooled_shape(in, window);
    for (size_t i = 0; i < xt_reference_count(&out); i++) {
        struct view view = view_of(in, window, place_of(&out, i));
        in_grad[view.at[first_largest(&view, from)]] += to_grad[i];
    }
}

/* Windows of any size, so without a view. */
void xt_reference_average_pool(const struct xt_reference_shape *in, const struct xt_window *w,
                               const double *from, double *to)
{
    struct xt_reference_shape out = pooled_shape(in, w);
    for (size_t i = 0; i < xt_reference_count(&out); i++) {
        struct place at = place_of(&out, i);
        to[i] = 0;
        for (int ky = 0; ky < w->kernel_h; ky++)
            for (int kx = 0; kx < w->kernel_w; kx++)
                to[i] += from[xt_reference_at(in, at.n, at.y * w->stride_h + ky,
                                              at.x * w->stride_w + kx, at.k)] /
                         (w->kernel_h * w->kernel_w);
    }
}

void xt_reference_average_pool_grad(const struct xt_reference_shape *in, const struct xt_window *w,
                                    const double *to_grad, double *in_grad)
{
    struct xt_reference_shape out = pooled_shape(in, w);
    for (size_t i = 0; i < xt_reference_count(&out); i++) {
        struct place at = place_of(&out, i);
        for (int ky = 0; ky < w->kernel_h; ky++)
            for (int kx = 0; kx < w->kernel_w; kx++)
                in_grad[xt_reference_at(in, at.n, at.y * w->stride_h + ky, at.x * w->stride_w + kx,
                                        at.k)] += to_grad[i] / (w->kernel_h * w->kernel_w);
    }
}

/* ---- dropout ---- */

bool xt_reference_dropout_keeps(uint64_t seed, uint64_t step, int op, int n, size_t index,
                                double probability)
{
    uint32_t key = (uint32_t)xt_rng_mix(xt_rng_at(seed, step, (uint64_t)op) ^ (uint64_t)n);
    uint32_t hash = ((uint32_t)index ^ key) * 0x7FEB352Du;
    hash = (hash ^ (hash >> 15)) * 0x846CA68Bu;
    hash ^= hash >> 16;
    return (double)hash >= floor(probability * 4294967296.0);
}

/* ---- global context ---- */

/* The elements of sample n's mean of squares: the sample's own or the batch's. */
static void range_of(const struct xt_reference_tap *tap, int batch, int n, size_t *first,
                     size_t *last)
{
    size_t sample = xt_reference_count(&tap->shape) / (size_t)tap->shape.n;
    *first = batch ? 0 : (size_t)n * sample;
    *last = batch ? (size_t)batch * sample : *first + sample;
}

static double mean_square(const struct xt_reference_tap *taps, int count, int batch, int group,
                          int n, double *elements)
{
    double sum = 0;
    *elements = 0;
    for (int t = 0; t < count; t++) {
        size_t first = 0;
        size_t last = 0;
        range_of(&taps[t], batch, n, &first, &last);
        for (size_t i = first; taps[t].group == group && i < last; i++) {
            sum += taps[t].value[i] * taps[t].value[i];
            ++*elements;
        }
    }
    return sum / *elements + CONTEXT_EPS;
}

static struct xt_reference_shape context_shape(const struct xt_reference_tap *taps, int count)
{
    struct xt_reference_shape out = {taps[0].shape.n, 1, taps[0].shape.w, 0};
    for (int t = 0; t < count; t++)
        out.c += taps[t].shape.c;
    return out;
}

void xt_reference_context(const struct xt_reference_tap *taps, int count, int batch, double *out)
{
    struct xt_reference_shape shape = context_shape(taps, count);
    double unused = 0;
    for (int n = 0; n < shape.n; n++)
        for (int t = 0, channel = 0; t < count; channel += taps[t++].shape.c) {
            const struct xt_reference_shape *s = &taps[t].shape;
            double square = mean_square(taps, count, batch, taps[t].group, n, &unused);
            for (int x = 0; x < s->w; x++)
                for (int k = 0; k < s->c; k++) {
                    double sum = 0;
                    for (int y = 0; y < s->h; y++)
                        sum += taps[t].value[xt_reference_at(s, n, y, x, k)];
                    out[xt_reference_at(&shape, n, 0, x, channel + k)] = sum / s->h / square;
                }
        }
}

/* The gradient at sample n, (y, x, k) of tap t before the division. */
static double divided_grad(const struct xt_reference_shape *out, const double *out_grad,
                           const struct xt_reference_shape *s, int channel, size_t i)
{
    struct place at = place_of(s, i);
    return out_grad[xt_reference_at(out, at.n, 0, at.x, channel + at.k)] / s->h;
}

/* The sum of gradient times value over the elements divided by one mean of squares. */
static double slope_of(const struct xt_reference_tap *taps, int count, int batch, int group, int n,
                       const double *out_grad)
{
    struct xt_reference_shape out = context_shape(taps, count);
    double sum = 0;
    for (int t = 0, channel = 0; t < count; channel += taps[t++].shape.c) {
        size_t first = 0;
        size_t last = 0;
        range_of(&taps[t], batch, n, &first, &last);
        for (size_t i = first; taps[t].group == group && i < last; i++)
            sum += divided_grad(&out, out_grad, &taps[t].shape, channel, i) * taps[t].value[i];
    }
    return sum;
}

void xt_reference_context_grad(const struct xt_reference_tap *taps, int count, int batch,
                               const double *out_grad)
{
    struct xt_reference_shape out = context_shape(taps, count);
    for (int t = 0, channel = 0; t < count; channel += taps[t++].shape.c) {
        const struct xt_reference_shape *s = &taps[t].shape;
        size_t sample = xt_reference_count(s) / (size_t)s->n;
        for (int n = 0; n < s->n; n++) {
            double elements = 0;
            double square = mean_square(taps, count, batch, taps[t].group, n, &elements);
            double slope = slope_of(taps, count, batch, taps[t].group, n, out_grad);
            /* Padded samples are divided by the batch's mean but are not part of it. */
            bool in_mean = !batch || n < batch;
            for (size_t i = (size_t)n * sample; i < (size_t)(n + 1) * sample; i++)
                taps[t].grad[i] =
                    divided_grad(&out, out_grad, s, channel, i) / square -
                    (in_mean ? 2 * slope * taps[t].value[i] / (elements * square * square) : 0);
        }
    }
}
