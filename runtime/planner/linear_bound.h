/*
 * linear_bound.h - a proved lower bound of a linear programme, by a first-order method.
 *
 *     minimise  constant + c x   such that   A x >= b,   0 <= x <= 1
 *
 * For any y >= 0 the sum  constant + b y + sum_j min(0, c_j - (A' y)_j)  is not above the least value: a bad y costs
 * tightness, never validity. y comes from a primal-dual hybrid gradient iteration with restarts (Applegate et al.,
 * "Practical large-scale linear programming using primal-dual hybrid gradient", NeurIPS 2021; step sizes of Pock and
 * Chambolle, ICCV 2011). The bound is rounded down by more than the arithmetic can have erred.
 */
#ifndef TARN_PLANNER_LINEAR_BOUND_H
#define TARN_PLANNER_LINEAR_BOUND_H

#include "base/host_arena.h"

#include <stdbool.h>

struct linear_program {
	struct host_arena *arena;
	double constant;
	double *cost; /* [columns] */
	uint32_t columns;
	double *right; /* [rows] */
	uint32_t rows;
	uint32_t *row_of, *column_of; /* [entries]; rows in increasing order */
	double *entry;
	uint32_t entries;
	size_t cost_room, right_room, row_room, column_room, entry_room;
	bool failed; /* no host memory: whatever was added since is missing */
};

void linear_program_init(struct linear_program *program, struct host_arena *arena);

/* A variable in [0, 1]; its number. */
uint32_t linear_program_column(struct linear_program *program, double cost);

/* Begins a row `... >= right`; entries that are added then belong to it. */
void linear_program_row(struct linear_program *program, double right);
void linear_program_entry(struct linear_program *program, uint32_t column, double value);

/*
 * *bound: not above the least value; starts from what is there. Stops after `work` entries were looked at, or as soon
 * as the bound reaches `enough`. `y` [rows]: NULL, or the multipliers that prove it, zeros when none is better than
 * what was there.
 */
enum tarn_status linear_program_bound(struct linear_program *program, uint64_t work, double enough, double *y,
				      double *bound);

/* What the multipliers y >= 0 prove. */
enum tarn_status linear_program_value(const struct linear_program *program, const double *y, double *bound);

#endif
