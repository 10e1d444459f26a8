/*
 * cudnn_convolution.c - the arithmetic of the cuDNN double: each element of the result as one sum.
 */
#include "cudnn.h"

#include "cudnn_values.h"

/* Sums in two parts; which part a term goes to is what engines differ in. */
struct sum {
	float part[2];
	uint32_t way; /* 0: all in one, 1: by turns, 2: first and second half, 3: at random */
	uint32_t random;
	bool tf32;
};

static void add(struct sum *sum, float a, float b, int64_t turn, int64_t turns)
{
	uint32_t part = sum->way == 0 ? 0 : sum->way == 1 ? (uint32_t)(turn & 1) : (uint32_t)(turn >= (turns + 1) / 2);
	if (sum->way == 3) {
		sum->random = sum->random * 1664525u + 1013904223u;
		part = sum->random >> 31;
	}
	if (sum->tf32) {
		a = number_tf32(a);
		b = number_tf32(b);
	}
	sum->part[part] = fmaf(a, b, sum->part[part]);
}

static float at(const uint8_t *data, const struct convolution_tensor *t, int64_t n, int64_t c, int64_t h, int64_t w)
{
	int64_t index = n * t->stride[0] + c * t->stride[1] + h * t->stride[2] + w * t->stride[3];
	return number_load(data, (uint64_t)index, t->type);
}

/* Index of the image under tap `tap` of the window at `place`; false: in the padding. */
static bool image_index(const struct convolution *v, int axis, int64_t place, int64_t tap, int64_t *index)
{
	*index = place * v->stride[axis] + tap * v->dilation[axis] - v->padding[axis];
	return *index >= 0 && *index < v->x.dim[2 + axis];
}

/* Output channels of one group; its input channels are those of w. */
static int64_t group_outputs(const struct convolution *v)
{
	return v->w.dim[0] / (v->x.dim[1] / v->w.dim[1]);
}

static void sum_forward(const struct convolution *v, const struct sim_operand *operand, struct sum *sum,
			const int64_t o[4])
{
	int64_t first = o[1] / group_outputs(v) * v->w.dim[1];
	for (int64_t c = 0; c < v->w.dim[1]; c++)
		for (int64_t r = 0; r < v->w.dim[2]; r++)
			for (int64_t s = 0; s < v->w.dim[3]; s++) {
				int64_t h, w;
				if (image_index(v, 0, o[2], r, &h) && image_index(v, 1, o[3], s, &w))
					add(sum, at(operand[0].data, &v->x, o[0], first + c, h, w),
					    at(operand[1].data, &v->w, o[1], c, r, s), c, v->w.dim[1]);
			}
}

/* The place of the window whose tap lies on image index `index`; false: there is none. */
static bool window_place(const struct convolution *v, int axis, int64_t index, int64_t tap, int64_t *place)
{
	int64_t distance = index + v->padding[axis] - tap * v->dilation[axis];
	*place = distance / v->stride[axis];
	return distance >= 0 && distance % v->stride[axis] == 0 && *place < v->y.dim[2 + axis];
}

static void sum_data(const struct convolution *v, const struct sim_operand *operand, struct sum *sum,
		     const int64_t o[4])
{
	int64_t outputs = group_outputs(v), first = o[1] / v->w.dim[1] * outputs;
	for (int64_t k = first; k < first + outputs; k++)
		for (int64_t r = 0; r < v->w.dim[2]; r++)
			for (int64_t s = 0; s < v->w.dim[3]; s++) {
				int64_t p, q;
				if (window_place(v, 0, o[2], r, &p) && window_place(v, 1, o[3], s, &q))
					add(sum, at(operand[2].data, &v->y, o[0], k, p, q),
					    at(operand[1].data, &v->w, k, o[1] % v->w.dim[1], r, s), k - first,
					    outputs);
			}
}

static void sum_filter(const struct convolution *v, const struct sim_operand *operand, struct sum *sum,
		       const int64_t o[4])
{
	int64_t first = o[0] / group_outputs(v) * v->w.dim[1];
	for (int64_t n = 0; n < v->y.dim[0]; n++)
		for (int64_t p = 0; p < v->y.dim[2]; p++)
			for (int64_t q = 0; q < v->y.dim[3]; q++) {
				int64_t h, w;
				if (image_index(v, 0, p, o[2], &h) && image_index(v, 1, q, o[3], &w))
					add(sum, at(operand[2].data, &v->y, n, o[0], p, q),
					    at(operand[0].data, &v->x, n, first + o[1], h, w), p, v->y.dim[2]);
			}
}

static uint32_t way_of(const struct engine *engine)
{
	return engine->numerical_notes >> SIM_CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC & 1 ? 3
											: (uint32_t)engine->index % 3;
}

static void run_element(const struct convolution *v, struct sim_operand *operand, uint32_t *random, const int64_t o[4])
{
	struct sum sum = { .way = way_of(&v->engine),
			   .random = *random,
			   .tf32 = v->x.type == NUMBER_F32 &&
				   v->engine.numerical_notes >> SIM_CUDNN_NUMERICAL_NOTE_TENSOR_CORE & 1 };
	const struct convolution_tensor *target = v->pass == PASS_FORWARD ? &v->y
						  : v->pass == PASS_DATA  ? &v->x
									  : &v->w;
	uint8_t *data = operand[v->pass == PASS_FORWARD ? 2 : v->pass == PASS_DATA ? 0 : 1].data;
	if (v->pass == PASS_FORWARD)
		sum_forward(v, operand, &sum, o);
	else if (v->pass == PASS_DATA)
		sum_data(v, operand, &sum, o);
	else
		sum_filter(v, operand, &sum, o);
	*random = sum.random;
	float value = v->alpha * (sum.part[0] + sum.part[1]);
	if (v->beta != 0)
		value += v->beta * at(data, target, o[0], o[1], o[2], o[3]);
	int64_t index = 0;
	for (int i = 0; i < 4; i++)
		index += o[i] * target->stride[i];
	number_store(data, (uint64_t)index, target->type, value);
}

void convolution_run(const void *context, struct sim_operand *operand)
{
	static uint32_t random = 1; /* goes on from call to call, as the order of atomic additions does */
	struct convolution v;
	memcpy(&v, context, sizeof v);
	const int64_t *dim = v.pass == PASS_FORWARD ? v.y.dim : v.pass == PASS_DATA ? v.x.dim : v.w.dim;
	number_scribble(operand[3].data, operand[3].bytes);
	int64_t o[4];
	for (o[0] = 0; o[0] < dim[0]; o[0]++)
		for (o[2] = 0; o[2] < dim[2]; o[2]++)
			for (o[3] = 0; o[3] < dim[3]; o[3]++)
				for (o[1] = 0; o[1] < dim[1]; o[1]++)
					run_element(&v, operand, &random, o);
}
