/* What the OpenCL layers of these tests have in common: how the OpenCL loader gets in. Each says
 * its name, and which functions it puts before the driver's.
 */
#pragma once

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <CL/cl_layer.h>

/* ---- what a layer has ---- */

extern const char layer_name[];
void layer_fill(struct _cl_icd_dispatch *ours);

/* ---- what it gets ---- */

/* The functions below it: another layer's, or the driver's. */
extern const struct _cl_icd_dispatch *real;

/* As the clGet...Info functions answer. */
cl_int layer_answer(const void *value, size_t size, size_t room, void *out, size_t *needed);

/* The binary of a program for one device (free); NULL if there is none. */
unsigned char *layer_binary(cl_program program, size_t *size);

/* A line for the file that XT_LAYER_LOG names, if it does. */
__attribute__((format(printf, 1, 2))) void layer_log(const char *format, ...);
