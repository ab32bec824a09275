#include "device/gpu/neighbours.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 8 };

struct elf {
    const unsigned char *bytes;
    size_t size;
};

/* `count` items of `size` bytes at `offset`; NULL if the file is too short for them. */
static const void *at(const struct elf *elf, uint64_t offset, uint64_t count, size_t size)
{
    if (offset > elf->size || count > (elf->size - offset) / size || offset % 8)
        return NULL;
    return elf->bytes + offset;
}

static bool map_file(const char *path, struct elf *elf)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return false;
    void *bytes = MAP_FAILED;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0)
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return false;
    *elf = (struct elf){.bytes = bytes, .size = (size_t)st.st_size};
    return true;
}

/* The file offset of an address in the dynamic section; 0: not in the file. */
static uint64_t offset_of(const Elf64_Phdr *segments, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (segments[i].p_type == PT_LOAD && address >= segments[i].p_vaddr &&
            address - segments[i].p_vaddr < segments[i].p_filesz)
            return address - segments[i].p_vaddr + segments[i].p_offset;
    return 0;
}

static void load_from(const char *path, const char *const *folders, int depth);

/* Loads `name` from the first folder that has it. */
static void load_one(const char *name, const char *folder, const char *const *folders, int depth)
{
    char path[PATH_MAX];
    static const char *const none[] = {NULL};
    for (const char *const *more = folders ? folders : none;; folder = *more++) {
        int length = folder ? snprintf(path, sizeof path, "%s/%s", folder, name) : 0;
        if (length <= 0 || length >= (int)sizeof path)
            return;
        if (access(path, R_OK))
            continue;
        load_from(path, folders, depth + 1);
        dlopen(path, RTLD_NOW | RTLD_LOCAL);
        return;
    }
}

static void load_needed(const struct elf *elf, const char *folder, const char *const *folders,
                        int depth)
{
    const Elf64_Ehdr *head = at(elf, 0, 1, sizeof *head);
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64)
        return;
    const Elf64_Phdr *segments = at(elf, head->e_phoff, head->e_phnum, sizeof *segments);
    const Elf64_Dyn *items = NULL;
    size_t count = 0;
    for (size_t i = 0; segments && i < head->e_phnum; i++)
        if (segments[i].p_type == PT_DYNAMIC) {
            count = segments[i].p_filesz / sizeof *items;
            items = at(elf, segments[i].p_offset, count, sizeof *items);
        }
    uint64_t names = 0;
    for (size_t i = 0; items && i < count; i++)
        if (items[i].d_tag == DT_STRTAB)
            names = offset_of(segments, head->e_phnum, items[i].d_un.d_ptr);
    for (size_t i = 0; items && names && i < count && items[i].d_tag != DT_NULL; i++) {
        uint64_t offset = names + items[i].d_un.d_val;
        if (items[i].d_tag != DT_NEEDED || offset >= elf->size ||
            !memchr(elf->bytes + offset, '\0', elf->size - offset))
            continue;
        const char *name = (const char *)elf->bytes + offset;
        if (*name && !strchr(name, '/'))
            load_one(name, folder, folders, depth);
    }
}

static void load_from(const char *path, const char *const *folders, int depth)
{
    char folder[PATH_MAX];
    struct elf elf;
    const char *slash = strrchr(path, '/');
    if (depth > DEPTH_MAX || !slash || slash - path >= (long)sizeof folder || !map_file(path, &elf))
        return;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    load_needed(&elf, folder, folders, depth);
    munmap((void *)(uintptr_t)elf.bytes, elf.size);
}

void xt_neighbours_load(const char *path, const char *const *folders)
{
    load_from(path, folders, 0);
}
