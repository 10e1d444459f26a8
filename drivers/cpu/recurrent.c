/*
 * recurrent.c - gated units, LSTM and GRU cells, and their gradients.
 *
 * Rows are independent, and within a row element i depends on element i of each gate alone, so the output may take an
 * input's memory. Formulas: graph/op.h; the derivatives follow from sigmoid' = s (1 - s) and tanh' = 1 - t^2.
 */
#include "cpu/cpu.h"
#include "cpu/exponential.h"

#include <math.h>

/* ---- gated units ---- */

/* Value and derivative of the activations that a gate may have. */
static inline float gate_value(uint32_t activation, float a)
{
	switch (activation) {
	case ACTIVATION_SIGMOID:
		return exponential_sigmoid(a);
	case ACTIVATION_SILU:
		return a * exponential_sigmoid(a);
	case ACTIVATION_GELU_TANH:
		return a * exponential_sigmoid(1.59576912f * (a + 0.044715f * a * a * a));
	case ACTIVATION_GELU:
		return 0.5f * a * (1.0f + erff(a * 0.707106781f));
	default: /* softplus */
		return a > 0.0f ? a + log1pf(expf(-a)) : log1pf(expf(a));
	}
}

static inline float gate_slope(uint32_t activation, float a)
{
	float s = exponential_sigmoid(a);
	switch (activation) {
	case ACTIVATION_SIGMOID:
		return s * (1.0f - s);
	case ACTIVATION_SILU:
		return s * (1.0f + a * (1.0f - s));
	case ACTIVATION_GELU_TANH: {
		/* (1 + tanh(u)) / 2 = sigmoid(2u) */
		float g = exponential_sigmoid(1.59576912f * (a + 0.044715f * a * a * a));
		return g + a * g * (1.0f - g) * 1.59576912f * (1.0f + 0.134145f * a * a);
	}
	case ACTIVATION_GELU:
		return 0.5f * (1.0f + erff(a * 0.707106781f)) + a * expf(-0.5f * a * a) * 0.398942280f;
	default:
		return s;
	}
}

/* First factor of a gate, its derivative, and the second one. */
static inline float gate_first(uint32_t mode, uint32_t activation, float a)
{
	if (mode == GATE_TANH)
		return exponential_tanh(a);
	return mode == GATE_LINEAR ? a : gate_value(activation, a);
}

static inline float gate_first_slope(uint32_t mode, uint32_t activation, float a)
{
	float t = exponential_tanh(a);
	if (mode == GATE_TANH)
		return 1.0f - t * t;
	return mode == GATE_LINEAR ? 1.0f : gate_slope(activation, a);
}

static inline __attribute__((always_inline)) void gate_loop(const float *x, float *y, uint32_t n, uint32_t mode,
							    uint32_t activation)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++) {
		float b = mode == GATE_ACTIVATION ? x[n + i] : exponential_sigmoid(x[n + i]);
		y[i] = gate_first(mode, activation, x[i]) * b;
	}
}

static inline __attribute__((always_inline)) void gate_grad_loop(const float *dy, const float *x, float *dx, uint32_t n,
								 uint32_t mode, uint32_t activation)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++) {
		float a = x[i], b = x[n + i], g = dy[i];
		float second = mode == GATE_ACTIVATION ? b : exponential_sigmoid(b);
		float slope = mode == GATE_ACTIVATION ? 1.0f : second * (1.0f - second);
		dx[i] = g * gate_first_slope(mode, activation, a) * second;
		dx[n + i] = g * gate_first(mode, activation, a) * slope;
	}
}

/* Mode and activation as constants, so that each loop has no branch inside. */
#define GATE_CASES(CALL)                                     \
	if (mode == GATE_TANH)                               \
		CALL(GATE_TANH, ACTIVATION_NONE);            \
	else if (mode == GATE_LINEAR)                        \
		CALL(GATE_LINEAR, ACTIVATION_NONE);          \
	else if (activation == ACTIVATION_SILU)              \
		CALL(GATE_ACTIVATION, ACTIVATION_SILU);      \
	else if (activation == ACTIVATION_GELU_TANH)         \
		CALL(GATE_ACTIVATION, ACTIVATION_GELU_TANH); \
	else if (activation == ACTIVATION_SIGMOID)           \
		CALL(GATE_ACTIVATION, ACTIVATION_SIGMOID);   \
	else                                                 \
		CALL(GATE_ACTIVATION, activation);

CPU_CLONES static void gate_row(const float *x, float *y, uint32_t n, uint32_t mode, uint32_t activation){
#define CALL(mode_, activation_) gate_loop(x, y, n, mode_, activation_)
	GATE_CASES(CALL)
#undef CALL
}

CPU_CLONES static void gate_grad_row(const float *dy, const float *x, float *dx, uint32_t n, uint32_t mode,
				     uint32_t activation)
{
#define CALL(mode_, activation_) gate_grad_loop(dy, x, dx, n, mode_, activation_)
	GATE_CASES(CALL)
#undef CALL
}

static void gate_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct op_attr *attr = &instr->kernel->attr;
	const struct operand *y = kernel_output(instr->kernel, 0);
	uint32_t n = y->channels;
	struct range rows = chunk_range(instr->kernel, chunk, y->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++)
		gate_row((const float *)instr->address[0] + r * 2 * n, (float *)instr_output(instr, 0) + r * n, n,
			 attr->mode, attr->activation);
}

static void gate_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct op_attr *attr = &instr->kernel->attr;
	const struct operand *dy = kernel_input(instr->kernel, 0);
	uint32_t n = dy->channels;
	struct range rows = chunk_range(instr->kernel, chunk, dy->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++)
		gate_grad_row((const float *)instr->address[0] + r * n, (const float *)instr->address[1] + r * 2 * n,
			      (float *)instr_output(instr, 0) + r * 2 * n, n, attr->mode, attr->activation);
}

/* ---- LSTM ---- */

CPU_CLONES static void lstm_row(const float *gates, const float *c_prev, float *h, float *c, uint32_t n)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++) {
		float in = exponential_sigmoid(gates[i]), forget = exponential_sigmoid(gates[n + i]);
		float new = exponential_tanh(gates[2 * n + i]), out = exponential_sigmoid(gates[3 * n + i]);
		float state = forget * c_prev[i] + in * new;
		c[i] = state;
		h[i] = out * exponential_tanh(state);
	}
}

CPU_CLONES static void lstm_grad_row(const float *dh, const float *dc, const float *gates, const float *c_prev,
				     const float *c, float *dgates, float *dc_prev, uint32_t n)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++) {
		float in = exponential_sigmoid(gates[i]), forget = exponential_sigmoid(gates[n + i]);
		float new = exponential_tanh(gates[2 * n + i]), out = exponential_sigmoid(gates[3 * n + i]);
		float t = exponential_tanh(c[i]), g = dc[i] + dh[i] * out * (1.0f - t * t);
		float d_out = dh[i] * t, before = c_prev[i];
		dgates[i] = g * new *in *(1.0f - in);
		dgates[n + i] = g * before * forget * (1.0f - forget);
		dgates[2 * n + i] = g * in * (1.0f - new *new);
		dgates[3 * n + i] = d_out * out * (1.0f - out);
		dc_prev[i] = g * forget;
	}
}

static void lstm_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *state = kernel_input(instr->kernel, 1);
	uint32_t n = state->channels;
	struct range rows = chunk_range(instr->kernel, chunk, state->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++)
		lstm_row((const float *)instr->address[0] + r * 4 * n, (const float *)instr->address[1] + r * n,
			 (float *)instr_output(instr, 0) + r * n, (float *)instr_output(instr, 1) + r * n, n);
}

static void lstm_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *state = kernel_input(instr->kernel, 0);
	uint32_t n = state->channels;
	struct range rows = chunk_range(instr->kernel, chunk, state->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++)
		lstm_grad_row((const float *)instr->address[0] + r * n, (const float *)instr->address[1] + r * n,
			      (const float *)instr->address[2] + r * 4 * n, (const float *)instr->address[3] + r * n,
			      (const float *)instr->address[4] + r * n, (float *)instr_output(instr, 0) + r * 4 * n,
			      (float *)instr_output(instr, 1) + r * n, n);
}

/* ---- GRU ---- */

CPU_CLONES static void gru_row(const float *x, const float *y, const float *h_prev, float *h, uint32_t n)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++) {
		float reset = exponential_sigmoid(x[i] + y[i]), keep = exponential_sigmoid(x[n + i] + y[n + i]);
		float new = exponential_tanh(x[2 * n + i] + reset * y[2 * n + i]);
		h[i] = (1.0f - keep) * new + keep *h_prev[i];
	}
}

CPU_CLONES static void gru_grad_row(const float *dh, const float *x, const float *y, const float *h_prev, float *dx,
				    float *dy, float *dh_prev, uint32_t n)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++) {
		float reset = exponential_sigmoid(x[i] + y[i]), keep = exponential_sigmoid(x[n + i] + y[n + i]);
		float inner = y[2 * n + i], new = exponential_tanh(x[2 * n + i] + reset * inner);
		float d_new = dh[i] * (1.0f - keep) * (1.0f - new *new);
		float d_keep = dh[i] * (h_prev[i] - new) * keep * (1.0f - keep);
		float d_reset = d_new * inner * reset * (1.0f - reset);
		dh_prev[i] = dh[i] * keep;
		dx[i] = dy[i] = d_reset;
		dx[n + i] = dy[n + i] = d_keep;
		dx[2 * n + i] = d_new;
		dy[2 * n + i] = d_new * reset;
	}
}

static void gru_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *state = kernel_input(instr->kernel, 2);
	uint32_t n = state->channels;
	struct range rows = chunk_range(instr->kernel, chunk, state->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++)
		gru_row((const float *)instr->address[0] + r * 3 * n, (const float *)instr->address[1] + r * 3 * n,
			(const float *)instr->address[2] + r * n, (float *)instr_output(instr, 0) + r * n, n);
}

static void gru_grad_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *state = kernel_input(instr->kernel, 0);
	uint32_t n = state->channels;
	struct range rows = chunk_range(instr->kernel, chunk, state->rows);
	for (uint64_t r = rows.begin; r < rows.end; r++)
		gru_grad_row((const float *)instr->address[0] + r * n, (const float *)instr->address[1] + r * 3 * n,
			     (const float *)instr->address[2] + r * 3 * n, (const float *)instr->address[3] + r * n,
			     (float *)instr_output(instr, 0) + r * 3 * n, (float *)instr_output(instr, 1) + r * 3 * n,
			     (float *)instr_output(instr, 2) + r * n, n);
}

/* The cells are small: a few thousand elements with five exponentials each are worth a thread. */
#define CHUNK_STATES 2048u

enum tarn_status recurrent_prepare(struct device *device, struct kernel *kernel)
{
	static const struct {
		uint32_t kind, state; /* operand whose rows are counted */
		kernel_body *body;
	} kinds[] = {
		{ OP_GATE, 1, gate_body },      { OP_GATE_GRAD, 0, gate_grad_body },
		{ OP_LSTM_CELL, 1, lstm_body }, { OP_LSTM_CELL_GRAD, 0, lstm_grad_body },
		{ OP_GRU_CELL, 2, gru_body },   { OP_GRU_CELL_GRAD, 0, gru_grad_body },
	};
	(void)device;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (kinds[i].kind == kernel->kind) {
			const struct operand *state = &kernel->operand[kinds[i].state];
			kernel_cut(kernel, kinds[i].body, state->rows, CHUNK_STATES / state->channels);
		}
	return TARN_OK;
}
