#include "device/faults/why.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/process.h"
#include "device/dnnl.h"
#include "device/faults/guard.h"

enum { SECONDS = 120 };

static const char thrown[] = "the runtime: ";

static void start_engine(const void *argument, void *result)
{
    static const char *const logs[][2] = {
        {"ONEDNN_VERBOSE", "error"},
        {"SYCL_UR_TRACE", "2"},
        {"UR_LOG_LOADER", "level:info;output:stdout"},
        {"UR_LOG_LEVEL_ZERO", "level:warning;output:stdout"},
        {"UR_LOG_OPENCL", "level:warning;output:stdout"},
        {"ZE_ENABLE_LOADER_DEBUG_TRACE", "1"},
    };
    const int *index = argument;
    struct xt_err err;
    dnnl_engine_t engine = NULL;
    (void)result;
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++)
        setenv(logs[i][0], logs[i][1], 0);
    if (xt_dnnl_load(XT_DNNL_GPU, &err))
        return;
    xt_dnnl.engine_get_count(dnnl_gpu);
    if (*xt_guard_said())
        printf("%s%s\n", thrown, xt_guard_said());
    xt_dnnl.engine_create(&engine, dnnl_gpu, (size_t)*index);
    fflush(NULL);
}

/* These follow from whatever is missing, and name no cause: a back end that found no driver, a
 * query that a driver does not know. */
static bool says_nothing(const char *line)
{
    static const char *const words[] = {"UNSUPPORTED_ENUMERATION", "UNSUPPORTED_FEATURE",
                                        "GetInfo(", "ERROR_UNINITIALIZED", "adapter init"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(line, words[i]))
            return true;
    return false;
}

/* A failed call, or a driver's library that cannot be loaded; but not other vendors' libraries. */
static bool tells(const char *line)
{
    bool of_intel = strstr(line, "level_zero") || strstr(line, "opencl") || strstr(line, "libze");
    if (says_nothing(line))
        return false;
    return strncmp(line, thrown, strlen(thrown)) == 0 || strstr(line, "-> UR_RESULT_ERROR") ||
           strstr(line, "ZE_RESULT_ERROR") || (of_intel && strstr(line, "failed to load"));
}

void xt_why_no_engine(int index, char *out, size_t size)
{
    char nothing = 0;
    struct xt_err err = {0};
    struct xt_process_end end = {0};
    const struct xt_process process = {
        .work = start_engine, .argument = &index, .seconds = SECONDS, .tells = tells};
    xt_process_run(&process, &nothing, sizeof nothing, &end, &err);
    const char *text = end.said + strspn(end.said, " ");
    text += strncmp(text, "<---", 4) == 0 ? 5 : 0;
    /* Strips a call's arguments, which are mostly addresses. */
    const char *open = strchr(text, '(');
    const char *close = strstr(text, ") -> ");
    if (!tells(text))
        *out = '\0';
    else if (open && close && open < close)
        snprintf(out, size, "%.*s%s", (int)(open - text), text, close + 1);
    else
        snprintf(out, size, "%s", text);
}
