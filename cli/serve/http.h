/* The service over HTTP: POST /predict, GET /healthz, GET /metrics.
 *
 * libmicrohttpd's thread receives requests, decoding threads decode images, and the network's
 * threads compute; a connection is suspended until its response is ready. Memory, connections and
 * time per client are limited; if the queue is full the response is 503.
 */
#pragma once

#include "base/err.h"
#include "cli/serve/address.h"
#include "cli/serve/metrics.h"
#include "infer/session/xtrain.h"
#include "cli/settings.h"

/* Settings beside the network; borrowed while it runs. */
struct xt_http_config {
    const struct xt_service_settings *service;
    const struct xt_answer_settings *answer;
    int workers; /* decoding threads; 0: automatic */
    int queue;   /* the network's queue length */
};

/* Serves requests until a signal requests a stop, then completes the pending ones; closes the
 * listener. Images are refused if the network's queue is full. */
enum xt_status xt_http_run(struct xtrain *network, struct xt_listener *listener,
                           struct xt_metrics *metrics, const struct xt_http_config *config,
                           struct xt_err *err);
