#include "engine/form.h"

/* The exponent of a power of two; -1 for other numbers. */
static int exponent_of(int64_t block)
{
    for (int e = 0; e < 31; e++)
        if (block == (int64_t)1 << e)
            return e;
    return -1;
}

static bool read_blocks(const_dnnl_memory_desc_t md, int first, struct xt_form *out)
{
    const dnnl_dims_t *sizes = NULL;
    const dnnl_dims_t *axes = NULL;
    int count = 0;
    if (xt_dnnl.memory_desc_query(md, dnnl_query_inner_nblks_s32, &count) != dnnl_success ||
        xt_dnnl.memory_desc_query(md, dnnl_query_inner_blks, &sizes) != dnnl_success ||
        xt_dnnl.memory_desc_query(md, dnnl_query_inner_idxs, &axes) != dnnl_success ||
        count > XT_FORM_BLOCKS)
        return false;
    out->blocks = (uint32_t)count;
    for (int i = 0; i < count; i++) {
        int exponent = exponent_of((*sizes)[i]);
        if (exponent < 0)
            return false;
        out->axis[i] = (uint32_t)((*axes)[i] + first);
        out->log2[i] = (uint32_t)exponent;
    }
    return true;
}

bool xt_form_of(const_dnnl_memory_desc_t md, struct xt_form *out)
{
    const dnnl_dims_t *dims = NULL;
    const dnnl_dims_t *padded = NULL;
    const dnnl_dims_t *strides = NULL;
    dnnl_data_type_t dtype = dnnl_data_type_undef;
    int ndims = 0;
    *out = (struct xt_form){.blocks = 0};
    if (!md || xt_dnnl.memory_desc_query(md, dnnl_query_ndims_s32, &ndims) != dnnl_success ||
        xt_dnnl.memory_desc_query(md, dnnl_query_dims, &dims) != dnnl_success ||
        xt_dnnl.memory_desc_query(md, dnnl_query_padded_dims, &padded) != dnnl_success ||
        xt_dnnl.memory_desc_query(md, dnnl_query_strides, &strides) != dnnl_success ||
        xt_dnnl.memory_desc_query(md, dnnl_query_data_type, &dtype) != dnnl_success ||
        ndims > XT_FORM_DIMS || !read_blocks(md, XT_FORM_DIMS - ndims, out))
        return false;
    int first = XT_FORM_DIMS - ndims;
    for (int i = 0; i < XT_FORM_DIMS; i++) {
        out->dims[i] = i < first ? 1 : (uint32_t)(*dims)[i - first];
        out->outer[i] = i < first ? 1 : (uint32_t)(*padded)[i - first];
        out->strides[i] = i < first ? 1 : (uint32_t)(*strides)[i - first];
    }
    for (uint32_t b = 0; b < out->blocks; b++)
        out->outer[out->axis[b]] >>= out->log2[b];
    size_t bytes = dtype == dnnl_f32 ? 4 : 2;
    return xt_form_count(out) * bytes == xt_dnnl.memory_desc_get_size(md);
}

struct xt_form xt_form_hwio(const int dims[4])
{
    uint32_t o = (uint32_t)dims[0];
    uint32_t i = (uint32_t)dims[1];
    uint32_t h = (uint32_t)dims[2];
    uint32_t w = (uint32_t)dims[3];
    return (struct xt_form){
        .dims = {1, o, i, h, w}, .outer = {1, o, i, h, w}, .strides = {1, 1, o, w * i * o, i * o}};
}

size_t xt_form_count(const struct xt_form *form)
{
    size_t count = 1;
    for (int i = 0; i < XT_FORM_DIMS; i++)
        count *= form->outer[i];
    for (uint32_t b = 0; b < form->blocks; b++)
        count <<= form->log2[b];
    return count;
}

size_t xt_form_place(const struct xt_form *form, const uint32_t at[XT_FORM_DIMS])
{
    uint32_t rest[XT_FORM_DIMS];
    size_t place = 0;
    uint32_t shift = 0;
    for (int i = 0; i < XT_FORM_DIMS; i++)
        rest[i] = at[i];
    for (uint32_t b = form->blocks; b-- > 0;) {
        uint32_t *index = &rest[form->axis[b]];
        place += (size_t)(*index & ((1U << form->log2[b]) - 1)) << shift;
        *index >>= form->log2[b];
        shift += form->log2[b];
    }
    for (int i = 0; i < XT_FORM_DIMS; i++)
        place += (size_t)rest[i] * form->strides[i];
    return place;
}
