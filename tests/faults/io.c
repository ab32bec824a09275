/* Preloaded into xtrain by test_data.sh and test_reads.sh: reading a file whose path holds
 * $XTRAIN_UNREADABLE is an input/output error, after $XTRAIN_DISK_ROOM bytes of pwrite the disk is
 * full, and how many bytes of which file were read goes into the file $XTRAIN_READS. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic long written;

static void note_reading(const char *path, long count)
{
    char line[4200];
    const char *list = getenv("XTRAIN_READS");
    int fd = list && count > 0 ? open(list, O_WRONLY | O_CREAT | O_APPEND, 0666) : -1;
    int length = snprintf(line, sizeof line, "%ld %s\n", count, path);
    if (fd >= 0 && syscall(SYS_write, fd, line, (size_t)length) < 0)
        abort();
    if (fd >= 0)
        close(fd);
}

/* Whether reading from `fd` may continue; `path` becomes its name. */
static int may_read(int fd, char path[4096])
{
    char link[64];
    const char *bad = getenv("XTRAIN_UNREADABLE");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, 4095);
    path[length > 0 ? length : 0] = '\0';
    if (!bad || !strstr(path, bad))
        return 1;
    errno = EIO;
    return 0;
}

ssize_t read(int fd, void *bytes, size_t count)
{
    char path[4096];
    long got = may_read(fd, path) ? syscall(SYS_read, fd, bytes, count) : -1;
    note_reading(path, got);
    return got;
}

ssize_t pread(int fd, void *bytes, size_t count, off_t at)
{
    char path[4096];
    long got = may_read(fd, path) ? syscall(SYS_pread64, fd, bytes, count, at) : -1;
    note_reading(path, got);
    return got;
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
