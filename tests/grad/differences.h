/*
 * differences.h - the gradient of a whole training graph meets differences of its loss.
 *
 * The graph runs on the device in float; its SGD updates with rate 1 give the gradient of every parameter. The oracle
 * evaluates the same ops before them in double with the loops of conformance/reference.c and takes
 * (loss(w + h) - loss(w - h)) / 2h, where the loss is what "metric/loss" records.
 */
#ifndef TARN_TESTS_DIFFERENCES_H
#define TARN_TESTS_DIFFERENCES_H

#include "graph/graph.h"

/*
 * A few elements of every parameter; labels are 0, 1 and 2. `hold`: what STOP_GRADIENT gives keeps the value that it
 * had at w, so that it is the constant that it should be.
 */
void differences_meet(const struct graph *graph, bool hold, struct host_arena *arena);

#endif
