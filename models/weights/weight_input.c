#include "models/weights/weight_input.h"

#include <string.h>

#include "base/file.h"

enum xt_status xt_weight_input_read(const struct xt_weight_input *input, size_t at, void *out,
                                    size_t count, struct xt_err *err)
{
    if (input->bytes && count)
        memcpy(out, input->bytes + at, count);
    if (input->bytes || xt_file_read_at(input->fd, at, out, count))
        return XT_OK;
    return xt_err_system(err, XT_ERR_DATA, "%zu bytes at byte %zu cannot be read", count, at);
}

enum xt_status xt_weight_input_check(const struct xt_weight_input *input, size_t tensor_bytes,
                                     struct xt_err *err)
{
    if (tensor_bytes <= input->most)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "its tensors take %zu bytes, more than the %zu that can be used here: these "
                      "are the weights of another network",
                      tensor_bytes, input->most);
}
