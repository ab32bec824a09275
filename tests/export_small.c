/* export_small FOLDER TYPE: writes the self-test's small network, with every kind of op in it, as
 * FOLDER/small.onnx (f32 or fp16), with images and the logits that come of them here as
 * FOLDER/images.bin and logits.bin, for other programs to run (tests/cli/test_export_models.sh). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/executor.h"
#include "engine/selftest/selftest.h"
#include "models/onnx/write/export.h"

enum { BATCH = 3, PIXELS = BATCH * 13 * 15 * 3 };

struct bench {
    struct xt_device device;
    struct xt_params params;
    struct xt_err err;
    uint8_t pixels[PIXELS];
};

static struct xt_tensor *describe(struct bench *b, enum xt_dtype dtype, struct xt_graph **graph)
{
    struct xt_graph_options options = {
        .device = &b->device, .params = &b->params, .batch = BATCH, .fuse = true, .dtype = dtype};
    if (xt_graph_create(graph, &options, &b->err))
        return NULL;
    return xt_selftest_small.describe(*graph, NULL);
}

/* Near 1 on average, so that norms' variances are above 0. */
static void fill(struct bench *b)
{
    struct xt_rng rng = xt_rng_begin(5, 6);
    for (int i = 0; i < b->params.count; i++) {
        const struct xt_param *param = &b->params.items[i];
        float *values = xt_params_value(&b->params, param);
        bool scales = param->role == XT_PARAM_BN_SCALE || param->role == XT_PARAM_BN_VAR;
        for (size_t k = 0; k < param->floats && values && param->role != XT_PARAM_WEIGHT; k++)
            values[k] = xt_rng_uniform(&rng) - (scales ? -0.5F : 0.5F);
    }
    for (int i = 0; i < PIXELS; i++)
        b->pixels[i] = (uint8_t)xt_rng_next(&rng);
    b->params.version++;
}

static int save(const char *folder, const char *name, const void *data, size_t bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(data, 1, bytes, file) == bytes;
    return (file && fclose(file)) || !written;
}

static enum xt_status run(struct bench *b, const char *folder, enum xt_dtype dtype)
{
    struct xt_graph *graph = NULL;
    struct xt_exported exported;
    char path[512];
    snprintf(path, sizeof path, "%s/small.onnx", folder);
    struct xt_tensor *logits = describe(b, XT_F32, &graph);
    enum xt_status status = xt_graph_build(graph, logits, &b->err);
    if (!status)
        status = xt_params_initialise(&b->params, &b->device, 1, 0, &b->err);
    fill(b);
    graph->pass = (struct xt_graph_pass){.pixels = b->pixels, .count = BATCH};
    if (!status)
        status = xt_graph_forward(graph, &b->err);
    if (!status &&
        (save(folder, "images.bin", b->pixels, sizeof b->pixels) ||
         save(folder, "logits.bin", xt_graph_logits(graph), xt_tensor_bytes(graph->logits))))
        status = xt_err_set(&b->err, XT_ERR_RUN, "%s cannot be written to", folder);
    xt_graph_destroy(graph);
    graph = NULL;
    if (!status)
        logits = describe(b, dtype, &graph);
    struct xt_export_options options = {
        .name = "small", .logits = logits, .batch = BATCH, .with_preprocess = true};
    if (!status)
        status = xt_export_onnx(graph, &options, path, &exported, &b->err);
    xt_graph_destroy(graph);
    return status;
}

int main(int argc, char **argv)
{
    static struct bench b;
    enum xt_dtype dtype = argc > 2 && strcmp(argv[2], "fp16") == 0 ? XT_F16 : XT_F32;
    enum xt_status status =
        argc < 2 ? xt_err_set(&b.err, XT_ERR_USAGE, "usage: export_small FOLDER [fp16]")
                 : xt_device_open(&b.device, "cpu", 1, &b.err);
    if (!status)
        status = run(&b, argv[1], dtype);
    if (status)
        fprintf(stderr, "%s\n", b.err.text);
    xt_params_clear(&b.params);
    xt_device_close(&b.device);
    return status ? 1 : 0;
}
