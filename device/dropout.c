#include "device/dropout.h"

/* Missing in older oneDNN headers: a type, and functions. */
enum { S64 = 16 /* dnnl_s64 */ };

typedef dnnl_status_t set_dropout(dnnl_primitive_attr_t attr, const_dnnl_memory_desc_t mask,
                                  dnnl_data_type_t seed, int has_offset, int by_host);
typedef dnnl_status_t describe_scalar(dnnl_memory_desc_t *out, dnnl_data_type_t type);
typedef dnnl_status_t create_scalar(dnnl_memory_t *out, const_dnnl_memory_desc_t md, void *value);
typedef dnnl_status_t set_scalar(dnnl_memory_t memory, const void *value);

union function {
    void *symbol;
    set_dropout *attr;
    describe_scalar *describe;
    create_scalar *create;
    set_scalar *set;
};

static union function find(const char *name)
{
    return (union function){.symbol = xt_dnnl_symbol(name)};
}

static dnnl_memory_t create(dnnl_data_type_t type)
{
    const union function describe = find("dnnl_memory_desc_create_host_scalar");
    const union function make = find("dnnl_memory_create_host_scalar");
    dnnl_memory_desc_t md = NULL;
    dnnl_memory_t memory = NULL;
    int64_t zero = 0;
    if (!describe.symbol || !make.symbol || describe.describe(&md, type) != dnnl_success)
        return NULL;
    if (make.create(&memory, md, &zero) != dnnl_success)
        memory = NULL;
    xt_dnnl.memory_desc_destroy(md);
    return memory;
}

bool xt_device_dropout_create(struct xt_device_dropout *out)
{
    *out = (struct xt_device_dropout){.seed = NULL};
    if (!find("dnnl_primitive_attr_set_dropout_v2").symbol ||
        !find("dnnl_memory_set_host_scalar_value").symbol)
        return false;
    out->probability = create(dnnl_f32);
    out->seed = create((dnnl_data_type_t)S64);
    out->offset = create((dnnl_data_type_t)S64);
    if (out->probability && out->seed && out->offset)
        return true;
    xt_device_dropout_destroy(out);
    return false;
}

void xt_device_dropout_destroy(struct xt_device_dropout *dropout)
{
    dnnl_memory_t all[] = {dropout->probability, dropout->seed, dropout->offset};
    for (int i = 0; i < 3; i++)
        if (all[i])
            xt_dnnl.memory_destroy(all[i]);
    *dropout = (struct xt_device_dropout){.seed = NULL};
}

dnnl_status_t xt_device_dropout_attr(dnnl_primitive_attr_t attr)
{
    const union function set = find("dnnl_primitive_attr_set_dropout_v2");
    dnnl_memory_desc_t no_mask = NULL;
    dnnl_status_t status = xt_dnnl.memory_desc_create_with_tag(
        &no_mask, 0, NULL, dnnl_data_type_undef, dnnl_format_tag_undef);
    if (status != dnnl_success)
        return status;
    status = set.symbol ? set.attr(attr, no_mask, (dnnl_data_type_t)S64, 1, 1) : dnnl_unimplemented;
    xt_dnnl.memory_desc_destroy(no_mask);
    return status;
}

enum xt_status xt_device_dropout_set(struct xt_device_dropout *dropout, double probability,
                                     uint64_t seed, uint64_t offset, struct xt_err *err)
{
    const union function set = find("dnnl_memory_set_host_scalar_value");
    const float p = (float)probability;
    const struct {
        dnnl_memory_t memory;
        const void *value;
    } all[] = {{dropout->probability, &p}, {dropout->seed, &seed}, {dropout->offset, &offset}};
    enum xt_status status = XT_OK;
    for (int i = 0; i < 3 && !status; i++)
        status = xt_dnnl_check(set.set(all[i].memory, all[i].value), "dropout's numbers", err);
    return status;
}
