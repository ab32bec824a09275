/* Any bytes as a cached list of files: as a whole file, and as the contents after its checksum.
 * What is taken comes out again when it is written. */
#include <stdlib.h>

#include "data/sources/index/index_cache.h"
#include "data/sources/index/index_tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_tree(const uint8_t *bytes, size_t size)
{
    struct xt_file_tree tree = {0};
    struct xt_str again = {0};
    struct xt_err err;
    bool good = false;
    enum xt_status status = xt_index_tree_read(&tree, "folder", bytes, size, &good, &err);
    if (!status && good && !xt_index_tree_write(&tree, "folder", &again, &err) &&
        again.length != size)
        abort();
    if (!good && (tree.folder_count || tree.files.count))
        abort();
    xt_str_clear(&again);
    xt_file_tree_clear(&tree);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *body = NULL;
    size_t body_size = 0;
    if (xt_index_check(data, size, "tree /folder", &body, &body_size))
        read_tree(body, body_size);
    read_tree(data, size);
    return 0;
}
