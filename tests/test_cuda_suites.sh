#!/bin/bash
# Suites that know nothing of CUDA, run on the simulated device: conformance op by op, with and without cuDNN and
# cuBLASLt, and bit-identity over strategies and budgets (one step each; slow).
# shellcheck disable=SC2317 # functions are called by expect
. tests/support/testing.sh

if [ ! -e "$BUILD/cudasim/libcuda.so.1" ]; then
	skip "suites on the simulated device" "this build has no CUDA driver"
	finish
fi

simulated=$(cd "$BUILD/cudasim" && pwd)
export TARN_TEST_DRIVER=cuda TARN_TEST_STEPS=1 TARN_LIBCUDA=$simulated/libcuda.so.1

with_libraries() {
	TARN_CUDASIM=$1 TARN_LIBCUBLASLT=$simulated/libcublasLt.so.13 TARN_LIBCUDNN=$simulated/libcudnn_graph.so.9 \
		"$BUILD/tests/$2"
}
without_libraries() {
	TARN_CUDASIM=$1 TARN_LIBCUBLASLT=/does/not/exist TARN_LIBCUDNN=/does/not/exist "$BUILD/tests/$2"
}

expect "conformance with cuBLASLt and cuDNN" with_libraries seed=0 conformance/test_conformance
expect "casts of every number of 16 bits" with_libraries seed=0 conformance/test_cast
if [ -n "${TARN_TEST_SLOW:-}" ]; then
	for seed in 1 2; do
		expect "conformance, random order $seed" with_libraries seed=$seed conformance/test_conformance
	done
	expect "conformance with own kernels alone" without_libraries seed=0 conformance/test_conformance
	expect "strategies and budgets give the same weights" with_libraries seed=3 test_identity
else
	skip "conformance in other orders and with own kernels alone, identity" "slow; make check-slow runs them"
fi

info_names() {
	TARN_LIBCUBLASLT=/does/not/exist TARN_LIBCUDNN=$simulated/libcudnn_graph.so.9 "$BUILD/tarn" info >"$directory/info"
	grep -q 'device: simulated device' "$directory/info"
	grep -q 'products: own kernels' "$directory/info"
	grep -q 'convolutions: cuDNN' "$directory/info"
	grep -q 'TARN_LIBCUBLASLT overrides the path' "$directory/info"
}
expect "tarn info says what was found and what was not" info_names

finish
