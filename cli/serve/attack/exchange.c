#include "cli/serve/attack/exchange.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/system/thread.h"
#include "cli/options/types.h"

/* ---- the address ---- */

static bool is_own(const struct sockaddr_storage *address)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)(const void *)address;
    if (address->ss_family == AF_INET)
        return ntohl(four->sin_addr.s_addr) >> 24 == 127;
    return address->ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

enum xt_status xt_target_find(struct xt_target *target, const char *url, bool remote,
                              struct xt_err *err)
{
    char host[64];
    char port[8];
    char rest = '/';
    *target = (struct xt_target){.size = 0};
    bool is_url = sscanf(url, "http://[%63[0-9a-fA-F:]]:%7[0-9]%c", host, port, &rest) >= 2 ||
                  sscanf(url, "http://%63[^][:/]:%7[0-9]%c", host, port, &rest) >= 2;
    if (!is_url || rest != '/')
        return xt_err_set(
            err, XT_ERR_USAGE,
            "--selftest takes the address of a service, http://127.0.0.1:8080, not %s",
            xt_show(url).text);
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int failed = getaddrinfo(host, port, &hints, &found);
    if (failed)
        return xt_err_set(err, XT_ERR_USAGE, "--selftest %s: %s", url, gai_strerror(failed));
    memcpy(&target->address, found->ai_addr, found->ai_addrlen);
    target->size = found->ai_addrlen;
    freeaddrinfo(found);
    snprintf(target->host, sizeof target->host, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host,
             port);
    if (remote || is_own(&target->address))
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "--selftest %s: this is another machine; attack your own service only, and "
                      "give --allow-remote if it is one",
                      url);
}

int xt_target_connect(const struct xt_target *target)
{
    int fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    const struct sockaddr *address = (const struct sockaddr *)(const void *)&target->address;
    if (connect(fd, address, target->size) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

/* ---- an exchange ---- */

struct exchange {
    const struct xt_sending *sending;
    struct xt_reply *reply;
    int fd;
    size_t part; /* 0: the head; then pieces */
    size_t sent; /* of that part */
    double next; /* when the next piece is due */
};

static bool is_all_sent(const struct exchange *at)
{
    return at->part > at->sending->times;
}

/* Sends what is due; a service that does not take it any more may still answer. */
static void send_some(struct exchange *at)
{
    const struct xt_sending *sending = at->sending;
    const char *bytes = at->part ? sending->piece : sending->head;
    size_t size = at->part ? sending->piece_bytes : sending->head_bytes;
    ssize_t sent = size ? send(at->fd, bytes + at->sent, size - at->sent, MSG_NOSIGNAL) : 0;
    if (sent < 0 && errno != EAGAIN)
        at->part = sending->times + 1;
    at->sent += sent > 0 ? (size_t)sent : 0;
    if (at->sent < size || is_all_sent(at))
        return;
    at->part++;
    at->sent = 0;
    at->next = xt_thread_seconds() + sending->pause;
}

static void receive_some(struct exchange *at)
{
    char bytes[65536];
    struct xt_reply *reply = at->reply;
    ssize_t size = recv(at->fd, bytes, sizeof bytes, 0);
    if (size < 0 && errno == EAGAIN)
        return;
    reply->has_ended = size <= 0;
    if (size <= 0)
        return;
    size_t room = sizeof reply->text - 1 - reply->bytes;
    size_t taken = (size_t)size < room ? (size_t)size : room;
    memcpy(reply->text + reply->bytes, bytes, taken);
    reply->bytes += taken;
}

static void read_codes(struct xt_reply *reply)
{
    static const char mark[] = "HTTP/1.1 ";
    const char *at = reply->text;
    if (strncmp(at, mark, sizeof mark - 1) == 0)
        reply->code = (int)strtol(at + sizeof mark - 1, NULL, 10);
    /* libmicrohttpd may send the head of its own 400 twice. */
    for (; (at = strstr(at, mark)); at++)
        reply->is_mixed |= strtol(at + sizeof mark - 1, NULL, 10) != reply->code;
}

struct xt_reply xt_exchange(const struct xt_target *target, const struct xt_sending *sending)
{
    struct xt_reply reply = {.code = 0};
    struct exchange at = {.sending = sending, .reply = &reply, .fd = xt_target_connect(target)};
    double begin = xt_thread_seconds();
    reply.has_failed = at.fd < 0;
    while (at.fd >= 0 && !reply.has_ended) {
        double now = xt_thread_seconds();
        bool is_due = !is_all_sent(&at) && now >= at.next;
        double until = begin + sending->seconds;
        if (!is_all_sent(&at) && at.next > now && at.next < until)
            until = at.next;
        struct pollfd waits = {.fd = at.fd, .events = (short)(POLLIN | (is_due ? POLLOUT : 0))};
        if (now >= begin + sending->seconds)
            break;
        if (poll(&waits, 1, (int)(1e3 * (until - now)) + 1) <= 0)
            continue;
        if (waits.revents & POLLOUT)
            send_some(&at);
        if (waits.revents & (POLLIN | POLLHUP | POLLERR))
            receive_some(&at);
    }
    if (at.fd >= 0)
        close(at.fd);
    reply.seconds = xt_thread_seconds() - begin;
    read_codes(&reply);
    return reply;
}
