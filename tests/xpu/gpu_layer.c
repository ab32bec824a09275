/* A test double of an Intel GPU driver: an OpenCL layer that makes Intel's OpenCL runtime for CPUs
 * look like one GPU, so that oneDNN's GPU kernels run, with right numbers, on a machine without a
 * GPU. Loaded by the OpenCL loader through OPENCL_LAYERS; see double.sh. Never installed.
 *
 * Like a driver it keeps compiled programs in NEO_CACHE_DIR where NEO_CACHE_PERSISTENT is 1, by
 * source, options and runtime version. Each file is a head (magic, length, checksum) and the
 * binary. Environment for tests: XT_LAYER_LOG, a file that gets a line for each program: "compiled
 * MS" or "cached MS". XT_LAYER_CRASH=1 ends the process when devices are asked for, as a broken
 * driver does. XT_LAYER_HANG=N: compiling the program of that number never ends.
 * XT_LAYER_FEW=1: a device of few extensions, without unified shared memory. XT_LAYER_TWO=N: two
 * devices, each a CPU of its own, of which the N-th (1 or 2; 0: none) cannot be opened.
 * XT_LAYER_UUID=1: a device with the UUID of the discrete GPU of ze_driver.c.
 */
#include "layer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    IP_VERSION = 0x4250,                 /* CL_DEVICE_IP_VERSION_INTEL */
    FEATURE_CAPABILITIES = 0x4256,       /* CL_DEVICE_FEATURE_CAPABILITIES_INTEL */
    XE_LP_GENERIC = 12 << 22 | 50 << 14, /* oneDNN takes its OpenCL C kernels for it */
};

struct binary {
    unsigned char *bytes; /* NULL: none */
    size_t size;
};

/* A program that was created from source; once it is found in the cache, its binary, and the
 * program built from it if more than the binary is needed. */
struct program {
    struct program *next;
    cl_program handle;
    struct binary cached;
    cl_program made;
    cl_context context;
    cl_device_id device;
    char *source;
    unsigned references;
};

static struct program *programs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* FNV-1a by words of 8 bytes: a start hashes many megabytes. */
static uint64_t hash(uint64_t h, const void *bytes, size_t count)
{
    const unsigned char *p = bytes;
    while (count) {
        uint64_t word = 0;
        size_t part = count < sizeof word ? count : sizeof word;
        memcpy(&word, p, part);
        h = (h ^ word) * 0x100000001B3u;
        h ^= h >> 32;
        p += part;
        count -= part;
    }
    return h;
}

/* Where the test wants it, for as long as the process lives. */
static void hang_if_asked(void)
{
    static atomic_int programs_built;
    const char *number = getenv("XT_LAYER_HANG");
    if (!number || atomic_fetch_add(&programs_built, 1) + 1 != atoi(number))
        return;
    layer_log("hanging 0.0");
    for (;;)
        pause();
}

/* --- the device
 * ---------------------------------------------------------------------------------*/
static cl_device_id halves[2];

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count,
                                             const cl_device_id *devices,
                                             void(CL_CALLBACK *notify)(const char *, const void *,
                                                                       size_t, void *),
                                             void *user, cl_int *error)
{
    const char *two = getenv("XT_LAYER_TWO");
    int number = two ? atoi(two) : 0;
    for (cl_uint i = 0; i < count && number > 0 && number <= 2; i++)
        if (devices[i] == halves[number - 1]) {
            if (error)
                *error = CL_DEVICE_NOT_AVAILABLE;
            return NULL;
        }
    return real->clCreateContext(properties, count, devices, notify, user, error);
}

/* The same two each time. */
static cl_int two_devices(cl_platform_id platform, cl_uint room, cl_device_id *devices,
                          cl_uint *count)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    const cl_device_partition_property split[] = {CL_DEVICE_PARTITION_BY_COUNTS, 1, 1,
                                                  CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_device_id whole = NULL;
    cl_int result = CL_SUCCESS;
    pthread_mutex_lock(&making);
    if (!halves[0])
        result = real->clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &whole, NULL);
    if (!halves[0] && !result)
        result = real->clCreateSubDevices(whole, split, 2, halves, NULL);
    pthread_mutex_unlock(&making);
    for (cl_uint i = 0; devices && i < 2 && i < room && !result; i++)
        devices[i] = halves[i];
    if (count)
        *count = 2;
    return result;
}

static cl_int CL_API_CALL get_device_ids(cl_platform_id platform, cl_device_type type, cl_uint room,
                                         cl_device_id *devices, cl_uint *count)
{
    if (getenv("XT_LAYER_CRASH"))
        abort();
    if (type == CL_DEVICE_TYPE_GPU)
        type = CL_DEVICE_TYPE_CPU;
    else if (type == CL_DEVICE_TYPE_CPU)
        return CL_DEVICE_NOT_FOUND;
    if (getenv("XT_LAYER_TWO") && type != CL_DEVICE_TYPE_CPU)
        return two_devices(platform, room, devices, count);
    return real->clGetDeviceIDs(platform, type, room, devices, count);
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info what, size_t room,
                                          void *out, size_t *needed)
{
    const cl_device_type gpu = CL_DEVICE_TYPE_GPU;
    const cl_uint version = XE_LP_GENERIC;
    const cl_bitfield none = 0;
    static const char few[] = "cl_khr_fp16 cl_intel_subgroups";
    cl_uchar uuid[CL_UUID_SIZE_KHR];
    memset(uuid, 0xa0, sizeof uuid);
    if (what == CL_DEVICE_UUID_KHR && getenv("XT_LAYER_UUID"))
        return layer_answer(uuid, sizeof uuid, room, out, needed);
    if (what == CL_DEVICE_EXTENSIONS && getenv("XT_LAYER_FEW"))
        return layer_answer(few, sizeof few, room, out, needed);
    if (what == CL_DEVICE_TYPE)
        return layer_answer(&gpu, sizeof gpu, room, out, needed);
    if (what == IP_VERSION)
        return layer_answer(&version, sizeof version, room, out, needed);
    if (what == FEATURE_CAPABILITIES)
        return layer_answer(&none, sizeof none, room, out, needed);
    return real->clGetDeviceInfo(device, what, room, out, needed);
}

/* --- programs
 * -----------------------------------------------------------------------------------*/
static struct program *find(cl_program handle)
{
    for (struct program *p = programs; p; p = p->next)
        if (p->handle == handle)
            return p;
    return NULL;
}

static cl_program make(const struct program *p)
{
    const unsigned char *bytes = p->cached.bytes;
    cl_int error = 0;
    cl_program program = real->clCreateProgramWithBinary(p->context, 1, &p->device, &p->cached.size,
                                                         &bytes, NULL, &error);
    if (program && real->clBuildProgram(program, 1, &p->device, "", NULL, NULL)) {
        real->clReleaseProgram(program);
        program = NULL;
    }
    return program;
}

/* The program to pass on: the one from the cache where there is one. */
static cl_program actual(cl_program handle)
{
    pthread_mutex_lock(&lock);
    struct program *p = find(handle);
    if (p && p->cached.bytes && !p->made)
        p->made = make(p);
    cl_program result = p && p->made ? p->made : handle;
    pthread_mutex_unlock(&lock);
    return result;
}

static char *join(cl_uint count, const char **strings, const size_t *lengths)
{
    size_t total = 0;
    char *text = NULL;
    for (cl_uint i = 0; i < count; i++) {
        size_t length = lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
        char *longer = realloc(text, total + length + 1);
        if (!longer)
            break;
        text = longer;
        memcpy(text + total, strings[i], length);
        total += length;
        text[total] = '\0';
    }
    return text;
}

/* oneDNN starts these with sub-groups along another dimension of a work-group than the first: pools
 * along the third, copies along the first that has more than one work-item. A GPU fills SIMD
 * channels from all dimensions, this runtime only from the first and then computes one channel of
 * 8 or 16; so the two dimensions change places, in the source and when the kernel is started. */
static const char pools[] = "xe_pooling_";
static const char copies[] = "custom_reorder";

/* With `text` before it; the source is freed. */
static char *preceded(const char *text, char *source)
{
    const char *parts[] = {text, source};
    char *both = join(2, parts, NULL);
    free(source);
    return both;
}

/* The loops over a batch have constant bounds here, and of numbers of two bytes this runtime's
 * compiler unrolls thousands of rounds: one weight gradient of LPRNet (4 x 18 x 44 places, 256 x 64
 * channels) took it half a minute in bf16, and in fp16 had not ended after four. Left as loops it
 * takes half a second. A GPU's compiler never sees this. */
static char *left_as_loops(char *source)
{
    static const char kernel[] = "ref_convolution_bwd_weights";
    static const char preamble[] = "#if IS_BWD_W && !defined SRC_DT_F32\n"
                                   "#define for _Pragma(\"clang loop unroll(disable)\") for\n"
                                   "#endif\n";
    return source && strstr(source, kernel) ? preceded(preamble, source) : source;
}

static char *turned(char *source)
{
    static const char preamble[] =
        "#define TURNED(d) ((d) == 0 ? ALONG : (d) == ALONG ? 0 : (d))\n"
        "#define TURNED_SIZE(d, x, y, z) (TURNED(d) == 0 ? (x) : TURNED(d) == 1 ? (y) : (z))\n"
        "#define reqd_work_group_size(x, y, z) reqd_work_group_size(TURNED_SIZE(0, x, y, z), "
        "TURNED_SIZE(1, x, y, z), TURNED_SIZE(2, x, y, z))\n"
        "#define get_global_id(d) get_global_id(TURNED(d))\n"
        "#define get_global_size(d) get_global_size(TURNED(d))\n"
        "#define get_local_id(d) get_local_id(TURNED(d))\n"
        "#define get_local_size(d) get_local_size(TURNED(d))\n"
        "#define get_group_id(d) get_group_id(TURNED(d))\n"
        "#define get_num_groups(d) get_num_groups(TURNED(d))\n";
    static const char of_pools[] = "#define ALONG 2\n";
    static const char of_copies[] =
        "#define ALONG (GWS_LWS0_DEFAULT > 1 ? 0 : GWS_LWS1_DEFAULT > 1 ? 1 : 2)\n";
    bool pool = source && strstr(source, pools);
    if (!pool && !(source && strstr(source, copies)))
        return source;
    return preceded(pool ? of_pools : of_copies, preceded(preamble, source));
}

/* The dimension that changes places with the first one. */
static int turned_dimension(cl_kernel kernel, cl_uint dims, const size_t *local)
{
    char name[64] = "";
    real->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    if (dims != 3 || !local)
        return 0;
    if (strncmp(name, pools, strlen(pools)) == 0)
        return 2;
    if (strncmp(name, copies, strlen(copies)) == 0)
        return local[0] > 1 ? 0 : local[1] > 1 ? 1 : 2;
    return 0;
}

static void exchange(size_t *sizes, int along)
{
    size_t first = sizes[0];
    sizes[0] = sizes[along];
    sizes[along] = first;
}

static cl_int CL_API_CALL enqueue(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                  const size_t *offset, const size_t *global, const size_t *local,
                                  cl_uint waits, const cl_event *wait, cl_event *event)
{
    int along = offset ? 0 : turned_dimension(kernel, dims, local);
    if (!along)
        return real->clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, waits, wait,
                                            event);
    size_t turned_global[] = {global[0], global[1], global[2]};
    size_t turned_local[] = {local[0], local[1], local[2]};
    exchange(turned_global, along);
    exchange(turned_local, along);
    return real->clEnqueueNDRangeKernel(queue, kernel, dims, NULL, turned_global, turned_local,
                                        waits, wait, event);
}

static cl_program CL_API_CALL create_with_source(cl_context context, cl_uint count,
                                                 const char **strings, const size_t *lengths,
                                                 cl_int *error)
{
    char *source = left_as_loops(turned(join(count, strings, lengths)));
    const char *text = source;
    cl_program handle =
        source ? real->clCreateProgramWithSource(context, 1, &text, NULL, error)
               : real->clCreateProgramWithSource(context, count, strings, lengths, error);
    struct program *p = handle ? calloc(1, sizeof *p) : NULL;
    if (!p) {
        free(source);
        return handle;
    }
    *p = (struct program){.handle = handle, .context = context, .source = source, .references = 1};
    pthread_mutex_lock(&lock);
    p->next = programs;
    programs = p;
    pthread_mutex_unlock(&lock);
    return handle;
}

struct head {
    char magic[8];
    uint64_t length;
    uint64_t checksum;
};
static const char magic[8] = "XTPROG2";

/* The file of a program in the cache; false where nothing is to be cached. */
static bool cache_path(const struct program *p, cl_device_id device, const char *options,
                       char *path, size_t room)
{
    const char *on = getenv("NEO_CACHE_PERSISTENT");
    const char *folder = getenv("NEO_CACHE_DIR");
    if (!on || strcmp(on, "1") != 0 || !folder || !p || !p->source)
        return false;
    char version[256] = "";
    real->clGetDeviceInfo(device, CL_DRIVER_VERSION, sizeof version - 1, version, NULL);
    uint64_t a = hash(0xcbf29ce484222325u, p->source, strlen(p->source));
    uint64_t b = hash(0x84222325cbf29ce4u, p->source, strlen(p->source));
    if (options) {
        a = hash(a, options, strlen(options));
        b = hash(b, options, strlen(options));
    }
    a = hash(a, version, strlen(version));
    int length = snprintf(path, room, "%s/%016llx%016llx.cl_cache", folder, (unsigned long long)a,
                          (unsigned long long)b);
    return length > 0 && (size_t)length < room;
}

static struct binary cache_read(const char *path)
{
    struct binary binary = {0};
    FILE *file = fopen(path, "rbe");
    if (!file)
        return binary;
    struct head head;
    bool fine = fread(&head, sizeof head, 1, file) == 1 && !memcmp(head.magic, magic, 8) &&
                head.length > 0 && head.length < 1u << 30;
    if (fine)
        binary = (struct binary){malloc(head.length), head.length};
    fine = binary.bytes && fread(binary.bytes, 1, binary.size, file) == binary.size &&
           fgetc(file) == EOF && hash(0, binary.bytes, binary.size) == head.checksum;
    fclose(file);
    if (fine)
        return binary;
    free(binary.bytes);
    return (struct binary){0};
}

static void cache_write(const char *path, cl_program program)
{
    size_t size = 0;
    unsigned char *binary = layer_binary(program, &size);
    char temporary[4200];
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    FILE *file = binary ? fopen(temporary, "wbe") : NULL;
    if (file) {
        struct head head = {.length = size, .checksum = hash(0, binary, size)};
        memcpy(head.magic, magic, 8);
        bool fine =
            fwrite(&head, sizeof head, 1, file) == 1 && fwrite(binary, 1, size, file) == size;
        fine = fclose(file) == 0 && fine;
        if (!fine || rename(temporary, path))
            unlink(temporary);
    }
    free(binary);
}

static cl_int CL_API_CALL build(cl_program handle, cl_uint count, const cl_device_id *devices,
                                const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                void *user)
{
    double start = now();
    char path[4096];
    cl_device_id device = devices && count == 1 ? devices[0] : NULL;
    if (!device)
        real->clGetProgramInfo(handle, CL_PROGRAM_DEVICES, sizeof device, &device, NULL);
    pthread_mutex_lock(&lock);
    struct program *p = find(handle);
    pthread_mutex_unlock(&lock);
    bool cache = !notify && device && cache_path(p, device, options, path, sizeof path);
    struct binary cached = cache ? cache_read(path) : (struct binary){0};
    if (cached.bytes) {
        p->cached = cached;
        p->device = device;
        layer_log("cached %.1f", now() - start);
        return CL_SUCCESS;
    }
    if (p)
        hang_if_asked();
    cl_int result = real->clBuildProgram(handle, count, devices, options, notify, user);
    if (p)
        layer_log("compiled %.1f", now() - start);
    if (result == CL_SUCCESS && cache)
        cache_write(path, handle);
    return result;
}

static cl_int CL_API_CALL retain(cl_program handle)
{
    pthread_mutex_lock(&lock);
    struct program *p = find(handle);
    if (p)
        p->references++;
    pthread_mutex_unlock(&lock);
    return real->clRetainProgram(handle);
}

static cl_int CL_API_CALL release(cl_program handle)
{
    pthread_mutex_lock(&lock);
    for (struct program **at = &programs; *at; at = &(*at)->next) {
        struct program *p = *at;
        if (p->handle != handle || --p->references)
            continue;
        *at = p->next;
        if (p->made)
            real->clReleaseProgram(p->made);
        free(p->cached.bytes);
        free(p->source);
        free(p);
        break;
    }
    pthread_mutex_unlock(&lock);
    return real->clReleaseProgram(handle);
}

/* A kernel keeps its program in a GPU's driver. This runtime forgets a program that its user has
 * released, and then a kernel cannot be created again from it; so programs with kernels stay. */
static cl_kernel CL_API_CALL create_kernel(cl_program handle, const char *name, cl_int *error)
{
    cl_program program = actual(handle);
    cl_kernel kernel = real->clCreateKernel(program, name, error);
    if (kernel)
        real->clRetainProgram(program);
    return kernel;
}

static cl_int CL_API_CALL create_kernels(cl_program handle, cl_uint room, cl_kernel *kernels,
                                         cl_uint *count)
{
    return real->clCreateKernelsInProgram(actual(handle), room, kernels, count);
}

/* The binary of a program from the cache, as clGetProgramInfo gives it: `out` holds the address of
 * the caller's memory. */
static cl_int copy_binary(const struct binary *binary, size_t room, void *out, size_t *needed)
{
    unsigned char *to = NULL;
    if (out && room >= sizeof to)
        memcpy(&to, out, sizeof to);
    if (to)
        memcpy(to, binary->bytes, binary->size);
    return layer_answer(&to, sizeof to, room, out, needed);
}

/* oneDNN asks for the binary alone, of which it makes a program for SYCL: of that nothing is to be
 * made here. */
static cl_int CL_API_CALL get_program_info(cl_program handle, cl_program_info what, size_t room,
                                           void *out, size_t *needed)
{
    pthread_mutex_lock(&lock);
    const struct program *p = find(handle);
    struct binary cached = p ? p->cached : (struct binary){0};
    pthread_mutex_unlock(&lock);
    if (cached.bytes && what == CL_PROGRAM_BINARY_SIZES)
        return layer_answer(&cached.size, sizeof cached.size, room, out, needed);
    if (cached.bytes && what == CL_PROGRAM_BINARIES)
        return copy_binary(&cached, room, out, needed);
    bool is_as_created = what == CL_PROGRAM_SOURCE || what == CL_PROGRAM_CONTEXT ||
                         what == CL_PROGRAM_NUM_DEVICES || what == CL_PROGRAM_DEVICES;
    return real->clGetProgramInfo(is_as_created ? handle : actual(handle), what, room, out, needed);
}

static cl_int CL_API_CALL get_build_info(cl_program handle, cl_device_id device,
                                         cl_program_build_info what, size_t room, void *out,
                                         size_t *needed)
{
    return real->clGetProgramBuildInfo(actual(handle), device, what, room, out, needed);
}

const char layer_name[] = "xtrain's test double of a GPU";

void layer_fill(struct _cl_icd_dispatch *ours)
{
    ours->clGetDeviceIDs = get_device_ids;
    ours->clGetDeviceInfo = get_device_info;
    ours->clCreateContext = create_context;
    ours->clCreateProgramWithSource = create_with_source;
    ours->clBuildProgram = build;
    ours->clEnqueueNDRangeKernel = enqueue;
    ours->clRetainProgram = retain;
    ours->clReleaseProgram = release;
    ours->clCreateKernel = create_kernel;
    ours->clCreateKernelsInProgram = create_kernels;
    ours->clGetProgramInfo = get_program_info;
    ours->clGetProgramBuildInfo = get_build_info;
}
