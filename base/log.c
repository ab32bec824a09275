#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

/* One of the program's three pieces of global state. */
static enum xt_log_level level = XT_LOG_NORMAL;

void xt_log_set_level(enum xt_log_level wanted)
{
    level = wanted;
}

enum xt_log_level xt_log_level(void)
{
    return level;
}

static void say(const char *prefix, const char *format, va_list args)
{
    flockfile(stderr);
    fputs(prefix, stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    funlockfile(stderr);
}

void xt_log_note(const char *format, ...)
{
    if (level < XT_LOG_NORMAL)
        return;
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
}

void xt_log_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say("warning: ", format, args);
    va_end(args);
}

void xt_log_detail(const char *format, ...)
{
    if (level < XT_LOG_VERBOSE)
        return;
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
}
