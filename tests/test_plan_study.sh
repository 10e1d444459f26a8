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

# Fields of the explanation agree with the plan's and with one another; the curve is monotone; a MiB buys what it says.
explanation() {
	"$tarn" plan "$@" --explain --json --svg "$directory/study.svg" >"$directory/explained.json"
	/usr/bin/python3 - "$directory/explained.json" "$directory/study.svg" <<-'EOF'
		import json, sys, xml.dom.minidom
		plan = json.load(open(sys.argv[1]))
		e = plan["explanation"]
		peak = e["peak"]
		assert sum(peak["use_bytes"].values()) == peak["bytes"] <= plan["peak_bytes"]
		assert sum(b["bytes"] for b in peak["live"] if b["use"] != "persistent") == \
		    peak["bytes"] - plan["persistent_bytes"]
		assert sum(op["extra_runs"] for op in e["recomputed"]) == plan["recomputed_ops"]
		budgets = [p["budget_bytes"] for p in e["curve"]]
		times = [p["total_time"] for p in e["curve"]]
		assert len(budgets) >= 12 and budgets == sorted(budgets) and times == sorted(times, reverse=True), e["curve"]
		assert budgets[0] == plan["min_budget_bytes"] and budgets[-1] == plan["none_peak_bytes"], (budgets, plan)
		assert all(p["arena_bytes"] <= p["budget_bytes"] for p in e["curve"])
		assert e["curve"][-1]["recomputed_ops"] == 0
		assert all(p["total_time"] <= plan["total_time"] for p in e["curve"]
		           if p["budget_bytes"] >= plan["budget_bytes"]), (plan, e["curve"])
		more = e["one_mib_more"]
		assert more["budget_bytes"] == plan["budget_bytes"] + 2**20 >= more["arena_bytes"]
		assert more["total_time"] <= plan["total_time"]
		assert 'class="curve"' in open(sys.argv[2]).read()
		xml.dom.minidom.parse(sys.argv[2])
	EOF
	"$tarn" plan "$@" --explain | grep -q "The peak, .* is at instruction"
	"$tarn" plan "$@" --explain | grep -q "One MiB more would save"
}

# The last packing of the plan of least memory gets below what any request is granted: the curve begins at the latter.
curve_of_repacked() {
	"$tarn" plan configs/peers/lstm.yaml $null model.layers=1 data.context=32 --explain --json >"$directory/lstm.json"
	/usr/bin/python3 - "$directory/lstm.json" <<-EOF
		import json, sys
		plan = json.load(open(sys.argv[1]))
		curve = plan["explanation"]["curve"]
		assert curve[0]["budget_bytes"] == plan["min_budget_bytes"], (plan["min_budget_bytes"], curve)
		assert all(p["arena_bytes"] <= p["budget_bytes"] for p in curve), curve
	EOF
}

# A plan file is explained too, without the curve, for which the planner is needed.
explanation_of_a_file() {
	"$tarn" plan configs/peers/mlp.yaml -o "$directory/mlp.plan" >/dev/null
	"$tarn" plan --plan "$directory/mlp.plan" --explain --svg "$directory/file.svg" | grep -q "The peak, "
	"$tarn" plan --plan "$directory/mlp.plan" --explain --json | grep -q '"explanation": {"peak"'
	! "$tarn" plan --plan "$directory/mlp.plan" --explain --json | grep -q '"curve"'
}

# What is largest in the smallest plan stands in the refusal.
refusal() {
	fails_with 3 "of parameters and other persistent tensors" "$tarn" plan configs/peers/mlp.yaml memory.recompute=auto \
		memory.budget=1MiB
	fails_with 3 "the peak is at " "$tarn" plan configs/peers/resnet20.yaml $null model.depth=8 memory.budget=1MiB
	fails_with 3 "the peak is at " "$tarn" plan configs/peers/resnet20.yaml model.depth=8 memory.recompute=sqrt \
		memory.budget=1MiB
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
# shellcheck disable=SC2086 # words
expect "an explanation adds up" explanation configs/peers/resnet20.yaml model.depth=8 $null memory.budget=45MiB
expect "a curve begins at the smallest budget that plans" curve_of_repacked
expect "a plan file is explained too" explanation_of_a_file
expect "a refusal names what is largest" refusal
expect "a graph that cannot be written is an error" dump_is_refused
finish
