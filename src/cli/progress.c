#include "cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/thread.h"

static const double live_interval = 0.1;

enum { LINE_ROOM = 256, USUAL_COLUMNS = 80 };

/* A line that grows to the end of its buffer and no further. */
struct line {
    char *text;
    size_t size;
    size_t used;
};

static void add(struct line *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct line *line, const char *format, ...)
{
    if (line->used && line->used + 1 < line->size) {
        line->text[line->used++] = ' ';
        line->text[line->used] = '\0';
    }
    va_list args;
    va_start(args, format);
    int wanted = vsnprintf(line->text + line->used, line->size - line->used, format, args);
    va_end(args);
    if (wanted < 0)
        return;
    size_t room = line->size - line->used - 1;
    line->used += (size_t)wanted < room ? (size_t)wanted : room;
}

void xt_progress_format_time(double seconds, char *text, size_t size)
{
    static const double longest = 1e9;
    long long whole = isfinite(seconds) && seconds > 0
                          ? (long long)(seconds < longest ? seconds + 0.5 : longest)
                          : 0;
    long long days = whole / 86400;
    long long hours = whole / 3600 % 24;
    long long minutes = whole / 60 % 60;
    if (days)
        snprintf(text, size, "%lld d %02lld:%02lld", days, hours, minutes);
    else if (hours)
        snprintf(text, size, "%lld:%02lld:%02lld", hours, minutes, whole % 60);
    else
        snprintf(text, size, "%lld:%02lld", minutes, whole % 60);
}

/* "1.2e-3": printf writes e-03. */
static void format_rate(double rate, char *text, size_t size)
{
    char scientific[32];
    snprintf(scientific, sizeof scientific, "%.1e", rate);
    char *e = strchr(scientific, 'e');
    if (!e) {
        snprintf(text, size, "%s", scientific);
        return;
    }
    int exponent = atoi(e + 1);
    snprintf(text, size, "%.*se%d", (int)(e - scientific), scientific, exponent);
}

void xt_progress_format(const struct xt_progress_state *state, char *text, size_t size)
{
    struct line line = {.text = text, .size = size};
    char part[48];
    if (size)
        *text = '\0';
    if (state->epoch && state->epochs)
        add(&line, "epoch %d/%d", state->epoch, state->epochs);
    else if (state->epoch)
        add(&line, "epoch %d", state->epoch);
    if (state->steps)
        add(&line, "step %lld/%lld", (long long)state->step, (long long)state->steps);
    else
        add(&line, "step %lld", (long long)state->step);
    add(&line, fabs(state->loss) < 1000 ? "loss %.4f" : "loss %.4g", state->loss);
    if (!isnan(state->lr)) {
        format_rate(state->lr, part, sizeof part);
        add(&line, "lr %s", part);
    }
    if (!isnan(state->images_per_s))
        add(&line, state->images_per_s < 10 ? "%.1f img/s" : "%.0f img/s", state->images_per_s);
    if (!isnan(state->seconds_left)) {
        xt_progress_format_time(state->seconds_left, part, sizeof part);
        add(&line, "%s left", part);
    }
    if (!isnan(state->wait))
        add(&line, "wait %.0f %%", 100 * state->wait);
    if (state->skipped)
        add(&line, "%lld skipped", (long long)state->skipped);
    if (state->device) {
        char device[96];
        xt_monitor_format(state->device, device, sizeof device);
        if (*device)
            add(&line, "%s", device);
    }
}

void xt_progress_init(struct xt_progress *progress, bool quiet, bool json)
{
    const char *terminal = getenv("TERM");
    bool live = isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
    *progress = (struct xt_progress){.mode = XT_PROGRESS_OFF};
    if (quiet)
        return;
    if (live) {
        progress->mode = XT_PROGRESS_LIVE;
        progress->out = stderr;
    } else if (!json) {
        progress->mode = XT_PROGRESS_PLAIN;
        progress->out = stdout;
    }
}

static double interval_of(const struct xt_progress *progress)
{
    return progress->mode == XT_PROGRESS_LIVE ? live_interval : XT_PROGRESS_INTERVAL;
}

/* Asked each time: windows are resized. */
static int columns_of(FILE *out)
{
    struct winsize window = {0};
    if (ioctl(fileno(out), TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        return window.ws_col;
    return USUAL_COLUMNS;
}

static void show_text(struct xt_progress *progress, const char *text, double now)
{
    if (progress->mode == XT_PROGRESS_LIVE) {
        /* The last column stays free: some terminals wrap as soon as it is written. */
        fprintf(progress->out, "\r%.*s\033[K", columns_of(progress->out) - 1, text);
        progress->has_line = true;
    } else {
        fprintf(progress->out, "%s\n", text);
    }
    fflush(progress->out);
    progress->shown = now;
    progress->started = true;
}

void xt_progress_show(struct xt_progress *progress, const struct xt_progress_state *state,
                      double now, bool force)
{
    if (progress->mode == XT_PROGRESS_OFF)
        return;
    if (progress->started && !force && now - progress->shown < interval_of(progress))
        return;
    char text[LINE_ROOM];
    xt_progress_format(state, text, sizeof text);
    show_text(progress, text, now);
}

void xt_progress_clear(struct xt_progress *progress)
{
    if (!progress->has_line)
        return;
    fputs("\r\033[K", progress->out);
    fflush(progress->out);
    progress->has_line = false;
}

/* Kernels from a cache are there at once: nothing is shown before this many seconds. */
static const double patience = 1.0;

static void kernel_made(void *context, int done, int all)
{
    struct xt_kernel_progress *kernels = context;
    struct xt_progress *progress = &kernels->progress;
    double now = xt_thread_seconds();
    if (done == 1)
        kernels->start = now;
    if (done == all)
        xt_progress_clear(progress);
    if (done == all || progress->mode == XT_PROGRESS_OFF || now - kernels->start < patience ||
        (progress->started && now - progress->shown < interval_of(progress)))
        return;
    char text[LINE_ROOM];
    snprintf(text, sizeof text, "compiling kernels %d/%d", done, all);
    show_text(progress, text, now);
}

void xt_kernel_progress_init(struct xt_kernel_progress *kernels, bool quiet, bool json)
{
    xt_progress_init(&kernels->progress, quiet, json);
    kernels->observer = (struct xt_graph_observer){.made = kernel_made, .context = kernels};
}
