#!/usr/bin/env python3
"""Plans abstract training graphs with `tarn dag` and says how good the plans are.

  bench_plan.py TARN [DIR ...] [--effort fast|normal|max] [--only TEXT] [--json FILE] [--graphs DIR]

DIR holds graphs NAME.json and, optionally, cases.csv with a budget, a best known time and a status a row; without it
each graph is planned at fixed parts of its keep-all peak. Without a DIR, synthetic families are made and planned
(--graphs keeps their files). Every schedule is replayed here, independently of the planner. One row a case: time
above each op once, gap to the best known time and to the lower bounds in percent, CPU milliseconds.
"""
import argparse
import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile

PARTS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


def node(ids, time, size, inputs, phase, workspace=0):
    ids.append({"id": f"n{len(ids)}", "kind": "op", "time": time, "bytes": size, "workspace": workspace,
                "inputs": inputs, "phase": phase})
    return ids[-1]["id"]


def training(name, layers):
    """A training step from forward layers (time, bytes, indices of earlier layers)."""
    ids = []
    forward = [node(ids, t, b, [f"n{i}" for i in inputs], "fwd") for t, b, inputs in layers]
    readers = {i: [] for i in range(len(layers))}
    for j, layer in enumerate(layers):
        for i in layer[2]:
            readers[i].append(j)
    part, targets = {}, []
    for j in range(len(layers) - 1, -1, -1):
        t, b, inputs = layers[j]
        arriving = [part[r, j] for r in readers[j]]
        gradient = arriving[0] if len(arriving) == 1 else None
        if len(arriving) > 1:
            gradient = node(ids, 1 + t // 8, b, arriving, "bwd")
        kept = [forward[i] for i in inputs]
        for i in inputs:
            part[j, i] = node(ids, t, layers[i][1], ([gradient] if gradient else [forward[j]]) + kept, "bwd")
        targets.append(node(ids, t, 0, ([gradient] if gradient else [forward[j]]) + kept[:1], "bwd"))
    return {"name": name, "nodes": ids, "targets": targets}


def chain(n, seed=None):
    draw = random.Random(seed)
    size = (lambda: draw.randint(1, 8)) if seed is not None else (lambda: 4)
    return training(f"chain_{n}" + (f"_s{seed}" if seed is not None else ""),
                    [(10 * size(), 4096 * size(), [i - 1] if i else []) for i in range(n)])


def residual(blocks):
    layers = [(10, 65536, [])]
    for b in range(blocks):
        size = 65536 >> (2 * b // blocks)
        base = len(layers) - 1
        layers += [(60, size, [base]), (8, size, [base + 1]), (60, size, [base + 2]), (8, size, [base, base + 3])]
    return training(f"residual_{blocks}", layers)


def transformer(blocks):
    layers = [(10, 65536, [])]
    for _ in range(blocks):
        x = len(layers) - 1
        layers += [(6, 65536, [x]), (90, 3 * 65536, [x + 1]), (60, 131072, [x + 2]), (8, 131072, [x + 3]),
                   (60, 65536, [x + 2, x + 4]), (30, 65536, [x + 5]), (6, 65536, [x, x + 6]), (6, 65536, [x + 7]),
                   (120, 262144, [x + 8]), (10, 262144, [x + 9]), (120, 65536, [x + 10]), (6, 65536, [x + 7, x + 11])]
    return training(f"transformer_{blocks}", layers)


def unet(levels):
    layers, skip = [(10, 1 << 20, [])], []
    for level in range(levels):
        layers += [(200, (1 << 20) >> level, [len(layers) - 1])]
        skip.append(len(layers) - 1)
        layers += [(30, (1 << 18) >> level, [len(layers) - 1])]
    for level in reversed(range(levels)):
        layers += [(40, (1 << 20) >> level, [len(layers) - 1])]
        layers += [(200, (1 << 20) >> level, [len(layers) - 1, skip[level]])]
    return training(f"unet_{levels}", layers)


def layered(n, width, seed):
    draw, layers = random.Random(seed), []
    for i in range(n):
        first = max(0, i - 2 * width)
        inputs = sorted(draw.sample(range(first, i), min(i - first, draw.randint(1, 3)))) if i else []
        layers.append((draw.randint(5, 100), 1024 * draw.randint(1, 64), inputs))
    return training(f"layered_{n}_s{seed}", layers)


def synthetic(folder, scale):
    made = [chain(12), chain(50), chain(24, 1), residual(8), transformer(2), unet(4), layered(16, 3, 1),
            layered(40, 4, 2)]
    if scale:
        made += [transformer(n) for n in (3, 10, 100, 1000)] + [residual(n) for n in (10, 100, 1000)] + [chain(20000)]
    for dag in made:
        with open(os.path.join(folder, dag["name"] + ".json"), "w") as f:
            json.dump(dag, f)


def replay(dag, path, budget):
    """(peak, time) of a schedule; raises ValueError when it breaks a rule."""
    nodes = {n["id"]: n for n in dag["nodes"]}
    used = sum(n["bytes"] for n in nodes.values() if n["kind"] == "source")
    live, done, peak, time = {i for i, n in nodes.items() if n["kind"] == "source"}, set(), used, 0
    with open(path) as f:
        for line in f:
            action, name = line.split()
            n = nodes[name]
            if action == "f":
                live.remove(name)
                used -= n["bytes"]
                continue
            if name in live or not live.issuperset(n.get("inputs", [])):
                raise ValueError(f"{name}: live already, or an input is missing")
            peak = max(peak, used + n["bytes"] + n.get("workspace", 0))
            used += n["bytes"]
            time += n["time"]
            live.add(name)
            done.add(name)
    missing = [t for t in dag["targets"] if nodes[t]["kind"] == "op" and t not in done]
    if missing or peak > budget:
        raise ValueError(f"{len(missing)} targets missing, peak {peak} of {budget}")
    return peak, time


def keep_all_peak(dag):
    """Of the file's order with frees after the last use."""
    nodes = dag["nodes"]
    last = {n["id"]: k for k, n in enumerate(nodes)}
    for k, n in enumerate(nodes):
        for i in n.get("inputs", []):
            last[i] = k
    size = {n["id"]: n["bytes"] for n in nodes}
    used = sum(n["bytes"] for n in nodes if n["kind"] == "source")
    peak = used
    dying = {}
    for n in nodes:
        if n["kind"] == "op":
            dying.setdefault(last[n["id"]], []).append(n["id"])
    for k, n in enumerate(nodes):
        if n["kind"] == "op":
            peak = max(peak, used + n["bytes"] + n.get("workspace", 0))
            used += n["bytes"]
        used -= sum(size[i] for i in dying.get(k, []))
    return peak


def cases(folder):
    table = os.path.join(folder, "cases.csv")
    if os.path.exists(table):
        with open(table) as f:
            for row in csv.DictReader(f):
                yield {"graph": row["graph"], "file": os.path.join(folder, row["file"]), "label": row["budget_label"],
                       "budget": int(row["budget"]), "best": float(row["best_known_time"]), "status": row["status"]}
        return
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name)) as f:
                peak = keep_all_peak(json.load(f))
            for part in PARTS:
                yield {"graph": name[:-5], "file": os.path.join(folder, name), "label": f"{part:.2f}",
                       "budget": -int(-part * peak // 1), "best": None, "status": "open"}


def plan(tarn, case, effort):
    with tempfile.NamedTemporaryFile() as schedule:
        command = [tarn, "dag", case["file"], "--budget", str(case["budget"]), "--effort", effort, "--json", "-o",
                   schedule.name]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if run.returncode not in (0, 3, 4):
            sys.exit(f"{' '.join(command)} failed with {run.returncode}")
        answer = json.loads(run.stdout)
        if answer["status"] == "ok":
            with open(case["file"]) as f:
                peak, time = replay(json.load(f), schedule.name, case["budget"])
            if peak != answer["peak_bytes"] or abs(time - answer["total_time"]) > 1e-6 * time:
                sys.exit(f"{case['graph']}: the planner says {answer}, the replay {peak} bytes and time {time}")
        return answer


def percent(value, of):
    return None if value is None or not of else 100 * (value / of - 1)


def row_of(case, answer):
    time = answer["total_time"]
    return {**case, **{"answer": answer["status"], "time": time, "plan_ms": answer["plan_ms"],
                       "overhead": None if time is None else 100 * answer["overhead"],
                       "above_best": percent(time, case["best"]),
                       "above_bound": percent(time, answer["lower_bound_time"]),
                       "above_fixed_order": percent(time, answer["lower_bound_time_fixed_order"]),
                       "arena_waste": percent(answer["arena_bytes"], answer["peak_bytes"])}}


def show(value, digits=3):
    return "-" if value is None else f"{value:.{digits}f}"


def summary(rows):
    known = [r for r in rows if r["best"]]
    optimal = [r for r in known if r["status"] == "optimal"]
    counts = {"cases": len(rows), "planned": sum(r["answer"] == "ok" for r in rows),
              "milliseconds_most": max((r["plan_ms"] for r in rows), default=0),
              "milliseconds_sum": sum(r["plan_ms"] for r in rows),
              "within_1_percent_of_bound": sum(r["above_bound"] is not None and r["above_bound"] <= 1 for r in rows)}
    if known:
        good = [r for r in known if r["above_best"] is not None]
        counts["at_best_known"] = sum(r["above_best"] <= 1e-9 for r in good)
        counts["optimal_rows"] = len(optimal)
        counts["optimal_rows_within_1_percent"] = sum(r in good and r["above_best"] <= 1 for r in optimal)
        counts["optimal_rows_equal"] = sum(r in good and r["above_best"] <= 1e-9 for r in optimal)
        counts["below_best_known"] = sum(r["above_best"] < -1e-9 for r in good)
        counts["worst_percent"] = max((r["above_best"] for r in good), default=0)
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarn")
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--effort", default="normal")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--graphs")
    parser.add_argument("--scale", action="store_true", help="synthetic families up to tens of thousands of ops as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folders = options.folders
        if not folders:
            folders = [options.graphs or scratch]
            os.makedirs(folders[0], exist_ok=True)
            synthetic(folders[0], options.scale)
        rows = []
        print(f"{'graph':24} {'budget':>7} {'answer':10} {'overhead%':>10} {'>best%':>8} {'>bound%':>8} {'>fixed%':>8} "
              f"{'ms':>9}")
        for case in (c for folder in folders for c in cases(folder)):
            if options.only not in case["graph"] + " " + case["label"]:
                continue
            row = row_of(case, plan(options.tarn, case, options.effort))
            rows.append(row)
            print(f"{row['graph']:24} {row['label']:>7} {row['answer']:10} {show(row['overhead']):>10} "
                  f"{show(row['above_best']):>8} {show(row['above_bound']):>8} {show(row['above_fixed_order']):>8} "
                  f"{row['plan_ms']:9.1f}", flush=True)
    counts = summary(rows)
    counts["memory_most_kib"] = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    print(json.dumps(counts))
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"effort": options.effort, "summary": counts, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
