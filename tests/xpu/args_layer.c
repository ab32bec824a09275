/* An OpenCL layer that looks at each kernel's arguments before Intel's driver gets them. Loaded by
 * the OpenCL loader through OPENCL_LAYERS; see capture.sh. Never installed.
 *
 * Intel's driver writes the address of every pointer argument into the kernel's data, also of one
 * that the kernel takes as a surface alone and for which there is no place: it then writes 4 bytes
 * 65535 bytes behind, wherever that is. Such kernels must not run.
 *
 * XT_LAYER_LOG: a file that gets a line for each kernel, "kernel NAME: N pointers, N without an
 * address".
 */
#include "layer.h"

#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_MAX = 256 };

struct text {
    const char *at; /* NULL: none */
    size_t length;
};

struct argument {
    bool pointer; /* to memory, as a surface or by its address */
    bool address; /* that, or where it lies in local memory */
};

/* One entry of a kernel's list of arguments. */
struct entry {
    bool pointer, address;
    int index;
};

/* ---- the section of a binary that describes its kernels, as YAML ---- */

static struct text find_description(const unsigned char *binary, size_t size)
{
    static const char wanted[] = ".ze_info";
    Elf64_Ehdr head;
    if (size < sizeof head)
        return (struct text){0};
    memcpy(&head, binary, sizeof head);
    size_t table = (size_t)head.e_shnum * sizeof(Elf64_Shdr);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_shentsize != sizeof(Elf64_Shdr) ||
        head.e_shstrndx >= head.e_shnum || head.e_shoff > size || table > size - head.e_shoff)
        return (struct text){0};
    const unsigned char *sections = binary + head.e_shoff;
    Elf64_Shdr names;
    memcpy(&names, sections + head.e_shstrndx * sizeof names, sizeof names);
    for (size_t i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, sections + i * sizeof section, sizeof section);
        if (names.sh_offset > size || section.sh_name > size - names.sh_offset ||
            sizeof wanted > size - names.sh_offset - section.sh_name || section.sh_offset > size ||
            section.sh_size > size - section.sh_offset)
            continue;
        if (memcmp(binary + names.sh_offset + section.sh_name, wanted, sizeof wanted) == 0)
            return (struct text){(const char *)binary + section.sh_offset, section.sh_size};
    }
    return (struct text){0};
}

/* Takes the next line off `text`; without blanks and dashes before it. */
static bool next_line(struct text *text, char *line, size_t room, bool *begins_entry)
{
    if (!text->length)
        return false;
    const char *end = memchr(text->at, '\n', text->length);
    size_t length = end ? (size_t)(end - text->at) : text->length;
    size_t skip = 0;
    *begins_entry = false;
    for (; skip < length && (text->at[skip] == ' ' || text->at[skip] == '-'); skip++)
        *begins_entry |= text->at[skip] == '-';
    snprintf(line, room, "%.*s", (int)(length - skip), text->at + skip);
    size_t taken = end ? length + 1 : length;
    text->at += taken;
    text->length -= taken;
    return true;
}

/* Whether the line is `key: value`. */
static bool says(const char *line, const char *key, const char *value)
{
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0 || line[length] != ':')
        return false;
    const char *said = line + length + 1 + strspn(line + length + 1, " '\"");
    size_t said_length = strcspn(said, " '\"\r");
    return said_length == strlen(value) && memcmp(said, value, said_length) == 0;
}

static void keep(struct argument *arguments, struct entry *entry)
{
    if (entry->pointer && entry->index >= 0 && entry->index < ARGUMENTS_MAX) {
        arguments[entry->index].pointer = true;
        arguments[entry->index].address |= entry->address;
    }
    *entry = (struct entry){.index = -1};
}

static void read_arguments(struct text text, const char *kernel, struct argument *arguments)
{
    char line[512];
    bool begins = false;
    bool inside = false; /* this kernel */
    struct entry entry = {.index = -1};
    while (next_line(&text, line, sizeof line, &begins)) {
        if (begins)
            keep(arguments, &entry);
        if (begins && strncmp(line, "name:", 5) == 0)
            inside = says(line, "name", kernel);
        if (!inside)
            continue;
        entry.pointer |= says(line, "arg_type", "arg_bypointer");
        entry.address |= says(line, "addrmode", "stateless") || says(line, "addrmode", "slm");
        if (strncmp(line, "arg_index:", 10) == 0)
            entry.index = atoi(line + 10);
    }
    keep(arguments, &entry);
}

/* ---- the layer ---- */

static void log_kernel(const char *kernel, const struct argument *arguments)
{
    int pointers = 0;
    int without = 0;
    for (int i = 0; i < ARGUMENTS_MAX; i++) {
        pointers += arguments[i].pointer;
        without += arguments[i].pointer && !arguments[i].address;
    }
    layer_log("kernel %s: %d pointers, %d without an address", kernel, pointers, without);
}

static cl_kernel CL_API_CALL create_kernel(cl_program program, const char *name, cl_int *error)
{
    size_t size = 0;
    unsigned char *binary = layer_binary(program, &size);
    struct text description = binary ? find_description(binary, size) : (struct text){0};
    if (description.at) {
        struct argument arguments[ARGUMENTS_MAX] = {{false, false}};
        read_arguments(description, name, arguments);
        log_kernel(name, arguments);
    }
    free(binary);
    return real->clCreateKernel(program, name, error);
}

const char layer_name[] = "xtrain's check of kernels' arguments";

void layer_fill(struct _cl_icd_dispatch *ours)
{
    ours->clCreateKernel = create_kernel;
}
