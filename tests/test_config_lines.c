/* test_config_lines.c - configurations written as lines and read back; help, documentation and JSON Schema. */
#include "support/testing.h"

#include "config/config.h"
#include "config/yaml_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static struct host_arena arena;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

/* Text with everything that could be mistaken for syntax. */
static const char *random_text(struct testing_random *random, uint32_t least)
{
	static const char letters[] = "ab \t\n\r\"\\,[]{}=#:'\x01\x7F\xC3\xA4.x0";
	uint32_t length = testing_between(random, least, 12);
	char text[16];
	for (uint32_t i = 0; i < length; i++)
		text[i] = letters[testing_between(random, 0, sizeof letters - 2)];
	return host_arena_text_n(&arena, text, length);
}

static double random_real(struct testing_random *random, double low, double high)
{
	double unit = (double)(testing_bits(random) >> 11) * 0x1p-53;
	switch (testing_between(random, 0, 3)) {
	case 0:
		return low;
	case 1:
		return high;
	case 2: /* small magnitudes, where decimal and binary disagree most */
		unit *= 1e-12;
	}
	double value = low + unit * (high < 1e3 ? high - low : 1e3);
	return value > high ? high : value;
}

static void random_list(const struct config_key *key, struct testing_random *random, void *field)
{
	struct text_list *texts = field;
	struct real_list *reals = field;
	struct size_list *sizes = field;
	uint32_t count = testing_between(random, 0, key->type == CONFIG_TEXT_LIST ? CONFIG_MAX_LIST : 8);
	for (uint32_t i = 0; i < count; i++)
		if (key->type == CONFIG_TEXT_LIST)
			texts->item[i] = random_text(random, 1);
		else if (key->type == CONFIG_REAL_LIST)
			reals->item[i] = random_real(random, key->low, key->high);
		else
			sizes->item[i] = testing_between(random, (uint32_t)key->low, (uint32_t)key->high);
	*(key->type == CONFIG_TEXT_LIST   ? &texts->count
	  : key->type == CONFIG_REAL_LIST ? &reals->count
					  : &sizes->count) = count;
}

static void random_field(const struct config_key *key, struct testing_random *random, void *field)
{
	uint64_t bits = testing_bits(random) >> testing_between(random, 0, 63);
	switch (key->type) {
	case CONFIG_TEXT:
		*(const char **)field = random_text(random, (uint32_t)key->low);
		break;
	case CONFIG_REAL:
		*(double *)field = random_real(random, key->low, key->high);
		break;
	case CONFIG_INTEGER:
		bits = (uint64_t)(int64_t)key->low + bits % ((uint64_t)(key->high - key->low) + 1);
		if (key->width == 8)
			*(uint64_t *)field = bits;
		else
			*(uint32_t *)field = (uint32_t)bits;
		break;
	case CONFIG_BOOL:
		*(bool *)field = bits & 1;
		break;
	case CONFIG_BYTES:
		*(uint64_t *)field = bits < (uint64_t)key->low ? UINT64_MAX : bits;
		break;
	case CONFIG_CHOICE:
		*(uint32_t *)field = (uint32_t)(bits % (key->n_choices - key->n_aliases));
		break;
	case CONFIG_NODE:
		break;
	default:
		random_list(key, random, field);
	}
}

/* Any values, then what the checks across keys ask for. */
static struct config random_config(struct testing_random *random)
{
	struct config c;
	memset(&c, 0, sizeof c);
	for (uint32_t i = 0; i < config_schema_keys; i++)
		random_field(&config_schema[i], random, (char *)&c + config_schema[i].offset);
	if (!*c.name)
		c.name = "run";
	if (c.memory.recompute != STRATEGY_MANUAL)
		c.memory.keep.count = 0;
	else if (!c.memory.keep.count)
		c.memory.recompute = STRATEGY_AUTO;
	if (c.memory.workspace_cap == UINT64_MAX)
		c.memory.workspace_cap = 1;
	if (c.data.mean.count != c.data.std.count)
		c.data.mean.count = c.data.std.count = 0;
	if (!*c.data.test_inputs || !*c.data.test_labels)
		c.data.test_inputs = c.data.test_labels = "";
	if (c.network.loss == LOSS_CROSS_ENTROPY)
		c.network.target = TARGET_DATA;
	if (c.network.loss == LOSS_LOGISTIC_MIXTURE)
		c.network.target = TARGET_INPUT;
	c.data.samples += !c.data.samples;
	c.data.drop_last = c.data.drop_last && c.data.samples >= c.data.batch;
	/* The largest first, which is the context. */
	c.data.shapes.count = c.data.context > 1 ? 2 : 0;
	c.data.shapes.item[0] = c.data.context;
	c.data.shapes.item[1] = c.data.context / 2;
	/* A file for each name, and nothing that would cut or replace the inputs alone. */
	static const char *const names[] = { "meta", "age-2", "Z_.9" };
	c.data.arrays.count = c.data.train_arrays.count = c.data.shapes.count || c.data.synthetic ? 0 : 3;
	c.data.test_arrays.count = *c.data.test_inputs ? c.data.arrays.count : 0;
	for (uint32_t i = 0; i < 3; i++)
		c.data.arrays.item[i] = c.data.train_arrays.item[i] = c.data.test_arrays.item[i] = names[i];
	c.optimizer.nesterov = c.optimizer.nesterov && c.optimizer.momentum > 0;
	if (c.precision.gradients != c.precision.compute)
		c.precision.gradients = NUMBER_FLOAT32;
	bool narrow_weights = c.precision.compute == NUMBER_BFLOAT16 && c.optimizer.type <= OPTIMIZER_ADAMW &&
			      c.optimizer.state == STATE_FLOAT32 && !(c.train.ema > 0);
	c.precision.weights = narrow_weights ? NUMBER_BFLOAT16 : NUMBER_FLOAT32;
	if (c.train.accumulate > c.data.batch)
		c.train.accumulate = c.data.batch;
	if (!*c.train.snapshot && !*c.train.run)
		c.train.snapshot_every = 0;
	if (!*c.train.run)
		c.train.log = TRAIN_LOG_NONE;
	return c;
}

static bool same_field(const struct config_key *key, const void *a, const void *b)
{
	const struct text_list *x = a, *y = b;
	const struct real_list *p = a, *q = b;
	const struct size_list *s = a, *t = b;
	switch (key->type) {
	case CONFIG_TEXT:
		return !strcmp(*(const char *const *)a, *(const char *const *)b);
	case CONFIG_TEXT_LIST:
		for (uint32_t i = 0; i < x->count && x->count == y->count; i++)
			if (strcmp(x->item[i], y->item[i]))
				return false;
		return x->count == y->count;
	case CONFIG_REAL_LIST:
		return p->count == q->count && !memcmp(p->item, q->item, p->count * sizeof *p->item);
	case CONFIG_SIZE_LIST:
		return s->count == t->count && !memcmp(s->item, t->item, s->count * sizeof *s->item);
	default:
		return !memcmp(a, b, key->width);
	}
}

START_TEST(test_round_trip)
{
	struct testing_random random = { (uint64_t)_i };
	for (int n = 0; n < 20; n++) {
		struct config before = random_config(&random), after;
		char *lines = config_to_lines(&before, &arena);
		ck_assert_ok(config_from_lines(lines, "plan", NULL, 0, &arena, &after));
		for (uint32_t i = 0; i < config_schema_keys; i++) {
			const struct config_key *key = &config_schema[i];
			ck_assert_msg(same_field(key, (char *)&before + key->offset, (char *)&after + key->offset),
				      "seed %d: %s differs after\n%s", _i, key->path, lines);
		}
		ck_assert_str_eq(lines, config_to_lines(&after, &arena));
	}
}
END_TEST

/* Files that a type of data does not have are not written, and not there afterwards. */
START_TEST(test_lines_of_data)
{
	static const char *const type[] = { "data.type=cifar10", "data.type=cifar100", "data.type=images",
					    "data.type=npz", "data.type=tokens" };
	for (size_t i = 0; i < sizeof type / sizeof *type; i++) {
		struct config c, d;
		const char *const override[] = { type[i], "data.synthetic=true", "data.context=4" };
		ck_assert_ok(config_defaults(override, i == 4 ? 3 : 2, &arena, &c));
		char *lines = config_to_lines(&c, &arena);
		ck_assert_ok(config_from_lines(lines, "plan", NULL, 0, &arena, &d));
		ck_assert_str_eq(lines, config_to_lines(&d, &arena));
		ck_assert_str_eq(c.data.train_labels, d.data.train_labels);
		ck_assert_uint_eq(d.data.samples, 1024);
		ck_assert_uint_eq(d.data.test_samples, i == 4 ? 0 : 256);
		ck_assert_uint_eq(d.data.classes, i == 1 ? 100 : i == 4 ? 256 : 10);
	}
}
END_TEST

START_TEST(test_lines)
{
	struct config c, d;
	static const char *const override[] = { "data.type=hash", "memory.recompute=manual", "memory.keep=a" };
	ck_assert_ok(config_defaults(override, 3, &arena, &c));
	char *lines = config_to_lines(&c, &arena);
	static const char *const change[] = { "memory.recompute=auto", "train.epochs=5" };
	ck_assert_ok(config_from_lines(lines, "plan", change, 2, &arena, &d));
	ck_assert(d.memory.recompute == STRATEGY_AUTO && !d.memory.keep.count && d.train.epochs == 5);
	ck_assert_str_eq(d.file, "plan");
	const char *model = "model.depth=3";
	ck_assert_fails(config_from_lines(lines, "plan", &model, 1, &arena, &d), TARN_EINVAL,
			"command line: model.depth: a plan has fixed the network");
	static const struct {
		const char *lines, *sentence;
	} cases[] = {
		{ "", "plan: data.type is missing" },
		{ "data.type=hash\nbatch\n", "plan:2:1: \"batch\" is not of the form key=value" },
		{ "data.type=hash\nname=a\nname=b\n",
		  "plan:3:1: duplicate key \"name\"; it was first given in line 2" },
		{ "data.type=hash\nlayers=x\n", "plan:2:1: unknown key \"layers\"" },
		{ "data.type=hash\nfuture.key=x\n", "plan:2:1: unknown key \"future.key\"" },
		{ "data.type=hash\ndata.batch=x\n", "plan:2:1: data.batch: \"x\" is not a whole number" },
		{ "data.type=hash\nname=\"\\q\"\n", "unknown escape" },
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		ck_assert_fails(config_from_lines(cases[i].lines, "plan", NULL, 0, &arena, &d), TARN_EINVAL,
				cases[i].sentence);
}
END_TEST

static char *printed(void (*print)(FILE *out), size_t *bytes)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, bytes);
	print(out);
	fclose(out);
	return text;
}

static void print_help(FILE *out)
{
	ck_assert_ok(config_help(out, NULL));
}

/* JSON is read as the YAML that it also is; every key must stand at its place with its description. */
START_TEST(test_json_schema)
{
	size_t bytes;
	char *text = printed(config_json_schema, &bytes);
	struct yaml_node *root;
	ck_assert_ok(yaml_parse(text, bytes, "schema.json", &arena, &root));
	ck_assert_str_eq(yaml_find(root, "$schema")->text, "http://json-schema.org/draft-07/schema#");
	ck_assert_str_eq(yaml_find(yaml_find(root, "properties"), "data")->first->next->next->first->text, "type");
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		const struct config_key *key = &config_schema[i];
		const struct yaml_node *at = root;
		char *path = host_arena_text(&arena, key->path), *rest = NULL;
		for (char *name = strtok_r(path, ".", &rest); name; name = strtok_r(NULL, ".", &rest)) {
			ck_assert_str_eq(yaml_find(at, "additionalProperties")->text, "false");
			at = yaml_find(yaml_find(at, "properties"), name);
			ck_assert_msg(at, "%s is not in the schema", key->path);
		}
		ck_assert_str_eq(yaml_find(at, "description")->text, key->help);
		const struct yaml_node *names = yaml_find(at, "enum");
		ck_assert_msg(key->type != CONFIG_CHOICE || names->children >= key->n_choices, "%s", key->path);
	}
	free(text);
}
END_TEST

START_TEST(test_help)
{
	size_t bytes, markdown_bytes;
	char *help = printed(print_help, &bytes), *markdown = printed(config_markdown, &markdown_bytes);
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		char cell[128];
		snprintf(cell, sizeof cell, "| `%s` |", config_schema[i].path);
		ck_assert_msg(strstr(markdown, cell), "docs lack %s", config_schema[i].path);
		ck_assert_msg(strstr(help, config_schema[i].path), "help lacks %s", config_schema[i].path);
	}
	free(help);
	free(markdown);
	FILE *sink = fopen("/dev/null", "w");
	ck_assert_ok(config_help(sink, "memory"));
	ck_assert_ok(config_help(sink, "optimizer.schedule"));
	ck_assert_fails(config_help(sink, "memory.bugdet"), TARN_EINVAL,
			"unknown key \"memory.bugdet\"; did you mean \"memory.budget\"?");
	ck_assert_fails(config_help(sink, ""), TARN_EINVAL, "unknown key");
	fclose(sink);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config_lines");
	TCase *lines = tcase_create("lines");
	tcase_add_checked_fixture(lines, setup, teardown);
	tcase_add_loop_test(lines, test_round_trip, 0, 20);
	tcase_add_test(lines, test_lines);
	tcase_add_test(lines, test_lines_of_data);
	suite_add_tcase(suite, lines);
	TCase *print = tcase_create("print");
	tcase_add_checked_fixture(print, setup, teardown);
	tcase_add_test(print, test_json_schema);
	tcase_add_test(print, test_help);
	suite_add_tcase(suite, print);
	return testing_run(suite);
}
