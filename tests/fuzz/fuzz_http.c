/* Any request to the service, as libmicrohttpd would hand it over: method, path, query, headers and
 * a body in pieces. Each is answered once, with a code that there is; whatever was begun is
 * cleared.
 *
 * The first byte says what happens on the way; then comes a request, as it is written: a line of
 * method, path and query, lines of headers, an empty line, the body. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cli/serve/http.h"
#include "cli/serve/mhd.h"
#include "infer/session/cutter.h"
#include "infer/session/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Bits of the first byte. */
enum {
    LONG_BODY = 1,   /* it comes again and again, beyond the limit */
    IS_BUSY = 2,     /* no picture is taken any more */
    FAILS = 4,       /* the network fails */
    COMES_LATER = 8, /* the answer, not at once */
    HANGS_UP = 16,   /* the client, in the middle */
};

struct xtrain_answer {
    void (*done)(void *context);
    void *context;
};

struct MHD_Response {
    size_t size;
    void *bytes;
};

/* The double of the library, and of the network. */
static struct {
    MHD_AccessHandlerCallback handle;
    void *(*see)(void *context, const char *uri, struct MHD_Connection *connection);
    void *context;
    MHD_RequestCompletedCallback completed;
    MHD_NotifyConnectionCallback notify;
    union MHD_ConnectionInfo fd, socket;
    char *head; /* lines, each ended by a zero */
    char *query;
    size_t head_size;
    const uint8_t *body;
    size_t body_size;
    unsigned way;
    unsigned code; /* of the response */
    int responses, answers;
    atomic_int sleeps; /* until a decoding thread wakes it */
    struct xtrain_answer *_Atomic late;
} double_of;

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

/* ---- the network ---- */

int xtrain_send(struct xtrain *network, const struct xtrain_image *image,
                struct xtrain_answer **out, struct xtrain_error *error)
{
    static struct xt_cutter cutter;
    const struct xt_feed_size size = {.width = 6, .height = 4, .bgr = true};
    struct xt_region region = {.count = image->region ? image->region_numbers : 0};
    uint8_t pixels[6 * 4 * 3];
    struct xt_err err = {0};
    (void)network;
    *out = NULL;
    check(image->bytes && (region.count == 0 || region.count == 4 || region.count == 8));
    for (int i = 0; i < region.count; i++)
        region.numbers[i] = image->region[i];
    if (double_of.way & IS_BUSY)
        xt_err_set(&err, (enum xt_status)XTRAIN_BUSY, "the queue of pictures is full");
    if (!err.status && !xt_region_check(&region, &err))
        xt_cutter_encoded(&cutter, &size, image->bytes, image->size, "the image", &region, pixels,
                          &err);
    if (err.status) {
        xt_engine_fail(&err, error);
        return (int)err.status;
    }
    *out = calloc(1, sizeof **out);
    check(*out != NULL);
    double_of.answers++;
    **out = (struct xtrain_answer){image->done, image->context};
    if (double_of.way & COMES_LATER)
        double_of.late = *out;
    else
        image->done(image->context);
    return 0;
}

int xtrain_wait(struct xtrain_answer *answer, struct xtrain_error *error)
{
    check(answer != double_of.late);
    if (!(double_of.way & FAILS))
        return 0;
    *error = (struct xtrain_error){.status = XTRAIN_FAILED, .text = "it failed"};
    return XTRAIN_FAILED;
}

void xtrain_answer_free(struct xtrain_answer *answer)
{
    double_of.answers -= answer != NULL;
    if (answer == double_of.late)
        double_of.late = NULL;
    free(answer);
}

const char *xtrain_answer_text(const struct xtrain_answer *answer)
{
    (void)answer;
    return "\xe4\xba\xac"
           "A12345";
}

double xtrain_answer_confidence(const struct xtrain_answer *answer)
{
    (void)answer;
    return 0.5;
}

int xtrain_answer_rejected(const struct xtrain_answer *answer)
{
    (void)answer;
    return 0;
}

int xtrain_answer_count(const struct xtrain_answer *answer)
{
    (void)answer;
    return 1;
}

const char *xtrain_answer_part(const struct xtrain_answer *answer, int part)
{
    (void)answer;
    (void)part;
    return "A";
}

double xtrain_answer_part_confidence(const struct xtrain_answer *answer, int part)
{
    (void)answer;
    (void)part;
    return 0.5;
}

int xtrain_reads_plates(const struct xtrain *network)
{
    (void)network;
    return 1;
}

const char *xtrain_model(const struct xtrain *network)
{
    (void)network;
    return "lprnet";
}

const char *xtrain_device(const struct xtrain *network)
{
    (void)network;
    return "cpu";
}

const struct xt_network *xt_engine_network(const struct xtrain *engine)
{
    static const struct xt_network network = {.mark = {.run = "a", .step = "1", .id = {"1"}}};
    (void)engine;
    return &network;
}

int xt_engine_waiting(struct xtrain *engine)
{
    (void)engine;
    return 0;
}

void xt_engine_fail(const struct xt_err *err, struct xtrain_error *error)
{
    error->status = (int)err->status;
    memcpy(error->text, err->text, sizeof error->text);
}

enum xt_status xt_engine_err(const struct xtrain_error *error, struct xt_err *err)
{
    return xt_err_set(err, (enum xt_status)error->status, "%s", error->text);
}

/* ---- the library ---- */

/* The value of a header, or of a part of the query: as libmicrohttpd finds them, but for %xx. */
static enum MHD_Result find(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                            const char *key, size_t key_size, const char **value, size_t *size)
{
    bool is_query = kind == MHD_GET_ARGUMENT_KIND;
    const char *at = is_query ? double_of.query : double_of.head;
    const char *end = is_query ? at + strlen(at) : at + double_of.head_size;
    (void)connection;
    while (at < end) {
        size_t length = is_query ? strcspn(at, "&") : strlen(at);
        if (length >= key_size && strncasecmp(at, key, key_size) == 0 &&
            (length == key_size || at[key_size] == (is_query ? '=' : ':'))) {
            size_t before = key_size + (is_query ? 1 : 2);
            *value = length < before ? NULL : at + before;
            *size = length < before ? 0 : length - before;
            return MHD_YES;
        }
        at += length + 1;
    }
    return MHD_NO;
}

/* A request without a Host gets one, so that it goes further. */
static enum MHD_Result look_up(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                               const char *key, size_t key_size, const char **value, size_t *size)
{
    static const char host[] = "localhost";
    enum MHD_Result found = find(connection, kind, key, key_size, value, size);
    if (found || kind == MHD_GET_ARGUMENT_KIND || strcmp(key, MHD_HTTP_HEADER_HOST) != 0)
        return found;
    *value = host;
    *size = sizeof host - 1;
    return MHD_YES;
}

static int get_values(struct MHD_Connection *connection, enum MHD_ValueKind kind,
                      MHD_KeyValueIterator each, void *context)
{
    const char *end = double_of.head + double_of.head_size;
    const char *value = NULL;
    size_t size = 0;
    int count = 0;
    for (const char *at = double_of.head; at < end; at += strlen(at) + 1) {
        char key[64];
        size_t length = strcspn(at, ":");
        if (!at[length] || length >= sizeof key)
            continue;
        memcpy(key, at, length);
        key[length] = '\0';
        each(context, kind, key, at + length + 1);
        count++;
    }
    if (!find(connection, kind, MHD_HTTP_HEADER_HOST, strlen(MHD_HTTP_HEADER_HOST), &value, &size))
        each(context, kind, MHD_HTTP_HEADER_HOST, "localhost");
    return count;
}

static const union MHD_ConnectionInfo *get_info(struct MHD_Connection *connection,
                                                enum MHD_ConnectionInfoType type, ...)
{
    (void)connection;
    return type == MHD_CONNECTION_INFO_CONNECTION_FD ? &double_of.fd : &double_of.socket;
}

static struct MHD_Response *create(size_t size, void *buffer, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = calloc(1, sizeof *response);
    check(response && mode == MHD_RESPMEM_MUST_FREE);
    *response = (struct MHD_Response){size, buffer};
    return response;
}

static enum MHD_Result add_header(struct MHD_Response *response, const char *header,
                                  const char *content)
{
    check(response && *header && *content);
    return MHD_YES;
}

static enum MHD_Result queue(struct MHD_Connection *connection, unsigned code,
                             struct MHD_Response *response)
{
    (void)connection;
    check(response->size > 2 && ((char *)response->bytes)[response->size - 1] == '\n');
    double_of.responses++;
    double_of.code = code;
    return MHD_YES;
}

static void destroy(struct MHD_Response *response)
{
    free(response->bytes);
    free(response);
}

static void suspend(struct MHD_Connection *connection)
{
    (void)connection;
    check(double_of.sleeps++ == 0);
}

static void resume(struct MHD_Connection *connection)
{
    (void)connection;
    check(double_of.sleeps-- == 1);
}

/* The request from its first byte to its answer, or to where the client leaves. */
static void ask(char *url, const char *method)
{
    struct MHD_Connection *connection = NULL;
    void *slot = double_of.see(double_of.context, url, connection);
    size_t size = 0;
    bool leaves = double_of.way & HANGS_UP;
    enum MHD_Result goes_on = double_of.handle(double_of.context, connection, url, method,
                                               "HTTP/1.1", NULL, &size, &slot);
    int times = double_of.way & LONG_BODY ? 64 : 1;
    for (int i = 0; i < times && goes_on && !double_of.responses && double_of.body_size; i++) {
        size = double_of.body_size;
        goes_on = double_of.handle(double_of.context, connection, url, method, "HTTP/1.1",
                                   (const char *)double_of.body, &size, &slot);
        check(size == 0);
    }
    for (int i = 0; i < 2 && goes_on && !double_of.responses && !leaves; i++) {
        size = 0;
        goes_on = double_of.handle(double_of.context, connection, url, method, "HTTP/1.1", NULL,
                                   &size, &slot);
        while (double_of.sleeps) {
            struct xtrain_answer *late = atomic_exchange(&double_of.late, NULL);
            if (late)
                late->done(late->context);
            else
                sched_yield();
        }
    }
    check(goes_on && (leaves || double_of.responses == 1));
    double_of.completed(double_of.context, connection, &slot,
                        leaves ? MHD_REQUEST_TERMINATED_CLIENT_ABORT
                               : MHD_REQUEST_TERMINATED_COMPLETED_OK);
    check(!slot && !double_of.answers);
}

/* A connection, a request, its end: in the place of what listens. It then says that it cannot. */
static struct MHD_Daemon *start(unsigned flags, uint16_t port, MHD_AcceptPolicyCallback policy,
                                void *policy_context, MHD_AccessHandlerCallback handle,
                                void *context, ...)
{
    va_list options;
    int option = 0;
    (void)flags;
    (void)port;
    (void)policy;
    (void)policy_context;
    double_of.handle = handle;
    double_of.context = context;
    va_start(options, context);
    while ((option = va_arg(options, int)) != MHD_OPTION_END) {
        switch (option) {
        case MHD_OPTION_NOTIFY_COMPLETED:
            double_of.completed = va_arg(options, MHD_RequestCompletedCallback);
            (void)va_arg(options, void *);
            break;
        case MHD_OPTION_URI_LOG_CALLBACK:
            double_of.see =
                va_arg(options, void *(*)(void *, const char *, struct MHD_Connection *));
            (void)va_arg(options, void *);
            break;
        case MHD_OPTION_NOTIFY_CONNECTION:
            double_of.notify = va_arg(options, MHD_NotifyConnectionCallback);
            (void)va_arg(options, void *);
            break;
        case MHD_OPTION_EXTERNAL_LOGGER:
            (void)va_arg(options, MHD_LogCallback);
            (void)va_arg(options, void *);
            break;
        case MHD_OPTION_CONNECTION_MEMORY_LIMIT:
            (void)va_arg(options, size_t);
            break;
        default:
            (void)va_arg(options, int);
        }
    }
    va_end(options);
    double_of.notify(context, NULL, &double_of.socket.socket_context,
                     MHD_CONNECTION_NOTIFY_STARTED);
    char *url = strchr(double_of.head, ' ');
    if (url) {
        *url++ = '\0';
        ask(url, double_of.head);
    }
    double_of.notify(context, NULL, &double_of.socket.socket_context, MHD_CONNECTION_NOTIFY_CLOSED);
    return NULL;
}

enum xt_status xt_mhd_load(struct xt_mhd *mhd, struct xt_err *err)
{
    (void)err;
    *mhd = (struct xt_mhd){
        .start_daemon = start,
        .suspend_connection = suspend,
        .resume_connection = resume,
        .create_response_from_buffer = create,
        .add_response_header = add_header,
        .queue_response = queue,
        .destroy_response = destroy,
        .lookup_connection_value_n = look_up,
        .get_connection_values = get_values,
        .get_connection_info = get_info,
    };
    return XT_OK;
}

/* The head's lines as texts, the query apart. */
static void split(const uint8_t *bytes, size_t size)
{
    const uint8_t *end = memmem(bytes, size, "\n\n", 2);
    double_of.head_size = end ? (size_t)(end - bytes) : size;
    double_of.head = calloc(1, double_of.head_size + 1);
    check(double_of.head != NULL);
    memcpy(double_of.head, bytes, double_of.head_size);
    for (size_t i = 0; i < double_of.head_size; i++)
        if (double_of.head[i] == '\n')
            double_of.head[i] = '\0';
    double_of.query = strchr(double_of.head, '?');
    if (double_of.query)
        *double_of.query++ = '\0';
    else
        double_of.query = double_of.head + strlen(double_of.head);
    double_of.body = end ? end + 2 : bytes + size;
    double_of.body_size = (size_t)(bytes + size - double_of.body);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const int codes[] = {200, 400, 403, 404, 405, 413, 415, 422, 500, 503};
    static const struct xt_service_settings service = {
        .max_body = 1, .max_connections = 1, .request_timeout = 10, .idle_timeout = 10};
    static const struct xt_answer_settings answer;
    const struct xt_http_config config = {&service, &answer, .workers = 1, .queue = 1};
    struct xt_listener listener = {.fd = -1};
    struct xt_metrics metrics;
    struct xt_err err;
    if (!size)
        return 0;
    memset(&double_of, 0, sizeof double_of);
    double_of.way = bytes[0];
    split(bytes + 1, size - 1);
    xt_metrics_init(&metrics);
    check(xt_http_run(NULL, &listener, &metrics, &config, &err) == XT_ERR_RUN);
    xt_metrics_clear(&metrics);
    bool is_known = !double_of.responses;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        is_known |= (unsigned)codes[i] == double_of.code;
    check(is_known);
    free(double_of.head);
    return 0;
}
