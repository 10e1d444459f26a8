/*
 * cuda_ledger.c - where the device's memory goes, measured stage by stage with cuMemGetInfo.
 *
 * cuMemGetInfo counts the whole device: what other processes take or give back while this one boots goes to the stage
 * that is being measured, and what they held before goes to the context. It is the only figure that sees memory which
 * the driver takes by itself.
 */
#include "cuda/cuda_driver.h"

#include <stdio.h>

static const char *const stage_name[LEDGER_STAGES] = {
	[LEDGER_CONTEXT] = "context",         [LEDGER_STREAMS] = "streams and limits", [LEDGER_MODULE] = "own kernels",
	[LEDGER_HANDLES] = "library handles", [LEDGER_OPERATIONS] = "operations",      [LEDGER_ARENA] = "arena",
	[LEDGER_WARM_UP] = "warm-up",         [LEDGER_GRAPHS] = "recorded steps",
};

enum tarn_status ledger_measure(struct cuda_state *state, enum ledger_stage stage)
{
	size_t free_bytes, total;
	enum tarn_status st = CU(state, cuMemGetInfo, &free_bytes, &total);
	if (st)
		return st;
	uint64_t before = stage == LEDGER_CONTEXT ? total : state->ledger.free_bytes;
	if (before > free_bytes)
		state->ledger.bytes[stage] += before - free_bytes;
	state->ledger.free_bytes = free_bytes;
	return TARN_OK;
}

static uint64_t sum_before_arena(const struct ledger *ledger)
{
	uint64_t sum = 0;
	for (int stage = 0; stage < LEDGER_ARENA; stage++)
		sum += ledger->bytes[stage];
	return sum;
}

/* What the arena takes beyond its own size. */
static uint64_t rounding_of(const struct cuda_state *state)
{
	uint64_t taken = state->ledger.bytes[LEDGER_ARENA];
	return taken > state->arena_bytes ? taken - state->arena_bytes : 0;
}

static uint64_t sum_of(const struct cuda_state *state)
{
	const struct ledger *ledger = &state->ledger;
	return sum_before_arena(ledger) + ledger->bytes[LEDGER_ARENA] + ledger->bytes[LEDGER_WARM_UP] +
	       ledger->bytes[LEDGER_GRAPHS] - rounding_of(state);
}

enum tarn_status cuda_overhead(struct device *device, struct device_overhead *overhead)
{
	struct cuda_state *state = device->state;
	*overhead = (struct device_overhead){ .bytes = state->description.overhead_bytes,
					      .reserve = state->reserve_bytes,
					      .free_bytes = UINT64_MAX };
	if (state->described) {
		uint64_t total = state->description.memory_bytes;
		overhead->free_bytes = total > overhead->bytes ? total - overhead->bytes : 0;
		return TARN_OK;
	}
	enum tarn_status st = ledger_measure(state, LEDGER_OPERATIONS);
	overhead->bytes = sum_before_arena(&state->ledger);
	overhead->free_bytes = state->ledger.free_bytes;
	return st;
}

enum tarn_status cuda_freeze(struct device *device, uint64_t budget)
{
	struct cuda_state *state = device->state;
	struct ledger *ledger = &state->ledger;
	char list[512], number[BYTES_TEXT];
	size_t used = 0;
	enum tarn_status st = CU(state, cuCtxSynchronize);
	if (!st)
		st = ledger_measure(state, state->replays ? LEDGER_GRAPHS : LEDGER_WARM_UP);
	if (st)
		return st;
	ledger->frozen = true;
	watch_freeze(state, true);
	ledger->frozen_free_bytes = ledger->free_bytes;
#ifdef CONFIG_DEBUG_CHECKS
	nvml_open(state);
	if (!nvml_own_bytes(state, &ledger->frozen_own_bytes))
		ledger->frozen_own_bytes = 0;
#endif
	uint64_t sum = sum_of(state);
	if (sum <= budget)
		return TARN_OK;
	for (int stage = 0; stage < LEDGER_STAGES && used < sizeof list; stage++)
		used += (size_t)snprintf(list + used, sizeof list - used, "%s%s %s", stage ? ", " : "",
					 stage_name[stage], bytes_format(ledger->bytes[stage], number, sizeof number));
	return tarn_fail(
		TARN_EBUDGET,
		"memory.budget: %llu bytes are too few on this device: %s, of which %llu bytes are rounding of "
		"the arena; warm-up and recorded steps took more than device.reserve, %llu bytes: give "
		"device.reserve: %llu B, with which the smallest budget that works is %llu bytes",
		(unsigned long long)budget, list, (unsigned long long)rounding_of(state),
		(unsigned long long)state->reserve_bytes,
		(unsigned long long)(ledger->bytes[LEDGER_WARM_UP] + ledger->bytes[LEDGER_GRAPHS]),
		(unsigned long long)sum);
}

void cuda_ledger(const struct device *device, struct device_ledger *out)
{
	const struct cuda_state *state = device->state;
	*out = (struct device_ledger){ .lines = LEDGER_STAGES,
				       .rounding_bytes = rounding_of(state),
				       .total_bytes = sum_of(state) };
	for (int stage = 0; stage < LEDGER_STAGES; stage++) {
		out->line[stage].name = stage_name[stage];
		out->line[stage].bytes = state->ledger.bytes[stage];
	}
}

/* The device's free memory has changed: was it this process? */
static enum tarn_status check_own(struct cuda_state *state, uint64_t free_bytes)
{
	struct ledger *ledger = &state->ledger;
	uint64_t own;
	if (!ledger->frozen_own_bytes || !nvml_own_bytes(state, &own))
		return tarn_fail(
			TARN_EINTERNAL,
			"cuda: the device had %llu bytes free after boot and has %llu now; either this process "
			"allocated in a step or another one uses the device, and without NVML nothing tells which",
			(unsigned long long)ledger->frozen_free_bytes, (unsigned long long)free_bytes);
	if (own != ledger->frozen_own_bytes)
		return tarn_fail(TARN_EINTERNAL,
				 "cuda: this process had %llu bytes of the device after boot and has %llu now: it "
				 "allocated or freed in a step",
				 (unsigned long long)ledger->frozen_own_bytes, (unsigned long long)own);
	ledger->shared = true;
	return TARN_OK;
}

enum tarn_status ledger_check(struct cuda_state *state)
{
	size_t free_bytes, total;
	if (!state->ledger.frozen)
		return TARN_OK;
	enum tarn_status st = CU(state, cuMemGetInfo, &free_bytes, &total);
	if (st || (free_bytes == state->ledger.frozen_free_bytes && !state->ledger.shared))
		return st;
	return check_own(state, free_bytes);
}
