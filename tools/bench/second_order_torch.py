#!/usr/bin/env python3
"""PyTorch's side of the table in docs/second-order.md: how much the process grows, and processor time of one thread.

    python3 tools/bench/second_order_torch.py hvp | maml

hvp: one product with the Hessian of ResNet-14, batch 32, in evaluation mode. maml: a step of configs/maml.yaml.
"""
import resource
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
STEPS = 3


def conv(inputs, outputs, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outputs))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.a, self.b = conv(inputs, outputs, 3, stride), conv(outputs, outputs, 3)
        self.link = conv(inputs, outputs, 1, stride) if inputs != outputs else nn.Identity()

    def forward(self, x):
        return F.relu(self.b(F.relu(self.a(x))) + self.link(x))


class Mean(nn.Module):
    def forward(self, x):
        return x.mean((2, 3))


def samples(n, classes):
    return torch.randn(n, 1, 28, 28), torch.randint(0, classes, (n,))


def hvp():
    blocks = [Block(i, o, s) for i, o, s in
              ((16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1))]
    net = nn.Sequential(conv(1, 16, 3), nn.ReLU(), *blocks, Mean(), nn.Linear(64, 10)).eval()
    parameters = list(net.parameters())
    vector = [torch.randn_like(p) for p in parameters]

    def product(n=32):
        x, y = samples(n, 10)
        gradient = torch.autograd.grad(F.cross_entropy(net(x), y), parameters, create_graph=True)
        torch.autograd.grad(gradient, parameters, vector)

    product(1)
    return product


def maml():
    blocks = [nn.Sequential(nn.Conv2d(i, 16, 3, 1, 1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
              for i in (1, 16, 16)]
    net = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(144, 3))
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)

    def step(tasks=4, shots=5, queries=10):
        optimizer.zero_grad()
        for _ in range(tasks):
            (x, y), (xq, yq) = samples(3 * shots, 3), samples(3 * queries, 3)
            fast = dict(net.named_parameters())
            for _ in range(3):
                loss = F.cross_entropy(torch.func.functional_call(net, fast, (x,)), y)
                gradient = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
                fast = {name: w - 0.1 * g for (name, w), g in zip(fast.items(), gradient)}
            (F.cross_entropy(torch.func.functional_call(net, fast, (xq,)), yq) / tasks).backward()
        optimizer.step()

    step(1, 1, 1)
    return step


def rss_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


run = {"hvp": hvp, "maml": maml}[sys.argv[1]]()
before = rss_mib()
run()
peak, start = rss_mib(), time.process_time()
for _ in range(STEPS):
    run()
print(f"{sys.argv[1]}: {peak - before:.1f} MiB, {(time.process_time() - start) / STEPS * 1e3:.0f} ms")
