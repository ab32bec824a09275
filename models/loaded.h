/* A network that is not built in: read at run time, from an ONNX file or from the description
 * stored in weights. The caller owns it; thread-safe for different ones.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "models/registry.h"
#include "models/weights/weight_store.h"

/* The metadata key of such a network's description in a weights file. */
#define XT_NET_TEXT_KEY "xtrain_net"

struct xt_loaded_model {
    struct xt_model_info info;
    char *name, *title, *text, *heads[XT_CLASS_LAYERS_MAX]; /* what info points to */
    /* From an ONNX file: initial values of its parameters, and its metadata. The caller may take
     * them.
     */
    struct xt_weight_file weights;
    bool folded;        /* its batch norms are folded into its convolutions */
    bool may_be_folded; /* it has none, and who wrote it may have folded them */
    size_t renamed;     /* its parameters that have lost PyTorch's names, */
    size_t missing;     /* that the file has not */
    char first_missing[XT_PARAM_NAME_MAX];
    bool splits; /* some begin as others do, with which the file stores them */
};

/* Whether --model or --init names an ONNX file rather than a network or weights. */
bool xt_model_is_file(const char *name);

/* side: of the images, where the file leaves their size open; 0: such a file is refused. */
enum xt_status xt_model_open(struct xt_loaded_model **out, const char *path, int side,
                             struct xt_err *err);
/* From text in the metadata of `where`, whose network is called `name`. */
enum xt_status xt_model_open_text(struct xt_loaded_model **out, const char *name, const char *text,
                                  const char *where, struct xt_err *err);
void xt_model_close(struct xt_loaded_model *model); /* NULL: nothing */

/* The network of that name, or of that file, which goes into *loaded (NULL else). */
enum xt_status xt_model_choose(const char *name, int side, struct xt_loaded_model **loaded,
                               const struct xt_model_info **out, struct xt_err *err);
