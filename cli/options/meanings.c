#include "cli/options/meanings.h"

#include <string.h>

#define NETWORK "the network, by name or as an ONNX file; weights that xtrain wrote name theirs"
#define FOR_NETWORK                                                                                \
    "the network that the images are for: it decides whether labels are plates or classes"
#define EVALUATED "the type of inference; int8 (quantization) needs --calibrate"
#define ARGUMENT "the images, instead of as the first argument"
#define THREADS "threads that compute; 0: as many as the process may use"
#define CLASSES "the network's classes; 0: as many as it has by itself"
#define RANGES                                                                                     \
    "int8 quantization: representative images, from which the ranges of the network's tensors "    \
    "are measured, unless the weights hold them (export); labels are not needed"
#define SIZE                                                                                       \
    "height and width of the network's input, for networks of any size; 0: the network's own"

#define SYMBOLS                                                                                    \
    "the symbols of the labels, UTF-8, the CTC blank last (see --blank); without it, those that "  \
    "the weights name, else the 68 of Chinese plates"
#define LABELS                                                                                     \
    "the symbols of the labels, UTF-8, the CTC blank last (see --blank); without it, the 68 of "   \
    "Chinese plates"
#define SMALLEST                                                                                   \
    "predictions of less confidence than P are rejected (-); stored: the rule in the weights, "    \
    "which training chose (see xtrain train); none: nothing is rejected. auto and keep are for "   \
    "train and eval"
#define LINES "as --json, but each image is an object on a line of its own, printed at once"
#define RESIZED                                                                                    \
    "how images are resized to the network's size: stretch resizes the whole image; crop takes "   \
    "its centre"
#define PAGE                                                                                       \
    "show pictures in the page; --no-images keeps private images out of it (names and labels "     \
    "stay)"

static const struct {
    enum xt_command_id command;
    const char *option;
    const char *meaning;
} meanings[] = {
    {XT_COMMAND_SWEEP, "out", "a new folder for the configs, the script and the runs"},

    {XT_COMMAND_TRY, "model",
     "the network, by name or as an ONNX file; without it lprnet for plates, resnet18 for classes"},
    {XT_COMMAND_TRY, "out", "a new folder for all that it writes; without it, runs/try-NAME"},
    {XT_COMMAND_TRY, "max-time", "the time for all of it; 10m unless given"},
    {XT_COMMAND_TRY, "val-part",
     "the fraction that the last training holds out; 0.15 unless given"},
    {XT_COMMAND_TRY, "reject",
     "the rule by which the last training chooses what is rejected; auto:0.99 unless given"},
    {XT_COMMAND_TRY, "amp", "the type to train in, instead of the fastest"},

    {XT_COMMAND_EVAL, "model", NETWORK},
    {XT_COMMAND_EVAL, "data",
     "the images to evaluate on, with labels: a folder (the label is the file name up to the "
     "first _ or ., or the name of the folder), a list of lines path<tab>label, tars, ccpd:DIR, "
     "mix.yaml or synth:plates?count=N&seed=S; without it, the run's own --val"},
    {XT_COMMAND_EVAL, "val", "images to evaluate on if --data is not on the command line"},
    {XT_COMMAND_EVAL, "init", "the weights, instead of as the argument"},
    {XT_COMMAND_EVAL, "batch",
     "images per pass; auto: as many as fit in the device's memory. Predictions do not depend on "
     "it"},
    {XT_COMMAND_EVAL, "amp",
     "the type of inference, or several for a table; int8 (quantization) needs images to measure "
     "ranges on (--calibrate)"},
    {XT_COMMAND_EVAL, "calibrate",
     RANGES ". Without it those of the run's --data, else the evaluated ones"},
    {XT_COMMAND_EVAL, "threads", THREADS},
    {XT_COMMAND_EVAL, "alphabet", SYMBOLS},
    {XT_COMMAND_EVAL, "fit", RESIZED},
    {XT_COMMAND_EVAL, "images",
     "show pictures in the page of --errors; --no-images keeps private images out of it (names and "
     "labels stay)"},
    {XT_COMMAND_EVAL, "reject",
     "predictions of less confidence than P are rejected (-). auto:0.995: P is chosen on these "
     "images, so that 99.5 % of the others are right; keep:0.98: so that 98 % of the images are "
     "not rejected; stored: the rule in the weights; none: nothing is rejected"},
    {XT_COMMAND_EVAL, "strict-data",
     "fail on the first bad image; without it bad images are listed and skipped, and more than 1 % "
     "of them is a failure"},

    {XT_COMMAND_PREDICT, "model", NETWORK},
    {XT_COMMAND_PREDICT, "data",
     "images besides the arguments: a folder, a list of paths, tars, ccpd:DIR, mix.yaml or "
     "synth:plates?count=N&seed=S; labels are not needed"},
    {XT_COMMAND_PREDICT, "batch",
     "images per pass; auto: as many as fit in the device's memory. Predictions do not depend on "
     "it"},
    {XT_COMMAND_PREDICT, "amp", EVALUATED},
    {XT_COMMAND_PREDICT, "calibrate", RANGES},
    {XT_COMMAND_PREDICT, "threads", THREADS},
    {XT_COMMAND_PREDICT, "alphabet", SYMBOLS},
    {XT_COMMAND_PREDICT, "reject", SMALLEST},
    {XT_COMMAND_PREDICT, "jsonl", LINES},

    {XT_COMMAND_SERVE, "model", NETWORK},
    {XT_COMMAND_SERVE, "batch", "the most images in one pass; 16 unless given"},
    {XT_COMMAND_SERVE, "amp", EVALUATED},
    {XT_COMMAND_SERVE, "calibrate", RANGES},
    {XT_COMMAND_SERVE, "threads", THREADS},
    {XT_COMMAND_SERVE, "workers", "threads that decode images; 0: as many as the machine suggests"},
    {XT_COMMAND_SERVE, "alphabet", SYMBOLS},
    {XT_COMMAND_SERVE, "reject", SMALLEST},
    {XT_COMMAND_SERVE, "jsonl", LINES},
    {XT_COMMAND_SERVE, "top", "the number of likeliest classes in a response"},

    {XT_COMMAND_EXPORT, "model", NETWORK},
    {XT_COMMAND_EXPORT, "out", "the file to write, instead of as the second argument"},
    {XT_COMMAND_EXPORT, "calibrate", RANGES},
    {XT_COMMAND_EXPORT, "threads", THREADS},
    {XT_COMMAND_EXPORT, "alphabet", SYMBOLS},

    {XT_COMMAND_DIFF, "model", NETWORK},
    {XT_COMMAND_DIFF, "data",
     "compare the predictions on these images, with labels, instead of the tensors"},
    {XT_COMMAND_DIFF, "threads", THREADS},
    {XT_COMMAND_DIFF, "images", PAGE},

    {XT_COMMAND_BENCH_STEP, "batch",
     "images per step, or several for a table; auto: as many as fit in the device's memory"},
    {XT_COMMAND_BENCH_STEP, "steps", "the number of timed steps; 12 unless given"},
    {XT_COMMAND_BENCH_STEP, "amp", "the type of the steps, or several for a table"},
    {XT_COMMAND_BENCH_STEP, "classes", CLASSES},
    {XT_COMMAND_BENCH_STEP, "threads", THREADS},
    {XT_COMMAND_BENCH_STEP, "image-size", SIZE},
    {XT_COMMAND_BENCH_STEP, "alphabet", LABELS},
    {XT_COMMAND_BENCH_STEP, "model", NETWORK},
    {XT_COMMAND_BENCH_START, "amp", "the type of the start, or several"},
    {XT_COMMAND_BENCH_START, "classes", CLASSES},
    {XT_COMMAND_BENCH_START, "threads", THREADS},
    {XT_COMMAND_BENCH_START, "image-size", SIZE},
    {XT_COMMAND_BENCH_START, "batch", "images per step"},
    {XT_COMMAND_BENCH_START, "alphabet", LABELS},
    {XT_COMMAND_BENCH_INFER, "init", "the weights, instead of as the argument"},
    {XT_COMMAND_BENCH_INFER, "batch", "images per pass, or several for a table"},
    {XT_COMMAND_BENCH_INFER, "steps", "the number of timed passes; 12 unless given"},
    {XT_COMMAND_BENCH_INFER, "amp", "time these types only; all unless given"},
    {XT_COMMAND_BENCH_INFER, "classes", CLASSES},
    {XT_COMMAND_BENCH_INFER, "threads", THREADS},
    {XT_COMMAND_BENCH_INFER, "image-size", SIZE},
    {XT_COMMAND_BENCH_INFER, "seed", "the seed of the random images"},
    {XT_COMMAND_BENCH_INFER, "profile", "the time of each op"},
    {XT_COMMAND_BENCH_INFER, "alphabet", SYMBOLS},
    {XT_COMMAND_BENCH_INFER, "model", NETWORK},
    {XT_COMMAND_BENCH_LOADER, "data",
     "the images to load: a folder, a list of paths, tars, ccpd:DIR, mix.yaml or "
     "synth:plates?count=N&seed=S"},
    {XT_COMMAND_BENCH_LOADER, "image-size", SIZE},
    {XT_COMMAND_BENCH_LOADER, "seed", "the seed of order and augmentation"},
    {XT_COMMAND_BENCH_LOADER, "batch", "images per batch"},
    {XT_COMMAND_BENCH_LOADER, "device", "the device that the images are for"},
    {XT_COMMAND_BENCH_LOADER, "xpu", "time the transfer to an Intel GPU too"},
    {XT_COMMAND_BENCH_LOADER, "alphabet", LABELS},
    {XT_COMMAND_BENCH_LOADER, "mixup",
     "mix each image with another of its batch, by weights drawn from Beta(ALPHA, ALPHA); 0: off"},
    {XT_COMMAND_BENCH_LOADER, "image-cache",
     "what is cached for later passes: files, the bytes of small image files (up to 32 KiB), in "
     "memory; ram, decoded images at the network's size; disk, the same in the file "
     "--image-cache-file"},
    {XT_COMMAND_BENCH_LOADER, "image-cache-file",
     "the file of --image-cache disk, such as data pack --as pixels writes"},
    {XT_COMMAND_BENCH_LOADER, "fit",
     "how images are resized to the network's size: stretch resizes the whole image; crop takes a "
     "random part, as in training"},
    {XT_COMMAND_BENCH_SCALE, "steps", "the length of each run in steps; 24 unless given"},
    {XT_COMMAND_BENCH_SCALE, "amp", "the type of the steps"},
    {XT_COMMAND_BENCH_SCALE, "threads", "threads of each process; 0: as many as it may use"},
    {XT_COMMAND_BENCH_SCALE, "batch", "images per step, of all processes together"},

    {XT_COMMAND_WARMUP, "batch", "images per step of the runs to come"},
    {XT_COMMAND_WARMUP, "data", "the images of the runs to come, for their number of classes"},
    {XT_COMMAND_WARMUP, "init", "the weights of the runs to come, for their network"},
    {XT_COMMAND_WARMUP, "threads", THREADS},

    {XT_COMMAND_DATA_CHECK, "model", FOR_NETWORK},
    {XT_COMMAND_DATA_CHECK, "data", ARGUMENT},
    {XT_COMMAND_DATA_CHECK, "val", "a second set, which should have no image in common with it"},
    {XT_COMMAND_DATA_CHECK, "seed", "the seed by which the images of --sheet are chosen"},
    {XT_COMMAND_DATA_CHECK, "strict-data", "exit with 3 at the first bad image"},
    {XT_COMMAND_DATA_CHECK, "alphabet", LABELS},
    {XT_COMMAND_DATA_SPLIT, "model", FOR_NETWORK},
    {XT_COMMAND_DATA_SPLIT, "data", ARGUMENT},
    {XT_COMMAND_DATA_SPLIT, "out", "the folder for train.txt and val.txt"},
    {XT_COMMAND_DATA_SPLIT, "val-part",
     "the fraction of the images that is for evaluation, 0.1 unless given; all pictures of one "
     "plate are in the same part"},
    {XT_COMMAND_DATA_SPLIT, "seed", "the seed by which they are chosen"},
    {XT_COMMAND_DATA_SPLIT, "alphabet", LABELS},
    {XT_COMMAND_DATA_PACK, "model", FOR_NETWORK ", and for --as pixels the size"},
    {XT_COMMAND_DATA_PACK, "data", ARGUMENT},
    {XT_COMMAND_DATA_PACK, "out", "where to, instead of as the second argument"},
    {XT_COMMAND_DATA_PACK, "image-size", SIZE ". For --as pixels"},
    {XT_COMMAND_DATA_PACK, "workers",
     "threads that read images; 0: half as many as the process may use, at most 8"},
    {XT_COMMAND_DATA_PACK, "strict-data", "fail on the first bad image instead of skipping it"},
    {XT_COMMAND_DATA_PACK, "alphabet", LABELS},

    {XT_COMMAND_SELFTEST, "model", "check this network's ops, instead of those of all"},
    {XT_COMMAND_SELFTEST, "amp", "check this type only; all unless given"},
    {XT_COMMAND_SELFTEST, "batch", "images per pass; 2 unless given"},
    {XT_COMMAND_SELFTEST, "classes", CLASSES},
    {XT_COMMAND_SELFTEST, "bn", "of --step"},
    {XT_COMMAND_SELFTEST, "freeze-until", "of --step"},
    {XT_COMMAND_SELFTEST, "threads", THREADS},
    {XT_COMMAND_SELFTEST, "image-size", SIZE},
    {XT_COMMAND_SELFTEST, "alphabet", LABELS},

    {XT_COMMAND_CACHE, "sign", "cache export: sign the file with this key, into FILE.sig"},
    {XT_COMMAND_CACHE, "key", "cache import: the file must be signed by the owner of this key"},
    {XT_COMMAND_REPORT, "images", PAGE},
    {XT_COMMAND_HELP, "model", "show the defaults for this network"},
};

const char *xt_option_meaning(const struct xt_option *option, enum xt_command_id command)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].command == command && strcmp(meanings[i].option, option->name) == 0)
            return meanings[i].meaning;
    return option->help;
}

bool xt_option_means_otherwise(const struct xt_option *option, enum xt_command_id command)
{
    return xt_option_meaning(option, command) != option->help;
}

const char *xt_option_meaning_at(size_t index, enum xt_command_id *command)
{
    if (index >= sizeof meanings / sizeof *meanings)
        return NULL;
    *command = meanings[index].command;
    return meanings[index].option;
}
