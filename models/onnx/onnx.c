#include "models/onnx/onnx.h"

#include <onnx.pb-c.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

/* The model's allocations, each followed by its bytes. */
struct block {
    struct block *next;
    max_align_t bytes[];
};

/* protobuf's lists are an array of pointers and a count. */
struct list {
    void **items;
    size_t count;
};

struct xt_onnx {
    struct xt_err err;
    struct block *blocks;
    struct list nodes, constants, inputs, outputs, meta;
    char *name;
    struct xt_onnx_version version;
};

/* The limit of a protobuf message. */
static const size_t file_most = ((size_t)1 << 31) - 1;

enum xt_status xt_onnx_create(struct xt_onnx **out, const char *name, struct xt_err *err)
{
    enum xt_status status = xt_mem_calloc(out, 1, sizeof **out, "the ONNX model", err);
    if (!status)
        status = xt_mem_strdup(&(*out)->name, name, err);
    if (!status)
        (*out)->version = (struct xt_onnx_version){XT_ONNX_OPSET, XT_ONNX_IR};
    return status;
}

void xt_onnx_want(struct xt_onnx *onnx, struct xt_onnx_version least)
{
    if (onnx->version.opset < least.opset)
        onnx->version = least;
}

struct xt_onnx_version xt_onnx_version(const struct xt_onnx *onnx)
{
    return onnx->version;
}

void xt_onnx_destroy(struct xt_onnx *onnx)
{
    if (!onnx)
        return;
    for (struct block *block = onnx->blocks, *next = NULL; block; block = next) {
        next = block->next;
        free(block);
    }
    struct list *lists[] = {&onnx->nodes, &onnx->constants, &onnx->inputs, &onnx->outputs,
                            &onnx->meta};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        free(lists[i]->items);
    free(onnx->name);
    free(onnx);
}

bool xt_onnx_fails(const struct xt_onnx *onnx)
{
    return onnx->err.status != XT_OK;
}

void xt_onnx_refuse(struct xt_onnx *onnx, enum xt_status status, const char *format, ...)
{
    char text[sizeof onnx->err.text];
    va_list args;
    if (xt_onnx_fails(onnx))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    xt_err_set(&onnx->err, status, "%s", text);
}

/* Zeroed memory that lives as long as the model; NULL after a failure. */
static void *take(struct xt_onnx *onnx, size_t count, size_t size)
{
    struct block *block = NULL;
    if (xt_onnx_fails(onnx))
        return NULL;
    if (size && count > (SIZE_MAX - sizeof *block) / size) {
        xt_err_no_memory(&onnx->err, "the ONNX model", SIZE_MAX);
        return NULL;
    }
    if (xt_mem_calloc(&block, 1, sizeof *block + count * size, "the ONNX model", &onnx->err))
        return NULL;
    block->next = onnx->blocks;
    onnx->blocks = block;
    return block->bytes;
}

static char *copy(struct xt_onnx *onnx, const char *text)
{
    size_t size = strlen(text) + 1;
    char *out = take(onnx, size, 1);
    if (out)
        memcpy(out, text, size);
    return out;
}

static void append(struct xt_onnx *onnx, struct list *list, void *item)
{
    if (item &&
        !xt_mem_add(&list->items, list->count, sizeof *list->items, "the ONNX model", &onnx->err))
        list->items[list->count++] = item;
}

/* ---- nodes ---- */

static bool is_taken(const struct xt_onnx *onnx, const char *name)
{
    for (size_t i = 0; i < onnx->nodes.count; i++)
        if (strcmp(((const Onnx__NodeProto *)onnx->nodes.items[i])->output[0], name) == 0)
            return true;
    for (size_t i = 0; i < onnx->constants.count; i++)
        if (strcmp(((const Onnx__TensorProto *)onnx->constants.items[i])->name, name) == 0)
            return true;
    return false;
}

/* `name`, with a number appended where it is taken. */
static char *unique(struct xt_onnx *onnx, const char *name)
{
    char text[XT_ONNX_NAME_MAX];
    snprintf(text, sizeof text, "%.140s", name);
    for (int i = 2; is_taken(onnx, text); i++)
        snprintf(text, sizeof text, "%.140s_%d", name, i);
    return copy(onnx, text);
}

static Onnx__AttributeProto *add_attribute(struct xt_onnx *onnx,
                                           const struct xt_onnx_attribute *from)
{
    Onnx__AttributeProto *out = take(onnx, 1, sizeof *out);
    char *name = copy(onnx, from->name);
    int64_t *list = from->list ? take(onnx, from->count, sizeof *list) : NULL;
    char *text = from->text ? copy(onnx, from->text) : NULL;
    bool is_texts = text && from->count;
    ProtobufCBinaryData *texts = is_texts ? take(onnx, 1, sizeof *texts) : NULL;
    if (xt_onnx_fails(onnx))
        return NULL;
    onnx__attribute_proto__init(out);
    out->name = name;
    out->has_type = true;
    out->type = from->list   ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS
                : from->real ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT
                : is_texts   ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS
                : from->text ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING
                             : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    out->has_i = !from->list && !from->real && !from->text;
    out->i = from->number;
    out->has_f = from->real != NULL;
    out->f = from->real ? *from->real : 0;
    if (list)
        memcpy(list, from->list, from->count * sizeof *list);
    out->n_ints = from->list ? from->count : 0;
    out->ints = list;
    const ProtobufCBinaryData bytes = {.len = text ? strlen(text) : 0, .data = (uint8_t *)text};
    out->has_s = text && !is_texts;
    if (out->has_s)
        out->s = bytes;
    if (texts)
        *texts = bytes;
    out->n_strings = is_texts;
    out->strings = texts;
    return out;
}

static const char *add(struct xt_onnx *onnx, char *name, const struct xt_onnx_node *from)
{
    enum { ATTRIBUTES_MAX = sizeof from->attributes / sizeof *from->attributes };
    Onnx__NodeProto *node = take(onnx, 1, sizeof *node);
    char **names = take(onnx, XT_ONNX_INPUTS_MAX + XT_ONNX_OUTPUTS_MAX, sizeof *names);
    Onnx__AttributeProto **attributes = take(onnx, ATTRIBUTES_MAX, sizeof *attributes);
    char *type = copy(onnx, from->type);
    if (xt_onnx_fails(onnx))
        return "";
    onnx__node_proto__init(node);
    node->op_type = type;
    node->name = name;
    node->n_output = 1;
    node->output = &names[XT_ONNX_INPUTS_MAX];
    node->output[0] = name;
    for (; node->n_output <= (size_t)from->more_outputs; node->n_output++) {
        char more[XT_ONNX_NAME_MAX];
        snprintf(more, sizeof more, "%s:%zu", name, node->n_output);
        node->output[node->n_output] = copy(onnx, more);
    }
    node->input = names;
    for (; node->n_input < XT_ONNX_INPUTS_MAX && from->inputs[node->n_input]; node->n_input++)
        names[node->n_input] = copy(onnx, from->inputs[node->n_input]);
    node->attribute = attributes;
    for (; node->n_attribute < ATTRIBUTES_MAX && from->attributes[node->n_attribute].name;
         node->n_attribute++)
        attributes[node->n_attribute] = add_attribute(onnx, &from->attributes[node->n_attribute]);
    append(onnx, &onnx->nodes, node);
    return name;
}

const char *xt_onnx_add(struct xt_onnx *onnx, const char *name, const struct xt_onnx_node *node)
{
    return add(onnx, unique(onnx, name), node);
}

const char *xt_onnx_add_last(struct xt_onnx *onnx, const char *name,
                             const struct xt_onnx_node *node)
{
    if (is_taken(onnx, name))
        xt_onnx_refuse(onnx, XT_ERR_RUN, "two of the ONNX model's values are called %s", name);
    return add(onnx, copy(onnx, name), node);
}

/* ---- constants ---- */

static int type_of(enum xt_dtype dtype)
{
    static const int types[XT_DTYPE_COUNT] = {
        [XT_F32] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT,
        [XT_F16] = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16,
        [XT_BF16] = ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16,
        [XT_S8] = ONNX__TENSOR_PROTO__DATA_TYPE__INT8,
        [XT_U8] = ONNX__TENSOR_PROTO__DATA_TYPE__UINT8,
        [XT_F64] = ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE,
        [XT_I16] = ONNX__TENSOR_PROTO__DATA_TYPE__INT16,
        [XT_I32] = ONNX__TENSOR_PROTO__DATA_TYPE__INT32,
        [XT_I64] = ONNX__TENSOR_PROTO__DATA_TYPE__INT64,
        [XT_BOOL] = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL,
    };
    return types[dtype];
}

const char *xt_onnx_constant(struct xt_onnx *onnx, const char *name,
                             const struct xt_onnx_shape *shape, void *data)
{
    size_t count = 1;
    for (int i = 0; i < shape->ndims; i++)
        count *= (size_t)shape->dims[i];
    size_t bytes = count * xt_dtype_size(shape->dtype);
    Onnx__TensorProto *tensor = take(onnx, 1, sizeof *tensor);
    int64_t *dims = take(onnx, XT_ONNX_DIMS_MAX, sizeof *dims);
    uint8_t *numbers = take(onnx, bytes, 1);
    char *own_name = unique(onnx, name);
    memcpy(data, &(void *){xt_onnx_fails(onnx) ? NULL : numbers}, sizeof(void *));
    if (xt_onnx_fails(onnx))
        return "";
    onnx__tensor_proto__init(tensor);
    tensor->name = own_name;
    tensor->has_data_type = true;
    tensor->data_type = type_of(shape->dtype);
    memcpy(dims, shape->dims, (size_t)shape->ndims * sizeof *dims);
    tensor->n_dims = (size_t)shape->ndims;
    tensor->dims = dims;
    tensor->has_raw_data = true;
    tensor->raw_data = (ProtobufCBinaryData){.len = bytes, .data = numbers};
    append(onnx, &onnx->constants, tensor);
    return own_name;
}

const char *xt_onnx_number(struct xt_onnx *onnx, const char *name, float value)
{
    float *data = NULL;
    const char *out = xt_onnx_constant(onnx, name, &(struct xt_onnx_shape){.dtype = XT_F32}, &data);
    if (data)
        *data = value;
    return out;
}

/* ---- inputs and outputs ---- */

static Onnx__TensorShapeProto *shape_of(struct xt_onnx *onnx, const struct xt_onnx_shape *from)
{
    size_t count = (size_t)from->ndims;
    Onnx__TensorShapeProto *out = take(onnx, 1, sizeof *out);
    Onnx__TensorShapeProto__Dimension *dims = take(onnx, count, sizeof *dims);
    Onnx__TensorShapeProto__Dimension **list = take(onnx, count, sizeof *list);
    char *batch = copy(onnx, "batch");
    if (xt_onnx_fails(onnx))
        return NULL;
    onnx__tensor_shape_proto__init(out);
    out->n_dim = count;
    out->dim = list;
    for (size_t i = 0; i < count; i++) {
        onnx__tensor_shape_proto__dimension__init(&dims[i]);
        list[i] = &dims[i];
        dims[i].value_case = from->dims[i] ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
                                           : ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        if (from->dims[i])
            dims[i].dim_value = from->dims[i];
        else
            dims[i].dim_param = batch;
    }
    return out;
}

static void add_value(struct xt_onnx *onnx, struct list *list, const char *name,
                      const struct xt_onnx_shape *shape)
{
    Onnx__ValueInfoProto *value = take(onnx, 1, sizeof *value);
    Onnx__TypeProto *type = take(onnx, 1, sizeof *type);
    Onnx__TypeProto__Tensor *tensor = take(onnx, 1, sizeof *tensor);
    Onnx__TensorShapeProto *dims = shape_of(onnx, shape);
    char *own_name = copy(onnx, name);
    if (xt_onnx_fails(onnx))
        return;
    onnx__value_info_proto__init(value);
    onnx__type_proto__init(type);
    onnx__type_proto__tensor__init(tensor);
    value->name = own_name;
    value->type = type;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    tensor->has_elem_type = true;
    tensor->elem_type = type_of(shape->dtype);
    tensor->shape = dims;
    append(onnx, list, value);
}

void xt_onnx_input(struct xt_onnx *onnx, const char *name, const struct xt_onnx_shape *shape)
{
    add_value(onnx, &onnx->inputs, name, shape);
}

void xt_onnx_output(struct xt_onnx *onnx, const char *name, const struct xt_onnx_shape *shape)
{
    add_value(onnx, &onnx->outputs, name, shape);
}

void xt_onnx_meta(struct xt_onnx *onnx, const char *key, const char *value)
{
    Onnx__StringStringEntryProto *entry = take(onnx, 1, sizeof *entry);
    char *own_key = copy(onnx, key);
    char *own_value = copy(onnx, value);
    if (xt_onnx_fails(onnx))
        return;
    onnx__string_string_entry_proto__init(entry);
    entry->key = own_key;
    entry->value = own_value;
    append(onnx, &onnx->meta, entry);
}

/* ---- the file ---- */

/* The buffer that protobuf writes to. */
struct sink {
    ProtobufCBuffer base;
    struct xt_file_writer *writer;
    enum xt_status status;
    struct xt_err *err;
    size_t used;
    uint8_t bytes[1 << 16]; /* protobuf appends a few at a time */
};

static void flush(struct sink *sink)
{
    if (!sink->status && sink->used)
        sink->status = xt_file_write(sink->writer, sink->bytes, sink->used, sink->err);
    sink->used = 0;
}

static void take_bytes(ProtobufCBuffer *base, size_t count, const uint8_t *bytes)
{
    struct sink *sink = (struct sink *)base;
    if (count > sizeof sink->bytes - sink->used)
        flush(sink);
    if (count <= sizeof sink->bytes) {
        memcpy(sink->bytes + sink->used, bytes, count);
        sink->used += count;
    } else if (!sink->status) {
        sink->status = xt_file_write(sink->writer, bytes, count, sink->err);
    }
}

static enum xt_status write_model(const Onnx__ModelProto *model, const char *path,
                                  struct xt_err *err)
{
    struct sink *sink = NULL;
    struct xt_file_writer writer = {0};
    enum xt_status status = xt_mem_calloc(&sink, 1, sizeof *sink, "the ONNX file", err);
    if (!status)
        status = xt_file_begin(&writer, path, err);
    if (!status) {
        sink->base.append = take_bytes;
        sink->writer = &writer;
        sink->err = err;
        protobuf_c_message_pack_to_buffer(&model->base, &sink->base);
        flush(sink);
        status = sink->status;
    }
    if (!status)
        status = xt_file_commit(&writer, err);
    xt_file_abandon(&writer);
    free(sink);
    return status;
}

enum xt_status xt_onnx_save(struct xt_onnx *onnx, const char *path, size_t *bytes,
                            struct xt_err *err)
{
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT;
    Onnx__OperatorSetIdProto *opsets[] = {&opset};
    char empty[] = "";
    char producer[] = "xtrain";
    char version[] = XT_VERSION;
    if (xt_onnx_fails(onnx)) {
        *err = onnx->err;
        return err->status;
    }
    opset.domain = empty;
    opset.has_version = true;
    opset.version = onnx->version.opset;
    graph.name = onnx->name;
    graph.n_node = onnx->nodes.count;
    graph.node = (Onnx__NodeProto **)onnx->nodes.items;
    graph.n_initializer = onnx->constants.count;
    graph.initializer = (Onnx__TensorProto **)onnx->constants.items;
    graph.n_input = onnx->inputs.count;
    graph.input = (Onnx__ValueInfoProto **)onnx->inputs.items;
    graph.n_output = onnx->outputs.count;
    graph.output = (Onnx__ValueInfoProto **)onnx->outputs.items;
    model.has_ir_version = true;
    model.ir_version = onnx->version.ir;
    model.producer_name = producer;
    model.producer_version = version;
    model.n_opset_import = 1;
    model.opset_import = opsets;
    model.graph = &graph;
    model.n_metadata_props = onnx->meta.count;
    model.metadata_props = (Onnx__StringStringEntryProto **)onnx->meta.items;
    *bytes = protobuf_c_message_get_packed_size(&model.base);
    if (*bytes > file_most)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s would take %zu bytes, and an ONNX file holds at most 2 GiB", path,
                          *bytes);
    return write_model(&model, path, err);
}
