/* parameter_groups.c - see parameter_groups.h. */
#include "autodiff/parameter_groups.h"

#include "config/yaml_tree.h"

#include <fnmatch.h>
#include <string.h>

#define LARGEST 1e30

struct group {
	const struct yaml_node *match, *learning_rate, *weight_decay;
	double rate, decay;
};

static enum tarn_status fail_key(const struct yaml_node *node)
{
	static const char *const keys[] = { "match", "learning_rate", "weight_decay" };
	char shown[YAML_SHOWN];
	const char *near = nearest_name(node->key, keys, 3);
	yaml_shown(node->key, shown, sizeof shown);
	return near ? yaml_fail_key(node, "a group has no key %s; did you mean %s?", shown, near)
		    : yaml_fail_key(node, "a group has no key %s; it has match, learning_rate and weight_decay", shown);
}

static enum tarn_status find_keys(const struct yaml_node *item, struct group *group)
{
	*group = (struct group){ .match = NULL };
	if (item->kind != YAML_MAP)
		return yaml_fail(item, "a group is a map: {match: \"head/*\", learning_rate: 1e-3}");
	for (const struct yaml_node *node = item->first; node; node = node->next) {
		if (!strcmp(node->key, "match"))
			group->match = node;
		else if (!strcmp(node->key, "learning_rate"))
			group->learning_rate = node;
		else if (!strcmp(node->key, "weight_decay"))
			group->weight_decay = node;
		else
			return fail_key(node);
	}
	if (!group->match || group->match->kind != YAML_SCALAR || !group->match->text[0])
		return yaml_fail(item, "a group needs the key match, a pattern of names of parameters such as head/*");
	if (!group->learning_rate && !group->weight_decay)
		return yaml_fail(item, "a group needs a learning_rate or a weight_decay of its own");
	return TARN_OK;
}

static enum tarn_status read_group(const struct config *config, const struct yaml_node *item, struct group *group)
{
	enum tarn_status st = find_keys(item, group);
	if (!st && group->learning_rate)
		st = yaml_read_real(group->learning_rate, 0, LARGEST, &group->rate);
	if (!st && group->weight_decay)
		st = yaml_read_real(group->weight_decay, 0, LARGEST, &group->decay);
	if (!st && group->learning_rate && config->optimizer.learning_rate <= 0)
		st = yaml_fail_value(group->learning_rate,
				     "is applied as a factor of optimizer.learning_rate, which is 0; give that one a "
				     "value, and groups with 0 where nothing shall move");
	return st;
}

static bool matches(const struct graph *graph, const struct group *group, uint32_t parameter)
{
	return !fnmatch(group->match->text, tensor_name(graph, parameter), 0);
}

enum tarn_status parameter_groups_check(const struct graph *graph, const struct config *config,
					const uint32_t *parameter, uint32_t count)
{
	const struct yaml_node *list = config->optimizer.groups;
	if (list && list->kind != YAML_LIST)
		return yaml_fail_value(list, "must be a list of maps, [{match: \"head/*\", learning_rate: 1e-3}, ...]");
	for (const struct yaml_node *item = list ? list->first : NULL; item; item = item->next) {
		struct group group;
		uint32_t found = 0;
		enum tarn_status st = read_group(config, item, &group);
		if (st)
			return st;
		for (uint32_t i = 0; i < count; i++)
			found += matches(graph, &group, parameter[i]);
		if (!found)
			return yaml_fail_value(group.match,
					       "matches none of the %u parameters that are trained, such as %s", count,
					       count ? tensor_name(graph, parameter[0]) : "");
	}
	return TARN_OK;
}

enum tarn_status parameter_groups_apply(const struct graph *graph, const struct config *config, uint32_t parameter,
					struct op_attr *attr)
{
	const struct yaml_node *list = config->optimizer.groups;
	for (const struct yaml_node *item = list ? list->first : NULL; item; item = item->next) {
		struct group group;
		enum tarn_status st = read_group(config, item, &group);
		if (st)
			return st;
		if (!matches(graph, &group, parameter))
			continue;
		if (group.learning_rate)
			attr->rate_scale = (float)(group.rate / config->optimizer.learning_rate);
		if (group.weight_decay)
			attr->weight_decay = (float)group.decay;
		return TARN_OK;
	}
	return TARN_OK;
}
