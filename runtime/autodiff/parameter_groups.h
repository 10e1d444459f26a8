/*
 * parameter_groups.h - optimizer.groups: parameters with a learning rate or weight decay of their own.
 *
 * A list of maps {match: PATTERN, learning_rate: NUMBER, weight_decay: NUMBER}; the pattern is a glob on the
 * parameter's name ("head/" and a star), and the first group that matches a parameter counts for it. What a group does
 * not say stays as the optimizer has it. The schedule of the learning rate applies to all groups alike.
 */
#ifndef TARN_AUTODIFF_PARAMETER_GROUPS_H
#define TARN_AUTODIFF_PARAMETER_GROUPS_H

#include "config/config.h"
#include "graph/graph.h"

/*
 * Proves the list: keys, ranges, and that each pattern matches one of the `count` parameters that are trained.
 * TARN_EINVAL with the place and what would be right.
 */
enum tarn_status parameter_groups_check(const struct graph *graph, const struct config *config,
					const uint32_t *parameter, uint32_t count);

/* Sets rate_scale and weight_decay of the parameter's update where its group does. The list was checked. */
enum tarn_status parameter_groups_apply(const struct graph *graph, const struct config *config, uint32_t parameter,
					struct op_attr *attr);

#endif
