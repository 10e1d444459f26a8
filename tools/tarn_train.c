/* tarn_train.c - `tarn train` and `tarn eval`: the loop around the library, and what it shows. */
#include "command.h"
#include "progress.h"
#include "run_folder.h"

#include "base/bytes.h"
#include "base/status.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The last step times; a ring, so that a long run needs no more memory than a short one. */
#define TIMES 4096

#define SYNTHETIC_NOTE "data.synthetic: the samples are made up; no result says anything about the real data"

struct run {
	struct tarn_session *session;
	struct tarn_plan_info info;
	struct tarn_metrics metrics;
	struct tarn_evaluation evaluation;
	double wall_ms[TIMES], cpu_ms[TIMES];
	double start_ms, boot_ms;
	double train_ms;         /* time in steps */
	uint64_t samples, steps; /* of this process */
	uint64_t skipped;        /* of these steps */
	/* since the last line */
	double line_loss, line_accuracy, line_ms;
	uint64_t line_samples, line_steps;
	struct run_folder folder; /* of `tarn train`; nothing is written by others */
	struct progress progress;
	bool json, quiet;
};

static volatile int interrupted;

static void note_interrupt(int signal_number)
{
	(void)signal_number;
	static const char note[] = "tarn: stopping after this step or evaluation; once more stops at once\n";
	if (interrupted)
		_exit(TARN_EINTERRUPTED); /* the last complete snapshot stays whole */
	interrupted = 1;
	ssize_t written = write(STDERR_FILENO, note, sizeof note - 1);
	(void)written; /* nothing can be done about it here */
}

static double now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Sorts in place: the order is not needed any more. */
static double median(double *value, uint64_t steps)
{
	size_t n = steps < TIMES ? (size_t)steps : TIMES;
	if (!n)
		return NAN;
	qsort(value, n, sizeof *value, compare_doubles);
	return (value[n / 2] + value[(n - 1) / 2]) / 2.0;
}

static uint64_t max_rss_bytes(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_maxrss * 1024;
}

static void account(struct run *run)
{
	const struct tarn_metrics *m = &run->metrics;
	run->wall_ms[run->steps % TIMES] = m->wall_ms;
	run->cpu_ms[run->steps % TIMES] = m->cpu_ms;
	run->steps++;
	run->samples += m->samples;
	run->train_ms += m->wall_ms;
	run->skipped += m->skipped;
	if (m->nonfinite)
		fprintf(stderr, "tarn: step %llu: %s%s\n", (unsigned long long)m->step, m->nonfinite,
			m->skipped ? "; the step is skipped" : "");
	if (m->skipped)
		return;
	run->line_ms += m->wall_ms;
	run->line_samples += m->samples;
	run->line_steps++;
	run->line_loss += m->loss * m->samples;
	run->line_accuracy += m->accuracy * m->samples;
}

static void print_line(const struct run *run, double samples, double rate, bool last_of_epoch)
{
	const struct tarn_metrics *m = &run->metrics;
	double step_ms = run->train_ms / (double)run->steps;
	const struct progress_line line = { .epoch = m->epoch,
					    .step = m->step,
					    .total_steps = run->info.total_steps,
					    .peak_bytes = run->info.peak_bytes,
					    .budget_bytes = run->info.budget_bytes,
					    .loss = run->line_loss / samples,
					    .accuracy = run->line_accuracy / samples,
					    .samples_per_s = rate,
					    .learning_rate = m->learning_rate,
					    .gradient_norm = m->gradient_norm,
					    .seconds_left =
						    step_ms * (double)(run->info.total_steps - m->step) * 1e-3 };
	progress_print(&run->progress, &line, last_of_epoch);
}

/* Means since the line before go to the terminal, to programs, and into the run's folder. */
static enum tarn_status print_progress(struct run *run, bool last_of_epoch)
{
	const struct tarn_metrics *m = &run->metrics;
	if (!run->line_samples) /* all steps since the line before were skipped */
		return TARN_OK;
	double samples = (double)run->line_samples, rate = samples / run->line_ms * 1e3;
	if (run->json && !run->quiet) {
		printf("{\"step\": %llu, \"epoch\": %u, ", (unsigned long long)m->step, m->epoch);
		json_number("loss", run->line_loss / samples);
		printf(", ");
		json_number("accuracy", run->line_accuracy / samples);
		printf(", ");
		json_number("learning_rate", m->learning_rate);
		printf(", ");
		json_number("gradient_norm", m->gradient_norm);
		printf(", ");
		json_number("loss_scale", m->loss_scale);
		printf(", \"skipped_steps\": %llu, ", (unsigned long long)m->skipped_steps);
		json_number("images_per_s", rate);
		printf("}\n");
	} else if (!run->quiet) {
		print_line(run, samples, rate, last_of_epoch);
	}
	fflush(stdout);
	const struct run_interval interval = { .step = m->step,
					       .epoch = m->epoch,
					       .epoch_end = m->epoch_end,
					       .loss = run->line_loss / samples,
					       .accuracy = run->line_accuracy / samples,
					       .learning_rate = m->learning_rate,
					       .gradient_norm = m->gradient_norm,
					       .samples_per_s = rate,
					       .step_ms = run->line_ms / (double)run->line_steps,
					       .planned_step_ms = (double)run->info.step_ns * 1e-6 };
	run->line_ms = run->line_loss = run->line_accuracy = 0.0;
	run->line_samples = run->line_steps = 0;
	return run_folder_interval(&run->folder, &interval);
}

/* "losses": {...}, as JSON; nothing without network.losses. */
static void print_parts(const struct tarn_loss *part, uint32_t parts, const char *key)
{
	for (uint32_t i = 0; i < parts; i++) {
		printf("%s\"%s\": {", i ? ", " : key, part[i].name);
		json_number("loss", part[i].loss);
		printf(", ");
		json_number("accuracy", part[i].accuracy);
		printf("}");
	}
	if (parts)
		printf("}, ");
}

static void print_parts_text(const struct tarn_loss *part, uint32_t parts)
{
	for (uint32_t i = 0; i < parts; i++) {
		printf("      %s: loss %.4f", part[i].name, part[i].loss);
		if (!isnan(part[i].accuracy))
			printf("  accuracy %.2f %%", 100.0 * part[i].accuracy);
		printf("\n");
	}
}

static enum tarn_status evaluate(struct run *run)
{
	run->evaluation.samples = 0;
	enum tarn_status st = tarn_evaluate(run->session, &run->evaluation);
	if (!st)
		st = run_folder_evaluation(&run->folder, run->metrics.step, run->metrics.epoch, &run->evaluation);
	const struct tarn_evaluation *e = &run->evaluation;
	const char *made = run->info.synthetic ? " made-up" : "";
	if (st || !e->samples || run->json || run->quiet)
		return st;
	if (isnan(e->accuracy))
		printf("test  loss %.4f on %u%s samples\n", e->loss, e->samples, made);
	else
		printf("test  loss %.4f  accuracy %.2f %% on %u%s samples\n", e->loss, 100.0 * e->accuracy, e->samples,
		       made);
	print_parts_text(e->part, e->parts);
	fflush(stdout);
	return TARN_OK;
}

static bool due(uint32_t every, const struct tarn_metrics *m)
{
	return every && m->epoch_end && (m->epoch + 1) % every == 0;
}

/* After every log_every steps, and at the end of an epoch. */
static bool line_due(const struct run *run)
{
	uint32_t every = run->info.log_every;
	return run->metrics.epoch_end || (every && run->metrics.step % every == 0);
}

static enum tarn_status save(struct run *run)
{
	return run->info.snapshot[0] ? tarn_save(run->session, NULL) : TARN_OK;
}

static enum tarn_status keep_result(struct run *run)
{
	bool tested = run->evaluation.samples;
	const struct run_result result = { .steps = run->metrics.step,
					   .samples = run->samples,
					   .loss = run->metrics.loss,
					   .test_loss = tested ? run->evaluation.loss : NAN,
					   .test_accuracy = tested ? run->evaluation.accuracy : NAN,
					   .step_ms = median(run->wall_ms, run->steps),
					   .step_cpu_ms = median(run->cpu_ms, run->steps),
					   .samples_per_s = (double)run->samples / run->train_ms * 1e3,
					   .seconds = (now_ms() - run->start_ms) * 1e-3,
					   .touched_bytes = tarn_arena_touched_bytes(run->session),
					   .process_bytes = max_rss_bytes() };
	return run_folder_result(&run->folder, &run->info, &result);
}

static enum tarn_status train(struct run *run)
{
	enum tarn_status st = TARN_OK;
	bool evaluated = false;
	while (!st && !interrupted) {
		st = tarn_step(run->session, &run->metrics);
		if (st || !run->metrics.samples)
			break;
		evaluated = false;
		account(run);
		bool stop = run->metrics.finished || interrupted;
		if (line_due(run) || stop)
			st = print_progress(run, run->metrics.epoch_end || stop);
		if (!st && due(run->info.evaluate_every, &run->metrics)) {
			st = evaluate(run);
			evaluated = true;
		}
		if (!st && due(run->info.snapshot_every, &run->metrics) && !run->metrics.finished)
			st = save(run);
		if (run->metrics.finished)
			break;
	}
	if (!st && !evaluated && !interrupted)
		st = evaluate(run);
	if (st == TARN_EINTERRUPTED) { /* the weights are those of the last step all the same */
		fprintf(stderr, "tarn: the evaluation was broken off\n");
		st = TARN_OK;
	}
	if (!st && run->steps)
		st = save(run);
	return !st && run->steps ? keep_result(run) : st;
}

static void print_ledger_json(const struct run *run)
{
	struct tarn_ledger ledger;
	tarn_device_ledger(run->session, &ledger);
	if (!ledger.lines)
		return;
	printf("\"ledger\": {");
	for (uint32_t i = 0; i < ledger.lines; i++)
		printf("\"%s\": %llu, ", ledger.line[i].name, (unsigned long long)ledger.line[i].bytes);
	printf("\"rounding\": %llu, \"total\": %llu}, \"recorded\": %s, ", (unsigned long long)ledger.rounding_bytes,
	       (unsigned long long)ledger.total_bytes, ledger.recorded ? "true" : "false");
}

static enum tarn_status print_result_json(struct run *run)
{
	uint64_t hash;
	enum tarn_status st = tarn_weights_hash(run->session, &hash);
	if (st)
		return st;
	const struct tarn_plan_info *info = &run->info;
	printf("{\"steps\": %llu, \"skipped_steps\": %llu, ", (unsigned long long)run->metrics.step,
	       (unsigned long long)run->skipped);
	json_number("loss", run->steps ? run->metrics.loss : NAN);
	printf(", ");
	json_number("test_accuracy", run->evaluation.samples ? run->evaluation.accuracy : NAN);
	printf(", ");
	json_number("test_loss", run->evaluation.samples ? run->evaluation.loss : NAN);
	printf(", \"peak_bytes\": %llu, \"transient_peak_bytes\": %llu, \"arena_bytes\": %llu, "
	       "\"arena_touched_bytes\": %llu, \"max_rss_bytes\": %llu, ",
	       (unsigned long long)info->peak_bytes, (unsigned long long)info->transient_peak_bytes,
	       (unsigned long long)info->arena_bytes, (unsigned long long)tarn_arena_touched_bytes(run->session),
	       (unsigned long long)max_rss_bytes());
	json_limit("budget_bytes", info->budget_bytes);
	printf(", ");
	json_number("step_ms_median", median(run->wall_ms, run->steps));
	printf(", ");
	json_number("step_cpu_ms_median", median(run->cpu_ms, run->steps));
	printf(", ");
	json_number("planned_step_ms", (double)info->step_ns * 1e-6);
	printf(", ");
	json_number("boot_ms", run->boot_ms);
	printf(", \"threads\": %u, ", info->threads);
	print_ledger_json(run);
	print_parts(run->metrics.part, run->steps ? run->metrics.parts : 0, "\"losses\": {");
	print_parts(run->evaluation.part, run->evaluation.samples ? run->evaluation.parts : 0, "\"test_losses\": {");
	printf("\"synthetic_data\": %s, ", info->synthetic ? "true" : "false");
	json_number("images_per_s", run->steps ? (double)run->samples / run->train_ms * 1e3 : NAN);
	printf(", \"plan_checksum\": \"%016llx\", \"weights_hash\": \"%016llx\"}\n",
	       (unsigned long long)info->plan_checksum, (unsigned long long)hash);
	return TARN_OK;
}

static void print_result(struct run *run)
{
	const struct tarn_plan_info *info = &run->info;
	char touched[BYTES_TEXT], arena[BYTES_TEXT], rss[BYTES_TEXT], total[32];
	double measured = median(run->wall_ms, run->steps), planned = (double)info->step_ns * 1e-6;
	double busy = median(run->cpu_ms, run->steps) / info->threads;
	progress_duration((now_ms() - run->start_ms) * 1e-3, total, sizeof total);
	if (!run->steps) {
		printf("nothing to do: the snapshot is at step %llu and the run ends at step %llu; raise train.epochs "
		       "or "
		       "train.max_steps\n",
		       (unsigned long long)info->resumed_steps, (unsigned long long)info->total_steps);
		return;
	}
	if (run->metrics.parts)
		printf("last step\n");
	print_parts_text(run->metrics.part, run->metrics.parts);
	printf("done in %s: %llu steps", total, (unsigned long long)run->steps);
	if (info->resumed_steps)
		printf(" (%llu with those before)", (unsigned long long)run->metrics.step);
	printf(", %.0f images/s\n", (double)run->samples / run->train_ms * 1e3);
	if (run->skipped)
		printf("  skipped     %llu steps whose loss or gradient was not finite\n",
		       (unsigned long long)run->skipped);
	printf("  step        %.2f ms measured (median; %.2f ms of CPU a thread), %.2f ms planned: %.2f times the "
	       "plan%s\n",
	       measured, busy, planned, measured / planned,
	       measured > 2.0 * planned ? " (a busy machine? small networks are often faster with train.threads=1)"
					: "");
	printf("  memory      %s of the arena's %s written; whole process %s\n",
	       bytes_format(tarn_arena_touched_bytes(run->session), touched, sizeof touched),
	       bytes_format(info->arena_bytes, arena, sizeof arena), bytes_format(max_rss_bytes(), rss, sizeof rss));
	if (info->synthetic)
		printf("  data        " SYNTHETIC_NOTE "\n");
	if (info->snapshot[0])
		printf("  snapshot    %s\n", info->snapshot);
	else
		printf("  snapshot    none: %s\n", strcmp(info->driver, "null")
							   ? "train.snapshot is not set"
							   : "the null driver computes no weights");
}

static void print_ledger(const struct run *run)
{
	struct tarn_ledger ledger;
	char text[BYTES_TEXT];
	tarn_device_ledger(run->session, &ledger);
	for (uint32_t i = 0; i < ledger.lines; i++)
		printf("  %-11s %-19s %s\n", i ? "" : "on device", ledger.line[i].name,
		       bytes_format(ledger.line[i].bytes, text, sizeof text));
	if (ledger.lines)
		printf("              %-19s %s, and %llu bytes by which the arena was rounded up\n", "together",
		       bytes_format(ledger.total_bytes, text, sizeof text), (unsigned long long)ledger.rounding_bytes);
	if (ledger.unrecorded[0])
		printf("  steps       are launched op by op: %s\n", ledger.unrecorded);
}

/* Where the run starts, and what it will replace. */
static void print_start(const struct run *run, const struct arguments *arguments)
{
	tarn_plan_layers(run->session, arguments->verbose, false, stdout);
	print_plan_summary(run->session);
	if (arguments->verbose)
		tarn_plan_explain(run->session, false, stdout);
	print_ledger(run);
	if (run->info.resumed_steps)
		printf("resumed at step %llu of %llu from %s\n", (unsigned long long)run->info.resumed_steps,
		       (unsigned long long)run->info.total_steps, arguments->options.resume_path);
	else if (run->info.snapshot[0] && !access(run->info.snapshot, F_OK))
		printf("note: %s is there and will be replaced; the one there now is kept as %s.previous\n",
		       run->info.snapshot, run->info.snapshot);
	fflush(stdout);
}

static void catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = note_interrupt };
	sigemptyset(&action.sa_mask);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	/* A reader that goes away must not end the run: the lines are lost, the snapshot is not, and the exit code says
	 * so. */
	signal(SIGPIPE, SIG_IGN);
}

static enum tarn_status open_run(struct run *run, struct arguments *arguments)
{
	static char output[1 << 16];
	setvbuf(stdout, output, _IOFBF, sizeof output); /* before boot, so that printing never allocates */
	run->json = arguments->json;
	run->quiet = arguments->quiet;
	run->progress = progress_on_stdout();
	run->start_ms = now_ms();
	arguments->options.stop = &interrupted;
	enum tarn_status st = tarn_open(&arguments->options, &run->session);
	if (st)
		return st;
	/* Only now: during boot there is nothing to save, and a signal ends the process at once. */
	catch_interrupts();
	run->boot_ms = now_ms() - run->start_ms;
	tarn_plan_info(run->session, &run->info);
	if (run->info.synthetic)
		fprintf(stderr, "tarn: " SYNTHETIC_NOTE "\n");
	return TARN_OK;
}

int command_train(int argc, char **argv)
{
	static struct run run;
	struct arguments arguments;
	enum tarn_status st = arguments_parse(argc, argv, ARGUMENT_CONFIG | ARGUMENT_PLAN | ARGUMENT_RUN, &arguments);
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("train");
		return 0;
	}
	st = open_run(&run, &arguments);
	if (!st)
		st = run_folder_open(&run.folder, run.session, &run.info, arguments.options.config_path);
	if (st)
		return command_fail(st);
	if (!run.json && !run.quiet)
		print_start(&run, &arguments);
	st = train(&run);
	if (!st && run.json)
		st = print_result_json(&run);
	else if (!st)
		print_result(&run);
	fflush(stdout);
	if (st)
		command_fail(st);
	if (!st && interrupted && !run.metrics.finished) {
		fprintf(stderr, "tarn: stopped after step %llu%s%s\n", (unsigned long long)run.metrics.step,
			run.info.snapshot[0] ? "; go on with --resume "
					     : "; nothing was saved: train.snapshot is not set",
			run.info.snapshot);
		st = TARN_EINTERRUPTED;
	}
	run_folder_close(&run.folder);
	tarn_close(run.session);
	return (int)st;
}

int command_eval(int argc, char **argv)
{
	static struct run run;
	struct arguments arguments;
	enum tarn_status st =
		arguments_parse(argc, argv, ARGUMENT_CONFIG | ARGUMENT_PLAN | ARGUMENT_WEIGHTS, &arguments);
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("eval");
		return 0;
	}
	if (!arguments.options.resume_path) {
		fprintf(stderr, "tarn: eval: which weights? Give --weights SNAPSHOT\n");
		return TARN_EINVAL;
	}
	arguments_write_nothing(&arguments);
	arguments.options.weights_only = true;
	st = open_run(&run, &arguments);
	if (!st)
		st = evaluate(&run);
	if (!st && !run.evaluation.samples)
		st = tarn_fail(TARN_EINVAL,
			       "eval: the configuration has no test set; see data.test_inputs or data.test_samples");
	if (!st && run.json)
		st = print_result_json(&run);
	tarn_close(run.session);
	return st ? command_fail(st) : 0;
}
