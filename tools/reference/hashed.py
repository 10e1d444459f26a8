"""What the scripts of this folder share: numbers that a C program makes bit for bit, and the lines of a reference file.

The numbers are those of runtime/base/hash_numbers.h: element i of a tensor is a function of a seed and i alone.
"""
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

STEPS = 20


def bits(seed, n):
    with np.errstate(over="ignore"):
        z = (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = z + np.uint64(seed) * np.uint64(0xD1B54A32D192ED03)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(seed, shape, bound=1.0):
    u = (bits(seed, math.prod(shape)) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    return torch.from_numpy(((np.float32(2) * u - np.float32(1)) * np.float32(bound)).reshape(shape))


def labels(seed, shape, classes):
    z = (bits(seed, math.prod(shape)) >> np.uint64(33)) % np.uint64(classes)
    return torch.from_numpy(z.astype(np.int64).reshape(shape))


def line(name, values):
    print(name, *(f"{v:.9g}" for v in values.detach().reshape(-1).tolist()))


def heading(script):
    print(f"# made by tools/reference/{script} with torch {torch.__version__} on Python {sys.version.split()[0]}")


def op(name, function, *inputs, loss=False, wanted=None):
    """inputs: shapes of floats, or (shape, classes) of ids; wanted: how many of them have gradients, None for all floats."""
    tensors = []
    for k, shape in enumerate(inputs):
        if isinstance(shape[0], tuple):
            tensors.append(labels(200 + k, *shape))
        else:
            tensors.append(uniform(100 + k, shape).requires_grad_(wanted is None or k < wanted))
    y = function(*tensors)
    value = y if loss else F.mse_loss(y, uniform(300, tuple(y.shape)))
    value.backward()
    print("op", name)
    line("y", y)
    for k, t in enumerate(tensors):
        if t.requires_grad:
            line(f"d{k}", t.grad)


def optimizer(name, parameters, rate=0.05):
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)
    return torch.optim.SGD(parameters, lr=rate, momentum=0.9)
