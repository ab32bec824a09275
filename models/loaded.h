/* A network that is no file of models/: read at run time, from an ONNX file or from the text that
 * weights carry. It lives as long as whoever opened it; thread-safe for different ones.
 */
#ifndef XT_MODELS_LOADED_H
#define XT_MODELS_LOADED_H

#include <stdbool.h>

#include "base/err.h"
#include "models/registry.h"
#include "models/weights/weight_store.h"

/* The key of a weights file's metadata under which such a network's description is. */
#define XT_NET_TEXT_KEY "xtrain_net"

struct xt_loaded_model {
    struct xt_model_info info;
    struct xt_class_layer layers[2];  /* the one of the classes, where there is one */
    char *name, *title, *text, *head; /* what info points to */
    /* From an ONNX file: what its parameters begin as, and its metadata. The caller may take them.
     */
    struct xt_weight_file weights;
    bool folded; /* its batch norms are part of its convolutions */
};

/* Whether --model or --init is an ONNX file rather than a network's name or weights. */
bool xt_model_is_file(const char *name);

enum xt_status xt_model_open(struct xt_loaded_model **out, const char *path, struct xt_err *err);
/* From text in the metadata of `where`, whose network is called `name`. */
enum xt_status xt_model_open_text(struct xt_loaded_model **out, const char *name, const char *text,
                                  const char *where, struct xt_err *err);
void xt_model_close(struct xt_loaded_model *model); /* NULL: nothing */

/* The network of that name, or of that file, which goes into *loaded (NULL else). */
enum xt_status xt_model_choose(const char *name, struct xt_loaded_model **loaded,
                               const struct xt_model_info **out, struct xt_err *err);

#endif
