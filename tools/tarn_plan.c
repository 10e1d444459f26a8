/* tarn_plan.c - `tarn plan` and `tarn verify`: what a run will need, before it runs. */
#include "command.h"
#include "plan_page.h"

#include "base/bytes.h"
#include "base/status.h"

#include <stdio.h>

/* dag_ns: what the abstract problem takes; 0 when it was not written. `explained`, `listed`: NULL, or whose plan and
 * layers are shown too. */
static enum tarn_status print_json(const struct tarn_plan_info *info, uint64_t dag_ns,
				   const struct tarn_session *explained, const struct tarn_session *listed)
{
	enum tarn_status st = TARN_OK;
	printf("{");
	json_text("name", info->name);
	printf(", \"driver\": \"%s\", \"strategy\": \"%s\", ", info->driver, info->strategy);
	json_limit("budget_bytes", info->budget_bytes);
	printf(", \"peak_bytes\": %llu, \"arena_bytes\": %llu, \"persistent_bytes\": %llu, \"none_peak_bytes\": %llu, "
	       "\"transient_peak_bytes\": %llu, \"none_transient_peak_bytes\": %llu, \"min_budget_bytes\": %llu, ",
	       (unsigned long long)info->peak_bytes, (unsigned long long)info->arena_bytes,
	       (unsigned long long)info->persistent_bytes, (unsigned long long)info->none_peak_bytes,
	       (unsigned long long)info->transient_peak_bytes, (unsigned long long)info->none_transient_peak_bytes,
	       (unsigned long long)info->min_budget_bytes);
	printf("\"overhead_bytes\": %llu, \"reserve_bytes\": %llu, ", (unsigned long long)info->overhead_bytes,
	       (unsigned long long)info->reserve_bytes);
	json_text("device", info->device);
	printf(", ");
	printf("\"parameter_count\": %llu, \"recomputed_ops\": %u, ", (unsigned long long)info->parameter_count,
	       info->recomputed_ops);
	json_number("overhead", info->overhead);
	printf(", \"offload_bytes\": %llu, \"stored_bytes\": %llu, \"fetched_bytes\": %llu, \"host_bytes\": %llu, "
	       "\"batch\": %u, \"threads\": %u, ",
	       (unsigned long long)(info->stored_bytes + info->fetched_bytes), (unsigned long long)info->stored_bytes,
	       (unsigned long long)info->fetched_bytes, (unsigned long long)info->host_bytes, info->batch,
	       info->threads);
	printf("\"optimizer_state_bytes\": %llu, ", (unsigned long long)info->state_bytes);
	printf("\"microbatches\": %u, \"microbatches_auto\": %s, \"workspace_cap_auto\": %s, ", info->microbatches,
	       info->microbatches_chosen ? "true" : "false", info->workspace_chosen ? "true" : "false");
	json_limit("workspace_cap_bytes", info->workspace_cap);
	printf(", ");
	json_number("planned_step_ms", (double)info->step_ns * 1e-6);
	printf(", \"plan_checksum\": \"%016llx\", ", (unsigned long long)info->plan_checksum);
	printf("\"total_time\": %llu, \"lower_bound_time\": %llu, \"lower_bound_peak\": %llu, ",
	       (unsigned long long)info->step_ns, (unsigned long long)info->time_bound_ns,
	       (unsigned long long)info->peak_bound_bytes);
	json_number("gap", info->gap);
	printf(", ");
	json_number("pack_ms", info->pack_ms);
	printf(", ");
	json_number("plan_ms", info->plan_ms);
	if (info->inner_step_bytes)
		printf(", \"inner_step_bytes\": %llu", (unsigned long long)info->inner_step_bytes);
	if (dag_ns) {
		printf(", ");
		json_limit("dag_time_ns", dag_ns);
	}
	if (explained) {
		printf(", \"explanation\": ");
		st = tarn_plan_explain(explained, true, stdout);
	}
	if (listed) {
		printf(", \"network\": ");
		st = tarn_plan_layers(listed, true, true, stdout);
	}
	printf("}\n");
	return st;
}

/* How far from the best the plan can be, at most. */
static void print_bounds(const struct tarn_plan_info *info)
{
	char bound[BYTES_TEXT];
	if (info->gap > 0)
		printf("  optimum     no plan within this budget takes less than %.3f ms a step: this one, %.3f ms, is "
		       "at "
		       "most %.2f %% slower\n",
		       (double)info->time_bound_ns * 1e-6, (double)info->step_ns * 1e-6, 100.0 * info->gap);
	else
		printf("  optimum     no plan within this budget is faster: %.3f ms a step, proved for the costs "
		       "given\n",
		       (double)info->step_ns * 1e-6);
	printf("              and no plan's peak is below %s\n",
	       bytes_format(info->peak_bound_bytes, bound, sizeof bound));
}

/* Parts of a batch, and what `auto` chose: that is not without effect on results. */
static void print_choices(const struct tarn_plan_info *info)
{
	char cap[BYTES_TEXT];
	if (info->microbatches > 1 || info->microbatches_chosen)
		printf("  parts       a batch is taken in %u part%s%s\n", info->microbatches,
		       info->microbatches == 1 ? "" : "s",
		       info->microbatches_chosen ? ", chosen by memory.microbatches: auto" : "");
	if (info->workspace_chosen)
		printf("  workspace   at most %s a library call, chosen by memory.workspace_cap: auto\n",
		       bytes_format(info->workspace_cap, cap, sizeof cap));
	if (info->microbatches_chosen || info->workspace_chosen)
		printf("              another budget may choose otherwise, and the last bits of results may then "
		       "change\n");
}

static void print_offload(const struct tarn_plan_info *info)
{
	char host[BYTES_TEXT], stored[BYTES_TEXT], fetched[BYTES_TEXT];
	printf("  offload     %-12s of host memory; a step stores %s and fetches %s\n",
	       bytes_format(info->host_bytes, host, sizeof host),
	       bytes_format(info->stored_bytes, stored, sizeof stored),
	       bytes_format(info->fetched_bytes, fetched, sizeof fetched));
}

void print_plan_summary(const struct tarn_session *session)
{
	struct tarn_plan_info info;
	char text[BYTES_TEXT], other[BYTES_TEXT], recomputed[256];
	tarn_plan_info(session, &info);
	printf("%s: %llu parameters, batches of %u samples of ", info.name, (unsigned long long)info.parameter_count,
	       info.batch);
	for (uint32_t d = 0; d < info.sample_rank; d++)
		printf("%s%u", d ? "x" : "", info.sample_dim[d]);
	for (uint32_t i = 1; i < info.shapes; i++)
		printf("%s%u", i == 1 ? ", some of size " : i + 1 < info.shapes ? ", " : " and ", info.shape[i]);
	printf(", %s driver, %u thread%s\n", info.driver, info.threads, info.threads == 1 ? "" : "s");
	if (info.budget_bytes == UINT64_MAX)
		printf("  budget      unlimited\n");
	else
		printf("  budget      %-12s (%llu bytes)\n", bytes_format(info.budget_bytes, text, sizeof text),
		       (unsigned long long)info.budget_bytes);
	if (info.device[0])
		printf("  device      %s\n", info.device);
	if (info.overhead_bytes)
		printf("  beside      %-12s for context, code and handles, %s kept for what is known after boot\n",
		       bytes_format(info.overhead_bytes, text, sizeof text),
		       bytes_format(info.reserve_bytes, other, sizeof other));
	printf("  arena       %-12s (%llu bytes), one reservation at boot\n",
	       bytes_format(info.arena_bytes, text, sizeof text), (unsigned long long)info.arena_bytes);
	printf("  peak        %-12s live at once; %s of it parameters, optimizer state and staging\n",
	       bytes_format(info.peak_bytes, text, sizeof text),
	       bytes_format(info.persistent_bytes, other, sizeof other));
	if (info.state_bytes)
		printf("  state       %-12s of the optimizer\n", bytes_format(info.state_bytes, text, sizeof text));
	printf("  keep-all    %-12s would be the peak without recomputing: this plan needs %.1f %%\n",
	       bytes_format(info.none_peak_bytes, text, sizeof text),
	       100.0 * (double)info.peak_bytes / (double)info.none_peak_bytes);
	if (info.inner_step_bytes)
		printf("  inner step  %-12s of each are kept in that, for the outer gradient\n",
		       bytes_format(info.inner_step_bytes, text, sizeof text));
	printf("  recompute   %s: %u extra op%s, %.1f %% more compute expected\n", info.strategy, info.recomputed_ops,
	       info.recomputed_ops == 1 ? "" : "s", 100.0 * info.overhead);
	print_choices(&info);
	if (info.host_bytes)
		print_offload(&info);
	if (info.costs[0])
		printf("              costs as measured in %s\n", info.costs);
	tarn_plan_recomputed(session, recomputed, sizeof recomputed);
	if (recomputed[0])
		printf("              %s\n", recomputed);
	if (info.fell_back)
		printf("              %s saves nothing here: the plan keeps everything; `auto` with a budget does "
		       "better\n",
		       info.strategy);
	print_bounds(&info);
	printf("  smallest    %-12s (%llu bytes) is the smallest budget that plans this way\n",
	       bytes_format(info.min_budget_bytes, text, sizeof text), (unsigned long long)info.min_budget_bytes);
}

static enum tarn_status write_files(struct tarn_session *session, const struct arguments *arguments, uint64_t *dag_ns)
{
	enum tarn_status st = TARN_OK;
	/* A plan file does not hold what the curve is planned from. */
	if ((arguments->explain || arguments->svg || arguments->html) && !arguments->options.plan_path)
		st = tarn_plan_curve(session);
	if (!st && arguments->output)
		st = tarn_plan_save(session, arguments->output);
	if (!st && arguments->svg)
		st = tarn_plan_draw(session, arguments->svg);
	if (!st && arguments->html)
		st = plan_page_write(session, arguments->html);
	if (!st && arguments->dump_dag)
		st = tarn_plan_dump_dag(session, arguments->dump_dag, dag_ns);
	return st;
}

static void print_dag_time(const struct tarn_plan_info *info, const char *path, uint64_t dag_ns)
{
	if (info->budget_bytes == UINT64_MAX)
		printf("%s: each op once takes %llu ns\n", path, (unsigned long long)dag_ns);
	else if (dag_ns == UINT64_MAX)
		printf("%s: `tarn dag` finds no schedule within %llu bytes\n", path,
		       (unsigned long long)info->budget_bytes);
	else
		printf("%s: `tarn dag %s --budget %llu` finds a schedule of %llu ns\n", path, path,
		       (unsigned long long)info->budget_bytes, (unsigned long long)dag_ns);
}

int command_plan(int argc, char **argv)
{
	struct arguments arguments;
	enum tarn_status st = arguments_parse(
		argc, argv, ARGUMENT_CONFIG | ARGUMENT_PLAN | ARGUMENT_OUTPUT | ARGUMENT_SHOW | ARGUMENT_DEVICE,
		&arguments);
	struct tarn_session *session = NULL;
	uint64_t dag_ns = 0;
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("plan");
		return 0;
	}
	arguments.options.plan_only = true;
	st = tarn_open(&arguments.options, &session);
	if (!st)
		st = write_files(session, &arguments, &dag_ns);
	if (st) {
		tarn_close(session);
		return command_fail(st);
	}
	struct tarn_plan_info info;
	tarn_plan_info(session, &info);
	if (arguments.print)
		tarn_plan_print(session, stdout);
	if (arguments.json)
		st = print_json(&info, dag_ns, arguments.explain ? session : NULL, arguments.summary ? session : NULL);
	else if (arguments.summary)
		st = tarn_plan_layers(session, true, false, stdout);
	if (!arguments.json)
		print_plan_summary(session);
	if (!arguments.json && arguments.explain)
		st = tarn_plan_explain(session, false, stdout);
	if (!arguments.json && arguments.dump_dag)
		print_dag_time(&info, arguments.dump_dag, dag_ns);
	tarn_close(session);
	return st ? command_fail(st) : 0;
}

int command_calibrate(int argc, char **argv)
{
	struct arguments arguments;
	struct tarn_session *session = NULL;
	struct tarn_plan_info info;
	struct tarn_calibration calibration;
	enum tarn_status st = arguments_parse(argc, argv, ARGUMENT_CONFIG | ARGUMENT_OUTPUT, &arguments);
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("calibrate");
		return 0;
	}
	if (!arguments.output)
		return command_fail(tarn_fail(TARN_EINVAL,
					      "calibrate: where to? Give -o FILE, and then device.costs=FILE "
					      "to plan with it"));
	/* It is there to be replaced; the estimates plan the run that is measured. */
	arguments.override[arguments.options.overrides++] = "device.costs=";
	st = tarn_open(&arguments.options, &session);
	if (!st)
		st = tarn_calibrate(session, arguments.output, &calibration);
	if (!st) {
		tarn_plan_info(session, &info);
		printf("%s: %u distinct ops measured (%s driver, %u threads); a step takes %.2f ms, %.2f ms were "
		       "estimated: %+.1f %%\n",
		       arguments.output, calibration.distinct_ops, info.driver, info.threads, calibration.measured_ms,
		       calibration.planned_ms, 100 * (calibration.planned_ms / calibration.measured_ms - 1));
	}
	tarn_close(session);
	return st ? command_fail(st) : 0;
}

int command_verify(int argc, char **argv)
{
	struct arguments arguments;
	enum tarn_status st = arguments_parse(argc, argv, ARGUMENT_POSITIONAL_PLAN, &arguments);
	struct tarn_session *session;
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("verify");
		return 0;
	}
	arguments.options.plan_only = true;
	st = tarn_open(&arguments.options, &session); /* loading verifies */
	if (st)
		return command_fail(st);
	struct tarn_plan_info info;
	tarn_plan_info(session, &info);
	if (arguments.json)
		print_json(&info, 0, NULL, NULL);
	else
		printf("%s: verified; arena %llu bytes, peak %llu bytes, checksum %016llx\n",
		       arguments.options.plan_path, (unsigned long long)info.arena_bytes,
		       (unsigned long long)info.peak_bytes, (unsigned long long)info.plan_checksum);
	tarn_close(session);
	return 0;
}
