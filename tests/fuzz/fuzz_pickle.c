/* The pickle machine alone, then the bytes as a .pth file: what is taken must be readable. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "models/weights/pickle.h"
#include "models/weights/weight_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void read_pickle(const uint8_t *bytes, size_t size)
{
    struct xt_pickle pickle = {0};
    struct xt_err err;
    const struct xt_pickle_value *root = NULL;
    size_t at = 0;
    enum xt_status status = xt_pickle_read(&pickle, bytes, size, &at, &root, &err);
    if (status ? status != XT_ERR_DATA : !root || at > size)
        abort();
    xt_pickle_clear(&pickle);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct xt_weight_file file;
    struct xt_err err;
    read_pickle(bytes, size);
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
