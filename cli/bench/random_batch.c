#include "cli/bench/random_batch.h"

#include <stdlib.h>

#include "base/mem.h"
#include "train/synthetic_step.h"

enum xt_status xt_random_batch_init(struct xt_random_batch *random, struct xt_trainer *trainer,
                                    struct xt_err *err)
{
    static const char what[] = "the bench's samples";
    struct xt_upload *upload = xt_trainer_upload(trainer);
    const struct xt_network *network = xt_trainer_network(trainer);
    size_t batch = (size_t)network->batch;
    *random = (struct xt_random_batch){.labels = NULL};
    enum xt_status status =
        xt_mem_calloc(&random->labels, batch * XT_LABEL_MAX, sizeof *random->labels, what, err);
    if (!status)
        status =
            xt_mem_calloc(&random->label_lengths, batch, sizeof *random->label_lengths, what, err);
    if (status)
        return status;
    xt_synthetic_batch(network, network->batch, upload->pixels[0], upload->bytes, random->labels,
                       random->label_lengths);
    random->batch.host = (struct xt_batch){
        .count = network->batch,
        .pixels = upload->transfers ? NULL : upload->pixels[0],
        .labels = random->labels,
        .label_lengths = random->label_lengths,
    };
    if (!upload->transfers)
        return XT_OK;
    random->batch.uploaded = &upload->buffers[0];
    return xt_upload_move(upload, 0, 0, err);
}

void xt_random_batch_clear(struct xt_random_batch *random)
{
    free(random->labels);
    free(random->label_lengths);
    *random = (struct xt_random_batch){.labels = NULL};
}
