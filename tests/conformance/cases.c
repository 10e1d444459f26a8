/* cases.c - see cases.h. Sizes are small, odd and prime on purpose; a few are large enough for several chunks. */
#include "conformance/cases.h"

#include "conformance/formats.h"
#include "graph/storage.h"

#include <string.h>

/* A table reads better with a case a line. */
/* clang-format off */
#define DIMS(...) .rank = sizeof((uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t), .dim = { __VA_ARGS__ }
#define F32(...) { DTYPE_F32, 0, DIMS(__VA_ARGS__) }
#define BF16(...) { DTYPE_BF16, 0, DIMS(__VA_ARGS__) }
#define F16(...) { DTYPE_F16, 0, DIMS(__VA_ARGS__) }
#define LABELS(...) { DTYPE_I32, 0, DIMS(__VA_ARGS__) }
#define INDEX(...) { DTYPE_U8, 0, DIMS(__VA_ARGS__) }
#define COUNT { DTYPE_U64, ROLE_COUNTER, DIMS(1) }
#define SCALARS { DTYPE_U8, ROLE_SCALARS, DIMS(sizeof(struct step_scalars)) }
#define METRIC { DTYPE_F32, ROLE_METRIC, DIMS(1) }
#define STAGING(type, ...) { type, ROLE_STAGING, DIMS(__VA_ARGS__) }

/* kernel, stride, dilation, padding: the same on both axes */
#define WINDOW(k, s, d, p) .window = { { k, k }, { s, s }, { d, d }, { p, p }, { p, p } }
/* 3x2 kernel, strides 2 and 1, more padding at one end than at the other */
#define SKEW .window = { { 3, 2 }, { 2, 1 }, { 1, 1 }, { 0, 1 }, { 1, 0 } }

#define RELU ACTIVATION_RELU
#define RELU6 ACTIVATION_RELU6
#define EPSILON .epsilon = 1e-3f

#define SUMS 1e-5   /* sums of products in float */
#define EXACT 0.0   /* moves or selects values */
#define ROUNDED 5e-7 /* a few roundings */
#define CURVE 2e-6  /* approximated exponentials */

#define CONV(label, attributes, n, h, w, c, o, cg, kh, kw, oh, ow) \
	{ label, OP_CONV2D, { attributes }, { F32(n, h, w, c), F32(o, cg, kh, kw) }, 2, 0, SUMS, 0 }, \
	{ label " grad input", OP_CONV2D_GRAD_INPUT, { attributes, .extent = { h, w } }, \
	  { F32(n, oh, ow, o), F32(o, cg, kh, kw) }, 2, 0, SUMS, 0 }, \
	{ label " grad weight", OP_CONV2D_GRAD_WEIGHT, { attributes }, { F32(n, h, w, c), F32(n, oh, ow, o) }, 2, 0, \
	  SUMS, 0 }
#define COMMA ,

#define POOL(label, attributes, n, h, w, c, oh, ow) \
	{ label " max", OP_MAX_POOL, { attributes }, { F32(n, h, w, c) }, 1, 0, EXACT, 0 }, \
	{ label " max grad", OP_MAX_POOL_GRAD, { attributes, .extent = { h, w } }, \
	  { F32(n, oh, ow, c), INDEX(n, oh, ow, c) }, 2, 0, ROUNDED, 0 }, \
	{ label " average", OP_AVG_POOL, { attributes }, { F32(n, h, w, c) }, 1, 0, ROUNDED, 0 }, \
	{ label " average grad", OP_AVG_POOL_GRAD, { attributes, .extent = { h, w } }, { F32(n, oh, ow, c) }, 1, 0, \
	  ROUNDED, 0 }, \
	{ label " average with padding", OP_AVG_POOL, { attributes, .count_padding = 1 }, { F32(n, h, w, c) }, 1, 0, \
	  ROUNDED, 0 }, \
	{ label " average with padding grad", OP_AVG_POOL_GRAD, \
	  { attributes, .count_padding = 1, .extent = { h, w } }, { F32(n, oh, ow, c) }, 1, 0, ROUNDED, 0 }

#define BATCH(label, activation_, n, h, w, c) \
	{ label " stats", OP_BATCH_STATS, { 0 }, { F32(n, h, w, c) }, 1, 0, ROUNDED, 0 }, \
	{ label " stats, mean 1000", OP_BATCH_STATS, { 0 }, { F32(n, h, w, c) }, 1, 0, ROUNDED, 1000.0f }, \
	{ label " apply", OP_BATCH_APPLY, { EPSILON, .activation = activation_ }, \
	  { F32(n, h, w, c), F32(c), F32(c), F32(c), F32(c) }, 5, 1 << 2, 2e-6, 0 }, \
	{ label " reduce", OP_BATCH_REDUCE, { EPSILON, .activation = activation_ }, \
	  { F32(n, h, w, c), F32(n, h, w, c), F32(c), F32(c), F32(c), F32(c) }, 6, 1 << 3, SUMS, 0 }, \
	{ label " grad input", OP_BATCH_GRAD_INPUT, { EPSILON, .activation = activation_ }, \
	  { F32(n, h, w, c), F32(n, h, w, c), F32(c), F32(c), F32(c), F32(c), F32(c), F32(c) }, 8, 1 << 3, SUMS, 0 }

#define LAYER(label, rows, c) \
	{ label, OP_LAYER_NORM, { EPSILON }, { F32(rows, c), F32(c), F32(c) }, 3, 0, SUMS, 0 }, \
	{ label " grad", OP_LAYER_NORM_GRAD, { 0 }, { F32(rows, c), F32(rows, c), F32(rows), F32(rows), F32(c) }, 5, \
	  1 << 3, SUMS, 0 }, \
	{ label " grad param", OP_LAYER_NORM_GRAD_PARAM, { 0 }, { F32(rows, c), F32(rows, c), F32(rows), F32(rows) }, \
	  4, 1 << 3, SUMS, 0 }

#define GROUP(label, g, n, h, w, c) \
	{ label, OP_GROUP_NORM, { EPSILON, .groups = g }, { F32(n, h, w, c), F32(c), F32(c) }, 3, 0, SUMS, 0 }, \
	{ label " grad", OP_GROUP_NORM_GRAD, { .groups = g }, \
	  { F32(n, h, w, c), F32(n, h, w, c), F32(n, g), F32(n, g), F32(c) }, 5, 1 << 3, SUMS, 0 }, \
	{ label " grad param", OP_GROUP_NORM_GRAD_PARAM, { .groups = g }, \
	  { F32(n, h, w, c), F32(n, h, w, c), F32(n, g), F32(n, g) }, 4, 1 << 3, SUMS, 0 }

#define RESAMPLE(label, mode_, n, h, w, c, oh, ow) \
	{ label, OP_UPSAMPLE, { .mode = mode_, .extent = { oh, ow } }, { F32(n, h, w, c) }, 1, 0, 2e-6, 0 }, \
	{ label " grad", OP_UPSAMPLE_GRAD, { .mode = mode_, .extent = { h, w } }, { F32(n, oh, ow, c) }, 1, 0, 2e-6, 0 }

#define ADAPT(label, n, h, w, c, oh, ow) \
	{ label, OP_ADAPTIVE_AVG_POOL, { .extent = { oh, ow } }, { F32(n, h, w, c) }, 1, 0, ROUNDED, 0 }, \
	{ label " grad", OP_ADAPTIVE_AVG_POOL_GRAD, { .extent = { h, w } }, { F32(n, oh, ow, c) }, 1, 0, 2e-6, 0 }

#define MIXTURE(label, n, h, w, p, c) \
	{ label, OP_LOGISTIC_MIXTURE, { 0 }, { F32(n, h, w, p), F32(n, h, w, c) }, 2, 0, 2e-6, 0 }, \
	{ label " grad", OP_LOGISTIC_MIXTURE_GRAD, { 0 }, { F32(n, h, w, p), F32(n, h, w, c), F32(1) }, 3, 0, 2e-6, 0 }

#define ACTIVATE(label, which, alpha_) \
	{ label, OP_ACTIVATION, { .activation = which, .alpha = alpha_ }, { F32(7, 5, 41) }, 1, 0, CURVE, 0 }, \
	{ label " grad", OP_ACTIVATION_GRAD, { .activation = which, .alpha = alpha_ }, \
	  { F32(7, 5, 41), F32(7, 5, 41) }, 2, 0, CURVE, 0 }

#define UPDATE(label, attributes, n) \
	{ label " sgd", OP_SGD, { attributes }, { F32(n), F32(n), SCALARS }, 3, 0, ROUNDED, 0 }, \
	{ label " momentum", OP_MOMENTUM, { attributes, .momentum = 0.9f }, { F32(n), F32(n), F32(n), SCALARS }, 4, 0, \
	  ROUNDED, 0 }, \
	{ label " nesterov, clipped", OP_MOMENTUM, { attributes, .momentum = 0.9f, .nesterov = 1 }, \
	  { F32(n), F32(n), F32(n), SCALARS, F32(1) }, 5, 0, ROUNDED, 0 }, \
	{ label " adam", OP_ADAM, { attributes, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f }, \
	  { F32(n), F32(n), F32(n), F32(n), SCALARS }, 5, 1 << 2, ROUNDED, 0 }, \
	{ label " adamw, clipped", OP_ADAM, \
	  { attributes, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f, .decoupled = 1 }, \
	  { F32(n), F32(n), F32(n), F32(n), SCALARS, F32(1) }, 6, 1 << 2, ROUNDED, 0 }, \
	{ label " lion", OP_LION, { attributes, .beta1 = 0.9f, .beta2 = 0.99f }, { F32(n), F32(n), F32(n), SCALARS }, 4, \
	  0, ROUNDED, 0 }, \
	{ label " lion, clipped", OP_LION, { attributes, .beta1 = 0.9f, .beta2 = 0.99f }, \
	  { F32(n), F32(n), F32(n), SCALARS, F32(1) }, 5, 0, ROUNDED, 0 }, \
	{ label " adafactor of a vector", OP_ADAFACTOR_VECTOR, { attributes }, { F32(n), F32(n), F32(n), SCALARS }, 4, \
	  1 << 1, ROUNDED, 0 }, \
	{ label " adafactor of a vector, clipped", OP_ADAFACTOR_VECTOR, { attributes }, \
	  { F32(n), F32(n), F32(n), SCALARS, F32(1) }, 5, 1 << 1, ROUNDED, 0 }

#define CODES(n) { DTYPE_U8, 0, DIMS(((n) + 3) / 4 * 4 + ((n) + 2047) / 2048 * 4) } /* graph/blockwise.h */
#define ADAM_8BIT(label, n) \
	{ label, OP_ADAM_8BIT, { .rate_scale = 1.0f, .weight_decay = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f }, \
	  { F32(n), CODES(n), CODES(n), F32(n), SCALARS }, 5, 0, ROUNDED, 0 }, \
	{ label ", decoupled, clipped", OP_ADAM_8BIT, \
	  { .rate_scale = 0.5f, .weight_decay = 0.1f, .beta1 = 0.9f, .beta2 = 0.99f, .epsilon = 1e-6f, .decoupled = 1 }, \
	  { F32(n), CODES(n), CODES(n), F32(n), SCALARS, F32(1) }, 6, 0, ROUNDED, 0 }

#define ADAFACTOR(label, rows, columns) \
	{ label, OP_ADAFACTOR, { .rate_scale = 1.0f, .weight_decay = 0.1f }, \
	  { F32(rows, columns), F32(rows), F32(columns), F32(rows, columns), SCALARS }, 5, 1 << 1 | 1 << 2, \
	  ROUNDED, 0 }, \
	{ label ", clipped", OP_ADAFACTOR, { .rate_scale = 0.5f }, \
	  { F32(rows, columns), F32(rows), F32(columns), F32(rows, columns), SCALARS, F32(1) }, 6, \
	  1 << 1 | 1 << 2, ROUNDED, 0 }

#define IGNORE(label) .has_ignore_index = 1, .ignore_index = label

#define SOFTMAXES(label, attributes, shape) \
	{ label, OP_SOFTMAX, attributes, { shape }, 1, 0, ROUNDED, 0 }, \
	{ label " grad", OP_SOFTMAX_GRAD, attributes, { shape, shape }, 2, 0, SUMS, 0 }

#define ATTENTION(label, attributes, b, t, s, h, g, d) \
	{ label, OP_ATTENTION, attributes, { F32(b, t, h, d), F32(b, s, g, d), F32(b, s, g, d) }, 3, 0, SUMS, 0 }, \
	{ label " grad", OP_ATTENTION_GRAD, attributes, \
	  { F32(b, t, h, d), F32(b, t, h, d), F32(b, s, g, d), F32(b, s, g, d), F32(b, t, h, d), F32(b, h, t) }, 6, 0, \
	  4e-5, 0 }

#define RMS(label, rows, c) \
	{ label, OP_RMS_NORM, { EPSILON }, { F32(rows, c), F32(c) }, 2, 0, SUMS, 0 }, \
	{ label " grad", OP_RMS_NORM_GRAD, { 0 }, { F32(rows, c), F32(rows, c), F32(rows), F32(c) }, 4, 1 << 2, SUMS, 0 }, \
	{ label " grad param", OP_RMS_NORM_GRAD_PARAM, { 0 }, { F32(rows, c), F32(rows, c), F32(rows) }, 3, 1 << 2, SUMS, 0 }

#define GATES(label, attributes) \
	{ label, OP_GATE, { attributes }, { F32(7, 5, 82) }, 1, 0, CURVE, 0 }, \
	{ label " grad", OP_GATE_GRAD, { attributes }, { F32(7, 5, 41), F32(7, 5, 82) }, 2, 0, CURVE, 0 }

#define LINEAR_LOSS(label, attributes, rows, c, v) \
	{ label, OP_LINEAR_CROSS_ENTROPY, attributes, { F32(rows, c), F32(v, c), LABELS(rows) }, 3, 0, SUMS, 0 }, \
	{ label " bias", OP_LINEAR_CROSS_ENTROPY, attributes, { F32(rows, c), F32(v, c), LABELS(rows), F32(v) }, 4, 0, SUMS, \
	  0 }, \
	{ label " grad", OP_LINEAR_CROSS_ENTROPY_GRAD, attributes, \
	  { F32(rows, c), F32(v, c), LABELS(rows), F32(rows), F32(1) }, 5, 0, 4e-5, 0 }, \
	{ label " bias grad", OP_LINEAR_CROSS_ENTROPY_GRAD, attributes, \
	  { F32(rows, c), F32(v, c), LABELS(rows), F32(rows), F32(1), F32(v) }, 6, 0, 4e-5, 0 }

const struct conformance_case conformance_cases[] = {
	{ "input f32", OP_INPUT, { 0 }, { STAGING(DTYPE_F32, 5, 7) }, 1, 0, EXACT, 0 },
	{ "input f32, several chunks", OP_INPUT, { 0 }, { STAGING(DTYPE_F32, 70001, 2) }, 1, 0, EXACT, 0 },
	{ "input labels", OP_INPUT, { 0 }, { STAGING(DTYPE_I32, 11) }, 1, 0, EXACT, 0 },
	{ "record", OP_RECORD, { 0 }, { METRIC, F32(1) }, 2, 0, EXACT, 0 },

	{ "matmul", OP_MATMUL, { 0 }, { F32(13, 7), F32(7, 17) }, 2, 0, SUMS, 0 },
	{ "matmul ta", OP_MATMUL, { .transpose_a = 1 }, { F32(7, 13), F32(7, 17) }, 2, 0, SUMS, 0 },
	{ "matmul tb", OP_MATMUL, { .transpose_b = 1 }, { F32(13, 7), F32(17, 7) }, 2, 0, SUMS, 0 },
	{ "matmul ta tb", OP_MATMUL, { .transpose_a = 1, .transpose_b = 1 },
	  { F32(7, 13), F32(17, 7) }, 2, 0, SUMS, 0 },
	{ "matmul tb bias relu", OP_MATMUL, { .transpose_b = 1, .activation = RELU },
	  { F32(31, 129), F32(67, 129), F32(67) }, 3, 0, SUMS, 0 },
	{ "matmul bias relu6", OP_MATMUL, { .activation = RELU6 },
	  { F32(31, 129), F32(129, 67), F32(67) }, 3, 0, SUMS, 0 },
	{ "matmul of one row", OP_MATMUL, { 0 }, { F32(1, 97), F32(97, 1) }, 2, 0, SUMS, 0 },
	{ "matmul of one product", OP_MATMUL, { .transpose_a = 1 }, { F32(1, 3), F32(1, 5) }, 2, 0, SUMS, 0 },

	CONV("conv 3x3 16", WINDOW(3, 1, 1, 1), 2, 9, 11, 16, 16, 16, 3, 3, 9, 11),
	CONV("conv 3x3 3 to 5", WINDOW(3, 1, 1, 1), 3, 7, 5, 3, 5, 3, 3, 3, 7, 5),
	CONV("conv 3x3 stride 2", WINDOW(3, 2, 1, 1), 1, 8, 9, 7, 17, 7, 3, 3, 4, 5),
	CONV("conv 3x3 stride 2, last rows unread", WINDOW(3, 2, 1, 0), 1, 8, 10, 16, 32, 16, 3, 3, 3, 4),
	CONV("conv skew", SKEW, 2, 7, 6, 5, 3, 5, 3, 2, 3, 6),
	CONV("conv 1x1", WINDOW(1, 1, 1, 0), 2, 5, 7, 17, 7, 17, 1, 1, 5, 7),
	CONV("conv 1x1 stride 2", WINDOW(1, 2, 1, 0), 2, 6, 6, 16, 32, 16, 1, 1, 3, 3),
	CONV("conv of a 1x1 image", WINDOW(3, 1, 1, 1), 1, 1, 1, 5, 7, 5, 3, 3, 1, 1),
	CONV("conv dilated", WINDOW(3, 1, 2, 2), 2, 7, 7, 4, 6, 4, 3, 3, 7, 7),
	CONV("conv 2 groups", WINDOW(3, 1, 1, 1) COMMA.groups = 2, 2, 5, 5, 6, 10, 3, 3, 3, 5, 5),
	CONV("conv depthwise", WINDOW(3, 1, 1, 1) COMMA.groups = 17, 2, 7, 7, 17, 17, 1, 3, 3, 7, 7),
	CONV("conv depthwise stride 2", WINDOW(3, 2, 1, 1) COMMA.groups = 32, 1, 9, 9, 32, 32, 1, 3, 3, 5, 5),
	CONV("conv depthwise, 2 each", WINDOW(3, 1, 1, 1) COMMA.groups = 5, 1, 5, 5, 5, 10, 1, 3, 3, 5, 5),
	CONV("conv 5x5 of one channel", WINDOW(5, 1, 1, 2), 2, 13, 13, 1, 8, 1, 5, 5, 13, 13),
	CONV("conv 2x2 stride 2", WINDOW(2, 2, 1, 0), 1, 6, 8, 8, 4, 8, 2, 2, 3, 4),
	{ "conv bias relu", OP_CONV2D, { WINDOW(3, 1, 1, 1), .activation = RELU },
	  { F32(2, 6, 7, 5), F32(7, 5, 3, 3), F32(7) }, 3, 0, SUMS, 0 },
	{ "conv bias relu6", OP_CONV2D, { WINDOW(3, 1, 1, 1), .activation = RELU6 },
	  { F32(2, 6, 7, 16), F32(16, 16, 3, 3), F32(16) }, 3, 0, SUMS, 0 },
	{ "conv depthwise bias relu6", OP_CONV2D, { WINDOW(3, 1, 1, 1), .groups = 24, .activation = RELU6 },
	  { F32(1, 6, 7, 24), F32(24, 1, 3, 3), F32(24) }, 3, 0, SUMS, 0 },

	{ "sum rows 3", OP_SUM_ROWS, { 0 }, { F32(1009, 3) }, 1, 0, ROUNDED, 0 },
	{ "sum rows 1", OP_SUM_ROWS, { 0 }, { F32(70001, 1) }, 1, 0, ROUNDED, 0 },
	{ "sum rows 17 of images", OP_SUM_ROWS, { 0 }, { F32(3, 41, 37, 17) }, 1, 0, ROUNDED, 0 },
	{ "sum rows 1031", OP_SUM_ROWS, { 0 }, { F32(131, 1031) }, 1, 0, ROUNDED, 0 },
	{ "sum rows of one row", OP_SUM_ROWS, { 0 }, { F32(1, 5) }, 1, 0, ROUNDED, 0 },

	POOL("pool 2x2", WINDOW(2, 2, 1, 0), 2, 6, 8, 17, 3, 4),
	POOL("pool 3x3 stride 2", WINDOW(3, 2, 1, 1), 2, 7, 9, 5, 4, 5),
	POOL("pool skew", SKEW, 1, 7, 6, 3, 3, 6),
	POOL("pool 3x3 stride 1", WINDOW(3, 1, 1, 1), 1, 1, 1, 7, 1, 1),
	POOL("pool 2x2 stride 3", WINDOW(2, 3, 1, 0), 1, 7, 8, 1, 2, 3),
	POOL("pool 7x7 of all", WINDOW(7, 7, 1, 0), 3, 7, 7, 300, 1, 1),

	ACTIVATE("relu", ACTIVATION_RELU, 0),
	ACTIVATE("relu6", ACTIVATION_RELU6, 0),
	ACTIVATE("leaky relu", ACTIVATION_LEAKY_RELU, 0.1f),
	ACTIVATE("leaky relu, negative slope", ACTIVATION_LEAKY_RELU, -0.1f),
	ACTIVATE("elu", ACTIVATION_ELU, 1.0f),
	ACTIVATE("sigmoid", ACTIVATION_SIGMOID, 0),
	ACTIVATE("tanh", ACTIVATION_TANH, 0),
	ACTIVATE("gelu", ACTIVATION_GELU, 0),
	ACTIVATE("gelu tanh", ACTIVATION_GELU_TANH, 0),
	ACTIVATE("silu", ACTIVATION_SILU, 0),
	ACTIVATE("softplus", ACTIVATION_SOFTPLUS, 0),
	{ "relu, several chunks", OP_ACTIVATION, { .activation = RELU }, { F32(200003) }, 1, 0, EXACT, 0 },
	{ "tanh, several chunks", OP_ACTIVATION, { .activation = ACTIVATION_TANH }, { F32(200003) }, 1, 0, CURVE, 0 },

	BATCH("batch 1", ACTIVATION_NONE, 2, 5, 5, 1),
	BATCH("batch 3 relu", ACTIVATION_RELU, 3, 41, 43, 3),
	BATCH("batch 16 relu", ACTIVATION_RELU, 9, 32, 32, 16),
	BATCH("batch 17 relu6", ACTIVATION_RELU6, 1, 7, 7, 17),
	BATCH("batch 600", ACTIVATION_NONE, 2, 3, 3, 600),
	BATCH("batch of one row", ACTIVATION_NONE, 1, 1, 1, 5),
	{ "running update", OP_RUNNING_UPDATE, { .momentum = 0.1f, .samples = 12 },
	  { F32(5), F32(5), COUNT, F32(5), F32(5) }, 5, 1 << 1 | 1 << 4, ROUNDED, 0 },
	{ "running update, one sample", OP_RUNNING_UPDATE, { .momentum = 0.1f, .samples = 1 },
	  { F32(5), F32(5), COUNT, F32(5), F32(5) }, 5, 1 << 1 | 1 << 4, ROUNDED, 0 },

	LAYER("layer norm 7", 13, 7),
	LAYER("layer norm 257", 131, 257),
	LAYER("layer norm 1025", 3, 1025),

	{ "dropout", OP_DROPOUT, { .rate = 0.3f, .stream = 5 }, { F32(3, 1003), SCALARS }, 2, 0, ROUNDED, 0 },
	{ "dropout, several chunks", OP_DROPOUT, { .rate = 0.5f, .stream = 6 },
	  { F32(50021), SCALARS }, 2, 0, ROUNDED, 0 },
	{ "dropout of a part", OP_DROPOUT, { .rate = 0.3f, .stream = 5, .begin = 3 },
	  { F32(7, 1003), SCALARS }, 2, 0, ROUNDED, 0 },
	{ "dropout of whole samples of a part", OP_DROPOUT, { .rate = 0.4f, .stream = 7, .per_sample = 1, .begin = 5 },
	  { F32(13, 7, 11), SCALARS }, 2, 0, ROUNDED, 0 },
	{ "dropout of rate 0", OP_DROPOUT, { 0 }, { F32(9), SCALARS }, 2, 0, EXACT, 0 },
	{ "add", OP_ADD, { 0 }, { F32(3, 5, 7), F32(3, 5, 7) }, 2, 0, ROUNDED, 0 },
	{ "add relu", OP_ADD, { .activation = RELU }, { F32(131, 1009), F32(131, 1009) }, 2, 0, ROUNDED, 0 },
	{ "add relu6", OP_ADD, { .activation = RELU6 }, { F32(13), F32(13) }, 2, 0, ROUNDED, 0 },
	{ "multiply, small", OP_MULTIPLY, { 0 }, { F32(5, 7), F32(5, 7) }, 2, 0, ROUNDED, 0 },
	{ "multiply", OP_MULTIPLY, { 0 }, { F32(131, 1009), F32(131, 1009) }, 2, 0, ROUNDED, 0 },
	{ "scale", OP_SCALE, { .alpha = -1.7f }, { F32(3, 17) }, 1, 0, ROUNDED, 0 },

	{ "concat channels", OP_CONCAT, { .axis = 3 },
	  { F32(2, 3, 5, 4), F32(2, 3, 5, 1), F32(2, 3, 5, 7) }, 3, 0, EXACT, 0 },
	{ "concat rows", OP_CONCAT, { .axis = 0 }, { F32(2, 7), F32(5, 7) }, 2, 0, EXACT, 0 },
	{ "slice channels", OP_SLICE, { .axis = 3, .begin = 2, .extent = { 3 } }, { F32(2, 3, 5, 7) }, 1, 0, EXACT, 0 },
	{ "slice rows", OP_SLICE, { .axis = 0, .begin = 1, .extent = { 2 } }, { F32(5, 3) }, 1, 0, EXACT, 0 },
	{ "pad axis", OP_PAD_AXIS, { .axis = 1, .begin = 2, .extent = { 9 } }, { F32(2, 3, 5) }, 1, 0, EXACT, 0 },
	{ "permute to n c h w", OP_PERMUTE, { .rank = 4, .extent = { 0, 3, 1, 2 } },
	  { F32(3, 5, 7, 19) }, 1, 0, EXACT, 0 },
	{ "permute to n h w c", OP_PERMUTE, { .rank = 4, .extent = { 0, 2, 3, 1 } },
	  { F32(3, 17, 5, 7) }, 1, 0, EXACT, 0 },
	{ "permute, last axis stays", OP_PERMUTE, { .rank = 3, .extent = { 1, 0, 2 } },
	  { F32(3, 5, 7) }, 1, 0, EXACT, 0 },
	{ "permute, reversed", OP_PERMUTE, { .rank = 5, .extent = { 4, 3, 2, 1, 0 } },
	  { F32(2, 3, 5, 1, 7) }, 1, 0, EXACT, 0 },
	{ "permute to itself", OP_PERMUTE, { .rank = 2, .extent = { 0, 1 } }, { F32(3, 5) }, 1, 0, EXACT, 0 },
	{ "permute, six axes", OP_PERMUTE, { .rank = 6, .extent = { 2, 5, 0, 3, 1, 4 } },
	  { F32(2, 3, 2, 3, 2, 3) }, 1, 0, EXACT, 0 },
	{ "permute, a large transpose", OP_PERMUTE, { .rank = 2, .extent = { 1, 0 } }, { F32(523, 311) }, 1, 0, EXACT, 0 },
	{ "fill", OP_FILL, { .alpha = 0.25f, .rank = 2, .extent = { 3, 7 } }, { { 0 } }, 0, 0, EXACT, 0 },

	{ "cross entropy", OP_SOFTMAX_CROSS_ENTROPY, { 0 }, { F32(13, 10), LABELS(13) }, 2, 0, ROUNDED, 0 },
	{ "cross entropy, large logits", OP_SOFTMAX_CROSS_ENTROPY, { 0 },
	  { F32(2003, 7), LABELS(2003) }, 2, 0, ROUNDED, 500 },
	{ "cross entropy of pixels", OP_SOFTMAX_CROSS_ENTROPY, { 0 },
	  { F32(2, 17, 19, 5), LABELS(2, 17, 19) }, 2, 0, ROUNDED, 0 },
	{ "cross entropy grad", OP_SOFTMAX_CROSS_ENTROPY_GRAD, { 0 },
	  { F32(2003, 7), LABELS(2003), F32(1) }, 3, 0, ROUNDED, 0 },
	{ "cross entropy grad, one class", OP_SOFTMAX_CROSS_ENTROPY_GRAD, { 0 },
	  { F32(3, 1), LABELS(3), F32(1) }, 3, 0, ROUNDED, 0 },
	{ "count correct", OP_COUNT_CORRECT, { 0 }, { F32(2003, 3), LABELS(2003) }, 2, 0, EXACT, 0 },
	{ "squared error, small", OP_MEAN_SQUARED_ERROR, { 0 }, { F32(5, 7), F32(5, 7) }, 2, 0, ROUNDED, 0 },
	{ "squared error", OP_MEAN_SQUARED_ERROR, { 0 }, { F32(41, 1009), F32(41, 1009) }, 2, 0, ROUNDED, 0 },
	{ "squared error grad", OP_MEAN_SQUARED_ERROR_GRAD, { 0 },
	  { F32(41, 3), F32(41, 3), F32(1) }, 3, 0, ROUNDED, 0 },

	{ "sum squares", OP_SUM_SQUARES, { 0 }, { F32(77, 1009) }, 1, 0, ROUNDED, 0 },
	{ "sum squares of one", OP_SUM_SQUARES, { 0 }, { F32(1) }, 1, 0, ROUNDED, 0 },
	{ "clip scale, clipped", OP_CLIP_SCALE, { .alpha = 0.1f }, { F32(1), F32(1), F32(1) }, 3, 7, ROUNDED, 0 },
	{ "clip scale, short", OP_CLIP_SCALE, { .alpha = 10.0f }, { F32(1) }, 1, 1, ROUNDED, 0 },
	{ "cross entropy, smoothed", OP_SOFTMAX_CROSS_ENTROPY, { .label_smoothing = 0.1f },
	  { F32(103, 67), LABELS(103) }, 2, 0, ROUNDED, 0 },
	{ "cross entropy grad, smoothed", OP_SOFTMAX_CROSS_ENTROPY_GRAD, { .label_smoothing = 0.1f },
	  { F32(103, 67), LABELS(103), F32(1) }, 3, 0, ROUNDED, 0 },
	{ "cross entropy, ignoring", OP_SOFTMAX_CROSS_ENTROPY, { IGNORE(3) },
	  { F32(7, 29, 5), LABELS(7, 29) }, 2, 0, ROUNDED, 0 },
	{ "cross entropy grad, ignoring", OP_SOFTMAX_CROSS_ENTROPY_GRAD, { IGNORE(3), .label_smoothing = 0.2f },
	  { F32(7, 29, 5), LABELS(7, 29), F32(1) }, 3, 0, ROUNDED, 0 },
	{ "label share", OP_LABEL_SHARE, { IGNORE(3) }, { F32(1), LABELS(5), LABELS(13) }, 3, 0, ROUNDED, 0 },
	{ "label share, none ignored", OP_LABEL_SHARE, { 0 }, { F32(1), LABELS(5, 3), LABELS(5, 7) }, 3, 0, ROUNDED, 0 },
	{ "cross entropy of 5003 classes", OP_SOFTMAX_CROSS_ENTROPY, { 0 }, { F32(3, 5003), LABELS(3) }, 2, 0, ROUNDED, 0 },
	{ "count correct, ignoring", OP_COUNT_CORRECT, { IGNORE(1) }, { F32(2003, 3), LABELS(2003) }, 2, 0, EXACT, 0 },

	{ "batch matmul", OP_BATCH_MATMUL, { 0 }, { F32(5, 13, 7), F32(5, 7, 17) }, 2, 0, SUMS, 0 },
	{ "batch matmul ta, scaled", OP_BATCH_MATMUL, { .transpose_a = 1, .alpha = 0.3f },
	  { F32(2, 3, 7, 13), F32(2, 3, 7, 17) }, 2, 0, SUMS, 0 },
	{ "batch matmul tb", OP_BATCH_MATMUL, { .transpose_b = 1 }, { F32(3, 13, 7), F32(3, 17, 7) }, 2, 0, SUMS, 0 },
	{ "batch matmul ta tb", OP_BATCH_MATMUL, { .transpose_a = 1, .transpose_b = 1 },
	  { F32(1, 7, 13), F32(1, 17, 7) }, 2, 0, SUMS, 0 },
	{ "add broadcast", OP_ADD_BROADCAST, { 0 }, { F32(5, 7, 11), F32(7, 11) }, 2, 0, ROUNDED, 0 },
	{ "add broadcast of a bias", OP_ADD_BROADCAST, { 0 }, { F32(131, 1009), F32(1009) }, 2, 0, ROUNDED, 0 },
	{ "add broadcast of the whole", OP_ADD_BROADCAST, { 0 }, { F32(3, 5), F32(3, 5) }, 2, 0, ROUNDED, 0 },
	{ "broadcast rows", OP_BROADCAST_ROWS, { .rank = 3, .extent = { 5, 3, 7 } }, { F32(7) }, 1, 0, EXACT, 0 },
	{ "broadcast rows of a matrix", OP_BROADCAST_ROWS, { .rank = 3, .extent = { 301, 31, 17 } }, { F32(31, 17) }, 1, 0,
	  EXACT, 0 },

	{ "embedding", OP_EMBEDDING, { 0 }, { F32(23, 7), LABELS(5, 11) }, 2, 0, EXACT, 0 },
	{ "embedding, several chunks", OP_EMBEDDING, { 0 }, { F32(61, 257), LABELS(701) }, 2, 0, EXACT, 0 },
	{ "embedding grad", OP_EMBEDDING_GRAD, { .extent = { 23 } }, { F32(5, 11, 7), LABELS(5, 11) }, 2, 0, ROUNDED, 0 },
	{ "embedding grad, several chunks", OP_EMBEDDING_GRAD, { .extent = { 5 } },
	  { F32(307, 67), LABELS(307) }, 2, 0, SUMS, 0 },

	SOFTMAXES("softmax", { 0 }, F32(13, 67)),
	SOFTMAXES("softmax scaled", { .alpha = 0.25f }, F32(2, 3, 5)),
	SOFTMAXES("softmax causal", { .causal = 1 }, F32(3, 17, 19)),
	{ "softmax, large values", OP_SOFTMAX, { 0 }, { F32(13, 67) }, 1, 0, 4e-5, 500 },
	{ "log softmax", OP_LOG_SOFTMAX, { 0 }, { F32(13, 67) }, 1, 0, ROUNDED, 0 },
	{ "log softmax of one", OP_LOG_SOFTMAX, { 0 }, { F32(3, 1) }, 1, 0, ROUNDED, 0 },
	{ "log softmax grad", OP_LOG_SOFTMAX_GRAD, { 0 }, { F32(13, 67), F32(13, 67) }, 2, 0, SUMS, 0 },

	ATTENTION("attention", { 0 }, 2, 13, 7, 3, 3, 5),
	ATTENTION("attention causal", { .causal = 1 }, 2, 17, 17, 2, 2, 8),
	ATTENTION("attention causal, more keys", { .causal = 1 COMMA.alpha = 0.7f }, 1, 5, 11, 4, 2, 6),
	ATTENTION("attention of one", { .causal = 1 }, 1, 1, 1, 1, 1, 1),
	ATTENTION("attention, several blocks", { .causal = 1 }, 1, 131, 131, 2, 1, 33),
	ATTENTION("attention, several blocks, all keys", { 0 }, 1, 67, 129, 1, 1, 16),
	{ "rotary", OP_ROTARY, { .alpha = 10000 }, { F32(2, 7, 3, 10) }, 1, 0, SUMS, 0 },
	{ "rotary, backwards", OP_ROTARY, { .alpha = 100, .transpose_a = 1 }, { F32(1, 131, 2, 6) }, 1, 0, SUMS, 0 },

	RMS("rms norm 7", 13, 7),
	RMS("rms norm 257", 131, 257),
	RMS("rms norm 1025", 3, 1025),
	GATES("gate silu", .activation = ACTIVATION_SILU),
	GATES("gate gelu", .activation = ACTIVATION_GELU),
	GATES("gate gelu tanh", .activation = ACTIVATION_GELU_TANH),
	GATES("gate sigmoid", .activation = ACTIVATION_SIGMOID),
	GATES("gate softplus", .activation = ACTIVATION_SOFTPLUS),
	GATES("gate tanh sigmoid", .mode = GATE_TANH),
	GATES("gate linear sigmoid", .mode = GATE_LINEAR),

	LINEAR_LOSS("linear loss", { 0 }, 13, 7, 17),
	LINEAR_LOSS("linear loss, smoothed, ignoring", { .label_smoothing = 0.1f COMMA.has_ignore_index = 1 COMMA.ignore_index = 2 }, 31, 19, 67),

	{ "lstm cell", OP_LSTM_CELL, { 0 }, { F32(5, 4 * 7), F32(5, 7) }, 2, 0, CURVE, 0 },
	{ "lstm cell, several chunks", OP_LSTM_CELL, { 0 }, { F32(67, 4 * 61), F32(67, 61) }, 2, 0, CURVE, 0 },
	{ "lstm cell grad", OP_LSTM_CELL_GRAD, { 0 },
	  { F32(67, 61), F32(67, 61), F32(67, 4 * 61), F32(67, 61), F32(67, 61) }, 5, 0, CURVE, 0 },
	{ "gru cell", OP_GRU_CELL, { 0 }, { F32(5, 3 * 7), F32(5, 3 * 7), F32(5, 7) }, 3, 0, CURVE, 0 },
	{ "gru cell, several chunks", OP_GRU_CELL, { 0 },
	  { F32(67, 3 * 61), F32(67, 3 * 61), F32(67, 61) }, 3, 0, CURVE, 0 },
	{ "gru cell grad", OP_GRU_CELL_GRAD, { 0 },
	  { F32(67, 61), F32(67, 3 * 61), F32(67, 3 * 61), F32(67, 61) }, 4, 0, CURVE, 0 },
	{ "exponential average", OP_EXPONENTIAL_AVERAGE, { .alpha = 0.99f }, { F32(40013), F32(40013) }, 2, 0, ROUNDED, 0 },

	GROUP("group norm 3 of 6", 3, 2, 5, 7, 6),
	GROUP("group norm of one group", 1, 3, 4, 4, 5),
	GROUP("group norm of each channel", 70, 2, 3, 5, 70),
	RESAMPLE("upsample nearest by 2", UPSAMPLE_NEAREST, 2, 5, 7, 3, 10, 14),
	RESAMPLE("upsample nearest, odd", UPSAMPLE_NEAREST, 1, 5, 4, 2, 7, 11),
	RESAMPLE("upsample nearest, smaller", UPSAMPLE_NEAREST, 1, 9, 8, 3, 4, 3),
	RESAMPLE("upsample bilinear by 2", UPSAMPLE_BILINEAR, 2, 5, 7, 17, 10, 14),
	RESAMPLE("upsample bilinear, odd", UPSAMPLE_BILINEAR, 1, 5, 3, 2, 13, 4),
	RESAMPLE("upsample bilinear, smaller", UPSAMPLE_BILINEAR, 1, 9, 11, 2, 4, 5),
	RESAMPLE("upsample bilinear of one pixel", UPSAMPLE_BILINEAR, 2, 1, 1, 3, 4, 5),
	ADAPT("adaptive pool", 2, 7, 9, 5, 3, 4),
	ADAPT("adaptive pool to one", 2, 5, 3, 7, 1, 1),
	ADAPT("adaptive pool, larger", 1, 3, 2, 2, 7, 5),
	{ "mask a", OP_WEIGHT_MASK, { .mode = MASK_A }, { F32(5, 3, 7, 5) }, 1, 0, EXACT, 0 },
	{ "mask b", OP_WEIGHT_MASK, { .mode = MASK_B }, { F32(5, 3, 3, 3) }, 1, 0, EXACT, 0 },
	{ "weight norm", OP_WEIGHT_NORM, { 0 }, { F32(7, 3, 3, 3), F32(7) }, 2, 0, ROUNDED, 0 },
	{ "weight norm grad", OP_WEIGHT_NORM_GRAD, { 0 }, { F32(7, 5), F32(7, 5), F32(7) }, 3, 0, SUMS, 0 },
	{ "binary cross entropy", OP_BINARY_CROSS_ENTROPY, { 0 }, { F32(2003, 7), F32(2003, 7) }, 2, 1 << 1, ROUNDED, 0 },
	{ "binary cross entropy, small", OP_BINARY_CROSS_ENTROPY, { 0 }, { F32(3, 5), F32(3, 5) }, 2, 1 << 1, ROUNDED, 0 },
	{ "binary cross entropy grad", OP_BINARY_CROSS_ENTROPY_GRAD, { 0 },
	  { F32(41, 3), F32(41, 3), F32(1) }, 3, 1 << 1, ROUNDED, 0 },
	MIXTURE("logistic mixture of colours", 2, 3, 5, 50, 3),
	MIXTURE("logistic mixture of greys", 1, 7, 3, 9, 1),
	{ "dropout of whole samples", OP_DROPOUT, { .rate = 0.4f, .stream = 7, .per_sample = 1 },
	  { F32(13, 7, 11), SCALARS }, 2, 0, ROUNDED, 0 },
	{ "dropout of whole samples, several chunks", OP_DROPOUT, { .rate = 0.4f, .stream = 7, .per_sample = 1 },
	  { F32(37, 1009), SCALARS }, 2, 0, ROUNDED, 0 },
	{ "cast f32 to bf16", OP_CAST, { .mode = DTYPE_BF16 }, { F32(70001) }, 1, 0, 0x1p-8, 0 },
	{ "cast f32 to f16", OP_CAST, { .mode = DTYPE_F16 }, { F32(7, 11) }, 1, 0, 0x1p-11, 0 },
	{ "cast bf16 to f32", OP_CAST, { .mode = DTYPE_F32 }, { BF16(70001) }, 1, 0, EXACT, 0 },
	{ "cast f16 to f32", OP_CAST, { .mode = DTYPE_F32 }, { F16(7, 11) }, 1, 0, EXACT, 0 },
	{ "cast bf16 to f16", OP_CAST, { .mode = DTYPE_F16 }, { BF16(3001) }, 1, 0, 0x1p-11, 0 },
	{ "exponential", OP_FUNCTION, { .mode = FUNCTION_EXPONENTIAL }, { F32(101, 809) }, 1, 0, ROUNDED, 0 },
	{ "logarithm", OP_FUNCTION, { .mode = FUNCTION_LOGARITHM }, { F32(7, 13) }, 1, 1, ROUNDED, 0 },
	{ "square", OP_FUNCTION, { .mode = FUNCTION_POWER, .alpha = 2 }, { F32(7, 13) }, 1, 0, ROUNDED, 0 },
	{ "power", OP_FUNCTION, { .mode = FUNCTION_POWER, .alpha = -1.7f }, { F32(7, 13) }, 1, 1, ROUNDED, 0 },
	{ "inverse", OP_FUNCTION, { .mode = FUNCTION_POWER, .alpha = -1 }, { F32(5, 17) }, 1, 1, ROUNDED, 0 },
	{ "inverse root", OP_FUNCTION, { .mode = FUNCTION_POWER, .alpha = -0.5f }, { F32(5, 17) }, 1, 1, ROUNDED, 0 },
	{ "max pool gather", OP_MAX_POOL_GATHER, { WINDOW(2, 2, 1, 0) }, { F32(3, 6, 8, 5), INDEX(3, 3, 4, 5) }, 2, 0,
	  EXACT, 0 },
	{ "max pool gather, skew", OP_MAX_POOL_GATHER, { SKEW }, { F32(2, 7, 5, 3), INDEX(2, 3, 5, 3) }, 2, 0, EXACT, 0 },
	{ "label weights", OP_LABEL_WEIGHTS, { .extent = { 11 } }, { LABELS(7, 3) }, 1, 0, ROUNDED, 0 },
	{ "label weights, smooth, some ignored", OP_LABEL_WEIGHTS,
	  { .extent = { 5 }, .label_smoothing = 0.1f, .has_ignore_index = 1, .ignore_index = 2 }, { LABELS(1013) }, 1, 0,
	  ROUNDED, 0 },
	ADAM_8BIT("8-bit adam of a part of a block", 1009),
	ADAM_8BIT("8-bit adam", 4 * 2048 + 7),
	ADAFACTOR("adafactor 7x5", 7, 5),
	ADAFACTOR("adafactor 131x257", 131, 257),
	ADAFACTOR("adafactor 2x2003", 2, 2003),
	UPDATE("plain", .rate_scale = 1.0f, 1009),
	UPDATE("decay", .rate_scale = 0.5f COMMA.weight_decay = 0.1f, 40013),
};
/* clang-format on */

const int conformance_case_count = sizeof conformance_cases / sizeof *conformance_cases;

uint32_t conformance_labels(const struct conformance_case *test)
{
	if (test->kind == OP_EMBEDDING)
		return test->input[0].dim[0];
	if (test->kind == OP_EMBEDDING_GRAD || test->kind == OP_LABEL_WEIGHTS)
		return test->attr.extent[0];
	if (test->kind == OP_LINEAR_CROSS_ENTROPY || test->kind == OP_LINEAR_CROSS_ENTROPY_GRAD)
		return test->input[1].dim[0];
	return test->input[0].dim[test->input[0].rank - 1];
}

bool conformance_narrow(const struct conformance_case *test, enum dtype dtype, enum dtype result,
			struct conformance_case *narrow)
{
	const struct op_storage *storage = op_storage(test->kind);
	bool changed = false;
	*narrow = *test;
	for (uint32_t i = 0; i < test->inputs; i++) {
		bool stored =
			storage_has(storage->inputs, i) || (storage_has(storage->wide_inputs, i) && result == dtype);
		if (!stored || test->input[i].dtype != DTYPE_F32)
			continue;
		narrow->input[i].dtype = dtype;
		changed = true;
	}
	if (storage->wide_outputs)
		narrow->attr.mode = result;
	/* The gradient of its logits is rounded before it is multiplied. */
	if (test->kind == OP_LINEAR_CROSS_ENTROPY_GRAD && dtype == DTYPE_BF16)
		narrow->tolerance += 2 * format_unit_roundoff(dtype);
	return changed;
}

const char *conformance_narrow_excluded(const char *driver)
{
	if (!strcmp(driver, "cuda") || !strcmp(driver, "kernels"))
		return "test_cuda_kernels and test_cuda_driver judge these, with other tolerances";
	return NULL;
}

static const struct exclusion exclusions[] = {
	{ "cpu", "leaky relu, negative slope", "the gradient reads the output, whose sign then says nothing" },
	{ "cpu", "leaky relu, negative slope grad", "the gradient reads the output, whose sign then says nothing" },
	{ "cuda", "leaky relu, negative slope", "the gradient reads the output, whose sign then says nothing" },
	{ "cuda", "leaky relu, negative slope grad", "the gradient reads the output, whose sign then says nothing" },
	{ "kernels", "leaky relu, negative slope", "the gradient reads the output, whose sign then says nothing" },
	{ "kernels", "leaky relu, negative slope grad", "the gradient reads the output, whose sign then says nothing" },
};

const char *conformance_excluded(const char *driver, const char *name)
{
	for (size_t i = 0; i < sizeof exclusions / sizeof *exclusions; i++)
		if (!strcmp(exclusions[i].driver, driver) && !strcmp(exclusions[i].name, name))
			return exclusions[i].reason;
	return NULL;
}
