/*
 * single_op.h - one op on one device, reached only through the public driver table.
 *
 * Makes a graph of persistent inputs and the op, gives every operand its own range of the arena with a gap of 0xFF
 * bytes behind it, compiles, reserves and binds. single_op_stray says whether anything outside the operands and the
 * workspace was written.
 */
#ifndef TARN_TESTS_SINGLE_OP_H
#define TARN_TESTS_SINGLE_OP_H

#include "driver.h"

#define SINGLE_OP_INPUTS 9
#define SINGLE_OP_OPERANDS (SINGLE_OP_INPUTS + OP_MAX_OUTPUTS)

struct single_input {
	enum dtype dtype;
	enum tensor_role role; /* 0: ROLE_PARAMETER */
	uint32_t rank;
	uint32_t dim[OP_MAX_RANK];
};

struct single_options {
	uint32_t threads;
	uint64_t workspace_cap; /* 0: no limit */
	uint64_t shift;         /* bytes in front of the first operand, a multiple of TARN_ALIGNMENT */
	int in_place;           /* this input's memory becomes output 0; -1: none */
};

struct single_op {
	struct host_arena host;
	struct graph graph;
	struct device device;
	struct kernel *kernel;
	struct kernel_info info;
	struct bound_instr *instr;
	uint32_t op, inputs, outputs;
	uint64_t offset[SINGLE_OP_OPERANDS], bytes[SINGLE_OP_OPERANDS], workspace_offset;
	uint64_t arena_bytes;
};

enum tarn_status single_op_open(struct single_op *single, const struct driver_ops *driver, enum op_kind kind,
				const struct op_attr *attr, const struct single_input *input, uint32_t inputs,
				const struct single_options *options);
void single_op_close(struct single_op *single);

const struct tensor *single_op_tensor(const struct single_op *single, uint32_t operand);
/* Copies a whole operand in or out. */
enum tarn_status single_op_write(struct single_op *single, uint32_t operand, const void *data);
enum tarn_status single_op_read(struct single_op *single, uint32_t operand, void *data);
enum tarn_status single_op_launch(struct single_op *single);
/* Offset of the first byte that was written but belongs to no operand or workspace; UINT64_MAX when there is none. */
uint64_t single_op_stray(struct single_op *single);

#endif
