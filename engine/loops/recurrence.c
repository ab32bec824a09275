/* Steps of recurrent layers, defined in recurrence_job.h. */
#include "engine/loops/activation_value.h"
#include "engine/loops/table.h"

enum {
    STRIP = 2 * WIDTH, /* outputs of a product that stay in registers, of some rows */
    TILE = WIDTH == 16  ? 8
           : WIDTH == 8 ? 6
                        : 4,
    GATES = XT_RECURRENCE_GATES_MAX
};

/* ---- products: out[rows][outputs] = in[rows][inputs] by a packed matrix ---- */

#ifdef __AVX512BF16__
enum { BY_PAIRS = 1 };
#else
enum { BY_PAIRS = 0 };
#endif

static float rounded_to(enum xt_dtype dtype, float number)
{
    return dtype == XT_BF16 ? xt_bf16_to_float((uint16_t)(xt_bf16_round(number) >> 16)) : number;
}

/* [strips][inputs][STRIP]; of bf16, where an instruction multiplies it, [strips][pairs of
 * inputs][STRIP][2]. */
void XT_LOOPS_NAME(recurrence_pack)(enum xt_dtype dtype, const float *from, const size_t strides[2],
                                    int outputs, int inputs, int part, int parts, float *to)
{
    int strips = (outputs + STRIP - 1) / STRIP;
    bool by_pairs = BY_PAIRS && dtype == XT_BF16;
    size_t rows = by_pairs ? ((size_t)inputs + 1) / 2 : (size_t)inputs;
    for (int strip = strips * part / parts; strip < strips * (part + 1) / parts; strip++) {
        float *own = to + (size_t)strip * rows * STRIP;
        int count = outputs - strip * STRIP < STRIP ? outputs - strip * STRIP : STRIP;
        memset(own, 0, rows * STRIP * sizeof *own);
        for (size_t o = 0; o < (size_t)count; o++)
            for (size_t i = 0; i < (size_t)inputs; i++) {
                size_t output = (size_t)strip * STRIP + o;
                float number = from[output * strides[0] + i * strides[1]];
                if (by_pairs)
                    store(own, (i / 2 * STRIP + o) * 2 + i % 2, number, XT_BF16);
                else
                    own[i * STRIP + o] = rounded_to(dtype, number);
            }
    }
}

struct product {
    const float *in;
    size_t inputs, in_stride;
    const float *packed;
    int outputs;
    float *out; /* whole strips of outputs */
    size_t out_stride;
    uint32_t *pairs; /* room for a row's inputs, for each row */
};

XT_INLINE void multiply_tile(const struct product *p, int row, int rows, const float *packed,
                             float *out)
{
    const float *in = p->in + (size_t)row * p->in_stride;
    vec sums[TILE][2];
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = vec_of(0);
    for (size_t i = 0; i < p->inputs; i++, packed += STRIP) {
        vec left = load_vec(packed, 0, XT_F32);
        vec right = load_vec(packed, WIDTH, XT_F32);
        for (int r = 0; r < rows; r++) {
            vec one = vec_of(in[(size_t)r * p->in_stride + i]);
            sums[r][0] += one * left;
            sums[r][1] += one * right;
        }
    }
    for (int r = 0; r < rows; r++) {
        store_vec(out, (size_t)r * p->out_stride, sums[r][0], XT_F32);
        store_vec(out, (size_t)r * p->out_stride + WIDTH, sums[r][1], XT_F32);
    }
}

#ifdef __AVX512BF16__
static size_t pairs_of(const struct product *p)
{
    return (p->inputs + WIDTH - 1) / WIDTH * (WIDTH / 2);
}

static void make_pairs(const struct product *p, int rows)
{
    for (int r = 0; r < rows; r++)
        for (size_t i = 0; i < p->inputs; i += WIDTH) {
            size_t count = p->inputs - i < WIDTH ? p->inputs - i : WIDTH;
            vec numbers = load_part(p->in + (size_t)r * p->in_stride, i, count, XT_F32);
            store_vec(p->pairs + (size_t)r * pairs_of(p), i, numbers, XT_BF16);
        }
}

XT_INLINE void multiply_pairs(const struct product *p, int row, int rows, const float *packed,
                              float *out)
{
    const uint32_t *in = p->pairs + (size_t)row * pairs_of(p);
    __m512 sums[TILE][2];
    for (int r = 0; r < rows; r++)
        sums[r][0] = sums[r][1] = _mm512_setzero_ps();
    for (size_t i = 0; i < (p->inputs + 1) / 2; i++, packed += STRIP) {
        __m512bh left = (__m512bh)_mm512_loadu_si512(packed);
        __m512bh right = (__m512bh)_mm512_loadu_si512(packed + WIDTH);
        for (int r = 0; r < rows; r++) {
            __m512bh one = (__m512bh)_mm512_set1_epi32((int)in[(size_t)r * pairs_of(p) + i]);
            sums[r][0] = _mm512_dpbf16_ps(sums[r][0], one, left);
            sums[r][1] = _mm512_dpbf16_ps(sums[r][1], one, right);
        }
    }
    for (int r = 0; r < rows; r++) {
        store_vec(out, (size_t)r * p->out_stride, (vec)sums[r][0], XT_F32);
        store_vec(out, (size_t)r * p->out_stride + WIDTH, (vec)sums[r][1], XT_F32);
    }
}
#else
static void make_pairs(const struct product *p, int rows)
{
    (void)p;
    (void)rows;
}

XT_INLINE void multiply_pairs(const struct product *p, int row, int rows, const float *packed,
                              float *out)
{
    multiply_tile(p, row, rows, packed, out);
}
#endif

XT_INLINE void multiply_rows(const struct product *p, int row, int rows, const float *packed,
                             float *out, bool by_pairs)
{
    out += (size_t)row * p->out_stride;
    if (by_pairs)
        multiply_pairs(p, row, rows, packed, out);
    else
        multiply_tile(p, row, rows, packed, out);
}

XT_INLINE void multiply(const struct product *p, int rows, enum xt_dtype dtype)
{
    const bool by_pairs = BY_PAIRS && dtype == XT_BF16;
    size_t strip = (by_pairs ? (p->inputs + 1) / 2 : p->inputs) * STRIP;
    if (by_pairs)
        make_pairs(p, rows);
    for (int first = 0; first < p->outputs; first += STRIP) {
        const float *packed = p->packed + (size_t)(first / STRIP) * strip;
        int r = 0;
        for (; r + TILE <= rows; r += TILE)
            multiply_rows(p, r, TILE, packed, p->out + first, by_pairs);
        for (; r < rows; r++)
            multiply_rows(p, r, 1, packed, p->out + first, by_pairs);
    }
}

/* ---- a step's own numbers ---- */

struct step {
    const struct xt_recurrence_job *job;
    size_t first;          /* row */
    int rows;              /* of this step, at most XT_RECURRENCE_ROWS */
    size_t hidden, stride; /* stride: of the gates' sums, whole strips */
    float *sums;           /* [rows][stride]: products, backward the gradients of the gates */
    float *state;          /* [rows][state_stride]: the state before; backward its gradient */
    size_t state_stride;
    float *cell;     /* [rows][hidden]: the cell; backward what is carried to the step before */
    uint32_t *pairs; /* [rows][stride / 2], of bf16 */
};

static size_t strips_of(int count)
{
    return (size_t)(count + STRIP - 1) / STRIP * STRIP;
}

static struct step begin(const struct xt_recurrence_job *job, size_t first, size_t end)
{
    size_t most = XT_RECURRENCE_ROWS;
    struct step s = {.job = job,
                     .first = first,
                     .rows = (int)(end - first < most ? end - first : most),
                     .hidden = (size_t)job->hidden,
                     .stride = strips_of(xt_recurrence_gates(job->kind) * job->hidden),
                     .state_stride = strips_of(job->hidden)};
    s.sums = job->scratch;
    s.state = s.sums + most * s.stride;
    s.cell = s.state + most * s.state_stride;
    s.pairs = (uint32_t *)(s.cell + most * s.hidden);
    memset(s.state, 0, most * s.state_stride * sizeof *s.state);
    memset(s.cell, 0, most * s.hidden * sizeof *s.cell);
    return s;
}

/* The index of row r in a tensor [rows][steps], at a step. */
static size_t place(const struct step *s, int step, int r)
{
    int at = s->job->backwards ? s->job->steps - 1 - step : step;
    return (s->first + (size_t)r) * (size_t)s->job->steps + (size_t)at;
}

/* `count` numbers, WIDTH or less. */
XT_INLINE vec take(const void *from, size_t i, size_t count, enum xt_dtype dtype)
{
    return count == WIDTH ? load_vec(from, i, dtype) : load_part(from, i, count, dtype);
}
XT_INLINE void put(void *to, size_t i, size_t count, vec v, enum xt_dtype dtype)
{
    if (count == WIDTH)
        store_vec(to, i, v, dtype);
    else
        store_part(to, i, count, v, dtype);
}

XT_INLINE vec logistic(vec x)
{
    return sigmoid(x, XT_F32);
}
XT_INLINE vec tangent(vec x)
{
    return 2 * sigmoid(2 * x, XT_F32) - 1;
}

/* Some units of a row at a step. `count` is at most WIDTH. */
struct units {
    const struct step *step;
    int row;
    size_t at;     /* pixel */
    size_t before; /* that of the step before */
    bool first;    /* of the sequence */
    size_t j, count;
};

XT_INLINE struct units units_of(const struct step *s, int step, int row, size_t j, size_t count)
{
    return (struct units){.step = s,
                          .row = row,
                          .at = place(s, step, row),
                          .before = step ? place(s, step - 1, row) : 0,
                          .first = step == 0,
                          .j = j,
                          .count = count};
}

/* Gate `gate` of those in a tensor that has `gates` for each unit. */
XT_INLINE vec take_gate(const struct units *u, const void *from, int gates, int gate,
                        enum xt_dtype dtype)
{
    size_t first = (u->at * (size_t)gates + (size_t)gate) * u->step->hidden;
    return take(from, first + u->j, u->count, dtype);
}
XT_INLINE void put_gate(const struct units *u, void *to, int gates, int gate, vec v,
                        enum xt_dtype dtype)
{
    size_t first = (u->at * (size_t)gates + (size_t)gate) * u->step->hidden;
    put(to, first + u->j, u->count, v, dtype);
}

/* ---- forward ---- */

/* A gate by the state, with the bias. */
XT_INLINE vec by_state(const struct units *u, int gate)
{
    const struct step *s = u->step;
    size_t i = (size_t)gate * s->hidden + u->j;
    vec sum = take(s->sums + (size_t)u->row * s->stride, i, u->count, XT_F32);
    return s->job->bias ? sum + take(s->job->bias, i, u->count, XT_F32) : sum;
}

XT_INLINE vec run_lstm(const struct units *u, enum xt_dtype dtype)
{
    const struct xt_recurrence_job *job = u->step->job;
    float *cell = u->step->cell + (size_t)u->row * u->step->hidden;
    vec i = logistic(take_gate(u, job->gates, 4, 0, dtype) + by_state(u, 0));
    vec f = logistic(take_gate(u, job->gates, 4, 1, dtype) + by_state(u, 1));
    vec g = tangent(take_gate(u, job->gates, 4, 2, dtype) + by_state(u, 2));
    vec o = logistic(take_gate(u, job->gates, 4, 3, dtype) + by_state(u, 3));
    vec c = f * take(cell, u->j, u->count, XT_F32) + i * g;
    put(cell, u->j, u->count, c, XT_F32);
    if (job->with_cell)
        put_gate(u, job->out, 2, 1, c, dtype);
    if (job->activated) {
        put_gate(u, job->cells, 1, 0, c, XT_F32);
        put_gate(u, job->activated, GATES, 0, i, dtype);
        put_gate(u, job->activated, GATES, 1, f, dtype);
        put_gate(u, job->activated, GATES, 2, g, dtype);
        put_gate(u, job->activated, GATES, 3, o, dtype);
    }
    return o * tangent(c);
}

XT_INLINE vec run_gru(const struct units *u, enum xt_dtype dtype)
{
    const struct xt_recurrence_job *job = u->step->job;
    const float *state = u->step->state + (size_t)u->row * u->step->state_stride;
    vec r = logistic(take_gate(u, job->gates, 3, 0, dtype) + by_state(u, 0));
    vec z = logistic(take_gate(u, job->gates, 3, 1, dtype) + by_state(u, 1));
    vec of_state = by_state(u, 2);
    vec n = tangent(take_gate(u, job->gates, 3, 2, dtype) + r * of_state);
    if (job->activated) {
        put_gate(u, job->activated, GATES, 0, r, dtype);
        put_gate(u, job->activated, GATES, 1, z, dtype);
        put_gate(u, job->activated, GATES, 2, n, dtype);
        put_gate(u, job->activated, GATES, 3, of_state, dtype);
    }
    return n + z * (take(state, u->j, u->count, XT_F32) - n);
}

XT_INLINE void run_units(const struct units *u, enum xt_recurrence kind, enum xt_dtype dtype)
{
    const struct xt_recurrence_job *job = u->step->job;
    int parts = job->with_cell ? 2 : 1;
    vec h;
    if (kind == XT_LSTM)
        h = run_lstm(u, dtype);
    else if (kind == XT_GRU)
        h = run_gru(u, dtype);
    else if (kind == XT_RNN_TANH)
        h = tangent(take_gate(u, job->gates, 1, 0, dtype) + by_state(u, 0));
    else
        h = vec_most(vec_of(0), take_gate(u, job->gates, 1, 0, dtype) + by_state(u, 0));
    put_gate(u, job->out, parts, 0, h, dtype);
    /* The next step multiplies what is stored. */
    put(u->step->state + (size_t)u->row * u->step->state_stride, u->j, u->count,
        take_gate(u, job->out, parts, 0, dtype), XT_F32);
}

/* ---- backward ---- */

XT_INLINE vec through_logistic(vec value, vec behind)
{
    return behind * value * (1 - value);
}
XT_INLINE vec through_tangent(vec value, vec behind)
{
    return behind * (1 - value * value);
}

/* A gate's gradient, and the one by the state. */
XT_INLINE void put_gradients(const struct units *u, int gates, int gate, vec d, vec by_state,
                             enum xt_dtype dtype)
{
    const struct step *s = u->step;
    put_gate(u, s->job->dgates, gates, gate, d, dtype);
    if (s->job->dstate != s->job->dgates)
        put_gate(u, s->job->dstate, gates, gate, by_state, dtype);
    put(s->sums + (size_t)u->row * s->stride, (size_t)gate * s->hidden + u->j, u->count, by_state,
        XT_F32);
}

XT_INLINE void back_lstm(const struct units *u, vec dh, enum xt_dtype dtype)
{
    const struct xt_recurrence_job *job = u->step->job;
    float *carried = u->step->cell + (size_t)u->row * u->step->hidden;
    vec i = take_gate(u, job->activated, GATES, 0, dtype);
    vec f = take_gate(u, job->activated, GATES, 1, dtype);
    vec g = take_gate(u, job->activated, GATES, 2, dtype);
    vec o = take_gate(u, job->activated, GATES, 3, dtype);
    vec t = tangent(take_gate(u, job->cells, 1, 0, XT_F32));
    vec before = vec_of(0);
    if (!u->first)
        before = take(job->cells, u->before * u->step->hidden + u->j, u->count, XT_F32);
    vec dc = take(carried, u->j, u->count, XT_F32) + through_tangent(t, dh * o);
    if (job->with_cell)
        dc += take_gate(u, job->dout, 2, 1, dtype);
    put(carried, u->j, u->count, dc * f, XT_F32);
    vec di = through_logistic(i, dc * g);
    vec df = through_logistic(f, dc * before);
    vec dg = through_tangent(g, dc * i);
    vec d_o = through_logistic(o, dh * t);
    put_gradients(u, 4, 0, di, di, dtype);
    put_gradients(u, 4, 1, df, df, dtype);
    put_gradients(u, 4, 2, dg, dg, dtype);
    put_gradients(u, 4, 3, d_o, d_o, dtype);
}

XT_INLINE void back_gru(const struct units *u, vec dh, vec before, enum xt_dtype dtype)
{
    const struct xt_recurrence_job *job = u->step->job;
    float *carried = u->step->cell + (size_t)u->row * u->step->hidden;
    vec r = take_gate(u, job->activated, GATES, 0, dtype);
    vec z = take_gate(u, job->activated, GATES, 1, dtype);
    vec n = take_gate(u, job->activated, GATES, 2, dtype);
    dh += take(carried, u->j, u->count, XT_F32);
    put(carried, u->j, u->count, dh * z, XT_F32);
    vec dn = through_tangent(n, dh - dh * z);
    vec dr = through_logistic(r, dn * take_gate(u, job->activated, GATES, 3, dtype));
    vec dz = through_logistic(z, dh * (before - n));
    put_gradients(u, 3, 0, dr, dr, dtype);
    put_gradients(u, 3, 1, dz, dz, dtype);
    put_gradients(u, 3, 2, dn, dn * r, dtype);
}

XT_INLINE void back_units(const struct units *u, enum xt_recurrence kind, enum xt_dtype dtype)
{
    const struct xt_recurrence_job *job = u->step->job;
    int parts = job->with_cell ? 2 : 1;
    vec dh = take(u->step->state + (size_t)u->row * u->step->state_stride, u->j, u->count, XT_F32) +
             take_gate(u, job->dout, parts, 0, dtype);
    vec before = vec_of(0);
    if (!u->first)
        before =
            take(job->out, u->before * (size_t)parts * u->step->hidden + u->j, u->count, dtype);
    put_gate(u, job->before, 1, 0, before, dtype);
    if (kind == XT_LSTM) {
        back_lstm(u, dh, dtype);
    } else if (kind == XT_GRU) {
        back_gru(u, dh, before, dtype);
    } else {
        vec h = take_gate(u, job->out, 1, 0, dtype);
        vec d =
            kind == XT_RNN_TANH ? through_tangent(h, dh) : where_above(h, vec_of(0), dh, vec_of(0));
        put_gradients(u, 1, 0, d, d, dtype);
    }
}

/* ---- a step, by kind and type ---- */

XT_INLINE void do_units(const struct step *s, int step, int row, size_t j, size_t count,
                        bool backward, enum xt_recurrence kind, enum xt_dtype dtype)
{
    const struct units units = units_of(s, step, row, j, count);
    if (backward)
        back_units(&units, kind, dtype);
    else
        run_units(&units, kind, dtype);
}

XT_INLINE void do_rows(const struct step *s, int step, bool backward, enum xt_recurrence kind,
                       enum xt_dtype dtype)
{
    for (int row = 0; row < s->rows; row++) {
        size_t j = 0;
        for (; j + WIDTH <= s->hidden; j += WIDTH)
            do_units(s, step, row, j, WIDTH, backward, kind, dtype);
        if (j < s->hidden)
            do_units(s, step, row, j, s->hidden - j, backward, kind, dtype);
    }
}

/* From the states to the gates' sums; backward from their gradients to the states'. */
XT_INLINE void multiply_step(const struct step *s, bool backward, enum xt_recurrence kind,
                             enum xt_dtype dtype)
{
    int gates = xt_recurrence_gates(kind) * s->job->hidden;
    const struct product product = {.in = backward ? s->sums : s->state,
                                    .inputs = backward ? (size_t)gates : s->hidden,
                                    .in_stride = backward ? s->stride : s->state_stride,
                                    .packed = s->job->weight,
                                    .outputs = backward ? s->job->hidden : gates,
                                    .out = backward ? s->state : s->sums,
                                    .out_stride = backward ? s->state_stride : s->stride,
                                    .pairs = s->pairs};
    multiply(&product, s->rows, dtype);
}

XT_INLINE void run(const struct xt_recurrence_job *job, size_t first, size_t end, bool backward,
                   enum xt_recurrence kind, enum xt_dtype dtype)
{
    for (; first < end; first += XT_RECURRENCE_ROWS) {
        struct step s = begin(job, first, end);
        for (int i = 0; i < job->steps; i++) {
            int step = backward ? job->steps - 1 - i : i;
            if (!backward)
                multiply_step(&s, false, kind, dtype);
            do_rows(&s, step, backward, kind, dtype);
            if (backward && step)
                multiply_step(&s, true, kind, dtype);
        }
    }
}

XT_INLINE void run_kind(const struct xt_recurrence_job *job, size_t first, size_t end,
                        bool backward, enum xt_recurrence kind)
{
    if (job->dtype == XT_F32)
        run(job, first, end, backward, kind, XT_F32);
    else
        run(job, first, end, backward, kind, XT_BF16);
}

XT_INLINE void run_any(const struct xt_recurrence_job *job, size_t first, size_t end, bool backward)
{
    if (job->kind == XT_LSTM)
        run_kind(job, first, end, backward, XT_LSTM);
    else if (job->kind == XT_GRU)
        run_kind(job, first, end, backward, XT_GRU);
    else if (job->kind == XT_RNN_TANH)
        run_kind(job, first, end, backward, XT_RNN_TANH);
    else
        run_kind(job, first, end, backward, XT_RNN_RELU);
}

void XT_LOOPS_NAME(recurrence)(const struct xt_recurrence_job *job, size_t first, size_t end)
{
    run_any(job, first, end, false);
}

void XT_LOOPS_NAME(recurrence_backward)(const struct xt_recurrence_job *job, size_t first,
                                        size_t end)
{
    run_any(job, first, end, true);
}
