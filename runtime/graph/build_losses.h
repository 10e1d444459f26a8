/*
 * build_losses.h - `network.losses` in YAML -> losses beside that of the last layer. Private to graph/.
 */
#ifndef TARN_GRAPH_BUILD_LOSSES_H
#define TARN_GRAPH_BUILD_LOSSES_H

#include "config/yaml_tree.h"
#include "graph/layers.h"

/* Most entries of the list. */
#define LOSSES_MAX 16u

/*
 * Appends the losses of the list and their RECORDs; *loss becomes the sum of itself and of each times its weight, added
 * in the order of the list. Errors have the entry's place.
 */
enum tarn_status losses_add(struct network *net, const struct yaml_node *list, uint32_t *loss);

#endif
