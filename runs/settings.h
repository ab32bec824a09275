/* What a run writes, as plain values. Strings are borrowed; NULL where not given. */
#ifndef XT_RUNS_SETTINGS_H
#define XT_RUNS_SETTINGS_H

#include <stdbool.h>

struct xt_record_settings {
    const char *out;
    const char *resume;
    int log_every;  /* steps */
    int save_every; /* steps, 0: each epoch */
    int keep;       /* of the newest checkpoints */
    bool pictures;  /* of the images may stand in reports */
};

#endif
