#include "cli/serve/ordered.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "cli/origin.h"
#include "cli/json/result.h"
#include "cli/json/schema.h"
#include "cli/report.h"
#include "cli/serve/answer.h"
#include "infer/session/engine.h"

struct xt_ordered_item {
    char *name;
    struct xtrain_answer *answer; /* NULL: the image could not be read */
    char *why;
};

enum xt_status xt_ordered_init(struct xt_ordered *ordered, struct xtrain *network, int batch,
                               const struct xt_answer_settings *settings, struct xt_err *err)
{
    ordered->network = network;
    ordered->settings = settings;
    ordered->room = 2 * (size_t)batch;
    ordered->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ordered->wake < 0)
        return xt_err_set(err, XT_ERR_RUN, "cannot create an eventfd: too many open files");
    return xt_mem_calloc(&ordered->items, ordered->room, sizeof *ordered->items,
                         "the pending predictions", err);
}

/* Runs on a thread of the network. If the eventfd is already set, the write may fail. */
static void wake(void *context)
{
    const struct xt_ordered *ordered = context;
    uint64_t one = 1;
    if (write(ordered->wake, &one, sizeof one) < 0)
        return;
}

static void clear_item(struct xt_ordered_item *item)
{
    free(item->name);
    free(item->why);
    xtrain_answer_free(item->answer);
    *item = (struct xt_ordered_item){0};
}

static struct xt_ordered_item *item_at(const struct xt_ordered *ordered, size_t index)
{
    return &ordered->items[(ordered->first + index) % ordered->room];
}

static enum xt_status print_first(struct xt_ordered *ordered, struct xt_err *err)
{
    struct xt_ordered_item *item = item_at(ordered, 0);
    struct xtrain_error error;
    if (item->answer && xtrain_wait(item->answer, &error))
        return xt_engine_err(&error, err);
    struct xt_report *line = xt_report_create();
    if (item->answer) {
        xt_answer_describe(line, ordered->network, ordered->settings, item->name, item->answer);
    } else {
        xt_report_add(line, "path", "", "%s\t!\t", item->name);
        xt_report_add(line, "error", "", "%s", item->why);
    }
    enum xt_status status = xt_result_put_one(line, "predictions", XT_SCHEMA_IMAGE, err);
    ordered->answered += !status && item->answer;
    clear_item(item);
    ordered->first = (ordered->first + 1) % ordered->room;
    ordered->count--;
    return status;
}

enum xt_status xt_ordered_print(struct xt_ordered *ordered, bool all, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (all)
        xtrain_flush(ordered->network);
    while (!status && ordered->count) {
        const struct xtrain_answer *answer = item_at(ordered, 0)->answer;
        if (!all && answer && !xtrain_ready(answer))
            break;
        status = print_first(ordered, err);
    }
    return status;
}

/* Adds an item with this name to the ring. */
static enum xt_status begin_item(struct xt_ordered *ordered, const char *name,
                                 struct xt_ordered_item **out, struct xt_err *err)
{
    enum xt_status status = xt_ordered_print(ordered, false, err);
    if (!status && ordered->count == ordered->room)
        status = print_first(ordered, err);
    if (status)
        return status;
    *out = item_at(ordered, ordered->count);
    return xt_mem_strdup(&(*out)->name, name, err);
}

enum xt_status xt_ordered_skip(struct xt_ordered *ordered, const char *name,
                               const struct xt_err *why, struct xt_err *err)
{
    struct xt_ordered_item *item = NULL;
    ordered->images++;
    ordered->unreadable++;
    if (!ordered->each) {
        xt_log_warn("%s", why->text);
        return XT_OK;
    }
    enum xt_status status = begin_item(ordered, name, &item, err);
    if (!status)
        status = xt_mem_strdup(&item->why, why->text, err);
    if (status && item)
        clear_item(item);
    ordered->count += !status;
    return status;
}

enum xt_status xt_ordered_send(struct xt_ordered *ordered, const char *name,
                               const struct xtrain_image *image, struct xt_err *err)
{
    struct xt_ordered_item *item = NULL;
    struct xtrain_error error;
    struct xt_err why = {0};
    struct xtrain_image told = *image;
    told.done = wake;
    told.context = ordered;
    enum xt_status status = begin_item(ordered, name, &item, err);
    if (status)
        return status;
    if (!xtrain_send(ordered->network, &told, &item->answer, &error)) {
        ordered->images++;
        ordered->count++;
        return XT_OK;
    }
    clear_item(item);
    if (error.status != XTRAIN_DATA && error.status != XTRAIN_USAGE)
        return xt_engine_err(&error, err);
    xt_engine_err(&error, &why);
    return xt_ordered_skip(ordered, name, &why, err);
}

static enum xt_status report_all(const struct xt_ordered *ordered, double seconds,
                                 struct xt_err *err)
{
    struct xt_report *line = xt_report_create();
    xt_report_values(line, "images=%zu answered=%zu unreadable=%zu seconds=%f", ordered->images,
                     ordered->answered, ordered->unreadable, seconds);
    xt_origin_report(line, &xt_engine_network(ordered->network)->mark, false);
    return xt_result_put(line, err);
}

enum xt_status xt_ordered_end(struct xt_ordered *ordered, double start, struct xt_err *err)
{
    enum xt_status status = xt_ordered_print(ordered, true, err);
    if (!status && ordered->unreadable)
        status = xt_err_set(err, XT_ERR_DATA, "%zu of %s could not be read", ordered->unreadable,
                            xt_count((long long)ordered->images, "file").text);
    enum xt_status end = XT_OK;
    if (xt_result_is_json())
        end = report_all(ordered, xt_thread_seconds() - start, status ? NULL : err);
    return status ? status : end;
}

void xt_ordered_clear(struct xt_ordered *ordered)
{
    for (size_t i = 0; i < ordered->count; i++)
        clear_item(item_at(ordered, i));
    free(ordered->items);
    /* The network may write to `wake` until it is closed. */
    xtrain_close(ordered->network);
    if (ordered->network)
        close(ordered->wake);
    *ordered = (struct xt_ordered){0};
}
