/* How long something took: by the clock, and in CPU seconds of the whole process. */
#ifndef XT_BASE_SPAN_H
#define XT_BASE_SPAN_H

struct xt_span {
    double wall; /* seconds */
    double cpu;  /* of all threads, in the program and in the kernel for it */
};

/* Where the clocks stand; only differences mean something. */
struct xt_span xt_span_now(void);
struct xt_span xt_span_since(const struct xt_span *start);

#endif
