#!/usr/bin/env python3
"""Products with the Hessian of small networks, made once with PyTorch (double backward in float64).

    python3 tools/reference/make_curvature.py >tests/reference/curvature.txt

Needs torch and numpy; the file says which version made it. Not run by the tests, which read the file: tests/reference/
test_curvature.c has the same networks by name. Data are those of `data.type: hash`; parameter t is uniform(1000 + t) in
[-0.4, 0.4), the vector uniform(900), over all parameters one after the other. The loss is the mean of the batches'
losses, weighted by their labels; normalisation uses the statistics of the batch.

    network NAME    then lines `loss`, `product` (H v) and `eigenvalues` (the three largest of H)
"""
import math
import sys

import torch
import torch.nn.functional as F

import hashed
from hashed import labels

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def uniform(seed, shape, bound=1.0):
    return hashed.uniform(seed, shape, bound).double()


def mlp(p, x):
    x = F.gelu(F.linear(x, p[0], p[1]))
    x = F.layer_norm(x, (7,), p[2], p[3], 1e-5)
    return F.linear(torch.tanh(F.linear(x, p[4], p[5])), p[6], p[7])


def convolutions(p, x):
    x = F.silu(F.batch_norm(F.conv2d(x, p[0], p[1], padding=1), None, None, p[2], p[3], True, 0.1, 1e-5))
    x = F.conv2d(F.max_pool2d(x, 2), p[4], p[5], padding=1)
    x = F.relu(F.group_norm(x, 2, p[6], p[7], 1e-5))
    return F.linear(x.mean((2, 3)), p[8], p[9])


def tokens(p, x):
    n, t = x.shape
    x = F.embedding(x, p[0])
    q, k, v = F.linear(x, p[1], p[2]).split([8, 4, 4], 2)
    q, k, v = (z.view(n, t, -1, 2).transpose(1, 2) for z in (q, k, v))
    k, v = (z.repeat_interleave(2, 1) for z in (k, v))
    scores = (q @ k.transpose(2, 3) / math.sqrt(2)).masked_fill(torch.ones(t, t).triu(1) == 1, -math.inf)
    x = F.linear((scores.softmax(3) @ v).transpose(1, 2).reshape(n, t, 8), p[3], p[4])
    x = F.rms_norm(x, (8,), p[5], 1e-5)
    x = F.linear(F.silu(x[..., :4]) * x[..., 4:], p[6], p[7])
    h = c = torch.zeros(n, 5)
    out = []
    for step in range(t):
        i, f, g, o = (F.linear(x[:, step], p[8], p[10]) + F.linear(h, p[9], p[11])).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        out.append(h)
    return F.linear(torch.stack(out, 1), p[12], p[13])


def network(name, function, shapes, x, y, batch):
    parameters = [uniform(1000 + t, shape, 0.4).requires_grad_() for t, shape in enumerate(shapes)]
    sizes = [math.prod(shape) for shape in shapes]
    vector = uniform(900, (sum(sizes),))

    def loss(*p):
        total = 0
        for part, target in zip(x.split(batch), y.split(batch)):
            out = function(p, part)
            total = total + F.cross_entropy(out.reshape(-1, out.shape[-1]), target.reshape(-1)) * target.numel()
        return total / y.numel()

    hessian = torch.autograd.functional.hessian(loss, tuple(parameters))
    rows = [torch.cat([block.reshape(sizes[i], -1) for block in hessian[i]], 1) for i in range(len(sizes))]
    matrix = torch.cat(rows)
    print("network", name)
    for key, values in (("loss", loss(*parameters)), ("product", matrix @ vector),
                        ("eigenvalues", torch.linalg.eigvalsh(matrix).flip(0)[:3])):
        print(key, *(f"{v:.9g}" for v in values.detach().reshape(-1).tolist()))


print("# made by tools/reference/make_curvature.py with torch", torch.__version__, "on Python", sys.version.split()[0])
network("mlp", mlp, [(7, 9), (7,), (7,), (7,), (6, 7), (6,), (4, 6), (4,)], uniform(1, (8, 9)), labels(2, (8,), 4), 5)
network("convolutions", convolutions,
        [(5, 3, 3, 3), (5,), (5,), (5,), (4, 5, 3, 3), (4,), (4,), (4,), (3, 4), (3,)],
        uniform(1, (8, 3, 8, 8)), labels(2, (8,), 3), 5)
ids = labels(1, (5, 6), 11)
network("tokens", tokens,
        [(11, 8), (16, 8), (16,), (8, 8), (8,), (8,), (10, 4), (10,), (20, 10), (20, 5), (20,), (20,), (11, 5), (11,)],
        ids, ids.roll(-1, 1), 3)
