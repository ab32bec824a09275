/* Where the service listens: a TCP port or a Unix socket. */
#ifndef XT_CLI_SERVE_ADDRESS_H
#define XT_CLI_SERVE_ADDRESS_H

#include <stdbool.h>

#include "base/err.h"

struct xt_listener {
    int fd;         /* listening; -1: none */
    char path[108]; /* of a Unix socket, which is removed at the end; "" else */
    char url[160];  /* for the reader: "http://127.0.0.1:8080", "unix:/run/x.sock" */
};

/* `text` is ADDRESS:PORT, [IPV6]:PORT, localhost:PORT or unix:PATH. An address that other machines
 * reach is XT_ERR_USAGE unless `remote`; one that is taken, or may not be, is XT_ERR_RUN. A socket
 * that a dead process left behind is replaced. */
enum xt_status xt_listener_open(struct xt_listener *listener, const char *text, bool remote,
                                struct xt_err *err);
/* Also of one that could not be opened. */
void xt_listener_close(struct xt_listener *listener);

#endif
