#include "cli/options/examples.h"

static const struct xt_help_page pages[XT_COMMAND_COUNT] = {
    [XT_COMMAND_TRAIN] =
        {{"xtrain --model lprnet                                  # on synthetic plates",
          "xtrain --model lprnet --data plates/train --val plates/val",
          "xtrain --model lprnet --init lprnet.pth --data plates/train --val plates/val",
          "xtrain --resume runs/a                                 # continue a run"},
         "model data val init out resume epochs batch lr amp"},
    [XT_COMMAND_TRY] = {{"xtrain try plates/", "xtrain try plates/ --init lprnet.pth --max-time 5m",
                         "xtrain try animals/ --model resnet18 --image-size 64"},
                        "max-time init out model negatives reject alphabet batch xpu json"},
    [XT_COMMAND_SWEEP] = {{"xtrain sweep --model lprnet --data plates/train --out runs/sweep "
                           "lr=1e-4,1e-3 seed=1..3"},
                          "model data val init out epochs batch config"},
    [XT_COMMAND_EVAL] =
        {{"xtrain eval runs/a                                     # on the run's own --val",
          "xtrain eval best.safetensors --data plates/val --errors errors.html",
          "xtrain eval runs/a --amp f32,bf16,int8                 # types compared"},
         "data model errors show amp calibrate batch alphabet xpu json"},
    [XT_COMMAND_PREDICT] = {{"xtrain predict runs/a photos/ car.jpg",
                             "xtrain predict runs/a photos/ --reject 0.9 --json",
                             "find photos -name '*.jpg' | xtrain predict runs/a -"},
                            "data model reject top amp calibrate batch alphabet xpu json"},
    [XT_COMMAND_SERVE] =
        {{"xtrain serve runs/a                                    # POST images to /predict",
          "xtrain serve runs/a --listen unix:xtrain.sock --batch 32 --max-latency 5ms",
          "xtrain serve runs/a --stdin paths"},
         "listen stdin frame batch max-latency reject amp calibrate allow-remote xpu"},
    [XT_COMMAND_REPORT] = {{"xtrain report runs/a", "xtrain report runs/a runs/b --out both.html"},
                           ""},
    [XT_COMMAND_COMPARE] = {{"xtrain compare runs/a runs/b"}, ""},
    [XT_COMMAND_VERIFY] = {{"xtrain verify runs/a"}, "replay key kernel-cache-dir json"},
    [XT_COMMAND_EXPORT] =
        {{"xtrain export runs/a plates.onnx --amp fp16",
          "xtrain export runs/a plates-int8.safetensors       # then --amp int8 needs no images",
          "xtrain export lprnet.pth plates.onnx --with-preprocess --check plates/val"},
         "model type calibrate with-preprocess fixed-batch check alphabet json"},
    [XT_COMMAND_DIFF] =
        {{"xtrain diff old.safetensors runs/a",
          "xtrain diff runs/a runs/b --data plates/val --differences differences.html"},
         "model data differences images threads json"},
    [XT_COMMAND_BENCH_STEP] = {{"xtrain bench step --model lprnet --batch 128 --amp f32,bf16",
                                "xtrain bench step --model lprnet --batch 128 --profile"},
                               "model batch amp steps profile why against beside threads xpu"},
    [XT_COMMAND_BENCH_INFER] =
        {{"xtrain bench infer --model lprnet --batch 1,32", "xtrain bench infer runs/a"},
         "model amp batch steps profile image-size classes threads xpu json"},
    [XT_COMMAND_BENCH_LOADER] =
        {{"xtrain bench loader --model lprnet --data plates/train --workers 2"},
         "model data workers batch image-cache fit augment image-size xpu json"},
    [XT_COMMAND_BENCH_START] =
        {{"xtrain bench start --model lprnet --batch 64 --amp f32,bf16 --xpu"},
         "model batch amp image-size classes threads xpu json"},
    [XT_COMMAND_BENCH_SCALE] = {{"xtrain bench scale --model resnet50 --batch 16 --threads 1"},
                                "model batch amp steps threads json"},
    [XT_COMMAND_WARMUP] =
        {{"xtrain warmup --model lprnet --batch 64 --for train,eval --amp f32,bf16",
          "xtrain warmup --for-gpu a770 --model lprnet --batch 64"},
         "model for types batch image-size classes for-gpu init xpu json"},
    [XT_COMMAND_DATA_CHECK] = {{"xtrain data check --model lprnet plates/train --val plates/val",
                                "xtrain data check --model resnet50 pictures/ --sheet sheet.png"},
                               "model val sheet alphabet strict-data seed json"},
    [XT_COMMAND_DATA_SPLIT] =
        {{"xtrain data split --model lprnet plates --out lists --val-part 0.1"},
         "model out val-part seed alphabet json"},
    [XT_COMMAND_DATA_PACK] =
        {{"xtrain data pack plates/train packed/train --shard-size 256",
          "xtrain data pack plates/train train.pixels --as pixels --model lprnet"},
         "model as shard-size image-size workers json"},
    [XT_COMMAND_DATA_GET] = {{"xtrain data get cifar10 data"}, "json quiet"},
    [XT_COMMAND_DOCTOR] = {{"xtrain doctor", "xtrain doctor --merge a.json b.json"}, ""},
    [XT_COMMAND_SELFTEST] = {{"xtrain selftest --small", "xtrain selftest --xpu --model lprnet"},
                             "small model amp batch image-size step threads xpu json"},
    [XT_COMMAND_CACHE] = {{"xtrain cache info", "xtrain cache prune --max-size 500 --max-age 720h"},
                          "kernel-cache-dir max-size max-age sign key json"},
};

const struct xt_help_page *xt_help_page(enum xt_command_id command)
{
    return &pages[command];
}
