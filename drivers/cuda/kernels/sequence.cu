/*
 * sequence.cu - embedding, repeated tensors, masks of weights, gated units, LSTM and GRU cells.
 *
 * A thread computes one element from elements of the same row; no sums but those of the embedding's gradient.
 */
#include "device.h"

DEVICE uint64_t element_index(void)
{
	return (uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x;
}

template <typename T> DEVICE void add_broadcast_body(const repeat_parameters &p)
{
	uint64_t i = element_index();
	if (i < p.elements)
		store((T *)p.y, i, load((const T *)p.a, i) + ((const float *)p.b)[divide(i, p.period).rest]);
}
INSTANTIATE(add_broadcast, repeat_parameters)

template <typename T> DEVICE void broadcast_rows_body(const repeat_parameters &p)
{
	uint64_t i = element_index();
	if (i < p.elements)
		((T *)p.y)[i] = ((const T *)p.b)[divide(i, p.period).rest];
}
INSTANTIATE(broadcast_rows, repeat_parameters)

template <typename T> DEVICE void weight_mask_body(const mask_parameters &p)
{
	uint64_t i = element_index();
	if (i < p.elements)
		store((T *)p.y, i, divide(i, p.area).rest < p.kept ? load((const T *)p.x, i) : 0.0f);
}
INSTANTIATE(weight_mask, mask_parameters)

/* An id that the table does not have gives NaN; nothing outside the table is read. */
template <typename T> DEVICE void embedding_body(const embedding_parameters &p)
{
	uint64_t i = element_index();
	if (i >= p.rows * p.width)
		return;
	quotient row = divide(i, p.width);
	uint64_t word = (uint32_t)p.id[row.value];
	float value = NAN;
	if (word < p.words)
		value = p.wide_table ? ((const float *)p.x)[word * p.width + row.rest]
				     : load((const T *)p.x, word * p.width + row.rest);
	if (p.wide_result)
		((float *)p.y)[i] = value;
	else
		store((T *)p.y, i, value);
}
INSTANTIATE(embedding, embedding_parameters)

/* A thread owns a column of a run of the table's rows, and adds the rows of dy in their order; the sums are float. */
template <typename T> DEVICE void embedding_grad_body(const embedding_parameters &p)
{
	uint64_t column = element_index(), first = blockIdx.y * p.block_words, last = first + p.block_words;
	float *sum = (float *)p.y + column;
	if (column >= p.width)
		return;
	last = last < p.words ? last : p.words;
	for (uint64_t word = first; word < last; word++)
		sum[word * p.width] = 0.0f;
	for (uint64_t row = 0; row < p.rows; row++) {
		uint64_t word = (uint32_t)p.id[row];
		if (word >= first && word < last)
			sum[word * p.width] += load((const T *)p.x, row * p.width + column);
	}
}
INSTANTIATE(embedding_grad, embedding_parameters)

/* The same where the result cannot hold the sums: they are in shared memory, and rounded once. */
template <typename T> DEVICE void embedding_grad_narrow_body(const embedding_parameters &p)
{
	__shared__ float sums[EMBEDDING_WORDS * KERNEL_THREADS];
	uint64_t column = element_index(), first = blockIdx.y * p.block_words;
	float *sum = sums + threadIdx.x;
	if (column >= p.width)
		return;
	uint32_t words = (uint32_t)(p.words - first < p.block_words ? p.words - first : p.block_words);
	for (uint32_t k = 0; k < words; k++)
		sum[k * KERNEL_THREADS] = 0.0f;
	for (uint64_t row = 0; row < p.rows; row++) {
		uint64_t word = (uint32_t)p.id[row];
		if (word >= first && word - first < words)
			sum[(uint32_t)(word - first) * KERNEL_THREADS] += load((const T *)p.x, row * p.width + column);
	}
	for (uint32_t k = 0; k < words; k++)
		store((T *)p.y, (first + k) * p.width + column, sum[k * KERNEL_THREADS]);
}
INSTANTIATE(embedding_grad_narrow, embedding_parameters)

/* ---- rotary positions: Su et al. 2021, arXiv:2104.09864 ---- */

struct turn {
	float cosine, sine;
};

/*
 * In double, because positions are multiples of a radian: the angle is brought to [-pi/4, pi/4] by a multiple of pi/2
 * that is subtracted in two parts, and the series are cut where the next term is below 1e-14.
 */
DEVICE turn turn_of(double angle)
{
	double quarters = rint(angle * 0.63661977236758134308);
	double r = fma(-quarters, 6.123233995736766036e-17, fma(-quarters, 1.5707963267948965580, angle));
	double z = r * r, sine = 1.0 / 6227020800.0, cosine = 1.0 / 479001600.0;
	sine = fma(sine, z, -1.0 / 39916800.0);
	sine = fma(sine, z, 1.0 / 362880.0);
	sine = fma(sine, z, -1.0 / 5040.0);
	sine = fma(sine, z, 1.0 / 120.0);
	sine = fma(sine, z, -1.0 / 6.0);
	sine = fma(sine * z, r, r);
	cosine = fma(cosine, z, -1.0 / 3628800.0);
	cosine = fma(cosine, z, 1.0 / 40320.0);
	cosine = fma(cosine, z, -1.0 / 720.0);
	cosine = fma(cosine, z, 1.0 / 24.0);
	cosine = fma(cosine, z, -0.5);
	cosine = fma(cosine, z, 1.0);
	uint32_t quarter = (uint32_t)(long long)quarters & 3;
	double x = quarter & 1 ? sine : cosine, y = quarter & 1 ? cosine : sine;
	return { (float)(quarter == 1 || quarter == 2 ? -x : x), (float)(quarter & 2 ? -y : y) };
}

/* A thread turns the same pair of all heads of a sample, blockIdx.y. */
template <typename T> DEVICE void rotary_body(const rotary_parameters &p)
{
	uint32_t half = p.width / 2;
	quotient place = divide(element_index(), half);
	uint32_t i = (uint32_t)place.rest;
	if (place.value >= p.positions)
		return;
	turn angle = turn_of((double)place.value * exp(p.log_base * -2.0 * (double)i / (double)p.width));
	float sine = p.backwards ? -angle.sine : angle.sine;
	for (uint64_t sample = blockIdx.y; sample < p.batch; sample += gridDim.y) {
		uint64_t first = (sample * p.positions + place.value) * p.heads * p.width + i;
		for (uint32_t head = 0; head < p.heads; head++, first += p.width) {
			float a = load((const T *)p.x, first), b = load((const T *)p.x, first + half);
			store((T *)p.y, first, a * angle.cosine - b * sine);
			store((T *)p.y, first + half, b * angle.cosine + a * sine);
		}
	}
}
INSTANTIATE(rotary, rotary_parameters)

/* ---- gated units ---- */

DEVICE float gate_value(uint32_t first, float a)
{
	if (first == GATE_OF_SILU)
		return a * sigmoid(a);
	if (first == GATE_OF_GELU)
		return a * normal(a);
	if (first == GATE_OF_GELU_TANH)
		return a * gelu_tanh_gate(a);
	if (first == GATE_OF_SIGMOID)
		return sigmoid(a);
	if (first == GATE_OF_SOFTPLUS)
		return (a > 0.0f ? a : 0.0f) + log1pf(expf(-fabsf(a)));
	return first == GATE_OF_TANH ? tanhf(a) : a;
}

DEVICE float gate_slope(uint32_t first, float a)
{
	if (first == GATE_OF_SILU)
		return silu_derivative(a);
	if (first == GATE_OF_GELU)
		return fmaf(a * ONE_OVER_ROOT_TWO_PI, expf(-0.5f * a * a), normal(a));
	if (first == GATE_OF_GELU_TANH)
		return gelu_tanh_derivative(a);
	float s = sigmoid(a), t = tanhf(a);
	if (first == GATE_OF_SIGMOID)
		return s * (1.0f - s);
	if (first == GATE_OF_SOFTPLUS)
		return s;
	return first == GATE_OF_TANH ? fmaf(-t, t, 1.0f) : 1.0f;
}

template <typename T> DEVICE void gate_body(const gate_parameters &p)
{
	uint64_t i = element_index();
	if (i >= p.elements)
		return;
	quotient row = divide(i, p.width);
	const T *x = (const T *)p.x + row.value * 2 * p.width + row.rest;
	float b = load(x, p.width);
	store((T *)p.y, i, gate_value(p.first, load(x, 0)) * (p.second_is_sigmoid ? sigmoid(b) : b));
}
INSTANTIATE(gate, gate_parameters)

template <typename T> DEVICE void gate_grad_body(const gate_parameters &p)
{
	uint64_t i = element_index();
	if (i >= p.elements)
		return;
	quotient row = divide(i, p.width);
	uint64_t at = row.value * 2 * p.width + row.rest;
	float a = load((const T *)p.x, at), b = load((const T *)p.x, at + p.width), dy = load((const T *)p.dy, i);
	float second = p.second_is_sigmoid ? sigmoid(b) : b;
	float slope = p.second_is_sigmoid ? second * (1.0f - second) : 1.0f;
	store((T *)p.y, at, dy * gate_slope(p.first, a) * second);
	store((T *)p.y, at + p.width, dy * gate_value(p.first, a) * slope);
}
INSTANTIATE(gate_grad, gate_parameters)

/* ---- LSTM cell, whose state c is float; gates in the order i, f, g, o. Hochreiter, Schmidhuber 1997; Gers et al. 2000
 * ---- */

struct lstm_gates {
	float i, f, g, o;
};

template <typename T> DEVICE lstm_gates lstm_gates_at(const T *gates, uint64_t width)
{
	return { sigmoid(load(gates, 0)), sigmoid(load(gates, width)), tanhf(load(gates, 2 * width)),
		 sigmoid(load(gates, 3 * width)) };
}

template <typename T> DEVICE void lstm_cell_body(const cell_parameters &p)
{
	uint64_t i = element_index();
	if (i >= p.elements)
		return;
	quotient row = divide(i, p.width);
	lstm_gates gate = lstm_gates_at((const T *)p.gates + row.value * 4 * p.width + row.rest, p.width);
	float c = gate.f * ((const float *)p.previous)[i] + gate.i * gate.g;
	((float *)p.out_state)[i] = c;
	store((T *)p.out, i, gate.o * tanhf(c));
}
INSTANTIATE(lstm_cell, cell_parameters)

template <typename T> DEVICE void lstm_cell_grad_body(const cell_parameters &p)
{
	uint64_t i = element_index();
	if (i >= p.elements)
		return;
	quotient row = divide(i, p.width);
	uint64_t at = row.value * 4 * p.width + row.rest;
	lstm_gates gate = lstm_gates_at((const T *)p.gates + at, p.width);
	float t = tanhf(((const float *)p.c)[i]), dh = load((const T *)p.dh, i);
	float dc = ((const float *)p.dc)[i] + dh * gate.o * fmaf(-t, t, 1.0f);
	T *dgates = (T *)p.out + at;
	store(dgates, 0, dc * gate.g * gate.i * (1.0f - gate.i));
	store(dgates, p.width, dc * ((const float *)p.previous)[i] * gate.f * (1.0f - gate.f));
	store(dgates, 2 * p.width, dc * gate.i * fmaf(-gate.g, gate.g, 1.0f));
	store(dgates, 3 * p.width, dh * t * gate.o * (1.0f - gate.o));
	((float *)p.out_state)[i] = dc * gate.f;
}
INSTANTIATE(lstm_cell_grad, cell_parameters)

/* ---- GRU cell; gates in the order r, z, n. Cho et al. 2014, as cuDNN has it ---- */

struct gru_gates {
	float r, z, n, hidden_n;
};

template <typename T> DEVICE gru_gates gru_gates_at(const cell_parameters &p, uint64_t at)
{
	const T *x = (const T *)p.gates + at, *h = (const T *)p.hidden_gates + at;
	gru_gates gate;
	gate.r = sigmoid(load(x, 0) + load(h, 0));
	gate.z = sigmoid(load(x, p.width) + load(h, p.width));
	gate.hidden_n = load(h, 2 * p.width);
	gate.n = tanhf(load(x, 2 * p.width) + gate.r * gate.hidden_n);
	return gate;
}

template <typename T> DEVICE void gru_cell_body(const cell_parameters &p)
{
	uint64_t i = element_index();
	if (i >= p.elements)
		return;
	quotient row = divide(i, p.width);
	gru_gates gate = gru_gates_at<T>(p, row.value * 3 * p.width + row.rest);
	store((T *)p.out, i, (1.0f - gate.z) * gate.n + gate.z * load((const T *)p.previous, i));
}
INSTANTIATE(gru_cell, cell_parameters)

template <typename T> DEVICE void gru_cell_grad_body(const cell_parameters &p)
{
	uint64_t i = element_index();
	if (i >= p.elements)
		return;
	quotient row = divide(i, p.width);
	uint64_t at = row.value * 3 * p.width + row.rest;
	gru_gates gate = gru_gates_at<T>(p, at);
	float dh = load((const T *)p.dh, i);
	float dn = dh * (1.0f - gate.z) * fmaf(-gate.n, gate.n, 1.0f);
	float dz = dh * (load((const T *)p.previous, i) - gate.n) * gate.z * (1.0f - gate.z);
	float dr = dn * gate.hidden_n * gate.r * (1.0f - gate.r);
	T *dx = (T *)p.out + at, *dhidden = (T *)p.out_hidden_gates + at;
	store(dx, 0, dr);
	store(dx, p.width, dz);
	store(dx, 2 * p.width, dn);
	store(dhidden, 0, dr);
	store(dhidden, p.width, dz);
	store(dhidden, 2 * p.width, dn * gate.r);
	store((T *)p.out_state, i, dh * gate.z);
}
INSTANTIATE(gru_cell_grad, cell_parameters)
