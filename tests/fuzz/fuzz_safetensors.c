/* Weight files of any kind, the corpus being safetensors: what is taken must be readable. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "models/weights/weight_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct xt_weight_file file;
    struct xt_err err;
    enum xt_status status = xt_weight_file_parse(&file, bytes, size, "input", &err);
    if (status && status != XT_ERR_DATA)
        abort();
    unsigned sum = 0;
    for (size_t i = 0; !status && i < file.count; i++)
        for (size_t j = 0; j < file.tensors[i].bytes; j++)
            sum += ((const uint8_t *)file.tensors[i].data)[j];
    xt_weight_file_clear(&file);
    return sum == UINT32_MAX;
}
