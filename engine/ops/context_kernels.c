#include "engine/ops/context_kernels.h"

#include "base/str.h"
#include "device/kernels/own.h"

/* A work-group of ITEMS work-items has one tap of one sample; PARTS of them share its elements. */
enum { ITEMS = 256, PARTS = 4 };

_Static_assert(XT_TAPS_MAX == 8, "the kernels' lists of taps");

static const char what[] = "the global context";

static const char source[] =
    "#define POINTERS(type, p) \\\n"
    "    type *p##0, type *p##1, type *p##2, type *p##3, type *p##4, type *p##5, type *p##6, type "
    "*p##7\n"
    "#define PICK(p) (tap == 0 ? p##0 : tap == 1 ? p##1 : tap == 2 ? p##2 : tap == 3 ? p##3 \\\n"
    "                 : tap == 4 ? p##4 : tap == 5 ? p##5 : tap == 6 ? p##6 : p##7)\n"
    "#define VALUES POINTERS(const global float, value)\n"
    "#define SHAPE __attribute__((reqd_work_group_size(ITEMS, 1, 1)))\n"
    "\n"
    "constant int heights[] = {HEIGHTS}, channels[] = {CHANNELS}, firsts[] = {FIRSTS};\n"
    "constant int groups[] = {GROUPS}, wanted[] = {WANTED};\n"
    "\n"
    "/* The work-group's tap and sample, the length of a row of its picture, and where its values\n"
    " * and its part of the output begin. */\n"
    "#define PLACE \\\n"
    "    int tap = get_group_id(1) / SAMPLES, sample = get_group_id(1) % SAMPLES; \\\n"
    "    int height = heights[tap], wide = channels[tap], row = WIDTH * wide; \\\n"
    "    size_t begins = (size_t)sample * height * row; \\\n"
    "    size_t part = (size_t)sample * WIDTH * ALL + firsts[tap]\n"
    "#define OF_GROUP(values) values[groups[tap] * SAMPLES + sample]\n"
    "#define OF_PART(at) (part + (size_t)((at) / wide) * ALL + (at) % wide)\n"
    "\n"
    "float add_items(local float *room, float x)\n"
    "{\n"
    "    int i = get_local_id(0);\n"
    "    room[i] = x;\n"
    "    for (int n = ITEMS / 2; n; n /= 2) {\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        if (i < n)\n"
    "            room[i] += room[i + n];\n"
    "    }\n"
    "    return room[0];\n"
    "}\n"
    "\n"
    "float average(const global float *from, int height, int row)\n"
    "{\n"
    "    float sum = 0;\n"
    "    for (int h = 0; h < height; h++)\n"
    "        sum += from[h * row];\n"
    "    return sum / height;\n"
    "}\n"
    "\n"
    "SHAPE kernel void context_sums(global float *sums, VALUES)\n"
    "{\n"
    "    local float room[ITEMS];\n"
    "    PLACE;\n"
    "    const global float *from = PICK(value) + begins;\n"
    "    float sum = 0;\n"
    "    for (int at = get_local_id(0); at < height * row; at += ITEMS)\n"
    "        sum = fma(from[at], from[at], sum);\n"
    "    sum = add_items(room, sum);\n"
    "    if (get_local_id(0) == 0)\n"
    "        sums[tap * SAMPLES + sample] = sum;\n"
    "}\n"
    "\n"
    "SHAPE kernel void context_out(const global float *inverse, global float *out, VALUES)\n"
    "{\n"
    "    PLACE;\n"
    "    const global float *from = PICK(value) + begins;\n"
    "    for (int at = get_global_id(0); at < row; at += get_global_size(0))\n"
    "        out[OF_PART(at)] = average(from + at, height, row) * OF_GROUP(inverse);\n"
    "}\n"
    "\n"
    "SHAPE kernel void context_slopes(global float *slopes, const global float *out_grad, VALUES)\n"
    "{\n"
    "    local float room[ITEMS];\n"
    "    PLACE;\n"
    "    const global float *from = PICK(value) + begins;\n"
    "    float sum = 0;\n"
    "    for (int at = get_local_id(0); at < row; at += ITEMS)\n"
    "        sum = fma(out_grad[OF_PART(at)], average(from + at, height, row), sum);\n"
    "    sum = add_items(room, sum);\n"
    "    if (get_local_id(0) == 0)\n"
    "        slopes[tap * SAMPLES + sample] = sum;\n"
    "}\n"
    "\n"
    "SHAPE kernel void context_grads(const global float *inverse, const global float *through,\n"
    "                                const global float *out_grad, VALUES,\n"
    "                                POINTERS(global float, grad))\n"
    "{\n"
    "    PLACE;\n"
    "    const global float *from = PICK(value) + begins;\n"
    "    global float *to = PICK(grad) + begins;\n"
    "    if (!wanted[tap])\n"
    "        return;\n"
    "    for (int at = get_global_id(0); at < row; at += get_global_size(0)) {\n"
    "        float direct = out_grad[OF_PART(at)] * OF_GROUP(inverse) / height;\n"
    "        for (int h = 0; h < height; h++)\n"
    "            to[h * row + at] = fma(from[h * row + at], OF_GROUP(through), direct);\n"
    "    }\n"
    "}\n";

static const struct xt_buffer *grad_of(const struct xt_context_op *context, int i)
{
    return xt_op_in_grad(&context->op, i);
}

struct xt_context_kernels xt_context_kernels(struct xt_context_op *context,
                                             const struct xt_graph *graph)
{
    enum { LISTS = 5 };
    static const char *const names[LISTS] = {"HEIGHTS", "CHANNELS", "FIRSTS", "GROUPS", "WANTED"};
    const struct xt_tensor *out = xt_op_out(&context->op, 0);
    char options[512] = "";
    xt_str_append_to(options, sizeof options, "-DITEMS=%d -DSAMPLES=%d -DWIDTH=%d -DALL=%d", ITEMS,
                     out->n, out->w, out->c);
    for (int list = 0; list < LISTS; list++)
        for (int i = 0; i < context->spec.count; i++) {
            const struct xt_tensor *tap = xt_op_in(&context->op, i);
            const int values[LISTS] = {tap->h, tap->c, context->first_channel[i],
                                       context->spec.group[i], grad_of(context, i) != NULL};
            if (i == 0)
                xt_str_append_to(options, sizeof options, " -D%s=", names[list]);
            xt_str_append_to(options, sizeof options, i ? ",%d" : "%d", values[list]);
        }
    return (struct xt_context_kernels){
        xt_own_program(graph->options.device, "global context", source, options), context};
}

static struct xt_step *add(const struct xt_context_kernels *kernels, enum xt_phase phase,
                           const char *kernel, size_t parts)
{
    struct xt_context_op *context = kernels->context;
    const struct xt_own_launch launch = {
        .program = kernels->code,
        .kernel = kernel,
        .global = {ITEMS * parts,
                   (size_t)context->spec.count * (size_t)xt_op_out(&context->op, 0)->n},
        .local = {ITEMS, 1},
    };
    return xt_program_add_own(&context->op.program, phase, &launch, what);
}

/* The taps' values, or gradients; those of a tap stand for what does not exist. */
static void add_taps(const struct xt_context_kernels *kernels, struct xt_step *step, int first,
                     bool grads)
{
    const struct xt_context_op *context = kernels->context;
    for (int i = 0; i < XT_TAPS_MAX; i++) {
        int tap = i < context->spec.count ? i : 0;
        const struct xt_buffer *value = xt_op_in(&context->op, tap)->value;
        const struct xt_buffer *grad = grads ? grad_of(context, tap) : NULL;
        xt_step_arg(step, first + i, xt_in_buffer(grad ? grad : value));
    }
}

void xt_context_kernels_sums(const struct xt_context_kernels *kernels, struct xt_location sums)
{
    struct xt_step *step = add(kernels, XT_FORWARD, "context_sums", 1);
    xt_step_arg(step, 0, sums);
    add_taps(kernels, step, 1, false);
}

void xt_context_kernels_out(const struct xt_context_kernels *kernels, struct xt_location inverse)
{
    struct xt_step *step = add(kernels, XT_FORWARD, "context_out", PARTS);
    xt_step_arg(step, 0, inverse);
    xt_step_arg(step, 1, xt_in_buffer(xt_op_out(&kernels->context->op, 0)->value));
    add_taps(kernels, step, 2, false);
}

void xt_context_kernels_slopes(const struct xt_context_kernels *kernels, struct xt_location slopes)
{
    struct xt_step *step = add(kernels, XT_BACKWARD, "context_slopes", 1);
    xt_step_arg(step, 0, slopes);
    xt_step_arg(step, 1, xt_in_buffer(xt_op_out(&kernels->context->op, 0)->grad[0]));
    add_taps(kernels, step, 2, false);
}

void xt_context_kernels_grads(const struct xt_context_kernels *kernels, struct xt_location inverse,
                              struct xt_location through)
{
    struct xt_step *step = add(kernels, XT_BACKWARD, "context_grads", PARTS);
    xt_step_arg(step, 0, inverse);
    xt_step_arg(step, 1, through);
    xt_step_arg(step, 2, xt_in_buffer(xt_op_out(&kernels->context->op, 0)->grad[0]));
    add_taps(kernels, step, 3, false);
    add_taps(kernels, step, 3 + XT_TAPS_MAX, true);
}
