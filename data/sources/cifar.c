/* CIFAR's batches (Krizhevsky 2009), 32 x 32 bytes each of red, green and blue for an image. The
 * binary version has records of a label byte (CIFAR-100: a coarse and a fine one) and an image; the
 * Python version, which torchvision fetches, has pickles (cifar_pickle.h). Images are read from
 * files on demand; the contents of a tar are held in memory. All labels are read when the set is
 * opened. */
#include <archive_entry.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "data/classes.h"
#include "data/sources/archive.h"
#include "data/sources/cifar_pickle.h"
#include "data/sources/registry.h"
#include "data/sources/tar_reader.h"

enum {
    SIDE = 32,
    PLANE = SIDE * SIDE,
    IMAGE = 3 * PLANE,
    PICKLE_BYTES_MAX = 1 << 29,
    NAMES_BYTES_MAX = 1 << 20,
    BATCHES_MAX = 1000,
};

/* The two sets in two versions: their file names, and the layout of a record. */
struct kind {
    const char *title;
    const char *version;
    const char *train;
    const char *test;
    const char *names;      /* the file of class names */
    const char *labels_key; /* in a pickle; NULL: records */
    const char *names_key;
    int label_bytes; /* of a record */
    int classes;
};

static const struct kind kinds[] = {
    {"CIFAR-10", "binary", "data_batch_*.bin", "test_batch.bin", "batches.meta.txt", NULL, NULL, 1,
     10},
    {"CIFAR-100", "binary", "train.bin", "test.bin", "fine_label_names.txt", NULL, NULL, 2, 100},
    {"CIFAR-10", "Python", "data_batch_[0-9]", "test_batch", "batches.meta", "labels",
     "label_names", 0, 10},
    {"CIFAR-100", "Python", "train", "test", "meta", "fine_labels", "fine_label_names", 0, 100},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* How torchvision and the archives call the folders and the archives themselves. */
static const struct {
    const char *name;
    const char *set;
} usual_names[] = {
    {"cifar-10-batches-py", "CIFAR-10"},      {"cifar-10-batches-bin", "CIFAR-10"},
    {"cifar-10-python.tar.gz", "CIFAR-10"},   {"cifar-10-binary.tar.gz", "CIFAR-10"},
    {"cifar-100-python", "CIFAR-100"},        {"cifar-100-binary", "CIFAR-100"},
    {"cifar-100-python.tar.gz", "CIFAR-100"}, {"cifar-100-binary.tar.gz", "CIFAR-100"},
};

static const char *const cifar10_names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                            "dog",      "frog",       "horse", "ship", "truck"};

/* One file. */
struct batch {
    char *path;
    int fd;         /* -1: in memory, at `bytes` */
    uint8_t *bytes; /* of a tar's member */
    size_t size;
    size_t first;    /* the index of its first image in the set */
    size_t count;    /* of its images */
    uint8_t *labels; /* of a pickle; NULL: records, each with its own */
    size_t pixels_at;
    bool test;
};

struct cifar {
    struct xt_source base;
    const struct kind *kind;
    enum xt_pixel_order order;
    struct batch *batches;
    size_t batch_count;
    uint8_t *labels;       /* in the order of the records */
    uint16_t classes[256]; /* by the value of the label byte */
    char *names;           /* the text of the file of names, or NULL */
    size_t room;           /* bytes that a tar may still unpack to */
};

static size_t record_size(const struct kind *kind)
{
    return (size_t)kind->label_bytes + IMAGE;
}

/* The kind by a file's name; *test is set. NULL if it is not a batch. */
static const struct kind *kind_of(const char *name, bool *test)
{
    for (size_t i = 0; i < KINDS; i++) {
        *test = strcmp(name, kinds[i].test) == 0;
        if (*test || fnmatch(kinds[i].train, name, 0) == 0)
            return kinds + i;
    }
    return NULL;
}

/* The kind of the file at `path`. The names of the Python version may mean anything, so the file
 * has to begin as a pickle. */
static const struct kind *kind_of_file(const char *path, bool *test)
{
    const struct kind *kind = kind_of(xt_file_name(path), test);
    uint8_t byte = 0;
    int fd = -1;
    size_t size = 0;
    struct xt_err why;
    if (!kind || !kind->labels_key)
        return kind;
    bool is_pickle =
        !xt_file_open(path, &fd, &size, &why) && xt_file_read_at(fd, 0, &byte, 1) && byte == 0x80;
    if (fd >= 0)
        close(fd);
    return is_pickle ? kind : NULL;
}

/* As kind_of, of a path in a tar, where "train" alone may mean anything. */
static const struct kind *kind_of_member(const char *path, bool *test)
{
    const struct kind *kind = kind_of(xt_file_name(path), test);
    bool is_vague = kind && kind->labels_key && kind->classes == 100;
    return is_vague && !strstr(path, "cifar-100-python/") ? NULL : kind;
}

/* Whether the folder itself holds batches. */
static bool is_folder_of_batches(const char *folder)
{
    struct xt_file_list list = {0};
    struct xt_err why;
    bool found = false;
    bool test;
    if (!xt_file_list_folder(&list, folder, &why))
        for (size_t i = 0; i < list.count && !found; i++)
            found = kind_of_file(list.paths[i], &test) != NULL;
    xt_file_list_clear(&list);
    return found;
}

/* The folder or archive of batches in a folder that holds one of them under its usual name, as
 * torchvision's root does; *out (release with free) is NULL where there is none. Two sets are an
 * error. */
static enum xt_status find_below(char **out, const char *folder, struct xt_err *err)
{
    const char *set = NULL;
    enum xt_status status = XT_OK;
    *out = NULL;
    for (size_t i = 0; i < sizeof usual_names / sizeof *usual_names && !status; i++) {
        char *path = NULL;
        status = xt_file_join(&path, folder, usual_names[i].name, err);
        if (!status && set != usual_names[i].set && xt_file_exists(path)) {
            if (set)
                status =
                    xt_err_set(err, XT_ERR_DATA, "%s holds CIFAR-10 and CIFAR-100; give %s or %s",
                               folder, *out, path);
            if (!set)
                *out = path;
            set = usual_names[i].set;
        }
        if (path != *out)
            free(path);
    }
    if (status) {
        free(*out);
        *out = NULL;
    }
    return status;
}

static bool is_folder(const char *folder)
{
    struct xt_err why;
    char *below = NULL;
    if (is_folder_of_batches(folder))
        return true;
    bool found = find_below(&below, folder, &why) || below;
    free(below);
    return found;
}

static enum xt_status bad_archive(struct archive *archive, const char *path, struct xt_err *err)
{
    const char *reason = archive_error_string(archive);
    return xt_err_set(err, XT_ERR_DATA, "%s cannot be read as a tar: %s", path,
                      reason ? reason : "it is damaged");
}

/* Opens a tar, compressed or not, into *out; archive_read_free it also after a failure. */
static enum xt_status open_tar(struct archive **out, const char *path, struct xt_err *err)
{
    *out = archive_read_new();
    if (!*out)
        return xt_err_no_memory(err, "a reader of archives", 0);
    archive_read_support_format_tar(*out);
    xt_archive_allow_filters(*out);
    return archive_read_open_filename(*out, path, 1 << 16) == ARCHIVE_OK
               ? XT_OK
               : bad_archive(*out, path, err);
}

/* Scanned up to the first batch. */
static bool is_tar_of_batches(const char *path)
{
    struct archive *archive = NULL;
    struct archive_entry *entry = NULL;
    struct xt_err why;
    bool found = false;
    bool other = open_tar(&archive, path, &why) != XT_OK;
    while (!found && !other && archive_read_next_header(archive, &entry) == ARCHIVE_OK) {
        const char *name = archive_entry_pathname(entry);
        bool test;
        found = name && kind_of_member(name, &test);
        other = name && (xt_image_is_name(name) || xt_str_ends(name, ".cls"));
    }
    archive_read_free(archive);
    return found;
}

static void drop_batch(struct batch *batch)
{
    if (batch->fd >= 0)
        close(batch->fd);
    free(batch->bytes);
    free(batch->labels);
    free(batch->path);
}

/* Labels and the place of the pixels, if the batch is a pickle; `bytes` are the file's. */
static enum xt_status read_pickle(struct batch *batch, const struct kind *kind,
                                  const uint8_t *bytes, struct xt_err *err)
{
    struct xt_cifar_pickle pickle;
    if (!kind->labels_key)
        return XT_OK;
    enum xt_status status =
        xt_cifar_pickle_read(&pickle, bytes, batch->size, kind->labels_key, IMAGE, err);
    if (status == XT_ERR_DATA)
        return xt_err_prefix(err, "%s: ", batch->path);
    batch->labels = pickle.labels;
    batch->count = pickle.count;
    batch->pixels_at = pickle.pixels_at;
    return status;
}

static enum xt_status read_pickle_file(struct batch *batch, const struct kind *kind,
                                       struct xt_err *err)
{
    struct xt_bytes bytes = {0};
    if (!kind->labels_key)
        return XT_OK;
    enum xt_status status = xt_file_load(batch->path, PICKLE_BYTES_MAX, &bytes, err);
    batch->size = bytes.size;
    if (!status)
        status = read_pickle(batch, kind, bytes.data, err);
    free(bytes.data);
    return status;
}

/* Takes over what the batch owns. */
static enum xt_status add_batch(struct cifar *set, const struct kind *kind, struct batch batch,
                                struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (set->kind && set->kind != kind)
        status = xt_err_set(
            err, XT_ERR_DATA,
            "%s lies among batches of %s (%s version), but is named as those of %s (%s version); "
            "put each in a folder of its own",
            batch.path, set->kind->title, set->kind->version, kind->title, kind->version);
    else if (set->batch_count >= BATCHES_MAX)
        status = xt_err_set(err, XT_ERR_DATA, "%s: more than %d batches", batch.path, BATCHES_MAX);
    if (!status)
        status = xt_mem_add(&set->batches, set->batch_count, sizeof *set->batches,
                            "a list of batches", err);
    if (status) {
        drop_batch(&batch);
        return status;
    }
    set->kind = kind;
    set->batches[set->batch_count++] = batch;
    return XT_OK;
}

static enum xt_status add_file(struct cifar *set, const struct kind *kind, const char *path,
                               bool test, struct xt_err *err)
{
    struct batch batch = {.test = test, .fd = -1};
    enum xt_status status = xt_file_open(path, &batch.fd, &batch.size, err);
    if (status)
        return status;
    status = xt_mem_strdup(&batch.path, path, err);
    if (!status)
        status = read_pickle_file(&batch, kind, err);
    if (!status)
        return add_batch(set, kind, batch, err);
    drop_batch(&batch);
    return status;
}

/* Takes the file of names, `size` bytes and a terminating zero. */
static enum xt_status take_names(struct cifar *set, const struct kind *kind, const char *path,
                                 uint8_t *text, size_t size, struct xt_err *err)
{
    char *names = (char *)text;
    enum xt_status status = XT_OK;
    if (kind->names_key) {
        status = xt_cifar_pickle_names(&names, text, size, kind->names_key, err);
        free(text);
    }
    if (status)
        return status == XT_ERR_DATA ? xt_err_prefix(err, "%s: ", path) : status;
    free(set->names);
    set->names = names;
    return XT_OK;
}

static enum xt_status read_names(struct cifar *set, const char *path, struct xt_err *err)
{
    struct xt_bytes text = {0};
    enum xt_status status = xt_file_load(path, NAMES_BYTES_MAX, &text, err);
    return status ? status : take_names(set, set->kind, path, text.data, text.size, err);
}

static enum xt_status refuse_empty(const char *path, struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_DATA,
                      "%s holds no CIFAR batches (data_batch_*.bin, test_batch.bin, train.bin, "
                      "test.bin, or those without .bin)",
                      path);
}

static enum xt_status read_folder(struct cifar *set, const char *folder, struct xt_err *err)
{
    struct xt_file_list list = {0};
    enum xt_status status = xt_file_list_folder(&list, folder, err);
    for (size_t i = 0; i < list.count && !status; i++) {
        bool test;
        const struct kind *kind = kind_of_file(list.paths[i], &test);
        if (kind)
            status = add_file(set, kind, list.paths[i], test, err);
    }
    xt_file_list_clear(&list);
    if (status || !set->kind)
        return status ? status : refuse_empty(folder, err);
    const struct xt_path names = xt_file_path(folder, set->kind->names);
    if (xt_file_exists(names.text))
        status = read_names(set, names.text, err);
    return status;
}

/* A single batch, whatever its name: its length determines the kind. */
static enum xt_status read_single(struct cifar *set, const char *path, struct xt_err *err)
{
    bool test = false;
    const struct kind *kind = kind_of_file(path, &test);
    struct stat st;
    if (!kind && stat(path, &st) == 0 && (size_t)st.st_size % record_size(&kinds[1]) == 0)
        kind = &kinds[1];
    return add_file(set, kind ? kind : &kinds[0], path, false, err);
}

/* The member's bytes and a terminating zero. */
static enum xt_status read_member(struct archive *archive, const char *path, const char *name,
                                  size_t limit, uint8_t **bytes, size_t *size, struct xt_err *err)
{
    enum { STEP = 1 << 20 };
    size_t capacity = 0;
    *bytes = NULL;
    *size = 0;
    for (;;) {
        enum xt_status status =
            xt_mem_grow(bytes, &capacity, *size + STEP + 1, 1, "a batch of a tar", err);
        if (status)
            return status;
        ssize_t got = archive_read_data(archive, *bytes + *size, STEP);
        if (got < 0)
            return bad_archive(archive, path, err);
        if (got == 0)
            break;
        *size += (size_t)got;
        if (*size > limit)
            return xt_err_set(err, XT_ERR_DATA,
                              "%s: up to %s it takes too much memory once it is unpacked; unpack "
                              "it on disk (tar xf) and give the folder",
                              path, name);
    }
    (*bytes)[*size] = '\0';
    return XT_OK;
}

static enum xt_status add_member(struct cifar *set, struct archive *archive, const char *path,
                                 const char *member, struct xt_err *err)
{
    const char *name = xt_file_name(member);
    bool test = false;
    const struct kind *names = NULL;
    const struct kind *kind = kind_of_member(member, &test);
    for (size_t i = 0; i < KINDS; i++)
        if (strcmp(name, kinds[i].names) == 0)
            names = &kinds[i];
    if (!kind && !names)
        return XT_OK;
    struct batch batch = {.fd = -1, .test = test};
    enum xt_status status = read_member(archive, path, name, names ? NAMES_BYTES_MAX : set->room,
                                        &batch.bytes, &batch.size, err);
    if (!status && names)
        return take_names(set, names, path, batch.bytes, batch.size, err);
    if (!status && asprintf(&batch.path, "%s:%s", path, member) < 0) {
        batch.path = NULL;
        status = xt_err_no_memory(err, "a file name", strlen(member));
    }
    set->room -= status ? 0 : batch.size;
    if (!status)
        status = read_pickle(&batch, kind, batch.bytes, err);
    if (!status)
        return add_batch(set, kind, batch, err);
    drop_batch(&batch);
    return status;
}

static int compare_batches(const void *a, const void *b)
{
    return strcmp(((const struct batch *)a)->path, ((const struct batch *)b)->path);
}

static enum xt_status read_tar(struct cifar *set, const char *path, struct xt_err *err)
{
    struct archive *archive = NULL;
    struct stat st;
    enum xt_status status = open_tar(&archive, path, err);
    set->room = xt_archive_unpacked_most(stat(path, &st) ? 0 : (uint64_t)st.st_size);
    while (!status) {
        struct archive_entry *entry = NULL;
        int got = archive_read_next_header(archive, &entry);
        if (got == ARCHIVE_EOF)
            break;
        const char *member = got == ARCHIVE_OK ? archive_entry_pathname(entry) : NULL;
        if (!member)
            status = bad_archive(archive, path, err);
        else if (archive_entry_filetype(entry) == AE_IFREG)
            status = add_member(set, archive, path, member, err);
    }
    archive_read_free(archive);
    if (!status && set->batch_count == 0)
        return refuse_empty(path, err);
    if (!status)
        qsort(set->batches, set->batch_count, sizeof *set->batches, compare_batches);
    return status;
}

/* Of a set with both parts one is used; otherwise all batches. */
static void choose_part(struct cifar *set, bool held_out)
{
    size_t wanted = 0;
    for (size_t i = 0; i < set->batch_count; i++)
        wanted += set->batches[i].test == held_out;
    if (wanted == 0)
        return;
    set->base.has_other_part = wanted < set->batch_count;
    size_t used = 0;
    for (size_t i = 0; i < set->batch_count; i++) {
        if (set->batches[i].test == held_out)
            set->batches[used++] = set->batches[i];
        else
            drop_batch(set->batches + i);
    }
    set->batch_count = used;
}

/* The number of its images, checked. */
static enum xt_status count_images(const struct cifar *set, struct batch *batch, struct xt_err *err)
{
    size_t record = record_size(set->kind);
    if (batch->labels)
        return XT_OK;
    batch->count = batch->size / record;
    batch->pixels_at = (size_t)set->kind->label_bytes;
    if (batch->size && batch->size % record == 0)
        return XT_OK;
    const struct kind *other = kinds + (set->kind == kinds);
    bool is_other = batch->size && batch->size % record_size(other) == 0;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s has %zu bytes, which is not a whole number of %s's records of %zu bytes; "
                      "%s%s",
                      batch->path, batch->size, set->kind->title, record,
                      is_other ? "it may be a batch of " : "it is damaged or cut short",
                      is_other ? other->title : "");
}

/* `count` bytes at `offset` of record `number`. */
static enum xt_status read_record(const struct cifar *set, const struct batch *batch, size_t number,
                                  size_t offset, uint8_t *bytes, size_t count, struct xt_err *err)
{
    size_t at = number * record_size(set->kind) + offset;
    if (batch->fd < 0) {
        memcpy(bytes, batch->bytes + at, count);
        return XT_OK;
    }
    if (xt_file_read_at(batch->fd, at, bytes, count))
        return XT_OK;
    return xt_err_system(err, XT_ERR_DATA, "cannot read record %zu of %s", number, batch->path);
}

static enum xt_status read_label(const struct cifar *set, const struct batch *batch, size_t number,
                                 uint8_t *label, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (batch->labels)
        *label = batch->labels[number];
    else
        status = read_record(set, batch, number, (size_t)set->kind->label_bytes - 1, label, 1, err);
    if (!status && *label >= set->kind->classes)
        return xt_err_set(err, XT_ERR_DATA,
                          "record %zu of %s has the label %d, which is out of range: %s's go "
                          "from 0 to %d",
                          number, batch->path, *label, set->kind->title, set->kind->classes - 1);
    return status;
}

static enum xt_status read_labels(struct cifar *set, struct xt_err *err)
{
    size_t count = 0;
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < set->batch_count && !status; i++) {
        set->batches[i].first = count;
        status = count_images(set, set->batches + i, err);
        count += set->batches[i].count;
    }
    if (!status)
        status = xt_mem_calloc(&set->labels, count, 1, "labels", err);
    if (status)
        return status;
    set->base.count = count;
    for (size_t b = 0; b < set->batch_count; b++)
        for (size_t i = 0; i < set->batches[b].count && !status; i++)
            status =
                read_label(set, set->batches + b, i, set->labels + set->batches[b].first + i, err);
    return status;
}

/* The name of class `index`: from the file, CIFAR-10's built-in one, or its number. */
static struct xt_str class_name(const struct cifar *set, int index, const char **text)
{
    struct xt_str name = {0};
    const char *line = set->names;
    for (int i = 0; i < index && line; i++) {
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    size_t length = line ? strcspn(line, "\r\n") : 0;
    if (length)
        xt_str_append(&name, line, length, NULL);
    else if (set->kind->classes == 10)
        xt_str_append(&name, cifar10_names[index], strlen(cifar10_names[index]), NULL);
    else
        xt_str_printf(&name, NULL, "%d", index);
    *text = xt_str_get(&name);
    return name;
}

static enum xt_status name_classes(struct cifar *set, const char *path,
                                   const struct xt_source_options *options, struct xt_err *err)
{
    struct xt_classes classes;
    enum xt_status status = xt_classes_init(&classes, options, err);
    for (int i = 0; i < set->kind->classes && !status; i++) {
        const char *text;
        int class = i;
        struct xt_str name = class_name(set, i, &text);
        /* If only a count of classes is given, labels are the class indices. */
        if (options->class_names || !options->class_count)
            status = xt_classes_add(&classes, text, strlen(text), &class, err);
        else if (i >= options->class_count)
            status = xt_err_set(err, XT_ERR_DATA,
                                "the label %d is out of range: %s has %d classes, the network %d",
                                i, set->kind->title, set->kind->classes, options->class_count);
        if (status)
            xt_err_prefix(err, "%s: ", path);
        set->classes[i] = (uint16_t) class;
        xt_str_clear(&name);
    }
    if (!status && !classes.fixed && classes.count != set->kind->classes)
        status = xt_err_set(err, XT_ERR_DATA, "%s: a class is named twice in %s", path,
                            set->kind->names);
    if (!status)
        status = xt_classes_move(&classes, &set->base, path, err);
    xt_classes_clear(&classes);
    return status;
}

static enum xt_status cifar_label(const struct xt_source *source, size_t index, int *label,
                                  int *length, struct xt_err *err)
{
    (void)err;
    const struct cifar *set = (const struct cifar *)source;
    label[0] = set->classes[set->labels[index]];
    *length = 1;
    return XT_OK;
}

static const struct batch *batch_of(const struct cifar *set, size_t index)
{
    const struct batch *batch = set->batches + set->batch_count - 1;
    while (batch->first > index)
        batch--;
    return batch;
}

static enum xt_status cifar_read(const struct xt_source *source, size_t index,
                                 const struct xt_want *want, struct xt_decoder *decoder,
                                 struct xt_sample *sample, struct xt_err *err)
{
    (void)decoder;
    const struct cifar *set = (const struct cifar *)source;
    const struct batch *batch = batch_of(set, index);
    uint8_t red[IMAGE];
    enum xt_status status = xt_image_reserve(&sample->picture.image, SIDE, SIDE, err);
    if (!status)
        status = read_record(set, batch, index - batch->first, batch->pixels_at, red, IMAGE, err);
    if (status)
        return status;
    const uint8_t *planes[3] = {red, red + PLANE, red + (size_t)2 * PLANE};
    if (set->order == XT_PIXEL_BGR) {
        planes[0] = planes[2];
        planes[2] = red;
    }
    for (size_t i = 0; i < PLANE; i++)
        for (size_t c = 0; c < 3; c++)
            sample->picture.image.pixels[3 * i + c] = planes[c][i];
    xt_picture_whole(&sample->picture, want);
    return cifar_label(source, index, sample->label, &sample->label_length, err);
}

static void cifar_name(const struct xt_source *source, size_t index, char *out, size_t size)
{
    const struct cifar *set = (const struct cifar *)source;
    const struct batch *batch = batch_of(set, index);
    snprintf(out, size, "%s #%zu", batch->path, index - batch->first);
}

/* A stamp of the batch's file, or of its member's bytes as read. */
static uint64_t cifar_stamp(const struct xt_source *source, size_t index)
{
    const struct cifar *set = (const struct cifar *)source;
    const struct batch *batch = batch_of(set, index);
    struct stat st = {.st_size = (off_t)batch->size};
    if (batch->fd >= 0 && fstat(batch->fd, &st))
        return 0;
    return xt_source_stamp_of(batch->path, &st) + index - batch->first;
}

static void cifar_destroy(struct xt_source *source)
{
    struct cifar *set = (struct cifar *)source;
    for (size_t i = 0; i < set->batch_count; i++)
        drop_batch(set->batches + i);
    free(set->batches);
    free(set->labels);
    free(set->names);
    xt_classes_free_names(source);
    free(set);
}

static const struct xt_source_class cifar_class = {.read = cifar_read,
                                                   .label = cifar_label,
                                                   .name = cifar_name,
                                                   .stamp = cifar_stamp,
                                                   .destroy = cifar_destroy};

static enum xt_status read_path(struct cifar *set, const char *path, struct xt_err *err)
{
    return xt_file_is_folder(path) ? read_folder(set, path, err)
           : xt_tar_is_name(path)  ? read_tar(set, path, err)
                                   : read_single(set, path, err);
}

static enum xt_status open_set(struct cifar *set, const char *path,
                               const struct xt_source_options *options, struct xt_err *err)
{
    char *below = NULL;
    enum xt_status status = XT_OK;
    if (xt_file_is_folder(path) && !is_folder_of_batches(path))
        status = find_below(&below, path, err);
    if (!status)
        status = read_path(set, below ? below : path, err);
    free(below);
    if (status)
        return status;
    choose_part(set, options->held_out);
    status = read_labels(set, err);
    return status ? status : name_classes(set, path, options, err);
}

static bool is(const char *path, mode_t mode, enum xt_task task)
{
    bool test;
    if (task != XT_TASK_CLASSES)
        return false;
    if (S_ISDIR(mode))
        return is_folder(path);
    return S_ISREG(mode) &&
           (xt_tar_is_name(path) ? is_tar_of_batches(path)
                                 : xt_str_ends(path, ".bin") || kind_of_file(path, &test) != NULL);
}

static enum xt_status open_cifar(struct xt_source **out, const char *path,
                                 const struct xt_source_options *options, struct xt_err *err)
{
    *out = NULL;
    struct cifar *set = NULL;
    enum xt_status status = xt_mem_calloc(&set, 1, sizeof *set, "a data source", err);
    if (status)
        return status;
    set->base.class = &cifar_class;
    set->order = options->order;
    status = open_set(set, path, options, err);
    if (status) {
        cifar_destroy(&set->base);
        return status;
    }
    snprintf(set->base.description, sizeof set->base.description,
             "%s of %d classes in %.150s (%s, %s)",
             xt_count((long long)set->base.count, "image").text, set->base.class_count, path,
             set->kind->title, set->batches[0].test ? "test batch" : "training batches");
    *out = &set->base;
    return XT_OK;
}

const struct xt_source_kind xt_source_cifar = {.is = is, .open = open_cifar};
