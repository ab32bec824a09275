/* Zero-insertion (the adjoint of a stride). Whole lines use non-temporal stores: they are not read
 * soon, and need not be fetched before. */
#include <stdbool.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "engine/loops/table.h"

#ifdef __AVX512F__
/* NULL: zeros. */
static void write_lines(char *to, const char *from, size_t bytes)
{
    enum { LINE = 64 };
    for (size_t i = 0; i < bytes; i += LINE)
        _mm512_stream_si512((void *)(to + i),
                            from ? _mm512_loadu_si512(from + i) : _mm512_setzero_si512());
}
#endif

static void write_some(char *to, const char *from, size_t bytes)
{
    if (from)
        memcpy(to, from, bytes);
    else
        memset(to, 0, bytes);
}

void XT_LOOPS_NAME(zero_insert)(const void *pixels, size_t bytes, const int size[2],
                                const int strides[2], void *to)
{
    void (*write)(char *to, const char *from, size_t bytes) = write_some;
    const char *from = pixels;
    char *at = to;
#ifdef __AVX512F__
    if ((bytes | (uintptr_t)to) % 64 == 0)
        write = write_lines;
#endif
    for (int y = 0; y < size[0]; y++)
        for (int x = 0; x < size[1]; x++, at += bytes) {
            bool read = y % strides[0] == 0 && x % strides[1] == 0;
            write(at, read ? from : NULL, bytes);
            from += read ? bytes : 0;
        }
#ifdef __AVX512F__
    _mm_sfence();
#endif
}
