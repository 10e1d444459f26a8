/* dag_schedule.c - a schedule of an abstract graph as a list of actions. */
#include "planner/dag_file.h"

#include "base/atomic_file.h"

#include <stdio.h>
#include <string.h>

struct last_reads {
	uint32_t *newest; /* [values]: instance */
	uint32_t *last;   /* [instances]: one past the last step that reads it; its own step + 1 when none does */
	uint32_t instances;
};

static void find_last_reads(const struct problem *p, const struct schedule *schedule, struct last_reads *reads)
{
	for (uint32_t s = 0; s < schedule->steps; s++) {
		uint32_t o = schedule->step[s];
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			reads->last[reads->newest[problem_inputs(p, o)[i]]] = s + 1;
		for (uint32_t i = 0; i < p->op[o].outputs; i++) {
			reads->newest[problem_outputs(p, o)[i]] = reads->instances;
			reads->last[reads->instances++] = s + 1;
		}
	}
}

static const char *value_name(const struct dag *dag, uint32_t value)
{
	uint32_t place = dag->first_name[dag->problem.value[value].producer];
	while (dag->value[place] != value)
		place++;
	return dag->name[place];
}

/* One run of an op: its nodes are computed, then what nobody reads any more is freed. */
static void write_step(const struct dag *dag, uint32_t o, uint32_t step, struct last_reads *reads, FILE *file)
{
	const struct problem *p = &dag->problem;
	for (uint32_t place = dag->first_name[o]; place < dag->first_name[o + 1]; place++)
		fprintf(file, "c %s\n", dag->name[place]);
	for (uint32_t place = dag->first_name[o]; place < dag->first_name[o + 1]; place++) {
		uint32_t value = dag->value[place];
		if (value != VALUE_NONE)
			reads->newest[value] = reads->instances;
		if (value == VALUE_NONE || reads->last[reads->instances++] == step + 1)
			fprintf(file, "f %s\n", dag->name[place]);
	}
	for (uint32_t i = 0; i < p->op[o].inputs; i++) {
		uint32_t value = problem_inputs(p, o)[i];
		if (reads->last[reads->newest[value]] == step + 1)
			fprintf(file, "f %s\n", value_name(dag, value));
	}
}

static enum tarn_status write_actions(const struct dag *dag, const struct schedule *schedule, struct last_reads *reads,
				      const char *path)
{
	struct atomic_file target;
	FILE *file;
	enum tarn_status st = atomic_file_open_stream(&target, path, &file);
	if (st)
		return st;
	find_last_reads(&dag->problem, schedule, reads);
	reads->instances = 0;
	for (uint32_t s = 0; s < schedule->steps; s++)
		write_step(dag, schedule->step[s], s, reads, file);
	return atomic_file_close_stream(&target, file, TARN_OK);
}

enum tarn_status dag_write_schedule(const struct dag *dag, const struct schedule *schedule, const char *path)
{
	struct host_arena arena;
	size_t instances = 1;
	host_arena_init(&arena);
	for (uint32_t s = 0; s < schedule->steps; s++)
		instances += dag->problem.op[schedule->step[s]].outputs;
	struct last_reads reads = { .newest = HOST_ARRAY(&arena, (size_t)dag->problem.values + 1, uint32_t),
				    .last = HOST_ARRAY(&arena, instances, uint32_t) };
	enum tarn_status st = reads.newest && reads.last ? write_actions(dag, schedule, &reads, path) : TARN_ENOMEM;
	host_arena_fini(&arena);
	return st;
}
