#!/usr/bin/env python3
"""Any configuration in this program and in PyTorch, side by side: loss, time and memory of training steps.

usage: compare_torch.py TARN CONFIG [key=value ...] [--steps N] [--threads N] [--json]

Both begin with the same weights (network.init: hash) and see the same made-up batch (data.type: hash). The network comes
from `tarn plan --summary --json`, op by op, and is run by PyTorch's own functions with automatic differentiation, so every
family and every `layers:` list goes. Images stay N H W C in memory, which PyTorch calls channels_last. Recurrent networks
are unrolled there as here, which is slower than its fused LSTM.

Not translated, and said so: ops that this file does not list. Compared without the loss: networks with dropout, whose random
numbers differ. Memory: here the bytes that live at the peak beside the persistent ones; of PyTorch by how much the process
grew beyond parameters, optimizer state and batch, measured by the operating system.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "reference"))
# Freed memory stays in the heap: without it PyTorch maps and faults its large tensors anew in every step.
PEER_ENVIRONMENT = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(64 << 20)}
SKIPPED = {"record", "running_update", "count_correct", "batch_stats"}


def run(command, **more):
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, **more)
    if result.returncode:
        sys.exit(f"compare_torch.py: {command[1]} failed with exit status {result.returncode}")
    return json.loads(result.stdout.strip().splitlines()[-1])


# ---- the network in PyTorch: one function for each op; o is its row, x its inputs ----

def make_functions():
    import torch
    import torch.nn.functional as F

    from functions import attend, causal_softmax, gru_cell, half, masked, mixture_loss, nchw, nhwc, rotate, weight_norm

    def activate(x, name, alpha=0.0):
        return {None: lambda x: x, "relu": F.relu, "relu6": F.relu6, "sigmoid": torch.sigmoid, "tanh": torch.tanh,
                "gelu": F.gelu, "silu": F.silu, "softplus": F.softplus,
                "leaky_relu": lambda x: F.leaky_relu(x, alpha), "elu": lambda x: F.elu(x, alpha),
                "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}[name](x)

    def padded(o, x, value=0.0):
        """The image with the window's padding, N C H W, and the padding that PyTorch may do itself."""
        (t, l), (b, r) = o["pad_begin"], o["pad_end"]
        if (t, l) == (b, r):
            return nchw(x), (t, l)
        return F.pad(nchw(x), (l, r, t, b), value=value), (0, 0)

    def conv2d(o, x, w, b=None):
        y, padding = padded(o, x)
        return activate(nhwc(F.conv2d(y, w, b, o["stride"], padding, o["dilation"], o.get("groups", 1))),
                        o.get("activation"))

    def conv_transposed(o, x, w):
        (t, l), (h, v) = o["pad_begin"], o["extent"]
        y = F.conv_transpose2d(nchw(x), w, None, o["stride"], 0, 0, o.get("groups", 1), o["dilation"])
        y = F.pad(y, (0, max(0, l + v - y.shape[3]), 0, max(0, t + h - y.shape[2])))
        return nhwc(y[:, :, t:t + h, l:l + v])

    def max_pool(o, x):
        y, padding = padded(o, x, float("-inf"))
        return nhwc(F.max_pool2d(y, o["kernel"], o["stride"], padding, o["dilation"]))

    def avg_pool(o, x):
        if o["pad_begin"] != o["pad_end"]:
            raise NotImplementedError("avg_pool with uneven padding")
        return nhwc(F.avg_pool2d(nchw(x), o["kernel"], o["stride"], o["pad_begin"],
                                 count_include_pad=bool(o.get("count_padding"))))

    def matmul(o, a, b, bias=None):
        a = a.t() if o.get("transpose_a") else a
        y = F.linear(a, b if o.get("transpose_b") else b.t(), bias)
        return activate(y, o.get("activation"))

    def batch_apply(o, x, mean, var, w, b):
        y = nchw(x) if x.dim() == 4 else x.reshape(-1, x.shape[-1])
        y = F.batch_norm(y, None, None, w, b, True, 0.1, o["epsilon"])
        return activate(nhwc(y) if x.dim() == 4 else y.view(x.shape), o.get("activation"))

    def batch_matmul(o, a, b):
        a = a.transpose(-1, -2) if o.get("transpose_a") else a
        b = b.transpose(-1, -2) if o.get("transpose_b") else b
        return o.get("alpha", 1.0) * (a @ b)

    def cross_entropy(o, x, y):
        return F.cross_entropy(x.reshape(-1, x.shape[-1]), y.reshape(-1), ignore_index=o.get("ignore_index", -100),
                               label_smoothing=o.get("label_smoothing", 0.0))

    def gate(o, x):
        if o.get("mode", 0) == 0:
            return half(x, lambda a: activate(a, o["activation"]))
        return half(x, torch.tanh, torch.sigmoid) if o["mode"] == 1 else F.glu(x, -1)

    def softmax(o, x):
        alpha = o.get("alpha", 1.0)
        return causal_softmax(x, alpha) if o.get("causal") else F.softmax(alpha * x, -1)

    def attention(o, q, k, v):
        if "alpha" in o:
            q = q * (o["alpha"] * q.shape[-1] ** 0.5)
        if o.get("causal") and q.shape[1] == k.shape[1]:
            shared = q.shape[2] // k.shape[2]
            k, v = (z.repeat_interleave(shared, 2).transpose(1, 2) for z in (k, v))
            return F.scaled_dot_product_attention(q.transpose(1, 2), k, v, is_causal=True).transpose(1, 2)
        return attend(q, k, v, bool(o.get("causal")))

    def lstm(o, gates, c):
        i, f, g, out = gates.chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(out) * torch.tanh(c), c

    def pad_axis(o, x):
        axis, begin, total = o["axis"], o.get("begin", 0), o["extent"][0]
        return F.pad(x, (0, 0) * (x.dim() - 1 - axis) + (begin, total - begin - x.shape[axis]))

    def group_norm(o, x, w, b):
        y = x.movedim(-1, 1)
        return F.group_norm(y, o["groups"], w, b, o["epsilon"]).movedim(1, -1)

    def upsample(o, x):
        return nhwc(F.interpolate(nchw(x), o["extent"], mode="bilinear" if o.get("mode") else "nearest"))

    def dropout(o, x, scalars):
        if not o.get("per_sample"):
            return F.dropout(x, o["rate"])
        keep = F.dropout(torch.ones(x.shape[0]), o["rate"])
        return x * keep.view(-1, *[1] * (x.dim() - 1))

    return {
        "matmul": matmul, "conv2d": conv2d, "conv2d_grad_input": conv_transposed, "max_pool": max_pool,
        "avg_pool": avg_pool, "batch_apply": batch_apply, "batch_matmul": batch_matmul, "gate": gate,
        "softmax": softmax, "attention": attention, "lstm_cell": lstm, "pad_axis": pad_axis,
        "group_norm": group_norm, "upsample": upsample, "dropout": dropout, "softmax_cross_entropy": cross_entropy,
        "activation": lambda o, x: activate(x, o["activation"], o.get("alpha", 0.0)),
        "add": lambda o, a, b: activate(a + b, o.get("activation")),
        "multiply": lambda o, a, b: a * b,
        "scale": lambda o, x: o.get("alpha", 0.0) * x,
        "concat": lambda o, *x: torch.cat(x, o.get("axis", 0)),
        "slice": lambda o, x: x.narrow(o.get("axis", 0), o.get("begin", 0), o["extent"][0]),
        "reshape": lambda o, x: x.reshape(o["shape"]),
        "permute": lambda o, x: x.permute(*o["extent"]),
        "fill": lambda o: torch.full(o["shape"], o.get("alpha", 0.0)),
        "add_broadcast": lambda o, a, b: a + b,
        "broadcast_rows": lambda o, x: x.expand(o["shape"]),
        "embedding": lambda o, w, i: F.embedding(i, w),
        "log_softmax": lambda o, x: F.log_softmax(x, -1),
        "layer_norm": lambda o, x, w, b: F.layer_norm(x, x.shape[-1:], w, b, o["epsilon"]),
        "rms_norm": lambda o, x, w: F.rms_norm(x, x.shape[-1:], w, o["epsilon"]),
        "rotary": lambda o, x: rotate(x, o["alpha"]),
        "gru_cell": lambda o, x, y, h: gru_cell(x, y, h),
        "weight_mask": lambda o, w: masked(w, "b" if o.get("mode") else "a"),
        "weight_norm": lambda o, v, g: weight_norm(v, g),
        "adaptive_avg_pool": lambda o, x: nhwc(F.adaptive_avg_pool2d(nchw(x), o["extent"])),
        "mean_squared_error": lambda o, x, t: F.mse_loss(x, t),
        "binary_cross_entropy": lambda o, x, t: F.binary_cross_entropy_with_logits(x, t),
        "logistic_mixture": lambda o, x, t: mixture_loss(x, t),
        "linear_cross_entropy": lambda o, x, w, y, b=None: cross_entropy(o, F.linear(x, w, b), y),
    }


def make_parameters(network):
    """By name; uniform ones numbered over all parameters, as network.init: hash does."""
    import torch

    from hashed import uniform

    made, number = {}, 0
    for p in network["persistent"]:
        if p["role"] != "parameter":
            continue
        if p["initial"] == "uniform":
            value = uniform(1000 + number, tuple(p["shape"]), p["bound"])
        else:
            value = torch.full(p["shape"], 1.0 if p["initial"] == "one" else 0.0)
        made[p["name"]] = value.requires_grad_(p["trained"])
        number += 1
    return made


def make_batch(network, classes):
    """What data.type: hash gives the staging slots."""
    from hashed import labels, uniform

    slot = {p["name"]: p for p in network["persistent"] if p["role"] == "staging"}
    x, y = slot["staging/input"], slot.get("staging/target")
    loss = next(o["op"] for o in network["ops"] if o["name"] == "loss")
    if x["dtype"] == "i32":
        ids = labels(1, tuple(x["shape"]), classes)
        return ids, ids.roll(-1, 1)
    n, *inner, c = x["shape"] if len(x["shape"]) > 2 else (*x["shape"], 1)
    value = uniform(1, (n, c, *inner)).movedim(1, -1).reshape(x["shape"]).contiguous()
    if loss == "binary_cross_entropy" and not y:
        value = 0.5 * value + 0.5
    if not y:
        return value, None
    if y["dtype"] == "i32":
        return value, labels(2, tuple(y["shape"]), classes)
    target = uniform(2, tuple(y["shape"]))
    return value, 0.5 * target + 0.5 if loss == "binary_cross_entropy" else target


def forward(network, functions, parameters, x, y):
    value = dict(parameters)
    for o in network["ops"]:
        if o["op"] == "input":
            value[o["outputs"][0]] = y if o["name"] == "target" else x
        elif o["op"] not in SKIPPED:
            inputs = [value.get(name) for name in o["inputs"]]
            made = functions[o["op"]](o, *inputs)
            made = made if isinstance(made, tuple) else (made,)
            for name, tensor in zip(o["outputs"], made):
                value[name] = tensor
    return value["loss"]


def train_in_torch(task):
    import torch

    torch.set_num_threads(task["threads"])
    network, settings, functions = task["network"], task["optimizer"], make_functions()
    parameters = make_parameters(network)
    x, y = make_batch(network, task["classes"])
    trained = [p for p in parameters.values() if p.requires_grad]
    kind, rate, decay = settings["type"], settings["learning_rate"], settings["weight_decay"]
    if kind in ("adam", "adamw"):
        method = torch.optim.AdamW if kind == "adamw" else torch.optim.Adam
        step = method(trained, lr=rate, betas=(settings["beta1"], settings["beta2"]), eps=settings["epsilon"],
                      weight_decay=decay)
    else:
        momentum = settings["momentum"] if kind == "momentum" else 0.0
        step = torch.optim.SGD(trained, lr=rate, momentum=momentum, weight_decay=decay,
                               nesterov=bool(settings["nesterov"] and momentum))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    losses, cpu, wall = [], [], []
    for _ in range(task["steps"]):
        cpu_start, start = time.process_time(), time.perf_counter()
        step.zero_grad()
        loss = forward(network, functions, parameters, x, y)
        loss.backward()
        step.step()
        losses.append(float(loss.detach()))
        cpu.append(1e3 * (time.process_time() - cpu_start))
        wall.append(1e3 * (time.perf_counter() - start))
    state = sum(p.numel() * 4 for p in trained) * {"sgd": 0, "momentum": 1}.get(kind, 2)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(json.dumps({"losses": losses, "step_ms": statistics.median(wall), "cpu_ms": statistics.median(cpu),
                      "peak_bytes": max(0, grown - state), "torch": torch.__version__}))


# ---- both sides ----

def optimizer_of(settings):
    """As the plan says; both sides run at the first learning rate, without schedule and clipping."""
    names = ("type", "learning_rate", "momentum", "nesterov", "weight_decay", "beta1", "beta2", "epsilon")
    found = {name: settings["optimizer." + name] for name in names}
    return {name: text if name == "type" else text == "true" if name == "nesterov" else float(text)
            for name, text in found.items()}


def make_plan(arguments):
    """The plan of both sides' network, and the settings that make it one of hash numbers."""
    same = ["data.type=hash", "data.samples=0", "data.test_samples=0", "data.shuffle=false", "network.init=hash",
            f"train.threads={arguments.threads}", "train.snapshot=", "train.epochs=0", "train.ema=0",
            "optimizer.schedule.type=constant", "optimizer.schedule.warmup_steps=0", "optimizer.clip_norm=0",
            "data.augment.shift=0", "data.augment.flip=false", *arguments.overrides]
    command = [arguments.tarn, "plan", arguments.config, "--summary", "--json", *same]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode and "data.shape" in result.stderr:       # of files that are not read here
        same.append("data.shape=[28,28,1]")
        result = subprocess.run([*command, same[-1]], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode:
        sys.exit("compare_torch.py: " + result.stderr.strip())
    return json.loads(result.stdout), same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarn")
    parser.add_argument("config")
    parser.add_argument("overrides", nargs="*", metavar="key=value")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_intermixed_args()
    try:
        import torch  # noqa: F401
    except ImportError as error:
        sys.exit(f"compare_torch.py: {error}; run it with a python that has torch and numpy")
    plan, same = make_plan(arguments)
    settings = plan["network"]["settings"]
    missing = sorted({o["op"] for o in plan["network"]["ops"]} - set(make_functions()) - SKIPPED - {"input"})
    if missing:
        sys.exit("compare_torch.py: not translated: " + ", ".join(missing))
    ours = subprocess.run([arguments.tarn, "train", arguments.config, *same, f"train.max_steps={arguments.steps}",
                           "train.log_every=1", "--json"], stdout=subprocess.PIPE, text=True, check=True)
    lines = [json.loads(text) for text in ours.stdout.splitlines()]
    task = {"network": plan["network"], "optimizer": optimizer_of(settings), "threads": arguments.threads,
            "steps": arguments.steps, "classes": int(settings["data.classes"])}
    theirs = run([sys.executable, os.path.abspath(__file__), "--torch"], input=json.dumps(task),
                 env={**os.environ, **PEER_ENVIRONMENT})
    random = any(o["op"] == "dropout" for o in plan["network"]["ops"])
    report = {
        "name": plan["name"], "torch": theirs["torch"], "threads": arguments.threads, "steps": arguments.steps,
        "tarn_first_loss": lines[0]["loss"], "torch_first_loss": theirs["losses"][0],
        "tarn_last_loss": lines[-2]["loss"], "torch_last_loss": theirs["losses"][-1], "comparable": not random,
        "tarn_cpu_ms": lines[-1]["step_cpu_ms_median"], "torch_cpu_ms": theirs["cpu_ms"] / arguments.threads,
        "tarn_ms": lines[-1]["step_ms_median"], "torch_ms": theirs["step_ms"],
        "tarn_transient_peak_bytes": lines[-1]["transient_peak_bytes"], "torch_grown_bytes": theirs["peak_bytes"]}
    if arguments.json:
        print(json.dumps(report))
        return
    print(f"{report['name']}: PyTorch {report['torch']}, {report['threads']} threads, {report['steps']} steps" +
          ("; dropout: the losses are not those of the same draws" if random else ""))
    print(f"{'':24} {'tarn':>14} {'PyTorch':>14}")
    for label, key, unit in (("loss of the first step", "first_loss", 1), ("loss of the last step", "last_loss", 1),
                             ("CPU ms a thread and step", "cpu_ms", 1), ("ms a step", "ms", 1)):
        print(f"{label:24} {report['tarn_' + key] / unit:14.6g} {report['torch_' + key] / unit:14.6g}")
    print(f"{'MiB beside the state':24} {report['tarn_transient_peak_bytes'] / 2**20:14.1f} "
          f"{report['torch_grown_bytes'] / 2**20:14.1f}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--torch"]:
        train_in_torch(json.load(sys.stdin))
    else:
        main()
