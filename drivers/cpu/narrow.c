/* narrow.c - see narrow.h; and the op CAST. */
#include "cpu/narrow.h"

#include "base/philox.h"
#include "cpu/cpu.h"

CPU_CLONES static void bf16_load(const uint16_t *restrict from, float *restrict to, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = bf16_to_float(from[i]);
}

CPU_CLONES static void bf16_store(const float *restrict from, uint16_t *restrict to, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = float_to_bf16(from[i]);
}

CPU_CLONES static void f16_load(const uint16_t *restrict from, float *restrict to, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = f16_to_float(from[i]);
}

CPU_CLONES static void f16_store(const float *restrict from, uint16_t *restrict to, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		to[i] = float_to_f16(from[i]);
}

void narrow_load(uint32_t dtype, const void *from, float *to, uint64_t n)
{
	if (dtype == DTYPE_BF16)
		bf16_load(from, to, n);
	else if (dtype == DTYPE_F16)
		f16_load(from, to, n);
	else
		memcpy(to, from, n * sizeof *to);
}

void narrow_store(uint32_t dtype, const float *from, void *to, uint64_t n)
{
	if (dtype == DTYPE_BF16)
		bf16_store(from, to, n);
	else if (dtype == DTYPE_F16)
		f16_store(from, to, n);
	else
		memcpy(to, from, n * sizeof *from);
}

CPU_CLONES void narrow_store_stochastic(const float *from, uint16_t *to, uint64_t begin, uint64_t n,
					struct philox_stream stream)
{
	for (uint64_t i = 0; i < n;) {
		const struct philox_block block = philox(stream.seed, stream.stream, stream.step, (begin + i) / 4);
		for (uint32_t k = (begin + i) % 4; k < 4 && i < n; k++, i++) {
			uint32_t bits = float_bits(from[i]), added = bits + (block.word[k] >> 16);
			bool finite = (bits & 0x7F800000u) != 0x7F800000u;
			to[i] = finite ? (uint16_t)(added >> 16) : float_to_bf16(from[i]);
		}
	}
}

/* Numbers that a thread converts at once. */
#define SHARE ((uint64_t)1 << 14)

void narrow_load_threads(uint32_t dtype, const void *from, uint64_t at, float *to, uint64_t n, uint32_t threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
	for (uint64_t i = 0; i < n; i += SHARE)
		narrow_load(dtype, (const uint16_t *)from + at + i, to + i, n - i < SHARE ? n - i : SHARE);
}

void narrow_store_threads(uint32_t dtype, const float *from, void *to, uint64_t at, uint64_t n, uint32_t threads)
{
#pragma omp parallel for schedule(static) num_threads(threads)
	for (uint64_t i = 0; i < n; i += SHARE)
		narrow_store(dtype, from + i, (uint16_t *)to + at + i, n - i < SHARE ? n - i : SHARE);
}

/* Floats that lie on the stack between two formats of 16 bits. */
#define BLOCK 512u

static void cast_body(const struct bound_instr *instr, uint64_t chunk)
{
	const struct operand *x = kernel_input(instr->kernel, 0), *y = kernel_output(instr->kernel, 0);
	const uint64_t x_bytes = x->bytes / x->elements, y_bytes = y->bytes / y->elements;
	struct range range = chunk_range(instr->kernel, chunk, x->elements);
	for (uint64_t i = range.begin; i < range.end; i += BLOCK) {
		uint64_t n = range.end - i < BLOCK ? range.end - i : BLOCK;
		const unsigned char *from = (const unsigned char *)instr->address[0] + i * x_bytes;
		unsigned char *to = (unsigned char *)instr_output(instr, 0) + i * y_bytes;
		float block[BLOCK];
		if (x->dtype == DTYPE_F32) {
			narrow_store(y->dtype, (const float *)(const void *)from, to, n);
		} else if (y->dtype == DTYPE_F32) {
			narrow_load(x->dtype, from, (float *)(void *)to, n);
		} else {
			narrow_load(x->dtype, from, block, n);
			narrow_store(y->dtype, block, to, n);
		}
	}
}

enum tarn_status cast_prepare(struct device *device, struct kernel *kernel)
{
	(void)device;
	kernel_cut(kernel, cast_body, kernel_input(kernel, 0)->elements, CPU_CHUNK_ELEMENTS);
	return TARN_OK;
}
