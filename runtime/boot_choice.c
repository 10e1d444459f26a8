/* boot_choice.c - see boot_choice.h. */
#include "boot_choice.h"

#include "boot.h"

#define MEBIBYTE ((uint64_t)1 << 20)

static const uint64_t caps[] = {
	256 * MEBIBYTE, 64 * MEBIBYTE, 16 * MEBIBYTE, 4 * MEBIBYTE, MEBIBYTE, 0,
};

/* What planning one candidate said. */
struct trial {
	uint32_t parts;
	uint64_t cap;
	bool fits, recomputes;
	uint64_t time_ns;   /* of a training step; where it fits */
	uint64_t min_bytes; /* smallest budget; UINT64_MAX when no kernels do with the cap */
};

/* Plans with the candidate's values on a device that is closed again. */
static enum tarn_status try_candidate(const struct driver_ops *driver, const struct device_options *options,
				      const struct config *config, struct trial *trial)
{
	struct config candidate = *config;
	struct device_options own = *options;
	struct host_arena arena;
	struct plan plan = { 0 };
	struct plan_report report;
	host_arena_init(&arena);
	struct device device = { .ops = driver, .host = &arena };
	candidate.train.accumulate = trial->parts;
	candidate.memory.workspace_cap = own.workspace_cap = trial->cap;
	enum tarn_status st = driver->open(&device, &own);
	if (!st)
		st = boot_plan(&candidate, &device, &arena, &plan, &report);
	trial->fits = !st;
	trial->min_bytes = st == TARN_EUNSUPPORTED ? UINT64_MAX : plan.min_budget_bytes;
	if (!st) {
		trial->time_ns = plan.program[0].time_ns;
		trial->recomputes = report.recomputed_ops;
	}
	if (st == TARN_EBUDGET || (st == TARN_EUNSUPPORTED && config->memory.workspace_cap == BUDGET_AUTO)) {
		tarn_error_clear();
		st = TARN_OK;
	}
	driver->close(&device);
	host_arena_fini(&arena);
	return st;
}

static bool is_better(const struct trial *a, const struct trial *b)
{
	if (a->fits != b->fits)
		return a->fits;
	return a->fits ? a->time_ns < b->time_ns : a->min_bytes < b->min_bytes;
}

/* All numbers of parts with one cap. *enough: a plan recomputes nothing with the whole batch. */
static enum tarn_status try_parts(const struct driver_ops *driver, const struct device_options *options,
				  const struct config *config, uint64_t cap, struct trial *best, bool *enough)
{
	bool choose = config->memory.microbatches == MICROBATCHES_AUTO;
	uint32_t most = choose ? config->data.batch : 1;
	most = most < BOOT_MOST_PARTS ? most : BOOT_MOST_PARTS;
	for (uint32_t parts = 1; parts <= most; parts *= 2) {
		struct trial trial = { .parts = choose ? parts : config->train.accumulate, .cap = cap };
		enum tarn_status st = try_candidate(driver, options, config, &trial);
		if (st)
			return st;
		if (!best->parts || is_better(&trial, best))
			*best = trial;
		if (trial.fits && !trial.recomputes) {
			*enough = parts == 1;
			return TARN_OK;
		}
	}
	return TARN_OK;
}

/* Batch statistics refuse parts whatever the budget is, also where one part would have been chosen. */
static enum tarn_status check_two_parts(const struct driver_ops *driver, const struct device_options *options,
					const struct config *config, uint64_t cap)
{
	struct trial trial = { .parts = 2, .cap = cap };
	if (config->memory.microbatches != MICROBATCHES_AUTO || config->data.batch < 2)
		return TARN_OK;
	return try_candidate(driver, options, config, &trial);
}

enum tarn_status boot_choose(const struct driver_ops *driver, const struct device_options *options,
			     struct config *config)
{
	const bool choose_cap = config->memory.workspace_cap == BUDGET_AUTO;
	struct trial best = { 0 };
	bool enough = false;
	if (!choose_cap && config->memory.microbatches != MICROBATCHES_AUTO)
		return TARN_OK;
	if (config->memory.microbatches == MICROBATCHES_AUTO && config->train.accumulate > 1)
		return config_fail_place(config,
					 tarn_fail(TARN_EINVAL,
						   "train.accumulate is %u, but memory.microbatches is auto, which "
						   "chooses it; leave one of them out",
						   config->train.accumulate));
	const uint64_t first = choose_cap ? caps[0] : config->memory.workspace_cap;
	enum tarn_status st = check_two_parts(driver, options, config, first);
	for (size_t i = 0; i < (choose_cap ? sizeof caps / sizeof *caps : 1) && !st && !enough; i++)
		st = try_parts(driver, options, config, choose_cap ? caps[i] : first, &best, &enough);
	if (st)
		return st;
	config->train.accumulate = best.parts;
	config->memory.workspace_cap = best.cap;
	config->memory.workspace_chosen = choose_cap;
	return TARN_OK;
}
