#include "base/system/others.h"

#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/system/thread.h"

/* CPU time and waiting of one thread, in nanoseconds. */
static bool read_thread(const char *name, double *wait)
{
    char path[300];
    unsigned long long run = 0;
    unsigned long long waited = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", name);
    FILE *file = fopen(path, "re");
    bool fine = file && fscanf(file, "%llu %llu", &run, &waited) == 2;
    if (file)
        fclose(file);
    *wait += (double)waited * 1e-9;
    return fine;
}

static bool read_own(struct xt_others_reading *out)
{
    struct timespec used;
    bool any = false;
    DIR *folder = opendir("/proc/self/task");
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        if (*entry->d_name != '.')
            any |= read_thread(entry->d_name, &out->wait);
    if (folder)
        closedir(folder);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    out->run = (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
    return any;
}

/* Of the CPUs that this process may use. */
static bool read_all(struct xt_others_reading *out)
{
    enum { CPUS = 8192, BYTES = CPUS / 8 };
    static const double ticks = 100; /* a second has so many there, whatever the kernel's are */
    char line[512];
    cpu_set_t *set = CPU_ALLOC(CPUS);
    FILE *file = fopen("/proc/stat", "re");
    if (set && file && sched_getaffinity(0, BYTES, set) == 0)
        while (fgets(line, sizeof line, file)) {
            unsigned cpu = 0;
            double user = 0;
            double nice = 0;
            double kernel = 0;
            double irq = 0;
            double soft = 0;
            if (sscanf(line, "cpu%u %lf %lf %lf %*f %*f %lf %lf", &cpu, &user, &nice, &kernel, &irq,
                       &soft) != 6 ||
                cpu >= CPUS || !CPU_ISSET_S(cpu, BYTES, set))
                continue;
            out->cpus++;
            out->busy += (user + nice + kernel + irq + soft) / ticks;
        }
    if (file)
        fclose(file);
    if (set)
        CPU_FREE(set);
    return out->cpus > 0;
}

bool xt_others_read(struct xt_others_reading *out)
{
    *out = (struct xt_others_reading){.time = xt_thread_seconds()};
    return read_own(out) && read_all(out);
}

double xt_others_between(const struct xt_others_reading *from, const struct xt_others_reading *to,
                         int most)
{
    double seconds = to->time - from->time;
    double run = fmax(0, to->run - from->run);
    double wait = fmax(0, to->wait - from->wait);
    double others = fmax(0, to->busy - from->busy - run);
    if (seconds <= 0)
        return 0;
    /* They get as much of what they want as we do. */
    double share = run > 0 ? fmax(run / (run + wait), 1e-3) : 1;
    return fmax(0, others / seconds / share - (to->cpus - most));
}

int xt_others_judge(struct xt_others_rule *rule, double others, double seconds)
{
    const double first = 120;
    const double until_fewer = 30;
    const double until_more = 60;
    int best = xt_thread_best(rule->most, others);
    bool fewer = best < rule->threads;
    rule->lived += seconds;
    if (best == rule->threads) {
        rule->row = 0;
        return 0;
    }
    if (rule->row <= 0 || fewer != rule->row_fewer) {
        rule->row = 0;
        rule->best = best;
    }
    rule->row += seconds;
    rule->row_fewer = fewer;
    if (fewer ? best > rule->best : best < rule->best)
        rule->best = best;
    bool is_due = rule->row >= (fewer ? until_fewer : until_more);
    return is_due && rule->lived >= first ? rule->best : 0;
}

void xt_others_begin(struct xt_others *others, int threads, int most, double every)
{
    *others = (struct xt_others){.rule = {.threads = threads, .most = most},
                                 .every = most > 1 ? every : 0};
    if (others->every > 0 && !xt_others_read(&others->last))
        others->every = 0;
}

int xt_others_look(struct xt_others *others, double now)
{
    struct xt_others_reading reading;
    if (others->every <= 0 || now - others->last.time < others->every || !xt_others_read(&reading))
        return 0;
    const double usual = 10; /* the rule's times are for looks so far apart */
    double found = xt_others_between(&others->last, &reading, others->rule.most);
    double seconds = (reading.time - others->last.time) * usual / others->every;
    others->last = reading;
    return xt_others_judge(&others->rule, found, seconds);
}
