/* Runs what a test looks at with the test double of a Level Zero driver, in a process of its own,
 * because a process starts its drivers once. */
#pragma once

#include "support.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/system/process.h"

/* `look` gets `what`, the driver's part, as its argument. The driver lies beside this program. */
static inline void ze_play(void (*look)(const void *argument, void *result), const char *what,
                           void *seen, size_t size)
{
    char *folder = NULL;
    char *path = NULL;
    struct xt_err err = {0};
    assert_int_equal(xt_file_program_folder(&folder, NULL), XT_OK);
    assert_int_equal(xt_file_join(&path, folder, "ze_driver.so", NULL), XT_OK);
    bool there = xt_file_exists(path);
    setenv("ZE_ENABLE_ALT_DRIVERS", path, 1);
    free(path);
    free(folder);
    if (!there)
        support_skip("ze_driver.so is not built: run \"make xpu-doubles\"");
    const struct xt_process process = {.work = look, .argument = what, .seconds = 60};
    if (xt_process_run(&process, seen, size, NULL, &err))
        fail_msg("%s", err.text);
}
