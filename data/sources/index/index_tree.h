/* The list of a tree's files, kept for the next start (data/sources/index/index_cache.h) where the
 * tree is large.
 *
 * It is used again only while each folder of the tree is the same one with the same times: a file
 * or folder that came, went or got another name shows there. What is in the files does not matter
 * to the list. A tree that was changed within the last seconds is not kept, since a further change
 * might have the same time, and none whose folders have other names: the list does not hold these.
 */
#ifndef XT_DATA_SOURCES_INDEX_INDEX_TREE_H
#define XT_DATA_SOURCES_INDEX_INDEX_TREE_H

#include "base/file.h"
#include "base/str.h"

/* Trees of fewer files are walked each time, which is as fast. */
enum { XT_INDEX_TREE_LEAST = 4096 };

/* As xt_file_walk. */
enum xt_status xt_index_tree(struct xt_file_tree *tree, const char *folder, struct xt_err *err);

/* A tree as the body of an index, and back; the tree's paths begin with `folder`. *good is false
 * where the bytes are no tree, which is then empty. Clear the tree also after a failure. */
enum xt_status xt_index_tree_write(const struct xt_file_tree *tree, const char *folder,
                                   struct xt_str *body, struct xt_err *err);
enum xt_status xt_index_tree_read(struct xt_file_tree *tree, const char *folder,
                                  const uint8_t *bytes, size_t size, bool *good,
                                  struct xt_err *err);

#endif
