/* The step of a recurrent layer, as in PyTorch. Of a step's gates `a` are by the input and u = R h
 * + b by the state before; s is the logistic function.
 *
 * LSTM (Hochreiter and Schmidhuber 1997; Gers et al. 2000), gates i, f, g, o:
 *     c = s(a_f + u_f) c + s(a_i + u_i) tanh(a_g + u_g), h = s(a_o + u_o) tanh(c)
 * GRU (Cho et al. 2014), gates r, z, n:
 *     n = tanh(a_n + s(a_r + u_r) u_n), z = s(a_z + u_z), h = (1 - z) n + z h
 * Elman (1990), without gates: h = tanh(a + u), or the positive part of a + u.
 */
#pragma once

enum xt_recurrence { XT_LSTM, XT_GRU, XT_RNN_TANH, XT_RNN_RELU, XT_RECURRENCES };
enum { XT_RECURRENCE_GATES_MAX = 4 };

static inline int xt_recurrence_gates(enum xt_recurrence kind)
{
    return kind == XT_LSTM ? 4 : kind == XT_GRU ? 3 : 1;
}
