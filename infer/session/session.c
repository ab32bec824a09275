#include "infer/session/session.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "infer/network/auto_batch.h"
#include "infer/calibrate.h"
#include "infer/device_check.h"
#include "infer/network/network_build.h"

/* A prediction must not depend on the other images of a run, so the ranges cannot come from them.
 */
static enum xt_status check_int8(const struct xt_network *network,
                                 const struct xt_infer_settings *s, struct xt_err *err)
{
    if (s->network.amp != XT_AMP_INT8)
        return XT_OK;
    if (s->answer.calibrate || xt_weight_file_meta(&network->weights, XT_RANGES_KEY))
        return xt_calibrate_check(&s->network, err);
    return xt_err_set(err, XT_ERR_USAGE,
                      "--amp int8 needs the ranges of the values in the network: give --calibrate "
                      "DIR with images like those to be predicted, best those it was trained on; "
                      "or weights that hold them: xtrain export WEIGHTS INT8.safetensors");
}

enum xt_status xt_session_open(struct xt_session *session, const struct xt_infer_settings *settings,
                               struct xt_err *err)
{
    enum xt_status status =
        xt_network_open(&session->network, &settings->network, &settings->device, err);
    return status ? status : check_int8(&session->network, settings, err);
}

static enum xt_status build_network(struct xt_session *session,
                                    const struct xt_infer_settings *settings,
                                    const struct xt_session_plan *plan, struct xt_err *err)
{
    struct xt_calibration calibration;
    struct xt_network *network = &session->network;
    int batch = plan->batch;
    enum xt_status status = batch ? XT_OK : xt_network_check_classes(network, err);
    if (!status && !batch)
        status =
            xt_auto_batch_take(network, &settings->network, false, plan->images, NULL, &batch, err);
    if (!status)
        status = xt_network_build(network, &settings->network, batch, false, err);
    if (status || settings->network.amp != XT_AMP_INT8 || !settings->answer.calibrate)
        return status;
    status =
        xt_calibrate_int8(network, settings, settings->answer.calibrate, batch, &calibration, err);
    if (!status)
        xt_log_note("int8: ranges from %zu of the %s of %s", calibration.images,
                    xt_count((long long)calibration.all, "image").text, calibration.source);
    return status;
}

/* Each a quarter of the next: more graphs would need more memory for their copies of the weights.
 */
static enum xt_status build_smaller(struct xt_session *session,
                                    const struct xt_infer_settings *settings, int batch,
                                    struct xt_err *err)
{
    struct xt_device_verdict verdict = {.when = 0};
    enum xt_status status = XT_OK;
    if (batch > 1) {
        int less = (batch + 3) / 4;
        status = build_smaller(session, settings, less, err);
        if (!status)
            status = xt_network_build_beside(&session->network, &settings->network, less, false,
                                             &session->graphs[session->graph_count], err);
        if (!status && settings->device.check != XT_CHECK_NEVER)
            status =
                xt_device_check(session->graphs[session->graph_count], NULL, false, &verdict, err);
        session->graph_count += session->graphs[session->graph_count] != NULL;
    }
    return status;
}

static enum xt_status warm(struct xt_session *session, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < session->graph_count && !status; i++)
        status = xt_session_run(session, session->graphs[i]->options.batch, err);
    return status;
}

/* What a session needs beside its network. */
static enum xt_status complete(struct xt_session *session, const struct xt_infer_settings *settings,
                               bool any_count, struct xt_err *err)
{
    struct xt_network *network = &session->network;
    enum xt_status status =
        any_count ? build_smaller(session, settings, network->batch, err) : XT_OK;
    if (!status)
        status = xt_network_check_device(network, &settings->network, &settings->device, NULL,
                                         false, err);
    if (!status)
        status = xt_predictor_create(&session->predictor, network, &settings->answer, err);
    if (!status)
        status = xt_mem_aligned(&session->pixels, (size_t)network->batch,
                                xt_network_image_bytes(network), "a batch of images", err);
    if (status)
        return status;
    session->graphs[session->graph_count++] = network->graph;
    return any_count ? warm(session, err) : XT_OK;
}

enum xt_status xt_session_build(struct xt_session *session,
                                const struct xt_infer_settings *settings,
                                const struct xt_session_plan *plan, struct xt_err *err)
{
    enum xt_status status = build_network(session, settings, plan, err);
    return status ? status : complete(session, settings, plan->any_count, err);
}

enum xt_status xt_session_build_beside(struct xt_session *session, const struct xt_session *of,
                                       const struct xt_infer_settings *settings, int threads,
                                       int batch, struct xt_err *err)
{
    struct xt_network *network = &session->network;
    session->is_beside = true;
    *network = of->network;
    network->device.threads = threads;
    network->batch = batch;
    network->graph = NULL;
    enum xt_status status =
        xt_network_build_beside(network, &settings->network, batch, false, &network->graph, err);
    network->inference = network->graph;
    return status ? status : complete(session, settings, true, err);
}

int xt_session_take(const struct xt_session *session, int waiting)
{
    int pick = session->graph_count - 1;
    int quarters = session->is_beside ? 4 : 3; /* few threads lose little by a smaller graph */
    while (pick > 0 && 4 * waiting < quarters * session->graphs[pick]->options.batch)
        pick--;
    int batch = session->graphs[pick]->options.batch;
    return waiting < batch ? waiting : batch;
}

enum xt_status xt_session_run(struct xt_session *session, int count, struct xt_err *err)
{
    int pick = 0;
    while (session->graphs[pick]->options.batch < count)
        pick++;
    struct xt_graph *graph = session->graphs[pick];
    graph->pass = (struct xt_graph_pass){.pixels = session->pixels, .count = count};
    session->network.inference = graph; /* whose logits the predictor reads */
    return xt_graph_forward(graph, err);
}

void xt_session_clear(struct xt_session *session)
{
    struct xt_network *network = &session->network;
    for (int i = 0; i < session->graph_count; i++)
        if (session->graphs[i] != network->graph)
            xt_graph_destroy(session->graphs[i]);
    network->inference = network->graph;
    xt_predictor_destroy(session->predictor);
    free(session->pixels);
    if (session->is_beside)
        xt_graph_destroy(network->graph);
    else
        xt_network_clear(network);
    *session = (struct xt_session){0};
}
