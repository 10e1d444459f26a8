/*
 * random.h - Philox4x32-10 on the device: the words of base/philox.h, bit for bit.
 *
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
 */
#ifndef TARN_CUDA_RANDOM_H
#define TARN_CUDA_RANDOM_H

#include "device.h"

struct random_words {
	uint32_t word[4];
};

DEVICE random_words philox(uint64_t seed, uint32_t stream, uint32_t step, uint64_t index)
{
	uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = step, c3 = stream;
	uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
#pragma unroll
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
	return { { c0, c1, c2, c3 } };
}

/* 24 random bits to a float in [0, 1). */
DEVICE float philox_float(uint32_t word)
{
	return (float)(word >> 8) * 0x1p-24f;
}

#endif
