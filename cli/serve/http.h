/* The service over HTTP: POST /predict, GET /healthz, GET /metrics.
 *
 * libmicrohttpd's threads take requests in and decode images; the network's thread computes, and a
 * connection sleeps until its answer is there. What a client may take of memory, connections and
 * time is limited; where the queue is full the answer is 503.
 */
#ifndef XT_CLI_SERVE_HTTP_H
#define XT_CLI_SERVE_HTTP_H

#include "base/err.h"
#include "cli/serve/address.h"
#include "cli/serve/metrics.h"
#include "infer/session/xtrain.h"
#include "cli/settings.h"

/* What it needs beside a network; borrowed while it runs. */
struct xt_http_config {
    const struct xt_service_settings *service;
    const struct xt_answer_settings *answer;
    int workers; /* that decode images; 0: found */
    int queue;   /* of the network */
};

/* Answers requests that come to the listener until a signal asks to stop, then those in hand; the
 * listener is closed. The network refuses pictures where its queue is full. */
enum xt_status xt_http_run(struct xtrain *network, struct xt_listener *listener,
                           struct xt_metrics *metrics, const struct xt_http_config *config,
                           struct xt_err *err);

#endif
