#!/usr/bin/env bash
# The command line as users and programs see it: JSON fields, exit codes, plan files, snapshots, signals.
. tests/support/testing.sh

tarn=$BUILD/tarn
cat >"$directory/net.yaml" <<EOF
name: net
data: {type: synthetic, shape: [8, 8, 2], classes: 4, batch: 8, samples: 36, test_samples: 20}
layers:
- conv2d: {channels: 8, kernel: 3, padding: 1}
- batch_norm
- relu
- dropout: 0.2
- conv2d: {channels: 8, kernel: 3, padding: 1}
- relu
- global_pool
- dense: 4
optimizer: {type: adamw, learning_rate: 1e-3}
train: {epochs: 4, log_every: 5, threads: 1, snapshot: $directory/net.safetensors}
EOF

# field FILE KEY: the value of a key in the last line.
field() {
	tail -n 1 "$1" | /usr/bin/python3 -c 'import json, sys; print(json.loads(sys.stdin.read())[sys.argv[1]])' "$2"
}

plan_fields() {
	"$tarn" plan "$directory/net.yaml" --json >"$directory/plan.json"
	for key in peak_bytes arena_bytes budget_bytes none_peak_bytes transient_peak_bytes none_transient_peak_bytes \
		min_budget_bytes parameter_count recomputed_ops overhead offload_bytes plan_checksum \
		total_time lower_bound_time lower_bound_peak gap pack_ms plan_ms; do
		field "$directory/plan.json" $key
	done
	[ "$(field "$directory/plan.json" budget_bytes)" = None ]
	[ "$(field "$directory/plan.json" recomputed_ops)" = 0 ]
	[ "$(field "$directory/plan.json" gap)" = 0 ]
	[ "$(field "$directory/plan.json" lower_bound_time)" = "$(field "$directory/plan.json" total_time)" ]
}

# The table adds up, is short before a training however deep the network, and whole in JSON.
layer_summary() {
	"$tarn" plan "$directory/net.yaml" --summary --json >"$directory/summary.json"
	/usr/bin/python3 - "$directory/summary.json" <<-'END'
		import json, math, sys
		plan = json.load(open(sys.argv[1]))
		network = plan["network"]
		parameters = [p for p in network["persistent"] if p["role"] == "parameter"]
		assert sum(math.prod(p["shape"]) for p in parameters) == plan["parameter_count"]
		conv = next(o for o in network["ops"] if o["name"] == "conv2d1")
		assert conv["op"] == "conv2d" and conv["shape"] == [8, 8, 8, 8] and conv["bytes"] == 8 * 8 * 8 * 8 * 4
		assert conv["flops"] >= 2 * 8 * 8 * 8 * 8 * 3 * 3 * 2 and conv["pad_begin"] == [1, 1]
		made = {t for o in network["ops"] for t in o["outputs"]} | {p["name"] for p in network["persistent"]}
		assert all(t in made for o in network["ops"] for t in o["inputs"])
	END
	"$tarn" plan "$directory/net.yaml" --summary >"$directory/summary.txt"
	grep -q "^  conv2d1  *conv2d  *8x8x8x8  *152 " "$directory/summary.txt"
	grep -q "^  sum  *$(field "$directory/summary.json" parameter_count) " "$directory/summary.txt"
	"$tarn" train configs/peers/resnet110.yaml data.batch=1 train.max_steps=1 device.driver=null train.snapshot= \
		>"$directory/train.txt"
	grep -q '^  stage1/ .* ops ' "$directory/train.txt"
	[ "$(grep -c . "$directory/train.txt")" -lt 80 ]
}

train_fields() {
	"$tarn" train "$directory/net.yaml" --json >"$directory/train.json"
	for key in steps skipped_steps loss test_accuracy peak_bytes transient_peak_bytes arena_bytes arena_touched_bytes max_rss_bytes \
		budget_bytes step_ms_median step_cpu_ms_median boot_ms threads images_per_s plan_checksum weights_hash; do
		field "$directory/train.json" $key
	done
	[ "$(field "$directory/train.json" steps)" = 20 ]
	[ "$(field "$directory/train.json" plan_checksum)" = "$(field "$directory/plan.json" plan_checksum)" ]
	# Every line is JSON.
	/usr/bin/python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$directory/train.json"
}

same_hash() {
	[ "$(field "$1" weights_hash)" = "$(field "$2" weights_hash)" ]
}

smallest_budget() {
	local least
	least=$(field "$directory/plan.json" min_budget_bytes)
	"$tarn" train "$directory/net.yaml" --json "memory.budget=$least" >"$directory/least.json"
	same_hash "$directory/train.json" "$directory/least.json"
	fails_with 3 "$least bytes" "$tarn" plan "$directory/net.yaml" "memory.budget=$((least - 64))"
	fails_with 3 "command line: memory.budget" "$tarn" plan "$directory/net.yaml" "memory.budget=1KiB"
}

budget_place() {
	{ cat "$directory/net.yaml"; echo "memory: {budget: 20 KiB}"; } >"$directory/small.yaml"
	fails_with 3 "small.yaml:14:18: memory.budget" "$tarn" train "$directory/small.yaml"
	# What only the data can tell has its place too.
	fails_with 2 "command line: data.batch is 80 but there are only 36" "$tarn" plan "$directory/net.yaml" data.batch=80
	sed 's/batch: 8,/batch: 80,/' "$directory/net.yaml" >"$directory/large.yaml"
	fails_with 2 "large.yaml:2:62: data.batch is 80" "$tarn" plan "$directory/large.yaml"
	printf '%s\n' "data: {type: synthetic, shape: [16], classes: 4, augment: {flip: true}}" "layers: [{dense: 4}]" \
		>"$directory/flat.yaml"
	fails_with 10 "flat.yaml:1:59: data.augment needs images" "$tarn" plan "$directory/flat.yaml"
}

plan_file() {
	"$tarn" plan "$directory/net.yaml" -o "$directory/net.plan" --svg "$directory/net.svg" --print >/dev/null
	"$tarn" verify "$directory/net.plan"
	/usr/bin/python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$directory/net.svg"
	"$tarn" train --plan "$directory/net.plan" --json >"$directory/from_plan.json"
	same_hash "$directory/train.json" "$directory/from_plan.json"
	fails_with 2 "data.batch=4" "$tarn" train --plan "$directory/net.plan" data.batch=4
}

damaged_plan() {
	head -c 200 "$directory/net.plan" >"$directory/cut.plan"
	fails_with 6 "cut.plan" "$tarn" verify "$directory/cut.plan"
	echo "not a plan" >"$directory/text.plan"
	fails_with 6 "text.plan" "$tarn" verify "$directory/text.plan"
	fails_with 5 "missing.plan" "$tarn" verify "$directory/missing.plan"
	cp "$directory/net.plan" "$directory/flip.plan"
	printf '\377' | dd of="$directory/flip.plan" bs=1 seek=700 conv=notrunc 2>/dev/null
	fails_with 6 "flip.plan" "$tarn" train --plan "$directory/flip.plan"
}

resume() {
	"$tarn" train "$directory/net.yaml" --json --max-steps 7 "train.snapshot=$directory/half.safetensors" >/dev/null
	"$tarn" train "$directory/net.yaml" --json --resume "$directory/half.safetensors" \
		"train.snapshot=$directory/rest.safetensors" >"$directory/rest.json"
	same_hash "$directory/train.json" "$directory/rest.json"
	[ "$(field "$directory/rest.json" steps)" = 20 ]
}

# Another plan, the smallest, takes over in the middle.
resume_elsewhere() {
	local least
	least=$(field "$directory/plan.json" min_budget_bytes)
	"$tarn" train "$directory/net.yaml" --json --resume "$directory/half.safetensors" "memory.budget=$least" \
		"train.snapshot=$directory/rest.safetensors" >"$directory/rest.json"
	same_hash "$directory/train.json" "$directory/rest.json"
}

# A place in an epoch means nothing with another batch or other data.
resume_mismatch() {
	fails_with 2 "batches of 8" "$tarn" train "$directory/net.yaml" --resume "$directory/half.safetensors" data.batch=4
	fails_with 2 "36 training samples" "$tarn" train "$directory/net.yaml" --resume "$directory/half.safetensors" \
		data.samples=37
	fails_with 2 "train.seed" "$tarn" train "$directory/net.yaml" --resume "$directory/half.safetensors" train.seed=9
	"$tarn" eval "$directory/net.yaml" --weights "$directory/half.safetensors" data.batch=4 --json
	"$tarn" train "$directory/net.yaml" --resume "$directory/net.safetensors" train.snapshot= | grep 'nothing to do'
}

strategies() {
	local least
	"$tarn" plan "$directory/net.yaml" memory.recompute=none --json >"$directory/none.json"
	least=$(field "$directory/none.json" min_budget_bytes)
	[ "$least" = "$(field "$directory/none.json" arena_bytes)" ]
	"$tarn" plan "$directory/net.yaml" memory.recompute=none "memory.budget=$least"
	fails_with 3 "recompute: none is $least bytes" "$tarn" plan "$directory/net.yaml" memory.recompute=none \
		"memory.budget=$((least - 64))"
	fails_with 3 "auto gets by with $(field "$directory/plan.json" min_budget_bytes) bytes" "$tarn" plan \
		"$directory/net.yaml" memory.recompute=none "memory.budget=$((least - 64))"
}

full_output() {
	fails_with 5 "cannot write" sh -c "'$tarn' train '$directory/net.yaml' train.snapshot= --json >/dev/full"
	fails_with 5 "cannot write" sh -c "'$tarn' plan '$directory/net.yaml' >/dev/full"
}

evaluation() {
	"$tarn" eval "$directory/net.yaml" --weights "$directory/net.safetensors" --json >"$directory/eval.json"
	[ "$(field "$directory/eval.json" test_accuracy)" = "$(field "$directory/train.json" test_accuracy)" ]
	[ "$(field "$directory/eval.json" test_loss)" = "$(field "$directory/train.json" test_loss)" ]
}

# SIGINT ends the step, writes a snapshot and exits with 130; going on from there gives the weights of an unbroken run.
interrupt() {
	local status=0 pid
	"$tarn" train "$directory/net.yaml" --json train.epochs=2000 "train.snapshot=$directory/int.safetensors" \
		>"$directory/int.json" 2>"$directory/int.err" &
	pid=$!
	while [ ! -s "$directory/int.json" ]; do sleep 0.05; done
	kill -INT $pid
	wait $pid || status=$?
	[ $status = 130 ]
	grep -q -- "--resume $directory/int.safetensors" "$directory/int.err"
	local steps
	steps=$(field "$directory/int.json" steps)
	"$tarn" train "$directory/net.yaml" --json train.epochs=2000 --max-steps $((steps + 10)) \
		--resume "$directory/int.safetensors" train.snapshot= >"$directory/on.json"
	"$tarn" train "$directory/net.yaml" --json train.epochs=2000 --max-steps $((steps + 10)) train.snapshot= \
		>"$directory/straight.json"
	same_hash "$directory/on.json" "$directory/straight.json"
}

# The folder of the snapshot is made at boot; where that cannot be, the run does not start.
snapshot_folder() {
	"$tarn" train "$directory/net.yaml" --json --max-steps 1 "train.snapshot=$directory/new/deep/a.safetensors"
	[ -s "$directory/new/deep/a.safetensors" ]
	fails_with 5 "net.yaml/x" "$tarn" train "$directory/net.yaml" --json "train.snapshot=$directory/net.yaml/x/y"
	fails_with 5 "is a folder" "$tarn" train "$directory/net.yaml" --json "train.snapshot=$directory/new"
	! "$tarn" train "$directory/net.yaml" --json "train.snapshot=$directory/new" | grep step
}

# A signal before the first step leaves what is on disk alone; one in an evaluation ends it, and the weights are saved.
early_and_late_signals() {
	local before status=0 pid
	cp "$directory/net.safetensors" "$directory/keep.safetensors"
	before=$(sha256sum <"$directory/keep.safetensors")
	"$tarn" train "$directory/net.yaml" "train.snapshot=$directory/keep.safetensors" data.batch=36 --json &
	pid=$!
	kill -TERM $pid
	wait $pid || true
	[ "$(sha256sum <"$directory/keep.safetensors")" = "$before" ]
	"$tarn" train "$directory/net.yaml" "train.snapshot=$directory/late.safetensors" data.test_samples=4000000 \
		--max-steps 1 --json >"$directory/late.json" 2>"$directory/late.err" &
	pid=$!
	while [ ! -s "$directory/late.json" ]; do sleep 0.05; done
	kill -INT $pid
	wait $pid || status=$?
	[ $status = 0 ]
	grep -q 'broken off' "$directory/late.err"
	[ "$(field "$directory/late.json" test_accuracy)" = None ]
	[ -s "$directory/late.safetensors" ]
}

# The reader of the log goes away: the run ends, the snapshot is there, the exit code says that lines were lost.
broken_pipe() {
	local status=0
	"$tarn" train "$directory/net.yaml" "train.snapshot=$directory/pipe.safetensors" --json > >(head -c 1 >/dev/null) \
		2>/dev/null || status=$?
	[ $status = 5 ] || [ $status = 0 ] # 0: the pipe took everything before its reader left
	"$tarn" eval "$directory/net.yaml" --weights "$directory/pipe.safetensors"
}

# Measured costs change what is planned, never what is computed.
calibration() {
	"$tarn" calibrate "$directory/net.yaml" -o "$directory/costs.txt" >"$directory/costs.log"
	# The plan adds up what was measured, and a run says how long its steps were beside it.
	"$tarn" plan "$directory/net.yaml" "device.costs=$directory/costs.txt" --json >"$directory/calibrated.json"
	/usr/bin/python3 -c 'import re, sys
measured = float(re.search(r"a step takes ([0-9.]+) ms", open(sys.argv[1]).read()).group(1))
assert abs(measured - float(sys.argv[2])) <= 0.006 + 0.001 * measured, (measured, sys.argv[2])' \
		"$directory/costs.log" "$(field "$directory/calibrated.json" planned_step_ms)"
	"$tarn" train "$directory/net.yaml" "device.costs=$directory/costs.txt" >"$directory/costs.log"
	grep -q "step .* ms measured (median; .* ms of CPU a thread), .* ms planned: .* times the plan" "$directory/costs.log"
	[ "$(grep -c . "$directory/costs.txt")" -gt 20 ]
	"$tarn" train "$directory/net.yaml" --json "device.costs=$directory/costs.txt" \
		"memory.budget=$(field "$directory/plan.json" min_budget_bytes)" >"$directory/costs.json"
	same_hash "$directory/train.json" "$directory/costs.json"
	fails_with 2 "threads" "$tarn" plan "$directory/net.yaml" "device.costs=$directory/costs.txt" train.threads=2
	fails_with 5 "nowhere.txt" "$tarn" plan "$directory/net.yaml" "device.costs=$directory/nowhere.txt"
	echo "12 conv2d" >>"$directory/costs.txt"
	fails_with 6 "costs.txt:" "$tarn" plan "$directory/net.yaml" "device.costs=$directory/costs.txt"
	fails_with 6 "net.yaml:1" "$tarn" plan "$directory/net.yaml" "device.costs=$directory/net.yaml"
	fails_with 2 "-o FILE" "$tarn" calibrate "$directory/net.yaml"
}

usage() {
	"$tarn" help >/dev/null
	"$tarn" help config | grep -q memory.budget
	"$tarn" help memory.budget | grep -q -i byte
	"$tarn" help train | grep -q -- --resume
	"$tarn" train --help | grep -q -- --resume
	"$tarn" help layers | grep -q conv2d
	"$tarn" help models | grep -q resnet
	"$tarn" help schema | /usr/bin/python3 -c 'import json, sys; json.load(sys.stdin)'
	"$tarn" info | grep -q cpu
	fails_with 2 "memory.budget" "$tarn" help memory.budgte
	fails_with 2 "unknown command" "$tarn" trian
	fails_with 2 "--max-step" "$tarn" train "$directory/net.yaml" --max-step 5
	fails_with 2 "\"x\" is not a number" "$tarn" train "$directory/net.yaml" --max-steps x
	fails_with 2 "which configuration" "$tarn" train
	fails_with 5 "nothing.yaml" "$tarn" train "$directory/nothing.yaml"
	fails_with 2 "data.batch" "$tarn" plan "$directory/net.yaml" data.bathc=4
	fails_with 2 "--weights" "$tarn" eval "$directory/net.yaml"
	fails_with 5 "none.safetensors" "$tarn" eval "$directory/net.yaml" --weights "$directory/none.safetensors"
}

null_driver() {
	"$tarn" plan "$directory/net.yaml" device.driver=null data.batch=36 --json >/dev/null
	"$tarn" train "$directory/net.yaml" device.driver=null --json --max-steps 3 \
		"train.snapshot=$directory/null.safetensors" >"$directory/null.json"
	[ ! -e "$directory/null.safetensors" ] # nothing was computed, nothing is worth keeping
	[ "$(field "$directory/null.json" steps)" = 3 ]
}

# Never silently: on stderr, in the results; without the key the message names it.
stand_in() {
	local net=$directory/cifar.yaml
	printf '%s\n' "data: {type: cifar10, directory: nowhere, batch: 8}" "layers: [flatten, {dense: 10}]" \
		"train: {max_steps: 2, threads: 1}" >"$net"
	! "$tarn" train "$net" 2>"$directory/error" || return 1
	grep -q "data.synthetic: true" "$directory/error"
	"$tarn" plan "$net" data.synthetic=true -o "$directory/cifar.plan" >/dev/null
	"$tarn" train "$net" data.synthetic=true --json >"$directory/cifar.json" 2>"$directory/error"
	grep -q "the samples are made up" "$directory/error"
	[ "$(field "$directory/cifar.json" synthetic_data)" = True ]
	"$tarn" train --plan "$directory/cifar.plan" >"$directory/output" 2>"$directory/error"
	grep -q "the samples are made up" "$directory/error"
	grep -q "the samples are made up" "$directory/output"
	grep -q "made-up samples" "$directory/output"
	[ "$(field "$directory/train.json" synthetic_data)" = False ]
}

expect "plan --json has every field" plan_fields
expect "the layers are listed" layer_summary
expect "train --json has every field" train_fields
expect "the smallest budget trains to the same weights, less is refused" smallest_budget
expect "a budget that is too small is named with its place" budget_place
expect "a plan file trains to the same weights" plan_file
expect "damaged plan files are refused" damaged_plan
expect "resuming gives the weights of an unbroken run" resume
expect "resuming with another plan does too" resume_elsewhere
expect "resuming with another batch, data or seed is refused" resume_mismatch
expect "a strategy's own smallest budget is named" strategies
expect "output that cannot be written is an error" full_output
expect "eval gives train's accuracy" evaluation
expect "SIGINT stops cleanly" interrupt
expect "the snapshot's folder is there before the first step" snapshot_folder
expect "signals during boot and evaluation lose nothing" early_and_late_signals
expect "a broken pipe loses no weights" broken_pipe
expect "measured costs plan the same numbers" calibration
expect "help, info and bad arguments" usage
expect "the null driver plans and runs" null_driver
expect "a stand-in for data is said, and asked for" stand_in
finish
