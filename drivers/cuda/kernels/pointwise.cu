/*
 * pointwise.cu - activations and their gradients, add, multiply, scale, dropout, fill, gradient of the squared error.
 *
 * Every element is computed from the elements of the same index, so that the output may take an input's memory.
 */
#include "device.h"
#include "random.h"

#define ROOT_HALF 0.70710678118654752f            /* 1 / sqrt(2) */
#define ROOT_TWO_OVER_PI 0.79788456080286536f     /* sqrt(2 / pi) */
#define ONE_OVER_ROOT_TWO_PI 0.39894228040143268f /* 1 / sqrt(2 pi) */
#define GELU_CUBE 0.044715f                       /* Hendrycks, Gimpel 2016, arXiv:1606.08415, section 2 */

#define UNARY(name, expression)                                                      \
	template <typename T> DEVICE void name##_body(const pointwise_parameters &p) \
	{                                                                            \
		map1<T>(p.a, p.y, p.elements, [&](float x) { return expression; });  \
	}                                                                            \
	INSTANTIATE(name, pointwise_parameters)

#define BINARY(name, expression)                                                                  \
	template <typename T> DEVICE void name##_body(const pointwise_parameters &p)              \
	{                                                                                         \
		map2<T>(p.a, p.b, p.y, p.elements, [&](float a, float b) { return expression; }); \
	}                                                                                         \
	INSTANTIATE(name, pointwise_parameters)

BINARY(add, clamp_apply(p.low, p.high, a + b))
BINARY(multiply, a *b)
UNARY(scale, p.alpha *x)

/* ---- activations; in a gradient a is dy, and b the output or the input, as op.h says ---- */

DEVICE float sigmoid(float x)
{
	return 1.0f / (1.0f + expf(-x));
}

/* The normal distribution function. erfc keeps the digits of the tail, where 1 + erf would cancel. */
DEVICE float normal(float x)
{
	return 0.5f * erfcf(-ROOT_HALF * x);
}

/* (1 + tanh(u)) / 2 of GELU's approximation, as sigmoid(2u), which does not cancel either. */
DEVICE float gelu_tanh_gate(float x)
{
	return sigmoid(2.0f * ROOT_TWO_OVER_PI * fmaf(GELU_CUBE * x * x, x, x));
}

DEVICE float gelu_tanh_derivative(float x)
{
	float gate = gelu_tanh_gate(x), slope = 2.0f * ROOT_TWO_OVER_PI * fmaf(3.0f * GELU_CUBE * x, x, 1.0f);
	return fmaf(x * gate * (1.0f - gate), slope, gate);
}

DEVICE float silu_derivative(float x)
{
	float s = sigmoid(x);
	return s * fmaf(x, 1.0f - s, 1.0f);
}

/* NONE, RELU and RELU6, which let NaN pass. */
UNARY(clamp, clamp_apply(p.low, p.high, x))
BINARY(clamp_grad, clamp_grad(p.low, p.high, b, a))
UNARY(leaky_relu, x > 0.0f ? x : p.alpha * x)
BINARY(leaky_relu_grad, b > 0.0f ? a : p.alpha * a)
UNARY(elu, x > 0.0f ? x : p.alpha * expm1f(x))
BINARY(elu_grad, b > 0.0f ? a : a * (b + p.alpha))
UNARY(sigmoid, sigmoid(x))
BINARY(sigmoid_grad, a *b *(1.0f - b))
UNARY(tanh, tanhf(x))
BINARY(tanh_grad, a *fmaf(-b, b, 1.0f))
UNARY(gelu, x *normal(x))
BINARY(gelu_grad, a *fmaf(b *ONE_OVER_ROOT_TWO_PI, expf(-0.5f * b * b), normal(b)))
UNARY(gelu_tanh, x *gelu_tanh_gate(x))
BINARY(gelu_tanh_grad, a *gelu_tanh_derivative(b))
UNARY(silu, x / (1.0f + expf(-x)))
BINARY(silu_grad, a *silu_derivative(b))
UNARY(softplus, (x > 0.0f ? x : 0.0f) + log1pf(expf(-fabsf(x))))
BINARY(softplus_grad, a *sigmoid(b))

/* ---- gradient of the mean squared error: 2 (p - t) dloss / elements ---- */

template <typename T> DEVICE void squared_error_grad_body(const pointwise_parameters &p)
{
	float factor = (float)(2.0 * (double)*p.factor / (double)p.elements);
	map2<T>(p.a, p.b, p.y, p.elements, [&](float a, float b) { return (a - b) * factor; });
}
INSTANTIATE(squared_error_grad, pointwise_parameters)

/* (sigmoid(x) - t) dloss / elements */
template <typename T> DEVICE void binary_cross_entropy_grad_body(const pointwise_parameters &p)
{
	float factor = (float)((double)*p.factor / (double)p.elements);
	map2<T>(p.a, p.b, p.y, p.elements, [&](float x, float t) { return (sigmoid(x) - t) * factor; });
}
INSTANTIATE(binary_cross_entropy_grad, pointwise_parameters)

/* ---- elementary functions ---- */

template <typename T> DEVICE void exponential_body(const pointwise_parameters &p)
{
	map1<T>(p.a, p.y, p.elements, [&](float x) { return expf(x); });
}
INSTANTIATE(exponential, pointwise_parameters)

template <typename T> DEVICE void logarithm_body(const pointwise_parameters &p)
{
	map1<T>(p.a, p.y, p.elements, [&](float x) { return logf(x); });
}
INSTANTIATE(logarithm, pointwise_parameters)

template <typename T> DEVICE void power_body(const pointwise_parameters &p)
{
	map1<T>(p.a, p.y, p.elements, [&](float x) { return powf(x, p.alpha); });
}
INSTANTIATE(power, pointwise_parameters)

/* ---- dropout: a thread's elements are those of one Philox block, or of two where a part of a batch begins within one
 * ---- */

/* The words of elements `first` to first + 3 of the batch, out of one block or two neighbours. */
DEVICE random_words words_from(const dropout_parameters &p, uint64_t first)
{
	uint64_t block = first / KERNEL_VECTOR;
	uint32_t shift = (uint32_t)(first % KERNEL_VECTOR);
	random_words a = philox(p.scalars->seed, p.stream, p.scalars->step, block), b = a;
	if (!shift)
		return a;
	b = philox(p.scalars->seed, p.stream, p.scalars->step, block + 1);
	if (shift == 1)
		return { { a.word[1], a.word[2], a.word[3], b.word[0] } };
	if (shift == 2)
		return { { a.word[2], a.word[3], b.word[0], b.word[1] } };
	return { { a.word[3], b.word[0], b.word[1], b.word[2] } };
}

template <typename T> DEVICE void dropout_body(const dropout_parameters &p)
{
	const T *x = (const T *)p.x;
	T *y = (T *)p.y;
	uint64_t i = first_element();
	if (i >= p.elements)
		return;
	random_words random = words_from(p, p.first + i);
	if (i + KERNEL_VECTOR <= p.elements) {
		vector4 kept = load4(x, i);
		for (uint32_t k = 0; k < KERNEL_VECTOR; k++)
			kept.v[k] = philox_float(random.word[k]) >= p.rate ? kept.v[k] * p.scale : 0.0f;
		store4(y, i, kept);
		return;
	}
#pragma unroll
	for (uint32_t k = 0; k < KERNEL_VECTOR; k++)
		if (i + k < p.elements)
			store(y, i + k, philox_float(random.word[k]) >= p.rate ? load(x, i + k) * p.scale : 0.0f);
}
INSTANTIATE(dropout, dropout_parameters)

/* Stochastic depth (Huang et al. 2016, arXiv:1603.09382): sample n has the draw of element n. */
template <typename T> DEVICE void dropout_samples_body(const dropout_parameters &p)
{
	uint64_t i = (uint64_t)blockIdx.x * KERNEL_THREADS + threadIdx.x;
	if (i >= p.elements)
		return;
	uint64_t sample = p.first + divide(i, p.sample_elements).value;
	random_words random = philox(p.scalars->seed, p.stream, p.scalars->step, sample / 4);
	uint32_t low = sample & 1 ? random.word[1] : random.word[0],
		 high = sample & 1 ? random.word[3] : random.word[2];
	bool kept = philox_float(sample & 2 ? high : low) >= p.rate;
	store((T *)p.y, i, kept ? load((const T *)p.x, i) * p.scale : 0.0f);
}
INSTANTIATE(dropout_samples, dropout_parameters)

/* ---- numbers in another format ---- */

template <typename T, typename U> DEVICE void cast_elements(const cast_parameters &p)
{
	uint64_t i = first_element();
	if (i + KERNEL_VECTOR <= p.elements)
		store4((U *)p.y, i, load4((const T *)p.x, i));
	else
		for (; i < p.elements; i++)
			store((U *)p.y, i, load((const T *)p.x, i));
}

template <typename T> DEVICE void cast_from(const cast_parameters &p)
{
	if (p.to == STORED_F32)
		cast_elements<T, f32>(p);
	else if (p.to == STORED_BF16)
		cast_elements<T, bf16>(p);
	else
		cast_elements<T, f16>(p);
}

KERNEL tarn_cast(PARAMETER(cast_parameters) p)
{
	if (p.from == STORED_F32)
		cast_from<f32>(p);
	else if (p.from == STORED_BF16)
		cast_from<bf16>(p);
	else
		cast_from<f16>(p);
}

/* ---- fill ---- */

template <typename T> DEVICE void fill_body(const pointwise_parameters &p)
{
	T *y = (T *)p.y;
	uint64_t i = first_element();
	if (i + KERNEL_VECTOR <= p.elements)
		store4(y, i, { { p.alpha, p.alpha, p.alpha, p.alpha } });
	else
		for (; i < p.elements; i++)
			store(y, i, p.alpha);
}
INSTANTIATE(fill, pointwise_parameters)
