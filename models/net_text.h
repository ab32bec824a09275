/* A net as text, a line a node, and back: how a weights file stores a network that is not built in.
 *
 * Text from a file is not trusted: the net's builders check it. Stateless.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "engine/net/net.h"
#include "models/registry.h"

enum { XT_NET_TEXT_MAX = 4 << 20 };

/* Overrides of the text; 0 or NULL: unchanged. */
struct xt_net_text_options {
    int height, width;                   /* of the images */
    const struct xt_class_layer *layers; /* whose heads have this many channels: */
    int classes;
};

enum xt_status xt_net_print(const struct xt_net *net, struct xt_str *out, struct xt_err *err);
/* Appends the nodes to an empty net; returns the logits, or NULL with the failure in the net. */
struct xt_value *xt_net_parse(struct xt_net *net, const char *text,
                              const struct xt_net_text_options *options);
