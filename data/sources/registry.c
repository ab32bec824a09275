#include "data/sources/registry.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "data/sources/index/files.h"

/* In the order in which they are tried. */
static const struct xt_source_kind *const kinds[] = {
    &xt_source_plates, /* "synth:plates?count=N&seed=S&style=..." */
    &xt_source_shapes, /* "synth:shapes?count=N&seed=S&classes=C..." */
    &xt_source_ccpd,   /* "ccpd:" and a folder or list of CCPD's pictures, and perhaps "?cut=box" */
    &xt_source_cifar, /* CIFAR's batches, binary or pickled: a folder of them, one of them, or a tar
                         of them */
    &xt_source_tar,   /* shards: one tar, several ("x-{000..015}.tar"), or a folder of them */
    &xt_source_folder, /* plates: the label is the file name up to _ or .; classes: a folder each */
    &xt_source_mix,    /* a mixture of others: a .yaml file */
    &xt_source_single, /* one image, where labels are optional */
    &xt_source_list,   /* a text file: path, tab, label; relative paths start at its folder */
};

static const char made_prefix[] = "synth:";

/* The length of the kind's prefix in the spec; 0 if it has another. */
static size_t prefix_of(const struct xt_source_kind *kind, const char *spec)
{
    if (!kind->prefix || !xt_str_starts(spec, kind->prefix))
        return 0;
    size_t length = strlen(kind->prefix);
    char next = spec[length];
    return kind->prefix[length - 1] == ':' || next == '?' || next == '\0' ? length : 0;
}

/* The entry of `folder` whose name is nearest to `name`, or NULL. Release with free. */
static char *nearest_entry(const char *folder, const char *name)
{
    DIR *dir = opendir(folder);
    char *nearest = NULL;
    int best = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        const char *candidate = entry->d_name;
        if (candidate[0] == '.' || !xt_str_nearest(name, &candidate, 1))
            continue;
        int distance = xt_str_distance(name, candidate);
        if (nearest && distance >= best)
            continue;
        free(nearest);
        nearest = strdup(candidate);
        best = distance;
    }
    if (dir)
        closedir(dir);
    return nearest;
}

enum xt_status xt_source_not_found(const char *spec, int error, struct xt_err *err)
{
    if (xt_str_starts(spec, "synth") || xt_str_starts(spec, "plates"))
        return xt_err_set(
            err, XT_ERR_DATA,
            "there is no folder or file %s; synthetic plates are written synth:plates", spec);
    /* Trailing slashes would leave no name to compare. */
    size_t length = strlen(spec);
    while (length > 1 && spec[length - 1] == '/')
        length--;
    char *path = strndup(spec, length);
    const char *name = path ? xt_file_name(path) : "";
    size_t above = path ? (size_t)(name - path) : 0;
    char *folder = above ? strndup(spec, above) : strdup(".");
    char *nearest = folder ? nearest_entry(folder, name) : NULL;
    enum xt_status status =
        nearest ? xt_err_set(err, XT_ERR_DATA, "cannot open the data %s: %s; did you mean %.*s%s?",
                             spec, strerror(error), (int)above, spec, nearest)
                : xt_err_set(err, XT_ERR_DATA,
                             "cannot open the data %s: %s; give a folder of images, a list file or "
                             "synth:plates",
                             spec, strerror(error));
    free(nearest);
    free(folder);
    free(path);
    return status;
}

static enum xt_status not_made(const char *spec, enum xt_task task, struct xt_err *err)
{
    return xt_err_set(
        err, XT_ERR_USAGE, "%s is not known; %s", spec,
        task == XT_TASK_CLASSES
            ? "synthetic pictures with classes are synth:shapes?count=N&seed=S&classes=C"
            : "only plates are synthesized: synth:plates?count=N&seed=S&style=blue,green&hard=H");
}

static enum xt_status open_kind(struct xt_source **out, const char *spec,
                                const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    if (strpbrk(spec, XT_SPEC_AND))
        return xt_source_open_joined(out, spec, options, err);
    struct stat st = {0};
    int error = stat(spec, &st) ? errno : 0;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const struct xt_source_kind *kind = kinds[i];
        bool is_path = kind->is && kind->is(spec, error ? 0 : st.st_mode, options->task);
        size_t prefix = prefix_of(kind, spec);
        if (is_path || prefix)
            return kind->fill ? xt_source_files_open(out, kind->fill, spec + prefix, options, err)
                              : kind->open(out, spec + prefix, options, err);
    }
    if (xt_str_starts(spec, made_prefix))
        return not_made(spec, options->task, err);
    if (error)
        return xt_source_not_found(spec, error, err);
    return xt_err_set(
        err, XT_ERR_DATA,
        "%s is neither a folder of images nor a list file: it is a device, pipe or socket", spec);
}

/* ---- plates or classes ---- */

/* Whether a label looks like a plate, and not like a word or a number: letters and digits. */
static bool is_like_plate(const struct xt_alphabet *alphabet, const int *symbols, int length)
{
    enum { SHORTEST = 5 };
    int digits = 0;
    for (int i = 0; i < length; i++) {
        const char *symbol = xt_alphabet_symbol(alphabet, symbols[i]);
        digits += symbol[0] >= '0' && symbol[0] <= '9';
    }
    return length >= SHORTEST && digits && digits < length;
}

/* Whether the classes are the plates of a list: nearly one class per image. */
static bool classes_are_plates(const struct xt_source *source, const struct xt_alphabet *alphabet)
{
    enum { IMAGES_A_PLATE = 4 };
    int plates = 0;
    for (int i = 0; i < source->class_count; i++) {
        int symbols[XT_LABEL_MAX];
        int length = 0;
        struct xt_err why;
        const char *name = source->class_names[i];
        plates += !xt_alphabet_encode(alphabet, name, strlen(name), symbols, XT_LABEL_MAX, &length,
                                      &why) &&
                  is_like_plate(alphabet, symbols, length);
    }
    return plates > source->class_count / 2 &&
           source->count <= (size_t)source->class_count * IMAGES_A_PLATE;
}

static bool labels_are_plates(const struct xt_source *source, const struct xt_alphabet *alphabet)
{
    enum { LOOKS = 1000 };
    size_t looks = source->count < LOOKS ? source->count : LOOKS;
    size_t plates = 0;
    for (size_t i = 0; i < looks; i++) {
        int symbols[XT_LABEL_MAX];
        int length = 0;
        struct xt_err why;
        if (!source->class->label(source, source->count / looks * i, symbols, &length, &why))
            plates += is_like_plate(alphabet, symbols, length);
    }
    return plates > looks / 2;
}

/* Whether the set opens for the other task, and its labels fit that. */
static bool opens_as(enum xt_task task, const char *spec, const struct xt_alphabet *alphabet)
{
    struct xt_source_options options = {.task = task, .alphabet = alphabet};
    struct xt_source *source = NULL;
    struct xt_err why;
    bool is = !open_kind(&source, spec, &options, &why) &&
              (task == XT_TASK_PLATES ? labels_are_plates(source, alphabet)
                                      : !classes_are_plates(source, alphabet));
    xt_source_destroy(source);
    return is;
}

/* If some labels look like plates, the number of those that do not is irrelevant. */
static bool has_plates(const char *spec, const struct xt_alphabet *alphabet)
{
    struct xt_source_options options = {.alphabet = alphabet, .labels_optional = true};
    struct xt_source *source = NULL;
    struct xt_err why;
    bool has = !open_kind(&source, spec, &options, &why) && labels_are_plates(source, alphabet);
    xt_source_destroy(source);
    return has;
}

/* Whether the images are more likely meant for the other task; `source` is NULL if they could not
 * be opened. */
static bool is_for_other_task(const char *spec, const struct xt_source_options *options,
                              const struct xt_source *source, const struct xt_alphabet *alphabet)
{
    if (options->task == XT_TASK_CLASSES)
        return source ? classes_are_plates(source, alphabet)
                      : opens_as(XT_TASK_PLATES, spec, alphabet);
    /* A list states its labels; folders may hold anything. */
    return xt_file_is_folder(spec) &&
           !(source ? labels_are_plates(source, alphabet) : has_plates(spec, alphabet)) &&
           opens_as(XT_TASK_CLASSES, spec, alphabet);
}

enum xt_status xt_source_open(struct xt_source **out, const char *spec,
                              const struct xt_source_options *options, struct xt_err *err)
{
    enum xt_status status = open_kind(out, spec, options, err);
    if (options->labels_optional || options->class_count || (status && status != XT_ERR_DATA) ||
        strpbrk(spec, XT_SPEC_AND))
        return status;
    struct xt_alphabet *own = NULL;
    struct xt_err why;
    if (!options->alphabet && xt_alphabet_load(&own, NULL, &why))
        return status;
    const struct xt_alphabet *alphabet = options->alphabet ? options->alphabet : own;
    const char *hint = options->task == XT_TASK_CLASSES
                           ? "if the labels are plates, give --model lprnet"
                           : "if there is a folder for each class, give --model resnet50";
    bool other = is_for_other_task(spec, options, *out, alphabet);
    xt_alphabet_destroy(own);
    if (other && status) {
        why = *err;
        return xt_err_set(err, status, "%.900s; %s", why.text, hint);
    }
    if (other)
        xt_log_warn("%s: %s", spec, hint);
    return status;
}

enum xt_task xt_source_guess_task(const char *spec, const struct xt_alphabet *alphabet)
{
    struct xt_alphabet *own = NULL;
    struct xt_err why;
    char *first = strndup(spec, strcspn(spec, XT_SPEC_AND));
    bool known = alphabet || !xt_alphabet_load(&own, NULL, &why);
    bool is = first && known && opens_as(XT_TASK_CLASSES, first, alphabet ? alphabet : own);
    xt_alphabet_destroy(own);
    free(first);
    return is ? XT_TASK_CLASSES : XT_TASK_PLATES;
}

struct xt_specs_shown xt_source_specs_shown(const char *specs)
{
    struct xt_specs_shown shown = {.text = ""};
    for (const char *at = specs; *at;) {
        size_t length = strcspn(at, XT_SPEC_AND);
        xt_str_append_to(shown.text, sizeof shown.text, "%s%.*s", at > specs ? ", " : "",
                         (int)length, at);
        at += length + (at[length] != '\0');
    }
    return shown;
}

/* Appends one, resolved. */
static void resolve(struct xt_str *out, const char *path, const char *spec, size_t length)
{
    size_t prefix = 0;
    bool is_made = xt_str_starts(spec, made_prefix);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !prefix && !is_made; i++)
        prefix = prefix_of(kinds[i], spec);
    int folder = is_made || spec[prefix] == '/' ? 0 : (int)(xt_file_name(path) - path);
    xt_str_printf(out, NULL, "%.*s%.*s%.*s", (int)prefix, spec, folder, path,
                  (int)(length - prefix), spec + prefix);
}

enum xt_status xt_source_spec_from(char **out, const char *path, const char *spec,
                                   struct xt_err *err)
{
    struct xt_str all = {0};
    for (const char *at = spec; *at;) {
        size_t length = strcspn(at, XT_SPEC_AND);
        xt_str_printf(&all, NULL, "%s", at > spec ? XT_SPEC_AND : "");
        resolve(&all, path, at, length);
        at += length + (at[length] != '\0');
    }
    enum xt_status status = xt_str_check(&all, err);
    if (status)
        xt_str_clear(&all);
    *out = all.data;
    return status;
}
