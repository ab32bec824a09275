/* A run's provenance: <run>/proof.json. For each start its hardware and software (program, oneDNN,
 * device, driver, kernels, libraries) and whether and when the device passed its check; for each
 * weight file its SHA-256. Equal starts are one entry with a count.
 *
 * Checkpoints carry a hash of their own (checkpoint.h). A damaged record is renamed, and a new one
 * started. The caller owns it; one thread at a time.
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
    cJSON *all; /* NULL: not recorded */
};

/* The description of a start. */
struct xt_proof_start {
    const struct xt_machine *machine;
    bool needs_check; /* its device may compute wrongly */
    int64_t checked;  /* when the device passed its check, seconds since 1970; 0: not checked */
    int64_t step;
    int ranks; /* processes that train as one */
};

/* Reads an earlier start's record, and adds this start. Close it also after a failure. */
enum xt_status xt_proof_open(struct xt_proof *proof, const struct xt_run_folder *folder,
                             const struct xt_proof_start *start, struct xt_err *err);
void xt_proof_close(struct xt_proof *proof);

/* Call before a file of the folder is written: removes its entry. */
enum xt_status xt_proof_before(struct xt_proof *proof, const char *name, struct xt_err *err);
/* Call after writing: records its hash, read from the disk. */
enum xt_status xt_proof_after(struct xt_proof *proof, const char *name, int64_t step,
                              struct xt_err *err);

/* The machine as recorded for a start: an object of texts; NULL when out of memory. The caller
 * deletes it. */
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
