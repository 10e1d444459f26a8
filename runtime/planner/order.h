/*
 * order.h - orders of first runs: every needed op once, with little peak.
 *
 * Two orders are built: the problem's own, with effects (ops without outputs: updates) as early as they may run so that
 * gradients die, and ops without inputs as late as possible; and list scheduling, which always takes the ready op after
 * which the fewest bytes stay live. The second often has the lower peak without recomputation, the first with it.
 */
#ifndef TARN_PLANNER_ORDER_H
#define TARN_PLANNER_ORDER_H

#include "planner/dependence.h"

#define ORDERS 2u

/* Writes order[0] and order[1], [needed_ops] each; the one with the lower peak comes first. */
enum tarn_status order_find(const struct dependence *dependence, struct host_arena *arena, uint32_t *order[ORDERS]);

#endif
