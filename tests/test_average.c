/*
 * test_average.c - moving averages of the weights, and groups of parameters.
 *
 * The averages follow the recurrence of their definition whatever the plan, evaluation reads them instead of the
 * weights, and snapshots keep both.
 */
#include "support/testing.h"
#include "tarn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WEIGHTS 160u /* of the last layer, 10 x 16 */

static const char network[] =
	"data: {type: synthetic, shape: [8, 8, 3], classes: 10, batch: 16, samples: 64, test_samples: 40}\n"
	"layers:\n"
	"  - conv2d: {channels: 16, kernel: 3, padding: 1, name: stem}\n"
	"  - batch_norm\n"
	"  - relu\n"
	"  - conv2d: {channels: 16, kernel: 3, padding: 1, trainable: false}\n"
	"  - relu\n"
	"  - global_pool\n"
	"  - dense: {features: 10, name: head}\n"
	"optimizer: {type: momentum, learning_rate: 0.2}\n";

static struct tarn_session *open_session(const char *settings, const char *const *override, uint32_t overrides)
{
	static char text[2048];
	struct tarn_session *session;
	snprintf(text, sizeof text, "%s%s", network, settings);
	const struct tarn_options options = { .config_text = text, .override = override, .overrides = overrides };
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

#define EMA "train: {epochs: 9, threads: 1, ema: 0.75}\n"

static void read_head(struct tarn_session *session, const char *name, float *value)
{
	ck_assert_ok(tarn_read_tensor(session, name, value, WEIGHTS * sizeof *value));
}

START_TEST(averages_follow_their_recurrence)
{
	float weight[WEIGHTS], average[WEIGHTS], want[WEIGHTS];
	struct tarn_metrics metrics;
	struct tarn_session *session = open_session(EMA, NULL, 0);
	read_head(session, "head/weight", want);
	read_head(session, "average/head/weight", average);
	ck_assert_mem_eq(want, average, sizeof want);
	for (int step = 0; step < 5; step++) {
		ck_assert_ok(tarn_step(session, &metrics));
		read_head(session, "head/weight", weight);
		read_head(session, "average/head/weight", average);
		for (uint32_t i = 0; i < WEIGHTS; i++) {
			want[i] = 0.75f * want[i] + 0.25f * weight[i];
			ck_assert_msg(fabsf(want[i] - average[i]) <= 1e-6f, "step %d, weight %u: %.8g, expected %.8g",
				      step, i, (double)average[i], (double)want[i]);
		}
	}
	/* A frozen layer has none. */
	ck_assert_fails(tarn_read_tensor(session, "average/conv2d1/weight", average, sizeof average), TARN_EINVAL,
			"average/conv2d1/weight");
	tarn_close(session);
}
END_TEST

START_TEST(evaluation_reads_the_averages)
{
	static const float zeros[WEIGHTS];
	struct tarn_evaluation before, weights_gone, averages_gone;
	struct tarn_metrics metrics;
	struct tarn_session *session = open_session(EMA, NULL, 0);
	for (int step = 0; step < 3; step++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_evaluate(session, &before));
	ck_assert_ok(tarn_write_tensor(session, "head/weight", zeros, sizeof zeros));
	ck_assert_ok(tarn_evaluate(session, &weights_gone));
	ck_assert(before.loss == weights_gone.loss && before.samples == 40);
	ck_assert_ok(tarn_write_tensor(session, "average/head/weight", zeros, sizeof zeros));
	ck_assert_ok(tarn_evaluate(session, &averages_gone));
	ck_assert(before.loss != averages_gone.loss);
	tarn_close(session);
}
END_TEST

/* The training itself does not notice, and neither strategy nor budget changes a bit of the averages. */
START_TEST(averages_do_not_depend_on_the_plan)
{
	static const char *const strategies[] = { "memory.recompute=none", "memory.recompute=min",
						  "memory.recompute=sqrt" };
	float plain[WEIGHTS], weight[WEIGHTS], average[WEIGHTS], first[WEIGHTS];
	struct tarn_metrics metrics;
	struct tarn_session *session = open_session("train: {epochs: 9, threads: 1}\n", NULL, 0);
	for (int step = 0; step < 5; step++)
		ck_assert_ok(tarn_step(session, &metrics));
	read_head(session, "head/weight", plain);
	tarn_close(session);
	for (size_t i = 0; i < 3; i++) {
		session = open_session(EMA, &strategies[i], 1);
		for (int step = 0; step < 5; step++)
			ck_assert_ok(tarn_step(session, &metrics));
		read_head(session, "head/weight", weight);
		read_head(session, "average/head/weight", average);
		ck_assert_mem_eq(weight, plain, sizeof weight);
		if (i)
			ck_assert_mem_eq(average, first, sizeof average);
		memcpy(first, average, sizeof average);
		tarn_close(session);
	}
}
END_TEST

START_TEST(snapshots_keep_both)
{
	const char *path = testing_file("ema.safetensors", "", 0);
	float weight[WEIGHTS], average[WEIGHTS], again[WEIGHTS];
	struct tarn_metrics metrics;
	ck_assert_int_eq(remove(path), 0);
	struct tarn_session *session = open_session(EMA, NULL, 0);
	for (int step = 0; step < 3; step++)
		ck_assert_ok(tarn_step(session, &metrics));
	ck_assert_ok(tarn_save(session, path));
	for (int step = 0; step < 2; step++)
		ck_assert_ok(tarn_step(session, &metrics));
	read_head(session, "head/weight", weight);
	read_head(session, "average/head/weight", average);
	tarn_close(session);
	char text[2048];
	snprintf(text, sizeof text, "%s%s", network, EMA);
	const struct tarn_options options = { .config_text = text, .resume_path = path };
	ck_assert_ok(tarn_open(&options, &session));
	for (int step = 0; step < 2; step++)
		ck_assert_ok(tarn_step(session, &metrics));
	read_head(session, "head/weight", again);
	ck_assert_mem_eq(weight, again, sizeof again);
	read_head(session, "average/head/weight", again);
	ck_assert_mem_eq(average, again, sizeof again);
	tarn_close(session);
}
END_TEST

/* ---- groups ---- */

/* A rate of its own is the same as a run with that rate for everybody, seen from the layer that has it. */
START_TEST(groups_have_their_own_rate_and_decay)
{
	float start[WEIGHTS], value[WEIGHTS], whole[WEIGHTS];
	struct tarn_metrics metrics;
	struct tarn_session *session =
		open_session("train: {epochs: 1, threads: 1}\n", (const char *[]){ "optimizer.learning_rate=0.05" }, 1);
	read_head(session, "head/weight", start);
	ck_assert_ok(tarn_step(session, &metrics));
	read_head(session, "head/weight", whole);
	tarn_close(session);
	char text[2048];
	snprintf(text, sizeof text, "%s", network);
	char *end = strstr(text, "0.2}");
	strcpy(end, "0.2, groups: [{match: head/*, learning_rate: 0.05}, {match: \"*\", learning_rate: 0}]}\n"
		    "train: {epochs: 1, threads: 1}\n");
	const struct tarn_options options = { .config_text = text };
	float stem[16 * 27], stem_after[16 * 27];
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_read_tensor(session, "stem/weight", stem, sizeof stem));
	ck_assert_ok(tarn_step(session, &metrics));
	read_head(session, "head/weight", value);
	ck_assert_ok(tarn_read_tensor(session, "stem/weight", stem_after, sizeof stem));
	tarn_close(session);
	ck_assert_mem_eq(stem, stem_after, sizeof stem);
	for (uint32_t i = 0; i < WEIGHTS; i++)
		ck_assert_msg(fabsf(value[i] - whole[i]) <= 1e-6f && fabsf(value[i] - start[i]) > 0,
			      "weight %u: %.8g, with that rate for all %.8g", i, (double)value[i], (double)whole[i]);
}
END_TEST

static const struct {
	const char *groups, *sentence;
} wrong[] = {
	{ "3", "optimizer.groups: must be a list of maps" },
	{ "[a]", "a group is a map" },
	{ "[{learning_rate: 1}]", "a group needs the key match" },
	{ "[{match: head/*}]", "a group needs a learning_rate or a weight_decay" },
	{ "[{match: head/*, lerning_rate: 1}]", "did you mean learning_rate?" },
	{ "[{match: head/*, learning_rate: -1}]", "learning_rate" },
	{ "[{match: haed/*, learning_rate: 1}]",
	  "matches none of the 6 parameters that are trained, such as stem/weight" },
	{ "[{match: conv2d1/*, learning_rate: 1}]", "matches none of the 6 parameters" },
};

START_TEST(wrong_groups_are_refused)
{
	char text[2048];
	struct tarn_session *session;
	snprintf(text, sizeof text, "%s", network);
	char *end = strstr(text, "0.2}");
	snprintf(end, sizeof text - (size_t)(end - text), "0.2, groups: %s}\n", wrong[_i].groups);
	const struct tarn_options options = { .config_text = text };
	ck_assert_fails(tarn_open(&options, &session), TARN_EINVAL, wrong[_i].sentence);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("average");
	TCase *average = tcase_create("average"), *groups = tcase_create("groups");
	tcase_add_test(average, averages_follow_their_recurrence);
	tcase_add_test(average, evaluation_reads_the_averages);
	tcase_add_test(average, averages_do_not_depend_on_the_plan);
	tcase_add_test(average, snapshots_keep_both);
	tcase_add_test(groups, groups_have_their_own_rate_and_decay);
	tcase_add_loop_test(groups, wrong_groups_are_refused, 0, sizeof wrong / sizeof *wrong);
	suite_add_tcase(suite, average);
	suite_add_tcase(suite, groups);
	return testing_run(suite);
}
