/* Shards: tars in WebDataset's convention, whose files are grouped by name: KEY.jpg, .jpeg or .png
 * is an image, KEY.txt its plate, KEY.cls its class; KEY ends at the first dot. Only the position
 * of each image is stored, so that samples can be read in any order, from several threads; a
 * compressed shard is unpacked into memory when the set is opened. */
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/sources/archive.h"
#include "data/sources/index/files.h"
#include "data/sources/registry.h"
#include "data/sources/tar_reader.h"

enum { LABEL_BYTES_MAX = 4096, SHARDS_MAX = 100000, FILES_SPARE = 64 };

struct shard {
    char *path;
    int fd;
    uint8_t *bytes; /* of a compressed one */
    uint64_t size;
    char *damage; /* what is wrong with it, if it is truncated or damaged */
    struct stat st;
};

/* The position of a sample's image. */
struct place {
    uint32_t shard;
    bool lost; /* the shard is truncated or damaged there */
    uint64_t at;
    uint64_t size;
};

struct tars {
    struct shard *shards;
    size_t count;
    struct place *places; /* one per sample */
    uint64_t packed;      /* bytes of the compressed shards */
    uint64_t unpacked;    /* unpacked, in memory */
    size_t lost;          /* truncated or damaged shards */
};

/* A file of the shard that is being indexed. */
struct member {
    char *name;
    size_t key;    /* bytes of the name */
    size_t number; /* position in the shard */
    uint64_t at;
    uint64_t size;
};

struct members {
    struct member *items;
    size_t count;
};

/* ---- names ---- */

static bool is_folder_in(DIR *dir, const char *name)
{
    struct stat st;
    return fstatat(dirfd(dir), name, &st, 0) == 0 && S_ISDIR(st.st_mode);
}

/* Whether the folder directly holds tars, and no images or folders. */
static bool is_folder_of_tars(const char *folder)
{
    DIR *dir = opendir(folder);
    bool found = false;
    bool other = false;
    for (struct dirent *entry; dir && !other && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        bool tar = xt_tar_is_name(entry->d_name);
        found |= tar;
        other = !tar && (xt_image_is_name(entry->d_name) || is_folder_in(dir, entry->d_name));
    }
    if (dir)
        closedir(dir);
    return found && !other;
}

/* ---- the shards ---- */

/* Takes over `path`. */
static enum xt_status add_path(struct tars *tars, char *path, struct xt_err *err)
{
    enum xt_status status =
        tars->count < SHARDS_MAX
            ? xt_mem_add(&tars->shards, tars->count, sizeof *tars->shards, "a list of shards", err)
            : xt_err_set(err, XT_ERR_DATA, "%s: more than %d shards", path, SHARDS_MAX);
    if (status)
        free(path);
    else
        tars->shards[tars->count++] = (struct shard){.path = path, .fd = -1};
    return status;
}

static enum xt_status add_folder(struct tars *tars, const char *folder, struct xt_err *err)
{
    struct xt_file_list list = {0};
    enum xt_status status = xt_file_list_folder(&list, folder, err);
    for (size_t i = 0; i < list.count && !status; i++) {
        char *path = list.paths[i];
        if (!xt_tar_is_name(path))
            continue;
        list.paths[i] = NULL;
        status = add_path(tars, path, err);
    }
    xt_file_list_clear(&list);
    return status;
}

/* "x-{000..015}.tar": the range of numbers, zero-padded like the first. */
static enum xt_status add_braces(struct tars *tars, const char *spec, struct xt_err *err)
{
    const char *open = strchr(spec, '{');
    unsigned first = 0;
    unsigned last = 0;
    int digits_at = 0;
    int digits_end = 0;
    int end = 0;
    if (sscanf(open, "{%n%9u%n..%9u}%n", &digits_at, &first, &digits_end, &last, &end) < 2 ||
        end == 0 || strpbrk(open + end, "{}") || open[1] == '-' || open[1] == '+' ||
        open[1] == ' ' || last < first || last - first >= SHARDS_MAX)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s: between the braces stand the first and the last number, as in "
                          "shards-{000..015}.tar",
                          spec);
    enum xt_status status = XT_OK;
    for (unsigned i = first; i <= last && !status; i++) {
        char *path = NULL;
        if (asprintf(&path, "%.*s%0*u%s", (int)(open - spec), spec, digits_end - digits_at, i,
                     open + end) < 0)
            return xt_err_no_memory(err, "a file name", strlen(spec));
        status = add_path(tars, path, err);
    }
    return status;
}

static enum xt_status add_paths(struct tars *tars, const char *spec, struct xt_err *err)
{
    char *path = NULL;
    if (xt_file_is_folder(spec))
        return add_folder(tars, spec, err);
    if (strchr(spec, '{') && !xt_file_exists(spec))
        return add_braces(tars, spec, err);
    enum xt_status status = xt_mem_strdup(&path, spec, err);
    return status ? status : add_path(tars, path, err);
}

/* The default limit of open files is 1024. */
static void allow_files(size_t count)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)count + FILES_SPARE;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static enum xt_status cannot_unpack(const struct shard *shard, struct archive *archive,
                                    struct xt_err *err)
{
    if (archive_errno(archive) == ENOMEM)
        return xt_err_no_memory(err, "unpacking a shard", 0);
    const char *reason = archive_error_string(archive);
    return xt_err_set(err, XT_ERR_DATA, "%s cannot be unpacked: %s", shard->path,
                      reason ? reason : "it is damaged");
}

/* The unpacked part of a truncated shard is used; the tar in it then ends early. */
static enum xt_status unpack_from(struct tars *tars, struct shard *shard, struct archive *archive,
                                  struct xt_err *err)
{
    enum { STEP = 1 << 20 };
    uint64_t limit = xt_archive_unpacked_most(tars->packed);
    size_t capacity = 0;
    struct archive_entry *entry = NULL;
    ssize_t got = 1;
    if (archive_read_next_header(archive, &entry) != ARCHIVE_OK)
        return cannot_unpack(shard, archive, err);
    while (got > 0) {
        enum xt_status status = xt_mem_grow(&shard->bytes, &capacity, (size_t)shard->size + STEP, 1,
                                            "an unpacked shard", err);
        if (status)
            return status;
        got = archive_read_data(archive, shard->bytes + shard->size, STEP);
        shard->size += got > 0 ? (uint64_t)got : 0;
        if (tars->unpacked + shard->size > limit)
            return xt_err_set(err, XT_ERR_DATA,
                              "%s is compressed, and with the shards before it takes more than "
                              "%" PRIu64 " MB of memory once it is unpacked (half of it all, or 32 "
                              "times its length on disk); unpack the shards on disk (gunzip) and "
                              "give the .tar files",
                              shard->path, limit >> 20);
    }
    tars->unpacked += shard->size;
    return got < 0 && archive_errno(archive) == ENOMEM ? cannot_unpack(shard, archive, err) : XT_OK;
}

static enum xt_status unpack(struct tars *tars, struct shard *shard, struct xt_err *err)
{
    struct archive *archive = archive_read_new();
    if (!archive)
        return xt_err_no_memory(err, "a reader of archives", 0);
    archive_read_support_format_raw(archive);
    xt_archive_allow_filters(archive);
    tars->packed += shard->size;
    shard->size = 0;
    enum xt_status status = archive_read_open_fd(archive, shard->fd, 1 << 16) == ARCHIVE_OK
                                ? unpack_from(tars, shard, archive, err)
                                : cannot_unpack(shard, archive, err);
    archive_read_free(archive);
    return status;
}

static enum xt_status open_shard(struct tars *tars, struct shard *shard, struct xt_err *err)
{
    shard->fd = open(shard->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (shard->fd < 0 && errno == EMFILE)
        return xt_err_set(err, XT_ERR_DATA,
                          "cannot open %s: this process may not have %zu files open; raise the "
                          "limit (ulimit -n), or join shards",
                          shard->path, tars->count);
    if (shard->fd < 0 || fstat(shard->fd, &shard->st))
        return xt_err_system(err, XT_ERR_DATA, "cannot open %s", shard->path);
    if (!S_ISREG(shard->st.st_mode))
        return xt_err_set(err, XT_ERR_DATA, "%s is not a regular file", shard->path);
    shard->size = (uint64_t)shard->st.st_size;
    if (shard->size == 0)
        return xt_err_set(err, XT_ERR_DATA, "%s is empty (zero bytes)", shard->path);
    return xt_tar_is_compressed(shard->path) ? unpack(tars, shard, err) : XT_OK;
}

/* ---- a shard's files ---- */

static void clear_members(struct members *members)
{
    for (size_t i = 0; i < members->count; i++)
        free(members->items[i].name);
    free(members->items);
    *members = (struct members){0};
}

/* Hidden files are skipped: macOS adds some beside the images. */
static bool is_hidden(const char *name)
{
    return xt_file_name(name)[0] == '.' || xt_file_name(name)[0] == '\0';
}

static enum xt_status add_member(struct members *members, const struct xt_tar_reader *reader,
                                 struct xt_err *err)
{
    const char *name = reader->name;
    while (strncmp(name, "./", 2) == 0)
        name += 2;
    if (is_hidden(name))
        return XT_OK;
    struct member member = {
        .number = members->count, .at = reader->member_at, .size = reader->member_size};
    enum xt_status status =
        xt_mem_add(&members->items, members->count, sizeof *members->items, "a shard's index", err);
    if (!status)
        status = xt_mem_strdup(&member.name, name, err);
    if (status)
        return status;
    const char *file = xt_file_name(member.name);
    member.key = (size_t)(file - member.name) + strcspn(file, ".");
    members->items[members->count++] = member;
    return XT_OK;
}

static int compare_keys(const void *a, const void *b)
{
    const struct member *one = a;
    const struct member *other = b;
    size_t shorter = one->key < other->key ? one->key : other->key;
    int order = memcmp(one->name, other->name, shorter);
    if (order == 0 && one->key != other->key)
        return one->key < other->key ? -1 : 1;
    if (order == 0)
        order = one->number < other->number ? -1 : one->number > other->number;
    return order;
}

static bool same_key(const struct member *one, const struct member *other)
{
    return one->key == other->key && memcmp(one->name, other->name, one->key) == 0;
}

/* The files of one key. */
struct group {
    const struct member *image;
    const struct member *label;
    size_t number; /* position of its first file in the shard */
    const struct member *last;
};

/* ---- samples ---- */

static enum xt_status add_place(struct xt_source_files *set, struct place place, struct xt_err *err)
{
    struct tars *tars = set->extra;
    enum xt_status status =
        xt_mem_add(&tars->places, set->base.count, sizeof *tars->places, "a list of samples", err);
    if (!status)
        tars->places[set->base.count] = place;
    return status;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The text of the group's label into `label`: of its file, or for plates of the image's name. */
static bool read_label(struct xt_source_files *set, struct xt_tar_reader *reader,
                       const struct group *group, char *label, size_t *size)
{
    const struct member *file = group->label;
    if (!file) {
        const char *name = xt_file_name(group->image->name);
        *size = strcspn(name, "_.");
        *size = *size < LABEL_BYTES_MAX ? *size : LABEL_BYTES_MAX;
        memcpy(label, name, *size);
        return set->options.task == XT_TASK_PLATES;
    }
    *size = file->size < LABEL_BYTES_MAX ? (size_t)file->size : LABEL_BYTES_MAX;
    if (!xt_tar_read(reader, file->at, label, *size))
        return false;
    while (*size && is_blank(label[*size - 1]))
        --*size;
    return true;
}

static enum xt_status add_sample(struct xt_source_files *set, struct xt_tar_reader *reader,
                                 size_t shard, const struct group *group, struct xt_err *err)
{
    char label[LABEL_BYTES_MAX];
    size_t size = 0;
    char *path = NULL;
    const struct member *image = group->image;
    if (asprintf(&path, "%s:%s", reader->path, image->name) < 0)
        return xt_err_no_memory(err, "a file name", strlen(image->name));
    enum xt_status status = add_place(
        set, (struct place){.shard = (uint32_t)shard, .at = image->at, .size = image->size}, err);
    bool labelled = read_label(set, reader, group, label, &size);
    if (!status && !labelled && !set->options.labels_optional)
        xt_source_files_refuse(set, path,
                               group->label ? "its label cannot be read"
                                            : "there is no .cls file with its class beside it");
    else if (!status && labelled) {
        status = xt_source_files_add(set, path, label, size, path, err);
        path = NULL;
    } else if (!status) {
        status = xt_source_files_add_class(set, path, -1, err);
        path = NULL;
    }
    free(path);
    return status;
}

/* A placeholder for a sample that a damaged shard has lost: it counts as bad. */
static enum xt_status add_lost(struct xt_source_files *set, size_t shard, const char *why,
                               uint64_t at, struct xt_err *err)
{
    struct tars *tars = set->extra;
    char *path = NULL;
    tars->lost++;
    enum xt_status status = xt_mem_strdup(&tars->shards[shard].damage, why, err);
    if (status)
        return status;
    if (asprintf(&path, "%s:what follows", tars->shards[shard].path) < 0)
        return xt_err_no_memory(err, "a file name", 0);
    status = add_place(set, (struct place){.shard = (uint32_t)shard, .lost = true, .at = at}, err);
    if (!status)
        return xt_source_files_add_class(set, path, -1, err);
    free(path);
    return status;
}

static enum xt_status twice(const struct xt_tar_reader *reader, const struct member *one,
                            const struct member *other, struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_DATA,
                      "%s holds %s and %s, which are one key's: each has one image and one label",
                      reader->path, one->name, other->name);
}

/* Assigns the files of one key, `count` of them, to image, label and others. */
static enum xt_status make_group(struct xt_source_files *set, const struct xt_tar_reader *reader,
                                 const struct member *members, size_t count, struct group *group,
                                 struct xt_err *err)
{
    const char *wanted = set->options.task == XT_TASK_CLASSES ? ".cls" : ".txt";
    *group = (struct group){.number = members[0].number};
    for (size_t i = 0; i < count; i++) {
        const struct member *member = &members[i];
        const char *ending = member->name + member->key;
        const struct member **slot = xt_image_is_ending(ending)        ? &group->image
                                     : strcasecmp(ending, wanted) == 0 ? &group->label
                                                                       : NULL;
        if (slot && *slot)
            return twice(reader, *slot, member, err);
        if (slot)
            *slot = member;
        else
            set->others++;
    }
    return XT_OK;
}

static int compare_numbers(const void *a, const void *b)
{
    size_t one = ((const struct group *)a)->number;
    size_t other = ((const struct group *)b)->number;
    return one < other ? -1 : one > other;
}

/* Groups the files by key, the keys in the shard's order. */
static enum xt_status group_members(struct xt_source_files *set, const struct xt_tar_reader *reader,
                                    struct members *members, struct group **groups, size_t *count,
                                    struct xt_err *err)
{
    *count = 0;
    enum xt_status status =
        xt_mem_calloc(groups, members->count, sizeof **groups, "a shard's index", err);
    if (!status && members->count)
        qsort(members->items, members->count, sizeof *members->items, compare_keys);
    for (size_t i = 0; i < members->count && !status;) {
        const struct member *first = &members->items[i];
        size_t end = i + 1;
        while (end < members->count && same_key(first, &members->items[end]))
            end++;
        struct group *group = *groups + *count;
        status = make_group(set, reader, first, end - i, group, err);
        if (group->image)
            ++*count;
        else
            set->others += group->label != NULL;
        i = end;
    }
    if (!status && *count)
        qsort(*groups, *count, sizeof **groups, compare_numbers);
    return status;
}

/* The last key of a truncated shard may lack files: it is not used. */
static void drop_last_key(struct members *members)
{
    if (!members->count)
        return;
    const struct member last = members->items[members->count - 1];
    size_t used = 0;
    for (size_t i = 0; i + 1 < members->count; i++) {
        if (same_key(&members->items[i], &last))
            free(members->items[i].name);
        else
            members->items[used++] = members->items[i];
    }
    free(last.name);
    members->count = used;
}

static enum xt_status add_groups(struct xt_source_files *set, struct xt_tar_reader *reader,
                                 size_t shard, struct members *members, struct xt_err *err)
{
    struct group *groups = NULL;
    size_t count = 0;
    enum xt_status status = group_members(set, reader, members, &groups, &count, err);
    for (size_t i = 0; i < count && !status; i++)
        status = add_sample(set, reader, shard, &groups[i], err);
    free(groups);
    return status;
}

static enum xt_status read_members(struct xt_tar_reader *reader, struct members *members,
                                   struct xt_err *damage, struct xt_err *err)
{
    bool end = false;
    enum xt_status status = XT_OK;
    while (!status && !end) {
        status = xt_tar_next(reader, &end, damage);
        if (status == XT_ERR_DATA) {
            damage->status = XT_ERR_DATA;
            return XT_OK;
        }
        if (status)
            *err = *damage;
        else if (!end)
            status = add_member(members, reader, err);
    }
    return status;
}

/* If not even the first header is valid, the file is not a tar; if it is truncated later, the part
 * before is used. */
static enum xt_status index_shard(struct xt_source_files *set, size_t number, struct xt_err *err)
{
    struct tars *tars = set->extra;
    const struct shard *shard = &tars->shards[number];
    struct xt_tar_reader reader = {
        .path = shard->path, .fd = shard->fd, .bytes = shard->bytes, .size = shard->size};
    struct members members = {0};
    struct xt_err damage = {.status = XT_OK};
    enum xt_status status = read_members(&reader, &members, &damage, err);
    bool lost = damage.status == XT_ERR_DATA;
    if (!status && lost && reader.at == 0)
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s cannot be read as a tar: it does not begin with a whole file",
                            shard->path);
    else if (!status && lost && members.count == 0)
        status = xt_err_set(err, XT_ERR_DATA, "%s", damage.text);
    if (!status && lost)
        drop_last_key(&members);
    if (!status)
        status = add_groups(set, &reader, number, &members, err);
    if (!status && lost)
        status = add_lost(set, number, damage.text, reader.at, err);
    xt_tar_clear(&reader);
    clear_members(&members);
    return status;
}

/* ---- reading ---- */

static enum xt_status read_file(const struct shard *shard, const struct place *place,
                                uint8_t *bytes, const char *name, struct xt_err *err)
{
    struct stat st;
    bool changed = fstat(shard->fd, &st) || st.st_size != shard->st.st_size ||
                   st.st_mtim.tv_sec != shard->st.st_mtim.tv_sec ||
                   st.st_mtim.tv_nsec != shard->st.st_mtim.tv_nsec;
    if (changed)
        return xt_err_set(err, XT_ERR_DATA, "%s: the shard has changed since it was opened", name);
    if (xt_file_read_at(shard->fd, place->at, bytes, (size_t)place->size))
        return XT_OK;
    return xt_err_system(err, XT_ERR_DATA, "cannot read %s", name);
}

static enum xt_status bytes_of(const struct xt_source_files *set, size_t index,
                               struct xt_decoder *decoder, const uint8_t **out, size_t *size,
                               struct xt_err *err)
{
    const struct tars *tars = set->extra;
    const struct place *place = &tars->places[index];
    const struct shard *shard = &tars->shards[place->shard];
    const char *name = set->files[index].path;
    uint8_t *bytes = shard->bytes ? shard->bytes + place->at : NULL;
    enum xt_status status = XT_OK;
    if (place->lost)
        return xt_err_set(err, XT_ERR_DATA, "%s", shard->damage);
    if (place->size > XT_IMAGE_BYTES_MAX)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s has %" PRIu64 " bytes, more than the %d of an image", name,
                          place->size, XT_IMAGE_BYTES_MAX);
    if (!bytes) {
        status = xt_mem_grow(&decoder->bytes, &decoder->capacity, (size_t)place->size, 1,
                             "an image file", err);
        bytes = decoder->bytes;
        if (!status)
            status = read_file(shard, place, bytes, name, err);
    }
    *out = bytes;
    *size = (size_t)place->size;
    return status;
}

static uint64_t stamp(const struct xt_source_files *set, size_t index)
{
    const struct tars *tars = set->extra;
    const struct shard *shard = &tars->shards[tars->places[index].shard];
    struct stat st;
    if (fstat(shard->fd, &st))
        return 0;
    return xt_source_stamp_of(set->files[index].path, &st) + tars->places[index].at;
}

static void clear(struct xt_source_files *set)
{
    struct tars *tars = set->extra;
    for (size_t i = 0; tars && i < tars->count; i++) {
        if (tars->shards[i].fd >= 0)
            close(tars->shards[i].fd);
        free(tars->shards[i].bytes);
        free(tars->shards[i].damage);
        free(tars->shards[i].path);
    }
    if (tars) {
        free(tars->shards);
        free(tars->places);
    }
    free(tars);
}

static const struct xt_source_form form = {.bytes = bytes_of, .stamp = stamp, .clear = clear};

/* ---- the set ---- */

static bool is(const char *path, mode_t mode, enum xt_task task)
{
    (void)task;
    if (S_ISDIR(mode))
        return is_folder_of_tars(path);
    return (S_ISREG(mode) || (!mode && strchr(path, '{'))) && xt_tar_is_name(path);
}

static void describe(struct xt_source_files *set, const struct tars *tars, const char *spec)
{
    struct xt_source *source = &set->base;
    char *text = source->description;
    char classes[32] = "";
    if (source->class_count)
        snprintf(classes, sizeof classes, " of %d classes", source->class_count);
    snprintf(text, sizeof source->description, "%s%s in %s %.80s",
             xt_count((long long)source->count, "image").text, classes,
             xt_count((long long)tars->count, "shard").text, spec);
    xt_source_files_describe_others(set);
    size_t used = strlen(text);
    if (tars->lost)
        snprintf(text + used, sizeof source->description - used,
                 " (%zu SHARD%s CUT SHORT OR DAMAGED)", tars->lost, tars->lost == 1 ? "" : "S");
}

static enum xt_status fill(struct xt_source_files *set, const char *spec, struct xt_err *err)
{
    struct tars *tars = NULL;
    set->form = &form;
    enum xt_status status = xt_mem_calloc(&tars, 1, sizeof *tars, "a data source", err);
    set->extra = tars;
    if (!status)
        status = add_paths(tars, spec, err);
    if (!status)
        allow_files(tars->count);
    for (size_t i = 0; !status && i < tars->count; i++) {
        status = open_shard(tars, &tars->shards[i], err);
        if (!status)
            status = index_shard(set, i, err);
    }
    if (!status)
        status = xt_source_files_finish(set, spec, err);
    if (!status && set->base.count == tars->lost)
        status = xt_err_set(
            err, XT_ERR_DATA,
            "no image in %s: none of the %s in its %s ends in .jpg, .jpeg, .png or .webp", spec,
            xt_count((long long)set->others, "file").text,
            xt_count((long long)tars->count, "shard").text);
    if (!status)
        describe(set, tars, spec);
    return status;
}

const struct xt_source_kind xt_source_tar = {.is = is, .fill = fill};
