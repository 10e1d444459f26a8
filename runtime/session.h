/*
 * session.h - what a session holds; shared by the files of the public interface, seen by nobody else.
 *
 * session_open.c boots and closes, session_run.c steps and evaluates, session_info.c answers questions.
 */
#ifndef TARN_SESSION_H
#define TARN_SESSION_H

#include "tarn.h"

#include "config/config.h"
#include "data/feed.h"
#include "driver.h"
#include "exec/exec.h"
#include "exec/nonfinite.h"
#include "exec/snapshot.h"
#include "plan/explain.h"
#include "plan/report.h"

struct tarn_session {
	struct host_arena arena;
	struct config config;
	struct plan plan;
	struct plan_report report;
	struct plan_curve curve; /* after tarn_plan_curve */
	struct device device;
	struct executor executor;
	const char *unrecorded; /* why steps are launched op by op, "" when they are not or need not be */
	struct {
		const struct tensor *input, *output; /* NULL: nothing is kept */
		float *staged, *result;              /* on the host: of a batch */
		int32_t *label;
		uint64_t *confusion; /* of the evaluation that goes on; NULL: not asked for */
	} inference;
	const char *initialized; /* what weights_load reports; NULL when it was not asked */
	struct dataset train, test;
	struct episodes train_episodes, test_episodes; /* with objective.type: maml */
	struct feed *train_feed, *test_feed;
	struct nonfinite *nonfinite; /* NULL on the null driver, which computes nothing */
	uint32_t skipped_in_a_row;
	struct snapshot *snapshot;
	const char *snapshot_path; /* train.snapshot, or in train.run; "" none */
	struct snapshot_position position;
	struct tarn_metrics metrics;
	uint64_t total_steps;                /* of the learning rate's schedule */
	uint64_t resumed_steps;              /* done before this session */
	uint32_t batches;                    /* in an epoch */
	const char *slot[CONFIG_MAX_ARRAYS]; /* "staging/NAME" of data.arrays */
	struct session_loss {
		const char *name, *loss, *correct; /* and the names of its metrics; correct NULL: no labels */
		uint64_t labels;                   /* of a sample */
	} loss[TARN_MAX_LOSSES];                   /* of network.losses, that of the last layer first */
	uint32_t losses;
	const volatile int *stop;
	bool finished, plan_only;
};

/* False on the null driver: nothing was computed that a snapshot could keep. */
bool session_computes(const struct tarn_session *session);

/* The step after which the run ends: train.max_steps may stop it before its last epoch. */
uint64_t session_last_step(const struct tarn_session *session);

/*
 * Runs the training programs over the first `batches` batches of epoch 0 (0: all) with the learning rate minus the
 * number of labels of each batch: an SGD update then sums what it reads, weighted by them. *labels: in all; *loss:
 * mean.
 */
enum tarn_status session_pass(struct tarn_session *session, uint32_t batches, double *loss, uint64_t *labels);

/*
 * Boot (session_arrays.c): names of the slots of data.arrays and of the metrics of network.losses, and whether the
 * integers in the arrays are labels or ids that the plan's ops know.
 */
enum tarn_status session_open_arrays(struct tarn_session *session);

/* True when the session asks about trained weights (hvp, laplace) and does not train. */
static inline bool session_asks(const struct config *config)
{
	return config->objective.type == OBJECTIVE_HVP || config->objective.type == OBJECTIVE_LAPLACE;
}

/*
 * The next batch of the training or the test set through its program, with a learning rate of -1. batch->samples 0:
 * there is none, and nothing ran. TARN_EINTERRUPTED when *options.stop became nonzero.
 */
enum tarn_status session_next_batch(struct tarn_session *session, bool train, struct batch *batch);
/* Boot (session_predict.c): buffers of objective.type inference. */
enum tarn_status session_open_inference(struct tarn_session *session);
/* Counts a staged batch with its labels in inference.confusion; `ran`: program 0 has just run on it. */
enum tarn_status session_count_classes(struct tarn_session *session, const struct batch *batch, bool ran);

/* TARN_EINVAL for a session that only planned. */
enum tarn_status session_check_running(const struct tarn_session *session);

#endif
