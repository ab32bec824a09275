#pragma once

#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "models/weights/weight_file.h"

/* Every proper prefix of the file is refused. */
static inline void assert_refused_when_cut(const char *path)
{
    size_t size = 0;
    struct xt_weight_file file;
    struct xt_err err;
    uint8_t *bytes = support_read_file(path, &size);
    for (size_t cut = 0; cut <= size; cut++) {
        uint8_t *part = malloc(cut ? cut : 1);
        memcpy(part, bytes, cut);
        assert_int_equal(xt_weight_file_parse(&file, part, cut, "cut", &err),
                         cut == size ? XT_OK : XT_ERR_DATA);
        xt_weight_file_clear(&file);
        free(part);
    }
    free(bytes);
}
