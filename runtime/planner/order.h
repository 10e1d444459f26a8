/*
 * order.h - the order of first runs: every needed op once, with little peak.
 *
 * Two orders are built, the better one is kept: the problem's own order, with effects (ops without outputs: updates) as
 * early as they may run so that gradients die, and ops without inputs as late as possible; and list scheduling, which
 * always takes the ready op after which the fewest bytes stay live.
 */
#ifndef TARN_PLANNER_ORDER_H
#define TARN_PLANNER_ORDER_H

#include "planner/dependence.h"

/* Writes order[0 .. needed_ops). */
enum tarn_status order_find(const struct dependence *dependence, struct host_arena *arena, uint32_t *order);

#endif
