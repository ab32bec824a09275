#include "cli/image_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "data/sources/registry.h"
#include "infer/network/network.h"

void xt_image_set_clear(struct xt_image_set *set)
{
    xt_source_destroy(set->source);
    xt_alphabet_destroy(set->alphabet);
    xt_model_close(set->loaded);
    *set = (struct xt_image_set){0};
}

/* Without --model: the network of the first argument, classes if the source has such, else plates.
 */
static enum xt_status choose_model(struct xt_image_set *set, const struct xt_settings *s,
                                   const char *spec, struct xt_err *err)
{
    const char *model = s->network.model ? s->network.model : set->model ? set->model->name : NULL;
    enum xt_status status = xt_network_alphabet(&s->network, &set->alphabet, err);
    if (status)
        return status;
    if (!model)
        model =
            xt_source_guess_task(spec, set->alphabet) == XT_TASK_CLASSES ? "resnet50" : "lprnet";
    if (!set->loaded)
        status = xt_model_choose(model, s->network.image_size, &set->loaded, &set->model, err);
    if (!status && !set->model->time_steps) {
        xt_alphabet_destroy(set->alphabet);
        set->alphabet = NULL;
    }
    return status;
}

enum xt_status xt_image_set_open(struct xt_image_set *set, const struct xt_settings *s,
                                 const char *spec, struct xt_err *err)
{
    enum xt_status status = choose_model(set, s, spec, err);
    if (status)
        return status;
    struct xt_source_options options = {
        .task = set->model->time_steps ? XT_TASK_PLATES : XT_TASK_CLASSES,
        .alphabet = set->alphabet,
        .order = set->model->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB,
        .steps_max = set->model->time_steps,
        .held_out = set->held_out,
    };
    set->labels.status = XT_OK;
    status = xt_source_open(&set->source, spec, &options, &set->labels);
    if (!status)
        return XT_OK;
    /* Bad labels are a finding here, not an error. */
    options.labels_optional = true;
    if (s->data.strict || options.task == XT_TASK_CLASSES || status != XT_ERR_DATA ||
        xt_source_open(&set->source, spec, &options, err)) {
        *err = set->labels;
        return status;
    }
    return XT_OK;
}

int xt_image_set_symbols(const struct xt_image_set *set)
{
    return set->alphabet ? xt_alphabet_count(set->alphabet) : xt_source_class_count(set->source);
}

const char *xt_image_set_symbol(const struct xt_image_set *set, int index)
{
    return set->alphabet ? xt_alphabet_symbol(set->alphabet, index)
                         : xt_source_class_name(set->source, index);
}

/* A list cannot express a path with a tab or a newline, nor a class with trailing spaces. */
static enum xt_status check_line(const char *path, const char *class, struct xt_err *err)
{
    size_t length = class ? strlen(class) : 0;
    if (strpbrk(path, "\t\r\n"))
        return xt_err_set(err, XT_ERR_DATA,
                          "the path %s contains a tab or a newline, which a list cannot express; "
                          "rename it",
                          xt_str_quote(path, strlen(path)).text);
    if (length && class[length - 1] == ' ')
        return xt_err_set(
            err, XT_ERR_DATA,
            "the class \"%s\" ends in a space, which a list cannot express; rename it", class);
    return XT_OK;
}

/* An absolute path, in which a link has its own name: the label may be in it. */
static enum xt_status make_absolute(const char *name, char **out, struct xt_err *err)
{
    char *folder = NULL;
    enum xt_status status = xt_file_folder_of(&folder, name, err);
    char *whole = status || !xt_file_exists(name) ? NULL : realpath(folder, NULL);
    if (!status && !whole)
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s is not a file: only sets of image files can be split", name);
    if (!status)
        status = xt_file_join(out, whole, xt_file_name(name), err);
    free(whole);
    free(folder);
    return status;
}

enum xt_status xt_image_set_add_line(const struct xt_image_set *set, size_t index,
                                     struct xt_str *out, struct xt_err *err)
{
    char name[4096];
    int label[XT_LABEL_MAX];
    int length = 0;
    set->source->class->name(set->source, index, name, sizeof name);
    char *path = NULL;
    enum xt_status status = make_absolute(name, &path, err);
    if (!status)
        status = set->source->class->label(set->source, index, label, &length, err);
    bool labelled = !set->source->labels_in_names;
    bool class = labelled && !set->alphabet;
    if (!status)
        status = check_line(path, class ? xt_source_class_name(set->source, label[0]) : NULL, err);
    if (!status)
        xt_str_printf(out, NULL, "%s%s", path, labelled ? "\t" : "");
    free(path);
    if (status)
        return status;
    if (class)
        xt_str_printf(out, NULL, "%s", xt_source_class_name(set->source, label[0]));
    else if (labelled)
        xt_alphabet_decode(set->alphabet, label, length, out, NULL);
    return xt_str_append(out, "\n", 1, err);
}

enum xt_status xt_image_set_open_whole(struct xt_image_set *set, const struct xt_settings *s,
                                       const char *spec, const char *verb, struct xt_err *err)
{
    enum xt_status status = xt_image_set_open(set, s, spec, err);
    if (!status && set->source->class->draw)
        return xt_err_set(err, XT_ERR_USAGE, "%s is a mixture; %s each of its sources", spec, verb);
    if (!status && set->labels.status) {
        *err = set->labels;
        status = err->status;
    }
    return status;
}
