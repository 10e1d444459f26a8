/* build_losses.c - see build_losses.h. */
#include "graph/build_losses.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = { "cross_entropy", "mean_squared_error" };
enum { KIND_CROSS_ENTROPY, KIND_MEAN_SQUARED_ERROR, KINDS };

struct entry {
	const struct yaml_node *type, *input, *labels, *weight, *name;
	uint32_t kind;
	double factor;
};

static enum tarn_status take_apart(const struct yaml_node *node, struct entry *entry)
{
	*entry = (struct entry){ .factor = 1 };
	const struct {
		const char *key;
		const struct yaml_node **out;
	} known[] = { { "type", &entry->type },
		      { "input", &entry->input },
		      { "labels", &entry->labels },
		      { "weight", &entry->weight },
		      { "name", &entry->name } };
	if (node->kind != YAML_MAP)
		return yaml_fail(node, "a loss is written as {type: mean_squared_error, input: LAYER, labels: ARRAY}");
	for (const struct yaml_node *child = node->first; child; child = child->next) {
		size_t k = 0;
		while (k < sizeof known / sizeof *known && strcmp(child->key, known[k].key) != 0)
			k++;
		if (k == sizeof known / sizeof *known)
			return yaml_fail_key(
				child, "a loss has no key %s; type, input, labels, weight and name may stand here",
				child->key);
		*known[k].out = child;
	}
	if (!entry->type || !entry->input || !entry->labels)
		return yaml_fail(node, "a loss needs type, input and labels");
	for (size_t k = 0; k < sizeof known / sizeof *known; k++)
		if (*known[k].out && ((*known[k].out)->kind != YAML_SCALAR || !(*known[k].out)->text[0]))
			return yaml_fail_value(*known[k].out, "must be a single value");
	enum tarn_status st = yaml_read_choice(entry->type, kinds, KINDS, &entry->kind);
	if (!st && entry->weight)
		st = yaml_read_real(entry->weight, 0, 1e30, &entry->factor);
	return st;
}

/* The tensors that an entry compares. */
static enum tarn_status find_tensors(const struct network *net, const struct entry *entry, uint32_t input[2])
{
	const struct sample_shape *sample = net->sample;
	input[0] = graph_find(net->graph, entry->input->text);
	if (input[0] == TENSOR_NONE || net->graph->tensor[input[0]].producer == OP_NONE)
		return yaml_fail_value(entry->input,
				       "no layer is named %s; the full name of a layer is needed, such as conv1",
				       entry->input->text);
	uint32_t k = 0;
	while (k < sample->arrays && strcmp(entry->labels->text, sample->array[k].name) != 0)
		k++;
	if (k == sample->arrays)
		return yaml_fail_value(entry->labels, "%s is none of data.arrays", entry->labels->text);
	bool labels = entry->kind == KIND_CROSS_ENTROPY;
	if (labels != sample->array[k].integer)
		return yaml_fail_value(entry->labels, "%s holds %s; %s compares with %s", entry->labels->text,
				       labels ? "floats" : "integers", kinds[entry->kind],
				       labels ? "integers" : "floats");
	input[1] = net->array[k];
	return TARN_OK;
}

/* An op and the metric that keeps its result; *out is the result. */
static enum tarn_status add_recorded(struct network *net, enum op_kind kind, const char *what, const char *name,
				     const uint32_t *input, uint32_t *out)
{
	struct graph *graph = net->graph;
	const uint32_t one = 1;
	uint32_t metric;
	const char *op = host_arena_printf(graph->arena, "%s/%s", what, name);
	const char *slot = host_arena_printf(graph->arena, "metric/%s/%s", what, name);
	const char *recorder = host_arena_printf(graph->arena, "record/%s/%s", what, name);
	if (!op || !slot || !recorder)
		return TARN_ENOMEM;
	if (graph_find(graph, slot) != TENSOR_NONE)
		return tarn_fail(TARN_EINVAL, "there is already a loss named %s; give one of them a name", name);
	enum tarn_status st = graph_add_persistent(graph, slot, ROLE_METRIC, DTYPE_F32, &one, 1, &metric);
	if (!st)
		st = graph_add_op(graph, kind, PHASE_FORWARD, op, NULL, input, 2, out);
	const uint32_t recorded[2] = { metric, st ? TENSOR_NONE : *out };
	return st ? st : graph_add_op(graph, OP_RECORD, PHASE_FORWARD, recorder, NULL, recorded, 2, NULL);
}

static enum tarn_status add_entry(struct network *net, const struct entry *entry, uint32_t *loss)
{
	static const enum op_kind op[KINDS] = { OP_SOFTMAX_CROSS_ENTROPY, OP_MEAN_SQUARED_ERROR };
	const char *name = entry->name ? entry->name->text : entry->input->text;
	uint32_t input[2], result[OP_MAX_OUTPUTS], correct[OP_MAX_OUTPUTS], sum[2] = { *loss, TENSOR_NONE };
	enum tarn_status st = find_tensors(net, entry, input);
	if (!st)
		st = add_recorded(net, op[entry->kind], "loss", name, input, result);
	if (!st && entry->kind == KIND_CROSS_ENTROPY)
		st = add_recorded(net, OP_COUNT_CORRECT, "correct", name, input, correct);
	if (st)
		return st;
	const struct op_attr scale = { .alpha = (float)entry->factor };
	const char *scaled = host_arena_printf(net->graph->arena, "loss/%s/weighted", name);
	const char *added = host_arena_printf(net->graph->arena, "loss/%s/sum", name);
	if (!scaled || !added)
		return TARN_ENOMEM;
	sum[1] = result[0];
	if (entry->weight)
		st = graph_add_op(net->graph, OP_SCALE, PHASE_FORWARD, scaled, &scale, result, 1, &sum[1]);
	return st ? st : graph_add_op(net->graph, OP_ADD, PHASE_FORWARD, added, NULL, sum, 2, loss);
}

enum tarn_status losses_add(struct network *net, const struct yaml_node *list, uint32_t *loss)
{
	if (list->kind != YAML_LIST)
		return yaml_fail_value(list,
				       "must be a list of losses, each one as - {type: ..., input: ..., labels: ...}");
	if (list->children > LOSSES_MAX)
		return yaml_fail_value(list, "has %" PRIu32 " losses, at most %u are possible", list->children,
				       LOSSES_MAX);
	if (net->config->network.ignore_index >= 0)
		return yaml_fail_value(list, "cannot stand beside network.ignore_index");
	enum tarn_status st = TARN_OK;
	for (const struct yaml_node *node = list->first; node && !st; node = node->next) {
		struct entry entry;
		char sentence[TARN_ERROR_BYTES];
		st = take_apart(node, &entry);
		if (st)
			break;
		st = add_entry(net, &entry, loss);
		snprintf(sentence, sizeof sentence, "%s", st ? tarn_error() : "");
		/* Of what the shape rules say nothing has a place yet. */
		if (st == TARN_EINVAL && strncmp(sentence, node->file, strlen(node->file)) != 0)
			st = yaml_fail(node, "%s", sentence);
	}
	return st;
}
