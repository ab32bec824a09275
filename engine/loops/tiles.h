/* AMX tile configuration of this folder's products: tiles 0 to 3 are sums, 4 and 5 left matrices,
 * of the given number of rows; 6 and 7 are right matrices of 16 rows. Each row is a cache line. For
 * the files of this folder that are built for AMX.
 */
#pragma once

#ifdef __AMX_BF16__
#include <immintrin.h>
#include <stdint.h>

static inline void configure_tiles(int rows)
{
    enum { TILES = 8, RIGHT = 6, RIGHT_ROWS = 16, LINE = 64 /* bytes */ };
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1};
    for (int i = 0; i < TILES; i++) {
        tiles.bytes[i] = LINE;
        tiles.rows[i] = (uint8_t)(i < RIGHT ? rows : RIGHT_ROWS);
    }
    /* The intrinsic's operand is the first bytes alone: without this the others' stores may go. */
    __asm__ volatile("" ::"m"(tiles));
    _tile_loadconfig(&tiles);
}

#endif
