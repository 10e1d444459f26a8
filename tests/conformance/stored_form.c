/* stored_form.c - see stored_form.h. */
#include "conformance/stored_form.h"

#include "graph/storage.h"

#include <math.h>

bool conformance_stored_form(const struct conformance_case *test, enum dtype dtype, enum dtype result,
			     struct conformance_case *stored)
{
	/* The lse of the cases of LINEAR_CROSS_ENTROPY_GRAD is no real one: gradients beyond what float16 holds. */
	if (test->kind == OP_CAST || (test->kind == OP_LINEAR_CROSS_ENTROPY_GRAD && dtype == DTYPE_F16))
		return false;
	bool any = conformance_narrow(test, dtype, result, stored);
	/* Half a unit in the last place, of numbers around 1. */
	stored->tolerance = fmax(test->tolerance, dtype == DTYPE_BF16 ? 0x1p-8 : 0x1p-11);
	return any || op_storage(test->kind)->wide_outputs;
}
