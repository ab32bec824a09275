/* Elapsed time: wall clock, and CPU seconds of the whole process. */
#pragma once

struct xt_span {
    double wall; /* seconds */
    double cpu;  /* user and system time of all threads */
};

/* The clocks' current values; only differences are meaningful. */
struct xt_span xt_span_now(void);
struct xt_span xt_span_since(const struct xt_span *start);
