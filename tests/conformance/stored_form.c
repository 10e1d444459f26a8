/* stored_form.c - see stored_form.h. */
#include "conformance/stored_form.h"

#include "graph/storage.h"

#include <math.h>

bool conformance_stored_form(const struct conformance_case *test, enum dtype dtype, enum dtype result,
			     struct conformance_case *stored)
{
	const struct op_storage *storage = op_storage(test->kind);
	bool any = storage->wide_outputs != 0;
	*stored = *test;
	if (test->kind == OP_CAST)
		return false;
	/* The lse of these cases is no real one: gradients beyond what float16 holds. */
	if (test->kind == OP_LINEAR_CROSS_ENTROPY_GRAD && dtype == DTYPE_F16)
		return false;
	for (uint32_t i = 0; i < test->inputs; i++) {
		bool wide = storage_has(storage->wide_inputs, i) && result == dtype;
		if (test->input[i].dtype == DTYPE_F32 && (storage_has(storage->inputs, i) || wide)) {
			stored->input[i].dtype = dtype;
			any = true;
		}
	}
	if (storage->wide_outputs)
		stored->attr.mode = result;
	/* Half a unit in the last place, of numbers around 1. */
	stored->tolerance = fmax(test->tolerance, dtype == DTYPE_BF16 ? 0x1p-8 : 0x1p-11);
	return any;
}
