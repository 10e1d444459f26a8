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
#include <string.h>

#define CODES 256u
/* Positive floats by exponent and first mantissa bits: where the search for the nearest value starts. */
#define GUESS_SHIFT 17u
#define GUESS_FIRST (0x33000000u >> GUESS_SHIFT) /* 2^-25: below it everything is nearest to 0 */
#define GUESSES ((0x40000000u >> GUESS_SHIFT) - GUESS_FIRST)

struct cpu_code_map {
	float value[CODES];  /* of a code */
	float middle[CODES]; /* between the magnitudes of levels k and k + 1, infinite behind the last one */
	uint8_t guess[GUESSES];
	uint32_t last; /* level of the largest magnitude */
};

static float float_of(uint32_t bits)
{
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

/* Level of the nearest value: the number of middles below x. */
static uint32_t nearest_level(const struct cpu_code_map *map, float x)
{
	uint32_t bits, level = 0;
	memcpy(&bits, &x, sizeof bits);
	bits >>= GUESS_SHIFT;
	if (bits >= GUESS_FIRST)
		level = map->guess[bits - GUESS_FIRST < GUESSES ? bits - GUESS_FIRST : GUESSES - 1];
	while (map->middle[level] < x)
		level++;
	return level;
}

/* The levels are 0, the steps of the decades, 1; codes below 256, or up to 128 of a signed map, are levels. */
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
	map->value[n] = 1.0f;
	map->last = n;
	for (uint32_t k = 0; k < n; k++)
		map->middle[k] = 0.5f * (map->value[k] + map->value[k + 1]);
	for (uint32_t k = n; k < CODES; k++)
		map->middle[k] = INFINITY;
	for (uint32_t code = n + 1; code < CODES; code++)
		map->value[code] = -map->value[code - n];
	for (uint32_t k = 0, level = 0; k < GUESSES; k++) {
		while (map->middle[level] < float_of((GUESS_FIRST + k) << GUESS_SHIFT))
			level++;
		map->guess[k] = (uint8_t)level;
	}
}

static uint8_t encode_signed(const struct cpu_code_map *map, float x)
{
	uint32_t level = nearest_level(map, fabsf(x));
	/* Minus one has no code: the level below is as far as negative values go. */
	if (x < 0.0f && level)
		return (uint8_t)((level < map->last ? level : map->last - 1) + map->last);
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
		value[i] = *moment->scale * moment->map->value[moment->code[i]];
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
