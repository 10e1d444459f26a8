/*
 * test_adversarial.c - gradient penalties and adversarial training as runs: the same weights for every plan, what an
 * attack finds, what is refused. The gradients themselves are tested in grad/test_adversarial.c.
 */
#include "support/run_checks.h"
#include "support/testing.h"
#include "support/training.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DATA "data: {type: synthetic, shape: [6, 6, 1], classes: 4, samples: 96, test_samples: 40, batch: 16}\n"
#define REST                                             \
	"optimizer: {type: adam, learning_rate: 1e-2}\n" \
	"train: {seed: 3, threads: 1, epochs: 4}\n"
#define NETWORK                                \
	"layers:\n"                            \
	"- conv2d: {channels: 4, kernel: 3}\n" \
	"- batch_norm\n"                       \
	"- relu\n"                             \
	"- dropout: 0.1\n"                     \
	"- conv2d: {channels: 8, kernel: 3}\n" \
	"- silu\n"                             \
	"- flatten\n"                          \
	"- dense: 4\n"

static const char *const objectives[] = {
	DATA NETWORK "objective: {type: gradient_penalty, weight: 0.5}\n" REST,
	DATA NETWORK "objective: {type: adversarial, epsilon: 0.1, weight: 0.5}\n" REST,
	DATA NETWORK "objective: {type: adversarial, method: pgd, epsilon: 0.1, steps: 3}\n" REST,
};

START_TEST(plans_give_the_same_weights)
{
	const struct training training = { .text = objectives[_i], .steps = 8 };
	struct training_result least;
	check_plans_keep_bits(training, objectives[_i], &least);
}
END_TEST

/* Loss of evaluation after so many steps. */
static double evaluate(const char *text, const char *const *override, uint32_t overrides, uint32_t steps)
{
	struct tarn_options options = { .config_text = text, .override = override, .overrides = overrides };
	struct tarn_evaluation evaluation;
	struct tarn_metrics metrics;
	struct tarn_session *session;
	ck_assert_ok(tarn_open(&options, &session));
	for (uint32_t i = 0; i < steps; i++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_evaluate(session, &evaluation));
	tarn_close(session);
	return evaluation.loss;
}

/*
 * Of a linear network with two classes the gradient has the same sign everywhere: pgd in steps that together go too far
 * ends where fgsm does, and twice epsilon is the same way once more. With epsilon next to nothing nothing moves.
 */
START_TEST(attacks_on_a_line_agree)
{
	static const char text[] = "data: {type: synthetic, shape: [12], classes: 2, samples: 64, test_samples: 40, "
				   "batch: 16}\n"
				   "layers: [dense: 2]\n"
				   "objective: {type: adversarial, attack_test: true}\n" REST;
	const char *fgsm[] = { "objective.epsilon=0.2" };
	const char *pgd[] = { "objective.epsilon=0.2", "objective.method=pgd", "objective.steps=9",
			      "objective.step_size=0.07" };
	const char *little[] = { "objective.epsilon=1e-6" }, *clean[] = { "objective.attack_test=false" };
	double far = evaluate(text, fgsm, 1, 0), also = evaluate(text, pgd, 4, 0), near = evaluate(text, little, 1, 0),
	       still = evaluate(text, clean, 1, 0);
	ck_assert_msg(fabs(far - also) < 1e-5 * far, "fgsm %.9g, pgd %.9g", far, also);
	ck_assert_msg(fabs(near - still) < 1e-5 * still, "moved %.9g, as it is %.9g", near, still);
	ck_assert_msg(far > 1.05 * still, "moved %.9g, as it is %.9g", far, still);
}
END_TEST

/* Also where statistics are the running ones. */
START_TEST(an_attack_makes_the_loss_larger)
{
	const char *attacked[] = { "objective.attack_test=true" };
	double clean = evaluate(objectives[_i], NULL, 0, 12), moved = evaluate(objectives[_i], attacked, 1, 12);
	ck_assert_msg(moved > clean, "moved %.9g, as it is %.9g", moved, clean);
}
END_TEST

/* With weight 0 what remains is the plain loss, bit for bit or up to the rounding of a network in smaller ops. */
START_TEST(without_weight_it_is_the_plain_loss)
{
	struct training training = { .text = objectives[_i], .override = { "objective.weight=0" }, .steps = 6 };
	struct training_result result, plain;
	ck_assert_ok(training_run(&training, &result));
	training.override[0] = "objective.type=loss";
	ck_assert_ok(training_run(&training, &plain));
	ck_assert_msg(fabs(result.last_loss - plain.last_loss) < 1e-4 * plain.last_loss, "%.9g, %.9g", result.last_loss,
		      plain.last_loss);
}
END_TEST

static enum tarn_status open_with(const char *text, const char *override)
{
	struct tarn_options options = { .config_text = text, .override = &override, .overrides = 1 };
	struct tarn_session *session = NULL;
	enum tarn_status st = tarn_open(&options, &session);
	tarn_close(session);
	return st;
}

START_TEST(what_cannot_be_is_refused)
{
	static const char tokens[] = "data: {type: synthetic, context: 8, classes: 5, samples: 32, batch: 4}\n"
				     "layers: [embedding: 6, dense: 5]\n"
				     "objective: {type: gradient_penalty}\n";
	static const char copy[] = "data: {type: synthetic, shape: [6], classes: 2, samples: 32, batch: 4}\n"
				   "network: {target: input, loss: mean_squared_error}\n"
				   "layers: [dense: 6]\n"
				   "objective: {type: adversarial}\n";
	ck_assert_fails(open_with(objectives[1], "objective.weight=2"), TARN_EINVAL, "is at most 1");
	ck_assert_fails(open_with(objectives[0], "precision.compute=bfloat16"), TARN_EUNSUPPORTED,
			"computed in float32");
	ck_assert_fails(open_with(objectives[0], "objective.epsilon=0.1"), TARN_EINVAL,
			"has no effect with objective.type: gradient_penalty");
	ck_assert_fails(open_with(objectives[1], "objective.steps=4"), TARN_EINVAL,
			"has no effect with objective.method: fgsm");
	ck_assert_fails(open_with(objectives[1], "objective.ways=4"), TARN_EINVAL,
			"has no effect with objective.type: adversarial");
	ck_assert_fails(open_with(copy, "train.seed=1"), TARN_EINVAL, "the target would move too");
	ck_assert_fails(open_with(tokens, "train.seed=1"), TARN_EINVAL, "tokens, which cannot be moved");
	ck_assert_fails(open_with(objectives[0], "train.accumulate=2"), TARN_EUNSUPPORTED, "accumulate: 1");
	ck_assert_fails(open_with(objectives[0], "memory.budget=8KiB"), TARN_EBUDGET,
			"a data.batch below 16 needs less");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("adversarial");
	TCase *plans = tcase_create("plans"), *runs = tcase_create("runs");
	tcase_set_timeout(plans, 120);
	tcase_set_timeout(runs, 60);
	tcase_add_loop_test(plans, plans_give_the_same_weights, 0, sizeof objectives / sizeof *objectives);
	tcase_add_test(runs, attacks_on_a_line_agree);
	tcase_add_loop_test(runs, an_attack_makes_the_loss_larger, 1, 3);
	tcase_add_loop_test(runs, without_weight_it_is_the_plain_loss, 0, 2);
	tcase_add_test(runs, what_cannot_be_is_refused);
	suite_add_tcase(suite, plans);
	suite_add_tcase(suite, runs);
	return testing_run(suite);
}
