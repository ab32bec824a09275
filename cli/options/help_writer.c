#include "cli/options/help_writer.h"

#include <stdarg.h>

void xt_help_put(struct xt_help_writer *writer, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    xt_str_vprintf(writer->out, NULL, format, args);
    va_end(args);
}

bool xt_option_is_model(const struct xt_option *option)
{
    return option->offset == offsetof(struct xt_settings, network.model);
}

const char *const *xt_help_words(const struct xt_help_writer *writer,
                                 const struct xt_option *option)
{
    static const char *const devices[] = {"cpu", "xpu", "auto", NULL};
    if (xt_option_is_model(option))
        return writer->models ? writer->models->names : NULL;
    return option->type == &xt_type_device ? devices : option->choices;
}

void xt_help_for_options(struct xt_help_writer *writer, enum xt_command_id command,
                         xt_help_heading *heading, xt_help_option *each)
{
    for (int group = 0; group < XT_GROUP_COUNT; group++) {
        bool has_heading = !heading;
        for (size_t i = 0; i < xt_option_count; i++) {
            if ((int)xt_option_table[i].group != group ||
                !xt_option_is_listed(&xt_option_table[i], command))
                continue;
            if (!has_heading)
                heading(writer, xt_option_group_title(xt_option_table[i].group));
            has_heading = true;
            each(writer, &xt_option_table[i], command);
        }
    }
}
