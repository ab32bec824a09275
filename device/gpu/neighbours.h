/* Libraries that lie beside the one to be loaded. oneDNN's GPU build names no folder to find its
 * neighbours in, so what it needs is loaded first, from its own folder; the dynamic linker then
 * takes those. Thread-safe.
 */
#ifndef XT_DEVICE_GPU_NEIGHBOURS_H
#define XT_DEVICE_GPU_NEIGHBOURS_H

/* Loads from the folder of `path`, and then from `folders` (NULL-terminated, may be NULL), every
 * library that the ELF file at `path` needs, what these need first. One that is in none of them is
 * left to the dynamic linker, as is a file that cannot be read: the loading of `path` itself will
 * say what is wrong. */
void xt_neighbours_load(const char *path, const char *const *folders);

#endif
