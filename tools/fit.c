/* fit.c - see fit.h. */
#include "fit.h"

#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The configuration takes at least one of so many neighbours: 6n + 2, multiples of heads, depths 101 and 152. */
#define NEIGHBOURS 64u
/* So many values above the smallest that does not fit are tried too. */
#define ABOVE 3u

struct search {
	const struct arguments *arguments;
	const char *key;
	struct fit_search *out;
};

/* Plans with "more" overrides behind the user's; *info is filled on success, without its texts. */
static enum tarn_status plan_with(const struct arguments *arguments, const char *const *more, uint32_t mores,
				  struct tarn_plan_info *info)
{
	const char *override[MAX_OVERRIDES + COMMAND_OVERRIDES];
	struct tarn_options options = arguments->options;
	struct tarn_session *session;
	memcpy(override, arguments->override, options.overrides * sizeof *override);
	for (uint32_t i = 0; i < mores; i++)
		override[options.overrides++] = more[i];
	options.override = override;
	options.plan_only = true;
	enum tarn_status st = tarn_open(&options, &session);
	if (st)
		return st;
	tarn_plan_info(session, info);
	tarn_close(session);
	info->strategy = info->driver = info->name = info->snapshot = info->costs = info->device = "";
	return TARN_OK;
}

/* The planner has shown, or could not refute, that it does not fit. */
static bool is_misfit(enum tarn_status st)
{
	return st == TARN_EBUDGET || st == TARN_EUNKNOWN;
}

static bool is_refusal(enum tarn_status st)
{
	return st == TARN_EINVAL || st == TARN_EDATA;
}

enum tarn_status fit_least(const struct arguments *arguments, struct fit_least *out)
{
	char budget[64];
	const char *unlimited = "memory.budget=unlimited", *smallest = budget;
	struct tarn_plan_info info;
	*out = (struct fit_least){ .budget_bytes = UINT64_MAX };
	enum tarn_status st = plan_with(arguments, NULL, 0, &out->own);
	out->own_fits = !st;
	if (st && !is_misfit(st))
		return st;
	if (!st)
		out->budget_bytes = out->own.budget_bytes;
	tarn_error_clear();
	st = plan_with(arguments, &unlimited, 1, &info);
	if (st)
		return st;
	out->min_budget_bytes = info.min_budget_bytes;
	out->none_peak_bytes = info.none_peak_bytes + info.overhead_bytes + info.reserve_bytes;
	snprintf(budget, sizeof budget, "memory.budget=%lluB", (unsigned long long)out->min_budget_bytes);
	return plan_with(arguments, &smallest, 1, &out->smallest);
}

static struct fit_trial *find_trial(struct fit_search *out, uint64_t value)
{
	for (uint32_t i = 0; i < out->trials; i++)
		if (out->trial[i].value == value)
			return &out->trial[i];
	return NULL;
}

/* Keeps the trials in the order of their values. */
static struct fit_trial *insert_trial(struct fit_search *out, struct fit_trial trial)
{
	uint32_t at = out->trials++;
	for (; at && out->trial[at - 1].value > trial.value; at--)
		out->trial[at] = out->trial[at - 1];
	out->trial[at] = trial;
	return &out->trial[at];
}

/* Plans with one value. *trial is NULL when the configuration does not take it, or there is no room for more. */
static enum tarn_status try_value(struct search *s, uint64_t value, struct fit_trial **trial)
{
	char text[256];
	const char *more[2] = { text, "memory.budget=unlimited" };
	struct tarn_plan_info info;
	struct fit_trial made = { .value = value };
	*trial = find_trial(s->out, value);
	if (*trial || s->out->trials == FIT_TRIALS)
		return TARN_OK;
	snprintf(text, sizeof text, "%s=%llu", s->key, (unsigned long long)value);
	enum tarn_status st = plan_with(s->arguments, more, 1, &info);
	if (is_refusal(st)) {
		snprintf(s->out->refused, sizeof s->out->refused, "%s", tarn_error());
		tarn_error_clear();
		return TARN_OK;
	}
	made.fits = !st;
	if (made.fits) {
		s->out->budget_bytes = info.budget_bytes;
		made.peak_bytes = info.peak_bytes;
		made.overhead = info.overhead;
		made.step_ns = info.step_ns;
	} else if (is_misfit(st)) {
		tarn_error_clear();
		st = plan_with(s->arguments, more, 2, &info);
	}
	if (st)
		return st;
	made.min_budget_bytes = info.min_budget_bytes;
	*trial = insert_trial(s->out, made);
	return TARN_OK;
}

/* The first value of first, first + step ... before `end` that the configuration takes. */
static enum tarn_status try_near(struct search *s, uint64_t first, uint64_t end, int step, struct fit_trial *found,
				 bool *taken)
{
	uint64_t value = first;
	*taken = false;
	for (uint32_t i = 0; i < NEIGHBOURS && value != end; i++) {
		struct fit_trial *trial;
		enum tarn_status st = try_value(s, value, &trial);
		if (st)
			return st;
		if (trial) {
			*found = *trial;
			*taken = true;
			return TARN_OK;
		}
		value = step > 0 ? value + 1 : value - 1;
	}
	return TARN_OK;
}

/*
 * Doubles until a value does not fit: *low fits (0: none does), *high does not (0: none was found). Values end where
 * two doublings after one that was taken find none.
 */
static enum tarn_status double_up(struct search *s, uint64_t *low, uint64_t *high)
{
	uint32_t empty = 0;
	*low = *high = 0;
	for (uint64_t value = 1; value <= FIT_LARGEST && !*high && !(s->out->trials && empty == 2);) {
		struct fit_trial found;
		bool taken;
		enum tarn_status st = try_near(s, value, 2 * value, 1, &found, &taken);
		if (st)
			return st;
		empty = taken ? 0 : empty + 1;
		if (taken && found.fits)
			*low = found.value;
		else if (taken)
			*high = found.value;
		value = 2 * (taken ? found.value : value);
	}
	return TARN_OK;
}

static enum tarn_status halve(struct search *s, uint64_t *low, uint64_t *high)
{
	while (*high - *low > 1 && s->out->trials < FIT_TRIALS) {
		struct fit_trial found;
		uint64_t middle = *low + (*high - *low) / 2;
		bool taken;
		enum tarn_status st = try_near(s, middle, *low, -1, &found, &taken);
		if (!st && !taken)
			st = try_near(s, middle + 1, *high, 1, &found, &taken);
		if (st)
			return st;
		if (!taken)
			return TARN_OK; /* nothing in between */
		*(found.fits ? low : high) = found.value;
	}
	return TARN_OK;
}

static enum tarn_status try_above(struct search *s, uint64_t high)
{
	for (uint32_t i = 0; i < ABOVE && high < FIT_LARGEST; i++) {
		struct fit_trial found;
		bool taken;
		enum tarn_status st = try_near(s, high + 1, 2 * high + 1, 1, &found, &taken);
		if (st || !taken)
			return st;
		high = found.value;
	}
	return TARN_OK;
}

/* The largest that fits; and whether all that fits is below all that does not, and needs grow with the value. */
static void conclude(struct fit_search *out)
{
	bool misfit = false;
	uint64_t needed = 0;
	out->best = out->dip = -1;
	out->monotone = true;
	for (uint32_t i = 0; i < out->trials; i++) {
		const struct fit_trial *trial = &out->trial[i];
		if (trial->fits)
			out->best = i;
		if (trial->fits && misfit)
			out->monotone = false;
		if (out->dip < 0 && trial->min_budget_bytes < needed)
			out->dip = i;
		misfit = misfit || !trial->fits;
		needed = trial->min_budget_bytes > needed ? trial->min_budget_bytes : needed;
	}
}

enum tarn_status fit_search(const struct arguments *arguments, const char *key, struct fit_search *out)
{
	struct search s = { .arguments = arguments, .key = key, .out = out };
	uint64_t low, high;
	memset(out, 0, sizeof *out);
	enum tarn_status st = double_up(&s, &low, &high);
	out->limited = !st && low && !high;
	if (!st && high)
		st = halve(&s, &low, &high);
	if (!st && high)
		st = try_above(&s, high);
	if (st)
		return st;
	if (!out->trials)
		return tarn_fail(TARN_EINVAL, "%s: none of the values tried, from 1 to %llu, is taken: %s", key,
				 (unsigned long long)FIT_LARGEST, out->refused);
	conclude(out);
	return TARN_OK;
}
