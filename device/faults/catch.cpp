#include "device/faults/catch.h"

#include <cstdio>
#include <cxxabi.h>
#include <exception>

static bool call(xt_caught_function *function, const uintptr_t arguments[4], int *result,
                 char *said, size_t size)
{
    try {
        *result = function(arguments[0], arguments[1], arguments[2], arguments[3]);
        return false;
    } catch (const std::exception &exception) {
        std::snprintf(said, size, "%s", exception.what());
    } catch (const abi::__forced_unwind &) { /* the end of a thread */
        throw;
    } catch (...) {
        std::snprintf(said, size, "an error that it does not name");
    }
    return true;
}

static void on_terminate(void (*handler)())
{
    std::set_terminate(handler);
}

extern "C" {
extern const struct xt_catcher xt_catcher __attribute__((visibility("default")));
const struct xt_catcher xt_catcher = {XT_CATCHER_VERSION, call, on_terminate};
}
