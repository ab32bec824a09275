#include "cli/options/table.h"

#include <string.h>

#include "data/sources/source.h"
#include "device/upload.h"
#include "train/settings.h"

/* Where the value lies in the settings. */
#define FIELD(field) .offset = offsetof(struct xt_settings, field)

enum {
    TRAIN = 1 << XT_COMMAND_TRAIN,
    EVAL = 1 << XT_COMMAND_EVAL,
    PREDICT = 1 << XT_COMMAND_PREDICT,
    DEVICES = 1 << XT_COMMAND_DEVICES,
    STEP = 1 << XT_COMMAND_BENCH_STEP,
    BENCH = STEP | 1 << XT_COMMAND_BENCH_START, /* whatever times steps */
    WARM = 1 << XT_COMMAND_WARMUP,
    INFER = 1 << XT_COMMAND_BENCH_INFER,
    LOADER = 1 << XT_COMMAND_BENCH_LOADER,
    CHECK = 1 << XT_COMMAND_DATA_CHECK,
    SPLIT = 1 << XT_COMMAND_DATA_SPLIT,
    PACK = 1 << XT_COMMAND_DATA_PACK,
    DOCTOR = 1 << XT_COMMAND_DOCTOR,
    SELFTEST = 1 << XT_COMMAND_SELFTEST,
    CACHE = 1 << XT_COMMAND_CACHE,
    NETWORK = TRAIN | EVAL | PREDICT, /* whatever runs a network */
    EVERY = (1 << XT_COMMAND_COUNT) - 1,
};

static const char *const optim_names[] = {"sgd", "adam", "adamw", "rmsprop", NULL};
static const char *const sched_names[] = {"constant", "step",     "multistep",
                                          "cosine",   "onecycle", NULL};
static const char *const bn_names[] = {"auto", "batch", "frozen", NULL};
static const char *const norm_names[] = {"auto", "sample", "batch", NULL};
static const char *const amp_names[] = {"off", "bf16", "fp16", "int8", NULL};
static const char *const type_names[] = {"f32", "bf16", "fp16", "int8", NULL};
static const char *const purpose_names[] = {"train", "eval", "predict", NULL};
static const char *const cache_names[] = {"off", "files", "ram", "disk", NULL};
static const char *const pack_names[] = {"shards", "pixels", NULL};
static const char *const fit_names[] = {"stretch", "crop", NULL};
static const char *const decode_names[] = {"greedy", "beam", NULL};

static const char *const group_titles[XT_GROUP_COUNT] = {
    [XT_GROUP_DATA] = "What to train, on what", [XT_GROUP_RUN] = "The run",
    [XT_GROUP_RECIPE] = "The recipe",           [XT_GROUP_MACHINE] = "Where it runs",
    [XT_GROUP_ANSWER] = "Reading the answers",  [XT_GROUP_OUTPUT] = "What it says",
};

static const struct xt_option table[] = {
    {
        .name = "model",
        .type = &xt_type_text,
        FIELD(model),
        .commands = NETWORK | BENCH | LOADER | CHECK | SPLIT | SELFTEST | PACK | INFER | WARM,
        .needed = WARM | TRAIN | BENCH | INFER | LOADER,
        .group = XT_GROUP_DATA,
        .value = "NAME",
        .help = "the network",
    },
    {
        .name = "data",
        .type = &xt_type_path,
        FIELD(data),
        .commands = TRAIN | EVAL | LOADER | WARM,
        .needed = LOADER,
        .group = XT_GROUP_DATA,
        .value = "DIR|LIST|synth:...",
        .help =
            "the images: a folder (the label is the file name up to the first _ or .), a list of "
            "lines path<tab>label, tars of images and labels, CCPD's pictures (ccpd:DIR), a "
            "mixture "
            "(mix.yaml), or pictures made on the fly (synth:plates?count=N&seed=S); without it, "
            "pictures made on the fly",
    },
    {
        .name = "val",
        .type = &xt_type_path,
        FIELD(val),
        .commands = TRAIN | EVAL,
        .group = XT_GROUP_DATA,
        .value = "DIR|LIST|synth:...",
        .help = "images to evaluate on while training, given as for --data; eval takes them where "
                "--data is not on its command line",
    },
    {
        .name = "init",
        .type = &xt_type_path,
        FIELD(init),
        .commands = TRAIN | EVAL | INFER | WARM,
        .needed = EVAL,
        .group = XT_GROUP_DATA,
        .value = "FILE",
        .help = "trained weights to begin with: .safetensors, or PyTorch's .pth",
    },
    {
        .name = "init-partial",
        .type = &xt_type_flag,
        FIELD(init_partial),
        .commands = TRAIN | WARM,
        .group = XT_GROUP_DATA,
        .fallback = "false",
        .help =
            "take the tensors of --init that fit and initialise the others, instead of refusing",
    },
    {
        .name = "alphabet",
        .type = &xt_type_path,
        FIELD(alphabet),
        .commands = NETWORK | BENCH | LOADER | CHECK | SPLIT | SELFTEST | PACK | INFER | WARM,
        .group = XT_GROUP_DATA,
        .value = "FILE",
        .help = "the symbols of the labels, UTF-8, the blank last; without it, the 68 of Chinese "
                "plates, or those that the weights name",
    },
    {
        .name = "classes",
        .type = &xt_type_integer,
        FIELD(classes),
        .commands = TRAIN | BENCH | WARM | SELFTEST | INFER,
        .group = XT_GROUP_DATA,
        .fallback = "0",
        .max = XT_CLASSES_MAX,
        .help = "how many classes the network tells apart, where there are more than the images "
                "show; 0: as many as they show",
    },
    {
        .name = "image-size",
        .type = &xt_type_integer,
        FIELD(image_size),
        .commands = NETWORK | BENCH | LOADER | SELFTEST | PACK | INFER | WARM,
        .group = XT_GROUP_DATA,
        .fallback = "0",
        .max = 4096,
        .help = "height and width that images are brought to, for networks that take any; 0: what "
                "the weights were trained at, else the network's own",
    },
    {
        .name = "augment",
        .type = &xt_type_flag,
        FIELD(augment),
        .commands = TRAIN | LOADER,
        .group = XT_GROUP_DATA,
        .fallback = "false",
        .by_model = true,
        .help = "vary the training images a little: shift, turn, scale, brightness, blur",
    },
    {
        .name = "fit",
        .type = &xt_type_choice,
        FIELD(fit),
        .commands = TRAIN | EVAL | LOADER,
        .group = XT_GROUP_DATA,
        .fallback = "stretch",
        .choices = fit_names,
        .help = "how images are brought to the network's size: stretch resizes them whole; crop "
                "takes a random part in training (RandomResizedCrop), the middle in evaluation",
    },
    {
        .name = "flip",
        .type = &xt_type_flag,
        FIELD(flip),
        .commands = TRAIN | LOADER,
        .group = XT_GROUP_DATA,
        .fallback = "false",
        .help = "mirror every second training image, left to right",
    },
    {
        .name = "jitter",
        .type = &xt_type_real,
        FIELD(jitter),
        .commands = TRAIN | LOADER,
        .group = XT_GROUP_DATA,
        .fallback = "0",
        .max = 1,
        .below_max = true,
        .help = "change brightness, contrast and saturation of training images by up to this part; "
                "0: off",
    },
    {
        .name = "hue",
        .type = &xt_type_real,
        FIELD(hue),
        .commands = TRAIN | LOADER,
        .group = XT_GROUP_DATA,
        .fallback = "0",
        .max = 0.5,
        .help = "turn the colours of training images by up to this part of the colour circle; 0.5: "
                "to any hue; 0: off",
    },
    {
        .name = "strict-data",
        .type = &xt_type_flag,
        FIELD(strict_data),
        .commands = TRAIN | EVAL | PACK,
        .group = XT_GROUP_DATA,
        .fallback = "false",
        .help =
            "fail on the first bad image; without it bad images are listed and skipped, and more "
            "than 1 % of them fails the run",
    },

    {
        .name = "out",
        .type = &xt_type_path,
        FIELD(out),
        .commands = TRAIN | SPLIT,
        .group = XT_GROUP_RUN,
        .value = "DIR",
        .help = "the run's folder, which must be new unless --resume is given; without it, "
                "runs/MODEL-DATE-N",
    },
    {
        .name = "config",
        .type = &xt_type_path,
        FIELD(config),
        .commands = NETWORK | WARM,
        .group = XT_GROUP_RUN,
        .value = "FILE",
        .not_in_config = true,
        .help = "read options from a YAML file: keys as here, with _ for -; the command line wins; "
                "keys of other commands are checked and left alone",
    },
    {
        .name = "print-config",
        .type = &xt_type_flag,
        FIELD(print_config),
        .commands = NETWORK,
        .group = XT_GROUP_RUN,
        .fallback = "false",
        .not_in_config = true,
        .help = "print every setting and where it came from, as a file for --config, and end",
    },
    {
        .name = "dry-run",
        .type = &xt_type_flag,
        FIELD(dry_run),
        .commands = TRAIN,
        .group = XT_GROUP_RUN,
        .fallback = "false",
        .not_in_config = true,
        .help = "show settings, parameters, memory and where each operation would run, and end",
    },
    {
        .name = "resume",
        .type = &xt_type_path,
        FIELD(resume),
        .commands = TRAIN,
        .group = XT_GROUP_RUN,
        .value = "auto|PATH",
        .help =
            "go on from a checkpoint or run folder; auto: from the newest valid one in --out, or "
            "from the start where there is none",
    },
    {
        .name = "epochs",
        .type = &xt_type_integer,
        FIELD(epochs),
        .commands = TRAIN,
        .group = XT_GROUP_RUN,
        .min = 1,
        .max = 1000000,
        .by_model = true,
        .help = "how often to go through the training images",
    },
    {
        .name = "steps",
        .type = &xt_type_int64,
        FIELD(steps),
        .commands = TRAIN | STEP | INFER,
        .group = XT_GROUP_RUN,
        .min = 1,
        .max = 1e15,
        .by_model = true,
        .help =
            "the length of the run in batches; wins over --epochs; bench: how many are timed (12)",
    },
    {
        .name = "max-time",
        .type = &xt_type_duration,
        FIELD(max_time),
        .commands = TRAIN,
        .group = XT_GROUP_RUN,
        .fallback = "0",
        .max = 1e9,
        .help =
            "spend at most this time, then evaluate, save and end with exit code 0; 0: no limit",
    },
    {
        .name = "stop-after",
        .type = &xt_type_duration,
        FIELD(stop_after),
        .commands = TRAIN,
        .group = XT_GROUP_RUN,
        .fallback = "0",
        .max = 1e9,
        .help = "after this time save and end with exit code 75, to be resumed; 0: no limit",
    },
    {
        .name = "seed",
        .type = &xt_type_seed,
        FIELD(seed),
        .commands = TRAIN | LOADER | CHECK | SPLIT | INFER,
        .group = XT_GROUP_RUN,
        .fallback = "0",
        .help = "what initialisation, order, augmentation and dropout follow from",
    },
    {
        .name = "log-every",
        .type = &xt_type_integer,
        FIELD(log_every),
        .commands = TRAIN,
        .group = XT_GROUP_RUN,
        .fallback = "10",
        .min = 1,
        .max = 1000000,
        .by_model = true,
        .help = "steps from one line of metrics.jsonl to the next",
    },
    {
        .name = "eval-every",
        .type = &xt_type_integer,
        FIELD(eval_every),
        .commands = TRAIN,
        .group = XT_GROUP_RUN,
        .fallback = "1",
        .max = 1000000,
        .by_model = true,
        .help = "epochs from one evaluation to the next; 0: at the end alone",
    },
    {
        .name = "save-every",
        .type = &xt_type_integer,
        FIELD(save_every),
        .commands = TRAIN,
        .group = XT_GROUP_RUN,
        .fallback = "0",
        .max = 1000000000,
        .by_model = true,
        .help = "steps from one checkpoint to the next; 0: one each epoch",
    },
    {
        .name = "keep",
        .type = &xt_type_integer,
        FIELD(keep),
        .commands = TRAIN,
        .group = XT_GROUP_RUN,
        .fallback = "2",
        .min = 1,
        .max = 10000,
        .help = "how many of the newest checkpoints to keep, beside the last and best weights",
    },

    {
        .name = "batch",
        .type = &xt_type_batch,
        FIELD(batch),
        .commands = NETWORK | BENCH | LOADER | SELFTEST | INFER | WARM,
        .lists = STEP | INFER,
        .group = XT_GROUP_RECIPE,
        .fallback = "64",
        .min = 1,
        .max = 65536,
        .by_model = true,
        .automatic = TRAIN | EVAL | PREDICT | STEP,
        .help = "images a step; auto: as many as fit the memory of the device, for train, eval, "
                "predict and bench step",
    },
    {
        .name = "lr",
        .type = &xt_type_real,
        FIELD(lr),
        .commands = TRAIN,
        .group = XT_GROUP_RECIPE,
        .fallback = "0.001",
        .max = 1000,
        .above_min = true,
        .by_model = true,
        .help = "the learning rate, at its highest",
    },
    {
        .name = "optim",
        .type = &xt_type_choice,
        FIELD(optim),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "adamw",
        .choices = optim_names,
        .by_model = true,
        .help = "the optimizer",
    },
    {
        .name = "momentum",
        .type = &xt_type_real,
        FIELD(momentum),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "0.9",
        .max = 1,
        .below_max = true,
        .by_model = true,
        .help = "of sgd and rmsprop",
    },
    {
        .name = "nesterov",
        .type = &xt_type_flag,
        FIELD(nesterov),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "false",
        .by_model = true,
        .help = "Nesterov's momentum, for sgd",
    },
    {
        .name = "weight-decay",
        .type = &xt_type_real,
        FIELD(weight_decay),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "0",
        .max = 10,
        .by_model = true,
        .help = "decoupled for adamw, in the gradient for the others; not on biases and BN",
    },
    {
        .name = "decay-all",
        .type = &xt_type_flag,
        FIELD(decay_all),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "false",
        .by_model = true,
        .help = "weight decay on biases and BN too",
    },
    {
        .name = "sched",
        .type = &xt_type_choice,
        FIELD(sched),
        .commands = TRAIN,
        .group = XT_GROUP_RECIPE,
        .fallback = "onecycle",
        .choices = sched_names,
        .by_model = true,
        .help = "how the learning rate changes over the run",
    },
    {
        .name = "milestones",
        .type = &xt_type_epochs,
        FIELD(milestones),
        .commands = TRAIN,
        .group = XT_GROUP_RECIPE,
        .max = 1000000,
        .by_model = true,
        .help =
            "epochs at which --sched multistep lowers the rate; for step one number, its period",
    },
    {
        .name = "gamma",
        .type = &xt_type_real,
        FIELD(gamma),
        .commands = TRAIN,
        .group = XT_GROUP_RECIPE,
        .fallback = "0.1",
        .max = 1,
        .above_min = true,
        .by_model = true,
        .help = "what step and multistep multiply the rate by",
    },
    {
        .name = "warmup",
        .type = &xt_type_real,
        FIELD(warmup),
        .commands = TRAIN,
        .group = XT_GROUP_RECIPE,
        .fallback = "0",
        .max = 1,
        .below_max = true,
        .by_model = true,
        .help = "the part of the run over which the rate rises to --lr; with onecycle 0 means 0.3",
    },
    {
        .name = "clip",
        .type = &xt_type_real,
        FIELD(clip),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "0",
        .max = 1e9,
        .by_model = true,
        .help = "scale gradients down to this norm where theirs is larger; 0: off",
    },
    {
        .name = "dropout",
        .type = &xt_type_real,
        FIELD(dropout),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "0",
        .max = 1,
        .below_max = true,
        .by_model = true,
        .help = "the probability with which an activation is dropped, in the layers that have it",
    },
    {
        .name = "label-smoothing",
        .type = &xt_type_real,
        FIELD(label_smoothing),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "0",
        .max = 1,
        .below_max = true,
        .by_model = true,
        .help = "this part of a label is spread over all classes",
    },
    {
        .name = "mixup",
        .type = &xt_type_real,
        FIELD(mixup),
        .commands = TRAIN | LOADER,
        .group = XT_GROUP_RECIPE,
        .value = "ALPHA",
        .fallback = "0",
        .max = 1000,
        .by_model = true,
        .help = "mix each training image and its label with another of its batch, by shares drawn "
                "from Beta(ALPHA, ALPHA); 0.2 is usual; the training loss is then that of mixed "
                "labels; 0: off",
    },
    {
        .name = "freeze-until",
        .type = &xt_type_text,
        FIELD(freeze_until),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .value = "LAYER",
        .help = "the layers before this one (layer3, fc) keep their weights and statistics",
    },
    {
        .name = "head-lr-factor",
        .type = &xt_type_real,
        FIELD(head_lr_factor),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "1",
        .max = 1000,
        .above_min = true,
        .by_model = true,
        .help = "multiplies the learning rate of the last layer, which starts from random weights",
    },
    {
        .name = "bn",
        .type = &xt_type_choice,
        FIELD(bn),
        .commands = TRAIN | BENCH | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "auto",
        .choices = bn_names,
        .help =
            "batch normalisation: statistics of the batch, or the stored ones, frozen; auto: by "
            "what the weights hold",
    },
    {
        .name = "lprnet-norm",
        .type = &xt_type_choice,
        FIELD(lprnet_norm),
        .commands = NETWORK | BENCH | SELFTEST | INFER | WARM,
        .group = XT_GROUP_RECIPE,
        .fallback = "auto",
        .choices = norm_names,
        .by_model = true,
        .help = "lprnet's global context: mean over the plate (sample), or over the batch as "
                "published, where an answer depends on its neighbours; auto: what the weights say, "
                "else sample",
    },

    {
        .name = "device",
        .type = &xt_type_device,
        FIELD(device),
        .commands = NETWORK | BENCH | INFER | LOADER | SELFTEST | WARM,
        .lists = STEP,
        .group = XT_GROUP_MACHINE,
        .value = "cpu|xpu|xpu:N|xpu:NAME|auto",
        .fallback = "cpu",
        .help = "where to run; auto takes an XPU where there is one and says what it took",
    },
    {
        .name = "xpu",
        .type = &xt_type_flag,
        FIELD(xpu),
        .commands = NETWORK | BENCH | INFER | LOADER | SELFTEST | WARM,
        .group = XT_GROUP_MACHINE,
        .fallback = "false",
        .help = "run on an Intel GPU: short for --device xpu; an error where there is none",
    },
    {
        .name = "amp",
        .type = &xt_type_choice,
        FIELD(amp),
        .commands = NETWORK | BENCH | SELFTEST,
        .lists = BENCH,
        .group = XT_GROUP_MACHINE,
        .fallback = "off",
        .choices = amp_names,
        .help = "mixed precision: the type of activations and of the arithmetic on them; weights "
                "stay float32. int8 is for eval and predict (see --calibrate)",
    },
    {
        .name = "threads",
        .type = &xt_type_integer,
        FIELD(threads),
        .commands = NETWORK | BENCH | SELFTEST | INFER | WARM,
        .group = XT_GROUP_MACHINE,
        .fallback = "0",
        .max = 4096,
        .help = "threads that compute; 0: as many as the process may use",
    },
    {
        .name = "workers",
        .type = &xt_type_integer,
        FIELD(workers),
        .commands = NETWORK | LOADER | PACK,
        .group = XT_GROUP_MACHINE,
        .fallback = "0",
        .max = 1024,
        .help = "threads that read images; 0: half as many as the process may use, 8 at most, and "
                "more where steps need them",
    },
    {
        .name = "slots",
        .type = &xt_type_integer,
        FIELD(slots),
        .commands = TRAIN | LOADER | WARM,
        .group = XT_GROUP_MACHINE,
        .fallback = "0",
        .max = XT_SLOTS_MAX,
        .help = "batches that are made ahead of the step, at least 2; 0: 4",
    },
    {
        .name = "cache",
        .type = &xt_type_choice,
        FIELD(cache),
        .commands = TRAIN | LOADER,
        .group = XT_GROUP_MACHINE,
        .fallback = "files",
        .choices = cache_names,
        .help = "what later epochs of training have ahead: files, the bytes of small image files "
                "(up to 32 KiB), in memory; ram, decoded images at the network's size; disk, the "
                "same in cache.bin in the run's folder",
    },
    {
        .name = "cache-limit",
        .type = &xt_type_integer,
        FIELD(cache_limit),
        .commands = TRAIN | LOADER,
        .group = XT_GROUP_MACHINE,
        .value = "MIB",
        .fallback = "0",
        .max = 100000000,
        .help = "what --cache may take; images beyond it are read and decoded each time; 0: half "
                "of the memory that is free, for files at most 256, on disk no limit",
    },
    {
        .name = "cache-file",
        .type = &xt_type_path,
        FIELD(cache_file),
        .commands = TRAIN | LOADER,
        .group = XT_GROUP_MACHINE,
        .value = "FILE",
        .help = "the file of --cache disk, which several runs may share and data pack --as pixels "
                "makes ahead; without it cache.bin in the run's folder",
    },
    {
        .name = "pin-memory",
        .type = &xt_type_flag,
        FIELD(pin_memory),
        .commands = NETWORK | WARM,
        .group = XT_GROUP_MACHINE,
        .fallback = "true",
        .help =
            "with an XPU, images are decoded into memory that it reads directly; without, they are "
            "copied there first",
    },
    {
        .name = "cache-dir",
        .type = &xt_type_path,
        FIELD(cache_dir),
        .commands = NETWORK | STEP | INFER | LOADER | CACHE | SELFTEST | WARM,
        .group = XT_GROUP_MACHINE,
        .value = "DIR",
        .help = "where kernels compiled for an XPU are kept; without it $XTRAIN_CACHE_DIR, else "
                "$XDG_CACHE_HOME/xtrain, else ~/.cache/xtrain",
    },
    {
        .name = "kernel-cache",
        .type = &xt_type_flag,
        FIELD(kernel_cache),
        .commands = NETWORK | STEP | INFER | LOADER | SELFTEST,
        .group = XT_GROUP_MACHINE,
        .fallback = "true",
        .help = "keep the kernels compiled for an XPU, so that the next start need not compile "
                "them",
    },
    {
        .name = "max-size",
        .type = &xt_type_integer,
        FIELD(max_size),
        .commands = CACHE,
        .group = XT_GROUP_MACHINE,
        .value = "MB",
        .fallback = "0",
        .max = 1000000,
        .help = "cache prune: keep the newest kernels up to this size; 0: no limit",
    },
    {
        .name = "max-age",
        .type = &xt_type_duration,
        FIELD(max_age),
        .commands = CACHE,
        .group = XT_GROUP_MACHINE,
        .fallback = "0",
        .max = 1e9,
        .help = "cache prune: keep kernels that were used within this time (720h); 0: no limit",
    },

    {
        .name = "fuse",
        .type = &xt_type_flag,
        FIELD(fuse),
        .commands = EVAL | PREDICT | WARM,
        .group = XT_GROUP_MACHINE,
        .fallback = "true",
        .help = "fold batch norms into the convolutions before them, with the sums and ReLUs that "
                "follow",
    },
    {
        .name = "compare",
        .type = &xt_type_choice,
        FIELD(compare),
        .commands = EVAL,
        .lists = EVAL,
        .group = XT_GROUP_MACHINE,
        .value = "TYPE,...",
        .choices = type_names,
        .not_in_config = true,
        .help = "evaluate in each of these types, one table: f32,bf16,int8",
    },
    {
        .name = "for",
        .type = &xt_type_choice,
        FIELD(warm_for),
        .commands = WARM,
        .lists = WARM,
        .group = XT_GROUP_MACHINE,
        .value = "PURPOSE,...",
        .fallback = "train",
        .choices = purpose_names,
        .not_in_config = true,
        .help = "compile for these: train,eval,predict",
    },
    {
        .name = "types",
        .type = &xt_type_choice,
        FIELD(types),
        .commands = WARM,
        .lists = WARM,
        .group = XT_GROUP_MACHINE,
        .value = "TYPE,...",
        .fallback = "f32",
        .choices = type_names,
        .not_in_config = true,
        .help = "compile in these types: f32,bf16,fp16, and for eval and predict int8",
    },
    {
        .name = "calibrate",
        .type = &xt_type_path,
        FIELD(calibrate),
        .commands = EVAL | PREDICT,
        .group = XT_GROUP_MACHINE,
        .value = "DIR|LIST|synth:...",
        .help = "int8: images like those to be read, which show how large the numbers in the "
                "network get; labels are not needed. Without it eval takes `data` of --config, "
                "else the images that it evaluates on, and says so; predict needs it",
    },
    {
        .name = "calibrate-images",
        .type = &xt_type_integer,
        FIELD(calibrate_images),
        .commands = EVAL | PREDICT,
        .group = XT_GROUP_MACHINE,
        .value = "N",
        .fallback = "256",
        .min = 1,
        .max = 1000000,
        .help = "how many of them are looked at, spread over all",
    },
    {
        .name = "decode",
        .type = &xt_type_choice,
        FIELD(decode),
        .commands = NETWORK,
        .group = XT_GROUP_ANSWER,
        .fallback = "greedy",
        .choices = decode_names,
        .help = "how symbols are found in the network's output",
    },
    {
        .name = "show",
        .type = &xt_type_integer,
        FIELD(show),
        .commands = EVAL,
        .group = XT_GROUP_ANSWER,
        .fallback = "0",
        .max = 1000000,
        .help = "print the answers to the first so many images beside their labels",
    },
    {
        .name = "reject",
        .type = &xt_type_real,
        FIELD(reject),
        .commands = PREDICT,
        .group = XT_GROUP_ANSWER,
        .value = "P",
        .fallback = "0",
        .max = 1,
        .help = "mark plates read with less than this confidence as rejected",
    },

    {
        .name = "sheet",
        .type = &xt_type_path,
        FIELD(sheet),
        .commands = CHECK,
        .group = XT_GROUP_OUTPUT,
        .value = "FILE",
        .not_in_config = true,
        .help = "where the picture of random images goes; without it, contact-sheet.png",
    },
    {
        .name = "as",
        .type = &xt_type_choice,
        FIELD(pack_as),
        .commands = PACK,
        .group = XT_GROUP_OUTPUT,
        .fallback = "shards",
        .choices = pack_names,
        .not_in_config = true,
        .help = "what to pack the images as: shards keep the encoded images, pixels are decoded "
                "at the network's size",
    },
    {
        .name = "shard-size",
        .type = &xt_type_integer,
        FIELD(shard_size),
        .commands = PACK,
        .group = XT_GROUP_OUTPUT,
        .value = "MIB",
        .fallback = "256",
        .min = 1,
        .max = 1000000,
        .not_in_config = true,
        .help = "a shard is at most so large",
    },
    {
        .name = "val-part",
        .type = &xt_type_real,
        FIELD(val_part),
        .commands = SPLIT,
        .group = XT_GROUP_OUTPUT,
        .fallback = "0.1",
        .max = 1,
        .above_min = true,
        .below_max = true,
        .not_in_config = true,
        .help = "the part of the images that is kept for evaluation",
    },
    {
        .name = "profile",
        .type = &xt_type_flag,
        FIELD(profile),
        .commands = STEP | INFER,
        .group = XT_GROUP_OUTPUT,
        .fallback = "false",
        .not_in_config = true,
        .help = "the time of each part of the step, with its arithmetic and memory traffic",
    },
    {
        .name = "against",
        .type = &xt_type_path,
        FIELD(against),
        .commands = STEP | CHECK,
        .group = XT_GROUP_OUTPUT,
        .value = "OLD.json",
        .not_in_config = true,
        .help = "compare with what --json wrote before; slower by more than 10 % exits with 1; for "
                "data "
                "check: other images, of which none should be among these",
    },
    {
        .name = "small",
        .type = &xt_type_flag,
        FIELD(small_shapes),
        .commands = SELFTEST,
        .group = XT_GROUP_RUN,
        .fallback = "false",
        .not_in_config = true,
        .help = "check ops at small shapes alone, which takes a second on a CPU",
    },
    {
        .name = "json",
        .type = &xt_type_flag,
        FIELD(json),
        .commands =
            NETWORK | DEVICES | DOCTOR | CACHE | BENCH | LOADER | CHECK | SELFTEST | INFER | WARM,
        .group = XT_GROUP_OUTPUT,
        .fallback = "false",
        .not_in_config = true,
        .help = "results as JSON on standard output, nothing else there",
    },
    {
        .name = "quiet",
        .type = &xt_type_flag,
        FIELD(quiet),
        .commands =
            NETWORK | DEVICES | BENCH | LOADER | CHECK | SPLIT | SELFTEST | PACK | INFER | WARM,
        .group = XT_GROUP_OUTPUT,
        .fallback = "false",
        .help = "results, warnings and errors alone",
    },
    {
        .name = "verbose",
        .type = &xt_type_flag,
        FIELD(verbose),
        .commands = NETWORK | DEVICES | BENCH | LOADER | CHECK | PACK | INFER | WARM,
        .group = XT_GROUP_OUTPUT,
        .fallback = "false",
        .help = "more about what is done and where",
    },
    {
        .name = "version",
        .type = &xt_type_flag,
        FIELD(version),
        .commands = EVERY,
        .group = XT_GROUP_OUTPUT,
        .fallback = "false",
        .not_in_config = true,
        .help = "show the versions of xtrain and of the libraries it uses; also -V",
    },
    {
        .name = "help",
        .type = &xt_type_flag,
        FIELD(help),
        .commands = EVERY,
        .group = XT_GROUP_OUTPUT,
        .fallback = "false",
        .not_in_config = true,
        .help = "show this help; also -h",
    },
};

enum { TABLE_COUNT = sizeof table / sizeof *table };
_Static_assert(TABLE_COUNT <= (int)XT_OPTIONS_MAX, "raise XT_OPTIONS_MAX");

const struct xt_option *xt_option_table(size_t *count)
{
    *count = TABLE_COUNT;
    return table;
}

const char *xt_option_group_title(enum xt_option_group group)
{
    return group_titles[group];
}

const struct xt_option *xt_option_find(const char *name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

bool xt_option_is_for(const struct xt_option *option, enum xt_command_id command)
{
    return (option->commands >> command & 1) != 0;
}

bool xt_option_has_negation(const struct xt_option *option)
{
    return !option->type->takes_value && !option->not_in_config;
}
