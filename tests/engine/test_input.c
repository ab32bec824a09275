/* A network of one channel reads grey levels as Pillow's convert("L") gives them. (The self-test
 * holds what becomes of them.) */
#include <math.h>

#include "support.h"

#include "engine/ops/ops.h"

/* Image.new("RGB", (1, 1), (r, g, b)).convert("L").getpixel((0, 0)), Pillow 13 */
static void a_pixel_is_as_grey_as_in_pillow(void **state)
{
    (void)state;
    static const uint8_t pixels[][4] = {
        {0, 0, 0, 0},         {255, 255, 255, 255}, {255, 0, 0, 76},     {0, 255, 0, 150},
        {0, 0, 255, 29},      {12, 34, 56, 30},     {200, 100, 50, 124}, {1, 2, 3, 2},
        {254, 255, 253, 254}, {17, 17, 17, 17},     {90, 181, 7, 134},   {128, 64, 250, 104},
    };
    for (size_t i = 0; i < sizeof pixels / sizeof *pixels; i++)
        assert_int_equal(xt_input_grey(pixels[i]), pixels[i][3]);
}

/* An exact half: 19595 r + 38470 g + 7471 b is 32768 above a multiple of 65536. */
static void a_half_becomes_even_as_devices_round(void **state)
{
    (void)state;
    int halves = 0;
    for (int r = 0; r < 256; r++)
        for (int g = 0; g < 256; g++)
            for (int b = 0; b < 256; b++) {
                const uint8_t pixel[] = {(uint8_t)r, (uint8_t)g, (uint8_t)b};
                float sum = (float)r * xt_input_luma[0] + (float)g * xt_input_luma[1] +
                            (float)b * xt_input_luma[2];
                halves += sum - floorf(sum) == 0.5f;
                if ((float)xt_input_grey(pixel) != rintf(sum))
                    fail_msg("%d, %d, %d: %d, not %g", r, g, b, xt_input_grey(pixel),
                             (double)rintf(sum));
            }
    assert_true(halves > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pixel_is_as_grey_as_in_pillow),
        cmocka_unit_test(a_half_becomes_even_as_devices_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
