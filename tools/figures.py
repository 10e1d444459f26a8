#!/usr/bin/env python3
"""Memory and time of training against the number of layers, by strategy: numbers and pictures of docs/experiments.md.

usage: figures.py TARN OUTPUT-FOLDER [--quick]     writes results.json and one SVG a figure

Planned figures come from `tarn plan` (null driver: bytes without workspaces; cpu driver: its estimates of time), measured
ones from `tarn train` on this machine, in CPU time of a thread and step.
"""
import argparse
import json
import os
import subprocess

STRATEGIES = ("none", "speed", "sqrt", "auto", "memory-poor", "min")
COLOURS = {"none": "#444444", "speed": "#1f77b4", "sqrt": "#2ca02c", "auto": "#d62728", "memory-poor": "#9467bd",
           "min": "#ff7f0e"}
RESNET = ("configs/peers/resnet20.yaml", "model.depth={}")
PIXELCNNPP = ("configs/pixelcnnpp.yaml", "model.resnets={}", "data.type=hash", "data.shape=[32,32,3]", "model.filters=64",
              "model.mixtures=10", "optimizer.clip_norm=0", "train.snapshot=")
GPT = ("configs/peers/gpt.yaml", "model.layers={}")
# What auto is given: a quarter of the transient bytes of keeping everything.
QUARTER = 4


def plan(tarn, network, size, strategy, batch, budget="unlimited", driver="null", effort="fast"):
    config, *keys = network
    command = [tarn, "plan", config, *(key.format(size) for key in keys), f"data.batch={batch}", f"data.samples={batch}",
               "data.test_samples=0", f"device.driver={driver}", "train.threads=2", f"memory.recompute={strategy}",
               f"memory.budget={budget}", f"memory.effort={effort}", "--json"]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode == 3:
        return None
    if result.returncode:
        raise SystemExit(f"figures.py: {' '.join(command)}: {result.stderr.strip()}")
    return json.loads(result.stdout)


def sweep(tarn, network, sizes, batch):
    """For each strategy a list of (size, transient bytes, time over keeping everything)."""
    lines = {strategy: [] for strategy in STRATEGIES}
    for size in sizes:
        keep = plan(tarn, network, size, "none", batch)
        for strategy in STRATEGIES:
            budget = "unlimited"
            if strategy == "auto":
                budget = keep["persistent_bytes"] + keep["none_transient_peak_bytes"] // QUARTER
            made = keep if strategy == "none" else plan(tarn, network, size, strategy, batch, budget)
            if made:
                lines[strategy].append((size, made["transient_peak_bytes"], made["overhead"]))
    return lines


def measure(tarn, depths, batch):
    """(depth, CPU ms a thread and step, MiB of transient memory) of real steps."""
    lines = {}
    for strategy in ("none", "sqrt", "min"):
        lines[strategy] = []
        for depth in depths:
            command = [tarn, "train", RESNET[0], f"model.depth={depth}", f"data.batch={batch}", "train.threads=1",
                       f"memory.recompute={strategy}", "train.max_steps=4", "--json"]
            last = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                              .strip().splitlines()[-1])
            lines[strategy].append((depth, last["step_cpu_ms_median"], last["transient_peak_bytes"]))
    return lines


def deepest(tarn, strategy, batch, transient):
    """The deepest CIFAR ResNet of 6n + 2 layers within so many transient bytes, and its time over keeping everything."""
    def fits(n):
        budget = "unlimited"
        if strategy == "auto":
            budget = plan(tarn, RESNET, 6 * n + 2, "none", batch)["persistent_bytes"] + transient
        made = plan(tarn, RESNET, 6 * n + 2, strategy, batch, budget, "cpu", "normal" if strategy == "auto" else "fast")
        return made if made and made["transient_peak_bytes"] <= transient else None

    low, high, best = 1, 2, fits(1)
    if not best:
        return {"depth": 0, "transient_bytes": 0, "overhead": 0.0}
    while high <= 256 and (made := fits(high)):
        low, best, high = high, made, 2 * high
    while high - low > max(1, low // 16):
        middle = (low + high) // 2
        made = fits(middle)
        low, high, best = (middle, high, made) if made else (low, middle, best)
    return {"depth": 6 * low + 2, "transient_bytes": best["transient_peak_bytes"], "overhead": best["overhead"]}


# ---- pictures: axes, lines, names; nothing that needs a library ----

def ticks(low, high):
    step = 10 ** len(str(int(high - low))) / 10 if high - low >= 1 else 0.1
    while (high - low) / step < 4:
        step /= 2
    first = int(low / step)
    return [step * k for k in range(first, int(high / step) + 2) if low <= step * k <= high]


def panel(lines, x, title, xlabel, ylabel, log):
    """One diagram of 400 x 300 with its left edge at x."""
    import math

    points = [p for line in lines.values() for p in line]
    if not points:
        return ""
    scale = (lambda v: math.log10(max(v, 1e-3))) if log else (lambda v: v)
    x0, x1 = min(p[0] for p in points), max(p[0] for p in points)
    y0, y1 = (min(scale(p[1]) for p in points) if log else 0.0), max(scale(p[1]) for p in points)
    y1 = y1 if y1 > y0 else y0 + 1
    x1 = x1 if x1 > x0 else x0 + 1
    px = lambda v: x + 62 + 300 * (v - x0) / (x1 - x0)
    py = lambda v: 250 - 200 * (scale(v) - y0) / (y1 - y0)
    out = [f'<text x="{x + 62}" y="30" font-weight="bold">{title}</text>',
           f'<path d="M{x + 62} 45V250H{x + 365}" fill="none" stroke="#888"/>',
           f'<text x="{x + 210}" y="285" text-anchor="middle">{xlabel}</text>',
           f'<text transform="translate({x + 12} 150) rotate(-90)" text-anchor="middle">{ylabel}</text>']
    marks = [10.0 ** k for k in range(math.ceil(y0), math.floor(y1) + 1)] if log else ticks(y0, y1)
    for v in marks:
        out.append(f'<text x="{x + 57}" y="{py(v) + 4:.1f}" text-anchor="end">{v:g}</text>')
        out.append(f'<path d="M{x + 62} {py(v):.1f}h303" stroke="#ddd"/>')
    for v in sorted({p[0] for p in points}):
        out.append(f'<text x="{px(v):.1f}" y="266" text-anchor="middle" font-size="10">{v}</text>')
    for k, (name, line) in enumerate(lines.items()):
        if not line:
            continue
        path = "M" + "L".join(f"{px(a):.1f} {py(b):.1f}" for a, b in line)
        out.append(f'<path d="{path}" fill="none" stroke="{COLOURS[name]}" stroke-width="2"/>')
        out += [f'<circle cx="{px(a):.1f}" cy="{py(b):.1f}" r="2.5" fill="{COLOURS[name]}"/>' for a, b in line]
        out.append(f'<text x="{x + 375}" y="{60 + 18 * k}" fill="{COLOURS[name]}">{name}</text>')
    return "\n".join(out)


def draw(path, left, right):
    with open(path, "w", encoding="utf-8") as file:
        file.write('<svg xmlns="http://www.w3.org/2000/svg" width="940" height="300" font-family="sans-serif" '
                   'font-size="12">\n<rect width="940" height="300" fill="white"/>\n')
        file.write(panel(x=0, **left) + "\n" + panel(x=470, **right) + "\n</svg>\n")


def draw_sweep(path, lines, name, xlabel):
    memory = {k: [(s, b / 2**20) for s, b, _ in line] for k, line in lines.items()}
    extra = {k: [(s, 100 * o) for s, _, o in line] for k, line in lines.items()}
    draw(path, {"lines": memory, "title": f"{name}: memory", "xlabel": xlabel, "ylabel": "MiB beside the state",
                "log": True},
         {"lines": extra, "title": f"{name}: time", "xlabel": xlabel, "ylabel": "% more compute", "log": False})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarn")
    parser.add_argument("folder")
    parser.add_argument("--quick", action="store_true", help="few sizes: to try the script")
    arguments = parser.parse_args()
    tarn, quick = arguments.tarn, arguments.quick
    os.makedirs(arguments.folder, exist_ok=True)
    path = lambda name: os.path.join(arguments.folder, name)
    results = {
        "resnet": sweep(tarn, RESNET, (20, 56) if quick else (20, 56, 110, 164, 218), 1280),
        "pixelcnnpp": sweep(tarn, PIXELCNNPP, (1,) if quick else (1, 2, 3, 5), 64),
        "gpt": sweep(tarn, GPT, (2, 4) if quick else (2, 6, 12, 24), 64),
        "measured": measure(tarn, (20, 32) if quick else (20, 56, 110), 8),
        "deepest": {s: deepest(tarn, s, 128, (64 if quick else 512) * 2**20) for s in STRATEGIES},
    }
    with open(path("results.json"), "w", encoding="utf-8") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    draw_sweep(path("resnet.svg"), results["resnet"], "CIFAR ResNet, batch 1280, planned", "layers")
    draw_sweep(path("pixelcnnpp.svg"), results["pixelcnnpp"], "PixelCNN++, batch 64, planned", "residual layers a size")
    draw_sweep(path("gpt.svg"), results["gpt"], "transformer, batch 64, planned", "layers")
    measured = results["measured"]
    draw(path("measured.svg"),
         {"lines": {k: [(d, b / 2**20) for d, _, b in line] for k, line in measured.items()}, "log": True,
          "title": "CIFAR ResNet, batch 8: memory", "xlabel": "layers", "ylabel": "MiB beside the state"},
         {"lines": {k: [(d, ms) for d, ms, _ in line] for k, line in measured.items()}, "log": False,
          "title": "measured CPU time of a step", "xlabel": "layers", "ylabel": "ms a thread"})
    for strategy, found in results["deepest"].items():
        print(f"{strategy:12} {found['depth']:5} layers  {found['transient_bytes'] / 2**20:7.1f} MiB  "
              f"{100 * found['overhead']:+6.1f} % time")


if __name__ == "__main__":
    main()
