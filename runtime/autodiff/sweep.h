/*
 * sweep.h - the state of a reverse sweep, and gradients that wait to be joined; internal to autodiff/.
 *
 * Two kinds of partial gradients are not added one by one:
 *   - those of slices of one tensor: where the slices lie side by side along one axis, a CONCAT of their gradients
 * (zeros between them) takes the place of a PAD_AXIS and an ADD for each;
 *   - those of a weight that many small products share (a recurrent network): PRODUCTS_JOINED of them at a time become
 * one product of the joined rows, where adding whole weights would move more bytes than joining rows. Both depend on
 * the graph alone.
 */
#ifndef TARN_AUTODIFF_SWEEP_H
#define TARN_AUTODIFF_SWEEP_H

#include "autodiff/autodiff.h"

#define PRODUCTS_JOINED 16u

/* An op whose gradient by one of its inputs waits. */
struct waiting {
	struct waiting *next;
	uint32_t op, gradient; /* gradient of its output */
};

struct sweep {
	struct graph *graph;
	struct host_arena *arena;          /* scratch */
	uint32_t ops;                      /* of the graph before the sweep */
	bool *depends;                     /* tensor depends on one of wrt[] */
	uint32_t *gradient;                /* so far, of each tensor; TENSOR_NONE: zero */
	uint32_t *products;                /* of each tensor: MATMULs that have it as their second input */
	struct waiting **slices;           /* of each tensor, those visited last first: in the graph's order */
	struct waiting **waiting_products; /* of each weight, likewise */
	uint32_t *waiting_count;
	uint32_t last_joined; /* op: the newest CONCAT that joined gradients; OP_NONE */
};

/* Adds a partial gradient to that of the tensor. */
enum tarn_status sweep_accumulate(struct sweep *sweep, uint32_t tensor, uint32_t partial);

/* Lets a SLICE wait. */
enum tarn_status sweep_defer_slice(struct sweep *sweep, uint32_t op, uint32_t gradient);
/* True when the weight's (and bias') gradient of this MATMUL should wait for others of its kind. */
bool sweep_joins_product(const struct sweep *sweep, uint32_t op, const bool *wanted);
enum tarn_status sweep_defer_product(struct sweep *sweep, uint32_t op, uint32_t gradient);

/* Adds what waits: called before the gradient of the tensor is read. */
enum tarn_status sweep_finish(struct sweep *sweep, uint32_t tensor);

#endif
