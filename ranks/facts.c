#include "ranks/facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "ranks/ranks.h"

/* ---- a list of facts: name, NUL, value, NUL, ... ---- */

void xt_ranks_add_fact(struct xt_str *facts, const char *name, const char *format, ...)
{
    char value[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    xt_str_append(facts, name, strlen(name) + 1, NULL);
    xt_str_append(facts, value, strlen(value) + 1, NULL);
}

/* The name after `at`; NULL: there are no more. */
static const char *next_name(const struct xt_str *facts, const char *at)
{
    if (at)
        at += strlen(at) + 1, at += strlen(at) + 1;
    else
        at = facts->data;
    return at && at < facts->data + facts->length ? at : NULL;
}

/* NULL: there is no such fact. */
static const char *value_of(const struct xt_str *facts, const char *name)
{
    for (const char *at = next_name(facts, NULL); at; at = next_name(facts, at))
        if (strcmp(at, name) == 0)
            return at + strlen(at) + 1;
    return NULL;
}

/* ---- those of all ranks ---- */

static bool is_same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static const char *shown(const char *value)
{
    return !value ? "unknown" : *value ? value : "not set";
}

/* "0.1 on rank 0 (alpha), 0.2 on rank 1 (beta) and 2 more": each value once. */
static enum xt_status describe(const struct xt_ranks *ranks, const struct xt_str *all,
                               const char *name, struct xt_str *out, struct xt_err *err)
{
    for (int i = 0; i < ranks->size; i++) {
        const char *value = value_of(&all[i], name);
        int before = 0;
        int others = 0;
        for (int k = 0; k < ranks->size; k++)
            if (k != i && is_same(value, value_of(&all[k], name)))
                ++*(k < i ? &before : &others);
        if (before)
            continue;
        xt_str_printf(out, NULL, "%s%s on rank %d (%s)", i ? ", " : "", shown(value), i,
                      ranks->all[i].host);
        if (others)
            xt_str_printf(out, NULL, " and %d more", others);
    }
    return xt_str_check(out, err);
}

static bool differs(const struct xt_ranks *ranks, const struct xt_str *all, const char *name)
{
    for (int i = 1; i < ranks->size; i++)
        if (!is_same(value_of(&all[i], name), value_of(&all[0], name)))
            return true;
    return false;
}

static bool is_in_one_before(const struct xt_str *all, int rank, const char *name)
{
    for (int i = 0; i < rank; i++)
        if (value_of(&all[i], name))
            return true;
    return false;
}

/* Logs each fact that differs. */
static enum xt_status name_all(const struct xt_ranks *ranks, const struct xt_str *all,
                               struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < ranks->size; i++)
        for (const char *name = next_name(&all[i], NULL); name && !status;
             name = next_name(&all[i], name)) {
            struct xt_str line = {0};
            if (is_in_one_before(all, i, name) || !differs(ranks, all, name))
                continue;
            status = describe(ranks, all, name, &line, err);
            if (!status && xt_ranks_is_first(ranks))
                xt_log_error("%s: %s", name, xt_str_get(&line));
            xt_str_clear(&line);
        }
    return status;
}

static enum xt_status share_one(struct xt_ranks *ranks, int rank, const struct xt_str *own,
                                size_t bytes, struct xt_str *out, struct xt_err *err)
{
    /* Two bytes more: whatever came ends as a name and a value. */
    enum xt_status status = xt_mem_calloc(&out->data, bytes + 2, 1, "the facts of the ranks", err);
    if (status)
        return status;
    out->length = bytes;
    if (rank == ranks->rank)
        memcpy(out->data, own->data, bytes);
    return xt_ranks_copy(ranks, out->data, bytes, rank, "the settings", err);
}

static enum xt_status name_differences(struct xt_ranks *ranks, const struct xt_str *facts,
                                       struct xt_err *err)
{
    size_t *sizes = NULL;
    struct xt_str *all = NULL;
    enum xt_status status =
        xt_mem_calloc(&all, (size_t)ranks->size, sizeof *all, "the facts of the ranks", err);
    if (!status)
        status = xt_ranks_gather(ranks, &facts->length, sizeof *sizes, &sizes, "the settings", err);
    for (int i = 0; i < ranks->size && !status; i++)
        status = share_one(ranks, i, facts, sizes[i], &all[i], err);
    if (!status)
        status = name_all(ranks, all, err);
    for (int i = 0; all && i < ranks->size; i++)
        free(all[i].data);
    free(all);
    free(sizes);
    if (status)
        return status;
    return xt_err_set(err, XT_ERR_USAGE,
                      "the ranks do not have the same work: they differ in what is said above; "
                      "start all of them alike");
}

enum xt_status xt_ranks_compare(struct xt_ranks *ranks, const struct xt_str *facts,
                                struct xt_err *err)
{
    if (!ranks)
        return XT_OK;
    const struct xt_sha256_digest own = xt_sha256(facts->data, facts->length);
    bool same = true;
    enum xt_status status = xt_str_check(facts, err);
    if (!status)
        status = xt_ranks_is_same(ranks, &own, sizeof own, &same, "the settings", err);
    return status || same ? status : name_differences(ranks, facts, err);
}
