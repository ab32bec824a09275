/* A set of images that is looked at before any network is trained on it: data check, data split,
 * data pack, try. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/settings.h"
#include "data/sources/source.h"
#include "models/loaded.h"

/* The images, and the model or alphabet of their labels. Zeroed is empty; clear it also after a
 * failure. */
struct xt_image_set {
    const struct xt_model_info *model;
    struct xt_loaded_model *loaded; /* of a weight file, else NULL */
    struct xt_alphabet *alphabet;   /* of plates, else NULL */
    struct xt_source *source;
    bool held_out;        /* of a set with both parts: use the one for evaluation */
    struct xt_err labels; /* the result of opening it strictly; XT_OK: all labels are good */
};

/* Without --model, and with `model` NULL, the labels say whether they are classes or plates. Labels
 * of plates that cannot be used are no failure, but a finding. */
enum xt_status xt_image_set_open(struct xt_image_set *set, const struct xt_settings *s,
                                 const char *spec, struct xt_err *err);
/* A set whose labels are all good, and that is not a mixture; `verb` is what is to be done with it.
 */
enum xt_status xt_image_set_open_whole(struct xt_image_set *set, const struct xt_settings *s,
                                       const char *spec, const char *verb, struct xt_err *err);
void xt_image_set_clear(struct xt_image_set *set);

/* The symbols of the alphabet, or the classes. */
int xt_image_set_symbols(const struct xt_image_set *set);
const char *xt_image_set_symbol(const struct xt_image_set *set, int index);

/* Appends a sample's line of a list: the absolute path, so that the list may be anywhere. */
enum xt_status xt_image_set_add_line(const struct xt_image_set *set, size_t index,
                                     struct xt_str *out, struct xt_err *err);
