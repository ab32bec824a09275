/* The list of a tree's files, cached for the next start (data/sources/index/index_cache.h) if the
 * tree is large.
 *
 * It is valid only while each folder of the tree is the same one with the same times: a file or
 * folder that was added, removed or renamed shows there. The list does not depend on the contents
 * of files. A tree that was changed within the last seconds is not cached, since a further change
 * might have the same time, nor one in which links lead to a folder twice: the list does not hold
 * the aliases.
 */
#pragma once

#include "base/file.h"
#include "base/str.h"

/* Smaller trees are walked each time, which is as fast. */
enum { XT_INDEX_TREE_LEAST = 4096 };

/* Like xt_file_walk. */
enum xt_status xt_index_tree(struct xt_file_tree *tree, const char *folder, struct xt_err *err);

/* Serialises a tree as the body of an index, and back; the tree's paths begin with `folder`. *good
 * is false if the bytes are not a valid tree; the tree is then empty. Clear it also after a
 * failure. */
enum xt_status xt_index_tree_write(const struct xt_file_tree *tree, const char *folder,
                                   struct xt_str *body, struct xt_err *err);
enum xt_status xt_index_tree_read(struct xt_file_tree *tree, const char *folder,
                                  const uint8_t *bytes, size_t size, bool *good,
                                  struct xt_err *err);
