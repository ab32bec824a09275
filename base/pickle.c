#include "base/pickle.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

enum {
    BLOCK_VALUES = 256,
    VALUES_MAX = 1 << 20, /* a ResNet-50 with optimizer state takes about twenty thousand, CIFAR-100
                             a hundred and fifty thousand */
    STACK_MAX = 1 << 20,
    MARKED = -1,
};

struct machine;
/* What the byte of an opcode means; `number` is the width of its operand in bytes, how many values
 * it takes from the stack (MARKED: those above the last mark), or the value itself. */
struct opcode {
    enum xt_status (*run)(struct machine *m);
    enum xt_pickle_kind kind;
    int number;
    size_t needs; /* values on the stack, before it runs */
};

struct xt_pickle_block {
    struct xt_pickle_block *next;
    size_t count;
    struct xt_pickle_value values[BLOCK_VALUES];
};

/* The state of one stream. Bytes are read by `take`, which checks bounds; `left` counts the
 * references that containers may still hold, so that a short stream cannot allocate much. */
struct machine {
    struct xt_pickle *pickle;
    const uint8_t *bytes;
    size_t size;
    size_t at;
    size_t opcode_at;
    struct opcode opcode;
    size_t values;
    size_t left;
    struct xt_pickle_value **stack;
    size_t depth;
    size_t stack_capacity;
    size_t *marks;
    size_t mark_count;
    size_t mark_capacity;
    struct xt_pickle_value **memo;
    size_t memo_capacity;
    size_t memo_count;
    bool stopped;
    struct xt_err *err;
};

static enum xt_status damaged(struct machine *m, const char *why)
{
    return xt_err_set(m->err, XT_ERR_DATA, "its pickle is damaged at byte %zu: %s", m->opcode_at,
                      why);
}

static enum xt_status take(struct machine *m, uint64_t count, const uint8_t **out)
{
    const size_t most = m->pickle->rules->bytes_max;
    if (count > m->size - m->at && m->size == most)
        return xt_err_set(m->err, XT_ERR_DATA,
                          "its pickle is longer than the %zu bytes that are read", most);
    if (count > m->size - m->at)
        return xt_err_set(m->err, XT_ERR_DATA,
                          "its pickle ends early at byte %zu: the file was cut short or damaged, "
                          "fetch or save it again",
                          m->opcode_at);
    *out = m->bytes + m->at;
    m->at += (size_t)count;
    return XT_OK;
}

/* The opcode's little-endian operand. */
static enum xt_status take_number(struct machine *m, uint64_t *out)
{
    const uint8_t *from = NULL;
    const size_t width = (size_t)m->opcode.number;
    enum xt_status status = take(m, width, &from);
    *out = 0;
    for (size_t i = 0; !status && i < width; i++)
        *out |= (uint64_t)from[i] << (8 * i);
    return status;
}

static enum xt_status take_line(struct machine *m, const uint8_t **out, size_t *length)
{
    const uint8_t *end = memchr(m->bytes + m->at, '\n', m->size - m->at);
    if (!end)
        return take(m, UINT64_MAX, out);
    *length = (size_t)(end - (m->bytes + m->at));
    enum xt_status status = take(m, *length, out);
    m->at++;
    return status;
}

static enum xt_status make(struct machine *m, enum xt_pickle_kind kind,
                           struct xt_pickle_value **out)
{
    if (m->values++ == VALUES_MAX)
        return damaged(m, "it holds more than a million objects");
    struct xt_pickle_block *block = m->pickle->blocks;
    if (!block || block->count == BLOCK_VALUES) {
        enum xt_status status = xt_mem_calloc(&block, 1, sizeof *block, "a pickle", m->err);
        if (status)
            return status;
        block->next = m->pickle->blocks;
        m->pickle->blocks = block;
    }
    *out = &block->values[block->count++];
    (*out)->kind = kind;
    return XT_OK;
}

static enum xt_status push(struct machine *m, struct xt_pickle_value *value)
{
    if (m->depth == STACK_MAX)
        return damaged(m, "its stack grows beyond a million objects");
    enum xt_status status = xt_mem_grow(&m->stack, &m->stack_capacity, m->depth + 1,
                                        sizeof *m->stack, "a pickle", m->err);
    if (!status)
        m->stack[m->depth++] = value;
    return status;
}

static enum xt_status push_new(struct machine *m, enum xt_pickle_kind kind,
                               struct xt_pickle_value **out)
{
    enum xt_status status = make(m, kind, out);
    return status ? status : push(m, *out);
}

/* The number of values above the last mark, which may be popped. */
static size_t available(const struct machine *m)
{
    return m->depth - (m->mark_count ? m->marks[m->mark_count - 1] : 0);
}

static enum xt_status need(struct machine *m, size_t count)
{
    return available(m) >= count ? XT_OK : damaged(m, "a value is missing on its stack");
}

static struct xt_pickle_value *top(struct machine *m)
{
    return m->stack[m->depth - 1];
}

static enum xt_status pop_mark(struct machine *m, size_t *count)
{
    if (m->mark_count == 0)
        return damaged(m, "a mark is missing on its stack");
    m->mark_count--;
    *count = m->depth - m->marks[m->mark_count];
    m->depth = m->marks[m->mark_count];
    return XT_OK;
}

/* Pops the values that the opcode takes; they stay at `popped` until the next push. */
static enum xt_status pop_values(struct machine *m, size_t *count)
{
    if (m->opcode.number == MARKED)
        return pop_mark(m, count);
    *count = (size_t)m->opcode.number;
    enum xt_status status = need(m, *count);
    if (!status)
        m->depth -= *count;
    return status;
}

static struct xt_pickle_value **popped(const struct machine *m)
{
    return m->stack ? m->stack + m->depth : NULL;
}

static enum xt_status append(struct machine *m, struct xt_pickle_value *to,
                             struct xt_pickle_value *const *items, size_t count)
{
    if (count > m->left)
        return damaged(m, "its containers hold more than the stream can fill");
    m->left -= count;
    if (count == 0 || !items)
        return XT_OK;
    enum xt_status status = xt_mem_grow(&to->list.items, &to->list.capacity, to->list.count + count,
                                        sizeof *to->list.items, "a pickle", m->err);
    if (status)
        return status;
    memcpy(to->list.items + to->list.count, items, count * sizeof *items);
    to->list.count += count;
    return XT_OK;
}

/* Pops values and pushes a container of them. */
static enum xt_status collect(struct machine *m)
{
    size_t count = 0;
    struct xt_pickle_value *made = NULL;
    enum xt_status status = pop_values(m, &count);
    if (!status)
        status = make(m, m->opcode.kind, &made);
    if (!status && made->kind == XT_PICKLE_DICT && count % 2)
        status = damaged(m, "a dictionary's key has no value");
    if (!status)
        status = append(m, made, popped(m), count);
    return status ? status : push(m, made);
}

/* Adds values to the container that lies below them on the stack. */
static enum xt_status extend(struct machine *m)
{
    size_t count = 0;
    enum xt_status status = pop_values(m, &count);
    if (!status)
        status = need(m, 1);
    if (status)
        return status;
    if (top(m)->kind != m->opcode.kind)
        return damaged(m, "items are added to an object that is not a container");
    if (top(m)->kind == XT_PICKLE_DICT && count % 2)
        return damaged(m, "a dictionary's key has no value");
    return append(m, top(m), popped(m), count);
}

static enum xt_status push_int(struct machine *m, enum xt_pickle_kind kind, int64_t integer)
{
    struct xt_pickle_value *value = NULL;
    enum xt_status status = push_new(m, kind, &value);
    if (!status)
        value->integer = integer;
    return status;
}

static enum xt_status push_constant(struct machine *m)
{
    return push_int(m, m->opcode.kind, m->opcode.number);
}

static enum xt_status read_int(struct machine *m)
{
    uint64_t bits = 0;
    enum xt_status status = take_number(m, &bits);
    /* The one- and two-byte forms are unsigned, the four-byte form is not. */
    int64_t value = m->opcode.number == 4 ? (int32_t)(uint32_t)bits : (int64_t)bits;
    return status ? status : push_int(m, XT_PICKLE_INT, value);
}

/* Texts, byte strings and wide integers: a length, then the content. */
static enum xt_status read_text(struct machine *m)
{
    uint64_t length = 0;
    const uint8_t *bytes = NULL;
    struct xt_pickle_value *value = NULL;
    enum xt_status status = take_number(m, &length);
    if (!status)
        status = take(m, length, &bytes);
    if (!status)
        status = push_new(m, m->opcode.kind, &value);
    if (status)
        return status;
    value->text.bytes = bytes;
    value->text.length = (size_t)length;
    return XT_OK;
}

static enum xt_status read_long(struct machine *m)
{
    enum xt_status status = read_text(m);
    if (status || top(m)->text.length > 8)
        return status;
    struct xt_pickle_value *value = top(m);
    const uint8_t *bytes = value->text.bytes;
    size_t length = value->text.length;
    uint64_t bits = length && bytes[length - 1] & 0x80 ? UINT64_MAX : 0;
    for (size_t i = length; i-- > 0;)
        bits = bits << 8 | bytes[i];
    value->kind = XT_PICKLE_INT;
    value->integer = (int64_t)bits;
    return XT_OK;
}

static enum xt_status read_float(struct machine *m)
{
    const uint8_t *bytes = NULL;
    struct xt_pickle_value *value = NULL;
    enum xt_status status = take(m, 8, &bytes);
    if (!status)
        status = push_new(m, XT_PICKLE_FLOAT, &value);
    if (status)
        return status;
    uint64_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    memcpy(&value->number, &bits, sizeof bits);
    return XT_OK;
}

static enum xt_status put_memo(struct machine *m, uint64_t index)
{
    enum xt_status status = need(m, 1);
    if (status)
        return status;
    /* Picklers number memo entries consecutively. */
    if (index >= m->size)
        return damaged(m, "it numbers an object beyond its own length");
    size_t old = m->memo_capacity;
    status = xt_mem_grow(&m->memo, &m->memo_capacity, (size_t)index + 1, sizeof *m->memo,
                         "a pickle", m->err);
    if (status)
        return status;
    if (m->memo_capacity > old)
        memset(m->memo + old, 0, (m->memo_capacity - old) * sizeof *m->memo);
    m->memo[index] = top(m);
    m->memo_count++;
    return XT_OK;
}

static enum xt_status read_memo_put(struct machine *m)
{
    uint64_t index = 0;
    enum xt_status status = take_number(m, &index);
    return status ? status : put_memo(m, index);
}

static enum xt_status memoize(struct machine *m)
{
    return put_memo(m, m->memo_count);
}

static enum xt_status read_memo_get(struct machine *m)
{
    uint64_t index = 0;
    enum xt_status status = take_number(m, &index);
    if (status)
        return status;
    if (index >= m->memo_capacity || !m->memo[index])
        return damaged(m, "it refers to an object that it has not made");
    return push(m, m->memo[index]);
}

static bool is_word(const uint8_t *bytes, size_t length, const char *word)
{
    return strlen(word) == length && !memcmp(bytes, word, length);
}

static enum xt_status refuse(struct machine *m, const uint8_t *module, size_t module_length,
                             const uint8_t *name, size_t name_length)
{
    return xt_err_set(m->err, XT_ERR_DATA,
                      "it wants to call %s.%s, which %s do not need, and nothing of it was run "
                      "(byte %zu of its pickle); %s",
                      xt_str_quote((const char *)module, module_length).text,
                      xt_str_quote((const char *)name, name_length).text, m->pickle->rules->content,
                      m->opcode_at, m->pickle->rules->remedy);
}

static enum xt_status push_global(struct machine *m, const uint8_t *module, size_t module_length,
                                  const uint8_t *name, size_t name_length)
{
    const struct xt_pickle_global *globals = m->pickle->rules->globals;
    for (size_t i = 0; i < m->pickle->rules->global_count; i++) {
        if (!is_word(module, module_length, globals[i].module) ||
            !is_word(name, name_length, globals[i].name))
            continue;
        struct xt_pickle_value *value = NULL;
        enum xt_status status = push_new(m, XT_PICKLE_GLOBAL, &value);
        if (!status)
            value->global = &globals[i];
        return status;
    }
    return refuse(m, module, module_length, name, name_length);
}

static enum xt_status read_global(struct machine *m)
{
    const uint8_t *module = NULL;
    const uint8_t *name = NULL;
    size_t module_length = 0;
    size_t name_length = 0;
    enum xt_status status = take_line(m, &module, &module_length);
    if (!status)
        status = take_line(m, &name, &name_length);
    return status ? status : push_global(m, module, module_length, name, name_length);
}

/* INST names a class like GLOBAL and calls it at once: protocol 0, and an attack vector. */
static enum xt_status read_inst(struct machine *m)
{
    enum xt_status status = read_global(m);
    return status ? status
                  : damaged(m, "it uses the call of protocol 0, which torch.save does not");
}

static enum xt_status stack_global(struct machine *m)
{
    m->depth -= 2;
    const struct xt_pickle_value *module = m->stack[m->depth];
    const struct xt_pickle_value *name = m->stack[m->depth + 1];
    if (module->kind != XT_PICKLE_TEXT || name->kind != XT_PICKLE_TEXT)
        return damaged(m, "a name is not a text");
    return push_global(m, module->text.bytes, module->text.length, name->text.bytes,
                       name->text.length);
}

/* OrderedDict(), or OrderedDict([[key, value], ...]) as Python 2 writes it. */
static enum xt_status call_dict(struct machine *m, const struct xt_pickle_value *args)
{
    struct xt_pickle_value *dict = NULL;
    enum xt_status status = push_new(m, XT_PICKLE_DICT, &dict);
    if (status || args->list.count == 0)
        return status;
    const struct xt_pickle_value *pairs = args->list.items[0];
    if (pairs->kind != XT_PICKLE_LIST)
        return damaged(m, "a dictionary has items that are not pairs");
    for (size_t i = 0; i < pairs->list.count && !status; i++) {
        const struct xt_pickle_value *pair = pairs->list.items[i];
        if ((pair->kind != XT_PICKLE_LIST && pair->kind != XT_PICKLE_TUPLE) ||
            pair->list.count != 2)
            return damaged(m, "a dictionary has items that are not pairs");
        status = append(m, dict, pair->list.items, 2);
    }
    return status;
}

static enum xt_status reduce(struct machine *m)
{
    m->depth -= 2;
    const struct xt_pickle_value *function = m->stack[m->depth];
    struct xt_pickle_value *args = m->stack[m->depth + 1];
    if (function->kind != XT_PICKLE_GLOBAL || args->kind != XT_PICKLE_TUPLE)
        return damaged(m, "it calls something that is not a name, or without a tuple");
    if (function->global->role == XT_PICKLE_ROLE_DICT)
        return call_dict(m, args);
    struct xt_pickle_value *call = NULL;
    enum xt_status status = push_new(m, XT_PICKLE_CALL, &call);
    if (status)
        return status;
    call->call.global = function->global;
    call->call.args = args;
    return XT_OK;
}

/* State beside an object's content. A dictionary's (a state_dict's _metadata) is ignored. */
static enum xt_status build(struct machine *m)
{
    const struct xt_pickle_value *state = top(m);
    m->depth--;
    if (top(m)->kind != XT_PICKLE_DICT && top(m)->kind != XT_PICKLE_CALL)
        return damaged(m, "it sets the state of something that has none");
    if (top(m)->kind == XT_PICKLE_CALL)
        top(m)->call.state = state;
    return XT_OK;
}

static enum xt_status persistent(struct machine *m)
{
    struct xt_pickle *pickle = m->pickle;
    enum xt_status status = xt_mem_add(&pickle->persistent, pickle->persistent_count,
                                       sizeof *pickle->persistent, "a pickle", m->err);
    struct xt_pickle_value *value = NULL;
    if (!status)
        status = make(m, XT_PICKLE_PERSISTENT, &value);
    if (status)
        return status;
    value->id = top(m);
    m->stack[m->depth - 1] = value;
    pickle->persistent[pickle->persistent_count++] = value;
    return XT_OK;
}

static enum xt_status mark(struct machine *m)
{
    if (m->mark_count == STACK_MAX)
        return damaged(m, "its stack grows beyond a million objects");
    enum xt_status status = xt_mem_grow(&m->marks, &m->mark_capacity, m->mark_count + 1,
                                        sizeof *m->marks, "a pickle", m->err);
    if (!status)
        m->marks[m->mark_count++] = m->depth;
    return status;
}

static enum xt_status pop(struct machine *m)
{
    if (m->mark_count && m->marks[m->mark_count - 1] == m->depth) {
        m->mark_count--;
        return XT_OK;
    }
    enum xt_status status = need(m, 1);
    if (!status)
        m->depth--;
    return status;
}

static enum xt_status drop_marked(struct machine *m)
{
    size_t count = 0;
    return pop_mark(m, &count);
}

static enum xt_status duplicate(struct machine *m)
{
    return push(m, top(m));
}

static enum xt_status read_protocol(struct machine *m)
{
    uint64_t version = 0;
    enum xt_status status = take_number(m, &version);
    if (!status && (version < 2 || version > 5))
        status = damaged(m, "its protocol is not one of 2 to 5");
    return status;
}

/* A frame only groups opcodes for faster reading; its length is checked. */
static enum xt_status read_frame(struct machine *m)
{
    uint64_t length = 0;
    const uint8_t *frame = NULL;
    enum xt_status status = take_number(m, &length);
    if (!status)
        status = take(m, length, &frame);
    if (!status)
        m->at = (size_t)(frame - m->bytes);
    return status;
}

static enum xt_status stop(struct machine *m)
{
    m->stopped = true;
    return XT_OK;
}

static enum xt_status unknown(struct machine *m)
{
    return xt_err_set(
        m->err, XT_ERR_DATA, "its pickle uses opcode 0x%02x at byte %zu, which %s do not need; %s",
        m->bytes[m->opcode_at], m->opcode_at, m->pickle->rules->content, m->pickle->rules->remedy);
}

/* By the opcode's byte; what is not here is unknown. 'U' is a Python 2 str, which holds names as
 * often as bytes. */
static const struct opcode opcodes[256] = {
    [0x80] = {read_protocol, .number = 1},
    [0x95] = {read_frame, .number = 8},
    ['.'] = {stop, .needs = 1},
    ['('] = {mark},
    ['0'] = {pop},
    ['1'] = {drop_marked},
    ['2'] = {duplicate, .needs = 1},
    ['N'] = {push_constant, XT_PICKLE_NONE, 0},
    [0x88] = {push_constant, XT_PICKLE_BOOL, 1},
    [0x89] = {push_constant, XT_PICKLE_BOOL, 0},
    ['K'] = {read_int, XT_PICKLE_INT, 1},
    ['M'] = {read_int, XT_PICKLE_INT, 2},
    ['J'] = {read_int, XT_PICKLE_INT, 4},
    [0x8a] = {read_long, XT_PICKLE_LONG, 1},
    [0x8b] = {read_long, XT_PICKLE_LONG, 4},
    ['G'] = {read_float},
    ['U'] = {read_text, XT_PICKLE_TEXT, 1},
    [0x8c] = {read_text, XT_PICKLE_TEXT, 1},
    ['T'] = {read_text, XT_PICKLE_TEXT, 4},
    ['X'] = {read_text, XT_PICKLE_TEXT, 4},
    [0x8d] = {read_text, XT_PICKLE_TEXT, 8},
    ['C'] = {read_text, XT_PICKLE_BYTES, 1},
    ['B'] = {read_text, XT_PICKLE_BYTES, 4},
    [0x8e] = {read_text, XT_PICKLE_BYTES, 8},
    [']'] = {collect, XT_PICKLE_LIST, 0},
    ['l'] = {collect, XT_PICKLE_LIST, MARKED},
    ['a'] = {extend, XT_PICKLE_LIST, 1},
    ['e'] = {extend, XT_PICKLE_LIST, MARKED},
    [')'] = {collect, XT_PICKLE_TUPLE, 0},
    ['t'] = {collect, XT_PICKLE_TUPLE, MARKED},
    [0x85] = {collect, XT_PICKLE_TUPLE, 1},
    [0x86] = {collect, XT_PICKLE_TUPLE, 2},
    [0x87] = {collect, XT_PICKLE_TUPLE, 3},
    ['}'] = {collect, XT_PICKLE_DICT, 0},
    ['d'] = {collect, XT_PICKLE_DICT, MARKED},
    ['s'] = {extend, XT_PICKLE_DICT, 2},
    ['u'] = {extend, XT_PICKLE_DICT, MARKED},
    [0x8f] = {collect, XT_PICKLE_SET, 0},
    [0x90] = {extend, XT_PICKLE_SET, MARKED},
    [0x91] = {collect, XT_PICKLE_SET, MARKED},
    ['q'] = {read_memo_put, .number = 1},
    ['r'] = {read_memo_put, .number = 4},
    [0x94] = {memoize},
    ['h'] = {read_memo_get, .number = 1},
    ['j'] = {read_memo_get, .number = 4},
    ['c'] = {read_global},
    ['i'] = {read_inst},
    [0x93] = {stack_global, .needs = 2},
    ['R'] = {reduce, .needs = 2},
    ['b'] = {build, .needs = 2},
    ['Q'] = {persistent, .needs = 1},
};

enum xt_status xt_pickle_read(struct xt_pickle *pickle, const uint8_t *bytes, size_t size,
                              size_t *at, const struct xt_pickle_value **root, struct xt_err *err)
{
    struct machine m = {.pickle = pickle, .bytes = bytes, .size = size, .at = *at, .err = err};
    m.left = 2 * (size - *at);
    enum xt_status status = XT_OK;
    while (!status && !m.stopped) {
        const uint8_t *opcode = NULL;
        m.opcode_at = m.at;
        status = take(&m, 1, &opcode);
        if (status)
            break;
        m.opcode = opcodes[*opcode];
        status = need(&m, m.opcode.needs);
        if (!status)
            status = m.opcode.run ? m.opcode.run(&m) : unknown(&m);
    }
    if (!status) {
        *root = top(&m);
        *at = m.at;
    }
    free(m.stack);
    free(m.marks);
    free(m.memo);
    return status;
}

static void free_items(struct xt_pickle_value *value)
{
    if (value->kind >= XT_PICKLE_LIST && value->kind <= XT_PICKLE_DICT)
        free(value->list.items);
}

void xt_pickle_clear(struct xt_pickle *pickle)
{
    while (pickle->blocks) {
        struct xt_pickle_block *block = pickle->blocks;
        pickle->blocks = block->next;
        for (size_t i = 0; i < block->count; i++)
            free_items(&block->values[i]);
        free(block);
    }
    free(pickle->persistent);
    *pickle = (struct xt_pickle){.rules = pickle->rules};
}

bool xt_pickle_is_text(const struct xt_pickle_value *value, const char *text)
{
    return value->kind == XT_PICKLE_TEXT && is_word(value->text.bytes, value->text.length, text);
}

const char *xt_pickle_kind_name(enum xt_pickle_kind kind)
{
    static const char *const names[] = {
        [XT_PICKLE_NONE] = "None",           [XT_PICKLE_BOOL] = "a truth value",
        [XT_PICKLE_INT] = "a number",        [XT_PICKLE_LONG] = "a number",
        [XT_PICKLE_FLOAT] = "a number",      [XT_PICKLE_TEXT] = "a text",
        [XT_PICKLE_BYTES] = "a byte string", [XT_PICKLE_LIST] = "a list",
        [XT_PICKLE_TUPLE] = "a tuple",       [XT_PICKLE_SET] = "a set",
        [XT_PICKLE_DICT] = "a dictionary",
    };
    return kind <= XT_PICKLE_DICT ? names[kind] : "a single object";
}
