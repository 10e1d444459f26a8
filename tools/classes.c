/* tarn_classes.c - what `tarn eval` says of classes: accuracy of each, and which is taken for which. */
#include "classes.h"

#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Largest table that is printed for people. */
#define SHOWN_CLASSES 20u

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : (double)NAN;
}

static uint64_t row_sum(const struct classes *classes, uint32_t label)
{
	uint64_t sum = 0;
	for (uint32_t c = 0; c < classes->count; c++)
		sum += classes->confusion[(uint64_t)label * classes->count + c];
	return sum;
}

enum tarn_status classes_evaluate(struct tarn_session *session, struct tarn_evaluation *evaluation,
				  struct classes *classes)
{
	struct tarn_result result;
	classes->count = 0;
	enum tarn_status st = tarn_result_info(session, &result);
	if (st || result.rank != 1 || !result.logits) { /* values, or a label for each token or pixel */
		tarn_error_clear();
		return tarn_evaluate(session, evaluation);
	}
	classes->confusion = calloc((size_t)result.dim[0] * result.dim[0], sizeof *classes->confusion);
	if (!classes->confusion)
		return tarn_fail(TARN_ENOMEM, "host memory: no table of %u x %u classes", result.dim[0], result.dim[0]);
	classes->count = result.dim[0];
	return tarn_evaluate_classes(session, evaluation, classes->confusion, classes->count);
}

void classes_json(const struct classes *classes)
{
	if (!classes->count)
		return;
	printf("\"class_accuracy\": [");
	for (uint32_t label = 0; label < classes->count; label++) {
		double accuracy =
			ratio(classes->confusion[(uint64_t)label * classes->count + label], row_sum(classes, label));
		if (isnan(accuracy))
			printf("%snull", label ? ", " : "");
		else
			printf("%s%.6g", label ? ", " : "", accuracy);
	}
	printf("], \"confusion\": [");
	for (uint32_t label = 0; label < classes->count; label++) {
		printf("%s[", label ? ", " : "");
		for (uint32_t c = 0; c < classes->count; c++)
			printf("%s%llu", c ? ", " : "",
			       (unsigned long long)classes->confusion[(uint64_t)label * classes->count + c]);
		printf("]");
	}
	printf("], ");
}

void classes_print(const struct classes *classes)
{
	if (!classes->count)
		return;
	bool table = classes->count <= SHOWN_CLASSES;
	printf("\nlabel  samples  accuracy%s\n", table ? "   taken for 0, 1, 2 ..." : "");
	for (uint32_t label = 0; label < classes->count; label++) {
		const uint64_t *row = &classes->confusion[(uint64_t)label * classes->count];
		uint64_t samples = row_sum(classes, label);
		printf("%5u  %7llu", label, (unsigned long long)samples);
		if (samples)
			printf("  %6.2f %%", 100 * ratio(row[label], samples));
		else
			printf("         -");
		for (uint32_t c = 0; c < classes->count && table; c++)
			printf(" %5llu", (unsigned long long)row[c]);
		printf("\n");
	}
}

void classes_free(struct classes *classes)
{
	free(classes->confusion);
}
