/* session_info.c - what a session knows and gives away: weights, figures, pictures. */
#include "session.h"

#ifdef CONFIG_PLANNER
#include "boot.h"
#endif
#include "exec/profile.h"
#include "plan/draw.h"
#include "plan/html.h"
#include "plan/layer_table.h"
#include "weights/weights_write.h"

#include <string.h>

/* Runs of a training step for a median. */
#define CALIBRATION_ROUNDS 11u

/* The null driver computes nothing, so there is nothing that a snapshot could keep. */
bool session_computes(const struct tarn_session *session)
{
	return strcmp(session->plan.driver, "null") != 0;
}

/* Where the run ends: train.max_steps may stop it before its last epoch. */
uint64_t session_last_step(const struct tarn_session *session)
{
	uint64_t limit = session->config.train.max_steps;
	return limit && limit < session->total_steps ? limit : session->total_steps;
}

enum tarn_status session_check_running(const struct tarn_session *session)
{
	if (session->plan_only)
		return tarn_fail(TARN_EINVAL, "this session was opened with plan_only: it has no device to run on");
	return TARN_OK;
}

enum tarn_status tarn_save(struct tarn_session *session, const char *path)
{
	enum tarn_status st = session_check_running(session);
	if (!st && !session_computes(session))
		st = tarn_fail(TARN_EUNSUPPORTED, "the null driver computes no weights: there is nothing to save");
	return st ? st : snapshot_save(session->snapshot, path, &session->position);
}

enum tarn_status tarn_export(const char *snapshot, const char *path, const char *map, struct tarn_exported *exported)
{
	struct weights_written written;
	enum tarn_status st = weights_write(snapshot, path, map, &written);
	if (st)
		return st;
	*exported = (struct tarn_exported){ .tensors = written.tensors,
					    .bytes = written.bytes,
					    .averages = written.averages };
	memcpy(exported->family, written.family, sizeof exported->family);
	return TARN_OK;
}

enum tarn_status tarn_weights_hash(struct tarn_session *session, uint64_t *hash)
{
	enum tarn_status st = session_check_running(session);
	return st ? st : snapshot_hash(session->snapshot, &session->position, hash);
}

static enum tarn_status check_tensor(const struct tarn_session *session, const char *name, uint64_t bytes)
{
	enum tarn_status st = session_check_running(session);
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

/* The arena's budget, and what the device holds beside the arena. */
static uint64_t total_budget(const struct plan *plan, const struct plan_report *report)
{
	if (plan->budget_bytes == UINT64_MAX)
		return UINT64_MAX;
	return plan->budget_bytes + report->overhead_bytes + report->reserve_bytes;
}

enum tarn_status tarn_plan_info(const struct tarn_session *session, struct tarn_plan_info *info)
{
	const struct plan *plan = &session->plan;
	const struct plan_report *report = &session->report;
	*info = (struct tarn_plan_info){ .budget_bytes = total_budget(plan, report),
					 .peak_bytes = report->peak_bytes,
					 .arena_bytes = plan->arena_bytes,
					 .persistent_bytes = plan->persistent_bytes,
					 .min_budget_bytes = report->min_budget_bytes,
					 .none_peak_bytes = report->none_peak_bytes,
					 .transient_peak_bytes = report->transient_peak_bytes,
					 .none_transient_peak_bytes = report->none_transient_peak_bytes,
					 .host_bytes = plan->host_bytes,
					 .stored_bytes = report->stored_bytes,
					 .fetched_bytes = report->fetched_bytes,
					 .parameter_count = report->parameter_count,
					 .plan_checksum = plan->plan_checksum,
					 .step_ns = plan->program[0].time_ns,
					 .recomputed_ops = report->recomputed_ops,
					 .threads = plan->threads,
					 .batch = plan->program[0].batch,
					 .overhead = report->overhead,
					 .plan_ms = report->plan_ms,
					 .pack_ms = report->pack_ms,
					 .time_bound_ns = report->time_bound_ns,
					 .peak_bound_bytes = report->peak_bound_bytes,
					 .gap = report->gap,
					 .state_bytes = report->state_bytes,
					 .microbatches = session->config.train.accumulate,
					 .workspace_cap = session->config.memory.workspace_cap,
					 .microbatches_chosen =
						 session->config.memory.microbatches == MICROBATCHES_AUTO,
					 .workspace_chosen = session->config.memory.workspace_chosen,
					 .strategy = strategy_name(plan->strategy),
					 .driver = plan->driver,
					 .name = session->config.name,
					 .snapshot = session->snapshot_path,
					 .run = session->config.train.run,
					 .tensorboard = session->config.train.log == TRAIN_LOG_TENSORBOARD,
					 .costs = session->config.costs,
					 .overhead_bytes = report->overhead_bytes,
					 .reserve_bytes = report->reserve_bytes,
					 .inner_step_bytes = report->inner_step_bytes,
					 .device = plan->device ? plan->device : "",
					 .synthetic = session->config.data.synthetic,
					 .fell_back = report->fell_back,
					 .initialized = session->initialized ? session->initialized : "",
					 .log_every = session->config.train.log_every,
					 .evaluate_every = session->config.train.evaluate_every,
					 .snapshot_every = session->config.train.snapshot_every,
					 .total_steps = session_last_step(session),
					 .resumed_steps = session->resumed_steps };
	const struct graph *graph = &plan->program[0].graph;
	uint32_t input = graph_find(graph, "staging/input");
	info->tokens = input != TENSOR_NONE && graph->tensor[input].dtype == DTYPE_I32;
	for (uint32_t d = 1; input != TENSOR_NONE && d < graph->tensor[input].rank && d <= 5; d++)
		info->sample_dim[info->sample_rank++] = graph->tensor[input].dim[d];
	info->shapes = session->config.data.shapes.count;
	memcpy(info->shape, session->config.data.shapes.item, sizeof info->shape);
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

enum tarn_status tarn_plan_settings(const struct tarn_session *session, FILE *out)
{
	struct host_arena scratch;
	host_arena_init(&scratch);
	const char *lines = config_to_lines(&session->config, &scratch);
	if (lines)
		fputs(lines, out);
	host_arena_fini(&scratch);
	return lines ? TARN_OK : TARN_ENOMEM;
}

enum tarn_status tarn_plan_draw(const struct tarn_session *session, const char *svg_path)
{
	struct host_arena scratch;
	host_arena_init(&scratch);
	enum tarn_status st = plan_draw_svg(&session->plan, PROGRAM_TRAIN, &session->curve, &scratch, svg_path);
	host_arena_fini(&scratch);
	return st;
}

enum tarn_status tarn_plan_html(const struct tarn_session *session, FILE *out)
{
	struct host_arena scratch;
	host_arena_init(&scratch);
	enum tarn_status st = plan_html(&session->plan, &session->curve, &scratch, out);
	host_arena_fini(&scratch);
	return st;
}

enum tarn_status tarn_plan_explain(const struct tarn_session *session, bool json, FILE *out)
{
	struct host_arena scratch;
	struct plan_explanation explanation;
	host_arena_init(&scratch);
	enum tarn_status st = plan_explain(&session->plan, &session->plan.program[0], &scratch, &explanation);
	if (!st && json)
		plan_explain_json(&explanation, &session->curve, out);
	else if (!st)
		plan_explain_print(&explanation, &session->curve, out);
	host_arena_fini(&scratch);
	return st;
}

enum tarn_status tarn_plan_layers(const struct tarn_session *session, bool whole, bool json, FILE *out)
{
	const struct graph *graph = &session->plan.program[0].graph;
	struct host_arena scratch;
	enum tarn_status st = TARN_OK;
	host_arena_init(&scratch);
	if (json)
		layer_table_json(graph, session->plan.config_lines, out);
	else
		st = layer_table_print(graph, whole, &scratch, out);
	host_arena_fini(&scratch);
	return st;
}

/* Only who planned knows what the planner was asked. */
#ifdef CONFIG_PLANNER
static enum tarn_status check_planned_here(const struct tarn_session *session)
{
	if (session->plan.mapping)
		return tarn_fail(TARN_EUNSUPPORTED,
				 "the plan was loaded from a file, which does not hold the planner's "
				 "problem: give the configuration");
	return TARN_OK;
}

enum tarn_status tarn_plan_curve(struct tarn_session *session)
{
	enum tarn_status st = check_planned_here(session);
	return st ? st
		  : boot_curve(&session->config, &session->device, &session->plan, &session->arena, &session->curve);
}

enum tarn_status tarn_plan_dump_dag(struct tarn_session *session, const char *path, uint64_t *time_ns)
{
	enum tarn_status st = check_planned_here(session);
	return st ? st
		  : boot_dump_dag(&session->config, &session->device, &session->plan, &session->arena, path, time_ns);
}
#else
enum tarn_status tarn_plan_curve(struct tarn_session *session)
{
	(void)session;
	return tarn_fail(TARN_EUNSUPPORTED, "this build has no planner (CONFIG_PLANNER is off)");
}

enum tarn_status tarn_plan_dump_dag(struct tarn_session *session, const char *path, uint64_t *time_ns)
{
	(void)session;
	(void)path;
	(void)time_ns;
	return tarn_fail(TARN_EUNSUPPORTED, "this build has no planner (CONFIG_PLANNER is off)");
}
#endif

uint64_t tarn_arena_touched_bytes(struct tarn_session *session)
{
	return session->plan_only ? 0 : session->device.ops->touched_bytes(&session->device);
}

void tarn_device_ledger(const struct tarn_session *session, struct tarn_ledger *out)
{
	struct device_ledger ledger = { .lines = 0 };
	const struct driver_ops *ops = session->device.ops;
	_Static_assert(sizeof out->line / sizeof *out->line == DEVICE_LEDGER_LINES, "a line for each of the device's");
	if (ops && ops->ledger && !session->plan_only)
		ops->ledger(&session->device, &ledger);
	*out = (struct tarn_ledger){ .lines = ledger.lines,
				     .rounding_bytes = ledger.rounding_bytes,
				     .total_bytes = ledger.total_bytes,
				     .recorded = session->executor.replay[0] != NULL,
				     .unrecorded = session->unrecorded ? session->unrecorded : "" };
	for (uint32_t i = 0; i < ledger.lines; i++) {
		out->line[i].name = ledger.line[i].name;
		out->line[i].bytes = ledger.line[i].bytes;
	}
}

enum tarn_status tarn_calibrate(struct tarn_session *session, const char *path, struct tarn_calibration *calibration)
{
	struct profile_summary summary;
	enum tarn_status st = session_check_running(session);
	if (!st && !session_computes(session))
		st = tarn_fail(TARN_EUNSUPPORTED, "the null driver computes nothing: there is nothing to measure");
	if (!st)
		st = profile_write(&session->executor, 0, CALIBRATION_ROUNDS, &session->arena, path, &summary);
	if (!st)
		*calibration = (struct tarn_calibration){ .distinct_ops = summary.distinct_ops,
							  .measured_ms = (double)summary.measured_ns * 1e-6,
							  .planned_ms = (double)summary.planned_ns * 1e-6 };
	return st;
}

const char *tarn_version(void)
{
	return TARN_VERSION;
}
