/*
 * cublaslt_product.c - the arithmetic of the cuBLASLt double. Matrices are stored by columns.
 */
#include "cublaslt.h"

struct part {
	uint64_t first, last, step; /* of k */
};

static uint32_t parts_of(enum sim_algorithm_id algorithm)
{
	static const uint32_t parts[ALGORITHMS] = { 1, 2, 4, 2, 4 };
	return parts[algorithm];
}

static bool keeps_parts(enum sim_algorithm_id algorithm)
{
	return algorithm == ALGORITHM_SPLIT2 || algorithm == ALGORITHM_SPLIT4;
}

uint64_t product_workspace(const struct sim_product *product, enum sim_algorithm_id algorithm)
{
	uint64_t bytes = product->m * product->n * (uint64_t)product->d.batch * sizeof(float);
	if (keeps_parts(algorithm))
		return parts_of(algorithm) * bytes;
	return algorithm == ALGORITHM_ANY_ORDER ? 256 : 0; /* counters */
}

static struct part part_of(const struct sim_product *product, uint32_t part)
{
	uint32_t parts = parts_of((enum sim_algorithm_id)product->algorithm);
	if (product->algorithm == ALGORITHM_STRIDED)
		return (struct part){ part, product->k, 2 };
	return (struct part){ product->k * part / parts, product->k * (part + 1) / parts, 1 };
}

static float element(const uint8_t *data, const struct sim_matrix *matrix, int32_t batch, uint64_t row, uint64_t column)
{
	return number_load(data, (uint64_t)(batch * matrix->batch_stride) + row + column * (uint64_t)matrix->leading,
			   matrix->type);
}

static float partial_sum(const struct sim_product *p, const struct sim_operand *operand, int32_t batch, uint64_t i,
			 uint64_t j, struct part part)
{
	float sum = 0;
	for (uint64_t k = part.first; k < part.last; k += part.step) {
		float a = element(operand[0].data, &p->a, batch, p->transpose_a ? k : i, p->transpose_a ? i : k);
		float b = element(operand[1].data, &p->b, batch, p->transpose_b ? j : k, p->transpose_b ? k : j);
		sum = p->tf32 ? fmaf(number_tf32(a), number_tf32(b), sum) : fmaf(a, b, sum);
	}
	return sum;
}

/* Which part comes at which turn; a new order for each element and each call where the algorithm has no fixed one. */
static uint32_t turn_of(const struct sim_product *product, uint32_t turn, uint32_t *random)
{
	if (product->algorithm != ALGORITHM_ANY_ORDER)
		return turn;
	if (turn == 0)
		*random = *random * 1664525u + 1013904223u;
	return (turn + (*random >> 24)) % 4;
}

static float whole_sum(const struct sim_product *product, struct sim_operand *operand, int32_t batch, uint64_t i,
		       uint64_t j, uint32_t *random)
{
	enum sim_algorithm_id algorithm = (enum sim_algorithm_id)product->algorithm;
	uint32_t parts = parts_of(algorithm);
	float sum = 0;
	for (uint32_t turn = 0; turn < parts; turn++) {
		float part =
			partial_sum(product, operand, batch, i, j, part_of(product, turn_of(product, turn, random)));
		if (keeps_parts(algorithm)) { /* through memory, as on the device */
			uint64_t at = (((uint64_t)batch * parts + turn) * product->n + j) * product->m + i;
			number_store(operand[3].data, at, NUMBER_F32, part);
			part = number_load(operand[3].data, at, NUMBER_F32);
		}
		sum += part;
	}
	return sum;
}

void product_run(const void *context, struct sim_operand *operand)
{
	static uint32_t random = 1;
	struct sim_product product;
	memcpy(&product, context, sizeof product);
	number_scribble(operand[3].data, operand[3].bytes);
	for (int32_t batch = 0; batch < product.d.batch; batch++)
		for (uint64_t j = 0; j < product.n; j++)
			for (uint64_t i = 0; i < product.m; i++) {
				float sum = product.alpha * whole_sum(&product, operand, batch, i, j, &random);
				const uint8_t *c = product.in_place ? operand[2].data : operand[4].data;
				if (product.beta != 0)
					sum += product.beta * element(c, &product.c, batch, i, j);
				number_store(operand[2].data,
					     (uint64_t)(batch * product.d.batch_stride) + i +
						     j * (uint64_t)product.d.leading,
					     product.d.type, sum);
			}
	number_scribble(operand[3].data, operand[3].bytes);
}
