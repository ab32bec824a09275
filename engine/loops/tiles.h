/* AMX tile configuration of this folder's products: tiles 0 to 3 are sums, 4 and 5 left matrices,
 * of the given number of rows; 6 and 7 are right matrices of 16 rows. Each row is a cache line. For
 * the files of this folder that are built for AMX.
 */
#pragma once

#ifdef __AMX_BF16__
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/loops/element.h"

enum { LINE = 64 /* bytes of a tile's row */ };

static inline void configure_tiles(int rows)
{
    enum { TILES = 8, RIGHT = 6, RIGHT_ROWS = 16 };
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

XT_INLINE void zero_sums(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

/* Where a tile is stored: side by side, `rows` of the upper two and then of the lower two. */
XT_INLINE float *stored_at(float *sums, int rows, int tile)
{
    enum { WIDTH = 16 };
    return sums + (tile / 2 ? rows * 2 * WIDTH : 0) + (tile % 2 ? WIDTH : 0);
}

XT_INLINE void store_sums(float *sums, int rows)
{
    _tile_stored(0, stored_at(sums, rows, 0), 2 * LINE);
    _tile_stored(1, stored_at(sums, rows, 1), 2 * LINE);
    _tile_stored(2, stored_at(sums, rows, 2), 2 * LINE);
    _tile_stored(3, stored_at(sums, rows, 3), 2 * LINE);
}

/* Where up to two by two tiles of matrices are: of bf16, or of the first of the three summands of
 * float32, with bytes from a summand to the next one. */
struct products {
    const char *left;
    size_t lower, row; /* bytes to the lower tile, from a row to the next one */
    size_t left_summand;
    const char *right[2];
    size_t right_summand;
};

/* A tile is loaded where its first product follows. */
XT_INLINE void add_products_bf16(const struct products *of, int rows, int columns)
{
    _tile_loadd(4, of->left, of->row);
    _tile_loadd(6, of->right[0], LINE);
    _tile_dpbf16ps(0, 4, 6);
    if (columns > 1) {
        _tile_loadd(7, of->right[1], LINE);
        _tile_dpbf16ps(1, 4, 7);
    }
    if (rows > 1) {
        _tile_loadd(5, of->left + of->lower, of->row);
        _tile_dpbf16ps(2, 5, 6);
    }
    if (rows > 1 && columns > 1)
        _tile_dpbf16ps(3, 5, 7);
}

/* The first products of two by two tiles, which hold a block's sums: each tile is stored, unless
 * `sums` is NULL, and begins anew before its first product. Four stores one after the other would
 * stop the products meanwhile. */
XT_INLINE void begin_products_bf16(const struct products *of, float *sums, int rows)
{
    _tile_loadd(4, of->left, of->row);
    _tile_loadd(6, of->right[0], LINE);
    if (sums)
        _tile_stored(0, stored_at(sums, rows, 0), 2 * LINE);
    _tile_zero(0);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, of->right[1], LINE);
    if (sums)
        _tile_stored(1, stored_at(sums, rows, 1), 2 * LINE);
    _tile_zero(1);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, of->left + of->lower, of->row);
    if (sums)
        _tile_stored(2, stored_at(sums, rows, 2), 2 * LINE);
    _tile_zero(2);
    _tile_dpbf16ps(2, 5, 6);
    if (sums)
        _tile_stored(3, stored_at(sums, rows, 3), 2 * LINE);
    _tile_zero(3);
    _tile_dpbf16ps(3, 5, 7);
}

XT_INLINE void load_left(const struct products *of, size_t summand, int rows)
{
    const char *left = of->left + summand * of->left_summand;
    _tile_loadd(4, left, of->row);
    if (rows > 1)
        _tile_loadd(5, left + of->lower, of->row);
}

XT_INLINE void load_right(const struct products *of, size_t summand, int columns)
{
    _tile_loadd(6, of->right[0] + summand * of->right_summand, LINE);
    if (columns > 1)
        _tile_loadd(7, of->right[1] + summand * of->right_summand, LINE);
}

XT_INLINE void add_products(int rows, int columns)
{
    _tile_dpbf16ps(0, 4, 6);
    if (columns > 1)
        _tile_dpbf16ps(1, 4, 7);
    if (rows > 1)
        _tile_dpbf16ps(2, 5, 6);
    if (rows > 1 && columns > 1)
        _tile_dpbf16ps(3, 5, 7);
}

/* One of the six largest of the nine products, each beside one with which it shares a matrix: the
 * others are below half of float32's last bit (G. Henry, P. Tang, A. Heinecke, arXiv:1904.06376).
 */
enum { XT_PRODUCTS_F32 = 6 };
XT_INLINE void add_product_f32(const struct products *of, size_t which, int rows, int columns)
{
    static const struct {
        signed char left, right; /* the summand to load; -1: what is there */
    } loads[XT_PRODUCTS_F32] = {{0, 2}, {-1, 1}, {1, -1}, {-1, 0}, {2, -1}, {0, -1}};
    if (loads[which].right >= 0)
        load_right(of, (size_t)loads[which].right, columns);
    if (loads[which].left >= 0)
        load_left(of, (size_t)loads[which].left, rows);
    add_products(rows, columns);
}

XT_INLINE void add_products_f32(const struct products *of, int rows, int columns)
{
#pragma GCC unroll 6
    for (size_t i = 0; i < XT_PRODUCTS_F32; i++)
        add_product_f32(of, i, rows, columns);
}

#endif
