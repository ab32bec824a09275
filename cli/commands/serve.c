/* xtrain serve: a resident process that answers over HTTP or on standard input. */
#include <stdio.h>

#include "base/log.h"
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/origin.h"
#include "cli/serve/address.h"
#include "cli/serve/answer.h"
#include "cli/serve/attack/selftest.h"
#include "cli/serve/http.h"
#include "cli/serve/metrics.h"
#include "cli/serve/ordered.h"
#include "cli/serve/stream.h"
#include "data/image/image.h"
#include "infer/session/engine.h"

/* Checks settings that are valid on the command line only, or not at all. */
static enum xt_status check(const struct xt_options *options, int *width, int *height,
                            struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    bool frames = s->service.stdin_kind == XT_STDIN_FRAMES;
    char rest = '\0';
    if (!options->argument_count)
        return xt_err_set(err, XT_ERR_USAGE, "serve needs WEIGHTS, or --selftest URL");
    if (s->service.stdin_kind != XT_STDIN_NONE &&
        xt_options_source(options, "listen") == XT_SOURCE_COMMAND_LINE)
        return xt_err_set(err, XT_ERR_USAGE, "--stdin and --listen: give one of the two");
    if (frames != (s->service.frame != NULL))
        return xt_err_set(err, XT_ERR_USAGE,
                          frames ? "--stdin frames needs their size: --frame WIDTHxHEIGHT"
                                 : "--frame is the size of the raw frames of --stdin frames");
    if (frames && (sscanf(s->service.frame, "%6dx%6d%c", width, height, &rest) != 2 ||
                   xt_image_check(*width, *height, err)))
        return xt_err_set(err, XT_ERR_USAGE, "--frame takes WIDTHxHEIGHT, such as 1280x720, not %s",
                          xt_show(s->service.frame).text);
    return XT_OK;
}

static void passed(void *context, int images, double seconds)
{
    xt_metrics_pass(context, images, seconds);
}

static enum xt_status start(struct xtrain *network, const struct xt_options *options,
                            struct xt_metrics *metrics, struct xt_engine_plan *plan,
                            struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    bool is_http = s->service.stdin_kind == XT_STDIN_NONE;
    enum xt_value_source source = xt_options_source(options, "batch");
    bool is_said = source == XT_SOURCE_COMMAND_LINE || source == XT_SOURCE_CONFIG;
    *plan = (struct xt_engine_plan){
        .session = {.batch = is_said ? s->network.batch : XT_SESSION_BATCH, .any_count = true},
        .wait = s->service.max_latency,
        .queue = s->service.max_queue,
        .refuse = is_http,
        .decode_seconds = is_http ? s->service.decode_time : 0,
        .passed = passed,
        .context = metrics,
    };
    if (!plan->queue)
        plan->queue = 4 * plan->session.batch;
    if (plan->queue < plan->session.batch)
        return xt_err_set(err, XT_ERR_USAGE, "--max-queue %d is less than one batch of %d",
                          plan->queue, plan->session.batch);
    double begin = xt_thread_seconds();
    enum xt_status status = xt_engine_start(network, plan, err);
    if (status)
        return status;
    xt_log_note("%s on %s: ready after %.1f s, up to %d images at a time", xtrain_model(network),
                xtrain_device(network), xt_thread_seconds() - begin, plan->session.batch);
    xt_origin_note(&xt_engine_network(network)->mark);
    if (xt_engine_network(network)->over_batch)
        xt_log_warn("this network's context norm is over the batch: a prediction depends on the "
                    "other images of its batch; with --lprnet-norm sample it does not");
    return XT_OK;
}

static enum xt_status answer_stream(struct xtrain *network, const struct xt_settings *s, int width,
                                    int height, int batch, struct xt_err *err)
{
    struct xt_ordered answers = {.each = true};
    double begin = xt_thread_seconds();
    enum xt_status status = xt_ordered_init(&answers, network, batch, &s->answer, err);
    if (!status)
        status = xt_stream_run(&answers, s->service.stdin_kind, width, height, err);
    /* After a stop signal pending requests are completed. */
    if (!status || status == XT_STOPPED || status == XT_INTERRUPTED)
        status = xt_ordered_end(&answers, begin, err);
    xt_ordered_clear(&answers);
    return status;
}

static enum xt_status attack(const struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    if (options->argument_count)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--selftest attacks a service that is running: leave out %s",
                          xt_show(options->arguments[0]).text);
    return xt_serve_selftest(s->service.selftest, s->service.allow_remote, err);
}

enum xt_status xt_cmd_serve(struct xt_options *options, struct xt_err *err)
{
    struct xt_settings *s = &options->values;
    struct xt_listener listener = {.fd = -1};
    struct xt_engine_plan plan;
    struct xt_metrics metrics;
    struct xtrain *network = NULL;
    int width = 0;
    int height = 0;
    bool is_http = s->service.stdin_kind == XT_STDIN_NONE;
    if (s->service.selftest)
        return attack(options, err);
    xt_metrics_init(&metrics);
    enum xt_status status = check(options, &width, &height, err);
    if (!status && is_http)
        status = xt_listener_open(&listener, s->service.listen, s->service.allow_remote, err);
    const struct xt_infer_settings infer = xt_options_infer(s);
    if (!status)
        status = xt_engine_open(&network, &infer, err);
    if (!status)
        status = xt_answer_check(network, options, err);
    if (!status)
        status = start(network, options, &metrics, &plan, err);
    if (!status && is_http) {
        const struct xt_http_config config = {&s->service, &s->answer, s->data.workers, plan.queue};
        status = xt_http_run(network, &listener, &metrics, &config, err);
    } else if (!status) {
        status = answer_stream(network, s, width, height, plan.session.batch, err);
        network = NULL;
    }
    xtrain_close(network);
    xt_listener_close(&listener);
    xt_metrics_clear(&metrics);
    return status;
}
