#include "infer/single_pass.h"

struct xt_loader_config xt_single_pass_config(const struct xt_network *network,
                                              const struct xt_data_settings *settings,
                                              const struct xt_source *source)
{
    const struct xt_feed_size size = {network->width, network->height, network->model->bgr};
    struct xt_loader_config config = xt_feed_config(settings, &size, false);
    config.source = source;
    config.batch = network->batch;
    return config;
}

enum xt_status xt_single_pass_open(struct xt_single_pass *pass, struct xt_network *network,
                                   const struct xt_loader_config *config, struct xt_err *err)
{
    const struct xt_upload_config way = xt_network_upload_config(network, XT_FEED_EVALUATION_SLOTS);
    *pass = (struct xt_single_pass){0};
    enum xt_status status = xt_upload_init(&pass->upload, &way, err);
    return status ? status : xt_feed_create(&pass->feed, &pass->upload, config, false, err);
}

void xt_single_pass_close(struct xt_single_pass *pass)
{
    xt_feed_destroy(pass->feed);
    xt_upload_clear(&pass->upload);
    *pass = (struct xt_single_pass){0};
}
