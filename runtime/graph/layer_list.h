/*
 * layer_list.h - `layers:` in YAML -> layers on a graph.
 *
 * The syntax is described in build.h and by layers_help().
 */
#ifndef TARN_GRAPH_LAYER_LIST_H
#define TARN_GRAPH_LAYER_LIST_H

#include "config/yaml_tree.h"
#include "graph/layers.h"

/* Layers and repetitions of one network, all together; keeps nested repeats from growing without end. */
#define LAYERS_MAX 50000u

/* Builds the list on `input`; *output is the result of its last layer (`input` when it is empty). */
enum tarn_status layer_list_build(struct network *net, const struct yaml_node *layers, uint32_t input,
				  struct host_arena *scratch, uint32_t *output);

#endif
