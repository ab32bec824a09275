/* Every setting of the program, one struct per concern, as plain values. cli/options fills them
 * from one table (command line over config file over the model's recipe over the default); the only
 * other writes are for values that depend on the machine. Strings are owned by the option parser
 * and live as long as it; NULL if not given. This file holds the settings of single commands; those
 * of lower folders are in their own settings.h. */
#pragma once

#include <stdbool.h>

#include "infer/settings.h"
#include "runs/settings.h"
#include "train/settings.h"

/* Data type of an exported network. */
enum xt_export_type { XT_EXPORT_F32, XT_EXPORT_FP16, XT_EXPORT_INT8 };
/* The runtime that int8 is laid for. */
enum xt_export_for { XT_FOR_ANY, XT_FOR_ONNXRUNTIME, XT_FOR_OPENVINO };
enum xt_warm_for { XT_WARM_TRAIN, XT_WARM_EVAL, XT_WARM_PREDICT };
enum xt_pack_choice { XT_PACK_SHARDS, XT_PACK_PIXELS };
enum xt_stdin_kind { XT_STDIN_NONE, XT_STDIN_PATHS, XT_STDIN_IMAGES, XT_STDIN_FRAMES };

/* Signatures of records, and what verify does beside comparing. */
struct xt_trust_settings {
    const char *sign; /* private key; NULL: nothing is signed */
    const char *key;  /* public key; NULL: signatures are not requested */
    int64_t replay;   /* steps; 0: none */
};

struct xt_service_settings {
    const char *listen; /* an address and port, or unix:PATH */
    bool allow_remote;  /* the address may be other than loopback */
    enum xt_stdin_kind stdin_kind;
    const char *frame;      /* the size of raw frames, "640x480" */
    double max_latency;     /* seconds that a request may wait for others to share its pass */
    int max_queue;          /* requests that wait for a pass; 0: four batches */
    int max_body;           /* MiB */
    int max_pixels;         /* of an image, millions */
    double decode_time;     /* CPU seconds that an image's decoding may take */
    const char *allow_host; /* comma-separated host names that requests may use */
    int max_connections;
    double request_timeout; /* seconds from a request's first line to its last byte */
    double idle_timeout;    /* seconds without a request */
    const char *selftest;   /* URL of a service to attack; NULL: serve */
};

struct xt_export_settings {
    enum xt_export_type type;
    enum xt_export_for runtime;
    int weight_bits;      /* of int8 */
    int fixed_batch;      /* batch size of the exported model; 0: any */
    bool with_preprocess; /* the model takes bytes */
    const char *check;    /* images to compare it on */
};

struct xt_eval_settings {
    enum xt_amp compare; /* a list: the types to evaluate in; see xt_options_source */
    int show;            /* print the predictions for this many images */
    const char *errors;  /* the file that lists the wrong predictions, or NULL */
};

/* Limits of cache prune. */
struct xt_prune_settings {
    int max_size;   /* MB; 0: no limit */
    double max_age; /* seconds; 0: no limit */
};

/* warmup: lists, see xt_options_count. */
struct xt_warm_settings {
    enum xt_warm_for purpose;
    enum xt_amp types;
};

struct xt_bench_settings {
    bool profile;        /* time each op */
    bool why;            /* bench step: explain what makes it slow */
    int beside;          /* busy processes to run beside the measurement */
    const char *against; /* the results of an earlier run, as --json wrote them; data check: images
                            that must not occur among those checked */
};

struct xt_dataset_settings {
    const char *sheet;           /* data check: the contact sheet's file */
    enum xt_pack_choice pack_as; /* data pack */
    int shard_size;              /* data pack: MiB */
};

struct xt_output_settings {
    bool json;
    bool jsonl; /* lines as they come, and the object last */
    bool quiet;
    bool verbose;
    bool log_time;
};

/* Options that replace the command's work, or precede it. */
struct xt_request_settings {
    const char *config;
    bool print_config;
    bool parse_only;
    bool dry_run;
    bool version;
    bool help;
    bool all; /* help: every option */
};

struct xt_settings {
    /* not an option: the ranks that train together (ranks/ranks.h); NULL: a single process */
    struct xt_ranks *ranks;

    struct xt_data_settings data;
    struct xt_network_settings network;
    struct xt_device_settings device;
    struct xt_answer_settings answer;
    struct xt_record_settings record;
    struct xt_recipe_settings recipe;
    struct xt_run_settings run;
    struct xt_rank_settings rank;
    struct xt_service_settings service;
    struct xt_trust_settings trust;
    struct xt_export_settings export;
    struct xt_eval_settings eval;
    struct xt_prune_settings prune;
    struct xt_warm_settings warm;
    struct xt_bench_settings bench;
    struct xt_dataset_settings dataset;
    struct xt_output_settings output;
    struct xt_request_settings request;
    const char *differences; /* diff: the file that lists the images with different predictions */
    const char *page;        /* report: output file; NULL: the default */
    bool merge;              /* doctor: compare the reports of several machines */
    bool small_shapes;       /* selftest: small shapes only */
    const char *step;        /* selftest: one training step of these weights */
};
