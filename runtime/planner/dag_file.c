/* dag_file.c - JSON graphs of training steps, read with the YAML reader (JSON is YAML), and schedules as text. */
#include "planner/dag_file.h"

#include "base/bytes.h"
#include "config/yaml_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#define MAX_NODES 64000000u
#define MAX_FILE_BYTES ((size_t)4 << 30)
/* Sums of sizes stay far below 2^63, and exact in a double for all sizes in use. */
#define MAX_BYTES ((int64_t)1 << 52)
#define MAX_TIME 1e15
/* Steps of time where a file has fractions. */
#define FRACTION 1e-6

#define NOT_AN_OP UINT32_MAX

/* One node of the file; `op` is its number in the problem. */
struct entry {
	const struct yaml_node *node;
	const char *id;
	uint32_t op;
};

struct loader {
	struct host_arena *arena;
	struct dag *dag;
	struct entry *entry;
	uint32_t entries;
	uint32_t *slot;         /* open addressing: 1 + index of an entry, or 0 */
	uint32_t slots;         /* a power of two */
	double *time;           /* [ops] as in the file */
	uint8_t *target, *read; /* [ops] */
};

static uint32_t *find_slot(const struct loader *k, const char *id)
{
	uint64_t hash = XXH64(id, strlen(id), 0);
	uint32_t at = (uint32_t)hash & (k->slots - 1);
	while (k->slot[at] && strcmp(k->entry[k->slot[at] - 1].id, id))
		at = (at + 1) & (k->slots - 1);
	return &k->slot[at];
}

static enum tarn_status require(const struct yaml_node *node, const char *key, enum yaml_kind kind,
				const struct yaml_node **out)
{
	static const char *const kinds[] = { "a single value", "a list", "a map" };
	*out = node->kind == YAML_MAP ? yaml_find(node, key) : NULL;
	if (!*out)
		return yaml_fail(node, "\"%s\" is missing", key);
	if ((*out)->kind != kind)
		return yaml_fail(*out, "\"%s\" must be %s", key, kinds[kind]);
	return TARN_OK;
}

static enum tarn_status read_size(const struct yaml_node *node, const char *key, bool optional, uint64_t *out)
{
	const struct yaml_node *found = yaml_find(node, key);
	int64_t bytes = 0;
	if (!found && !optional)
		return yaml_fail(node, "\"%s\" is missing", key);
	enum tarn_status st = found ? yaml_read_integer(found, 0, MAX_BYTES, &bytes) : TARN_OK;
	*out = (uint64_t)bytes;
	return st;
}

static bool has_white_space(const char *text)
{
	return !*text || strpbrk(text, " \t\r\n#") != NULL;
}

/* Names and kinds; ops get their numbers. */
static enum tarn_status read_names(struct loader *k, const struct yaml_node *nodes, uint32_t *ops, uint32_t *edges)
{
	static const char *const kinds[] = { "source", "op" };
	for (const struct yaml_node *node = nodes->first; node; node = node->next) {
		const struct yaml_node *id, *kind, *inputs;
		uint32_t is_op;
		char shown[YAML_SHOWN];
		enum tarn_status st = require(node, "id", YAML_SCALAR, &id);
		if (!st)
			st = require(node, "kind", YAML_SCALAR, &kind);
		if (!st)
			st = yaml_read_choice(kind, kinds, 2, &is_op);
		if (st)
			return st;
		if (has_white_space(id->text))
			return yaml_fail(id, "an id is a word without white space and #");
		uint32_t *slot = find_slot(k, id->text);
		if (*slot)
			return yaml_fail(id, "node \"%s\" was defined before, in line %u",
					 yaml_shown(id->text, shown, sizeof shown), k->entry[*slot - 1].node->line);
		k->entry[k->entries++] = (struct entry){ node, id->text, is_op ? (*ops)++ : NOT_AN_OP };
		*slot = k->entries;
		inputs = yaml_find(node, "inputs");
		if (inputs && inputs->kind != YAML_LIST)
			return yaml_fail(inputs, "\"inputs\" must be a list");
		*edges += inputs ? inputs->children : 0;
	}
	return TARN_OK;
}

static enum tarn_status read_inputs(struct loader *k, uint32_t index)
{
	struct problem *p = &k->dag->problem;
	const struct entry *entry = &k->entry[index];
	struct problem_op *op = &p->op[entry->op];
	const struct yaml_node *inputs = yaml_find(entry->node, "inputs");
	char shown[YAML_SHOWN];
	op->first_input = p->operands;
	for (const struct yaml_node *input = inputs ? inputs->first : NULL; input; input = input->next) {
		if (input->kind != YAML_SCALAR)
			return yaml_fail(input, "an input is the id of a node");
		uint32_t slot = *find_slot(k, input->text);
		if (!slot || slot - 1 >= index)
			return yaml_fail(input, "input \"%s\" is not an earlier node",
					 yaml_shown(input->text, shown, sizeof shown));
		uint32_t made_by = k->entry[slot - 1].op;
		if (made_by == NOT_AN_OP)
			continue;
		for (uint32_t i = op->first_input; i < p->operands; i++)
			if (p->operand[i] == made_by)
				return yaml_fail(input, "input \"%s\" is listed twice",
						 yaml_shown(input->text, shown, sizeof shown));
		p->operand[p->operands++] = made_by;
		k->read[made_by] = 1;
		op->inputs++;
	}
	return TARN_OK;
}

static enum tarn_status read_node(struct loader *k, uint32_t index)
{
	static const char *const phases[] = { "fwd", "bwd" };
	struct dag *dag = k->dag;
	struct problem *p = &dag->problem;
	const struct entry *entry = &k->entry[index];
	const struct yaml_node *phase = yaml_find(entry->node, "phase"), *time;
	uint64_t bytes, workspace = 0;
	uint32_t backward = 1;
	enum tarn_status st = read_size(entry->node, "bytes", false, &bytes);
	if (!st)
		st = read_size(entry->node, "workspace", true, &workspace);
	if (st)
		return st;
	if (!bytes_add(dag->source_bytes, entry->op == NOT_AN_OP ? bytes : 0, &dag->source_bytes) ||
	    dag->source_bytes > (uint64_t)MAX_BYTES)
		return yaml_fail(entry->node, "the sources have more than %" PRId64 " bytes", MAX_BYTES);
	const struct yaml_node *inputs = yaml_find(entry->node, "inputs");
	if (entry->op == NOT_AN_OP)
		return inputs && inputs->children ? yaml_fail(inputs, "a source has no inputs") : TARN_OK;
	st = require(entry->node, "time", YAML_SCALAR, &time);
	if (!st)
		st = yaml_read_real(time, 0, MAX_TIME, &k->time[entry->op]);
	if (!st && phase)
		st = yaml_read_choice(phase, phases, 2, &backward);
	if (st)
		return st;
	dag->name[entry->op] = entry->id;
	p->value[entry->op] = (struct problem_value){ .bytes = bytes, .producer = entry->op };
	p->op[entry->op] = (struct problem_op){ .workspace = workspace, .forward = !backward };
	return read_inputs(k, index);
}

static enum tarn_status read_targets(struct loader *k, const struct yaml_node *targets)
{
	char shown[YAML_SHOWN];
	for (const struct yaml_node *target = targets->first; target; target = target->next) {
		if (target->kind != YAML_SCALAR)
			return yaml_fail(target, "a target is the id of a node");
		uint32_t slot = *find_slot(k, target->text);
		if (!slot)
			return yaml_fail(target, "target \"%s\" is not a node",
					 yaml_shown(target->text, shown, sizeof shown));
		if (k->entry[slot - 1].op != NOT_AN_OP)
			k->target[k->entry[slot - 1].op] = 1;
	}
	return TARN_OK;
}

/* Whole numbers as they are; files with fractions in steps of FRACTION. */
static void set_costs(struct loader *k)
{
	struct problem *p = &k->dag->problem;
	bool whole = true;
	for (uint32_t o = 0; o < p->ops; o++)
		whole &= k->time[o] == floor(k->time[o]);
	k->dag->time_unit = whole ? 1 : FRACTION;
	for (uint32_t o = 0; o < p->ops; o++)
		p->op[o].cost_ns = (uint64_t)llround(k->time[o] / k->dag->time_unit);
}

/* An op that another one needs runs anyway: only targets that no needed op reads must be asked for. */
static void set_required(struct loader *k)
{
	struct problem *p = &k->dag->problem;
	uint8_t *needed = k->target;
	for (uint32_t o = p->ops; o-- > 0;) {
		struct problem_op *op = &p->op[o];
		op->required = needed[o] == 1;
		for (uint32_t i = 0; needed[o] && i < op->inputs; i++)
			needed[problem_inputs(p, o)[i]] = 2;
	}
}

/* Ops that nobody reads have no output: its bytes are workspace. */
static enum tarn_status number_values(struct loader *k)
{
	struct problem *p = &k->dag->problem;
	uint32_t *value_of = HOST_ARRAY(k->arena, (size_t)p->ops + 1, uint32_t);
	if (!value_of)
		return TARN_ENOMEM;
	p->values = 0;
	for (uint32_t o = 0; o < p->ops; o++) {
		struct problem_op *op = &p->op[o];
		if (!k->read[o]) {
			op->workspace += p->value[o].bytes;
			continue;
		}
		value_of[o] = p->values;
		p->value[p->values++] = p->value[o];
	}
	for (uint32_t i = 0; i < p->operands; i++)
		p->operand[i] = value_of[p->operand[i]];
	for (uint32_t o = 0; o < p->ops; o++) {
		p->op[o].first_output = p->operands;
		p->op[o].outputs = k->read[o];
		if (k->read[o])
			p->operand[p->operands++] = value_of[o];
	}
	return TARN_OK;
}

static enum tarn_status allocate(struct loader *k, uint32_t ops, uint32_t edges)
{
	struct problem *p = &k->dag->problem;
	size_t room = (size_t)ops + 1;
	*p = (struct problem){
		.value = HOST_ARRAY(k->arena, room, struct problem_value),
		.op = HOST_ARRAY(k->arena, room, struct problem_op),
		.operand = HOST_ARRAY(k->arena, room + edges, uint32_t),
		.ops = ops,
		.any_size = true,
	};
	k->dag->name = HOST_ARRAY(k->arena, room, const char *);
	k->time = HOST_ARRAY(k->arena, room, double);
	k->target = HOST_ARRAY(k->arena, room, uint8_t);
	k->read = HOST_ARRAY(k->arena, room, uint8_t);
	return p->value && p->op && p->operand && k->dag->name && k->time && k->target && k->read ? TARN_OK
												  : TARN_ENOMEM;
}

enum tarn_status dag_load(const char *path, struct host_arena *arena, struct dag *out)
{
	struct yaml_node *root;
	const struct yaml_node *nodes, *targets;
	struct loader k = { .arena = arena, .dag = out, .slots = 16 };
	uint32_t ops = 0, edges = 0;
	*out = (struct dag){ 0 };
	enum tarn_status st = yaml_load_large(path, MAX_NODES, MAX_FILE_BYTES, arena, &root);
	if (!st)
		st = require(root, "nodes", YAML_LIST, &nodes);
	if (!st)
		st = require(root, "targets", YAML_LIST, &targets);
	if (st)
		return st;
	while (k.slots < 2 * (uint64_t)nodes->children)
		k.slots *= 2;
	k.entry = HOST_ARRAY(arena, (size_t)nodes->children + 1, struct entry);
	k.slot = HOST_ARRAY(arena, k.slots, uint32_t);
	if (!k.entry || !k.slot)
		return TARN_ENOMEM;
	st = read_names(&k, nodes, &ops, &edges);
	if (!st)
		st = allocate(&k, ops, edges);
	for (uint32_t i = 0; !st && i < k.entries; i++)
		st = read_node(&k, i);
	if (!st)
		st = read_targets(&k, targets);
	if (st)
		return st;
	set_costs(&k);
	set_required(&k);
	return number_values(&k);
}

/* last[step]: one past the last step that reads what the step made. newest[op]: scratch. */
static void find_last_reads(const struct problem *p, const struct schedule *schedule, uint32_t *newest, uint32_t *last)
{
	for (uint32_t s = 0; s < schedule->steps; s++) {
		uint32_t o = schedule->step[s];
		for (uint32_t i = 0; i < p->op[o].inputs; i++)
			last[newest[p->value[problem_inputs(p, o)[i]].producer]] = s + 1;
		newest[o] = s;
		last[s] = s + 1;
	}
}

static void write_actions(const struct dag *dag, const struct schedule *schedule, uint32_t *newest,
			  const uint32_t *last, FILE *file)
{
	const struct problem *p = &dag->problem;
	for (uint32_t s = 0; s < schedule->steps; s++) {
		uint32_t o = schedule->step[s];
		fprintf(file, "c %s\n", dag->name[o]);
		newest[o] = s;
		if (last[s] == s + 1)
			fprintf(file, "f %s\n", dag->name[o]);
		for (uint32_t i = 0; i < p->op[o].inputs; i++) {
			uint32_t producer = p->value[problem_inputs(p, o)[i]].producer;
			if (last[newest[producer]] == s + 1)
				fprintf(file, "f %s\n", dag->name[producer]);
		}
	}
}

enum tarn_status dag_write_schedule(const struct dag *dag, const struct schedule *schedule, const char *path)
{
	struct host_arena arena;
	host_arena_init(&arena);
	uint32_t *newest = HOST_ARRAY(&arena, (size_t)dag->problem.ops + 1, uint32_t);
	uint32_t *last = HOST_ARRAY(&arena, (size_t)schedule->steps + 1, uint32_t);
	enum tarn_status st = newest && last ? TARN_OK : TARN_ENOMEM;
	FILE *file = st ? NULL : fopen(path, "w");
	if (!st && !file)
		st = tarn_fail(TARN_EIO, "%s: cannot create: %s", path, strerror(errno));
	if (!st) {
		find_last_reads(&dag->problem, schedule, newest, last);
		write_actions(dag, schedule, newest, last, file);
		bool failed = ferror(file);
		if (fclose(file) || failed)
			st = tarn_fail(TARN_EIO, "%s: write failed", path);
	}
	host_arena_fini(&arena);
	return st;
}
