#!/bin/bash
# `make check-gpu` on the simulated device: the script that judges a real GPU has run before it sees one.
# shellcheck disable=SC2317 # functions are called by expect
. tests/support/testing.sh

if [ ! -e "$BUILD/cudasim/libcuda.so.1" ]; then
	skip "make check-gpu on the simulated device" "this build has no CUDA driver"
	finish
fi

if grep -q '^CONFIG_DEBUG_CHECKS=y' "$BUILD/auto.conf"; then
	skip "make check-gpu on the simulated device" "a build with slow checks records no step"
	finish
fi

report=$directory/report.json

every_part_holds() {
	tools/check_gpu.py "$BUILD" --simulated --output "$report"
}
expect "every part holds on the simulated device" every_part_holds

# One JSON object with a result for each part.
report_is_whole() {
	/usr/bin/python3 - "$report" <<-'END'
		import json, sys
		report = json.load(open(sys.argv[1]))
		parts = ("conformance", "identity", "ledger", "costs", "ballast", "depth", "pytorch")
		assert all(report[part]["held"] for part in parts), report
		assert report["ledger"]["result"]["context"] > 0
		assert report["ballast"]["result"]["free_bytes"] == report["ballast"]["result"]["budget_bytes"]
		assert len(report["depth"]["result"]) == 2
	END
}
expect "the report has every part" report_is_whole

without_a_device() {
	TARN_LIBCUDA=/does/not/exist fails_with 8 "check-gpu: cuda: libcuda.so.1 not found" \
		tools/check_gpu.py "$BUILD" --output "$report"
}
expect "without a device one line says so" without_a_device

finish
