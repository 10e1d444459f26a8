/*
 * curvature.h - the graph of a Hessian-vector product.
 *
 * One run of the graph adds a batch's part to the product: with the loss L of the batch, its parameters w and a vector
 * v of their shape, product += -rate * H v, where H is the Hessian of L and `rate` the learning rate of the step's
 * scalars (the sum is an SGD update; the caller gives the rate the batch's weight with a minus).
 *
 * Persistent tensors, beside those of the network: for each trained parameter "hvp/vector/<name>",
 * "hvp/product/<name>"; where the task asks for it "hvp/diagonal/<name>", and "hvp/basis/<name>" (hvp.steps rows),
 * which only the host uses: so that what a Lanczos iteration keeps is inside the budget too.
 *
 * The product is differentiated in one of two orders (Pearlmutter 1994; Griewank, Walther 2008, chapter 3):
 *   reverse  over reverse: g = dL/dw, then d<g, v>/dw;
 *   forward  over reverse: the derivative of g along v. Forward mode is reverse mode twice: d<g, u>/dw is linear in u,
 *            and its derivative by u along v is what forward mode computes. The ops of the first of the two are not
 *            needed and never run.
 */
#ifndef TARN_AUTODIFF_CURVATURE_H
#define TARN_AUTODIFF_CURVATURE_H

#include "graph/build.h"

#define CURVATURE_VECTOR "hvp/vector/"
#define CURVATURE_PRODUCT "hvp/product/"
#define CURVATURE_DIAGONAL "hvp/diagonal/"
#define CURVATURE_BASIS "hvp/basis/"

/* `graph` must be fresh from graph_init. TARN_EUNSUPPORTED names an op that cannot be differentiated twice. */
enum tarn_status curvature_build(const struct config *config, const struct sample_shape *sample, uint32_t batch,
				 struct host_arena *scratch, struct graph *graph);

/* Does the task keep the rows of a Lanczos iteration, or the diagonal? */
bool curvature_keeps_basis(const struct config *config);
bool curvature_keeps_diagonal(const struct config *config);

#endif
