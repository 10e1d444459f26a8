/* launch_attention.c - attention in tiles, and its gradients: a kernel for each of dq, dk and dv. */
#include "cuda/launch.h"

#include <math.h>

/* Rows of a tile times the width of a head must fit in shared memory beside the tiles themselves. */
#define WIDEST_HEAD 256u

/* q, k and v are operands q, q + 1 and q + 2. */
static enum tarn_status describe(const struct launch_call *call, uint32_t q, struct attention_parameters *p)
{
	const struct tensor *query = launch_tensor(call, q), *key = launch_tensor(call, q + 1);
	*p = (struct attention_parameters){ .q = launch_address(call, q),
					    .k = launch_address(call, q + 1),
					    .v = launch_address(call, q + 2) };
	p->queries = query->dim[1];
	p->keys = key->dim[1];
	p->heads = query->dim[2];
	p->groups = key->dim[2];
	p->width = query->dim[3];
	p->causal = call->op->attr.causal;
	p->scale = call->op->attr.alpha > 0.0f ? call->op->attr.alpha : (float)(1.0 / sqrt((double)p->width));
	if (p->width > WIDEST_HEAD)
		return launch_fail(call, "heads of %u elements; at most %u", p->width, WIDEST_HEAD);
	if (p->queries > INT32_MAX || p->keys > INT32_MAX)
		return launch_fail(call, "%u queries and %u keys; at most %d", p->queries, p->keys, INT32_MAX);
	return TARN_OK;
}

/* A block for each tile of `rows` rows of each of `heads` heads of a sample. */
static enum tarn_status add_tiles(struct launch_call *call, const char *function, uint32_t rows, uint32_t heads,
				  const struct attention_parameters *p)
{
	uint64_t samples = launch_output(call, 0)->dim[0];
	struct extent3 grid = { launch_divide(rows, ATTENTION_TILE) * heads * samples, 1, 1 };
	uint32_t shared = ATTENTION_TILE * p->width * (uint32_t)sizeof(float);
	return launch_add_shared(call, function, grid, launch_flat_block(), shared, p, sizeof *p);
}

/* q, k, v -> o, lse */
enum tarn_status launch_attention(struct launch_call *call)
{
	struct attention_parameters p;
	enum tarn_status st = describe(call, 0, &p);
	p.out = launch_output_address(call, 0);
	p.new_lse = launch_output_address(call, 1);
	return st ? st : add_tiles(call, "tarn_attention_f32", p.queries, p.heads, &p);
}

/* delta = sum(do * o) of each row of o, into the workspace. */
static enum tarn_status add_delta(struct launch_call *call)
{
	const struct tensor *o = launch_tensor(call, 4);
	struct launch_rows cut = launch_cut_rows(tensor_rows(o), launch_channels(o), false);
	struct row_parameters p = launch_row_parameters(tensor_rows(o), launch_channels(o), &cut);
	p.dy = launch_address(call, 0);
	p.x = launch_address(call, 4);
	p.new_mean = call->workspace;
	call->workspace_bytes = tensor_rows(o) * sizeof(float);
	return LAUNCH_ADD(call, "tarn_row_dot_f32", cut.grid, cut.block, p);
}

/* do, q, k, v, o, lse -> dq, dk, dv */
enum tarn_status launch_attention_grad(struct launch_call *call)
{
	struct attention_parameters p;
	enum tarn_status st = describe(call, 1, &p);
	if (!st)
		st = add_delta(call);
	p.dout = launch_address(call, 0);
	p.lse = launch_address(call, 5);
	p.delta = call->workspace;
	p.out = launch_output_address(call, 0);
	if (!st)
		st = add_tiles(call, "tarn_attention_grad_query_f32", p.queries, p.heads, &p);
	p.out = launch_output_address(call, 1);
	if (!st)
		st = add_tiles(call, "tarn_attention_grad_key_f32", p.keys, p.groups, &p);
	p.out = launch_output_address(call, 2);
	return st ? st : add_tiles(call, "tarn_attention_grad_value_f32", p.keys, p.groups, &p);
}
