#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"

/* Longer messages are truncated. */
enum { MESSAGE_ROOM = 8192, LINE_ROOM = 512, STAMP_ROOM = 32, NAME_ROOM = 96 };

/* CHANGING: the live line is being rewritten. */
enum line { NO_LINE, CHANGING, STANDS };

/* One of the program's three pieces of global state. The live line is part of it because there is
 * one standard error: every thread that writes a message must first erase the line. */
static struct {
    enum xt_log_level level;
    bool time;                   /* prefix of messages */
    char name[NAME_ROOM];        /* of this rank, if it is silent */
    pthread_mutex_t lock;        /* serialises messages and lines */
    volatile sig_atomic_t state; /* enum line; a signal handler reads it without the lock */
    char line[LINE_ROOM];
    volatile sig_atomic_t ending; /* a signal asked to stop */
    int signal_fd;                /* for signal handlers; -1: none */
    xt_log_listener *listener;    /* NULL: standard error */
    void *context;                /* the listener's */
    const char *said;             /* the last warning that is given once */
} log_state = {.level = XT_LOG_NORMAL, .lock = PTHREAD_MUTEX_INITIALIZER, .signal_fd = -1};

static const char wipe[] = "\r\033[K";

void xt_log_set_level(enum xt_log_level wanted)
{
    log_state.level = wanted;
}

/* Waits until a pipe takes PIPE_BUF bytes; after a request to stop only briefly, so that a reader
 * that does not read cannot delay the exit. */
static bool takes_some(void)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    int ready;
    while ((ready = poll(&out, 1, 1000)) <= 0)
        if ((ready < 0 && errno != EINTR) || (ready == 0 && log_state.ending))
            return false;
    return true;
}

/* A failure to write standard error cannot be reported. */
static void put(const char *text)
{
    size_t left = strlen(text);
    while (left && takes_some()) {
        ssize_t wrote = write(STDERR_FILENO, text, left < PIPE_BUF ? left : PIPE_BUF);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return;
        text += wrote;
        left -= (size_t)wrote;
    }
}

void xt_log_set_time(bool on)
{
    log_state.time = on;
}

/* "2026-11-22T09:15:02+0100 ", or "". */
static void stamp(char out[STAMP_ROOM])
{
    time_t now = time(NULL);
    struct tm local;
    *out = '\0';
    if (log_state.time && localtime_r(&now, &local))
        strftime(out, STAMP_ROOM, "%Y-%m-%dT%H:%M:%S%z ", &local);
}

static void format_line(char out[MESSAGE_ROOM], const char *format, va_list args)
{
    char message[MESSAGE_ROOM];
    vsnprintf(message, sizeof message, format, args);
    xt_str_escape(message, out, MESSAGE_ROOM);
}

static void say_nothing(void *context, const char *sentence)
{
    (void)context;
    (void)sentence;
}

void xt_log_listen(xt_log_listener *listener, void *context)
{
    pthread_mutex_lock(&log_state.lock);
    log_state.listener = listener ? listener : say_nothing;
    log_state.context = context;
    pthread_mutex_unlock(&log_state.lock);
}

void xt_log_hush(void)
{
    pthread_mutex_lock(&log_state.lock);
    if (!log_state.listener)
        log_state.listener = say_nothing;
    pthread_mutex_unlock(&log_state.lock);
}

/* One write, so that other processes' output on the terminal cannot come in between. */
static void say(enum xt_log_level least, const char *prefix, const char *format, va_list args)
{
    if (log_state.level < least)
        return;
    char message[MESSAGE_ROOM];
    char when[STAMP_ROOM];
    char text[MESSAGE_ROOM + LINE_ROOM + STAMP_ROOM + NAME_ROOM + 32];
    format_line(message, format, args);
    stamp(when);
    pthread_mutex_lock(&log_state.lock);
    bool stands = log_state.state != NO_LINE;
    if (log_state.listener) {
        snprintf(text, sizeof text, "%s%s", prefix, message);
        log_state.listener(log_state.context, text);
    } else {
        snprintf(text, sizeof text, "%s%s%s%s\n%s", stands ? wipe : "", when, prefix, message,
                 stands ? log_state.line : "");
        put(text);
    }
    pthread_mutex_unlock(&log_state.lock);
}

void xt_log_say(enum xt_log_level least, const char *prefix, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(least, prefix, format, args);
    va_end(args);
}

void xt_log_set_name(const char *name)
{
    snprintf(log_state.name, sizeof log_state.name, "%s", name);
}

void xt_log_warn_once(const char *sentence)
{
    pthread_mutex_lock(&log_state.lock);
    bool again = log_state.said == sentence;
    log_state.said = sentence;
    pthread_mutex_unlock(&log_state.lock);
    if (!again)
        xt_log_warn("%s", sentence);
}

void xt_log_warn_here(const char *format, ...)
{
    char prefix[NAME_ROOM + 16];
    snprintf(prefix, sizeof prefix, "warning: %s", log_state.name);
    va_list args;
    va_start(args, format);
    say(*log_state.name ? XT_LOG_SILENT : XT_LOG_QUIET, prefix, format, args);
    va_end(args);
}

void xt_log_progress(FILE *out, const char *format, ...)
{
    char line[MESSAGE_ROOM];
    char when[STAMP_ROOM];
    va_list args;
    va_start(args, format);
    format_line(line, format, args);
    va_end(args);
    stamp(when);
    fprintf(out, "%s%s\n", when, line);
}

void xt_log_result(FILE *out, const char *format, ...)
{
    char line[MESSAGE_ROOM];
    va_list args;
    va_start(args, format);
    format_line(line, format, args);
    va_end(args);
    fprintf(out, "%s\n", line);
}

void xt_log_result_lines(FILE *out, const char *text)
{
    for (size_t length; (length = strcspn(text, "\n")) || *text;
         text += length + (text[length] != 0))
        xt_log_result(out, "%.*s", (int)length, text);
}

void xt_log_show_line(const char *line)
{
    char text[LINE_ROOM + 8];
    pthread_mutex_lock(&log_state.lock);
    log_state.state = CHANGING;
    xt_str_escape(line, log_state.line, sizeof log_state.line);
    snprintf(text, sizeof text, "\r%s\033[K", log_state.line);
    put(text);
    log_state.state = STANDS;
    pthread_mutex_unlock(&log_state.lock);
}

void xt_log_clear_line(void)
{
    pthread_mutex_lock(&log_state.lock);
    if (log_state.state != NO_LINE)
        put(wipe);
    log_state.state = NO_LINE;
    pthread_mutex_unlock(&log_state.lock);
}

void xt_log_prepare_signal(void)
{
    struct stat status;
    if (fstat(STDERR_FILENO, &status) == 0 && S_ISREG(status.st_mode))
        log_state.signal_fd = STDERR_FILENO;
    else
        log_state.signal_fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/* A longer text is truncated. */
static void try_to_put(const char *text)
{
    if (log_state.signal_fd >= 0 && write(log_state.signal_fd, text, strlen(text)) < 0)
        return;
}

static void put_from_signal(const char *sentence, enum xt_log_level level)
{
    int before = errno;
    sig_atomic_t state = log_state.state;
    log_state.ending = 1;
    if (log_state.level >= level) {
        if (state != NO_LINE)
            try_to_put(wipe);
        try_to_put(sentence);
        try_to_put("\n");
        if (state == STANDS)
            try_to_put(log_state.line);
    }
    errno = before;
}

void xt_log_from_signal(const char *sentence)
{
    put_from_signal(sentence, XT_LOG_NORMAL);
}

void xt_log_error_from_signal(const char *sentence)
{
    put_from_signal(sentence, XT_LOG_SILENT);
}
