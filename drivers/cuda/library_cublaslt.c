/*
 * library_cublaslt.c - matrix products by cuBLASLt, with an algorithm and a workspace of our own.
 *
 * cuBLASLt's matrices are stored by columns. A matrix stored by rows is its transpose stored by columns, so
 * c = a b (M x N) is computed as c' = b' a' (N x M): b comes first.
 *
 * The algorithm is asked for once for each signature, before planning, and kept: what runs depends on shapes, tf32 and
 * memory.workspace_cap alone; where cuBLASLt has no algorithm for it, an own kernel runs. Split-K is allowed where the
 * partial sums are added in a fixed order (NONE, COMPUTE_TYPE).
 */
#include "cuda/cuda_driver.h"

/* Partial results that split-K may hold; bounds the workspace by the op's own shape. */
#define SPLITS 4u
/* cuBLASLt wants its workspace at a multiple of 256; the arena gives multiples of 64. */
#define WORKSPACE_ALIGNMENT ((uint64_t)256)
#define ALIGNMENT_SLACK (WORKSPACE_ALIGNMENT - TARN_ALIGNMENT)

struct matmul {
	void *desc, *first, *second, *result; /* layouts: b, a, c */
	struct cublaslt_algorithm algorithm;
	uint64_t workspace_bytes;
	bool usable; /* cuBLASLt has a deterministic algorithm within the limit */
};

static enum tarn_status make_descriptors(struct cuda_state *state, const struct graph *graph, uint32_t op,
					 struct matmul *matmul)
{
	const struct op_attr *attr = &graph->op[op].attr;
	const uint32_t *input = op_inputs(graph, op);
	const uint32_t *a = graph->tensor[input[0]].dim, *b = graph->tensor[input[1]].dim;
	const uint32_t *c = graph->tensor[op_outputs(graph, op)[0]].dim;
	int transpose = ABI_CUBLAS_OP_T;
	int compute = state->tf32 ? ABI_CUBLAS_COMPUTE_32F_FAST_TF32 : ABI_CUBLAS_COMPUTE_32F;
	enum tarn_status st = BLAS(state, cublasLtMatmulDescCreate, &matmul->desc, compute, ABI_CUDA_R_32F);
	if (!st && attr->transpose_b)
		st = BLAS(state, cublasLtMatmulDescSetAttribute, matmul->desc, ABI_CUBLASLT_MATMUL_DESC_TRANSA,
			  &transpose, sizeof transpose);
	if (!st && attr->transpose_a)
		st = BLAS(state, cublasLtMatmulDescSetAttribute, matmul->desc, ABI_CUBLASLT_MATMUL_DESC_TRANSB,
			  &transpose, sizeof transpose);
	if (!st)
		st = BLAS(state, cublasLtMatrixLayoutCreate, &matmul->first, ABI_CUDA_R_32F, b[1], b[0], b[1]);
	if (!st)
		st = BLAS(state, cublasLtMatrixLayoutCreate, &matmul->second, ABI_CUDA_R_32F, a[1], a[0], a[1]);
	return st ? st : BLAS(state, cublasLtMatrixLayoutCreate, &matmul->result, ABI_CUDA_R_32F, c[1], c[0], c[1]);
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

enum tarn_status matmul_compile(struct cuda_state *state, const struct graph *graph, uint32_t op, struct kernel *kernel)
{
	uint64_t limit = SPLITS * graph->tensor[op_outputs(graph, op)[0]].bytes;
	if (limit > state->workspace_cap)
		limit = state->workspace_cap;
	limit = limit > ALIGNMENT_SLACK ? limit - ALIGNMENT_SLACK : 0;
	kernel->class = KERNEL_MATMUL;
	/* Of a described device: the most that a real one may ask for. */
	kernel->info.workspace_bytes = limit ? limit + ALIGNMENT_SLACK : 0;
	if (state->described)
		return TARN_OK;
	kernel->matmul = HOST_NEW(state->host, struct matmul);
	if (!kernel->matmul)
		return TARN_ENOMEM;
	enum tarn_status st = make_descriptors(state, graph, op, kernel->matmul);
	if (!st)
		st = choose_algorithm(state, kernel->matmul, limit);
	kernel->info.workspace_bytes = kernel->matmul->workspace_bytes;
	if (kernel->info.workspace_bytes)
		kernel->info.workspace_bytes += ALIGNMENT_SLACK;
	if (!st && !kernel->matmul->usable) {
		matmul_destroy(state, kernel->matmul);
		kernel->class = KERNEL_LAUNCHES;
		kernel->info.workspace_bytes = 0;
	}
	return st;
}

enum tarn_status matmul_run(struct cuda_state *state, const struct bound_instr *instr)
{
	static const float one = 1.0f, zero = 0.0f;
	const struct matmul *matmul = instr->kernel->matmul;
	/* Device addresses, which cuBLASLt takes as pointers. */
	const void *first = (const void *)(uintptr_t)instr->address[1];
	const void *second = (const void *)(uintptr_t)instr->address[0];
	void *result = (void *)(uintptr_t)instr->output;
	uint64_t aligned = (instr->workspace + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
	return BLAS(state, cublasLtMatmul, state->blas, matmul->desc, &one, first, matmul->first, second,
		    matmul->second, &zero, result, matmul->result, result, matmul->result, &matmul->algorithm,
		    (void *)(uintptr_t)aligned, matmul->workspace_bytes, state->compute);
}

void matmul_destroy(struct cuda_state *state, struct matmul *matmul)
{
	const struct cublaslt_calls *blas = &state->libraries.blas;
	if (!matmul)
		return;
	if (matmul->desc)
		blas->cublasLtMatmulDescDestroy(matmul->desc);
	void *const layout[] = { matmul->first, matmul->second, matmul->result };
	for (int i = 0; i < 3; i++)
		if (layout[i])
			blas->cublasLtMatrixLayoutDestroy(layout[i]);
}
