/* What other processes took of the CPUs while a bench ran: figures taken beside them are too low.
 * Thread-safe.
 */
#ifndef XT_CLI_BENCH_CPU_SHARE_H
#define XT_CLI_BENCH_CPU_SHARE_H

/* Part of the CPU time that others may take before a bench's figures are doubted. */
#define XT_CPU_OTHERS_MAX 0.05
/* Warns where others took more than that. */
void xt_cpu_warn_of_others(double share);

/* Seconds of CPU time: all that this machine's CPUs have worked (or were kept from it by other
 * guests of a virtual machine's host), and this process's part. Zeros where it cannot be read. */
struct xt_cpu_time {
    double wall, all, own;
};
struct xt_cpu_time xt_cpu_time(void);

/* What others took of all CPUs since `before`, 0 to 1; -1 where it is not known. */
double xt_cpu_share_of_others(const struct xt_cpu_time *before);

#endif
