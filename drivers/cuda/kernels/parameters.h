/*
 * parameters.h - the one by-value parameter of each kernel, as the host fills it and the device reads it.
 *
 * Both sides compile this file: a device address is a pointer to nvcc and a 64-bit number to the host, so the layouts
 * agree. Where a kernel reads fewer fields than its struct has, the others are zero. Counts are in elements.
 */
#ifndef TARN_CUDA_PARAMETERS_H
#define TARN_CUDA_PARAMETERS_H

#include <stdint.h>

#ifdef __CUDACC__
#define DEVICE_ADDRESS(type) type *
#else
#define DEVICE_ADDRESS(type) uint64_t
#endif

/* How large tensors are stored: the type at the end of a kernel's name. */
enum storage_kind { STORED_F32, STORED_BF16, STORED_F16, STORED_KINDS };

/* Threads of a block, in every kernel. */
#define KERNEL_THREADS 256u
/* Elements that one thread of an element-wise kernel computes; a Philox block has as many words. */
#define KERNEL_VECTOR 4u
/* Elements that a thread loads before it uses them, and sums in float before the sum goes to double. */
#define KERNEL_RUN 8u
/* Elements of a thread where each has to look its place up. */
#define KERNEL_LOOKUPS 4u
/* Side of the tiles of a product, and of a transposition. */
#define PRODUCT_TILE 32u
#define PRODUCT_DEPTH 16u
#define TRANSPOSE_TILE 32u
#define TRANSPOSE_ROWS 8u
/* Queries, and keys, of a tile of attention. */
#define ATTENTION_TILE 32u

#define PARAMETER_MAX_RANK 6u

/* The beginning of struct step_scalars (graph/graph.h), which the device cannot include. */
struct device_scalars {
	uint64_t seed;
	uint32_t step;
	float learning_rate;
	float bias_correction1, bias_correction2;
};

/* y = f(a, b), clamped to [low, high] where an activation is fused; factor: a device scalar. */
struct pointwise_parameters {
	DEVICE_ADDRESS(const void) a;
	DEVICE_ADDRESS(const void) b;
	DEVICE_ADDRESS(void) y;
	DEVICE_ADDRESS(const float) factor;
	uint64_t elements;
	float alpha, low, high;
};

/* y = x; from, to: enum storage_kind. */
struct cast_parameters {
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y;
	uint64_t elements;
	uint32_t from, to;
};

struct dropout_parameters {
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y;
	DEVICE_ADDRESS(const struct device_scalars) scalars;
	uint64_t elements;
	uint64_t sample_elements; /* of a sample, where all of them share one draw */
	uint64_t first;           /* elements of the batch (samples, where they share draws) in front of x */
	uint32_t stream;
	float rate, scale;
};

/* Optimizer state is float; w and g are too, or have the type that the kernel's name says. */
struct update_parameters {
	DEVICE_ADDRESS(const void) w;
	DEVICE_ADDRESS(const float) first;  /* velocity, or first moment */
	DEVICE_ADDRESS(const float) second; /* second moment */
	DEVICE_ADDRESS(const void) g;
	DEVICE_ADDRESS(const struct device_scalars) scalars;
	DEVICE_ADDRESS(const float) clip; /* NULL: gradients are not scaled */
	DEVICE_ADDRESS(void) new_w;
	DEVICE_ADDRESS(float) new_first;
	DEVICE_ADDRESS(float) new_second;
	uint64_t elements;
	float rate_scale, weight_decay, momentum, beta1, beta2, epsilon;
	uint32_t nesterov, decoupled;
	uint32_t wide_w, wide_g; /* float, whatever the kernel's name says */
};

/* Adam with moments of 8 bits (graph/blockwise.h): a block of threads has a block of codes, whose scales lie behind
 * `code_bytes` bytes. */
#define BLOCK_CODES (KERNEL_THREADS * KERNEL_RUN)
struct adam_8bit_parameters {
	DEVICE_ADDRESS(const float) w;
	DEVICE_ADDRESS(const uint8_t) first;
	DEVICE_ADDRESS(const uint8_t) second;
	DEVICE_ADDRESS(const float) g;
	DEVICE_ADDRESS(const struct device_scalars) scalars;
	DEVICE_ADDRESS(const float) clip; /* NULL: gradients are not scaled */
	DEVICE_ADDRESS(float) new_w;
	DEVICE_ADDRESS(uint8_t) new_first;
	DEVICE_ADDRESS(uint8_t) new_second;
	uint64_t elements, code_bytes;
	float rate_scale, weight_decay, beta1, beta2, epsilon;
	uint32_t decoupled;
};

/*
 * How a (rows, channels) matrix is cut: blockIdx.x counts chunks of chunk_rows rows, blockIdx.y blocks of blockDim.x
 * channels; within a block threadIdx.x is the channel and threadIdx.y the first row, which advances by blockDim.y.
 */
struct columns_parameters {
	uint64_t rows, chunk_rows;
	uint32_t channels, row_chunks;
};

/* Adafactor's kernels, on w as a matrix; a vector has one column, and its row moments are the moments themselves. */
struct adafactor_parameters {
	struct columns_parameters columns;
	DEVICE_ADDRESS(const float) w;
	DEVICE_ADDRESS(const float) g;
	DEVICE_ADDRESS(const float) old_row;
	DEVICE_ADDRESS(const float) old_column;
	DEVICE_ADDRESS(const struct device_scalars) scalars;
	DEVICE_ADDRESS(const float) clip; /* NULL: gradients are not scaled */
	DEVICE_ADDRESS(float) new_w;
	DEVICE_ADDRESS(float) row;
	DEVICE_ADDRESS(float) column; /* NULL: a vector */
	/* Workspace: sums of columns; sums of squares of update and weights of each block; what a column divides by;
	 * step size and factor of the weights. */
	DEVICE_ADDRESS(double) partial;
	DEVICE_ADDRESS(double) squares;
	DEVICE_ADDRESS(float) column_factor;
	DEVICE_ADDRESS(float) step;
	uint32_t block_rows, blocks; /* of the sums of squares */
	float rate_scale, weight_decay;
};

/* Sums over rows: partial[sum][row chunk][channel]. row_mean and row_deviation are layer normalisation's. */
struct column_sums_parameters {
	struct columns_parameters columns;
	DEVICE_ADDRESS(const void) dy;
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(const float) row_mean;
	DEVICE_ADDRESS(const float) row_deviation;
	DEVICE_ADDRESS(double) partial;
	/* Of group normalisation, where mean and deviation belong to a group of a sample. */
	uint64_t positions;
	uint32_t groups;
	uint32_t adds; /* the sums are added to what `partial` holds */
};

/* Second stage: out[k] is sum k, of `sums`; or mean and variance from sum and raw second moment. */
struct column_totals_parameters {
	struct columns_parameters columns;
	DEVICE_ADDRESS(const double) partial;
	DEVICE_ADDRESS(float) out[2];
	uint32_t sums;
};

struct batch_norm_parameters {
	struct columns_parameters columns;
	DEVICE_ADDRESS(const void) dy;
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y; /* dx in the gradient */
	DEVICE_ADDRESS(const float) mean;
	DEVICE_ADDRESS(const float) variance;
	DEVICE_ADDRESS(const float) gamma;
	DEVICE_ADDRESS(const float) beta;
	DEVICE_ADDRESS(const float) dgamma;
	DEVICE_ADDRESS(const float) dbeta;
	DEVICE_ADDRESS(double) partial;
	float epsilon, low, high;
};

/* y = clamp(y + bias) in place; bias may be NULL. */
struct epilogue_parameters {
	struct columns_parameters columns;
	DEVICE_ADDRESS(void) y;
	DEVICE_ADDRESS(const float) bias;
	float low, high;
};

struct running_update_parameters {
	DEVICE_ADDRESS(const float) old_mean;
	DEVICE_ADDRESS(const float) old_variance;
	DEVICE_ADDRESS(const uint64_t) old_count;
	DEVICE_ADDRESS(const float) mean;
	DEVICE_ADDRESS(const float) variance;
	DEVICE_ADDRESS(float) new_mean;
	DEVICE_ADDRESS(float) new_variance;
	DEVICE_ADDRESS(uint64_t) new_count;
	uint32_t channels;
	float keep, momentum, unbiased;
};

/* Ops on rows: blockDim.x threads (a team) share a row, blockDim.y rows to a block. */
struct row_parameters {
	DEVICE_ADDRESS(const void) dy;
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y; /* dx in a gradient */
	DEVICE_ADDRESS(const float) gamma;
	DEVICE_ADDRESS(const float) beta;
	DEVICE_ADDRESS(const float) mean;
	DEVICE_ADDRESS(const float) deviation;
	DEVICE_ADDRESS(float) new_mean;
	DEVICE_ADDRESS(float) new_deviation;
	DEVICE_ADDRESS(const int32_t) label;
	DEVICE_ADDRESS(const float) factor; /* dloss */
	DEVICE_ADDRESS(double) partial;     /* one for each block */
	uint64_t rows;
	uint32_t channels;
	uint32_t block_rows; /* rows of one block, a multiple of blockDim.y */
	float epsilon;
	/* Of softmax: factor of x; rows of a causal matrix, 0 where all columns count. */
	float scale;
	uint32_t causal_rows;
	/* Of the losses over labels. */
	DEVICE_ADDRESS(const double) counted; /* rows that are not ignored; NULL: all_rows */
	DEVICE_ADDRESS(const float) lse;      /* of the rows, where it is known */
	DEVICE_ADDRESS(float) new_lse;        /* NULL: it is not kept */
	uint64_t all_rows;                    /* of which `rows` are a piece */
	float smoothing;
	int32_t ignored;
	uint32_t ignores;
};

/* counted = number of labels that are not `ignored` */
struct count_labels_parameters {
	DEVICE_ADDRESS(const int32_t) label;
	DEVICE_ADDRESS(double) counted;
	uint64_t rows;
	int32_t ignored;
};

/* y = x * counted labels of the part / counted labels of the whole batch */
struct label_share_parameters {
	DEVICE_ADDRESS(const float) x;
	DEVICE_ADDRESS(float) y;
	DEVICE_ADDRESS(const int32_t) part;
	DEVICE_ADDRESS(const int32_t) whole;
	uint64_t part_labels, whole_labels;
	int32_t ignored;
	uint32_t ignores;
};

/* Sums over all elements: one double for each block. */
struct total_parameters {
	DEVICE_ADDRESS(const void) a;
	DEVICE_ADDRESS(const void) b;
	DEVICE_ADDRESS(double) partial;
	uint64_t elements, block_elements;
};

/* out = sum of `count` partial sums / divisor, which is *counted where that is not NULL */
struct finish_parameters {
	DEVICE_ADDRESS(const double) partial;
	DEVICE_ADDRESS(const double) counted;
	DEVICE_ADDRESS(float) out;
	uint64_t count;
	double divisor;
};

/*
 * The scale of clipping from many sums of squares. Their addresses are kept short: 64-byte units above `base`. A launch
 * that is not the last leaves its sum in `carry`; `carried`: what earlier launches left is added.
 */
#define CLIP_INPUTS 240u
struct clip_parameters {
	DEVICE_ADDRESS(const char) base;
	DEVICE_ADDRESS(double) carry;
	DEVICE_ADDRESS(float) scale; /* NULL in launches that are not the last */
	DEVICE_ADDRESS(float) norm;
	uint32_t count, carried;
	float limit;
	uint32_t unit[CLIP_INPUTS];
};

/* Blocks of (blockDim.x, blockDim.y) threads: elements of a row (width x channels) of y, and rows (image, height). */
struct pool_parameters {
	DEVICE_ADDRESS(const void) x; /* dy in a gradient */
	DEVICE_ADDRESS(const uint8_t) index;
	DEVICE_ADDRESS(void) y; /* dx in a gradient */
	DEVICE_ADDRESS(uint8_t) new_index;
	uint32_t images, channels;
	uint32_t image[2];  /* height and width of the image */
	uint32_t result[2]; /* of the pooled image */
	uint32_t kernel[2], stride[2], pad[2];
	uint32_t count_padding;
};

struct copy_parameters {
	DEVICE_ADDRESS(const void) from;
	DEVICE_ADDRESS(void) to;
	uint64_t bytes;
};

/* Copies lines of several tensors into lines of one; blockIdx.y is the source. */
#define LINES_SOURCES 30u
struct line_source {
	DEVICE_ADDRESS(const void) from;
	uint64_t length, stride; /* of a line; elements from one line to the next */
	uint64_t to;             /* where it begins in a line of the result */
};
struct lines_parameters {
	DEVICE_ADDRESS(void) y;
	uint64_t lines, stride; /* from one line of the result to the next */
	uint64_t begin;         /* elements of each line of the source that are left out */
	struct line_source source[LINES_SOURCES];
};

/* A line of the result: zeros, `length` elements of x, zeros; elements: of the result. */
struct pad_parameters {
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y;
	uint64_t elements, begin, length, total;
};

/* The axes of y after merging, outermost first: length, and strides in x and in y. */
struct permute_parameters {
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y;
	uint64_t elements;
	uint64_t length[PARAMETER_MAX_RANK], from[PARAMETER_MAX_RANK], to[PARAMETER_MAX_RANK];
	uint32_t rank;
	/* A transposition only: the axis of y that is contiguous in x; tiles along it, and along y's last axis. */
	uint32_t inner, inner_tiles, last_tiles;
};

/*
 * c (m, n) = clamp(alpha * op(a) op(b) + bias), for each of `batch` matrices, one after the other; with `adds` c grows
 * by that. op(a) is (m, k), op(b) is (k, n). a and b are stored as the kernel's name says, c too, or with `wide` as
 * float.
 */
struct matmul_parameters {
	DEVICE_ADDRESS(const void) a;
	DEVICE_ADDRESS(const void) b;
	DEVICE_ADDRESS(void) c;
	DEVICE_ADDRESS(const float) bias;
	uint64_t m, n, k, batch;
	uint32_t transpose_a, transpose_b, adds, stored, wide;
	float alpha, low, high;
};

/* A convolution in one of its three directions; image, weight, result: x, w, y of the forward pass, or their gradients.
 */
struct convolution_parameters {
	DEVICE_ADDRESS(const void) image;
	DEVICE_ADDRESS(const void) weight;
	DEVICE_ADDRESS(const void) result;
	DEVICE_ADDRESS(const float) bias;
	DEVICE_ADDRESS(void) out;
	uint64_t images, split; /* split: pixels of one part of the sum in the gradient of the weights */
	uint32_t height, width, channels;
	uint32_t out_height, out_width, out_channels;
	uint32_t group_channels, group_out_channels; /* of one group */
	uint32_t kernel[2], stride[2], dilation[2], pad[2];
	float low, high;
};

/* y[i] = sum over k of partial[k][i] */
struct parts_parameters {
	DEVICE_ADDRESS(const float) partial;
	DEVICE_ADDRESS(void) y;
	uint64_t elements;
	uint32_t parts;
};

/* b is repeated along y. */
struct repeat_parameters {
	DEVICE_ADDRESS(const void) a;
	DEVICE_ADDRESS(const void) b;
	DEVICE_ADDRESS(void) y;
	uint64_t elements, period;
};

/* Weights of a kernel of `area` in raster order, of which the first `kept` stay. */
struct mask_parameters {
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y;
	uint64_t elements;
	uint32_t area, kept;
};

/* x: the table, or dy in the gradient; there blockIdx.y is a run of block_words rows of the table, of which at most
 * EMBEDDING_WORDS have sums in shared memory when the result is not float. */
#define EMBEDDING_WORDS 40u
struct embedding_parameters {
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(const int32_t) id;
	DEVICE_ADDRESS(void) y;
	uint64_t rows, width, words, block_words;
	uint32_t wide_table, wide_result; /* float, whatever the kernel's name says */
};

/* One pair of elements for each position and half of a head: angle = position * exp(-2 * log_base * i / width). */
struct rotary_parameters {
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y;
	uint64_t batch, positions;
	uint32_t heads, width;
	double log_base;
	uint32_t backwards;
};

/* q, o and their gradients (batch, queries, heads, width); k, v (batch, keys, groups, width); lse (batch, heads,
 * queries), delta (batch, queries, heads). A block has one tile of one head of one sample. */
struct attention_parameters {
	DEVICE_ADDRESS(const void) dout;
	DEVICE_ADDRESS(const void) q;
	DEVICE_ADDRESS(const void) k;
	DEVICE_ADDRESS(const void) v;
	DEVICE_ADDRESS(const float) lse;
	DEVICE_ADDRESS(const float) delta;
	DEVICE_ADDRESS(void) out;
	DEVICE_ADDRESS(float) new_lse;
	uint32_t queries, keys, heads, groups, width, causal;
	float scale;
};

/* A block has one group of one sample; mean and deviation (samples, groups). */
struct group_parameters {
	DEVICE_ADDRESS(const void) dy;
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y; /* dx in the gradient */
	DEVICE_ADDRESS(const float) gamma;
	DEVICE_ADDRESS(const float) beta;
	DEVICE_ADDRESS(const float) mean;
	DEVICE_ADDRESS(const float) deviation;
	DEVICE_ADDRESS(float) new_mean;
	DEVICE_ADDRESS(float) new_deviation;
	uint64_t positions;
	uint32_t channels, groups;
	float epsilon;
};

/* Height and width of what is read, what is written, and of the forward map's two sides; ratio: in / out. */
enum resample_mode { RESAMPLE_NEAREST, RESAMPLE_BILINEAR, RESAMPLE_ADAPTIVE };
struct resample_parameters {
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y;
	uint64_t elements;
	uint32_t channels;
	uint32_t from[2], to[2], in[2], out[2];
	float ratio[2];
	uint32_t mode, adjoint;
};

/* Images of 1 or 3 channels; `block_pixels` of them to a block of the loss. */
struct mixture_parameters {
	DEVICE_ADDRESS(const void) parameter;
	DEVICE_ADDRESS(const void) image;
	DEVICE_ADDRESS(const float) factor; /* dloss */
	DEVICE_ADDRESS(void) out;
	DEVICE_ADDRESS(double) partial;
	uint64_t pixels, block_pixels;
	uint32_t channels, mixtures;
};

/* Gated units; `first` says what is done to the first factor. */
enum gate_first {
	GATE_OF_SILU,
	GATE_OF_GELU,
	GATE_OF_GELU_TANH,
	GATE_OF_SIGMOID,
	GATE_OF_SOFTPLUS,
	GATE_OF_TANH,
	GATE_OF_NONE
};
struct gate_parameters {
	DEVICE_ADDRESS(const void) dy;
	DEVICE_ADDRESS(const void) x;
	DEVICE_ADDRESS(void) y;
	uint64_t elements, width; /* of dy */
	uint32_t first;
	uint32_t second_is_sigmoid;
};

/* LSTM and GRU cells: elements of a state, `width` to a row. */
struct cell_parameters {
	DEVICE_ADDRESS(const void) dh;
	DEVICE_ADDRESS(const void) dc;
	DEVICE_ADDRESS(const void) gates;        /* of GRU: those of x */
	DEVICE_ADDRESS(const void) hidden_gates; /* GRU */
	DEVICE_ADDRESS(const void) previous;
	DEVICE_ADDRESS(const void) c;
	DEVICE_ADDRESS(void) out; /* h; in gradients the gradient of the gates */
	DEVICE_ADDRESS(void) out_hidden_gates;
	DEVICE_ADDRESS(void) out_state; /* c; in gradients the gradient of the previous state */
	uint64_t elements, width;
};

#endif
