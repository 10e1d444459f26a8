/*
 * average.h - exponential moving averages of the weights (train.ema; Polyak, Juditsky 1992, with exponential weights).
 *
 * Each parameter that is trained has a persistent copy "average/<parameter>", equal to it at the start. One
 * EXPONENTIAL_AVERAGE effect a parameter follows its update and reads the new version, the one read of a version that
 * graphs may have. Evaluation builds its network on the copies (layer_parts.h); snapshots hold both.
 */
#ifndef TARN_AUTODIFF_AVERAGE_H
#define TARN_AUTODIFF_AVERAGE_H

#include "config/config.h"
#include "graph/graph.h"

/* Adds the copies, unless train.ema is 0; called before autodiff. */
enum tarn_status average_add_state(struct graph *graph, const struct config *config);

/* Appends the effects; the updates are there. A parameter without an update has none: its copy is right as it is. */
enum tarn_status average_add_updates(struct graph *graph, const struct config *config);

#endif
