/* Catching what C++ throws, in a library of its own (libxtrain_guard.so): the program is C and
 * needs no C++ runtime, but oneDNN's GPU build, which is C++, says a driver's error by an
 * exception. It is loaded with that build, which brings the runtime, and by nothing else.
 * Stateless, thread-safe.
 */
#ifndef XT_DEVICE_FAULTS_CATCH_H
#define XT_DEVICE_FAULTS_CATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Goes up with every change to what follows. */
enum { XT_CATCHER_VERSION = 1 };

/* A function of up to four arguments, each of which a register holds. */
typedef int xt_caught_function(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d);

struct xt_catcher {
    int version;
    /* Calls the function. False: it returned, *result. True: an exception came out of it; `said`
     * gets what that says. */
    bool (*call)(xt_caught_function *function, const uintptr_t arguments[4], int *result,
                 char *said, size_t size);
    /* What is called for an exception that nobody catches; it does not return. */
    void (*on_terminate)(void (*handler)(void));
};

/* The library's one symbol. */
#define XT_CATCHER_SYMBOL "xt_catcher"

#endif
