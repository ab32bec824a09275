#include "cli/serve/hosts.h"

#include <string.h>
#include <strings.h>

/* The host name in a header, without the port; [::1] keeps its brackets. */
struct name {
    const char *at;
    size_t size;
};

static struct name name_of(const char *host)
{
    const char *end = *host == '[' ? strchr(host, ']') : NULL;
    size_t size = end ? (size_t)(end + 1 - host) : strcspn(host, ":");
    return (struct name){host, size};
}

static bool is_same(struct name name, const char *other, size_t size)
{
    return name.size == size && size > 0 && strncasecmp(name.at, other, size) == 0;
}

static bool is_loopback(struct name name)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is_same(name, names[i], strlen(names[i])))
            return true;
    return false;
}

static bool is_listed(const char *list, struct name name)
{
    for (const char *at = list; at && *at; at += *at == ',') {
        size_t size = strcspn(at, ",");
        if (is_same(name, at, size))
            return true;
        at += size;
    }
    return false;
}

bool xt_hosts_allow(const struct xt_hosts *hosts, const char *host)
{
    struct name name = name_of(host ? host : "");
    return hosts->any || is_loopback(name) || is_listed(hosts->allowed, name);
}

bool xt_hosts_allow_origin(const struct xt_hosts *hosts, const char *origin, const char *host)
{
    const char *scheme = strstr(origin, "://");
    if (!scheme)
        return false;
    const char *from = scheme + 3;
    struct name name = name_of(from);
    return is_listed(hosts->allowed, name) || (host && strcasecmp(from, host) == 0);
}
