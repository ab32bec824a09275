/* Who else holds the CPUs while this process computes, and when it should go on with another number
 * of threads for it. What a start finds (xt_thread_beside_others) by computing for nothing is found
 * here from what the system counts.
 */
#ifndef XT_BASE_SYSTEM_OTHERS_H
#define XT_BASE_SYSTEM_OTHERS_H

#include <stdbool.h>

/* What the system has counted so far, in seconds. */
struct xt_others_reading {
    double time; /* when it was read */
    double run;  /* CPU time of this process */
    double wait; /* that its threads were ready to run and did not */
    double busy; /* CPU time of all processes, on the CPUs that this one may use */
    int cpus;    /* how many these are */
};
/* False where the system does not count it. */
bool xt_others_read(struct xt_others_reading *out);

/* How many threads of others wanted the CPUs between two readings, beyond those that have CPUs to
 * themselves because this process may use `most` alone. */
double xt_others_between(const struct xt_others_reading *from, const struct xt_others_reading *to,
                         int most);

/* The rule: fewer threads once the looks of 30 s in a row say so, more after 60 s, and nothing in a
 * process' first two minutes; the mildest look of the row counts. */
struct xt_others_rule {
    int threads;    /* that compute now */
    int most;       /* that may */
    double lived;   /* seconds of this process */
    double row;     /* seconds that looks have said fewer or more, one after the other */
    bool row_fewer; /* which */
    int best;       /* of the row */
};
/* What a look at the last so many seconds found; the count to go on with, 0: as it is. A pure
 * function of what it is given. */
int xt_others_judge(struct xt_others_rule *rule, double others, double seconds);

/* All of it, for a loop that asks each time around. */
struct xt_others {
    struct xt_others_rule rule;
    struct xt_others_reading last;
    double every; /* seconds from one look to the next, 10 as the rule is told; 0: no looks */
};
void xt_others_begin(struct xt_others *others, int threads, int most, double every);
int xt_others_look(struct xt_others *others, double now);

#endif
