/* A program that starts itself again in its own place: with its options, its environment and its
 * process id, with options dropped and added. */
#include "base/system/reexec.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* The second start, which says how it was started. */
static int tell(int argc, char **argv)
{
    sigset_t held;
    sigprocmask(SIG_SETMASK, NULL, &held);
    printf("%ld", (long)getpid());
    for (int i = 1; i < argc; i++)
        printf(" %s", argv[i]);
    printf(" OWN=%s INHERITED=%s NOTE=%s held=%d", getenv("OWN"), getenv("INHERITED"),
           getenv("NOTE"), sigismember(&held, SIGTERM));
    fflush(stdout);
    return 0;
}

static int begin(void)
{
    static const char *const without[] = {"resume", "out", NULL};
    static const char *const with[] = {"--resume", "a folder", NULL};
    struct xt_reexec reexec;
    struct xt_err err;
    setenv("OWN", "set by the test", 1);
    if (xt_reexec_prepare(&reexec, without, with, "NOTE=1", &err))
        return 1;
    strcpy(reexec.variable, "NOTE=2");
    xt_reexec_start(&reexec);
    return 1;
}

/* What the second start of `line` says, after its process id, which is compared. */
static void starts(const char *const *line, const char *expected)
{
    int ends[2];
    char text[1024] = "";
    char wanted[1024];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        unsetenv("OWN");
        setenv("INHERITED", "yes", 1);
        setenv("NOTE", "0", 1);
        execv("/proc/self/exe", (char *const *)line);
        _exit(1);
    }
    close(ends[1]);
    FILE *said = fdopen(ends[0], "r");
    assert_non_null(said);
    assert_true(fread(text, 1, sizeof text - 1, said) > 0);
    fclose(said);
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    snprintf(wanted, sizeof wanted, "%ld %s OWN=(null) INHERITED=yes NOTE=2 held=1", (long)child,
             expected);
    assert_string_equal(text, wanted);
}

static void it_starts_with_the_options_that_are_kept(void **state)
{
    (void)state;
    starts((const char *[]){"begin", "train", "--resume", "x", "--batch", "1", "--out=y", "-q",
                            "--outer", NULL},
           "train --resume a folder --batch 1 -q --outer");
    starts((const char *[]){"begin", "--batch", "1", NULL}, "--resume a folder --batch 1");
    starts((const char *[]){"begin", "train", NULL}, "train --resume a folder");
    starts((const char *[]){"begin", NULL}, "--resume a folder");
}

int main(int argc, char **argv)
{
    if (strcmp(argv[0], "begin") == 0)
        return getenv("NOTE") && strcmp(getenv("NOTE"), "2") == 0 ? tell(argc, argv) : begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_starts_with_the_options_that_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
