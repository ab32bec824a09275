/* Any bytes as a config file: read to the end or refused with a sentence. What is taken goes
 * through the option types, and what these take can be printed. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/config.h"
#include "cli/options/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_value(const struct xt_option *option, const char *text)
{
    union {
        double real;
        const char *text;
        unsigned char bytes[64];
    } value = {0};
    struct xt_err err = {0};
    struct xt_str first = {0};
    assert(option->type->size <= sizeof value);
    if (option->type->parse(option, "key", text, &value, &err)) {
        assert(*err.text && err.status == XT_ERR_USAGE);
        return;
    }
    assert(xt_option_print(option, &value, &first, &err) == XT_OK && first.length > 0);
    xt_str_clear(&first);
}

static enum xt_status take(void *context, const struct xt_config_entry *entry, struct xt_err *err)
{
    (void)context;
    (void)err;
    assert(entry->line > 0 && entry->key && entry->text);
    for (size_t i = 0; i < xt_option_count; i++)
        check_value(&xt_option_table[i], entry->text);
    return XT_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct xt_err err = {0};
    if (xt_config_parse("fuzz.yaml", data, size, take, NULL, &err))
        assert(*err.text && err.status == XT_ERR_USAGE);
    return 0;
}
