#include "cli/json/schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/json/names.h"

/* A shape lists the names of an object, separated by single spaces; `!` marks those that it always
 * has if the command succeeded, {...} an object and [...] a list of objects. */
#define ORIGIN "origin{run step record}"
#define METRICS "images correct accuracy char_accuracy top5 bad_images"
#define IMAGE "path! prediction confidence characters top[prediction! confidence!] rejected error"
#define TIMES "{mean! p50! p95! p99!}"
#define EVALUATED                                                                                  \
    "type " METRICS " latency_ms{per_image" TIMES " per_batch" TIMES "} images_per_s seconds"
#define SLOW "slow[cause! because! remedy!]"
#define WAITED "ranks! gradients norms other beside_backward"
#define STEP                                                                                       \
    "model device device_name type batch threads beside steps images_per_s step_ms conv_ms share " \
    "free_conv_ms free_share first_step_seconds peak_rss_mb planned_mb others_cpu_share to_old "   \
    "profile{step_ms! sum_ms! "                                                                    \
    "refresh_ms! loss_ms! update_ms! ops[op! kind! type! forward_ms backward_ms "                  \
    "forward_gflops_per_s backward_gflops_per_s forward_gb_per_s backward_gb_per_s]} why{" SLOW    \
    " step_ms launches_ms waits_ms loss_ms busy examined not_examined}"
#define BEST "{accuracy char_accuracy top5 val_loss step}"
#define SPAN "{seconds! cpu_seconds!}"
#define KERNELS "{kernels_compiled kernels_from_cache}"

static const char *const shapes[XT_SCHEMA_COUNT] = {
    [XT_COMMAND_TRAIN] =
        "run! step! steps! seconds! loss exit_reason! " METRICS
        " ema_accuracy ema_char_accuracy ema_top5 evaluated_step best_step best_accuracy "
        "best_is_average skipped_steps nan_skipped_steps loss_scale loss_spikes lr_factor "
        "epoch_seconds images_per_s start_seconds loading_seconds evaluation_seconds energy_joules "
        "energy_source reliability{images! temperature! ece! ece_before! negatives "
        "negatives_accepted negatives_at_keep reject_below accepted accepted_correct "
        "accepted_bound promised} learnt not_learnt[path! label! prediction!] " SLOW
        " waited{" WAITED
        "} files{best_weights last_weights ema_weights checkpoint metrics report events config "
        "bad_image_list}",
    [XT_COMMAND_TRY] =
        "data! path! task! model! images! bad_images! duplicates! turned! stages![name! detail! "
        "seconds!] suspects![path! label! prediction! confidence! odds!] wanted![label! count! "
        "correct!] correct! accuracy! result![name! detail!]",
    [XT_COMMAND_SWEEP] = "path! configs!",
    [XT_COMMAND_EVAL] = "data! " ORIGIN " calibration{source! images!} " EVALUATED
                        " ece reject_below accepted accepted_correct error_files "
                        "predictions[path! label! prediction! confidence! right! rejected!] "
                        "runs[device device_name " EVALUATED "]",
    [XT_COMMAND_PREDICT] =
        "images! answered! unreadable! seconds! " ORIGIN " predictions[" IMAGE "]",
    [XT_COMMAND_REPORT] = "path! run_count!",
    [XT_COMMAND_COMPARE] = "runs![run! state! best_evaluation" BEST " last_evaluation" BEST
                           " step epoch loss seconds images_per_s] settings!",
    [XT_COMMAND_VERIFY] =
        "run! running! as_recorded proven lines unproven_lines broken_line id head signed started "
        "environments device_check device_checked device_check_now made_with[what! then now same] "
        "recorded_files[file! state! detail] replay{from! to! lines! same_weights! by! same! "
        "difference}",
    [XT_COMMAND_EXPORT] =
        "path! model! type! bytes! opset! ir_version! batch! with_preprocess! check{checked! "
        "why_not runtime images same_predictions largest_difference largest_logit passed}",
    [XT_COMMAND_DIFF] =
        "path_a! path_b! data models[path! images! correct! accuracy bad_images!] compared "
        "different only_a_right only_b_right differences[path! label! prediction_a! confidence_a! "
        "right_a! prediction_b! confidence_b! right_b!] tensors[name! shape! different! largest "
        "relative] other_shapes[name! shape_a! shape_b!] only_in_a only_in_b metadata[key! "
        "value_a! value_b!] same_tensors",
    [XT_COMMAND_SERVE] = "images answered unreadable seconds " ORIGIN " predictions[" IMAGE
                         "] service failed attacks[attack! held! detail!]",
    [XT_COMMAND_MODELS] = "models![name! parameters! flops! height! width! classes! title!]",
    [XT_COMMAND_DEVICES] =
        "devices![device! name! threads memory_bytes instructions fast_bf16 runs_bf16 infers_fp16 "
        "fast_int8 "
        "onednn library broken architecture integrated execution_units memory_free_bytes "
        "memory_free_source memory_free_why allocation_max_bytes tiles[memory_bytes "
        "memory_used_bytes] pci uuid trains infers machine_code implementation machine_code_since "
        "driver backend runtime experimental] xpu_error! environment!",
    [XT_COMMAND_BENCH_STEP] = STEP " recompute runs[" STEP "] fastest",
    [XT_COMMAND_BENCH_INFER] =
        "model! device_name! threads! runs![type! batch! images_per_s! pass_ms! conv_ms! share! "
        "others_cpu_share ops[op! kind! type! ms!]]",
    [XT_COMMAND_BENCH_LOADER] =
        "model! images! width! height! batch! workers! slots! images_per_s! "
        "decode_only_images_per_s! efficiency! bad_images! device slots_are upload_ms compute_ms "
        "uploads[memory! overlapped! bytes_per_s! images_per_s!]",
    [XT_COMMAND_BENCH_START] =
        "model! batch! device! kernel_cache! starts![type! phases![name! "
        "cold" SPAN " warm" SPAN "] ratio cpu_ratio cold" KERNELS " warm" KERNELS "]",
    [XT_COMMAND_BENCH_SCALE] = "runs![" WAITED " images_per_s! speed_up!]",
    [XT_COMMAND_WARMUP] = "runs![for! type! compiled! cached! for_gpu! seconds! cpu_seconds!]",
    [XT_COMMAND_DATA_CHECK] =
        "images! jpeg! png! webp! turned! sizes![width! height! count!] bad_images! "
        "first_bad_image duplicates! channel_mean! channel_deviation! shortest_label! "
        "longest_label! unlabelled! first_unlabelled label_counts![label! count!] "
        "duplicates_across",
    [XT_COMMAND_DATA_SPLIT] = "path! train! val!",
    [XT_COMMAND_DATA_PACK] = "path! images! bad_images! bytes! shards",
    [XT_COMMAND_DATA_GET] = "path! bytes! sha256! fetched!",
    [XT_COMMAND_DOCTOR] =
        "checks[state! name! detail! debian fedora selector memory_source memory_free_source "
        "busy_source power_source energy_source frequency_source temperature_source] node{host "
        "xtrain linux kernel_driver xpu_count level_zero_driver opencl_driver resizable_bar onednn "
        "onednn_commit onednn_runtime xpus[name opens memory execution_units driver backend "
        "kernel_kind implementation]} environment works nodes[name! works!] differences[name! "
        "what! here! most! "
        "most_count!] common alike",
    [XT_COMMAND_SELFTEST] =
        "device! op_count! wrong! networks![network! batch! width height rows![op! type! pass! "
        "op_count! wrong! largest_error! bound! where!]]",
    [XT_COMMAND_CACHE] =
        "path caches[path! kernels! bad_kernels! bytes! last_used! this_machine! unsafe runtime "
        "device driver onednn made run] faults[cache! file! reason!] good_kernels bad_kernels "
        "removed bytes bytes_left written taken refused",
    [XT_COMMAND_HELP] = "",
    [XT_COMMAND_VERSION] = "xtrain! libraries![name! version path]",
    [XT_COMMAND_MAN] = "",
    [XT_COMMAND_SCHEMA] = "json_schema!",
    [XT_COMMAND_COMPLETION] = "",
    [XT_SCHEMA_ANY] = "",
    [XT_SCHEMA_IMAGE] = IMAGE,
    [XT_SCHEMA_PROGRESS] = "step! steps! epoch epochs loss lr images_per_s seconds_left wait",
    [XT_SCHEMA_EVALUATION] = "step! " METRICS " val_loss average! best!",
};

static const char *const line_names[] = {"xtrain", "image", "progress", "evaluation"};

static bool is_line(int id)
{
    return id > XT_SCHEMA_ANY;
}

const char *xt_schema_name(int id)
{
    return id < XT_COMMAND_COUNT ? xt_command_get((enum xt_command_id)id)->name
                                 : line_names[id - XT_COMMAND_COUNT];
}

int xt_schema_find(const char *name)
{
    int id = 0;
    for (; id < XT_SCHEMA_COUNT; id++) {
        const char *own = xt_schema_name(id);
        size_t i = 0;
        while (own[i] && (own[i] == name[i] || (own[i] == ' ' && name[i] == '-')))
            i++;
        if (!own[i] && !name[i])
            break;
    }
    return id;
}

/* ---- shapes ---- */

/* A name of a shape, and what follows it. */
struct item {
    const struct xt_json_name *name;
    bool always;
    char open;         /* '{', '[' or 0 */
    const char *inner; /* the nested shape, which ends at its bracket */
};

/* The shape behind the bracket that matches the one before `at`. */
static const char *skip_nested(const char *at)
{
    for (int depth = 1; depth; at++)
        depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
    return at;
}

/* Reads the next name; false at the end of the (nested) shape. */
static bool next_item(const char **shape, struct item *out)
{
    const char *at = *shape + strspn(*shape, " ");
    size_t length = strcspn(at, " !{}[]");
    if (!length)
        return false;
    *out = (struct item){.name = xt_json_name_find(at, length)};
    at += length;
    out->always = *at == '!';
    at += out->always;
    if (*at == '{' || *at == '[') {
        out->open = *at;
        out->inner = at + 1;
        at = skip_nested(at + 1);
    }
    *shape = at;
    return true;
}

static bool find_item(const char *shape, const char *name, struct item *out)
{
    while (next_item(&shape, out))
        if (strcmp(out->name->name, name) == 0)
            return true;
    return false;
}

/* The names of every object. */
static const char common[] = "exit_code! error next text";

/* ---- JSON Schema ---- */

/* Both take ownership; NULL spreads: the result is NULL if an allocation failed. */
static void put(cJSON **to, const char *key, cJSON *item)
{
    if (*to && item && cJSON_AddItemToObject(*to, key, item))
        return;
    cJSON_Delete(item);
    cJSON_Delete(*to);
    *to = NULL;
}

static void append(cJSON **to, cJSON *item)
{
    if (*to && item && cJSON_AddItemToArray(*to, item))
        return;
    cJSON_Delete(item);
    cJSON_Delete(*to);
    *to = NULL;
}

/* {KEY:VALUE} */
static cJSON *object_of(const char *key, cJSON *value)
{
    cJSON *to = cJSON_CreateObject();
    put(&to, key, value);
    return to;
}

/* Of a value, or of a list's items. */
static const char *const schema_types[] = {
    [XT_JSON_TEXT] = "string",  [XT_JSON_INTEGER] = "integer", [XT_JSON_NUMBER] = "number",
    [XT_JSON_FLAG] = "boolean", [XT_JSON_TEXTS] = "string",    [XT_JSON_NUMBERS] = "number",
    [XT_JSON_TABLE] = "object", [XT_JSON_NESTED] = "object",
};

/* {"type":"string"}, or {"type":["string","null"]} */
static cJSON *type_of(const struct xt_json_name *name, const char *type)
{
    if (!xt_json_name_may_be_null(name))
        return cJSON_CreateString(type);
    cJSON *types = cJSON_CreateArray();
    append(&types, cJSON_CreateString(type));
    append(&types, cJSON_CreateString("null"));
    return types;
}

static cJSON *list_of(cJSON *items)
{
    cJSON *to = object_of("type", cJSON_CreateString("array"));
    put(&to, "items", items);
    return to;
}

static cJSON *object_schema(const char *shape, cJSON *type);

static cJSON *item_schema(const struct item *item)
{
    const struct xt_json_name *name = item->name;
    if (item->open == '[')
        return list_of(object_schema(item->inner, cJSON_CreateString("object")));
    if (item->open == '{')
        return object_schema(item->inner, type_of(name, "object"));
    if (name->type == XT_JSON_TEXTS || name->type == XT_JSON_NUMBERS)
        return list_of(object_of("type", cJSON_CreateString(schema_types[name->type])));
    return object_of("type", type_of(name, schema_types[name->type]));
}

static void put_names(cJSON **properties, cJSON **always, const char *shape)
{
    struct item item;
    while (next_item(&shape, &item)) {
        cJSON *schema = item_schema(&item);
        put(&schema, "description", cJSON_CreateString(item.name->meaning));
        put(properties, item.name->name, schema);
        if (item.always)
            append(always, cJSON_CreateString(item.name->name));
    }
}

static cJSON *object_schema(const char *shape, cJSON *type)
{
    cJSON *to = cJSON_CreateObject();
    cJSON *properties = cJSON_CreateObject();
    cJSON *always = cJSON_CreateArray();
    put_names(&properties, &always, shape);
    put(&to, "type", type);
    put(&to, "properties", properties);
    put(&to, "required", always);
    put(&to, "additionalProperties", cJSON_CreateFalse());
    return to;
}

cJSON *xt_schema_mark(int id)
{
    char name[32];
    snprintf(name, sizeof name, "%s", xt_schema_name(id));
    if (strchr(name, ' '))
        *strchr(name, ' ') = '-';
    cJSON *to = object_of("name", cJSON_CreateString(name));
    put(&to, "version", cJSON_CreateNumber(XT_SCHEMA_VERSION));
    return to;
}

cJSON *xt_schema_create(int id)
{
    char title[64];
    snprintf(title, sizeof title, is_line(id) ? "a line of --jsonl: %s" : "xtrain %s --json",
             xt_schema_name(id));
    cJSON *to =
        object_of("$schema", cJSON_CreateString("https://json-schema.org/draft/2020-12/schema"));
    put(&to, "title", cJSON_CreateString(title));
    put(&to, "type", cJSON_CreateString("object"));
    cJSON *properties = object_of("schema", object_of("const", xt_schema_mark(id)));
    cJSON *always = cJSON_CreateArray();
    cJSON *on_success = cJSON_CreateArray();
    append(&always, cJSON_CreateString("schema"));
    if (!is_line(id))
        put_names(&properties, &always, common);
    put_names(&properties, is_line(id) ? &always : &on_success, shapes[id]);
    put(&to, "properties", properties);
    put(&to, "required", always);
    put(&to, "additionalProperties", cJSON_CreateFalse());
    if (is_line(id)) {
        cJSON_Delete(on_success);
        return to;
    }
    cJSON *on_error = cJSON_CreateArray();
    append(&on_error, cJSON_CreateString("error"));
    append(&on_error, cJSON_CreateString("next"));
    put(&to, "if",
        object_of("properties", object_of("exit_code", object_of("const", cJSON_CreateNumber(0)))));
    /* --help, --print-config and --dry-run give a text instead. */
    cJSON *only_text = cJSON_CreateArray();
    append(&only_text, cJSON_CreateString("text"));
    cJSON *either = cJSON_CreateArray();
    append(&either, object_of("required", on_success));
    append(&either, object_of("required", only_text));
    put(&to, "then", object_of("anyOf", either));
    put(&to, "else", object_of("required", on_error));
    return to;
}

/* ---- the check of an object ---- */

static bool is_list_of(const cJSON *value, int type)
{
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, value) if (!(item->type & type)) return false;
    return cJSON_IsArray(value);
}

static bool fits(const struct xt_json_name *name, const cJSON *value)
{
    switch (name->type) {
    case XT_JSON_TEXT:
        return cJSON_IsString(value);
    case XT_JSON_INTEGER:
        return cJSON_IsNumber(value) && value->valuedouble == floor(value->valuedouble);
    case XT_JSON_NUMBER:
        return cJSON_IsNumber(value);
    case XT_JSON_FLAG:
        return cJSON_IsBool(value);
    case XT_JSON_TEXTS:
        return is_list_of(value, cJSON_String);
    case XT_JSON_NUMBERS:
        return is_list_of(value, cJSON_Number);
    case XT_JSON_TABLE:
    case XT_JSON_NESTED:
        return cJSON_IsObject(value);
    }
    return false;
}

static bool check_object(const char *shape, const char *also, const cJSON *object, char *why,
                         size_t size);

static bool check_value(const struct item *item, const cJSON *value, char *why, size_t size)
{
    const cJSON *each = NULL;
    bool fine = item->open == '['     ? cJSON_IsArray(value)
                : cJSON_IsNull(value) ? xt_json_name_may_be_null(item->name)
                                      : fits(item->name, value);
    if (!fine)
        snprintf(why, size, "%s is of another type", value->string);
    if (fine && item->open == '{' && cJSON_IsObject(value))
        return check_object(item->inner, "", value, why, size);
    if (fine && item->open == '[')
        cJSON_ArrayForEach(each, value) fine =
            fine && check_object(item->inner, "", each, why, size);
    return fine;
}

static bool check_object(const char *shape, const char *also, const cJSON *object, char *why,
                         size_t size)
{
    const cJSON *member = NULL;
    struct item item;
    cJSON_ArrayForEach(member, object)
    {
        if (strcmp(member->string, "schema") == 0)
            continue;
        if (!find_item(shape, member->string, &item) && !find_item(also, member->string, &item)) {
            snprintf(why, size, "%s is not in it", member->string);
            return false;
        }
        if (!check_value(&item, member, why, size))
            return false;
    }
    return true;
}

bool xt_schema_check(int id, const cJSON *object, char *why, size_t size)
{
    return check_object(shapes[id], is_line(id) ? "" : common, object, why, size);
}
