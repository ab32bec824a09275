/* Data types of tensors: their names for users, in files and in oneDNN, and their sizes.
 * Stateless. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Networks compute in the first five; s8 and u8 are those of an int8 network, u8 for tensors
 * without negative values. Files also hold the others. */
enum xt_dtype {
    XT_F32,
    XT_BF16,
    XT_F16,
    XT_S8,
    XT_U8,
    XT_F64,
    XT_I16,
    XT_I32,
    XT_I64,
    XT_BOOL,
    XT_DTYPE_COUNT,
};

/* Arrays, not pointers, so that the sizes are constants in loops that are compiled once per
 * type. */
static const struct {
    char name[5];        /* in options, reports and logs */
    char safetensors[5]; /* in safetensors files */
    unsigned char size;  /* bytes */
    bool is_float;
} xt_dtypes[XT_DTYPE_COUNT] = {
    [XT_F32] = {"f32", "F32", 4, true},  [XT_BF16] = {"bf16", "BF16", 2, true},
    [XT_F16] = {"fp16", "F16", 2, true}, [XT_S8] = {"s8", "I8", 1, false},
    [XT_U8] = {"u8", "U8", 1, false},    [XT_F64] = {"f64", "F64", 8, true},
    [XT_I16] = {"s16", "I16", 2, false}, [XT_I32] = {"s32", "I32", 4, false},
    [XT_I64] = {"s64", "I64", 8, false}, [XT_BOOL] = {"bool", "BOOL", 1, false},
};

static inline size_t xt_dtype_size(enum xt_dtype dtype)
{
    return xt_dtypes[dtype].size;
}

static inline const char *xt_dtype_name(enum xt_dtype dtype)
{
    return xt_dtypes[dtype].name;
}

/* The name of a number type that is given in the words of other programs ("float32", "half");
 * `text` itself if it is none. */
static inline const char *xt_dtype_usual_name(const char *text)
{
    static const char *const names[][6] = {
        {"f32", "fp32", "float32", "float", "off", NULL},
        {"bf16", "bfloat16", NULL},
        {"fp16", "f16", "float16", "half", NULL},
        {"int8", "i8", "qint8", NULL},
    };
    for (size_t t = 0; t < sizeof names / sizeof *names; t++)
        for (size_t i = 0; names[t][i]; i++)
            if (strcasecmp(names[t][i], text) == 0)
                return names[t][0];
    return text;
}

/* "F32": the name in safetensors, and in messages on weight files. */
static inline const char *xt_dtype_file_name(enum xt_dtype dtype)
{
    return xt_dtypes[dtype].safetensors;
}

static inline bool xt_dtype_find_file_name(const char *name, enum xt_dtype *out)
{
    for (int i = 0; i < XT_DTYPE_COUNT; i++)
        if (strcmp(name, xt_dtypes[i].safetensors) == 0) {
            *out = (enum xt_dtype)i;
            return true;
        }
    return false;
}

static inline bool xt_dtype_is_float(enum xt_dtype dtype)
{
    return xt_dtypes[dtype].is_float;
}

static inline bool xt_dtype_is_int8(enum xt_dtype dtype)
{
    return dtype == XT_S8 || dtype == XT_U8;
}
