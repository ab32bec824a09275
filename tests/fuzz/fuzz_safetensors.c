/* Weight files of any kind, the corpus being safetensors: what is taken must be readable. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/weights/weight_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed);

enum { PREFIX = 8, HEADER_MAX = 4096, TENSORS_MAX = 4 };

static void write_length(uint8_t *bytes, uint64_t length)
{
    for (int i = 0; i < PREFIX; i++)
        bytes[i] = (uint8_t)(length >> (8 * i));
}

static uint64_t read_length(const uint8_t *bytes)
{
    uint64_t length = 0;
    for (int i = 0; i < PREFIX; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    return length;
}

/* A whole file of a few tensors: shapes, types and places that fit each other. 0: no room. */
static size_t make_file(uint8_t *bytes, size_t room, unsigned seed)
{
    static const struct {
        const char *name;
        size_t width;
    } types[] = {{"F32", 4}, {"F64", 8}, {"F16", 2}, {"BF16", 2}, {"I64", 8}, {"U8", 1}};
    char header[HEADER_MAX];
    size_t data = 0;
    int length = snprintf(header, sizeof header, "{\"__metadata__\":{\"format\":\"pt\"}");
    srand(seed);
    int count = 1 + rand() % TENSORS_MAX;
    for (int i = 0; i < count; i++) {
        int type = rand() % 6;
        int rows = rand() % 5;
        int columns = rand() % 5;
        size_t size = types[type].width * (size_t)(rows * columns);
        length +=
            snprintf(header + length, sizeof header - (size_t)length,
                     ",\"t%d\":{\"dtype\":\"%s\",\"shape\":[%d,%d],\"data_offsets\":[%zu,%zu]}", i,
                     types[type].name, rows, columns, data, data + size);
        data += size;
    }
    length += snprintf(header + length, sizeof header - (size_t)length, "}");
    if (PREFIX + (size_t)length + data > room)
        return 0;
    write_length(bytes, (uint64_t)length);
    memcpy(bytes + PREFIX, header, (size_t)length);
    memset(bytes + PREFIX + length, 0x3c, data);
    return PREFIX + (size_t)length + data;
}

/* Changes the header alone, and gives its length as it then is: bytes changed at random hardly ever
 * get past that length. */
static size_t change_header(uint8_t *bytes, size_t size, size_t room)
{
    static uint8_t header[HEADER_MAX];
    uint64_t length = size < PREFIX ? UINT64_MAX : read_length(bytes);
    if (length > size || length > size - PREFIX || length > HEADER_MAX)
        return 0;
    size_t data = size - PREFIX - (size_t)length;
    size_t most = room - PREFIX - data;
    memcpy(header, bytes + PREFIX, (size_t)length);
    size_t changed =
        LLVMFuzzerMutate(header, (size_t)length, most < HEADER_MAX ? most : HEADER_MAX);
    memmove(bytes + PREFIX + changed, bytes + PREFIX + length, data);
    memcpy(bytes + PREFIX, header, changed);
    write_length(bytes, changed);
    return PREFIX + changed + data;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed)
{
    size_t changed = 0;
    if (seed % 16 == 0)
        changed = make_file(bytes, room, seed);
    else if (seed % 4)
        changed = change_header(bytes, size, room);
    return changed ? changed : LLVMFuzzerMutate(bytes, size, room);
}

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
