#!/usr/bin/env bash
# `train.run`: what a run leaves in its folder, and that going on, killing and colliding leave it whole.
. tests/support/testing.sh

tarn=$BUILD/tarn
cat >"$directory/net.yaml" <<END
name: net
data: {type: synthetic, shape: [8, 8, 2], classes: 4, batch: 8, samples: 36, test_samples: 20}
layers:
- conv2d: {channels: 8, kernel: 3, padding: 1}
- batch_norm
- relu
- global_pool
- dense: 4
optimizer: {type: adamw, learning_rate: 1e-3, clip_norm: 1}
train: {epochs: 4, log_every: 2, threads: 1}
END
run=$directory/first

# steps FOLDER KEY: the steps of the lines that have the key, in the file's order.
steps() {
	/usr/bin/python3 - "$1/metrics.jsonl" "$2" <<-'END'
		import json, sys
		lines = [json.loads(line) for line in open(sys.argv[1])]
		print(*[line["step"] for line in lines if sys.argv[2] in line])
	END
}

whole_run() {
	"$tarn" train "$directory/net.yaml" train.run="$run" optimizer.learning_rate=2e-3 --json >"$directory/out.json"
	cmp "$directory/net.yaml" "$run/config.yaml"
	grep -qx 'optimizer.learning_rate=0.002' "$run/settings.txt"
	"$tarn" verify "$run/run.plan"
	[ "$(steps "$run" loss)" = "2 4 5 6 8 10 12 14 15 16 18 20" ]
	[ "$(steps "$run" test_loss)" = "5 10 15 20" ]
	# The same means as on the standard output, and the result's memory as planned.
	/usr/bin/python3 - "$run" "$directory/out.json" <<-'END'
		import json, sys
		out = [json.loads(line) for line in open(sys.argv[2])]
		lines = [json.loads(line) for line in open(sys.argv[1] + "/metrics.jsonl")]
		lines = [line for line in lines if "loss" in line]
		for mine, shown in zip(lines, out):
		    for key in "step", "epoch", "loss", "accuracy", "learning_rate", "gradient_norm":
		        assert mine[key] == shown[key], key
		    assert mine["planned_step_ms"] == out[-1]["planned_step_ms"] and mine["step_ms"] > 0
		result = json.load(open(sys.argv[1] + "/result.json"))
		assert result["peak_bytes"] == out[-1]["peak_bytes"] and result["steps"] == 20
		assert result["touched_bytes"] <= result["arena_bytes"]
	END
}

# Without the key nothing but the snapshot is written.
not_asked_for() {
	mkdir "$directory/empty"
	"$tarn" train "$directory/net.yaml" train.snapshot="$directory/empty/net.safetensors" >/dev/null
	[ "$(ls "$directory/empty")" = net.safetensors ]
}

not_begun_anew() {
	cp "$run/metrics.jsonl" "$directory/before"
	fails_with 2 "got to step 20; go on with it by --resume $run/snapshot.safetensors" \
		"$tarn" train "$directory/net.yaml" train.run="$run"
	cmp "$run/metrics.jsonl" "$directory/before"
}

# From the middle of an epoch, with lines after the snapshot and one half written: as if it had never stopped.
goes_on() {
	"$tarn" train "$directory/net.yaml" train.run="$directory/straight" >/dev/null
	"$tarn" train "$directory/net.yaml" train.run="$directory/broken" --max-steps 8 >/dev/null
	echo '{"step": 10, "epoch": 1, "epoch_end": true, "loss": 9}' >>"$directory/broken/metrics.jsonl"
	printf '{"step": 12, "ep' >>"$directory/broken/metrics.jsonl"
	"$tarn" train "$directory/net.yaml" train.run="$directory/broken" --resume "$directory/broken/snapshot.safetensors"
	/usr/bin/python3 - "$directory/straight" "$directory/broken" <<-'END'
		import json, sys
		keys = "step", "epoch", "loss", "accuracy", "gradient_norm", "test_loss"
		straight, broken = ([tuple(json.loads(line).get(key) for key in keys) for line in open(folder + "/metrics.jsonl")]
				    for folder in sys.argv[1:])
		# --max-steps ended with an evaluation that the unbroken run has not.
		assert [line for line in broken if line[0] != 8 or line[2]] == straight, (straight, broken)
	END
}

# The first holds the folder while it trains; the second leaves all as it is.
two_at_once() {
	"$tarn" train "$directory/net.yaml" train.run="$directory/shared" train.epochs=1000000 train.evaluate_every=0 \
		train.log_every=1000 --json >/dev/null &
	local pid=$!
	while ! [ -s "$directory/shared/metrics.jsonl" ]; do sleep 0.05; done
	local status=0
	fails_with 2 "another process trains into" "$tarn" train "$directory/net.yaml" train.run="$directory/shared" || status=1
	kill -KILL $pid
	wait $pid || true
	[ $status = 0 ]
	# A killed one holds it no longer.
	fails_with 2 "holds a run that got to step" "$tarn" train "$directory/net.yaml" train.run="$directory/shared"
}

# Ctrl-C: snapshot, a last line, the result; then the run goes on to the same weights.
interrupted() {
	local status=0 folder=$directory/interrupted steps
	"$tarn" train "$directory/net.yaml" train.run="$folder" train.epochs=0 train.max_steps=200000 \
		train.evaluate_every=0 --json >/dev/null 2>"$directory/int.err" &
	local pid=$!
	while ! [ -s "$folder/metrics.jsonl" ]; do sleep 0.05; done
	kill -INT $pid
	wait $pid || status=$?
	[ $status = 130 ]
	grep -q "go on with --resume $folder/snapshot.safetensors" "$directory/int.err"
	steps=$(/usr/bin/python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["steps"])' "$folder/result.json")
	[ "$(steps "$folder" loss | tr ' ' '\n' | tail -n 1)" = "$steps" ]
	"$tarn" train "$folder/config.yaml" train.run="$folder" train.epochs=0 train.max_steps=$((steps + 10)) \
		--resume "$folder/snapshot.safetensors" >/dev/null
	[ "$(steps "$folder" loss | tr ' ' '\n' | sort | uniq -d)" = "" ]
	[ "$(steps "$folder" loss | tr ' ' '\n' | tail -n 1)" = $((steps + 10)) ]
}

bad_folders() {
	mkdir "$directory/odd"
	echo 'step,loss' >"$directory/odd/metrics.jsonl"
	fails_with 6 "metrics.jsonl:1: this is no line of metrics" "$tarn" train "$directory/net.yaml" \
		train.run="$directory/odd"
	[ "$(cat "$directory/odd/metrics.jsonl")" = step,loss ]
	fails_with 5 "net.yaml/x" "$tarn" train "$directory/net.yaml" train.run="$directory/net.yaml/x"
	fails_with 2 "train.log: needs train.run" "$tarn" train "$directory/net.yaml" train.log=tensorboard
}

plan_file() {
	"$tarn" train --plan "$run/run.plan" train.run="$directory/from-plan" train.epochs=1 >/dev/null
	[ ! -e "$directory/from-plan/config.yaml" ]
	grep -qx 'train.epochs=1' "$directory/from-plan/settings.txt"
	[ -s "$directory/from-plan/snapshot.safetensors" ]
}

evaluation_writes_nothing() {
	cp -r "$run" "$directory/copy"
	"$tarn" eval "$run/config.yaml" --weights "$run/snapshot.safetensors" train.run="$run" train.log=tensorboard \
		train.snapshot_every=1 >/dev/null
	diff -r "$run" "$directory/copy"
}

# Record by record, with checksums of its own; the tags and values are those of metrics.jsonl.
event_files() {
	local folder=$directory/events lockdown=--lockdown
	[ -z "$SAN" ] || lockdown=--json # a sanitizer maps memory of its own
	"$tarn" train "$directory/net.yaml" train.run="$folder" train.log=tensorboard --max-steps 8 $lockdown >/dev/null
	"$tarn" train "$directory/net.yaml" train.run="$folder" train.log=tensorboard \
		--resume "$folder/snapshot.safetensors" >/dev/null
	/usr/bin/python3 tests/support/read_events.py "$folder"
}

# TensorBoard's own reader, where this machine has it.
tensorboard_reads() {
	/usr/bin/python3 tests/support/read_events.py --tensorboard "$directory/events"
}

expect "a run's folder has configuration, settings, plan, metrics and result" whole_run
expect "no folder unless asked for" not_asked_for
expect "a folder with a run is not begun anew" not_begun_anew
expect "a run that goes on has no step twice" goes_on
expect "two runs do not share a folder" two_at_once
expect "an interrupted run is whole and goes on" interrupted
expect "folders that cannot be used are refused" bad_folders
expect "a run from a plan file" plan_file
expect "an evaluation writes nothing there" evaluation_writes_nothing
expect "event files are whole" event_files
if /usr/bin/python3 -c 'import tensorboard' 2>/dev/null; then
	expect "TensorBoard reads the event files" tensorboard_reads
else
	skip "TensorBoard reads the event files" "python3 has no tensorboard"
fi
finish
