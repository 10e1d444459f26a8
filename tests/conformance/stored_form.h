/* stored_form.h - a case of the conformance suite in 16 bits, as the CUDA driver can store it. */
#ifndef TARN_TESTS_STORED_FORM_H
#define TARN_TESTS_STORED_FORM_H

#include "conformance/cases.h"

/*
 * The case with its tensors stored as `dtype` where graph/storage.h lets the op do so, and results that may have either
 * type as `result`. False: the op knows float alone, or kernels refuse this type of result.
 */
bool conformance_stored_form(const struct conformance_case *test, enum dtype dtype, enum dtype result,
			     struct conformance_case *stored);

#endif
