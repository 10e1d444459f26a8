#!/usr/bin/env bash
# Faults of the machine: calls that fail, disks that are full, folders that cannot be written to, sudden death. A run ends
# with a documented exit code and one sentence, leaves nothing half-written, and goes on from the last complete snapshot
# to the same bits as a run that nothing happened to.
#
# Here a part of the calls fail and the process is killed a dozen times; with TARN_TEST_SLOW every call and 300 times.
. tests/support/testing.sh

tarn=$BUILD/tarn
inject=$BUILD/tests/fault_inject.so
slow=${TARN_TEST_SLOW:-}
run=$directory/run
mkdir "$run"

# 28 samples of real files in batches of 8: the last batch of an epoch is short. The images are packed, so that zlib reads.
/usr/bin/python3 - "$directory" <<'EOF_DATA'
import gzip, random, struct, sys
draw = random.Random(9)
samples, side = 28, 6
images = bytes(draw.randrange(256) for _ in range(samples * side * side))
with gzip.open(sys.argv[1] + "/images", "wb") as file:
	file.write(struct.pack(">IIII", 0x00000803, samples, side, side) + images)
with open(sys.argv[1] + "/labels", "wb") as file:
	file.write(struct.pack(">II", 0x00000801, samples) + bytes(draw.randrange(3) for _ in range(samples)))
EOF_DATA
cat >"$directory/net.yaml" <<END
data: {type: idx, directory: $directory, train_inputs: images, train_labels: labels, test_inputs: images,
  test_labels: labels, classes: 3, batch: 8}
layers:
- conv2d: {channels: 4, kernel: 3, padding: 1}
- batch_norm
- relu
- dropout: 0.1
- global_pool
- dense: 3
optimizer: {type: adamw, learning_rate: 1e-2}
train: {epochs: 4, threads: 2, snapshot: $run/net.safetensors, snapshot_every: 1}
END

train() {
	"$tarn" train "$directory/net.yaml" --json "$@"
}
hash_of() { sed -n 's/.*"weights_hash": "\([0-9a-f]*\)".*/\1/p' "$1"; }

# The run that nothing happens to, and the snapshots after its second epoch, from which the others start.
train >"$directory/whole" 2>&1
whole=$(hash_of "$directory/whole")
rm "$run"/*
mkdir "$directory/start"
train train.max_steps=8 >"$directory/half" 2>&1
cp "$run"/net.safetensors "$run"/net.safetensors.previous "$directory/start"
"$tarn" plan "$directory/net.yaml" -o "$directory/net.plan" >"$directory/plan.log"

start_over() {
	rm -rf "$run" "$directory/mark"
	cp -r "$directory/start" "$run"
}

# goes_on: from what is there now, to the same bits.
goes_on() {
	train --resume "$run/net.safetensors" >"$directory/again" 2>&1 || { cat "$directory/again"; return 1; }
	[ "$(hash_of "$directory/again")" = "$whole" ] || { echo "the weights differ after going on"; return 1; }
}

# is_well STATUS: one of the codes that a failing call may lead to, one sentence for it, no temporary file, no plan that is
# not whole.
is_well() {
	case $1 in
	0) [ "$(grep -c '^tarn:' "$directory/err")" -eq 0 ] || [ "$(grep -c warning "$directory/err")" -gt 0 ] ;;
	5 | 6 | 8 | 9) [ "$(grep -v warning "$directory/err" | grep -c .)" -eq 1 ] && grep -q '^tarn: ' "$directory/err" ;;
	*) false ;;
	esac || { echo "exit status $1"; return 1; }
	[ -z "$(find "$directory" -name '*.tarn-tmp.*')" ] || { echo "a temporary file is left"; return 1; }
}

# each_fails KIND STRIDE COMMAND...: the N-th call of a kind fails, for N = 1, 1 + STRIDE, ... until there is no N-th call.
each_fails() {
	local kind=$1 stride=$2 number=1 status
	[ -z "$slow" ] || stride=1
	shift 2
	while :; do
		start_over
		status=0
		TARN_FAULT=$kind:$number TARN_FAULT_MARK=$directory/mark timeout 60 \
			env LD_PRELOAD="$PWD/$inject" "$@" >"$directory/out" 2>"$directory/err" || status=$?
		[ -e "$directory/mark" ] || break
		is_well $status && goes_on || { echo "$kind call $number: "; cat "$directory/err"; return 1; }
		number=$((number + stride))
	done
	[ "$number" -gt 1 ] # something did fail
}

resume=("$tarn" train "$directory/net.yaml" --json --resume "$run/net.safetensors")
from_plan=("$tarn" train --plan "$directory/net.plan" --json --resume "$run/net.safetensors")
plans=("$tarn" plan "$directory/net.yaml" -o "$directory/new.plan")

a_plan_is_whole_or_absent() {
	local kind
	for kind in open write sync rename; do
		rm -f "$directory/new.plan"
		each_fails $kind 2 "${plans[@]}"
		[ ! -e "$directory/new.plan" ] || "$tarn" verify "$directory/new.plan"
	done
}

# Every writing call of a run is its last: the snapshot before it or the one after is whole.
killed_inside_snapshots() {
	local number=1 status
	while :; do
		start_over
		status=0
		{ TARN_FAULT=kill:$number TARN_FAULT_MARK=$directory/mark env LD_PRELOAD="$PWD/$inject" \
			"${resume[@]}" >"$directory/out" 2>&1; } 2>/dev/null || status=$?
		[ -e "$directory/mark" ] || break
		[ $status -eq 137 ]
		goes_on
		# What the dead left was cleaned up by the one that went on.
		[ -z "$(find "$run" -name '*.tarn-tmp.*')" ]
		number=$((number + ${slow:+1}${slow:-3}))
	done
	[ $number -gt 3 ]
}

# Dies again and again, after milliseconds that a seed draws, goes on each time from what it finds.
killed_at_random() {
	local kills=0 goal=${slow:+300} status
	goal=${goal:-12}
	RANDOM=20260101
	train train.epochs=400 train.snapshot= train.snapshot_every=0 >"$directory/long" 2>&1
	rm -rf "$run"
	mkdir "$run"
	while [ $kills -lt $goal ]; do
		status=0
		from=()
		[ ! -e "$run/net.safetensors" ] || from=(--resume "$run/net.safetensors")
		{ timeout -s KILL "0.$(printf '%03d' $((20 + RANDOM % 130)))" "$tarn" train "$directory/net.yaml" --json \
			train.epochs=400 "${from[@]+"${from[@]}"}" >"$directory/out" 2>&1; } 2>/dev/null || status=$?
		[ $status -eq 137 ] || [ $status -eq 0 ] || { echo "exit status $status"; cat "$directory/out"; return 1; }
		kills=$((kills + 1))
		# Done: once more from the beginning.
		[ $status -ne 0 ] || { [ "$(hash_of "$directory/out")" = "$(hash_of "$directory/long")" ] && rm "$run"/*; }
	done
	from=()
	[ ! -e "$run/net.safetensors" ] || from=(--resume "$run/net.safetensors")
	train train.epochs=400 "${from[@]+"${from[@]}"}" >"$directory/out" 2>&1
	grep -q '"steps": 1600' "$directory/out"
	[ "$(hash_of "$directory/out")" = "$(hash_of "$directory/long")" ]
}

# A limit on the size of files stands for a full disk, and asks for a signal besides.
file_too_large() {
	start_over
	(ulimit -f 1; fails_with 5 "File too large" "${resume[@]}")
	[ -z "$(find "$run" -name '*.tarn-tmp.*')" ]
	goes_on
}

# In namespaces of its own: a file system of 24 KiB, and one that is mounted read-only.
disk_full() {
	start_over
	cp "$directory/start"/* "$run"
	unshare -rm bash -c '
		mount -t tmpfs -o size=24k none "$1" && cp "$2"/* "$1" && head -c 1M /dev/zero >"$1/filling" 2>/dev/null
		shift 2
		"$@" >"$0/out" 2>"$0/err"; status=$?
		cp "$0/run"/net.safetensors* "$0/kept/" && ls "$0/run" >"$0/names"
		exit $status' "$directory" "$run" "$directory/start" "${resume[@]}" && return 1
	grep -q 'No space left on device' "$directory/err"
	! grep -q tarn-tmp "$directory/names"
	rm -rf "$run" && cp -r "$directory/kept" "$run"
	goes_on
}
read_only() {
	start_over
	unshare -rm bash -c 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && shift 0 && "$@"' "$run" \
		"${resume[@]}" >"$directory/out" 2>"$directory/err" && return 1
	is_well 5
	grep -q 'Read-only file system' "$directory/err"
	! grep -q '"step"' "$directory/out" # before the first step
	goes_on
}

# What it trains on was read at boot: files that are cut or removed in mid-epoch change nothing.
data_vanish() {
	start_over
	mkdir "$directory/data"
	cp "$directory/images" "$directory/labels" "$directory/data"
	mkfifo "$directory/lines"
	"$tarn" train "$directory/net.yaml" --json "data.directory=$directory/data" train.log_every=1 >"$directory/lines" \
		2>"$directory/err" &
	local pid=$! first
	exec 3<"$directory/lines"
	read -r first <&3
	: >"$directory/data/images"
	rm "$directory/data/labels"
	{ echo "$first"; cat <&3; } >"$directory/out"
	exec 3<&-
	wait $pid
	[ "$(hash_of "$directory/out")" = "$whole" ]
	# The next start finds them so.
	fails_with 6 "images" "$tarn" train "$directory/net.yaml" "data.directory=$directory/data" data.train_labels="$directory/labels"
	fails_with 5 "labels" "$tarn" train "$directory/net.yaml" "data.directory=$directory/data" data.train_inputs="$directory/images"
}

mkdir "$directory/kept"
if [ -n "$SAN" ]; then
	skip "calls that fail" "a sanitizer stands before the same calls"
else
	expect "each heap call fails once" each_fails heap 131 "${resume[@]}"
	expect "each heap call of a run from a plan fails once" each_fails heap 5 "${from_plan[@]}"
	for kind in map open read sync rename thread; do
		expect "each $kind call fails once" each_fails $kind 1 "${resume[@]}"
	done
	expect "each write call fails once" each_fails write 6 "${resume[@]}"
	for kind in map open read; do
		expect "each $kind call of a run from a plan fails once" each_fails $kind 1 "${from_plan[@]}"
	done
	expect "a plan file is whole or absent" a_plan_is_whole_or_absent
	expect "killed inside snapshots, the run goes on to the same bits" killed_inside_snapshots
fi
expect "killed at random, the run goes on to the same bits" killed_at_random
expect "a file that may not grow ends the run with a sentence" file_too_large
if unshare -rm true 2>/dev/null; then
	expect "a full disk ends the run with a sentence" disk_full
	expect "a read-only folder is refused before the first step" read_only
else
	skip "full and read-only file systems" "namespaces are not allowed here"
fi
expect "data that vanish in mid-epoch change nothing" data_vanish
finish
