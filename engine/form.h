/* How the elements of a weight lie in memory: a blocked format of oneDNN's in plain numbers, which
 * a loop here and a kernel on a GPU read (ops/layout_kernel.h). Values; nothing can fail.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/dnnl.h"

/* G, O, I, H, W; a weight without groups has one. Blocks are powers of two. */
enum { XT_FORM_DIMS = 5, XT_FORM_BLOCKS = 4 };

/* 32-bit numbers alone: the kernel's struct has the same members. */
struct xt_form {
    uint32_t dims[XT_FORM_DIMS];
    uint32_t outer[XT_FORM_DIMS]; /* blocks along each, padding included */
    uint32_t strides[XT_FORM_DIMS];
    uint32_t blocks; /* inner blocks, the outermost first */
    uint32_t axis[XT_FORM_BLOCKS], log2[XT_FORM_BLOCKS];
};

/* False for a format that is not one of these, or has gaps. */
bool xt_form_of(const_dnnl_memory_desc_t md, struct xt_form *out);
/* H, W, I, O. */
struct xt_form xt_form_hwio(const int dims[4]);
/* Elements, padding included. */
size_t xt_form_count(const struct xt_form *form);
/* The element at these indices, counted from the first. */
size_t xt_form_place(const struct xt_form *form, const uint32_t at[XT_FORM_DIMS]);
