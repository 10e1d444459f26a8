/*
 * proof.c - the bound of a program's time, by the weighted inequalities that the plan gives (plan/proof.h).
 *
 * Any weights prove something; what must be right is that each inequality holds for this graph. The sum is formed in
 * doubles and lowered by more than they can err.
 */
#include "verify/certificate.h"

#include <inttypes.h>
#include <math.h>

/* Relative to the sum of magnitudes: above 2^-53 times the number of terms. */
#define SAFETY 1e-10
#define MOST_CUTS 4096u
#define MOST_VARIABLES ((size_t)1 << 24)

struct proof {
	const struct needs *needs;
	uint32_t cuts, ops;
	const struct proof_term *term; /* the first `cuts` name the cuts */
	uint32_t *reached;             /* [ops]: 1 + the last cut that the op is, or needs; 0: none */
	uint64_t *least;               /* [ops]: smallest output; 0 without outputs in memory */
	double *runs, *there;          /* [interval * ops + op]: cost that is left */
	double sum, magnitude;
};

static enum tarn_status refuse_term(const struct proof *p, const struct proof_term *term, const char *why)
{
	return verify_refuse(p->needs->subject, "proof of the least time: term %u (kind %u, cut %u, ops %u and %u): %s",
			     (uint32_t)(term - p->needs->subject->program->proof), term->kind, term->cut, term->op,
			     term->other, why);
}

static bool reads(const struct proof *p, uint32_t reader, uint32_t producer)
{
	for (uint32_t k = 0; k < p->needs->graph->op[reader].inputs; k++)
		if (needs_producer(p->needs, reader, k) == producer)
			return true;
	return false;
}

/* Ops stand in an order in which each comes after those it needs: one pass finds what needs which cut. */
static enum tarn_status find_reached(struct proof *p)
{
	const struct graph *graph = p->needs->graph;
	uint32_t next = 0;
	for (uint32_t op = 0; op < p->ops; op++) {
		for (uint32_t k = 0; k < graph->op[op].inputs; k++) {
			uint32_t producer = needs_producer(p->needs, op, k);
			if (producer != OP_NONE && p->reached[producer] > p->reached[op])
				p->reached[op] = p->reached[producer];
		}
		if (next == p->cuts || p->term[next].op != op)
			continue;
		if (p->reached[op] != next || !p->needs->needed[op])
			return refuse_term(p, &p->term[next], "the op does not need the cut before, or need not run");
		p->reached[op] = ++next;
	}
	return next == p->cuts ? TARN_OK : refuse_term(p, &p->term[next], "cuts do not stand in the order of ops");
}

static bool may_run_in(const struct proof *p, uint32_t op, uint32_t interval)
{
	uint32_t cut = p->reached[op];
	return !cut || (p->term[cut - 1].op == op ? interval + 1 >= cut : interval >= cut);
}

static void find_least(struct proof *p)
{
	for (uint32_t op = 0; op < p->ops; op++)
		for (uint32_t k = 0; k < p->needs->graph->op[op].outputs; k++) {
			uint64_t bytes = needs_output_bytes(p->needs, op, k);
			if (bytes && (!p->least[op] || bytes < p->least[op]))
				p->least[op] = bytes;
		}
}

/* weight * (value * variable) on the left side of an inequality `... >= right`. */
static void take(struct proof *p, double *variable, double weighted)
{
	*variable -= weighted;
	p->magnitude += fabs(weighted);
}

static void add_right(struct proof *p, double weighted)
{
	p->sum += weighted;
	p->magnitude += fabs(weighted);
}

/* `variable` <= runs(cut, op) + there(cut - 1, op) */
static void add_source(struct proof *p, const struct proof_term *term, double *variable)
{
	take(p, variable, -(double)term->weight);
	take(p, &p->runs[(size_t)term->cut * p->ops + term->op], term->weight);
	if (term->cut)
		take(p, &p->there[((size_t)term->cut - 1) * p->ops + term->op], term->weight);
}

static void add_fits(struct proof *p, const struct proof_term *term)
{
	const struct subject *subject = p->needs->subject;
	uint32_t cut = p->term[term->cut].op;
	double weight = term->weight, own = (double)bytes_align(p->needs->workspace[cut]);
	double limit = (double)(subject->plan->budget_bytes - subject->plan->persistent_bytes);
	for (uint32_t k = needs_in_place(p->needs, cut, false); k < p->needs->graph->op[cut].outputs; k++)
		own += (double)needs_output_bytes(p->needs, cut, k);
	add_right(p, weight * (own - limit));
	for (uint32_t op = 0; op < p->ops; op++)
		if (op != cut && p->least[op])
			take(p, &p->there[(size_t)term->cut * p->ops + op], -weight * (double)p->least[op]);
}

static enum tarn_status add_term(struct proof *p, const struct proof_term *term)
{
	size_t at = (size_t)term->cut * p->ops + term->op;
	if (!(term->weight >= 0) || !isfinite(term->weight))
		return refuse_term(p, term, "a weight is a number that is not below 0");
	if (term->op >= p->ops || term->other >= p->ops || term->cut > p->cuts ||
	    (term->cut == p->cuts && term->kind != PROOF_READ))
		return refuse_term(p, term, "there is no such op or cut");
	switch (term->kind) {
	case PROOF_CUT:
		take(p, &p->runs[at], term->weight);
		add_right(p, term->weight);
		return TARN_OK;
	case PROOF_FITS:
		add_fits(p, term);
		return TARN_OK;
	case PROOF_THERE:
		add_source(p, term, &p->there[at]);
		return TARN_OK;
	case PROOF_READ:
		if (!reads(p, term->other, term->op))
			return refuse_term(p, term, "the second op reads nothing that the first makes");
		add_source(p, term, &p->runs[(size_t)term->cut * p->ops + term->other]);
		return TARN_OK;
	case PROOF_INPUT:
		if (!reads(p, p->term[term->cut].op, term->op))
			return refuse_term(p, term, "the cut reads nothing that the op makes");
		take(p, &p->there[at], term->weight);
		add_right(p, term->weight);
		return TARN_OK;
	case PROOF_ONCE:
		if (!p->needs->needed[term->op])
			return refuse_term(p, term, "no effect needs the op");
		for (uint32_t j = 0; j <= p->cuts; j++)
			take(p, &p->runs[(size_t)j * p->ops + term->op], term->weight);
		add_right(p, term->weight);
		return TARN_OK;
	default:
		return refuse_term(p, term, "there is no such kind");
	}
}

/* Variables lie between 0 and 1: what is left below 0 of their costs counts. Those that must be 0 count nothing. */
static double proved_time(struct proof *p)
{
	for (uint32_t j = 0; j <= p->cuts; j++)
		for (uint32_t op = 0; op < p->ops; op++) {
			size_t at = (size_t)j * p->ops + op;
			if (!may_run_in(p, op, j))
				continue;
			p->sum += p->runs[at] < 0 ? p->runs[at] : 0;
			if (j < p->cuts && p->least[op])
				p->sum += p->there[at] < 0 ? p->there[at] : 0;
		}
	return p->sum - SAFETY * p->magnitude;
}

static enum tarn_status proof_open(struct proof *p, struct host_arena *scratch)
{
	const struct program *program = p->needs->subject->program;
	while (p->cuts < program->proof_terms && program->proof[p->cuts].kind == PROOF_CUT)
		p->cuts++;
	for (uint32_t i = 0; i < p->cuts; i++)
		if (p->term[i].cut != i || p->term[i].op >= p->ops)
			return refuse_term(p, &p->term[i], "cuts are numbered from 0");
	size_t variables = ((size_t)p->cuts + 1) * p->ops;
	if (p->cuts > MOST_CUTS || variables > MOST_VARIABLES)
		return verify_refuse(p->needs->subject, "proof of the least time: %u cuts of %u ops are too many",
				     p->cuts, p->ops);
	p->reached = HOST_ARRAY(scratch, p->ops, uint32_t);
	p->least = HOST_ARRAY(scratch, p->ops, uint64_t);
	p->runs = HOST_ARRAY(scratch, variables, double);
	p->there = HOST_ARRAY(scratch, variables, double);
	if (!p->reached || !p->least || !p->runs || !p->there)
		return TARN_ENOMEM;
	for (size_t i = 0; i < variables; i++) {
		p->runs[i] = (double)program->cost_ns[i % p->ops];
		p->magnitude += p->runs[i];
	}
	find_least(p);
	return find_reached(p);
}

/*
 * Every schedule runs the needed ops and then whole runs of some: its time is the base plus a multiple of the common
 * divisor of the costs. The bound may be the least such number that the proof does not exclude.
 */
enum tarn_status verify_time_bound(const struct needs *needs, struct host_arena *scratch)
{
	const struct program *program = needs->subject->program;
	struct proof p = { .needs = needs, .ops = needs->graph->ops, .term = program->proof };
	uint64_t above = program->time_bound_ns - needs->base_ns;
	if (!program->proof_terms && program->time_bound_ns == needs->base_ns)
		return TARN_OK;
	enum tarn_status st = proof_open(&p, scratch);
	for (uint32_t i = 0; !st && i < program->proof_terms; i++)
		st = i < p.cuts || p.term[i].kind != PROOF_CUT
			     ? add_term(&p, &p.term[i])
			     : refuse_term(&p, &p.term[i], "cuts come before the other terms");
	if (st)
		return st;
	double proved = proved_time(&p);
	if (program->time_bound_ns <= needs->base_ns || !needs->divisor_ns || above % needs->divisor_ns ||
	    (double)(program->time_bound_ns - needs->divisor_ns) >= proved)
		return verify_refuse(
			needs->subject,
			"no schedule is proved to take more than %.0f ns, the plan says that none takes less "
			"than %" PRIu64,
			proved > (double)needs->base_ns ? proved : (double)needs->base_ns, program->time_bound_ns);
	return TARN_OK;
}
