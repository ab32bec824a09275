#include "cli/options/meanings.h"

#include <string.h>

/* Wordings that some commands say more to. */
#define FOR_NETWORK                                                                                \
    "the network that the images are for: it decides whether labels are plates or classes"
#define RANGES                                                                                     \
    "int8 quantization: representative images, from which the ranges of the network's tensors "    \
    "are measured, unless the weights hold them (export); labels are not needed"
#define SIZE                                                                                       \
    "height and width of the network's input, for networks of any size; 0: the network's own"

#define OF(command) (1U << XT_COMMAND_##command)

static const struct {
    unsigned commands;
    const char *option;
    const char *meaning;
} meanings[] = {
    /* of several commands */
    {OF(EVAL) | OF(PREDICT) | OF(SERVE) | OF(EXPORT) | OF(DIFF) | OF(BENCH_STEP) | OF(BENCH_INFER),
     "model", "the network, by name or as an ONNX file; weights that xtrain wrote name theirs"},
    {OF(EVAL) | OF(BENCH_INFER), "init", "the weights, instead of as the argument"},
    {OF(EVAL) | OF(PREDICT), "batch",
     "images per pass; auto: as many as fit in the device's memory. Predictions do not depend on "
     "it"},
    {OF(EVAL) | OF(PREDICT) | OF(SERVE) | OF(EXPORT) | OF(DIFF) | OF(BENCH_STEP) | OF(BENCH_START) |
         OF(BENCH_INFER) | OF(WARMUP) | OF(SELFTEST),
     "threads", "threads that compute; 0: as many as the process may use"},
    {OF(EVAL) | OF(PREDICT) | OF(SERVE) | OF(EXPORT) | OF(BENCH_INFER), "alphabet",
     "the symbols of the labels, UTF-8, the CTC blank last (see --blank); without it, those that "
     "the weights name, else the 68 of Chinese plates"},
    {OF(PREDICT) | OF(SERVE), "amp",
     "the type of inference; int8 (quantization) needs --calibrate"},
    {OF(PREDICT) | OF(SERVE) | OF(EXPORT), "calibrate", RANGES},
    {OF(PREDICT) | OF(SERVE), "reject",
     "predictions of less confidence than P are rejected (-); stored: the rule in the weights, "
     "which training chose (see xtrain train); none: nothing is rejected. auto and keep are for "
     "train and eval"},
    {OF(PREDICT) | OF(SERVE), "jsonl",
     "as --json, but each image is an object on a line of its own, printed at once"},
    {OF(DIFF) | OF(REPORT), "images",
     "show pictures in the page; --no-images keeps private images out of it (names and labels "
     "stay)"},
    {OF(BENCH_STEP) | OF(BENCH_START) | OF(BENCH_INFER) | OF(SELFTEST), "classes",
     "the network's classes; 0: as many as it has by itself"},
    {OF(BENCH_STEP) | OF(BENCH_START) | OF(BENCH_INFER) | OF(BENCH_LOADER) | OF(SELFTEST),
     "image-size", SIZE},
    {OF(BENCH_STEP) | OF(BENCH_START) | OF(BENCH_LOADER) | OF(DATA_CHECK) | OF(DATA_SPLIT) |
         OF(DATA_PACK) | OF(SELFTEST),
     "alphabet",
     "the symbols of the labels, UTF-8, the CTC blank last (see --blank); without it, the 68 of "
     "Chinese plates"},
    {OF(DATA_CHECK) | OF(DATA_SPLIT), "model", FOR_NETWORK},
    {OF(DATA_CHECK) | OF(DATA_SPLIT) | OF(DATA_PACK), "data",
     "the images, instead of as the first argument"},

    {OF(SWEEP), "out", "a new folder for the configs, the script and the runs"},

    {OF(TRY), "model",
     "the network, by name or as an ONNX file; without it lprnet for plates, resnet18 for classes"},
    {OF(TRY), "out", "a new folder for all that it writes; without it, runs/try-NAME"},
    {OF(TRY), "max-time", "the time for all of it; 10m unless given"},
    {OF(TRY), "val-part", "the fraction that the last training holds out; 0.15 unless given"},
    {OF(TRY), "reject",
     "the rule by which the last training chooses what is rejected; auto:0.99 unless given"},
    {OF(TRY), "amp", "the type to train in, instead of the fastest"},

    {OF(EVAL), "data",
     "the images to evaluate on, with labels: a folder (the label is the file name up to the "
     "first _ or ., or the name of the folder), a list of lines path<tab>label, tars, ccpd:DIR, "
     "mix.yaml or synth:plates?count=N&seed=S; without it, the run's own --val"},
    {OF(EVAL), "val", "images to evaluate on if --data is not on the command line"},
    {OF(EVAL), "amp",
     "the type of inference, or several for a table; int8 (quantization) needs images to measure "
     "ranges on (--calibrate)"},
    {OF(EVAL), "calibrate",
     RANGES ". Without it those of the run's --data, else the evaluated ones"},
    {OF(EVAL), "fit",
     "how images are resized to the network's size: stretch resizes the whole image; crop takes "
     "its centre"},
    {OF(EVAL), "images",
     "show pictures in the page of --errors; --no-images keeps private images out of it (names and "
     "labels stay)"},
    {OF(EVAL), "reject",
     "predictions of less confidence than P are rejected (-). auto:0.995: P is chosen on these "
     "images, so that 99.5 % of the others are right; keep:0.98: so that 98 % of the images are "
     "not rejected; stored: the rule in the weights; none: nothing is rejected"},
    {OF(EVAL), "strict-data",
     "fail on the first bad image; without it bad images are listed and skipped, and more than 1 % "
     "of them is a failure"},

    {OF(PREDICT), "data",
     "images besides the arguments: a folder, a list of paths, tars, ccpd:DIR, mix.yaml or "
     "synth:plates?count=N&seed=S; labels are not needed"},

    {OF(SERVE), "batch", "the most images in one pass; 16 unless given"},
    {OF(SERVE), "workers", "threads that decode images; 0: as many as the machine suggests"},
    {OF(SERVE), "top", "the number of likeliest classes in a response"},

    {OF(EXPORT), "out", "the file to write, instead of as the second argument"},

    {OF(DIFF), "data",
     "compare the predictions on these images, with labels, instead of the tensors"},

    {OF(BENCH_STEP), "batch",
     "images per step, or several for a table; auto: as many as fit in the device's memory"},
    {OF(BENCH_STEP), "steps", "the number of timed steps; 12 unless given"},
    {OF(BENCH_STEP), "amp", "the type of the steps, or several for a table"},
    {OF(BENCH_START), "amp", "the type of the start, or several"},
    {OF(BENCH_START), "batch", "images per step"},
    {OF(BENCH_INFER), "batch", "images per pass, or several for a table"},
    {OF(BENCH_INFER), "steps", "the number of timed passes; 12 unless given"},
    {OF(BENCH_INFER), "amp", "time these types only; all unless given"},
    {OF(BENCH_INFER), "seed", "the seed of the random images"},
    {OF(BENCH_INFER), "profile", "the time of each op"},
    {OF(BENCH_LOADER), "data",
     "the images to load: a folder, a list of paths, tars, ccpd:DIR, mix.yaml or "
     "synth:plates?count=N&seed=S"},
    {OF(BENCH_LOADER), "seed", "the seed of order and augmentation"},
    {OF(BENCH_LOADER), "batch", "images per batch"},
    {OF(BENCH_LOADER), "device", "the device that the images are for"},
    {OF(BENCH_LOADER), "xpu", "time the transfer to an Intel GPU too"},
    {OF(BENCH_LOADER), "mixup",
     "mix each image with another of its batch, by weights drawn from Beta(ALPHA, ALPHA); 0: off"},
    {OF(BENCH_LOADER), "image-cache",
     "what is cached for later passes: files, the bytes of small image files (up to 32 KiB), in "
     "memory; ram, decoded images at the network's size; disk, the same in the file "
     "--image-cache-file"},
    {OF(BENCH_LOADER), "image-cache-file",
     "the file of --image-cache disk, such as data pack --as pixels writes"},
    {OF(BENCH_LOADER), "fit",
     "how images are resized to the network's size: stretch resizes the whole image; crop takes a "
     "random part, as in training"},
    {OF(BENCH_SCALE), "steps", "the length of each run in steps; 24 unless given"},
    {OF(BENCH_SCALE), "amp", "the type of the steps"},
    {OF(BENCH_SCALE), "threads", "threads of each process; 0: as many as it may use"},
    {OF(BENCH_SCALE), "batch", "images per step, of all processes together"},

    {OF(WARMUP), "batch", "images per step of the runs to come"},
    {OF(WARMUP), "data", "the images of the runs to come, for their number of classes"},
    {OF(WARMUP), "init", "the weights of the runs to come, for their network"},

    {OF(DATA_CHECK), "val", "a second set, which should have no image in common with it"},
    {OF(DATA_CHECK), "seed", "the seed by which the images of --sheet are chosen"},
    {OF(DATA_CHECK), "strict-data", "exit with 3 at the first bad image"},
    {OF(DATA_SPLIT), "out", "the folder for train.txt and val.txt"},
    {OF(DATA_SPLIT), "val-part",
     "the fraction of the images that is for evaluation, 0.1 unless given; all pictures of one "
     "plate are in the same part"},
    {OF(DATA_SPLIT), "seed", "the seed by which they are chosen"},
    {OF(DATA_PACK), "model", FOR_NETWORK ", and for --as pixels the size"},
    {OF(DATA_PACK), "out", "where to, instead of as the second argument"},
    {OF(DATA_PACK), "image-size", SIZE ". For --as pixels"},
    {OF(DATA_PACK), "workers",
     "threads that read images; 0: half as many as the process may use, at most 8"},
    {OF(DATA_PACK), "strict-data", "fail on the first bad image instead of skipping it"},

    {OF(SELFTEST), "model", "check this network's ops, instead of those of all"},
    {OF(SELFTEST), "amp", "check this type only; all unless given"},
    {OF(SELFTEST), "batch", "images per pass; 2 unless given"},
    {OF(SELFTEST), "bn", "of --step"},
    {OF(SELFTEST), "freeze-until", "of --step"},

    {OF(CACHE), "sign", "cache export: sign the file with this key, into FILE.sig"},
    {OF(CACHE), "key", "cache import: the file must be signed by the owner of this key"},

    {OF(HELP), "model", "show the defaults for this network"},
};

const char *xt_option_meaning(const struct xt_option *option, enum xt_command_id command)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].commands >> command & 1 && strcmp(meanings[i].option, option->name) == 0)
            return meanings[i].meaning;
    return option->help;
}

const char *xt_option_meaning_at(size_t index, unsigned *commands)
{
    if (index >= sizeof meanings / sizeof *meanings)
        return NULL;
    *commands = meanings[index].commands;
    return meanings[index].option;
}
