/* Transfers kernels between machines as a .tar.gz of kernels/KEY/FILE, each folder with its index
 * first. Both functions report on standard output. Not thread-safe. */
#pragma once

#include "base/err.h"
#include "cli/commands/cache_stores.h"

/* Writes the kernels that match their record to the file `to`. */
enum xt_status xt_cache_export(const struct xt_cache_stores *stores, const char *to,
                               struct xt_err *err);
/* Extracts what matches the archive's own index. XT_ERR_DATA at the first mismatch; files extracted
 * before it stay. */
enum xt_status xt_cache_import(const struct xt_cache_stores *stores, const char *from,
                               struct xt_err *err);
