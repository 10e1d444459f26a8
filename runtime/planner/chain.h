/*
 * chain.h - the chain in a training step: stages between single values that everything later in the forward pass hangs
 * on.
 *
 * A boundary is a forward value that is the only one which later forward ops read. The forward ops between two
 * boundaries are a stage; its backward ops are those that read its values. Stages are numbered from 1; boundary i ends
 * stage i, boundary 0 is what is always there, and the last stage, which holds the loss, ends in none.
 *
 * What a stage needs is measured on its own ops, in bytes, without the boundary before it, which whoever runs the stage
 * holds. Outputs of ops that run once are held throughout and count nowhere but in `pinned_bytes`.
 *
 * Ways to come from the forward to the backward pass of a stage:
 *   - nothing is kept: its forward ops run again, at repeat_ns[0]; repeat_ns[1]: but its own boundary is still there.
 *   - a variant keeps some of the values that the backward ops of one, two or four stages read, and makes the others
 *     again. Stages that are alike, ops and neighbours, have the same variants, which are sought once.
 */
#ifndef TARN_PLANNER_CHAIN_H
#define TARN_PLANNER_CHAIN_H

#include "planner/dependence.h"

struct chain_variant {
	uint32_t stages;           /* from the next one on */
	uint64_t kept_bytes;       /* the last boundary included */
	uint64_t forward_bytes;    /* peak of the forward run that keeps them */
	uint64_t backward_bytes;   /* of the backward run */
	uint64_t forward_ns;       /* of a forward run that keeps them */
	uint64_t repeat_ns;        /* of what is made again for the backward ops */
	uint32_t first_kept, kept; /* in chain.kept: values */
};

struct chain_stage {
	uint32_t first_forward, forwards;   /* in chain.forward: ops */
	uint32_t first_backward, backwards; /* in chain.backward: ops */
	uint32_t boundary;                  /* value; VALUE_NONE for the last stage */
	uint64_t boundary_bytes;
	uint64_t forward_ns;     /* of what the boundary needs */
	uint64_t beside_bytes;   /* peak of a forward run while the boundary before is held by others */
	uint64_t forward_bytes;  /* the same with the boundary before, which dies */
	uint64_t gradient_bytes; /* of backward values that are live when the stage's backward ops begin */
	uint64_t repeat_ns[2], backward_bytes[2];
	bool reads_boundary;              /* its backward ops read its own boundary */
	uint32_t first_variant, variants; /* in chain.variant: of the stages from this one on */
	uint64_t likeness;                /* stages with the same number look the same */
};

struct chain {
	const struct dependence *dependence;
	struct chain_stage *stage; /* [stages + 1]; stage[0] is empty */
	uint32_t stages;           /* 0: the problem is no chain */
	uint32_t *forward, *backward;
	struct chain_variant *variant;
	uint32_t *kept;
	uint64_t pinned_bytes;
	uint64_t last_bytes; /* peak of the last stage, forward and backward */

	struct host_arena *arena;
	size_t variant_room, kept_room;
	uint32_t variants, kept_values;
	bool failed;             /* no host memory */
	uint32_t *stage_of;      /* [ops] */
	uint32_t *place;         /* [ops]: of a forward op in its stage, of a backward op as well */
	uint64_t *passing;       /* [stages + 1]: bytes of backward values that live across a stage */
	uint32_t *lowest;        /* [values]: lowest stage with a backward reader */
	uint8_t *wanted, *there; /* [values] scratch, all zero between calls */
	uint32_t *last;          /* [values] scratch */
	uint32_t *list;          /* [ops] scratch */
};

/* `order`: first runs. chain->stages is 0 when there are fewer than three stages. TARN_ENOMEM only. */
enum tarn_status chain_find(const struct dependence *dependence, const uint32_t *order, struct host_arena *arena,
			    struct chain *chain);

/* The functions below write ops in the order of their runs, and return how many. */

/* Forward ops of `stages` stages that make the last boundary and what the variant, if not NULL, keeps. */
uint32_t chain_forward(struct chain *chain, uint32_t first, uint32_t stages, const struct chain_variant *variant,
		       uint32_t *op);

/*
 * The backward ops of the stages, with the forward ops that must run again before: all but what the variant keeps, or,
 * has_boundary, the last boundary.
 */
uint32_t chain_backward(struct chain *chain, uint32_t first, uint32_t stages, const struct chain_variant *variant,
			bool has_boundary, uint32_t *op);

#endif
