/* dropout.c - a mask that is computed, not stored: Philox numbers of (seed, stream, step, element). */
#include "cpu/cpu.h"

#include "base/philox.h"

/* Elements handled at once; a multiple of the 4 of a Philox block. */
#define GROUP 256u

CPU_CLONES static void draw_group(uint32_t *word, uint64_t first_block, const struct step_scalars *scalars,
				  uint32_t stream)
{
	uint64_t seed = scalars->seed;
	uint32_t step = scalars->step;
	for (uint32_t i = 0; i < GROUP / 4; i++) {
		struct philox_block block = philox(seed, stream, step, first_block + i);
		word[4 * i] = block.word[0];
		word[4 * i + 1] = block.word[1];
		word[4 * i + 2] = block.word[2];
		word[4 * i + 3] = block.word[3];
	}
}

CPU_CLONES static void keep_group(const float *x, float *y, uint32_t n, const uint32_t *word, float rate, float scale)
{
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++) {
		float u = philox_float(word[i]);
		y[i] = u >= rate ? x[i] * scale : 0.0f;
	}
}

/* Stochastic depth (Huang et al. 2016, arXiv:1603.09382): one draw a sample. */
static void sample_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const struct operand *y = kernel_output(kernel, 0);
	const struct step_scalars *scalars = instr->address[1];
	float rate = kernel->attr.rate, scale = 1.0f / (1.0f - rate);
	uint64_t each = y->elements / y->dim[0];
	struct range samples = chunk_range(kernel, chunk, y->dim[0]);
	for (uint64_t n = samples.begin; n < samples.end; n++) {
		const float *in = (const float *)instr->address[0] + n * each;
		float *out = (float *)instr_output(instr, 0) + n * each;
		uint64_t sample = kernel->attr.begin + n;
		uint32_t word = philox(scalars->seed, kernel->attr.stream, scalars->step, sample / 4).word[sample % 4];
		float factor = philox_float(word) >= rate ? scale : 0.0f;
		for (uint64_t i = 0; i < each; i++)
			out[i] = factor != 0.0f ? in[i] * factor : 0.0f;
	}
}

/* Elements of the whole batch before those of this part. */
static uint64_t first_element(const struct kernel *kernel)
{
	const struct operand *y = kernel_output(kernel, 0);
	return y->rank ? kernel->attr.begin * (y->elements / y->dim[0]) : 0;
}

static void dropout_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct kernel *kernel = instr->kernel;
	const float *x = instr->address[0];
	float *y = instr_output(instr, 0);
	float rate = kernel->attr.rate, scale = 1.0f / (1.0f - rate);
	struct range range = chunk_range(kernel, chunk, kernel_output(kernel, 0)->elements);
	uint64_t first = first_element(kernel);
	uint32_t word[GROUP];
	for (uint64_t i = range.begin; i < range.end;) {
		/* The first group may start within a block. */
		uint32_t skip = (uint32_t)((first + i) % 4);
		uint64_t left = range.end - i;
		uint32_t n = left < GROUP - skip ? (uint32_t)left : GROUP - skip;
		draw_group(word, (first + i) / 4, instr->address[1], kernel->attr.stream);
		keep_group(x + i, y + i, n, word + skip, rate, scale);
		i += n;
	}
}

enum tarn_status dropout_prepare(struct device *device, struct kernel *kernel)
{
	(void)device;
	if (!(kernel->attr.rate >= 0.0f && kernel->attr.rate < 1.0f))
		return tarn_fail(TARN_EUNSUPPORTED, "cpu: dropout \"%s\": rate %g is not in [0, 1)", kernel->name,
				 (double)kernel->attr.rate);
	const struct operand *y = kernel_output(kernel, 0);
	if (kernel->attr.per_sample)
		kernel_cut(kernel, sample_body, y->dim[0], CPU_CHUNK_ELEMENTS / (y->elements / y->dim[0]));
	else
		kernel_cut(kernel, dropout_body, y->elements, CPU_CHUNK_ELEMENTS / 4);
	return TARN_OK;
}
