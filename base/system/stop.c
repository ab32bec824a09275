#include "base/system/stop.h"

#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

/* One of the program's three pieces of global state: the signal, and when it arrived. */
static struct {
    volatile sig_atomic_t number;
    volatile sig_atomic_t second;
    volatile sig_atomic_t launcher_ends;
    void (*ending)(enum xt_status status);
} requested;

static const int asking[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGXCPU};
enum { ASKING_COUNT = sizeof asking / sizeof *asking };

/* timeout(1) and batch systems signal the process and then its group: two signals at once are one
 * request. */
static void on_signal(int number)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!requested.number) {
        requested.second = (sig_atomic_t)now.tv_sec;
        requested.number = number;
        /* The compilation of a kernel can take minutes. */
        xt_log_from_signal("xtrain: stopping after what is in hand; a second signal ends it");
    } else if (requested.launcher_ends && number == SIGTERM) {
        /* Open MPI's own, which follows its SIGCONT: the same request. */
        requested.number = number;
    } else if (number != SIGXCPU && (sig_atomic_t)now.tv_sec - requested.second > 1) {
        if (requested.ending)
            requested.ending(number == SIGINT ? XT_INTERRUPTED : XT_STOPPED);
        signal(number, SIG_DFL);
        raise(number);
    }
}

/* One from elsewhere continues a stopped process, as it always does. */
static void on_continue(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_code != SI_USER || info->si_pid != getppid())
        return;
    requested.launcher_ends = 1;
    if (!requested.number)
        on_signal(number);
}

void xt_stop_on_launcher_continue(void)
{
    struct sigaction action = {.sa_sigaction = on_continue, .sa_flags = SA_RESTART | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGCONT, &action, NULL);
}

void xt_stop_on_end(void (*ending)(enum xt_status status))
{
    requested.ending = ending;
}

static void mask(int how)
{
    sigset_t all;
    sigemptyset(&all);
    for (int i = 0; i < ASKING_COUNT; i++)
        sigaddset(&all, asking[i]);
    sigprocmask(how, &all, NULL);
}

void xt_stop_hold(void)
{
    mask(SIG_BLOCK);
}

void xt_stop_watch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    xt_log_prepare_signal();
    for (int i = 0; i < ASKING_COUNT; i++) {
        struct sigaction before;
        sigaction(asking[i], NULL, &before);
        if (asking[i] != SIGHUP || before.sa_handler != SIG_IGN)
            sigaction(asking[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    mask(SIG_UNBLOCK);
}

void xt_stop_forget(void)
{
    for (int i = 0; i < ASKING_COUNT; i++)
        signal(asking[i], SIG_DFL);
    signal(SIGCONT, SIG_DFL);
}

bool xt_stop_launcher_ends(void)
{
    return requested.launcher_ends;
}

enum xt_status xt_stop_status(void)
{
    switch (requested.number) {
    case 0:
        return XT_OK;
    case SIGINT:
        return XT_INTERRUPTED;
    default:
        return XT_STOPPED;
    }
}

enum xt_status xt_stop_check(struct xt_err *err, const char *rest, ...)
{
    char text[512];
    va_list args;
    enum xt_status status = xt_stop_status();
    if (!status)
        return XT_OK;
    va_start(args, rest);
    vsnprintf(text, sizeof text, rest, args);
    va_end(args);
    return xt_err_set(err, status, "%s %s", status == XT_INTERRUPTED ? "interrupted" : "stopped",
                      text);
}
