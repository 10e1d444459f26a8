/*
 * update.c - optimizer steps, in place on the weights.
 *
 * Sources: Robbins, Monro 1951; Polyak 1964 and Nesterov 1983 as PyTorch states them; Kingma, Ba 2015, arXiv:1412.6980;
 * Loshchilov, Hutter 2019, arXiv:1711.05101 (decoupled weight decay); Chen et al. 2023, arXiv:2302.06675 (Lion).
 */
#include "cpu/cpu.h"

#include <math.h>

/* What all elements of a step share. */
struct step {
	float rate, scale, decay, momentum;
	float beta1, beta2, rest1, rest2, epsilon, corrected_rate, root_correction2;
	bool nesterov;
};

/* Inputs in front of the scalars: w and g, with one or two states between. */
static struct step step_of(const struct bound_instr *instr, uint32_t scalars_input)
{
	const struct op_attr *attr = &instr->kernel->attr;
	const struct step_scalars *scalars = instr->address[scalars_input];
	bool scaled = instr->kernel->inputs > scalars_input + 1;
	struct step step = { .rate = scalars->learning_rate * attr->rate_scale, .decay = attr->weight_decay };
	step.scale = scaled ? *(const float *)instr->address[scalars_input + 1] : 1.0f;
	step.momentum = attr->momentum;
	step.nesterov = attr->nesterov != 0;
	step.beta1 = attr->beta1;
	step.beta2 = attr->beta2;
	step.rest1 = 1.0f - attr->beta1;
	step.rest2 = 1.0f - attr->beta2;
	step.epsilon = attr->epsilon;
	step.corrected_rate = step.rate / scalars->bias_correction1;
	step.root_correction2 = sqrtf(scalars->bias_correction2);
	return step;
}

CPU_CLONES static void sgd_loop(const float *w, const float *g, float *out, uint64_t n, struct step step)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		out[i] = w[i] - step.rate * (step.scale * g[i] + step.decay * w[i]);
}

static void sgd_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct range range = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 0)->elements);
	uint64_t at = range.begin;
	sgd_loop((const float *)instr->address[0] + at, (const float *)instr->address[1] + at,
		 (float *)instr_output(instr, 0) + at, range.end - at, step_of(instr, 2));
}

CPU_CLONES static void momentum_loop(const float *w, const float *v, const float *g, float *w_out, float *v_out,
				     uint64_t n, struct step step)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++) {
		float gradient = step.scale * g[i] + step.decay * w[i];
		float velocity = step.momentum * v[i] + gradient;
		float direction = step.nesterov ? gradient + step.momentum * velocity : velocity;
		v_out[i] = velocity;
		w_out[i] = w[i] - step.rate * direction;
	}
}

static void momentum_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct range range = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 0)->elements);
	uint64_t at = range.begin;
	momentum_loop((const float *)instr->address[0] + at, (const float *)instr->address[1] + at,
		      (const float *)instr->address[2] + at, (float *)instr_output(instr, 0) + at,
		      (float *)instr_output(instr, 1) + at, range.end - at, step_of(instr, 3));
}

/* `shrink` multiplies w (decoupled decay), step.decay * w joins the gradient (classic decay); one of them is neutral.
 */
CPU_CLONES static void adam_loop(const float *w, const float *m, const float *v, const float *g, float *w_out,
				 float *m_out, float *v_out, uint64_t n, struct step step, float shrink)
{
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++) {
		float gradient = step.scale * g[i] + step.decay * w[i];
		float first = step.beta1 * m[i] + step.rest1 * gradient;
		float second = step.beta2 * v[i] + step.rest2 * gradient * gradient;
		float denominator = sqrtf(second) / step.root_correction2 + step.epsilon;
		m_out[i] = first;
		v_out[i] = second;
		w_out[i] = w[i] * shrink - step.corrected_rate * first / denominator;
	}
}

static void adam_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct range range = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 0)->elements);
	uint64_t at = range.begin;
	struct step step = step_of(instr, 4);
	float shrink = 1.0f;
	if (instr->kernel->attr.decoupled) {
		shrink = 1.0f - step.rate * step.decay;
		step.decay = 0.0f;
	}
	adam_loop((const float *)instr->address[0] + at, (const float *)instr->address[1] + at,
		  (const float *)instr->address[2] + at, (const float *)instr->address[3] + at,
		  (float *)instr_output(instr, 0) + at, (float *)instr_output(instr, 1) + at,
		  (float *)instr_output(instr, 2) + at, range.end - at, step, shrink);
}

CPU_CLONES static void lion_loop(const float *w, const float *m, const float *g, float *w_out, float *m_out, uint64_t n,
				 struct step step)
{
	const float shrink = 1.0f - step.rate * step.decay;
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++) {
		float gradient = step.scale * g[i];
		float direction = step.beta1 * m[i] + step.rest1 * gradient;
		float sign = direction > 0.0f ? 1.0f : direction < 0.0f ? -1.0f : direction;
		m_out[i] = step.beta2 * m[i] + step.rest2 * gradient;
		w_out[i] = w[i] * shrink - step.rate * sign;
	}
}

static void lion_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct range range = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 0)->elements);
	uint64_t at = range.begin;
	lion_loop((const float *)instr->address[0] + at, (const float *)instr->address[1] + at,
		  (const float *)instr->address[2] + at, (float *)instr_output(instr, 0) + at,
		  (float *)instr_output(instr, 1) + at, range.end - at, step_of(instr, 3));
}

CPU_CLONES static void average_loop(const float *average, const float *w, float *out, uint64_t n, float decay)
{
	float rest = 1.0f - decay;
	CPU_INDEPENDENT
	for (uint64_t i = 0; i < n; i++)
		out[i] = decay * average[i] + rest * w[i];
}

static void average_body(const struct bound_instr *instr, uint64_t chunk)
{
	struct range range = chunk_range(instr->kernel, chunk, kernel_input(instr->kernel, 0)->elements);
	uint64_t at = range.begin;
	average_loop((const float *)instr->address[0] + at, (const float *)instr->address[1] + at,
		     (float *)instr_output(instr, 0) + at, range.end - at, instr->kernel->attr.alpha);
}

enum tarn_status update_prepare(struct device *device, struct kernel *kernel)
{
	uint64_t elements = kernel_input(kernel, 0)->elements;
	(void)device;
	kernel_body *body = kernel->kind == OP_SGD        ? sgd_body
			    : kernel->kind == OP_MOMENTUM ? momentum_body
			    : kernel->kind == OP_ADAM     ? adam_body
			    : kernel->kind == OP_LION     ? lion_body
							  : average_body;
	kernel_cut(kernel, body, elements, CPU_CHUNK_ELEMENTS / 4);
	return TARN_OK;
}
