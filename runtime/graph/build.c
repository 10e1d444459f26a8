/* build.c - see build.h. */
#include "graph/build.h"
#include "autodiff/autodiff.h"
#include "autodiff/optimizer.h"
#include "config/yaml_tree.h"
#include "graph/layer_list.h"
#include "graph/simplify.h"
#include "models.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What is around the body of every network. */
struct frame {
	uint32_t input, target; /* of this step, outputs of INPUT ops */
	uint32_t loss_metric, correct_metric;
};

/* The persistent slot and the op that reads it. */
static enum tarn_status add_staging(struct graph *graph, const char *slot, const char *name, enum dtype dtype,
				    const uint32_t *dim, uint32_t rank, uint32_t *out)
{
	return graph_add_persistent(graph, slot, ROLE_STAGING, dtype, dim, rank, out) ?
		       tarn_fail_prefix(TARN_EINVAL, "%s", name) :
		       TARN_OK;
}

static enum tarn_status add_metric(struct graph *graph, const char *name, uint32_t *out)
{
	const uint32_t one = 1;
	return graph_add_persistent(graph, name, ROLE_METRIC, DTYPE_F32, &one, 1, out);
}
