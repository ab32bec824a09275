/* A net as text, a line a node, and back: how a weights file carries a network that no file of
 * models/ describes.
 *
 * Text from a file is not believed: the net's builders check what it says. Stateless.
 */
#ifndef XT_MODELS_NET_TEXT_H
#define XT_MODELS_NET_TEXT_H

#include "base/err.h"
#include "base/str.h"
#include "engine/net.h"

enum { XT_NET_TEXT_MAX = 4 << 20 };

/* What may be otherwise than the text says; 0 or NULL: nothing is. */
struct xt_net_text_options {
    int height, width; /* of the images */
    const char *head;  /* the layer that tells the classes apart */
    int classes;
};

enum xt_status xt_net_print(const struct xt_net *net, struct xt_str *out, struct xt_err *err);
/* Appends the nodes to a fresh net; gives the logits, or NULL with the failure in the net. */
struct xt_value *xt_net_parse(struct xt_net *net, const char *text,
                              const struct xt_net_text_options *options);

#endif
