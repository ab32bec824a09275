/* Dependencies of a library that are in its own folder. oneDNN's GPU build has no run path, so its
 * dependencies are loaded first, from its folder; the dynamic linker then uses those. Thread-safe.
 */
#pragma once

/* Loads from the folder of `path`, and then from `folders` (NULL-terminated, may be NULL), every
 * library that the ELF file at `path` needs, dependencies first. One that is in none of them is
 * left to the dynamic linker, as is a file that cannot be read: loading `path` itself will report
 * the error. */
void xt_neighbours_load(const char *path, const char *const *folders);
