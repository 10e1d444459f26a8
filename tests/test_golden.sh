#!/usr/bin/env bash
# Planned bytes of every ready-made configuration, on the null driver (no workspaces, so the same on every machine). A change
# of the planner that moves them shows here: `make golden` writes the new ones, for a commit that says why.
. tests/support/testing.sh

tarn=$BUILD/tarn
golden=tests/golden/plans.txt

# NAME at BUDGET: peak, arena, smallest budget, keep-all peak, extra ops, overhead in per mille.
describe() {
	local config=$1 budget=$2
	"$tarn" plan "$config" device.driver=null train.threads=2 data.type=hash data.samples=448 data.test_samples=96 \
		"memory.budget=$budget" memory.recompute=auto ${3:-} --json | /usr/bin/python3 -c '
import json, sys
p = json.loads(sys.stdin.read())
keys = ("peak_bytes", "arena_bytes", "min_budget_bytes", "none_peak_bytes", "recomputed_ops")
print(*sys.argv[1:], *(p[k] for k in keys), round(p["overhead"] * 1000))' "$config" "$budget"
}

list() {
	local config least keep shape
	for config in configs/*.yaml configs/peers/*.yaml; do
		shape=
		grep -q 'shape:\|context:' "$config" || shape='data.shape=[28,28,1]'
		describe "$config" unlimited "$shape" >"$directory/line"
		read -r _ _ _ _ least keep _ <"$directory/line"
		cat "$directory/line"
		describe "$config" $(((least + keep) / 2)) "$shape"
		describe "$config" "$least" "$shape"
	done
}

unchanged() {
	list >"$directory/plans.txt"
	if [ -n "${TARN_GOLDEN_UPDATE:-}" ]; then
		cp "$directory/plans.txt" $golden
	fi
	diff $golden "$directory/plans.txt"
}

expect "planned bytes are the recorded ones (make golden records new ones)" unchanged
finish
