/*
 * config.h - everything a run needs to know besides the network's layers.
 *
 * The schema is one table (config_schema): path, type, unit, range, default, choices, help and example of each key.
 * Parsing, checking, defaults, `tarn help config`, docs/config.md and the JSON Schema for editors all come from it.
 * Precedence: command line override, file, default. Every error is one line with file:line:column.
 *
 * The struct is plain and self-contained (text fields are arena strings), so that it can be written to the plan file as
 * "path=value" lines and read back without YAML (config_from_lines): an executor-only build has no libyaml.
 */
#ifndef TARN_CONFIG_CONFIG_H
#define TARN_CONFIG_CONFIG_H

#include "base/bytes.h"
#include "base/host_arena.h"

#include <stdbool.h>
#include <stdio.h>

struct yaml_node;

enum config_driver { CONFIG_DRIVER_CPU_NAME, CONFIG_DRIVER_NULL_NAME, CONFIG_DRIVER_CUDA_NAME };

/*
 * memory.budget: what the device has free; only on devices with memory of their own. memory.workspace_cap: the one
 * of the fastest plan.
 */
#define BUDGET_AUTO (UINT64_MAX - 1)

/* memory.recompute; `memory` is an alias of sqrt and `collection` of manual. */
enum strategy {
	STRATEGY_AUTO,        /* least time that fits the budget */
	STRATEGY_NONE,        /* keep everything */
	STRATEGY_MEMORY_POOR, /* keep nothing */
	STRATEGY_SQRT,        /* about sqrt(n) tensors */
	STRATEGY_SPEED,       /* outputs of convolutions and matrix products */
	STRATEGY_MANUAL,      /* memory.keep */
	STRATEGY_MIN,         /* least memory */
	STRATEGIES
};
enum data_type {
	DATA_IDX,
	DATA_NPY,
	DATA_SYNTHETIC,
	DATA_HASH,
	DATA_TOKENS,
	DATA_NPZ,
	DATA_CIFAR10,
	DATA_CIFAR100,
	DATA_IMAGES,
	DATA_MEMORY
};
enum label_set { LABELS_FINE, LABELS_COARSE };
enum token_type { TOKEN_BYTE, TOKEN_UINT16 };
enum loss_kind { LOSS_CROSS_ENTROPY, LOSS_MEAN_SQUARED_ERROR, LOSS_BINARY_CROSS_ENTROPY, LOSS_LOGISTIC_MIXTURE };
/* What the loss compares the network's result with: labels or values of the data, or the input itself. */
enum target_kind { TARGET_DATA, TARGET_INPUT };
enum train_log { TRAIN_LOG_NONE, TRAIN_LOG_TENSORBOARD };
enum init_kind { NETWORK_INIT_DEFAULT, NETWORK_INIT_HASH };
enum objective_kind {
	OBJECTIVE_LOSS,
	OBJECTIVE_HVP,
	OBJECTIVE_MAML,
	OBJECTIVE_GRADIENT_PENALTY,
	OBJECTIVE_ADVERSARIAL,
	OBJECTIVE_LAPLACE,
	OBJECTIVE_INFERENCE
};
enum attack_method { ATTACK_FGSM, ATTACK_PGD };
enum hvp_task { HVP_PRODUCT, HVP_TRACE, HVP_DIAGONAL, HVP_EIGENVALUES, HVP_DENSITY, HVP_HESSIAN };
enum laplace_covariance { LAPLACE_DIAGONAL, LAPLACE_FULL };
enum hvp_mode { HVP_REVERSE, HVP_FORWARD, HVP_AUTO };
enum hvp_vector { HVP_RADEMACHER, HVP_NORMAL };
enum optimizer_kind {
	OPTIMIZER_SGD,
	OPTIMIZER_MOMENTUM,
	OPTIMIZER_ADAM,
	OPTIMIZER_ADAMW,
	OPTIMIZER_LION,
	OPTIMIZER_ADAFACTOR
};
enum optimizer_state { STATE_FLOAT32, STATE_INT8 };
enum number_format { NUMBER_FLOAT32, NUMBER_BFLOAT16, NUMBER_FLOAT16 };
enum schedule_kind { RATE_CONSTANT, RATE_STEP, RATE_COSINE };

enum microbatches { MICROBATCHES_GIVEN, MICROBATCHES_AUTO };
enum on_nonfinite { NONFINITE_STOP, NONFINITE_SKIP, NONFINITE_CONTINUE };
enum microbatch_norm { MICROBATCH_NORM_REFUSE, MICROBATCH_NORM_ALLOW };

#define CONFIG_MAX_LIST 64
/* Most names in data.arrays. */
#define CONFIG_MAX_ARRAYS 8u

struct text_list {
	const char *item[CONFIG_MAX_LIST];
	uint32_t count;
};

struct real_list {
	double item[8];
	uint32_t count;
};

struct size_list {
	uint32_t item[8];
	uint32_t count;
};

/* Of data.type memory; borrowed from the program. */
struct given_samples {
	const void *inputs; /* all samples, one after the other: bytes or float32 */
	bool bytes;
	const void
		*targets; /* int32 labels, or float32 values for other losses; NULL where the input is its own target */
	uint32_t samples;
};

struct config {
	const char *file;  /* where it came from, for messages */
	const char *name;  /* name: of the run; default: the file's stem */
	uint32_t driver;   /* device.driver: enum config_driver */
	bool tf32;         /* device.tf32 */
	bool graph;        /* device.graph: record a step and replay it with one call, where the device can */
	uint64_t reserve;  /* device.reserve: device memory kept out of the arena, bytes */
	const char *costs; /* device.costs: file of measured costs; "" for the driver's own estimates */
	/* Where memory.budget was given, "file:line:column: " or "command line: ", for messages; "" when it was not. */
	const char *budget_place;
	const struct yaml_node *root; /* what was read, for places of other keys in messages; see config_fail_place */

	struct {
		uint64_t budget; /* memory.budget in bytes; UINT64_MAX for `unlimited` (the default), or BUDGET_AUTO */
		uint32_t recompute;     /* enum strategy */
		struct text_list keep;  /* tensor names or globs for `manual` */
		uint64_t workspace_cap; /* bytes a library call may use as workspace; BUDGET_AUTO before boot_choose */
		bool workspace_chosen;  /* by boot_choose */
		uint32_t microbatches;  /* enum microbatches: who says train.accumulate */
		uint32_t effort;        /* enum planner_effort */
		bool in_place;          /* outputs may take over the memory of inputs */
		bool offload;           /* tensors may wait in host memory */
		uint64_t offload_limit; /* bytes of host memory for them; UINT64_MAX for `unlimited` (the default) */
		uint64_t offload_bandwidth; /* bytes a second; 0: what the driver says */
	} memory;

	struct {
		uint32_t type;         /* enum data_type */
		const char *directory; /* already joined to the config file's directory unless absolute */
		const char *train_inputs, *train_labels, *test_inputs, *test_labels; /* files in it; of npz: arrays */
		struct text_list arrays, train_arrays, test_arrays; /* names of further arrays, and their files */
		const char *archive, *test_archive; /* of npz: files; test_archive "": both splits are in archive */
		uint32_t label_set;                 /* data.label_set: enum label_set, of cifar100 */
		bool synthetic;                     /* data.synthetic: made-up samples stand in for those of `type` */
		struct size_list shape; /* data.shape: of one sample (H, W, C or F), needed by synthetic and hash */
		uint32_t classes, batch;
		/* data.shapes: contexts or sides of images of the run, the largest first, which is that of whole
		 * samples */
		struct size_list shapes;
		uint32_t context;    /* data.context: tokens in a sample; 0: samples are values of data.shape */
		uint32_t token_type; /* data.token_type: enum token_type of the files */
		uint32_t samples, test_samples; /* of synthetic and hash and of a stand-in; 0 was replaced by the
						   default: hash batch, else 1024 */
		bool shuffle, drop_last;
		bool pixel_labels;          /* data.pixel_labels: a label for each pixel of an image */
		struct real_list mean, std; /* (x/255 - mean) / std for bytes, one value or one a channel */
		uint32_t shift;             /* data.augment.shift: random crop after padding by so many pixels */
		bool flip;                  /* data.augment.flip: random horizontal flip */
		const struct given_samples *given, *given_test; /* of memory, set by the session; NULL: none */
	} data;

	struct {
		uint32_t init;     /* enum init_kind */
		uint32_t loss;     /* enum loss_kind */
		uint32_t target;   /* enum target_kind; logistic_mixture: always the input */
		bool chunked_loss; /* the last dense layer is part of the loss */
		double label_smoothing;
		const struct yaml_node *losses; /* network.losses: beside `loss`; NULL: none, or a plan that has them */
		int32_t ignore_index;           /* label of rows that do not count; -1: none */
		struct text_list freeze; /* network.freeze: patterns of names of parameters that are not trained */
	} network;

	struct {
		uint32_t compute;   /* enum number_format: what activations and factors of products are stored in */
		uint32_t gradients; /* of weights: NUMBER_FLOAT32, or the same as compute */
		uint32_t weights;   /* matrices and kernels: NUMBER_FLOAT32, or NUMBER_BFLOAT16 with that as compute */
		double loss_scale_initial; /* with compute float16: the loss times this, at first */
		uint32_t growth_interval;  /* steps without overflow until it doubles */
	} precision;

	struct {
		uint32_t type;  /* enum optimizer_kind */
		uint32_t state; /* enum optimizer_state: what moments are kept in */
		double learning_rate, momentum, weight_decay, beta1, beta2, epsilon, clip_norm; /* clip_norm 0: off */
		bool masks;                 /* a mask for each matrix and kernel: see optimizer.h */
		bool nesterov, decay_norms; /* decay_norms: weight decay on biases and norm parameters too */
		uint32_t schedule;          /* enum schedule_kind */
		uint32_t warmup_steps;
		double final_rate;    /* cosine: end value as a fraction of learning_rate */
		uint32_t step_epochs; /* step: every so many epochs */
		double step_factor;   /* step: times this */
		const struct yaml_node
			*groups; /* parameter_groups.h; NULL: none, or a plan in which they are applied */
	} optimizer;

	struct {
		uint32_t epochs;
		uint32_t accumulate;      /* parts of a batch whose gradients are added before the step */
		uint32_t microbatch_norm; /* enum microbatch_norm: batch statistics of parts */
		uint64_t max_steps;       /* 0: no limit */
		double ema;               /* decay of the averages of weights; 0: none */
		uint32_t on_nonfinite;    /* enum on_nonfinite: a loss or gradient that is not finite */
		uint64_t seed;
		uint32_t threads;                 /* 0: all cores */
		uint32_t log_every;               /* steps */
		uint32_t evaluate_every;          /* epochs; 0: only at the end */
		const char *snapshot;             /* train.snapshot: file; "" none */
		uint32_t snapshot_every;          /* epochs; 0: only at the end */
		const char *run;                  /* train.run: folder; "" none */
		uint32_t log;                     /* enum train_log */
		const char *initialize;           /* train.initialize: file of weights to start from; "" none */
		const char *initialize_map;       /* of foreign names; "" none */
		struct text_list initialize_skip; /* patterns of tensors that keep their initial values */
	} train;

	struct {
		uint32_t type; /* enum objective_kind */
		bool result;   /* objective.result: of inference, the whole result of a batch stays readable */
		uint32_t ways, shots, queries, tasks, test_classes, inner_steps, order; /* maml */
		double inner_rate;
		bool learn_rates;          /* an inner rate for each parameter, learnt too */
		double weight;             /* gradient_penalty, adversarial */
		uint32_t method;           /* enum attack_method; adversarial, like all below */
		double epsilon, step_size; /* step_size 0: chosen */
		uint32_t attack_steps;     /* objective.steps */
		bool attack_test;
	} objective;

	struct {
		uint32_t task;        /* enum hvp_task */
		uint32_t mode;        /* enum hvp_mode */
		uint32_t vector;      /* enum hvp_vector */
		uint32_t samples;     /* random vectors */
		uint32_t steps;       /* of a Lanczos iteration */
		uint32_t eigenvalues; /* largest ones */
		uint32_t batches;     /* of the training set; 0: all */
		bool training;        /* the network as in training: batch statistics, dropout */
	} hvp;

	struct {
		uint32_t covariance;    /* enum laplace_covariance */
		double prior_precision; /* 0: chosen */
	} laplace;

	/* The network: exactly one of them (both NULL in an executor-only build). */
	const struct yaml_node *layers;
	const struct yaml_node *model;
};

enum config_type {
	CONFIG_TEXT,
	CONFIG_REAL,
	CONFIG_INTEGER,
	CONFIG_BOOL,
	CONFIG_BYTES,
	CONFIG_CHOICE,
	CONFIG_TEXT_LIST,
	CONFIG_REAL_LIST,
	CONFIG_SIZE_LIST,
	CONFIG_NODE
};

struct config_key {
	const char *path; /* "memory.budget" */
	enum config_type type;
	uint32_t offset;  /* in struct config */
	uint32_t width;   /* bytes of an integer field: 4 or 8 */
	double low, high; /* range of a number, of a size, of each item of a list, of a text's length; both included */
	const char *default_text;   /* as one would write it; NULL: required */
	const char *const *choices; /* names by enum value; then aliases */
	uint32_t n_choices;         /* all of them */
	const uint32_t *alias;      /* enum values of the last n_aliases choices */
	uint32_t n_aliases;
	const char *unit, *help, *example;
};

extern const struct config_key config_schema[];
extern const uint32_t config_schema_keys;

/*
 * Defaults, then the overrides "key=value" (as on the command line). For runs without a file: keys that a file must
 * have may be left out (data.type is then idx); layers stays NULL, and so does model unless overrides reach into it.
 */
enum tarn_status config_defaults(const char *const *override, uint32_t overrides, struct host_arena *arena,
				 struct config *config);

/* File, then overrides. An override may also reach into `model.` (model.depth=20). Cross-checks included. */
enum tarn_status config_load(const char *path, const char *const *override, uint32_t overrides,
			     struct host_arena *arena, struct config *config);
/* The same from YAML text in memory. */
enum tarn_status config_parse(const char *text, size_t bytes, const char *name, const char *const *override,
			      uint32_t overrides, struct host_arena *arena, struct config *config);

/*
 * The run as "path=value" lines (no layers, no model), for the plan file; and back, then overrides. Every key comes
 * back with the same bits. An override may not reach into the network, which a plan has fixed. config_to_lines: NULL
 * when the host has no memory.
 */
char *config_to_lines(const struct config *config, struct host_arena *arena);
enum tarn_status config_from_lines(const char *lines, const char *name, const char *const *override, uint32_t overrides,
				   struct host_arena *arena, struct config *config);

/* The schema for people and editors; `key` NULL for all of it, else one key or section (TARN_EINVAL with "did you
 * mean"). */
enum tarn_status config_help(FILE *out, const char *key);
void config_markdown(FILE *out);
void config_json_schema(FILE *out);

/*
 * A stage that knows nothing of files has failed with a sentence that begins with a key, "data.batch is 80 ...": puts
 * the place of that key, or of the section it would stand in, in front. Returns `status`.
 */
enum tarn_status config_fail_place(const struct config *config, enum tarn_status status);

const char *strategy_name(uint32_t strategy);
const char *loss_name(uint32_t loss);
/* The name of an enum config_driver, as driver_find() knows it. */
const char *config_driver_name(uint32_t driver);

#endif
