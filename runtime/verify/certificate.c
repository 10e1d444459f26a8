/* certificate.c - time, the bound of the peak, and what they need to know about the ops. */
#include "verify/certificate.h"

#include <inttypes.h>

/* Eleven days: no copy is planned to take longer, so that sums of times stay below 2^64. */
#define LONGEST_COPY_NS 1e15

uint32_t needs_producer(const struct needs *n, uint32_t op, uint32_t k)
{
	uint32_t root = n->subject->root[op_inputs(n->graph, op)[k]];
	return n->subject->home[root] == HOME_NONE ? n->graph->tensor[root].producer : OP_NONE;
}

uint64_t needs_output_bytes(const struct needs *n, uint32_t op, uint32_t k)
{
	uint32_t t = op_outputs(n->graph, op)[k];
	return n->subject->version[t] ? 0 : bytes_align(n->graph->tensor[t].bytes);
}

/* Is the root of input k read in part? Then nothing may be written over it. */
static bool is_read_in_part(const struct needs *n, uint32_t op, uint32_t k)
{
	const uint32_t *input = op_inputs(n->graph, op);
	for (uint32_t j = 0; j < n->graph->op[op].inputs; j++)
		if (n->subject->root[input[j]] == n->subject->root[input[k]] && !shows_all(n->subject, input[j]))
			return true;
	return false;
}

bool needs_in_place(const struct needs *n, uint32_t op, bool same_size)
{
	const struct op *o = &n->graph->op[op];
	for (uint32_t k = 0; k < o->inputs && k < 8; k++) {
		uint64_t bytes = bytes_align(n->graph->tensor[op_inputs(n->graph, op)[k]].bytes);
		if (op_row(o->kind)->in_place >> k & 1 && needs_producer(n, op, k) != OP_NONE && o->outputs &&
		    !is_read_in_part(n, op, k) && (!same_size || bytes == needs_output_bytes(n, op, 0)))
			return true;
	}
	return false;
}

static bool is_view(const struct graph *graph, uint32_t op)
{
	return op_row(graph->op[op].kind)->view;
}

static void mark_needed(struct needs *n)
{
	for (uint32_t op = n->graph->ops; op-- > 0;) {
		if (is_view(n->graph, op))
			continue;
		n->needed[op] |= op_row(n->graph->op[op].kind)->effect;
		for (uint32_t k = 0; n->needed[op] && k < n->graph->op[op].inputs; k++) {
			uint32_t producer = needs_producer(n, op, k);
			if (producer != OP_NONE)
				n->needed[producer] = true;
		}
	}
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
	while (a) {
		uint64_t rest = b % a;
		b = a;
		a = rest;
	}
	return b;
}

/* When the ops so far are done, and the copies. */
struct streams {
	uint64_t now, copies_end;
	uint64_t end[PLAN_COPY_SLOTS];
	uint32_t copies;
};

/* The replay has shown that slots are used in turn. */
static void follow_copy(const struct plan *plan, struct streams *s, const struct instruction *copy)
{
	if (copy->kind == INSTRUCTION_STORE_WAIT || copy->kind == INSTRUCTION_FETCH_WAIT) {
		if (s->end[copy->slot] > s->now)
			s->now = s->end[copy->slot];
		return;
	}
	double ns = plan->copy_bandwidth ? (double)bytes_align(copy->bytes) * 1e9 / (double)plan->copy_bandwidth : 0;
	uint64_t begin = s->copies_end > s->now ? s->copies_end : s->now;
	s->copies_end = begin + (ns < LONGEST_COPY_NS ? (uint64_t)ns : (uint64_t)LONGEST_COPY_NS);
	s->end[copy->slot] = s->copies_end;
	s->copies++;
}

/* The replay has shown that a needed op runs: what an effect reads was there. */
static enum tarn_status check_time(struct needs *n, struct host_arena *scratch)
{
	const struct program *program = n->subject->program;
	bool *ran = HOST_ARRAY(scratch, n->graph->ops, bool);
	uint64_t once = 0;
	uint32_t again = 0;
	bool fits = true;
	if (!ran)
		return TARN_ENOMEM;
	struct streams streams = { .now = 0 };
	for (uint32_t i = 0; i < program->instructions; i++) {
		const struct instruction *instruction = &program->instruction[i];
		if (instruction->kind != INSTRUCTION_RUN) {
			follow_copy(n->subject->plan, &streams, instruction);
			continue;
		}
		uint64_t cost = program->cost_ns[instruction->op];
		fits &= bytes_add(streams.now, cost, &streams.now);
		if (!ran[instruction->op])
			once += cost;
		again += ran[instruction->op];
		ran[instruction->op] = true;
		if (instruction->workspace_bytes < n->workspace[instruction->op])
			n->workspace[instruction->op] = instruction->workspace_bytes;
	}
	uint64_t time = streams.now;
	if (streams.copies && program->proof_terms)
		return verify_refuse(n->subject, "a bound of time is proved without copies, and there are %u",
				     streams.copies);
	if (!fits || time != program->time_ns || once != program->base_time_ns)
		return verify_refuse(n->subject,
				     "the instructions take %" PRIu64 " ns, each op once %" PRIu64
				     "; the plan says %" PRIu64 " and %" PRIu64,
				     time, once, program->time_ns, program->base_time_ns);
	if (again != program->recomputed_ops)
		return verify_refuse(n->subject, "%u instructions run an op again, the plan says %u", again,
				     program->recomputed_ops);
	for (uint32_t op = 0; op < n->graph->ops; op++) {
		if (!n->needed[op])
			continue;
		n->base_ns += program->cost_ns[op];
		n->divisor_ns = common_divisor(program->cost_ns[op], n->divisor_ns);
	}
	return TARN_OK;
}

/* Bytes that a run of the op needs at least, whatever else is kept. */
static uint64_t step_bytes(const struct needs *n, uint32_t op)
{
	const struct op *o = &n->graph->op[op];
	const uint32_t *input = op_inputs(n->graph, op);
	uint64_t bytes = bytes_align(n->workspace[op]);
	for (uint32_t k = 0; k < o->inputs; k++) {
		bool again = false;
		for (uint32_t j = 0; j < k && !again; j++)
			again = n->subject->root[input[j]] == n->subject->root[input[k]];
		if (!again && needs_producer(n, op, k) != OP_NONE)
			bytes += bytes_align(n->graph->tensor[n->subject->root[input[k]]].bytes);
	}
	for (uint32_t k = needs_in_place(n, op, true); k < o->outputs; k++)
		bytes += needs_output_bytes(n, op, k);
	return bytes;
}

static enum tarn_status check_peak_bound(const struct needs *n)
{
	const struct program *program = n->subject->program;
	uint64_t most = 0;
	for (uint32_t op = 0; op < n->graph->ops; op++) {
		uint64_t bytes = n->needed[op] ? step_bytes(n, op) : 0;
		most = bytes > most ? bytes : most;
	}
	most += n->subject->plan->persistent_bytes;
	if (program->peak_bound_bytes != most)
		return verify_refuse(n->subject,
				     "the largest op needs %" PRIu64 " bytes with the persistent part, the plan says "
				     "that no peak is below %" PRIu64,
				     most, program->peak_bound_bytes);
	return TARN_OK;
}

enum tarn_status verify_certificate(const struct subject *subject, struct host_arena *scratch)
{
	const struct graph *graph = &subject->program->graph;
	struct needs n = { .subject = subject,
			   .graph = graph,
			   .needed = HOST_ARRAY(scratch, graph->ops, bool),
			   .workspace = HOST_ARRAY(scratch, graph->ops, uint64_t) };
	if (!n.needed || !n.workspace)
		return TARN_ENOMEM;
	for (uint32_t op = 0; op < graph->ops; op++)
		n.workspace[op] = UINT64_MAX;
	mark_needed(&n);
	enum tarn_status st = check_time(&n, scratch);
	if (!st)
		st = check_peak_bound(&n);
	return st ? st : verify_time_bound(&n, scratch);
}
