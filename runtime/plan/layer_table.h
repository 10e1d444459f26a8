/*
 * layer_table.h - the network as a table: what each forward op makes, has and costs.
 *
 * A row is a forward op of the training step after simplification: name, kind, shape of its result, parameters that no
 * row before it has, bytes of its results, floating-point operations of one execution on the whole batch. Views cost
 * nothing and have no row, nor have effects. Weights that are masked or normalised first have a row for that.
 */
#ifndef TARN_PLAN_LAYER_TABLE_H
#define TARN_PLAN_LAYER_TABLE_H

#include "graph/graph.h"

#include <stdio.h>

/*
 * For people. Unless `whole`, a long table is shortened: ops under one scope ("stage1/") that follow one another become
 * one row, and of what is then still too long the middle is left out. TARN_ENOMEM.
 */
enum tarn_status layer_table_print(const struct graph *graph, bool whole, struct host_arena *scratch, FILE *out);

/*
 * For programs, one JSON object: "settings", the configuration (`lines`, as config_to_lines makes them); "persistent",
 * the parameters and statistics in their order with shape and initial values, and "ops", the rows with inputs, outputs
 * and every attribute that is not zero, views included: all that is needed to build the same network elsewhere.
 */
void layer_table_json(const struct graph *graph, const char *lines, FILE *out);

#endif
