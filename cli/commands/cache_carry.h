/* Kernels from one machine to another, as a .tar.gz of kernels/KEY/FILE, each folder with its index
 * first. Both say on standard output what they did. Not thread-safe.
 */
#ifndef XT_CLI_COMMANDS_CACHE_CARRY_H
#define XT_CLI_COMMANDS_CACHE_CARRY_H

#include "base/err.h"
#include "cli/commands/cache_stores.h"
#include "cli/report.h"

/* Kernels that are as they were recorded, into the file `to`. */
enum xt_status xt_cache_export(const struct xt_cache_stores *stores, const char *to,
                               enum xt_report_form form, struct xt_err *err);
/* Takes what matches the archive's own index. XT_ERR_DATA where anything does not, which is
 * refused; what was taken before stays. */
enum xt_status xt_cache_import(const struct xt_cache_stores *stores, const char *from,
                               enum xt_report_form form, struct xt_err *err);

#endif
