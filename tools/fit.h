/*
 * fit.h - how large may a key be within a budget? Answered by planning alone.
 *
 * A value is tried by opening a session that only plans, with `key=value` after the user's own overrides. Values that
 * the configuration refuses (a depth that is not 6n + 2) are passed over for the nearest ones that it takes. The search
 * doubles the value until it does not fit, halves what lies between, and then tries a few more above: "fits" should be
 * monotone in the key, and where it is not on the values tried, the result says so. Which values are tried depends on
 * the question alone.
 */
#ifndef TARN_TOOLS_FIT_H
#define TARN_TOOLS_FIT_H

#include "command.h"

#define FIT_TRIALS 128u
#define FIT_LARGEST ((uint64_t)1 << 24) /* no larger value is tried */
#define FIT_SENTENCE 512

struct fit_trial {
	uint64_t value;
	bool fits;
	uint64_t min_budget_bytes;    /* the smallest budget with this value; 0: not known */
	uint64_t peak_bytes, step_ns; /* within the budget, where it fits */
	double overhead;              /* extra compute, as a part of it; the same */
};

/* What planning one configuration needs at least, and without a limit. */
struct fit_least {
	uint64_t min_budget_bytes, none_peak_bytes;
	struct tarn_plan_info smallest; /* with that smallest budget; its texts are not set */
	struct tarn_plan_info own;      /* with the configuration's budget; the same */
	bool own_fits;
	uint64_t budget_bytes; /* the configuration's; UINT64_MAX: none */
};

struct fit_search {
	struct fit_trial trial[FIT_TRIALS]; /* by value, ascending */
	uint32_t trials;
	int64_t best;               /* the largest that fits; -1: none does */
	bool limited;               /* FIT_LARGEST, or the largest value that the configuration takes, still fits */
	bool monotone;              /* none that fits is above one that does not */
	int64_t dip;                /* the first trial that needs less than a smaller value; -1: none */
	uint64_t budget_bytes;      /* of the trials that fit; 0: none does */
	char refused[FIT_SENTENCE]; /* why the last value that was refused was; "" */
};

/* The budget of the configuration, and the smallest one. */
enum tarn_status fit_least(const struct arguments *arguments, struct fit_least *out);

/* TARN_EINVAL when the configuration takes no value of the key that was tried. */
enum tarn_status fit_search(const struct arguments *arguments, const char *key, struct fit_search *out);

#endif
