#!/usr/bin/env python3
"""Step time against budget: a configuration at several budgets from keep-all down to the smallest, one JSON line each.

usage: bench_budget.py TARN [CONFIG ...]
`overhead_planned` is what the plan expects, `overhead_measured` the median CPU time of a step over keep-all's.
"""
import json
import subprocess
import sys

FRACTIONS = (1.0, 0.75, 0.5, 0.35, 0.25, 0.0)


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout.strip().splitlines()[-1])


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tarn, configs = sys.argv[1], sys.argv[2:] or ["configs/peers/resnet20.yaml"]
    for config in configs:
        common = ["train.epochs=1000", "memory.recompute=auto"]
        plan = run(tarn, "plan", config, "memory.budget=unlimited", "--json", *common)
        base = None
        for fraction in FRACTIONS:
            budget = max(int(plan["arena_bytes"] * fraction), plan["min_budget_bytes"])
            common_budget = common + [f"memory.budget={budget}"]
            planned = run(tarn, "plan", config, "--json", *common_budget)
            result = run(tarn, "train", config, "--json", "--max-steps", "12", "train.snapshot=", *common_budget)
            base = base or result["step_cpu_ms_median"]
            print(json.dumps({
                "config": config, "budget_bytes": budget, "of_keep_all": round(budget / plan["none_peak_bytes"], 3),
                "arena_bytes": result["arena_bytes"], "peak_bytes": result["peak_bytes"],
                "recomputed_ops": planned["recomputed_ops"], "plan_ms": planned["plan_ms"],
                "overhead_planned": round(planned["overhead"], 4),
                "overhead_measured": round(result["step_cpu_ms_median"] / base - 1, 4),
                "step_ms": result["step_ms_median"], "step_cpu_ms": result["step_cpu_ms_median"],
                "planned_step_ms": result["planned_step_ms"]}), flush=True)


if __name__ == "__main__":
    main()
