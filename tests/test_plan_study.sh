#!/usr/bin/env bash
# What `tarn plan` says beside the plan: the graph for `tarn dag`, bounds, the explanation, the curve, the refusal.
. tests/support/testing.sh

tarn=$BUILD/tarn
null="device.driver=null train.threads=1 memory.recompute=auto"

# field FILE KEY: the value of a key in the last line.
field() {
	tail -n 1 "$1" | /usr/bin/python3 -c 'import json, sys; print(json.loads(sys.stdin.read())[sys.argv[1]])' "$2"
}

# same_time CONFIG [key=value ...]: the dumped graph takes the same time in `tarn dag`, and its schedule obeys the format.
same_time() {
	local least all budget
	# shellcheck disable=SC2086 # words
	set -- "$@" $null
	"$tarn" plan "$@" memory.budget=unlimited --json >"$directory/all.json"
	least=$(field "$directory/all.json" min_budget_bytes)
	all=$(field "$directory/all.json" arena_bytes)
	for eighth in 1 6; do
		budget=$((least + (all - least) * eighth / 8))
		"$tarn" plan "$@" "memory.budget=$budget" --dump-dag "$directory/graph.json" --json >"$directory/plan.json"
		"$tarn" dag "$directory/graph.json" --budget $budget --json -o "$directory/schedule.txt" >"$directory/dag.json" ||
			[ "$(field "$directory/dag.json" status)" != ok ]
		echo "budget $budget: $(cat "$directory/plan.json" "$directory/dag.json")"
		[ "$(field "$directory/plan.json" dag_time_ns)" = "$(field "$directory/dag.json" total_time)" ]
	done
	grep -q '"with"' "$directory/graph.json" || [ "$1" = configs/peers/mlp.yaml ] || [ "$1" = configs/peers/lenet_fmnist.yaml ]
	grep -q '"once": true' "$directory/graph.json"
}

# Without anything in place the plan itself takes that time, where the searches are the same and the packing is tight.
same_plan() {
	# shellcheck disable=SC2086 # words
	"$tarn" plan "$1" $null memory.in_place=false memory.budget=unlimited --dump-dag "$directory/graph.json" --json \
		>"$directory/all.json"
	local least all budget
	least=$(field "$directory/all.json" min_budget_bytes)
	all=$(field "$directory/all.json" arena_bytes)
	for eighth in 0 4 8; do
		budget=$((least + (all - least) * eighth / 8))
		# shellcheck disable=SC2086 # words
		"$tarn" plan "$1" $null memory.in_place=false "memory.budget=$budget" --json >"$directory/plan.json"
		"$tarn" dag "$directory/graph.json" --budget $budget --effort fast --min-peak --json >"$directory/dag.json"
		/usr/bin/python3 - "$directory/plan.json" "$directory/dag.json" <<-'EOF'
			import json, sys
			plan, dag = (json.load(open(path)) for path in sys.argv[1:])
			assert round(plan["planned_step_ms"] * 1e6) == dag["total_time"], (plan, dag)
			assert plan["min_budget_bytes"] == dag["min_budget_found"], (plan, dag)
		EOF
	done
}

# The bound is proved: it holds for the plan of a search that goes on for longer, and a gap is what it says.
bounds_hold() {
	# shellcheck disable=SC2086 # words
	set -- "$@" $null
	"$tarn" plan "$@" memory.budget=unlimited --json >"$directory/all.json"
	local least all
	least=$(field "$directory/all.json" min_budget_bytes)
	all=$(field "$directory/all.json" arena_bytes)
	for eighth in 0 2 4 6; do
		"$tarn" plan "$@" "memory.budget=$((least + (all - least) * eighth / 8))" -o "$directory/bound.plan" --json \
			>"$directory/fast.json"
		"$tarn" verify "$directory/bound.plan"
		"$tarn" plan "$@" "memory.budget=$((least + (all - least) * eighth / 8))" memory.effort=normal --json \
			>"$directory/normal.json"
		/usr/bin/python3 - "$directory/fast.json" "$directory/normal.json" $eighth <<-'EOF'
			import json, sys
			fast, normal = (json.load(open(path)) for path in sys.argv[1:3])
			for plan in fast, normal:
			    assert plan["lower_bound_time"] <= min(fast["total_time"], normal["total_time"]), (fast, normal)
			    assert plan["lower_bound_peak"] <= plan["min_budget_bytes"] <= plan["arena_bytes"], plan
			    gap = plan["total_time"] / plan["lower_bound_time"] - 1
			    assert abs(gap - plan["gap"]) < 1e-6, (gap, plan)
			    print(sys.argv[3], "gap", gap)
			assert sys.argv[3] not in "46" or fast["gap"] < 0.05, fast
		EOF
	done
}

dump_is_refused() {
	fails_with 5 "cannot create" "$tarn" plan configs/peers/mlp.yaml --dump-dag /nonexistent/graph.json
	"$tarn" plan configs/peers/mlp.yaml -o "$directory/mlp.plan" >/dev/null
	fails_with 8 "give the configuration" "$tarn" plan --plan "$directory/mlp.plan" --dump-dag "$directory/graph.json"
}

expect "tarn dag plans LeNet's graph as fast as tarn plan says" same_time configs/peers/lenet_fmnist.yaml
expect "the same for a perceptron" same_time configs/peers/mlp.yaml
expect "the same for a residual network" same_time configs/peers/resnet20.yaml model.depth=8
expect "without anything in place LeNet's plan is that of its graph" same_plan configs/peers/lenet_fmnist.yaml
expect "bounds hold for a residual network" bounds_hold configs/peers/resnet20.yaml model.depth=8
expect "a graph that cannot be written is an error" dump_is_refused
finish
