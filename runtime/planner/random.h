/*
 * random.h - variety for the planner's searches: xorshift64* (Vigna 2016). Deterministic, the state is the caller's.
 */
#ifndef TARN_PLANNER_RANDOM_H
#define TARN_PLANNER_RANDOM_H

#include <stdint.h>

/* A state that is never zero. */
static inline uint64_t random_start(uint64_t seed)
{
	return (seed + 1) * 0x9E3779B97F4A7C15u | 1;
}

/* In [0, below); 0 when below is 0. */
static inline uint32_t random_below(uint64_t *state, uint32_t below)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (uint32_t)((*state * 0x2545F4914F6CDD1Du >> 32) * below >> 32);
}

#endif
