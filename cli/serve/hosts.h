/* By which names the service may be asked. On the loopback a name of somebody else's that leads
 * here is a web page's trick (DNS rebinding). Constant once initialised.
 */
#ifndef XT_CLI_SERVE_HOSTS_H
#define XT_CLI_SERVE_HOSTS_H

#include <stdbool.h>

struct xt_hosts {
    const char *allowed; /* names with commas between, beside the loopback's; NULL: none */
    bool any;            /* where other machines reach the service, and none are named */
};

/* Whether a Host header's value may be: NAME, or NAME:PORT. */
bool xt_hosts_allow(const struct xt_hosts *hosts, const char *host);
/* Whether a page of `origin` ("http://NAME:PORT") may ask: one of an allowed name, or of the very
 * host that is asked. */
bool xt_hosts_allow_origin(const struct xt_hosts *hosts, const char *origin, const char *host);

#endif
