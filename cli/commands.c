#include "cli/commands.h"

#include <stdbool.h>
#include <string.h>

#include "base/str.h"
#include "cli/options/types.h"

static const struct xt_command commands[XT_COMMAND_COUNT] = {
    [XT_COMMAND_TRAIN] = {"train", "train a network (the default command)",
                          .details = "Trains into a new folder under runs/ (or --out DIR): "
                                     "last.safetensors, best.safetensors, metrics.jsonl, and "
                                     "report.html. Without --data it trains on synthetic images."},
    [XT_COMMAND_TRY] =
        {"try", "check, train and judge a folder of images, and say what it lacks",
         .arguments = "DIR|LIST", .least_arguments = 1,
         .details =
             "Within --max-time (10m) it checks the images, learns a few by heart, measures the "
             "types, trains on each half to find labels of the other that look wrong, trains on "
             "all but a held-out part and calibrates. Everything is in one new folder, --out or "
             "runs/try-NAME: page.html, suspects.tsv, and reader/, the run."},
    [XT_COMMAND_SWEEP] =
        {"sweep", "write configs for combinations of values, and a script for them",
         .arguments = "NAME=VALUE,VALUE|NAME=1..3...", .least_arguments = 1,
         .details =
             "xtrain sweep --config base.yaml --out runs/sweep lr=1e-4,1e-3 seed=1..3 writes six "
             "configs; runs/sweep/run.sh runs them in sequence, resumes where it was stopped, and "
             "ends with the table of xtrain compare. All other options are those of train."},
    [XT_COMMAND_EVAL] = {"eval", "measure the accuracy of trained weights on labelled images",
                         .arguments = "[WEIGHTS]", .takes_weights = XT_WEIGHTS_ALONE,
                         .details =
                             "WEIGHTS is a file or a run's folder. Without --data it evaluates on "
                             "the images that the run evaluated on (val in its config.yaml)."},
    [XT_COMMAND_PREDICT] =
        {"predict", "predict the labels of images, one line of output each",
         .arguments = "WEIGHTS FILE|DIR|LIST|-...", .least_arguments = 2,
         .takes_weights = XT_WEIGHTS_FIRST,
         .details =
             "WEIGHTS is a file or a run's folder. Images are files, or whatever --data takes; "
             "labels are not needed. LPRNet reads plates that are cut out and upright; of anything "
             "else it predicts some plate too. - is a list of paths on standard input, one a line, "
             "each answered as it arrives; a region of the image may stand behind the path (x y "
             "width height, or four corners). A line of output is path, prediction, confidence, "
             "and those of its parts, separated by tabs."},
    [XT_COMMAND_SERVE] =
        {"serve", "serve predictions over HTTP, or for a stream of images",
         .arguments = "WEIGHTS|--selftest URL", .takes_weights = XT_WEIGHTS_ALONE,
         .details = "POST a JPEG, PNG or WebP to /predict and get JSON; ?region=x,y,width,height "
                    "(or the eight numbers of four corners) reads a part. GET /healthz, /metrics. "
                    "SIGTERM completes pending requests and exits with 0. With --stdin it reads "
                    "standard input instead, and writes a line for each image."},
    [XT_COMMAND_REPORT] =
        {"report", "write the report page of a run, or of several runs overlaid",
         .arguments = "RUN...", .least_arguments = 1,
         .details = "Of one run it writes report.html in the run's folder, as training does at "
                    "each evaluation; of several report.html in the working directory, with the "
                    "settings that differ. A run may be running, stopped or done."},
    [XT_COMMAND_COMPARE] = {"compare", "compare runs: best, last, time, settings that differ",
                            .arguments = "RUN RUN...", .least_arguments = 2},
    [XT_COMMAND_VERIFY] =
        {"verify", "check a run against its record: its files, versions, and its XPU",
         .arguments = "RUN", .least_arguments = 1,
         .details =
             "Checks the chain of metrics.jsonl, and weights, checkpoints and settings by the "
             "hashes that the run recorded in proof.json; compares the versions then and now, and "
             "checks again that an XPU computes correctly. --replay trains recorded steps again. "
             "Changed versions are listed and are no failure. Exits with 1 if a file, a line or a "
             "replayed step is not as recorded, or the signature that --key asks for does not "
             "hold, 4 if the XPU computes wrong results."},
    [XT_COMMAND_EXPORT] =
        {"export", "write trained weights as an ONNX model, or with the ranges of int8",
         .arguments = "WEIGHTS MODEL.onnx|INT8.safetensors", .least_arguments = 2,
         .takes_weights = XT_WEIGHTS_FIRST,
         .details = "WEIGHTS is a file or a run's folder. How to prepare images and decode the "
                    "output is in the model's metadata: size, channel order, mean and scale, "
                    "alphabet or names of the classes. INT8.safetensors gets the weights with the "
                    "ranges of the images of --calibrate: with it --amp int8 needs no images."},
    [XT_COMMAND_DIFF] =
        {"diff", "compare two weight files, or with --data their predictions", .arguments = "A B",
         .least_arguments = 2,
         .details = "Tensor by tensor: shapes, the largest and the relative difference; and the "
                    "metadata. With --data both are evaluated, and the images with different "
                    "predictions are listed. Exits with 0 whether they differ or not."},
    [XT_COMMAND_MODELS] = {.name = "models",
                           .summary = "list the networks: parameters, operations, input"},
    [XT_COMMAND_DEVICES] = {.name = "devices", .summary = "list the devices of this machine"},
    [XT_COMMAND_BENCH_STEP] = {"bench step", "time training steps, and their lower bound",
                               .arguments = "[WEIGHTS]", .takes_weights = XT_WEIGHTS_ALONE,
                               .details =
                                   "Times whole steps (forward, loss, backward, update) on random "
                                   "images in memory, alternating with the network's convolutions, "
                                   "the lower bound. Exits with 1 if --against finds it slower."},
    [XT_COMMAND_BENCH_INFER] =
        {"bench infer", "time inference in each type, and its lower bound",
         .arguments = "[WEIGHTS]", .takes_weights = XT_WEIGHTS_ALONE,
         .details = "Times passes (bytes in memory to logits) in f32, and with the batch norms "
                    "folded in f32, bf16 and int8, on random images in memory, alternating with "
                    "the same network's convolutions, the lower bound."},
    [XT_COMMAND_BENCH_LOADER] =
        {"bench loader", "time the loader, and decoding only",
         .details = "Loads batches without training, alternating with only decoding the same "
                    "images, whole and from memory, with as many threads. Labels are not needed."},
    [XT_COMMAND_BENCH_START] =
        {"bench start", "time the start, with an empty kernel cache and with a filled one",
         .arguments = "[WEIGHTS]", .takes_weights = XT_WEIGHTS_ALONE,
         .details =
             "Starts twice for each type in separate processes, to the end of the first training "
             "step: first with an empty kernel cache, then with the cache that this start filled."},
    [XT_COMMAND_BENCH_SCALE] =
        {"bench scale", "time distributed training with 1, 2 and 4 processes on this machine",
         .details = "Starts a short run with each number of ranks under mpirun, on synthetic "
                    "images, with the same --batch. Needs MPI (make deps MPI=1)."},
    [XT_COMMAND_WARMUP] = {"warmup", "compile an XPU's kernels ahead of time",
                           .arguments = "[WEIGHTS]", .takes_weights = XT_WEIGHTS_ALONE,
                           .details =
                               "Give the network, --batch, --image-size and --classes that the "
                               "runs will use: a kernel is for one shape. Nothing is trained."},
    [XT_COMMAND_DOCTOR] =
        {"doctor", "check each requirement of --xpu, with the command that fixes it",
         .arguments = "[FILE.json...]",
         .details =
             "From the render node over the drivers and oneDNN's GPU build to one computed and "
             "checked convolution. Exits with 4 if --xpu does not work. With --merge it compares "
             "what --json wrote on several machines, and exits with 1 if they differ."},
    [XT_COMMAND_SELFTEST] =
        {"selftest", "check every op on this device against a reference", .arguments = "[WEIGHTS]",
         .takes_weights = XT_WEIGHTS_ALONE,
         .details =
             "Each op in isolation, forward and backward, in each data type that the device "
             "trains in, and inference in int8 (--amp: in that one), at small shapes and at "
             "those of the networks (--model, --image-size; --batch, 2 unless given); on a CPU "
             "also whole passes as runs compute them, by slices of the samples, against the "
             "same op by op. Exits with 1 if a result is out of tolerance."},
    [XT_COMMAND_CACHE] = {"cache", "list, check, delete or transfer kernels compiled for XPUs",
                          .arguments = "info|list|verify|prune|clear|export FILE|import FILE",
                          .least_arguments = 1,
                          .details =
                              "verify exits with 1 if a kernel is not as it was recorded; such "
                              "kernels are never used. import trusts the author of the file."},
    [XT_COMMAND_DATA_CHECK] =
        {"data check", "check a set of images before training on it",
         .arguments = "DIR|LIST|synth:...", .least_arguments = 1,
         .details = "Counts, sizes, bad files, labels that cannot be used, symbols that are never "
                    "or rarely seen, duplicates, mean and deviation; and a contact sheet of random "
                    "images with their labels, before and after data augmentation."},
    [XT_COMMAND_DATA_SPLIT] = {"data split",
                               "split a set of images into two lists, for training and evaluation",
                               .arguments = "DIR|LIST", .least_arguments = 1},
    [XT_COMMAND_DATA_PACK] =
        {"data pack", "pack a set of images into shards, or into pixels that need no decoding",
         .arguments = "DIR|LIST|synth:... OUT", .least_arguments = 2,
         .details = "Shards are OUT-000000.tar and so on: KEY.jpg or KEY.png with the label in "
                    "KEY.txt (plates) or KEY.cls (classes), as in WebDataset; files keep their "
                    "bytes. Pixels (--as pixels) are one file OUT at the network's size, which "
                    "training takes with --image-cache disk --image-cache-file OUT."},
    [XT_COMMAND_DATA_GET] =
        {"data get", "fetch a public data set: CIFAR-10 or CIFAR-100",
         .arguments = "cifar10|cifar100 DIR", .least_arguments = 2,
         .details =
             "Fetches the archive that torchvision does, from its authors, by curl, into DIR; "
             "--data DIR takes it as it is. Size and SHA-256 are checked. A fetch that was cut off "
             "is continued by the same command. XTRAIN_DATA_URL names a mirror's folder."},
    [XT_COMMAND_HELP] = {"help", "show help on xtrain, or on one command", .arguments = "[COMMAND]",
                         .is_aside = true,
                         .details = "With --model it shows that network's defaults."},
    [XT_COMMAND_VERSION] = {"version", "show the versions of xtrain and of the libraries it uses",
                            .is_aside = true},
    [XT_COMMAND_MAN] = {"man",
                        "write the manual page, or that of a command (xtrain man eval | man -l -)",
                        .arguments = "[COMMAND]", .is_aside = true},
    [XT_COMMAND_SCHEMA] = {"schema", "write the JSON Schema of what a command prints with --json",
                           .arguments = "COMMAND|image|progress|evaluation", .least_arguments = 1,
                           .is_aside = true,
                           .details = "image, progress and evaluation are the lines of --jsonl."},
    [XT_COMMAND_COMPLETION] = {"completion", "write the completion script of a shell",
                               .arguments = "bash|zsh|fish", .least_arguments = 1, .is_aside = true,
                               .details =
                                   "For this bash session: source <(xtrain completion bash)"},
};

/* Names of the same command in other programs. */
static const struct {
    const char *word;
    const char *command;
} habits[] = {
    {"test", "eval"},         {"evaluate", "eval"},          {"evaluation", "eval"},
    {"val", "eval"},          {"validate", "eval"},          {"infer", "predict"},
    {"inference", "predict"}, {"detect", "predict"},         {"read", "predict"},
    {"server", "serve"},      {"daemon", "serve"},           {"http", "serve"},
    {"fit", "train"},         {"check", "data check"},       {"split", "data split"},
    {"plot", "report"},       {"bench train", "bench step"}, {"show", "report"},
    {"pack", "data pack"},    {"benchmark", "bench step"},   {"info", "devices"},
    {"download", "data get"}, {"resume", "train --resume"},  {"finetune", "train --init"},
};

static const struct {
    const char *name;
    const char *summary;
} groups[] = {
    {"data", "before training"},
    {"bench", "measure speed"},
};

const char *xt_command_group_summary(const char *name)
{
    size_t length = strcspn(name, " ");
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (strlen(groups[i].name) == length && strncmp(groups[i].name, name, length) == 0)
            return groups[i].summary;
    return "";
}

const struct xt_command *xt_command_get(enum xt_command_id id)
{
    return &commands[id];
}

/* How many arguments `name` matches: 1, 2, or 0 for no match. */
static int words_of(const char *name, const char *const *argv, int argc)
{
    const char *space = strchr(name, ' ');
    if (!space)
        return strcmp(name, argv[0]) == 0 ? 1 : 0;
    size_t first = (size_t)(space - name);
    bool same = argc > 1 && strlen(argv[0]) == first && strncmp(name, argv[0], first) == 0 &&
                strcmp(space + 1, argv[1]) == 0;
    return same ? 2 : 0;
}

enum xt_command_id xt_command_find(const char *const *argv, int argc, int *words)
{
    for (int id = 0; argc > 0 && id < XT_COMMAND_COUNT; id++) {
        int used = words_of(commands[id].name, argv, argc);
        if (used && words)
            *words = used;
        if (used)
            return (enum xt_command_id)id;
    }
    return XT_COMMAND_COUNT;
}

bool xt_command_is_group(const char *word)
{
    size_t length = strlen(word);
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        if (strncmp(commands[id].name, word, length) == 0 && commands[id].name[length] == ' ')
            return true;
    return false;
}

const char *xt_command_meant(const char *word)
{
    const char *names[XT_COMMAND_COUNT];
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (strcmp(habits[i].word, word) == 0)
            return habits[i].command;
    for (int id = 0; id < XT_COMMAND_COUNT; id++)
        names[id] = commands[id].name;
    return xt_str_nearest(word, names, XT_COMMAND_COUNT);
}

enum xt_status xt_command_refuse(const char *word, struct xt_err *err)
{
    const char *near = xt_command_meant(word);
    if (xt_command_is_group(word))
        return xt_err_set(err, XT_ERR_USAGE,
                          "xtrain %s needs a subcommand; `xtrain %s --help` lists them", word,
                          word);
    return xt_err_set(err, XT_ERR_USAGE, "there is no command %s; %s%s%s", xt_show(word).text,
                      near ? "did you mean " : "`xtrain help` lists them", near ? near : "",
                      near ? "?" : "");
}
