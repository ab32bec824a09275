#include "cli/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "train/trainer.h"

struct xt_progress_state xt_progress_of(const struct xt_train_progress *p)
{
    return (struct xt_progress_state){
        .epoch = p->epoch,
        .epochs = p->epochs,
        .step = p->step,
        .steps = p->steps,
        .loss = p->loss,
        .lr = p->lr,
        .images_per_s = p->images_per_s,
        .seconds_left = p->seconds_left,
        .wait = p->wait,
    };
}

static const double live_interval = 0.1;

enum { LINE_ROOM = 256, USUAL_COLUMNS = 80 };

/* The parts of a line, in order. */
enum part {
    PART_EPOCH,
    PART_STEP,
    PART_LOSS,
    PART_RATE,
    PART_SPEED,
    PART_LEFT,
    PART_WAIT,
    PART_SKIPPED,
    PART_MEMORY,
    PART_BUSY,
    PART_POWER,
    PART_FREQUENCY,
    PART_COUNT,
};

/* Parts that a narrow line drops, in this order. The epoch can be derived from the step. */
static const enum part least_important[] = {
    PART_FREQUENCY, PART_POWER,  PART_RATE, PART_WAIT,  PART_SKIPPED, PART_EPOCH,
    PART_BUSY,      PART_MEMORY, PART_LEFT, PART_SPEED, PART_LOSS,
};

struct line {
    char parts[PART_COUNT][48]; /* "": absent */
};

__attribute__((format(printf, 3, 4))) static void set(struct line *line, enum part part,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(line->parts[part], sizeof line->parts[part], format, args);
    va_end(args);
}

/* With a space between parts. */
static size_t length_of(const struct line *line)
{
    size_t length = 0;
    for (int i = 0; i < PART_COUNT; i++)
        if (*line->parts[i])
            length += strlen(line->parts[i]) + (length > 0);
    return length;
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

static void set_device(struct line *line, const struct xt_telemetry *now)
{
    if (now->memory_used.known && now->memory_total.known)
        set(line, PART_MEMORY, "%.1f/%.1f GB", now->memory_used.value / 1e9,
            now->memory_total.value / 1e9);
    if (now->busy.known)
        set(line, PART_BUSY, "%.0f %% busy", 100 * now->busy.value);
    if (now->power.known)
        set(line, PART_POWER, "%.0f W", now->power.value);
    if (now->frequency.known)
        set(line, PART_FREQUENCY, "%.0f MHz", now->frequency.value);
}

static void set_all(struct line *line, const struct xt_progress_state *state)
{
    char text[32];
    if (state->epoch && state->epochs)
        set(line, PART_EPOCH, "epoch %d/%d", state->epoch, state->epochs);
    else if (state->epoch)
        set(line, PART_EPOCH, "epoch %d", state->epoch);
    if (state->steps)
        set(line, PART_STEP, "step %lld/%lld", (long long)state->step, (long long)state->steps);
    else
        set(line, PART_STEP, "step %lld", (long long)state->step);
    if (!state->no_loss)
        set(line, PART_LOSS, fabs(state->loss) < 1000 ? "loss %.4f" : "loss %.4g", state->loss);
    if (!isnan(state->lr)) {
        format_rate(state->lr, text, sizeof text);
        set(line, PART_RATE, "lr %s", text);
    }
    if (!isnan(state->images_per_s))
        set(line, PART_SPEED, state->images_per_s < 10 ? "%.1f img/s" : "%.0f img/s",
            state->images_per_s);
    if (!isnan(state->seconds_left)) {
        xt_progress_format_time(state->seconds_left, text, sizeof text);
        set(line, PART_LEFT, "%s left", text);
    }
    if (!isnan(state->wait))
        set(line, PART_WAIT, "wait %.0f %%", 100 * state->wait);
    if (state->skipped)
        set(line, PART_SKIPPED, "%lld skipped", (long long)state->skipped);
    if (state->device)
        set_device(line, &state->device->now);
}

void xt_progress_format(const struct xt_progress_state *state, size_t columns, char *text,
                        size_t size)
{
    struct line line = {{""}};
    set_all(&line, state);
    size_t least = sizeof least_important / sizeof *least_important;
    for (size_t i = 0; i < least && length_of(&line) > columns; i++)
        *line.parts[least_important[i]] = '\0';
    if (size)
        *text = '\0';
    for (int i = 0; i < PART_COUNT && size; i++)
        if (*line.parts[i])
            xt_str_append_to(text, size, "%s%s", *text ? " " : "", line.parts[i]);
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
    } else if (!json) {
        progress->mode = XT_PROGRESS_PLAIN;
        progress->out = stdout;
    }
}

static double interval_of(const struct xt_progress *progress)
{
    return progress->mode == XT_PROGRESS_LIVE ? live_interval : XT_PROGRESS_INTERVAL;
}

/* Queried each time, since windows are resized. The last column stays free: some terminals wrap as
 * soon as it is written. A line in a file may be of any length. */
static int columns_of(const struct xt_progress *progress)
{
    struct winsize window = {0};
    if (progress->mode != XT_PROGRESS_LIVE)
        return LINE_ROOM;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1)
        return window.ws_col - 1;
    return USUAL_COLUMNS - 1;
}

static void show_text(struct xt_progress *progress, const char *text, double now)
{
    char line[LINE_ROOM];
    if (progress->mode == XT_PROGRESS_LIVE) {
        snprintf(line, sizeof line, "%.*s", columns_of(progress), text);
        xt_log_show_line(line);
    } else {
        xt_log_progress(progress->out, "%s", text);
        fflush(progress->out);
    }
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
    xt_progress_format(state, (size_t)columns_of(progress), text, sizeof text);
    show_text(progress, text, now);
}

void xt_progress_count(void *progress, int done, int all)
{
    const struct xt_progress_state state = {.step = done,
                                            .steps = all,
                                            .no_loss = true,
                                            .lr = NAN,
                                            .images_per_s = NAN,
                                            .seconds_left = NAN,
                                            .wait = NAN};
    xt_progress_show(progress, &state, xt_thread_seconds(), false);
}

void xt_progress_clear(const struct xt_progress *progress)
{
    if (progress->mode == XT_PROGRESS_LIVE)
        xt_log_clear_line();
}

/* Kernels from a cache load at once: nothing is shown before this many seconds. */
static const double patience = 1.0;

/* Without a folder of our own it is not known which kernels are in a cache. */
static const char *verb_of(const struct xt_kernel_cache *cache)
{
    if (!cache->folder)
        return "creating";
    return xt_kernel_cache_count(cache) > cache->valid ? "compiling" : "loading";
}

static void kernel_made(void *context, const struct xt_kernel_cache *cache, int done, int all)
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
    char left[32];
    xt_progress_format_time((now - kernels->start) / (done - 1) * (all - done), left, sizeof left);
    snprintf(text, sizeof text, "%s kernels %d/%d, about %s left", verb_of(cache), done, all, left);
    show_text(progress, text, now);
}

void xt_kernel_progress_init(struct xt_kernel_progress *kernels, bool quiet, bool json)
{
    xt_progress_init(&kernels->progress, quiet, json);
    kernels->observer = (struct xt_graph_observer){.created = kernel_made, .context = kernels};
}
