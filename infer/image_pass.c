#include "infer/image_pass.h"

#include "base/log.h"
#include "base/str.h"
#include "base/system/stop.h"
#include "infer/single_pass.h"

/* One batch, of which at most `room` images are used. */
static enum xt_status run_batch(struct xt_network *network, const struct xt_image_pass *pass,
                                const struct xt_feed_batch *batch, size_t *done, struct xt_err *err)
{
    size_t room = pass->most - *done;
    enum xt_status status = xt_stop_check(err, "%s", pass->what);
    if (status)
        return status;
    int count = (size_t)batch->host.count < room ? batch->host.count : (int)room;
    network->graph->pass = (struct xt_graph_pass){
        .pixels = batch->host.pixels, .uploaded = batch->uploaded, .count = count};
    *done += (size_t)count;
    status = xt_graph_forward(network->graph, err);
    if (!status && pass->observe)
        status = pass->observe(pass->context, batch->host.pixels, count, err);
    return status;
}

static enum xt_status run_all(struct xt_network *network, const struct xt_image_pass *pass,
                              struct xt_feed *feed, size_t *done, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (bool end = false; !status && *done < pass->most;) {
        struct xt_feed_batch batch;
        status = xt_feed_next(feed, &batch, &end, NULL, err);
        if (status || end)
            break;
        status = run_batch(network, pass, &batch, done, err);
        xt_feed_release(feed, &batch);
    }
    return status;
}

static void warn_of_bad(const struct xt_image_pass *pass, struct xt_feed *feed)
{
    struct xt_err err;
    struct xt_bad_sample *bad = NULL;
    size_t count = 0;
    char name[1024] = "";
    if (xt_loader_bad(xt_feed_loader(feed), &bad, &count, &err))
        return;
    if (count) {
        pass->source->class->name(pass->source, bad[0].index, name, sizeof name);
        xt_log_warn("%s: %s could not be read: %s: %s", pass->option,
                    xt_count((long long)count, "image").text, name, bad[0].reason);
    }
    xt_loader_free_bad(bad, count);
}

enum xt_status xt_image_pass_run(struct xt_network *network,
                                 const struct xt_data_settings *settings,
                                 const struct xt_image_pass *pass, size_t *done, struct xt_err *err)
{
    struct xt_loader_config config = xt_single_pass_config(network, settings, pass->source);
    struct xt_single_pass single;
    config.shuffle = true;
    *done = 0;
    enum xt_status status = xt_single_pass_open(&single, network, &config, err);
    if (!status)
        status = run_all(network, pass, single.feed, done, err);
    if (single.feed)
        warn_of_bad(pass, single.feed);
    xt_single_pass_close(&single);
    return status;
}
