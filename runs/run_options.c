#include "runs/run_options.h"

#include <string.h>

#include "base/log.h"

enum xt_status xt_run_options_init(struct xt_run_options *options,
                                   const struct xt_run_lister *lister,
                                   const struct xt_network *network, struct xt_err *err)
{
    *options = (struct xt_run_options){.count = 0};
    return lister->list ? lister->list(lister->context, network, options, err) : XT_OK;
}

void xt_run_options_clear(struct xt_run_options *options)
{
    for (size_t i = 0; i < options->count; i++)
        xt_str_clear(&options->items[i].value);
    options->count = 0;
}

/* Appends the option as it would be typed: "--lr 0.1", "--no-augment", "no --milestones". */
static enum xt_status type_out(const struct xt_run_option *option, const char *value,
                               struct xt_str *out, struct xt_err *err)
{
    if (option->is_flag)
        return xt_str_printf(out, err, "--%s%s", strcmp(value, "true") == 0 ? "" : "no-",
                             option->name);
    if (!*value)
        return xt_str_printf(out, err, "no --%s", option->name);
    return xt_str_printf(out, err, "--%s %s", option->name, value);
}

/* The file's value of an option that has changed; NULL: not recorded, or the same. */
static const char *changed(const struct xt_run_option *option, const struct xt_weight_file *file)
{
    const char *then = xt_weight_file_meta(file, option->key);
    /* What f32 was called. */
    if (then && strcmp(option->name, "amp") == 0 && strcmp(then, "off") == 0)
        then = "f32";
    return then && strcmp(then, xt_str_get(&option->value)) != 0 ? then : NULL;
}

enum xt_status xt_run_options_check(const struct xt_run_options *options,
                                    const struct xt_weight_file *file, const char *path,
                                    struct xt_err *err)
{
    struct xt_str list = {0};
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < options->count && !status; i++) {
        const struct xt_run_option *option = &options->items[i];
        const char *then = changed(option, file);
        if (!then || option->rule != XT_RESUME_REFUSES)
            continue;
        xt_str_append(&list, " ", 1, NULL);
        status = type_out(option, then, &list, err);
    }
    if (!status && list.length)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "%s was made with%s; give the same, which a run keeps to its end, or "
                            "begin another with --init",
                            path, xt_str_get(&list));
    xt_str_clear(&list);
    return status;
}

enum xt_status xt_run_options_note(const struct xt_run_options *options,
                                   const struct xt_weight_file *file, const char *path,
                                   struct xt_err *err)
{
    struct xt_str before = {0};
    struct xt_str now = {0};
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < options->count && !status; i++) {
        const struct xt_run_option *option = &options->items[i];
        const char *then = changed(option, file);
        if (!then || option->rule != XT_RESUME_SAYS)
            continue;
        before.length = now.length = 0;
        status = type_out(option, then, &before, err);
        if (!status)
            status = type_out(option, xt_str_get(&option->value), &now, err);
        if (!status)
            xt_log_note("%s was made with %s; the run continues with %s", path, xt_str_get(&before),
                        xt_str_get(&now));
    }
    xt_str_clear(&before);
    xt_str_clear(&now);
    return status;
}
