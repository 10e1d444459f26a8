/*
 * library_cublaslt.c - matrix products by cuBLASLt, with an algorithm and a workspace of our own.
 *
 * cuBLASLt's matrices are stored by columns. A matrix stored by rows is its transpose stored by columns, so
 * c = a b (M x N) is computed as c' = b' a' (N x M): b comes first.
 *
 * The algorithm is asked for once for each product of an op's signature, before planning, and kept: what runs depends
 * on shapes, tf32 and memory.workspace_cap alone; where cuBLASLt has no algorithm for it, an own kernel runs. Split-K
 * is allowed where the partial sums are added in a fixed order (NONE, COMPUTE_TYPE).
 */
#include "cuda/cuda_driver.h"

/* Partial results that split-K may hold; bounds the workspace by the op's own shape. */
#define SPLITS 4u
/* cuBLASLt wants its workspace at a multiple of 256; the arena gives multiples of 64. */
#define WORKSPACE_ALIGNMENT ((uint64_t)256)
#define ALIGNMENT_SLACK (WORKSPACE_ALIGNMENT - TARN_ALIGNMENT)

struct matmul {
	struct matmul_parameters product;     /* its shape alone */
	void *desc, *first, *second, *result; /* layouts: b, a, c */
	struct cublaslt_algorithm algorithm;
	uint64_t workspace_bytes;
	bool usable; /* cuBLASLt has a deterministic algorithm within the limit */
	struct matmul *next;
};

/* `rows` x `columns` as stored by rows, for each of the batch, one after the other. */
static enum tarn_status make_layout(struct cuda_state *state, uint32_t stored, uint64_t rows, uint64_t columns,
				    uint64_t batch, void **layout)
{
	static const int type[STORED_KINDS] = { ABI_CUDA_R_32F, ABI_CUDA_R_16BF, ABI_CUDA_R_16F };
	int32_t count = (int32_t)batch;
	int64_t stride = (int64_t)(rows * columns);
	enum tarn_status st =
		BLAS(state, cublasLtMatrixLayoutCreate, layout, type[stored], columns, rows, (int64_t)columns);
	if (!st && batch > 1)
		st = BLAS(state, cublasLtMatrixLayoutSetAttribute, *layout, ABI_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
			  &count, sizeof count);
	if (!st && batch > 1)
		st = BLAS(state, cublasLtMatrixLayoutSetAttribute, *layout,
			  ABI_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
	return st;
}

static enum tarn_status make_descriptors(struct cuda_state *state, struct matmul *matmul)
{
	const struct matmul_parameters *p = &matmul->product;
	int transpose = ABI_CUBLAS_OP_T;
	int compute =
		state->tf32 && p->stored == STORED_F32 ? ABI_CUBLAS_COMPUTE_32F_FAST_TF32 : ABI_CUBLAS_COMPUTE_32F;
	enum tarn_status st = BLAS(state, cublasLtMatmulDescCreate, &matmul->desc, compute, ABI_CUDA_R_32F);
	if (!st && p->transpose_b)
		st = BLAS(state, cublasLtMatmulDescSetAttribute, matmul->desc, ABI_CUBLASLT_MATMUL_DESC_TRANSA,
			  &transpose, sizeof transpose);
	if (!st && p->transpose_a)
		st = BLAS(state, cublasLtMatmulDescSetAttribute, matmul->desc, ABI_CUBLASLT_MATMUL_DESC_TRANSB,
			  &transpose, sizeof transpose);
	if (!st)
		st = make_layout(state, p->stored, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, p->batch,
				 &matmul->first);
	if (!st)
		st = make_layout(state, p->stored, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, p->batch,
				 &matmul->second);
	return st ? st
		  : make_layout(state, p->wide ? (uint32_t)STORED_F32 : p->stored, p->m, p->n, p->batch,
				&matmul->result);
}

static enum tarn_status set_preference(struct cuda_state *state, void *preference, uint64_t limit)
{
	uint32_t schemes = ABI_CUBLASLT_REDUCTION_SCHEME_NONE | ABI_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	uint32_t alignment = (uint32_t)TARN_ALIGNMENT;
	size_t bytes = limit;
	enum tarn_status st = BLAS(state, cublasLtMatmulPreferenceSetAttribute, preference,
				   ABI_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof bytes);
	if (!st)
		st = BLAS(state, cublasLtMatmulPreferenceSetAttribute, preference,
			  ABI_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
	for (int which = ABI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
	     which <= ABI_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES && !st; which++)
		st = BLAS(state, cublasLtMatmulPreferenceSetAttribute, preference, which, &alignment, sizeof alignment);
	return st;
}

static enum tarn_status choose_algorithm(struct cuda_state *state, struct matmul *matmul, uint64_t limit)
{
	void *preference = NULL;
	struct cublaslt_heuristic found = { 0 };
	int count = 0;
	enum tarn_status st = BLAS(state, cublasLtMatmulPreferenceCreate, &preference);
	if (!st)
		st = set_preference(state, preference, limit);
	if (!st)
		st = BLAS(state, cublasLtMatmulAlgoGetHeuristic, state->blas, matmul->desc, matmul->first,
			  matmul->second, matmul->result, matmul->result, preference, 1, &found, &count);
	matmul->usable = count && !found.state;
	if (preference)
		state->libraries.blas.cublasLtMatmulPreferenceDestroy(preference);
	matmul->algorithm = found.algorithm;
	matmul->workspace_bytes = found.workspace_bytes;
	return st;
}

static bool same_product(const struct matmul_parameters *a, const struct matmul_parameters *b)
{
	return a->m == b->m && a->n == b->n && a->k == b->k && a->batch == b->batch &&
	       a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b && a->stored == b->stored &&
	       a->wide == b->wide;
}

const struct matmul *matmul_find(const struct kernel *kernel, const struct matmul_parameters *product)
{
	const struct matmul *matmul = kernel->matmuls;
	while (matmul && !same_product(&matmul->product, product))
		matmul = matmul->next;
	return matmul && matmul->usable ? matmul : NULL;
}

/* The most bytes of workspace that a product may ask for. */
static uint64_t workspace_limit(const struct cuda_state *state, const struct matmul_parameters *p)
{
	uint64_t limit = SPLITS * p->batch * p->m * p->n * sizeof(float);
	if (limit > state->workspace_cap)
		limit = state->workspace_cap;
	return limit > ALIGNMENT_SLACK ? limit - ALIGNMENT_SLACK : 0;
}

static enum tarn_status compile_one(struct cuda_state *state, const struct matmul_parameters *p, struct kernel *kernel,
				    struct matmul **out)
{
	struct matmul *matmul = kernel->matmuls;
	while (matmul && !same_product(&matmul->product, p))
		matmul = matmul->next;
	*out = matmul;
	if (matmul)
		return TARN_OK;
	*out = matmul = HOST_NEW(state->host, struct matmul);
	if (!matmul)
		return TARN_ENOMEM;
	matmul->product = *p;
	matmul->next = kernel->matmuls;
	kernel->matmuls = matmul;
	enum tarn_status st = make_descriptors(state, matmul);
	return st ? st : choose_algorithm(state, matmul, workspace_limit(state, p));
}

enum tarn_status matmul_compile(struct cuda_state *state, const struct cuda_launch_list *list, struct kernel *kernel)
{
	uint64_t most = 0;
	enum tarn_status st = TARN_OK;
	for (const struct cuda_launch *launch = list->first; launch && !st; launch = launch->next) {
		struct matmul *matmul = NULL;
		uint64_t bytes = launch->product ? workspace_limit(state, launch->parameter) : 0;
		/* Of a described device: the most that a real one may ask for. */
		if (launch->product && !state->described) {
			st = compile_one(state, launch->parameter, kernel, &matmul);
			bytes = matmul && matmul->usable ? matmul->workspace_bytes : 0;
		}
		most = bytes > most ? bytes : most;
	}
	/* It lies behind what the op's own kernels need. */
	if (most)
		kernel->info.workspace_bytes += most + ALIGNMENT_SLACK;
	return st;
}

enum tarn_status matmul_run(struct cuda_state *state, const struct matmul *matmul, const struct matmul_parameters *p,
			    uint64_t workspace)
{
	static const float one = 1.0f, zero = 0.0f;
	/* Device addresses, which cuBLASLt takes as pointers. */
	const void *first = (const void *)(uintptr_t)p->b, *second = (const void *)(uintptr_t)p->a;
	void *result = (void *)(uintptr_t)p->c;
	uint64_t aligned = (workspace + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
	if (!matmul->workspace_bytes)
		aligned = 0; /* behind the op's own workspace lies another tensor */
	return BLAS(state, cublasLtMatmul, state->blas, matmul->desc, &p->alpha, first, matmul->first, second,
		    matmul->second, p->adds ? &one : &zero, result, matmul->result, result, matmul->result,
		    &matmul->algorithm, (void *)(uintptr_t)aligned, matmul->workspace_bytes, state->compute);
}

void matmul_destroy(struct cuda_state *state, struct kernel *kernel)
{
	const struct cublaslt_calls *blas = &state->libraries.blas;
	for (struct matmul *matmul = kernel->matmuls; matmul; matmul = matmul->next) {
		void *const layout[] = { matmul->first, matmul->second, matmul->result };
		if (matmul->desc)
			blas->cublasLtMatmulDescDestroy(matmul->desc);
		for (int i = 0; i < 3; i++)
			if (layout[i])
				blas->cublasLtMatrixLayoutDestroy(layout[i]);
	}
}
