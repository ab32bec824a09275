#include "cli/diff/page.h"

#include <stdio.h>
#include <stdlib.h>

#include "runs/report/page.h"

/* maximum number of images of each kind */
enum { MOST = 700 };

enum { A_RIGHT, B_RIGHT, NEITHER, KINDS };

static int kind_of(const struct xt_diff_image *image)
{
    return image->right[0] ? A_RIGHT : image->right[1] ? B_RIGHT : NEITHER;
}

/* The higher confidence among the wrong predictions. */
static double sureness(const struct xt_diff_image *image)
{
    double a = image->right[0] ? 0 : image->confidence[0];
    double b = image->right[1] ? 0 : image->confidence[1];
    return a > b ? a : b;
}

static int by_kind(const void *one, const void *other)
{
    const struct xt_diff_image *a = one;
    const struct xt_diff_image *b = other;
    if (kind_of(a) != kind_of(b))
        return kind_of(a) - kind_of(b);
    if (sureness(a) != sureness(b))
        return sureness(a) > sureness(b) ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

static cJSON *describe(struct xt_json *json, const struct xt_diff_image *image,
                       const struct xt_findings *findings, bool picture)
{
    cJSON *to = cJSON_CreateObject();
    json->failed = json->failed || !to;
    xt_json_add(json, to, "a", cJSON_CreateRaw(image->answers[0]));
    xt_json_add(json, to, "b", cJSON_CreateRaw(image->answers[1]));
    xt_json_add(json, to, "a_right", cJSON_CreateBool(image->right[0]));
    xt_json_add(json, to, "b_right", cJSON_CreateBool(image->right[1]));
    if (picture)
        xt_findings_picture(json, to, findings, image->index, NULL);
    return to;
}

enum xt_status xt_diff_page_images(struct xt_diff_image *images, size_t count,
                                   const struct xt_findings *findings, cJSON **out,
                                   struct xt_err *err)
{
    struct xt_json json = {0};
    size_t seen[KINDS] = {0};
    cJSON *list = cJSON_CreateArray();
    json.failed = !list;
    if (count)
        qsort(images, count, sizeof *images, by_kind);
    for (size_t i = 0; i < count; i++) {
        size_t place = seen[kind_of(&images[i])]++;
        bool has_picture = place < findings->pictures;
        if (place < MOST)
            xt_json_add(&json, list, NULL, describe(&json, &images[i], findings, has_picture));
    }
    *out = list;
    if (!json.failed)
        return XT_OK;
    cJSON_Delete(list);
    *out = NULL;
    return xt_err_no_memory(err, "the page of differences", 0);
}

/* The report is already JSON: the page gets the same. */
static enum xt_status parse(struct xt_report *report, cJSON **out, struct xt_err *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (!to) {
        xt_report_destroy(report);
        return xt_err_no_memory(err, "the page of differences", 0);
    }
    enum xt_status status = xt_report_end(report, XT_REPORT_JSON, to, err);
    bool is_whole = fclose(to) == 0;
    *out = !status && is_whole ? cJSON_Parse(text) : NULL;
    free(text);
    return *out || status ? status : xt_err_no_memory(err, "the page of differences", size);
}

enum xt_status xt_diff_page_write(const char *path, struct xt_report *report, cJSON *images,
                                  struct xt_err *err)
{
    cJSON *diff = NULL;
    struct xt_json json = {0};
    enum xt_status status = parse(report, &diff, err);
    if (status) {
        cJSON_Delete(images);
        return status;
    }
    xt_json_add(&json, diff, "images", images);
    if (!json.failed)
        return xt_page_write_one(path, "diff", diff, err);
    cJSON_Delete(diff);
    return xt_err_no_memory(err, "the page of differences", 0);
}
