#include "cut_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "models/weights/weight_file.h"

#define FIXTURES "tests/models/fixtures/"

/* A byte buffer being built. */
struct buffer {
    uint8_t bytes[8192];
    size_t size;
};

static void put(struct buffer *to, const void *bytes, size_t count)
{
    assert_true(to->size + count <= sizeof to->bytes);
    memcpy(to->bytes + to->size, bytes, count);
    to->size += count;
}

static void put_text(struct buffer *to, const char *text)
{
    put(to, text, strlen(text));
}

static void put_byte(struct buffer *to, int byte)
{
    put(to, &(uint8_t){(uint8_t)byte}, 1);
}

static void put_name(struct buffer *to, const char *name)
{
    put_byte(to, 0x8c);
    put_byte(to, (int)strlen(name));
    put_text(to, name);
}

static void put_number(struct buffer *to, int64_t number)
{
    put(to, "\x8a\x08", 2);
    put(to, &number, sizeof number);
}

static void put_tuple(struct buffer *to, const int64_t *numbers, size_t count)
{
    put_byte(to, '(');
    for (size_t i = 0; i < count; i++)
        put_number(to, numbers[i]);
    put_byte(to, 't');
}

/* What one tensor of a made file claims; the file always holds four floats: 1, 2, 3, 4. */
struct claim {
    const char *name;
    const char *storage_type;
    int64_t elements;
    int64_t offset;
    int64_t dims[9];
    int64_t strides[9];
    size_t ndims;
};

static const struct claim good = {.name = "w",
                                  .storage_type = "FloatStorage",
                                  .elements = 4,
                                  .dims = {2, 2},
                                  .strides = {2, 1},
                                  .ndims = 2};

static void put_tensor(struct buffer *to, const struct claim *claim)
{
    put_name(to, claim->name);
    put_text(to, "ctorch._utils\n_rebuild_tensor_v2\n((");
    put_name(to, "storage");
    put_text(to, "ctorch\n");
    put_text(to, claim->storage_type);
    put_text(to, "\n");
    put_name(to, "0");
    put_name(to, "cpu");
    put_number(to, claim->elements);
    put_text(to, "tQ");
    put_number(to, claim->offset);
    put_tuple(to, claim->dims, claim->ndims);
    put_tuple(to, claim->strides, claim->ndims);
    put_text(to, "\x89"
                 "ccollections\nOrderedDict\n)RtR");
}

static const char legacy_start[] = "\x80\2\x8a\nl\xfc\x9c"
                                   "F\xf9 j\xa8P\x19.\x80\2M\xe9\3.\x80\2}.\x80\2";

/* The legacy form around the state's pickle (without its first two bytes and its end). */
static void put_legacy(struct buffer *to, const struct buffer *state)
{
    static const float values[] = {1, 2, 3, 4};
    put(to, legacy_start, sizeof legacy_start - 1);
    put(to, state->bytes, state->size);
    put_text(to, ".\x80\2]");
    put_name(to, "0");
    put_text(to, "a.");
    put(to, &(int64_t){4}, 8);
    put(to, values, sizeof values);
}

static struct buffer make_without_storages(const char *state)
{
    struct buffer made = {.size = 0};
    put(&made, legacy_start, sizeof legacy_start - 1);
    put_text(&made, state);
    put_text(&made, ".\x80\2].");
    return made;
}

static struct buffer make_legacy(const struct claim *claim)
{
    struct buffer state = {.size = 0};
    struct buffer made = {.size = 0};
    put_text(&state, "}(");
    put_tensor(&state, claim);
    put_text(&state, "u");
    put_legacy(&made, &state);
    return made;
}

static enum xt_status parse(struct xt_weight_file *file, const struct buffer *made,
                            struct xt_err *err)
{
    return xt_weight_file_parse(file, made->bytes, made->size, "w.pth", err);
}

static void assert_refused(const struct buffer *made, const char *part)
{
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(parse(&file, made, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "w.pth: ");
    support_assert_error(&err, XT_ERR_DATA, part);
    assert_null(file.owned);
}

static void assert_claim_refused(const struct claim *claim, const char *part)
{
    struct buffer made = make_legacy(claim);
    assert_refused(&made, part);
}

/* A state that is this pickle. */
static void assert_state_refused(const char *pickle, size_t size, const char *part)
{
    struct buffer state = {.size = 0};
    struct buffer made = {.size = 0};
    put(&state, pickle, size);
    put_legacy(&made, &state);
    assert_refused(&made, part);
}

#define ASSERT_STATE_REFUSED(pickle, part) assert_state_refused(pickle, sizeof(pickle) - 1, part)

static void assert_floats(const struct xt_weight_file *file, const char *name, const float *wanted,
                          size_t count)
{
    const struct xt_file_tensor *tensor = xt_weight_file_find(file, name);
    float got[16];
    assert_non_null(tensor);
    assert_int_equal(xt_file_tensor_floats(tensor, got, count, NULL), XT_OK);
    assert_memory_equal(got, wanted, count * sizeof *got);
}

static void assert_every_type_is_read(const char *path)
{
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(xt_weight_file_read(&file, path, SIZE_MAX, &err), XT_OK);
    assert_int_equal(file.count, 13);
    assert_string_equal(file.tensors[0].name, "f32");
    assert_string_equal(file.tensors[12].name, "empty");
    assert_floats(&file, "f32", (float[]){0, 0.5F, 1, 1.5F, 2, 2.5F}, 6);
    assert_floats(&file, "transposed", (float[]){0, 3, 1, 4, 2, 5}, 6);
    assert_floats(&file, "sliced", (float[]){4, 6, 8, 10}, 4);
    assert_floats(&file, "f64", (float[]){0.1F, -2.5F}, 2);
    assert_floats(&file, "f16", (float[]){1.5F, -65504, 0x1p-24F}, 3);
    assert_floats(&file, "bf16", (float[]){1.5F, -3.0040553e38F}, 2);
    assert_floats(&file, "empty", NULL, 0);
    assert_memory_equal(xt_weight_file_find(&file, "i64")->data, "\7\0\0\0\0\0\0", 8);
    assert_memory_equal(xt_weight_file_find(&file, "i32")->data, "\xf9\xff\xff\xff", 4);
    assert_memory_equal(xt_weight_file_find(&file, "i16")->data, "\xd4\xfe", 2);
    assert_memory_equal(xt_weight_file_find(&file, "i8")->data, "\xf8", 1);
    assert_memory_equal(xt_weight_file_find(&file, "u8")->data, "\xc8", 1);
    assert_memory_equal(xt_weight_file_find(&file, "bool")->data, "\1", 2);
    assert_int_equal(xt_weight_file_find(&file, "transposed")->dims[0], 3);
    xt_weight_file_clear(&file);
}

static void every_type_is_read_from_the_zip_form(void **state)
{
    (void)state;
    assert_every_type_is_read(FIXTURES "state_zip.pth");
}

static void every_type_is_read_from_the_legacy_form(void **state)
{
    (void)state;
    assert_every_type_is_read(FIXTURES "state_legacy.pth");
}

/* DataParallel's names, a parameter, an optimizer and other values beside them. */
static void assert_checkpoint_is_read(const char *path)
{
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(xt_weight_file_read(&file, path, SIZE_MAX, &err), XT_OK);
    assert_int_equal(file.count, 2);
    assert_floats(&file, "weight", (float[]){1, 2, 3, 4}, 4);
    assert_floats(&file, "bias", (float[]){5, 6}, 2);
    xt_weight_file_clear(&file);
}

static void weights_are_taken_out_of_a_checkpoint(void **state)
{
    (void)state;
    assert_checkpoint_is_read(FIXTURES "checkpoint_zip.pth");
    assert_checkpoint_is_read(FIXTURES "checkpoint_legacy.pth");
}

/* The expected values were read by PyTorch. */
static void the_published_weights_are_read(void **state)
{
    (void)state;
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(xt_weight_file_read(&file, support_shared("data/weights/lprnet_sirius.pth"),
                                         SIZE_MAX, &err),
                     XT_OK);
    assert_int_equal(file.count, 62);
    assert_string_equal(file.tensors[0].name, "backbone.0.weight");
    assert_string_equal(file.tensors[61].name, "container.0.bias");
    const struct xt_file_tensor *head = xt_weight_file_find(&file, "container.0.weight");
    assert_int_equal(head->ndims, 4);
    assert_int_equal(head->dims[0], 68);
    assert_int_equal(head->dims[1], 516);
    const size_t count = (size_t)68 * 516;
    float *values = calloc(count, sizeof *values);
    assert_int_equal(xt_file_tensor_floats(head, values, count, &err), XT_OK);
    assert_true(values[count - 1] == -0.16022749245166779F);
    assert_int_equal(xt_file_tensor_floats(&file.tensors[0], values, 1728, &err), XT_OK);
    assert_true(values[0] == 0.6626672744750977F && values[1] == 1.0154415369033813F);
    assert_int_equal(xt_file_tensor_floats(&file.tensors[61], values, 68, &err), XT_OK);
    assert_true(values[67] == 4.973525047302246F);
    size_t elements = 0;
    for (size_t i = 0; i < file.count; i++)
        elements += xt_file_tensor_count(&file.tensors[i]);
    assert_int_equal(file.tensors[6].dtype, XT_I64);
    assert_int_equal(xt_file_tensor_count(&file.tensors[6]), 1);
    assert_true(elements > 446976);
    free(values);
    xt_weight_file_clear(&file);
}

static void strided_tensors_are_made_dense(void **state)
{
    (void)state;
    static const struct {
        struct claim claim;
        float wanted[4];
        size_t count;
    } cases[] = {
        {{"w", "FloatStorage", 4, 0, {2, 2}, {2, 1}, 2}, {1, 2, 3, 4}, 4},
        {{"w", "FloatStorage", 4, 0, {2, 2}, {1, 2}, 2}, {1, 3, 2, 4}, 4},
        {{"w", "FloatStorage", 4, 1, {2}, {2}, 1}, {2, 4}, 2},
        {{"w", "FloatStorage", 4, 3, {3}, {0}, 1}, {4, 4, 4}, 3},
        {{"w", "FloatStorage", 4, 2, {}, {}, 0}, {3}, 1},
        {{"w", "FloatStorage", 4, 0, {2, 1, 2}, {1, INT64_MAX, 2}, 3}, {1, 3, 2, 4}, 4},
        {{"w", "FloatStorage", 4, 9, {2, 0}, {INT64_MAX, 1}, 2}, {0}, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer made = make_legacy(&cases[i].claim);
        struct xt_weight_file file;
        struct xt_err err;
        assert_int_equal(parse(&file, &made, &err), XT_OK);
        assert_floats(&file, "w", cases[i].wanted, cases[i].count);
        xt_weight_file_clear(&file);
    }
}

static void a_tensor_beyond_its_storage_is_refused(void **state)
{
    (void)state;
    struct claim claim = good;
    claim.offset = 1;
    assert_claim_refused(&claim, "tensor w reaches beyond its storage of 4 elements");
    claim.offset = INT64_MAX;
    assert_claim_refused(&claim, "beyond its storage");
    claim = good;
    claim.strides[0] = 3;
    assert_claim_refused(&claim, "beyond its storage");
    claim.strides[0] = INT64_MAX;
    assert_claim_refused(&claim, "beyond its storage");
    claim.dims[0] = 5;
    assert_claim_refused(&claim, "beyond its storage");
}

static void negative_numbers_are_refused(void **state)
{
    (void)state;
    struct claim claim = good;
    claim.strides[1] = -1;
    assert_claim_refused(&claim, "tensor w: its offset, shape or strides are negative");
    claim = good;
    claim.offset = -1;
    assert_claim_refused(&claim, "negative");
    claim = good;
    claim.dims[0] = -2;
    assert_claim_refused(&claim, "negative");
    claim = good;
    claim.elements = -4;
    assert_claim_refused(&claim, "storage");
}

static void sizes_that_overflow_are_refused(void **state)
{
    (void)state;
    struct claim claim = good;
    claim.dims[0] = claim.dims[1] = INT64_C(1) << 32;
    assert_claim_refused(&claim, "too large");
    claim = good;
    claim.elements = INT64_MAX;
    assert_claim_refused(&claim, "is invalid");
    claim.elements = INT64_C(1) << 40;
    assert_claim_refused(&claim, "ends beyond the file");
    claim.elements = 3;
    assert_claim_refused(&claim, "has 4 elements");
}

static void too_many_dimensions_are_refused(void **state)
{
    (void)state;
    struct claim claim = good;
    claim.ndims = 9;
    assert_claim_refused(&claim, "more than 8 dimensions");
}

/* A stride of 0 would expand four numbers to gigabytes. */
static void a_small_file_cannot_ask_for_much_memory(void **state)
{
    (void)state;
    struct claim claim = good;
    claim.dims[0] = 1 << 20;
    claim.dims[1] = 1 << 8;
    claim.strides[0] = claim.strides[1] = 0;
    assert_claim_refused(&claim, "save it again with .contiguous()");
}

static void other_storage_types_are_refused(void **state)
{
    (void)state;
    struct claim claim = good;
    claim.storage_type = "ComplexFloatStorage";
    assert_claim_refused(&claim, "torch.ComplexFloatStorage");
}

static void names_that_deceive_are_refused(void **state)
{
    (void)state;
    struct claim claim = good;
    claim.name = "a\033[31m";
    assert_claim_refused(&claim, "'a?[31m' is not UTF-8 or holds control");
    claim.name = "a\xff";
    assert_claim_refused(&claim, "not UTF-8");
    struct buffer state_pickle = {.size = 0};
    struct buffer made = {.size = 0};
    put_text(&state_pickle, "}(");
    put_tensor(&state_pickle, &good);
    put_tensor(&state_pickle, &good);
    put_text(&state_pickle, "u");
    put_legacy(&made, &state_pickle);
    assert_refused(&made, "two tensors named 'w'");
}

static void a_pickle_that_calls_something_is_refused_by_name(void **state)
{
    (void)state;
    ASSERT_STATE_REFUSED("cos\nsystem\n(X\4\0\0\0truetR", "it wants to call os.system");
    ASSERT_STATE_REFUSED("\x8c\5posix\x8c\6system\x93", "it wants to call posix.system");
    ASSERT_STATE_REFUSED("(X\4\0\0\0trueios\nsystem\n", "it wants to call os.system");
    ASSERT_STATE_REFUSED("cbuiltins\neval\n", "it wants to call builtins.eval");
    ASSERT_STATE_REFUSED("ctorch.storage\n_load_from_bytes\n", "torch.storage._load_from_bytes");
    ASSERT_STATE_REFUSED("c__main__\nNet\n", "torch.save(model.state_dict(), ...)");
    ASSERT_STATE_REFUSED("c\033[2J\nx\n", "?[2J.x");
}

static void opcodes_that_weights_do_not_need_are_refused(void **state)
{
    (void)state;
    ASSERT_STATE_REFUSED("ctorch\nSize\n)\x81", "opcode 0x81");
    ASSERT_STATE_REFUSED("\x82\1", "opcode 0x82");
    ASSERT_STATE_REFUSED("P0\n", "opcode 0x50");
    ASSERT_STATE_REFUSED("\xff", "opcode 0xff");
}

static void a_damaged_pickle_is_refused(void **state)
{
    (void)state;
    ASSERT_STATE_REFUSED("", "a value is missing");
    ASSERT_STATE_REFUSED("(", "a value is missing");
    ASSERT_STATE_REFUSED("t", "a mark is missing");
    ASSERT_STATE_REFUSED("}(K\1u", "key has no value");
    ASSERT_STATE_REFUSED("](K\1K\2u", "not a container");
    ASSERT_STATE_REFUSED("N]b", "sets the state");
    ASSERT_STATE_REFUSED("K\1)R", "not a name");
    ASSERT_STATE_REFUSED("h\7", "has not made");
    ASSERT_STATE_REFUSED("Nr\xff\xff\xff\x7f", "beyond its own length");
    ASSERT_STATE_REFUSED("X\xff\xff\xff\xff", "ends early");
    ASSERT_STATE_REFUSED("\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "ends early");
    ASSERT_STATE_REFUSED("\x95\xff\xff\xff\xff\xff\xff\xff\xff", "ends early");
    ASSERT_STATE_REFUSED("\x80\1", "protocol");
    ASSERT_STATE_REFUSED("(K\1tQ", "not a storage of numbers");
}

/* Python 2's OrderedDict, copied again and again from one list of pairs. */
static void a_list_copied_often_is_refused(void **state)
{
    (void)state;
    struct buffer pickle = {.size = 0};
    struct buffer made = {.size = 0};
    put_text(&pickle, "ccollections\nOrderedDict\nq");
    put(&pickle, "\0](", 3);
    for (int i = 0; i < 500; i++)
        put_text(&pickle, "NN\x86");
    put(&pickle, "e\x85q\1(", 5);
    for (int i = 0; i < 500; i++)
        put(&pickle, "h\0h\1R", 5);
    put_text(&pickle, "t");
    put_legacy(&made, &pickle);
    assert_refused(&made, "more than the stream can fill");
}

/* Of repeated keys the last counts, as in Python. */
static void of_two_state_dicts_the_last_is_taken(void **state)
{
    (void)state;
    struct claim second = good;
    struct buffer pickle = {.size = 0};
    struct buffer made = {.size = 0};
    struct xt_weight_file file;
    struct xt_err err;
    second.name = "second";
    put_text(&pickle, "}(");
    for (int i = 0; i < 2; i++) {
        put_name(&pickle, "state_dict");
        put_text(&pickle, "}(");
        put_tensor(&pickle, i ? &second : &good);
        put_text(&pickle, "u");
    }
    put_text(&pickle, "u");
    put_legacy(&made, &pickle);
    assert_int_equal(parse(&file, &made, &err), XT_OK);
    assert_int_equal(file.count, 1);
    assert_string_equal(file.tensors[0].name, "second");
    xt_weight_file_clear(&file);
}

/* A large legacy file being built. */
struct stream {
    uint8_t *bytes;
    size_t size;
};

static void repeat(struct stream *to, const char *part, size_t size, size_t often)
{
    to->bytes = realloc(to->bytes, to->size + often * size);
    assert_non_null(to->bytes);
    for (size_t i = 0; i < often; i++)
        memcpy(to->bytes + to->size + i * size, part, size);
    to->size += often * size;
}

#define REPEAT(to, part, often) repeat(to, part, sizeof(part) - 1, often)

static void assert_refused_soon(struct stream *made, const char *why)
{
    struct xt_weight_file file;
    struct xt_err err;
    REPEAT(made, ".\x80\2].", 1);
    clock_t before = clock();
    assert_int_equal(xt_weight_file_parse(&file, made->bytes, made->size, "w.pth", &err),
                     XT_ERR_DATA);
    assert_true(clock() - before < CLOCKS_PER_SEC);
    support_assert_error(&err, XT_ERR_DATA, why);
    free(made->bytes);
}

/* One large dictionary, again and again under the same key. */
static void repeated_keys_cost_no_time(void **state)
{
    (void)state;
    struct stream made = {.size = 0};
    repeat(&made, legacy_start, sizeof legacy_start - 1, 1);
    REPEAT(&made, "}q\0(", 1);
    REPEAT(&made, "NN", 200000);
    REPEAT(&made, "u0}(\x8c\012state_dictq\1h\0", 1);
    REPEAT(&made, "h\1h\0", 100000);
    assert_int_equal(made.size / 1000, 800);
    REPEAT(&made, "u", 1);
    assert_refused_soon(&made, "no tensors were found");
}

/* One storage of a long name, which would be compared again and again. */
static void long_names_of_storages_cost_no_time(void **state)
{
    (void)state;
    struct stream made = {.size = 0};
    repeat(&made, legacy_start, sizeof legacy_start - 1, 1);
    REPEAT(&made, "X\0\0\10\0", 1);
    REPEAT(&made, "k", 8 << 16);
    REPEAT(&made, "q\0\x8c\7storageq\1ctorch\nFloatStorage\nq\2](", 1);
    REPEAT(&made, "(h\1h\2h\0NK\4tQ", 60000);
    REPEAT(&made, "e", 1);
    assert_refused_soon(&made, "not a storage of numbers");
}

static void a_file_without_tensors_says_what_it_holds(void **state)
{
    (void)state;
    struct buffer made = make_without_storages("](K\1e");
    assert_refused(&made, "it holds a list, instead of");
    made = make_without_storages("}(\x8c\5"
                                 "epochK\3\x8c\3"
                                 "netNu");
    assert_refused(&made, "it holds a dictionary with epoch, net, instead");
    made = make_without_storages("}");
    assert_refused(&made, "it holds a dictionary, instead of");
}

static void a_pickle_of_something_else_is_refused(void **state)
{
    (void)state;
    struct buffer made = {.size = 0};
    put_text(&made, "\x80\2}.");
    assert_refused(&made, "torch.save did not write");
}

static void other_files_are_refused(void **state)
{
    (void)state;
    struct buffer made = {.size = 0};
    assert_refused(&made, "too few");
    put_text(&made, "#!/bin/sh\necho weights\n");
    assert_refused(&made, "neither safetensors nor a .pth");
}

/* A zip archive of these entries, as torch.save would lay them out. */
struct content {
    const char *name;
    const void *bytes;
    size_t size;
};

static struct buffer make_zip(const struct content *contents, size_t count, const char *compression)
{
    struct buffer made = {.size = 0};
    struct archive *archive = archive_write_new();
    archive_write_set_format_zip(archive);
    assert_int_equal(archive_write_set_format_option(archive, "zip", "compression", compression),
                     ARCHIVE_OK);
    assert_int_equal(archive_write_set_bytes_per_block(archive, 0), ARCHIVE_OK);
    assert_int_equal(archive_write_open_memory(archive, made.bytes, sizeof made.bytes, &made.size),
                     ARCHIVE_OK);
    for (size_t i = 0; i < count; i++) {
        struct archive_entry *entry = archive_entry_new();
        archive_entry_set_pathname(entry, contents[i].name);
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_size(entry, (int64_t)contents[i].size);
        assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
        assert_int_equal(archive_write_data(archive, contents[i].bytes, contents[i].size),
                         (long)contents[i].size);
        archive_entry_free(entry);
    }
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    return made;
}

static struct buffer good_pickle(void)
{
    struct buffer pickle = {.size = 0};
    put_text(&pickle, "\x80\2}(");
    put_tensor(&pickle, &good);
    put_text(&pickle, "u.");
    return pickle;
}

static void a_made_archive_is_read(void **state)
{
    (void)state;
    struct buffer pickle = good_pickle();
    const float values[] = {1, 2, 3, 4};
    const struct content contents[] = {{"any name/data.pkl", pickle.bytes, pickle.size},
                                       {"any name/byteorder", "little", 6},
                                       {"any name/data/0", values, sizeof values}};
    struct buffer made = make_zip(contents, 3, "store");
    struct xt_weight_file file;
    struct xt_err err;
    assert_int_equal(parse(&file, &made, &err), XT_OK);
    assert_floats(&file, "w", values, 4);
    xt_weight_file_clear(&file);
}

static void an_archive_that_lacks_something_is_refused(void **state)
{
    (void)state;
    struct buffer pickle = good_pickle();
    const struct content contents[] = {{"a/data.pkl", pickle.bytes, pickle.size},
                                       {"a/data/0", "12345678", 8},
                                       {"a/byteorder", "big", 3},
                                       {"b/data.pkl", pickle.bytes, pickle.size}};
    struct buffer made = make_zip(contents, 1, "store");
    assert_refused(&made, "tensor w: its storage is missing");
    made = make_zip(contents, 2, "store");
    assert_refused(&made, "has 8 bytes where its pickle says 16");
    made = make_zip(contents, 3, "store");
    assert_refused(&made, "big-endian");
    made = make_zip(contents + 1, 1, "store");
    assert_refused(&made, "without a data.pkl");
    made = make_zip(contents, 4, "store");
    assert_refused(&made, "two entries data.pkl");
    made = make_zip(contents, 0, "store");
    assert_refused(&made, "zip archive");
}

static void an_archive_that_unpacks_to_more_than_itself_is_refused(void **state)
{
    (void)state;
    size_t size = 4 << 20;
    uint8_t *zeros = calloc(size, 1);
    const struct content contents[] = {{"a/data/0", zeros, size}};
    struct buffer made = make_zip(contents, 1, "deflate");
    assert_refused(&made, "entry data/0 of its zip archive unpacks to more than the file");
    free(zeros);
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    (void)state;
    assert_refused_when_cut(FIXTURES "state_legacy.pth");
    assert_refused_when_cut(FIXTURES "checkpoint_legacy.pth");
    assert_refused_when_cut(FIXTURES "state_zip.pth");
}

static void a_damaged_number_in_an_archive_is_seen(void **state)
{
    (void)state;
    struct buffer pickle = good_pickle();
    const struct content contents[] = {{"a/data.pkl", pickle.bytes, pickle.size},
                                       {"a/data/0", "0123456789abcdef", 16}};
    struct buffer made = make_zip(contents, 2, "store");
    uint8_t *number = memmem(made.bytes, made.size, "0123456789abcdef", 16);
    assert_non_null(number);
    number[3] ^= 1;
    assert_refused(&made, "zip archive cannot be read");
}

/* A sparse file, which claims far more than it takes on the disk. */
static const char *write_sparse(void *folder, const struct buffer *made, size_t tail, size_t hole)
{
    const char *path = support_path(folder, "sparse.pth");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    size_t head = made->size - tail;
    assert_int_equal(pwrite(fd, made->bytes, head, 0), (long)head);
    assert_int_equal(ftruncate(fd, (off_t)(head + hole)), 0);
    assert_int_equal(pwrite(fd, made->bytes + head, tail, (off_t)(head + hole)), (long)tail);
    close(fd);
    return path;
}

/* With at most 1 MB of tensors, and little more memory than that. */
static enum xt_status read_within_a_megabyte(struct xt_weight_file *file, const char *path,
                                             struct xt_err *err)
{
    struct rusage before;
    struct rusage after;
    getrusage(RUSAGE_SELF, &before);
    enum xt_status status = xt_weight_file_read(file, path, 1 << 20, err);
    getrusage(RUSAGE_SELF, &after);
    assert_true(after.ru_maxrss - before.ru_maxrss < 64 << 10);
    return status;
}

static const size_t eight_gb = (size_t)8 << 30;

static void a_large_legacy_file_takes_no_memory(void **state)
{
    struct claim claim = good;
    struct xt_weight_file file;
    struct xt_err err;
    claim.elements = claim.dims[0] = (int64_t)eight_gb / 4;
    claim.dims[1] = 1;
    struct buffer made = make_legacy(&claim);
    made.size -= 4 * sizeof(float) + 8;
    put(&made, &claim.elements, 8);
    const char *path = write_sparse(*state, &made, 0, eight_gb);
    assert_int_equal(read_within_a_megabyte(&file, path, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "sparse.pth: its tensors take 8589934592 bytes, more");
    /* Only its first bytes. */
    made.size = sizeof legacy_start - 1;
    path = write_sparse(*state, &made, 0, eight_gb);
    assert_int_equal(read_within_a_megabyte(&file, path, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "opcode 0x00");
}

/* Storages that the network does not use, an optimizer's state, say, are not read. */
static void other_storages_are_left_in_the_file(void **state)
{
    const int64_t count = (int64_t)eight_gb / 4;
    struct claim other = good;
    struct buffer pickle = {.size = 0};
    struct buffer made = {.size = 0};
    struct xt_weight_file file;
    struct xt_err err;
    other.elements = count;
    put_text(&pickle, "}(");
    put_name(&pickle, "model");
    put_text(&pickle, "}(");
    put_tensor(&pickle, &good);
    put_text(&pickle, "u");
    put_name(&pickle, "optimizer");
    size_t from = pickle.size;
    put_text(&pickle, "}(");
    put_tensor(&pickle, &other);
    put_text(&pickle, "uu");
    uint8_t *key = memmem(pickle.bytes + from, pickle.size - from, "\x8c\0010", 3);
    key[2] = '1';
    put_legacy(&made, &pickle);
    uint8_t *keys = memmem(made.bytes, made.size, "]\x8c\0010a.", 6);
    size_t tail = made.size - (size_t)(keys + 6 - made.bytes);
    uint8_t numbers[64];
    memcpy(numbers, keys + 6, tail);
    made.size -= tail + 2;
    put_text(&made, "a");
    put_name(&made, "1");
    put_text(&made, "a.");
    put(&made, numbers, tail);
    put(&made, &count, 8);
    const char *path = write_sparse(*state, &made, 0, eight_gb);
    assert_int_equal(read_within_a_megabyte(&file, path, &err), XT_OK);
    assert_floats(&file, "w", (float[]){1, 2, 3, 4}, 4);
    xt_weight_file_clear(&file);
}

/* The archive's own directory stands behind the hole. */
static void a_large_archive_takes_no_memory(void **state)
{
    const uint32_t size = 3U << 30;
    struct claim claim = good;
    struct buffer pickle = {.size = 0};
    struct xt_weight_file file;
    struct xt_err err;
    claim.elements = size / 4;
    put_text(&pickle, "\x80\2}(");
    put_tensor(&pickle, &claim);
    put_text(&pickle, "u.");
    const struct content contents[] = {{"a/data.pkl", pickle.bytes, pickle.size},
                                       {"a/data/0", "0123456789abcdef", 16}};
    struct buffer made = make_zip(contents, 2, "store");
    uint8_t *directory = memmem(made.bytes, made.size, "PK\1\2", 4);
    uint8_t *second = memmem(directory + 4, 200, "PK\1\2", 4);
    uint8_t *end = memmem(directory, 400, "PK\5\6", 4);
    uint32_t begin = (uint32_t)(directory - made.bytes) + size;
    for (int field = 20; field <= 24; field += 4)
        memcpy(second + field, &size, sizeof size);
    memcpy(end + 16, &begin, sizeof begin);
    const char *path = write_sparse(*state, &made, made.size - (begin - size), size);
    assert_int_equal(read_within_a_megabyte(&file, path, &err), XT_ERR_DATA);
    support_assert_error(&err, XT_ERR_DATA, "its tensors take 3221225472 bytes, more than");
}

#define IN_FOLDER(test)                                                                            \
    cmocka_unit_test_setup_teardown(test, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_read_from_the_zip_form),
        cmocka_unit_test(every_type_is_read_from_the_legacy_form),
        cmocka_unit_test(weights_are_taken_out_of_a_checkpoint),
        cmocka_unit_test(the_published_weights_are_read),
        cmocka_unit_test(strided_tensors_are_made_dense),
        cmocka_unit_test(a_tensor_beyond_its_storage_is_refused),
        cmocka_unit_test(negative_numbers_are_refused),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(too_many_dimensions_are_refused),
        cmocka_unit_test(a_small_file_cannot_ask_for_much_memory),
        cmocka_unit_test(other_storage_types_are_refused),
        cmocka_unit_test(names_that_deceive_are_refused),
        cmocka_unit_test(a_pickle_that_calls_something_is_refused_by_name),
        cmocka_unit_test(opcodes_that_weights_do_not_need_are_refused),
        cmocka_unit_test(a_damaged_pickle_is_refused),
        cmocka_unit_test(a_list_copied_often_is_refused),
        cmocka_unit_test(of_two_state_dicts_the_last_is_taken),
        cmocka_unit_test(repeated_keys_cost_no_time),
        cmocka_unit_test(long_names_of_storages_cost_no_time),
        cmocka_unit_test(a_file_without_tensors_says_what_it_holds),
        cmocka_unit_test(a_pickle_of_something_else_is_refused),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(a_made_archive_is_read),
        cmocka_unit_test(an_archive_that_lacks_something_is_refused),
        cmocka_unit_test(an_archive_that_unpacks_to_more_than_itself_is_refused),
        cmocka_unit_test(a_file_cut_anywhere_is_refused),
        cmocka_unit_test(a_damaged_number_in_an_archive_is_seen),
        IN_FOLDER(a_large_legacy_file_takes_no_memory),
        IN_FOLDER(other_storages_are_left_in_the_file),
        IN_FOLDER(a_large_archive_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
