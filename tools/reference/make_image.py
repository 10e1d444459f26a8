#!/usr/bin/env python3
"""Reference cases of the ops and families of image models, made once with PyTorch.

    python3 tools/reference/make_image.py >tests/reference/image.txt

Needs torch and numpy; the file says which version made it. Not run by the tests, which read the file: tests/reference/
test_image.c has the same cases by name. The format is that of make_sequence.py, with the number of a family's parameters. Images are N H W C in the file, as in the
program, and N C H W in PyTorch; weights are the same in both.
"""
import math

import torch
import torch.nn.functional as F

from functions import masked, mixture_loss, nchw, nhwc, weight_norm
from hashed import STEPS, heading, labels, line, op, optimizer, uniform

torch.set_num_threads(1)


# ---- ops ----

def image(function):
    """A function of images in PyTorch's layout as one of images in ours."""
    return lambda x, *others: nhwc(function(nchw(x), *others))


def ops():
    x = (2, 9, 7, 6)
    op("conv2d", image(lambda x, w, b: F.conv2d(x, w, b, (2, 1), (1, 2))), x, (5, 6, 3, 4), (5,))
    op("conv2d_dilated", image(lambda x, w: F.conv2d(x, w, None, 1, 2, 2)), x, (4, 6, 3, 3))
    op("conv2d_grouped", image(lambda x, w, b: F.conv2d(x, w, b, 1, 1, 1, 3)), x, (9, 2, 3, 3), (9,))
    op("conv2d_depthwise", image(lambda x, w: F.conv2d(x, w, None, 2, 1, 1, 6)), x, (6, 1, 3, 3))
    op("conv2d_uneven", image(lambda x, w: F.conv2d(F.pad(x, (1, 0, 2, 0)), w)), x, (4, 6, 3, 2))
    op("conv2d_one_pixel", image(lambda x, w: F.conv2d(x, w)), (1, 1, 1, 3), (2, 3, 1, 1))
    op("conv_transpose", image(lambda x, w: F.conv_transpose2d(x, w, None, 2)), (2, 5, 4, 6), (6, 3, 2, 2))
    op("conv_transpose_odd", image(lambda x, w: F.conv_transpose2d(x, w, None, (2, 3), (1, 0), (1, 2))), (2, 5, 4, 6),
       (6, 3, 3, 4))
    op("max_pool", image(lambda x: F.max_pool2d(x, 3, 2, 1)), x)
    op("avg_pool", image(lambda x: F.avg_pool2d(x, (2, 3), (2, 2), (1, 1))), x)
    op("avg_pool_inside", image(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)), x)
    op("group_norm", image(lambda x, w, b: F.group_norm(x, 3, w, b, 1e-3)), x, (6,), (6,))
    op("instance_norm", image(lambda x, w, b: F.group_norm(x, 6, w, b, 1e-3)), x, (6,), (6,))
    op("upsample_nearest", image(lambda x: F.interpolate(x, (14, 9), mode="nearest")), x)
    op("upsample_bilinear", image(lambda x: F.interpolate(x, (18, 21), mode="bilinear")), x)
    op("adaptive_pool", image(lambda x: F.adaptive_avg_pool2d(x, (4, 3))), x)
    op("weight_mask_a", lambda w: masked(w, "a"), (3, 2, 5, 3))
    op("weight_mask_b", lambda w: masked(w, "b"), (3, 2, 5, 3))
    op("weight_norm", weight_norm, (4, 3, 3, 2), (4,))
    op("concat", lambda a, b, c: torch.cat([a, b, c], 3), x, (2, 9, 7, 1), (2, 9, 7, 4))
    op("slice", lambda x: x[:, 2:7], x)
    op("pad_axis", lambda x: F.pad(x, (0, 0, 3, 1)), x)
    for name, function in (("relu", F.relu), ("elu", F.elu), ("silu", F.silu),
                           ("leaky_relu", lambda x: F.leaky_relu(x, 0.2)), ("sigmoid", torch.sigmoid),
                           ("tanh", torch.tanh), ("gelu", F.gelu), ("softplus", F.softplus),
                           ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))):
        op(name, function, (5, 13))
    op("squared_error", F.mse_loss, (5, 7), (5, 7), loss=True, wanted=1)
    op("binary_cross_entropy", lambda x, t: F.binary_cross_entropy_with_logits(x, t), (5, 7), (5, 7), loss=True,
       wanted=1)
    op("mixture", mixture_loss, (2, 3, 4, 30), (2, 3, 4, 3), loss=True, wanted=1)
    op("mixture_grey", mixture_loss, (2, 3, 4, 12), (2, 3, 4, 1), loss=True, wanted=1)


# ---- families: functions that make their parameters at the first call, in the order of use ----

class Net:
    def __init__(self, function):
        self.function, self.parameters, self.used = function, [], 0

    def __call__(self, x):
        self.used = 0
        return self.function(self, x)

    def parameter(self, shape, value=None):
        if self.used == len(self.parameters):
            bound = math.sqrt(6 / max(1, math.prod(shape[1:])))
            made = torch.full(shape, float(value)) if value is not None else uniform(1000 + self.used, shape, bound)
            self.parameters.append(made.requires_grad_())
        self.used += 1
        return self.parameters[self.used - 1]

    def conv(self, x, channels, kernel, stride=1, padding=0, groups=1, bias=False, mask=None):
        w = self.parameter((channels, x.shape[1] // groups, kernel, kernel))
        b = self.parameter((channels,), 0) if bias else None
        return F.conv2d(x, masked(w, mask) if mask else w, b, stride, padding, 1, groups)

    def normed(self, x, channels, kernel, pad=(0, 0, 0, 0), stride=1):
        """A weight-normalised convolution; pad as F.pad has it: left, right, top, bottom."""
        v, b = self.parameter((channels, x.shape[1], *kernel)), self.parameter((channels,), 0)
        return F.conv2d(F.pad(x, pad), weight_norm(v, self.parameter((channels,), 1)), b, stride)

    def twice(self, x, channels, bias=False):
        w = self.parameter((x.shape[1], channels, 2, 2))
        return F.conv_transpose2d(x, w, self.parameter((channels,), 0) if bias else None, 2)

    def norm(self, x):
        c = x.shape[1]
        return F.batch_norm(x, None, None, self.parameter((c,), 1), self.parameter((c,), 0), True, 0.1, 1e-5)

    def dense(self, x, features):
        return F.linear(x, self.parameter((features, x.shape[1])), self.parameter((features,), 0))

    def cbr(self, x, channels, kernel=3, stride=1, groups=1, act=F.relu):
        x = self.norm(self.conv(x, channels, kernel, stride, kernel // 2, groups))
        return act(x) if act else x

    def classify(self, x, classes):
        return self.dense(x.mean((2, 3)), classes)


def mlp(n, x):
    x = x.flatten(1)
    for _ in range(2):
        x = F.relu(n.dense(x, 20))
    return n.dense(x, 7)


def lenet(n, x):
    for channels in (32, 64):
        x = F.max_pool2d(F.relu(n.conv(x, channels, 5, 1, 2, bias=True)), 2)
    return n.dense(F.relu(n.dense(x.flatten(1), 256)), 7)


def vgg(n, x):
    for channels, count in ((4, 1), (8, 1), (16, 2), (32, 2), (32, 2)):
        for _ in range(count):
            x = n.cbr(x, channels)
        x = F.max_pool2d(x, 2)
    x = x.flatten(1)
    for _ in range(2):
        x = F.relu(n.dense(x, 24))
    return n.dense(x, 7)


def residual(n, x, channels, stride, bottleneck):
    out = 4 * channels if bottleneck else channels
    y = n.cbr(x, channels, 1) if bottleneck else x
    y = n.cbr(y, channels, 3, stride)
    y = n.cbr(y, out, 1 if bottleneck else 3, act=None)
    if stride != 1 or x.shape[1] != out:
        x = n.cbr(x, out, 1, stride, act=None)
    return F.relu(y + x)


def resnet(n, x):
    x = n.cbr(x, 4)
    for stage in range(3):
        x = residual(n, x, 4 << stage, 2 if stage else 1, False)
    return n.classify(x, 7)


def resnet_imagenet(n, x, blocks=(2, 2, 2, 2), bottleneck=False):
    x = F.max_pool2d(n.cbr(x, 4, 7, 2), 3, 2, 1)
    for stage, count in enumerate(blocks):
        for i in range(count):
            x = residual(n, x, 4 << stage, 2 if stage and not i else 1, bottleneck)
    return n.classify(x, 7)


def densenet(n, x, growth=4):
    x = n.conv(x, 2 * growth, 3, 1, 1)
    for block in range(3):
        y = n.conv(F.relu(n.norm(x)), 4 * growth, 1)
        x = torch.cat([x, n.conv(F.relu(n.norm(y)), growth, 3, 1, 1)], 1)
        if block < 2:
            x = F.avg_pool2d(n.conv(F.relu(n.norm(x)), x.shape[1] // 2, 1), 2)
    return n.classify(F.relu(n.norm(x)), 7)


def mobilenetv2(n, x):
    def scaled(c, percent=25):
        exact = c * percent // 100
        rounded = max(8, (exact + 4) // 8 * 8)
        return rounded + 8 if 10 * rounded < 9 * exact else rounded

    x = n.cbr(x, scaled(32), 3, 1, act=F.relu6)
    for t, c, count, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                           (6, 320, 1, 1)):
        for i in range(count):
            y, stride, out, wide = x, 1 if i else s, scaled(c), x.shape[1] * t
            if t > 1:
                y = n.cbr(y, wide, 1, act=F.relu6)
            y = n.cbr(n.cbr(y, wide, 3, stride, wide, F.relu6), out, 1, act=None)
            x = x + y if stride == 1 and x.shape[1] == out else y
    return n.classify(n.cbr(x, 1280, 1, act=F.relu6), 7)


def unet(n, x, width=4):
    kept = []
    for level in range(3):
        x = F.max_pool2d(x, 2) if level else x
        x = n.cbr(n.cbr(x, width << level), width << level)
        kept.append(x)
    for level in (1, 0):
        x = torch.cat([kept[level], n.twice(x, width << level, True)], 1)
        x = n.cbr(n.cbr(x, width << level), width << level)
    return n.conv(x, 7, 1, bias=True)


def pixelcnn(n, x, width=6):
    x = n.conv(x, width, 7, 1, 3, bias=True, mask="a")
    for _ in range(2):
        a, b = n.conv(x, 2 * width, 3, 1, 1, bias=True, mask="b").chunk(2, 1)
        x = x + n.conv(torch.tanh(a) * torch.sigmoid(b), width, 1, bias=True)
    return n.conv(F.relu(n.conv(F.relu(x), 2 * width, 1, bias=True)), 7, 1, bias=True)


def autoencoder(n, x, width=4, code=3):
    channels = x.shape[1]
    for level in range(2):
        x = n.cbr(x, width << level, 3, 2)
    x = n.conv(x, code, 1, bias=True)
    for level in (1, 0):
        x = F.relu(n.norm(n.twice(x, width << level)))
    return n.conv(x, channels, 3, 1, 1, bias=True)


ABOVE, BEFORE = ((2, 3), (1, 1, 1, 0)), ((2, 2), (1, 0, 1, 0))


def elu2(x):
    return F.elu(torch.cat([x, -x], 1))


def gated(n, stream, x, skip=None):
    filters = x.shape[1]
    y = n.normed(elu2(x), filters, *stream)
    if skip is not None:
        y = y + n.normed(elu2(skip), filters, (1, 1))
    return x + F.glu(n.normed(elu2(y), 2 * filters, *stream), 1)


def doubled(n, stream, x):
    """The transposed convolution, cut to twice the size; the norm is that of each output, the bias comes last."""
    (h, w), _ = stream
    v, g = n.parameter((x.shape[1], x.shape[1], h, w)), n.parameter((x.shape[1],), 1)
    y = F.conv_transpose2d(x, weight_norm(v, g).transpose(0, 1), n.parameter((x.shape[1],), 0), 2)
    left = (w - 1) // 2 if stream is ABOVE else 0
    return y[:, :, :2 * x.shape[2], left:left + 2 * x.shape[3]]


def pixelcnnpp(n, x, levels=2, resnets=1, filters=5, mixtures=2):
    outputs = (10 if x.shape[1] == 3 else 3) * mixtures
    down = lambda x: F.pad(x, (0, 0, 1, 0))[:, :, :-1]
    right = lambda x: F.pad(x, (1, 0))[:, :, :, :-1]
    x = torch.cat([x, torch.ones_like(x[:, :1])], 1)
    u = down(n.normed(x, filters, *ABOVE))
    b = down(n.normed(x, filters, (1, 3), (1, 1, 0, 0)))
    b = b + right(n.normed(x, filters, (2, 1), (0, 0, 1, 0)))
    kept = [(u, b)]
    for level in range(levels):
        if level:
            u, b = n.normed(u, filters, *ABOVE, 2), n.normed(b, filters, *BEFORE, 2)
            kept.append((u, b))
        for _ in range(resnets):
            u = gated(n, ABOVE, u)
            b = gated(n, BEFORE, b, u)
            kept.append((u, b))
    u, b = kept.pop()
    for level in reversed(range(levels)):
        for _ in range(resnets + (level < levels - 1)):
            skip_u, skip_b = kept.pop()
            u = gated(n, ABOVE, u, skip_u)
            b = gated(n, BEFORE, b, torch.cat([u, skip_b], 1))
        if level:
            u, b = doubled(n, ABOVE, u), doubled(n, BEFORE, b)
    assert not kept
    return n.normed(F.elu(b), outputs, (1, 1))


def cross_entropy(y):
    return lambda out, x: F.cross_entropy(out, y)


def family(name, function, x, loss, rate=0.005):
    for method in ("momentum", "adamw"):
        net = Net(function)
        net(x)
        step = optimizer(method, net.parameters, rate)
        losses = []
        for _ in range(STEPS):
            value = loss(net(x), x)
            step.zero_grad()
            value.backward()
            step.step()
            losses.append(value.detach())
        print("family", name, method)
        line("parameters", torch.tensor(sum(p.numel() for p in net.parameters)))
        line("loss", torch.stack(losses))


def families():
    y, colour, grey = labels(2, (8,), 7), uniform(1, (8, 3, 16, 16)), uniform(1, (8, 1, 16, 16))
    pixels = labels(2, (8, 16, 16), 7)
    family("mlp", mlp, colour, cross_entropy(y))
    family("lenet", lenet, grey, cross_entropy(y))
    family("vgg", vgg, uniform(1, (8, 3, 32, 32)), cross_entropy(y))
    family("resnet", resnet, colour, cross_entropy(y))
    family("resnet_imagenet", resnet_imagenet, uniform(1, (8, 3, 32, 32)), cross_entropy(y), 0.001)
    family("densenet", densenet, colour, cross_entropy(y))
    family("mobilenetv2", mobilenetv2, uniform(1, (8, 3, 32, 32)), cross_entropy(y), 0.001)
    family("unet", unet, colour, cross_entropy(pixels))
    family("pixelcnn", pixelcnn, grey, cross_entropy(pixels))
    family("autoencoder", autoencoder, colour, F.mse_loss)
    family("autoencoder_binary", autoencoder, (grey + 1) / 2, F.binary_cross_entropy_with_logits)
    for name, x in (("pixelcnnpp", colour), ("pixelcnnpp_grey", grey)):
        family(name, pixelcnnpp, x, lambda out, x: mixture_loss(nhwc(out), nhwc(x)))


heading("make_image.py")
ops()
families()
