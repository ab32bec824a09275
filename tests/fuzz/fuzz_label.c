/* Any bytes as an alphabet, and as a label of the default one: what is taken must come back as the
 * same text. */
#include <stdlib.h>
#include <string.h>

#include "data/alphabet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const struct xt_alphabet *alphabet, const char *label, size_t size)
{
    int symbols[16];
    int length = 0;
    struct xt_err err;
    if (xt_alphabet_encode(alphabet, label, size, symbols, 16, &length, &err))
        return;
    struct xt_str text = {0};
    if (!xt_alphabet_decode(alphabet, symbols, length, &text, &err) &&
        (text.length != size || memcmp(text.data, label, size) != 0))
        abort();
    if (xt_label_steps(symbols, length) < length)
        abort();
    xt_str_clear(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct xt_alphabet *alphabet = NULL;
    struct xt_err err;
    if (!xt_alphabet_load(&alphabet, NULL, &err))
        encode(alphabet, (const char *)data, size);
    xt_alphabet_destroy(alphabet);
    if (!xt_alphabet_create(&alphabet, (const char *)data, size, "fuzz", &err))
        encode(alphabet, (const char *)data, size);
    xt_alphabet_destroy(alphabet);
    return 0;
}
