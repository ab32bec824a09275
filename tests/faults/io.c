/* Preloaded into xtrain by test_data.sh: reading a file whose path holds $XTRAIN_UNREADABLE is an
 * input/output error, and after $XTRAIN_DISK_ROOM bytes of pwrite the disk is full. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic long written;

ssize_t read(int fd, void *bytes, size_t count)
{
    char link[64];
    char path[4096];
    const char *bad = getenv("XTRAIN_UNREADABLE");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = bad ? readlink(link, path, sizeof path - 1) : -1;
    path[length > 0 ? length : 0] = '\0';
    if (length > 0 && strstr(path, bad)) {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_read, fd, bytes, count);
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at)
{
    const char *room = getenv("XTRAIN_DISK_ROOM");
    if (room && atomic_fetch_add(&written, (long)count) + (long)count > atol(room)) {
        errno = ENOSPC;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, bytes, count, at);
}
