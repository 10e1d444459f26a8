#!/usr/bin/env python3
"""Checks the CUDA driver on the device of this machine and writes one JSON report: `make check-gpu`.

    tools/check_gpu.py BUILD [--output FILE] [--simulated]

Parts: what was found; every op against plain loops; the same bits for every strategy and budget; the memory ledger of a
run, stage by stage; each op's cost, planned and measured; a run while another process leaves exactly the budget free;
step time and memory of CIFAR ResNets against depth and strategy; the same step in PyTorch where that is installed.

With --simulated the libraries are those of tests/cudasim, in BUILD/cudasim, and networks and steps are few: the same
parts in the same order, so that the script has run before a device sees it. Only Python's own modules are used. The exit
status is 0 when every part held, 1 when one did not, 8 when there is no device.
"""
import argparse
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
GRANULE = 2 * MIB  # device memory is handed out in pieces of this size
TIMEOUT_SECONDS = 240

SMALL = """
data: {type: synthetic, shape: [12, 12, 3], classes: 10, batch: 4, samples: 16}
model: {family: resnet, depth: 8}
optimizer: {type: momentum, learning_rate: 0.02}
train: {seed: 3}
"""

CIFAR = """
data: {type: synthetic, shape: [32, 32, 3], classes: 10, batch: %d, samples: %d}
model: {family: resnet, depth: %d}
optimizer: {type: momentum, learning_rate: 0.02}
train: {seed: 3}
"""

STRATEGIES = ("none", "sqrt", "speed", "memory-poor", "min")


class Failure(Exception):
    """A part did not hold; the text says what."""


class Checker:
    def __init__(self, build, simulated):
        self.build = pathlib.Path(build)
        self.simulated = simulated
        self.directory = tempfile.TemporaryDirectory(prefix="tarn-gpu-")
        self.environment = dict(os.environ, TARN_TEST_DRIVER="cuda")
        if simulated:
            for variable, name in (("TARN_LIBCUDA", "libcuda.so.1"), ("TARN_LIBCUBLASLT", "libcublasLt.so.13"),
                                   ("TARN_LIBCUDNN", "libcudnn_graph.so.9")):
                self.environment[variable] = str((self.build / "cudasim" / name).resolve())
            self.environment.update(TARN_CUDASIM="seed=0", TARN_TEST_STEPS="1")

    def path(self, name, text=None):
        path = pathlib.Path(self.directory.name) / name
        if text is not None:
            path.write_text(text)
        return str(path)

    def run(self, *command, environment=None, status=0):
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
                              env=dict(self.environment, **(environment or {})))
        if done.returncode != status:
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise Failure(f"{command[0]} ended with {done.returncode}, not {status}: {' '.join(last)}")
        return done.stdout

    def tarn(self, *arguments, **options):
        return self.run(self.build / "tarn", *arguments, **options)

    def plan(self, config, *overrides):
        return json.loads(self.tarn("plan", config, "device.driver=cuda", "--json", *overrides))

    def train(self, config, *overrides, steps, **options):
        output = self.tarn("train", config, "device.driver=cuda", "train.log_every=0", "--json", "--max-steps", steps,
                           *overrides, **options)
        return json.loads(output.strip().splitlines()[-1])

    # ---- the parts; each returns what goes into the report

    def device(self):
        return json.loads(self.tarn("info", "--json"))["drivers"]["cuda"]

    def suite(self, program, **environment):
        output = self.run(self.build / "tests" / program, environment=environment)
        sums = re.search(r"tests: (\d+) passed, (\d+) failed, (\d+) skipped", output)
        if not sums or sums[2] != "0":
            raise Failure(f"{program}: {output.strip().splitlines()[-1]}")
        return {"passed": int(sums[1]), "skipped": int(sums[3])}

    def conformance(self):
        return self.suite("conformance/test_conformance", **({"CK_RUN_CASE": "reference"} if self.simulated else {}))

    def identity(self):
        return self.suite("test_identity", **({"CK_RUN_CASE": "other"} if self.simulated else {}))

    def ledger(self):
        result = self.train(self.path("small.yaml", SMALL), steps=3)
        stages = {name: size for name, size in result["ledger"].items() if name not in ("total", "rounding")}
        if sum(stages.values()) != result["ledger"]["total"] + result["ledger"]["rounding"]:
            raise Failure("the stages of the ledger do not add up to its total")
        if not result["recorded"]:
            raise Failure("the step was not recorded as a CUDA graph")
        return dict(result["ledger"], arena_bytes=result["arena_bytes"], weights_hash=result["weights_hash"],
                    peak_bytes=result["peak_bytes"])

    def costs(self):
        costs = self.path("costs.txt")
        config = self.path("small.yaml", SMALL if self.simulated else CIFAR % (128, 1280, 20))
        self.tarn("calibrate", config, "device.driver=cuda", "-o", costs)
        planned = self.plan(config)
        measured = [line.split("\t") for line in pathlib.Path(costs).read_text().splitlines()[1:]]
        return {"planned_step_ms": planned["planned_step_ms"],
                "step_ms_with_measured_costs": self.plan(config, f"device.costs={costs}")["planned_step_ms"],
                "measured_ns": {op.strip(): int(ns) for ns, op in measured}}

    def ballast(self):
        """A budget that is a multiple of the granule, and a device on which exactly so much is free."""
        config = self.path("small.yaml", SMALL)
        least = self.plan(config)["min_budget_bytes"]
        budget = -(-least // GRANULE) * GRANULE
        override = f"memory.budget={budget} B"
        free = self.train(config, steps=2)
        if self.simulated:
            tight = self.train(config, override, steps=2, environment={"TARN_CUDASIM": f"seed=0,total={budget}"})
            self.train_without(config, {"TARN_CUDASIM": f"seed=0,total={100 * MIB}"})
            left = budget
        else:
            with Ballast(self.environment.get("TARN_LIBCUDA") or "libcuda.so.1", budget) as ballast:
                left = ballast.free_bytes
                tight = self.train(config, override, steps=2)
        if tight["weights_hash"] != free["weights_hash"]:
            raise Failure("the weights differ from those of a run with memory to spare")
        return {"budget_bytes": budget, "free_bytes": left, "weights_hash": tight["weights_hash"]}

    def train_without(self, config, environment):
        """A device that is too small ends with one sentence and the exit status of a failed device."""
        self.tarn("train", config, "device.driver=cuda", "--max-steps", 1, environment=environment, status=12)

    def depth(self):
        batch, depths, steps = (4, (8,), 1) if self.simulated else (1280, (20, 32, 56, 110), 5)
        rows = []
        for depth in depths:
            config = self.path("cifar.yaml", SMALL if self.simulated else CIFAR % (batch, 2 * batch, depth))
            for strategy in STRATEGIES[:2] if self.simulated else STRATEGIES:
                result = self.train(config, f"memory.recompute={strategy}", steps=steps)
                rows.append({"depth": depth, "batch": batch, "strategy": strategy,
                             "peak_bytes": result["peak_bytes"], "device_bytes": result["ledger"]["total"],
                             "step_ms": result["step_ms_median"], "planned_step_ms": result["planned_step_ms"],
                             "weights_hash": result["weights_hash"]})
            if len({row["weights_hash"] for row in rows if row["depth"] == depth}) != 1:
                raise Failure(f"ResNet-{depth}: the strategies end with different weights")
        return rows

    def pytorch(self):
        script = pathlib.Path(__file__).parent / "bench" / "torch_gpu_step.py"
        if self.simulated:
            return {"left_out": "PyTorch cannot use a simulated device"}
        try:
            subprocess.run([sys.executable, "-c", "import torch"], check=True, capture_output=True, timeout=60)
        except subprocess.SubprocessError:
            return {"left_out": "PyTorch is not installed"}
        return json.loads(self.run(sys.executable, script))


class Ballast:
    """A process of its own that leaves `wanted` bytes of the device free for as long as it lives."""

    def __init__(self, library, wanted):
        self.process = subprocess.Popen([sys.executable, __file__, "--hold", library, str(wanted)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        line = self.process.stdout.readline()
        if not line.strip().isdigit():
            raise Failure(f"the ballast cannot take its memory: {line.strip()}")
        self.free_bytes = int(line)
        return self

    def __exit__(self, *exception):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def hold(library, wanted):
    """Takes device memory until `wanted` bytes are free, says how many are, and waits for the end of its input."""
    cuda = ctypes.CDLL(library)

    def call(name, *arguments):
        error = getattr(cuda, name)(*arguments)
        if error:
            print(f"{name} failed: {error}", flush=True)
            sys.exit(1)

    device, context = ctypes.c_int(), ctypes.c_void_p()
    free, total, address = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    while True:
        call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        take = (free.value - wanted) // GRANULE * GRANULE
        if take <= 0:
            break
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(take))
    print(free.value, flush=True)
    sys.stdin.read()


def main():
    if sys.argv[1:2] == ["--hold"]:
        return hold(sys.argv[2], int(sys.argv[3]))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--output")
    parser.add_argument("--simulated", action="store_true")
    arguments = parser.parse_args()
    output = arguments.output or os.path.join(arguments.build, "check-gpu.json")
    checker = Checker(arguments.build, arguments.simulated)
    report = {"simulated": arguments.simulated, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    report["device"] = checker.device()
    if not report["device"]["ready"]:
        print(f"check-gpu: {report['device']['state']}", file=sys.stderr)
        return 8
    failed = 0
    for name in ("conformance", "identity", "ledger", "costs", "ballast", "depth", "pytorch"):
        started = time.monotonic()
        try:
            part = {"held": True, "result": getattr(checker, name)()}
        except (Failure, subprocess.TimeoutExpired, KeyError, ValueError, OSError) as failure:
            part = {"held": False, "why": str(failure)}
            failed += 1
        part["seconds"] = round(time.monotonic() - started, 1)
        report[name] = part
        print(f"  {name:12} {'held' if part['held'] else 'FAILED: ' + part['why']}  ({part['seconds']} s)", flush=True)
    with open(output, "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")
    print(f"the report is in {output}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
