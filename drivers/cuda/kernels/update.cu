/*
 * update.cu - optimizer steps, in place on weights and state; the arithmetic of drivers/cpu/update.c.
 *
 * Sources: Robbins, Monro 1951; Polyak 1964 and Nesterov 1983 as PyTorch states them; Kingma, Ba 2015, arXiv:1412.6980;
 * Loshchilov, Hutter 2019, arXiv:1711.05101 (decoupled weight decay); Chen et al. 2023, arXiv:2302.06675 (Lion).
 */
#include "device.h"

/* Calls f(w, first, second, g) for each element; f changes the weight and the states, of which there are STATES. */
template <typename T, int STATES, typename F> DEVICE void map_update(const update_parameters &p, F f)
{
	uint64_t i = first_element();
	if (i + KERNEL_VECTOR <= p.elements) {
		vector4 w = load4<T>(p.w, p.wide_w, i), g = load4<T>(p.g, p.wide_g, i), first = {}, second = {};
		if (STATES > 0)
			first = load4(p.first, i);
		if (STATES > 1)
			second = load4(p.second, i);
		for (uint32_t k = 0; k < KERNEL_VECTOR; k++)
			f(w.v[k], first.v[k], second.v[k], g.v[k]);
		store4<T>(p.new_w, p.wide_w, i, w);
		if (STATES > 0)
			store4(p.new_first, i, first);
		if (STATES > 1)
			store4(p.new_second, i, second);
		return;
	}
	for (; i < p.elements; i++) {
		float w = load<T>(p.w, p.wide_w, i), first = STATES > 0 ? p.first[i] : 0.0f;
		float second = STATES > 1 ? p.second[i] : 0.0f;
		f(w, first, second, load<T>(p.g, p.wide_g, i));
		store<T>(p.new_w, p.wide_w, i, w);
		if (STATES > 0)
			p.new_first[i] = first;
		if (STATES > 1)
			p.new_second[i] = second;
	}
}

template <typename P> DEVICE float clip_scale(const P &p)
{
	return p.clip ? *p.clip : 1.0f;
}

template <typename P> DEVICE float learning_rate(const P &p)
{
	return p.scalars->learning_rate * p.rate_scale;
}

template <typename T> DEVICE void sgd_body(const update_parameters &p)
{
	float clip = clip_scale(p), rate = learning_rate(p);
	map_update<T, 0>(p, [&](float &w, float &, float &, float g) { w -= rate * (clip * g + p.weight_decay * w); });
}
INSTANTIATE(sgd, update_parameters)

template <typename T> DEVICE void momentum_body(const update_parameters &p)
{
	float clip = clip_scale(p), rate = learning_rate(p);
	map_update<T, 1>(p, [&](float &w, float &velocity, float &, float g) {
		float gradient = clip * g + p.weight_decay * w;
		velocity = p.momentum * velocity + gradient;
		w -= rate * (p.nesterov ? gradient + p.momentum * velocity : velocity);
	});
}
INSTANTIATE(momentum, update_parameters)

/* `shrink` multiplies w (decoupled decay), decay * w joins the gradient (classic decay); one of them is neutral. */
template <typename T> DEVICE void adam_body(const update_parameters &p)
{
	float clip = clip_scale(p), rate = learning_rate(p);
	float shrink = p.decoupled ? 1.0f - rate * p.weight_decay : 1.0f, decay = p.decoupled ? 0.0f : p.weight_decay;
	float rest1 = 1.0f - p.beta1, rest2 = 1.0f - p.beta2;
	float corrected_rate = rate / p.scalars->bias_correction1;
	float root_correction2 = sqrtf(p.scalars->bias_correction2);
	map_update<T, 2>(p, [&](float &w, float &first, float &second, float g) {
		float gradient = clip * g + decay * w;
		first = p.beta1 * first + rest1 * gradient;
		second = p.beta2 * second + rest2 * gradient * gradient;
		w = w * shrink - corrected_rate * first / (sqrtf(second) / root_correction2 + p.epsilon);
	});
}
INSTANTIATE(adam, update_parameters)

template <typename T> DEVICE void lion_body(const update_parameters &p)
{
	float clip = clip_scale(p), rate = learning_rate(p), shrink = 1.0f - rate * p.weight_decay;
	float rest1 = 1.0f - p.beta1, rest2 = 1.0f - p.beta2;
	map_update<T, 1>(p, [&](float &w, float &first, float &, float g) {
		float gradient = clip * g, direction = p.beta1 * first + rest1 * gradient;
		float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : direction;
		first = p.beta2 * first + rest2 * gradient;
		w = w * shrink - rate * sign;
	});
}
INSTANTIATE(lion, update_parameters)

/* y = alpha a + (1 - alpha) w, where the average a is float. */
template <typename T> DEVICE void exponential_average_body(const pointwise_parameters &p)
{
	const float *average = (const float *)p.a;
	const T *w = (const T *)p.b;
	float *y = (float *)p.y, rest = 1.0f - p.alpha;
	uint64_t i = first_element();
	if (i + KERNEL_VECTOR <= p.elements) {
		vector4 a = load4(average, i), b = load4(w, i);
		for (uint32_t k = 0; k < KERNEL_VECTOR; k++)
			a.v[k] = p.alpha * a.v[k] + rest * b.v[k];
		store4(y, i, a);
		return;
	}
	for (; i < p.elements; i++)
		y[i] = p.alpha * average[i] + rest * load(w, i);
}
INSTANTIATE(exponential_average, pointwise_parameters)
