#include "cli/signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "base/system/process.h"
#include "cli/bench/scratch.h"

/* ssh-keygen's namespace of these signatures: one for another purpose does not verify. */
static const char space[] = "xtrain";
static const size_t file_limit = (size_t)4 << 30;
enum { KEY_MOST = 64 << 10, SECONDS = 120, NO_PROGRAM = 127 };

static enum xt_status run(const char *const *argv, const void *input, size_t bytes,
                          const char *what, enum xt_status otherwise, struct xt_err *err)
{
    const struct xt_process_program program = {
        .argv = argv, .input = input, .input_bytes = bytes, .seconds = SECONDS};
    struct xt_process_end end = {.said = ""};
    struct xt_str output = {0};
    int code = 0;
    enum xt_status status = xt_process_run_program(&program, &output, &code, &end, err);
    xt_str_clear(&output);
    if (status || (!code && !end.signal && !end.timed_out))
        return status;
    if (code == NO_PROGRAM)
        return xt_err_set(err, XT_ERR_RUN,
                          "signatures need ssh-keygen (openssh-client), which is not here");
    return xt_err_set(err, otherwise, "%s: %s", what,
                      *end.said ? end.said : "ssh-keygen does not say why");
}

enum xt_status xt_signature_make(const char *path, const char *key, struct xt_err *err)
{
    const char *const argv[] = {"ssh-keygen", "-Y", "sign", "-f", key, "-n", space, path, NULL};
    const struct xt_path signature = xt_file_beside(path, ".sig");
    char what[512];
    unlink(signature.text);
    snprintf(what, sizeof what, "%s cannot be signed with %s", path, key);
    enum xt_status status = run(argv, "", 0, what, XT_ERR_RUN, err);
    if (!status && !xt_file_exists(signature.text))
        status = xt_err_set(err, XT_ERR_RUN, "%s: ssh-keygen wrote no %s", what, signature.text);
    if (!status)
        xt_log_note("signed: %s", signature.text);
    return status;
}

/* ssh-keygen's list of who may sign: this key alone, under one name. */
static enum xt_status save_signers(const char *key, const char *to, struct xt_err *err)
{
    struct xt_bytes text = {0};
    struct xt_str line = {0};
    enum xt_status status = xt_file_load(key, KEY_MOST, &text, err);
    if (!status &&
        (!memchr(text.data, ' ', text.size) || memmem(text.data, text.size, "PRIVATE KEY", 11)))
        status = xt_err_set(err, XT_ERR_USAGE,
                            "--key %s: not a public key; give the .pub that ssh-keygen made", key);
    const uint8_t *end = status ? NULL : memchr(text.data, '\n', text.size);
    if (!status)
        status = xt_str_printf(&line, err, "%s %.*s\n", space,
                               (int)(end ? end - text.data : (ptrdiff_t)text.size),
                               (const char *)text.data);
    if (!status)
        status = xt_file_save(to, line.data, line.length, err);
    xt_str_clear(&line);
    free(text.data);
    return status;
}

static enum xt_status check(const char *path, const char *signature, const char *signers,
                            struct xt_err *err)
{
    const char *const argv[] = {"ssh-keygen", "-Y", "verify", "-f", signers,   "-I",
                                space,        "-n", space,    "-s", signature, NULL};
    struct xt_bytes bytes = {0};
    char what[512];
    snprintf(what, sizeof what, "the signature of %s does not hold", path);
    enum xt_status status = xt_file_load(path, file_limit, &bytes, err);
    if (!status)
        status = run(argv, bytes.data, bytes.size, what, XT_ERR_DATA, err);
    free(bytes.data);
    return status;
}

enum xt_status xt_signature_check(const char *path, const char *key, struct xt_err *err)
{
    struct xt_scratch scratch = {""};
    const struct xt_path signature = xt_file_beside(path, ".sig");
    enum xt_status status = xt_file_exists(signature.text)
                                ? xt_scratch_make(&scratch, "a key", err)
                                : xt_err_set(err, XT_ERR_DATA, "%s is not signed: there is no %s",
                                             path, signature.text);
    const struct xt_path signers = xt_file_path(scratch.folder, "signers");
    if (!status)
        status = save_signers(key, signers.text, err);
    if (!status)
        status = check(path, signature.text, signers.text, err);
    xt_scratch_remove(&scratch);
    return status;
}
