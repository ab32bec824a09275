/* xtrain data get: fetches the archive of a public data set by curl, continues one that was cut
 * off, and gives it its name only once its size and its SHA-256 are the known ones. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/str.h"
#include "base/system/process.h"
#include "base/system/stop.h"
#include "cli/commands.h"
#include "cli/json/result.h"
#include "cli/options/options.h"
#include "cli/report.h"
#include "runs/proof.h"

/* The archives as torchvision fetches them. */
static const struct archive {
    const char *set;
    const char *name;
    uint64_t bytes;
    const char *sha256;
} archives[] = {
    {"cifar10", "cifar-10-python.tar.gz", 170498071,
     "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"},
    {"cifar100", "cifar-100-python.tar.gz", 169001437,
     "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7"},
};
enum { ARCHIVES = sizeof archives / sizeof *archives };

static const char authors[] = "https://www.cs.toronto.edu/~kriz/";

/* What curl exits with. */
enum { CURL_PARTIAL = 18, CURL_WRITE = 23, CURL_NO_RANGES = 33, NOT_FOUND = 127 };

/* One fetch. */
struct get {
    struct archive archive;
    const char *folder;
    struct xt_str url;
    struct xt_path path;
    struct xt_path part; /* the unfinished file, which another start continues */
    bool mirrored;
    bool fetched;
};

static enum xt_status find_archive(struct get *get, const char *set, struct xt_err *err)
{
    for (int i = 0; i < ARCHIVES; i++)
        if (xt_str_same_name(archives[i].set, set)) {
            get->archive = archives[i];
            return XT_OK;
        }
    return xt_err_set(err, XT_ERR_USAGE, "data get fetches cifar10 or cifar100, not \"%s\"", set);
}

/* $XTRAIN_DATA_URL names a mirror's folder. $XTRAIN_DATA_PIN (BYTES:SHA256) is for the test, whose
 * server has a smaller archive. */
static enum xt_status choose_address(struct get *get, char sha256[65], struct xt_err *err)
{
    const char *base = getenv("XTRAIN_DATA_URL");
    const char *pin = getenv("XTRAIN_DATA_PIN");
    get->mirrored = base && *base;
    if (!get->mirrored)
        base = authors;
    if (pin && (sscanf(pin, "%" SCNu64 ":%64[0-9a-f]", &get->archive.bytes, sha256) != 2 ||
                strlen(sha256) != 64))
        return xt_err_set(err, XT_ERR_USAGE, "XTRAIN_DATA_PIN is BYTES:SHA256, not \"%s\"", pin);
    if (pin)
        get->archive.sha256 = sha256;
    return xt_str_printf(&get->url, err, "%s%s%s", base, base[strlen(base) - 1] == '/' ? "" : "/",
                         get->archive.name);
}

/* Ends the sentence of a failed fetch. */
static enum xt_status by_hand(const struct get *get, const char *why, const char *said,
                              struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_RUN,
                      "%s%s%s; the same command continues, or fetch %s on a machine with a "
                      "network, put it at %s and give this command, which checks it",
                      why, *said ? ": " : "", said, get->url.data, get->path.text);
}

static uint64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

/* Creates the unfinished file, so that curl writes into no link. */
static enum xt_status begin_part(const struct get *get, bool anew, struct xt_err *err)
{
    int fd = -1;
    enum xt_status status = xt_file_open_own(get->part.text, O_WRONLY, &fd, err);
    if (!status && anew && ftruncate(fd, 0))
        status = xt_err_system(err, XT_ERR_RUN, "cannot write %s", get->part.text);
    if (fd >= 0)
        close(fd);
    return status;
}

/* Runs curl once, from where the unfinished file ends. */
static enum xt_status run_curl(const struct get *get, int *code, struct xt_process_end *end,
                               struct xt_err *err)
{
    char most[24];
    const char *protocols = get->mirrored ? "=http,https" : "=https";
    const char *const argv[] = {"curl",
                                "-q",
                                "--fail",
                                "--silent",
                                "--show-error",
                                "--location",
                                "--max-redirs",
                                "5",
                                "--proto",
                                protocols,
                                "--proto-redir",
                                protocols,
                                "--connect-timeout",
                                "20",
                                "--speed-limit",
                                "1",
                                "--speed-time",
                                "60",
                                "--max-filesize",
                                most,
                                "--continue-at",
                                "-",
                                "--output",
                                get->part.text,
                                "--url",
                                get->url.data,
                                NULL};
    struct xt_process_program program = {.argv = argv};
    struct xt_str output = {0};
    snprintf(most, sizeof most, "%" PRIu64, get->archive.bytes);
    enum xt_status status = xt_process_run_program(&program, &output, code, end, err);
    xt_str_clear(&output);
    return status ? status
                  : xt_stop_check(err, "after %" PRIu64 " bytes; the same command continues there",
                                  size_of(get->part.text));
}

/* Goes on after a connection that was cut off, as long as there is more each time. */
static enum xt_status fetch(struct get *get, struct xt_err *err)
{
    enum { MOST = 20 };
    struct xt_process_end end = {0};
    int code = 0;
    bool anew = false;
    for (int i = 0; i < MOST; i++) {
        uint64_t before = size_of(get->part.text);
        enum xt_status status = begin_part(get, anew, err);
        if (!status && before < get->archive.bytes)
            status = run_curl(get, &code, &end, err);
        if (status)
            return status;
        bool more = size_of(get->part.text) > before;
        if (!code && !end.signal)
            return XT_OK;
        if (code == NOT_FOUND)
            return by_hand(get, "curl is not installed (apt-get install curl)", "", err);
        if (code == CURL_WRITE)
            return xt_err_set(err, XT_ERR_RUN,
                              "cannot write %s, is the disk full? Make room and give the same "
                              "command again, which continues: %s",
                              get->part.text, end.said);
        anew = code == CURL_NO_RANGES && before;
        if (!anew && !(more && code == CURL_PARTIAL))
            break;
        xt_log_note("%s after %" PRIu64 " bytes; %s",
                    anew ? "the server cannot continue" : "the connection was cut off",
                    size_of(get->part.text), anew ? "from the beginning" : "continuing");
    }
    return by_hand(get, "the fetch failed", end.signal ? strsignal(end.signal) : end.said, err);
}

/* Whether the file is the archive; *why is the reason against it. */
static enum xt_status check(const struct get *get, const char *path, char why[160],
                            struct xt_err *err)
{
    struct xt_sha256_text found;
    uint64_t size = size_of(path);
    size_t hashed = 0;
    *why = '\0';
    if (size != get->archive.bytes) {
        snprintf(why, 160, "has %" PRIu64 " bytes, the archive %" PRIu64, size, get->archive.bytes);
        return XT_OK;
    }
    enum xt_status status = xt_proof_hash(path, &found, &hashed, err);
    if (!status && strcmp(found.text, get->archive.sha256) != 0)
        snprintf(why, 160, "is not the archive: its SHA-256 begins with %.16s, not %.16s",
                 found.text, get->archive.sha256);
    return status;
}

static enum xt_status sync_path(const char *path, int flags, struct xt_err *err)
{
    int fd = open(path, flags | O_CLOEXEC);
    bool good = fd >= 0 && (!fsync(fd) || errno == EINVAL);
    enum xt_status status =
        good ? XT_OK : xt_err_system(err, XT_ERR_RUN, "cannot write %s to the disk", path);
    if (fd >= 0)
        close(fd);
    return status;
}

/* Gives the whole file its name. One that is wrong is moved aside, so that the next start begins
 * anew. */
static enum xt_status finish(const struct get *get, struct xt_err *err)
{
    char why[160];
    enum xt_status status = check(get, get->part.text, why, err);
    if (!status && *why) {
        const struct xt_path aside = xt_file_beside(get->path.text, ".wrong");
        bool moved = !rename(get->part.text, aside.text);
        return xt_err_set(err, XT_ERR_DATA, "what %s sent %s; it is kept as %s", get->url.data, why,
                          moved ? aside.text : get->part.text);
    }
    if (!status)
        status = sync_path(get->part.text, O_RDONLY, err);
    if (!status && rename(get->part.text, get->path.text))
        status = xt_err_system(err, XT_ERR_RUN, "cannot rename %s to %s", get->part.text,
                               get->path.text);
    return status ? status : sync_path(get->folder, O_RDONLY | O_DIRECTORY, err);
}

static enum xt_status obtain(struct get *get, struct xt_err *err)
{
    char why[160];
    enum xt_status status = XT_OK;
    if (xt_file_exists(get->path.text)) {
        status = check(get, get->path.text, why, err);
        return status || !*why
                   ? status
                   : xt_err_set(err, XT_ERR_DATA, "%s %s; rename it, or name another folder",
                                get->path.text, why);
    }
    xt_log_note("fetching %s (%" PRIu64 " MB)", get->url.data, get->archive.bytes / 1000000);
    get->fetched = true;
    status = fetch(get, err);
    return status ? status : finish(get, err);
}

static enum xt_status tell(const struct get *get, struct xt_err *err)
{
    struct xt_str next = {0};
    struct xt_report *report = xt_report_create();
    xt_str_append_word(&next, program_invocation_name, NULL);
    xt_str_printf(&next, NULL, " --model resnet50 --image-size 32 --data ");
    enum xt_status status = xt_str_append_word(&next, get->folder, err);
    xt_report_line(report, "%s %s, with the size and SHA-256 that it is known by", get->path.text,
                   get->fetched ? "is fetched" : "was there");
    xt_report_values(report, "path=%s bytes=%zu sha256=%s", get->path.text,
                     (size_t)get->archive.bytes, get->archive.sha256);
    xt_report_flag(report, "fetched", NULL, get->fetched, "", "");
    xt_report_line(report, "next: %s", xt_str_get(&next));
    xt_result_next(xt_str_get(&next));
    xt_str_clear(&next);
    if (!status)
        return xt_result_put(report, err);
    xt_report_destroy(report);
    return status;
}

enum xt_status xt_cmd_data_get(struct xt_options *options, struct xt_err *err)
{
    struct get get = {.folder = options->arguments[1]};
    char sha256[65] = "";
    char name[64];
    if (options->argument_count > 2)
        return xt_err_set(err, XT_ERR_USAGE, "data get takes one set and one folder; %s is more",
                          options->arguments[2]);
    enum xt_status status = find_archive(&get, options->arguments[0], err);
    if (!status)
        status = choose_address(&get, sha256, err);
    if (!status)
        status = xt_file_make_folder(get.folder, err);
    if (!status) {
        snprintf(name, sizeof name, ".%s.part", get.archive.name);
        get.path = xt_file_path(get.folder, get.archive.name);
        get.part = xt_file_path(get.folder, name);
    }
    if (!status)
        status = obtain(&get, err);
    if (!status)
        status = tell(&get, err);
    xt_str_clear(&get.url);
    return status;
}
