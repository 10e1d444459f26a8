/*
 * graph.h - a network, or one whole training step, as tensors and ops in arrays.
 *
 * Everything is an id (an index into graph.tensor or graph.op); there are no pointers between nodes, so that the
 * arrays can be written to the plan file and mapped back. Static shapes and dtypes; single assignment: one op
 * writes a tensor, ops stand in a topological order.
 *
 * Storage. tensor.storage says whose memory the tensor is: its own id for most; the root's id for a view (RESHAPE
 * of a RESHAPE points at the first); the persistent tensor's id for a version that an effect wrote (new weights).
 * Persistent tensors (is_persistent(role)) have no producer, live in the arena for the whole run, and have the same
 * names, order and shapes in every program of a run (training, last batch, evaluation): they are added by
 * graph_add_persistent before anything else refers to them.
 *
 * A view is the whole of its root but for a SLICE_VIEW and what is seen through one: tensor_offset() says where in the
 * root those begin.
 *
 * Invariants (graph_check proves them)
 *   - operands of an op have smaller op numbers as producers; shapes and dtypes follow the op table's shape rule;
 *   - operands of an op stand behind those of the op before;
 *   - names are unique; bytes = elements * dtype size, without padding; at most 2^62 bytes a tensor;
 *   - a persistent tensor has at most one op that writes a version of it, and a version is read only as an input for
 *     which op_reads_version is true: the average of the new weights.
 */
#ifndef TARN_GRAPH_GRAPH_H
#define TARN_GRAPH_GRAPH_H

#include "base/bytes.h"
#include "base/host_arena.h"
#include "graph/op.h"

/* Limits of the build (Kconfig): tensors of one graph, bytes of a name. */
#ifdef CONFIG_MAX_TENSORS
#define GRAPH_MAX_TENSORS CONFIG_MAX_TENSORS
#else
#define GRAPH_MAX_TENSORS 4194304
#endif
#ifdef CONFIG_MAX_NAME_LENGTH
#define GRAPH_MAX_NAME CONFIG_MAX_NAME_LENGTH
#else
#define GRAPH_MAX_NAME 255
#endif

#define TENSOR_NONE UINT32_MAX
#define OP_NONE UINT32_MAX

/* bf16: bfloat16, the upper half of a float32; f16: IEEE 754 binary16. Which ops store them: storage.h. */
enum dtype { DTYPE_F32, DTYPE_I32, DTYPE_U8, DTYPE_U64, DTYPE_BF16, DTYPE_F16, DTYPES };

enum tensor_role {
	ROLE_ACTIVATION,
	ROLE_GRADIENT,
	ROLE_PARAMETER,
	ROLE_OPTIMIZER_STATE,
	ROLE_RUNNING_STATISTIC,
	ROLE_COUNTER, /* u64: batches seen */
	ROLE_STAGING, /* slot that the data loader fills with the next batch */
	ROLE_SCALARS, /* struct step_scalars, written before each step */
	ROLE_METRIC,  /* one f32, read after each step */
	ROLE_VECTOR,  /* of a curvature run: read and written by the host, in no snapshot */
	ROLES
};

/* INIT_AVERAGE: the values of the parameter whose name stands behind AVERAGE_PREFIX. */
enum tensor_init { INIT_NONE, INIT_ZERO, INIT_ONE, INIT_UNIFORM, INIT_AVERAGE, INIT_VALUE, INITS };

/* Of the name of a moving average of a parameter. */
#define AVERAGE_PREFIX "average/"

#define TENSOR_FROZEN 1u   /* a parameter that is not trained: no gradient, no optimizer state, no update */
#define TENSOR_NO_DECAY 2u /* a parameter without weight decay (biases and norms when the config says so) */

/* Plain data, written to the plan file as it is. */
struct tensor {
	uint64_t bytes;
	uint32_t name; /* offset in graph.text */
	uint32_t storage;
	uint32_t producer; /* op id; OP_NONE for persistent tensors */
	uint32_t dim[OP_MAX_RANK];
	uint8_t dtype, role, rank, flags;
	uint8_t init, reserved[3];
	float init_bound; /* INIT_UNIFORM: values in [-bound, bound); INIT_VALUE: the value */
};

enum op_phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_UPDATE };

/* Plain data, written to the plan file as it is. */
struct op {
	uint32_t kind;
	uint32_t phase;
	uint32_t name;          /* offset in graph.text: the layer it belongs to, "block3/conv1" */
	uint32_t first_operand; /* inputs, then outputs, in graph.operand */
	uint32_t inputs, outputs;
	struct op_attr attr;
};

/* The parameter block of a step, in the arena (ROLE_SCALARS, 64 bytes as u8). Layout is the same on every device. */
struct step_scalars {
	uint64_t seed;
	uint32_t step; /* 0-based */
	float learning_rate;
	float bias_correction1, bias_correction2; /* 1 - beta^(step+1); 1 when unused */
	uint32_t reserved[10];
};

struct graph {
	struct tensor *tensor;
	struct op *op;
	uint32_t *operand;
	char *text; /* zero-terminated names, one after the other */
	uint32_t tensors, ops, operands, text_bytes;
	/* Filled by the network builder; TENSOR_NONE where there is none. */
	uint32_t scalars;
	uint32_t batch; /* samples in a step of this graph */
	/* Growth; zero in a graph that was mapped from a file. */
	struct host_arena *arena;
	size_t tensor_capacity, op_capacity, operand_capacity, text_capacity;
	uint32_t *name_index; /* hash table: tensor ids by name; NULL in a mapped graph */
	uint32_t name_slots;  /* a power of two */
};

/* Largest tensor; leaves room for sums of sizes in 64 bits. */
#define TENSOR_MAX_BYTES ((uint64_t)1 << 62)

static inline bool is_persistent(uint32_t role)
{
	return role >= ROLE_PARAMETER;
}

static inline const char *tensor_name(const struct graph *graph, uint32_t tensor)
{
	return graph->text + graph->tensor[tensor].name;
}

static inline const char *op_name(const struct graph *graph, uint32_t op)
{
	return graph->text + graph->op[op].name;
}

static inline const uint32_t *op_inputs(const struct graph *graph, uint32_t op)
{
	return graph->operand + graph->op[op].first_operand;
}

static inline const uint32_t *op_outputs(const struct graph *graph, uint32_t op)
{
	return graph->operand + graph->op[op].first_operand + graph->op[op].inputs;
}

size_t dtype_bytes(uint32_t dtype);
const char *dtype_name(uint32_t dtype);
const char *role_name(uint32_t role);

/* Number of elements; rows = elements / last dimension (1 for rank 0). */
uint64_t tensor_elements(const struct tensor *tensor);
uint64_t tensor_rows(const struct tensor *tensor);
/* "128x28x28x16" for messages; writes at most `size` bytes; returns buffer. */
#define SHAPE_TEXT 80
const char *shape_format(const uint32_t *dim, uint32_t rank, char *buffer, size_t size);

/* SLICE_VIEW when such a slice of tensor `x` lies together and aligned in its memory, else SLICE, which copies. */
enum op_kind slice_kind(const struct graph *graph, uint32_t x, const struct op_attr *slice);

/* Bytes from the beginning of its storage to the tensor's first. */
uint64_t tensor_offset(const struct graph *graph, uint32_t tensor);

/* An empty graph that grows in `arena` (borrowed for the graph's life). */
enum tarn_status graph_init(struct graph *graph, struct host_arena *arena);

/* Puts a name into graph->text. UINT32_MAX after tarn_fail when the host has no memory. */
uint32_t graph_text(struct graph *graph, const char *text);

/*
 * Adds a persistent tensor (role >= ROLE_PARAMETER). TARN_EINVAL when the name is taken or a size overflows,
 * TARN_ENOMEM. `init`, `init_bound` and `flags` may be changed by the caller afterwards through graph->tensor[*out].
 */
enum tarn_status graph_add_persistent(struct graph *graph, const char *name, enum tensor_role role, enum dtype dtype,
				      const uint32_t *dim, uint32_t rank, uint32_t *out);

/*
 * Appends an op; its shape rule makes and checks the outputs, whose ids go to out[0 .. outputs). Outputs are named
 * after `name`: output 0 "name", output 1 "name:1" ... (made unique with "#2" when taken); effects' versions are
 * named "version of X". role is ROLE_GRADIENT in PHASE_BACKWARD and ROLE_ACTIVATION otherwise (versions keep the role).
 * TARN_EINVAL with a sentence that names the op, the shapes it got and what it needs.
 */
enum tarn_status graph_add_op(struct graph *graph, enum op_kind kind, enum op_phase phase, const char *name,
			      const struct op_attr *attr, const uint32_t *input, uint32_t inputs, uint32_t *out);

/* Tensor by name; TENSOR_NONE when there is none. Hashed while the graph grows, linear in a mapped one. */
uint32_t graph_find(const struct graph *graph, const char *name);

/* Copies `from` into the empty graph `to` (ids are kept). */
enum tarn_status graph_copy(const struct graph *from, struct host_arena *arena, struct graph *to);

/*
 * Proves the invariants above; short, slow and plainly right. TARN_EFORMAT with the first violation. It trusts only the
 * lengths of the four arrays, so it also judges graphs from damaged files.
 */
enum tarn_status graph_check(const struct graph *graph);

/* Floating-point operations of one execution, and bytes it must read and write (each operand once). */
uint64_t op_flops(const struct graph *graph, uint32_t op);
uint64_t op_traffic_bytes(const struct graph *graph, uint32_t op);

#endif
