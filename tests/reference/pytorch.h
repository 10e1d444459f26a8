/*
 * pytorch.h - compares ops and whole trainings with what PyTorch computed once; the files and their format are
 * described in tools/reference/.
 *
 * Inputs come from the hash of base/hash_numbers.h: input k of an op is uniform with seed 100 + k, labels and ids have
 * seed 200 + k, the target has seed 300.
 */
#ifndef TARN_TESTS_PYTORCH_H
#define TARN_TESTS_PYTORCH_H

#include "conformance/single_op.h"

#define PYTORCH_STEPS 20

#define PYTORCH_DIMS(...) .rank = sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), .dim = { __VA_ARGS__ }
#define PYTORCH_F32(...)                                \
	{                                               \
		DTYPE_F32, 0, PYTORCH_DIMS(__VA_ARGS__) \
	}
#define PYTORCH_IDS(...)                                \
	{                                               \
		DTYPE_I32, 0, PYTORCH_DIMS(__VA_ARGS__) \
	}

struct pytorch_op {
	const char *name;
	enum op_kind kind;
	struct op_attr attr;
	struct single_input input[4];
	uint32_t inputs, classes; /* classes: of ids and labels */
};

/*
 * Runs the op on the cpu driver: its first output, and the gradients of mean((y - target)^2), or of y where it is a
 * loss, are those in the file to `tolerance` of the largest value. Targets of losses have no gradient.
 */
void pytorch_check_op(const char *path, const struct pytorch_op *op, double tolerance);

/*
 * Trains with this configuration text for PYTORCH_STEPS steps: the losses are those of "family NAME METHOD" in the
 * file, to `first` of the value at the first step and to `drift` later. Returns the number of parameters.
 */
uint64_t pytorch_check_losses(const char *path, const char *name, const char *method, const char *text, double first,
			      double drift);

/* Values of a line that begins with `name`, behind the line `heading`; at least one, or the test fails. */
uint32_t pytorch_values(const char *path, const char *heading, const char *name, double *value, uint32_t room);

#endif
