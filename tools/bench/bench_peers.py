#!/usr/bin/env python3
"""Step time of configs/peers/*.yaml beside PyTorch on the same work, alternating: one JSON line a network.

usage: bench_peers.py TARN [--threads N] [--rounds R]      (PyTorch and numpy in the python that runs it)
Ratios are tarn / PyTorch of the median CPU time of a step; below 1 tarn is faster.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
NETWORKS = ("lenet_fmnist", "mlp", "resnet20")


# Freed memory stays in the heap: without it PyTorch maps and faults its large tensors anew in every step.
PEER_ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}


def run(command, environment=None):
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True,
                            env={**os.environ, **(environment or {})})
    return json.loads(result.stdout.strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tarn")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    arguments = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        sys.exit("bench_peers.py: PyTorch is not installed for " + sys.executable +
                 "; run it with a python that has torch and numpy (make bench-peers TORCH_PYTHON=...)")
    for network in NETWORKS:
        ours, theirs = [], []
        for _ in range(arguments.rounds):
            ours.append(run([arguments.tarn, "train", f"configs/peers/{network}.yaml", "--json", "--max-steps",
                             str(arguments.steps), f"train.threads={arguments.threads}"]))
            theirs.append(run([sys.executable, os.path.join(HERE, "torch_step.py"), network, "--threads",
                               str(arguments.threads), "--steps", str(arguments.steps)], PEER_ENVIRONMENT))
        key = "step_cpu_ms_median"
        print(json.dumps({
            "network": network, "threads": arguments.threads, "rounds": arguments.rounds, "peer": theirs[0]["peer"],
            "tarn_cpu_ms": statistics.median(r[key] for r in ours),
            "peer_cpu_ms": statistics.median(r[key] for r in theirs),
            "ratio": round(statistics.median(a[key] / b[key] for a, b in zip(ours, theirs)), 3),
            "tarn_ms": statistics.median(r["step_ms_median"] for r in ours),
            "peer_ms": statistics.median(r["step_ms_median"] for r in theirs),
            "tarn_loss": ours[0]["loss"], "peer_loss": theirs[0]["loss"]}), flush=True)


if __name__ == "__main__":
    main()
