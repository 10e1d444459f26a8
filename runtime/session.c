/* session.c - the public interface: a run from boot to close. */
#include "tarn.h"

#include "base/folder.h"
#include "config/config.h"
#include "data/feed.h"
#include "driver.h"
#include "exec/exec.h"
#include "exec/lockdown.h"
#include "exec/rate.h"
#include "exec/snapshot.h"
#include "plan/draw.h"
#include "plan/report.h"
#include "verify/verify.h"
#ifdef CONFIG_PLANNER
#include "boot.h"
#endif

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEAP_RESERVE_BYTES (4ul << 20)

struct tarn_session {
	struct host_arena arena;
	struct config config;
	struct plan plan;
	struct plan_report report;
	struct device device;
	struct executor executor;
	struct dataset train, test;
	struct feed *train_feed, *test_feed;
	struct snapshot *snapshot;
	struct snapshot_position position;
	struct tarn_metrics metrics;
	uint64_t total_steps;   /* of the learning rate's schedule */
	uint64_t resumed_steps; /* done before this session */
	uint32_t batches;       /* in an epoch */
	const volatile int *stop;
	bool finished, plan_only;
};

static double clock_ms(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

/* Keys that a plan does not depend on: only these may be overridden when the plan comes from a file. */
static bool may_change_after_planning(const char *override)
{
	if (!strncmp(override, "train.threads=", 14))
		return false; /* workspaces were sized for a number of threads */
	static const char *const keys[] = { "name=",
					    "train.",
					    "optimizer.learning_rate=",
					    "optimizer.schedule.",
					    "data.directory=",
					    "data.train_inputs=",
					    "data.train_labels=",
					    "data.test_inputs=",
					    "data.test_labels=",
					    "data.shuffle=",
					    "data.augment." };
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		if (!strncmp(override, keys[i], strlen(keys[i])))
			return true;
	return false;
}

static enum tarn_status load_plan(struct tarn_session *session, const struct tarn_options *options)
{
	for (uint32_t i = 0; i < options->overrides; i++)
		if (!may_change_after_planning(options->override[i]))
			return tarn_fail(TARN_EINVAL,
					 "%s is part of the plan in %s and cannot be changed when it runs; make a new plan",
					 options->override[i], options->plan_path);
	enum tarn_status st = plan_load(options->plan_path, &session->arena, &session->plan);
	if (!st)
		st = config_from_lines(session->plan.config_lines, options->plan_path, options->override,
				       options->overrides, &session->arena, &session->config);
	if (!st)
		st = verify_plan(&session->plan, &session->arena);
	if (st == TARN_EVERIFY)
		return tarn_fail_prefix(st, "plan %s", options->plan_path);
	if (st)
		return st;
	plan_report_fill(&session->plan, &session->report);
	return TARN_OK;
}

static enum tarn_status open_device(struct tarn_session *session, const char *driver, uint32_t threads)
{
	const struct driver_ops *ops = driver_find(driver);
	if (!ops)
		return TARN_EUNSUPPORTED;
	struct device_options options = { .threads = threads, .workspace_cap = session->config.memory.workspace_cap };
	session->device = (struct device){ .ops = ops, .host = &session->arena };
	enum tarn_status st = ops->probe();
	return st ? st : ops->open(&session->device, &options);
}

#ifdef CONFIG_PLANNER
static enum tarn_status make_plan(struct tarn_session *session, const struct tarn_options *options)
{
	static const char *const drivers[] = { "cpu", "null" };
	struct config *config = &session->config;
	enum tarn_status st;
#ifdef CONFIG_YAML
	if (options->config_text)
		st = config_parse(options->config_text, strlen(options->config_text), "configuration", options->override,
				  options->overrides, &session->arena, config);
	else
		st = config_load(options->config_path, options->override, options->overrides, &session->arena, config);
#else
	(void)config;
	st = tarn_fail(TARN_EUNSUPPORTED, "this build reads no YAML (CONFIG_YAML is off): give it a plan file");
#endif
	if (!st)
		st = open_device(session, drivers[config->driver], config->train.threads);
	if (!st)
		st = boot_plan(config, &session->device, &session->arena, &session->plan, &session->report);
	return st;
}
#else
static enum tarn_status make_plan(struct tarn_session *session, const struct tarn_options *options)
{
	(void)session;
	(void)options;
	return tarn_fail(TARN_EUNSUPPORTED, "this build has no planner (CONFIG_PLANNER is off): give it a plan file");
}
#endif

/* The plan knows the sizes of a batch; the data must be the ones it was made for. */
static enum tarn_status check_data(const struct tarn_session *session)
{
	const struct program *train = plan_program(&session->plan, PROGRAM_TRAIN);
	const struct program *last = plan_program(&session->plan, PROGRAM_TRAIN_LAST);
	const struct persistent *input = exec_find(&session->executor, "staging/input");
	uint64_t bytes = session->train.sample_elements * sizeof(float) * train->batch;
	if (!input || input->bytes != bytes)
		return tarn_fail(TARN_EDATA, "a batch of these data has %llu bytes, the plan was made for %llu",
				 (unsigned long long)bytes, (unsigned long long)(input ? input->bytes : 0));
	uint32_t rest = session->config.data.drop_last ? 0 : session->train.samples % train->batch;
	if (rest != (last ? last->batch : 0))
		return tarn_fail(TARN_EDATA,
				 "%u training samples leave a last batch of %u, the plan was made for one of %u; "
				 "make the plan for these data",
				 session->train.samples, rest, last ? last->batch : 0);
	const struct program *test = plan_program(&session->plan, PROGRAM_EVALUATE);
	const struct program *test_last = plan_program(&session->plan, PROGRAM_EVALUATE_LAST);
	rest = test ? session->test.samples % test->batch : session->test.samples;
	if (rest != (test_last ? test_last->batch : 0))
		return tarn_fail(TARN_EDATA,
				 "%u test samples leave a last batch of %u, the plan was made for one of %u; "
				 "make the plan for these data",
				 session->test.samples, rest, test_last ? test_last->batch : 0);
	return TARN_OK;
}

static enum tarn_status open_feeds(struct tarn_session *session)
{
	const struct config *config = &session->config;
	const struct program *train = plan_program(&session->plan, PROGRAM_TRAIN);
	const struct program *test = plan_program(&session->plan, PROGRAM_EVALUATE);
	struct feed_options options = { .dataset = &session->train,
					.batch = train->batch,
					.shuffle = config->data.shuffle,
					.drop_last = config->data.drop_last,
					.augment = true,
					.seed = config->train.seed,
					.first_epoch = session->position.epoch,
					.first_batch = session->position.batch,
					.repeat = true };
	enum tarn_status st = feed_open(&options, &session->arena, &session->train_feed);
	if (st || !test)
		return st;
	options = (struct feed_options){ .dataset = &session->test, .batch = test->batch };
	return feed_open(&options, &session->arena, &session->test_feed);
}

static enum tarn_status open_data(struct tarn_session *session)
{
	enum tarn_status st = dataset_open(&session->config, SPLIT_TRAIN, &session->arena, &session->train);
	if (!st)
		st = dataset_open(&session->config, SPLIT_TEST, &session->arena, &session->test);
	if (!st)
		st = check_data(session);
	return st;
}

/* The null driver computes nothing, so there is nothing that a snapshot could keep. */
static bool computes(const struct tarn_session *session)
{
	return strcmp(session->plan.driver, "null") != 0;
}

/* Where the run ends: train.max_steps may stop it before its last epoch. */
static uint64_t last_step(const struct tarn_session *session)
{
	uint64_t limit = session->config.train.max_steps;
	return limit && limit < session->total_steps ? limit : session->total_steps;
}

static void count_steps(struct tarn_session *session)
{
	const struct config *config = &session->config;
	uint32_t batch = plan_program(&session->plan, PROGRAM_TRAIN)->batch, samples = session->train.samples;
	uint64_t epochs = config->train.epochs, limit = config->train.max_steps;
	session->batches = config->data.drop_last ? samples / batch : (samples - 1) / batch + 1;
	if (!epochs && !limit)
		epochs = 1;
	session->total_steps = epochs ? epochs * session->batches : limit;
	session->finished = session->position.step >= last_step(session);
	session->metrics.step = session->position.step;
}

/* The beginning, or where the snapshot stopped. A place in an epoch means nothing for other data or another batch. */
static enum tarn_status start_position(struct tarn_session *session, const struct tarn_options *options)
{
	const char *resume_path = options->resume_path;
	struct snapshot_position *position = &session->position;
	const struct snapshot_position start = { .seed = session->config.train.seed,
						 .batch_size = plan_program(&session->plan, PROGRAM_TRAIN)->batch,
						 .samples = session->train.samples };
	*position = start;
	if (!resume_path)
		return TARN_OK;
	enum tarn_status st = snapshot_load_newest(session->snapshot, resume_path, position);
	if (st || options->weights_only)
		return st;
	if (position->seed != start.seed)
		return tarn_fail(TARN_EINVAL, "snapshot %s was made with train.seed %llu, this run has %llu", resume_path,
				 (unsigned long long)position->seed, (unsigned long long)start.seed);
	if (position->batch_size != start.batch_size || position->samples != start.samples)
		return tarn_fail(TARN_EINVAL,
				 "snapshot %s was made with batches of %u from %u training samples, this run has batches of %u from "
				 "%u: it cannot go on in the middle of an epoch",
				 resume_path, position->batch_size, position->samples, start.batch_size, start.samples);
	session->resumed_steps = position->step;
	return TARN_OK;
}

/* A snapshot that cannot be written must be known before the first step, not after the last. */
static enum tarn_status prepare_snapshot(const char *path)
{
	enum tarn_status st = folder_prepare(path);
	return st ? tarn_fail_prefix(st, "train.snapshot") : TARN_OK;
}

static enum tarn_status start_run(struct tarn_session *session, const struct tarn_options *options)
{
	const struct config *config = &session->config;
	struct host_arena *arena = &session->arena;
	uint64_t needed = session->plan.arena_bytes + TARN_ALIGNMENT - 1;
	bool poison = options->poison;
#ifdef CONFIG_POISON
	poison = true;
#endif
	if (options->arena && options->arena_bytes < needed)
		return tarn_fail(TARN_EBUDGET,
				 "the caller's arena has %llu bytes; the plan needs %llu and up to %llu more to align it",
				 (unsigned long long)options->arena_bytes, (unsigned long long)session->plan.arena_bytes,
				 (unsigned long long)(TARN_ALIGNMENT - 1));
	enum tarn_status st =
		exec_open(&session->executor, &session->plan, &session->device, options->arena, poison, arena);
	if (!st)
		st = open_data(session);
	if (!st)
		st = exec_initialize(&session->executor, config->network.init == NETWORK_INIT_HASH, config->train.seed,
				     arena);
	if (!st && config->train.snapshot[0] && computes(session))
		st = prepare_snapshot(config->train.snapshot);
	if (!st)
		st = snapshot_open(&session->executor, config->train.snapshot, arena, &session->snapshot);
	if (!st)
		st = start_position(session, options);
	if (st)
		return st;
	count_steps(session);
	st = open_feeds(session);
	if (st)
		return st;
	lockdown_prepare_heap(HEAP_RESERVE_BYTES);
	return options->lockdown ? lockdown_enter() : TARN_OK;
}

enum tarn_status tarn_open(const struct tarn_options *options, struct tarn_session **out)
{
	int sources = !!options->config_path + !!options->config_text + !!options->plan_path;
	if (sources != 1)
		return tarn_fail(TARN_EINVAL, "tarn_open: give one of config_path, config_text and plan_path, not %d",
				 sources);
	struct tarn_session *session = calloc(1, sizeof *session);
	if (!session)
		return tarn_fail(TARN_ENOMEM, "host memory: cannot get a session");
	host_arena_init(&session->arena);
	session->plan_only = options->plan_only;
	session->stop = options->stop;
	enum tarn_status st;
	if (options->plan_path) {
		st = load_plan(session, options);
		if (!st && !options->plan_only)
			st = open_device(session, session->plan.driver, session->plan.threads);
	} else {
		st = make_plan(session, options);
	}
	if (!st && !options->plan_only)
		st = start_run(session, options);
	if (st) {
		tarn_close(session);
		return st;
	}
	*out = session;
	return TARN_OK;
}

void tarn_close(struct tarn_session *session)
{
	if (!session)
		return;
	if (session->train_feed)
		feed_close(session->train_feed);
	if (session->test_feed)
		feed_close(session->test_feed);
	if (session->snapshot)
		snapshot_close(session->snapshot);
	if (session->device.ops)
		session->device.ops->close(&session->device);
	if (session->plan.mapping)
		plan_close(&session->plan);
	host_arena_fini(&session->arena);
	free(session);
}

static enum tarn_status write_scalars(struct tarn_session *session, double *rate)
{
	const struct config *config = &session->config;
	uint64_t step = session->position.step;
	*rate = rate_at(config, step, session->total_steps, session->batches);
	bool adam = config->optimizer.type == OPTIMIZER_ADAM || config->optimizer.type == OPTIMIZER_ADAMW;
	struct step_scalars scalars = {
		.seed = config->train.seed,
		.step = (uint32_t)step,
		.learning_rate = (float)*rate,
		.bias_correction1 = adam ? (float)rate_bias_correction(config->optimizer.beta1, step) : 1.0f,
		.bias_correction2 = adam ? (float)rate_bias_correction(config->optimizer.beta2, step) : 1.0f
	};
	return exec_write(&session->executor, "scalars", &scalars, sizeof scalars);
}

/* Copies a batch into its slots and lets the loader go on. */
static enum tarn_status stage_batch(struct tarn_session *session, const struct dataset *dataset, struct feed *feed,
				    const struct batch *batch)
{
	uint64_t inputs = dataset->sample_elements * batch->samples, targets = dataset->target_elements * batch->samples;
	enum tarn_status st =
		exec_write(&session->executor, "staging/input", batch->input, inputs * sizeof(float));
	if (!st) /* labels are i32, other targets f32: four bytes either way */
		st = exec_write(&session->executor, "staging/target", batch->target, targets * sizeof(float));
	feed_release(feed);
	return st;
}

static enum tarn_status run_program(struct tarn_session *session, bool train, uint32_t samples)
{
	for (uint32_t i = 0; i < session->plan.programs; i++) {
		const struct program *program = &session->plan.program[i];
		bool trains = program->kind == PROGRAM_TRAIN || program->kind == PROGRAM_TRAIN_LAST;
		if (trains == train && program->batch == samples)
			return exec_run(&session->executor, i);
	}
	return tarn_fail(TARN_EINTERNAL, "the plan has no %s program for a batch of %u",
			 train ? "training" : "evaluation", samples);
}

/* *value = the metric, or NaN when the network does not have it. */
static enum tarn_status read_metric(struct tarn_session *session, const char *name, double *value)
{
	float metric = NAN;
	enum tarn_status st = TARN_OK;
	if (exec_find(&session->executor, name))
		st = exec_read(&session->executor, name, &metric, sizeof metric);
	*value = (double)metric;
	return st;
}

static enum tarn_status read_metrics(struct tarn_session *session, struct tarn_metrics *metrics)
{
	double correct;
	enum tarn_status st = read_metric(session, "metric/loss", &metrics->loss);
	if (!st)
		st = read_metric(session, "metric/correct", &correct);
	if (!st)
		st = read_metric(session, "metric/gradient_norm", &metrics->gradient_norm);
	if (!st)
		metrics->accuracy = correct / (double)metrics->samples;
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
	session->finished = position->step >= last_step(session);
	metrics->finished = session->finished;
}

static enum tarn_status check_running(const struct tarn_session *session)
{
	if (session->plan_only)
		return tarn_fail(TARN_EINVAL, "this session was opened with plan_only: it has no device to run on");
	return TARN_OK;
}

enum tarn_status tarn_step(struct tarn_session *session, struct tarn_metrics *out)
{
	enum tarn_status st = check_running(session);
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
	st = stage_batch(session, &session->train, session->train_feed, &batch);
	if (!st)
		st = write_scalars(session, &metrics.learning_rate);
	if (!st)
		st = run_program(session, true, batch.samples);
	if (!st)
		st = read_metrics(session, &metrics);
	if (st)
		return st;
	advance(session, &batch, &metrics);
	metrics.wall_ms = clock_ms(CLOCK_MONOTONIC) - wall;
	metrics.cpu_ms = clock_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu;
	session->metrics = metrics;
	*out = metrics;
	if (!isfinite(metrics.loss))
		return tarn_fail(TARN_EDIVERGED, "step %llu: the loss is %f; lower optimizer.learning_rate (now %g)",
				 (unsigned long long)metrics.step, metrics.loss, metrics.learning_rate);
	return TARN_OK;
}

enum tarn_status tarn_evaluate(struct tarn_session *session, struct tarn_evaluation *out)
{
	struct tarn_evaluation sum = { 0 };
	enum tarn_status st = check_running(session);
	if (st || !session->test_feed) {
		*out = sum;
		return st;
	}
	feed_rewind(session->test_feed, 0, 0);
	double unused;
	st = write_scalars(session, &unused);
	while (!st) {
		struct batch batch;
		struct tarn_metrics metrics = { 0 };
		st = feed_next(session->test_feed, &batch);
		if (st || !batch.samples)
			break;
		metrics.samples = batch.samples;
		st = stage_batch(session, &session->test, session->test_feed, &batch);
		if (!st)
			st = run_program(session, false, batch.samples);
		if (!st)
			st = read_metrics(session, &metrics);
		sum.samples += batch.samples;
		sum.loss += metrics.loss * batch.samples;
		sum.accuracy += metrics.accuracy * batch.samples;
		if (!st && session->stop && *session->stop)
			st = tarn_fail(TARN_EINTERRUPTED, "stopped after %u of %u test samples", sum.samples,
				       session->test.samples);
	}
	if (st)
		return st;
	sum.loss /= sum.samples;
	sum.accuracy /= sum.samples;
	*out = sum;
	return TARN_OK;
}

enum tarn_status tarn_save(struct tarn_session *session, const char *path)
{
	enum tarn_status st = check_running(session);
	if (!st && !computes(session))
		st = tarn_fail(TARN_EUNSUPPORTED, "the null driver computes no weights: there is nothing to save");
	return st ? st : snapshot_save(session->snapshot, path, &session->position);
}

enum tarn_status tarn_weights_hash(struct tarn_session *session, uint64_t *hash)
{
	enum tarn_status st = check_running(session);
	return st ? st : snapshot_hash(session->snapshot, &session->position, hash);
}

static enum tarn_status check_tensor(const struct tarn_session *session, const char *name, uint64_t bytes)
{
	enum tarn_status st = check_running(session);
	if (st)
		return st;
	const struct persistent *persistent = exec_find(&session->executor, name);
	if (persistent && persistent->bytes != bytes)
		return tarn_fail(TARN_EINVAL, "tensor \"%s\" has %llu bytes, not %llu", name,
				 (unsigned long long)persistent->bytes, (unsigned long long)bytes);
	return TARN_OK;
}

enum tarn_status tarn_read_tensor(struct tarn_session *session, const char *name, void *target, uint64_t bytes)
{
	enum tarn_status st = check_tensor(session, name, bytes);
	return st ? st : exec_read(&session->executor, name, target, bytes);
}

enum tarn_status tarn_write_tensor(struct tarn_session *session, const char *name, const void *source, uint64_t bytes)
{
	enum tarn_status st = check_tensor(session, name, bytes);
	return st ? st : exec_write(&session->executor, name, source, bytes);
}

enum tarn_status tarn_plan_info(const struct tarn_session *session, struct tarn_plan_info *info)
{
	const struct plan *plan = &session->plan;
	const struct plan_report *report = &session->report;
	*info = (struct tarn_plan_info){ .budget_bytes = plan->budget_bytes,
					 .peak_bytes = report->peak_bytes,
					 .arena_bytes = plan->arena_bytes,
					 .persistent_bytes = plan->persistent_bytes,
					 .min_budget_bytes = report->min_budget_bytes,
					 .none_peak_bytes = report->none_peak_bytes,
					 .transient_peak_bytes = report->transient_peak_bytes,
					 .none_transient_peak_bytes = report->none_transient_peak_bytes,
					 .parameter_count = report->parameter_count,
					 .plan_checksum = plan->plan_checksum,
					 .step_ns = plan->program[0].time_ns,
					 .recomputed_ops = report->recomputed_ops,
					 .threads = plan->threads,
					 .batch = plan->program[0].batch,
					 .overhead = report->overhead,
					 .plan_ms = report->plan_ms,
					 .strategy = strategy_name(plan->strategy),
					 .driver = plan->driver,
					 .name = session->config.name,
					 .snapshot = computes(session) ? session->config.train.snapshot : "",
					 .fell_back = report->fell_back,
					 .log_every = session->config.train.log_every,
					 .evaluate_every = session->config.train.evaluate_every,
					 .snapshot_every = session->config.train.snapshot_every,
					 .total_steps = last_step(session),
					 .resumed_steps = session->resumed_steps };
	return TARN_OK;
}

void tarn_plan_recomputed(const struct tarn_session *session, char *buffer, size_t size)
{
	plan_recomputed_text(&session->plan.program[0], buffer, size);
}

void tarn_plan_print(const struct tarn_session *session, FILE *out)
{
	plan_print(&session->plan, out);
}

enum tarn_status tarn_plan_save(const struct tarn_session *session, const char *path)
{
	return plan_save(&session->plan, path);
}

enum tarn_status tarn_plan_draw(const struct tarn_session *session, const char *svg_path)
{
	struct host_arena scratch;
	host_arena_init(&scratch);
	enum tarn_status st = plan_draw_svg(&session->plan, PROGRAM_TRAIN, &scratch, svg_path);
	host_arena_fini(&scratch);
	return st;
}

uint64_t tarn_arena_touched_bytes(struct tarn_session *session)
{
	return session->plan_only ? 0 : session->device.ops->touched_bytes(&session->device);
}

const char *tarn_version(void)
{
	return TARN_VERSION;
}
