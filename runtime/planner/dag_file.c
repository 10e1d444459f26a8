/* dag_file.c - JSON graphs of training steps, read with the YAML reader (JSON is YAML). */
#include "planner/dag_file.h"

#include "base/bytes.h"
#include "config/yaml_tree.h"

#include <inttypes.h>
#include <math.h>
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

/* One node of the file; `op` is its number in the problem, `place` its number among the nodes that are no sources. */
struct entry {
	const struct yaml_node *node;
	const char *id;
	uint32_t op, place;
};

struct loader {
	struct host_arena *arena;
	struct dag *dag;
	struct entry *entry;
	uint32_t entries;
	uint32_t *slot;   /* open addressing: 1 + index of an entry, or 0 */
	uint32_t slots;   /* a power of two */
	double *time;     /* [ops] as in the file */
	uint8_t *target;  /* [ops] */
	uint8_t *read;    /* [nodes that are no sources] */
	uint32_t *listed; /* [nodes]: 1 + the last entry whose inputs name it */
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

/* What a file's arrays need. */
struct counts {
	uint32_t ops, places, edges, afters;
};

static enum tarn_status read_list(const struct yaml_node *node, const char *key, uint32_t *total)
{
	const struct yaml_node *list = yaml_find(node, key);
	if (list && list->kind != YAML_LIST)
		return yaml_fail(list, "\"%s\" must be a list", key);
	*total += list ? list->children : 0;
	return TARN_OK;
}

/* A node with `with` is another output of the op whose nodes stand just before it. */
static enum tarn_status number_node(struct loader *k, const struct yaml_node *node, const char *id, bool is_op,
				    struct counts *counts)
{
	const struct yaml_node *with = yaml_find(node, "with");
	const struct entry *before = k->entries ? &k->entry[k->entries - 1] : NULL;
	struct entry *entry = &k->entry[k->entries++];
	*entry = (struct entry){ node, id, NOT_AN_OP, 0 };
	if (!is_op)
		return with ? yaml_fail(with, "a source is no output of an op") : TARN_OK;
	entry->place = counts->places++;
	if (!with) {
		entry->op = counts->ops++;
		return TARN_OK;
	}
	/* The first node of the op before has no `with`. */
	while (before && before->op != NOT_AN_OP && before > k->entry && before[-1].op == before->op)
		before--;
	if (with->kind != YAML_SCALAR || !before || before->op == NOT_AN_OP || strcmp(before->id, with->text))
		return yaml_fail(with, "\"with\" must name the op whose nodes stand just before this one");
	entry->op = before->op;
	return TARN_OK;
}

/* A key that nobody reads is most likely a misspelt one, and then the problem another. */
static enum tarn_status check_keys(const struct yaml_node *node)
{
	static const char *const known[] = { "id",     "kind",  "time", "bytes", "workspace",
					     "inputs", "phase", "once", "after", "with" };
	char shown[YAML_SHOWN];
	for (const struct yaml_node *child = node->first; child; child = child->next) {
		bool found = false;
		for (size_t i = 0; !found && i < sizeof known / sizeof *known; i++)
			found = !strcmp(child->key, known[i]);
		if (!found)
			return yaml_fail_key(child,
					     "unknown key \"%s\"; a node has id, kind, time, bytes, workspace, inputs, "
					     "phase, once, after and with",
					     yaml_shown(child->key, shown, sizeof shown));
	}
	return TARN_OK;
}

/* Names and kinds; ops get their numbers. */
static enum tarn_status read_names(struct loader *k, const struct yaml_node *nodes, struct counts *counts)
{
	static const char *const kinds[] = { "source", "op" };
	for (const struct yaml_node *node = nodes->first; node; node = node->next) {
		const struct yaml_node *id, *kind;
		uint32_t is_op;
		char shown[YAML_SHOWN];
		enum tarn_status st = require(node, "id", YAML_SCALAR, &id);
		if (!st)
			st = require(node, "kind", YAML_SCALAR, &kind);
		if (!st)
			st = yaml_read_choice(kind, kinds, 2, &is_op);
		if (!st)
			st = check_keys(node);
		if (st)
			return st;
		if (has_white_space(id->text))
			return yaml_fail(id, "an id is a word without white space and #");
		uint32_t *slot = find_slot(k, id->text);
		if (*slot)
			return yaml_fail(id, "node \"%s\" was defined before, in line %u",
					 yaml_shown(id->text, shown, sizeof shown), k->entry[*slot - 1].node->line);
		st = number_node(k, node, id->text, is_op, counts);
		*slot = k->entries;
		if (!st)
			st = read_list(node, "inputs", &counts->edges);
		if (!st)
			st = read_list(node, "after", &counts->afters);
		if (st)
			return st;
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
		if (k->listed[slot - 1] == index + 1)
			return yaml_fail(input, "input \"%s\" is listed twice",
					 yaml_shown(input->text, shown, sizeof shown));
		k->listed[slot - 1] = index + 1;
		if (k->entry[slot - 1].op == NOT_AN_OP)
			continue;
		uint32_t place = k->entry[slot - 1].place;
		p->operand[p->operands++] = place;
		k->read[place] = 1;
		op->inputs++;
	}
	return TARN_OK;
}

/* Ops, anywhere in the file, all runs of which come before this one's first. */
static enum tarn_status read_afters(struct loader *k, const struct entry *entry)
{
	struct problem *p = &k->dag->problem;
	struct problem_op *op = &p->op[entry->op];
	const struct yaml_node *list = yaml_find(entry->node, "after");
	char shown[YAML_SHOWN];
	op->first_after = p->afters;
	for (const struct yaml_node *after = list ? list->first : NULL; after; after = after->next) {
		uint32_t slot = after->kind == YAML_SCALAR ? *find_slot(k, after->text) : 0;
		uint32_t other = slot ? k->entry[slot - 1].op : NOT_AN_OP;
		if (other == NOT_AN_OP || other == entry->op)
			return yaml_fail(after, "\"%s\" is no other op to come after",
					 after->kind == YAML_SCALAR ? yaml_shown(after->text, shown, sizeof shown)
								    : "a list");
		p->after[p->afters++] = other;
		op->afters++;
	}
	return TARN_OK;
}

/* Another output of the op: computed with it, so that it costs nothing by itself. */
static enum tarn_status read_other_output(struct loader *k, const struct entry *entry, uint64_t bytes,
					  uint64_t workspace, double time)
{
	struct problem *p = &k->dag->problem;
	if (workspace || time > 0)
		return yaml_fail(entry->node, "a node with \"with\" is computed with that op: its time and workspace "
					      "must be 0");
	p->value[entry->place] = (struct problem_value){ .bytes = bytes, .producer = entry->op };
	return TARN_OK;
}

static enum tarn_status read_node(struct loader *k, uint32_t index)
{
	static const char *const phases[] = { "fwd", "bwd" };
	struct dag *dag = k->dag;
	struct problem *p = &dag->problem;
	const struct entry *entry = &k->entry[index];
	const struct yaml_node *phase = yaml_find(entry->node, "phase"), *time, *once = yaml_find(entry->node, "once");
	uint64_t bytes, workspace = 0;
	uint32_t backward = 1;
	double cost;
	bool runs_once = false;
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
		st = yaml_read_real(time, 0, MAX_TIME, &cost);
	if (!st && phase)
		st = yaml_read_choice(phase, phases, 2, &backward);
	if (!st && once)
		st = yaml_read_bool(once, &runs_once);
	if (st)
		return st;
	dag->name[entry->place] = entry->id;
	if (yaml_find(entry->node, "with"))
		return read_other_output(k, entry, bytes, workspace, cost);
	dag->first_name[entry->op] = entry->place;
	k->time[entry->op] = cost;
	p->value[entry->place] = (struct problem_value){ .bytes = bytes, .producer = entry->op };
	p->op[entry->op] = (struct problem_op){ .workspace = workspace, .once = runs_once, .forward = !backward };
	st = read_inputs(k, index);
	return st ? st : read_afters(k, entry);
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
			needed[p->value[problem_inputs(p, o)[i]].producer] = 2;
	}
}

/* What nobody reads is no output: its bytes are workspace. */
static void number_values(struct loader *k)
{
	struct dag *dag = k->dag;
	struct problem *p = &dag->problem;
	uint32_t inputs = p->operands;
	p->values = 0;
	for (uint32_t o = 0; o < p->ops; o++) {
		struct problem_op *op = &p->op[o];
		op->first_output = p->operands;
		for (uint32_t place = dag->first_name[o]; place < dag->first_name[o + 1]; place++) {
			dag->value[place] = k->read[place] ? p->values : VALUE_NONE;
			if (!k->read[place]) {
				op->workspace += p->value[place].bytes;
				continue;
			}
			p->value[p->values] = p->value[place];
			p->value[p->values].output = op->outputs++;
			p->operand[p->operands++] = p->values++;
		}
	}
	for (uint32_t i = 0; i < inputs; i++)
		p->operand[i] = dag->value[p->operand[i]];
}

static enum tarn_status allocate(struct loader *k, const struct counts *counts)
{
	struct dag *dag = k->dag;
	struct problem *p = &dag->problem;
	size_t room = (size_t)counts->ops + 1, places = (size_t)counts->places + 1;
	*p = (struct problem){
		.value = HOST_ARRAY(k->arena, places, struct problem_value),
		.op = HOST_ARRAY(k->arena, room, struct problem_op),
		.operand = HOST_ARRAY(k->arena, places + counts->edges, uint32_t),
		.after = HOST_ARRAY(k->arena, (size_t)counts->afters + 1, uint32_t),
		.ops = counts->ops,
		.any_size = true,
	};
	dag->name = HOST_ARRAY(k->arena, places, const char *);
	dag->first_name = HOST_ARRAY(k->arena, room, uint32_t);
	dag->value = HOST_ARRAY(k->arena, places, uint32_t);
	k->time = HOST_ARRAY(k->arena, room, double);
	k->target = HOST_ARRAY(k->arena, room, uint8_t);
	k->read = HOST_ARRAY(k->arena, places, uint8_t);
	if (!p->value || !p->op || !p->operand || !p->after || !dag->name || !dag->first_name || !dag->value ||
	    !k->time || !k->target || !k->read)
		return TARN_ENOMEM;
	dag->first_name[counts->ops] = counts->places;
	return TARN_OK;
}

enum tarn_status dag_load(const char *path, struct host_arena *arena, struct dag *out)
{
	struct yaml_node *root;
	const struct yaml_node *nodes, *targets;
	struct loader k = { .arena = arena, .dag = out, .slots = 16 };
	struct counts counts = { 0 };
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
	k.listed = HOST_ARRAY(arena, (size_t)nodes->children + 1, uint32_t);
	if (!k.entry || !k.slot || !k.listed)
		return TARN_ENOMEM;
	st = read_names(&k, nodes, &counts);
	if (!st)
		st = allocate(&k, &counts);
	for (uint32_t i = 0; !st && i < k.entries; i++)
		st = read_node(&k, i);
	if (!st)
		st = read_targets(&k, targets);
	if (st)
		return st;
	set_costs(&k);
	set_required(&k);
	number_values(&k);
	st = problem_check(&out->problem);
	/* What the nodes' own checks leave over: ops that `after` puts in a circle. */
	return st == TARN_EINTERNAL ? tarn_fail_prefix(TARN_EINVAL, "%s", path) : st;
}
