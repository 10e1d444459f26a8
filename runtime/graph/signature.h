/*
 * signature.h - an op's kind, operand shapes and attributes as one line of text: ops of one signature run the same
 * kernel and cost the same.
 */
#ifndef TARN_GRAPH_SIGNATURE_H
#define TARN_GRAPH_SIGNATURE_H

#include "graph/graph.h"

/* Longest signature, terminating zero included. Lists of inputs beyond it are cut and told apart by the hash. */
#define SIGNATURE_TEXT 256

/* "conv2d f32 128x28x28x16 f32 16x16x3x3 -> f32 128x28x28x16 #0123456789abcdef". Returns buffer. */
const char *op_signature(const struct graph *graph, uint32_t op, char buffer[SIGNATURE_TEXT]);

#endif
