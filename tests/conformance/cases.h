/* cases.h - what the conformance suite asks of every driver: ops, shapes, tolerances. */
#ifndef TARN_TESTS_CASES_H
#define TARN_TESTS_CASES_H

#include "conformance/single_op.h"

struct conformance_case {
	const char *name;
	enum op_kind kind;
	struct op_attr attr;
	struct single_input input[SINGLE_OP_INPUTS];
	uint32_t inputs;
	uint32_t positive; /* bit i: input i holds values in (0.2, 1.2), such as variances */
	double tolerance;  /* of an output, relative to the larger of 1 and its largest value */
	float offset;      /* added to input 0 */
};

/* Labels, ids and indices of a case are in [0, this). */
uint32_t conformance_labels(const struct conformance_case *test);

extern const struct conformance_case conformance_cases[];
extern const int conformance_case_count;

/*
 * The case with numbers of 16 bits wherever graph/storage.h lets the op store them, and with results that may have
 * either type in `result`. False when the op knows float32 alone, or the case is not of float32.
 */
bool conformance_narrow(const struct conformance_case *test, enum dtype dtype, enum dtype result,
			struct conformance_case *narrow);

/* What a driver cannot do, and why: it must refuse with TARN_EUNSUPPORTED. */
struct exclusion {
	const char *driver, *name, *reason;
};
/* The reason, or NULL when the driver must do it. */
const char *conformance_excluded(const char *driver, const char *name);
/* The same for the narrow form of a case. */
const char *conformance_narrow_excluded(const char *driver);

#endif
