#!/usr/bin/env python3
"""One training step of a peer network in PyTorch, timed: the other side of `make bench-peers`.

The networks, initial weights, inputs, labels and optimizer are those of configs/peers/*.yaml (network.init: hash,
data.type: hash; runtime/base/hash_numbers.h has the formulas). Prints one JSON line.
"""
import argparse
import json
import math
import os
import time


def hash_bits(numpy, seed, count):
    """The 64-bit hash of elements 0 .. count-1 with the given seed, in wrapping arithmetic."""
    u = numpy.uint64
    with numpy.errstate(over="ignore"):
        z = (numpy.arange(count, dtype=u) + u(1)) * u(0x9E3779B97F4A7C15) + u(seed) * u(0xD1B54A32D192ED03)
        z = (z ^ (z >> u(30))) * u(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> u(27))) * u(0x94D049BB133111EB)
        return z ^ (z >> u(31))


def hash_uniform(numpy, seed, shape, bound):
    u = (hash_bits(numpy, seed, math.prod(shape)) >> numpy.uint64(40)).astype(numpy.float32) * numpy.float32(2.0**-24)
    return ((numpy.float32(2) * u - numpy.float32(1)) * numpy.float32(bound)).reshape(shape)


def hash_labels(numpy, seed, count, classes):
    return ((hash_bits(numpy, seed, count) >> numpy.uint64(33)) % numpy.uint64(classes)).astype(numpy.int64)


def conv_norm(nn, inputs, outputs, kernel, stride, relu):
    layers = [nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs)]
    return layers + ([nn.ReLU(inplace=True)] if relu else [])


def resnet20(nn):
    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.main = nn.Sequential(*conv_norm(nn, inputs, outputs, 3, stride, True),
                                      *conv_norm(nn, outputs, outputs, 3, 1, False))
            self.shortcut = nn.Sequential(*conv_norm(nn, inputs, outputs, 1, stride, False)) if stride > 1 else None
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            return self.relu(self.main(x) + (x if self.shortcut is None else self.shortcut(x)))

    blocks, channels = conv_norm(nn, 3, 16, 3, 1, True), 16
    for width in (16, 32, 64):
        for number in range(3):
            blocks.append(Block(channels, width, 2 if width > 16 and number == 0 else 1))
            channels = width
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def lenet(nn):
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(True), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(True), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(3136, 256), nn.ReLU(True), nn.Linear(256, 10))


def mlp(nn):
    layers = [nn.Linear(784, 1024), nn.ReLU(True)]
    for _ in range(7):
        layers += [nn.Linear(1024, 1024), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.Linear(1024, 10))


PEERS = {
    "lenet_fmnist": (lenet, (1, 28, 28), 128),
    "mlp": (mlp, (784,), 256),
    "resnet20": (resnet20, (3, 32, 32), 128),
}


def initialise(torch, numpy, network):
    norms = {id(m.weight) for m in network.modules() if isinstance(m, torch.nn.BatchNorm2d)}
    with torch.no_grad():
        for number, (name, parameter) in enumerate(network.named_parameters()):
            if id(parameter) in norms:
                parameter.fill_(1)
            elif name.endswith("bias"):
                parameter.zero_()
            else:
                bound = math.sqrt(6 / parameter[0].numel())
                parameter.copy_(torch.from_numpy(hash_uniform(numpy, 1000 + number, tuple(parameter.shape), bound)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=sorted(PEERS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
    import numpy
    import torch

    torch.set_num_threads(arguments.threads)
    build, shape, batch = PEERS[arguments.network]
    network = build(torch.nn)
    initialise(torch, numpy, network)
    x = torch.from_numpy(hash_uniform(numpy, 1, (batch, *shape), 1.0))
    y = torch.from_numpy(hash_labels(numpy, 2, batch, 10))
    if x.dim() == 4:
        network = network.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9, fused=True)
    losses, wall, cpu = [], [], []
    for _ in range(arguments.steps):
        start, used = time.perf_counter(), time.process_time()
        loss = torch.nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        wall.append((time.perf_counter() - start) * 1e3)
        cpu.append((time.process_time() - used) * 1e3)
    wall, cpu = sorted(wall[2:]), sorted(cpu[2:])
    print(json.dumps({
        "peer": "torch " + torch.__version__, "network": arguments.network, "threads": arguments.threads,
        "step_ms_median": wall[len(wall) // 2], "step_cpu_ms_median": cpu[len(cpu) // 2],
        "loss_first": losses[0], "loss": losses[-1]}))


if __name__ == "__main__":
    main()
