#!/usr/bin/env python3
"""One training step of CIFAR ResNet-20 in PyTorch on a GPU: time and peak memory, for tools/check_gpu.py.

Prints one JSON line. float32 without tf32, batch 1280, SGD with momentum, the network of configs/peers/resnet20.yaml.
"""
import json
import statistics
import time

import torch

from torch_step import resnet20

BATCH, WARM_UP, STEPS = 1280, 3, 10


def main():
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    device = torch.device("cuda")
    model = resnet20(torch.nn).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(BATCH, 3, 32, 32, device=device)
    target = torch.randint(0, 10, (BATCH,), device=device)
    times = []
    for _ in range(WARM_UP + STEPS):
        torch.cuda.synchronize()
        started = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(model(x), target).backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - started) * 1e3)
    print(json.dumps({"network": "resnet20", "batch": BATCH, "torch": torch.__version__,
                      "step_ms": statistics.median(times[WARM_UP:]),
                      "peak_allocated_bytes": torch.cuda.max_memory_allocated(),
                      "peak_reserved_bytes": torch.cuda.max_memory_reserved()}))


if __name__ == "__main__":
    main()
