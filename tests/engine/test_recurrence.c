/* Recurrent layers by each build of the loops, beside plain loops in double precision: more units
 * and rows than registers hold. (The self-test holds the ops, tests/models/test_zoo.sh PyTorch's
 * numbers.)
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

#include "loop_builds.h"

static const struct xt_loops *loops; /* the build that is tested */

enum { STEPS = 5, HIDDEN = 37, ROWS = XT_RECURRENCE_ROWS + 3, GATES = XT_RECURRENCE_GATES_MAX };
enum { UNITS = ROWS * STEPS * HIDDEN, SIDE = GATES * HIDDEN };

static struct {
    float gates[GATES * UNITS], weight[SIDE * HIDDEN], bias[SIDE];
    float out[UNITS], activated[GATES * UNITS], cells[UNITS];
    float dout[UNITS], dgates[GATES * UNITS], dstate[GATES * UNITS], before[UNITS];
} numbers;
static float *packed, *scratch;

static void draw(float *to, size_t count, float scale)
{
    for (size_t i = 0; i < count; i++)
        to[i] = scale * ((float)rand() / (float)RAND_MAX * 2 - 1);
}

static int draw_numbers(void **state)
{
    (void)state;
    srand(3);
    draw(numbers.gates, GATES * UNITS, 1);
    draw(numbers.weight, SIDE * HIDDEN, 0.3F);
    draw(numbers.bias, SIDE, 0.3F);
    draw(numbers.dout, UNITS, 1);
    return 0;
}

static struct xt_recurrence_job job_of(enum xt_recurrence kind, bool backward)
{
    int count = xt_recurrence_gates(kind) * HIDDEN;
    const size_t strides[] = {backward ? 1 : HIDDEN, backward ? HIDDEN : 1};
    loops->recurrence_pack(XT_F32, numbers.weight, strides, backward ? HIDDEN : count,
                           backward ? count : HIDDEN, 0, 1, packed);
    return (struct xt_recurrence_job){.kind = kind,
                                      .dtype = XT_F32,
                                      .steps = STEPS,
                                      .hidden = HIDDEN,
                                      .weight = packed,
                                      .bias = numbers.bias,
                                      .gates = numbers.gates,
                                      .out = numbers.out,
                                      .activated = numbers.activated,
                                      .cells = numbers.cells,
                                      .dout = numbers.dout,
                                      .dgates = numbers.dgates,
                                      .dstate = numbers.dstate,
                                      .before = numbers.before,
                                      .scratch = scratch};
}

/* ---- plain loops over one row, its gates by the input [STEPS][gates * HIDDEN] ---- */

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double plain_unit(enum xt_recurrence kind, const double a[GATES], const double u[GATES],
                         double before, double *cell)
{
    if (kind == XT_LSTM) {
        *cell = logistic(a[1] + u[1]) * *cell + logistic(a[0] + u[0]) * tanh(a[2] + u[2]);
        return logistic(a[3] + u[3]) * tanh(*cell);
    }
    if (kind == XT_GRU) {
        double z = logistic(a[1] + u[1]);
        return (1 - z) * tanh(a[2] + logistic(a[0] + u[0]) * u[2]) + z * before;
    }
    return kind == XT_RNN_TANH ? tanh(a[0] + u[0]) : fmax(a[0] + u[0], 0);
}

static void plain(enum xt_recurrence kind, const double *gates, double out[STEPS][HIDDEN])
{
    int count = xt_recurrence_gates(kind);
    double cell[HIDDEN] = {0};
    const double zeros[HIDDEN] = {0};
    for (int t = 0; t < STEPS; t++)
        for (int j = 0; j < HIDDEN; j++) {
            const double *before = t ? out[t - 1] : zeros;
            double a[GATES] = {0};
            double u[GATES] = {0};
            for (int k = 0; k < count; k++) {
                int i = k * HIDDEN + j;
                a[k] = gates[t * count * HIDDEN + i];
                u[k] = (double)numbers.bias[i];
                for (int m = 0; m < HIDDEN; m++)
                    u[k] += (double)numbers.weight[i * HIDDEN + m] * before[m];
            }
            out[t][j] = plain_unit(kind, a, u, before[j], &cell[j]);
        }
}

static size_t take_row(enum xt_recurrence kind, int row, double *gates)
{
    size_t count = (size_t)STEPS * HIDDEN * (size_t)xt_recurrence_gates(kind);
    for (size_t i = 0; i < count; i++)
        gates[i] = (double)numbers.gates[(size_t)row * count + i];
    return count;
}

/* What a row's gradient is of. */
static double product(enum xt_recurrence kind, int row, const double *gates)
{
    double out[STEPS][HIDDEN];
    double sum = 0;
    plain(kind, gates, out);
    for (int i = 0; i < STEPS * HIDDEN; i++)
        sum += out[i / HIDDEN][i % HIDDEN] * (double)numbers.dout[row * STEPS * HIDDEN + i];
    return sum;
}

/* ---- tests ---- */

static void states_are_those_of_plain_loops(void **state)
{
    (void)state;
    for (enum xt_recurrence kind = XT_LSTM; kind < XT_RECURRENCES; kind++) {
        const struct xt_recurrence_job job = job_of(kind, false);
        double gates[STEPS * SIDE];
        double out[STEPS][HIDDEN];
        loops->recurrence(&job, 0, ROWS);
        for (int row = 0; row < ROWS; row += ROWS - 1) {
            take_row(kind, row, gates);
            plain(kind, gates, out);
            for (int i = 0; i < STEPS * HIDDEN; i++)
                assert_float_equal(numbers.out[row * STEPS * HIDDEN + i],
                                   (float)out[i / HIDDEN][i % HIDDEN], 2e-6F);
        }
    }
}

static void gradients_are_those_of_finite_differences(void **state)
{
    const double move = 1e-5;
    (void)state;
    for (enum xt_recurrence kind = XT_LSTM; kind < XT_RECURRENCES; kind++) {
        struct xt_recurrence_job job = job_of(kind, false);
        double gates[STEPS * SIDE];
        loops->recurrence(&job, 0, ROWS);
        job = job_of(kind, true);
        loops->recurrence_backward(&job, 0, ROWS);
        for (int row = 0; row < ROWS; row += ROWS - 1) {
            size_t count = take_row(kind, row, gates);
            for (size_t i = 0; i < count; i += 7) {
                double exact = gates[i];
                gates[i] = exact + move;
                double above = product(kind, row, gates);
                gates[i] = exact - move;
                double below = product(kind, row, gates);
                gates[i] = exact;
                assert_float_equal(numbers.dgates[(size_t)row * count + i],
                                   (float)((above - below) / (2 * move)), 2e-5F);
            }
        }
    }
}

static void a_row_has_the_same_bits_whichever_rows_run_beside_it(void **state)
{
    static float together[UNITS];
    const struct xt_recurrence_job job = job_of(XT_LSTM, false);
    (void)state;
    loops->recurrence(&job, 0, ROWS);
    memcpy(together, numbers.out, sizeof together);
    for (size_t row = 0; row < ROWS; row++)
        loops->recurrence(&job, row, row + 1);
    assert_memory_equal(numbers.out, together, sizeof together);
}

static void backwards_the_last_step_comes_first(void **state)
{
    static float forwards[UNITS];
    struct xt_recurrence_job job = job_of(XT_GRU, false);
    enum { EACH = 3 * HIDDEN };
    (void)state;
    loops->recurrence(&job, 0, 1);
    memcpy(forwards, numbers.out, sizeof forwards);
    float *turned = malloc(sizeof numbers.gates);
    assert_non_null(turned);
    for (size_t t = 0; t < STEPS; t++)
        memcpy(turned + t * EACH, numbers.gates + (STEPS - 1 - t) * EACH, EACH * sizeof(float));
    job.gates = turned;
    job.backwards = true;
    loops->recurrence(&job, 0, 1);
    for (size_t t = 0; t < STEPS; t++)
        assert_memory_equal(numbers.out + t * HIDDEN, forwards + (STEPS - 1 - t) * HIDDEN,
                            HIDDEN * sizeof(float));
    free(turned);
}

static void a_gate_that_is_no_number_spoils_all_later_states(void **state)
{
    (void)state;
    for (enum xt_recurrence kind = XT_LSTM; kind < XT_RECURRENCES; kind++) {
        const struct xt_recurrence_job job = job_of(kind, false);
        size_t each = (size_t)xt_recurrence_gates(kind) * HIDDEN;
        float kept = numbers.gates[2 * each];
        numbers.gates[2 * each] = NAN;
        loops->recurrence(&job, 0, 1);
        numbers.gates[2 * each] = kept;
        assert_true(isfinite(numbers.out[HIDDEN]));
        assert_true(isnan(numbers.out[2 * HIDDEN]));
        assert_true(isnan(numbers.out[3 * HIDDEN + 1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_those_of_plain_loops),
        cmocka_unit_test(gradients_are_those_of_finite_differences),
        cmocka_unit_test(a_row_has_the_same_bits_whichever_rows_run_beside_it),
        cmocka_unit_test(backwards_the_last_step_comes_first),
        cmocka_unit_test(a_gate_that_is_no_number_spoils_all_later_states),
    };
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    int failed = 0;
    packed = malloc(xt_recurrence_packed(SIDE, HIDDEN) * 2 * sizeof *packed);
    scratch = malloc(xt_recurrence_scratch(XT_LSTM, HIDDEN) * sizeof *scratch);
    for (int i = 0; i < count && packed && scratch; i++) {
        loops = all[i];
        failed += cmocka_run_group_tests_name(loops->isa, tests, draw_numbers, NULL);
    }
    failed += !packed || !scratch;
    free(packed);
    free(scratch);
    return failed;
}
