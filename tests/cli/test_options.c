#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/options/options.h"
#include "model_names.h"
#include "runs/run_options.h"

static struct xt_recipes recipes_of(const char *model)
{
    static const struct xt_recipe_item lprnet[] = {{"batch", "32"},   {"lr", "0.002"},
                                                   {"steps", "1400"}, {"augment", "true"},
                                                   {"clip", "5"},     {NULL, NULL}};
    static const struct xt_recipe_item resnet50[] = {{"optim", "sgd"},
                                                     {"nesterov", "true"},
                                                     {"sched", "multistep"},
                                                     {"milestones", "30,60"},
                                                     {NULL, NULL}};
    static const struct xt_recipe_item given[] = {
        {"epochs", "40"}, {"lr", "1e-4"}, {"augment", "false"}, {NULL, NULL}};
    return strcmp(model, "lprnet") == 0 ? (struct xt_recipes){lprnet, given}
                                        : (struct xt_recipes){resnet50, NULL};
}

static const struct xt_option_models models = {.names = model_names, .recipes_of = recipes_of};

enum { WORDS_MAX = 32 };

/* A command line as typed, split at blanks; '' is an empty argument. */
struct line {
    char text[512];
    const char *words[WORDS_MAX];
    int count;
};

static void split(struct line *line, const char *text)
{
    snprintf(line->text, sizeof line->text, "%s", text);
    line->count = 0;
    char *rest = line->text;
    for (char *word; (word = strsep(&rest, " "));)
        if (*word && line->count < WORDS_MAX)
            line->words[line->count++] = strcmp(word, "''") == 0 ? "" : word;
}

/* `line` must outlive the options. */
static enum xt_status parse(struct xt_options *options, struct line *line, const char *text,
                            struct xt_err *err)
{
    split(line, text);
    int words = 0;
    enum xt_command_id command = xt_command_find(line->words, line->count, &words);
    if (command == XT_COMMAND_COUNT)
        command = XT_COMMAND_TRAIN;
    return xt_options_parse(options, line->count - words, line->words + words, command, &models,
                            err);
}

static void parse_well(struct xt_options *options, struct line *line, const char *text)
{
    struct xt_err err = {0};
    if (parse(options, line, text, &err) != XT_OK)
        fail_msg("%s: %s", text, err.text);
}

static const struct {
    const char *line;
    const char *message;
} wrong_lines[] = {
    {"--model lprnet --xpu False",
     "--xpu takes no value, but \"False\" was given; to switch it off write --no-xpu or nothing"},
    {"--model lprnet --xpu=False",
     "--xpu takes no value, but \"False\" was given; to switch it off write --no-xpu or nothing"},
    {"--model lprnet --xpu true",
     "--xpu takes no value, but \"true\" was given; write --xpu alone"},
    {"--model lprnet --xpu 1", "--xpu takes no value, but \"1\" was given; write --xpu alone"},
    {"--model lprnet --xpu=", "--xpu takes no value, but \"\" was given; write --xpu alone"},
    {"--model lprnet --no-xpu false",
     "--no-xpu takes no value, but \"false\" was given; write --no-xpu alone"},
    {"--model lprnet --no-xpu=true",
     "--no-xpu takes no value, but \"true\" was given; write --no-xpu alone"},
    {"--model lprnet --pin-memory no", "--pin-memory takes no value, but \"no\" was given; to "
                                       "switch it off write --no-pin-memory or nothing"},
    {"--model lprnet --pin-memory=yes",
     "--pin-memory takes no value, but \"yes\" was given; write --pin-memory alone"},
    {"--model lprnet --augment off",
     "--augment takes no value, but \"off\" was given; to switch it "
     "off write --no-augment or nothing"},
    {"--model lprnet --json 0", "--json takes no value, but \"0\" was given; write --json alone"},
    {"--model lprnet --batch 12x",
     "--batch takes auto or a whole number from 1 to 65536, not \"12x\""},
    {"--model lprnet --batch 1e3",
     "--batch takes auto or a whole number from 1 to 65536, not \"1e3\""},
    {"--model lprnet --batch 0x10",
     "--batch takes auto or a whole number from 1 to 65536, not \"0x10\""},
    {"--model lprnet --batch 0", "--batch takes auto or a whole number from 1 to 65536, not \"0\""},
    {"--model lprnet --batch 65537",
     "--batch takes auto or a whole number from 1 to 65536, not \"65537\""},
    {"--model lprnet --batch 99999999999999999999",
     "--batch takes auto or a whole number from 1 to 65536, not \"99999999999999999999\""},
    {"--model lprnet --batch -4",
     "--batch takes auto or a whole number from 1 to 65536, not \"-4\""},
    {"--model lprnet --batch +4",
     "--batch takes auto or a whole number from 1 to 65536, not \"+4\""},
    {"--model lprnet --batch 007",
     "--batch takes auto or a whole number from 1 to 65536, not \"007\""},
    {"--model lprnet --batch 3.5",
     "--batch takes auto or a whole number from 1 to 65536, not \"3.5\""},
    {"--model lprnet --batch ''", "--batch takes auto or a whole number from 1 to 65536, not \"\""},
    {"--model lprnet --batch=", "--batch takes auto or a whole number from 1 to 65536, not \"\""},
    {"--model lprnet --batch 1,000",
     "--batch takes auto or a whole number from 1 to 65536, not \"1,000\""},
    {"--model lprnet --batch ٣", "--batch takes auto or a whole number from 1 to 65536, not \"٣\""},
    {"--model lprnet --epochs -1", "--epochs takes a whole number from 1 to 1000000, not \"-1\""},
    {"--model lprnet --epochs 0", "--epochs takes a whole number from 1 to 1000000, not \"0\""},
    {"--model lprnet --epochs all", "--epochs takes a whole number from 1 to 1000000, not \"all\""},
    {"--model lprnet --steps 1e18",
     "--steps takes a whole number from 1 to 1000000000000000, not \"1e18\""},
    {"--model lprnet --steps 9223372036854775808",
     "--steps takes a whole number from 1 to 1000000000000000, not \"9223372036854775808\""},
    {"--model lprnet --lr nan", "--lr takes a number greater than 0 and at most 1000, not \"nan\""},
    {"--model lprnet --lr inf", "--lr takes a number greater than 0 and at most 1000, not \"inf\""},
    {"--model lprnet --lr -inf",
     "--lr takes a number greater than 0 and at most 1000, not \"-inf\""},
    {"--model lprnet --lr 0", "--lr takes a number greater than 0 and at most 1000, not \"0\""},
    {"--model lprnet --lr 1e-400",
     "--lr takes a number greater than 0 and at most 1000, not \"1e-400\""},
    {"--model lprnet --lr 1e400",
     "--lr takes a number greater than 0 and at most 1000, not \"1e400\""},
    {"--model lprnet --lr 0x1p-3",
     "--lr takes a number greater than 0 and at most 1000, not \"0x1p-3\""},
    {"--model lprnet --lr 1,5", "--lr takes a number greater than 0 and at most 1000, not \"1,5\""},
    {"--model lprnet --lr 1e", "--lr takes a number greater than 0 and at most 1000, not \"1e\""},
    {"--model lprnet --lr .", "--lr takes a number greater than 0 and at most 1000, not \".\""},
    {"--model lprnet --lr -0.1",
     "--lr takes a number greater than 0 and at most 1000, not \"-0.1\""},
    {"--model lprnet --lr=1e-3x",
     "--lr takes a number greater than 0 and at most 1000, not \"1e-3x\""},
    {"--model lprnet --momentum 1", "--momentum takes a number from 0 to less than 1, not \"1\""},
    {"--model lprnet --dropout 1", "--dropout takes a number from 0 to less than 1, not \"1\""},
    {"--model lprnet --dropout -0.5",
     "--dropout takes a number from 0 to less than 1, not \"-0.5\""},
    {"--model lprnet --dropout 50%", "--dropout takes a number from 0 to less than 1, not \"50%\""},
    {"--model lprnet --warmup 1.0", "--warmup takes a number from 0 to less than 1, not \"1.0\""},
    {"--model lprnet --gamma 0", "--gamma takes a number greater than 0 and at most 1, not \"0\""},
    {"--model lprnet --clip -1", "--clip takes a number from 0 to 1000000000, not \"-1\""},
    {"--model lprnet --weight-decay 11", "--weight-decay takes a number from 0 to 10, not \"11\""},
    {"--model lprnet --seed -1",
     "--seed takes a whole number from 0 to 18446744073709551615, not \"-1\""},
    {"--model lprnet --seed 18446744073709551616",
     "--seed takes a whole number from 0 to 18446744073709551615, not \"18446744073709551616\""},
    {"--model lprnet --seed random",
     "--seed takes a whole number from 0 to 18446744073709551615, not \"random\""},
    {"--model lprnet --max-time 10x",
     "--max-time takes a time such as 90s, 10m or 2h (a bare number: seconds), not \"10x\""},
    {"--model lprnet --max-time 1h30m",
     "--max-time takes a time such as 90s, 10m or 2h (a bare number: seconds), not \"1h30m\""},
    {"--model lprnet --max-time -5",
     "--max-time must be at least 0 and at most 1000000000 seconds, not \"-5\""},
    {"--model lprnet --max-time h",
     "--max-time takes a time such as 90s, 10m or 2h (a bare number: seconds), not \"h\""},
    {"--model lprnet --max-time 1e300h",
     "--max-time must be at least 0 and at most 1000000000 seconds, not \"1e300h\""},
    {"--model lprnet --stop-after 2hours",
     "--stop-after takes a time such as 90s, 10m or 2h (a bare number: seconds), not \"2hours\""},
    {"--model lprnet --milestones 10,20", "--milestones is only for --sched step or multistep"},
    {"--model lprnet --sched step --milestones 20,10",
     "--milestones takes ascending whole numbers separated by commas, such as 10,20, not "
     "\"20,10\""},
    {"--model lprnet --sched step --milestones 10,,20",
     "--milestones takes ascending whole numbers separated by commas, such as 10,20, not "
     "\"10,,20\""},
    {"--model lprnet --sched step --milestones 10,x",
     "--milestones takes ascending whole numbers separated by commas, such as 10,20, not \"10,x\""},
    {"--model lprnet --sched multistep",
     "--sched multistep needs the epochs, such as --milestones 10,20"},
    {"--model lprnet --sched step",
     "--sched step needs its period in epochs, such as --milestones 10"},
    {"--model lprnet --optim adma",
     "--optim takes sgd, adam, adamw or rmsprop, not \"adma\"; did you mean adam?"},
    {"--model lprnet --optim SGD",
     "--optim takes sgd, adam, adamw or rmsprop, not \"SGD\"; did you mean sgd?"},
    {"--model lprnet --optim 1", "--optim takes sgd, adam, adamw or rmsprop, not \"1\""},
    {"--model lprnet --optim lamb", "--optim takes sgd, adam, adamw or rmsprop, not \"lamb\""},
    {"--model lprnet --sched linear",
     "--sched takes constant, step, multistep, cosine or onecycle, not \"linear\""},
    {"--model lprnet --amp true", "--amp takes f32, bf16 or fp16, not \"true\""},
    {"--model lprnet --amp f17", "--amp takes f32, bf16 or fp16, not \"f17\"; did you mean f32?"},
    {"--model lprnet --bn freeze",
     "--bn takes auto, batch or frozen, not \"freeze\"; did you mean frozen?"},
    {"--model lprnet --lprnet-norm layer",
     "--lprnet-norm takes auto, sample or batch, not \"layer\""},
    {"--model lprnet --decode best",
     "--decode takes greedy or beam, not \"best\"; did you mean beam?"},
    {"--model lprnet --nesterov", "--nesterov is only for the optimizer sgd"},
    {"--model lprnet --init-partial", "--init-partial needs the weights to take: --init FILE"},
    {"--model lprnet --device gpu",
     "--device takes cpu, xpu, xpu:N (the N-th, from 0; or its name, PCI address or UUID) or auto, "
     "not \"gpu\"; for an Intel GPU use "
     "--xpu (in a config file: device: xpu)"},
    {"--model lprnet --device cuda:0",
     "--device takes cpu, xpu, xpu:N (the N-th, from 0; or its name, PCI address or UUID) or auto, "
     "not \"cuda:0\"; for an Intel GPU "
     "use --xpu (in a config file: device: xpu)"},
    {"--model lprnet --device xpu:", "--device takes cpu, xpu, xpu:N (the N-th, from 0; or its "
                                     "name, PCI address or UUID) or auto, not \"xpu:\""},
    {"--model lprnet --device xpu:-1", "--device takes cpu, xpu, xpu:N (the N-th, from 0; or its "
                                       "name, PCI address or UUID) or auto, not \"xpu:-1\""},
    {"--model lprnet --device xpu:01", "--device takes cpu, xpu, xpu:N (the N-th, from 0; or its "
                                       "name, PCI address or UUID) or auto, not \"xpu:01\""},
    {"--model lprnet --device XPU", "--device takes cpu, xpu, xpu:N (the N-th, from 0; or its "
                                    "name, PCI address or UUID) or auto, not \"XPU\""},
    {"--model lprnet --device cpu:0", "--device takes cpu, xpu, xpu:N (the N-th, from 0; or its "
                                      "name, PCI address or UUID) or auto, not \"cpu:0\""},
    {"--model lprnet --xpu --device cpu",
     "--xpu contradicts the device cpu; keep the one you mean"},
    {"--model lprnet --xpu --device auto",
     "--xpu contradicts the device auto; keep the one you mean"},
    {"--model lprnet --no-xpu --device xpu:1",
     "--xpu is switched off, which contradicts the device xpu:1; keep the one you mean"},
    {"--model lprnet --quiet --verbose", "--quiet contradicts verbose; keep the one you mean"},
    {"--model lprnet --cuda", "there is no option \"--cuda\"; for an Intel GPU use --xpu"},
    {"--model lprnet --gpu", "there is no option \"--gpu\"; for an Intel GPU use --xpu"},
    {"--model lprnet --gpus 2", "there is no option \"--gpus\"; for an Intel GPU use --xpu"},
    {"--model lprnet --no-cuda",
     "there is no option \"--no-cuda\"; the CPU is the default, so omit it"},
    {"--model lprnet --cpu", "there is no option \"--cpu\"; use --device cpu"},
    {"--model lprnet --learning-rate 0.1", "there is no option \"--learning-rate\"; use --lr"},
    {"--model lprnet --learning_rate=0.1", "there is no option \"--learning_rate\"; use --lr"},
    {"--model lprnet --batch-size 4", "there is no option \"--batch-size\"; use --batch"},
    {"--model lprnet --batch_size 4", "there is no option \"--batch_size\"; use --batch"},
    {"--model lprnet --optimizer sgd", "there is no option \"--optimizer\"; use --optim"},
    {"--model lprnet --pretrained w.pth", "there is no option \"--pretrained\"; use --init"},
    {"--model lprnet --weight_decay 0",
     "there is no option \"--weight_decay\"; write --weight-decay"},
    {"--model lprnet --Batch 3", "there is no option \"--Batch\"; write --batch"},
    {"--model lprnet --fp16", "there is no option \"--fp16\"; use --amp fp16"},
    {"--model lprnet --bf16", "there is no option \"--bf16\"; use --amp bf16"},
    {"--model lprnet --bacth 3", "there is no option \"--bacth\"; did you mean --batch?"},
    {"--model lprnet --no-augmnet",
     "there is no option \"--no-augmnet\"; did you mean --no-augment?"},
    {"--model lprnet --zzzzzzzz",
     "there is no option \"--zzzzzzzz\"; `xtrain train --help` lists them"},
    {"--model lprnet --no-batch", "--batch takes a value, so there is no --no-batch"},
    {"--model lprnet --no-help", "--help has no --no- form"},
    {"--model lprnet --=3", "there is no option \"--\"; `xtrain train --help` lists them"},
    {"--model lprnet ---", "there is no option \"---\"; `xtrain train --help` lists them"},
    {"--model lprnet -b 3", "there is no option \"-b\"; did you mean --batch?"},
    {"--model lprnet -lr 0.1", "there is no option \"-lr\"; write --lr"},
    {"--model lprnet -z", "there is no option \"-z\"; `xtrain train --help` lists them"},
    {"--model lprnet --batch", "--batch needs a value: auto or a whole number from 1 to 65536"},
    {"--model lprnet --data --val x",
     "--data needs a value (DIR|LIST|synth:...), but the next argument is \"--val\""},
    {"--model lprnet --data ''", "--data was given an empty value; give one, or omit it"},
    {"--model lprnet --config ''", "--config was given an empty value; give one, or omit it"},
    {"LPRNet", "train takes only options, but \"LPRNet\" was given; write it after --model"},
    {"--model lprnet /", "train takes only options, but \"/\" was given; write it after --data"},
    {"--model lprnet plates", "train takes only options, but \"plates\" was given"},
    {"--model lprnet eval", "the command comes first: write `xtrain eval` and then the options"},
    {"--model lprnet -- --lr", "train takes only options, but \"--lr\" was given"},
    {"--model lprnet --reject auto:1", "--reject takes a number from 0 to 1, stored, none, or a "
                                       "rule such as auto:0.995 or keep:0.98, "
                                       "not \"auto:1\""},
    {"--model", "--model needs a value: NAME"},
    {"--model lprnt", "--model takes {models}, not \"lprnt\"; did you mean lprnet?"},
    {"--model vit", "--model takes {models}, not \"vit\""},
    {"--config /nonexistent.yaml --model lprnet",
     "--config: cannot open /nonexistent.yaml: No such file or directory"},
    {"--config / --model lprnet", "--config: cannot read /: it is not a regular file"},
    {"eval --lr 1", "--lr belongs to train, not to eval"},
    {"eval --model lprnet --lr 1", "--lr belongs to train, not to eval"},
    {"eval --model lprnet",
     "xtrain eval needs WEIGHTS, a file or a run's folder; `xtrain eval --help` tells more"},
    {"eval --model lprnet --init w.pth extra",
     "\"extra\" and --init \"w.pth\" are both given; keep one"},
    {"eval w.pth extra", "eval takes one file of weights or run's folder; \"extra\" is a second"},
    {"devices extra", "devices takes only options, but \"extra\" was given"},
    {"predict",
     "xtrain predict needs WEIGHTS FILE|DIR|LIST|-...; `xtrain predict --help` tells more"},
    {"predict w.pth",
     "xtrain predict needs WEIGHTS FILE|DIR|LIST|-...; `xtrain predict --help` tells more"},
    {"predict w.pth a.jpg --epochs 3", "--epochs belongs to train, not to predict"},
    {"predict w.pth a.jpg --reject 2", "--reject takes a number from 0 to 1, stored, none, or a "
                                       "rule such as auto:0.995 or keep:0.98, "
                                       "not \"2\""},
    {"predict w.pth a.jpg --json true",
     "--json takes no value, but \"true\" was given; write --json alone"},
    {"devices --batch 3", "--batch belongs to train, try, eval, predict, serve, bench step, bench "
                          "infer, bench loader, bench "
                          "start, bench scale, warmup and selftest, not to devices"},
    {"completion", "xtrain completion needs bash|zsh|fish; `xtrain completion --help` tells more"},
    {"", "xtrain train needs --model lprnet (the network, by name or as an "
         "ONNX file); `xtrain train --help` tells more"},
};

static void wrong_command_lines_end_with_a_sentence_and_code_2(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof wrong_lines / sizeof *wrong_lines; i++) {
        struct xt_options options;
        struct xt_err err = {0};
        struct line line;
        enum xt_status status = parse(&options, &line, wrong_lines[i].line, &err);
        const char *wanted = with_model_names(wrong_lines[i].message, ", ", " or ");
        if (status != XT_ERR_USAGE || strcmp(err.text, wanted) != 0)
            fail_msg("%s\n  gave %d \"%s\"\n  not    \"%s\"", wrong_lines[i].line, status, err.text,
                     wanted);
        xt_options_clear(&options);
    }
}

static void values_are_read_as_their_types(void **state)
{
    (void)state;
    struct xt_options options;
    struct line line;
    parse_well(&options, &line,
               "--model lprnet --batch 17 --lr=1e-4 --seed 18446744073709551615 --steps 5000000000 "
               "--max-time 1.5h --stop-after 90 --optim rmsprop --no-augment --pin-memory "
               "--momentum .5 --weight-decay 2E-5 --data dir --out=a=b");
    const struct xt_settings *values = &options.values;
    assert_int_equal(values->network.batch, 17);
    assert_true(values->recipe.lr == 1e-4);
    assert_true(values->data.seed == UINT64_MAX);
    assert_true(values->run.steps == 5000000000);
    assert_true(values->run.max_time == 5400 && values->run.stop_after == 90);
    assert_int_equal(values->recipe.optim, XT_OPTIM_RMSPROP);
    assert_true(!values->data.augment && values->device.pin_memory && !values->device.xpu);
    assert_true(values->recipe.momentum == 0.5 && values->recipe.weight_decay == 2e-5);
    assert_string_equal(values->data.images, "dir");
    assert_string_equal(values->record.out, "a=b");
    assert_null(values->data.val);
    xt_options_clear(&options);
}

static void a_service_has_its_own(void **state)
{
    (void)state;
    struct xt_options options;
    struct line line;
    parse_well(&options, &line, "serve w.pth --stdin frames --max-latency 20ms --max-queue 9");
    const struct xt_settings *values = &options.values;
    assert_string_equal(values->service.listen, "127.0.0.1:8080");
    assert_true(values->service.max_latency == 0.02 && values->service.request_timeout == 10);
    assert_true(values->service.stdin_kind == XT_STDIN_FRAMES && !values->service.allow_remote);
    assert_int_equal(values->service.max_queue, 9);
    xt_options_clear(&options);
}

static void the_recipe_stands_between_default_and_command_line(void **state)
{
    (void)state;
    struct xt_options options;
    struct line line;
    parse_well(&options, &line, "--model lprnet --lr 0.1");
    assert_int_equal(options.values.network.batch, 32);
    assert_true(options.values.recipe.lr == 0.1);
    assert_true(options.values.recipe.momentum == 0.9);
    assert_int_equal(xt_options_source(&options, "batch"), XT_SOURCE_RECIPE);
    assert_int_equal(xt_options_source(&options, "lr"), XT_SOURCE_COMMAND_LINE);
    assert_int_equal(xt_options_source(&options, "momentum"), XT_SOURCE_DEFAULT);
    xt_options_clear(&options);
}

static void given_weights_take_the_second_recipe_over_the_first(void **state)
{
    (void)state;
    struct xt_options options;
    struct line line;
    struct xt_str text = {0};
    struct xt_err err = {0};
    parse_well(&options, &line, "--model lprnet --init w.pth --batch 8");
    assert_true(options.values.recipe.lr == 1e-4 && options.values.run.epochs == 40);
    assert_true(options.values.run.steps == 0 && !options.values.data.augment);
    assert_int_equal(xt_options_source(&options, "lr"), XT_SOURCE_FINE_TUNE);
    assert_int_equal(xt_options_source(&options, "clip"), XT_SOURCE_RECIPE);
    assert_int_equal(xt_options_print_recipe(&options, &text, &err), XT_OK);
    assert_string_equal(text.data, "by the recipe: clip 5\n"
                                   "by the recipe for given weights: no-augment, epochs 40, "
                                   "lr 0.0001\n"
                                   "by the command line: batch 8\n");
    xt_str_clear(&text);
    assert_int_equal(xt_options_print(&options, &text, &err), XT_OK);
    assert_non_null(strstr(text.data, "# recipe of lprnet for given weights\n"));
    xt_str_clear(&text);
    xt_options_clear(&options);
    parse_well(&options, &line, "--model lprnet");
    assert_true(options.values.recipe.lr == 0.002 && options.values.data.augment);
    xt_options_clear(&options);
}

static void evaluation_of_given_weights_takes_no_recipe_of_training(void **state)
{
    (void)state;
    const char *const words[] = {"--model", "lprnet", "--init", "w.pth"};
    struct xt_options options;
    struct xt_err err = {0};
    assert_int_equal(xt_options_parse(&options, 4, words, XT_COMMAND_EVAL, &models, &err), XT_OK);
    assert_int_equal(xt_options_source(&options, "batch"), XT_SOURCE_RECIPE);
    for (int i = 0; i < XT_OPTIONS_MAX; i++)
        assert_int_not_equal(options.origins[i].source, XT_SOURCE_FINE_TUNE);
    xt_options_clear(&options);
}

static void the_recipes_of_all_networks_are_taken(void **state)
{
    (void)state;
    const struct xt_model_info *model = NULL;
    for (size_t i = 0; (model = xt_model_at(i)); i++) {
        const char *const names[] = {model->name, NULL};
        const struct xt_option_models one = {.names = names, .recipes_of = xt_model_recipes};
        const char *const words[] = {"--model", model->name, "--init", "weights.pth"};
        struct xt_options options;
        struct xt_err err = {0};
        if (xt_options_parse(&options, 4, words, XT_COMMAND_TRAIN, &one, &err) != XT_OK)
            fail_msg("%s", err.text);
        xt_options_clear(&options);
    }
}

static void epochs_of_the_command_line_beat_steps_of_the_recipe(void **state)
{
    (void)state;
    struct xt_options options;
    struct line line;
    parse_well(&options, &line, "--model lprnet --epochs 3");
    assert_int_equal(options.values.run.epochs, 3);
    assert_true(options.values.run.steps == 0);
    xt_options_clear(&options);
    parse_well(&options, &line, "--model lprnet --epochs 3 --steps 7");
    assert_true(options.values.run.epochs == 0 && options.values.run.steps == 7);
    xt_options_clear(&options);
}

static void what_only_the_recipe_asked_for_gives_way(void **state)
{
    (void)state;
    struct xt_options options;
    struct line line;
    parse_well(&options, &line, "--model resnet50 --optim adam --sched cosine");
    assert_false(options.values.recipe.nesterov);
    assert_null(options.values.recipe.milestones);
    xt_options_clear(&options);
}

static void the_device_says_it_all_after_xpu(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        const char *device;
        bool xpu;
    } cases[] = {
        {"--model lprnet", "cpu", false},
        {"--model lprnet --xpu", "xpu", true},
        {"--model lprnet --device xpu", "xpu", true},
        {"--model lprnet --xpu --device xpu:1", "xpu:1", true},
        {"--model lprnet --device auto", "auto", false},
        {"--model lprnet --no-xpu --device cpu", "cpu", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct xt_options options;
        struct line line;
        parse_well(&options, &line, cases[i].line);
        assert_string_equal(options.values.device.name, cases[i].device);
        assert_int_equal(options.values.device.xpu, cases[i].xpu);
        xt_options_clear(&options);
    }
}

static void arguments_are_kept_in_order(void **state)
{
    (void)state;
    struct xt_options options;
    struct line line;
    parse_well(&options, &line, "predict w.pth --json a.jpg - --reject 0.5 -- --b.jpg");
    assert_int_equal(options.argument_count, 4);
    assert_string_equal(options.arguments[0], "w.pth");
    assert_string_equal(options.arguments[2], "-");
    assert_string_equal(options.arguments[3], "--b.jpg");
    assert_true(options.values.output.json &&
                options.values.answer.reject.kind == XT_REJECT_BELOW &&
                options.values.answer.reject.value == 0.5);
    xt_options_clear(&options);
}

static void help_is_given_whatever_else_is_wrong(void **state)
{
    (void)state;
    struct xt_options options;
    struct line line;
    parse_well(&options, &line, "--bogus --batch x -h");
    assert_true(options.values.request.help);
    xt_options_clear(&options);
    parse_well(&options, &line, "predict --version");
    assert_true(options.values.request.version);
    xt_options_clear(&options);
}

static void short_forms_are_what_they_stand_for(void **state)
{
    (void)state;
    struct xt_options options;
    struct line line;
    parse_well(&options, &line, "--model lprnet -v");
    assert_true(options.values.output.verbose && !options.values.output.quiet);
    xt_options_clear(&options);
    parse_well(&options, &line, "devices -q");
    assert_true(options.values.output.quiet);
    xt_options_clear(&options);
    parse_well(&options, &line, "help train --model lprnet");
    assert_string_equal(options.values.network.model, "lprnet");
    xt_options_clear(&options);
}

static void the_same_option_twice_with_one_value_is_fine(void **state)
{
    (void)state;
    struct xt_options options;
    struct line line;
    parse_well(&options, &line, "--model lprnet --batch 3 --batch=3 --json --json");
    assert_int_equal(options.values.network.batch, 3);
    xt_options_clear(&options);
}

static void bytes_that_are_not_utf8_are_refused_and_shown_safely(void **state)
{
    (void)state;
    struct xt_options options;
    struct xt_err err = {0};
    struct line line;
    assert_int_equal(parse(&options, &line, "--model lprnet --data a\xff\x1b", &err), XT_ERR_USAGE);
    assert_string_equal(err.text, "--data takes UTF-8 text, which \"a\\xFF\\x1B\" is not");
    xt_options_clear(&options);
}

static void every_entry_of_the_table_is_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < xt_option_count; i++) {
        const struct xt_option *option = &xt_option_table[i];
        assert_ptr_equal(xt_option_find(option->name), option);
        assert_non_null(option->help);
        assert_true(option->commands != 0);
        assert_true(option->type->takes_value || option->fallback);
        assert_true((option->type == &xt_type_choice || option->type == &xt_type_gpu) ==
                    (option->choices != NULL));
        for (size_t j = 0; j < i; j++)
            assert_true(xt_option_table[j].offset != option->offset);
    }
}

/* Options of training that a checkpoint does not record, and why a run need not know of a change.
 */
static const struct {
    const char *name;
    const char *reason;
} unrecorded[] = {
    {"val", "chooses the best weights, changes none"},
    {"init", "a resumed run has its weights; their settings are compared as other options"},
    {"init-partial", "goes with init"},
    {"random-init", "goes with model"},
    {"alphabet", "its symbols are compared, not its name"},
    {"strict-data", "ends a run or not"},
    {"out", "where the run is saved"},
    {"config", "gives other options"},
    {"print-config", "trains nothing"},
    {"dry-run", "trains nothing"},
    {"resume", "is what compares"},
    {"epochs", "the length of the run, which is compared in steps"},
    {"steps", "the length of the run, which is compared as such"},
    {"max-time", "where the run stops"},
    {"stop-after", "where the run stops"},
    {"patience", "where the run stops"},
    {"min-delta", "where the run stops"},
    {"on-nan", "what becomes of a step that cannot be taken"},
    {"log-every", "what is written down"},
    {"eval-every", "chooses the best weights, changes none"},
    {"save-every", "what is written down"},
    {"keep", "what is written down"},
    {"device", "recorded as what it came to, beside CPU and library: last digits"},
    {"xpu", "the same as device"},
    {"threads", "recorded as what it came to, beside CPU and library: last digits"},
    {"oversubscribe", "says only that --threads is meant"},
    {"check-device", "looks at the device before the run"},
    {"deterministic", "an XPU takes it without, and the record says so"},
    {"device-check", "looks at the device before the run"},
    {"on-device-loss", "what is done when the run cannot continue"},
    {"device-timeout", "what is done when the run cannot continue"},
    {"workers", "the images are the same"},
    {"recompute", "the numbers are the same"},
    {"slots", "the images are the same"},
    {"image-cache", "the images are the same"},
    {"image-cache-limit", "the images are the same"},
    {"image-cache-file", "the images are the same"},
    {"bucket", "when gradients are sent, not what"},
    {"alone", "says that it has no ranks"},
    {"bind", "as --threads"},
    {"rank-timeout", "where the run ends"},
    {"pin-memory", "the images are the same"},
    {"kernel-cache-dir", "the kernels are the same"},
    {"kernel-cache", "the kernels are the same"},
    {"decode", "how evaluation reads plates"},
    {"reject", "chosen when the weights are trained"},
    {"images", "what is shown"},
    {"sign", "who vouches for the record"},
    {"json", "what is said"},
    {"jsonl", "what is said"},
    {"quiet", "what is said"},
    {"verbose", "what is said"},
    {"log-time", "what is said"},
    {"blank", "the alphabet itself is compared"},
    {"parse-only", "trains nothing"},
    {"version", "trains nothing"},
    {"help", "trains nothing"},
};

static void an_option_of_training_is_recorded_or_has_a_reason(void **state)
{
    (void)state;
    size_t reasons = 0;
    for (size_t i = 0; i < xt_option_count; i++) {
        const char *reason = NULL;
        for (size_t k = 0; k < sizeof unrecorded / sizeof *unrecorded; k++)
            if (strcmp(unrecorded[k].name, xt_option_table[i].name) == 0)
                reason = unrecorded[k].reason;
        bool recorded = xt_option_table[i].resume != XT_RESUME_TAKES;
        reasons += reason != NULL;
        if (xt_option_is_for(&xt_option_table[i], XT_COMMAND_TRAIN) && recorded == (reason != NULL))
            fail_msg("--%s is %s", xt_option_table[i].name,
                     reason ? reason : "not recorded, for no reason");
    }
    assert_int_equal(reasons, sizeof unrecorded / sizeof *unrecorded);
}

/* Everything else of training is compared between ranks. */
static void what_a_rank_may_have_for_itself_is_listed(void **state)
{
    static const char own[] =
        " strict-data out config print-config resume max-time stop-after log-every keep device xpu "
        "threads oversubscribe check-device deterministic device-check on-device-loss "
        "device-timeout workers "
        "recompute slots "
        "image-cache image-cache-limit image-cache-file alone bind rank-timeout pin-memory "
        "kernel-cache-dir "
        "kernel-cache images sign "
        "json jsonl "
        "quiet verbose log-time parse-only version help ";
    (void)state;
    for (size_t i = 0; i < xt_option_count; i++) {
        char word[64];
        snprintf(word, sizeof word, " %s ", xt_option_table[i].name);
        if (xt_option_is_for(&xt_option_table[i], XT_COMMAND_TRAIN) &&
            xt_option_binds_ranks(&xt_option_table[i]) == (strstr(own, word) != NULL))
            fail_msg("whether ranks need the same --%s is not said, or twice",
                     xt_option_table[i].name);
    }
}

static void what_a_run_records_is_spelt_as_it_would_be_typed(void **state)
{
    static const char *const wanted[][2] = {
        {"model", "lprnet"},     {"data", "/a \"b\""}, {"image_size", "0"},
        {"augment", "true"},     {"flip", "false"},    {"seed", "18446744073709551615"},
        {"batch", "32"},         {"lr", "0.05"},       {"optim", "sgd"},
        {"sched", "multistep"},  {"clip", "5"},        {"milestones", "10,20"},
        {"freeze_until", ""},    {"amp", "f32"},       {"weight_decay", "1e-05"},
        {"lprnet_norm", "auto"}, {"bn", "frozen"},
    };
    (void)state;
    struct xt_options options;
    struct line line;
    struct xt_run_options list = {.count = 0};
    struct xt_err err = {0};
    parse_well(
        &options, &line,
        "--model lprnet --lr 5e-2 --seed 18446744073709551615 --sched multistep --milestones "
        "10,20 --optim sgd --bn frozen --weight-decay 0.00001");
    options.values.data.images = "/a \"b\"";
    assert_int_equal(xt_options_list_run(&options.values, &list, &err), XT_OK);
    size_t found = 0;
    for (size_t i = 0; i < list.count; i++)
        for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++)
            if (strcmp(list.items[i].key, wanted[k][0]) == 0) {
                assert_string_equal(xt_str_get(&list.items[i].value), wanted[k][1]);
                found++;
            }
    assert_int_equal(found, sizeof wanted / sizeof *wanted);
    xt_run_options_clear(&list);
    xt_options_clear(&options);
}

/* Everything that --print-config shows but the comments. */
static void without_comments(const char *text, char *out)
{
    for (; *text; text++) {
        if (*text == '#')
            text += strcspn(text, "\n");
        if (*text != ' ')
            *out++ = *text;
        if (!*text)
            break;
    }
    *out = '\0';
}

static void a_printed_config_gives_the_same_settings(void **state)
{
    static const char *const lines[] = {
        "--model lprnet",
        "--model lprnet --xpu --epochs 3 --lr 0.1234567890123 --seed 18446744073709551615",
        "--model lprnet --device auto --max-time 10m --stop-after 0.25",
        "--model lprnet --device xpu:1 --no-augment --amp off --clip 1e-7",
        "--model resnet50",
        "--model resnet50 --optim adam --sched cosine",
        "--model resnet50 --milestones 1,2,30 --data 123 --val true --out ~ --alphabet null",
        "--model lprnet --data synth:plates?count=5&seed=1 --val #x: --out \"q\\\n\t\x01京\u2028",
        "--model lprnet --out 1e5 --data 0x10 --val - --resume auto --init {a} --init-partial",
        "eval --model lprnet --init w.pth --decode beam --quiet",
        "predict w.pth a.jpg --reject 0.25",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct xt_options options;
        struct line line;
        struct xt_str printed = {0};
        struct xt_str again = {0};
        struct xt_err err = {0};
        parse_well(&options, &line, lines[i]);
        assert_int_equal(xt_options_print(&options, &printed, &err), XT_OK);
        xt_options_clear(&options);
        const char *path = support_path(*state, "run.yaml");
        support_write_file(path, printed.data, printed.length);
        char second[256];
        const char *command = strncmp(lines[i], "--", 2) == 0 ? "train" : lines[i];
        snprintf(second, sizeof second, "%.*s --config %s%s", (int)strcspn(command, " "), command,
                 path, strncmp(lines[i], "predict", 7) == 0 ? " w.pth a.jpg" : "");
        parse_well(&options, &line, second);
        assert_int_equal(xt_options_print(&options, &again, &err), XT_OK);
        char *a = malloc(printed.length + 1);
        char *b = malloc(again.length + 1);
        if (!a || !b)
            abort();
        without_comments(printed.data, a);
        without_comments(again.data, b);
        assert_string_equal(a, b);
        free(a);
        free(b);
        xt_str_clear(&printed);
        xt_str_clear(&again);
        xt_options_clear(&options);
    }
}

static void a_printed_config_says_where_each_value_came_from(void **state)
{
    struct xt_options options;
    struct line line;
    struct xt_str text = {0};
    struct xt_err err = {0};
    char command[256];
    const char *path = support_path(*state, "run.yaml");
    support_write_file(path, "# mine\nlr: 0.5\n", 15);
    snprintf(command, sizeof command, "--model lprnet --config %s --epochs 3", path);
    parse_well(&options, &line, command);
    assert_int_equal(xt_options_print(&options, &text, &err), XT_OK);
    assert_non_null(strstr(text.data, "batch: 32                     # recipe of lprnet\n"));
    assert_non_null(strstr(text.data, "epochs: 3                     # command line\n"));
    assert_non_null(strstr(text.data, "momentum: 0.9                 # default\n"));
    assert_non_null(strstr(text.data, "# steps is not set\n"));
    snprintf(command, sizeof command, "lr: 0.5                       # config \"%s\" line 2\n",
             path);
    assert_non_null(strstr(text.data, command));
    xt_str_clear(&text);
    xt_options_clear(&options);
}

int main(void)
{
    list_model_names();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_command_lines_end_with_a_sentence_and_code_2),
        cmocka_unit_test(values_are_read_as_their_types),
        cmocka_unit_test(a_service_has_its_own),
        cmocka_unit_test(the_recipe_stands_between_default_and_command_line),
        cmocka_unit_test(given_weights_take_the_second_recipe_over_the_first),
        cmocka_unit_test(evaluation_of_given_weights_takes_no_recipe_of_training),
        cmocka_unit_test(the_recipes_of_all_networks_are_taken),
        cmocka_unit_test(epochs_of_the_command_line_beat_steps_of_the_recipe),
        cmocka_unit_test(what_only_the_recipe_asked_for_gives_way),
        cmocka_unit_test(the_device_says_it_all_after_xpu),
        cmocka_unit_test(arguments_are_kept_in_order),
        cmocka_unit_test(help_is_given_whatever_else_is_wrong),
        cmocka_unit_test(short_forms_are_what_they_stand_for),
        cmocka_unit_test(the_same_option_twice_with_one_value_is_fine),
        cmocka_unit_test(bytes_that_are_not_utf8_are_refused_and_shown_safely),
        cmocka_unit_test(every_entry_of_the_table_is_whole),
        cmocka_unit_test(an_option_of_training_is_recorded_or_has_a_reason),
        cmocka_unit_test(what_a_rank_may_have_for_itself_is_listed),
        cmocka_unit_test(what_a_run_records_is_spelt_as_it_would_be_typed),
        cmocka_unit_test_setup_teardown(a_printed_config_gives_the_same_settings,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(a_printed_config_says_where_each_value_came_from,
                                        support_make_folder, support_remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
