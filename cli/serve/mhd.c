#include "cli/serve/mhd.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define XT_MHD_NAME(name) {"MHD_" #name, offsetof(struct xt_mhd, name)},
    XT_MHD_FUNCTIONS(XT_MHD_NAME)
#undef XT_MHD_NAME
};

enum xt_status xt_mhd_load(struct xt_mhd *mhd, struct xt_err *err)
{
    static const char soname[] = "libmicrohttpd.so.12";
    mhd->library = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
    if (!mhd->library)
        return xt_err_set(err, XT_ERR_RUN,
                          "HTTP needs %s, which could not be loaded (%s): install libmicrohttpd12 "
                          "(Debian, Ubuntu) or libmicrohttpd (Fedora); --stdin does without it",
                          soname, dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *symbol = dlsym(mhd->library, functions[i].name);
        if (!symbol)
            return xt_err_set(err, XT_ERR_RUN, "%s has no function %s: it is too old", soname,
                              functions[i].name);
        memcpy((char *)mhd + functions[i].offset, &symbol, sizeof symbol);
    }
    return XT_OK;
}
