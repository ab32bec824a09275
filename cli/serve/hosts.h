/* The host names by which the service may be addressed. A foreign name that resolves to the
 * loopback is an attack by a web page (DNS rebinding). Constant once initialised. */
#pragma once

#include <stdbool.h>

struct xt_hosts {
    const char *allowed; /* comma-separated names beside the loopback's; NULL: none */
    bool any; /* the service is reachable from other machines and no names are configured */
};

/* Whether a Host header's value is allowed: NAME, or NAME:PORT. */
bool xt_hosts_allow(const struct xt_hosts *hosts, const char *host);
/* Whether a page from `origin` ("http://NAME:PORT") may send requests: its name is allowed, or
 * equals the request's own host. */
bool xt_hosts_allow_origin(const struct xt_hosts *hosts, const char *origin, const char *host);
