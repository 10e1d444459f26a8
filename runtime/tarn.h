/*
 * tarn.h - the public interface: train a network inside one fixed pool of memory.
 *
 *     struct tarn_options options = { .config_path = "net.yaml" };
 *     struct tarn_session *session;
 *     if (tarn_open(&options, &session) != TARN_OK)
 *             return fail(tarn_error());
 *     while (tarn_step(session, &metrics) == TARN_OK && !metrics.finished)
 *             ;
 *     tarn_save(session, "weights.safetensors");
 *     tarn_close(session);
 *
 * A session plans (or loads a plan), verifies it, reserves its arena and makes every buffer at tarn_open. After that no
 * call allocates memory. Not thread safe: all calls on a session come from the thread that opened it (OpenMP keeps its
 * threads for each caller).
 */
#ifndef TARN_H
#define TARN_H

#include "tarn_status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TARN_API __attribute__((visibility("default")))

struct tarn_session;

/*
 * Samples of data.type: memory, which the program owns. Borrowed until tarn_close, and not changed till then; nothing
 * is copied. Their shape is data.shape, in the order H W C; data.mean and data.std are applied.
 */
struct tarn_samples {
	const void *inputs;  /* one sample after the other: bytes (0 to 255), or float32 */
	bool bytes;          /* inputs are bytes */
	const void *targets; /* int32 labels for cross-entropy, else float32; NULL where the input is its own target */
	uint32_t samples;
};

struct tarn_options {
	const char *config_path;     /* YAML file; or */
	const char *config_text;     /* YAML text, zero-terminated; or */
	const char *plan_path;       /* plan file made by `tarn plan -o` */
	const char *const *override; /* "key=value" */
	uint32_t overrides;
	const struct tarn_samples *train, *test; /* of data.type: memory; test may be NULL: there is no test set */
	const char *resume_path;                 /* snapshot to go on from; NULL: from the start */
	bool weights_only; /* resume_path is there to be evaluated: seed, batch and data may be others */
	/*
	 * Plan no training step (objective.type: inference), where the objective is a loss: gradients and optimizer
	 * state take no memory. `result`: keep what the network makes of every batch, for tarn_predict. Not for plan
	 * files.
	 */
	bool inference, result;
	void *arena;              /* caller's memory for the arena, borrowed until tarn_close; NULL: own reservation */
	uint64_t arena_bytes;     /* its size */
	bool lockdown;            /* after boot no mapping, program, socket, foreign file: exec/lockdown.h (Linux) */
	const volatile int *stop; /* becomes nonzero (in a signal handler) to end tarn_evaluate early; NULL: never */
	bool poison;             /* fill every range of the arena with NaN as soon as it is dead: slow, for debugging */
	const char *device_path; /* with plan_only: plan for the device that this file describes (device_file.h) */
	bool plan_only;          /* stop after verification: no data, no arena; only the tarn_plan_* calls work */
};

struct tarn_plan_info {
	uint64_t budget_bytes; /* UINT64_MAX: unlimited */
	uint64_t peak_bytes, arena_bytes, persistent_bytes, min_budget_bytes;
	uint64_t none_peak_bytes, transient_peak_bytes, none_transient_peak_bytes;
	uint64_t host_bytes;                              /* of host memory, beside the budget, for offloaded tensors */
	uint64_t stored_bytes, fetched_bytes;             /* that a training step copies there and back */
	uint64_t parameter_count, plan_checksum, step_ns; /* step_ns: planned time of a training step */
	uint32_t recomputed_ops, threads, batch;
	bool tokens;                         /* samples are token ids, not values */
	uint32_t sample_rank, sample_dim[5]; /* of one input: H, W, C or F; the largest of data.shapes */
	uint32_t shapes, shape[8];           /* data.shapes, the largest first; 0: one shape */
	uint64_t state_bytes;                /* of optimizer state */
	uint32_t microbatches;               /* parts that a batch is taken in */
	uint64_t workspace_cap;              /* memory.workspace_cap, bytes; UINT64_MAX: unlimited */
	/* Chosen by `auto` for this budget: the last bits of results may change with the choice. */
	bool microbatches_chosen, workspace_chosen;
	double overhead, plan_ms, pack_ms; /* pack_ms: the part of plan_ms that packing took */
	/*
	 * Proved by the plan, whose costs are estimates: within the budget no training step takes less time, and no
	 * plan has a lower peak. gap: how much longer than the bound the step takes, as a part of the bound.
	 */
	uint64_t time_bound_ns, peak_bound_bytes;
	double gap;
	bool synthetic; /* data.synthetic: the samples are made up and stand in for those of the configuration */
	bool fell_back; /* the strategy would have needed more than `none`, whose plan was taken */
	/* Borrowed from the session; snapshot: the file that tarn_save(session, NULL) writes, "" when none is. */
	const char *strategy, *driver, *name, *snapshot, *costs; /* costs: device.costs, "" when estimated */
	uint64_t total_steps, resumed_steps; /* of the whole run; done before this session. 0 with plan_only */
	/* Where the device holds more than the arena: measured (or described) at planning, and kept free for later. */
	uint64_t overhead_bytes, reserve_bytes;
	/* Meta-learning: what keep-all keeps of one inner step of one task; 0 otherwise. */
	uint64_t inner_step_bytes;
	const char *device; /* device and library versions that the plan was made for; "" where they do not matter */
	uint32_t log_every, evaluate_every, snapshot_every; /* from the configuration's train section */
	const char *run;                                    /* train.run, "" without one; borrowed */
	bool tensorboard;                                   /* train.log */
	const char *
		initialized; /* train.initialize: lines that name what was loaded and what was not; "" when it is off */
};

/* With network.losses: one of the losses whose weighted sum is the loss of a step or of an evaluation. */
#define TARN_MAX_LOSSES 17u
struct tarn_loss {
	const char *name;      /* "network" for that of the last layer; borrowed from the session */
	double loss, accuracy; /* without its weight; accuracy NaN where it has no labels */
};

struct tarn_metrics {
	uint64_t step;           /* steps done, this one included */
	uint32_t epoch;          /* from 0 */
	uint32_t batch, batches; /* in the epoch: done, and how many it has */
	uint32_t samples;        /* of this step */
	double loss;             /* mean over the samples of this step; NaN on the null driver */
	double accuracy;         /* of this step; NaN where the loss has no labels */
	struct tarn_loss part[TARN_MAX_LOSSES];
	uint32_t parts;                      /* 0 without network.losses */
	double learning_rate, gradient_norm; /* gradient_norm NaN unless clipping is on */
	double loss_scale;                   /* after this step; NaN unless precision.compute is float16 */
	uint64_t skipped_steps;              /* steps so far that changed nothing, since gradients overflowed */
	double wall_ms, cpu_ms;              /* of this step, waiting for data included in wall_ms */
	/* Not NULL: the loss or gradient of this step is not finite; says what, and where it began. Until the next
	 * step. */
	const char *nonfinite;
	bool skipped;   /* train.on_nonfinite: skip undid the step; its numbers are those it had */
	bool epoch_end; /* this step was the last of its epoch */
	bool finished;  /* train.epochs or train.max_steps is reached */
};

struct tarn_evaluation {
	uint32_t samples;
	double loss, accuracy; /* accuracy NaN where the loss has no labels */
	struct tarn_loss part[TARN_MAX_LOSSES];
	uint32_t parts;
};

TARN_API enum tarn_status tarn_open(const struct tarn_options *options, struct tarn_session **session);
TARN_API void tarn_close(struct tarn_session *session);

/* One training step. After `finished` further calls do nothing and return TARN_OK with the same metrics. */
TARN_API enum tarn_status tarn_step(struct tarn_session *session, struct tarn_metrics *metrics);
/* The whole test set. samples 0 when there is none. TARN_EINTERRUPTED when *options.stop became nonzero. */
TARN_API enum tarn_status tarn_evaluate(struct tarn_session *session, struct tarn_evaluation *evaluation);

/*
 * Inference: a session whose configuration has objective.type: inference plans no training step, so that gradients and
 * optimizer state take no memory; opened with `weights_only`. It cannot tarn_step.
 *
 * Inputs are what data files hold: bytes or floats (data.mean and data.std are applied here), H W C; or token ids.
 */
enum tarn_input { TARN_INPUT_BYTES, TARN_INPUT_FLOATS, TARN_INPUT_TOKENS };

struct tarn_result {
	uint32_t rank, dim[5]; /* of one sample's result: classes; or T, classes; H, W, channels */
	uint64_t elements;     /* their product */
	uint64_t inputs;       /* elements of one sample */
	bool logits;           /* of classes: the last dimension goes through a softmax */
};

/* TARN_EINVAL where no result is kept: see objective.result. */
TARN_API enum tarn_status tarn_result_info(const struct tarn_session *session, struct tarn_result *result);
/*
 * The network's results for 1 to tarn_plan_info.batch samples: result[samples * tarn_result.elements]. TARN_EDATA for a
 * token that is no id.
 */
TARN_API enum tarn_status tarn_predict(struct tarn_session *session, enum tarn_input kind, const void *input,
				       uint32_t samples, float *result);
/*
 * tarn_evaluate, and confusion[label * classes + predicted] counts the test samples. For one label a sample;
 * TARN_EINVAL for others and when `classes` is not their number.
 */
TARN_API enum tarn_status tarn_evaluate_classes(struct tarn_session *session, struct tarn_evaluation *evaluation,
						uint64_t *confusion, uint32_t classes);

/*
 * Weights, optimizer state, counters and position, as safetensors; atomic. path NULL: train.snapshot. TARN_EDIVERGED
 * when a weight is not finite, TARN_EUNSUPPORTED on the null driver, which computes none: what is there is kept.
 */
TARN_API enum tarn_status tarn_save(struct tarn_session *session, const char *path);
TARN_API enum tarn_status tarn_weights_hash(struct tarn_session *session, uint64_t *hash);

struct tarn_exported {
	uint32_t tensors;
	uint64_t bytes;  /* of the file */
	char family[32]; /* whose names in PyTorch: "resnet"; "" for the own ones with points */
	bool averages;   /* train.ema: the averages were written, which are what evaluation reads */
};

/*
 * The weights of a snapshot for PyTorch, as safetensors, or as npz when `path` ends so. `map`: a file of names as for
 * train.initialize_map, NULL none. The other way is a session with train.initialize and tarn_save.
 */
TARN_API enum tarn_status tarn_export(const char *snapshot, const char *path, const char *map,
				      struct tarn_exported *exported);

/* A tensor by name ("conv1/weight"), as it lies in the arena. bytes must equal its size. */
TARN_API enum tarn_status tarn_read_tensor(struct tarn_session *session, const char *name, void *target,
					   uint64_t bytes);
TARN_API enum tarn_status tarn_write_tensor(struct tarn_session *session, const char *name, const void *source,
					    uint64_t bytes);

TARN_API enum tarn_status tarn_plan_info(const struct tarn_session *session, struct tarn_plan_info *info);
/* What a training step runs more than once, by kind of op: "18 batch_apply, 4 conv2d"; "" when nothing. */
TARN_API void tarn_plan_recomputed(const struct tarn_session *session, char *buffer, size_t size);
TARN_API enum tarn_status tarn_plan_save(const struct tarn_session *session, const char *path);
/* Every key of the configuration as it is used, overrides included: a line "path=value" each. */
TARN_API enum tarn_status tarn_plan_settings(const struct tarn_session *session, FILE *out);
TARN_API enum tarn_status tarn_plan_draw(const struct tarn_session *session, const char *svg_path);

/*
 * The plan as elements for the body of an HTML page: bytes by section, the arena over time, live bytes against the
 * budget, the curve when it was made.
 */
TARN_API enum tarn_status tarn_plan_html(const struct tarn_session *session, FILE *out);

/*
 * Plans the training step with other budgets, so that tarn_plan_explain and tarn_plan_draw can show what they would
 * cost: a second or so. Only for a session that made its plan itself: TARN_EUNSUPPORTED when it was loaded.
 */
TARN_API enum tarn_status tarn_plan_curve(struct tarn_session *session);

/*
 * Why the plan needs what it needs: what is in memory at the peak, kept, computed again, in place; the curve when it
 * was made. Sentences, or one JSON object.
 */
TARN_API enum tarn_status tarn_plan_explain(const struct tarn_session *session, bool json, FILE *out);

/*
 * The network as a table: name, op, result, parameters, bytes, floating-point operations. Unless `whole`, a long one is
 * shortened. `json`: one object with all that is needed to build the same network elsewhere.
 */
TARN_API enum tarn_status tarn_plan_layers(const struct tarn_session *session, bool whole, bool json, FILE *out);

/*
 * The training step's problem as JSON, in the format that `tarn dag` reads, and the time that `tarn dag` finds for it
 * within the session's budget: there only bytes are summed and nothing happens in place, so that it may differ from the
 * plan's. *time_ns is UINT64_MAX when no schedule was found. Only for a session that made its plan itself:
 * TARN_EUNSUPPORTED when it was loaded.
 */
TARN_API enum tarn_status tarn_plan_dump_dag(struct tarn_session *session, const char *path, uint64_t *time_ns);

/* A readable listing of every program: instructions, tensors, offsets. */
TARN_API void tarn_plan_print(const struct tarn_session *session, FILE *out);

/* Measured: one past the highest byte of the arena ever written. */
TARN_API uint64_t tarn_arena_touched_bytes(struct tarn_session *session);

/* Where the bytes of a device with memory of its own are, measured stage by stage at boot. */
struct tarn_ledger {
	uint32_t lines; /* 0: the arena is all there is */
	struct {
		const char *name; /* "context", "arena" ... */
		uint64_t bytes;
	} line[12];
	uint64_t rounding_bytes; /* in the arena's line: devices hand memory out in pieces of megabytes */
	uint64_t total_bytes;    /* without the rounding: what memory.budget bounds */
	bool recorded;           /* steps are recorded, and replayed with one call */
	const char *unrecorded;  /* why not, where that was refused; else "" */
};
TARN_API void tarn_device_ledger(const struct tarn_session *session, struct tarn_ledger *ledger);

struct tarn_calibration {
	uint32_t distinct_ops;
	double measured_ms, planned_ms; /* of a training step, summed over its ops */
};

/*
 * Measures what every op of a training step costs on this device and writes it to `path`, a readable file for
 * device.costs. The session's weights are not those of a training run afterwards: close it.
 */
TARN_API enum tarn_status tarn_calibrate(struct tarn_session *session, const char *path,
					 struct tarn_calibration *calibration);

/*
 * Curvature: the Hessian H of the mean loss over the training set, by the trained parameters, in a session whose
 * configuration has objective.type: hvp. A vector is all parameters one after the other, in the order of
 * tarn_hessian_parameter. Everything that is kept between products lies in the arena.
 */
enum tarn_vector { TARN_VECTOR_INPUT, TARN_VECTOR_PRODUCT, TARN_VECTOR_DIAGONAL };
#define TARN_MAX_EIGENVALUES 256
#define TARN_MAX_NODES 4096

struct tarn_curvature {
	const char *task;    /* hvp.task */
	const char *mode;    /* "reverse" or "forward": what hvp.mode auto chose */
	uint64_t parameters; /* length of a vector */
	uint64_t labels;     /* the loss is the mean over so many */
	uint64_t products;   /* with H, each a pass over the data */
	double loss;
	/* product: v the vector. Norms are Euclidean. */
	double vector_norm, product_norm, curvature; /* curvature: v.Hv / v.v */
	/* trace: mean of v.Hv and its standard error. diagonal: its sum is the same estimate. */
	double trace, trace_error;
	uint32_t eigenvalues; /* the largest, descending; residual: |Hx - ax| of the approximate eigenvector x */
	double eigenvalue[TARN_MAX_EIGENVALUES], residual[TARN_MAX_EIGENVALUES];
	uint32_t nodes; /* density: the sum of weight[] is 1 */
	double node[TARN_MAX_NODES], weight[TARN_MAX_NODES];
};

/*
 * Does what hvp.task asks for. product takes the vector as it is, see below; for hessian only the first three fields
 * are filled: its columns are products with unit vectors. TARN_EINTERRUPTED by options.stop.
 */
TARN_API enum tarn_status tarn_curvature_run(struct tarn_session *session, struct tarn_curvature *curvature);

/* Name and length of parameter number `index` of a vector; NULL behind the last one. */
TARN_API const char *tarn_hessian_parameter(const struct tarn_session *session, uint32_t index, uint64_t *elements);
/* A whole vector. TARN_EINVAL when `elements` is not its length or the task has no such vector. */
TARN_API enum tarn_status tarn_hessian_read(struct tarn_session *session, enum tarn_vector vector, float *value,
					    uint64_t elements);
TARN_API enum tarn_status tarn_hessian_write(struct tarn_session *session, enum tarn_vector vector, const float *value,
					     uint64_t elements);
/* The input becomes random (hvp.vector, train.seed), or the parameters in a snapshot of the same network. */
TARN_API enum tarn_status tarn_hessian_random(struct tarn_session *session, uint32_t number);
TARN_API enum tarn_status tarn_hessian_snapshot(struct tarn_session *session, const char *path);
/* product = H input, over the training set (hvp.batches of it). loss may be NULL. */
TARN_API enum tarn_status tarn_hessian_multiply(struct tarn_session *session, double *loss);

/*
 * Pruning, in a session with optimizer.masks that trains: of all weights that have a mask, the part `fraction` with the
 * lowest importance becomes 0 and stays it; what was pruned before has the lowest. importance[] has a number for each
 * element of the trained parameters, in the order of tarn_hessian_parameter (vectors included, which are never pruned):
 * Hessian diagonal times squared weight is that of LeCun, Denker, Solla 1990. Averages (train.ema) and first moments
 * are pruned with the weights; 8-bit moments begin anew. TARN_EINVAL when the length or a number is wrong.
 */
struct tarn_pruning {
	uint64_t weights, pruned;  /* that have a mask; that are 0 for good now */
	double largest_importance; /* of what was pruned */
};
TARN_API enum tarn_status tarn_prune(struct tarn_session *session, const float *importance, uint64_t elements,
				     double fraction, struct tarn_pruning *pruning);

/*
 * Uncertainty: the Laplace approximation of the last layer (Daxberger et al. 2021), in a session whose configuration
 * has objective.type: laplace. Fits it to the training set, then predicts the test set.
 */
struct tarn_laplace {
	uint64_t parameters; /* of the last layer */
	uint32_t classes;
	uint64_t labels; /* training samples */
	double prior_precision, log_marginal_likelihood;
	/* Of the test set; 0 samples: there is none. loss: with the trained weights; predictive_loss: with all likely.
	 */
	uint64_t samples;
	double loss, predictive_loss, accuracy, mean_variance;
};
/*
 * variance: of each logit of each test sample, (samples, classes), in the order of the data; NULL: not asked for.
 * TARN_EINVAL when `elements` is not tarn_laplace_elements. TARN_EINTERRUPTED by options.stop.
 */
TARN_API enum tarn_status tarn_laplace_run(struct tarn_session *session, float *variance, uint64_t elements,
					   struct tarn_laplace *laplace);
TARN_API uint64_t tarn_laplace_elements(const struct tarn_session *session);

TARN_API const char *tarn_version(void);

#ifdef __cplusplus
}
#endif
#endif
