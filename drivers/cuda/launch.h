/*
 * launch.h - what the files launch_*.c share: a function for each op kind appends the op's kernels to a list.
 *
 * The same function says the workspace and builds the launches, so that the two cannot disagree: it sets
 * workspace_bytes, and while only that is asked for all addresses are 0. Grids are functions of the shapes alone.
 */
#ifndef TARN_CUDA_LAUNCH_INTERNAL_H
#define TARN_CUDA_LAUNCH_INTERNAL_H

#include "cuda/cuda_launch.h"
#include "cuda/kernels/parameters.h"

struct launch_call {
	const struct graph *graph;
	const struct op *op;
	const char *name;
	const uint64_t *address; /* of operands; NULL while only the geometry is asked for */
	uint64_t workspace, workspace_cap;
	uint64_t workspace_bytes; /* out */
	enum storage_kind stored; /* of the op */
	struct cuda_launch_list *list;
};

typedef enum tarn_status launch_fn(struct launch_call *call);

launch_fn launch_copy, launch_concat, launch_slice, launch_pad, launch_permute, launch_fill;
launch_fn launch_activation, launch_activation_grad, launch_cast, launch_function, launch_elementwise, launch_dropout,
	launch_loss_grad;
launch_fn launch_sum_rows, launch_batch_stats, launch_batch_apply, launch_batch_reduce, launch_batch_grad_input,
	launch_running_update, launch_layer_norm_grad_param, launch_epilogue;
launch_fn launch_layer_norm, launch_layer_norm_grad, launch_cross_entropy, launch_cross_entropy_grad,
	launch_count_correct, launch_label_weights, launch_label_share;
launch_fn launch_rms_norm, launch_rms_norm_grad, launch_rms_norm_grad_param, launch_softmax;
launch_fn launch_sum_squares, launch_squared_error, launch_binary_cross_entropy, launch_clip_scale;
launch_fn launch_repeat, launch_weight_mask, launch_embedding, launch_gate, launch_lstm_cell, launch_gru_cell;
launch_fn launch_pool, launch_resample;
launch_fn launch_update, launch_exponential_average, launch_adam_8bit, launch_adafactor;
launch_fn launch_matmul, launch_batch_matmul, launch_convolution, launch_convolution_grad_weight;
launch_fn launch_attention, launch_attention_grad, launch_rotary;
launch_fn launch_linear_loss, launch_linear_loss_grad;
launch_fn launch_group_norm, launch_group_norm_grad_param, launch_weight_norm, launch_mixture, launch_mixture_grad;

/* A grid or block: x, y, z. */
struct extent3 {
	uint64_t x, y, z;
};

/* Appends a kernel. TARN_EUNSUPPORTED, with the numbers, where the grid is larger than a device takes. */
enum tarn_status launch_add(struct launch_call *call, const char *function, struct extent3 grid, struct extent3 block,
			    const void *parameter, size_t bytes);
#define LAUNCH_ADD(call, function, grid, block, parameter) \
	launch_add((call), (function), (grid), (block), &(parameter), sizeof(parameter))

/* The same with dynamic shared memory. */
enum tarn_status launch_add_shared(struct launch_call *call, const char *function, struct extent3 grid,
				   struct extent3 block, uint32_t shared_bytes, const void *parameter, size_t bytes);

/* Appends a matrix product, with the plain kernel's geometry. */
enum tarn_status launch_add_product(struct launch_call *call, const struct matmul_parameters *product);

_Static_assert(sizeof(struct lines_parameters) <= CUDA_MAX_PARAMETER_BYTES &&
		       sizeof(struct clip_parameters) <= CUDA_MAX_PARAMETER_BYTES,
	       "the largest parameters fit");

/* "cuda: <op> "name": <sentence>", TARN_EUNSUPPORTED. */
enum tarn_status launch_fail(const struct launch_call *call, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The operand's tensor and its address; inputs, then outputs. */
const struct tensor *launch_tensor(const struct launch_call *call, uint32_t operand);
uint64_t launch_address(const struct launch_call *call, uint32_t operand);
const struct tensor *launch_output(const struct launch_call *call, uint32_t output);
uint64_t launch_output_address(const struct launch_call *call, uint32_t output);

/* The last dimension; 1 for rank 0. */
uint32_t launch_channels(const struct tensor *tensor);
/* Bytes of a number that is stored so. */
uint32_t launch_stored_bytes(enum storage_kind stored);
/* float32, bfloat16, float16 as the kernels name them. */
enum storage_kind launch_kind_of(uint32_t dtype);
/* Product of the dimensions from first to last - 1. */
uint64_t launch_product(const struct tensor *tensor, uint32_t first, uint32_t last);

/* a / b, rounded up. */
static inline uint64_t launch_divide(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* Blocks of an element-wise kernel with `per_thread` elements to a thread. */
static inline struct extent3 launch_blocks(uint64_t elements, uint64_t per_thread)
{
	return (struct extent3){ launch_divide(elements, KERNEL_THREADS * per_thread), 1, 1 };
}

/* All threads of a block along x. */
static inline struct extent3 launch_flat_block(void)
{
	return (struct extent3){ KERNEL_THREADS, 1, 1 };
}

/* The smallest power of two that is at least n, but at most `most`. */
static inline uint32_t launch_power_of_two(uint64_t n, uint32_t most)
{
	uint32_t power = 1;
	while (power < n && power < most)
		power *= 2;
	return power;
}

/* NONE, RELU and RELU6 as a clamp. */
void launch_clamp(uint32_t activation, float *low, float *high);

/* Blocks of a sum over everything: enough for a large device, few enough for small workspaces. */
#define LAUNCH_SUM_BLOCKS 512u
/*
 * The second stage of such a sum: output 0 = sum of `count` doubles at the workspace / divisor, or / the double at
 * `counted` where that is not 0.
 */
enum tarn_status launch_finish(struct launch_call *call, uint64_t count, double divisor, uint64_t counted);

/* The cut of a (rows, channels) matrix: see struct columns_parameters. */
struct launch_columns {
	struct columns_parameters columns;
	struct extent3 grid, block;
};
struct launch_columns launch_cut_columns(uint64_t rows, uint32_t channels, bool sums);
/* Bytes of the partial sums of so many kinds. */
uint64_t launch_partial_bytes(const struct launch_columns *cut, uint32_t sums);
/* The kernel that adds up partial sums from `partial` on into outputs. */
enum tarn_status launch_add_totals(struct launch_call *call, const char *function, const struct launch_columns *cut,
				   uint64_t partial, const uint64_t *out, uint32_t sums);

/* How rows are cut into blocks: see struct row_parameters. `partial`: blocks take several rows, so that there are few
 * partial sums. */
struct launch_rows {
	uint64_t blocks;
	uint32_t block_rows;
	struct extent3 grid, block;
};
struct launch_rows launch_cut_rows(uint64_t rows, uint32_t channels, bool partial);
struct row_parameters launch_row_parameters(uint64_t rows, uint32_t channels, const struct launch_rows *cut);
/* The rule for labels at `label`, and where rows may be ignored a kernel that counts the others into `counted`. */
enum tarn_status launch_add_labels(struct launch_call *call, uint64_t label, uint64_t counted,
				   struct row_parameters *p);

#endif
