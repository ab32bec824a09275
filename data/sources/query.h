/* The settings of a synthetic set: "?count=1000&seed=7" after its name. Errors are XT_ERR_USAGE.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { XT_QUERY_SETTINGS_MAX = 8 };

/* A part of the query. */
struct xt_query_piece {
    const char *text;
    size_t length;
};

struct xt_query_setting {
    const char *key;
    uint64_t low; /* numbers: minimum and maximum; text: both 0 */
    uint64_t high;
    uint64_t number; /* unchanged if not given */
    struct xt_query_piece text;
    bool given;
};

/* `what` is the set's name in messages; `query` is empty or begins with the question mark. */
enum xt_status xt_query_read(const char *what, const char *query, struct xt_query_setting *settings,
                             size_t count, struct xt_err *err);
bool xt_query_piece_is(struct xt_query_piece piece, const char *word);
