#include "base/stop.h"

#include <signal.h>
#include <stddef.h>

/* One of the program's three pieces of global state. */
static volatile sig_atomic_t requested;

static void on_signal(int number)
{
    requested = number;
    signal(number, SIG_DFL);
}

void xt_stop_watch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int xt_stop_requested(void)
{
    return requested;
}
