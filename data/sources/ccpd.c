/* CCPD's pictures: each shows a plate, which is rectified by its corners, or cropped by its box. */
#include "data/sources/ccpd.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/sources/index/files.h"
#include "data/sources/registry.h"

/* The folder of pictures without plates. */
static const char without_plates[] = "ccpd_np";

/* The symbols of a plate's numbers; the last of each table, O, means no symbol. */
static const char *const provinces[] = {"皖", "沪", "津", "渝", "冀", "晋", "蒙", "辽", "吉",
                                        "黑", "苏", "浙", "京", "闽", "赣", "鲁", "豫", "鄂",
                                        "湘", "粤", "桂", "琼", "川", "贵", "云", "藏", "陕",
                                        "甘", "青", "宁", "新", "警", "学"};
static const char letters[] = "ABCDEFGHJKLMNPQRSTUVWXYZ";
static const char letters_and_digits[] = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789";
enum {
    PROVINCES = sizeof provinces / sizeof provinces[0],
    LETTERS = sizeof letters - 1,
    LETTERS_AND_DIGITS = sizeof letters_and_digits - 1,
    SYMBOLS_LEAST = 7, /* green plates have 8 */
    SYMBOLS_MOST = 8,
    COORDINATE_MAX = 1000000,
};

/* ---- the name ---- */

/* A number and, unless it is 0, the character after it. */
static bool take_number(const char **at, char after, int *number)
{
    const char *start = *at;
    int value = 0;
    for (; **at >= '0' && **at <= '9'; ++*at)
        value = value <= COORDINATE_MAX ? value * 10 + (**at - '0') : value;
    *number = value;
    if (*at == start || (after && **at != after))
        return false;
    *at += after != 0;
    return true;
}

static bool take_point(const char **at, char after, struct xt_point *point)
{
    int x = 0;
    int y = 0;
    bool good = take_number(at, '&', &x) && take_number(at, after, &y) && x <= COORDINATE_MAX &&
                y <= COORDINATE_MAX;
    *point = (struct xt_point){x, y};
    return good;
}

static bool take_corners(const char **at, struct xt_corners *corners)
{
    return take_point(at, '_', &corners->right_bottom) &&
           take_point(at, '_', &corners->left_bottom) && take_point(at, '_', &corners->left_top) &&
           take_point(at, '-', &corners->right_top);
}

static bool take_places(const char **at, struct xt_ccpd_name *out)
{
    int ignored = 0;
    return take_number(at, '-', &ignored) && take_number(at, '_', &ignored) &&
           take_number(at, '-', &ignored) && take_point(at, '_', &out->box[0]) &&
           take_point(at, '-', &out->box[1]) && take_corners(at, &out->corners);
}

/* The plate's numbers; false if there are not 7 or 8. */
static bool take_plate(const char **at, int *numbers, int *count)
{
    for (*count = 0; *count < SYMBOLS_MOST;) {
        if (!take_number(at, 0, &numbers[(*count)++]))
            return false;
        if (**at != '_')
            break;
        ++*at;
    }
    return *count >= SYMBOLS_LEAST && *(*at)++ == '-';
}

static bool take_end(const char **at)
{
    int ignored = 0;
    return take_number(at, '-', &ignored) && take_number(at, '.', &ignored) && **at;
}

static enum xt_status spell(const int *numbers, int count, struct xt_ccpd_name *out,
                            struct xt_err *err)
{
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        int most = i == 0 ? PROVINCES : i == 1 ? LETTERS : LETTERS_AND_DIGITS;
        if (numbers[i] > most)
            return xt_err_set(err, XT_ERR_DATA,
                              "the plate's number %d is out of range: CCPD's go from 0 to %d there",
                              i + 1, most - 1);
        if (numbers[i] == most)
            return xt_err_set(err, XT_ERR_DATA,
                              "the plate's number %d is %d, which means that there is no symbol",
                              i + 1, numbers[i]);
        const char *symbol = i == 0   ? provinces[numbers[i]]
                             : i == 1 ? letters + numbers[i]
                                      : letters_and_digits + numbers[i];
        size_t size = i == 0 ? strlen(symbol) : 1;
        memcpy(out->plate + length, symbol, size);
        length += size;
    }
    out->plate[length] = '\0';
    return XT_OK;
}

enum xt_status xt_ccpd_read_name(const char *name, struct xt_ccpd_name *out, struct xt_err *err)
{
    const char *at = name;
    int numbers[SYMBOLS_MOST];
    int count = 0;
    *out = (struct xt_ccpd_name){0};
    if (!take_places(&at, out) || !take_plate(&at, numbers, &count) || !take_end(&at))
        return xt_err_set(err, XT_ERR_DATA,
                          "the name is not CCPD's, which goes "
                          "area-tilt_tilt-x&y_x&y-x&y_x&y_x&y_x&y-n_n_n_n_n_n_n-brightness-blur "
                          "(it differs from character %d on)",
                          (int)(at - name) + 1);
    return spell(numbers, count, out, err);
}

/* ---- the picture ---- */

/* How a plate is cropped from its picture. */
struct cut {
    /* The part of the picture that is needed; XT_ERR_DATA if the numbers in the name are
     * invalid. */
    enum xt_status (*find)(const struct xt_ccpd_name *name, struct xt_box *box, struct xt_err *err);
    /* Cuts the plate out: `place` in the decoded image is `box` in the picture. */
    enum xt_status (*take)(const struct xt_image *image, const struct xt_ccpd_name *name,
                           const struct xt_box *box, const struct xt_box *place,
                           struct xt_image *out, struct xt_err *err);
};

static struct xt_box box_around(const struct xt_point *points, size_t count)
{
    struct xt_point least = points[0];
    struct xt_point most = points[0];
    for (size_t i = 1; i < count; i++) {
        least = (struct xt_point){fmin(least.x, points[i].x), fmin(least.y, points[i].y)};
        most = (struct xt_point){fmax(most.x, points[i].x), fmax(most.y, points[i].y)};
    }
    return (struct xt_box){least.x, least.y, most.x - least.x, most.y - least.y};
}

static enum xt_status find_corners(const struct xt_ccpd_name *name, struct xt_box *box,
                                   struct xt_err *err)
{
    const struct xt_corners *q = &name->corners;
    const struct xt_point points[] = {q->left_top, q->right_top, q->right_bottom, q->left_bottom};
    *box = box_around(points, 4);
    if (xt_corners_are_convex(q))
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "the four corners in its name are not a plate's: they do not go round from "
                      "the right-bottom one over the left-bottom one");
}

static struct xt_point moved(struct xt_point point, const struct xt_box *from,
                             const struct xt_box *to)
{
    return (struct xt_point){point.x - from->left + to->left, point.y - from->top + to->top};
}

static enum xt_status take_upright(const struct xt_image *image, const struct xt_ccpd_name *name,
                                   const struct xt_box *box, const struct xt_box *place,
                                   struct xt_image *out, struct xt_err *err)
{
    const struct xt_corners there = {
        .left_top = moved(name->corners.left_top, box, place),
        .right_top = moved(name->corners.right_top, box, place),
        .right_bottom = moved(name->corners.right_bottom, box, place),
        .left_bottom = moved(name->corners.left_bottom, box, place),
    };
    return xt_straighten(image, &there, out, err);
}

static enum xt_status find_box(const struct xt_ccpd_name *name, struct xt_box *box,
                               struct xt_err *err)
{
    *box = box_around(name->box, 2);
    if (name->box[0].x < name->box[1].x && name->box[0].y < name->box[1].y)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA, "the box in its name has no size");
}

static enum xt_status take_as_it_is(const struct xt_image *image, const struct xt_ccpd_name *name,
                                    const struct xt_box *box, const struct xt_box *place,
                                    struct xt_image *out, struct xt_err *err)
{
    (void)name;
    enum xt_status status = xt_image_reserve(out, (int)box->width, (int)box->height, err);
    size_t row_bytes = (size_t)box->width * 3;
    for (size_t row = 0; !status && row < (size_t)box->height; row++) {
        size_t from = ((size_t)place->top + row) * (size_t)image->width + (size_t)place->left;
        memcpy(out->pixels + row * row_bytes, image->pixels + from * 3, row_bytes);
    }
    return status;
}

static const struct xt_source_form by_box;

static enum xt_status load(const struct xt_source_files *set, size_t index,
                           struct xt_decoder *decoder, struct xt_image *image, struct xt_err *err)
{
    static const struct cut corners_cut = {find_corners, take_upright};
    static const struct cut box_cut = {find_box, take_as_it_is};
    const struct cut *cut = set->form == &by_box ? &box_cut : &corners_cut;
    const char *path = set->files[index].path;
    struct xt_picture *picture = &decoder->picture;
    struct xt_ccpd_name name;
    struct xt_box box = {0};
    enum xt_status status = xt_ccpd_read_name(xt_file_name(path), &name, err);
    if (!status)
        status = cut->find(&name, &box, err);
    if (status)
        return xt_err_prefix(err, "%s: ", path);
    /* The request refers to the plate, not to the picture. */
    const struct xt_want want = {.width = (int)box.width, .height = (int)box.height, .box = &box};
    status = xt_decoder_load(decoder, path, set->options.order, &want, picture, err);
    if (status)
        return status;
    if (box.left + box.width > picture->width || box.top + box.height > picture->height)
        return xt_err_set(
            err, XT_ERR_DATA,
            "%s: its name gives the plate a corner at %.0f, %.0f, outside the picture of %d x %d",
            path, box.left + box.width, box.top + box.height, picture->width, picture->height);
    return cut->take(&picture->image, &name, &box, &picture->part, image, err);
}

static enum xt_status label_of(const char *name, char *label, size_t size, struct xt_err *err)
{
    struct xt_ccpd_name parsed;
    enum xt_status status = xt_ccpd_read_name(name, &parsed, err);
    if (!status)
        snprintf(label, size, "%s", parsed.plate);
    return status;
}

/* The pixels differ from those of cut=corners, so must the stamp. */
static uint64_t stamp_of_box(const struct xt_source_files *set, size_t index)
{
    const char *path = set->files[index].path;
    struct stat st;
    return stat(path, &st) == 0 ? xt_source_stamp_of(path, &st) + 1 : 0;
}

static const struct xt_source_form by_corners = {
    .label = label_of, .load = load, .skipped = without_plates};
static const struct xt_source_form by_box = {
    .label = label_of, .load = load, .stamp = stamp_of_box, .skipped = without_plates};

/* ---- the set ---- */

/* Cuts the settings off `path`. */
static enum xt_status read_settings(char *path, const struct xt_source_form **form,
                                    struct xt_err *err)
{
    char *settings = strrchr(path, '?');
    *form = &by_corners;
    if (!settings)
        return XT_OK;
    *settings++ = '\0';
    if (strcmp(settings, "cut=box") == 0)
        *form = &by_box;
    else if (strcmp(settings, "cut=corners") != 0)
        return xt_err_set(err, XT_ERR_USAGE,
                          "ccpd: has no setting \"%s\"; there are cut=corners (made upright) and "
                          "cut=box",
                          settings);
    return XT_OK;
}

/* CCPD's lists are in a folder of their own; their paths are relative to its parent. */
static enum xt_status start_of_paths(const char *list, char **out, struct xt_err *err)
{
    char line[4096] = "";
    int fd = -1;
    size_t list_size = 0;
    *out = NULL;
    enum xt_status status = xt_file_open(list, &fd, &list_size, err);
    if (status)
        return status;
    bool read = xt_file_read_at(fd, 0, line, list_size < sizeof line ? list_size : sizeof line - 1);
    close(fd);
    line[strcspn(line, "\t\r\n")] = '\0';
    size_t length = (size_t)(xt_file_name(list) - list);
    char *folder = strndup(length ? list : "./", length ? length : 2);
    char *beside = NULL;
    char *above = NULL;
    status = folder ? XT_OK : xt_err_no_memory(err, "a file name", length);
    if (!status)
        status = xt_file_join(&beside, folder, line, err);
    if (!status)
        status = xt_file_join(&above, folder, "..", err);
    if (!status && read && xt_file_exists(beside)) {
        free(above);
        above = NULL;
    }
    free(folder);
    free(beside);
    *out = above;
    return status;
}

static enum xt_status add_list(struct xt_source_files *set, const char *path, struct xt_err *err)
{
    char *folder = NULL;
    enum xt_status status = start_of_paths(path, &folder, err);
    if (!status)
        status = xt_source_files_add_list(set, path, folder, err);
    free(folder);
    return status;
}

static enum xt_status add_all(struct xt_source_files *set, const char *path, struct xt_err *err)
{
    struct stat st;
    if (stat(path, &st))
        return xt_source_not_found(path, errno, err);
    if (!S_ISDIR(st.st_mode))
        return add_list(set, path, err);
    enum xt_status status = xt_source_files_add_tree(set, path, err);
    return status ? status : xt_source_files_finish_tree(set, path, err);
}

static enum xt_status fill(struct xt_source_files *set, const char *spec, struct xt_err *err)
{
    char *path = NULL;
    if (set->options.task == XT_TASK_CLASSES)
        return xt_err_set(err, XT_ERR_USAGE,
                          "ccpd:%s has plates, but the network distinguishes classes", spec);
    enum xt_status status = xt_mem_strdup(&path, spec, err);
    if (!status)
        status = read_settings(path, &set->form, err);
    if (!status)
        status = add_all(set, path, err);
    set->base.labels_in_names = true;
    if (!status)
        snprintf(set->base.description, sizeof set->base.description,
                 "%s of CCPD (cut out by %s) in %.120s",
                 xt_count((long long)set->base.count, "plate").text,
                 set->form == &by_box ? "box" : "corners", path);
    xt_source_files_describe_others(set);
    free(path);
    return status;
}

const struct xt_source_kind xt_source_ccpd = {.prefix = "ccpd:", .fill = fill};
