/* Ownership checks for files whose contents are trusted (kernels are code): only this user and root
 * may have written them. Thread-safe.
 */
#pragma once

#include <sys/stat.h>

/* NULL if only this user and root can have written it, else the reason against it. */
const char *xt_trust_stranger(const struct stat *st);

/* openat for reading, without following links; the checks are on the open descriptor. NULL: *fd is
 * a regular file with one name that no other user can have written; else the reason, as a part of a
 * sentence. */
const char *xt_trust_open(int at, const char *name, int *fd, struct stat *st);
