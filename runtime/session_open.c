/* session_open.c - from a configuration or a plan file to a run that is ready for its first step; and its end. */
#include "session.h"

#include "base/folder.h"
#include "exec/lockdown.h"
#include "verify/verify.h"
#include "weights/weights_file.h"
#include "weights/weights_load.h"
#ifdef CONFIG_PLANNER
#include "boot.h"
#include "boot_choice.h"
#endif
#ifdef CONFIG_YAML
#include "device_file.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAP_RESERVE_BYTES (4ul << 20)

/* Keys that a plan does not depend on: only these may be overridden when the plan comes from a file. */
static bool may_change_after_planning(const char *override)
{
	if (!strncmp(override, "train.threads=", 14))
		return false; /* workspaces were sized for a number of threads */
	if (!strncmp(override, "train.accumulate=", 17) || !strncmp(override, "train.microbatch_norm=", 22))
		return false; /* the parts of a batch are in the graphs */
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

/* Samples of the program, for data.type memory. */
static enum tarn_status take_samples(struct tarn_session *session, const struct tarn_options *options)
{
	struct config *config = &session->config;
	const struct tarn_samples *from[2] = { options->train, options->test };
	const struct given_samples **to[2] = { &config->data.given, &config->data.given_test };
	if ((options->train || options->test) && config->data.type != DATA_MEMORY)
		return tarn_fail(TARN_EINVAL, "tarn_open: samples were handed over, but data.type is not memory");
	for (int i = 0; i < 2; i++) {
		struct given_samples *copy = from[i] ? HOST_NEW(&session->arena, struct given_samples) : NULL;
		if (!from[i])
			continue;
		if (!copy)
			return TARN_ENOMEM;
		*copy = (struct given_samples){ .inputs = from[i]->inputs,
						.bytes = from[i]->bytes,
						.targets = from[i]->targets,
						.samples = from[i]->samples };
		*to[i] = copy;
	}
	return TARN_OK;
}

static enum tarn_status load_plan(struct tarn_session *session, const struct tarn_options *options)
{
	for (uint32_t i = 0; i < options->overrides; i++)
		if (!may_change_after_planning(options->override[i]))
			return tarn_fail(
				TARN_EINVAL,
				"%s is part of the plan in %s and cannot be changed when it runs; make a new plan",
				options->override[i], options->plan_path);
	enum tarn_status st = plan_load(options->plan_path, &session->arena, &session->plan);
	if (!st)
		st = config_from_lines(session->plan.config_lines, options->plan_path, options->override,
				       options->overrides, &session->arena, &session->config);
	if (!st)
		st = take_samples(session, options);
	if (!st)
		st = verify_plan(&session->plan, &session->arena);
	if (st == TARN_EVERIFY)
		return tarn_fail_prefix(st, "plan %s", options->plan_path);
	if (st)
		return st;
	plan_report_fill(&session->plan, &session->report);
	return TARN_OK;
}

static enum tarn_status open_device(struct tarn_session *session, const char *driver, uint32_t threads,
				    const struct device_description *description)
{
	const struct driver_ops *ops = driver_find(driver);
	if (!ops)
		return TARN_EUNSUPPORTED;
	struct device_options options = { .threads = threads,
					  .reserve_bytes = session->config.reserve,
					  .tf32 = session->config.tf32,
					  .description = description };
	enum tarn_status st = description ? TARN_OK : ops->probe();
#ifdef CONFIG_PLANNER
	if (!st && !session->plan.programs)
		st = boot_choose(ops, &options, &session->config);
#endif
	if (st)
		return st;
	options.workspace_cap = session->config.memory.workspace_cap;
	session->device = (struct device){ .ops = ops, .host = &session->arena };
	return ops->open(&session->device, &options);
}

/* Kernels were chosen, and workspaces sized, for one device and the libraries it had. */
static enum tarn_status check_device(const struct tarn_session *session, const char *path)
{
	const char *wanted = session->plan.device ? session->plan.device : "";
	const char *here = session->device.identity ? session->device.identity : "";
	if (!strcmp(wanted, here))
		return TARN_OK;
	return tarn_fail(TARN_EUNSUPPORTED, "plan %s was made for \"%s\", here is \"%s\": make the plan again here",
			 path, wanted, here);
}

#ifdef CONFIG_PLANNER
/* The device of this machine, or the described one, which is always planned for by the cuda driver. */
static enum tarn_status open_planning_device(struct tarn_session *session, const struct tarn_options *options)
{
	const struct config *config = &session->config;
	if (!options->device_path)
		return open_device(session, config_driver_name(config->driver), config->train.threads, NULL);
	if (!options->plan_only)
		return tarn_fail(TARN_EINVAL,
				 "%s describes a device that is not here: it can be planned for, not run on",
				 options->device_path);
	struct device_description *description = HOST_NEW(&session->arena, struct device_description);
	if (!description)
		return TARN_ENOMEM;
#ifdef CONFIG_YAML
	enum tarn_status st = device_file_load(options->device_path, &session->arena, description);
#else
	enum tarn_status st = tarn_fail(TARN_EUNSUPPORTED, "this build reads no files of devices (CONFIG_YAML is off)");
#endif
	return st ? st : open_device(session, "cuda", config->train.threads, description);
}

/* hvp.mode auto: of the two plans that fit, the one whose step takes less time. */
static enum tarn_status choose_plan(struct tarn_session *session)
{
	struct config *config = &session->config;
	if (config->objective.type != OBJECTIVE_HVP || config->hvp.mode != HVP_AUTO)
		return boot_plan(config, &session->device, &session->arena, &session->plan, &session->report);
	struct plan *other = HOST_NEW(&session->arena, struct plan);
	struct plan_report report;
	if (!other)
		return TARN_ENOMEM;
	config->hvp.mode = HVP_FORWARD;
	enum tarn_status forward = boot_plan(config, &session->device, &session->arena, other, &report);
	if (forward && forward != TARN_EBUDGET)
		return forward;
	tarn_error_clear();
	config->hvp.mode = HVP_REVERSE;
	enum tarn_status st = boot_plan(config, &session->device, &session->arena, &session->plan, &session->report);
	if (forward || (st && st != TARN_EBUDGET) ||
	    (!st && session->plan.program[0].time_ns <= other->program[0].time_ns))
		return st;
	tarn_error_clear();
	config->hvp.mode = HVP_FORWARD;
	session->plan = *other;
	session->report = report;
	return TARN_OK;
}

/* Batches are as large as the parts that training takes them in; whole samples, and none is left over to train on. */
static void fit_inference(struct config *config, bool result)
{
	uint32_t parts = config->memory.microbatches == MICROBATCHES_AUTO ? 1 : config->train.accumulate;
	config->data.batch = (config->data.batch + parts - 1) / parts;
	config->memory.microbatches = MICROBATCHES_GIVEN;
	config->train.accumulate = 1;
	config->objective.result = config->objective.result || result;
	config->data.drop_last = true;
	config->data.shapes.count = 0;
}

static enum tarn_status make_plan(struct tarn_session *session, const struct tarn_options *options)
{
	struct config *config = &session->config;
	enum tarn_status st;
#ifdef CONFIG_YAML
	if (options->config_text)
		st = config_parse(options->config_text, strlen(options->config_text), "configuration",
				  options->override, options->overrides, &session->arena, config);
	else
		st = config_load(options->config_path, options->override, options->overrides, &session->arena, config);
#else
	(void)config;
	st = tarn_fail(TARN_EUNSUPPORTED, "this build reads no YAML (CONFIG_YAML is off): give it a plan file");
#endif
	if (!st)
		st = take_samples(session, options);
	if (!st && options->inference && config->objective.type == OBJECTIVE_LOSS)
		config->objective.type = OBJECTIVE_INFERENCE;
	if (!st && config->objective.type == OBJECTIVE_INFERENCE)
		fit_inference(config, options->result);
	if (!st)
		st = open_planning_device(session, options);
	return st ? st : choose_plan(session);
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
	if (session->config.objective.type == OBJECTIVE_MAML)
		return TARN_OK; /* steps are drawn, there is no last one */
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
					.augment = !session_asks(config),
					.seed = config->train.seed,
					.first_epoch = session->position.epoch,
					.first_batch = session->position.batch,
					.repeat = true };
	const bool maml = config->objective.type == OBJECTIVE_MAML;
	options.episodes = maml ? &session->train_episodes : NULL;
	enum tarn_status st = feed_open(&options, &session->arena, &session->train_feed);
	if (st || !test)
		return st;
	options = (struct feed_options){ .dataset = &session->test,
					 .batch = test->batch,
					 .episodes = maml ? &session->test_episodes : NULL };
	return feed_open(&options, &session->arena, &session->test_feed);
}

static enum tarn_status open_data(struct tarn_session *session)
{
	enum tarn_status st = dataset_open(&session->config, SPLIT_TRAIN, &session->arena, &session->train);
	if (!st)
		st = session->config.objective.type == OBJECTIVE_HVP
			     ? TARN_OK
			     : dataset_open(&session->config, SPLIT_TEST, &session->arena, &session->test);
	if (!st)
		st = check_data(session);
	if (!st)
		st = session_open_arrays(session);
	if (st || session->config.objective.type != OBJECTIVE_MAML)
		return st;
	st = episodes_open(&session->config, &session->train, SPLIT_TRAIN, &session->arena, &session->train_episodes);
	if (!st && session->test.samples)
		st = episodes_open(&session->config, &session->test, SPLIT_TEST, &session->arena,
				   &session->test_episodes);
	return st;
}

static void count_steps(struct tarn_session *session)
{
	const struct config *config = &session->config;
	uint32_t batch = plan_program(&session->plan, PROGRAM_TRAIN)->batch, samples = session->train.samples;
	uint64_t epochs = config->train.epochs, limit = config->train.max_steps;
	session->batches = config->data.drop_last ? samples / batch : (samples - 1) / batch + 1;
	if (config->objective.type == OBJECTIVE_MAML)
		session->batches = samples < batch ? 1 : samples / batch;
	if (!epochs && !limit)
		epochs = 1;
	session->total_steps = epochs ? epochs * session->batches : limit;
	session->finished = session->position.step >= session_last_step(session);
	session->metrics.step = session->position.step;
}

/* The beginning, or where the snapshot stopped. A place in an epoch means nothing for other data or another batch. */
/* train.initialize: other weights than those that were just made. */
static enum tarn_status initialize(struct tarn_session *session)
{
	const struct config *config = &session->config;
	const struct weights_request request = { .path = config->train.initialize,
						 .map = config->train.initialize_map,
						 .skip = &config->train.initialize_skip };
	if (!*request.path && (*request.map || request.skip->count))
		return tarn_fail(TARN_EINVAL, "%s needs train.initialize, the file it is about",
				 *request.map ? "train.initialize_map" : "train.initialize_skip");
	if (!*request.path || !session_computes(session))
		return TARN_OK;
	return weights_load(&session->executor, &request, &session->arena, &session->initialized);
}

/* Weights to evaluate, with PyTorch's names. */
static enum tarn_status load_foreign(struct tarn_session *session, const char *path)
{
	const struct config *config = &session->config;
	static const struct text_list nothing;
	const struct weights_request request = { .path = path, .map = config->train.initialize_map, .skip = &nothing };
	return weights_load(&session->executor, &request, &session->arena, &session->initialized);
}

static enum tarn_status start_position(struct tarn_session *session, const struct tarn_options *options)
{
	const char *resume_path = options->resume_path;
	struct snapshot_position *position = &session->position;
	const struct snapshot_position start = { .seed = session->config.train.seed,
						 .batch_size = plan_program(&session->plan, PROGRAM_TRAIN)->batch,
						 .samples = session->train.samples };
	*position = start;
	if (!resume_path)
		return initialize(session);
	if (options->weights_only && weights_file_is_foreign(resume_path, &session->arena))
		return load_foreign(session, resume_path);
	enum tarn_status st = snapshot_load_newest(session->snapshot, resume_path, position);
	if (st || options->weights_only)
		return st;
	if (position->seed != start.seed)
		return tarn_fail(TARN_EINVAL, "snapshot %s was made with train.seed %llu, this run has %llu",
				 resume_path, (unsigned long long)position->seed, (unsigned long long)start.seed);
	if (position->batch_size != start.batch_size || position->samples != start.samples)
		return tarn_fail(TARN_EINVAL,
				 "snapshot %s was made with batches of %u from %u training samples, this run has "
				 "batches of %u from "
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

/* A folder for the run has a place for its snapshot; the null driver makes none. */
static enum tarn_status place_snapshot(struct tarn_session *session)
{
	const struct config *config = &session->config;
	session->snapshot_path = session_computes(session) ? config->train.snapshot : "";
	if (!session_computes(session) || config->train.snapshot[0] || !config->train.run[0])
		return TARN_OK;
	session->snapshot_path = host_arena_printf(&session->arena, "%s/snapshot.safetensors", config->train.run);
	return session->snapshot_path ? TARN_OK : TARN_ENOMEM;
}

/* All data were read, and the threads that will compute are not there yet. */
static enum tarn_status confine_files(struct tarn_session *session, const struct tarn_options *options)
{
	const char *run = session->config.train.run;
	const char *in_run = *run ? host_arena_printf(&session->arena, "%s/lock", run) : "";
	bool confined, own_memory = session->device.ops->overhead != NULL;
	if (own_memory) { /* its libraries open files and devices until the last kernel is loaded */
		fprintf(stderr, "warning: lockdown: files are not confined on the %s driver\n",
			session->device.ops->name);
		return TARN_OK;
	}
	if (!in_run)
		return TARN_ENOMEM;
	const char *const writable[] = { session->snapshot_path, in_run };
	/* The folder of a run keeps a copy of its configuration, made later. */
	const char *const readable[] = { options->resume_path, *run ? options->config_path : NULL };
	enum tarn_status st = *run ? folder_prepare(in_run) : TARN_OK;
	if (!st)
		st = lockdown_files(writable, 2, readable, 2, &confined);
	if (!st && !confined)
		fprintf(stderr, "warning: lockdown: this kernel has no Landlock, so files are not confined\n");
	return st;
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
		return tarn_fail(
			TARN_EBUDGET,
			"the caller's arena has %llu bytes; the plan needs %llu and up to %llu more to align it",
			(unsigned long long)options->arena_bytes, (unsigned long long)session->plan.arena_bytes,
			(unsigned long long)(TARN_ALIGNMENT - 1));
	enum tarn_status st =
		exec_open(&session->executor, &session->plan, &session->device, options->arena, poison, arena);
	if (!st)
		st = open_data(session);
	if (!st && session->snapshot_path[0])
		st = prepare_snapshot(session->snapshot_path);
	if (!st && options->lockdown)
		st = confine_files(session, options);
	if (!st)
		st = session_open_inference(session);
	if (!st)
		st = exec_rehearse(&session->executor, config->graph, arena, &session->unrecorded);
	if (!st)
		st = exec_initialize(&session->executor, config->network.init == NETWORK_INIT_HASH, config->train.seed,
				     arena);
	if (!st && session_computes(session))
		st = nonfinite_open(&session->executor, config->train.on_nonfinite, arena, &session->nonfinite);
	if (!st)
		st = snapshot_open(&session->executor, session->snapshot_path, arena, &session->snapshot);
	if (!st && (session_asks(config) || config->objective.type == OBJECTIVE_INFERENCE))
		snapshot_leave_out_optimizer(session->snapshot);
	if (!st)
		st = start_position(session, options);
	if (st)
		return st;
	count_steps(session);
	st = open_feeds(session);
	if (!st && session->device.ops->freeze) {
		/* What auto took from a device that had it free is not held against it. */
		bool limited = config->memory.budget != BUDGET_AUTO;
		st = session->device.ops->freeze(&session->device, limited ? config->memory.budget : UINT64_MAX);
	}
	if (st)
		return st;
	lockdown_prepare_heap(HEAP_RESERVE_BYTES);
	bool device_calls = session->device.ops->overhead != NULL;
	return options->lockdown ? lockdown_enter(device_calls) : TARN_OK;
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
			st = open_device(session, session->plan.driver, session->plan.threads, NULL);
		if (!st && !options->plan_only)
			st = check_device(session, options->plan_path);
	} else {
		st = make_plan(session, options);
	}
	if (!st)
		st = place_snapshot(session);
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
