#include "runs/report/events.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <events.pb-c.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

enum { HEAD = 12, TAIL = 4 }; /* of a record: length and its checksum, the data's checksum */

uint32_t xt_events_masked_crc(const void *bytes, size_t count)
{
    /* A table for four bits, of the reflected polynomial 0x82F63B78. */
    static const uint32_t table[16] = {
        0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3,
        0x61C69362, 0x7198540D, 0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9,
        0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
    };
    uint32_t crc = UINT32_MAX;
    for (const uint8_t *at = bytes, *end = at + count; at < end; at++) {
        crc = table[(crc ^ *at) & 15] ^ crc >> 4;
        crc = table[(crc ^ *at >> 4) & 15] ^ crc >> 4;
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

/* x86 and the other hosts are little-endian, as the formats are. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are written as they lie");

/* ---- records ---- */

static void warn(struct xt_events *events, const char *why)
{
    if (!events->warned)
        xt_log_warn("TensorBoard's events: %s; the run continues without what is missing there",
                    why);
    events->warned = true;
}

/* A record of an event, to be released with free; NULL when out of memory. */
static uint8_t *make_record(const Xt__Event *event, size_t *size)
{
    const uint64_t length = xt__event__get_packed_size(event);
    uint8_t *record = NULL;
    *size = HEAD + (size_t)length + TAIL;
    if (xt_mem_calloc(&record, 1, *size, "an event", NULL))
        return NULL;
    xt__event__pack(event, record + HEAD);
    const uint32_t sums[2] = {xt_events_masked_crc(&length, sizeof length),
                              xt_events_masked_crc(record + HEAD, (size_t)length)};
    memcpy(record, &length, sizeof length);
    memcpy(record + sizeof length, &sums[0], sizeof sums[0]);
    memcpy(record + HEAD + length, &sums[1], sizeof sums[1]);
    return record;
}

/* Stamps it with the current time; writes it in one call. */
static void write_event(struct xt_events *events, Xt__Event *event)
{
    struct xt_err err;
    struct timespec now;
    size_t size = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    event->wall_time = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    uint8_t *record = make_record(event, &size);
    enum xt_status status = record ? xt_file_append(events->fd, events->path, record, size, &err)
                                   : xt_err_no_memory(&err, "an event", size);
    if (status)
        warn(events, err.text);
    free(record);
}

/* ---- what an earlier start left ---- */

/* NAN: there is no such figure. */
static double figure_of(const Xt__Event *event, const char *tag)
{
    for (size_t i = 0; event->summary && i < event->summary->n_value; i++) {
        const Xt__Value *value = event->summary->value[i];
        if (value->tag && strcmp(value->tag, tag) == 0)
            return (double)value->simple_value;
    }
    return NAN;
}

static bool is_training(const Xt__Event *event)
{
    for (size_t i = 0; event->summary && i < event->summary->n_value; i++) {
        const Xt__Value *value = event->summary->value[i];
        if (value->tag && xt_str_starts(value->tag, "training/"))
            return true;
    }
    return false;
}

/* Whether an event's step is retained. */
static bool is_retained(const Xt__Event *event, struct xt_log_keep keep)
{
    if (event->file_version)
        return true;
    double rolled_back_to = figure_of(event, "training/rolled_back_to");
    if (!isnan(rolled_back_to))
        return !xt_log_is_repeated(&keep, (double)event->step, rolled_back_to,
                                   figure_of(event, "training/lr_factor"));
    return event->step <= (is_training(event) ? keep.training : keep.evaluations);
}

/* Moves the records to retain to the front; returns their size. Everything after a damaged one is
 * lost, since its end is unknown. */
static size_t keep_records(void *context, uint8_t *bytes, size_t size)
{
    const struct xt_log_keep *keep = context;
    size_t used = 0;
    for (size_t at = 0; size - at >= HEAD + TAIL;) {
        uint64_t length;
        uint32_t sums[2];
        memcpy(&length, bytes + at, sizeof length);
        memcpy(&sums[0], bytes + at + sizeof length, sizeof sums[0]);
        if (length > size - at - HEAD - TAIL ||
            sums[0] != xt_events_masked_crc(&length, sizeof length))
            break;
        const uint8_t *event = bytes + at + HEAD;
        size_t whole = HEAD + (size_t)length + TAIL;
        memcpy(&sums[1], event + length, sizeof sums[1]);
        if (sums[1] != xt_events_masked_crc(event, (size_t)length))
            break;
        Xt__Event *read = xt__event__unpack(NULL, (size_t)length, event);
        if (read && is_retained(read, *keep)) {
            memmove(bytes + used, bytes + at, whole);
            used += whole;
        }
        xt__event__free_unpacked(read, NULL);
        at += whole;
    }
    return used;
}

void xt_events_open(struct xt_events *events, const char *path, struct xt_log_keep keep)
{
    struct xt_err err = {0};
    struct stat st;
    *events = (struct xt_events){.fd = -1};
    enum xt_status status = xt_mem_strdup(&events->path, path, &err);
    if (!status)
        status = xt_log_writer_open_mended(&events->fd, path, keep_records, &keep, &err);
    if (status) {
        warn(events, err.text);
        return;
    }
    char version[] = "brain.Event:2";
    Xt__Event event = XT__EVENT__INIT;
    event.file_version = version;
    if (fstat(events->fd, &st) == 0 && st.st_size == 0)
        write_event(events, &event);
}

void xt_events_close(struct xt_events *events)
{
    if (events->path && events->fd >= 0)
        close(events->fd);
    free(events->path);
    *events = (struct xt_events){.fd = -1};
}

/* ---- figures and pictures ---- */

static void write_values(struct xt_events *events, int64_t step, Xt__Value **values, size_t count)
{
    Xt__Event event = XT__EVENT__INIT;
    Xt__Summary summary = XT__SUMMARY__INIT;
    summary.value = values;
    summary.n_value = count;
    event.step = step;
    event.summary = &summary;
    write_event(events, &event);
}

/* Keys that locate the others. */
static bool is_place(const char *key)
{
    static const char *const keys[] = {"step", "epoch", "time", "images", "correct", NULL};
    return xt_str_is_in(key, keys);
}

/* A scalar with its tag. */
struct figure {
    Xt__Value value;
    char tag[96];
};

/* The figures of a line into `figures`; returns their number. */
static size_t take_figures(const cJSON *record, struct figure *figures, Xt__Value **values)
{
    const char *kind = cJSON_HasObjectItem(record, "val_loss") ? "evaluation" : "training";
    const cJSON *item = NULL;
    size_t count = 0;
    cJSON_ArrayForEach(item, record)
    {
        struct figure *figure = &figures[count];
        if (!cJSON_IsNumber(item) || is_place(item->string))
            continue;
        xt__value__init(&figure->value);
        snprintf(figure->tag, sizeof figure->tag, "%s/%s", kind, item->string);
        figure->value.tag = figure->tag;
        figure->value.simple_value = (float)item->valuedouble;
        figure->value.has_simple_value = true;
        values[count++] = &figure->value;
    }
    return count;
}

void xt_events_line(struct xt_events *events, const char *line, size_t length)
{
    if (events->fd < 0)
        return;
    struct figure *figures = NULL;
    Xt__Value **values = NULL;
    struct xt_err err = {0};
    cJSON *record = cJSON_ParseWithLength(line, length);
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(record, "step");
    size_t most = (size_t)cJSON_GetArraySize(record) + 1;
    enum xt_status status = record ? XT_OK : xt_err_no_memory(&err, "a line of figures", length);
    if (!status)
        status = xt_mem_calloc(&figures, most, sizeof *figures, "an event's figures", &err);
    if (!status)
        status = xt_mem_calloc(&values, most, sizeof *values, "an event's figures", &err);
    if (status)
        warn(events, err.text);
    else
        write_values(events, cJSON_IsNumber(step) ? (int64_t)step->valuedouble : 0, values,
                     take_figures(record, figures, values));
    free(values);
    free(figures);
    cJSON_Delete(record);
}

void xt_events_picture(struct xt_events *events, int64_t step,
                       const struct xt_event_picture *picture)
{
    if (events->fd < 0)
        return;
    Xt__Value value = XT__VALUE__INIT;
    Xt__Image image = XT__IMAGE__INIT;
    image.height = picture->height;
    image.width = picture->width;
    image.colorspace = 3;
    image.has_height = image.has_width = image.has_colorspace = true;
    image.encoded_image_string =
        (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)picture->png, .len = picture->size};
    image.has_encoded_image_string = true;
    value.tag = (char *)(uintptr_t)picture->tag;
    value.image = &image;
    write_values(events, step, &(Xt__Value *){&value}, 1);
}
