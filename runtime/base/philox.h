/*
 * philox.h - random numbers as a pure function: Philox4x32-10.
 *
 * A draw depends on (key, counter) alone, so a recomputed dropout gives the mask of the first time without storing
 * it, whatever the order of execution or the number of threads.
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; constants of the paper's section 4.
 */
#ifndef TARN_BASE_PHILOX_H
#define TARN_BASE_PHILOX_H

#include <stdint.h>

struct philox_block {
	uint32_t word[4];
};

/*
 * The block number `index` (128 random bits: elements 4*index .. 4*index+3) of the stream (seed, stream, step).
 * seed is the run's, stream tells apart the users (one for each dropout layer, each parameter, shuffling ...),
 * step is the training step or epoch.
 */
static inline struct philox_block philox(uint64_t seed, uint32_t stream, uint32_t step, uint64_t index)
{
	uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = step, c3 = stream;
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
		uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c1 = (uint32_t)p1;
		c3 = (uint32_t)p0;
		c0 = n0;
		c2 = n2;
		k0 += 0x9E3779B9u;
		k1 += 0xBB67AE85u;
	}
	return (struct philox_block){ { c0, c1, c2, c3 } };
}

/* 24 random bits to a float in [0, 1). */
static inline float philox_float(uint32_t word)
{
	return (float)(word >> 8) * 0x1p-24f;
}

#endif
