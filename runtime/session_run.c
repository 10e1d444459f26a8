/* session_run.c - steps and evaluations of a session; nothing here allocates. */
#include "session.h"

#include "autodiff/optimizer.h"
#include "exec/rate.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* Steps in a row that may be skipped: a run that learns nothing any more must end. */
#define MOST_SKIPPED 100u

static double clock_ms(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* *value = the metric, or NaN when the network does not have it. */
static enum tarn_status read_metric(struct tarn_session *session, const char *name, double *value)
{
	float metric = NAN; /* also on the null driver, which computes none */
	enum tarn_status st = TARN_OK;
	if (session_computes(session) && exec_find(&session->executor, name))
		st = exec_read(&session->executor, name, &metric, sizeof metric);
	*value = (double)metric;
	return st;
}

static enum tarn_status read_skipped(struct tarn_session *session, uint64_t *steps)
{
	double skipped;
	enum tarn_status st = read_metric(session, LOSS_SCALE_SKIPPED, &skipped);
	*steps = skipped > 0 ? (uint64_t)skipped : 0;
	return st;
}

/* Skipped steps do not count for the moments of Adam; the schedule of the rate goes on. */
static enum tarn_status write_scalars(struct tarn_session *session, double *rate)
{
	const struct config *config = &session->config;
	uint64_t step = session->position.step, skipped;
	enum tarn_status st = read_skipped(session, &skipped);
	*rate = rate_at(config, step, session->total_steps, session->batches);
	bool adam = config->optimizer.type == OPTIMIZER_ADAM || config->optimizer.type == OPTIMIZER_ADAMW;
	struct step_scalars scalars = {
		.seed = config->train.seed,
		.step = (uint32_t)step,
		.learning_rate = (float)*rate,
		.bias_correction1 = adam ? (float)rate_bias_correction(config->optimizer.beta1, step - skipped) : 1.0f,
		.bias_correction2 = adam ? (float)rate_bias_correction(config->optimizer.beta2, step - skipped) : 1.0f
	};
	return st ? st : exec_write(&session->executor, "scalars", &scalars, sizeof scalars);
}

/* Copies a batch into its slots and lets the loader go on. */
static enum tarn_status stage_batch(struct tarn_session *session, const struct dataset *dataset, struct feed *feed,
				    const struct batch *batch)
{
	const struct dataset_size *size = &dataset->size[batch->size];
	uint64_t inputs = size->sample_elements * batch->samples, targets = size->target_elements * batch->samples;
	enum tarn_status st = exec_write(&session->executor, "staging/input", batch->input, inputs * sizeof(float));
	if (!st && targets) /* labels are i32, other targets f32: four bytes either way */
		st = exec_write(&session->executor, "staging/target", batch->target, targets * sizeof(float));
	for (uint32_t k = 0; k < dataset->shape.arrays && !st; k++)
		st = exec_write(&session->executor, session->slot[k], batch->array[k],
				dataset->array_elements[k] * batch->samples * sizeof(float));
	feed_release(feed);
	return st;
}

/* Labels of a batch that count: what its mean and its accuracy are over. */
static uint64_t count_labels(const struct tarn_session *session, const struct dataset *dataset,
			     const struct batch *batch)
{
	uint64_t labels = dataset->size[batch->size].target_elements * batch->samples, counted = 0;
	const int32_t *label = batch->target, ignored = session->config.network.ignore_index;
	if (session->config.objective.type == OBJECTIVE_MAML) /* queries alone are judged */
		return (uint64_t)session->config.objective.tasks * session->config.objective.ways *
		       session->config.objective.queries;
	bool values = !dataset->labels && !dataset->tokens;
	if (values || ignored < 0)
		return values ? batch->samples : labels;
	for (uint64_t i = 0; i < labels; i++)
		counted += label[i] != ignored;
	return counted;
}

static enum tarn_status find_program(const struct tarn_session *session, bool train, const struct batch *batch,
				     uint32_t *index)
{
	/* Inference has one program for whole batches that keeps the result. */
	if (!train && session->inference.confusion && batch->samples == session->plan.program[0].batch) {
		*index = 0;
		return TARN_OK;
	}
	for (uint32_t i = 0; i < session->plan.programs; i++) {
		const struct program *program = &session->plan.program[i];
		bool trains = program->kind == PROGRAM_TRAIN || program->kind == PROGRAM_TRAIN_LAST;
		if (trains == train && program->batch == batch->samples && program->shape == batch->size) {
			*index = i;
			return TARN_OK;
		}
	}
	return tarn_fail(TARN_EINTERNAL, "the plan has no %s program for a batch of %u samples of shape %u",
			 train ? "training" : "evaluation", batch->samples, batch->size);
}

static enum tarn_status run_program(struct tarn_session *session, bool train, const struct batch *batch)
{
	uint32_t index;
	enum tarn_status st = find_program(session, train, batch, &index);
	return st ? st : exec_run(&session->executor, index);
}

/* A training step, with an eye on numbers that are not finite. */
static enum tarn_status run_step(struct tarn_session *session, const struct batch *batch, struct tarn_metrics *metrics)
{
	uint32_t index;
	enum tarn_status st = find_program(session, true, batch, &index);
	if (st)
		return st;
	return session->nonfinite ? nonfinite_run(session->nonfinite, index, &metrics->nonfinite)
				  : exec_run(&session->executor, index);
}

/* The parts of the loss; `labels`: those of the last layer that count. */
static enum tarn_status read_parts(struct tarn_session *session, uint64_t labels, struct tarn_metrics *metrics)
{
	enum tarn_status st = TARN_OK;
	metrics->parts = session->losses;
	for (uint32_t i = 0; i < session->losses && !st; i++) {
		const struct session_loss *loss = &session->loss[i];
		double correct = (double)NAN, counted = (double)(i ? loss->labels * metrics->samples : labels);
		st = read_metric(session, loss->loss, &metrics->part[i].loss);
		if (!st && loss->correct)
			st = read_metric(session, loss->correct, &correct);
		metrics->part[i].name = loss->name;
		metrics->part[i].accuracy = correct / counted;
	}
	return st;
}

static enum tarn_status read_metrics(struct tarn_session *session, uint64_t labels, struct tarn_metrics *metrics)
{
	double correct;
	enum tarn_status st = read_metric(session, "metric/loss", &metrics->loss);
	if (!st)
		st = read_metric(session, "metric/correct", &correct);
	if (!st)
		st = read_metric(session, "metric/gradient_norm", &metrics->gradient_norm);
	if (!st)
		st = read_metric(session, LOSS_SCALE_STATE, &metrics->loss_scale);
	if (!st)
		st = read_skipped(session, &metrics->skipped_steps);
	if (!st)
		metrics->accuracy = correct / (double)labels;
	return st ? st : read_parts(session, labels, metrics);
}

enum tarn_status session_pass(struct tarn_session *session, uint32_t batches, double *loss, uint64_t *labels)
{
	struct step_scalars scalars = { .seed = session->config.train.seed,
					.bias_correction1 = 1,
					.bias_correction2 = 1 };
	enum tarn_status st = TARN_OK;
	*loss = 0;
	*labels = 0;
	feed_rewind(session->train_feed, 0, 0);
	if (!batches || batches > session->batches)
		batches = session->batches;
	for (uint32_t i = 0; i < batches && !st; i++) {
		struct batch batch;
		struct tarn_metrics metrics = { 0 };
		st = feed_next(session->train_feed, &batch);
		if (st)
			return st;
		uint64_t counted = count_labels(session, &session->train, &batch);
		scalars.learning_rate = -(float)counted;
		st = stage_batch(session, &session->train, session->train_feed, &batch);
		if (!st)
			st = exec_write(&session->executor, "scalars", &scalars, sizeof scalars);
		if (!st && counted) /* a batch that is ignored whole has no mean */
			st = run_program(session, true, &batch);
		if (!st)
			st = read_metrics(session, counted, &metrics);
		if (counted)
			*loss += metrics.loss * (double)counted;
		*labels += counted;
		if (!st && session->stop && *session->stop)
			st = tarn_fail(TARN_EINTERRUPTED, "stopped after %u of %u batches", i + 1, batches);
	}
	*loss /= (double)*labels;
	return st;
}

enum tarn_status session_next_batch(struct tarn_session *session, bool train, struct batch *batch)
{
	const struct step_scalars scalars = {
		.seed = session->config.train.seed, .learning_rate = -1, .bias_correction1 = 1, .bias_correction2 = 1
	};
	struct feed *feed = train ? session->train_feed : session->test_feed;
	enum tarn_status st = feed_next(feed, batch);
	if (st || !batch->samples)
		return st;
	st = stage_batch(session, train ? &session->train : &session->test, feed, batch);
	if (!st)
		st = exec_write(&session->executor, "scalars", &scalars, sizeof scalars);
	if (!st)
		st = run_program(session, train, batch);
	if (!st && session->stop && *session->stop)
		st = tarn_fail(TARN_EINTERRUPTED, "stopped after %u batches", batch->number + 1);
	return st;
}

static void advance(struct tarn_session *session, const struct batch *batch, struct tarn_metrics *metrics)
{
	struct snapshot_position *position = &session->position;
	metrics->epoch = batch->epoch;
	metrics->batch = batch->number + 1;
	metrics->batches = session->batches;
	metrics->epoch_end = metrics->batch == session->batches;
	metrics->step = ++position->step;
	position->epoch = metrics->epoch_end ? batch->epoch + 1 : batch->epoch;
	position->batch = metrics->epoch_end ? 0 : metrics->batch;
	session->finished = position->step >= session_last_step(session);
	metrics->finished = session->finished;
}

/* What train.on_nonfinite makes of the step. */
static enum tarn_status judge(struct tarn_session *session, const struct tarn_metrics *metrics)
{
	session->skipped_in_a_row = metrics->skipped ? session->skipped_in_a_row + 1 : 0;
	if (!metrics->nonfinite || session->config.train.on_nonfinite == NONFINITE_CONTINUE)
		return TARN_OK;
	if (metrics->skipped && session->skipped_in_a_row < MOST_SKIPPED)
		return TARN_OK;
	if (metrics->skipped)
		return tarn_fail(TARN_EDIVERGED, "step %llu: %s; that was the %u th step in a row that was skipped",
				 (unsigned long long)metrics->step, metrics->nonfinite, MOST_SKIPPED);
	return tarn_fail(TARN_EDIVERGED, "step %llu: %s; lower optimizer.learning_rate (now %g)",
			 (unsigned long long)metrics->step, metrics->nonfinite, metrics->learning_rate);
}

enum tarn_status tarn_step(struct tarn_session *session, struct tarn_metrics *out)
{
	enum tarn_status st = session_check_running(session);
	if (!st && session_asks(&session->config))
		st = tarn_fail(TARN_EINVAL,
			       "objective.type is %s: this plan asks about trained weights, it does not train",
			       session->config.objective.type == OBJECTIVE_HVP ? "hvp" : "laplace");
	if (!st && session->config.objective.type == OBJECTIVE_INFERENCE)
		st = tarn_fail(TARN_EINVAL, "objective.type is inference: this plan evaluates, it does not train");
	if (st)
		return st;
	struct tarn_metrics metrics = { 0 };
	struct batch batch;
	if (session->finished) {
		session->metrics.finished = true;
		*out = session->metrics;
		return TARN_OK;
	}
	double wall = clock_ms(CLOCK_MONOTONIC), cpu = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
	st = feed_next(session->train_feed, &batch);
	if (st)
		return st;
	metrics.samples = batch.samples;
	uint64_t labels = count_labels(session, &session->train, &batch), skipped;
	st = read_skipped(session, &skipped);
	if (!st)
		st = stage_batch(session, &session->train, session->train_feed, &batch);
	if (!st)
		st = write_scalars(session, &metrics.learning_rate);
	if (!st)
		st = run_step(session, &batch, &metrics);
	if (!st)
		st = read_metrics(session, labels, &metrics);
	if (st)
		return st;
	metrics.skipped = metrics.nonfinite && session->config.train.on_nonfinite == NONFINITE_SKIP;
	advance(session, &batch, &metrics);
	metrics.wall_ms = clock_ms(CLOCK_MONOTONIC) - wall;
	metrics.cpu_ms = clock_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	session->metrics = metrics;
	*out = metrics;
	st = judge(session, &metrics);
	if (!st && metrics.skipped_steps > skipped && metrics.loss_scale <= (double)LOSS_SCALE_LEAST)
		st = tarn_fail(TARN_EDIVERGED,
			       "step %llu: a gradient is not finite even with a loss scale of %g; lower "
			       "optimizer.learning_rate (now %g) or use precision.compute: bfloat16",
			       (unsigned long long)metrics.step, metrics.loss_scale, metrics.learning_rate);
	return st;
}

/* Each sample has as many labels as any other, so that means over batches are weighted by samples. */
static void add_parts(struct tarn_evaluation *sum, const struct tarn_metrics *metrics)
{
	sum->parts = metrics->parts;
	for (uint32_t i = 0; i < metrics->parts; i++) {
		sum->part[i].name = metrics->part[i].name;
		sum->part[i].loss += metrics->part[i].loss * metrics->samples;
		sum->part[i].accuracy += metrics->part[i].accuracy * metrics->samples;
	}
}

enum tarn_status tarn_evaluate(struct tarn_session *session, struct tarn_evaluation *out)
{
	struct tarn_evaluation sum = { 0 };
	enum tarn_status st = session_check_running(session);
	if (st || !session->test_feed) {
		*out = sum;
		return st;
	}
	feed_rewind(session->test_feed, 0, 0);
	uint64_t counted = 0;
	double unused;
	st = write_scalars(session, &unused);
	while (!st) {
		struct batch batch;
		struct tarn_metrics metrics = { 0 };
		st = feed_next(session->test_feed, &batch);
		if (st || !batch.samples)
			break;
		metrics.samples = batch.samples;
		uint64_t labels = count_labels(session, &session->test, &batch);
		st = stage_batch(session, &session->test, session->test_feed, &batch);
		if (!st)
			st = run_program(session, false, &batch);
		if (!st)
			st = read_metrics(session, labels, &metrics);
		if (!st && session->inference.confusion)
			st = session_count_classes(session, &batch, batch.samples == session->plan.program[0].batch);
		sum.samples += batch.samples;
		counted += labels;
		add_parts(&sum, &metrics);
		if (labels) { /* a batch that is ignored whole has no mean */
			sum.loss += metrics.loss * (double)labels;
			sum.accuracy += metrics.accuracy * (double)labels;
		}
		if (!st && session->stop && *session->stop)
			st = tarn_fail(TARN_EINTERRUPTED, "stopped after %u of %u test samples", sum.samples,
				       session->test.samples);
	}
	if (st)
		return st;
	for (uint32_t i = 0; i < sum.parts; i++) {
		sum.part[i].loss /= (double)sum.samples;
		sum.part[i].accuracy /= (double)sum.samples;
	}
	sum.loss /= (double)counted;
	sum.accuracy /= (double)counted;
	*out = sum;
	return TARN_OK;
}
