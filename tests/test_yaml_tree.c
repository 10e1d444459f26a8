/* test_yaml_tree.c - places, kinds and texts of nodes; every refusal; limits against hostile files; random damage. */
#include "support/testing.h"

#include "config/yaml_tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

static struct yaml_node *parse(const char *text)
{
	struct yaml_node *root = NULL;
	ck_assert_ok(yaml_parse(text, strlen(text), "net.yaml", &arena, &root));
	return root;
}

#define ck_assert_place(node, l, c)                                                                             \
	ck_assert_msg((node)->line == (l) && (node)->column == (c), "%s: at %u:%u", (node)->text, (node)->line, \
		      (node)->column)

START_TEST(test_places_and_kinds)
{
	const struct yaml_node *root = parse("# a run\n"
					     "name: no\n"
					     "memory:\n"
					     "  budget: \"24 MiB\"\n"
					     "layers:\n"
					     "- conv2d: {kernel: 3, name: off}\n"
					     "- relu\n"
					     "mean: [0.1, \xC3\xA4, 0.3]\n");
	ck_assert(root->kind == YAML_MAP && root->children == 4 && !root->key && !root->parent);
	const struct yaml_node *name = yaml_find(root, "name");
	ck_assert_str_eq(name->text, "no");
	ck_assert_place(name, 2u, 7u);
	ck_assert(name->key_line == 2 && name->key_column == 1 && !name->quoted && name->parent == root);
	const struct yaml_node *budget = yaml_find(yaml_find(root, "memory"), "budget");
	ck_assert_str_eq(budget->text, "24 MiB");
	ck_assert(budget->quoted && budget->key_line == 4 && budget->key_column == 3);
	ck_assert_place(budget, 4u, 11u);
	const struct yaml_node *layers = yaml_find(root, "layers");
	ck_assert(layers->kind == YAML_LIST && layers->children == 2);
	ck_assert(layers->first->kind == YAML_MAP && !layers->first->key && !layers->first->next->next);
	const struct yaml_node *kernel = yaml_find(yaml_find(layers->first, "conv2d"), "kernel");
	ck_assert_place(kernel, 6u, 20u);
	const struct yaml_node *third = yaml_find(root, "mean")->first->next->next;
	ck_assert_place(third, 8u, 16u); /* columns count characters, not bytes */
	char path[YAML_PATH];
	ck_assert_str_eq(yaml_path(kernel, path, sizeof path), "layers[0].conv2d.kernel");
	ck_assert_str_eq(yaml_path(third, path, sizeof path), "mean[2]");
	ck_assert_str_eq(yaml_path(root, path, sizeof path), "");
	ck_assert(!yaml_find(root, "nothing") && !yaml_find(name, "x") && !yaml_find(NULL, "x"));
	ck_assert_fails(yaml_fail(kernel, "bad %d", 3), TARN_EINVAL, "net.yaml:6:20: bad 3");
	ck_assert_fails(yaml_fail_key(kernel, "bad"), TARN_EINVAL, "net.yaml:6:12: bad");
}
END_TEST

START_TEST(test_line_ends_and_marks)
{
	const struct yaml_node *root = parse("\xEF\xBB\xBF"
					     "a: 1\r\nb:\r\n  c: 2\r\n");
	ck_assert_str_eq(yaml_find(root, "a")->text, "1");
	ck_assert_place(yaml_find(root, "a"), 1u, 4u);
	ck_assert_place(yaml_find(yaml_find(root, "b"), "c"), 3u, 6u);
	root = parse("a: |\n  two\n  lines\nb: >-\n  one\n  line\nc: 'it''s'\nd:\ne: \"\\u00e4\\n\"\n");
	ck_assert_str_eq(yaml_find(root, "a")->text, "two\nlines\n");
	ck_assert_str_eq(yaml_find(root, "b")->text, "one line");
	ck_assert_str_eq(yaml_find(root, "c")->text, "it's");
	ck_assert(!*yaml_find(root, "d")->text && !yaml_find(root, "d")->quoted);
	ck_assert_str_eq(yaml_find(root, "e")->text, "\xC3\xA4\n");
}
END_TEST

START_TEST(test_aliases)
{
	const struct yaml_node *root = parse("a: &x {b: 1, c: [2, 3]}\nd: *x\ne: [*x, *x]\nf: &y 7\ng: *y\n");
	const struct yaml_node *d = yaml_find(root, "d"), *e = yaml_find(root, "e");
	ck_assert_str_eq(yaml_find(d, "b")->text, "1");
	ck_assert(yaml_find(d, "c")->children == 2 && yaml_find(d, "c")->parent == d);
	ck_assert(e->children == 2 && e->first != d && e->first->parent == e);
	ck_assert_str_eq(yaml_find(root, "g")->text, "7");
	char path[YAML_PATH];
	ck_assert_str_eq(yaml_path(yaml_find(e->first->next, "c")->first->next, path, sizeof path), "e[1].c[1]");
	/* A name may be used again; the last one counts. */
	root = parse("a: &x 1\nb: &x 2\nc: *x\n");
	ck_assert_str_eq(yaml_find(root, "c")->text, "2");
}
END_TEST

static const struct {
	const char *text, *sentence;
} bad[] = {
	{ "", "net.yaml:1:1: the file is empty" },
	{ "\n\n# nothing\n", "the file is empty" },
	{ "---\n...\n", "the file is empty" },
	{ "\xEF\xBB\xBF", "the file is empty" },
	{ "a: 1\n---\nb: 2\n", "net.yaml:2:1: a second document" },
	{ "a:\n\tb: 1\n", "net.yaml:2:1: tab used for indentation" },
	{ "a:\n  b: 1\n\tc: 1\n", "net.yaml:3:1: tab used for indentation" },
	{ "a:\r\n  \tb: 1\r\n", "net.yaml:2:3: tab used for indentation" },
	{ "a:\n  b: x\n  \tc: y\n", "net.yaml:3:3: tab used for indentation" },
	{ "a: 1\nb: 2\na: 3\n", "net.yaml:3:1: duplicate key \"a\"; it was first given in line 1" },
	{ "m:\n  x: {k: 1, j: 2, \"k\": 3}\n", "net.yaml:2:19: duplicate key \"k\"; it was first given in line 2" },
	{ "m: {k: 1, k: 2}\nx: 1\nx: 2\n", "net.yaml:1:11: duplicate key \"k\"" },
	{ "a: [1, 2\nb: 3\n", "net.yaml:2:2: did not find expected ',' or ']'" },
	{ "a: b: c\n", "net.yaml:1:5: mapping values are not allowed" },
	{ "a: \"x\n", "starts in line 1" },
	{ "a: \x01\n", "net.yaml:1:4: control characters" },
	{ "a: 1\nb: \xFF\n", "net.yaml:2:4: invalid" },
	{ "a: \xC3", "net.yaml:1:4: incomplete UTF-8" },
	{ "a: \"x\\0y\"\n", "net.yaml:1:4: zero byte" },
	{ "\xFF\xFE"
	  "a",
	  "UTF-16" },
	{ "[a]: 1\n", "net.yaml:1:1: a key must be a single word" },
	{ "? {a: 1}\n: 2\n", "a key must be a single word" },
	{ "x: &k a\n*k : 1\n", "net.yaml:2:1: a key must be a single word" },
	{ "\"\": 1\n", "empty key" },
	{ ": 1\n", "net.yaml:1:1: did not find expected key" },
	{ "a: &x {b: 1}\nc:\n  <<: *x\n", "net.yaml:3:3: merge keys" },
	{ "a: !!str 5\n", "net.yaml:1:4: tags (!) are not supported" },
	{ "a: !x {b: 1}\n", "tags (!)" },
	{ "a: *x\n", "net.yaml:1:4: alias *x has no anchor" },
	{ "a: &x [1, *x]\n", "net.yaml:1:11: alias *x stands inside its own anchor" },
	{ "&x a: *x\n", "a key takes no tag and no anchor" },
};

START_TEST(test_refuses)
{
	struct yaml_node *root = NULL;
	ck_assert_fails(yaml_parse(bad[_i].text, strlen(bad[_i].text), "net.yaml", &arena, &root), TARN_EINVAL,
			bad[_i].sentence);
	ck_assert(!root);
	ck_assert_msg(!strchr(tarn_error(), '\n'), "\"%s\" is not one line", tarn_error());
}
END_TEST

START_TEST(test_zero_byte)
{
	static const char text[] = "a: 1\nb: \0 2\n";
	struct yaml_node *root;
	ck_assert_fails(yaml_parse(text, sizeof text - 1, "net.yaml", &arena, &root), TARN_EINVAL,
			"net.yaml:2:4: zero byte");
}
END_TEST

START_TEST(test_depth_limit)
{
	static char text[4 * YAML_MAX_DEPTH + 200000];
	struct yaml_node *root;
	memset(text, '[', YAML_MAX_DEPTH);
	memset(text + YAML_MAX_DEPTH, ']', YAML_MAX_DEPTH);
	ck_assert_ok(yaml_parse(text, 2 * YAML_MAX_DEPTH, "net.yaml", &arena, &root));
	memset(text, '[', YAML_MAX_DEPTH + 1);
	memset(text + YAML_MAX_DEPTH + 1, ']', YAML_MAX_DEPTH + 1);
	ck_assert_fails(yaml_parse(text, 2 * YAML_MAX_DEPTH + 2, "net.yaml", &arena, &root), TARN_EINVAL,
			"nested deeper than 100");
	memset(text, '[', sizeof text);
	ck_assert_fails(yaml_parse(text, sizeof text, "net.yaml", &arena, &root), TARN_EINVAL, "nested deeper");
	memset(text, '{', sizeof text);
	ck_assert_fails(yaml_parse(text, sizeof text, "net.yaml", &arena, &root), TARN_EINVAL, "");
}
END_TEST

/* Each line holds the line before ten times: ten lines are ten thousand million values. */
START_TEST(test_alias_bomb)
{
	char text[1024] = "a0: &a0 [x]\n";
	for (int i = 1; i < 10; i++) {
		size_t used = strlen(text);
		used += (size_t)snprintf(text + used, sizeof text - used, "a%d: &a%d [", i, i);
		for (int j = 0; j < 10; j++)
			used += (size_t)snprintf(text + used, sizeof text - used, "%s*a%d", j ? ", " : "", i - 1);
		snprintf(text + used, sizeof text - used, "]\n");
	}
	struct yaml_node *root;
	ck_assert_fails(yaml_parse(text, strlen(text), "net.yaml", &arena, &root), TARN_EINVAL,
			"more than 1000000 values");
}
END_TEST

/* Aliases must not nest deeper than brackets may. */
START_TEST(test_alias_depth)
{
	char text[8192] = "a0: &a0 [[[[[[[[[[x]]]]]]]]]]\n";
	for (int i = 1; i < 20; i++) {
		size_t used = strlen(text);
		snprintf(text + used, sizeof text - used, "a%d: &a%d [[[[[[[[[[*a%d]]]]]]]]]]\n", i, i, i - 1);
	}
	struct yaml_node *root;
	ck_assert_fails(yaml_parse(text, strlen(text), "net.yaml", &arena, &root), TARN_EINVAL,
			"nested deeper than 100");
}
END_TEST

START_TEST(test_many_anchors)
{
	size_t used = 0;
	static char text[YAML_MAX_ANCHORS * 16];
	for (uint32_t i = 0; i <= YAML_MAX_ANCHORS; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, "- &a%u x\n", i);
	struct yaml_node *root;
	ck_assert_fails(yaml_parse(text, used, "net.yaml", &arena, &root), TARN_EINVAL, "more than 1000 anchors");
}
END_TEST

/* A wide map is checked for duplicates without comparing each pair: 50 000 keys take no noticeable time. */
START_TEST(test_large_map)
{
	enum { KEYS = 50000 };
	size_t capacity = (size_t)KEYS * 16, used = 0;
	char *text = malloc(capacity);
	for (int i = 0; i < KEYS; i++)
		used += (size_t)snprintf(text + used, capacity - used, "k%d: %d\n", i, i);
	struct yaml_node *root;
	ck_assert_ok(yaml_parse(text, used, "net.yaml", &arena, &root));
	ck_assert_uint_eq(root->children, KEYS);
	used += (size_t)snprintf(text + used, capacity - used, "k77: 1\n");
	ck_assert_fails(yaml_parse(text, used, "net.yaml", &arena, &root), TARN_EINVAL,
			"net.yaml:50001:1: duplicate key \"k77\"; it was first given in line 78");
	free(text);
}
END_TEST

START_TEST(test_too_long)
{
	struct yaml_node *root;
	ck_assert_fails(yaml_parse("a: 1", YAML_MAX_BYTES + 1, "net.yaml", &arena, &root), TARN_EINVAL, "the limit is");
	/* A file with a hole: long, but without content on the disk. */
	const char *path = testing_file("long.yaml", "a: 1\n", 5);
	ck_assert_int_eq(truncate(path, (off_t)YAML_MAX_BYTES + 4096), 0);
	ck_assert_fails(yaml_load(path, &arena, &root), TARN_EINVAL, "the limit is");
}
END_TEST

START_TEST(test_load)
{
	struct yaml_node *root;
	const char *path = testing_file("good.yaml", "a: 1\n", 5);
	ck_assert_ok(yaml_load(path, &arena, &root));
	ck_assert_str_eq(yaml_find(root, "a")->text, "1");
	ck_assert_str_eq(root->file, path);
	ck_assert_fails(yaml_load("/nonexistent/x.yaml", &arena, &root), TARN_EIO,
			"/nonexistent/x.yaml: cannot open: No such file");
	ck_assert_fails(yaml_load(testing_directory(), &arena, &root), TARN_EIO, "cannot read: Is a directory");
}
END_TEST

static struct yaml_node *scalar(const char *text)
{
	struct yaml_node *root = yaml_new(YAML_MAP, "net.yaml", 3, &arena);
	struct yaml_node *node = yaml_new(YAML_SCALAR, "net.yaml", 3, &arena);
	node->text = text;
	yaml_put(root, "key", node);
	return node;
}

START_TEST(test_real)
{
	static const struct {
		const char *text;
		double value;
	} good[] = {
		{ "1e-3", 0.001 },  { "1E-3", 0.001 },  { ".001", 0.001 },    { "1.0e-3", 0.001 },
		{ "+1e-3", 0.001 }, { "1e-03", 0.001 }, { "-2.5e+1", -25.0 }, { "3.", 3.0 },
		{ "0", 0.0 },       { "-0", 0.0 },      { "1e-400", 0.0 },    { "007", 7.0 },
	};
	static const char *const refused[] = {
		"1e-3x", "1,5",  "inf", "-inf",  "nan", "NaN",   "0x10",  "1e",    "1e+",  ".",        "-",
		"e5",    "1 e3", " 1 ", "1_000", "--1", "1.2.3", "1e3.5", "1e999", "true", "\xC2\xB5",
	};
	double value;
	for (size_t i = 0; i < COUNT(good); i++) {
		value = 99;
		ck_assert_ok(yaml_read_real(scalar(good[i].text), -100, 100, &value));
		ck_assert_msg(fabs(value - good[i].value) < 1e-18, "%s: %.17g", good[i].text, value);
	}
	for (size_t i = 0; i < COUNT(refused); i++) {
		value = 99;
		ck_assert_fails(yaml_read_real(scalar(refused[i]), -1e300, 1e300, &value), TARN_EINVAL, refused[i]);
		ck_assert_msg(strstr(tarn_error(), "net.yaml:3:1: key: ") == tarn_error(), "%s", tarn_error());
		ck_assert(value == 99);
	}
	ck_assert_fails(yaml_read_real(scalar(""), 0, 1, &value), TARN_EINVAL, "has no value; it must be a number");
	ck_assert_fails(yaml_read_real(scalar("1.5"), 0, 1, &value), TARN_EINVAL, "must be from 0 to 1");
	ck_assert_fails(yaml_read_real(scalar("-1"), 0, INFINITY, &value), TARN_EINVAL, "must be at least 0");
	ck_assert_fails(yaml_read_real(scalar("1"), -INFINITY, 0, &value), TARN_EINVAL, "must be at most 0");
	struct yaml_node *list = scalar("");
	list->kind = YAML_LIST;
	ck_assert_fails(yaml_read_real(list, 0, 1, &value), TARN_EINVAL, "key: must be a number, not a list");
	list->kind = YAML_MAP;
	ck_assert_fails(yaml_read_real(list, 0, 1, &value), TARN_EINVAL, "key: must be a number, not a map");
}
END_TEST

START_TEST(test_integer_and_bool)
{
	int64_t value = 0;
	ck_assert_ok(yaml_read_integer(scalar("9223372036854775807"), 0, INT64_MAX, &value));
	ck_assert(value == INT64_MAX);
	ck_assert_ok(yaml_read_integer(scalar("-9223372036854775808"), INT64_MIN, 0, &value));
	ck_assert(value == INT64_MIN);
	ck_assert_ok(yaml_read_integer(scalar("+12"), 0, 12, &value));
	ck_assert(value == 12);
	static const char *const refused[] = { "1e3", "1.0", "60_000", "0x10", "-", "+", "1 2", "12a", "no" };
	for (size_t i = 0; i < COUNT(refused); i++)
		ck_assert_fails(yaml_read_integer(scalar(refused[i]), 0, 100, &value), TARN_EINVAL,
				"is not a whole number");
	ck_assert_fails(yaml_read_integer(scalar("9223372036854775808"), 0, INT64_MAX, &value), TARN_EINVAL,
			"9223372036854775808 is out of range; it must be at least 0");
	ck_assert_fails(yaml_read_integer(scalar("13"), 0, 12, &value), TARN_EINVAL, "must be from 0 to 12");
	ck_assert(value == 12);

	bool flag = false;
	ck_assert_ok(yaml_read_bool(scalar("yes"), &flag));
	ck_assert(flag);
	ck_assert_ok(yaml_read_bool(scalar("no"), &flag));
	ck_assert(!flag);
	ck_assert_ok(yaml_read_bool(scalar("true"), &flag));
	ck_assert(flag);
	ck_assert_ok(yaml_read_bool(scalar("false"), &flag));
	ck_assert(!flag);
	static const char *const neither[] = { "maybe", "on", "off", "1", "0", "True", "y", "" };
	for (size_t i = 0; i < COUNT(neither); i++)
		ck_assert_fails(yaml_read_bool(scalar(neither[i]), &flag), TARN_EINVAL, "true");
}
END_TEST

START_TEST(test_bytes_and_choice)
{
	uint64_t bytes = 5;
	ck_assert_ok(yaml_read_bytes(scalar("4.5GiB"), &bytes));
	ck_assert(bytes == 4831838208u);
	ck_assert_fails(yaml_read_bytes(scalar("4g"), &bytes), TARN_EINVAL, "net.yaml:3:1: key: size \"4g\"");
	ck_assert_fails(yaml_read_bytes(scalar("4\n GiB"), &bytes), TARN_EINVAL, "\"4? GiB\" is not a size");

	static const char *const names[] = { "sgd", "momentum", "adam", "adamw" };
	uint32_t index = 9;
	ck_assert_ok(yaml_read_choice(scalar("adamw"), names, COUNT(names), &index));
	ck_assert_uint_eq(index, 3);
	ck_assert_fails(yaml_read_choice(scalar("momentun"), names, COUNT(names), &index), TARN_EINVAL,
			"\"momentun\" is not one of sgd, momentum, adam, adamw; did you mean \"momentum\"?");
	ck_assert_fails(yaml_read_choice(scalar("rmsprop"), names, COUNT(names), &index), TARN_EINVAL,
			"\"rmsprop\" is not one of sgd, momentum, adam, adamw");
	ck_assert_fails(yaml_read_choice(scalar(""), names, COUNT(names), &index), TARN_EINVAL, "has no value");
	ck_assert_uint_eq(index, 3);
}
END_TEST

START_TEST(test_nearest_name)
{
	static const char *const names[] = { "optimizer", "momentum", "data", "cpu", "sgd" };
	static const struct {
		const char *text, *nearest;
	} cases[] = {
		{ "optimiser", "optimizer" },
		{ "OPTIMIZER", "optimizer" },
		{ "optmizer", "optimizer" },
		{ "mometnum", "momentum" },
		{ "date", "data" },
		{ "cp", "cpu" },
		{ "gpu", "cpu" },
		{ "sgd", "sgd" },
		{ "zebra", NULL },
		{ "x", NULL },
		{ "", NULL },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		const char *got = nearest_name(cases[i].text, names, COUNT(names));
		ck_assert_msg(got == cases[i].nearest || (got && cases[i].nearest && !strcmp(got, cases[i].nearest)),
			      "%s: %s", cases[i].text, got ? got : "nothing");
	}
	char longer[5000];
	memset(longer, 'a', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	ck_assert(!nearest_name(longer, names, COUNT(names)));
}
END_TEST

START_TEST(test_shown)
{
	char buffer[12];
	ck_assert_str_eq(yaml_shown("short", buffer, sizeof buffer), "short");
	ck_assert_str_eq(yaml_shown("a\nb\x7F", buffer, sizeof buffer), "a?b?");
	ck_assert_str_eq(yaml_shown("12345678901", buffer, sizeof buffer), "12345678901");
	ck_assert_str_eq(yaml_shown("123456789012", buffer, sizeof buffer), "12345678...");
	ck_assert_str_eq(yaml_shown("1234567\xC3\xA4"
				    "0123",
				    buffer, sizeof buffer),
			 "1234567...");
}
END_TEST

static const char sample[] = "name: lenet\n"
			     "memory: {budget: 24 MiB, keep: [\"a*\", 'b']}\n"
			     "data: &d\n  type: idx\n  mean: [0.1, 0.2]\n"
			     "layers:\n- conv2d: {channels: 16, kernel: 3}\n- relu\n"
			     "- repeat:\n    count: 3\n    layers: [*d, flatten]\n"
			     "text: |\n  some\n  lines\n# end\n";

/* Every child hangs below its parent, and the counts agree. */
static uint32_t check_tree(const struct yaml_node *node)
{
	uint32_t children = 0, nodes = 1;
	for (const struct yaml_node *child = node->first; child; child = child->next) {
		ck_assert(child->parent == node && !child->key == (node->kind == YAML_LIST) && child->line);
		children++;
		nodes += check_tree(child);
	}
	ck_assert(children == node->children && node->text);
	return nodes;
}

static void parse_damaged(const char *text, size_t bytes, int seed)
{
	/* An exact copy on the heap, so that a read past the end is seen. */
	char *copy = malloc(bytes ? bytes : 1);
	memcpy(copy, text, bytes);
	struct host_mark mark = host_arena_mark(&arena);
	struct yaml_node *root = NULL;
	tarn_error_clear();
	enum tarn_status st = yaml_parse(copy, bytes, "net.yaml", &arena, &root);
	if (st == TARN_OK)
		check_tree(root);
	else
		ck_assert_msg(st == TARN_EINVAL && !strncmp(tarn_error(), "net.yaml:", 9) &&
				      !strchr(tarn_error(), '\n'),
			      "seed %d: status %d: %s", seed, (int)st, tarn_error());
	host_arena_release(&arena, mark);
	free(copy);
}

START_TEST(test_truncated)
{
	for (size_t bytes = 0; bytes <= sizeof sample - 1; bytes++)
		parse_damaged(sample, bytes, (int)bytes);
}
END_TEST

START_TEST(test_mutated)
{
	static const char letters[] = "\0\t\n\r :-[]{},&*!|>'\"%@`#?~<\xFF\xC3\x80xa0";
	struct testing_random random = { (uint64_t)_i };
	for (int n = 0; n < 300; n++) {
		char text[sizeof sample];
		size_t bytes = sizeof sample - 1;
		memcpy(text, sample, bytes);
		for (uint32_t edits = testing_between(&random, 1, 6); edits; edits--) {
			size_t at = testing_between(&random, 0, (uint32_t)bytes - 1);
			uint32_t kind = testing_between(&random, 0, 2);
			if (kind == 0)
				text[at] = letters[testing_between(&random, 0, sizeof letters - 2)];
			else if (kind == 1)
				text[at] = (char)testing_bits(&random);
			else
				memmove(text + at, text + at + 1, --bytes - at);
		}
		parse_damaged(text, bytes, _i);
	}
}
END_TEST

/* Every request for host memory fails once: an error, never a crash. */
START_TEST(test_no_memory)
{
	struct yaml_node *root = NULL;
	uint64_t n = 1;
	for (;; n++) {
		struct host_arena poor;
		host_arena_init(&poor);
		poor.fail_at = n;
		enum tarn_status st = yaml_parse(sample, sizeof sample - 1, "net.yaml", &poor, &root);
		host_arena_fini(&poor);
		if (!st)
			break;
		ck_assert_msg(st == TARN_ENOMEM, "request %d: status %d: %s", (int)n, (int)st, tarn_error());
	}
	ck_assert(n > 20);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("yaml_tree");
	TCase *tree = tcase_create("tree");
	tcase_add_checked_fixture(tree, setup, teardown);
	tcase_add_test(tree, test_places_and_kinds);
	tcase_add_test(tree, test_line_ends_and_marks);
	tcase_add_test(tree, test_aliases);
	tcase_add_test(tree, test_load);
	tcase_add_loop_test(tree, test_refuses, 0, (int)COUNT(bad));
	tcase_add_test(tree, test_zero_byte);
	suite_add_tcase(suite, tree);
	TCase *readers = tcase_create("readers");
	tcase_add_checked_fixture(readers, setup, teardown);
	tcase_add_test(readers, test_real);
	tcase_add_test(readers, test_integer_and_bool);
	tcase_add_test(readers, test_bytes_and_choice);
	tcase_add_test(readers, test_nearest_name);
	tcase_add_test(readers, test_shown);
	suite_add_tcase(suite, readers);
	TCase *hostile = tcase_create("hostile");
	tcase_add_checked_fixture(hostile, setup, teardown);
	tcase_set_timeout(hostile, 60);
	tcase_add_test(hostile, test_depth_limit);
	tcase_add_test(hostile, test_alias_bomb);
	tcase_add_test(hostile, test_alias_depth);
	tcase_add_test(hostile, test_many_anchors);
	tcase_add_test(hostile, test_large_map);
	tcase_add_test(hostile, test_too_long);
	tcase_add_test(hostile, test_truncated);
	tcase_add_loop_test(hostile, test_mutated, 0, 10);
	tcase_add_test(hostile, test_no_memory);
	suite_add_tcase(suite, hostile);
	return testing_run(suite);
}
