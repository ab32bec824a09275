#include "engine/ops/layout_kernel.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "device/kernels/own.h"
#include "engine/form.h"

/* A work-group of LANES work-items writes CHUNK elements of one copy, a work-item RUN neighbours.
 */
enum { LANES = 256, RUN = 8, CHUNK = LANES * RUN };

/* The kernel's struct of the same name. */
struct copy {
    uint32_t first; /* work-group */
    uint32_t is_f32;
    uint32_t from, to; /* where it begins, as float32 numbers */
    uint32_t count;    /* elements, padding included */
    struct xt_form source, target;
};

struct xt_layouts {
    struct copy *copies;
    int *params; /* of each copy */
    size_t **at; /* [count], each its own: `to`, for locations */
    size_t capacities[3];
    size_t count;
    size_t chunks;
    struct xt_buffer *memory; /* all copies */
    struct xt_device_memory table;
};

static const char what[] = "the weights' copies";

static const char source[] =
    "struct form { uint dims[DIMS], outer[DIMS], strides[DIMS], blocks, axis[BLOCKS],\n"
    "              log2[BLOCKS]; };\n"
    "struct copy { uint first, is_f32, from, to, count; struct form source, target; };\n"
    "\n"
    "#ifdef F16\n"
    "typedef half number;\n"
    "void store(global number *p, float x) { vstore_half_rte(x, 0, p); }\n"
    "#else\n"
    "typedef ushort number; /* bf16 */\n"
    "void store(global number *p, float x)\n"
    "{\n"
    "    uint u = as_uint(x);\n"
    "    *p = isnan(x) ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;\n"
    "}\n"
    "#endif\n"
    "\n"
    "/* The copy that the work-group belongs to. */\n"
    "const global struct copy *find(const global struct copy *copies, int count)\n"
    "{\n"
    "    int low = 0, high = count - 1;\n"
    "    while (low < high) {\n"
    "        int middle = (low + high + 1) / 2;\n"
    "        if (copies[middle].first <= get_group_id(0))\n"
    "            low = middle;\n"
    "        else\n"
    "            high = middle - 1;\n"
    "    }\n"
    "    return copies + low;\n"
    "}\n"
    "\n"
    "uint place(const global struct form *form, uint *at)\n"
    "{\n"
    "    uint place = 0, shift = 0;\n"
    "    for (int b = form->blocks; b-- > 0;) {\n"
    "        uint axis = form->axis[b], log2 = form->log2[b];\n"
    "        place += (at[axis] & ((1u << log2) - 1)) << shift;\n"
    "        at[axis] >>= log2;\n"
    "        shift += log2;\n"
    "    }\n"
    "    for (int i = 0; i < DIMS; i++)\n"
    "        place += at[i] * form->strides[i];\n"
    "    return place;\n"
    "}\n"
    "\n"
    "__attribute__((reqd_work_group_size(LANES, 1, 1)))\n"
    "kernel void copy_weights(const global float *values, global float *copies,\n"
    "                         const global struct copy *table, int count)\n"
    "{\n"
    "    const global struct copy *copy = find(table, count);\n"
    "    const global struct form *form = &copy->target;\n"
    "    const global float *from = values + copy->from;\n"
    "    global float *to = copies + copy->to;\n"
    "    uint first = (get_group_id(0) - copy->first) * LANES * RUN + get_local_id(0) * RUN;\n"
    "    uint bits = 0, block = 0, outer[DIMS];\n"
    "    for (int b = 0; b < form->blocks; b++)\n"
    "        bits += form->log2[b];\n"
    "    for (uint e = first; e < first + RUN && e < copy->count; e++) {\n"
    "        uint at[DIMS], shift = bits;\n"
    "        bool inside = true;\n"
    "        if (e == first || e >> bits != block) {\n"
    "            block = e >> bits;\n"
    "            for (int i = 0; i < DIMS; i++)\n"
    "                outer[i] = form->outer[i] > 1 ? e / form->strides[i] % form->outer[i] : 0;\n"
    "        }\n"
    "        for (int i = 0; i < DIMS; i++)\n"
    "            at[i] = outer[i];\n"
    "        for (int b = 0; b < form->blocks; b++) {\n"
    "            uint axis = form->axis[b], log2 = form->log2[b];\n"
    "            shift -= log2;\n"
    "            at[axis] = at[axis] << log2 | (e >> shift & ((1u << log2) - 1));\n"
    "        }\n"
    "        for (int i = 0; i < DIMS; i++)\n"
    "            inside = inside && at[i] < form->dims[i];\n"
    "        float value = inside ? from[place(&copy->source, at)] : 0;\n"
    "        if (copy->is_f32)\n"
    "            to[e] = value;\n"
    "        else\n"
    "            store((global number *)to + e, value);\n"
    "    }\n"
    "}\n";

static const struct xt_own_program *code_of(const struct xt_graph *graph)
{
    char options[128];
    snprintf(options, sizeof options, "-DDIMS=%d -DBLOCKS=%d -DLANES=%d -DRUN=%d%s", XT_FORM_DIMS,
             XT_FORM_BLOCKS, LANES, RUN, graph->options.dtype == XT_F16 ? " -DF16" : "");
    return xt_own_program(graph->options.device, what, source, options);
}

bool xt_layout_kernel_is(const struct xt_graph *graph)
{
    return code_of(graph) != NULL;
}

/* Room for one more. */
static bool grow(struct xt_graph *graph)
{
    struct xt_layouts *layouts = graph->layouts;
    struct xt_err *err = &graph->err;
    if (!layouts && xt_mem_calloc(&graph->layouts, 1, sizeof *layouts, what, err))
        return false;
    layouts = graph->layouts;
    size_t count = layouts->count + 1;
    if (!layouts->memory)
        layouts->memory = xt_graph_permanent(graph, "the parameters", XT_WORKING_WEIGHTS, 0);
    return layouts->memory &&
           !xt_mem_grow(&layouts->copies, &layouts->capacities[0], count, sizeof *layouts->copies,
                        what, err) &&
           !xt_mem_grow(&layouts->params, &layouts->capacities[1], count, sizeof *layouts->params,
                        what, err) &&
           !xt_mem_grow(&layouts->at, &layouts->capacities[2], count, sizeof *layouts->at, what,
                        err) &&
           !xt_mem_calloc(&layouts->at[layouts->count], 1, sizeof **layouts->at, what, err);
}

bool xt_layout_kernel_copy(struct xt_graph *graph, int param, const_dnnl_memory_desc_t from,
                           const_dnnl_memory_desc_t to, struct xt_location *at)
{
    enum { UNIT = 64 };
    struct copy copy = {.first = 0};
    dnnl_data_type_t dtype = dnnl_data_type_undef;
    if (!xt_layout_kernel_is(graph) || !xt_form_of(from, &copy.source) ||
        !xt_form_of(to, &copy.target) ||
        xt_dnnl.memory_desc_query(to, dnnl_query_data_type, &dtype) != dnnl_success ||
        (dtype != dnnl_f32 && dtype != xt_dtype_dnnl(graph->options.dtype)) || !grow(graph))
        return false;
    struct xt_layouts *layouts = graph->layouts;
    size_t *place = layouts->at[layouts->count];
    copy.first = (uint32_t)layouts->chunks;
    copy.is_f32 = dtype == dnnl_f32;
    copy.count = (uint32_t)xt_form_count(&copy.target);
    *place = layouts->memory->bytes / sizeof(float);
    copy.to = (uint32_t)*place;
    layouts->memory->bytes += (xt_layout_bytes(to) + UNIT - 1) / UNIT * UNIT;
    layouts->chunks += (copy.count + CHUNK - 1) / CHUNK;
    layouts->copies[layouts->count] = copy;
    layouts->params[layouts->count++] = param;
    *at = (struct xt_location){.buffer = layouts->memory, .floats_before = place};
    return true;
}

void xt_layout_kernel_describe(struct xt_graph *graph)
{
    struct xt_layouts *layouts = graph->layouts;
    if (!layouts)
        return;
    const struct xt_own_launch launch = {.program = code_of(graph),
                                         .kernel = "copy_weights",
                                         .global = {layouts->chunks * LANES, 1},
                                         .local = {LANES, 1}};
    struct xt_step *step = xt_program_add_own(&graph->transfer, XT_BEFORE, &launch, what);
    xt_step_arg(step, 0, xt_in_memory(&graph->options.params->device.values));
    xt_step_arg(step, 1, xt_in_buffer(layouts->memory));
    xt_step_arg(step, 2, xt_in_memory(&layouts->table));
    xt_step_number(step, 3, (uint32_t)layouts->count);
}

enum xt_status xt_layout_kernel_write(struct xt_graph *graph, struct xt_err *err)
{
    struct xt_layouts *layouts = graph->layouts;
    if (!layouts)
        return XT_OK;
    for (size_t i = 0; i < layouts->count; i++)
        layouts->copies[i].from = (uint32_t)graph->options.params->items[layouts->params[i]].offset;
    size_t bytes = layouts->count * sizeof *layouts->copies;
    enum xt_status status = xt_device_memory_create_bytes(graph->options.device, bytes,
                                                          XT_ON_DEVICE, what, &layouts->table, err);
    return status ? status
                  : xt_device_memory_write(&layouts->table, layouts->copies, bytes, XT_CAUSE_OTHER,
                                           err);
}

void xt_layout_kernel_clear(struct xt_graph *graph)
{
    struct xt_layouts *layouts = graph->layouts;
    if (!layouts)
        return;
    xt_device_memory_destroy(&layouts->table);
    for (size_t i = 0; i < layouts->count; i++)
        free(layouts->at[i]);
    free(layouts->copies);
    free(layouts->params);
    free(layouts->at);
    free(layouts);
}
