#include "layer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct _cl_icd_dispatch *real;
static struct _cl_icd_dispatch ours;

cl_int layer_answer(const void *value, size_t size, size_t room, void *out, size_t *needed)
{
    if (needed)
        *needed = size;
    if (out && room < size)
        return CL_INVALID_VALUE;
    if (out)
        memcpy(out, value, size);
    return CL_SUCCESS;
}

unsigned char *layer_binary(cl_program program, size_t *size)
{
    /* Sizes and binaries of several devices would not have room. */
    *size = 0;
    if (real->clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *size, size, NULL) ||
        !*size)
        return NULL;
    unsigned char *binary = malloc(*size);
    if (binary &&
        !real->clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, (void *)&binary, NULL))
        return binary;
    free(binary);
    return NULL;
}

void layer_log(const char *format, ...)
{
    const char *path = getenv("XT_LAYER_LOG");
    FILE *file = path ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fputc('\n', file);
    fclose(file);
}

CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *out,
                                               size_t *needed)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    if (what == CL_LAYER_API_VERSION)
        return layer_answer(&version, sizeof version, room, out, needed);
    if (what == CL_LAYER_NAME)
        return layer_answer(layer_name, strlen(layer_name) + 1, room, out, needed);
    return CL_INVALID_VALUE;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayerWithProperties(cl_uint count,
                                                          const struct _cl_icd_dispatch *target,
                                                          cl_uint *our_count,
                                                          const struct _cl_icd_dispatch **our_table,
                                                          const cl_layer_properties *properties)
{
    (void)properties;
    if (!target || count < sizeof *target / sizeof(void *))
        return CL_INVALID_VALUE;
    real = target;
    layer_fill(&ours);
    *our_count = (cl_uint)(sizeof ours / sizeof(void *));
    *our_table = &ours;
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const struct _cl_icd_dispatch *target,
                                            cl_uint *our_count,
                                            const struct _cl_icd_dispatch **our_table)
{
    return clInitLayerWithProperties(count, target, our_count, our_table, NULL);
}

CL_API_ENTRY cl_int CL_API_CALL clDeinitLayer(void)
{
    return CL_SUCCESS;
}
