#!/bin/bash
# The kernels for tensors that are stored in 16 bits: compiled here, then run by test_cuda_kernels on the simulator. The
# program does not have these texts yet, because graphs know float alone. Slow: part of make check-slow.
. tests/support/testing.sh

reason=
tools/make_ptx.sh --compiler >"$directory/compiler" 2>&1 || reason="there is no nvcc"
[ -n "${TARN_TEST_SLOW:-}" ] || reason="slow, see make check-slow"
for storage in bf16 f16; do
	if [ -n "$reason" ]; then
		skip "kernels that store $storage" "$reason"
		continue
	fi
	text=$directory/kernels_$storage.ptx
	expect "$storage compiles, without stack frames and spills" tools/make_ptx.sh "$text" $storage
	expect "kernels that store $storage" \
		env TARN_KERNEL_TEXT="$text" TARN_KERNEL_STORAGE=$storage "$BUILD/tests/test_cuda_kernels"
done

finish
