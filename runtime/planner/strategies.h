/*
 * strategies.h - which values the classic fixed strategies keep.
 *
 * keep[value] != 0: the value stays from its first run to its last reader. Only values of forward ops are ever given
 * up.
 */
#ifndef TARN_PLANNER_STRATEGIES_H
#define TARN_PLANNER_STRATEGIES_H

#include "planner/dependence.h"

/* Outputs of heavy ops. */
void strategy_keep_heavy(const struct problem *problem, uint8_t *keep);

/*
 * The values live between about sqrt(n) equal groups of the n forward ops: of the places near the end of a group one
 * where a single value is live, else the one with the least live bytes. Source: Chen, Xu, Zhang, Guestrin, "Training
 * deep nets with sublinear memory cost", arXiv:1604.06174.
 */
enum tarn_status strategy_keep_sqrt(const struct dependence *dependence, const uint32_t *order,
				    struct host_arena *scratch, uint8_t *keep);

#endif
