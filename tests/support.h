/* What the tests share: cmocka with the headers it wants, the shared test data, and a folder to
 * write in.
 *
 * Shared data (real plates, golden numbers) lie outside the repository, at $XTRAIN_SHARED or
 * ../shared; tests that need them are skipped where they are missing.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"

/* The path of `name` under the shared data, valid until the next call; skips the running test where
 * it is missing. */
const char *support_shared(const char *name);

/* Ends the running test as skipped and says why. */
_Noreturn void support_skip(const char *reason);

/* Skips the running test where the CPU has no instructions for bf16; with AVX-512 alone it computes
 * in it, but slowly. */
void support_need_bf16(void);

/* The same where it does not compute in bf16 at all. */
void support_need_any_bf16(void);

/* For cmocka_unit_test_setup_teardown: *state is the path of a new, empty folder; removed with all
 * that is in it. */
int support_make_folder(void **state);
int support_remove_folder(void **state);

/* "folder/name", valid until the eighth call after this one. */
const char *support_path(const char *folder, const char *name);

/* Writes a file as it is, with no care for half-written ones. */
void support_write_file(const char *path, const void *bytes, size_t count);

/* Reads a whole file, a zero behind its bytes; release it with free. */
uint8_t *support_read_file(const char *path, size_t *size);

/* Asserts that the call failed with this status and that its sentence holds `part`. */
void support_assert_error(const struct xt_err *err, enum xt_status status, const char *part);
