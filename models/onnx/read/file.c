#include "models/onnx/read/file.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { DEPTH_MAX = 24, VARINT_MAX = 10 };

/* ---- the wire format ---- */

struct wire {
    const uint8_t *at, *end;
};

static bool read_varint(struct wire *wire, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < VARINT_MAX && wire->at < wire->end; i++) {
        uint8_t byte = *wire->at++;
        *out |= (uint64_t)(byte & 0x7f) << (7 * i);
        if (byte < 0x80)
            return true;
    }
    return false;
}

/* A field's bytes, which the wire goes past. */
static bool read_field(struct wire *wire, unsigned type, struct wire *out)
{
    enum { VARINT = 0, FIXED64 = 1, LENGTH = 2, FIXED32 = 5 };
    uint64_t size = type == FIXED64 ? 8 : 4;
    out->at = wire->at;
    if (type == VARINT)
        return read_varint(wire, &size);
    if (type == LENGTH && !read_varint(wire, &size))
        return false;
    if ((type != LENGTH && type != FIXED64 && type != FIXED32) ||
        size > (uint64_t)(wire->end - wire->at))
        return false;
    out->at = wire->at;
    out->end = wire->at += size;
    return true;
}

/* Which of the kind's fields has come by; one bit for each, so that a second one is seen. */
static bool is_second(const ProtobufCMessageDescriptor *kind, const ProtobufCFieldDescriptor *field,
                      uint64_t *seen)
{
    uint64_t bit = 1ULL << ((field - kind->fields) % 64);
    bool second = field->label != PROTOBUF_C_LABEL_REPEATED && (*seen & bit);
    *seen |= bit;
    return second;
}

static const char *check_message(struct wire wire, const ProtobufCMessageDescriptor *kind,
                                 int depth)
{
    uint64_t seen = 0;
    if (depth == 0)
        return "its messages are nested too deeply";
    while (wire.at < wire.end) {
        uint64_t tag = 0;
        struct wire inner;
        if (!read_varint(&wire, &tag) || !read_field(&wire, (unsigned)(tag & 7), &inner))
            return "it is cut short or damaged";
        const ProtobufCFieldDescriptor *field =
            tag >> 3 <= UINT32_MAX
                ? protobuf_c_message_descriptor_get_field(kind, (unsigned)(tag >> 3))
                : NULL;
        if (!field || field->type != PROTOBUF_C_TYPE_MESSAGE)
            continue;
        if ((tag & 7) != 2)
            return "a message of it is no message";
        if (is_second(kind, field, &seen))
            return "a message that may come once comes twice";
        const char *wrong =
            check_message(inner, (const ProtobufCMessageDescriptor *)field->descriptor, depth - 1);
        if (wrong)
            return wrong;
    }
    return NULL;
}

/* ---- what the schema may not know yet ---- */

/* The next field of that number that has bytes; false: there is none. */
static bool next_field(struct wire *wire, uint64_t number, struct wire *out)
{
    enum { LENGTH = 2 };
    uint64_t tag = 0;
    while (wire->at < wire->end && read_varint(wire, &tag) &&
           read_field(wire, (unsigned)(tag & 7), out))
        if (tag == (number << 3 | LENGTH))
            return true;
    return false;
}

/* Keeps that entry of the graph's metadata_props, which schemas have since ONNX 1.16: its numbers
 * are those of ModelProto.graph, GraphProto.metadata_props, StringStringEntryProto.key and .value.
 */
static enum xt_status keep_signature(struct xt_onnx_file *file, struct wire model,
                                     struct xt_err *err)
{
    static const char wanted[] = "pkg.torch.export.ExportedProgram.graph_signature";
    struct wire graph, entry, key, value;
    bool found = false;
    bool has_graph = next_field(&model, 7, &graph);
    while (has_graph && !found && next_field(&graph, 16, &entry)) {
        struct wire rest = entry;
        found = next_field(&entry, 1, &key) && next_field(&rest, 2, &value) &&
                (size_t)(key.end - key.at) == sizeof wanted - 1 &&
                memcmp(key.at, wanted, sizeof wanted - 1) == 0;
    }
    size_t length = found ? (size_t)(value.end - value.at) : 0;
    enum xt_status status =
        found ? xt_mem_calloc(&file->signature, length + 1, 1, "the ONNX model", err) : XT_OK;
    if (found && !status)
        memcpy(file->signature, value.at, length);
    return status;
}

/* ---- memory that unpacking takes ---- */

static void *take(void *context, size_t size)
{
    struct xt_onnx_file *file = context;
    if (size > file->most - file->held)
        return NULL;
    file->held += size;
    return malloc(size ? size : 1);
}

static void give_back(void *context, void *memory)
{
    (void)context;
    free(memory);
}

static ProtobufCAllocator allocator_of(struct xt_onnx_file *file)
{
    return (ProtobufCAllocator){take, give_back, file};
}

/* ---- the file ---- */

enum xt_status xt_onnx_file_parse(struct xt_onnx_file *file, const uint8_t *bytes, size_t size,
                                  struct xt_err *err)
{
    /* A message of two bytes takes up to a hundred in memory; a model's text is some megabytes. */
    enum { TEXT_ROOM = 256 << 20 };
    const struct wire wire = {bytes, bytes + size};
    const char *wrong =
        size ? check_message(wire, &onnx__model_proto__descriptor, DEPTH_MAX) : "it is empty";
    ProtobufCAllocator allocator = allocator_of(file);
    if (wrong)
        return xt_err_set(err, XT_ERR_DATA, "it is no ONNX model: %s", wrong);
    file->held = 0;
    file->most = 2 * size + TEXT_ROOM;
    file->model = onnx__model_proto__unpack(&allocator, size, bytes);
    if (!file->model || !file->model->graph)
        return xt_err_set(err, XT_ERR_DATA, "it is no ONNX model: %s",
                          file->model ? "it has no graph" : "it is damaged");
    return keep_signature(file, wire, err);
}

enum xt_status xt_onnx_file_open(struct xt_onnx_file *file, const char *path, struct xt_err *err)
{
    struct xt_bytes bytes = {0};
    *file = (struct xt_onnx_file){0};
    enum xt_status status = xt_file_load(path, XT_ONNX_FILE_MAX, &bytes, err);
    const char *name = xt_file_name(path);
    if (!status)
        status = xt_mem_strdup(&file->folder, name == path ? "." : path, err);
    if (!status && name != path)
        file->folder[name - path] = 0;
    if (!status)
        status = xt_onnx_file_parse(file, bytes.data, bytes.size, err);
    free(bytes.data);
    return status;
}

void xt_onnx_file_close(struct xt_onnx_file *file)
{
    ProtobufCAllocator allocator = allocator_of(file);
    if (file->model)
        onnx__model_proto__free_unpacked(file->model, &allocator);
    free(file->folder);
    free(file->signature);
    *file = (struct xt_onnx_file){0};
}
