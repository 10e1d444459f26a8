#!/usr/bin/env bash
# After boot no thread makes a memory-mapping system call: 1,000 training steps, an evaluation, a snapshot and the final
# report under strace; then the same run with --lockdown, which makes any such call fail.
. tests/support/testing.sh

tarn=$BUILD/tarn
cat >"$directory/net.yaml" <<EOF
data: {type: synthetic, shape: [8, 8, 2], classes: 4, batch: 8, samples: 36, test_samples: 20}
layers:
- conv2d: {channels: 8, kernel: 3, padding: 1}
- batch_norm
- relu
- dropout: 0.1
- max_pool: 2
- global_pool
- dense: 4
train: {max_steps: 1000, log_every: 1, threads: 2, snapshot: $directory/net.safetensors}
EOF
min_budget=$("$tarn" plan "$directory/net.yaml" --json | sed 's/.*"min_budget_bytes": \([0-9]*\).*/\1/')

# log_every 1 for the mark: what happens between the line of step 1 and the last line is steps, evaluation and snapshot.
maps_nothing() {
	strace -f -o "$directory/trace" -e trace=mmap,munmap,mremap,brk,write \
		"$tarn" train "$directory/net.yaml" --json "memory.budget=$min_budget" >"$directory/out"
	grep -q '"steps": 1000' "$directory/out"
	grep -q 'write(1, .*step.": 1,' "$directory/trace"
	grep -q 'write(1, .*steps.": 1000,' "$directory/trace"
	# The process unmaps what it mapped when it ends, after the last line was written.
	sed -e '1,/write(1, .*step.": 1,/d' -e '/write(1, .*steps.": 1000,/,$d' "$directory/trace" >"$directory/during"
	[ "$(grep -c 'write(1' "$directory/during")" -ge 999 ]
	! grep -E '(mmap|munmap|mremap|brk)\(' "$directory/during"
}

hash() { sed -n 's/.*"weights_hash": "\([0-9a-f]*\)".*/\1/p' "$1"; }
locked() {
	"$tarn" train "$directory/net.yaml" --json "memory.budget=$min_budget" --lockdown >"$directory/locked"
	grep -q '"steps": 1000' "$directory/locked"
	[ -n "$(hash "$directory/locked")" ]
	[ "$(hash "$directory/locked")" = "$(hash "$directory/out")" ]
}

# Snapshots, evaluations and going on from another folder are all that a locked run does.
locked_goes_on() {
	mkdir -p "$directory/from" "$directory/to"
	"$tarn" train "$directory/net.yaml" train.max_steps=12 train.log_every=0 "train.snapshot=$directory/from/a" >/dev/null
	"$tarn" train "$directory/net.yaml" --json train.max_steps=40 --resume "$directory/from/a" train.log_every=0 \
		"train.snapshot=" >"$directory/free"
	"$tarn" train "$directory/net.yaml" --json train.max_steps=40 --resume "$directory/from/a" train.log_every=0 \
		"train.snapshot=$directory/to/b" train.snapshot_every=1 --lockdown >"$directory/locked"
	[ "$(hash "$directory/locked")" = "$(hash "$directory/free")" ]
	[ -s "$directory/to/b" ] && [ -s "$directory/to/b.previous" ]
	# And the folder of a run, made and filled.
	"$tarn" train "$directory/net.yaml" --json train.max_steps=40 --resume "$directory/from/a" train.snapshot= \
		"train.run=$directory/new/run" train.log=tensorboard --lockdown >"$directory/locked"
	[ "$(hash "$directory/locked")" = "$(hash "$directory/free")" ]
	[ -s "$directory/new/run/result.json" ] && [ -s "$directory/new/run/snapshot.safetensors" ]
	cmp "$directory/new/run/config.yaml" "$directory/net.yaml"
}

if [ -n "$SAN" ]; then
	skip "system calls of a run" "sanitizers map memory on their own account"
elif ! command -v strace >/dev/null || ! strace -o /dev/null true 2>/dev/null; then
	skip "system calls of a run" "strace is missing or not allowed here"
else
	expect "a run of 1,000 steps maps nothing after boot" maps_nothing
	expect "--lockdown runs to the end with the same weights" locked
	expect "--lockdown goes on from a snapshot and writes others" locked_goes_on
fi
finish
