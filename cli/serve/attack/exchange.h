/* A client that means no good: sends bytes as they are, bounded in time and memory. */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/err.h"

struct xt_target {
    struct sockaddr_storage address;
    socklen_t size;
    char host[80]; /* for the Host header: "127.0.0.1:8080" */
};

/* "http://127.0.0.1:8080". XT_ERR_USAGE for another form, or an address that is not of this machine
 * unless `remote`. */
enum xt_status xt_target_find(struct xt_target *target, const char *url, bool remote,
                              struct xt_err *err);

/* What is sent: a head, then `times` one piece, `pause` seconds between two. */
struct xt_sending {
    const void *head;
    size_t head_bytes;
    const void *piece;
    size_t piece_bytes;
    size_t times;
    double pause;
    double seconds; /* that the exchange may take */
};

struct xt_reply {
    char text[4096]; /* the beginning of what came */
    size_t bytes;
    int code;        /* 0: no HTTP */
    bool is_mixed;   /* status lines of other codes follow: it saw several requests */
    bool has_ended;  /* the service closed the connection */
    bool has_failed; /* no connection was made */
    double seconds;
};

/* Until the service closes the connection, or the time is up; a whole request asks for the close.
 */
struct xt_reply xt_exchange(const struct xt_target *target, const struct xt_sending *sending);

/* Opens a connection and sends nothing; -1: it could not be made. */
int xt_target_connect(const struct xt_target *target);
