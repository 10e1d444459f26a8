"""Ops of the table that PyTorch has under no name of its own, for the reference scripts and tools/compare_torch.py."""
import math

import torch
import torch.nn.functional as F


def nchw(x):
    return x.permute(0, 3, 1, 2)


def nhwc(x):
    return x.permute(0, 2, 3, 1)


def masked(w, mask):
    o, i, h, k = w.shape
    keep = torch.zeros(h * k)
    keep[:h * k // 2 + (mask == "b")] = 1
    return w * keep.view(h, k)


def weight_norm(v, g):
    return v * (g / v.flatten(1).norm(dim=1)).view(-1, *[1] * (v.dim() - 1))


def mixture_loss(parameters, x):
    """Discretised mixture of logistics (Salimans et al. 2017), mean over the numbers of the image, in nats. N H W C.

    In float64, because the difference of two sigmoids loses half of float32's digits.
    """
    parameters, x = parameters.double(), x.double()
    channels = x.shape[-1]
    m = parameters.shape[-1] // (10 if channels == 3 else 3)
    weights, rest = parameters[..., :m], parameters[..., m:].reshape(*x.shape, -1)
    means, scales = rest[..., :m], rest[..., m:2 * m].clamp(min=-7)
    if channels == 3:
        c = torch.tanh(rest[..., 2 * m:])
        r, g = x[..., 0:1], x[..., 1:2]
        means = torch.stack([means[..., 0, :], means[..., 1, :] + c[..., 0, :] * r,
                             means[..., 2, :] + c[..., 1, :] * r + c[..., 2, :] * g], -2)
    x = x.unsqueeze(-1)
    inverse = torch.exp(-scales)
    above, below = inverse * (x - means + 1 / 255), inverse * (x - means - 1 / 255)
    inside = torch.sigmoid(above) - torch.sigmoid(below)
    middle = inverse * (x - means)
    density = middle - scales - 2 * F.softplus(middle) - math.log(127.5)
    log_p = torch.where(x < -0.999, F.logsigmoid(above),
                        torch.where(x > 0.999, -F.softplus(below),
                                    torch.where(inside > 1e-5, inside.clamp(min=1e-12).log(), density)))
    return (-torch.logsumexp(log_p.sum(-2) + F.log_softmax(weights, -1), -1).sum() / x.numel()).float()


def rotate(x, base=10000.0, dtype=torch.float64):
    d = x.shape[-1]
    angle = torch.outer(torch.arange(x.shape[1], dtype=dtype), base ** (-torch.arange(0, d, 2, dtype=dtype) / d))
    cos, sin = (f(torch.cat([angle, angle], 1)).float()[None, :, None, :] for f in (torch.cos, torch.sin))
    turned = torch.cat([-x[..., d // 2:], x[..., :d // 2]], -1)
    return x * cos + turned * sin


def attend(q, k, v, causal):
    shared = q.shape[2] // k.shape[2]
    k, v = (z.repeat_interleave(shared, 2).transpose(1, 2) for z in (k, v))
    mask = torch.ones(q.shape[1], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[1]) if causal else None
    return F.scaled_dot_product_attention(q.transpose(1, 2), k, v, attn_mask=mask).transpose(1, 2)


def causal_softmax(x, alpha):
    mask = torch.ones(x.shape[-2:], dtype=torch.bool).tril(x.shape[-1] - x.shape[-2])
    return (alpha * x).masked_fill(~mask, -math.inf).softmax(-1)


def half(x, first, second=None):
    a, b = x.chunk(2, -1)
    return first(a) * (second(b) if second else b)


def lstm_cell(gates, c):
    i, f, g, o = gates.chunk(4, 1)
    return torch.sigmoid(o) * torch.tanh(torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g))


def gru_cell(x, y, h):
    (xr, xz, xn), (yr, yz, yn) = x.chunk(3, 1), y.chunk(3, 1)
    z, n = torch.sigmoid(xz + yz), torch.tanh(xn + torch.sigmoid(xr + yr) * yn)
    return (1 - z) * n + z * h
