/* Any bytes as an image: an error or a whole picture. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/image/decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed);

static uint32_t read_big(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static uint32_t crc(const uint8_t *bytes, size_t size)
{
    uint32_t sum = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        sum ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320U : 0);
    }
    return ~sum;
}

/* Gives each chunk of a PNG its checksum: length, type, contents, checksum. */
static void mend_png(uint8_t *bytes, size_t size)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    size_t at = sizeof signature;
    if (size < at || memcmp(bytes, signature, at) != 0)
        return;
    while (size - at >= 12 && read_big(bytes + at) <= size - at - 12) {
        uint32_t length = read_big(bytes + at);
        uint32_t sum = crc(bytes + at + 4, length + 4);
        uint8_t *end = bytes + at + 8 + length;
        for (int i = 0; i < 4; i++)
            end[i] = (uint8_t)(sum >> (24 - 8 * i));
        at += length + 12;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed)
{
    size_t changed = LLVMFuzzerMutate(bytes, size, room);
    if (seed % 8)
        mend_png(bytes, changed);
    return changed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct xt_decoder decoder = {0};
    struct xt_picture picture = {0};
    struct xt_err err;
    if (!xt_decoder_decode(&decoder, data, size, XT_PIXEL_BGR, NULL, "fuzz", &picture, &err) &&
        (picture.image.width < 1 || picture.image.height < 1))
        abort();
    /* A part that depends on the size, so that the fuzzer comes to all of them. */
    int left = picture.width / 3;
    int top = picture.height / 5;
    const struct xt_box box = {left, top, (picture.width - left + 1) / 2,
                               (picture.height - top + 2) / 3};
    const struct xt_want want = {.width = 5, .height = 3, .box = &box};
    const struct xt_box *part = &picture.part;
    if (!xt_decoder_decode(&decoder, data, size, XT_PIXEL_RGB, &want, "fuzz", &picture, &err) &&
        (part->left + part->width > picture.image.width + 1e-6 ||
         part->top + part->height > picture.image.height + 1e-6))
        abort();
    xt_image_clear(&picture.image);
    xt_decoder_clear(&decoder);
    return 0;
}
