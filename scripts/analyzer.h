/* Seen by clang-tidy alone. Its analyzer reads one source file at a time and would believe that a
 * function of base/err.c may report a failure and return XT_OK; these say that it cannot. */
#include "base/err.h"

#define xt_err_set(err, status, ...) (xt_err_set(err, status, __VA_ARGS__), (status))
#define xt_err_no_memory(err, what, bytes) (xt_err_no_memory(err, what, bytes), XT_ERR_MEMORY)
