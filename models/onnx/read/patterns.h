/* How a pattern of nodes is recognised, looking back from its last one: patterns.c, picked.c. */
#pragma once

#include "models/onnx/read/reader.h"

/* The value itself, where it is only handed on or given another type. */
struct xt_read_value *xt_match_origin(struct xt_read_value *value);
/* What makes the value, where it is that. */
struct xt_read_node *xt_match_made_by(struct xt_read_value *value, const char *op);
/* Whether it is a number, and which. */
bool xt_match_number_of(struct xt_reader *reader, struct xt_read_value *value, double *out);
/* `value op NUMBER`, in either order: the value. */
struct xt_read_value *xt_match_beside_number(struct xt_reader *reader, struct xt_read_node *node,
                                             double *number);
/* Makes the node that operator of those inputs, which are copied. */
bool xt_match_replace(struct xt_reader *reader, struct xt_read_node *node, const char *op,
                      struct xt_read_value *const inputs[], int count);

/* ---- picked.c: false where the node is not the last of such a pattern ---- */
bool xt_match_strides(struct xt_reader *reader, struct xt_read_node *node);
bool xt_match_adaptive_pool(struct xt_reader *reader, struct xt_read_node *node);
bool xt_match_sequence(struct xt_reader *reader, struct xt_read_node *node);
