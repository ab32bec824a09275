/* An ONNX file as protobuf-c's structs, and its tensors: every size that it claims is checked
 * before it is believed.
 *
 * protobuf-c unpacks by recursion and merges what comes twice, so the wire format is walked first:
 * how deep messages lie in each other is limited, and a message that may come once comes once. What
 * unpacking takes of memory is limited by the file's size. Different files may be read from
 * different threads.
 */
#pragma once

#include <onnx.pb-c.h>

#include "base/err.h"
#include "models/weights/weight_store.h"

/* protobuf takes no message of 2 GiB; what is larger has its tensors in files of their own. */
#define XT_ONNX_FILE_MAX (((size_t)1 << 31) - 1)

struct xt_onnx_file {
    Onnx__ModelProto *model;
    char *folder;    /* where tensors in files of their own may lie; NULL: nowhere */
    char *signature; /* what PyTorch's newer exporter says of the tensors (signature.c); NULL:
                        nothing */
    size_t held;     /* bytes that unpacking took */
    size_t most;     /* that it may take */
};

/* The caller closes it, also after a failure. */
enum xt_status xt_onnx_file_open(struct xt_onnx_file *file, const char *path, struct xt_err *err);
enum xt_status xt_onnx_file_parse(struct xt_onnx_file *file, const uint8_t *bytes, size_t size,
                                  struct xt_err *err);
void xt_onnx_file_close(struct xt_onnx_file *file);

/* The tensor's type and shape, with its data where the file has it, or read into memory of `store`
 * where another file has it. `out->name` is the file's. */
enum xt_status xt_onnx_tensor(const struct xt_onnx_file *file, const Onnx__TensorProto *proto,
                              struct xt_weight_file *store, struct xt_file_tensor *out,
                              struct xt_err *err);
/* One element of it. */
double xt_onnx_tensor_number(const struct xt_file_tensor *tensor, size_t index);
