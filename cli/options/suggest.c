#include "cli/options/suggest.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/options/table.h"

/* Names of the same option in other programs. */
static const struct {
    const char *option;
    const char *value; /* NULL: the value given */
    const char *names; /* separated by spaces */
} habits[] = {
    {"xpu", NULL, "cuda gpu gpus use-cuda use-gpu"},
    {"device", "xpu:N", "gpu-id"},
    {"device", "cpu", "cpu"},
    {"lr", NULL, "learning-rate lr0 max-lr"},
    {"batch", NULL, "batch-size train-batch-size bs"},
    {"epochs", NULL, "epoch num-epochs max-epochs max-epoch"},
    {"steps", NULL, "max-steps iterations max-iter"},
    {"optim", NULL, "optimizer opt"},
    {"sched", NULL, "scheduler lr-scheduler lr-schedule"},
    {"weight-decay", NULL, "wd"},
    {"clip", NULL, "clip-grad grad-clip clip-grad-norm max-grad-norm"},
    {"dropout", NULL, "dropout-rate"},
    {"resume", NULL, "checkpoint"},
    {"init", NULL, "pretrained pretrained-model weights checkpoint ckpt"},
    {"resume", "auto", "continue"},
    {"model", NULL, "arch net network"},
    {"listen", "ADDRESS:PORT", "port host bind address"},
    {"data", NULL, "dataset data-dir data-path train train-dir train-data"},
    {"val", NULL, "val-dir val-data valid test-dir"},
    {"out", NULL, "output output-dir save-dir save-folder logdir"},
    {"workers", NULL, "num-workers jobs"},
    {"threads", NULL, "num-threads nthreads"},
    {"amp", "fp16", "fp16 half"},
    {"amp", "bf16", "bf16 bfloat16"},
    {"amp", NULL, "precision mixed-precision type types dtype compare"},
    {"seed", NULL, "manual-seed random-seed"},
    {"log-every", NULL, "print-freq log-interval"},
    {"eval-every", NULL, "test-interval eval-interval"},
    {"save-every", NULL, "save-interval save-freq"},
};

bool xt_option_is_among(const char *names, const char *name)
{
    size_t length = strlen(name);
    for (; *names; names += strcspn(names, " "), names += *names == ' ')
        if (strcspn(names, " ") == length && strncmp(names, name, length) == 0)
            return true;
    return false;
}

/* Lower case, dashes for underscores; cut where it is longer than any name. */
void xt_option_to_dashes(char out[XT_OPTION_NAME], const char *name)
{
    size_t i = 0;
    for (; name[i] && i + 1 < XT_OPTION_NAME; i++) {
        char c = name[i];
        out[i] = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    out[i] = '\0';
}

/* The option as the user would write it: --weight-decay, or weight_decay in a file. */
void xt_option_spell(char out[XT_OPTION_SPELT], const char *name, bool in_file)
{
    snprintf(out, XT_OPTION_SPELT, "%s%s", in_file ? "" : "--", name);
    for (char *p = out; in_file && *p; p++)
        if (*p == '-')
            *p = '_';
}

/* The nearest option name of the command, or of its config file; NULL: none is near. */
static const char *nearest(const char *name, bool in_file, enum xt_command_id command)
{
    const char *names[XT_OPTIONS_MAX];
    size_t own = 0;
    for (size_t i = 0; i < xt_option_count; i++)
        if (xt_option_is_listed(&xt_option_table[i], command) &&
            !(in_file && xt_option_table[i].not_in_config))
            names[own++] = xt_option_spelling(&xt_option_table[i]);
    return xt_str_nearest(name, names, own);
}

/* What another program's option is called here. */
static void suggest_habit(char *hint, size_t size, size_t habit, bool in_file)
{
    char spelt[XT_OPTION_SPELT];
    xt_option_spell(spelt, habits[habit].option, in_file);
    bool gpu = strcmp(habits[habit].option, "xpu") == 0;
    const char *value = habits[habit].value;
    if (!value && gpu && in_file)
        value = "true";
    snprintf(hint, size, "; %suse %s%s%s", gpu ? "for an Intel GPU " : "", spelt,
             !value    ? ""
             : in_file ? ": "
                       : " ",
             value ? value : "");
}

void xt_option_suggest(char *hint, size_t size, const char *given, bool in_file,
                       enum xt_command_id command)
{
    char name[XT_OPTION_NAME];
    char spelt[XT_OPTION_SPELT];
    xt_option_to_dashes(name, given);
    if (xt_option_find(name) && xt_option_is_for(xt_option_find(name), command)) {
        xt_option_spell(spelt, name, in_file);
        snprintf(hint, size, "; write %s", spelt);
        return;
    }
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++)
        if (xt_option_is_among(habits[i].names, name) &&
            xt_option_is_for(xt_option_find_for(habits[i].option, command), command)) {
            suggest_habit(hint, size, i, in_file);
            return;
        }
    if (xt_option_is_among("init pretrained weights checkpoint ckpt", name) && !in_file &&
        xt_command_get(command)->takes_weights) {
        snprintf(hint, size, "; give the weights as an argument: xtrain %s %s",
                 xt_command_get(command)->name, xt_command_get(command)->arguments);
        return;
    }
    if (strcmp(name, "no-cuda") == 0 || strcmp(name, "no-gpu") == 0) {
        snprintf(hint, size, "; the CPU is the default, so omit it");
        return;
    }
    bool negated = xt_str_starts(name, "no-");
    const char *near = nearest(negated ? name + 3 : name, in_file, command);
    if (near && negated && xt_option_find_for(near, command)->type->takes_value)
        near = NULL;
    if (near && negated && in_file) {
        xt_option_spell(spelt, near, in_file);
        snprintf(hint, size, "; write %s: false", spelt);
        return;
    }
    if (near) {
        char full[XT_OPTION_NAME];
        snprintf(full, sizeof full, "%s%s", negated ? "no-" : "", near);
        xt_option_spell(spelt, full, in_file);
        snprintf(hint, size, "; did you mean %s?", spelt);
        return;
    }
    snprintf(hint, size, "; `xtrain %s --help` lists them", xt_command_get(command)->name);
}
