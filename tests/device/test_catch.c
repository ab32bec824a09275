/* The library that catches what C++ throws, with a function of the C++ runtime's that throws. */
#include "device/faults/catch.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support.h"

static const struct xt_catcher *load(void)
{
    char *folder = NULL;
    char *path = NULL;
    assert_int_equal(xt_file_program_folder(&folder, NULL), XT_OK);
    assert_int_equal(xt_file_join(&path, folder, "../../libxtrain_guard.so", NULL), XT_OK);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    free(path);
    free(folder);
    const struct xt_catcher *catcher = dlsym(library, XT_CATCHER_SYMBOL);
    assert_non_null(catcher);
    assert_int_equal(catcher->version, XT_CATCHER_VERSION);
    return catcher;
}

static int sum(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d)
{
    return (int)(1000 * a + 100 * b + 10 * c + d);
}

static void a_function_that_returns_gets_its_arguments(void **state)
{
    (void)state;
    int result = 0;
    char said[32] = "as before";
    assert_false(load()->call(sum, (const uintptr_t[]){1, 2, 3, 4}, &result, said, sizeof said));
    assert_int_equal(result, 1234);
    assert_string_equal(said, "as before");
}

/* std::__throw_runtime_error(const char *) */
static void what_is_thrown_becomes_its_text_as_far_as_there_is_room(void **state)
{
    (void)state;
    static const char text[] = "UR_RESULT_ERROR_OUT_OF_RESOURCES";
    xt_caught_function *throws = NULL;
    int result = 7;
    char said[256] = "";
#ifdef __SANITIZE_ADDRESS__
    support_skip("the address sanitizer does not know a C++ runtime that is loaded at run time");
#endif
    void *runtime = dlopen("libstdc++.so.6", RTLD_NOW);
    void *symbol = runtime ? dlsym(runtime, "_ZSt21__throw_runtime_errorPKc") : NULL;
    assert_non_null(symbol);
    memcpy(&throws, &symbol, sizeof throws);
    const uintptr_t arguments[4] = {(uintptr_t)text};
    assert_true(load()->call(throws, arguments, &result, said, sizeof said));
    assert_string_equal(said, text);
    assert_int_equal(result, 7);
    assert_true(load()->call(throws, arguments, &result, said, 10));
    assert_string_equal(said, "UR_RESULT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_function_that_returns_gets_its_arguments),
        cmocka_unit_test(what_is_thrown_becomes_its_text_as_far_as_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
