/* The information in the file names of CCPD (the Chinese City Parking Dataset; Xu and others,
 * "Towards End-to-End License Plate Detection and Recognition", ECCV 2018), as in
 * 025-95_113-154&383_386&473-386&473_177&454_154&383_363&402-0_0_22_27_27_33_16-37-15.jpg: area,
 * tilt, box, corners from the bottom-right one clockwise, plate, brightness, blur.
 */
#pragma once

#include "data/image/straighten.h"

enum { XT_CCPD_PLATE_BYTES = 32 };

struct xt_ccpd_name {
    struct xt_corners corners;
    struct xt_point box[2];          /* top-left, bottom-right */
    char plate[XT_CCPD_PLATE_BYTES]; /* UTF-8: a province, a letter, and five or six more */
};

/* Parses a file's name, without its folder. XT_ERR_DATA says what is wrong with it. */
enum xt_status xt_ccpd_read_name(const char *name, struct xt_ccpd_name *out, struct xt_err *err);
