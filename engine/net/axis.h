/* The axes of one sample's [h][w][c]. */
#ifndef XT_ENGINE_NET_AXIS_H
#define XT_ENGINE_NET_AXIS_H

enum xt_axis { XT_AXIS_H, XT_AXIS_W, XT_AXIS_C, XT_AXES };

#endif
