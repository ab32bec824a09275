/* Transfer rate of batches to a device: from pinned and from pageable slots, alone and while the
 * device computes.
 *
 * Slots hold bytes, so that decoding is not included. The device's work is the batch's conversion
 * to float32, repeated until it takes as long as a pinned upload: full overlap doubles the rate.
 * The four cases alternate, a fraction of a second each.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "device/device.h"
#include "device/gpu/pointer.h"

enum { XT_BENCH_UPLOAD_ROWS = 4 };

struct xt_bench_upload_row {
    bool pageable;
    bool overlapped;
    double images_per_s;
    double bytes_per_s;
};

struct xt_bench_upload {
    double upload_s;            /* one batch from a pinned slot, alone */
    double compute_s;           /* the device's work beside each upload, alone */
    enum xt_pointer_kind slots; /* how the driver classifies pinned slots */
    struct xt_bench_upload_row rows[XT_BENCH_UPLOAD_ROWS];
};

/* For batches of [batch][height][width][3] bytes and a device that needs transfers. */
enum xt_status xt_bench_upload(struct xt_bench_upload *out, struct xt_device *device, int batch,
                               int height, int width, struct xt_err *err);
