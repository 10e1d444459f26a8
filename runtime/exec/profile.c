/* profile.c - see profile.h. */
#include "exec/profile.h"

#include "base/atomic_file.h"
#include "graph/signature.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now_ns(clockid_t clock)
{
	struct timespec now;
	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* What the clocks say: of the wall, of this thread, of all threads. */
struct moment {
	uint64_t wall, thread, process;
};

static struct moment now(void)
{
	return (struct moment){ .process = now_ns(CLOCK_PROCESS_CPUTIME_ID),
				.thread = now_ns(CLOCK_THREAD_CPUTIME_ID),
				.wall = now_ns(CLOCK_MONOTONIC) };
}

/*
 * Time since `start`. Where host threads compute, only that in which they did: other programs on the machine may halt
 * them at any time. This thread works or waits busily while others do; should it sleep, their mean counts.
 */
static uint64_t time_since(const struct moment *start, bool on_host, uint32_t threads)
{
	struct moment end = now();
	uint64_t wall = end.wall - start->wall, own = end.thread - start->thread;
	uint64_t mean = (end.process - start->process) / threads, busy = own > mean ? own : mean;
	return on_host && busy < wall ? busy : wall;
}

static int compare_times(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

struct measured {
	char signature[SIGNATURE_TEXT];
	uint64_t ns;
};

static int compare_signatures(const void *a, const void *b)
{
	return strcmp(((const struct measured *)a)->signature, ((const struct measured *)b)->signature);
}

/* time[instruction * rounds + round], in nanoseconds. */
static enum tarn_status run_rounds(struct executor *executor, uint32_t index, uint32_t rounds, uint64_t *time)
{
	struct device *device = executor->device;
	uint32_t count = executor->plan->program[index].instructions, threads = executor->plan->threads;
	bool on_host = device->ops->host_address(device, 0) != NULL;
	for (uint32_t round = 0; round < rounds; round++)
		for (uint32_t number = 0; number < count; number++) {
			struct moment start = now();
			enum tarn_status st = exec_launch(executor, index, number);
			if (!st)
				st = device->ops->synchronize(device);
			if (st)
				return st;
			time[(size_t)number * rounds + round] = time_since(&start, on_host, threads);
		}
	return TARN_OK;
}

/* Instructions of one signature: the median of all their runs. Sorted by signature, each once; returns how many. */
static uint32_t gather(const struct program *program, uint32_t rounds, uint64_t *time, struct measured *out)
{
	uint32_t distinct = 0, runs = 0;
	for (uint32_t number = 0; number < program->instructions; number++) {
		uint64_t *own = time + (size_t)number * rounds;
		qsort(own, rounds, sizeof *own, compare_times);
		if (program->instruction[number].kind != INSTRUCTION_RUN)
			continue;
		op_signature(&program->graph, program->instruction[number].op, out[runs].signature);
		out[runs++].ns = own[rounds / 2];
	}
	qsort(out, runs, sizeof *out, compare_signatures);
	for (uint32_t first = 0, last; first < runs; first = last) {
		uint64_t sum = 0;
		for (last = first; last < runs && !strcmp(out[first].signature, out[last].signature); last++)
			sum += out[last].ns;
		uint64_t mean = sum / (last - first);
		out[distinct] = out[first];
		out[distinct++].ns = mean;
	}
	return distinct;
}

static enum tarn_status write_lines(const struct plan *plan, uint32_t rounds, const struct measured *measured,
				    uint32_t distinct, const char *path)
{
	struct atomic_file file;
	char line[SIGNATURE_TEXT + 64];
	enum tarn_status st = atomic_file_open(&file, path);
	if (st)
		return st;
	int length =
		snprintf(line, sizeof line,
			 PROFILE_HEADER " driver %s threads %" PRIu32 ", median of %" PRIu32 " runs: nanoseconds, op\n",
			 plan->driver, plan->threads, rounds);
	st = atomic_file_write(&file, line, (size_t)length);
	for (uint32_t i = 0; i < distinct && !st; i++) {
		length = snprintf(line, sizeof line, "%" PRIu64 "\t%s\n", measured[i].ns, measured[i].signature);
		st = atomic_file_write(&file, line, (size_t)length);
	}
	if (!st)
		st = atomic_file_commit(&file, NULL);
	atomic_file_abandon(&file);
	return st;
}

enum tarn_status profile_write(struct executor *executor, uint32_t index, uint32_t rounds, struct host_arena *scratch,
			       const char *path, struct profile_summary *summary)
{
	const struct program *program = &executor->plan->program[index];
	struct host_mark mark = host_arena_mark(scratch);
	enum tarn_status st = TARN_ENOMEM;
	uint64_t *time = HOST_ARRAY(scratch, (size_t)program->instructions * rounds, uint64_t);
	struct measured *measured = HOST_ARRAY(scratch, program->instructions, struct measured);
	if (!time || !measured)
		goto out;
	st = run_rounds(executor, index, rounds, time);
	if (st)
		goto out;
	*summary = (struct profile_summary){ .planned_ns = program->time_ns };
	summary->distinct_ops = gather(program, rounds, time, measured);
	for (uint32_t number = 0; number < program->instructions; number++)
		summary->measured_ns += time[(size_t)number * rounds + rounds / 2];
	st = write_lines(executor->plan, rounds, measured, summary->distinct_ops, path);
out:
	host_arena_release(scratch, mark);
	return st;
}
