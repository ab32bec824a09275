#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void mark_cut(char *text, size_t size, int wanted)
{
    if (wanted >= 0 && (size_t)wanted >= size)
        memcpy(text + size - 4, "...", 4);
}

static void append(struct xt_err *err, size_t used, const char *text)
{
    if (used >= sizeof err->text)
        return;
    int wanted = snprintf(err->text + used, sizeof err->text - used, "%s", text);
    mark_cut(err->text, sizeof err->text, wanted < 0 ? wanted : wanted + (int)used);
}

static void set(struct xt_err *err, enum xt_status status, const char *format, va_list args)
{
    err->status = status;
    int wanted = vsnprintf(err->text, sizeof err->text, format, args);
    mark_cut(err->text, sizeof err->text, wanted);
}

enum xt_status xt_err_set(struct xt_err *err, enum xt_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (err)
        set(err, status, format, args);
    va_end(args);
    return status;
}

enum xt_status xt_err_system(struct xt_err *err, enum xt_status status, const char *format, ...)
{
    int error = errno;
    va_list args;
    if (error == ENOMEM)
        status = XT_ERR_MEMORY;
    va_start(args, format);
    if (err) {
        set(err, status, format, args);
        append(err, strlen(err->text), ": ");
        append(err, strlen(err->text), error ? strerror(error) : "the file has become shorter");
    }
    va_end(args);
    return status;
}

void xt_err_set_first(struct xt_err *err, enum xt_status status, const char *format, va_list args)
{
    if (!err->status)
        set(err, status, format, args);
}

enum xt_status xt_err_prefix(struct xt_err *err, const char *format, ...)
{
    if (!err)
        return XT_ERR_RUN;
    char rest[sizeof err->text];
    memcpy(rest, err->text, sizeof rest);
    va_list args;
    va_start(args, format);
    int used = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    if (used >= 0)
        append(err, (size_t)used, rest);
    return err->status;
}

enum xt_status xt_err_no_memory(struct xt_err *err, const char *what, size_t bytes)
{
    return xt_err_set(err, XT_ERR_MEMORY, "out of memory: cannot allocate %.1f MB for %s",
                      (double)bytes / 1e6, what);
}
