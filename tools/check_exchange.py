#!/usr/bin/env python3
"""Checks `tarn export` and `tarn import` against PyTorch: same names, same layouts, same loss.

    tools/check_exchange.py build/tarn [FAMILY ...]

Needs torch, torchvision and safetensors, and transformers for GPT-2. For each family a small network is trained for some
steps, exported, loaded with strict=True into the network of torchvision or transformers, and evaluated there on the
same samples (data.type: hash, runtime/base/hash_numbers.h; the test samples come behind the training ones). Then the weights that PyTorch made by itself are imported and
evaluated here. Prints the lines of tests/reference/exchange.txt: family, loss here and in PyTorch, and the names and
ranks of the state_dict as a CRC, which the tests compare without PyTorch.
"""
import json
import os
import subprocess
import sys
import tempfile
import zlib

import numpy
import torch
import torchvision
from safetensors.torch import load_file, save_file

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "reference"))
from hashed import labels, uniform  # noqa: E402


def small_resnet():
    """resnet of depth 8: torchvision's ResNet without its fourth stage, for images of 16x16."""
    net = torchvision.models.ResNet(torchvision.models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10)
    net.conv1 = torch.nn.Conv2d(3, 8, 3, 1, 1, bias=False)
    net.bn1 = torch.nn.BatchNorm2d(8)
    net.maxpool, net.layer4 = torch.nn.Identity(), torch.nn.Identity()
    net.inplanes = 8
    block = torchvision.models.resnet.BasicBlock
    net.layer1 = net._make_layer(block, 8, 1)
    net.layer2 = net._make_layer(block, 16, 1, stride=2)
    net.layer3 = net._make_layer(block, 32, 1, stride=2)
    net.fc = torch.nn.Linear(32, 10)
    return net


def vgg11():
    """vgg of depth 11 at 32x32: one pixel is left, so that the classifier reads 512 features."""
    net = torchvision.models.vgg11_bn(num_classes=10)
    net.avgpool = torch.nn.Identity()
    net.classifier[0], net.classifier[3] = torch.nn.Linear(512, 64), torch.nn.Linear(64, 64)
    net.classifier[6] = torch.nn.Linear(64, 10)
    return net


def small_densenet():
    net = torchvision.models.DenseNet(8, (2, 2, 2), 16, num_classes=10)
    net.features.conv0 = torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False)
    net.features.norm0 = net.features.relu0 = net.features.pool0 = torch.nn.Identity()
    return net


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    net = GPT2LMHeadModel(GPT2Config(vocab_size=48, n_positions=16, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0,
                                     embd_pdrop=0, attn_pdrop=0))
    return net


IMAGE = "data: {type: hash, shape: [%d, %d, 3], classes: 10, batch: 16, samples: 16, test_samples: 16}\n"
TOKENS = "data: {type: hash, context: 16, classes: 48, batch: 16, samples: 16, test_samples: 16}\n"
FAMILIES = {
    "resnet": ("{family: resnet, depth: 8, width: 8}", (16, 16), small_resnet),
    "resnet_imagenet": ("{family: resnet_imagenet, depth: 18}", (64, 64),
                        lambda: torchvision.models.resnet18(num_classes=10)),
    "resnet_imagenet_50": ("{family: resnet_imagenet, depth: 50}", (64, 64),
                           lambda: torchvision.models.resnet50(num_classes=10)),
    "vgg": ("{family: vgg, depth: 11, hidden: 64}", (32, 32), vgg11),
    "densenet": ("{family: densenet, depth: 16, growth: 8}", (16, 16), small_densenet),
    "mobilenetv2": ("{family: mobilenetv2, stem_stride: 2}", (64, 64),
                    lambda: torchvision.models.mobilenet_v2(num_classes=10)),
    "vit": ("{family: vit, patch: 4, layers: 2, width: 32, heads: 4}", (16, 16),
            lambda: torchvision.models.VisionTransformer(16, 4, 2, 4, 32, 128, num_classes=10)),
    "gpt": ("{family: gpt, layers: 2, width: 32, heads: 4}", None, gpt2),
    "gpt_tied": ("{family: gpt, layers: 2, width: 32, heads: 4, tied: 1}", None, gpt2),
}


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def torch_loss(net, size):
    net.eval()
    with torch.no_grad():
        if size is None:
            ids = labels(1, (32, 16), 48)[16:]
            wanted = ids.roll(-1, 1)
            return torch.nn.functional.cross_entropy(net(ids).logits.reshape(-1, 48), wanted.reshape(-1)).item()
        x, wanted = uniform(1, (32, 3, *size))[16:], labels(2, (32,), 10)[16:]
        return torch.nn.functional.cross_entropy(net(x), wanted).item()


def own_loss(tarn, config, weights):
    return json.loads(run(tarn, "eval", config, "--weights", weights, "--json"))["test_loss"]


def check(tarn, folder, name):
    model, size, make = FAMILIES[name]
    config, snapshot = f"{folder}/{name}.yaml", f"{folder}/{name}.snapshot"
    exported, foreign = f"{folder}/{name}.safetensors", f"{folder}/{name}-torch.safetensors"
    with open(config, "w") as out:
        out.write((TOKENS if size is None else IMAGE % size) + f"model: {model}\n"
                  "optimizer: {type: momentum, learning_rate: 1e-2}\n"
                  f"train: {{max_steps: 3, threads: 1, snapshot: {snapshot}}}\n")
    run(tarn, "train", config)
    run(tarn, "export", snapshot, "-o", exported)
    run(tarn, "export", snapshot, "-o", exported[:-11] + "npz")
    torch.manual_seed(1)
    net = make()
    if name == "gpt":
        net.lm_head.weight = torch.nn.Parameter(net.lm_head.weight.detach().clone())
    for key, value in net.named_buffers():  # statistics that are not those of a fresh network
        if key.endswith("running_mean"):
            value.uniform_(-0.1, 0.1)
    state = {k: v.clone().contiguous() for k, v in net.state_dict().items()}
    save_file(state, foreign)
    before = torch_loss(net, size)
    names = "\n".join(f"{k} {v.dim()}" for k, v in sorted(state.items()))
    # Here first: PyTorch's own weights.
    run(tarn, "import", foreign, "--config", config, "-o", f"{folder}/{name}-import.snapshot")
    imported = own_loss(tarn, config, f"{folder}/{name}-import.snapshot")
    # Then there: weights from here.
    loaded = load_file(exported)
    net.load_state_dict(loaded, strict=True)
    archive = numpy.load(exported[:-11] + "npz")
    assert sorted(archive) == sorted(loaded) and all((archive[k] == loaded[k].numpy()).all() for k in archive)
    here, there = own_loss(tarn, config, snapshot), torch_loss(net, size)
    for a, b in ((here, there), (before, imported)):
        assert abs(a - b) < 2e-5 * max(1, abs(b)), (name, a, b)
    print(f"{name} exported {here:.7g} {there:.7g} imported {imported:.7g} {before:.7g} "
          f"tensors {len(state)} names {zlib.crc32(names.encode()):08x}", flush=True)


def main():
    tarn = sys.argv[1]
    print(f"# made by tools/check_exchange.py with torch {torch.__version__}, torchvision {torchvision.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or FAMILIES:
            check(tarn, folder, name)


if __name__ == "__main__":
    main()
