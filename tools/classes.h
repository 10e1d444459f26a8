/*
 * classes.h - the test set by classes, for `tarn eval`.
 */
#ifndef TARN_TOOLS_CLASSES_H
#define TARN_TOOLS_CLASSES_H

#include "command.h"

struct classes {
	uint32_t count;      /* 0: samples have no single label each */
	uint64_t *confusion; /* [label * count + predicted] */
};

/* Evaluates the whole test set; the session has objective.type inference, or nothing is counted. */
enum tarn_status classes_evaluate(struct tarn_session *session, struct tarn_evaluation *evaluation,
				  struct classes *classes);
/* "class_accuracy": [...], "confusion": [[...], ...], with a comma behind; a table. */
void classes_json(const struct classes *classes);
void classes_print(const struct classes *classes);
void classes_free(struct classes *classes);

#endif
