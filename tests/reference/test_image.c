/*
 * test_image.c - ops and families of image models against PyTorch's numbers.
 *
 * image.txt holds what tools/reference/make_image.py computed once (its first line says with which version); the cases
 * here have the same names and inputs. Ops: the first output and the gradients of mean((y - target)^2), to 1e-5 of the
 * largest value. Families: losses of 20 steps from the same weights and batch with SGD-momentum and with AdamW: 2e-5
 * relative at the first step (the issue asks for 1e-4), later as far as each case says: training multiplies what
 * rounding changes, most where small batches are normalised and where maxima change sides. Of mobilenetv2 PyTorch's own
 * float64 differs from its float32 by 22 % within these steps.
 */
#include "reference/pytorch.h"
#include "support/testing.h"

#include <stdio.h>

#define PATH "tests/reference/image.txt"
#define OP_TOLERANCE 1e-5
#define FIRST_TOLERANCE 2e-5

#define F32 PYTORCH_F32
#define X F32(2, 9, 7, 6)
#define WINDOW(kh, kw, sh, sw, top, left, bottom, right)                            \
	.window = {                                                                 \
		{ kh, kw }, { sh, sw }, { 1, 1 }, { top, left }, { bottom, right }, \
	}
#define ACTIVATION(word, what, slope)                                                                          \
	{                                                                                                      \
		word, OP_ACTIVATION, { .activation = ACTIVATION_##what, .alpha = slope }, { F32(5, 13) }, 1, 0 \
	}

static const struct pytorch_op ops[] = {
	{ "conv2d", OP_CONV2D, { WINDOW(3, 4, 2, 1, 1, 2, 1, 2), .groups = 1 }, { X, F32(5, 6, 3, 4), F32(5) }, 3, 0 },
	{ "conv2d_dilated",
	  OP_CONV2D,
	  { .window = { { 3, 3 }, { 1, 1 }, { 2, 2 }, { 2, 2 }, { 2, 2 } }, .groups = 1 },
	  { X, F32(4, 6, 3, 3) },
	  2,
	  0 },
	{ "conv2d_grouped",
	  OP_CONV2D,
	  { WINDOW(3, 3, 1, 1, 1, 1, 1, 1), .groups = 3 },
	  { X, F32(9, 2, 3, 3), F32(9) },
	  3,
	  0 },
	{ "conv2d_depthwise",
	  OP_CONV2D,
	  { WINDOW(3, 3, 2, 2, 1, 1, 1, 1), .groups = 6 },
	  { X, F32(6, 1, 3, 3) },
	  2,
	  0 },
	{ "conv2d_uneven", OP_CONV2D, { WINDOW(3, 2, 1, 1, 2, 1, 0, 0), .groups = 1 }, { X, F32(4, 6, 3, 2) }, 2, 0 },
	{ "conv2d_one_pixel",
	  OP_CONV2D,
	  { WINDOW(1, 1, 1, 1, 0, 0, 0, 0), .groups = 1 },
	  { F32(1, 1, 1, 3), F32(2, 3, 1, 1) },
	  2,
	  0 },
	{ "conv_transpose",
	  OP_CONV2D_GRAD_INPUT,
	  { WINDOW(2, 2, 2, 2, 0, 0, 0, 0), .groups = 1, .extent = { 10, 8 } },
	  { F32(2, 5, 4, 6), F32(6, 3, 2, 2) },
	  2,
	  0 },
	{ "conv_transpose_odd",
	  OP_CONV2D_GRAD_INPUT,
	  { WINDOW(3, 4, 2, 3, 1, 0, 1, 0), .groups = 1, .extent = { 10, 15 } },
	  { F32(2, 5, 4, 6), F32(6, 3, 3, 4) },
	  2,
	  0 },
	{ "max_pool", OP_MAX_POOL, { WINDOW(3, 3, 2, 2, 1, 1, 1, 1) }, { X }, 1, 0 },
	{ "avg_pool", OP_AVG_POOL, { WINDOW(2, 3, 2, 2, 1, 1, 1, 1), .count_padding = 1 }, { X }, 1, 0 },
	{ "avg_pool_inside", OP_AVG_POOL, { WINDOW(3, 3, 2, 2, 1, 1, 1, 1) }, { X }, 1, 0 },
	{ "group_norm", OP_GROUP_NORM, { .groups = 3, .epsilon = 1e-3f }, { X, F32(6), F32(6) }, 3, 0 },
	{ "instance_norm", OP_GROUP_NORM, { .groups = 6, .epsilon = 1e-3f }, { X, F32(6), F32(6) }, 3, 0 },
	{ "upsample_nearest", OP_UPSAMPLE, { .mode = UPSAMPLE_NEAREST, .extent = { 14, 9 } }, { X }, 1, 0 },
	{ "upsample_bilinear", OP_UPSAMPLE, { .mode = UPSAMPLE_BILINEAR, .extent = { 18, 21 } }, { X }, 1, 0 },
	{ "adaptive_pool", OP_ADAPTIVE_AVG_POOL, { .extent = { 4, 3 } }, { X }, 1, 0 },
	{ "weight_mask_a", OP_WEIGHT_MASK, { .mode = MASK_A }, { F32(3, 2, 5, 3) }, 1, 0 },
	{ "weight_mask_b", OP_WEIGHT_MASK, { .mode = MASK_B }, { F32(3, 2, 5, 3) }, 1, 0 },
	{ "weight_norm", OP_WEIGHT_NORM, { 0 }, { F32(4, 3, 3, 2), F32(4) }, 2, 0 },
	{ "concat", OP_CONCAT, { .axis = 3 }, { X, F32(2, 9, 7, 1), F32(2, 9, 7, 4) }, 3, 0 },
	{ "slice", OP_SLICE, { .axis = 1, .begin = 2, .extent = { 5 } }, { X }, 1, 0 },
	{ "pad_axis", OP_PAD_AXIS, { .axis = 2, .begin = 3, .extent = { 11 } }, { X }, 1, 0 },
	ACTIVATION("relu", RELU, 0),
	ACTIVATION("elu", ELU, 1),
	ACTIVATION("silu", SILU, 0),
	ACTIVATION("leaky_relu", LEAKY_RELU, 0.2f),
	ACTIVATION("sigmoid", SIGMOID, 0),
	ACTIVATION("tanh", TANH, 0),
	ACTIVATION("gelu", GELU, 0),
	ACTIVATION("softplus", SOFTPLUS, 0),
	ACTIVATION("gelu_tanh", GELU_TANH, 0),
	{ "squared_error", OP_MEAN_SQUARED_ERROR, { 0 }, { F32(5, 7), F32(5, 7) }, 2, 0 },
	{ "binary_cross_entropy", OP_BINARY_CROSS_ENTROPY, { 0 }, { F32(5, 7), F32(5, 7) }, 2, 0 },
	{ "mixture", OP_LOGISTIC_MIXTURE, { 0 }, { F32(2, 3, 4, 30), F32(2, 3, 4, 3) }, 2, 0 },
	{ "mixture_grey", OP_LOGISTIC_MIXTURE, { 0 }, { F32(2, 3, 4, 12), F32(2, 3, 4, 1) }, 2, 0 },
};

START_TEST(ops_agree_with_pytorch)
{
	pytorch_check_op(PATH, &ops[_i], OP_TOLERANCE);
}
END_TEST

/* ---- families ---- */

#define IMAGES(size, channels) \
	"data: {type: hash, shape: [" #size ", " #size ", " #channels "], classes: 7, batch: 8}\n"
#define PIXELS(size, channels) \
	"data: {type: hash, shape: [" #size ", " #size ", " #channels "], classes: 7, batch: 8, pixel_labels: true}\n"

static const struct {
	const char *name, *text;
	double momentum, adamw; /* drift over 20 steps */
	const char *rate;       /* of momentum; NULL: 0.005 */
} families[] = {
	{ "mlp", IMAGES(16, 3) "model: {family: mlp, width: 20, depth: 2}\nnetwork: {init: hash}\n", 1e-4, 1e-4, NULL },
	{ "lenet", IMAGES(16, 1) "model: {family: lenet}\nnetwork: {init: hash}\n", 1e-2, 1e-2, NULL },
	{ "vgg", IMAGES(32, 3) "model: {family: vgg, depth: 11, width: 4, hidden: 24}\nnetwork: {init: hash}\n", 1e-2,
	  1e-2, NULL },
	{ "resnet", IMAGES(16, 3) "model: {family: resnet, depth: 8, width: 4}\nnetwork: {init: hash}\n", 1e-3, 1e-3,
	  NULL },
	{ "resnet_imagenet",
	  IMAGES(32, 3) "model: {family: resnet_imagenet, depth: 18, width: 4}\nnetwork: {init: hash}\n", 1e-2, 1e-2,
	  "0.001" },
	{ "densenet", IMAGES(16, 3) "model: {family: densenet, depth: 10, growth: 4}\nnetwork: {init: hash}\n", 1e-3,
	  1e-3, NULL },
	{ "mobilenetv2", IMAGES(32, 3) "model: {family: mobilenetv2, width_percent: 25}\nnetwork: {init: hash}\n", 3e-1,
	  3e-1, "0.001" },
	{ "unet", PIXELS(16, 3) "model: {family: unet, levels: 3, width: 4}\nnetwork: {init: hash}\n", 1e-3, 1e-3,
	  NULL },
	{ "pixelcnn", PIXELS(16, 1) "model: {family: pixelcnn, layers: 2, width: 6}\nnetwork: {init: hash}\n", 1e-4,
	  1e-4, NULL },
	{ "autoencoder",
	  IMAGES(16, 3) "model: {family: autoencoder, levels: 2, width: 4, code: 3}\n"
			"network: {init: hash, loss: mse, target: input}\n",
	  1e-4, 1e-4, NULL },
	{ "autoencoder_binary",
	  IMAGES(16, 1) "model: {family: autoencoder, levels: 2, width: 4, code: 3}\n"
			"network: {init: hash, loss: bce, target: input}\n",
	  1e-4, 1e-4, NULL },
	{ "pixelcnnpp",
	  IMAGES(16, 3) "model: {family: pixelcnnpp, levels: 2, resnets: 1, filters: 5, mixtures: 2}\n"
			"network: {init: hash, loss: logistic_mixture}\n",
	  1e-4, 1e-4, NULL },
	{ "pixelcnnpp_grey",
	  IMAGES(16, 1) "model: {family: pixelcnnpp, levels: 2, resnets: 1, filters: 5, mixtures: 2}\n"
			"network: {init: hash, loss: logistic_mixture}\n",
	  1e-4, 1e-4, NULL },
};

static void check_family(const char *method, const char *optimizer, double drift, int index)
{
	char text[1024], heading[64];
	double parameters;
	snprintf(text, sizeof text, "%s%strain: {max_steps: %d, threads: 1}\n", families[index].text, optimizer,
		 PYTORCH_STEPS);
	snprintf(heading, sizeof heading, "family %s %s", families[index].name, method);
	pytorch_values(PATH, heading, "parameters", &parameters, 1);
	uint64_t count = pytorch_check_losses(PATH, families[index].name, method, text, FIRST_TOLERANCE, drift);
	ck_assert_uint_eq(count, (uint64_t)parameters);
}

START_TEST(families_agree_with_pytorch)
{
	char momentum[64];
	snprintf(momentum, sizeof momentum, "optimizer: {type: momentum, learning_rate: %s}\n",
		 families[_i].rate ? families[_i].rate : "0.005");
	check_family("momentum", momentum, families[_i].momentum, _i);
	check_family("adamw", "optimizer: {type: adamw, learning_rate: 1e-3, weight_decay: 0.01}\n", families[_i].adamw,
		     _i);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("image reference");
	TCase *tcase = tcase_create("reference");
	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, ops_agree_with_pytorch, 0, sizeof ops / sizeof *ops);
	tcase_add_loop_test(tcase, families_agree_with_pytorch, 0, sizeof families / sizeof *families);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
