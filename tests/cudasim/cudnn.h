/*
 * cudnn.h - the double of cuDNN's backend interface: descriptors as stores of attributes, engine lists that the real
 * library gave (fixtures/engines_*.txt, made by record_engines), convolutions by naive loops.
 *
 * The loops share nothing with drivers/cpu. Engines differ in the order of addition, so that a choice that depends on
 * anything but the op's signature ends with other bits; those that the real library calls non-deterministic add in an
 * order that changes from call to call, those on tensor cores round their operands to TF32.
 */
#ifndef CUDASIM_CUDNN_H
#define CUDASIM_CUDNN_H

#include "cudasim.h"
#include "numbers.h"

enum convolution_pass { PASS_FORWARD, PASS_DATA, PASS_FILTER };

struct convolution_tensor {
	enum number_type type;
	int64_t dim[4]; /* N C H W, or O I H W */
	int64_t stride[4];
	int64_t uid;
	int64_t alignment;
};

struct engine {
	int64_t index;
	int64_t workspace_bytes;
	uint32_t numerical_notes; /* bit i: note i */
	uint32_t behavior_notes;
};

struct convolution {
	enum convolution_pass pass;
	struct convolution_tensor x, w, y; /* image, weights, result; of a backward pass their gradients */
	int64_t padding[2], stride[2], dilation[2];
	float alpha, beta;
	struct engine engine;
};

/* Operands: x, w, y, workspace. */
void convolution_run(const void *convolution, struct sim_operand *operand);

/*
 * Engines for a convolution on a device of this compute capability (90, 86 ...), best first: at most `most` into
 * `engine`; how many there are. fallback: the second list. A convolution that was not recorded gets a general list.
 */
uint32_t engines_list(const struct convolution *convolution, uint32_t capability, bool fallback, struct engine *engine,
		      uint32_t most);

#endif
