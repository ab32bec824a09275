#include "cli/serve/http.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "cli/origin.h"
#include "cli/report.h"
#include "cli/serve/answer.h"
#include "cli/serve/decoders.h"
#include "cli/serve/hosts.h"
#include "cli/serve/mhd.h"
#include "data/image/decoder.h"
#include "infer/session/engine.h"

enum {
    MIB = 1024 * 1024,
    BODIES = 16,      /* bodies of the largest size in memory at once */
    PIXEL_BYTES = 12, /* of memory that decoding takes, but for progressive CMYK JPEGs: half more */
    HEADERS_MOST = 16 * 1024, /* memory per connection for headers */
    THREADS_MOST = 4,         /* decoding threads, unless --workers is given */
    PLACES_KEPT = 4, /* connections beyond --max-connections, reserved for /healthz and /metrics */
    LARGE_PIXELS = 2 * 1000 * 1000, /* images up to this size can overtake larger ones */
    LARGE_BYTES = MIB,
    MEGAPIXEL = 1000 * 1000,
    FIRST_BODY = 16 * 1024,
    LOOK_MS = 250,      /* interval between checks for slow clients */
    HEADER_SECONDS = 5, /* headers of 16 KiB are a few packets: only who dribbles takes longer */
    OWN_FILES = 28,     /* open files beside clients */
};

enum phase { IDLE, HEADERS, BODY, ANSWER };

/* A client; in a list, so that slow ones can be found. */
struct client {
    struct client *previous, *next;
    int fd;
    double since;     /* end of the last request, or start of this one */
    enum phase phase; /* of its request, from the first line to the end of its answer */
    bool is_leaving;  /* the connection is being closed */
};

struct http {
    struct xt_mhd mhd;
    struct xtrain *network;
    const struct xt_service_settings *settings;
    const struct xt_answer_settings *answers;
    struct xt_metrics *metrics;
    struct xt_decoders *decoders;
    const struct xt_hosts *hosts;
    int queue;
    int most_connections;
    size_t most_held;     /* bytes of bodies */
    uint64_t most_pixels; /* of an image */
    pthread_mutex_t lock;
    struct client *clients;
    int connections; /* except those being closed */
    int requests;    /* started, not yet answered */
    size_t held;     /* bytes of bodies */
    atomic_bool draining;
};

static const char too_large[] = "the image is larger than --max-body allows";
static const char too_many_pixels[] = "the image has more pixels than --max-pixels, or the memory "
                                      "of the service, allows; send a smaller one";

enum route { PREDICT, HEALTH, METRICS, HOME, NOWHERE };
static const char *const route_names[] = {[PREDICT] = "/predict",
                                          [HEALTH] = "/healthz",
                                          [METRICS] = "/metrics",
                                          [HOME] = "/",
                                          [NOWHERE] = "no such place"};
enum progress { RECEIVING, SENT };

struct request {
    struct xt_decode_job job;
    struct http *http;
    struct MHD_Connection *connection;
    struct client *client;
    enum route route;
    enum progress progress;
    bool has_zero;  /* NUL bytes in its path */
    bool has_begun; /* its headers are complete */
    double region[8];
    int region_numbers;
    char *body;
    size_t size, capacity;
    double since; /* time of its last byte */
    struct xtrain_answer *answer;
    int code; /* decided before the response is ready; 0: not yet */
    struct xt_err err;
};

/* ---- responses ---- */

static int code_of(const struct xt_err *err)
{
    switch ((int)err->status) {
    case XT_ERR_USAGE:
    case XT_ERR_DATA:
        return MHD_HTTP_BAD_REQUEST;
    case XTRAIN_COSTLY:
        return MHD_HTTP_UNPROCESSABLE_CONTENT;
    case XTRAIN_BUSY:
    case XT_ERR_MEMORY:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

/* Takes ownership of `text`. */
static enum MHD_Result send_text(struct request *request, int code, char *text, size_t size,
                                 const char *type)
{
    struct http *http = request->http;
    const struct xt_mhd *mhd = &http->mhd;
    struct MHD_Response *response =
        mhd->create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return MHD_NO;
    }
    mhd->add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (code == MHD_HTTP_SERVICE_UNAVAILABLE)
        mhd->add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        mhd->add_response_header(response, MHD_HTTP_HEADER_ALLOW,
                                 request->route == PREDICT ? "POST" : "GET, HEAD");
    if (http->draining)
        mhd->add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = mhd->queue_response(request->connection, (unsigned)code, response);
    mhd->destroy_response(response);
    double took = request->since > 0 ? xt_thread_seconds() - request->since : -1;
    xt_metrics_request(http->metrics, code, took);
    xt_log_detail("%s: %d in %.1f ms", route_names[request->route], code,
                  took > 0 ? 1e3 * took : 0);
    request->code = code;
    return result;
}

/* Sends the report as a one-line body. */
static enum MHD_Result send_report(struct request *request, int code, struct xt_report *report)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        xt_report_destroy(report);
        return MHD_NO;
    }
    enum xt_status status = xt_report_end(report, XT_REPORT_JSON, out, NULL);
    if (fclose(out) || status) {
        free(text);
        return MHD_NO;
    }
    return send_text(request, code, text, size, "application/json");
}

static enum MHD_Result send_error(struct request *request, int code, const char *sentence)
{
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "error", "", "%s", sentence);
    return send_report(request, code, report);
}

static enum MHD_Result send_health(struct request *request)
{
    struct http *http = request->http;
    struct xt_report *report = xt_report_create();
    bool draining = http->draining;
    xt_report_add(report, "status", "", "%s", draining ? "draining" : "ok");
    xt_report_add(report, "model", "", "%s", xtrain_model(http->network));
    xt_report_add(report, "device", "", "%s", xtrain_device(http->network));
    xt_origin_report(report, &xt_engine_network(http->network)->mark, false);
    return send_report(request, draining ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK, report);
}

static enum MHD_Result send_metrics(struct request *request)
{
    struct http *http = request->http;
    struct xt_str text = {0};
    struct xt_metrics_now now = {.queue = xt_engine_waiting(http->network),
                                 .queue_limit = http->queue};
    pthread_mutex_lock(&http->lock);
    now.requests = http->requests;
    now.connections = http->connections;
    pthread_mutex_unlock(&http->lock);
    if (xt_metrics_print(http->metrics, &now, &text, NULL)) {
        xt_str_clear(&text);
        return MHD_NO;
    }
    return send_text(request, MHD_HTTP_OK, text.data, text.length,
                     "text/plain; version=0.0.4; charset=utf-8");
}

static enum MHD_Result send_home(struct request *request)
{
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "service", "", "%s", "xtrain " XT_VERSION);
    xt_report_add(report, "use", "", "%s",
                  "POST a JPEG, PNG or WebP to /predict, with ?region=x,y,width,height for a part "
                  "of it; GET /healthz, GET /metrics");
    return send_report(request, MHD_HTTP_OK, report);
}

/* The prediction, or the error. */
static enum MHD_Result send_answer(struct request *request)
{
    struct http *http = request->http;
    struct xtrain_error error;
    if (request->answer && xtrain_wait(request->answer, &error))
        xt_engine_err(&error, &request->err);
    if (request->err.status)
        return send_error(request, code_of(&request->err), request->err.text);
    struct xt_report *report = xt_report_create();
    xt_answer_describe(report, http->network, http->answers, NULL, request->answer);
    return send_report(request, MHD_HTTP_OK, report);
}

/* ---- headers ---- */

/* NULL if absent; "" if without a value, or with NUL bytes in it. */
static const char *look_up(const struct request *request, enum MHD_ValueKind kind, const char *key)
{
    const char *value = NULL;
    size_t size = 0;
    enum MHD_Result is_said = request->http->mhd.lookup_connection_value_n(
        request->connection, kind, key, strlen(key), &value, &size);
    return is_said && (!value || strlen(value) != size) ? "" : value;
}

static enum route route_of(const char *url)
{
    int route = PREDICT;
    while (route < NOWHERE && strcmp(route_names[route], url) != 0)
        route++;
    return (enum route)route;
}

/* Parses "x,y,width,height", or the eight numbers of four corners. */
static bool read_region(struct request *request)
{
    const char *at = look_up(request, MHD_GET_ARGUMENT_KIND, "region");
    if (!at)
        return true;
    for (char *end; request->region_numbers < 8; at = end + 1) {
        double number = strtod(at, &end);
        if (end == at || !isfinite(number))
            return false;
        request->region[request->region_numbers++] = number;
        if (!*end)
            return request->region_numbers == 4 || request->region_numbers == 8;
        if (*end != ',')
            return false;
    }
    return false;
}

/* Counts the occurrences of a header. */
struct tally {
    const char *key;
    int count;
};

static enum MHD_Result tally(void *context, enum MHD_ValueKind kind, const char *key,
                             const char *value)
{
    struct tally *wanted = context;
    (void)kind;
    (void)value;
    wanted->count += !wanted->key || strcasecmp(key, wanted->key) == 0;
    return MHD_YES;
}

/* `key` NULL: all of that kind. */
static int count_of(const struct request *request, enum MHD_ValueKind kind, const char *key)
{
    struct tally wanted = {.key = key};
    request->http->mhd.get_connection_values(request->connection, kind, tally, &wanted);
    return wanted.count;
}

/* Refuses requests that a proxy and this service could parse differently (RFC 9112, 3.2, 6.3). */
static int refuse_ambiguous(const struct request *request, const char **why)
{
    int lengths = count_of(request, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    *why = "the request must have exactly one Host header";
    if (count_of(request, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST) != 1)
        return MHD_HTTP_BAD_REQUEST;
    *why = "the request has several lengths: send one Content-Length, or only Transfer-Encoding";
    if (lengths > 1 ||
        (lengths && count_of(request, MHD_HEADER_KIND, MHD_HTTP_HEADER_TRANSFER_ENCODING)))
        return MHD_HTTP_BAD_REQUEST;
    *why = "the path contains a NUL byte";
    return request->has_zero ? MHD_HTTP_BAD_REQUEST : 0;
}

/* A web page in a browser can send requests to this machine, under its own name (DNS rebinding) or
 * from its own site. */
static int refuse_foreign(const struct request *request, const char **why)
{
    const struct xt_hosts *hosts = request->http->hosts;
    const char *host = look_up(request, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    const char *origin = look_up(request, MHD_HEADER_KIND, MHD_HTTP_HEADER_ORIGIN);
    *why = "the Host header names another machine; --allow-host NAME allows it";
    if (!xt_hosts_allow(hosts, host))
        return MHD_HTTP_FORBIDDEN;
    *why = "pages of other sites may not send requests here; --allow-host NAME allows it";
    return origin && !xt_hosts_allow_origin(hosts, origin, host) ? MHD_HTTP_FORBIDDEN : 0;
}

static int refuse_image(struct request *request, const char **why)
{
    struct http *http = request->http;
    const char *length = look_up(request, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const char *type = look_up(request, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    *why = "the service is shutting down";
    if (http->draining)
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    *why = "too many clients are connected: try again later";
    pthread_mutex_lock(&http->lock);
    bool crowded = http->connections > http->most_connections;
    pthread_mutex_unlock(&http->lock);
    if (crowded)
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    /* Many clients read a response only after sending the whole body, if that is not much more. */
    *why = too_large;
    if (length && strtoull(length, NULL, 10) / 4 > (size_t)http->settings->max_body * MIB)
        return MHD_HTTP_CONTENT_TOO_LARGE;
    *why = "the body must be the image itself, not a form: curl --data-binary @car.jpg";
    if (type && strncasecmp(type, "multipart/", 10) == 0)
        return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
    *why = "a request may say region=x,y,width,height once, and nothing else; how images are read "
           "is said when the service starts: xtrain help serve";
    if (count_of(request, MHD_GET_ARGUMENT_KIND, NULL) >
        (look_up(request, MHD_GET_ARGUMENT_KIND, "region") != NULL))
        return MHD_HTTP_BAD_REQUEST;
    *why = "region takes four numbers separated by commas (x,y,width,height), or the eight of four "
           "corners";
    return read_region(request) ? 0 : MHD_HTTP_BAD_REQUEST;
}

/* Checks that need no body. */
static int refuse(struct request *request, const char *method, const char **why)
{
    bool is_post = strcmp(method, MHD_HTTP_METHOD_POST) == 0;
    bool is_get =
        strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    int code = refuse_ambiguous(request, why);
    if (!code)
        code = refuse_foreign(request, why);
    if (code)
        return code;
    *why = "there is only /predict, /healthz and /metrics";
    if (request->route == NOWHERE)
        return MHD_HTTP_NOT_FOUND;
    *why = request->route == PREDICT ? "/predict takes a POST with the image as its body"
                                     : "this takes a GET";
    if (request->route == PREDICT ? !is_post : !is_get)
        return MHD_HTTP_METHOD_NOT_ALLOWED;
    return request->route == PREDICT ? refuse_image(request, why) : 0;
}

/* libmicrohttpd's callback for the raw path: the decoded one ends at a NUL byte. */
static void *see_path(void *context, const char *uri, struct MHD_Connection *connection)
{
    struct http *http = context;
    struct request *request = NULL;
    if (xt_mem_calloc(&request, 1, sizeof *request, "a request", NULL))
        return NULL;
    const char *zero = strstr(uri, "%00");
    const union MHD_ConnectionInfo *info =
        http->mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    request->http = http;
    request->connection = connection;
    request->client = info ? info->socket_context : NULL;
    request->has_zero = zero && zero < strchrnul(uri, '?');
    pthread_mutex_lock(&http->lock);
    http->requests++;
    if (request->client) {
        request->client->since = xt_thread_seconds();
        request->client->phase = HEADERS;
    }
    pthread_mutex_unlock(&http->lock);
    return request;
}

static void set_phase(struct request *request, enum phase phase)
{
    pthread_mutex_lock(&request->http->lock);
    if (request->client)
        request->client->phase = phase;
    pthread_mutex_unlock(&request->http->lock);
}

static enum MHD_Result begin(struct request *request, const char *url, const char *method)
{
    const char *why = "";
    request->has_begun = true;
    set_phase(request, BODY);
    request->route = route_of(url);
    int code = refuse(request, method, &why);
    return code ? send_error(request, code, why) : MHD_YES;
}

/* ---- body ---- */

static void release_body(struct request *request)
{
    struct http *http = request->http;
    pthread_mutex_lock(&http->lock);
    http->held -= request->capacity;
    pthread_mutex_unlock(&http->lock);
    free(request->body);
    request->body = NULL;
    request->capacity = 0;
}

/* Grows as bytes arrive, not by the length that the client announced. */
static enum xt_status make_room(struct request *request, size_t need)
{
    struct http *http = request->http;
    size_t before = request->capacity;
    size_t wanted = before * 2 > need ? before * 2 : need;
    if (wanted < FIRST_BODY)
        wanted = FIRST_BODY;
    pthread_mutex_lock(&http->lock);
    bool fits = http->held + (wanted - before) <= http->most_held;
    http->held += fits ? wanted - before : 0;
    pthread_mutex_unlock(&http->lock);
    if (!fits)
        return xt_err_set(&request->err, XT_ERR_MEMORY,
                          "the pending requests use all the memory they may: try again later");
    char *body = realloc(request->body, wanted);
    if (body) {
        request->body = body;
        request->capacity = wanted;
        return XT_OK;
    }
    pthread_mutex_lock(&http->lock);
    http->held -= wanted - before;
    pthread_mutex_unlock(&http->lock);
    return xt_err_no_memory(&request->err, "a request", wanted);
}

/* A body that is refused is read and discarded: the response follows at its end. */
static void receive(struct request *request, const char *bytes, size_t size)
{
    if (request->code || request->err.status || request->route != PREDICT)
        return;
    if (request->size + size > (size_t)request->http->settings->max_body * MIB) {
        request->code = MHD_HTTP_CONTENT_TOO_LARGE;
        release_body(request);
        return;
    }
    if (request->size + size > request->capacity && make_room(request, request->size + size)) {
        release_body(request);
        return;
    }
    memcpy(request->body + request->size, bytes, size);
    request->size += size;
}

/* Runs on a thread of the network. */
static void wake(void *context)
{
    const struct request *request = context;
    request->http->mhd.resume_connection(request->connection);
}

static void set_waiting(struct request *request)
{
    set_phase(request, ANSWER);
    request->progress = SENT;
    request->since = xt_thread_seconds();
}

/* Runs on a decoding thread; the connection is resumed by a thread of the network when the
 * prediction is ready, or here after an error. */
static void send_to_network(struct xt_decode_job *job)
{
    struct request *request = (struct request *)(void *)job;
    struct http *http = request->http;
    struct xtrain_error error;
    const struct xtrain_image image = {
        .bytes = request->body ? request->body : "",
        .size = request->size,
        .region = request->region_numbers ? request->region : NULL,
        .region_numbers = request->region_numbers,
        .done = wake,
        .context = request,
    };
    /* Once sent, the request may be answered and freed. */
    if (xtrain_send(http->network, &image, &request->answer, &error)) {
        xt_engine_err(&error, &request->err);
        wake(request);
    }
}

/* Suspends the connection until the prediction is ready. */
static enum MHD_Result send_image(struct request *request)
{
    struct http *http = request->http;
    uint64_t pixels = xt_decoder_pixels((const uint8_t *)request->body, request->size);
    if (pixels > http->most_pixels)
        return send_error(request, MHD_HTTP_CONTENT_TOO_LARGE, too_many_pixels);
    request->job =
        (struct xt_decode_job){.large = pixels > LARGE_PIXELS || request->size > LARGE_BYTES,
                               .bytes = pixels * PIXEL_BYTES,
                               .run = send_to_network};
    http->mhd.suspend_connection(request->connection);
    xt_decoders_put(http->decoders, &request->job);
    return MHD_YES;
}

static enum MHD_Result finish(struct request *request)
{
    switch (request->route) {
    case HEALTH:
        return send_health(request);
    case METRICS:
        return send_metrics(request);
    case HOME:
        return send_home(request);
    default:
        break;
    }
    if (request->progress == SENT)
        return send_answer(request);
    set_waiting(request);
    if (request->code == MHD_HTTP_CONTENT_TOO_LARGE)
        return send_error(request, request->code, too_large);
    return request->err.status ? send_answer(request) : send_image(request);
}

/* ---- libmicrohttpd callbacks ---- */

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *bytes,
                              size_t *size, void **slot)
{
    struct request *request = *slot;
    (void)context;
    (void)connection;
    (void)version;
    if (!request)
        return MHD_NO;
    if (!request->has_begun)
        return begin(request, url, method);
    if (*size) {
        receive(request, bytes, *size);
        *size = 0;
        return MHD_YES;
    }
    return finish(request);
}

static void completed(void *context, struct MHD_Connection *connection, void **slot,
                      enum MHD_RequestTerminationCode why)
{
    struct http *http = context;
    struct request *request = *slot;
    (void)connection;
    (void)why;
    if (!request)
        return;
    release_body(request);
    xtrain_answer_free(request->answer);
    pthread_mutex_lock(&http->lock);
    http->requests--;
    if (request->client) {
        request->client->since = xt_thread_seconds();
        request->client->phase = IDLE;
    }
    pthread_mutex_unlock(&http->lock);
    free(request);
    *slot = NULL;
}

static void remove_client(struct http *http, struct client *client)
{
    if (client->previous)
        client->previous->next = client->next;
    else
        http->clients = client->next;
    if (client->next)
        client->next->previous = client->previous;
    http->connections -= !client->is_leaving;
}

static void add_client(struct http *http, struct client *client)
{
    client->next = http->clients;
    if (client->next)
        client->next->previous = client;
    http->clients = client;
    http->connections++;
}

static void hang_up(struct http *http, struct client *client)
{
    http->connections -= !client->is_leaving;
    client->is_leaving = true;
    shutdown(client->fd, SHUT_RDWR);
}

/* Too many clients: closes the connection that has been idle for the longest time, so that idle
 * connections lock nobody out. */
static void make_place(struct http *http)
{
    struct client *idle = NULL;
    for (struct client *client = http->clients; client; client = client->next)
        if (client->phase == IDLE && !client->is_leaving && (!idle || client->since <= idle->since))
            idle = client;
    if (idle && idle != http->clients) {
        hang_up(http, idle);
    }
}

static void connected(void *context, struct MHD_Connection *connection, void **slot,
                      enum MHD_ConnectionNotificationCode what)
{
    struct http *http = context;
    struct client *client = *slot;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            http->mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        if (!info || xt_mem_calloc(&client, 1, sizeof *client, "a connection", NULL))
            return;
        client->fd = info->connect_fd;
        client->since = xt_thread_seconds();
        *slot = client;
        pthread_mutex_lock(&http->lock);
        add_client(http, client);
        if (http->connections > http->most_connections)
            make_place(http);
        pthread_mutex_unlock(&http->lock);
    } else if (client) {
        pthread_mutex_lock(&http->lock);
        remove_client(http, client);
        pthread_mutex_unlock(&http->lock);
        free(client);
        *slot = NULL;
    }
}

static void said(void *context, const char *format, va_list arguments)
{
    char line[512];
    (void)context;
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\n")] = '\0';
    xt_log_detail("libmicrohttpd: %s", line);
}

/* ---- lifecycle ---- */

/* Seconds that a phase may take. A first line that is not complete counts as idle. */
static double patience(const struct http *http, enum phase phase)
{
    const double request = http->settings->request_timeout;
    switch (phase) {
    case IDLE:
        return http->settings->idle_timeout;
    case HEADERS:
        return fmin(HEADER_SECONDS, request);
    case BODY:
        return request;
    default:
        return INFINITY;
    }
}

/* Closes clients whose request is not complete in time, even if bytes trickle in: libmicrohttpd's
 * own timeout is between two bytes. */
static void hang_up_on_slow(struct http *http)
{
    double now = xt_thread_seconds();
    pthread_mutex_lock(&http->lock);
    for (struct client *client = http->clients; client; client = client->next)
        if (now - client->since > patience(http, client->phase))
            hang_up(http, client);
    pthread_mutex_unlock(&http->lock);
}

/* Completes pending requests; clients that are still sending get their timeout. */
static void drain(struct http *http)
{
    for (int left = 1; left;) {
        poll(NULL, 0, 20);
        hang_up_on_slow(http);
        pthread_mutex_lock(&http->lock);
        left = http->requests;
        pthread_mutex_unlock(&http->lock);
    }
}

static int decoders_of(int workers)
{
    int threads = xt_thread_available(NULL);
    return workers ? workers : threads < THREADS_MOST ? threads : THREADS_MOST;
}

/* Limits clients to the available file descriptors: if accept fails for want of one, libmicrohttpd
 * retries in a loop. */
static enum xt_status limit_connections(struct http *http, struct xt_err *err)
{
    const rlim_t wanted = (rlim_t)http->settings->max_connections + PLACES_KEPT + OWN_FILES;
    struct rlimit files;
    http->most_connections = http->settings->max_connections;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= wanted)
        return XT_OK;
    files.rlim_cur = files.rlim_max < wanted ? files.rlim_max : wanted;
    if (setrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= wanted)
        return XT_OK;
    http->most_connections = (int)files.rlim_cur - OWN_FILES - PLACES_KEPT;
    if (http->most_connections < 1)
        return xt_err_set(err, XT_ERR_RUN,
                          "this process may open %d files, too few for any client: "
                          "raise the limit (ulimit -n, LimitNOFILE)",
                          (int)files.rlim_cur);
    xt_log_warn("--max-connections %d: this process may open %d files, so it serves %s at "
                "once (ulimit -n, LimitNOFILE)",
                http->settings->max_connections, (int)files.rlim_cur,
                xt_count(http->most_connections, "client").text);
    return XT_OK;
}

/* The kernel kills who needs more memory than there is: half of what is left now is for large
 * images, a quarter for bodies. Returns the former, in bytes. */
static uint64_t limit_memory(struct http *http)
{
    const struct xt_service_settings *settings = http->settings;
    uint64_t left = xt_thread_memory_available();
    uint64_t room = left ? left / 2 : UINT64_MAX;
    uint64_t pixels = room / PIXEL_BYTES > LARGE_PIXELS ? room / PIXEL_BYTES : LARGE_PIXELS;
    http->most_held = (size_t)BODIES * (size_t)settings->max_body * MIB;
    if (http->most_held > room / 2)
        http->most_held = room / 2;
    http->most_pixels = (uint64_t)settings->max_pixels * MEGAPIXEL;
    if (pixels >= http->most_pixels)
        return room;
    http->most_pixels = pixels;
    xt_log_warn(
        "--max-pixels %d: of the %.0f MB of memory that are left (the cgroup's limit, "
        "ulimit -v) images of up to %.1f million pixels are decoded; larger ones are refused",
        settings->max_pixels, (double)left / 1e6, floor((double)pixels * 10 / MEGAPIXEL) / 10);
    return room;
}

/* One thread serves all connections: slow work runs on other threads. */
static struct MHD_Daemon *start(struct http *http, const struct xt_listener *listener)
{
    unsigned connections = (unsigned)http->most_connections + PLACES_KEPT;
    return http->mhd.start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
        handle, http, MHD_OPTION_EXTERNAL_LOGGER, said, NULL, MHD_OPTION_LISTEN_SOCKET,
        listener->fd, MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)ceil(fmax(http->settings->request_timeout, http->settings->idle_timeout)),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADERS_MOST, MHD_OPTION_URI_LOG_CALLBACK,
        see_path, http, MHD_OPTION_NOTIFY_COMPLETED, completed, http, MHD_OPTION_NOTIFY_CONNECTION,
        connected, http, MHD_OPTION_END);
}

static void stop(struct http *http, struct MHD_Daemon *daemon, struct xt_listener *listener)
{
    http->draining = true;
    http->mhd.quiesce_daemon(daemon);
    xt_listener_close(listener);
    drain(http);
    http->mhd.stop_daemon(daemon);
}

enum xt_status xt_http_run(struct xtrain *network, struct xt_listener *listener,
                           struct xt_metrics *metrics, const struct xt_http_config *config,
                           struct xt_err *err)
{
    const struct xt_service_settings *settings = config->service;
    const struct xt_hosts hosts = {
        .allowed = settings->allow_host,
        .any = !settings->allow_host && (settings->allow_remote || *listener->path),
    };
    struct http http = {.network = network,
                        .settings = settings,
                        .answers = config->answer,
                        .metrics = metrics,
                        .hosts = &hosts,
                        .queue = config->queue,
                        .lock = PTHREAD_MUTEX_INITIALIZER};
    enum xt_status status = xt_mhd_load(&http.mhd, err);
    if (!status)
        status = limit_connections(&http, err);
    if (!status)
        status = xt_decoders_create(&http.decoders, decoders_of(config->workers),
                                    limit_memory(&http), err);
    if (status)
        return status;
    struct MHD_Daemon *daemon = start(&http, listener);
    if (!daemon) {
        xt_decoders_destroy(http.decoders);
        return xt_err_set(err, XT_ERR_RUN, "libmicrohttpd cannot start at %s", listener->url);
    }
    xt_log_note("listening at %s: POST an image to /predict; GET /healthz, /metrics",
                listener->url);
    while (!xt_stop_status()) {
        poll(NULL, 0, LOOK_MS);
        hang_up_on_slow(&http);
    }
    stop(&http, daemon, listener);
    xt_decoders_destroy(http.decoders);
    pthread_mutex_destroy(&http.lock);
    return XT_OK;
}
