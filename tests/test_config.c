/* test_config.c - the schema, files, overrides, and the message of every refusal. */
#include "support/testing.h"

#include "config/config.h"
#include "config/yaml_tree.h"
#include "plan/plan.h"

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
/* The least that a file must have; tests add lines to it. */
#define DATA "data: {type: idx}\n"
#define LAYERS "layers: [relu]\n"
#define SMALLEST DATA LAYERS

static struct host_arena arena;

static void setup(void)
{
	host_arena_init(&arena);
}

static void teardown(void)
{
	host_arena_fini(&arena);
}

static enum tarn_status parse(const char *text, const char *override, struct config *config)
{
	return config_parse(text, strlen(text), "net.yaml", &override, override != NULL, &arena, config);
}

static struct config parsed(const char *text, const char *override)
{
	struct config config;
	ck_assert_ok(parse(text, override, &config));
	return config;
}

static void refused(const char *text, const char *override, const char *sentence)
{
	struct config config, before;
	memset(&config, 0x5A, sizeof config);
	before = config;
	ck_assert_fails(parse(text, override, &config), TARN_EINVAL, sentence);
	ck_assert_msg(!memcmp(&config, &before, sizeof config), "the result was touched: %s", tarn_error());
	ck_assert_msg(!strchr(tarn_error(), '\n'), "\"%s\" is not one line", tarn_error());
}

START_TEST(test_defaults)
{
	struct config c;
	ck_assert_ok(config_defaults(NULL, 0, &arena, &c));
	ck_assert(c.driver == CONFIG_DRIVER_CPU_NAME && !c.layers && !c.model && !*c.budget_place);
	ck_assert(c.memory.budget == UINT64_MAX && c.memory.recompute == STRATEGY_AUTO);
	ck_assert(c.memory.workspace_cap == 256u << 20 && !c.memory.keep.count);
	ck_assert(c.data.batch == 128 && c.data.classes == 10 && c.data.shuffle && !c.data.drop_last && !c.data.flip);
	ck_assert_str_eq(c.data.train_inputs, "train-images-idx3-ubyte.gz");
	ck_assert_str_eq(c.data.test_labels, "t10k-labels-idx1-ubyte.gz");
	ck_assert(c.network.init == NETWORK_INIT_DEFAULT && c.network.loss == LOSS_CROSS_ENTROPY);
	ck_assert(c.optimizer.type == OPTIMIZER_MOMENTUM && c.optimizer.learning_rate == 0.01);
	ck_assert(c.optimizer.momentum == 0.9 && c.optimizer.beta1 == 0.9 && c.optimizer.beta2 == 0.999);
	ck_assert(c.optimizer.epsilon == 1e-8 && c.optimizer.weight_decay == 0 && c.optimizer.clip_norm == 0);
	ck_assert(c.optimizer.schedule == RATE_CONSTANT && !c.optimizer.nesterov);
	ck_assert(!c.train.epochs && !c.train.max_steps && !c.train.seed && !c.train.threads);
	ck_assert_str_eq(c.train.snapshot, "");
	ck_assert_str_eq(c.name, "run");
}
END_TEST

/* The table itself: ranges, texts, fields of their own, and the keys of a section side by side. */
START_TEST(test_schema)
{
	static const char *owner[sizeof(struct config)];
	for (uint32_t i = 0; i < config_schema_keys; i++) {
		const struct config_key *key = &config_schema[i];
		ck_assert_msg(key->help && *key->help && key->example && *key->example && key->unit, "%s", key->path);
		ck_assert_msg(key->low <= key->high && key->offset + key->width <= sizeof(struct config), "%s",
			      key->path);
		ck_assert_msg(key->type != CONFIG_INTEGER || key->width == 4 || key->width == 8, "%s", key->path);
		ck_assert_msg((key->type == CONFIG_CHOICE) == (key->n_choices > 0), "%s", key->path);
		for (uint32_t byte = key->offset; byte < key->offset + key->width; byte++) {
			ck_assert_msg(!owner[byte], "%s and %s share a field", key->path, owner[byte]);
			owner[byte] = key->path;
		}
		for (uint32_t j = 0; j < i; j++)
			ck_assert_str_ne(key->path, config_schema[j].path);
	}
	for (uint32_t s = 0; s < STRATEGIES; s++)
		ck_assert_str_ne(strategy_name(s), "unknown");
	ck_assert_str_eq(strategy_name(STRATEGY_MEMORY_POOR), "memory-poor");
}
END_TEST

/* Each key's example is right where the key may stand, on the command line and in a file. */
START_TEST(test_examples)
{
	const struct config_key *key = &config_schema[_i];
	const char *companions = "memory.recompute=manual memory.keep=a data.std=1 data.mean=1 data.type=hash "
				 "optimizer.type=adam optimizer.schedule.type=step train.run=f";
	if (strstr(key->path, "arrays"))
		companions = "data.type=npy data.arrays=[a,b] data.train_arrays=[c,d] data.test_arrays=[e,f]";
	if (key->type == CONFIG_NODE)
		return;
	const char *override[16];
	uint32_t count = 0;
	char *list = host_arena_text(&arena, companions), *rest = NULL;
	for (char *word = strtok_r(list, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		if (strncmp(word, "memory.keep", 11) || strcmp(key->path, "memory.recompute"))
			override[count++] = word;
	if (!strcmp(key->path, "memory.recompute"))
		override[0] = override[--count];
	override[count++] = host_arena_printf(&arena, "%s=%s", key->path, key->example);
	struct config config;
	ck_assert_ok(config_defaults(override, count, &arena, &config));
	FILE *sink = fopen("/dev/null", "w");
	ck_assert_ok(config_help(sink, key->path));
	fclose(sink);
}
END_TEST

START_TEST(test_file)
{
	struct config c =
		parsed("name: no\n"
		       "device: {driver: null}\n"
		       "memory:\n  budget: 24 MiB\n  recompute: collection\n  keep: [a*, \"b, c\"]\n"
		       "  workspace_cap: 512 B\n"
		       "data:\n  type: npy\n  directory: x/y\n  shape: [28, 28, 1]\n  mean: [0.1]\n  std: 0.3\n"
		       "  test_inputs: off\n  batch: 32\n  shuffle: no\n  augment: {shift: 4, flip: yes}\n"
		       "network: {init: hash, loss: mse}\n"
		       "optimizer:\n  type: adamw\n  learning_rate: 1e-3\n  schedule: {type: cosine, warmup_steps: 7}\n"
		       "train: {epochs: 3, seed: 9007199254740992, snapshot: on.safetensors}\n"
		       "model: {family: mlp, depth: 2}\n",
		       NULL);
	ck_assert_str_eq(c.file, "net.yaml");
	ck_assert_str_eq(c.name, "no");
	ck_assert_str_eq(c.budget_place, "net.yaml:4:11: ");
	ck_assert(c.driver == CONFIG_DRIVER_NULL_NAME && c.memory.budget == 24u << 20);
	ck_assert(c.memory.recompute == STRATEGY_MANUAL && c.memory.keep.count == 2);
	ck_assert_str_eq(c.memory.keep.item[0], "a*");
	ck_assert_str_eq(c.memory.keep.item[1], "b, c");
	ck_assert(c.memory.workspace_cap == 512 && c.data.type == DATA_NPY);
	ck_assert_str_eq(c.data.directory, "x/y");
	ck_assert_str_eq(c.data.train_inputs, "train_inputs.npy");
	ck_assert_str_eq(c.data.test_inputs, "off");
	ck_assert(c.data.shape.count == 3 && c.data.shape.item[1] == 28 && c.data.shape.item[2] == 1);
	ck_assert(c.data.mean.count == 1 && c.data.mean.item[0] == 0.1 && c.data.std.item[0] == 0.3);
	ck_assert(c.data.batch == 32 && !c.data.shuffle && c.data.shift == 4 && c.data.flip);
	ck_assert(c.network.init == NETWORK_INIT_HASH && c.network.loss == LOSS_MEAN_SQUARED_ERROR);
	ck_assert(c.optimizer.type == OPTIMIZER_ADAMW && c.optimizer.learning_rate == 0.001);
	ck_assert(c.optimizer.schedule == RATE_COSINE && c.optimizer.warmup_steps == 7);
	ck_assert(c.train.epochs == 3 && c.train.seed == 1ull << 53);
	ck_assert_str_eq(yaml_find(c.model, "depth")->text, "2");
	ck_assert(!c.layers);
	c = parsed("name:\ntrain:\nmemory: {keep: []}\n" SMALLEST, NULL);
	ck_assert_str_eq(c.name, "net");
	ck_assert(!c.train.epochs && c.layers->children == 1);
	ck_assert(parsed("data: {type: hash, batch: 48}\n" LAYERS, NULL).data.samples == 48);
	ck_assert(parsed("data: {type: synthetic, batch: 48}\n" LAYERS, NULL).data.samples == 1024);
	ck_assert(parsed("memory: {recompute: memory}\n" SMALLEST, NULL).memory.recompute == STRATEGY_SQRT);
}
END_TEST

/* File text (put in front of SMALLEST unless it has data or a network), override, and the sentence. */
static const struct {
	const char *text, *override, *sentence;
} bad[] = {
	/* Unknown and misplaced keys. */
	{ "optimiser: {type: sgd}\n" SMALLEST, NULL,
	  "net.yaml:1:1: unknown key \"optimiser\"; did you mean \"optimizer\"?" },
	{ "lr: 2e-4\n" SMALLEST, NULL, "net.yaml:1:1: unknown key \"lr\"; did you mean \"optimizer.learning_rate\"?" },
	{ "learning_rate: 2e-4\n" SMALLEST, NULL,
	  "unknown key \"learning_rate\"; did you mean \"optimizer.learning_rate\"?" },
	{ "optimizer:\n  learning_rat: 1\n" SMALLEST, NULL,
	  "net.yaml:2:3: unknown key \"optimizer.learning_rat\"; did you mean \"optimizer.learning_rate\"?" },
	{ "optimizer: {lr: 1}\n" SMALLEST, NULL, "did you mean \"optimizer.learning_rate\"?" },
	{ "train: {batch_size: 1}\n" SMALLEST, NULL, "unknown key \"train.batch_size\"; did you mean \"data.batch\"?" },
	{ "budget: 1 GiB\n" SMALLEST, NULL, "did you mean \"memory.budget\"?" },
	{ "workspace_limit: 512\n" SMALLEST, NULL, "did you mean \"memory.workspace_cap\"?" },
	{ "optimizer: {schedule: {tpye: cosine}}\n" SMALLEST, NULL, "did you mean \"optimizer.schedule.type\"?" },
	{ "zebra: 1\n" SMALLEST, NULL, "unknown key \"zebra\"; the top level has name, device, memory, data" },
	{ "train: {zebra: 1}\n" SMALLEST, NULL,
	  "unknown key \"train.zebra\"; train: has epochs, max_steps, accumulate" },
	{ "memory.budget: 1 GiB\n" SMALLEST, NULL, "unknown key \"memory.budget\"; write one map inside the other" },
	{ SMALLEST, "optimiser.type=sgd", "command line: unknown key \"optimiser\"; did you mean \"optimizer\"?" },
	{ SMALLEST, "memory.bugdet=1", "command line: unknown key \"memory.bugdet\"; did you mean \"memory.budget\"?" },
	{ SMALLEST, "memory.budget.x=1", "command line: memory.budget: must be a size" },
	/* Duplicates. */
	{ "memory:\n  budget: 1 GiB\n  budget: 2 GiB\n" SMALLEST, NULL,
	  "net.yaml:3:3: duplicate key \"budget\"; it was first given in line 2" },
	{ DATA "layers:\n- conv2d: {kernel: 3, kernel: 5}\n", NULL, "net.yaml:3:23: duplicate key \"kernel\"" },
	/* Numbers and their ranges. */
	{ "optimizer: {learning_rate: 1e-3x}\n" SMALLEST, NULL,
	  "net.yaml:1:28: optimizer.learning_rate: \"1e-3x\" is not a number" },
	{ "optimizer:\n  learning_rate: 1,5\n" SMALLEST, NULL, "\"1,5\" is not a number; the decimal sign is a point" },
	{ "optimizer: {learning_rate: -1}\n" SMALLEST, NULL, "-1 is out of range; it must be from 0 to" },
	{ "optimizer: {momentum: 1}\n" SMALLEST, NULL, "optimizer.momentum: 1 is out of range" },
	{ "optimizer: {learning_rate: [1]}\n" SMALLEST, NULL, "must be a number, not a list" },
	{ "optimizer:\n  learning_rate:\n" SMALLEST, NULL,
	  "net.yaml:2:17: optimizer.learning_rate: has no value; it must be a number" },
	{ "train: {epochs: -1}\n" SMALLEST, NULL, "train.epochs: -1 is out of range; it must be from 0 to 4294967295" },
	{ "train: {epochs: 4294967296}\n" SMALLEST, NULL, "out of range" },
	{ "train: {seed: -1}\n" SMALLEST, NULL, "train.seed: -1 is out of range" },
	{ "train: {epochs: 1e3}\n" SMALLEST, NULL, "\"1e3\" is not a whole number" },
	{ "data: {type: idx, batch: 0}\n" LAYERS, NULL, "data.batch: 0 is out of range" },
	/* Booleans, choices, kinds. */
	{ "data: {type: idx, shuffle: maybe}\n" LAYERS, NULL,
	  "net.yaml:1:28: data.shuffle: \"maybe\" is neither true nor false" },
	{ "data: {type: idx, shuffle: on}\n" LAYERS, NULL, "is neither true nor false" },
	{ "optimizer: {type: rmsprop}\n" SMALLEST, NULL, "\"rmsprop\" is not one of sgd, momentum, adam, adamw" },
	{ "optimizer: {type: adan}\n" SMALLEST, NULL, "did you mean \"adam\"?" },
	{ "memory: {recompute: [auto]}\n" SMALLEST, NULL, "memory-poor, sqrt, speed, manual, min, memory, collection" },
	{ "memory: 3\n" SMALLEST, NULL, "net.yaml:1:9: memory: must be a map with some of the keys budget, recompute" },
	{ "optimizer: {schedule: cosine}\n" SMALLEST, NULL,
	  "optimizer.schedule: must be a map with some of the keys type" },
	{ "- a\n- b\n", NULL, "net.yaml:1:1: a configuration is a map of keys" },
	{ "word\n", NULL, "net.yaml:1:1: a configuration is a map of keys" },
	{ "name: [a]\n" SMALLEST, NULL, "name: must be text, not a list" },
	{ "data: {type: idx, mean: {a: 1}}\n" LAYERS, NULL, "data.mean: must be a list such as [0.1307], not a map" },
	{ "data: {type: idx, mean: [0.1, x], std: [1, 1]}\n" LAYERS, NULL, "data.mean[1]: \"x\" is not a number" },
	{ "data: {type: idx, mean: [1, 1, 1, 1, 1, 1, 1, 1, 1]}\n" LAYERS, NULL, "has 9 entries; the limit is 8" },
	{ "data: {type: idx, shape: [28, 0]}\n" LAYERS, NULL, "data.shape[1]: 0 is out of range" },
	{ "data: {type: idx, directory: ''}\n" LAYERS, NULL, "data.directory: must not be empty" },
	/* Sizes. */
	{ "memory: {budget: 4g}\n" SMALLEST, NULL, "net.yaml:1:18: memory.budget: size \"4g\": \"g\" could mean GB" },
	{ "memory: {budget: -1}\n" SMALLEST, NULL, "memory.budget: size \"-1\" is negative" },
	{ "memory: {budget: 0}\n" SMALLEST, NULL, "memory.budget: must be more than 0" },
	{ "memory: {budget: 0 GiB}\n" SMALLEST, NULL, "memory.budget: must be more than 0" },
	{ "memory: {budget: 100%}\n" SMALLEST, NULL, "\"100%\" depends on the machine; write a size" },
	{ "memory: {budget: unlimted}\n" SMALLEST, NULL, "write a size such as 24 MiB, or unlimited" },
	{ "memory: {budget: [1 GiB]}\n" SMALLEST, NULL, "must be a size such as 24 MiB, not a list" },
	{ "memory: {workspace_cap: 512}\n" SMALLEST, NULL,
	  "memory.workspace_cap: 512 bytes are too few for any fast kernel; did you mean 512 MiB?" },
	{ "memory: {workspace_cap: 4095}\n" SMALLEST, NULL, "did you mean 4095 MiB?" },
	{ "memory: {workspace_cap: unlimited}\n" SMALLEST, NULL, "\"unlimited\" is not a size" },
	{ SMALLEST, "memory.budget=4g", "command line: memory.budget: size \"4g\"" },
	/* What must be there. */
	{ LAYERS, NULL, "net.yaml: data.type is missing; give one of idx, npy, synthetic, hash" },
	{ "name: x\ndata: {batch: 3}\n" LAYERS, NULL, "net.yaml:2:1: data.type is missing" },
	{ DATA, NULL, "net.yaml: the network is missing; give layers: or model:" },
	{ SMALLEST "model: {family: mlp}\n", NULL, "net.yaml:3:1: model: and layers: (line 2) are both there" },
	{ DATA "layers: []\n", NULL, "net.yaml:2:9: layers: is empty" },
	{ DATA "layers: relu\n", NULL, "net.yaml:2:9: layers: must be a list of layers, not a single value" },
	{ DATA "layers:\n", NULL, "layers: must be a list" },
	{ DATA "model: resnet\n", NULL, "model: must be a map such as {family: mlp}, not a single value" },
	/* Keys that need one another, or have no effect. */
	{ "memory: {recompute: auto, keep: [a]}\n" SMALLEST, NULL,
	  "net.yaml:1:33: memory.keep: only has a meaning with memory.recompute: manual, but that is auto" },
	{ "memory: {keep: a}\n" SMALLEST, NULL, "net.yaml:1:16: memory.keep: only has a meaning" },
	{ "memory: {recompute: manual}\n" SMALLEST, NULL, "net.yaml:1:21: memory.recompute: manual needs memory.keep" },
	{ "data: {type: idx, mean: [1, 2], std: [1]}\n" LAYERS, NULL,
	  "net.yaml:1:38: data.std: has 1 value, but data.mean has 2; give as many of both" },
	{ "data: {type: idx, mean: [1]}\n" LAYERS, NULL, "data.mean: has 1 value, but data.std has 0" },
	{ "data: {type: idx, std: [0], mean: [0]}\n" LAYERS, NULL, "data.std[0]: 0 is out of range" },
	{ "data: {type: idx, test_labels: ''}\n" LAYERS, NULL,
	  "data.test_labels: is empty, but data.test_inputs names t10k-images-idx3-ubyte.gz; both name" },
	{ "data: {type: hash, samples: 100, drop_last: yes}\n" LAYERS, NULL,
	  "data.drop_last: 100 samples and a batch of 128 leave no full batch" },
	{ "optimizer: {beta1: 0.5}\n" SMALLEST, NULL,
	  "optimizer.beta1: has no effect with optimizer.type: momentum; it belongs to adam or adamw" },
	{ "optimizer: {type: sgd, momentum: 0.9}\n" SMALLEST, NULL, "it belongs to momentum" },
	{ "optimizer: {schedule: {step_factor: 0.5}}\n" SMALLEST, NULL,
	  "optimizer.schedule.step_factor: has no effect with optimizer.schedule.type: constant; it belongs to step" },
	{ "data: {type: hash, directory: x}\n" LAYERS, NULL, "data.directory: has no effect with data.type: hash" },
	{ "data: {type: idx, samples: 5}\n" LAYERS, NULL, "it belongs to synthetic or hash" },
	{ "data: {type: cifar10, train_inputs: x}\n" LAYERS, NULL, "has no effect with data.type: cifar10" },
	{ "data: {type: cifar10, label_set: coarse}\n" LAYERS, NULL, "it belongs to cifar100" },
	{ "data: {type: npy, archive: x.npz}\n" LAYERS, NULL, "data.archive: has no effect with data.type: npy" },
	{ "data: {type: hash, synthetic: yes}\n" LAYERS, NULL, "data.synthetic: has no effect with data.type: hash" },
	{ "data: {type: images, pixel_labels: yes}\n" LAYERS, NULL, "data.pixel_labels: has no effect" },
	{ "data: {type: images}\nnetwork: {loss: mse}\n" LAYERS, NULL, "samples of data.type: images have labels" },
	{ "data: {type: npz, test_labels: ''}\n" LAYERS, NULL, "data.test_labels: is empty, but" },
	{ "data: {type: hash, mean: [0], std: [1]}\n" LAYERS, NULL, "data.mean: has no effect with data.type: hash" },
	{ "data: {type: npy, classes: 5}\nnetwork: {loss: mse}\n" LAYERS, NULL,
	  "net.yaml:1:28: data.classes: has no effect with network.loss: mean_squared_error" },
	{ SMALLEST "network: {loss: mse}\n", "data.classes=5", "command line: data.classes: has no effect" },
	{ SMALLEST "network: {target: input}\n", NULL,
	  "network.target: is input, but cross_entropy compares with labels" },
	{ SMALLEST "network: {loss: logistic_mixture, target: data}\n", NULL,
	  "network.target: is data, but logistic_mixture is the likelihood of the input" },
	{ "data: {type: npy, train_labels: a.npy}\nnetwork: {loss: bce, target: input}\n" LAYERS, NULL,
	  "data.train_labels: has no effect with network.target: input; it belongs to data" },
	{ "optimizer: {decay_norms: no}\n" SMALLEST, NULL,
	  "optimizer.decay_norms: has no effect with optimizer.weight_decay: 0" },
	{ "optimizer: {decay_norms: no, weight_decay: 0}\n" SMALLEST, NULL, "optimizer.decay_norms: has no effect" },
	{ "optimizer: {nesterov: yes, momentum: 0}\n" SMALLEST, NULL, "needs optimizer.momentum above 0" },
	{ "train: {snapshot_every: 2}\n" SMALLEST, NULL, "train.snapshot_every: needs train.snapshot" },
	/* Overrides. */
	{ SMALLEST, "memory.budget", "command line: \"memory.budget\" is not of the form key=value" },
	{ SMALLEST, "=3", "command line: unknown key \"\"" },
	{ SMALLEST, ".=3", "command line: unknown key" },
	{ SMALLEST, "layers=[relu]", "command line: layers can only be given in a file" },
	{ SMALLEST, "model.depth=3", "model: and layers: (line 2) are both there" },
	{ SMALLEST, "memory=3", "command line: memory: must be a map" },
	{ SMALLEST, "data.mean=[0.1", "command line: \"[0.1\" is not a list" },
	{ SMALLEST, "data.mean=0.1]", "command line: data.mean[0]: \"0.1]\" is not a number" },
	{ SMALLEST, "data.mean=0.1,,0.2", "command line: data.mean[1]: has no value" },
	{ SMALLEST, "name=\"x", "command line: \"\"x\" has a quote without its end" },
	{ DATA "model: resnet\n", "model.depth=3", "net.yaml:2:8: model: must be a map, not a single value" },
	{ SMALLEST, "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r=1", "more than 16 points" },
};

START_TEST(test_refuses)
{
	refused(bad[_i].text, bad[_i].override, bad[_i].sentence);
}
END_TEST

/* What the command line sets aside, or what has an effect after all. */
START_TEST(test_keys_with_effect)
{
	parsed("data: {type: idx, mean: [0], std: [1], classes: 5}\n" LAYERS, "data.type=synthetic");
	parsed("data: {type: idx, classes: 5}\n" LAYERS, "network.loss=mse");
	parsed("data: {type: synthetic, classes: 5}\nnetwork: {loss: mse}\n" LAYERS, NULL);
	struct config mixture = parsed("data: {type: idx}\nnetwork: {loss: logistic_mixture}\n" LAYERS, NULL);
	ck_assert_uint_eq(mixture.network.target, TARGET_INPUT);
	parsed("optimizer: {decay_norms: no, weight_decay: 1e-4}\n" SMALLEST, "optimizer.weight_decay=0");
	parsed("optimizer: {decay_norms: no}\n" SMALLEST, "optimizer.weight_decay=1e-4");
}
END_TEST

/* Files of our own that are no configurations are recognised; text that only begins like one is read as text. */
START_TEST(test_foreign_files)
{
	struct config config;
	const char *path = testing_file("my.plan", PLAN_MAGIC "\1\0\0\0\0\0\0\0", 16);
	ck_assert_fails(config_load(path, NULL, 0, &arena, &config), TARN_EINVAL, "my.plan: this is a plan file");
	ck_assert_ptr_nonnull(strstr(tarn_error(), "run it with --plan"));
	path = testing_file("my.safetensors", "\2\0\0\0\0\0\0\0{}", 10);
	ck_assert_fails(config_load(path, NULL, 0, &arena, &config), TARN_EINVAL, "this is a snapshot (safetensors)");
	path = testing_file("text.yaml", "TARNPLAN: {a: b}\n", 17);
	ck_assert_fails(config_load(path, NULL, 0, &arena, &config), TARN_EINVAL, "unknown key \"TARNPLAN\"");
	path = testing_file("short.yaml", "TARNPLAN", 8);
	ck_assert_fails(config_load(path, NULL, 0, &arena, &config), TARN_EINVAL, "a configuration is a map");
}
END_TEST

/* No message says the same thing twice in a row. */
static bool repeats_itself(const char *sentence)
{
	for (const char *at = sentence; (at = strstr(at, ": ")); at += 2) {
		const char *start = at;
		while (start > sentence && start[-1] != ' ')
			start--;
		size_t length = (size_t)(at - start);
		if (length && !strncmp(at + 2, start, length) && strchr(": ", at[2 + length]))
			return true;
	}
	return false;
}

START_TEST(test_no_doubled_prefix)
{
	struct config config;
	ck_assert(repeats_itself("command line: data.mean: data.mean has 2") && !repeats_itself("a: b: c"));
	ck_assert_int_ne(parse(bad[_i].text, bad[_i].override, &config), TARN_OK);
	ck_assert_msg(!repeats_itself(tarn_error()), "%s", tarn_error());
}
END_TEST

START_TEST(test_numbers)
{
	static const char *const spelling[] = { "1e-3", "1E-3", ".001", "1.0e-3", "+1e-3" };
	for (size_t i = 0; i < COUNT(spelling); i++) {
		char text[128];
		snprintf(text, sizeof text, "optimizer: {learning_rate: %s}\n" SMALLEST, spelling[i]);
		ck_assert(parsed(text, NULL).optimizer.learning_rate == 0.001);
	}
	static const struct {
		const char *text;
		uint64_t bytes;
	} sizes[] = {
		{ "4GB", 4000000000u },
		{ "4GiB", 4294967296u },
		{ "4096MB", 4096000000u },
		{ "4294967296", 4294967296u },
		{ "4 GiB", 4294967296u },
		{ "4.5GiB", 4831838208u },
		{ "512", 512 },
		{ "unlimited", UINT64_MAX },
	};
	for (size_t i = 0; i < COUNT(sizes); i++) {
		char text[128];
		snprintf(text, sizeof text, "memory: {budget: %s}\n" SMALLEST, sizes[i].text);
		ck_assert(parsed(text, NULL).memory.budget == sizes[i].bytes);
		snprintf(text, sizeof text, "memory.budget=%s", sizes[i].text);
		struct config config = parsed(SMALLEST, text);
		ck_assert(config.memory.budget == sizes[i].bytes);
		ck_assert_str_eq(config.budget_place, "command line: ");
	}
	ck_assert(parsed("memory: {workspace_cap: 4096}\n" SMALLEST, NULL).memory.workspace_cap == 4096);
	ck_assert(parsed("memory: {workspace_cap: 0}\n" SMALLEST, NULL).memory.workspace_cap == 0);
	/* The default of the cap must not follow the budget. */
	ck_assert(parsed("memory: {budget: 1 MiB}\n" SMALLEST, NULL).memory.workspace_cap == 256u << 20);
}
END_TEST

START_TEST(test_overrides)
{
	static const char text[] = "memory: {budget: 1 GiB, recompute: manual, keep: [a]}\n"
				   "optimizer: {type: adam, beta1: 0.5}\n"
				   "data: {type: idx, directory: d, mean: [1, 2], std: [1, 1]}\n"
				   "model: {family: resnet, depth: 8, inner: {x: 1}}\n";
	struct config c = parsed(text, "memory.budget=2GiB");
	ck_assert(c.memory.budget == 2ull << 30 && c.memory.keep.count == 1);
	static const char *const many[] = { "memory.budget=2GiB",
					    "memory.budget = 3 GiB",
					    "data.mean=[0.1, 0.2, 0.3]",
					    "data.std=1,1,1",
					    "train.snapshot=",
					    "model.depth=20",
					    "model.inner.y=2",
					    "model.width=7",
					    "name=\"two\\nlines\"",
					    "memory.keep=a,\"b,c\"",
					    "optimizer.learning_rate=1e-2" };
	ck_assert_ok(config_parse(text, sizeof text - 1, "net.yaml", many, COUNT(many), &arena, &c));
	ck_assert(c.memory.budget == 3ull << 30 && c.data.mean.count == 3 && c.data.mean.item[2] == 0.3);
	ck_assert(c.data.std.count == 3 && !*c.train.snapshot && c.optimizer.learning_rate == 0.01);
	ck_assert_str_eq(c.name, "two\nlines");
	ck_assert(c.memory.keep.count == 2);
	ck_assert_str_eq(c.memory.keep.item[1], "b,c");
	ck_assert_str_eq(yaml_find(c.model, "depth")->text, "20");
	ck_assert_str_eq(yaml_find(c.model, "family")->text, "resnet");
	ck_assert_str_eq(yaml_find(c.model, "width")->text, "7");
	ck_assert_str_eq(yaml_find(yaml_find(c.model, "inner"), "y")->text, "2");
	ck_assert(c.model->children == 4);
	ck_assert_fails(yaml_fail_value(yaml_find(c.model, "depth"), "bad"), TARN_EINVAL,
			"command line: model.depth: bad");
	/* A choice from the command line sets aside what the file gave for another choice. */
	c = parsed(text, "memory.recompute=none");
	ck_assert(c.memory.recompute == STRATEGY_NONE && !c.memory.keep.count);
	ck_assert(parsed(text, "optimizer.type=sgd").optimizer.type == OPTIMIZER_SGD);
	ck_assert(parsed(text, "data.type=hash").data.type == DATA_HASH);
	/* Empty lists, single values, empty sections. */
	static const char *const none[] = { "data.mean=[]", "data.std=" };
	ck_assert_ok(config_parse(text, sizeof text - 1, "net.yaml", none, 2, &arena, &c));
	ck_assert(!c.data.mean.count && !c.data.std.count);
	ck_assert(parsed("train:\n" SMALLEST, "train.epochs=4").train.epochs == 4);
	static const char *const model[] = { "model.family=mlp", "data.type=hash" };
	ck_assert_ok(config_defaults(model, 2, &arena, &c));
	ck_assert_str_eq(yaml_find(c.model, "family")->text, "mlp");
}
END_TEST

/* data.directory of a file is relative to the file; that of the command line to the current directory. */
START_TEST(test_directory)
{
	char expected[600];
	const char *directory = testing_directory();
	struct config c;
	const char *path = testing_file("net.yaml", SMALLEST, strlen(SMALLEST));
	ck_assert_ok(config_load(path, NULL, 0, &arena, &c));
	ck_assert_str_eq(c.data.directory, directory);
	ck_assert_str_eq(c.file, path);
	ck_assert_str_eq(c.name, "net");
	static const char below[] = "data: {type: idx, directory: ../mnist}\n" LAYERS;
	path = testing_file("below.v2.yaml", below, sizeof below - 1);
	ck_assert_ok(config_load(path, NULL, 0, &arena, &c));
	snprintf(expected, sizeof expected, "%s/../mnist", directory);
	ck_assert_str_eq(c.data.directory, expected);
	ck_assert_str_eq(c.name, "below.v2");
	const char *override = "data.directory=mnist";
	ck_assert_ok(config_load(path, &override, 1, &arena, &c));
	ck_assert_str_eq(c.data.directory, "mnist");
	static const char absolute[] = "data: {type: idx, directory: /srv/mnist}\n" LAYERS;
	path = testing_file("absolute.yaml", absolute, sizeof absolute - 1);
	ck_assert_ok(config_load(path, NULL, 0, &arena, &c));
	ck_assert_str_eq(c.data.directory, "/srv/mnist");
	ck_assert_fails(config_load("/nonexistent/net.yaml", NULL, 0, &arena, &c), TARN_EIO, "/nonexistent/net.yaml");
}
END_TEST

static const char sample[] = "name: lenet\nmemory: {budget: 24 MiB, recompute: manual, keep: [a, 'b']}\n"
			     "data:\n  type: idx\n  directory: d\n  mean: [0.1, 0.2]\n  std: [1, 2]\n"
			     "optimizer: {type: adam, learning_rate: 1e-3, schedule: {type: step, step_factor: 0.5}}\n"
			     "train: {epochs: 2, snapshot: x}\nlayers:\n- conv2d: {channels: 16}\n- relu\n";

/* Damaged files and overrides: one line that starts with a place, or a configuration that lives through its lines. */
START_TEST(test_damaged)
{
	static const char letters[] = "\n :-[]{},\"'.=0e9kG%";
	struct testing_random random = { (uint64_t)_i };
	for (int n = 0; n < 200; n++) {
		char text[sizeof sample], override[] = "memory.keep=[\"a\",b]";
		size_t bytes = sizeof sample - 1;
		memcpy(text, sample, sizeof sample);
		for (uint32_t edits = testing_between(&random, 0, 3); edits; edits--) {
			size_t at = testing_between(&random, 0, (uint32_t)bytes - 1);
			if (testing_between(&random, 0, 1))
				text[at] = letters[testing_between(&random, 0, sizeof letters - 2)];
			else
				memmove(text + at, text + at + 1, --bytes - at);
		}
		override[testing_between(&random, 0, sizeof override - 2)] =
			letters[testing_between(&random, 0, sizeof letters - 2)];
		const char *overrides = override;
		struct config c, again;
		enum tarn_status st = config_parse(text, bytes, "net.yaml", &overrides, _i & 1, &arena, &c);
		if (st == TARN_OK)
			ck_assert_ok(config_from_lines(config_to_lines(&c, &arena), "plan", NULL, 0, &arena, &again));
		else
			ck_assert_msg(st == TARN_EINVAL && !strchr(tarn_error(), '\n') &&
					      (!strncmp(tarn_error(), "net.yaml:", 9) ||
					       !strncmp(tarn_error(), "command line: ", 14)),
				      "seed %d: status %d: %s", _i, (int)st, tarn_error());
	}
}
END_TEST

/* Every request for host memory fails once. */
START_TEST(test_no_memory)
{
	const char *override[] = { "data.mean=[0.1,0.2]", "train.seed=3" };
	struct config config;
	uint64_t n = 1;
	for (;; n++) {
		struct host_arena poor;
		host_arena_init(&poor);
		poor.fail_at = n;
		char *lines = NULL;
		enum tarn_status st = config_parse(sample, sizeof sample - 1, "net.yaml", override, 2, &poor, &config);
		if (!st)
			lines = config_to_lines(&config, &poor);
		if (lines)
			st = config_from_lines(lines, "plan", override, 2, &poor, &config);
		bool done = lines && !st;
		host_arena_fini(&poor);
		if (done)
			break;
		ck_assert_msg(st == TARN_ENOMEM || (!st && !lines), "request %d: status %d: %s", (int)n, (int)st,
			      tarn_error());
	}
	ck_assert(n > 100);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("config");
	TCase *read = tcase_create("read");
	tcase_add_checked_fixture(read, setup, teardown);
	tcase_add_test(read, test_defaults);
	tcase_add_test(read, test_schema);
	tcase_add_loop_test(read, test_examples, 0, (int)config_schema_keys);
	tcase_add_test(read, test_file);
	tcase_add_loop_test(read, test_refuses, 0, (int)COUNT(bad));
	tcase_add_test(read, test_keys_with_effect);
	tcase_add_test(read, test_foreign_files);
	tcase_add_loop_test(read, test_no_doubled_prefix, 0, (int)COUNT(bad));
	tcase_add_test(read, test_numbers);
	tcase_add_test(read, test_overrides);
	tcase_add_test(read, test_directory);
	suite_add_tcase(suite, read);
	TCase *hostile = tcase_create("hostile");
	tcase_add_checked_fixture(hostile, setup, teardown);
	tcase_set_timeout(hostile, 60);
	tcase_add_loop_test(hostile, test_damaged, 0, 10);
	tcase_add_test(hostile, test_no_memory);
	suite_add_tcase(suite, hostile);
	return testing_run(suite);
}
