#include "train/losses/xpu_loss.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "device/kernels/own.h"
#include "engine/program.h"

/* A work-group has a line of lanes for a time step. */
enum { CTC_LANES = 16, CTC_LINES = 16, SOFTMAX_LANES = 256 };

static const char source[] =
    "#define SHAPE __attribute__((reqd_work_group_size(LANES, LINES, 1)))\n"
    "\n"
    "/* NaN is no maximum; the sums have it. */\n"
    "float larger(float a, float b) { return b > a ? b : a; }\n"
    "\n"
    "/* The sum or maximum over a line's lanes, in all of them. */\n"
    "float of_line(local float *room, float x, bool largest)\n"
    "{\n"
    "    int lane = get_local_id(0);\n"
    "    local float *mine = room + get_local_id(1) * LANES;\n"
    "    mine[lane] = x;\n"
    "    for (int n = LANES / 2; n; n /= 2) {\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        if (lane < n)\n"
    "            mine[lane] = largest ? larger(mine[lane], mine[lane + n])\n"
    "                                 : mine[lane] + mine[lane + n];\n"
    "    }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    x = mine[0];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    return x;\n"
    "}\n"
    "\n"
    "#ifdef STEPS\n"
    "/* The logarithm of a sum of numbers by their logarithms; minus infinity is that of 0. */\n"
    "float add(float a, float b, float c)\n"
    "{\n"
    "    float most = larger(larger(a, b), c), base = larger(-FLT_MAX, most);\n"
    "    return most + log(exp(a - base) + exp(b - base) + exp(c - base));\n"
    "}\n"
    "\n"
    "void clear(global float *grad)\n"
    "{\n"
    "    for (int i = get_local_id(1) * LANES + get_local_id(0); i < STEPS * CLASSES;\n"
    "         i += LANES * LINES)\n"
    "        grad[i] = 0;\n"
    "}\n"
    "\n"
    "/* Work-item s has the state s of the recursions: a blank where s is even, else a symbol. "
    "The\n"
    " * rows of the step before or after have two impossible states at both ends. */\n"
    "SHAPE kernel void ctc(const global float *logits, const global int *targets,\n"
    "                      global float *scratch, global float *losses, global float *grad)\n"
    "{\n"
    "    local float room[LINES * LANES], rows[2][STATES + 4];\n"
    "    local int label[LABELS + 1];\n"
    "    int sample = get_group_id(1), lane = get_local_id(0), line = get_local_id(1);\n"
    "    int s = line * LANES + lane;\n"
    "    const global int *target = targets + sample * (2 + LABELS);\n"
    "    int length = target[0], states = 2 * length + 1;\n"
    "    float weight = as_float(target[1]);\n"
    "    /* Of each step: its states' logarithms; what its softmax subtracts, in two parts. */\n"
    "    global float *ways = scratch + (size_t)sample * STEPS * (STATES + 2);\n"
    "    global float *norms = ways + STEPS * STATES;\n"
    "    logits += (size_t)sample * STEPS * CLASSES;\n"
    "    grad += (size_t)sample * STEPS * CLASSES;\n"
    "    if (length < 0) {\n"
    "        if (s == 0)\n"
    "            losses[sample] = length == -1 ? 0 : INFINITY;\n"
    "        clear(grad);\n"
    "        return;\n"
    "    }\n"
    "    if (s < length)\n"
    "        label[s] = target[2 + s];\n"
    "    if (s < 4)\n"
    "        rows[s / 2][s % 2] = -INFINITY;\n"
    "    for (int first = 0; first < STEPS; first += LINES) {\n"
    "        int t = first + line;\n"
    "        const global float *from = logits + t * CLASSES;\n"
    "        global float *to = grad + t * CLASSES;\n"
    "        int end = t < STEPS ? CLASSES : 0;\n"
    "        float most = -INFINITY, sum = 0;\n"
    "        for (int k = lane; k < end; k += LANES)\n"
    "            most = larger(most, from[k]);\n"
    "        most = of_line(room, most, true);\n"
    "        for (int k = lane; k < end; k += LANES)\n"
    "            sum += to[k] = exp(from[k] - most);\n"
    "        sum = of_line(room, sum, false);\n"
    "        for (int k = lane; k < end; k += LANES)\n"
    "            to[k] *= weight / sum;\n"
    "        if (end && lane == 0) {\n"
    "            norms[2 * t] = most;\n"
    "            norms[2 * t + 1] = log(sum);\n"
    "        }\n"
    "    }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
    "\n"
    "    bool is_state = s < states;\n"
    "    int symbol = is_state && s % 2 ? label[s / 2] : BLANK;\n"
    "    bool from_two = is_state && s % 2 && s > 1 && label[s / 2 - 1] != symbol;\n"
    "    bool to_two = s % 2 && s + 2 < states && label[s / 2 + 1] != symbol;\n"
    "    float way = -INFINITY;\n"
    "#define EMITS(t) ((logits[(t) * CLASSES + symbol] - norms[2 * (t)]) - norms[2 * (t) + 1])\n"
    "    for (int t = 0; t < STEPS; t++) {\n"
    "        const local float *before = rows[(t + 1) % 2];\n"
    "        if (is_state) {\n"
    "            if (t)\n"
    "                way = add(way, before[s + 1], from_two ? before[s] : -INFINITY) + EMITS(t);\n"
    "            else\n"
    "                way = s < 2 ? EMITS(0) : -INFINITY;\n"
    "            ways[t * STATES + s] = way;\n"
    "        }\n"
    "        if (s < states + 2)\n"
    "            rows[t % 2][s + 2] = is_state ? way : -INFINITY;\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    const local float *last = rows[(STEPS + 1) % 2] + 2;\n"
    "    float total = add(last[states - 1], last[states - 2], -INFINITY);\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (s == 0)\n"
    "        losses[sample] = -total;\n"
    "    if (total == -INFINITY) {\n"
    "        clear(grad);\n"
    "        return;\n"
    "    }\n"
    "\n"
    "    /* A step's symbol counts once, and is in the ways to the state and in those from it. */\n"
    "    for (int t = STEPS - 1; t >= 0; t--) {\n"
    "        const local float *after = rows[(t + 1) % 2];\n"
    "        if (is_state) {\n"
    "            float emits = EMITS(t), to = ways[t * STATES + s];\n"
    "            if (t < STEPS - 1)\n"
    "                way = add(way, after[s + 3], to_two ? after[s + 4] : -INFINITY) + emits;\n"
    "            else\n"
    "                way = s < states - 2 ? -INFINITY : emits;\n"
    "            ways[t * STATES + s] = to == -INFINITY ? to : to + (way - emits);\n"
    "        }\n"
    "        if (s < states + 2)\n"
    "            rows[t % 2][s + 2] = is_state ? way : -INFINITY;\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n"
    "\n"
    "    /* The softmax minus the expected alignment. A step is divided by its own sum and not by\n"
    "     * P(label): they are equal but for rounding, and so its gradient sums to zero. */\n"
    "    for (int first = 0; first < STEPS; first += LINES) {\n"
    "        int t = first + line;\n"
    "        global float *at = ways + t * STATES, *to = grad + t * CLASSES;\n"
    "        int end = t < STEPS ? states : 0;\n"
    "        float most = -INFINITY, sum = 0;\n"
    "        for (int i = lane; i < end; i += LANES)\n"
    "            most = larger(most, at[i]);\n"
    "        most = of_line(room, most, true);\n"
    "        for (int i = lane; i < end; i += LANES)\n"
    "            sum += at[i] = exp(at[i] - most);\n"
    "        sum = of_line(room, sum, false);\n"
    "        barrier(CLK_GLOBAL_MEM_FENCE);\n"
    "        for (int i = lane; end && i < length; i += LANES) {\n"
    "            float part = 0;\n"
    "            bool again = false;\n"
    "            for (int j = 0; j < length; j++) {\n"
    "                again = again || (j < i && label[j] == label[i]);\n"
    "                part += label[j] == label[i] ? at[2 * j + 1] : 0;\n"
    "            }\n"
    "            if (!again)\n"
    "                to[label[i]] -= weight / sum * part;\n"
    "        }\n"
    "        if (end && lane == LANES - 1) {\n"
    "            float part = 0;\n"
    "            for (int i = 0; i < states; i += 2)\n"
    "                part += at[i];\n"
    "            to[BLANK] -= weight / sum * part;\n"
    "        }\n"
    "    }\n"
    "}\n"
    "#else\n"
    "SHAPE kernel void softmax(const global float *logits, const global int *targets,\n"
    "                          global float *losses, global float *grad)\n"
    "{\n"
    "    local float room[LANES];\n"
    "    int sample = get_group_id(1), lane = get_local_id(0);\n"
    "    const global int *target = targets + sample * WORDS;\n"
    "    int first = target[0], second = target[1];\n"
    "    float first_weight = as_float(target[2]), second_weight = as_float(target[3]);\n"
    "    float every = as_float(target[4]), weight = as_float(target[5]);\n"
    "    logits += (size_t)sample * CLASSES;\n"
    "    grad += (size_t)sample * CLASSES;\n"
    "    if (first < 0) {\n"
    "        if (lane == 0)\n"
    "            losses[sample] = 0;\n"
    "        for (int k = lane; k < CLASSES; k += LANES)\n"
    "            grad[k] = 0;\n"
    "        return;\n"
    "    }\n"
    "    float most = -INFINITY, sum = 0, all = 0;\n"
    "    for (int k = lane; k < CLASSES; k += LANES)\n"
    "        most = larger(most, logits[k]);\n"
    "    most = of_line(room, most, true);\n"
    "    for (int k = lane; k < CLASSES; k += LANES) {\n"
    "        sum += exp(logits[k] - most);\n"
    "        all += logits[k] - most;\n"
    "    }\n"
    "    sum = of_line(room, sum, false);\n"
    "    all = of_line(room, all, false);\n"
    "    for (int k = lane; k < CLASSES; k += LANES) {\n"
    "        float wanted = every + (k == first ? first_weight : 0) +\n"
    "                       (k == second ? second_weight : 0);\n"
    "        grad[k] = (exp(logits[k] - most) / sum - wanted) * weight;\n"
    "    }\n"
    "    if (lane == 0) {\n"
    "        float expected = first_weight * (logits[first] - most) +\n"
    "                         second_weight * (logits[second] - most);\n"
    "        losses[sample] = log(sum) - (every > 0 ? expected + every * all : expected);\n"
    "    }\n"
    "}\n"
    "#endif\n";

struct xt_xpu_loss {
    struct xt_device *device;
    size_t words; /* of a sample */
    struct xt_device_memory host_targets, targets, scratch, losses, host_losses;
    struct xt_device_memory scratchpad;
    struct xt_program program;
};

static int states_of(const struct xt_xpu_loss_config *config)
{
    return 2 * config->labels + 1;
}

static const struct xt_own_program *code_of(const struct xt_graph *graph,
                                            const struct xt_xpu_loss_config *config)
{
    char options[256];
    if (config->steps)
        snprintf(options, sizeof options,
                 "-DLANES=%d -DLINES=%d -DSTEPS=%d -DCLASSES=%d -DLABELS=%d "
                 "-DSTATES=%d -DBLANK=%d",
                 CTC_LANES, CTC_LINES, config->steps, graph->logits->c, config->labels,
                 states_of(config), config->blank);
    else
        snprintf(options, sizeof options, "-DLANES=%d -DLINES=1 -DCLASSES=%d -DWORDS=%d",
                 SOFTMAX_LANES, graph->logits->c, XT_SOFTMAX_WORDS);
    return xt_own_program(graph->options.device, config->steps ? "CTC" : "cross entropy", source,
                          options);
}

static enum xt_status allocate(struct xt_xpu_loss *loss, const struct xt_graph *graph,
                               const struct xt_xpu_loss_config *config, struct xt_err *err)
{
    size_t batch = (size_t)graph->options.batch;
    size_t steps = (size_t)config->steps;
    const struct {
        struct xt_device_memory *memory;
        size_t words;
        enum xt_place place;
    } all[] = {
        {&loss->host_targets, batch * loss->words, XT_ON_HOST},
        {&loss->targets, batch * loss->words, XT_ON_DEVICE},
        {&loss->scratch, batch * steps * (size_t)(states_of(config) + 2), XT_ON_DEVICE},
        {&loss->losses, batch, XT_ON_DEVICE},
        {&loss->host_losses, batch, XT_ON_HOST},
    };
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && !status; i++)
        status = xt_device_memory_create_bytes(loss->device, all[i].words * sizeof(float),
                                               all[i].place, "the loss", all[i].memory, err);
    return status;
}

static void add_copy(struct xt_xpu_loss *loss, const struct xt_device_memory *from,
                     const struct xt_device_memory *to)
{
    /* A copy of words, whatever they are. */
    struct xt_operand source_of =
        xt_operand_matrix(xt_in_memory(from), dnnl_s32, 1, from->bytes / sizeof(int32_t));
    struct xt_operand result = source_of;
    result.place = xt_in_memory(to);
    xt_program_reorder(&loss->program, XT_FORWARD, &source_of, &result);
}

static void describe(struct xt_xpu_loss *loss, const struct xt_graph *graph,
                     const struct xt_xpu_loss_config *config, const struct xt_own_program *code)
{
    const struct xt_tensor *logits = graph->logits;
    size_t lanes = config->steps ? CTC_LANES : SOFTMAX_LANES;
    size_t lines = config->steps ? CTC_LINES : 1;
    const struct xt_own_launch launch = {.program = code,
                                         .kernel = config->steps ? "ctc" : "softmax",
                                         .global = {lanes, lines * (size_t)logits->n},
                                         .local = {lanes, lines}};
    int argument = 0;
    add_copy(loss, &loss->host_targets, &loss->targets);
    struct xt_step *step = xt_program_add_own(&loss->program, XT_FORWARD, &launch, "the loss");
    xt_step_arg(step, argument++, xt_in_buffer(logits->value));
    xt_step_arg(step, argument++, xt_in_memory(&loss->targets));
    if (config->steps)
        xt_step_arg(step, argument++, xt_in_memory(&loss->scratch));
    xt_step_arg(step, argument++, xt_in_memory(&loss->losses));
    xt_step_arg(step, argument++, xt_in_buffer(logits->grad[logits->readers - 1]));
    add_copy(loss, &loss->losses, &loss->host_losses);
}

enum xt_status xt_xpu_loss_create(struct xt_xpu_loss **out, struct xt_graph *graph,
                                  const struct xt_xpu_loss_config *config, struct xt_err *err)
{
    struct xt_xpu_loss *loss = NULL;
    struct xt_err failure = {0};
    const struct xt_own_program *code = code_of(graph, config);
    *out = NULL;
    /* The rows' states and their ends have a work-item each. */
    if (!code || states_of(config) + 2 > CTC_LANES * CTC_LINES)
        return XT_OK;
    enum xt_status status = xt_mem_calloc(&loss, 1, sizeof *loss, "the loss", err);
    if (status)
        return status;
    loss->device = graph->options.device;
    loss->words = config->steps ? XT_CTC_SYMBOLS + (size_t)config->labels : XT_SOFTMAX_WORDS;
    xt_program_init(&loss->program, loss->device, "the loss", &failure);
    status = allocate(loss, graph, config, err);
    if (!status)
        describe(loss, graph, config, code);
    if (!status)
        status = xt_programs_bind(&loss->program, 1, "the loss", &loss->scratchpad, err);
    if (status)
        xt_xpu_loss_destroy(loss);
    else
        *out = loss;
    return status;
}

void xt_xpu_loss_destroy(struct xt_xpu_loss *loss)
{
    if (!loss)
        return;
    xt_program_clear(&loss->program);
    struct xt_device_memory *all[] = {&loss->host_targets, &loss->targets,     &loss->scratch,
                                      &loss->losses,       &loss->host_losses, &loss->scratchpad};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        xt_device_memory_destroy(all[i]);
    free(loss);
}

int32_t *xt_xpu_loss_words(struct xt_xpu_loss *loss, int sample)
{
    return (int32_t *)loss->host_targets.host + (size_t)sample * loss->words;
}

enum xt_status xt_xpu_loss_begin(struct xt_xpu_loss *loss, struct xt_err *err)
{
    xt_traffic_add(loss->device, XT_CAUSE_LABELS, true, loss->targets.bytes);
    xt_traffic_add(loss->device, XT_CAUSE_LOSSES, false, loss->losses.bytes);
    enum xt_status status = xt_program_run(&loss->program, XT_FORWARD, err);
    return status ? status : xt_own_mark(loss->device, err);
}

enum xt_status xt_xpu_loss_wait(struct xt_xpu_loss *loss, const float **losses, struct xt_err *err)
{
    *losses = loss->host_losses.host;
    return xt_own_wait(loss->device, err);
}
