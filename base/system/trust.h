/* Whom a file may come from: where its contents are used as they are (kernels are code), only this
 * user and root may have written them. Thread-safe.
 */
#ifndef XT_BASE_SYSTEM_TRUST_H
#define XT_BASE_SYSTEM_TRUST_H

#include <sys/stat.h>

/* NULL where only this user and root can have written it, else what speaks against it. */
const char *xt_trust_stranger(const struct stat *st);

/* Opens `name` in the folder `at` (AT_FDCWD: as for open) for reading, without following a link,
 * and looks at it through the descriptor that is read. NULL: *fd is open on a file of one name that
 * no stranger can have written; else what is wrong with it, as a part of a sentence. */
const char *xt_trust_open(int at, const char *name, int *fd, struct stat *st);

#endif
