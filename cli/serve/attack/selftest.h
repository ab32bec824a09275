/* xtrain serve --selftest: attacks a running service as hostile clients and browsers would, and
 * says what held. Sends at most some hundred megabytes in two minutes. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* XT_ERR_RUN where something did not hold, or nobody answers there. */
enum xt_status xt_serve_selftest(const char *url, bool remote, struct xt_err *err);
