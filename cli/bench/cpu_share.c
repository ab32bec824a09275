#include "cli/bench/cpu_share.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/system/thread.h"

struct xt_cpu_time xt_cpu_time(void)
{
    unsigned long long parts[8] = {0}; /* user nice system idle iowait irq softirq steal */
    FILE *file = fopen("/proc/stat", "re");
    int read =
        file ? fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &parts[0], &parts[1],
                      &parts[2], &parts[3], &parts[4], &parts[5], &parts[6], &parts[7])
             : 0;
    if (file)
        fclose(file);
    unsigned long long busy = parts[0] + parts[1] + parts[2] + parts[5] + parts[6] + parts[7];
    struct rusage usage;
    if (read != 8 || getrusage(RUSAGE_SELF, &usage))
        return (struct xt_cpu_time){0};
    return (struct xt_cpu_time){
        .wall = xt_thread_seconds(),
        .all = (double)busy / (double)sysconf(_SC_CLK_TCK),
        .own = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
    };
}

double xt_cpu_share_of_others(const struct xt_cpu_time *before)
{
    struct xt_cpu_time now = xt_cpu_time();
    double wall = now.wall - before->wall;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (before->wall <= 0 || now.wall <= 0 || wall <= 0 || cpus < 1)
        return -1;
    double others = (now.all - before->all) - (now.own - before->own);
    double share = others / wall / (double)cpus;
    return share < 0 ? 0 : share;
}

void xt_cpu_warn_of_others(double share)
{
    if (share > XT_CPU_OTHERS_MAX)
        xt_log_warn("other processes used %.0f %% of this machine's CPU time meanwhile: the rates "
                    "are too low, and ratios between runs are uncertain",
                    100 * share);
}
