#!/usr/bin/env python3
"""Reference cases of the ops and families of sequence models, made once with PyTorch.

    python3 tools/reference/make_sequence.py >tests/reference/sequence.txt

Needs torch and numpy; the file says which version made it. Not run by the tests, which read the file: tests/reference/
test_sequence.c has the same cases by name. All inputs come from the hash of runtime/base/hash_numbers.h, so the file
holds results only:

    op NAME               then lines `y`, `d0`, `d1` ...: the first output, and the gradients of mean((y - target)^2) (of
                          y itself where it is a loss) by the inputs that are floats
    family NAME OPTIMIZER then a line `loss` with the loss of each of 20 steps from the same weights and the same batch

Input k of an op is uniform(100 + k) in [-1, 1), labels and ids are labels(200 + k), the target is uniform(300).
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from functions import attend, causal_softmax, gru_cell, half, lstm_cell, rotate
from hashed import STEPS, heading, labels, line, op, optimizer, uniform

torch.set_num_threads(1)


# ---- ops ----

def ops():
    op("batch_matmul", lambda a, b: 0.3 * a @ b.transpose(1, 2), (3, 5, 7), (3, 4, 7))
    op("add_broadcast", lambda a, b: a + b, (3, 5, 7), (5, 7))
    op("embedding", lambda w, i: F.embedding(i, w), (11, 6), ((3, 5), 11))
    op("softmax", lambda x: causal_softmax(x, 0.7), (2, 5, 7))
    op("log_softmax", lambda x: F.log_softmax(x, -1), (5, 13))
    op("attention", lambda q, k, v: attend(q, k, v, False), (2, 7, 3, 5), (2, 9, 3, 5), (2, 9, 3, 5))
    op("attention_causal", lambda q, k, v: attend(q, k, v, True), (2, 11, 3, 5), (2, 11, 3, 5), (2, 11, 3, 5))
    op("attention_grouped", lambda q, k, v: attend(q, k, v, True), (1, 5, 4, 6), (1, 9, 2, 6), (1, 9, 2, 6))
    op("attention_blocks", lambda q, k, v: attend(q, k, v, True), (1, 67, 1, 3), (1, 67, 1, 3), (1, 67, 1, 3))
    op("rotary", rotate, (2, 7, 3, 10))
    op("rms_norm", lambda x, w: F.rms_norm(x, (13,), w, 1e-3), (3, 5, 13), (13,))
    op("layer_norm", lambda x, w, b: F.layer_norm(x, (13,), w, b, 1e-3), (3, 5, 13), (13,), (13,))
    op("gate_silu", lambda x: half(x, F.silu), (3, 5, 14))
    op("gate_gelu", lambda x: half(x, F.gelu), (3, 5, 14))
    op("gate_gelu_tanh", lambda x: half(x, lambda a: F.gelu(a, approximate="tanh")), (3, 5, 14))
    op("gate_tanh", lambda x: half(x, torch.tanh, torch.sigmoid), (3, 5, 14))
    op("gate_linear", lambda x: F.glu(x, -1), (3, 5, 14))
    op("cross_entropy", lambda x, y: F.cross_entropy(x, y), (17, 7), ((17,), 7), loss=True)
    op("cross_entropy_smoothed", lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1, ignore_index=3), (17, 7),
       ((17,), 7), loss=True)
    op("linear_cross_entropy",
       lambda x, w, y, b: F.cross_entropy(x @ w.t() + b, y, label_smoothing=0.1, ignore_index=3), (17, 5), (7, 5),
       ((17,), 7), (7,), loss=True)
    op("lstm_cell", lstm_cell, (5, 12), (5, 3))
    op("gru_cell", gru_cell, (5, 9), (5, 9), (5, 3))


# ---- families ----

class Block(nn.Module):
    def __init__(self, width, heads, key_heads, hidden, bias, norm, causal, rotary, gated, gelu="tanh"):
        super().__init__()
        self.heads, self.key_heads, self.head = heads, key_heads, width // heads
        self.causal, self.rotary, self.gated, self.gelu = causal, rotary, gated, gelu
        self.norm1 = norm()
        self.qkv = nn.Linear(width, width + 2 * key_heads * self.head, bias)
        self.proj = nn.Linear(width, width, bias)
        self.norm2 = norm()
        self.mlp1 = nn.Linear(width, 2 * hidden if gated else hidden, bias)
        self.mlp2 = nn.Linear(hidden, width, bias)

    def forward(self, x):
        n, t, c = x.shape
        keys = self.key_heads * self.head
        q, k, v = (z.view(n, t, -1, self.head) for z in self.qkv(self.norm1(x)).split([c, keys, keys], 2))
        if self.rotary:
            q, k = rotate(q), rotate(k)
        x = x + self.proj(attend(q, k, v, self.causal).reshape(n, t, c))
        h = self.mlp1(self.norm2(x))
        h = half(h, F.silu) if self.gated else F.gelu(h, approximate=self.gelu)
        return x + self.mlp2(h)


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers, key_heads=None, hidden=None, llama=False, tied=False):
        super().__init__()
        norm = (lambda: nn.RMSNorm(width, 1e-5)) if llama else (lambda: nn.LayerNorm(width))
        self.token = nn.Embedding(vocabulary, width)
        self.position = None if llama else nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads, key_heads or heads, hidden or 4 * width, not llama, norm, True,
                                           llama, llama) for _ in range(layers)])
        self.norm = norm()
        self.head = nn.Linear(width, vocabulary, False)
        if tied:
            self.head.weight = self.token.weight

    def forward(self, x):
        x = self.token(x)
        if self.position is not None:
            x = x + self.position.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Recurrent(nn.Module):
    def __init__(self, kind, vocabulary, width, layers):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.cells = kind(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        return self.head(self.cells(self.token(x))[0])


class Vit(nn.Module):
    def __init__(self, size, patch, width, heads, layers, classes):
        super().__init__()
        norm = lambda: nn.LayerNorm(width, 1e-6)
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.cls = nn.Parameter(torch.empty(1, width))
        self.position = nn.Parameter(torch.empty((size // patch) ** 2 + 1, width))
        self.blocks = nn.ModuleList([Block(width, heads, heads, 4 * width, True, norm, False, False, False, "none")
                                     for _ in range(layers)])
        self.norm = norm()
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], 1, -1), x], 1) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


def initialise(net, bound):
    norms = {id(m.weight) for m in net.modules() if isinstance(m, (nn.LayerNorm, nn.RMSNorm))}
    order = [p for n, p in net.named_parameters()]
    if isinstance(net, Vit):                 # a module's own parameters come before those of its parts
        first = [net.patch.weight, net.patch.bias, net.cls, net.position]
        order = first + [p for p in order if all(p is not q for q in first)]
    names = {id(p): n for n, p in net.named_parameters()}
    with torch.no_grad():
        for t, p in enumerate(order):
            name = names[id(p)]
            if id(p) in norms:
                p.fill_(1)
            elif "bias" in name:
                p.zero_()
            else:
                p.copy_(uniform(1000 + t, tuple(p.shape), bound(name, p)))


def family(name, make, bound, x, y):
    for method in ("momentum", "adamw"):
        net = make()
        initialise(net, bound)
        step = optimizer(method, list(net.parameters()))
        losses = []
        for _ in range(STEPS):
            out = net(x)
            loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
            step.zero_grad()
            loss.backward()
            step.step()
            losses.append(loss.detach())
        print("family", name, method)
        line("loss", torch.stack(losses))


def families():
    small = 0.02 * math.sqrt(3)
    tokens = labels(1, (3, 19), 61)
    after = tokens.roll(-1, 1)
    family("gpt", lambda: Gpt(61, 19, 24, 3, 2), lambda n, p: small, tokens, after)
    family("gpt_tied", lambda: Gpt(61, 19, 24, 3, 1, tied=True), lambda n, p: small, tokens, after)
    family("llama", lambda: Gpt(61, 19, 24, 4, 2, key_heads=2, hidden=40, llama=True), lambda n, p: small, tokens, after)
    for kind in (nn.LSTM, nn.GRU):
        family(kind.__name__.lower(), lambda: Recurrent(kind, 61, 12, 2),
               lambda n, p: 1.0 if "token" in n else 1 / math.sqrt(12), tokens, after)
    family("vit", lambda: Vit(12, 4, 24, 3, 2, 7),
           lambda n, p: math.sqrt(6 / p[0].numel()) if n.startswith("patch") else small,
           uniform(1, (5, 3, 12, 12)), labels(2, (5,), 7))


heading("make_sequence.py")
ops()
families()
