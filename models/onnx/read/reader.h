/* The state of reading an ONNX model: its nodes and values, and what is known of each.
 *
 * The steps: graph.c joins the nodes by the names of their values; signature.c and restore.c find
 * out which tensors are PyTorch's parameters; patterns.c and picked.c replace nodes that exporters
 * write for one operator; read.c walks what the output needs: values that do not depend
 * on the images are computed (fold.c), views are recorded (view.c), and everything else becomes
 * nodes of the net (layers.c, math.c, shapes.c and others). The first failure is stored in the
 * reader; functions that return a pointer then return NULL, those that return a bool false.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/net/net.h"
#include "models/onnx/read/file.h"

/* The batch is not known: it is computed with as this number, a prime that is larger than any other
 * dimension may be, so that a multiple of it is that many batches. */
#define XT_READ_BATCH ((int64_t)1000003)

enum {
    XT_READ_DIMS_MAX = XT_FILE_DIMS_MAX,
    XT_READ_FACTORS_MAX = 12,
    XT_READ_NODES_MAX = 50000,
    XT_READ_VALUES_MAX = 200000,
    XT_READ_NUMBERS_MAX = 1 << 18,  /* of a value that is computed while reading */
    XT_READ_COMPUTED_MAX = 1 << 25, /* of all of them */
    XT_READ_STORED_MAX = 1 << 20,   /* of a tensor of the file that is a constant */
    XT_READ_MOVED_MAX = 1 << 27,    /* of all weights that are laid out anew */
};

/* A value that does not depend on the images. */
struct xt_read_constant {
    int ndims;
    int64_t dims[XT_READ_DIMS_MAX];
    size_t count;
    bool is_float;
    double *numbers;                     /* NULL: the tensor's, until somebody asks */
    const struct xt_file_tensor *tensor; /* the initializer that it is; NULL: computed */
    const char *name; /* of that, or as which it is handed on: exporters store what is alike once */
    bool of_weights;  /* computed from what may be trained */
    bool transposed;  /* it is that tensor, of two dimensions, with them swapped */
    bool each_sample; /* its first axis, of length 1, stands for the batch */
    bool is_fixed;    /* a constant, whatever it is called */
    bool is_counted;  /* `is_gathered` says whether most numbers are there several times */
    bool is_gathered;
};

/* Where elements of a net's value lie: XT_AXIS_H, _W, _C, or in the batch. */
enum { XT_READ_N = XT_AXES, XT_READ_NONE };

/* A value that depends on the images, as axes of ONNX over a net's value. Each of the value's axes
 * is a product of factors, outermost first; an axis of ONNX is some of them, in any order. */
struct xt_read_view {
    struct xt_value *value;
    int factor_count; /* in the order of the value: N, H, W, C */
    struct xt_read_factor {
        int64_t size;
        int home; /* enum xt_axis or XT_READ_N */
    } factors[XT_READ_FACTORS_MAX];
    int ndims;
    struct xt_read_axis {
        int count; /* 0: of length 1 */
        int factors[XT_READ_FACTORS_MAX];
    } axes[XT_READ_DIMS_MAX];
    double scale;    /* that the value is still to be multiplied by */
    int64_t pad[4];  /* zeros that are still to be put around it: top, left, bottom, right */
    bool pads_least; /* not zeros, but what no maximum is: a max pool's padding */
};

struct xt_read_node;

struct xt_read_value {
    const char *name; /* "": an optional input that is not given */
    struct xt_read_node *producer;
    int readers; /* nodes that read it */
    bool is_input;
    bool of_images; /* computed from the input */
    bool is_empty;  /* a part of no elements, which a Concat leaves out */
    const Onnx__TensorProto *initializer;
    struct xt_read_constant *constant; /* known so far: at most one of both */
    struct xt_read_view *view;
};

struct xt_read_node {
    const Onnx__NodeProto *proto;
    const char *op;                           /* the type; of a pattern its name in brackets */
    struct xt_read_value **inputs, **outputs; /* a missing one is NULL */
    int input_count, output_count;
    bool live;                         /* the output needs it */
    bool tried;                        /* to compute it where nothing needs it: assign.c */
    const struct xt_read_node *choice; /* the If of whose branch it is; NULL: of none */
    bool in_then;                      /* of the branch that is taken where it holds */
    struct xt_activation activation;   /* of "(activation)" */
    double number;                     /* of a pattern: eps, p */
};

/* What a tensor of the file is in PyTorch. */
enum xt_read_origin {
    XT_READ_UNKNOWN,   /* the file does not say */
    XT_READ_PARAMETER, /* is trained */
    XT_READ_BUFFER,    /* is not */
    XT_READ_MADE,      /* the exporter's own: a constant, or computed from parameters */
};

/* By the signature that PyTorch's newer exporter writes (dynamo=True). */
struct xt_read_signature {
    struct xt_read_target {
        const char *name;
        bool is_buffer;
        bool runs;        /* nodes are of its module */
        bool unexplained; /* it is lost, and no tensor of its module seems to be what is left */
        struct xt_read_value *restored; /* restore.c; NULL: it is in the file, or still lost */
    } * targets;
    size_t count;
    const char *lost; /* a parameter that is not in the file, and no folded norm's; NULL: none */
    char (*modules)[XT_PARAM_NAME_MAX]; /* of each node, "" of the network itself, "?" not known;
                                           NULL: nothing is lost */
    const char *unexplained;            /* the first that is; NULL: none */
    bool folded;                        /* a batch norm's is not in the file */
    bool splits;                        /* parameters were stored with others that begin alike */
};

struct xt_reader {
    struct xt_onnx_file file;
    struct xt_read_signature signature; /* no targets: the file has none */
    struct xt_weight_file store; /* memory of the reading; initial weights, named as the net's */
    struct xt_err err;
    int64_t opset;
    int64_t fixed_batch; /* that the file was written for; 0: any */
    struct xt_read_node *nodes;
    size_t node_count;
    struct xt_read_value **by_name; /* all values, sorted */
    size_t value_count;
    struct xt_read_value *input, *output;
    int side; /* of images whose size is open; 0: not known */
    int height, width, colours;
    bool colours_last; /* [n][h][w][c] */
    struct xt_net *net;
    const struct xt_file_tensor **initial; /* of each parameter of the net; NULL: none */
    bool *initial_transposed;
    size_t initial_capacity;
    size_t computed; /* numbers, while reading */
    size_t norms;    /* in the net, of any kind */
    size_t moved;    /* numbers of weights that were laid out anew */
    bool is_foreign; /* another exporter than PyTorch's wrote it, or PyTorch's a network of Keras */
    bool has_sines;  /* what the network makes for each sample is computed, as far as it can be */
    bool norm_forms[2];            /* batch norms are in evaluation form, in training form */
    const struct xt_value *pixels; /* as the network has normalised them so far */
    double pixel_scale;            /* by which it multiplied them */
};

/* ---- failures ---- */

bool xt_reader_fails(const struct xt_reader *reader);
/* "NODE (OP): " and the sentence; always NULL, which is false too. `node` may be NULL. */
void *xt_reader_refuse(struct xt_reader *reader, const struct xt_read_node *node,
                       const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Zeroed, until the reader goes; NULL after a failure. */
void *xt_reader_take(struct xt_reader *reader, size_t count, size_t size);

/* ---- nodes ---- */

bool xt_reader_load(struct xt_reader *reader); /* graph.c */
/* The value of that name; NULL: there is none. */
struct xt_read_value *xt_read_named(const struct xt_reader *reader, const char *name);
/* Adds values of new names, which stay the caller's; false after a failure. */
bool xt_reader_add(struct xt_reader *reader, struct xt_read_value *const values[], size_t count);
/* Whether the name of any value begins so. */
bool xt_read_begins_with(const struct xt_reader *reader, const char *start);
bool xt_reader_match(struct xt_reader *reader); /* patterns.c */
/* Whether the node is of no branch, or of branches that are taken: false also where that is not
 * known. */
bool xt_read_is_taken(struct xt_reader *reader, const struct xt_read_node *node);
/* Whether the node is of that type. */
bool xt_read_is(const struct xt_read_node *node, const char *op);
/* The input; NULL where it is not given. */
struct xt_read_value *xt_read_input(const struct xt_read_node *node, int i);
const Onnx__AttributeProto *xt_read_attribute(const struct xt_read_node *node, const char *name);
int64_t xt_read_int(const struct xt_read_node *node, const char *name, int64_t otherwise);
double xt_read_float(const struct xt_read_node *node, const char *name, double otherwise);
/* "" if there is none; at most 31 bytes. */
struct xt_read_text {
    char text[32];
};
struct xt_read_text xt_read_string(const struct xt_read_node *node, const char *name);
/* Whole numbers: of an attribute, or since an opset of an input. The count; -1: not given;
 * XT_READ_DIMS_MAX at most. */
int xt_read_ints(struct xt_reader *reader, const struct xt_read_node *node, const char *attribute,
                 int input, int64_t out[XT_READ_DIMS_MAX]);
/* The same, `most` at most. */
int xt_read_int_list(struct xt_reader *reader, const struct xt_read_node *node,
                     const char *attribute, int input, int64_t *out, size_t most);

/* ---- constants: fold.c ---- */

/* The value as a constant, from its initializer or Constant node; NULL: not a constant so far. */
struct xt_read_constant *xt_read_constant_of(struct xt_reader *reader, struct xt_read_value *value);
/* Its numbers, where they are few enough; NULL else. */
const double *xt_read_numbers(struct xt_reader *reader, struct xt_read_constant *constant);
/* Whether one axis alone is not of length 1. */
bool xt_read_is_vector(const int64_t *dims, int ndims);
/* As a whole number, at most INT64_MAX. */
int64_t xt_read_whole(double number);
/* Whether all elements are equal, and their value; not of NULL. */
bool xt_read_all_equal(struct xt_reader *reader, struct xt_read_constant *constant, double *out);
/* The value of a constant whose elements are all equal; false for others, and for parameters. */
bool xt_read_number(struct xt_reader *reader, struct xt_read_value *value, double *out);
/* A Clip's limits, infinite where there is none: attributes up to opset 10, then inputs; false
 * where they are not known. */
bool xt_read_limits(struct xt_reader *reader, const struct xt_read_node *node, double *low,
                    double *high);
/* A new one of this shape, its numbers to be filled; NULL: too large. */
struct xt_read_constant *xt_read_make(struct xt_reader *reader, int ndims, const int64_t dims[],
                                      bool is_float);
/* einsum.c: of two constants; NULL: not understood, or too many products. */
struct xt_read_constant *xt_read_einsum_of(struct xt_reader *reader,
                                           const struct xt_read_node *node,
                                           struct xt_read_constant *const in[2]);
/* Computes the node where all that it reads is known: false where it is not, or cannot be. */
bool xt_read_fold(struct xt_reader *reader, struct xt_read_node *node);

/* ---- PyTorch's names: signature.c ---- */

/* Reads the file's signature, where it has one. */
bool xt_read_take_signature(struct xt_reader *reader);
enum xt_read_origin xt_read_origin_of(const struct xt_reader *reader, const char *name);
/* Whether the file has a tensor of that name. */
bool xt_read_is_initializer(const struct xt_reader *reader, const char *name);
/* Whether an exporter made the name up: the parameter's own is lost. */
bool xt_read_is_made_up(const struct xt_reader *reader, const char *name);
/* Whether it is made up, or another exporter's: no name that PyTorch would find. */
bool xt_read_is_lost(const struct xt_reader *reader, const char *name);
/* Whether the parameter is the module's, or of one in that. */
bool xt_read_lies_in(const char *parameter, const char *module);
/* What it is called in the module; NULL: it is not the module's, or of one in that. "" is the
 * network. */
const char *xt_read_own_name(const char *parameter, const char *module);
/* Whether it is a parameter, of which nothing may be taken as it happens to be now. */
bool xt_read_is_learned(const struct xt_reader *reader, const struct xt_read_constant *constant);
/* Whether it is known to be none, but numbers that do not change. */
bool xt_read_is_numbers(const struct xt_reader *reader, const struct xt_read_constant *constant);
/* PyTorch's name of a parameter that the exporter gave another shape and name: the weight or bias
 * (`own`) of the module that the node is of, which is not in the file; NULL: not known. */
const char *xt_read_lost_name(const struct xt_reader *reader, const struct xt_read_node *node,
                              const char *own);
/* The same of any parameter of the module, "weight_ih_l0". */
const char *xt_read_lost_of(const struct xt_reader *reader, const struct xt_read_node *node,
                            const char *own);
/* The same of the only one that the module has lost, whatever it is called. */
const char *xt_read_only_lost(const struct xt_reader *reader, const struct xt_read_node *node);
/* Whether a tensor of equal numbers is known to be one parameter, of one module that has lost no
 * other. */
bool xt_read_is_one(const struct xt_reader *reader, const struct xt_read_value *value);
/* Whether the module is known to be one of PyTorch's own. */
bool xt_read_is_of_torch(const struct xt_read_node *node);
/* How many nodes of the same operator and module are before it; -1: the module is not known. */
int xt_read_place_in_module(const struct xt_reader *reader, const struct xt_read_node *node);
/* The parameter or buffer of that name in the module; NULL: it has none. */
struct xt_read_target *xt_read_target_of(const struct xt_reader *reader, const char *module,
                                         const char *own);
/* Whether it is a parameter that is neither in the file nor in the net. */
bool xt_read_is_missing(const struct xt_reader *reader, const struct xt_read_target *target);
/* Puts back the parameters that PyTorch's newer exporter leaves out: restore.c. */
bool xt_read_restore(struct xt_reader *reader);
/* Notes that the node reads a constant, where no lost parameter can be what it was computed from.
 */
void xt_read_note_fixed(struct xt_reader *reader, const struct xt_read_node *node,
                        struct xt_read_constant *constant);
/* Refuses numbers that the exporter may have computed from a parameter: one that is lost, or one
 * whose function they are. */
bool xt_read_check_origin(struct xt_reader *reader, const struct xt_read_node *node,
                          struct xt_read_constant *constant);
/* The same of every constant that the node reads. */
bool xt_read_check_inputs(struct xt_reader *reader, const struct xt_read_node *node);

/* ---- other exporters: foreign.c ---- */

/* Whether this program wrote the file. */
bool xt_read_is_own_export(const struct xt_reader *reader);
/* Finds out whether it is another exporter's; the values of such a file get names without slashes
 * and colons. */
void xt_read_find_producer(struct xt_reader *reader);
/* Whether that tensor of such a file is a number of the network's code. */
bool xt_read_is_foreign_number(const struct xt_reader *reader, const char *name);
/* In a file of another exporter, the name of a parameter, or of the layer whose weights it is, by
 * the tensor's, or by the node's where the exporter computed the tensor: false where that gives
 * none, or one that another has. */
bool xt_read_foreign_name(const struct xt_reader *reader, const struct xt_read_node *node,
                          const char *tensor, char out[XT_PARAM_NAME_MAX]);
bool xt_read_foreign_layer(const struct xt_reader *reader, const struct xt_read_node *node,
                           const char *tensor, char out[XT_PARAM_NAME_MAX]);

/* ---- views: view.c ---- */

int64_t xt_read_dim(const struct xt_read_view *view, int axis);
/* A view of a value whose axes are those homes (N, C, H, W of an image); XT_READ_NONE: of length 1.
 */
struct xt_read_view *xt_read_view(struct xt_reader *reader, struct xt_value *value, int ndims,
                                  const int homes[]);
/* The view's values laid out so that each of its axes lies in that home: several axes of one home
 * in their order. Nodes are added where they lie otherwise; NULL: it cannot be. */
struct xt_value *xt_read_lay_out(struct xt_reader *reader, const struct xt_read_node *node,
                                 struct xt_read_view *view, const int homes[]);
/* The view of what an op makes of a view that was laid out: the same axes, but that one which has
 * its home for itself may be longer or shorter. */
struct xt_read_view *xt_read_after(struct xt_reader *reader, const struct xt_read_node *node,
                                   const struct xt_read_view *view,
                                   const struct xt_read_view *other, const int homes[],
                                   struct xt_value *value);
/* The view with an axis of length 1 repeated, which lies between others in its home. */
struct xt_read_view *xt_read_spread(struct xt_reader *reader, const struct xt_read_node *node,
                                    struct xt_read_view *view, const int homes[], int axis,
                                    int64_t times);
/* The view's value, multiplied by its scale. */
struct xt_value *xt_read_settle(struct xt_reader *reader, const struct xt_read_node *node,
                                struct xt_read_view *view);
/* Which home each axis lies in now; false where one lies in several, or two in one out of order. */
bool xt_read_homes(const struct xt_read_view *view, int homes[]);
struct xt_read_view *xt_read_copy(struct xt_reader *reader, const struct xt_read_view *view);
/* A copy with axes of length 1 in front, `ndims` in all. */
struct xt_read_view *xt_read_with_axes(struct xt_reader *reader, const struct xt_read_view *view,
                                       int ndims);
/* A view with other axes over the same elements: XT_READ_BATCH is the batch. NULL: they do not fit.
 */
struct xt_read_view *xt_read_reshape(struct xt_reader *reader, const struct xt_read_node *node,
                                     struct xt_read_view *view, int ndims, const int64_t dims[]);
/* The indices start, start + step, ... of an axis. */
struct xt_read_view *xt_read_take(struct xt_reader *reader, const struct xt_read_node *node,
                                  struct xt_read_view *view, int axis, int64_t start, int64_t step,
                                  int64_t count);

/* ---- the net: layers.c, math.c, read.c ---- */

/* Whether a batch norm is in training form. */
bool xt_read_norm_trains(const struct xt_reader *reader, const struct xt_read_node *node);
/* A value's view; of an initializer a parameter's. NULL: it has none. */
struct xt_read_view *xt_read_view_of(struct xt_reader *reader, const struct xt_read_node *node,
                                     struct xt_read_value *value);
