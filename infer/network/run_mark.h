/* Which run weights are of, as their metadata says: its name, the step, and the hashes of its
 * record (runs/chain.h): `run_id` of the run, `run_head` of the record's last line then.
 * Thread-safe.
 */
#pragma once

#include "base/sha256.h"
#include "models/weights/weight_store.h"

enum { XT_RUN_MARK_META = 4 };

/* A zeroed struct is of no run. */
struct xt_run_mark {
    char run[128];
    char step[24];
    struct xt_sha256_text id;
    struct xt_sha256_text head;
};

/* Of weights that no run wrote, or one before there were chains: empty. */
void xt_run_mark_read(struct xt_run_mark *mark, const struct xt_weight_file *file);
/* As metadata, which points into *mark; returns the number of items, 0 where it is empty. */
size_t xt_run_mark_meta(const struct xt_run_mark *mark, struct xt_file_meta out[XT_RUN_MARK_META]);

struct xt_run_mark_text {
    char text[256];
};
/* "run NAME, step 1200, record 3f2a91bc55d0"; "" where it is empty. */
struct xt_run_mark_text xt_run_mark_format(const struct xt_run_mark *mark);
/* The first digits of the head, enough to tell records apart. */
struct xt_run_mark_text xt_run_mark_short(const struct xt_run_mark *mark);
