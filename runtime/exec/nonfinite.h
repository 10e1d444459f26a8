/*
 * nonfinite.h - a training step whose loss or gradient is NaN or infinite: found, traced to an op, and undone.
 *
 * The step runs up to the first op that changes a parameter or its optimizer state; then its loss (and the norm of its
 * gradient, where clipping computes one) is looked at. When it is not finite the parameters are still those before the
 * step. The ops are then run again one by one, without those that change anything that lasts, and the first whose
 * result is not finite is named. Recomputing gives the same numbers, so the trace finds what the step computed.
 *
 * With NONFINITE_SKIP everything that lasts is copied to host memory before each step, beside the budget and as large
 * as the persistent part of the arena, and looked at after it; a step that leaves NaN anywhere is undone. The other
 * policies find a gradient that is not finite under a finite loss without clipping in the step after, and then name the
 * parameters that it spoiled.
 *
 * A device that replays recorded steps, and a plan with offload, run whole steps: there the other policies name no op.
 * Nothing here allocates after nonfinite_open.
 */
#ifndef TARN_EXEC_NONFINITE_H
#define TARN_EXEC_NONFINITE_H

#include "config/config.h"
#include "exec/exec.h"

#define NONFINITE_TEXT 512u

struct nonfinite {
	struct executor *executor;
	uint32_t policy;                          /* enum on_nonfinite */
	uint32_t first_update[PLAN_MAX_PROGRAMS]; /* instruction; the number of instructions where a step runs whole */
	const struct persistent *loss, *norm;     /* what is watched; NULL: the network has none of it */
	uint8_t *kept;                            /* NONFINITE_SKIP: the persistent part before the step */
	uint8_t *buffer;
	char text[NONFINITE_TEXT];
};

enum tarn_status nonfinite_open(struct executor *executor, uint32_t policy, struct host_arena *arena,
				struct nonfinite **nonfinite);

/*
 * Runs training program `index` on what was staged. *what: NULL when loss, gradient and (NONFINITE_SKIP) everything
 * that lasts are finite; else what is not and where it began, until the next call. Then with NONFINITE_SKIP everything
 * that lasts is as before the step, with NONFINITE_CONTINUE as the step left it, with NONFINITE_STOP the parameters and
 * their optimizer state are as before where the loss showed it.
 */
enum tarn_status nonfinite_run(struct nonfinite *nonfinite, uint32_t index, const char **what);

/*
 * Runs the instructions of `index` before `end` again, without those that change what lasts, and looks at every result.
 * *number: the first whose result is not finite, `end` when there is none; *output and *element say where.
 */
enum tarn_status nonfinite_trace(struct nonfinite *nonfinite, uint32_t index, uint32_t end, uint32_t *number,
				 uint32_t *output, uint64_t *element);

#endif
