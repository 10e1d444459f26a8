/* tarn_fit.c - `tarn fit`: the smallest budget, and the largest value of a key within one. */
#include "fit.h"

#include "base/atomic_file.h"
#include "base/bytes.h"
#include "base/status.h"
#include "plan/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct fit_answer {
	const char *key;
	struct fit_least least;
	struct fit_search search;
	bool searched; /* not without a budget: everything would fit */
};

/* ---- text ----------------------------------------------------------------------------------------------------- */

static void print_line(const char *what, uint64_t bytes, double overhead, uint64_t step_ns)
{
	char text[BYTES_TEXT];
	printf("  %-17s %-12s (%llu bytes)  %5.1f %% more compute, %.2f ms a step\n", what,
	       bytes_format(bytes, text, sizeof text), (unsigned long long)bytes, 100 * overhead,
	       (double)step_ns * 1e-6);
}

static void print_least(const struct fit_least *least)
{
	char text[BYTES_TEXT];
	print_line("smallest budget", least->min_budget_bytes, least->smallest.overhead, least->smallest.step_ns);
	if (!least->own_fits)
		printf("  memory.budget     is smaller: this run does not fit as it is\n");
	else if (least->budget_bytes != UINT64_MAX)
		print_line("memory.budget", least->budget_bytes, least->own.overhead, least->own.step_ns);
	printf("  keep everything   %-12s (%llu bytes)\n", bytes_format(least->none_peak_bytes, text, sizeof text),
	       (unsigned long long)least->none_peak_bytes);
}

static void print_trial(const struct fit_trial *trial, bool best)
{
	char needs[BYTES_TEXT], peak[BYTES_TEXT];
	printf("  %12llu  %-12s  ", (unsigned long long)trial->value,
	       bytes_format(trial->min_budget_bytes, needs, sizeof needs));
	if (trial->fits)
		printf("fits    %-12s %8.1f %%  %10.2f ms%s\n", bytes_format(trial->peak_bytes, peak, sizeof peak),
		       100 * trial->overhead, (double)trial->step_ns * 1e-6, best ? "   <- largest" : "");
	else
		printf("too large\n");
}

static void print_verdict(const struct fit_answer *answer)
{
	const struct fit_search *search = &answer->search;
	if (search->best < 0)
		printf("no value of %s fits: %llu, the smallest tried, does not\n", answer->key,
		       (unsigned long long)search->trial[0].value);
	else
		printf("the largest %s that fits is %llu\n", answer->key,
		       (unsigned long long)search->trial[search->best].value);
	if (search->limited && search->refused[0])
		printf("and no larger one that the configuration takes was found: %s\n", search->refused);
	else if (search->limited)
		printf("and larger ones were not tried\n");
	if (!search->monotone)
		printf("note: among the %u values tried one fits above one that does not: look at the table\n",
		       search->trials);
	else if (search->dip >= 0)
		printf("note: %llu needs less than a smaller one; on the %u values tried whether one fits is monotone "
		       "all "
		       "the same\n",
		       (unsigned long long)search->trial[search->dip].value, search->trials);
	else
		printf("on all %u values tried a larger one needs no less memory\n", search->trials);
}

static void print_answer(const struct fit_answer *answer)
{
	const struct fit_search *search = &answer->search;
	print_least(&answer->least);
	if (!answer->searched) {
		printf("without a limit everything fits: give memory.budget=SIZE to see the largest %s within it\n",
		       answer->key);
		return;
	}
	printf("\n  %12s  %-12s  %-7s %-12s %10s  %13s\n", answer->key, "needs at least", "", "peak", "more compute",
	       "a step");
	for (uint32_t i = 0; i < search->trials; i++)
		print_trial(&search->trial[i], i == search->best);
	printf("\n");
	print_verdict(answer);
}

/* ---- JSON ----------------------------------------------------------------------------------------------------- */

static void print_trial_json(const struct fit_trial *trial)
{
	printf("{\"value\": %llu, \"fits\": %s, \"min_budget_bytes\": %llu, ", (unsigned long long)trial->value,
	       trial->fits ? "true" : "false", (unsigned long long)trial->min_budget_bytes);
	json_limit("peak_bytes", trial->fits ? trial->peak_bytes : UINT64_MAX);
	printf(", ");
	json_number("overhead", trial->fits ? trial->overhead : NAN);
	printf(", ");
	json_number("planned_step_ms", trial->fits ? (double)trial->step_ns * 1e-6 : NAN);
	printf("}");
}

static void print_answer_json(const struct fit_answer *answer)
{
	const struct fit_least *least = &answer->least;
	const struct fit_search *search = &answer->search;
	printf("{\"min_budget_bytes\": %llu, ", (unsigned long long)least->min_budget_bytes);
	json_number("min_budget_overhead", least->smallest.overhead);
	printf(", \"none_peak_bytes\": %llu, \"fits\": %s, ", (unsigned long long)least->none_peak_bytes,
	       least->own_fits ? "true" : "false");
	json_limit("budget_bytes", least->budget_bytes);
	printf(", ");
	json_number("overhead", least->own_fits ? least->own.overhead : NAN);
	if (answer->searched) {
		printf(", ");
		json_text("key", answer->key);
		printf(", ");
		json_limit("largest", search->best < 0 ? UINT64_MAX : search->trial[search->best].value);
		printf(", \"limited\": %s, \"monotone\": %s, ", search->limited ? "true" : "false",
		       search->monotone ? "true" : "false");
		json_limit("dip", search->dip < 0 ? UINT64_MAX : search->trial[search->dip].value);
		printf(", \"tried\": [");
		for (uint32_t i = 0; i < search->trials; i++) {
			printf("%s", i ? ", " : "");
			print_trial_json(&search->trial[i]);
		}
		printf("]");
	}
	printf("}\n");
}

/* ---- picture -------------------------------------------------------------------------------------------------- */

static enum tarn_status draw_answer(const struct fit_answer *answer, const char *path)
{
	double value[FIT_TRIALS], needed[FIT_TRIALS], peak[FIT_TRIALS];
	const struct fit_search *search = &answer->search;
	char title[160], name[64], mark[64], text[BYTES_TEXT];
	struct atomic_file file;
	FILE *out;
	for (uint32_t i = 0; i < search->trials; i++) {
		value[i] = (double)search->trial[i].value;
		needed[i] = (double)search->trial[i].min_budget_bytes;
		peak[i] = search->trial[i].fits ? (double)search->trial[i].peak_bytes : NAN;
	}
	snprintf(title, sizeof title, "Memory over %s", answer->key);
	snprintf(name, sizeof name, "budget %s", bytes_format(search->budget_bytes, text, sizeof text));
	struct chart chart = { .title = title,
			       .x_name = answer->key,
			       .y_unit = CHART_BYTES,
			       .from_zero = true,
			       .limit = search->budget_bytes ? (double)search->budget_bytes : NAN,
			       .limit_name = name,
			       .count = 2 };
	chart.series[0] = (struct chart_series){
		.name = "least", .x = value, .y = needed, .points = search->trials, .dots = true
	};
	chart.series[1] = (struct chart_series){
		.name = "planned peak", .x = value, .y = peak, .points = search->trials, .colour = 2, .dots = true
	};
	if (search->best >= 0) {
		snprintf(mark, sizeof mark, "%llu", (unsigned long long)search->trial[search->best].value);
		chart.mark_name = mark;
		chart.mark_x = value[search->best];
		chart.mark_y = peak[search->best];
	}
	enum tarn_status st = atomic_file_open_stream(&file, path, &out);
	if (st)
		return st;
	chart_file(out, &chart);
	return atomic_file_close_stream(&file, out, TARN_OK);
}

/* ---- the command ---------------------------------------------------------------------------------------------- */

/* A run that does not fit has a budget, too: only without one there is nothing to look for. */
static enum tarn_status answer_question(const struct arguments *arguments, struct fit_answer *answer)
{
	enum tarn_status st = fit_least(arguments, &answer->least);
	if (st)
		return st;
	answer->searched = !answer->least.own_fits || answer->least.budget_bytes != UINT64_MAX;
	return answer->searched ? fit_search(arguments, answer->key, &answer->search) : TARN_OK;
}

int command_fit(int argc, char **argv)
{
	static struct fit_answer answer;
	struct arguments arguments;
	enum tarn_status st = arguments_parse(argc, argv, ARGUMENT_CONFIG | ARGUMENT_DEVICE | ARGUMENT_FIT, &arguments);
	if (st)
		return command_fail(st);
	if (arguments.help) {
		print_command_help("fit");
		return 0;
	}
	answer.key = arguments.vary ? arguments.vary : "data.batch";
	st = answer_question(&arguments, &answer);
	if (!st && arguments.svg && !answer.searched)
		st = tarn_fail(TARN_EINVAL, "fit: --svg draws what fits within a budget: give memory.budget=SIZE");
	if (!st && arguments.svg)
		st = draw_answer(&answer, arguments.svg);
	if (st)
		return command_fail(st);
	if (arguments.json)
		print_answer_json(&answer);
	else
		print_answer(&answer);
	return 0;
}
