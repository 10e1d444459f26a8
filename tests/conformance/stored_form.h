/* stored_form.h - a case of the conformance suite in 16 bits, as the CUDA driver can store it. */
#ifndef TARN_TESTS_STORED_FORM_H
#define TARN_TESTS_STORED_FORM_H

#include "conformance/cases.h"

/*
 * conformance_narrow with the tolerance of that driver, and of ops without inputs too. False also where its kernels
 * refuse this type of result.
 */
bool conformance_stored_form(const struct conformance_case *test, enum dtype dtype, enum dtype result,
			     struct conformance_case *stored);

#endif
