/* Reads a pickle (Python's object stream, protocols 2 to 5) and executes nothing: a call in the
 * stream is stored as a record of the name and its arguments, and a name outside the caller's short
 * list is refused. Opcodes: Lib/pickletools.py.
 *
 * Values live until xt_pickle_clear and point into the bytes that were read. Values may be shared
 * and may contain themselves: walk them to a fixed depth only. Memory is bounded by a multiple of
 * the stream's size. Errors leave the file's name to the caller.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"

enum xt_pickle_role {
    XT_PICKLE_ROLE_DICT,      /* a call creates a dictionary */
    XT_PICKLE_ROLE_TENSOR,    /* torch._utils._rebuild_tensor_v2 and its predecessor */
    XT_PICKLE_ROLE_PARAMETER, /* torch._utils._rebuild_parameter */
    XT_PICKLE_ROLE_STORAGE,   /* a storage type, of `dtype` */
    XT_PICKLE_ROLE_OTHER,     /* harmless, and ignored */
};

struct xt_pickle_global {
    const char *module;
    const char *name;
    enum xt_pickle_role role;
    enum xt_dtype dtype;
};

enum xt_pickle_kind {
    XT_PICKLE_NONE,
    XT_PICKLE_BOOL,
    XT_PICKLE_INT,
    XT_PICKLE_LONG, /* wider than 64 bits: the little-endian bytes are in `text` */
    XT_PICKLE_FLOAT,
    XT_PICKLE_TEXT,
    XT_PICKLE_BYTES,
    XT_PICKLE_LIST,
    XT_PICKLE_TUPLE,
    XT_PICKLE_SET,
    XT_PICKLE_DICT, /* items: key, value, key, value... as written, repeated keys included */
    XT_PICKLE_GLOBAL,
    XT_PICKLE_CALL,
    XT_PICKLE_PERSISTENT, /* a reference to something outside the stream: by `id` */
};

struct xt_pickle_value {
    enum xt_pickle_kind kind;
    union {
        int64_t integer; /* BOOL, INT */
        double number;
        struct {
            const uint8_t *bytes;
            size_t length;
        } text; /* TEXT, BYTES, LONG */
        struct {
            struct xt_pickle_value **items;
            size_t count;
            size_t capacity;
        } list; /* LIST, TUPLE, SET, DICT */
        const struct xt_pickle_global *global;
        struct {
            const struct xt_pickle_global *global;
            struct xt_pickle_value *args;        /* a TUPLE */
            const struct xt_pickle_value *state; /* set afterwards, or NULL */
        } call;
        struct xt_pickle_value *id;
    };
};

struct xt_pickle_block;

/* What a kind of file may hold. */
struct xt_pickle_rules {
    const struct xt_pickle_global *globals; /* the names that may be called */
    size_t global_count;
    size_t bytes_max;    /* a stream of this length was cut by its reader */
    const char *content; /* "weights", for messages */
    const char *remedy;  /* what to do with a file that holds other names */
};

/* The values of one or more streams. A zeroed struct with rules is empty. */
struct xt_pickle {
    const struct xt_pickle_rules *rules;
    struct xt_pickle_block *blocks;
    struct xt_pickle_value **persistent; /* every PERSISTENT value, in order */
    size_t persistent_count;
};

/* Reads the stream that begins at `bytes + *at` and moves *at past it. *root is its value. */
enum xt_status xt_pickle_read(struct xt_pickle *pickle, const uint8_t *bytes, size_t size,
                              size_t *at, const struct xt_pickle_value **root, struct xt_err *err);
void xt_pickle_clear(struct xt_pickle *pickle);

bool xt_pickle_is_text(const struct xt_pickle_value *value, const char *text);
/* "a list", for messages. */
const char *xt_pickle_kind_name(enum xt_pickle_kind kind);
