/* dag_dump.c - see dag_dump.h. */
#include "planner/dag_dump.h"

#include "base/atomic_file.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct dump {
	const struct plan *plan;
	const struct graph *graph;
	const struct graph_problem *problem;
	uint32_t *home;   /* [tensors]: place of a persistent tensor in the plan's table */
	uint32_t *reader; /* [persistents]: the last node that was said to read it */
	uint8_t *read;    /* [ops]: another op reads what it makes */
	uint32_t nodes;   /* written so far, of ops */
	FILE *file;
};

/* Ids are words: other characters become _, and what stands before the colon keeps them apart. */
static void write_word(FILE *file, const char *name)
{
	for (; *name; name++)
		fputc(isalnum((unsigned char)*name) || strchr("_-./", *name) ? *name : '_', file);
}

static void write_source_id(const struct dump *d, uint32_t place)
{
	fprintf(d->file, "\"s%u:", place);
	write_word(d->file, d->plan->program[0].graph.text + d->plan->persistent[place].name);
	fputc('"', d->file);
}

/* "12:conv1" for the first node of an op, "12.1:conv1" for its second. */
static void write_op_id(const struct dump *d, uint32_t number, uint32_t node)
{
	fprintf(d->file, node ? "\"%u.%u:" : "\"%u:", number, node);
	write_word(d->file, op_name(d->graph, d->problem->graph_op[number]));
	fputc('"', d->file);
}

static void write_sources(const struct dump *d)
{
	for (uint32_t i = 0; i < d->plan->persistents; i++) {
		fputs(i ? ",\n  {\"id\": " : "  {\"id\": ", d->file);
		write_source_id(d, i);
		fprintf(d->file, ", \"kind\": \"source\", \"time\": 0, \"bytes\": %" PRIu64 ", \"inputs\": []}",
			bytes_align(d->plan->persistent[i].bytes));
	}
}

static void write_inputs(const struct dump *d, uint32_t number)
{
	const struct problem *p = &d->problem->problem;
	const struct op *op = &d->graph->op[d->problem->graph_op[number]];
	const char *between = "";
	fputs(", \"inputs\": [", d->file);
	for (uint32_t i = 0; i < p->op[number].inputs; i++) {
		const struct problem_value *value = &p->value[problem_inputs(p, number)[i]];
		fputs(between, d->file);
		write_op_id(d, value->producer, value->output);
		between = ", ";
	}
	for (uint32_t i = 0; i < op->inputs; i++) {
		uint32_t t = d->graph->operand[op->first_operand + i], home = d->home[d->graph->tensor[t].storage];
		if (home == UINT32_MAX || d->reader[home] == d->nodes)
			continue;
		d->reader[home] = d->nodes;
		fputs(between, d->file);
		write_source_id(d, home);
		between = ", ";
	}
	fputc(']', d->file);
}

static void write_afters(const struct dump *d, const struct problem_op *op)
{
	for (uint32_t i = 0; i < op->afters; i++) {
		fputs(i ? ", " : ", \"after\": [", d->file);
		write_op_id(d, d->problem->problem.after[op->first_after + i], 0);
	}
	if (op->afters)
		fputc(']', d->file);
}

static void write_op(struct dump *d, uint32_t number)
{
	const struct problem *p = &d->problem->problem;
	const struct problem_op *op = &p->op[number];
	for (uint32_t node = 0; node < op->outputs || !node; node++) {
		uint64_t bytes = op->outputs ? p->value[problem_outputs(p, number)[node]].bytes : 0;
		fputs(",\n  {\"id\": ", d->file);
		write_op_id(d, number, node);
		fprintf(d->file,
			", \"kind\": \"op\", \"time\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"workspace\": %" PRIu64
			", \"phase\": \"%s\"",
			node ? 0 : op->cost_ns, bytes, node ? 0 : op->workspace, op->forward ? "fwd" : "bwd");
		if (node) {
			fputs(", \"with\": ", d->file);
			write_op_id(d, number, 0);
		} else {
			if (op->once)
				fputs(", \"once\": true", d->file);
			write_afters(d, op);
		}
		d->nodes++;
		write_inputs(d, number);
		fputc('}', d->file);
	}
}

/* What other ops read runs for their sake. */
static void write_targets(const struct dump *d)
{
	const struct problem *p = &d->problem->problem;
	const char *between = "";
	for (uint32_t number = 0; number < p->ops; number++)
		for (uint32_t i = 0; i < p->op[number].inputs; i++)
			d->read[p->value[problem_inputs(p, number)[i]].producer] = 1;
	for (uint32_t number = 0; number < p->ops; number++) {
		if (d->read[number])
			continue;
		fputs(between, d->file);
		write_op_id(d, number, 0);
		between = ", ";
	}
}

/* Tables of programs name the same tensors. */
static void find_homes(struct dump *d)
{
	memset(d->home, 0xFF, d->graph->tensors * sizeof *d->home);
	for (uint32_t i = 0; i < d->plan->persistents; i++) {
		const char *name = d->plan->program[0].graph.text + d->plan->persistent[i].name;
		uint32_t tensor = graph_find(d->graph, name);
		if (tensor != TENSOR_NONE)
			d->home[tensor] = i;
	}
}

static enum tarn_status write_graph(struct dump *d, const char *path)
{
	struct atomic_file file;
	enum tarn_status st = atomic_file_open_stream(&file, path, &d->file);
	if (st)
		return st;
	fputs("{\"nodes\": [\n", d->file);
	write_sources(d);
	for (uint32_t number = 0; number < d->problem->problem.ops; number++)
		write_op(d, number);
	fputs("\n ],\n \"targets\": [", d->file);
	write_targets(d);
	fputs("]}\n", d->file);
	return atomic_file_close_stream(&file, d->file, TARN_OK);
}

enum tarn_status dag_dump(const struct plan *plan, const struct program *program, const struct graph_problem *problem,
			  struct host_arena *scratch, const char *path)
{
	struct host_mark mark = host_arena_mark(scratch);
	struct dump d = { .plan = plan,
			  .graph = &program->graph,
			  .problem = problem,
			  .home = HOST_ARRAY(scratch, program->graph.tensors, uint32_t),
			  .reader = HOST_ARRAY(scratch, plan->persistents, uint32_t),
			  .read = HOST_ARRAY(scratch, problem->problem.ops, uint8_t) };
	enum tarn_status st = TARN_ENOMEM;
	if (d.home && d.reader && d.read) {
		find_homes(&d);
		st = write_graph(&d, path);
	}
	host_arena_release(scratch, mark);
	return st;
}
