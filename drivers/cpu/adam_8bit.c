/*
 * adam_8bit.c - Adam whose two moments are kept in 8 bits, block by block; graph/blockwise.h has the layout and the
 * map.
 *
 * A block is decoded, updated in float and encoded again by one thread: the weights see the exact new moments. A code
 * is the nearest value of the map, the smaller one where two are as near.
 */
#include "cpu/cpu.h"

#include "graph/blockwise.h"

#include <math.h>

#define CODES 256u

/* Magnitudes in ascending order, and the middles between neighbours. */
struct cpu_code_map {
	uint32_t levels; /* magnitudes: 256, or 129 of a signed map */
	float value[CODES], middle[CODES];
};

static void fill_map(struct cpu_code_map *map, bool has_sign)
{
	double top = 1e-6;
	uint32_t n = 0;
	map->value[n++] = 0.0f;
	for (uint32_t decade = 0; decade < 7; decade++, top *= 10) {
		uint32_t steps = has_sign ? 1u << decade : 2u << decade;
		for (uint32_t k = 0; k < steps; k++)
			map->value[n++] = (float)(top * (0.1 + 0.9 * (k + 0.5) / steps));
	}
	map->value[n++] = 1.0f;
	map->levels = n;
	for (uint32_t k = 0; k + 1 < n; k++)
		map->middle[k] = 0.5f * (map->value[k] + map->value[k + 1]);
}

/* Number of middles below x: the level of the nearest value. */
static uint32_t nearest_level(const struct cpu_code_map *map, float x)
{
	uint32_t low = 0, count = map->levels - 1;
	while (count) {
		uint32_t half = count / 2;
		bool above = map->middle[low + half] < x;
		low = above ? low + half + 1 : low;
		count = above ? count - half - 1 : half;
	}
	return low;
}

static float decode_signed(const struct cpu_code_map *map, uint8_t code)
{
	return code > 128 ? -map->value[code - 128] : map->value[code];
}

static uint8_t encode_signed(const struct cpu_code_map *map, float x)
{
	uint32_t level = nearest_level(map, fabsf(x));
	/* Minus one has no code: the level below is as far as negative values go. */
	if (x < 0.0f && level)
		return (uint8_t)((level < 128 ? level : 127) + 128);
	return (uint8_t)level;
}

/* One moment of a block. */
struct moment {
	uint8_t *code;
	float *scale;
	const struct cpu_code_map *map;
	bool has_sign;
};

static struct moment moment_of(const struct bound_instr *instr, uint32_t state, uint64_t block, uint64_t elements)
{
	unsigned char *bytes = instr_output(instr, state);
	return (struct moment){ .code = bytes + block * BLOCKWISE_ELEMENTS,
				.scale = (float *)(void *)(bytes + blockwise_codes_bytes(elements)) + block,
				.map = &instr->kernel->code_map[state - 1],
				.has_sign = state == 1 };
}

static void decode(const struct moment *moment, float *value, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		value[i] = *moment->scale * (moment->has_sign ? decode_signed(moment->map, moment->code[i])
							      : moment->map->value[moment->code[i]]);
}

static void encode(const struct moment *moment, const float *value, uint32_t n)
{
	float largest = 0.0f;
	for (uint32_t i = 0; i < n; i++)
		largest = fabsf(value[i]) > largest ? fabsf(value[i]) : largest;
	float inverse = largest > 0.0f ? 1.0f / largest : 0.0f;
	inverse = isfinite(inverse) ? inverse : 0.0f; /* a block of denormals is a block of zeros */
	*moment->scale = inverse > 0.0f ? largest : 0.0f;
	for (uint32_t i = 0; i < n; i++)
		moment->code[i] = moment->has_sign ? encode_signed(moment->map, value[i] * inverse)
						   : (uint8_t)nearest_level(moment->map, value[i] * inverse);
}

CPU_CLONES static void adam_block(const float *w, const float *g, float *w_out, float *first, float *second, uint32_t n,
				  const struct op_attr *attr, const struct step_scalars *scalars, float scale)
{
	const float rate = scalars->learning_rate * attr->rate_scale;
	const float shrink = attr->decoupled ? 1.0f - rate * attr->weight_decay : 1.0f;
	const float decay = attr->decoupled ? 0.0f : attr->weight_decay;
	const float beta1 = attr->beta1, beta2 = attr->beta2, rest1 = 1.0f - beta1, rest2 = 1.0f - beta2;
	const float corrected_rate = rate / scalars->bias_correction1, epsilon = attr->epsilon;
	const float root_correction2 = sqrtf(scalars->bias_correction2);
	CPU_INDEPENDENT
	for (uint32_t i = 0; i < n; i++) {
		float gradient = scale * g[i] + decay * w[i];
		first[i] = beta1 * first[i] + rest1 * gradient;
		second[i] = beta2 * second[i] + rest2 * gradient * gradient;
		w_out[i] = w[i] * shrink - corrected_rate * first[i] / (sqrtf(second[i]) / root_correction2 + epsilon);
	}
}

static void block_body(const struct bound_instr *instr, uint64_t block)
{
	const struct kernel *kernel = instr->kernel;
	const uint64_t elements = kernel_input(kernel, 0)->elements, at = block * BLOCKWISE_ELEMENTS;
	const uint32_t n = elements - at < BLOCKWISE_ELEMENTS ? (uint32_t)(elements - at) : BLOCKWISE_ELEMENTS;
	const float scale = kernel->inputs > 5 ? *(const float *)instr->address[5] : 1.0f;
	const struct moment m = moment_of(instr, 1, block, elements), v = moment_of(instr, 2, block, elements);
	float first[BLOCKWISE_ELEMENTS], second[BLOCKWISE_ELEMENTS];
	decode(&m, first, n);
	decode(&v, second, n);
	adam_block((const float *)instr->address[0] + at, (const float *)instr->address[3] + at,
		   (float *)instr_output(instr, 0) + at, first, second, n, &kernel->attr, instr->address[4], scale);
	encode(&m, first, n);
	encode(&v, second, n);
}

enum tarn_status adam_8bit_prepare(struct device *device, struct kernel *kernel)
{
	struct cpu_code_map *map = HOST_ARRAY(device->host, 2, struct cpu_code_map);
	if (!map)
		return TARN_ENOMEM;
	fill_map(&map[0], true);
	fill_map(&map[1], false);
	kernel->code_map = map;
	kernel_cut(kernel, block_body, blockwise_blocks(kernel_input(kernel, 0)->elements), 1);
	return TARN_OK;
}
