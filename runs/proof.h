/* What a run was made with, for whoever asks later: <run>/proof.json. Of each start what it ran on
 * (program, oneDNN, device, driver, kernels, libraries) and whether the device was seen to compute
 * right, and when; of each file of weights its SHA-256. Starts that are alike are one, counted.
 *
 * Checkpoints carry a hash of their own (checkpoint.h). A record that is damaged is put aside, and
 * a new one begun. The caller owns it; one thread at a time.
 */
#ifndef XT_RUNS_PROOF_H
#define XT_RUNS_PROOF_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"
#include "infer/machine.h"
#include "runs/run_folder.h"

#define XT_PROOF_FILE "proof.json"

struct xt_proof {
    const struct xt_run_folder *folder;
    cJSON *all; /* NULL: none is kept */
};

/* What a start is described by. */
struct xt_proof_start {
    const struct xt_machine *machine;
    bool needs_check; /* its device may compute wrongly */
    int64_t checked;  /* when the device was seen to compute right, seconds since 1970; 0: not */
    int64_t step;
    int ranks; /* processes that train as one */
};

/* Goes on with what an earlier start left, and records this one. Close it also after a failure. */
enum xt_status xt_proof_open(struct xt_proof *proof, const struct xt_run_folder *folder,
                             const struct xt_proof_start *start, struct xt_err *err);
void xt_proof_close(struct xt_proof *proof);

/* Before a file of the folder is written: it is as recorded no longer. */
enum xt_status xt_proof_before(struct xt_proof *proof, const char *name, struct xt_err *err);
/* After it was: its hash is taken from the disk. */
enum xt_status xt_proof_after(struct xt_proof *proof, const char *name, int64_t step,
                              struct xt_err *err);

/* What computes, as a start is recorded: an object of texts; NULL where memory
 * is short. The caller deletes it. */
cJSON *xt_proof_describe(const struct xt_machine *machine);

/* Reads a run's record into *out (cJSON_Delete). XT_ERR_DATA where there is none, or it is damaged.
 */
enum xt_status xt_proof_read(const char *folder, cJSON **out, struct xt_err *err);

/* The SHA-256 of a whole file, and its length. */
enum xt_status xt_proof_hash(const char *path, struct xt_sha256_text *out, size_t *bytes,
                             struct xt_err *err);

struct xt_proof_date {
    char text[24]; /* "2026-01-31T23:59:59Z" */
};
struct xt_proof_date xt_proof_date(int64_t seconds);

#endif
