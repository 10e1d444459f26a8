/* certify.c - see certify.h. */
#include "planner/certify.h"

#include "planner/bound.h"

#include <string.h>

/* The problem's ops become the graph's. */
static enum tarn_status copy_proof(const struct graph_problem *problem, const struct proof *proof,
				   struct host_arena *arena, struct program *program)
{
	program->proof = HOST_ARRAY(arena, (size_t)proof->terms + 1, struct proof_term);
	if (!program->proof)
		return TARN_ENOMEM;
	program->proof_terms = proof->terms;
	for (uint32_t i = 0; i < proof->terms; i++) {
		struct proof_term term = proof->term[i];
		if (term.kind != PROOF_FITS)
			term.op = problem->graph_op[term.op];
		if (term.kind == PROOF_READ)
			term.other = problem->graph_op[term.other];
		program->proof[i] = term;
	}
	return TARN_OK;
}

enum tarn_status certify_program(const struct plan *plan, const struct graph_problem *problem, uint64_t budget,
				 struct host_arena *arena, struct program *program)
{
	struct host_arena scratch;
	struct dependence dependence;
	struct proof proof;
	program->cost_ns = HOST_ARRAY(arena, program->graph.ops, uint64_t);
	if (!program->cost_ns)
		return TARN_ENOMEM;
	for (uint32_t o = 0; o < problem->problem.ops; o++)
		program->cost_ns[problem->graph_op[o]] = problem->problem.op[o].cost_ns;
	host_arena_init(&scratch);
	enum tarn_status st = dependence_find(&problem->problem, &scratch, &dependence);
	if (!st)
		st = bound_prove(&dependence, budget, program->time_ns, &scratch, &program->time_bound_ns, &proof);
	if (!st)
		st = copy_proof(problem, &proof, arena, program);
	if (!st)
		program->peak_bound_bytes = plan->persistent_bytes + bound_peak(&dependence);
	host_arena_fini(&scratch);
	return st;
}
