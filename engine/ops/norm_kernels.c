#include "engine/ops/norm_kernels.h"

#include <stdio.h>
#include <string.h>

#include "device/kernels/own.h"

/* A work-group is LANES x LINES work-items: a lane has V neighbouring channels, a line every so
 * many pixels. */
enum { LANES = 16, LINES = 16, VECTOR = 4 };

/* Bits of the kernels' flags, which have the same names there. */
enum { ADDS = 1, RELU = 2, RELU_OF_OUTPUT = 4, OWN_STATS = 8, WRITES_RESIDUAL = 16 };

static const char source[] =
    "#define ADDS 1\n"
    "#define RELU 2\n"
    "#define RELU_OF_OUTPUT 4\n"
    "#define OWN_STATS 8\n"
    "#define WRITES_RESIDUAL 16\n"
    "#define EACH for (int v = 0; v < V; v++)\n"
    "#define SHAPE __attribute__((reqd_work_group_size(LANES, LINES, 1)))\n"
    "\n"
    "#ifdef BF16\n"
    "typedef ushort number;\n"
    "float load(const global number *p) { return as_float((uint)*p << 16); }\n"
    "void store(global number *p, float x)\n"
    "{\n"
    "    uint u = as_uint(x);\n"
    "    *p = isnan(x) ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;\n"
    "}\n"
    "#elif defined F16\n"
    "typedef half number;\n"
    "float load(const global number *p) { return vload_half(0, p); }\n"
    "void store(global number *p, float x) { vstore_half_rte(x, 0, p); }\n"
    "#else\n"
    "typedef float number;\n"
    "float load(const global number *p) { return *p; }\n"
    "void store(global number *p, float x) { *p = x; }\n"
    "#endif\n"
    "\n"
    "/* NaN stays. */\n"
    "float above_0(float x) { return x < 0 ? 0 : x; }\n"
    "int channel(void) { return (get_group_id(0) * LANES + get_local_id(0)) * V; }\n"
    "\n"
    "/* The first line gets the sums of all lines. */\n"
    "void add_lines(local float *room, float *a, float *b)\n"
    "{\n"
    "    int line = get_local_id(1);\n"
    "    local float *mine = room + line * 2 * V * LANES + get_local_id(0);\n"
    "    EACH { mine[v * LANES] = a[v]; mine[(V + v) * LANES] = b[v]; }\n"
    "    for (int half_of = LINES / 2; half_of; half_of /= 2) {\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        if (line < half_of)\n"
    "            for (int v = 0; v < 2 * V; v++)\n"
    "                mine[v * LANES] += mine[half_of * 2 * V * LANES + v * LANES];\n"
    "    }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    EACH { a[v] = mine[v * LANES]; b[v] = mine[(V + v) * LANES]; }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "}\n"
    "\n"
    "/* Adds up over all work-groups. True in the last one's first line, which has the sums. */\n"
    "bool add_groups(local float *room, local bool *last, global float *parts,\n"
    "                global atomic_uint *done, int channels, float *a, float *b)\n"
    "{\n"
    "    int groups = get_num_groups(1), c = channel();\n"
    "    bool first_line = get_local_id(1) == 0;\n"
    "    add_lines(room, a, b);\n"
    "    if (first_line && c < channels) {\n"
    "        global float *to = parts + (size_t)get_group_id(1) * 2 * channels + c;\n"
    "        EACH { to[v] = a[v]; to[channels + v] = b[v]; }\n"
    "    }\n"
    "    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device);\n"
    "    barrier(CLK_GLOBAL_MEM_FENCE);\n"
    "    if (first_line && get_local_id(0) == 0)\n"
    "        *last = atomic_fetch_add_explicit(done + get_group_id(0), 1u, memory_order_acq_rel,\n"
    "                                          memory_scope_device) == groups - 1;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (!*last)\n"
    "        return false;\n"
    "    atomic_work_item_fence(CLK_GLOBAL_MEM_FENCE, memory_order_acq_rel, memory_scope_device);\n"
    "    if (first_line && get_local_id(0) == 0)\n"
    "        atomic_store_explicit(done + get_group_id(0), 0u, memory_order_relaxed,\n"
    "                              memory_scope_device);\n"
    "    EACH a[v] = b[v] = 0;\n"
    "    for (int g = get_local_id(1); g < groups && c < channels; g += LINES) {\n"
    "        const global float *from = parts + (size_t)g * 2 * channels + c;\n"
    "        EACH { a[v] += from[v]; b[v] += from[channels + v]; }\n"
    "    }\n"
    "    add_lines(room, a, b);\n"
    "    return first_line && c < channels;\n"
    "}\n"
    "\n"
    "/* Sums relative to the first pixel, so that a large mean does not cancel. */\n"
    "SHAPE kernel void norm_sums(const global number *x, int pixels, int channels,\n"
    "                            global float *parts, global atomic_uint *done,\n"
    "                            global float *mean, global float *variance)\n"
    "{\n"
    "    local float room[LINES * 2 * V * LANES];\n"
    "    local bool last;\n"
    "    int c = channel();\n"
    "    float a[V], b[V], first[V];\n"
    "    EACH { a[v] = b[v] = 0; first[v] = c < channels ? load(x + c + v) : 0; }\n"
    "    for (int p = get_global_id(1); p < pixels && c < channels; p += get_global_size(1))\n"
    "        EACH {\n"
    "            float d = load(x + (size_t)p * channels + c + v) - first[v];\n"
    "            a[v] += d;\n"
    "            b[v] = fma(d, d, b[v]);\n"
    "        }\n"
    "    if (!add_groups(room, &last, parts, done, channels, a, b))\n"
    "        return;\n"
    "    EACH {\n"
    "        float m = a[v] / pixels;\n"
    "        mean[c + v] = first[v] + m;\n"
    "        variance[c + v] = above_0(b[v] / pixels - m * m);\n"
    "    }\n"
    "}\n"
    "\n"
    "SHAPE kernel void norm_out(const global number *x, const global number *residual,\n"
    "                           global number *y, const global float *scale,\n"
    "                           const global float *shift, const global float *mean,\n"
    "                           const global float *variance, int pixels, int channels,\n"
    "                           float eps, int flags)\n"
    "{\n"
    "    int c = channel();\n"
    "    float slope[V], offset[V], middle[V];\n"
    "    if (c >= channels)\n"
    "        return;\n"
    "    EACH {\n"
    "        slope[v] = scale[c + v] / sqrt(variance[c + v] + eps);\n"
    "        offset[v] = shift[c + v];\n"
    "        middle[v] = mean[c + v];\n"
    "    }\n"
    "    for (int p = get_global_id(1); p < pixels; p += get_global_size(1)) {\n"
    "        size_t at = (size_t)p * channels + c;\n"
    "        EACH {\n"
    "            float value = fma(load(x + at + v) - middle[v], slope[v], offset[v]);\n"
    "            if (flags & ADDS)\n"
    "                value += load(residual + at + v);\n"
    "            store(y + at + v, flags & RELU ? above_0(value) : value);\n"
    "        }\n"
    "    }\n"
    "}\n"
    "\n"
    "/* The gradient behind the ReLU, which passes it on by its input, computed as norm_out does,\n"
    " * or by its output; for NaN, too. */\n"
    "float gradient(int flags, float d, float slope, float offset, const global number *y,\n"
    "               const global number *y_grad)\n"
    "{\n"
    "    float value = flags & RELU_OF_OUTPUT ? load(y) : fma(d, slope, offset);\n"
    "    bool passes = !(flags & (RELU | RELU_OF_OUTPUT)) || !(value <= 0);\n"
    "    return passes ? load(y_grad) : 0;\n"
    "}\n"
    "\n"
    "SHAPE kernel void norm_grad_sums(const global number *x, const global number *y,\n"
    "                                 const global number *y_grad, const global float *scale,\n"
    "                                 const global float *shift, const global float *mean,\n"
    "                                 const global float *variance, int pixels, int channels,\n"
    "                                 float eps, int flags, global float *parts,\n"
    "                                 global atomic_uint *done, global float *scale_grad,\n"
    "                                 global float *shift_grad)\n"
    "{\n"
    "    local float room[LINES * 2 * V * LANES];\n"
    "    local bool last;\n"
    "    int c = channel();\n"
    "    bool inside = c < channels;\n"
    "    float a[V], b[V], slope[V], offset[V], middle[V];\n"
    "    EACH {\n"
    "        a[v] = b[v] = 0;\n"
    "        slope[v] = inside ? scale[c + v] / sqrt(variance[c + v] + eps) : 0;\n"
    "        offset[v] = inside ? shift[c + v] : 0;\n"
    "        middle[v] = inside ? mean[c + v] : 0;\n"
    "    }\n"
    "    for (int p = get_global_id(1); p < pixels && inside; p += get_global_size(1)) {\n"
    "        size_t at = (size_t)p * channels + c;\n"
    "        EACH {\n"
    "            float d = load(x + at + v) - middle[v];\n"
    "            float g = gradient(flags, d, slope[v], offset[v], y + at + v, y_grad + at + v);\n"
    "            a[v] += g;\n"
    "            b[v] = fma(g, d, b[v]);\n"
    "        }\n"
    "    }\n"
    "    if (!add_groups(room, &last, parts, done, channels, a, b))\n"
    "        return;\n"
    "    EACH {\n"
    "        shift_grad[c + v] = a[v];\n"
    "        scale_grad[c + v] = b[v] / sqrt(variance[c + v] + eps);\n"
    "    }\n"
    "}\n"
    "\n"
    "/* The gradient of a ReLU's input, in place, and of the bias before it. */\n"
    "SHAPE kernel void relu_grad(const global number *y, global number *y_grad, int pixels,\n"
    "                            int channels, global float *parts, global atomic_uint *done,\n"
    "                            global float *bias_grad)\n"
    "{\n"
    "    local float room[LINES * 2 * V * LANES];\n"
    "    local bool last;\n"
    "    int c = channel();\n"
    "    float sums[V], none[V];\n"
    "    EACH sums[v] = none[v] = 0;\n"
    "    for (int p = get_global_id(1); p < pixels && c < channels; p += get_global_size(1)) {\n"
    "        size_t at = (size_t)p * channels + c;\n"
    "        EACH {\n"
    "            float g = gradient(RELU_OF_OUTPUT, 0, 0, 0, y + at + v, y_grad + at + v);\n"
    "            store(y_grad + at + v, g);\n"
    "            sums[v] += g;\n"
    "        }\n"
    "    }\n"
    "    if (add_groups(room, &last, parts, done, channels, sums, none))\n"
    "        EACH bias_grad[c + v] = sums[v];\n"
    "}\n"
    "\n"
    "/* y_grad and x_grad may be one memory. */\n"
    "SHAPE kernel void norm_grad(const global number *x, const global number *y,\n"
    "                            global number *y_grad, global number *x_grad,\n"
    "                            const global float *scale, const global float *shift,\n"
    "                            const global float *mean, const global float *variance,\n"
    "                            int pixels, int channels, float eps, int flags,\n"
    "                            const global float *scale_grad, const global float *shift_grad)\n"
    "{\n"
    "    int c = channel();\n"
    "    float slope[V], offset[V], middle[V], constant_part[V], linear_part[V];\n"
    "    if (c >= channels)\n"
    "        return;\n"
    "    EACH {\n"
    "        float deviation = sqrt(variance[c + v] + eps);\n"
    "        bool own = flags & OWN_STATS;\n"
    "        slope[v] = scale[c + v] / deviation;\n"
    "        offset[v] = shift[c + v];\n"
    "        middle[v] = mean[c + v];\n"
    "        constant_part[v] = own ? shift_grad[c + v] / pixels : 0;\n"
    "        linear_part[v] = own ? scale_grad[c + v] / deviation / pixels : 0;\n"
    "    }\n"
    "    for (int p = get_global_id(1); p < pixels; p += get_global_size(1)) {\n"
    "        size_t at = (size_t)p * channels + c;\n"
    "        EACH {\n"
    "            float d = load(x + at + v) - middle[v];\n"
    "            float g = gradient(flags, d, slope[v], offset[v], y + at + v, y_grad + at + v);\n"
    "            if (flags & WRITES_RESIDUAL)\n"
    "                store(y_grad + at + v, g);\n"
    "            store(x_grad + at + v, slope[v] * (g - constant_part[v] - d * linear_part[v]));\n"
    "        }\n"
    "    }\n"
    "}\n";

static int vector_of(const struct xt_tensor *in)
{
    return in->c % VECTOR ? 1 : VECTOR;
}

/* Work-groups side by side, for all channels. */
static size_t blocks_of(const struct xt_tensor *in)
{
    size_t width = (size_t)LANES * (size_t)vector_of(in);
    return ((size_t)in->c + width - 1) / width;
}

const struct xt_own_program *xt_norm_kernels_code(const struct xt_graph *graph,
                                                  const struct xt_tensor *in)
{
    static const char *const types[XT_DTYPE_COUNT] = {
        [XT_F32] = "F32", [XT_BF16] = "BF16", [XT_F16] = "F16"};
    char options[96];
    if (!types[in->dtype] || blocks_of(in) > XT_OWN_COUNTERS)
        return NULL;
    snprintf(options, sizeof options, "-DLANES=%d -DLINES=%d -DV=%d -D%s", LANES, LINES,
             vector_of(in), types[in->dtype]);
    return xt_own_program(graph->options.device, "batch norm", source, options);
}

static int pixels_of(const struct xt_tensor *in)
{
    return in->n * in->h * in->w;
}

/* Each line has several pixels; sums have so few work-groups that one can add them up. */
static size_t groups_of(const struct xt_tensor *in, bool sums)
{
    enum { PIXELS = 4, SUMS_MOST = 512, SUMS_LEAST = 16, MOST = 2048 };
    size_t most = MOST;
    if (sums)
        most = SUMS_MOST / blocks_of(in) > SUMS_LEAST ? SUMS_MOST / blocks_of(in) : SUMS_LEAST;
    size_t groups = ((size_t)pixels_of(in) + LINES * PIXELS - 1) / (LINES * PIXELS);
    return groups < most ? groups : most;
}

static struct xt_step *add(const struct xt_norm_kernels *norm, enum xt_phase phase,
                           const char *kernel, bool sums, const char *what)
{
    const struct xt_own_launch launch = {
        .program = norm->code,
        .kernel = kernel,
        .global = {blocks_of(norm->in) * LANES, groups_of(norm->in, sums) * LINES},
        .local = {LANES, LINES},
    };
    return xt_program_add_own(&norm->op->program, phase, &launch, what);
}

static void add_places(struct xt_step *step, int first, const struct xt_location *places,
                       size_t count)
{
    for (size_t i = 0; i < count; i++)
        xt_step_arg(step, first + (int)i, places[i]);
}

static void add_shape(const struct xt_norm_kernels *norm, struct xt_step *step, int first)
{
    xt_step_number(step, first, (uint32_t)pixels_of(norm->in));
    xt_step_number(step, first + 1, (uint32_t)norm->in->c);
}

/* The work-groups' sums, and the counters of those that are done. */
static void add_sums(const struct xt_norm_kernels *norm, struct xt_step *step, int first, int time)
{
    size_t bytes = groups_of(norm->in, true) * 2 * (size_t)norm->in->c * sizeof(float);
    xt_step_arg(step, first, xt_in_buffer(xt_graph_temporary(norm->graph, norm->in, bytes, time)));
    xt_step_arg(step, first + 1, xt_in_memory(xt_own_counters(norm->graph->options.device)));
}

static void add_rest(const struct xt_norm_kernels *norm, struct xt_step *step, int first, int flags)
{
    uint32_t eps = 0;
    memcpy(&eps, &norm->eps, sizeof eps);
    add_shape(norm, step, first);
    xt_step_number(step, first + 2, eps);
    xt_step_number(step, first + 3, (uint32_t)flags);
}

void xt_norm_kernels_forward(const struct xt_norm_kernels *norm, const char *what)
{
    struct xt_location x = xt_in_buffer(norm->in->value);
    if (norm->own_stats) {
        struct xt_step *sums = add(norm, XT_FORWARD, "norm_sums", true, what);
        xt_step_arg(sums, 0, x);
        add_shape(norm, sums, 1);
        add_sums(norm, sums, 3, xt_op_forward_time(norm->op));
        add_places(sums, 5, (struct xt_location[]){norm->mean, norm->variance}, 2);
    }
    struct xt_step *out = add(norm, XT_FORWARD, "norm_out", false, what);
    const struct xt_location places[] = {x,
                                         norm->residual ? xt_in_buffer(norm->residual) : x,
                                         xt_in_buffer(norm->out),
                                         norm->scale,
                                         norm->shift,
                                         norm->mean,
                                         norm->variance};
    add_places(out, 0, places, sizeof places / sizeof *places);
    add_rest(norm, out, 7, (norm->residual ? ADDS : 0) | (norm->relu ? RELU : 0));
}

void xt_norm_kernels_backward(const struct xt_norm_kernels *norm, const char *what)
{
    int flags = (norm->relu ? norm->residual ? RELU_OF_OUTPUT : RELU : 0) |
                (norm->own_stats ? OWN_STATS : 0) |
                (norm->residual && norm->relu ? WRITES_RESIDUAL : 0);
    struct xt_location x = xt_in_buffer(norm->in->value);
    struct xt_location y = norm->residual ? xt_in_buffer(norm->out) : x;
    struct xt_location y_grad = xt_in_buffer(norm->out_grad);
    const struct xt_location sums[] = {x,           y,          y_grad,        norm->scale,
                                       norm->shift, norm->mean, norm->variance};
    struct xt_step *step = add(norm, XT_BACKWARD, "norm_grad_sums", true, what);
    add_places(step, 0, sums, sizeof sums / sizeof *sums);
    add_rest(norm, step, 7, flags);
    add_sums(norm, step, 11, xt_op_backward_time(norm->graph, norm->op));
    add_places(step, 13, (struct xt_location[]){norm->scale_grad, norm->shift_grad}, 2);
    const struct xt_location grads[] = {
        x,           y,           y_grad,     xt_in_buffer(norm->in_grad),
        norm->scale, norm->shift, norm->mean, norm->variance};
    step = add(norm, XT_BACKWARD, "norm_grad", false, what);
    add_places(step, 0, grads, sizeof grads / sizeof *grads);
    add_rest(norm, step, 8, flags);
    add_places(step, 12, (struct xt_location[]){norm->scale_grad, norm->shift_grad}, 2);
}

void xt_relu_kernel_backward(struct xt_op *op, struct xt_graph *graph, struct xt_location bias_grad,
                             const char *what)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    const struct xt_norm_kernels kernels = {
        .code = xt_norm_kernels_code(graph, out), .op = op, .graph = graph, .in = out};
    struct xt_step *step = add(&kernels, XT_BACKWARD, "relu_grad", true, what);
    xt_step_arg(step, 0, xt_in_buffer(out->value));
    xt_step_arg(step, 1, xt_in_buffer(out->grad[0]));
    add_shape(&kernels, step, 2);
    add_sums(&kernels, step, 4, xt_op_backward_time(graph, op));
    xt_step_arg(step, 6, bias_grad);
}
