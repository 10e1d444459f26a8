#!/bin/bash
# Runs test programs and test scripts, several at a time, and sums up what they say.
#
#   TESTS='plan* config' tools/run_tests.sh PROGRAM-OR-SCRIPT...
#
# A test prints "skipped: NAME: REASON" for what it leaves out and ends with "tests: P passed, F failed, S skipped". One
# that ends without that line counts as one failure. The output of each is kept in $BUILD/tests/logs and shown when
# something failed. The last line is "N passed, N failed, N skipped"; the exit status is 0 when nothing failed.
#
# Environment: BUILD, SAN and CC as in the Makefile; TESTS: patterns of names without test_ (plan*, conformance/*);
# JOBS: how many at a time; TEST_TIMEOUT: seconds for a whole program.
set -u

export BUILD=${BUILD:-build} SAN=${SAN:-} CC=${CC:-gcc}
logs=$BUILD/tests/logs
jobs=${JOBS:-$(nproc)}

# build/tests/grad/test_conv -> grad/conv, tests/test_install.sh -> install
name_of() {
	local name=${1#"$BUILD"/}
	name=${name#tests/}
	name=${name%.sh}
	printf '%s' "${name/test_/}"
}

is_wanted() {
	local pattern
	[ -n "${TESTS:-}" ] || return 0
	set -f
	for pattern in $TESTS; do
		# shellcheck disable=SC2053 # the right side is a pattern
		if [[ $1 == $pattern || ${1##*/} == $pattern || $1 == "$pattern"/* ]]; then
			set +f
			return 0
		fi
	done
	set +f
	return 1
}

run_one() {
	local name log started
	name=$(name_of "$1")
	log=$logs/$name.log
	started=$SECONDS
	mkdir -p "${log%/*}"
	# The group swallows the shell's own remark about a crash; report_one says it.
	{ timeout --kill-after=10 "${TEST_TIMEOUT:-900}" "$1" >"$log" 2>&1 </dev/null; } 2>/dev/null
	echo "$? $((SECONDS - started))" >"$logs/$name.status"
}

# In order of the arguments: counts, reasons of skips, and the whole output where something failed.
report_one() {
	local name status seconds last
	name=$(name_of "$1")
	read -r status seconds <"$logs/$name.status" || status=1 seconds=0
	last=$(tail -n 1 "$logs/$name.log")
	if [[ $last =~ ^tests:\ ([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
		local p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]} note=
		if [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
			f=1 note=" (exit status $status)"
		fi
		passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
		printf '%-6s %-28s %5d passed, %d failed, %d skipped%s  (%d s)\n' \
			"$([ "$f" -eq 0 ] && echo ok || echo FAILED)" "$name" "$p" "$f" "$s" "$note" "$seconds"
		if [ "$f" -ne 0 ]; then
			failures+=("$name: $f failed$note")
			sed 's/^/    /' "$logs/$name.log"
		else
			sed -n "s/^skipped: /       skipped: /p" "$logs/$name.log"
		fi
	else
		local how="exit status $status"
		[ "$status" -ne 124 ] && [ "$status" -ne 137 ] || how="stopped after ${TEST_TIMEOUT:-900} s"
		[ "$status" -le 128 ] || [ "$status" -eq 137 ] || how="killed by signal $((status - 128))"
		failed=$((failed + 1))
		failures+=("$name: ended without its last line, $how")
		printf '%-6s %-28s ended without its last line, %s  (%d s)\n' FAILED "$name" "$how" "$seconds"
		sed 's/^/    /' "$logs/$name.log"
	fi
}

chosen=()
for test in "$@"; do
	! is_wanted "$(name_of "$test")" || chosen+=("$test")
done
if [ ${#chosen[@]} -eq 0 ]; then
	echo "no test is called ${TESTS:-anything}; there is:" >&2
	for test in "$@"; do
		echo "  $(name_of "$test")" >&2
	done
	echo "0 passed, 0 failed, 0 skipped"
	exit 1
fi

# libcheck's four seconds a test are short for a loaded machine, and shorter with sanitizers.
export CK_DEFAULT_TIMEOUT=${CK_DEFAULT_TIMEOUT:-$([ -n "$SAN" ] && echo 300 || echo 120)}
# Several programs share the cores: threads that wait by spinning would take them from those that work.
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
# The OpenMP runtime is not instrumented, so the thread sanitizer takes its barriers for races.
[[ $SAN != *thread* ]] || export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}

rm -rf "$logs"
mkdir -p "$logs"
running=0
for test in "${chosen[@]}"; do
	if [ "$running" -ge "$jobs" ]; then
		wait -n
		running=$((running - 1))
	fi
	run_one "$test" &
	running=$((running + 1))
done
wait

passed=0 failed=0 skipped=0 failures=()
for test in "${chosen[@]}"; do
	report_one "$test"
done
for failure in "${failures[@]+"${failures[@]}"}"; do
	echo "FAILED $failure"
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
