#include "base/system/reexec.h"

#include <limits.h>
#include <linux/close_range.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/system/stop.h"

/* NUL-terminated words, one after the other. */
static enum xt_status read_words(struct xt_str *out, const char *path, struct xt_err *err)
{
    char block[4096];
    size_t got = 0;
    enum xt_status status = XT_OK;
    FILE *file = fopen(path, "re");
    while (file && !status && (got = fread(block, 1, sizeof block, file)) > 0)
        status = xt_str_append(out, block, got, err);
    if (file)
        fclose(file);
    if (!status && (!file || (out->length && out->data[out->length - 1] != '\0')))
        status = xt_err_set(err, XT_ERR_RUN,
                            "cannot restart: %s does not say how this process was started", path);
    return status;
}

static size_t count_words(const struct xt_str *words)
{
    size_t count = 0;
    for (size_t i = 0; i < words->length; i++)
        count += words->data[i] == '\0';
    return count;
}

/* Whether the word is one of these options, and whether its value is the next word. */
static bool is_option(const char *word, const char *const *names, bool *value_follows)
{
    if (strncmp(word, "--", 2) != 0)
        return false;
    for (; *names; names++) {
        size_t length = strlen(*names);
        if (strncmp(word + 2, *names, length) != 0)
            continue;
        *value_follows = word[2 + length] == '\0';
        if (*value_follows || word[2 + length] == '=')
            return true;
    }
    return false;
}

struct list {
    char **to;
    size_t count;
};

static void add(struct list *list, char *word)
{
    list->to[list->count++] = word;
}

/* The program and its subcommand, the new words, and the rest. */
static void choose_arguments(struct list *list, char *words, size_t count,
                             const char *const *without, char *const *with)
{
    char *word = words;
    bool begun = false;
    for (size_t i = 0; i < count; i++, word += strlen(word) + 1) {
        bool value_follows = false;
        if (!begun && i > 0 && (i > 1 || *word == '-')) {
            begun = true;
            for (; *with; with++)
                add(list, *with);
        }
        if (!is_option(word, without, &value_follows)) {
            add(list, word);
        } else if (value_follows && i + 1 < count) {
            word += strlen(word) + 1;
            i++;
        }
    }
    for (; !begun && *with; with++)
        add(list, *with);
}

static void choose_environment(struct list *list, char *words, size_t count, char *variable)
{
    size_t name = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < count; i++, words += strlen(words) + 1)
        if (strncmp(words, variable, name) != 0)
            add(list, words);
    add(list, variable);
}

static enum xt_status fill(struct xt_reexec *reexec, const struct xt_str *line,
                           const struct xt_str *before, const char *const *without,
                           const char *const *with, const char *variable, struct xt_err *err)
{
    struct xt_str all = {0};
    size_t more = 0;
    xt_str_append(&all, line->data, line->length, NULL);
    if (before->length)
        xt_str_append(&all, before->data, before->length, NULL);
    size_t new_words = all.length;
    for (; with[more]; more++)
        xt_str_append(&all, with[more], strlen(with[more]) + 1, NULL);
    enum xt_status status = xt_str_append(&all, variable, strlen(variable) + 1, err);
    size_t arguments = count_words(line);
    size_t variables = count_words(before);
    char **news = NULL;
    if (!status)
        status = xt_mem_calloc(&reexec->arguments, arguments + more + 1, sizeof(char *),
                               "a command line", err);
    if (!status)
        status = xt_mem_calloc(&reexec->environment, variables + 2, sizeof(char *),
                               "an environment", err);
    if (!status)
        status = xt_mem_calloc(&news, more + 1, sizeof(char *), "a command line", err);
    reexec->words = all.data;
    if (status)
        return status;
    char *word = all.data + new_words;
    for (size_t i = 0; i < more; i++, word += strlen(word) + 1)
        news[i] = word;
    struct list list = {.to = reexec->arguments};
    choose_arguments(&list, all.data, arguments, without, news);
    list = (struct list){.to = reexec->environment};
    choose_environment(&list, all.data + line->length, variables, word);
    reexec->variable = word;
    free(news);
    return XT_OK;
}

enum xt_status xt_reexec_prepare(struct xt_reexec *reexec, const char *const *without,
                                 const char *const *with, const char *variable, struct xt_err *err)
{
    struct xt_str line = {0};
    struct xt_str before = {0};
    *reexec = (struct xt_reexec){0};
    enum xt_status status = read_words(&line, "/proc/self/cmdline", err);
    if (!status)
        status = read_words(&before, "/proc/self/environ", err);
    if (!status)
        status = fill(reexec, &line, &before, without, with, variable, err);
    xt_str_clear(&line);
    xt_str_clear(&before);
    if (status)
        xt_reexec_clear(reexec);
    return status;
}

void xt_reexec_clear(struct xt_reexec *reexec)
{
    free(reexec->words);
    free(reexec->arguments);
    free(reexec->environment);
    *reexec = (struct xt_reexec){0};
}

void xt_reexec_start(const struct xt_reexec *reexec)
{
    if (!reexec->arguments)
        return;
    xt_stop_hold();
    /* Also a driver's files, which would keep device memory allocated. */
    syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    execve("/proc/self/exe", reexec->arguments, reexec->environment);
}

/* "LOADER --library-path PATH PROGRAM ARGUMENT..." */
static enum xt_status loader_words(char ***out, const struct xt_reexec *reexec, const char *loader,
                                   const char *path, const char *program, struct xt_err *err)
{
    union {
        const char *in;
        char *out;
    } words[] = {{loader}, {"--library-path"}, {path}, {program}};
    enum { ADDED = sizeof words / sizeof *words };
    size_t count = 0;
    while (reexec->arguments[count])
        count++;
    enum xt_status status =
        xt_mem_calloc(out, count + ADDED + 1, sizeof **out, "a command line", err);
    for (size_t i = 0; i < ADDED && !status; i++)
        (*out)[i] = words[i].out;
    for (size_t i = 1; i < count && !status; i++)
        (*out)[ADDED + i - 1] = reexec->arguments[i];
    return status;
}

enum xt_status xt_reexec_by_loader(const char *loader, const char *path, const char *variable,
                                   struct xt_err *err)
{
    static const char *const nothing[] = {NULL};
    struct xt_reexec reexec = {0};
    char program[PATH_MAX];
    char **words = NULL;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    enum xt_status status = length > 0 ? xt_reexec_prepare(&reexec, nothing, nothing, variable, err)
                                       : xt_err_set(err, XT_ERR_RUN, "cannot read /proc/self/exe");
    program[length > 0 ? length : 0] = '\0';
    if (!status)
        status = loader_words(&words, &reexec, loader, path, program, err);
    if (!status)
        execve(loader, words, reexec.environment);
    free(words);
    xt_reexec_clear(&reexec);
    return status;
}

_Noreturn void xt_reexec_exit(int code)
{
    _exit(code);
}
