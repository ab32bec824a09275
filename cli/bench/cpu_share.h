/* CPU share of other processes while a bench ran: with such load the bench's figures are too low.
 * Thread-safe. */
#pragma once

/* CPU share of others above which a bench's figures are in doubt. */
#define XT_CPU_OTHERS_MAX 0.05
/* Warns if others used more than that. */
void xt_cpu_warn_of_others(double share);

/* Seconds of CPU time: of all CPUs of this machine (including time stolen by other guests of the
 * host), and of this process. Zeros if it cannot be read. */
struct xt_cpu_time {
    double wall, all, own;
};
struct xt_cpu_time xt_cpu_time(void);

/* The share of all CPUs that others used since `before`, 0 to 1; -1 if unknown. */
double xt_cpu_share_of_others(const struct xt_cpu_time *before);
