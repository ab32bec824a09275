#include "base/system/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

const char *xt_trust_stranger(const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return "it belongs to another user";
    if (st->st_mode & (S_IWGRP | S_IWOTH))
        return "others can write it";
    return NULL;
}

const char *xt_trust_open(int at, const char *name, int *fd, struct stat *st)
{
    const char *why = NULL;
    *fd = openat(at, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (*fd < 0)
        return errno == ELOOP ? "it is a symbolic link" : "it cannot be read";
    if (fstat(*fd, st))
        why = "it cannot be read";
    else if (!S_ISREG(st->st_mode))
        why = "it is not a file";
    else if (st->st_nlink != 1)
        why = "it has another name elsewhere";
    else
        why = xt_trust_stranger(st);
    if (why)
        close(*fd);
    return why;
}
