#include "cli/doctor/merge.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "runs/report/json.h"

enum { FILE_MAX = 1 << 20 };

struct node {
    const char *name; /* its host, or the file if hosts are not unique; borrowed */
    cJSON *all;       /* the file */
    cJSON *facts;     /* values to compare, by name */
    bool works;
};

struct nodes {
    struct node *items;
    int count;
    struct xt_json json;
    cJSON *keys; /* keys of all facts */
};

/* ---- reading ---- */

/* A fact's name as it is now: files of earlier versions have "OpenCL driver". */
static void spell(char *name)
{
    for (; *name; name++)
        *name = *name == ' ' || *name == ':' ? '_' : (char)tolower((unsigned char)*name);
}

/* Copies the facts of an object, as "driver", or with a prefix "xpu_0_driver". */
static void take_facts(struct nodes *nodes, struct node *node, const cJSON *from,
                       const char *prefix)
{
    const cJSON *fact;
    cJSON_ArrayForEach(fact, from)
    {
        char name[96];
        char number[32];
        const char *value = cJSON_GetStringValue(fact);
        if (cJSON_IsNumber(fact)) {
            snprintf(number, sizeof number, "%g", fact->valuedouble);
            value = number;
        }
        if (!value || !fact->string || strcmp(fact->string, "host") == 0)
            continue;
        snprintf(name, sizeof name, "%s%s", prefix, fact->string);
        spell(name);
        xt_json_text(&nodes->json, node->facts, name, value);
        if (!cJSON_GetObjectItemCaseSensitive(nodes->keys, name))
            xt_json_text(&nodes->json, nodes->keys, name, "");
    }
}

static enum xt_status read_node(struct nodes *nodes, const char *path, struct xt_err *err)
{
    struct node *node = &nodes->items[nodes->count++];
    struct xt_bytes bytes = {0};
    enum xt_status status = xt_file_load(path, FILE_MAX, &bytes, err);
    if (status)
        return status;
    node->all = cJSON_ParseWithLength((const char *)bytes.data, bytes.size);
    free(bytes.data);
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(node->all, "node");
    const cJSON *works = cJSON_GetObjectItemCaseSensitive(node->all, "works");
    if (!cJSON_IsObject(own) || !cJSON_IsBool(works))
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is not what \"xtrain doctor --json\" of this version writes; write "
                          "it again on that machine",
                          path);
    node->works = cJSON_IsTrue(works);
    node->name = xt_json_get_text(own, "host", NULL);
    node->facts = cJSON_CreateObject();
    nodes->json.failed = nodes->json.failed || !node->facts;
    take_facts(nodes, node, own, "");
    int index = 0;
    const cJSON *gpu;
    cJSON_ArrayForEach(gpu, cJSON_GetObjectItemCaseSensitive(own, "xpus"))
    {
        char prefix[24];
        snprintf(prefix, sizeof prefix, "xpu_%d_", index++);
        take_facts(nodes, node, gpu, prefix);
    }
    return XT_OK;
}

/* If hosts are missing or not unique, all nodes are named after their files. */
static void name_nodes(struct nodes *nodes, const char *const *paths)
{
    bool apart = true;
    for (int i = 0; i < nodes->count; i++)
        for (int j = 0; j <= i; j++)
            if (!nodes->items[i].name ||
                (i != j && strcmp(nodes->items[i].name, nodes->items[j].name) == 0))
                apart = false;
    for (int i = 0; i < nodes->count && !apart; i++)
        nodes->items[i].name = paths[i];
}

/* ---- comparing ---- */

static const char *value_of(const struct node *node, const char *key)
{
    const char *value = xt_json_get_text(node->facts, key, NULL);
    return value ? value : "none";
}

static int count_of(const struct nodes *nodes, const char *key, const char *value)
{
    int count = 0;
    for (int i = 0; i < nodes->count; i++)
        count += strcmp(value_of(&nodes->items[i], key), value) == 0;
    return count;
}

/* The value of most nodes; on a tie the first. */
static const char *most_of(const struct nodes *nodes, const char *key, int *count)
{
    const char *most = "none";
    *count = 0;
    for (int i = 0; i < nodes->count; i++) {
        const char *value = value_of(&nodes->items[i], key);
        int own = count_of(nodes, key, value);
        if (own > *count) {
            *count = own;
            most = value;
        }
    }
    return most;
}

/* Adds a row for each node and fact that differs from the majority; returns their number. */
static int describe_different(const struct nodes *nodes, struct xt_report *table)
{
    int different = 0;
    const cJSON *key;
    cJSON_ArrayForEach(key, nodes->keys)
    {
        int count = 0;
        const char *most = most_of(nodes, key->string, &count);
        for (int i = 0; i < nodes->count; i++) {
            const char *value = value_of(&nodes->items[i], key->string);
            if (strcmp(value, most) == 0)
                continue;
            struct xt_report *row = xt_report_group(table, NULL);
            char share[32];
            snprintf(share, sizeof share, "%d of %d", count, nodes->count);
            xt_report_add(row, "name", "node", "%s", nodes->items[i].name);
            xt_report_add(row, "what", "differs in", "%s", key->string);
            xt_report_add(row, "here", "here", "%s", value);
            xt_report_add(row, "most", "elsewhere", "%s", most);
            xt_report_add(row, "most_count", NULL, "%d", count);
            xt_report_add(row, NULL, "there on", "%s", share);
            different++;
        }
    }
    return different;
}

static void describe_same(const struct nodes *nodes, struct xt_report *report)
{
    struct xt_report *same = xt_report_group(report, "common");
    const cJSON *key;
    cJSON_ArrayForEach(key, nodes->keys)
    {
        int count = 0;
        const char *most = most_of(nodes, key->string, &count);
        if (count == nodes->count) {
            xt_report_add(same, key->string, NULL, "%s", most);
            xt_report_line(report, "on all: %s: %s", key->string, most);
        }
    }
}

static enum xt_status describe(const struct nodes *nodes, struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    struct xt_report *names = xt_report_list(report, "nodes");
    int works = 0;
    for (int i = 0; i < nodes->count; i++) {
        struct xt_report *to = xt_report_group(names, NULL);
        xt_report_add(to, "name", NULL, "%s", nodes->items[i].name);
        xt_report_flag(to, "works", NULL, nodes->items[i].works, "", "");
        works += nodes->items[i].works;
        if (!nodes->items[i].works)
            xt_report_line(report, "--xpu does not work on %s", nodes->items[i].name);
    }
    describe_same(nodes, report);
    int different = describe_different(nodes, xt_report_table(report, "differences"));
    bool alike = !different && (works == 0 || works == nodes->count);
    xt_report_flag(report, "alike", NULL, alike, "", "");
    if (alike)
        xt_report_line(report, "%s, all alike", xt_count(nodes->count, "node").text);
    enum xt_status status = xt_result_put(report, err);
    if (!status && !alike)
        return xt_err_set(err, XT_ERR_RUN, "the nodes differ: %s; --xpu works on %d of %d",
                          xt_count(different, "difference").text, works, nodes->count);
    if (!status && !works)
        return xt_err_set(err, XT_ERR_DEVICE, "--xpu works on none of %s",
                          xt_count(nodes->count, "node").text);
    return status;
}

enum xt_status xt_doctor_merge(const struct xt_options *options, struct xt_err *err)
{
    struct nodes nodes = {.keys = cJSON_CreateObject()};
    if (options->argument_count < 2) {
        cJSON_Delete(nodes.keys);
        return xt_err_set(err, XT_ERR_USAGE,
                          "--merge compares machines: give the files of two or more, each written "
                          "by \"xtrain doctor --json >HOST.json\"");
    }
    enum xt_status status = xt_mem_calloc(&nodes.items, (size_t)options->argument_count,
                                          sizeof *nodes.items, "the nodes", err);
    nodes.json.failed = !nodes.keys;
    for (int i = 0; i < options->argument_count && !status; i++)
        status = read_node(&nodes, options->arguments[i], err);
    if (!status && nodes.json.failed)
        status = xt_err_no_memory(err, "the nodes' facts", 0);
    if (!status) {
        name_nodes(&nodes, options->arguments);
        status = describe(&nodes, err);
    }
    for (int i = 0; i < nodes.count; i++) {
        cJSON_Delete(nodes.items[i].all);
        cJSON_Delete(nodes.items[i].facts);
    }
    free(nodes.items);
    cJSON_Delete(nodes.keys);
    return status;
}
