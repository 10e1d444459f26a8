/*
 * proof.h - why no schedule is faster: inequalities that every schedule obeys, each with a weight.
 *
 * Cuts are ops, each of which needs the one before it (through inputs), so that they run for the first time in that
 * order. Interval j ends with the first run of cut j, that run included; one more interval follows the last cut. For an
 * op o and an interval j let
 *     runs(j, o)   be 1 when o runs in interval j, else 0;
 *     there(j, o)  be 1 when an output of o is in memory at the first run of cut j, its own outputs included, else 0.
 * An op that needs cut c runs in intervals after c only; cut c itself in none before c. Each term is one of
 *     PROOF_CUT     runs(cut, op) >= 1                                  op is the cut of that number
 *     PROOF_FITS    sum of least(o) * there(cut, o) over all o but the cut <= limit - bytes that the cut's run needs
 *     PROOF_THERE   there(cut, op) <= runs(cut, op) + there(cut - 1, op)
 *     PROOF_READ    runs(cut, other) <= runs(cut, op) + there(cut - 1, op)   op makes an input of other
 *     PROOF_INPUT   there(cut, op) >= 1                                 op makes an input of the cut
 *     PROOF_ONCE    sum of runs(j, op) over all j >= 1                  some effect needs op
 * where least(o) is the smallest output of o, a cut's run needs its outputs and workspace (but not output 0 where it
 * may lie in an input's place), and there(-1, .) is 0. A schedule takes at least the sum of cost(o) * runs(j, o). With
 * a weight for each inequality that is at least (sum of weight * right side) + (sum over runs and there of the part of
 * their cost that is left below 0): linear programming duality, which holds for any weights.
 */
#ifndef TARN_PLAN_PROOF_H
#define TARN_PLAN_PROOF_H

#include <stdint.h>

enum proof_kind { PROOF_CUT, PROOF_FITS, PROOF_THERE, PROOF_READ, PROOF_INPUT, PROOF_ONCE, PROOF_KINDS };

/* Plain data, written to the plan file as it is. One PROOF_CUT for each cut comes first, in their order. */
struct proof_term {
	float weight;   /* at least 0; nanoseconds, for PROOF_FITS nanoseconds a byte */
	uint16_t kind;  /* enum proof_kind */
	uint16_t cut;   /* cut or interval; 0 for PROOF_ONCE */
	uint32_t op;    /* 0 for PROOF_FITS */
	uint32_t other; /* PROOF_READ; else 0 */
};

#endif
