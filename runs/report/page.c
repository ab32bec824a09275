#include "runs/report/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "runs/report/findings.h"
#include "runs/report/json.h"
#include "runs/report/template.h"

/* Appends JSON escaped so that no text in it closes the enclosing script element or opens a
 * comment. */
static void append_data(struct xt_str *page, const char *json)
{
    for (const char *at = json; *at;) {
        size_t length = strcspn(at, "<");
        xt_str_append(page, at, length, NULL);
        at += length;
        if (*at) {
            xt_str_append(page, "\\u003c", 6, NULL);
            at++;
        }
    }
}

/* Fills the template's placeholders. */
static enum xt_status fill(struct xt_str *page, const char *json, struct xt_err *err)
{
    const struct {
        const char *mark;
        const char *text;
    } places[] = {
        {"@STYLE@", xt_template_style}, {"@DATA@", NULL}, {"@SCRIPT@", xt_template_script}};
    const char *at = xt_template_page;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *mark = strstr(at, places[i].mark);
        xt_str_append(page, at, (size_t)(mark - at), NULL);
        if (places[i].text)
            xt_str_append(page, places[i].text, strlen(places[i].text), NULL);
        else
            append_data(page, json);
        at = mark + strlen(places[i].mark);
    }
    return xt_str_append(page, at, strlen(at), err);
}

/* Takes ownership of `data`. */
static enum xt_status write_page(const char *path, struct xt_json *json, cJSON *data,
                                 struct xt_err *err)
{
    struct xt_str text = {0};
    struct xt_str page = {0};
    enum xt_status status = xt_json_print(json, data, &text, err);
    if (!status)
        status = fill(&page, xt_str_get(&text), err);
    if (!status)
        status = xt_file_save(path, page.data, page.length, err);
    cJSON_Delete(data);
    xt_str_clear(&text);
    xt_str_clear(&page);
    return status;
}

static void put_evaluation(struct xt_json *json, cJSON *at, const char *key,
                           const struct xt_past_evaluation *e)
{
    if (e->step < 0)
        return;
    cJSON *to = xt_json_object(json, at, key);
    xt_json_put(json, to, "step=%f epoch=%f time=%f loss=%f", (double)e->step, (double)e->epoch,
                e->time, e->loss);
    cJSON *figures = xt_json_array(json, to, "figures");
    for (int i = 0; i < XT_PAST_FIGURES && *e->keys[i]; i++) {
        cJSON *figure = xt_json_array(json, figures, NULL);
        xt_json_text(json, figure, NULL, e->keys[i]);
        xt_json_number(json, figure, NULL, e->figures[i]);
    }
}

static cJSON *copy_facts(struct xt_json *json, const struct xt_past_run *run, bool pictures)
{
    cJSON *facts = cJSON_Duplicate(run->facts, true);
    json->failed = json->failed || !facts;
    if (!pictures)
        xt_findings_drop_pictures(cJSON_GetObjectItemCaseSensitive(facts, "evaluation"));
    return facts;
}

static void put_run(struct xt_json *json, cJSON *list, const struct xt_past_run *run, bool pictures)
{
    cJSON *to = xt_json_object(json, list, NULL);
    xt_json_put(json, to, "name=%s metrics=%s images_per_s=%f", run->folder,
                xt_str_get(&run->metrics), run->images_per_s);
    put_evaluation(json, to, "best", &run->best);
    put_evaluation(json, to, "last", &run->last);
    cJSON *settings = xt_json_array(json, to, "settings");
    for (size_t i = 0; i < run->setting_count; i++) {
        cJSON *setting = xt_json_array(json, settings, NULL);
        xt_json_text(json, setting, NULL, run->settings[i].key);
        xt_json_text(json, setting, NULL, run->settings[i].value);
        xt_json_text(json, setting, NULL, run->settings[i].from);
    }
    if (run->facts)
        xt_json_add(json, to, "facts", copy_facts(json, run, pictures));
    xt_json_add(json, to, "killed", cJSON_CreateBool(run->killed));
}

enum xt_status xt_page_write_runs(const char *path, const struct xt_past_run *runs, size_t count,
                                  bool pictures, struct xt_err *err)
{
    struct xt_json json = {0};
    const char **keys = NULL;
    size_t key_count = 0;
    cJSON *data = cJSON_CreateObject();
    json.failed = !data;
    xt_json_text(&json, data, "version", XT_VERSION);
    cJSON *list = xt_json_array(&json, data, "runs");
    for (size_t i = 0; i < count; i++)
        put_run(&json, list, &runs[i], pictures);
    enum xt_status status = xt_past_runs_differ(runs, count, &keys, &key_count, err);
    cJSON *different = xt_json_array(&json, data, "different");
    for (size_t i = 0; i < key_count; i++)
        xt_json_text(&json, different, NULL, keys[i]);
    free(keys);
    if (!status)
        return write_page(path, &json, data, err);
    cJSON_Delete(data);
    return status;
}

enum xt_status xt_page_write_one(const char *path, const char *key, cJSON *value,
                                 struct xt_err *err)
{
    struct xt_json json = {0};
    cJSON *all = cJSON_CreateObject();
    json.failed = !all;
    xt_json_text(&json, all, "version", XT_VERSION);
    xt_json_add(&json, all, key, value);
    return write_page(path, &json, all, err);
}

enum xt_status xt_page_write_findings(const char *path, cJSON *findings, const char *weights,
                                      const char *data, struct xt_err *err)
{
    struct xt_json json = {0};
    cJSON *all = cJSON_CreateObject();
    json.failed = !all;
    xt_json_put(&json, all, "version=%s weights=%s data=%s", XT_VERSION, weights, data);
    xt_json_add(&json, all, "evaluation", findings);
    return write_page(path, &json, all, err);
}
