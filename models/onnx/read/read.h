/* Reads a network from an ONNX file: a net, and what its parameters begin as.
 *
 * Opsets 7 to 25 as PyTorch's exporters write them: docs/networks.md says what is read. Everything
 * in the file is checked before it is used; XT_ERR_DATA names the file and what of it cannot be
 * read. Different files may be read from different threads.
 */
#pragma once

#include "engine/net/net.h"
#include "models/weights/weight_store.h"

struct xt_onnx_net {
    struct xt_net *net; /* finished; one sample's logits are [1][1][classes] or [1][T][symbols] */
    struct xt_weight_file weights; /* float32, under the net's names; metadata as in the file */
    bool folded;        /* its batch norms seem to have become part of its convolutions */
    bool may_be_folded; /* they may have: the exporter is not known, and there are none */
    bool normalises;    /* it normalises pixels itself */
    bool reads_bytes;   /* as only numbers from 0 to 255 need it */
    size_t renamed;     /* parameters that the file has under other names than PyTorch's */
    size_t missing;     /* that PyTorch's network has and the file has not */
    char first_missing[XT_PARAM_NAME_MAX];
    bool splits;          /* some begin as others do, with which the file stores them */
    bool ends_in_softmax; /* which was left off, as the loss and predict do it */
};

/* Clear it also after a failure. side: of the images, where the file leaves their size open; 0:
 * such a file is refused. */
enum xt_status xt_onnx_read(struct xt_onnx_net *out, const char *path, int side,
                            struct xt_err *err);
/* As above from memory (fuzzing, tests). `name` is for messages; tensors in other files are
 * refused. */
enum xt_status xt_onnx_read_bytes(struct xt_onnx_net *out, const uint8_t *bytes, size_t size,
                                  const char *name, struct xt_err *err);
void xt_onnx_net_clear(struct xt_onnx_net *net);
