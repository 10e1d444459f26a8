#!/usr/bin/env python3
"""Holds the planner against its targets: one row a target, with the figure that it asks for and the one measured.

  plan_targets.py TARN [FOLDER ...] [--json FILE] [--only TEXT] [--largest OPS]

Without a folder, what can be judged on graphs and buffers made here: chains against the closed form, sweeps, baselines,
plan times, packing times. A FOLDER adds what is known of its instances: graphs with cases.csv (budgets with a best known
time), packing instances NAME.BYTES.csv (does it fit?) and those with a manifest.csv whose `optimum` is known. Every
schedule and packing is checked here. Times are CPU times of one thread.
"""
import argparse
import csv
import glob
import json
import math
import os
import subprocess
import tempfile

import bench_pack
import bench_plan


class Targets:
    """The rows so far; prints each as it is known."""

    def __init__(self, tarn, scratch, only):
        self.tarn, self.scratch, self.only, self.rows = tarn, scratch, only, []
        print(f"{'target':58} {'asked':>12} {'measured':>12}  reached")

    def wants(self, topic):
        return self.only in topic

    def add(self, name, asked, measured, unit=""):
        """`asked`: the most that reaches the target."""
        self.rows.append({"target": name, "asked": asked, "measured": measured, "unit": unit,
                          "reached": measured <= asked})
        texts = [f"{value:.6g} {unit}".strip() for value in (asked, measured)]
        print(f"{name:58} {texts[0]:>12} {texts[1]:>12}  {'yes' if measured <= asked else 'NO'}", flush=True)

    def write(self, dag):
        path = os.path.join(self.scratch, dag["name"] + ".json")
        with open(path, "w", encoding="ascii") as file:
            json.dump(dag, file)
        return path

    def dag(self, path, budget, *arguments):
        run = subprocess.run([self.tarn, "dag", path, "--budget", str(budget), "--json", *arguments],
                             stdout=subprocess.PIPE, text=True, check=False)
        return json.loads(run.stdout)

    def case(self, path, budget, effort):
        return bench_plan.plan(self.tarn, {"file": path, "budget": budget, "graph": path}, effort)


def percent_above(time, best):
    return math.inf if time is None else 100 * (time / best - 1)


def equal_chain(stages):
    """x(0) is a source; the loss and every backward op take one unit of memory and time as well."""
    nodes = [{"id": "x0", "kind": "source", "time": 0, "bytes": 0, "inputs": []}]
    for k in range(1, stages + 1):
        bench = {"kind": "op", "time": 1, "bytes": 1, "workspace": 0}
        nodes.append({"id": f"x{k}", **bench, "inputs": [f"x{k - 1}"], "phase": "fwd"})
    nodes.append({"id": f"g{stages}", **bench, "inputs": [f"x{stages}"], "phase": "bwd"})
    for k in range(stages, 0, -1):
        nodes.append({"id": f"g{k - 1}", **bench, "inputs": [f"g{k}", f"x{k - 1}"], "phase": "bwd"})
    return {"name": f"equal_{stages}", "nodes": nodes, "targets": ["g0"]}


def binomial_time(stages, units):
    """Griewank and Walther, ACM TOMS 26, 2000: all ops once, and forward ops again."""
    kept, rounds = units - 2, 0
    while math.comb(kept + rounds, kept) < stages:
        rounds += 1
    again = rounds * stages - math.comb(kept + rounds, rounds - 1) - (stages - 1) if rounds else 0
    return 2 * stages + 1 + again


def judge_chains(targets):
    worst = 0
    for stages in (8, 30, 100, 300, 1000):
        path = targets.write(equal_chain(stages))
        for units in sorted({u for u in (3, 4, 6, 10, 30, 100, stages // 2) if u <= stages}):
            worst = max(worst, percent_above(targets.case(path, units, "normal")["total_time"],
                                             binomial_time(stages, units)))
    targets.add("chains of 8 to 1,000 stages: above the closed form", 0, worst, "%")


def judge_sweeps(targets):
    for dag in (bench_plan.chain(24, 1), bench_plan.unet(4), bench_plan.layered(16, 3, 1)):
        path, worst, rises, last = targets.write(dag), 0, 0, math.inf
        lines = subprocess.run([targets.tarn, "dag", path, "--sweep", "50", "--effort", "fast"],
                               stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        for line in map(json.loads, lines):
            time = line["plan"]["total_time"]
            rises += time > last
            last = time
            single = targets.dag(path, line["budget"], "--effort", "fast")["total_time"]
            worst = max(worst, percent_above(single, time))
        targets.add(f"{dag['name']}: budgets at which the time of a sweep rises", 0, rises)
        targets.add(f"{dag['name']}: a single call above the sweep", 0.1, worst, "%")
        targets.add(f"{dag['name']}: time added at the keep-all peak", 0, percent_above(
            last, sum(node["time"] for node in dag["nodes"])), "%")


def judge_baselines(targets):
    for dag in (bench_plan.residual(8), bench_plan.transformer(2), bench_plan.residual(100)):
        path, worst = targets.write(dag), -math.inf
        for strategy in ("none", "sqrt", "speed", "memory_poor"):
            base = targets.dag(path, 1 << 60, "--strategy", strategy, "--effort", "fast")
            auto = targets.dag(path, base["peak_bytes"], "--effort", "fast")
            worst = max(worst, percent_above(auto["total_time"], base["total_time"]))
        targets.add(f"{dag['name']}: auto above a fixed strategy", 0, worst, "%")


def judge_scale(targets, largest):
    for blocks, effort, asked in ((8, "fast", 50), (71, "normal", 1000), (2380, "fast", 20000)):
        dag = bench_plan.transformer(blocks)
        if len(dag["nodes"]) > largest:
            continue
        path, budget = targets.write(dag), int(0.6 * bench_plan.keep_all_peak(dag))
        targets.add(f"transformer of {len(dag['nodes'])} ops, effort {effort}: plan time", asked,
                    targets.dag(path, budget, "--effort", effort)["plan_ms"], "ms")
    path = os.path.join(targets.scratch, "many.csv")
    bench_pack.cut_rectangle(path, 100000, 1)
    answer = bench_pack.pack(targets.tarn, path, os.path.join(targets.scratch, "out.csv"), [])
    targets.add("100,000 buffers: packing time", 2000, answer["pack_ms"], "ms")


def judge_cases(targets, folder):
    rows = list(bench_plan.cases(folder))
    optimal = [r for r in rows if r["status"] == "optimal"]
    above = {effort: [percent_above(targets.case(r["file"], r["budget"], effort)["total_time"], r["best"])
                      for r in (rows if effort == "normal" else optimal)] for effort in ("normal", "max")}
    far = sum(a > 1 for a, r in zip(above["normal"], rows) if r["status"] == "optimal")
    worse = sum(a > 1e-7 for a, r in zip(above["normal"], rows) if r["status"] != "optimal")
    targets.add(f"of {len(optimal)} optimal rows, effort normal: more than 1 % above", 0, far)
    targets.add(f"of {len(rows) - len(optimal)} open rows, effort normal: above the best known", 0, worse)
    targets.add(f"of {len(optimal)} optimal rows, effort max: above", 0, sum(a > 1e-7 for a in above["max"]))


def judge_packing(targets, folder):
    out = os.path.join(targets.scratch, "out.csv")
    undecided, spent, asked = 0, 0, 0
    for path in sorted(glob.glob(os.path.join(folder, "*.*.csv"))):
        capacity = os.path.basename(path).split(".")[-2]
        if capacity.isdigit():
            answer = bench_pack.pack(targets.tarn, path, out, ["--capacity", capacity])
            undecided += not answer["height"] <= int(capacity)
            spent, asked = spent + answer["pack_ms"], asked + 1
    if asked:
        targets.add(f"{asked} instances at their capacity: not packed", 0, undecided)
        targets.add(f"{asked} instances at their capacity: time", 1860, spent, "ms")
    manifest = os.path.join(folder, "manifest.csv")
    if not os.path.exists(manifest):
        return
    with open(manifest, encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if not row.get("optimum"):
                continue
            answer = bench_pack.pack(targets.tarn, os.path.join(folder, row["file"]), out, [])
            name = f"{row['file']}: "
            targets.add(name + "height above the optimum", 0 if int(row["n"]) < 1000 else 5,
                        percent_above(answer["height"], int(row["optimum"])), "%")
            targets.add(name + "time", 2000, answer["pack_ms"], "ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarn")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--json")
    parser.add_argument("--only", default="", help="chains, sweeps, baselines, scale, cases or packing")
    parser.add_argument("--largest", type=int, default=100000, help="ops of the largest graph that is planned")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        targets = Targets(options.tarn, scratch, options.only)
        for topic, judge in (("chains", judge_chains), ("sweeps", judge_sweeps), ("baselines", judge_baselines),
                             ("scale", lambda t: judge_scale(t, options.largest))):
            if targets.wants(topic):
                judge(targets)
        for folder in options.folders:
            if os.path.exists(os.path.join(folder, "cases.csv")) and targets.wants("cases"):
                judge_cases(targets, folder)
            if glob.glob(os.path.join(folder, "*.csv")) and targets.wants("packing"):
                judge_packing(targets, folder)
    summary = {"targets": len(targets.rows), "reached": sum(r["reached"] for r in targets.rows)}
    print(json.dumps(summary))
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"summary": summary, "rows": targets.rows}, file, indent=1)


if __name__ == "__main__":
    main()
