#!/usr/bin/env bash
# Every ready-made configuration plans within its budget and trains two steps, on made-up data of its own shape.
. tests/support/testing.sh

tarn=$BUILD/tarn

trains() {
	local config=$1 shape=
	grep -q '^ *shape:\|^ *context:' "$config" || shape='data.shape=[28,28,1]'
	"$tarn" train "$config" data.type=synthetic data.samples=300 data.test_samples=300 ${shape:+"$shape"} train.epochs=0 \
		train.max_steps=2 train.threads=2 train.snapshot= --json >"$directory/run.json"
	/usr/bin/python3 - "$directory/run.json" <<-'END'
		import json, math, sys
		run = json.loads(open(sys.argv[1]).read().splitlines()[-1])
		assert run["steps"] == 2 and math.isfinite(run["loss"]) and math.isfinite(run["test_loss"]), run
		assert run["arena_touched_bytes"] <= run["arena_bytes"] <= run["budget_bytes"], run
	END
}

# A family that nobody can try with one command is not there.
every_family() {
	local family
	"$tarn" help models | sed -n 's/^\([a-z0-9_][a-z0-9_]*\)  *[^ ].*/\1/p' >"$directory/families"
	[ -s "$directory/families" ]
	while read -r family; do
		grep -ql "^ *family: $family\$" configs/*.yaml || { echo "no configs/*.yaml has family: $family"; return 1; }
	done <"$directory/families"
}

for config in configs/*.yaml; do
	expect "$config plans and trains" trains "$config"
done
expect "each family has a configuration" every_family
finish
