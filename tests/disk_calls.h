/* For the one file of a test that includes it: notes each call that makes what was written outlast
 * a power cut, and does it. The functions stand before libc's, since the tests link all else
 * statically. */
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* "sync NAME" or "rename NAME", each with a newline: the last parts of their paths. */
static char disk_calls[1 << 14];

static void note_disk_call(const char *what, const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t length = strlen(disk_calls);
    snprintf(disk_calls + length, sizeof disk_calls - length, "%s %s\n", what,
             slash ? slash + 1 : path);
}

static void note_sync(int fd)
{
    char link[64];
    char path[PATH_MAX] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0)
        note_disk_call("sync", path);
}

int fsync(int fd)
{
    note_sync(fd);
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    note_sync(fd);
    return (int)syscall(SYS_fdatasync, fd);
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    note_disk_call("rename", to);
    return (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, 0);
}
