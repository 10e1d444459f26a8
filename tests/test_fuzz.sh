#!/usr/bin/env bash
# A short run of every fuzz target: its seeds, and mutants of them that are the same each time. `make fuzz` goes on from the
# same seeds with libFuzzer; more mutants with TARN_TEST_SLOW.
. tests/support/testing.sh

here=$PWD
case $BUILD in /*) ;; *) BUILD=$here/$BUILD ;; esac

# A target runs in a folder of its own, where it leaves the input that broke it.
survives() {
	local target=$1 mutants=$2
	shift 2
	mkdir "$directory/$target"
	cd "$directory/$target"
	timeout 3000 "$BUILD/tests/fuzz/replay_fuzz_$target" "$mutants" "$@" >output 2>&1 || {
		local status=$?
		tail -n 20 output
		echo "the input, in base64:"
		base64 replay.input
		return $status
	}
}

for source in tests/fuzz/fuzz_*.c; do
	target=${source#tests/fuzz/fuzz_}
	target=${target%.c}
	mutants=${TARN_TEST_SLOW:+20000}
	expect "$target: no seed and no mutant breaks it" survives "$target" "${mutants:-2000}" \
		"$here/tests/fuzz/corpus/$target"/*
done
finish
