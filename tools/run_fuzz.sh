#!/bin/bash
# Runs each fuzz target for a while; fails when one finds something.
#
#   tools/run_fuzz.sh SECONDS PROGRAM...
#
# A target build/fuzz/fuzz_plan starts from tests/fuzz/corpus/plan/, when that exists, and keeps what it learns and the
# inputs that break something beside the program.
set -eu

seconds=$1
shift
[ $# -gt 0 ] || { echo "there is no fuzz target: tests/fuzz/fuzz_*.c" >&2; exit 1; }
for program in "$@"; do
	name=$(basename "$program")
	corpus=$program.corpus
	mkdir -p "$corpus"
	folders=("$corpus")
	seeds=tests/fuzz/corpus/${name#fuzz_}
	[ ! -d "$seeds" ] || folders+=("$seeds")
	echo "== $name, $seconds s"
	"$program" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -verbosity=0 \
		-artifact_prefix="$program-" "${folders[@]}" || {
		echo "$name: found an input that breaks it, kept as $program-*" >&2
		exit 1
	}
done
echo "fuzz: nothing found by $#"
