/*
 * shape_rule.h - what the shape rules share; internal to shape*.c.
 *
 * A rule trusts nothing: attributes may come from a damaged plan file. Inputs exist and have sound shapes before a rule
 * is called. Arithmetic on dimensions is done in 64 bits, where products of two 32-bit numbers and small sums cannot
 * overflow; the sizes of the outputs are checked afterwards.
 */
#ifndef TARN_GRAPH_SHAPE_RULE_H
#define TARN_GRAPH_SHAPE_RULE_H

#include "graph/shape.h"
#include "graph/storage.h"

/* What a rule looks at, and where it writes the shapes of the outputs. */
struct shape_call {
	const struct graph *graph;
	const struct op_row *row;
	const char *name;
	const struct op_attr *attr;
	const uint32_t *input;
	uint32_t inputs;
	struct shape *out;
	const struct op_storage *storage;
	uint32_t stored; /* the op's storage type */
};

typedef enum tarn_status shape_rule_fn(const struct shape_call *call);

const struct tensor *shape_in(const struct shape_call *call, uint32_t index);

/* "conv1: conv2d: <sentence>", TARN_EINVAL. */
enum tarn_status shape_fail(const struct shape_call *call, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* "<what> x has the shape 2x3, needed is <needed>" */
enum tarn_status shape_fail_shape(const struct shape_call *call, uint32_t index, const char *what, const char *needed);

/* The shapes that most ops give. */
void shape_set(struct shape *shape, enum dtype dtype, uint32_t rank, const uint32_t *dim);
void shape_set_vector(struct shape *shape, enum dtype dtype, uint32_t length);
void shape_set_like(struct shape *shape, const struct tensor *tensor);

bool shape_same_dims(const struct tensor *a, const struct tensor *b);
uint32_t shape_last_dim(const struct tensor *tensor);

/* What rules ask of inputs and attributes; [first, last) is a range of inputs. */
enum tarn_status shape_need_dtype(const struct shape_call *call, uint32_t index, enum dtype dtype);
/* f32, or the op's storage type where storage.h has it. */
enum tarn_status shape_need_real(const struct shape_call *call, uint32_t first, uint32_t last);
enum tarn_status shape_need_rank(const struct shape_call *call, uint32_t index, uint32_t rank, const char *layout);
enum tarn_status shape_need_vectors(const struct shape_call *call, uint32_t first, uint32_t last, uint32_t length);
enum tarn_status shape_need_same(const struct shape_call *call, uint32_t index, uint32_t other);
enum tarn_status shape_need_rows(const struct shape_call *call, uint32_t index);
enum tarn_status shape_need_scalars(const struct shape_call *call, uint32_t index);
/* One f32, where there is such an input. */
enum tarn_status shape_need_number(const struct shape_call *call, uint32_t index);
enum tarn_status shape_need_range(const struct shape_call *call, const char *what, double value, double low,
				  double high);
enum tarn_status shape_need_positive(const struct shape_call *call, const char *what, double value);
enum tarn_status shape_need_fusable(const struct shape_call *call);
/* `rows` of input `index` as a 32-bit number. */
enum tarn_status shape_need_row_count(const struct shape_call *call, uint32_t index, uint32_t *rows);
/* The attributes that losses over labels share. */
enum tarn_status shape_need_label_attributes(const struct shape_call *call);

/* shape_math.c */
shape_rule_fn shape_rule_input, shape_rule_record, shape_rule_activation, shape_rule_elementwise, shape_rule_dropout,
	shape_rule_concat, shape_rule_slice, shape_rule_pad_axis, shape_rule_reshape, shape_rule_permute,
	shape_rule_slice_view, shape_rule_fill, shape_rule_cast, shape_rule_stop_gradient, shape_rule_function,
	shape_rule_sum_squares, shape_rule_clip_scale, shape_rule_unscale, shape_rule_loss_scale, shape_rule_update;
/* shape_nn.c */
shape_rule_fn shape_rule_matmul, shape_rule_conv2d, shape_rule_conv2d_grad_input, shape_rule_conv2d_grad_weight,
	shape_rule_pool, shape_rule_pool_grad, shape_rule_max_pool_gather, shape_rule_label_weights,
	shape_rule_label_share, shape_rule_sum_rows, shape_rule_batch, shape_rule_running_update, shape_rule_layer_norm,
	shape_rule_layer_norm_grad, shape_rule_cross_entropy, shape_rule_squared_error;
/* shape_sequence.c */
shape_rule_fn shape_rule_batch_matmul, shape_rule_add_broadcast, shape_rule_broadcast_rows, shape_rule_embedding,
	shape_rule_embedding_grad, shape_rule_softmax, shape_rule_log_softmax, shape_rule_attention,
	shape_rule_attention_grad, shape_rule_rotary, shape_rule_rms_norm, shape_rule_rms_norm_grad, shape_rule_gate,
	shape_rule_gate_grad, shape_rule_linear_cross_entropy, shape_rule_lstm_cell, shape_rule_gru_cell,
	shape_rule_exponential_average;
/* shape_image.c */
shape_rule_fn shape_rule_weight_mask, shape_rule_group_norm, shape_rule_group_norm_grad, shape_rule_resample,
	shape_rule_logistic_mixture, shape_rule_weight_norm;

#endif
