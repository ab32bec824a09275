#include "support.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "device/device.h"
#include "device/dnnl.h"

/* Under the address sanitizer a size that cannot be had is an answer, as it is without. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1:detect_stack_use_after_return=1";
}

void support_skip(const char *reason)
{
    print_message("skipped: %s\n", reason);
    skip();
    abort();
}

/* Until oneDNN is loaded every CPU seems to have it. Where the GPU's build is loaded this one is
 * not: that says the same of the CPU. */
static void skip_without(bool (*has)(void))
{
    struct xt_err err = {0};
    xt_dnnl_load(XT_DNNL_CPU, &err);
    if (!has())
        support_skip("this CPU has no bf16");
}

void support_need_bf16(void)
{
    skip_without(xt_device_cpu_has_bf16);
}

void support_need_any_bf16(void)
{
    skip_without(xt_device_cpu_runs_bf16);
}

const char *support_shared(const char *name)
{
    static char path[PATH_MAX];
    const char *root = getenv("XTRAIN_SHARED");
    snprintf(path, sizeof path, "%s/%s", root ? root : "../shared", name);
    if (access(path, R_OK))
        support_skip("no shared data");
    return path;
}

int support_make_folder(void **state)
{
    const char *parent = getenv("TMPDIR");
    char *path = NULL;
    if (asprintf(&path, "%s/xtrain-test-XXXXXX", parent ? parent : "/tmp") < 0)
        return -1;
    *state = path;
    return mkdtemp(path) ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

int support_remove_folder(void **state)
{
    int failed = nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return failed;
}

const char *support_path(const char *folder, const char *name)
{
    static char paths[8][PATH_MAX];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void support_write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

uint8_t *support_read_file(const char *path, size_t *size)
{
    struct xt_bytes bytes;
    struct xt_err err;
    assert_int_equal(xt_file_load(path, 1 << 30, &bytes, &err), XT_OK);
    *size = bytes.size;
    return bytes.data;
}

void support_assert_error(const struct xt_err *err, enum xt_status status, const char *part)
{
    assert_int_equal(err->status, status);
    if (!strstr(err->text, part))
        fail_msg("\"%s\" does not hold \"%s\"", err->text, part);
}
