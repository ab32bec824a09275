/* Writing past the caches what is read only after much else has been written, by builds that can.
 */
#pragma once

#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#include "engine/loops/element.h"

/* A cache line; `to` is aligned to it. */
XT_INLINE void write_line_past(void *to, const void *line)
{
    enum { BYTES = 64 };
#ifdef __AVX512F__
    _mm512_stream_si512(to, _mm512_loadu_si512(line));
#else
    memcpy(to, line, BYTES);
#endif
}

/* Behind the last line. */
XT_INLINE void end_writing_past(void)
{
#ifdef __AVX512F__
    _mm_sfence();
#endif
}
