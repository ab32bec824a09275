#include "cli/serve/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/str.h"

enum { BACKLOG = 1024 };

static enum xt_status refuse(const char *text, const char *why, struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_USAGE,
                      "--listen takes ADDRESS:PORT, such as 127.0.0.1:8080, or unix:PATH, not "
                      "\"%.100s\": %s",
                      text, why);
}

/* ---- Unix sockets ---- */

/* True if a process listens there. */
static bool is_live(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool live = fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 ||
                errno != ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return live;
}

/* Removes a socket that no process listens on. */
static enum xt_status clear_path(const struct sockaddr_un *address, struct xt_err *err)
{
    struct stat status;
    if (lstat(address->sun_path, &status))
        return XT_OK;
    if (!S_ISSOCK(status.st_mode))
        return xt_err_set(err, XT_ERR_RUN,
                          "--listen unix:%s: that file exists and is not a socket; choose "
                          "another name",
                          address->sun_path);
    if (is_live(address))
        return xt_err_set(err, XT_ERR_RUN,
                          "--listen unix:%s: another process listens there, or it may not be asked",
                          address->sun_path);
    unlink(address->sun_path);
    return XT_OK;
}

static enum xt_status open_unix(struct xt_listener *listener, const char *path, struct xt_err *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!*path || strlen(path) >= sizeof address.sun_path)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--listen unix:%.150s: the path of a socket has 1 to %zu bytes", path,
                          sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    enum xt_status status = clear_path(&address, err);
    if (status)
        return status;
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener->fd < 0 || bind(listener->fd, (const struct sockaddr *)&address, sizeof address) ||
        listen(listener->fd, BACKLOG))
        return xt_err_system(err, XT_ERR_RUN, "--listen unix:%s: cannot create a socket there",
                             path);
    memcpy(listener->path, path, strlen(path) + 1);
    snprintf(listener->url, sizeof listener->url, "unix:%s", path);
    return XT_OK;
}

/* ---- TCP ---- */

/* Splits "127.0.0.1:8080" into host and port; an IPv6 address is in brackets. */
static bool split(const char *text, char *host, size_t host_room, char *port, size_t port_room)
{
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text)
        return false;
    bool brackets = *text == '[' && colon[-1] == ']';
    int length = (int)(colon - text) - (brackets ? 2 : 0);
    if (!brackets && memchr(text, ':', (size_t)(colon - text)))
        return false;
    return snprintf(host, host_room, "%.*s", length, text + brackets) < (int)host_room &&
           snprintf(port, port_room, "%s", colon + 1) < (int)port_room;
}

static bool is_port(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text) && strtol(text, NULL, 10) <= 65535;
}

static bool is_loopback(const struct addrinfo *info)
{
    if (info->ai_family == AF_INET) {
        struct sockaddr_in address;
        memcpy(&address, info->ai_addr, sizeof address);
        return ntohl(address.sin_addr.s_addr) >> 24 == 127;
    }
    struct sockaddr_in6 address;
    memcpy(&address, info->ai_addr, sizeof address);
    return IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
}

/* Sets the URL, with the port that was assigned for port 0. */
static void name_it(struct xt_listener *listener, const char *host)
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    char port[16] = "?";
    if (getsockname(listener->fd, (struct sockaddr *)&own, &size) == 0)
        getnameinfo((const struct sockaddr *)&own, size, NULL, 0, port, sizeof port,
                    NI_NUMERICSERV);
    bool brackets = strchr(host, ':') != NULL;
    snprintf(listener->url, sizeof listener->url, "http://%s%s%s:%s", brackets ? "[" : "", host,
             brackets ? "]" : "", port);
}

static enum xt_status listen_at(struct xt_listener *listener, const struct addrinfo *info,
                                const char *text, struct xt_err *err)
{
    int on = 1;
    listener->fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener->fd >= 0)
        setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener->fd >= 0 && bind(listener->fd, info->ai_addr, info->ai_addrlen) == 0 &&
        listen(listener->fd, BACKLOG) == 0)
        return XT_OK;
    return xt_err_set(err, XT_ERR_RUN, "--listen %.100s: %s", text,
                      errno == EADDRINUSE
                          ? "another process listens there; choose another port, or "
                            "0 for a free one"
                      : errno == EADDRNOTAVAIL ? "this machine does not have that address"
                      : errno == EACCES ? "ports below 1024 are for root; choose a larger one"
                                        : strerror(errno));
}

static enum xt_status open_tcp(struct xt_listener *listener, const char *text, bool remote,
                               struct xt_err *err)
{
    char host[64];
    char port[8];
    struct addrinfo *info = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    if (!split(text, host, sizeof host, port, sizeof port) || !is_port(port))
        return refuse(text, "it is not an address followed by a port from 0 to 65535", err);
    if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &hints, &info))
        return refuse(text, "the address is neither numeric nor localhost", err);
    enum xt_status status =
        remote || is_loopback(info)
            ? listen_at(listener, info, text, err)
            : xt_err_set(err, XT_ERR_USAGE,
                         "--listen %.100s: other machines can reach that address, and all that "
                         "reach the service can use it: add --allow-remote if that is intended",
                         text);
    freeaddrinfo(info);
    if (!status)
        name_it(listener, host);
    return status;
}

enum xt_status xt_listener_open(struct xt_listener *listener, const char *text, bool remote,
                                struct xt_err *err)
{
    *listener = (struct xt_listener){.fd = -1};
    enum xt_status status = xt_str_starts(text, "unix:") ? open_unix(listener, text + 5, err)
                                                         : open_tcp(listener, text, remote, err);
    if (status)
        xt_listener_close(listener);
    return status;
}

void xt_listener_close(struct xt_listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    if (*listener->path)
        unlink(listener->path);
    *listener = (struct xt_listener){.fd = -1};
}
