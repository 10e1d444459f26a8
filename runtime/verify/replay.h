/*
 * replay.h - the parts of the verifier, in the order in which verify_plan calls them. Private to verify/.
 *
 * links.c reads a program's graph and says for each tensor whose value and whose memory it stands for; home.c ties
 * persistent tensors to the plan's table; replay.c runs the instructions on the arena map and finds the peak.
 */
#ifndef TARN_VERIFY_REPLAY_H
#define TARN_VERIFY_REPLAY_H

#include "plan/plan.h"

#define HOME_NONE UINT32_MAX

struct subject {
	const struct plan *plan;
	const struct program *program;
	uint32_t *root;  /* [tensors]: the tensor that a view shows; its own id for all others */
	uint64_t *shift; /* [tensors]: bytes from the beginning of the root to what the view shows of it */
	/* [tensors]: place in the persistent table of the tensor, of what it shows, or of what it is a version of. */
	uint32_t *home;
	bool *version; /* [tensors]: a version of persistent storage that an effect writes */
};

/* Says that `subject` is refused, and where; use as return verify_refuse(...). */
enum tarn_status verify_refuse(const struct subject *subject, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Fills root, shift and version; home stays HOME_NONE except for the persistent tensors' followers (see home.c). */
enum tarn_status verify_links(struct subject *subject, struct host_arena *scratch);

/* The persistent table by itself: inside its part of the arena, apart from one another, names unique. */
enum tarn_status verify_table(const struct plan *plan, struct host_arena *scratch);

/*
 * Finds each persistent tensor of the program in the table. largest[i] grows to the most bytes that a program uses of
 * entry i.
 */
enum tarn_status verify_homes(struct subject *subject, struct host_arena *scratch, uint64_t *largest);

/* Does the tensor show all of its root? Only then may an output take its place over. */
static inline bool shows_all(const struct subject *subject, uint32_t tensor)
{
	const struct tensor *t = subject->program->graph.tensor;
	return t[tensor].bytes == t[subject->root[tensor]].bytes;
}

enum tarn_status verify_replay(const struct subject *subject, struct host_arena *scratch);

#endif
