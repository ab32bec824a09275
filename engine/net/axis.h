/* The axes of one sample's [h][w][c]. */
#pragma once

enum xt_axis { XT_AXIS_H, XT_AXIS_W, XT_AXIS_C, XT_AXES };
