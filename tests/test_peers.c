/*
 * test_peers.c - the same numbers as an established framework: from the same weights, batch and optimizer the losses of
 * the first steps agree with PyTorch's.
 *
 * The figures were measured with PyTorch 2.15.0 (CPU, float32, channels last) on the nets that configs/peers/ describe,
 * SGD with momentum 0.9 and learning rate 0.01 (gpt and lstm: AdamW, 0.001, decay 0.01): the loss of step 1, and of a later
 * step with the spread between layouts.
 */
#include "support/testing.h"
#include "support/training.h"

#include <math.h>

static const struct {
	const char *path;
	uint64_t steps;
	double first, last, spread;
	uint64_t parameters;
} peers[] = {
	{ "configs/peers/lenet_fmnist.yaml", 8, 3.376859, 2.23246, 1e-3, 857738 },
	{ "configs/peers/mlp.yaml", 8, 2.528403, 1.511958, 1e-3, 8161290 },
	{ "configs/peers/resnet20.yaml", 8, 3.07874, 1.946776, 0.03, 272474 },
	{ "configs/peers/gpt.yaml", 5, 5.594161, 5.151471, 1e-3, 4935680 },
	{ "configs/peers/lstm.yaml", 5, 5.545233, 5.531911, 1e-4, 1184000 },
};

START_TEST(losses_agree_with_pytorch)
{
	struct training training = { .path = peers[_i].path, .steps = peers[_i].steps };
	struct training_result result;
	ck_assert_ok(training_run(&training, &result));
	ck_assert_uint_eq(result.info.parameter_count, peers[_i].parameters);
	ck_assert_msg(fabs(result.first_loss / peers[_i].first - 1.0) <= 1e-5, "%s: first loss %.7f, PyTorch %.6f",
		      peers[_i].path, result.first_loss, peers[_i].first);
	ck_assert_msg(fabs(result.last_loss - peers[_i].last) <= peers[_i].spread,
		      "%s: loss of step %d %.7f, PyTorch %.6f", peers[_i].path, (int)peers[_i].steps, result.last_loss,
		      peers[_i].last);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("peers");
	TCase *tcase = tcase_create("peers");
	tcase_set_timeout(tcase, 300);
	tcase_add_loop_test(tcase, losses_agree_with_pytorch, 0, sizeof peers / sizeof *peers);
	suite_add_tcase(suite, tcase);
	return testing_run(suite);
}
