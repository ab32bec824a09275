/* The settings of a set that is made: "?count=1000&seed=7" behind its name. Errors are
 * XT_ERR_USAGE.
 */
#ifndef XT_DATA_SOURCES_QUERY_H
#define XT_DATA_SOURCES_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { XT_QUERY_SETTINGS_MAX = 8 };

/* A piece of the query. */
struct xt_query_piece {
    const char *text;
    size_t length;
};

struct xt_query_setting {
    const char *key;
    uint64_t low; /* numbers: the least and the most that it may be; text: both 0 */
    uint64_t high;
    uint64_t number; /* stays as it was where it is not given */
    struct xt_query_piece text;
    bool given;
};

/* `what` is the set's name in messages; `query` is empty or begins with the question mark. */
enum xt_status xt_query_read(const char *what, const char *query, struct xt_query_setting *settings,
                             size_t count, struct xt_err *err);
bool xt_query_piece_is(struct xt_query_piece piece, const char *word);

#endif
