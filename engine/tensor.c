#include "engine/tensor.h"

size_t xt_tensor_count(const struct xt_tensor *tensor)
{
    return (size_t)tensor->n * (size_t)tensor->h * (size_t)tensor->w * (size_t)tensor->c;
}

size_t xt_tensor_bytes(const struct xt_tensor *tensor)
{
    return xt_tensor_count(tensor) * xt_dtype_size(tensor->dtype);
}

size_t xt_tensor_sample_bytes(const struct xt_tensor *tensor)
{
    return xt_tensor_bytes(tensor) / (size_t)tensor->n;
}

void *xt_buffer_sample(const struct xt_buffer *buffer, size_t sample, int n)
{
    if (!buffer->ring)
        return (char *)buffer->data + sample * (size_t)n;
    return (char *)buffer->data + buffer->worker_bytes * (size_t)(n / buffer->worker_samples) +
           sample * (size_t)(n % buffer->ring);
}

void *xt_tensor_sample(const struct xt_tensor *tensor, const struct xt_buffer *buffer, int n)
{
    if (!tensor || !buffer)
        return NULL;
    return xt_buffer_sample(buffer, xt_tensor_sample_bytes(tensor), n);
}

void xt_buffer_use(struct xt_buffer *buffer, int time)
{
    if (!buffer)
        return;
    if (time < buffer->first)
        buffer->first = time;
    if (time > buffer->last)
        buffer->last = time;
    if (time <= buffer->loss && time > buffer->forward_last)
        buffer->forward_last = time;
    if (time > buffer->loss && (!buffer->backward_first || time < buffer->backward_first))
        buffer->backward_first = time;
}

int xt_tensor_readers_most(const struct xt_tensor *tensor)
{
    if (tensor->fanned_out)
        return XT_FAN_OUT_MAX;
    return tensor->one_reader ? 1 : XT_READERS_MAX;
}
