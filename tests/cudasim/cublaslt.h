/*
 * cublaslt.h - the double of cuBLASLt: descriptors, a few algorithms whose bits differ, products by naive loops.
 *
 * The loops share nothing with drivers/cpu. Each algorithm adds in another order, so that a plan that lets the choice
 * depend on anything but the op's signature ends with other bits; one of them (reduction scheme INPLACE) adds in an
 * order that changes from call to call, as a real one with atomic additions does. Workspaces are filled with rubbish.
 */
#ifndef CUDASIM_CUBLASLT_H
#define CUDASIM_CUBLASLT_H

#include "cudasim.h"
#include "numbers.h"

enum sim_algorithm_id {
	ALGORITHM_PLAIN,  /* k in order */
	ALGORITHM_SPLIT2, /* two parts of k, added at the end */
	ALGORITHM_SPLIT4,
	ALGORITHM_STRIDED,   /* even and odd k apart */
	ALGORITHM_ANY_ORDER, /* four parts in a random order */
	ALGORITHMS
};

struct sim_algorithm {    /* cublasLtMatmulAlgo_t */
	uint64_t data[8]; /* a magic number, the id, the product it was made for */
};

struct sim_heuristic { /* cublasLtMatmulHeuristicResult_t */
	struct sim_algorithm algorithm;
	size_t workspace_bytes;
	int state;
	float waves;
	int reserved[4];
};

struct sim_matrix {
	enum number_type type;
	uint64_t rows, columns;
	int64_t leading; /* elements from column to column */
	int32_t batch;
	int64_t batch_stride; /* elements */
};

/* d = alpha op(a) op(b) + beta c; d is m x n, k is summed over. */
struct sim_product {
	struct sim_matrix a, b, c, d;
	uint64_t m, n, k;
	bool transpose_a, transpose_b, tf32, in_place;
	float alpha, beta;
	uint32_t algorithm;
	uint64_t workspace_bytes;
};

uint64_t product_workspace(const struct sim_product *product, enum sim_algorithm_id algorithm);
/* Operands: a, b, d, workspace, c (when it is read and is not d). */
void product_run(const void *product, struct sim_operand *operand);

#endif
