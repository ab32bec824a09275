/* A run's provenance: <run>/proof.json. For each start its hardware and software (program, oneDNN,
 * device, driver, kernels, libraries) and whether and when the device passed its check; for each
 * file of weights, checkpoint and config.yaml its SHA-256; and the links of the record's chain
 * (chain.h). Equal starts are one entry with a count.
 *
 * `seal` is the SHA-256 of all the rest, as it is printed without it. A record that was changed, or
 * whose metrics.jsonl lacks lines, is continued, but that stays in its `breaks`. A damaged record
 * is renamed, and a new one started. The caller owns it; one thread at a time.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sha256.h"
#include "infer/machine.h"
#include "runs/chain_check.h"
#include "runs/run_folder.h"

#define XT_PROOF_FILE "proof.json"
#define XT_PROOF_SIGNATURE "proof.json.sig"

struct xt_proof {
    const struct xt_run_folder *folder;
    cJSON *all;   /* NULL: not recorded */
    cJSON *facts; /* of this start, until it is linked */
};

/* The description of a start. */
struct xt_proof_start {
    const struct xt_machine *machine;
    bool needs_check; /* its device may compute wrongly */
    int64_t checked;  /* when the device passed its check, seconds since 1970; 0: not checked */
    int64_t step;
    int ranks;                      /* processes that train as one */
    struct xt_sha256_text data;     /* of the images: names, labels */
    struct xt_sha256_text settings; /* of the options that weights depend on */
    const char *begun_from;         /* hash of the record in the checkpoint; "": none */
};

/* Reads an earlier start's record, and adds this start; removes the signature of the earlier one.
 * Nothing is written before `link`. Close it also after a failure. */
enum xt_status xt_proof_open(struct xt_proof *proof, const struct xt_run_folder *folder,
                             const struct xt_proof_start *start, struct xt_err *err);
void xt_proof_close(struct xt_proof *proof);

/* Call before metrics.jsonl is continued: adds this start, or a rollback, to its chain. *head is
 * what the next line continues. */
enum xt_status xt_proof_link(struct xt_proof *proof, const struct xt_chain_survey *survey,
                             struct xt_sha256_text *head, struct xt_err *err);

/* The hash of the chain's first link, by which a run is known, and of its last save; "": none. */
const char *xt_proof_id(const cJSON *all);
const char *xt_proof_head(const cJSON *all);

/* Call before a file of the folder is written: removes its entry. */
enum xt_status xt_proof_before(struct xt_proof *proof, const char *name, struct xt_err *err);
/* Call after writing: records its hash, read from the disk, and the chain's head (NULL: unchanged);
 * forgets checkpoints that are gone. */
enum xt_status xt_proof_after(struct xt_proof *proof, const char *name, int64_t step,
                              const char *head, struct xt_err *err);

/* The machine as recorded for a start: an object of texts; NULL when out of memory. The caller
 * deletes it. */
cJSON *xt_proof_describe(const struct xt_machine *machine);

/* Whether the record is what was written; versions before the chain wrote no seal. */
enum xt_proof_seal { XT_SEAL_NONE, XT_SEAL_HOLDS, XT_SEAL_BROKEN };

/* Reads a run's record into *out (cJSON_Delete), without its seal. XT_ERR_DATA where there is none,
 * or it is damaged. */
enum xt_status xt_proof_read(const char *folder, cJSON **out, enum xt_proof_seal *seal,
                             struct xt_err *err);

/* The SHA-256 of a whole file, and its length. */
enum xt_status xt_proof_hash(const char *path, struct xt_sha256_text *out, size_t *bytes,
                             struct xt_err *err);
