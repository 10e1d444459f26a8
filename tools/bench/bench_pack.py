#!/usr/bin/env python3
"""Packs every instance of some folders: height, bound and CPU time, as a table and one JSON line each.

usage: bench_pack.py TARN [--timeout SECONDS] [FOLDER-OR-CSV ...]
An instance has the columns id, lower, upper, size; one named NAME.BYTES.csv is also asked for that capacity. Without a
folder, rectangles cut into 100 to 100000 buffers are made, whose optimum is their load. Every packing is checked here.
"""
import bisect
import csv
import json
import os
import random
import subprocess
import sys
import tempfile


def cut_rectangle(path, buffers, seed, kept=1.0, height=1 << 20):
    """Cuts a rectangle into buffers and leaves some out, but none that lives at the middle."""
    rng = random.Random(seed)
    parts = [(0, 2 * buffers, height)]
    while len(parts) < buffers:
        k = rng.randrange(len(parts))
        first, last, size = parts[k]
        if rng.random() < 0.5 and last - first > 1:
            at = rng.randrange(first + 1, last)
            parts[k] = (first, at, size)
            parts.append((at, last, size))
        elif size > 1:
            at = rng.randrange(1, size)
            parts[k] = (first, last, at)
            parts.append((first, last, size - at))
    parts = [p for p in parts if p[0] <= buffers < p[1] or rng.random() < kept]
    with open(path, "w", encoding="ascii") as file:
        file.write("id,lower,upper,size\n")
        for i, part in enumerate(parts):
            file.write("%d,%d,%d,%d\n" % ((i,) + part))


def check(path, height):
    """No two buffers that live together share a byte, and none ends above the height."""
    events = []
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            low, size = int(row["offset"]), int(row["size"])
            assert low >= 0 and low + size <= height, row
            if size:
                events.append((int(row["lower"]), 1, low, low + size))
                events.append((int(row["upper"]), 0, low, low + size))
    live = []
    for _, start, low, high in sorted(events):
        k = bisect.bisect_left(live, (low, high))
        if not start:
            del live[k]
            continue
        assert (k == len(live) or live[k][0] >= high) and (k == 0 or live[k - 1][1] <= low), (low, high)
        live.insert(k, (low, high))


def pack(tarn, path, out, arguments):
    if os.path.exists(out):
        os.remove(out)
    done = subprocess.run([tarn, "pack", path, "--json", "-o", out] + arguments, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3, 4):
        sys.exit(done.stderr)
    result = json.loads(done.stdout)
    if done.returncode == 0:
        check(out, result["height"])
    return result


def instances(names):
    for name in names:
        if not os.path.isdir(name):
            yield name
            continue
        for folder, _, files in sorted(os.walk(name)):
            yield from (os.path.join(folder, f) for f in sorted(files) if f.endswith(".csv") and f != "manifest.csv")


def main():
    arguments = sys.argv[1:]
    if not arguments:
        sys.exit(__doc__)
    tarn, names, options = arguments[0], arguments[1:], []
    if "--timeout" in names:
        at = names.index("--timeout")
        options = names[at:at + 2]
        del names[at:at + 2]
    with tempfile.TemporaryDirectory() as folder:
        if not names:
            names = [os.path.join(folder, "cut")]
            os.mkdir(names[0])
            for buffers in (100, 300, 1000, 3000, 10000, 100000):
                for kept in (100, 80):
                    cut_rectangle("%s/cut%06d_kept%d.csv" % (names[0], buffers, kept), buffers, buffers, kept / 100)
        rows, total = [], 0.0
        for path in instances(names):
            capacity = os.path.basename(path).split(".")[1:-1]
            for asked in [[]] + ([["--capacity", capacity[0]]] if capacity and capacity[0].isdigit() else []):
                result = pack(tarn, path, os.path.join(folder, "out.csv"), options + asked)
                row = {"instance": os.path.basename(path), "capacity": int(asked[1]) if asked else None, **result}
                rows.append(row)
                total += result["pack_ms"]
                print(json.dumps(row), flush=True)
    print("%-26s %10s %14s %14s %9s %-10s %9s" %
          ("instance", "capacity", "height", "lower bound", "/ load", "status", "CPU ms"))
    for row in rows:
        print("%-26s %10s %14d %14d %9.5f %-10s %9.1f" %
              (row["instance"], row["capacity"] or "-", row["height"], row["lower_bound"],
               row["height"] / max(1, row["load"]), "optimal" if row["optimal"] else row["status"], row["pack_ms"]))
    print("CPU seconds in all: %.3f" % (total / 1e3))


if __name__ == "__main__":
    main()
