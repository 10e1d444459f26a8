# shellcheck shell=bash
# testing.sh - what test scripts share; sourced by tests/test_*.sh, which run in the top folder.
#
#   expect "what must hold" COMMAND...      one test: passes when the command succeeds; its output is shown when not
#   skip "what" "why"                       leaves one out
#   finish                                  last line of a script: prints the sums, exits
#
# $directory is a fresh folder, removed at the end. BUILD, SAN and CC come from tools/run_tests.sh. Commands that are more
# than one call are functions of the script, run by expect in a subshell with `set -e`.
set -u

BUILD=${BUILD:-build} SAN=${SAN:-} CC=${CC:-gcc}
tests_passed=0 tests_failed=0 tests_skipped=0
directory=$(mktemp -d "${TMPDIR:-/tmp}/tarn-test-XXXXXX")
trap 'rm -rf "$directory"' EXIT

expect() {
	local what=$1 status
	shift
	# Not in a condition: bash would ignore the `set -e` inside.
	(set -e; "$@") >"$directory/expect.log" 2>&1
	status=$?
	if [ $status -eq 0 ]; then
		tests_passed=$((tests_passed + 1))
	else
		tests_failed=$((tests_failed + 1))
		echo "failed: $what (exit status $status)"
		sed 's/^/    /' "$directory/expect.log"
	fi
}

skip() {
	tests_skipped=$((tests_skipped + 1))
	echo "skipped: $1: $2"
}

# fails_with STATUS TEXT COMMAND...: the command must end with that status and say the text.
fails_with() {
	local wanted=$1 text=$2 status=0 output
	shift 2
	output=$("$@" 2>&1) || status=$?
	[ "$status" -eq "$wanted" ] || { echo "exit status $status, expected $wanted: $output"; return 1; }
	[[ $output == *"$text"* ]] || { echo "\"$text\" is missing in: $output"; return 1; }
}

finish() {
	echo "tests: $tests_passed passed, $tests_failed failed, $tests_skipped skipped"
	exit $((tests_failed > 0 || tests_passed + tests_skipped == 0))
}
