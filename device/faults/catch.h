/* Catching C++ exceptions, in a library of its own (libxtrain_guard.so): the program is C and needs
 * no C++ runtime, but oneDNN's GPU build is C++ and reports a driver's errors by exceptions. It is
 * loaded only with that build, which has the runtime. Stateless, thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Incremented with every change to what follows. */
enum { XT_CATCHER_VERSION = 1 };

/* A function of up to four arguments, each in a register. */
typedef int xt_caught_function(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d);

struct xt_catcher {
    int version;
    /* Calls the function. False: it returned, *result. True: it threw an exception; `said` gets its
     * message. */
    bool (*call)(xt_caught_function *function, const uintptr_t arguments[4], int *result,
                 char *said, size_t size);
    /* The handler of an uncaught exception; it does not return. */
    void (*on_terminate)(void (*handler)(void));
};

/* The library's one symbol. */
#define XT_CATCHER_SYMBOL "xt_catcher"
