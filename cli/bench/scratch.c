#include "cli/bench/scratch.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

enum xt_status xt_scratch_make(struct xt_scratch *scratch, const char *purpose, struct xt_err *err)
{
    const char *parent = getenv("TMPDIR");
    if (!parent || !*parent || strlen(parent) >= sizeof scratch->folder / 2)
        parent = "/tmp";
    snprintf(scratch->folder, sizeof scratch->folder, "%s/xtrain-bench-XXXXXX", parent);
    if (mkdtemp(scratch->folder))
        return XT_OK;
    scratch->folder[0] = '\0';
    return xt_err_system(err, XT_ERR_RUN, "cannot create a folder for %s in %s", purpose, parent);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)kind;
    (void)place;
    return remove(path);
}

void xt_scratch_remove(const struct xt_scratch *scratch)
{
    enum { OPEN_MOST = 8 };
    if (*scratch->folder && nftw(scratch->folder, remove_entry, OPEN_MOST, FTW_DEPTH | FTW_PHYS))
        xt_log_warn("%s could not be removed: %s", scratch->folder, strerror(errno));
}
