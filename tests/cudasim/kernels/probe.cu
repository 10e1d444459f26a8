/*
 * probe.cu - kernels that the tests of the simulated device run: some right, each of the others with one fault planted.
 * probe.ptx is nvcc's text of it, without the names of files at its end:
 *   nvcc -ptx -arch=compute_80 -fmad=false -lineinfo -o - probe.cu | sed '/^\t\.file/,$d' >probe.ptx
 */
#include "probe_math.h"

#define KERNEL extern "C" __global__ void

struct arrays {
	const void *a, *b;
	void *out;
	int n;
};

static __device__ __forceinline__ int thread_index()
{
	return (int)(blockIdx.x * blockDim.x + threadIdx.x);
}

/* ---- Right ones ---- */

KERNEL probe_integers(struct arrays p)
{
	int i = thread_index();
	if (i < p.n)
		((unsigned long long *)p.out)[i] =
			probe_integer(((const unsigned *)p.a)[i], ((const unsigned *)p.b)[i]);
}

KERNEL probe_floats(struct arrays p)
{
	int i = thread_index();
	if (i < p.n)
		((float *)p.out)[i] = probe_float(((const float *)p.a)[i], ((const float *)p.b)[i]);
}

KERNEL probe_doubles(struct arrays p)
{
	int i = thread_index();
	if (i < p.n)
		((double *)p.out)[i] = probe_double(((const double *)p.a)[i], ((const double *)p.b)[i]);
}

KERNEL probe_divergent(struct arrays p)
{
	int i = thread_index();
	if (i < p.n)
		((float *)p.out)[i] = probe_switch(probe_collatz(((const unsigned *)p.a)[i]), ((const float *)p.b)[i]);
}

/* 16-bit elements: two threads share a word. */
KERNEL probe_shorts(struct arrays p)
{
	int i = thread_index();
	if (i < p.n)
		((unsigned short *)p.out)[i] =
			(unsigned short)(((const unsigned short *)p.a)[i] * 3 + ((const unsigned short *)p.b)[i]);
}

/* The sum of a block in a tree, then of the warps by shuffles; n is a multiple of 256. */
KERNEL probe_sum(struct arrays p)
{
	__shared__ float part[256];
	int t = (int)threadIdx.x;
	part[t] = ((const float *)p.a)[thread_index()];
	__syncthreads();
	for (int half = 128; half >= 32; half >>= 1) {
		if (t < half)
			part[t] += part[t + half];
		__syncthreads();
	}
	if (t < 32) {
		float sum = part[t];
		for (int offset = 16; offset; offset >>= 1)
			sum += __shfl_down_sync(~0u, sum, offset);
		if (t == 0)
			((float *)p.out)[blockIdx.x] = sum;
	}
}

/* Votes, integer reductions, scans by shuffle, integer atomics in device memory. */
KERNEL probe_warp(struct arrays p)
{
	int i = thread_index();
	unsigned x = ((const unsigned *)p.a)[i], lane = threadIdx.x & 31u, scan = x;
	for (unsigned offset = 1; offset < 32; offset <<= 1) {
		unsigned below = __shfl_up_sync(~0u, scan, offset);
		if (lane >= offset)
			scan += below;
	}
	unsigned odd = __ballot_sync(~0u, x & 1u), all = __all_sync(~0u, x < 1000u), any = __any_sync(~0u, x == 7u);
#if __CUDA_ARCH__ >= 800
	unsigned sum = __reduce_add_sync(~0u, x), most = __reduce_max_sync(~0u, x);
#else
	unsigned sum = x, most = x;
#endif
	unsigned swapped = __shfl_xor_sync(~0u, x, 5), first = __shfl_sync(~0u, x, 0, 8);
	((unsigned *)p.out)[i] = scan ^ odd ^ (all << 1) ^ (any << 2) ^ sum ^ (most << 3) ^ (swapped << 7) ^ first;
	atomicAdd((unsigned *)p.b, x);
	atomicMax((unsigned *)p.b + 1, x);
}

/* A tile transposed through dynamic shared memory in a block of 16 x 16. */
KERNEL probe_transpose(struct arrays p)
{
	extern __shared__ float tile[];
	unsigned x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
	tile[threadIdx.y * 17 + threadIdx.x] = ((const float *)p.a)[y * (unsigned)p.n + x];
	__syncthreads();
	x = blockIdx.y * 16 + threadIdx.x;
	y = blockIdx.x * 16 + threadIdx.y;
	((float *)p.out)[y * (unsigned)p.n + x] = tile[threadIdx.x * 17 + threadIdx.y];
}

/* A counter on the device, for graphs. */
KERNEL probe_count(struct arrays p)
{
	if (thread_index() == 0)
		*(int *)p.out += p.n;
}

/* ---- Each with one fault ---- */

KERNEL fault_missing_barrier(struct arrays p)
{
	__shared__ float part[256];
	int t = (int)threadIdx.x;
	part[t] = 0.0f;
	__syncthreads();
	part[t] = ((const float *)p.a)[t];
	((float *)p.out)[t] = part[255 - t];
}

KERNEL fault_divergent_barrier(struct arrays p)
{
	__shared__ float part[256];
	int t = (int)threadIdx.x;
	part[t] = ((const float *)p.a)[t];
	if (t & 1)
		__syncthreads();
	else
		asm volatile("bar.sync 0;" ::: "memory");
	((float *)p.out)[t] = part[t];
}

KERNEL fault_barrier_after_return(struct arrays p)
{
	if (thread_index() >= p.n)
		return;
	__syncthreads();
	((float *)p.out)[thread_index()] = 1.0f;
}

KERNEL fault_beyond(struct arrays p)
{
	((float *)p.out)[thread_index() + p.n] = 1.0f;
}

KERNEL fault_misaligned(struct arrays p)
{
	*(float *)((char *)p.out + 2 + 4 * thread_index()) = 1.0f;
}

KERNEL fault_same_place(struct arrays p)
{
	((int *)p.out)[thread_index() / 2] = thread_index();
}

KERNEL fault_unordered_blocks(struct arrays p)
{
	int i = thread_index();
	((int *)p.out)[i] = i;
	((int *)p.out)[p.n + i] = ((int *)p.out)[p.n - 1 - i];
}

KERNEL fault_absent_lane(struct arrays p)
{
	int t = (int)threadIdx.x;
	if (t >= 16)
		return;
	((int *)p.out)[t] = __shfl_xor_sync(~0u, t, 1);
}

KERNEL fault_endless(struct arrays p)
{
	volatile int *flag = (volatile int *)p.out;
	*flag = 0;
	while (*flag == 0)
		;
}

KERNEL fault_shared_never_written(struct arrays p)
{
	__shared__ float part[64];
	if (threadIdx.x < 32)
		part[threadIdx.x] = 1.0f;
	__syncthreads();
	((float *)p.out)[threadIdx.x] = part[threadIdx.x];
}
