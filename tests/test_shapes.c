/* test_shapes.c - data.shapes: batches of several sizes in one run, one plan, one arena. */
#include "data/feed.h"

#include "config/config.h"
#include "support/testing.h"
#include "support/training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct host_arena arena;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

#define DATA \
	"data: {type: hash, context: 16, classes: 256, samples: 22, test_samples: 6, batch: 4, shapes: [4, 16, 8]}\n"
#define REST                                                     \
	"network: {init: hash}\n"                                \
	"optimizer: {type: adamw, learning_rate: 0.01}\n"        \
	"model: {family: gpt, layers: 2, width: 16, heads: 2}\n" \
	"train: {epochs: 3, threads: 1, seed: 7}\n"
static const char tokens[] = DATA REST;

static struct config parsed(const char *text, const char *override)
{
	struct config config;
	ck_assert_ok(config_parse(text, strlen(text), "net.yaml", &override, override ? 1 : 0, &arena, &config));
	return config;
}

/* ---- Pieces ---- */

/* A piece is a run of the sample's tokens, labels are those after them, and every place occurs. */
START_TEST(token_pieces_are_runs)
{
	struct config config = parsed(tokens, NULL);
	struct dataset dataset;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	ck_assert_uint_eq(dataset.sizes, 3);
	ck_assert(dataset.size[0].side == 16 && dataset.size[1].side == 8 && dataset.size[2].side == 4);
	uint32_t seen = 0;
	for (uint32_t epoch = 0; epoch < 40; epoch++)
		for (uint32_t n = 0; n < dataset.samples; n++) {
			int32_t whole[16], next[16], piece[8], label[8], again[8];
			dataset_read(&dataset, n, true, epoch, whole, next);
			dataset_read_piece(&dataset, n, 1, true, epoch, piece, label);
			uint32_t place = 0;
			while (place <= 8 && (memcmp(piece, whole + place, sizeof piece) != 0 ||
					      memcmp(label, next + place, sizeof label) != 0))
				place++;
			ck_assert_uint_le(place, 8);
			seen |= 1u << place;
			dataset_read_piece(&dataset, n, 1, true, epoch, again, label);
			ck_assert_mem_eq(piece, again, sizeof piece);
		}
	ck_assert_uint_eq(seen, 0x1FF);
}
END_TEST

/* A piece of an image is a square of it, and its pixels' labels are those of the same square. */
START_TEST(image_pieces_are_squares)
{
	struct config config =
		parsed("data: {type: hash, shape: [6, 6, 2], classes: 50, samples: 9, batch: 3, shapes: [6, 4], "
		       "pixel_labels: true}\n"
		       "layers: [{conv2d: {channels: 50, kernel: 1}}]\n",
		       NULL);
	struct dataset dataset;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	uint32_t places = 0;
	for (uint32_t epoch = 0; epoch < 40; epoch++)
		for (uint32_t n = 0; n < dataset.samples; n++) {
			float whole[6][6][2], piece[4][4][2];
			int32_t labels[6][6], label[4][4];
			dataset_read(&dataset, n, true, epoch, whole, labels);
			dataset_read_piece(&dataset, n, 1, true, epoch, piece, label);
			uint32_t found = 0;
			for (uint32_t top = 0; top < 3; top++)
				for (uint32_t left = 0; left < 3; left++) {
					bool same = true;
					for (uint32_t h = 0; h < 4; h++)
						same = same &&
						       !memcmp(piece[h], whole[top + h][left], sizeof piece[h]) &&
						       !memcmp(label[h], &labels[top + h][left], sizeof label[h]);
					found += same;
					places |= (uint32_t)same << (3 * top + left);
				}
			ck_assert_uint_eq(found, 1);
		}
	ck_assert_uint_eq(places, 0x1FF);
}
END_TEST

/* Shift and flip come first: a piece lies in the augmented image, mirrored where that is. */
START_TEST(augmented_pieces_lie_in_augmented_images)
{
	struct config config =
		parsed("data: {type: hash, shape: [6, 6, 1], classes: 5, samples: 9, batch: 3, shapes: [6, 4], "
		       "augment: {shift: 2, flip: true}}\n"
		       "layers: [global_pool, {dense: 5}]\n",
		       NULL);
	struct dataset dataset;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	for (uint32_t epoch = 0; epoch < 40; epoch++)
		for (uint32_t n = 0; n < dataset.samples; n++) {
			float whole[6][6], piece[4][4];
			int32_t label, other;
			uint32_t found = 0;
			dataset_read(&dataset, n, true, epoch, whole, &label);
			dataset_read_piece(&dataset, n, 1, true, epoch, piece, &other);
			ck_assert_int_eq(label, other);
			for (uint32_t top = 0; top < 3; top++)
				for (uint32_t left = 0; left < 3; left++) {
					bool same = true;
					for (uint32_t h = 0; h < 4; h++)
						same = same &&
						       !memcmp(piece[h], &whole[top + h][left], sizeof piece[h]);
					found += same;
				}
			ck_assert_uint_ge(found, 1);
		}
}
END_TEST

/* ---- The schedule ---- */

/* Sizes are a function of seed, epoch and number: a feed that starts later goes on alike. A short batch is whole. */
START_TEST(sizes_do_not_depend_on_the_start)
{
	struct config config = parsed(tokens, NULL);
	struct dataset dataset;
	ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
	struct feed_options options = {
		.dataset = &dataset, .batch = 4, .shuffle = true, .augment = true, .seed = 7, .repeat = true
	};
	uint32_t size[60], seen[3] = { 0 };
	struct feed *feed;
	struct batch batch;
	ck_assert_ok(feed_open(&options, &arena, &feed));
	for (uint32_t k = 0; k < 60; k++) {
		ck_assert_ok(feed_next(feed, &batch));
		size[k] = batch.size;
		seen[batch.size]++;
		if (batch.samples < 4)
			ck_assert_uint_eq(batch.size, 0);
		feed_release(feed);
	}
	feed_close(feed);
	for (uint32_t s = 0; s < 3; s++)
		ck_assert_uint_ge(seen[s], 8);
	options.first_epoch = 3;
	options.first_batch = 2;
	ck_assert_ok(feed_open(&options, &arena, &feed));
	for (uint32_t k = 20; k < 60; k++) {
		ck_assert_ok(feed_next(feed, &batch));
		ck_assert_uint_eq(batch.size, size[k]);
		feed_release(feed);
	}
	feed_close(feed);
}
END_TEST

/* ---- Runs ---- */

static struct training_result run(const struct training *training)
{
	struct training_result result;
	ck_assert_ok(training_run(training, &result));
	return result;
}

/* The first step of a piece is the step of a network for tokens of that length, to the last bit. */
START_TEST(a_piece_trains_like_a_short_sample)
{
	const char *path;
	bool tried[3] = { false };
	for (uint32_t seed = 0; seed < 12; seed++) {
		char text[512], key[32];
		snprintf(key, sizeof key, "train.seed=%u", seed);
		snprintf(text, sizeof text, "%s", DATA REST);
		struct training many = { .text = text,
					 .steps = 1,
					 .override = { key, "data.batch=1", "data.samples=3" } };
		struct config config = parsed(text, key);
		config.data.batch = 1;
		config.data.samples = 3;
		struct dataset dataset;
		struct feed_options options = {
			.dataset = &dataset, .batch = 1, .augment = true, .shuffle = true, .seed = seed
		};
		struct feed *feed;
		struct batch batch;
		ck_assert_ok(dataset_open(&config, SPLIT_TRAIN, &arena, &dataset));
		ck_assert_ok(feed_open(&options, &arena, &feed));
		ck_assert_ok(feed_next(feed, &batch));
		uint32_t side = dataset.size[batch.size].side;
		uint8_t file[17];
		for (uint32_t i = 0; i < side; i++) {
			int32_t id;
			memcpy(&id, batch.input + i, sizeof id);
			file[i] = (uint8_t)id;
		}
		file[side] = (uint8_t)((const int32_t *)batch.target)[side - 1];
		feed_close(feed);
		path = testing_file("piece.tokens", file, side + 1);
		char name[300], context[32];
		snprintf(name, sizeof name, "data.train_inputs=%s", path);
		snprintf(context, sizeof context, "data.context=%u", side);
		struct training one = { .text = "data: {type: tokens, batch: 1}\n" REST,
					.steps = 1,
					.override = { key, name, context } };
		ck_assert_double_eq(run(&many).first_loss, run(&one).first_loss);
		tried[batch.size] = true;
	}
	ck_assert(tried[0] && tried[1] && tried[2]);
}
END_TEST

/* R023, R070: one arena for all shapes; the smallest budget and every strategy give the same bits. */
START_TEST(budgets_change_no_bit)
{
	struct training training = { .text = tokens };
	struct training_result free_run = run(&training);
	training.override[0] = training_budget(free_run.info.min_budget_bytes);
	struct training_result tight = run(&training);
	ck_assert_uint_eq(tight.hash, free_run.hash);
	ck_assert_uint_le(tight.touched_bytes, free_run.info.min_budget_bytes);
	ck_assert_uint_lt(tight.info.arena_bytes, free_run.info.arena_bytes);
	static const char *const strategy[] = { "none", "memory-poor", "sqrt", "min" };
	for (size_t i = 0; i < sizeof strategy / sizeof *strategy; i++) {
		char key[64];
		snprintf(key, sizeof key, "memory.recompute=%s", strategy[i]);
		training.override[0] = key;
		ck_assert_uint_eq(run(&training).hash, free_run.hash);
	}
}
END_TEST

static struct tarn_session *opened(const char *text, const char *plan, const char *resume)
{
	struct tarn_options options = { .config_text = text, .plan_path = plan, .resume_path = resume };
	struct tarn_session *session;
	ck_assert_ok(tarn_open(&options, &session));
	return session;
}

static void step(struct tarn_session *session, uint32_t steps)
{
	struct tarn_metrics metrics;
	for (uint32_t i = 0; i < steps; i++)
		ck_assert_ok(tarn_step(session, &metrics));
}

/* A run that goes on from any step, with the plan from a file, ends with the same weights. */
START_TEST(goes_on_where_it_stopped)
{
	char snapshot[300], plan[300];
	uint64_t whole, parts;
	snprintf(snapshot, sizeof snapshot, "%s/shapes.safetensors", testing_directory());
	snprintf(plan, sizeof plan, "%s/shapes.plan", testing_directory());
	struct tarn_session *session = opened(tokens, NULL, NULL);
	ck_assert_ok(tarn_plan_save(session, plan));
	step(session, 11);
	ck_assert_ok(tarn_weights_hash(session, &whole));
	tarn_close(session);
	for (uint32_t first = 1; first < 11; first += 3) {
		session = opened(first % 2 ? tokens : NULL, first % 2 ? NULL : plan, NULL);
		step(session, first);
		ck_assert_ok(tarn_save(session, snapshot));
		tarn_close(session);
		session = opened(NULL, plan, snapshot);
		step(session, 11 - first);
		ck_assert_ok(tarn_weights_hash(session, &parts));
		ck_assert_uint_eq(whole, parts);
		tarn_close(session);
	}
}
END_TEST

/* Evaluation is of whole samples: that of a run with one shape and the same weights. */
START_TEST(evaluates_whole_samples)
{
	char snapshot[300];
	struct tarn_evaluation with, without;
	snprintf(snapshot, sizeof snapshot, "%s/evaluate.safetensors", testing_directory());
	struct tarn_session *session = opened(tokens, NULL, NULL);
	step(session, 5);
	ck_assert_ok(tarn_save(session, snapshot));
	ck_assert_ok(tarn_evaluate(session, &with));
	tarn_close(session);
	struct tarn_options options = { .config_text = "data: {type: hash, context: 16, classes: 256, samples: 22, "
						       "test_samples: 6, batch: 4}\n" REST,
					.resume_path = snapshot,
					.weights_only = true };
	ck_assert_ok(tarn_open(&options, &session));
	ck_assert_ok(tarn_evaluate(session, &without));
	tarn_close(session);
	ck_assert_uint_eq(with.samples, 6);
	ck_assert_double_eq(with.loss, without.loss);
}
END_TEST

/* R035: images of several sizes train in one plan; what does not fit is refused at boot, by name. */
START_TEST(names_the_shape_that_does_not_fit)
{
	static const char text[] = "data: {type: synthetic, shape: [32, 32, 3], classes: 4, batch: 4, samples: 16, "
				   "shapes: [32, 16, 24]}\n"
				   "layers: [{conv2d: {channels: 8, kernel: 3, padding: 1}}, batch_norm, relu, "
				   "{conv2d: {channels: 8, kernel: 3, padding: 1}}, relu, global_pool, {dense: 4}]\n"
				   "train: {max_steps: 12, threads: 1}\n";
	struct training training = { .text = text };
	struct training_result result = run(&training);
	training.override[0] = training_budget(result.info.min_budget_bytes);
	ck_assert_uint_eq(run(&training).hash, result.hash);
	training.override[0] = training_budget(result.info.min_budget_bytes - 1);
	ck_assert_fails(training_run(&training, &result), TARN_EBUDGET, "of data.shapes 32 needs that much, 24 fits");
}
END_TEST

START_TEST(refuses_networks_of_one_size)
{
	struct training_result result;
	struct training training = { .text = "data: {type: synthetic, shape: [8, 8, 1], classes: 4, batch: 4, "
					     "samples: 8, shapes: [8, 4]}\n"
					     "layers: [flatten, {dense: 4}]\n" };
	ck_assert_fails(training_run(&training, &result), TARN_EINVAL,
			"data.shapes: dense1/weight is 4x16 with samples of 4 but 4x64 with those of 8");
	training.override[0] = "data.shapes=4, 16";
	ck_assert_fails(training_run(&training, &result), TARN_EDATA,
			"data.shapes: the largest is 16, samples are 8x8x1");
	training.override[0] = "data.shape=8";
	ck_assert_fails(training_run(&training, &result), TARN_EDATA, "the largest is 8, samples are 8;");
	training.override[0] = "data.shapes=8";
	ck_assert_fails(training_run(&training, &result), TARN_EINVAL, "data.shapes: has one shape, 8");
	training.override[0] = "data.shapes=8, 4, 8";
	ck_assert_fails(training_run(&training, &result), TARN_EINVAL, "data.shapes: has 8 twice");
	training.text = tokens;
	training.override[0] = "data.context=32";
	ck_assert_fails(training_run(&training, &result), TARN_EINVAL, "data.shapes: has 16 as its largest");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("shapes");
	TCase *cases = tcase_create("shapes");
	tcase_add_checked_fixture(cases, setup, teardown);
	tcase_set_timeout(cases, 60);
	tcase_add_test(cases, token_pieces_are_runs);
	tcase_add_test(cases, image_pieces_are_squares);
	tcase_add_test(cases, augmented_pieces_lie_in_augmented_images);
	tcase_add_test(cases, sizes_do_not_depend_on_the_start);
	tcase_add_test(cases, a_piece_trains_like_a_short_sample);
	tcase_add_test(cases, budgets_change_no_bit);
	tcase_add_test(cases, goes_on_where_it_stopped);
	tcase_add_test(cases, evaluates_whole_samples);
	tcase_add_test(cases, names_the_shape_that_does_not_fit);
	tcase_add_test(cases, refuses_networks_of_one_size);
	suite_add_tcase(suite, cases);
	return testing_run(suite);
}
