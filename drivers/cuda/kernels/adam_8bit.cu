/*
 * adam_8bit.cu - Adam whose two moments are kept in 8 bits, block by block; graph/blockwise.h has the layout and the
 * map.
 *
 * The codes are those of drivers/cpu/adam_8bit.c, bit for bit: the same arithmetic in the same order. A block of
 * threads has a block of codes, of which each thread decodes, changes and encodes KERNEL_RUN.
 */
#include "device.h"

#define CODES 256u
#define LEVELS_SIGNED 128u /* the last level of the map with signs, and of the other */
#define LEVELS_UNSIGNED 255u

struct code_map {
	float value[CODES], middle[CODES]; /* of a code; between the magnitudes of levels k and k + 1 */
};

/* The step of a decade that a level is: see graph/blockwise.h. */
DEVICE float level_value(uint32_t level, uint32_t last)
{
	uint32_t number = last == LEVELS_SIGNED ? level : level + 1, steps = last == LEVELS_SIGNED ? 1 : 2;
	double top = 1e-6;
	if (level == 0 || level == last)
		return level ? 1.0f : 0.0f;
	for (; number >= 2 * steps; steps *= 2)
		top *= 10.0;
	return (float)(top * (0.1 + 0.9 * ((double)(number - steps) + 0.5) / (double)steps));
}

/* Each of the threads fills in one code. */
DEVICE void fill_map(code_map &map, uint32_t last)
{
	uint32_t code = threadIdx.x;
	float value = level_value(code <= last ? code : code - last, last);
	map.value[code] = code <= last ? value : -value;
	map.middle[code] = code < last ? 0.5f * (value + level_value(code + 1, last)) : INFINITY;
}

/* Level of the nearest value: the number of middles below x; what is not a number has the last one. */
DEVICE uint32_t nearest_level(const code_map &map, float x, uint32_t last)
{
	uint32_t level = 0;
	if (!(x == x))
		return last;
	for (uint32_t half = CODES / 2; half; half /= 2)
		if (map.middle[level + half - 1] < x)
			level += half;
	return level;
}

/* Minus one has no code: the level below is as far as negative values go. */
DEVICE uint8_t code_of(const code_map &map, float x, uint32_t last)
{
	uint32_t level = nearest_level(map, fabsf(x), last);
	if (last == LEVELS_SIGNED && x < 0.0f && level)
		level = (level < last ? level : last - 1) + last;
	return (uint8_t)level;
}

/* `value` of each thread, KERNEL_THREADS apart, as codes of the block and their scale. */
DEVICE void encode(const code_map &map, uint32_t last, const float *value, uint32_t n, uint8_t *code, float *scale,
		   float *scratch)
{
	float largest = 0.0f;
#pragma unroll
	for (uint32_t k = 0; k < KERNEL_RUN; k++)
		largest = fabsf(value[k]) > largest ? fabsf(value[k]) : largest;
	largest = team_reduce(largest, scratch, KERNEL_THREADS, [](float a, float b) { return a > b ? a : b; });
	float inverse = largest > 0.0f ? 1.0f / largest : 0.0f;
	inverse = inverse < INFINITY ? inverse : 0.0f; /* a block of denormals is a block of zeros */
	if (threadIdx.x == 0)
		*scale = inverse > 0.0f ? largest : 0.0f;
#pragma unroll
	for (uint32_t k = 0; k < KERNEL_RUN; k++)
		if (threadIdx.x + k * KERNEL_THREADS < n)
			code[threadIdx.x + k * KERNEL_THREADS] = code_of(map, value[k] * inverse, last);
}

KERNEL tarn_adam_8bit(PARAMETER(adam_8bit_parameters) p)
{
	__shared__ code_map with_sign, without;
	__shared__ float scratch[KERNEL_WARPS];
	uint64_t begin = (uint64_t)blockIdx.x * BLOCK_CODES;
	uint32_t n = (uint32_t)(p.elements - begin < BLOCK_CODES ? p.elements - begin : BLOCK_CODES);
	float clip = clip_scale(p), rate = learning_rate(p);
	float shrink = p.decoupled ? 1.0f - rate * p.weight_decay : 1.0f, decay = p.decoupled ? 0.0f : p.weight_decay;
	float rest1 = 1.0f - p.beta1, rest2 = 1.0f - p.beta2;
	float corrected_rate = rate / p.scalars->bias_correction1;
	float root_correction2 = sqrtf(p.scalars->bias_correction2);
	float first_scale = ((const float *)(p.first + p.code_bytes))[blockIdx.x];
	float second_scale = ((const float *)(p.second + p.code_bytes))[blockIdx.x];
	float first[KERNEL_RUN], second[KERNEL_RUN];
	fill_map(with_sign, LEVELS_SIGNED);
	fill_map(without, LEVELS_UNSIGNED);
	__syncthreads();
#pragma unroll
	for (uint32_t k = 0; k < KERNEL_RUN; k++) {
		uint64_t i = begin + threadIdx.x + k * KERNEL_THREADS;
		first[k] = second[k] = 0.0f;
		if (i >= p.elements)
			continue;
		float w = p.w[i], gradient = clip * p.g[i] + decay * w;
		float old_first = first_scale * with_sign.value[p.first[i]];
		float old_second = second_scale * without.value[p.second[i]];
		first[k] = p.beta1 * old_first + rest1 * gradient;
		second[k] = p.beta2 * old_second + rest2 * gradient * gradient;
		p.new_w[i] = w * shrink - corrected_rate * first[k] / (sqrtf(second[k]) / root_correction2 + p.epsilon);
	}
	float *first_scales = (float *)(p.new_first + p.code_bytes),
	      *second_scales = (float *)(p.new_second + p.code_bytes);
	encode(with_sign, LEVELS_SIGNED, first, n, p.new_first + begin, first_scales + blockIdx.x, scratch);
	encode(without, LEVELS_UNSIGNED, second, n, p.new_second + begin, second_scales + blockIdx.x, scratch);
}
