/* The service's listening socket: a TCP port or a Unix socket. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

struct xt_listener {
    int fd;         /* listening; -1: none */
    char path[108]; /* of a Unix socket, which is removed at the end; "" otherwise */
    char url[160];  /* for display: "http://127.0.0.1:8080", "unix:/run/x.sock" */
};

/* `text` is ADDRESS:PORT, [IPV6]:PORT, localhost:PORT or unix:PATH. XT_ERR_USAGE for an address
 * that other machines can reach unless `remote`; XT_ERR_RUN if it is in use or not permitted. A
 * stale socket of a dead process is replaced. */
enum xt_status xt_listener_open(struct xt_listener *listener, const char *text, bool remote,
                                struct xt_err *err);
/* Also valid if open failed. */
void xt_listener_close(struct xt_listener *listener);
