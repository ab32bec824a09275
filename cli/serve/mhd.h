/* libmicrohttpd, loaded when the service starts: other commands need neither it nor its
 * dependencies. */
#pragma once

#include <microhttpd.h>

#include "base/err.h"

/* Names of the functions without the MHD_ prefix. */
#define XT_MHD_FUNCTIONS(X)                                                                        \
    X(start_daemon)                                                                                \
    X(stop_daemon)                                                                                 \
    X(quiesce_daemon)                                                                              \
    X(suspend_connection)                                                                          \
    X(resume_connection)                                                                           \
    X(create_response_from_buffer)                                                                 \
    X(add_response_header)                                                                         \
    X(queue_response)                                                                              \
    X(destroy_response)                                                                            \
    X(lookup_connection_value_n)                                                                   \
    X(get_connection_values)                                                                       \
    X(get_connection_info)

struct xt_mhd {
    void *library;
#define XT_MHD_FIELD(name) __typeof__(MHD_##name) *name;
    XT_MHD_FUNCTIONS(XT_MHD_FIELD)
#undef XT_MHD_FIELD
};

/* XT_ERR_RUN says how to install it. It stays loaded. */
enum xt_status xt_mhd_load(struct xt_mhd *mhd, struct xt_err *err);
