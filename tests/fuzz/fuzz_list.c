/* Any bytes as a list of images. */
#include "data/sources/index/files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void parse(const struct xt_alphabet *alphabet, bool labels_optional, const uint8_t *data,
                  size_t size)
{
    struct xt_source_options options = {
        .alphabet = alphabet, .steps_max = 18, .labels_optional = labels_optional};
    struct xt_source_files *set = NULL;
    struct xt_err err;
    if (xt_source_files_create(&set, &options, &err))
        return;
    if (!xt_source_files_parse(set, (const char *)data, size, "folder", "list.txt", &err))
        (void)xt_source_files_finish(set, "the list", &err);
    xt_source_destroy(&set->base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct xt_alphabet *alphabet = NULL;
    struct xt_err err;
    if (xt_alphabet_load(&alphabet, NULL, &err))
        return 0;
    parse(alphabet, false, data, size);
    parse(alphabet, true, data, size);
    xt_alphabet_destroy(alphabet);
    return 0;
}
