#include "cli/options/table.h"

#include <string.h>

#include "data/sources/source.h"
#include "device/upload.h"
#include "train/optim/optim.h"
#include "train/optim/schedule.h"
#include "infer/answer/decode.h"
#include "cli/settings.h"

/* An option's value: its field in the settings, its type, its range, and its default (NULL: not
 * set). */
#define FIELD(kind, field) .type = &xt_type_##kind, .offset = offsetof(struct xt_settings, field)
#define FLAG(field, otherwise) FIELD(flag, field), .fallback = otherwise
#define CHOICE(field, names, otherwise)                                                            \
    FIELD(choice, field), .choices = names, .fallback = otherwise
#define NUMBER(kind, field, least, most, otherwise)                                                \
    FIELD(kind, field), .min = least, .max = most, .fallback = otherwise
#define INTEGER(field, least, most, otherwise) NUMBER(integer, field, least, most, otherwise)
#define INT64(field, least, most, otherwise) NUMBER(int64, field, least, most, otherwise)
#define REAL(field, least, most, otherwise) NUMBER(real, field, least, most, otherwise)
#define DURATION(field, least, most, otherwise) NUMBER(duration, field, least, most, otherwise)

enum {
    TRAIN = 1 << XT_COMMAND_TRAIN,
    TRY = 1 << XT_COMMAND_TRY,
    EVAL = 1 << XT_COMMAND_EVAL,
    PREDICT = 1 << XT_COMMAND_PREDICT,
    REPORT = 1 << XT_COMMAND_REPORT,
    COMPARE = 1 << XT_COMMAND_COMPARE,
    VERIFY = 1 << XT_COMMAND_VERIFY,
    SERVE = 1 << XT_COMMAND_SERVE,
    ANSWER = PREDICT | SERVE, /* commands that read images without labels */
    MODELS = 1 << XT_COMMAND_MODELS,
    DEVICES = 1 << XT_COMMAND_DEVICES,
    STEP = 1 << XT_COMMAND_BENCH_STEP,
    BENCH = STEP | 1 << XT_COMMAND_BENCH_START, /* commands that time steps */
    SCALE = 1 << XT_COMMAND_BENCH_SCALE,
    WARM = 1 << XT_COMMAND_WARMUP,
    INFER = 1 << XT_COMMAND_BENCH_INFER,
    LOADER = 1 << XT_COMMAND_BENCH_LOADER,
    CHECK = 1 << XT_COMMAND_DATA_CHECK,
    SPLIT = 1 << XT_COMMAND_DATA_SPLIT,
    PACK = 1 << XT_COMMAND_DATA_PACK,
    DOCTOR = 1 << XT_COMMAND_DOCTOR,
    SELFTEST = 1 << XT_COMMAND_SELFTEST,
    CACHE = 1 << XT_COMMAND_CACHE,
    EXPORT = 1 << XT_COMMAND_EXPORT,
    DIFF = 1 << XT_COMMAND_DIFF,
    HELP = 1 << XT_COMMAND_HELP,
    NETWORK = TRAIN | EVAL | ANSWER, /* commands that run a network */
    /* commands that may open an XPU */
    OPENS = TRY | NETWORK | BENCH | INFER | LOADER | SELFTEST | WARM | DEVICES | DOCTOR | VERIFY,
    EVERY = (int)((1U << XT_COMMAND_COUNT) - 1),
    WORKS = EVERY & ~(HELP | 1 << XT_COMMAND_VERSION | 1 << XT_COMMAND_MAN |
                      1 << XT_COMMAND_COMPLETION | 1 << XT_COMMAND_SCHEMA),
};

static const char *const bn_names[] = {"auto", "batch", "frozen", NULL};
static const char *const blank_names[] = {"auto", "first", "last", "none", NULL};
static const char *const norm_names[] = {"auto", "sample", "batch", NULL};
static const char *const type_names[] = {"f32", "bf16", "fp16", "int8", NULL};
static const char *const export_names[] = {"f32", "fp16", "int8", NULL};
static const char *const runtime_names[] = {"any", "onnxruntime", "openvino", NULL};
static const char *const purpose_names[] = {"train", "eval", "predict", NULL};
static const char *const cache_names[] = {"off", "files", "ram", "disk", NULL};
static const char *const pack_names[] = {"shards", "pixels", NULL};
static const char *const check_names[] = {"first", "every", "never", NULL};
static const char *const loss_names[] = {"stop", "resume", NULL};
static const char *const fit_names[] = {"stretch", "crop", NULL};
static const char *const stdin_names[] = {"none", "paths", "images", "frames", NULL};
static const char *const nan_names[] = {"stop", "skip", "rollback", NULL};
static const char *const bind_names[] = {"auto", "none", NULL};
static const char *const reduce_names[] = {"f32", "bf16", NULL};
static const char *const decode_names[] = {"greedy", "beam", NULL};

static const char *const group_titles[XT_GROUP_COUNT] = {
    [XT_GROUP_DATA] = "Network and images", [XT_GROUP_RUN] = "Run",
    [XT_GROUP_RECIPE] = "Recipe",           [XT_GROUP_MACHINE] = "Hardware, threads and memory",
    [XT_GROUP_ANSWER] = "Predictions",      [XT_GROUP_SERVICE] = "Service",
    [XT_GROUP_OUTPUT] = "Output",
};

const struct xt_option xt_option_table[] = {
    {"model", "the network, by name or as an ONNX file", XT_GROUP_DATA,
     TRY | NETWORK | EXPORT | DIFF | BENCH | LOADER | CHECK | SPLIT | SELFTEST | PACK | INFER |
         WARM | HELP | SCALE,
     FIELD(text, network.model), .value = "NAME",
     .needed = WARM | TRAIN | BENCH | INFER | LOADER | SCALE, .resume = XT_RESUME_REFUSES},
    {"data",
     "the images: a folder (the label is the file name up to the first _ or .), a list of lines "
     "path<tab>label, tars of images and labels, CCPD's pictures (ccpd:DIR), a mixture (mix.yaml), "
     "or pictures made on the fly (synth:plates?count=N&seed=S); without it, pictures made on the "
     "fly. Given several times, the sets are joined",
     XT_GROUP_DATA, TRAIN | EVAL | PREDICT | DIFF | LOADER | WARM | CHECK | SPLIT | PACK,
     FIELD(source, data.images), .value = "DIR|LIST|synth:...", .needed = LOADER,
     .resume = XT_RESUME_SAYS},
    {"val", "images to evaluate on while training, given as for --data", XT_GROUP_DATA,
     TRAIN | EVAL | CHECK, FIELD(source, data.val), .value = "DIR|LIST|synth:...", .shared = true},
    {"val-part",
     "hold out this fraction of --data for evaluation, chosen by --seed; all pictures of one plate "
     "are in the same part",
     XT_GROUP_DATA, TRY | TRAIN | SPLIT, REAL(data.val_part, 0, 1, NULL),
     .resume = XT_RESUME_REFUSES, .above_min = true, .below_max = true},
    {"negatives",
     "pictures that show nothing to be read, such as photographs without a plate: four fifths are "
     "mixed into training (no symbols; of classes, all alike), a fifth measures how many are "
     "answered",
     XT_GROUP_DATA, TRY | TRAIN, FIELD(source, data.negatives), .value = "DIR|LIST",
     .resume = XT_RESUME_SAYS},
    {"negatives-part", "their part of each batch, on average", XT_GROUP_DATA, TRAIN,
     REAL(data.negatives_part, 0, 1, "0.1"), .resume = XT_RESUME_SAYS, .below_max = true},
    {"init",
     "fine-tuning: begin with these trained weights: .safetensors, PyTorch's .pth, or a run's "
     "folder",
     XT_GROUP_DATA, TRY | TRAIN | EVAL | INFER | WARM, FIELD(path, network.init), .value = "FILE",
     .needed = EVAL, .shared = true},
    {"random-init", "begin with random weights instead of those in the ONNX file of --model",
     XT_GROUP_DATA, TRAIN | BENCH | WARM, FLAG(network.random_init, "false"), .shared = true},
    {"init-partial",
     "use the tensors of --init that fit and initialise the others, instead of refusing",
     XT_GROUP_DATA, TRAIN | WARM, FLAG(network.init_partial, "false"), .shared = true},
    {"alphabet",
     "the symbols of the labels, UTF-8, the CTC blank last (see --blank); without it, the 68 of "
     "Chinese plates, or those that the weights name. Weights for other symbols are reused for the "
     "symbols that both have",
     XT_GROUP_DATA,
     TRY | NETWORK | EXPORT | BENCH | LOADER | CHECK | SPLIT | SELFTEST | PACK | INFER | WARM,
     FIELD(path, network.alphabet), .value = "FILE", .shared = true},
    {"blank",
     "the CTC blank in the file --alphabet: its first or its last symbol, or none of them, so that "
     "one is added; auto: the last, unless that is a letter or a digit",
     XT_GROUP_DATA,
     TRY | NETWORK | EXPORT | BENCH | LOADER | CHECK | SPLIT | SELFTEST | PACK | INFER | WARM,
     CHOICE(network.blank, blank_names, "auto"), .shared = true},
    {"classes",
     "the number of classes, if it is larger than in the images; 0: as many as in the images",
     XT_GROUP_DATA, TRAIN | BENCH | WARM | SELFTEST | INFER,
     INTEGER(network.classes, 0, XT_CLASSES_MAX, "0"), .resume = XT_RESUME_REFUSES},
    {"image-size",
     "height and width that images are resized to, for networks of any size or whose file leaves "
     "it open; 0: the size that the weights were trained at, else the network's own",
     XT_GROUP_DATA, TRY | NETWORK | EXPORT | BENCH | LOADER | SELFTEST | PACK | INFER | WARM,
     INTEGER(network.image_size, 0, 4096, "0"), .resume = XT_RESUME_REFUSES},
    {"normalize",
     "normalisation of pixels, (v / 255 - MEAN) / STD, one number or three (red, green, blue); "
     "bytes: as they are; auto: as the weights were trained, imagenet for torchvision's, else the "
     "network's own",
     XT_GROUP_DATA, NETWORK | EXPORT | INFER | WARM, FIELD(text, network.normalize),
     .fallback = "auto", .value = "auto|imagenet|half|bytes|MEAN/STD", .resume = XT_RESUME_REFUSES},
    {"augment",
     "data augmentation: vary the training images a little: shift, rotation, scale, brightness, "
     "blur",
     XT_GROUP_DATA, TRAIN | LOADER, FLAG(data.augment, "false"), .resume = XT_RESUME_SAYS,
     .by_model = true},
    {"fit",
     "how images are resized to the network's size: stretch resizes the whole image; crop takes a "
     "random part in training (RandomResizedCrop), the centre in evaluation",
     XT_GROUP_DATA, TRAIN | EVAL | LOADER, CHOICE(data.fit, fit_names, "stretch"),
     .resume = XT_RESUME_SAYS},
    {"flip", "mirror training images left to right, each with probability 1/2", XT_GROUP_DATA,
     TRAIN | LOADER, FLAG(data.flip, "false"), .resume = XT_RESUME_SAYS, .by_model = true},
    {"jitter",
     "change brightness, contrast and saturation of training images by up to this factor; 0: off",
     XT_GROUP_DATA, TRAIN | LOADER, REAL(data.jitter, 0, 1, "0"), .resume = XT_RESUME_SAYS,
     .below_max = true},
    {"hue",
     "rotate the hue of training images by up to this part of the colour circle; 0.5: to any "
     "hue; 0: off",
     XT_GROUP_DATA, TRAIN | LOADER, REAL(data.hue, 0, 0.5, "0"), .resume = XT_RESUME_SAYS},
    {"strict-data",
     "fail on the first bad image; without it bad images are listed and skipped, and more than 1 % "
     "of them fails the run",
     XT_GROUP_DATA, TRAIN | EVAL | PACK | CHECK, FLAG(data.strict, "false")},

    {"out",
     "the run's folder, which must be new unless --resume is given; without it, runs/MODEL-DATE-N",
     XT_GROUP_RUN, TRY | TRAIN | SPLIT | PACK | EXPORT, FIELD(path, record.out), .value = "DIR"},
    {"config",
     "read options from a YAML file: keys as here, with _ for -; the command line wins; keys of "
     "other commands are checked and ignored",
     XT_GROUP_RUN, NETWORK | WARM, FIELD(path, request.config), .value = "FILE",
     .not_in_config = true},
    {"print-config", "print every setting and where it came from, as a file for --config, and exit",
     XT_GROUP_RUN, NETWORK, FLAG(request.print_config, "false"), .not_in_config = true},
    {"parse-only", "check the command line and the config file, and exit", XT_GROUP_RUN, EVERY,
     FLAG(request.parse_only, "false"), .not_in_config = true, .unlisted = EVERY},
    {"dry-run", "show settings, parameters, memory and where each operation would run, and exit",
     XT_GROUP_RUN, TRAIN, FLAG(request.dry_run, "false"), .not_in_config = true, .shared = true},
    {"resume",
     "resume from a checkpoint or run folder, with the settings of the run's config.yaml; auto: "
     "from the newest valid checkpoint in --out, else start a new run, with the settings given "
     "here",
     XT_GROUP_RUN, TRAIN, FIELD(path, record.resume), .value = "auto|PATH"},
    {"epochs", "the number of passes over the training images", XT_GROUP_RUN, TRAIN,
     INTEGER(run.epochs, 1, 1000000, NULL), .by_model = true, .shared = true},
    {"steps", "the length of the run in steps; overrides --epochs", XT_GROUP_RUN,
     TRAIN | STEP | INFER | SCALE, INT64(run.steps, 1, 1e15, NULL), .by_model = true,
     .shared = true},
    {"max-time",
     "train for at most this time, then evaluate, save and exit with code 0; 0: no limit",
     XT_GROUP_RUN, TRY | TRAIN, DURATION(run.max_time, 0, 1e9, "0")},
    {"stop-after", "after this time save and exit with code 75, to be resumed; 0: no limit",
     XT_GROUP_RUN, TRAIN, DURATION(run.stop_after, 0, 1e9, "0")},
    {"patience",
     "early stopping: end the run after this many evaluations in a row without gain (see "
     "--min-delta); 0: never",
     XT_GROUP_RUN, TRAIN, INTEGER(run.patience, 0, 1000000, "0"), .by_model = true, .shared = true},
    {"min-delta",
     "for --patience: an accuracy must rise by more than this to be a gain (0.002: by 0.2 points); "
     "0: any new best is a gain, also by characters or loss",
     XT_GROUP_RUN, TRAIN, REAL(run.min_delta, 0, 1, "0"), .below_max = true, .by_model = true,
     .shared = true},
    {"on-nan",
     "on a NaN or infinite loss, gradient or statistic: stop ends the run; skip skips the step's "
     "update; rollback returns to the last checkpoint and continues at half the rate; all name the "
     "layer where it began",
     XT_GROUP_RUN, TRAIN, CHOICE(run.on_nan, nan_names, "stop"), .shared = true},
    {"overfit",
     "a first check of a data set: train on only N images, evaluate on the same, and say "
     "whether they could be learnt; 0: train on all",
     XT_GROUP_RUN, TRAIN, INTEGER(run.overfit, 0, 100000, "0"), .value = "N",
     .resume = XT_RESUME_REFUSES},
    {"seed", "the seed of initialisation, order, augmentation and dropout", XT_GROUP_RUN,
     TRY | TRAIN | LOADER | CHECK | SPLIT | INFER, FIELD(seed, data.seed), .fallback = "0",
     .resume = XT_RESUME_REFUSES},
    {"log-every", "steps from one line of metrics.jsonl to the next", XT_GROUP_RUN, TRAIN,
     INTEGER(record.log_every, 1, 1000000, "10"), .by_model = true},
    {"eval-every",
     "epochs from one evaluation to the next; 0: only at the end; weights of --init are evaluated "
     "before the first step too",
     XT_GROUP_RUN, TRAIN, INTEGER(run.eval_every, 0, 1000000, "1"), .by_model = true,
     .shared = true},
    {"save-every", "steps from one checkpoint to the next; 0: one per epoch", XT_GROUP_RUN, TRAIN,
     INTEGER(record.save_every, 0, 1000000000, "0"), .by_model = true, .shared = true},
    {"keep", "the number of newest checkpoints to keep, besides the last and best weights",
     XT_GROUP_RUN, TRAIN, INTEGER(record.keep, 1, 10000, "2")},

    {"batch", "images per step; auto: as many as fit in the device's memory", XT_GROUP_RECIPE,
     TRY | NETWORK | BENCH | LOADER | SELFTEST | INFER | WARM | SCALE,
     INTEGER(network.batch, 1, 65536, "64"), .lists = STEP | INFER, .resume = XT_RESUME_REFUSES,
     .automatic = TRAIN | EVAL | PREDICT | STEP, .by_model = true},
    {"accumulate",
     "gradient accumulation over N batches for each step: equals a batch N times as large, except "
     "for batch norms, in the memory of one",
     XT_GROUP_RECIPE, TRAIN, INTEGER(recipe.accumulate, 1, 65536, "1"), .value = "N",
     .resume = XT_RESUME_REFUSES, .by_model = true},
    {"lr", "the peak learning rate", XT_GROUP_RECIPE, TRAIN, REAL(recipe.lr, 0, 1000, "0.001"),
     .resume = XT_RESUME_SAYS, .above_min = true, .by_model = true},
    {"min-lr", "the learning rate does not fall below this; warm-up may begin below it",
     XT_GROUP_RECIPE, TRAIN, REAL(recipe.min_lr, 0, 1000, "0"), .resume = XT_RESUME_SAYS,
     .by_model = true},
    {"optim", "the optimizer", XT_GROUP_RECIPE, TRAIN | BENCH | WARM,
     CHOICE(recipe.optim, xt_optim_names, "adamw"), .resume = XT_RESUME_REFUSES, .by_model = true},
    {"momentum", "the momentum of sgd and rmsprop", XT_GROUP_RECIPE, TRAIN | BENCH | WARM,
     REAL(recipe.momentum, 0, 1, "0.9"), .resume = XT_RESUME_SAYS, .below_max = true,
     .by_model = true},
    {"nesterov", "Nesterov's momentum, for sgd", XT_GROUP_RECIPE, TRAIN | BENCH | WARM,
     FLAG(recipe.nesterov, "false"), .resume = XT_RESUME_SAYS, .by_model = true},
    {"weight-decay", "decoupled for adamw, in the gradient for the others; not on biases and BN",
     XT_GROUP_RECIPE, TRAIN | BENCH | WARM, REAL(recipe.weight_decay, 0, 10, "0"),
     .resume = XT_RESUME_SAYS, .by_model = true},
    {"decay-all", "weight decay on biases and BN too", XT_GROUP_RECIPE, TRAIN | BENCH | WARM,
     FLAG(recipe.decay_all, "false"), .resume = XT_RESUME_SAYS, .by_model = true},
    {"sched", "the learning-rate schedule over the run", XT_GROUP_RECIPE, TRAIN,
     CHOICE(recipe.sched, xt_schedule_names, "onecycle"), .resume = XT_RESUME_SAYS,
     .by_model = true},
    {"milestones",
     "epochs at which --sched multistep lowers the rate; for step one number, the period",
     XT_GROUP_RECIPE, TRAIN, FIELD(epochs, recipe.milestones), .max = 1000000,
     .resume = XT_RESUME_SAYS, .by_model = true},
    {"gamma", "the factor by which step and multistep multiply the rate", XT_GROUP_RECIPE, TRAIN,
     REAL(recipe.gamma, 0, 1, "0.1"), .resume = XT_RESUME_SAYS, .above_min = true,
     .by_model = true},
    {"warmup",
     "the fraction of the run during which the rate rises to --lr; with onecycle 0 means 0.3",
     XT_GROUP_RECIPE, TRAIN, REAL(recipe.warmup, 0, 1, "0"), .resume = XT_RESUME_SAYS,
     .below_max = true, .by_model = true},
    {"clip", "gradient clipping: the largest global norm of the gradients; 0: off", XT_GROUP_RECIPE,
     TRAIN | BENCH | WARM, REAL(recipe.clip, 0, 1e9, "0"), .resume = XT_RESUME_SAYS,
     .by_model = true},
    {"ema",
     "keep a moving average of the weights (0.999 is usual), evaluated beside them, saved as "
     "ema.safetensors, and as the best weights if it is better; 0: off",
     XT_GROUP_RECIPE, TRAIN, REAL(recipe.ema, 0, 1, "0"), .value = "DECAY",
     .resume = XT_RESUME_SAYS, .below_max = true, .by_model = true},
    {"dropout", "the probability with which an activation is dropped, in layers with dropout",
     XT_GROUP_RECIPE, TRAIN | BENCH | WARM, REAL(recipe.dropout, 0, 1, "0"),
     .resume = XT_RESUME_SAYS, .below_max = true, .by_model = true},
    {"label-smoothing", "the fraction of a label that is distributed over all classes",
     XT_GROUP_RECIPE, TRAIN | BENCH | WARM, REAL(recipe.label_smoothing, 0, 1, "0"),
     .resume = XT_RESUME_SAYS, .below_max = true, .by_model = true},
    {"mixup",
     "mix each training image and its label with another of its batch, by weights drawn from "
     "Beta(ALPHA, ALPHA); 0.2 is usual; the training loss is then that of mixed labels; 0: off",
     XT_GROUP_RECIPE, TRAIN | LOADER, REAL(data.mixup, 0, 1000, "0"), .value = "ALPHA",
     .resume = XT_RESUME_SAYS, .by_model = true},
    {"freeze-until", "the layers before this one (layer3, fc) keep their weights and statistics",
     XT_GROUP_RECIPE, TRAIN | BENCH | WARM | SELFTEST, FIELD(text, network.freeze_until),
     .value = "LAYER", .resume = XT_RESUME_SAYS},
    {"head-lr-factor",
     "multiplies the learning rate of the last layer, which starts from random weights",
     XT_GROUP_RECIPE, TRAIN | BENCH | WARM, REAL(recipe.head_lr_factor, 0, 1000, "1"),
     .resume = XT_RESUME_SAYS, .above_min = true, .by_model = true},
    {"bn",
     "batch normalisation: statistics of the batch, or the stored ones, frozen; auto: depends on "
     "the weights",
     XT_GROUP_RECIPE, TRAIN | BENCH | WARM | SELFTEST, CHOICE(network.bn, bn_names, "auto"),
     .resume = XT_RESUME_SAYS},
    {"lprnet-norm",
     "lprnet's global context: mean over the plate (sample), or over the batch as published, where "
     "a prediction depends on its batch; auto: as the weights were trained, else sample",
     XT_GROUP_RECIPE, NETWORK | EXPORT | BENCH | SELFTEST | INFER | WARM,
     CHOICE(network.lprnet_norm, norm_names, "auto"), .resume = XT_RESUME_REFUSES,
     .by_model = true},

    {"device",
     "where to run; auto uses an XPU if there is one, and reports its choice; eval: several give "
     "one table",
     XT_GROUP_MACHINE, TRY | NETWORK | BENCH | INFER | LOADER | SELFTEST | WARM,
     FIELD(device, device.name), .fallback = "cpu", .value = "cpu|xpu|xpu:N|xpu:NAME|auto",
     .lists = STEP | EVAL},
    {"xpu", "run on an Intel GPU: short for --device xpu; an error if there is none",
     XT_GROUP_MACHINE, TRY | NETWORK | BENCH | INFER | LOADER | SELFTEST | WARM,
     FLAG(device.xpu, "false")},
    {"check-device",
     "on an XPU, compare every op of this run's network with references in double precision, and a "
     "whole training step with the CPU's: first, before the run begins, with a pass cached for a "
     "day; every, again at each checkpoint; never",
     XT_GROUP_MACHINE, NETWORK, CHOICE(device.check, check_names, "first")},
    {"deterministic",
     "on an XPU, fail where oneDNN cannot promise the same bits in each run; without this option "
     "kernels are deterministic where oneDNN has such ones, and proof.json says which; the CPU's "
     "always are",
     XT_GROUP_MACHINE, NETWORK, FLAG(device.deterministic, "false")},
    {"device-check", "an earlier spelling: --no-device-check is --check-device never",
     XT_GROUP_MACHINE, NETWORK, FLAG(device.check_first, "true"), .unlisted = NETWORK},
    {"on-device-loss",
     "if an XPU fails during a run: stop exits with code 4 and says how to resume; resume "
     "restarts from the last checkpoint, at most five times in a row",
     XT_GROUP_MACHINE, TRAIN, CHOICE(run.on_device_loss, loss_names, "stop")},
    {"device-timeout",
     "an XPU that does not respond for this time, or compiles one kernel for as long, counts as "
     "lost, with a warning after a tenth of it; 0: ten minutes, or 100 steps if those take longer",
     XT_GROUP_MACHINE, OPENS, DURATION(device.timeout, 0, 1e9, "0")},
    {"amp",
     "mixed precision: the type of activations and of the arithmetic on them; weights stay "
     "f32; without a type: bf16",
     XT_GROUP_MACHINE, TRY | NETWORK | BENCH | SELFTEST | SCALE | INFER,
     CHOICE(network.amp, type_names, "f32"), .value = "TYPE", .lists = BENCH | INFER,
     .several = "compare", .not_last = TRY | TRAIN | BENCH | SCALE, .resume = XT_RESUME_SAYS,
     .alone = "bf16"},
    {"threads",
     "threads that compute; the last bits of results depend on it; 0: as many as the process may "
     "use, or as the resumed run had",
     XT_GROUP_MACHINE, TRY | NETWORK | EXPORT | DIFF | BENCH | SELFTEST | INFER | WARM | SCALE,
     INTEGER(device.threads, 0, 4096, "0")},
    {"oversubscribe", "use --threads even if the process may not use as many CPUs",
     XT_GROUP_MACHINE, TRY | NETWORK | EXPORT | DIFF | BENCH | SELFTEST | INFER | WARM | SCALE,
     FLAG(device.oversubscribe, "false")},
    {"workers",
     "threads that read images; 0: half as many as the process may use, at most 8, and more if "
     "steps need them",
     XT_GROUP_MACHINE, TRY | NETWORK | LOADER | PACK, INTEGER(data.workers, 0, 1024, "0")},
    {"recompute",
     "do not store the outputs of batch norms and their ReLUs but recompute them in the backward "
     "pass, to the same bits, so that larger batches fit; takes a little more time",
     XT_GROUP_MACHINE, TRAIN | BENCH, FLAG(network.recompute, "false")},
    {"slots", "batches that are prepared ahead of the step, at least 2; 0: 4", XT_GROUP_MACHINE,
     TRAIN | LOADER | WARM, INTEGER(data.slots, 0, XT_SLOTS_MAX, "0")},
    {"image-cache",
     "what is cached for later epochs of training: files, the bytes of small image files (up to 32 "
     "KiB), in memory; ram, decoded images at the network's size; disk, the same in cache.bin in "
     "the run's folder",
     XT_GROUP_MACHINE, TRAIN | LOADER, CHOICE(data.cache, cache_names, "files"), .was = "cache"},
    {"image-cache-limit",
     "the size limit of --image-cache; images beyond it are read and decoded each time; 0: half of "
     "the free memory, for files at most 256, on disk no limit",
     XT_GROUP_MACHINE, TRAIN | LOADER, INTEGER(data.cache_limit, 0, 100000000, "0"), .value = "MIB",
     .was = "cache-limit"},
    {"image-cache-file",
     "the file of --image-cache disk, which several runs may share and data pack --as pixels "
     "writes in advance; without it cache.bin in the run's folder",
     XT_GROUP_MACHINE, TRAIN | LOADER, FIELD(path, data.cache_file), .value = "FILE",
     .was = "cache-file"},
    {"sync-bn",
     "with several processes (mpirun, srun): batch norms use the images of all, so that they "
     "train as one would; --no-sync-bn uses each one's own, for large shares and for XPUs",
     XT_GROUP_MACHINE, TRAIN | SCALE, FLAG(rank.sync_bn, "true"), .resume = XT_RESUME_SAYS},
    {"bucket",
     "with several processes: gradients are sent in parts of this size during the backward pass",
     XT_GROUP_MACHINE, TRAIN | SCALE, INTEGER(rank.bucket, 1, 1024, "8"), .value = "MIB",
     .shared = true},
    {"reduce-type",
     "with several processes: the type in which gradients are sent and added up; bf16 halves the "
     "traffic",
     XT_GROUP_MACHINE, TRAIN | SCALE, CHOICE(rank.reduce_type, reduce_names, "f32"),
     .value = "TYPE", .resume = XT_RESUME_SAYS},
    {"balance",
     "with several processes: cut the shares of a batch anew by measured speed, where some are "
     "slower; the same images in the same steps, sums in another order",
     XT_GROUP_MACHINE, TRAIN, FLAG(rank.balance, "false"), .resume = XT_RESUME_SAYS},
    {"alone",
     "with several tasks of one job (mpirun, srun): this one has work of its own, and is none of "
     "the ranks of a run",
     XT_GROUP_MACHINE, WORKS, FLAG(rank.alone, "false"), .not_in_config = true},
    {"bind",
     "with several processes: auto binds each to its share of a host's CPUs where all may use all "
     "of them, none does not; a binding by the launcher (--bind-to, --cpu-bind) holds either way",
     XT_GROUP_MACHINE, TRAIN | EVAL, CHOICE(rank.bind, bind_names, "auto"), .value = "HOW"},
    {"rank-timeout",
     "with several processes: how long one waits for the others before all exit; 0: no limit",
     XT_GROUP_MACHINE, TRAIN, DURATION(rank.timeout, 0, 1e9, "600")},
    {"pin-memory",
     "with an XPU, images are decoded into memory that it reads directly; without, they are copied "
     "there first",
     XT_GROUP_MACHINE, NETWORK | WARM, FLAG(device.pin_memory, "true")},
    {"kernel-cache-dir",
     "the folder of kernels compiled for an XPU; without it $XTRAIN_CACHE_DIR, else "
     "$XDG_CACHE_HOME/xtrain, else ~/.cache/xtrain",
     XT_GROUP_MACHINE, TRY | NETWORK | STEP | INFER | LOADER | CACHE | SELFTEST | WARM | VERIFY,
     FIELD(path, device.cache_dir), .value = "DIR", .was = "cache-dir"},
    {"kernel-cache",
     "cache the kernels compiled for an XPU, so that the next start need not compile them",
     XT_GROUP_MACHINE, NETWORK | STEP | INFER | LOADER | SELFTEST | VERIFY,
     FLAG(device.kernel_cache, "true")},
    {"max-size", "prune: keep the newest kernels up to this size; 0: no limit", XT_GROUP_MACHINE,
     CACHE, INTEGER(prune.max_size, 0, 1000000, "0"), .value = "MB"},
    {"max-age", "prune: keep kernels that were used within this time (720h); 0: no limit",
     XT_GROUP_MACHINE, CACHE, DURATION(prune.max_age, 0, 1e9, "0")},
    {"fuse",
     "fold batch norms into the convolutions before them, with the sums and ReLUs that follow",
     XT_GROUP_MACHINE, EVAL | ANSWER | EXPORT | WARM, FLAG(network.fuse, "true"), .shared = true},
    {"compare", "evaluate in each of these types, one table: f32,bf16,int8", XT_GROUP_MACHINE, EVAL,
     CHOICE(eval.compare, type_names, NULL), .value = "TYPE", .lists = EVAL, .not_in_config = true,
     .shared = true, .unlisted = EVERY},
    {"for", "what the kernels are for, or several", XT_GROUP_MACHINE, WARM,
     CHOICE(warm.purpose, purpose_names, "train"), .value = "PURPOSE", .lists = WARM,
     .not_in_config = true},
    {"for-gpu",
     "compile for this GPU, which need not be present: Intel's OpenCL driver emulates it",
     XT_GROUP_MACHINE, WARM, FIELD(gpu, device.for_gpu), .choices = xt_capture_names,
     .fallback = "none", .value = "NAME|0xPCIID", .not_in_config = true},
    {"driver",
     "--for-gpu: use the OpenCL driver of the packages unpacked in this folder, which need not be "
     "this system's",
     XT_GROUP_MACHINE, WARM, FIELD(path, device.driver), .value = "DIR", .not_in_config = true},
    {"types", "the type of the kernels, or several; int8 for eval and predict only",
     XT_GROUP_MACHINE, WARM, CHOICE(warm.types, type_names, "f32"), .value = "TYPE", .lists = WARM,
     .not_in_config = true, .spelt = "amp"},
    {"calibrate",
     "int8 quantization: representative images, from which the ranges of the network's tensors are "
     "measured, unless the weights hold them (export); labels are not needed",
     XT_GROUP_MACHINE, EVAL | ANSWER | EXPORT, FIELD(source, answer.calibrate),
     .value = "DIR|LIST|synth:...", .shared = true},
    {"calibrate-images", "how many of them are used, evenly spaced", XT_GROUP_MACHINE,
     EVAL | ANSWER | EXPORT, INTEGER(answer.calibrate_images, 1, 1000000, "256"), .value = "N",
     .shared = true},

    {"decode", "how symbols are decoded from the network's output", XT_GROUP_ANSWER, NETWORK,
     CHOICE(answer.decode, decode_names, "greedy"), .shared = true},
    {"show", "print the predictions for the first N images beside their labels", XT_GROUP_ANSWER,
     EVAL, INTEGER(eval.show, 0, 1000000, "0")},
    {"top", "the number of likeliest classes to print", XT_GROUP_ANSWER, ANSWER,
     INTEGER(answer.top, 1, XT_DECODE_MAX, "5")},
    {"reject",
     "predictions of less confidence than P are rejected (-). auto:0.995: training, or eval, "
     "chooses P so that 99.5 % of the others are right; keep:0.98: so that 98 % of the images are "
     "not rejected. Training stores the choice in the weights, which eval, predict, serve and "
     "export obey; none: nothing is rejected",
     XT_GROUP_ANSWER, TRY | NETWORK, FIELD(reject, answer.reject), .fallback = "stored",
     .value = "P|auto:A|keep:K|stored|none", .shared = true},
    {"errors",
     "write every wrong image, worst first, and the pairs of the confusion matrix: by the "
     "extension as .jsonl, .tsv or .html",
     XT_GROUP_ANSWER, EVAL, FIELD(path, eval.errors), .value = "FILE", .not_in_config = true,
     .shared = true},

    {"images",
     "show pictures in pages and TensorBoard's events; --no-images keeps private images out of "
     "them (names and labels stay)",
     XT_GROUP_OUTPUT, TRY | TRAIN | EVAL | REPORT | DIFF, FLAG(record.pictures, "true")},
    {"page",
     "the page's file; without it report.html, in the run's folder if there is one run, "
     "else in the working directory",
     XT_GROUP_OUTPUT, REPORT, FIELD(path, page), .value = "FILE", .not_in_config = true,
     .spelt = "out"},

    {"listen", "the address to listen on; port 0: any free port", XT_GROUP_SERVICE, SERVE,
     FIELD(text, service.listen), .fallback = "127.0.0.1:8080", .value = "ADDRESS:PORT|unix:PATH"},
    {"allow-remote",
     "let --listen be an address that other machines reach, all of which can then use it",
     XT_GROUP_SERVICE, SERVE, FLAG(service.allow_remote, "false")},
    {"stdin",
     "answer standard input: paths, one per line; images, each after its length in four bytes, "
     "big-endian; frames, raw RGB of the size --frame",
     XT_GROUP_SERVICE, SERVE, CHOICE(service.stdin_kind, stdin_names, "none"),
     .not_in_config = true},
    {"frame", "the size of the frames of --stdin frames", XT_GROUP_SERVICE, SERVE,
     FIELD(text, service.frame), .value = "WIDTHxHEIGHT", .not_in_config = true},
    {"max-latency",
     "how long a request may wait for others to share its batch, such as 20ms; 0: a batch begins "
     "when the previous one has ended, with the requests that have arrived",
     XT_GROUP_SERVICE, SERVE, DURATION(service.max_latency, 0, 60, "0")},
    {"max-queue",
     "requests that may wait for a batch, beyond which the response is 503; 0: four batches",
     XT_GROUP_SERVICE, SERVE, INTEGER(service.max_queue, 0, 1000000, "0")},
    {"max-body", "the largest image that is accepted; sixteen times that for all at once",
     XT_GROUP_SERVICE, SERVE, INTEGER(service.max_body, 1, 256, "16"), .value = "MIB"},
    {"max-pixels", "the largest image that is decoded, in millions of pixels", XT_GROUP_SERVICE,
     SERVE, INTEGER(service.max_pixels, 1, 64, "32")},
    {"max-decode",
     "the CPU time that decoding one image may take, beyond which the response is 422",
     XT_GROUP_SERVICE, SERVE, DURATION(service.decode_time, 0.01, 3600, "2s")},
    {"allow-host",
     "names of this machine that requests may use, separated by commas, besides localhost; with "
     "--allow-remote and without this: any",
     XT_GROUP_SERVICE, SERVE, FIELD(text, service.allow_host), .value = "NAMES"},
    {"max-connections", "clients at once; one more replaces an idle one", XT_GROUP_SERVICE, SERVE,
     INTEGER(service.max_connections, 1, 10000, "256")},
    {"request-timeout",
     "a client that takes longer to send its request is disconnected; its headers may take 5 s of "
     "that",
     XT_GROUP_SERVICE, SERVE, DURATION(service.request_timeout, 0.1, 3600, "10s")},
    {"idle-timeout", "a client that sends no request for so long is disconnected", XT_GROUP_SERVICE,
     SERVE, DURATION(service.idle_timeout, 0.1, 3600, "30s")},
    {"selftest",
     "attack the service at this address, as a hostile client would, and print what held; on this "
     "machine alone, unless --allow-remote",
     XT_GROUP_SERVICE, SERVE, FIELD(text, service.selftest), .value = "URL", .not_in_config = true},

    {"sheet", "write a picture of random images, as they are and as training may see them",
     XT_GROUP_OUTPUT, CHECK, FIELD(path, dataset.sheet), .value = "FILE", .not_in_config = true},
    {"as",
     "what to pack the images as: shards keep the encoded images, pixels are decoded at the "
     "network's size",
     XT_GROUP_OUTPUT, PACK, CHOICE(dataset.pack_as, pack_names, "shards"), .not_in_config = true},
    {"shard-size", "the largest size of a shard", XT_GROUP_OUTPUT, PACK,
     INTEGER(dataset.shard_size, 1, 1000000, "256"), .value = "MIB", .not_in_config = true},
    {"type", "what the model computes in; int8 needs --calibrate, or weights with ranges",
     XT_GROUP_OUTPUT, EXPORT, CHOICE(export.type, export_names, "f32"), .value = "TYPE",
     .not_in_config = true, .spelt = "amp"},
    {"runtime",
     "int8: the runtime whose kernels the model is laid for; sums and averages are then int8 too, "
     "which `any` computes in float32 as eval --amp int8 does",
     XT_GROUP_OUTPUT, EXPORT, CHOICE(export.runtime, runtime_names, "any"), .value = "RUNTIME",
     .not_in_config = true, .spelt = "for"},
    {"weight-bits",
     "int8: bits of a weight; 7 on x86 CPUs without VNNI (see xtrain devices), whose sums of 8-bit "
     "products can overflow",
     XT_GROUP_OUTPUT, EXPORT, INTEGER(export.weight_bits, 7, 8, "8"), .value = "N",
     .not_in_config = true},
    {"fixed-batch", "the model takes exactly N images at a time; 0: any number", XT_GROUP_OUTPUT,
     EXPORT, INTEGER(export.fixed_batch, 0, 65536, "0"), .value = "N", .not_in_config = true},
    {"with-preprocess",
     "the model takes the images' bytes, [batch][height][width][3], and normalises them; "
     "without it, float32 [batch][3][height][width] that are normalised",
     XT_GROUP_OUTPUT, EXPORT, FLAG(export.with_preprocess, "false"), .not_in_config = true},
    {"check",
     "run the file with onnxruntime on these images and compare with this program; needs python3 "
     "(or $XTRAIN_PYTHON) with onnxruntime",
     XT_GROUP_OUTPUT, EXPORT, FIELD(source, export.check), .value = "DIR|LIST|synth:...",
     .not_in_config = true},
    {"differences",
     "write each image for which the two predictions differ: by the extension as .html, with "
     "pictures and the tensors that differ, or as .tsv or .jsonl",
     XT_GROUP_OUTPUT, DIFF, FIELD(path, differences), .value = "FILE", .not_in_config = true},
    {"profile", "the time of each part of the step, with its arithmetic and memory traffic",
     XT_GROUP_OUTPUT, STEP | INFER, FLAG(bench.profile, "false"), .not_in_config = true},
    {"why", "what makes the step slow, with what helps: kernels, data type, launches, an idle GPU",
     XT_GROUP_OUTPUT, STEP, FLAG(bench.why, "false"), .not_in_config = true},

    {"beside", "measure beside this many processes that keep CPUs busy", XT_GROUP_MACHINE, STEP,
     INTEGER(bench.beside, 0, 4096, "0"), .lists = STEP, .not_in_config = true},

    {"against", "compare with an earlier --json file; slower by more than 10 % exits with 1",
     XT_GROUP_OUTPUT, STEP | CHECK, FIELD(path, bench.against), .value = "OLD.json",
     .not_in_config = true, .unlisted = CHECK},

    {"replay",
     "train up to N recorded steps again from a checkpoint and compare the bits (on another "
     "instruction set or thread count: losses within a tenth); 0: do not",
     XT_GROUP_RUN, VERIFY, INT64(trust.replay, 0, 1e15, "0"), .value = "N", .not_in_config = true},
    {"sign", "sign the run's record with this key by ssh-keygen -Y sign, into proof.json.sig",
     XT_GROUP_OUTPUT, TRAIN | CACHE, FIELD(path, trust.sign), .value = "KEY",
     .not_in_config = true},
    {"key", "require that the record is signed by the owner of this public key", XT_GROUP_OUTPUT,
     VERIFY | CACHE, FIELD(path, trust.key), .value = "PUB", .not_in_config = true},

    {"merge",
     "compare machines by the files that doctor --json wrote on each: which one differs in driver, "
     "kernels, library, memory, Resizable BAR",
     XT_GROUP_RUN, DOCTOR, FLAG(merge, "false"), .not_in_config = true},
    {"small", "check ops only at small shapes, which takes a second on a CPU", XT_GROUP_RUN,
     SELFTEST, FLAG(small_shapes, "false"), .not_in_config = true},
    {"step",
     "one training step of these weights on made pictures, without dropout: the loss, and of each "
     "gradient the norm and sums with random signs, for a comparison of devices",
     XT_GROUP_RUN, SELFTEST, FIELD(path, step), .value = "FILE", .not_in_config = true},

    {"json",
     "results as one JSON object, and nothing else, on standard output, however the command ends "
     "(see xtrain schema)",
     XT_GROUP_OUTPUT, EVERY, FLAG(output.json, "false"), .not_in_config = true},
    {"jsonl",
     "as --json, but each image, or each report of progress and evaluation, is an object on a line "
     "of its own, printed at once",
     XT_GROUP_OUTPUT, TRAIN | ANSWER, FLAG(output.jsonl, "false"), .not_in_config = true},
    {"quiet", "only results, warnings and errors; also -q", XT_GROUP_OUTPUT, WORKS,
     FLAG(output.quiet, "false"), .letter = 'q'},
    {"verbose", "more details on what is done and where; also -v", XT_GROUP_OUTPUT, WORKS,
     FLAG(output.verbose, "false"), .letter = 'v'},
    {"log-time", "begin messages and lines of progress with date and time", XT_GROUP_OUTPUT, WORKS,
     FLAG(output.log_time, "false")},
    {"all", "show every option of the command", XT_GROUP_OUTPUT, HELP, FLAG(request.all, "false"),
     .not_in_config = true},
    {"version", "show the versions of xtrain and of the libraries it uses; also -V",
     XT_GROUP_OUTPUT, EVERY, FLAG(request.version, "false"), .not_in_config = true},
    {"help", "show this help; also -h", XT_GROUP_OUTPUT, EVERY, FLAG(request.help, "false"),
     .not_in_config = true},
};

enum { TABLE_COUNT = sizeof xt_option_table / sizeof *xt_option_table };
_Static_assert(TABLE_COUNT <= (int)XT_OPTIONS_MAX, "raise XT_OPTIONS_MAX");

const size_t xt_option_count = TABLE_COUNT;

const char *xt_option_group_title(enum xt_option_group group)
{
    return group_titles[group];
}

static bool is_old(const struct xt_option *option, const char *name)
{
    return option->was && strcmp(option->was, name) == 0;
}

const struct xt_option *xt_option_find(const char *name)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        if (strcmp(xt_option_table[i].name, name) == 0 || is_old(&xt_option_table[i], name))
            return &xt_option_table[i];
    return NULL;
}

const struct xt_option *xt_option_find_for(const char *name, enum xt_command_id command)
{
    for (size_t i = 0; i < TABLE_COUNT; i++)
        if ((strcmp(xt_option_spelling(&xt_option_table[i]), name) == 0 ||
             is_old(&xt_option_table[i], name)) &&
            xt_option_is_for(&xt_option_table[i], command))
            return &xt_option_table[i];
    return xt_option_find(name);
}

const char *xt_option_spelling(const struct xt_option *option)
{
    return option->spelt ? option->spelt : option->name;
}

size_t xt_option_index(const struct xt_option *option)
{
    return (size_t)(option - xt_option_table);
}

bool xt_option_is_for(const struct xt_option *option, enum xt_command_id command)
{
    /* A sweep has the options of its runs. */
    if (command == XT_COMMAND_SWEEP)
        command = XT_COMMAND_TRAIN;
    return (option->commands >> command & 1) != 0;
}

bool xt_option_is_listed(const struct xt_option *option, enum xt_command_id command)
{
    return xt_option_is_for(option, command) && !(option->unlisted >> command & 1);
}

const struct xt_option *xt_option_taken(const struct xt_option *option, enum xt_command_id command,
                                        struct xt_option_taken *own)
{
    size_t count = 0;
    if (!(option->not_last >> (command == XT_COMMAND_SWEEP ? XT_COMMAND_TRAIN : command) & 1))
        return option;
    *own = (struct xt_option_taken){.option = *option};
    for (; count < XT_CHOICES_MAX && option->choices[count + 1]; count++)
        own->choices[count] = option->choices[count];
    own->option.choices = own->choices;
    return &own->option;
}

bool xt_option_binds_ranks(const struct xt_option *option)
{
    return option->resume != XT_RESUME_TAKES || option->shared;
}

bool xt_option_has_negation(const struct xt_option *option)
{
    return !option->type->takes_value && !option->not_in_config;
}
