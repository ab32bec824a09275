/* The networks of the registry, for tests of what says their names. */
#pragma once

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "models/registry.h"

/* Ends in NULL; empty until list_model_names. */
static const char *model_names[64];

static inline void list_model_names(void)
{
    for (size_t i = 0; xt_model_at(i); i++) {
        assert(i + 1 < sizeof model_names / sizeof *model_names);
        model_names[i] = xt_model_at(i)->name;
    }
}

/* All of them with `between` between two, `last` before the last one; and `text` with that for its
 * "{models}". Valid until the next call. */
static inline const char *with_model_names(const char *text, const char *between, const char *last)
{
    static char out[1024];
    const char *place = strstr(text, "{models}");
    if (!place)
        return text;
    int length = snprintf(out, sizeof out, "%.*s", (int)(place - text), text);
    for (size_t i = 0; model_names[i]; i++)
        length += snprintf(out + length, sizeof out - (size_t)length, "%s%s",
                           i == 0               ? ""
                           : model_names[i + 1] ? between
                                                : last,
                           model_names[i]);
    snprintf(out + length, sizeof out - (size_t)length, "%s", place + strlen("{models}"));
    return out;
}
