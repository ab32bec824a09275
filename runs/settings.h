/* Settings of a run's output. Strings are borrowed; NULL where not given. */
#pragma once

#include <stdbool.h>

struct xt_record_settings {
    const char *out;
    const char *resume;
    int log_every;  /* steps */
    int save_every; /* steps, 0: each epoch */
    int keep;       /* number of newest checkpoints retained */
    bool pictures;  /* reports may contain images */
};
