#include "runs/report/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

enum { HEAD = 12, TAIL = 4 }; /* of a record: length and its sum, the data's sum */

/* Fields of the messages. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, VALUE_IMAGE = 4 };
enum { IMAGE_HEIGHT = 1, IMAGE_WIDTH = 2, IMAGE_COLOURS = 3, IMAGE_BYTES = 4 };
/* How a field's value is written. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

uint32_t xt_events_masked_crc(const void *bytes, size_t count)
{
    /* Of four bits each, of the reflected polynomial 0x82F63B78. */
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

/* ---- writing messages: a failed allocation sticks in the caller's status ---- */

static void put(struct xt_str *to, enum xt_status *status, const void *bytes, size_t count)
{
    if (!*status)
        *status = xt_str_append(to, bytes, count, NULL);
}

static void put_varint(struct xt_str *to, enum xt_status *status, uint64_t value)
{
    uint8_t bytes[10];
    size_t count = 0;
    do {
        bytes[count] = (uint8_t)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
        count++;
    } while (value);
    put(to, status, bytes, count);
}

static void put_key(struct xt_str *to, enum xt_status *status, int field, int type)
{
    put_varint(to, status, (uint64_t)(field << 3 | type));
}

static void put_number(struct xt_str *to, enum xt_status *status, int field, uint64_t value)
{
    put_key(to, status, field, VARINT);
    put_varint(to, status, value);
}

static void put_bytes(struct xt_str *to, enum xt_status *status, int field, const void *bytes,
                      size_t count)
{
    put_key(to, status, field, BYTES);
    put_varint(to, status, count);
    put(to, status, bytes, count);
}

static void put_message(struct xt_str *to, enum xt_status *status, int field,
                        const struct xt_str *message)
{
    put_bytes(to, status, field, xt_str_get(message), message->length);
}

/* x86 and the other hosts are little-endian, as the formats are. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "records are written as they lie");

/* ---- records ---- */

static void warn(struct xt_events *events, const char *why)
{
    if (!events->warned)
        xt_log_warn("TensorBoard's events: %s; the run goes on without what is missing there", why);
    events->warned = true;
}

/* An event: its time, its step, and one field more. */
static void write_event(struct xt_events *events, int64_t step, int field,
                        const struct xt_str *content, enum xt_status status)
{
    struct xt_str event = {0};
    struct xt_str record = {0};
    struct xt_err err;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    put_key(&event, &status, EVENT_TIME, FIXED64);
    put(&event, &status, &seconds, sizeof seconds);
    put_number(&event, &status, EVENT_STEP, (uint64_t)step);
    put_message(&event, &status, field, content);
    uint64_t length = event.length;
    uint32_t sums[2] = {xt_events_masked_crc(&length, sizeof length),
                        xt_events_masked_crc(xt_str_get(&event), event.length)};
    put(&record, &status, &length, sizeof length);
    put(&record, &status, &sums[0], sizeof sums[0]);
    put(&record, &status, xt_str_get(&event), event.length);
    put(&record, &status, &sums[1], sizeof sums[1]);
    if (status)
        xt_err_no_memory(&err, "an event", event.length);
    else
        status = xt_file_append(events->fd, events->path, record.data, record.length, &err);
    if (status)
        warn(events, err.text);
    xt_str_clear(&event);
    xt_str_clear(&record);
}

/* ---- what an earlier start left ---- */

static uint64_t read_varint(const uint8_t **at, const uint8_t *end)
{
    uint64_t value = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            break;
    }
    return value;
}

/* The value behind the tag, as xt_events_line lays it out; false where the tag is not there. */
static bool read_value(const uint8_t *at, const uint8_t *end, const char *tag, float *value)
{
    const uint8_t *found = memmem(at, (size_t)(end - at), tag, strlen(tag));
    size_t before = strlen(tag) + 1; /* and a key */
    if (!found || (size_t)(end - found) < before + sizeof *value)
        return false;
    memcpy(value, found + before, sizeof *value);
    return true;
}

/* Whether an event, as write_event lays it out, is of a step to keep. */
static bool is_kept(const uint8_t *event, size_t size, struct xt_log_keep keep)
{
    static const char training[] = "training/";
    float rolled_back_to = 0;
    const uint8_t *at = event + 1 + sizeof(double) + 1;
    const uint8_t *end = event + size;
    if (size < 12)
        return false;
    int64_t step = (int64_t)read_varint(&at, end);
    if (at < end && *at == (EVENT_VERSION << 3 | BYTES))
        return true;
    if (read_value(at, end, "training/rolled_back_to", &rolled_back_to))
        return xt_log_keeps_rollback(&keep, rolled_back_to);
    size_t head = (size_t)(end - at) < 32 ? (size_t)(end - at) : 32;
    bool is_training = memmem(at, head, training, sizeof training - 1);
    return step <= (is_training ? keep.training : keep.evaluations);
}

/* Moves the records to keep to the front; returns the bytes that they take. What follows a damaged
 * one is lost with it: where it ends is not known. */
static size_t keep_records(void *context, uint8_t *bytes, size_t size)
{
    const struct xt_log_keep *keep = context;
    size_t kept = 0;
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
        if (is_kept(event, (size_t)length, *keep)) {
            memmove(bytes + kept, bytes + at, whole);
            kept += whole;
        }
        at += whole;
    }
    return kept;
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
    const char version[] = "brain.Event:2";
    struct xt_str content = {.data = (char *)version, .length = sizeof version - 1};
    if (fstat(events->fd, &st) == 0 && st.st_size == 0)
        write_event(events, 0, EVENT_VERSION, &content, XT_OK);
}

void xt_events_close(struct xt_events *events)
{
    if (events->path && events->fd >= 0)
        close(events->fd);
    free(events->path);
    *events = (struct xt_events){.fd = -1};
}

/* ---- figures and pictures ---- */

/* Appends a value of a summary: its tag and what the message `rest` holds. */
static void put_value(struct xt_str *summary, enum xt_status *status, const char *tag,
                      const struct xt_str *rest)
{
    struct xt_str value = {0};
    put_bytes(&value, status, VALUE_TAG, tag, strlen(tag));
    put(&value, status, xt_str_get(rest), rest->length);
    put_message(summary, status, SUMMARY_VALUE, &value);
    xt_str_clear(&value);
}

/* What says where the others belong. */
static bool is_place(const char *key)
{
    static const char *const keys[] = {"step", "epoch", "time", "images", "correct"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

void xt_events_line(struct xt_events *events, const char *line, size_t length)
{
    if (events->fd < 0)
        return;
    cJSON *record = cJSON_ParseWithLength(line, length);
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(record, "step");
    const char *kind = cJSON_HasObjectItem(record, "val_loss") ? "evaluation" : "training";
    struct xt_str summary = {0};
    enum xt_status status = record ? XT_OK : XT_ERR_MEMORY;
    const cJSON *figure = NULL;
    cJSON_ArrayForEach(figure, record)
    {
        char tag[96];
        struct xt_str rest = {0};
        if (!cJSON_IsNumber(figure) || is_place(figure->string))
            continue;
        float value = (float)figure->valuedouble;
        snprintf(tag, sizeof tag, "%s/%s", kind, figure->string);
        put_key(&rest, &status, VALUE_SIMPLE, FIXED32);
        put(&rest, &status, &value, sizeof value);
        put_value(&summary, &status, tag, &rest);
        xt_str_clear(&rest);
    }
    write_event(events, cJSON_IsNumber(step) ? (int64_t)step->valuedouble : 0, EVENT_SUMMARY,
                &summary, status);
    xt_str_clear(&summary);
    cJSON_Delete(record);
}

void xt_events_picture(struct xt_events *events, int64_t step,
                       const struct xt_event_picture *picture)
{
    if (events->fd < 0)
        return;
    struct xt_str image = {0};
    struct xt_str rest = {0};
    struct xt_str summary = {0};
    enum xt_status status = XT_OK;
    put_number(&image, &status, IMAGE_HEIGHT, (uint64_t)picture->height);
    put_number(&image, &status, IMAGE_WIDTH, (uint64_t)picture->width);
    put_number(&image, &status, IMAGE_COLOURS, 3);
    put_bytes(&image, &status, IMAGE_BYTES, picture->png, picture->size);
    put_message(&rest, &status, VALUE_IMAGE, &image);
    put_value(&summary, &status, picture->tag, &rest);
    write_event(events, step, EVENT_SUMMARY, &summary, status);
    xt_str_clear(&image);
    xt_str_clear(&rest);
    xt_str_clear(&summary);
}
