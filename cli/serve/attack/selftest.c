#include "cli/json/result.h"
#include "cli/serve/attack/selftest.h"

#include <png.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "base/system/stop.h"
#include "cli/serve/attack/exchange.h"

enum {
    CROWD = 300,    /* connections that ask nothing */
    ASKED = 5,      /* times in between */
    SIDE = 4000,    /* of the large picture */
    GROWN = 512,    /* MiB that the service may keep after all */
    ENDLESS = 4800, /* pieces of 64 KiB: more than any --max-body */
};
static const double soon = 5;      /* seconds for what has to be answered meanwhile */
static const double patience = 45; /* for what may wait for the service's own timeouts */

struct selftest {
    struct xt_target target;
    struct xt_report *table;
    char *plain; /* a whole request with a small picture */
    size_t plain_bytes;
    char *large; /* one that takes long to decode */
    size_t large_bytes;
    int attacks;
    int failed;
};

static void add(struct selftest *test, const char *name, bool held, const char *detail)
{
    struct xt_report *row = xt_report_group(test->table, NULL);
    test->attacks++;
    test->failed += !held;
    xt_report_add(row, "attack", "attack", "%s", name);
    xt_report_flag(row, "held", "held", held, "yes", "NO");
    xt_report_add(row, "detail", "what came", "%s", detail);
}

static struct xt_reply ask(const struct selftest *test, const void *bytes, size_t size)
{
    const struct xt_sending sending = {.head = bytes, .head_bytes = size, .seconds = patience};
    return xt_exchange(&test->target, &sending);
}

/* ---- pictures ---- */

/* A request that posts a black picture of that size; NULL: out of memory. */
static char *picture_request(const struct selftest *test, unsigned width, unsigned height,
                             size_t *size)
{
    png_image image = {
        .version = PNG_IMAGE_VERSION, .width = width, .height = height, .format = PNG_FORMAT_RGB};
    png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
    char head[256];
    char *request = NULL;
    void *pixels = calloc((size_t)width * height, 3);
    int length =
        snprintf(head, sizeof head, "POST /predict HTTP/1.1\r\nHost: %s\r\n", test->target.host);
    enum { ROOM = 512 };
    if (pixels)
        request = malloc(ROOM + bytes);
    if (request && png_image_write_to_memory(&image, request + ROOM, &bytes, 0, pixels, 0, NULL)) {
        length += snprintf(head + length, sizeof head - (size_t)length,
                           "Connection: close\r\nContent-Length: %zu\r\n\r\n", (size_t)bytes);
        memcpy(request, head, (size_t)length);
        memmove(request + length, request + ROOM, bytes);
        *size = (size_t)length + bytes;
    } else {
        free(request);
        request = NULL;
    }
    free(pixels);
    return request;
}

/* ---- requests that are wrong in themselves ---- */

/* HOST in it stands for the service's own name. A code of 0 in `codes`: it may hang up. */
struct request {
    const char *name;
    const char *text;
    const char *codes;
};

static const struct request requests[] = {
    {"/healthz answers", "GET /healthz HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "200"},
    {"a path that is not there",
     "GET /../../etc/passwd HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n", "400 404"},
    {"NUL in a path", "GET /healthz%00/x HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
     "400"},
    {"another method", "DELETE /predict HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n",
     "405"},
    {"no Host", "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n", "400"},
    {"two Hosts",
     "GET /healthz HTTP/1.1\r\nHost: HOST\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
     "400"},
    {"a foreign Host (DNS rebinding)",
     "GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", "403"},
    {"a foreign Origin (a page of another site)",
     "POST /predict HTTP/1.1\r\nHost: HOST\r\nOrigin: http://evil.example\r\nConnection: close\r\n"
     "Content-Length: 1\r\n\r\nx",
     "403"},
    {"Origin null (a sandboxed page)",
     "GET /healthz HTTP/1.1\r\nHost: HOST\r\nOrigin: null\r\nConnection: close\r\n\r\n", "403"},
    {"two lengths",
     "POST /predict HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1\r\nContent-Length: 50\r\n"
     "Connection: close\r\n\r\nx",
     "400 0"},
    {"a length and chunks (smuggling)",
     "POST /predict HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
     "Connection: close\r\n\r\n0\r\n\r\n",
     "400 0"},
    {"a negative length",
     "POST /predict HTTP/1.1\r\nHost: HOST\r\nContent-Length: -5\r\nConnection: close\r\n\r\n",
     "400 413 0"},
    {"a length of a terabyte",
     "POST /predict HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1099511627776\r\nConnection: "
     "close\r\n\r\nx",
     "413 0"},
    {"a chunk that is none",
     "POST /predict HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nConnection: "
     "close\r\n\r\nzz\r\n",
     "400 0"},
    {"bytes that are no HTTP", "\x16\x03\x01\x02\x01\xff\xfe\r\n\r\n", "400 0"},
    {"no picture",
     "POST /predict HTTP/1.1\r\nHost: HOST\r\nContent-Length: 5\r\nConnection: close\r\n\r\nimage",
     "400"},
    {"an empty body",
     "POST /predict HTTP/1.1\r\nHost: HOST\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
     "400"},
    {"a form",
     "POST /predict HTTP/1.1\r\nHost: HOST\r\nContent-Type: multipart/form-data; boundary=x\r\n"
     "Content-Length: 1\r\nConnection: close\r\n\r\nx",
     "415"},
    {"a region that is none",
     "POST /predict?region=1,2,nan,4 HTTP/1.1\r\nHost: HOST\r\nContent-Length: 1\r\n"
     "Connection: close\r\n\r\nx",
     "400"},
    /* The beginning of a PNG of 60000x60000 pixels. */
    {"few bytes of an enormous picture",
     "POST /predict HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nConnection: "
     "close\r\n\r\n"
     "21\r\n\x89PNG\r\n\x1a\n0000IHDR00\xea\x60"
     "00\xea\x60\x08\x02"
     "000CRC4\r\n0\r\n\r\n",
     "400 413"},
};

static bool is_one_of(int code, const char *codes)
{
    for (char *end; *codes; codes = end)
        if (strtol(codes, &end, 10) == code)
            return true;
    return false;
}

static void send_wrong(struct selftest *test, const struct request *request)
{
    struct xt_str text = {0};
    char detail[160];
    const char *host = strstr(request->text, "HOST");
    enum xt_status status =
        host ? xt_str_printf(&text, NULL, "%.*s%s%s", (int)(host - request->text), request->text,
                             test->target.host, host + strlen("HOST"))
             : xt_str_printf(&text, NULL, "%s", request->text);
    const struct xt_reply reply = ask(test, xt_str_get(&text), text.length);
    bool is_whole = reply.code ? !reply.is_mixed : reply.has_ended;
    bool held = !status && !reply.has_failed && is_whole && is_one_of(reply.code, request->codes);
    if (reply.code)
        snprintf(detail, sizeof detail, "%d%s", reply.code, is_whole ? "" : ", and another answer");
    else
        snprintf(detail, sizeof detail, reply.has_ended ? "hung up" : "no answer in %.0f s",
                 patience);
    add(test, request->name, held, detail);
    xt_str_clear(&text);
}

/* ---- too much, too slow, too many ---- */

static void send_endless_body(struct selftest *test)
{
    enum { PIECE = 1 << 16, ROOM = 16 };
    char *piece = calloc(PIECE + ROOM, 1);
    char head[256];
    char detail[96];
    if (!piece) {
        xt_report_fail(test->table);
        return;
    }
    size_t begin = (size_t)snprintf(piece, ROOM, "%x\r\n", (unsigned)PIECE);
    piece[begin + PIECE] = '\r';
    piece[begin + PIECE + 1] = '\n';
    snprintf(head, sizeof head,
             "POST /predict HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n",
             test->target.host);
    const struct xt_sending body = {.head = head,
                                    .head_bytes = strlen(head),
                                    .piece = piece,
                                    .piece_bytes = begin + PIECE + 2,
                                    .times = ENDLESS,
                                    .seconds = patience};
    const struct xt_reply reply = xt_exchange(&test->target, &body);
    snprintf(detail, sizeof detail, "%s%.0d after %.1f s",
             reply.code        ? ""
             : reply.has_ended ? "hung up"
                               : "still connected",
             reply.code, reply.seconds);
    add(test, "a body without end", reply.code == 413 || (!reply.code && reply.has_ended), detail);
    free(piece);
}

static void send_endless_headers(struct selftest *test)
{
    static const char line[] = "a: bbbbbbbbbbbb\r\n";
    char detail[96];
    const struct xt_sending headers = {.head = "GET / HTTP/1.1\r\n",
                                       .head_bytes = 16,
                                       .piece = line,
                                       .piece_bytes = sizeof line - 1,
                                       .times = 20000,
                                       .seconds = patience};
    const struct xt_reply reply = xt_exchange(&test->target, &headers);
    snprintf(detail, sizeof detail, "%d after %.1f s", reply.code, reply.seconds);
    add(test, "headers without end", reply.has_ended && reply.code != 200, detail);
}

/* A client that dribbles, on a thread of its own. */
struct slow {
    const struct selftest *test;
    const char *name;
    const char *piece;
    char head[256];
    struct xt_reply reply;
};

static void *dribble(void *context)
{
    struct slow *slow = context;
    const struct xt_sending sending = {.head = slow->head,
                                       .head_bytes = strlen(slow->head),
                                       .piece = slow->piece,
                                       .piece_bytes = strlen(slow->piece),
                                       .times = 100000,
                                       .pause = 0.2,
                                       .seconds = patience};
    slow->reply = xt_exchange(&slow->test->target, &sending);
    return NULL;
}

static void send_slowly(struct selftest *test)
{
    struct slow slow[] = {
        {.name = "headers, a few bytes at a time (slowloris)", .piece = "a: b\r\n"},
        {.name = "a body, a byte at a time", .piece = "x"},
        {.name = "a first line, a byte at a time", .piece = "x"}};
    enum { COUNT = sizeof slow / sizeof *slow };
    pthread_t threads[COUNT];
    bool runs[COUNT];
    for (int i = 0; i < COUNT; i++) {
        static const char *const heads[COUNT] = {"GET / HTTP/1.1\r\n",
                                                 ("POST /predict HTTP/1.1\r\nHost: %s\r\n"
                                                  "Content-Length: 5000\r\n\r\n"),
                                                 "GET /"};
        const char *host = strstr(heads[i], "%s");
        snprintf(slow[i].head, sizeof slow[i].head, "%.*s%s%s",
                 (int)(host ? (size_t)(host - heads[i]) : strlen(heads[i])), heads[i],
                 host ? test->target.host : "", host ? host + 2 : "");
        slow[i].test = test;
        runs[i] = pthread_create(&threads[i], NULL, dribble, &slow[i]) == 0;
    }
    for (int i = 0; i < COUNT; i++) {
        char detail[96];
        if (runs[i])
            pthread_join(threads[i], NULL);
        const struct xt_reply *reply = &slow[i].reply;
        snprintf(detail, sizeof detail, "%s after %.1f s",
                 reply->has_ended ? "hung up" : "still connected", reply->seconds);
        add(test, slow[i].name, runs[i] && reply->has_ended && reply->code != 200, detail);
    }
}

/* How long the slowest of some requests took; they have to be answered with 200. */
static double ask_meanwhile(struct selftest *test, const void *bytes, size_t size, bool *answered)
{
    double slowest = 0;
    *answered = true;
    for (int i = 0; i < ASKED; i++) {
        const struct xt_reply reply = ask(test, bytes, size);
        *answered = *answered && reply.code == 200;
        slowest = reply.seconds > slowest ? reply.seconds : slowest;
    }
    return slowest;
}

static void hold_connections(struct selftest *test)
{
    int held[CROWD];
    int count = 0;
    char health[192];
    char detail[96];
    bool answered[2];
    int length = snprintf(health, sizeof health,
                          "GET /healthz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                          test->target.host);
    for (int i = 0; i < CROWD; i++)
        count += (held[i] = xt_target_connect(&test->target)) >= 0;
    double slowest = ask_meanwhile(test, health, (size_t)length, &answered[0]);
    double picture = ask_meanwhile(test, test->plain, test->plain_bytes, &answered[1]);
    for (int i = 0; i < CROWD; i++)
        if (held[i] >= 0)
            close(held[i]);
    snprintf(detail, sizeof detail, "%d connections; /healthz within %.2f s, pictures %.2f s",
             count, slowest, picture);
    add(test, "a crowd that asks nothing",
        answered[0] && answered[1] && slowest < soon && picture < soon, detail);
}

static void *send_large(void *context)
{
    const struct selftest *test = context;
    ask(test, test->large, test->large_bytes);
    return NULL;
}

/* Decoding a large picture holds up nobody who sends small ones. */
static void send_beside_large(struct selftest *test)
{
    pthread_t large;
    char detail[96];
    bool answered = false;
    if (pthread_create(&large, NULL, send_large, test))
        return;
    double slowest = ask_meanwhile(test, test->plain, test->plain_bytes, &answered);
    pthread_join(large, NULL);
    snprintf(detail, sizeof detail, "small ones within %.2f s", slowest);
    add(test, "a picture of 16 million pixels", answered && slowest < soon, detail);
}

/* ---- all of them ---- */

/* MiB that the service says it occupies; 0: it does not say. */
static double resident(const struct selftest *test)
{
    static const char key[] = "\nxtrain_resident_bytes ";
    char text[192];
    int length = snprintf(text, sizeof text,
                          "GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                          test->target.host);
    const struct xt_reply reply = ask(test, text, (size_t)length);
    const char *at = strstr(reply.text, key);
    return at ? strtod(at + sizeof key - 1, NULL) / (1 << 20) : 0;
}

/* The body of an answer. */
static const char *body_of(const struct xt_reply *reply)
{
    const char *body = strstr(reply->text, "\r\n\r\n");
    return body ? body + 4 : "";
}

static void attack(struct selftest *test, const struct xt_reply *before)
{
    char detail[160];
    double was = resident(test);
    for (size_t i = 0; i < sizeof requests / sizeof *requests && !xt_stop_status(); i++)
        send_wrong(test, &requests[i]);
    void (*const others[])(struct selftest *) = {send_endless_body, send_endless_headers,
                                                 hold_connections, send_beside_large, send_slowly};
    for (size_t i = 0; i < sizeof others / sizeof *others && !xt_stop_status(); i++)
        others[i](test);
    const struct xt_reply after = ask(test, test->plain, test->plain_bytes);
    add(test, "after all, the same answer as before",
        after.code == 200 && strcmp(body_of(before), body_of(&after)) == 0,
        after.code == 200 ? body_of(&after) : "no answer");
    double grown = resident(test) - was;
    snprintf(detail, sizeof detail,
             was > 0 ? "%.0f MiB more than before" : "/metrics does not say it", grown);
    add(test, "after all, its memory", grown < GROWN, detail);
}

/* The pictures, and whether a service answers there at all. */
static enum xt_status begin(struct selftest *test, const char *url, struct xt_reply *reply,
                            struct xt_err *err)
{
    test->plain = picture_request(test, 94, 24, &test->plain_bytes);
    test->large = picture_request(test, SIDE, SIDE, &test->large_bytes);
    if (!test->plain || !test->large)
        return xt_err_no_memory(err, "a picture", (size_t)SIDE * SIDE * 3);
    *reply = ask(test, test->plain, test->plain_bytes);
    if (reply->code == 200)
        return XT_OK;
    return xt_err_set(err, XT_ERR_RUN,
                      "--selftest: no service of xtrain answers at %s (a picture gets %d there)",
                      url, reply->code);
}

enum xt_status xt_serve_selftest(const char *url, bool remote, struct xt_err *err)
{
    struct selftest test = {.attacks = 0};
    struct xt_reply before;
    enum xt_status status = xt_target_find(&test.target, url, remote, err);
    if (!status)
        status = begin(&test, url, &before, err);
    struct xt_report *report = xt_report_create();
    test.table = xt_report_table(report, "attacks");
    if (!status)
        attack(&test, &before);
    if (!status)
        status = xt_stop_check(err, "before all attacks were made");
    free(test.plain);
    free(test.large);
    if (status) {
        xt_report_destroy(report);
        return status;
    }
    xt_report_values(report, "service=%s failed=%d", url, test.failed);
    xt_report_line(report, "%s on %s: %d held, %d did not", xt_count(test.attacks, "attack").text,
                   url, test.attacks - test.failed, test.failed);
    status = xt_result_put(report, err);
    if (!status && test.failed)
        status = xt_err_set(err, XT_ERR_RUN, "%s did not hold against %s", url,
                            xt_count(test.failed, "attack").text);
    return status;
}
