#!/usr/bin/env python3
"""Random networks for build/tests/zoo: scripts/random-networks.py FIRST LAST DIR [--exported | --whole]

Writes DIR/SEED.onnx as PyTorch's exporter does (--exported: its newer one, networks without batch norms; --whole: that with
optimize=False), DIR/SEED.safetensors with what PyTorch computes in float64, and DIR/SEED.txt, for each seed from FIRST to before
LAST. Each network is a random graph of what networks are made of, with any number of readers. Needs torch, onnx, safetensors and,
for the newer exporter, onnxscript."""
import os, random, sys, warnings

import torch, torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/models/fixtures/parts"))
from write_pair import EXPORTED, TRACED, write_pair

SIZE, LARGEST = 32, 1 << 14

ACTIVATIONS = {
    "relu": F.relu, "relu6": F.relu6, "leaky": lambda x: F.leaky_relu(x, 0.2), "silu": F.silu, "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid,
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "mish": F.mish, "softplus": F.softplus, "elu": F.elu, "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.7), "softsign": F.softsign, "logsigmoid": F.logsigmoid,
    "swish": lambda x: x * torch.sigmoid(1.5 * x), "squared": lambda x: F.relu(x) ** 2, "clip": lambda x: x.clamp(-1.5, 2),
    "abs": torch.abs, "bell": lambda x: torch.exp(-x * x), "root": lambda x: torch.sqrt(x * x + 0.1),
    "shrink": lambda x: x * (x.abs() > 0.3), "unit": lambda x: x / torch.sqrt(1 + x * x), "less": lambda x: 1 - x,
    "inverse": lambda x: 1 / (1 + x * x)}


class Number(nn.Module):
    """A parameter of its own."""

    def __init__(self, *shape, mean=0.0):
        super().__init__()
        self.value = nn.Parameter(mean + 0.2 * torch.randn(shape))


class Step(nn.Module):
    """function(parts..., inputs...); with `pair` of two values of one shape."""

    def __init__(self, name, function, *parts, pair=False):
        super().__init__()
        self.name, self.function, self.parts, self.pair = name, function, nn.ModuleList(parts), pair

    def forward(self, *x):
        return self.function(*self.parts, *x)


def apply(part, x):
    return part(x)


def divisor(r, number, most=1 << 20):
    return r.choice([d for d in range(1, min(number, most) + 1) if number % d == 0])


# Of each kind: a step for values of c channels, h x w; None: it has none for these.

def convolution(r, c, h, w):
    groups = divisor(r, c) if r.random() < 0.4 else 1
    layer = nn.Conv2d(c, groups * r.randint(1, max(1, 16 // groups)), r.choice([1, 1, 3, 3, 3, 5, (1, 3), (3, 1), 2]),
                      r.choice([1, 1, 1, 2, (2, 1)]), r.choice([0, 1, 2, (1, 0)]), r.choice([1, 1, 1, 2]), groups,
                      r.random() < 0.6, r.choice(["zeros"] * 6 + ["reflect", "replicate", "circular"]))
    return Step(str(layer), apply, layer)


def depthwise(r, c, h, w):
    kernel = r.choice([3, 3, 5, 7])
    layer = nn.Conv2d(c, c * r.choice([1, 1, 2]), kernel, r.choice([1, 1, 2]), kernel // 2, 1, c, r.random() < 0.5)
    return Step(str(layer), apply, layer)


def transposed(r, c, h, w):
    groups = divisor(r, c, 2)
    layer = nn.ConvTranspose2d(c, groups * r.randint(2, 6), r.choice([2, 3, 4]), 2, r.choice([0, 1]), 0, groups)
    return Step(str(layer), apply, layer)


def padded(r, c, h, w):
    sides, mode = r.choice([(0, 1, 0, 1), (1, 2, 0, 1), (2, 2, 1, 1)]), r.choice(["constant", "reflect", "replicate"])
    return Step(f"pad {sides} {mode}", lambda layer, x: layer(F.pad(x, sides, mode)), nn.Conv2d(c, 8, 3, 2))


def standardised(r, c, h, w):
    def run(layer, x):
        weight = layer.weight - layer.weight.mean((1, 2, 3), keepdim=True)
        return F.conv2d(x, weight / (weight.std((1, 2, 3), keepdim=True, unbiased=False) + 1e-5), layer.bias, 1, 1)
    return Step("standardised", run, nn.Conv2d(c, 8, 3)) if c > 1 else None


def norm(r, c, h, w):
    if c < 3 or h * w < 4:
        return None
    kind = r.choice(["batch", "batch", "group", "channels", "all", "instance"])
    if kind == "channels":
        return Step(kind, lambda layer, x: layer(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), nn.LayerNorm(c))
    layer = {"batch": lambda: nn.BatchNorm2d(c, r.choice([1e-5, 1e-3]), r.choice([0.1, 0.01, 0.3])),
             "group": lambda: nn.GroupNorm(divisor(r, c, c // 2), c), "all": lambda: nn.LayerNorm([c, h, w]),
             "instance": lambda: nn.InstanceNorm2d(c, affine=r.random() < 0.5)}[kind]()
    return Step(str(layer), apply, layer)


def activation(r, c, h, w):
    name = r.choice(list(ACTIVATIONS))
    return Step(name, ACTIVATIONS[name])


def binary(r, c, h, w):
    kinds = {"add": lambda a, b: a + b, "multiply": lambda a, b: a * b, "subtract": lambda a, b: a - b,
             "divide": lambda a, b: a / (1 + b.abs()), "maximum": torch.maximum, "minimum": torch.minimum,
             "mean": lambda a, b: (a + b) / 2, "weighted": lambda a, b: 0.3 * a + 0.7 * b, "twice": lambda a, b: a + b + a}
    name = r.choice(list(kinds) + ["add", "add"])
    return Step(name, kinds[name], pair=True)


def join(r, c, h, w):
    axis = r.choice([1, 1, 2, 3])
    return Step(f"join {axis}", lambda a, b: torch.cat([a, b], axis), pair=True)


def residual(r, c, h, w):
    act, last, after = ACTIVATIONS[r.choice(["relu", "silu", "gelu", "hardswish"])], r.random() < 0.7, r.random() < 0.5
    gain = [Number(c, 1, 1, mean=0.3)] if r.random() < 0.4 else []

    def run(wide, first, narrow, second, *rest):
        y = narrow(act(first(wide(rest[-1]))))
        y = second(y) if last else y
        y = rest[-1] + (y * rest[0].value if gain else y)
        return act(y) if after else y
    return Step("residual", run, nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.Conv2d(c, c, 1),
                nn.BatchNorm2d(c) if last else nn.Identity(), *gain)


def gate(r, c, h, w):
    kinds = {"place": lambda x: x * torch.sigmoid(x.mean(1, keepdim=True)), "row": lambda x: x * torch.sigmoid(x.mean(3, keepdim=True)),
             "channels": lambda x: x * torch.softmax(x.mean((2, 3), keepdim=True), 1)}
    name = r.choice(list(kinds) + ["squeeze", "linear", "both"])
    if name == "squeeze":
        return Step(name, lambda a, b, x: x * torch.sigmoid(b(F.relu(a(F.adaptive_avg_pool2d(x, 1))))), nn.Conv2d(c, 4, 1), nn.Conv2d(4, c, 1))
    if name == "linear":
        return Step(name, lambda a, b, x: x * F.hardsigmoid(b(F.silu(a(x.mean((2, 3)))))).view(x.shape[0], -1, 1, 1),
                    nn.Linear(c, 4), nn.Linear(4, c))
    if name == "both":
        return Step(name, lambda a, x: x * torch.sigmoid(a(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1))),
                    nn.Conv2d(2, 1, 3, padding=1))
    return Step(name, kinds[name])


def parts(r, c, h, w):
    if c < 2:
        return None
    at, axis, order, act = r.randint(1, c - 1), r.choice([1, 2, 3]), r.sample(range(c), c), ACTIVATIONS[r.choice(list(ACTIVATIONS))]
    kinds = {"slice": lambda x: x[:, at:], "step": lambda x: x[:, :, ::2, 1::2], "flip": lambda x: x.flip(axis),
             "roll": lambda x: torch.roll(x, (1, 2), (2, 3)), "pick": lambda x: x[:, order], "turn": lambda x: x.transpose(2, 3),
             "inner": lambda x: x[:, :, 1:, :-1], "glu": lambda x: F.glu(x, 1) if c % 2 == 0 else x.flip(1),
             "halves": lambda x: torch.cat([act(x[:, :at]), x[:, at:]], 1),
             "split": lambda x: torch.cat([act(t) if i else t for i, t in enumerate(torch.split(x, [at, c - at], 1))], 1)}
    name = r.choice(list(kinds))
    return Step(name, kinds[name])


def shuffle(r, c, h, w):
    groups = divisor(r, c)
    kinds = {"channels": lambda x: x.view(x.shape[0], groups, c // groups, h, w).transpose(1, 2).reshape(x.shape[0], c, h, w)}
    if c % 4 == 0:
        kinds["to space"] = lambda x: F.pixel_shuffle(x, 2)
    if h % 2 == 0 and w % 2 == 0:
        kinds["to depth"] = lambda x: F.pixel_unshuffle(x, 2)
        kinds["focus"] = lambda x: torch.cat([x[..., i::2, k::2] for k in (0, 1) for i in (0, 1)], 1)
    name = r.choice(list(kinds))
    return Step(name, kinds[name])


def pool(r, c, h, w):
    kernel, stride, padding, ceil = r.choice([2, 3, (2, 1), 5]), r.choice([1, 2, 2, (2, 1)]), r.choice([0, 1]), r.random() < 0.3
    kinds = {"max": lambda x: F.max_pool2d(x, kernel, stride, padding, ceil_mode=ceil),
             "average": lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, True),
             "average inside": lambda x: F.avg_pool2d(x, kernel, stride, padding, ceil, False),
             "dilated": lambda x: F.max_pool2d(x, 2, 1, 0, 2), "whole": lambda x: F.adaptive_avg_pool2d(x, 1),
             "root of squares": lambda x: (F.avg_pool2d(x * x, 2, 2) + 1e-3).sqrt()}
    name = r.choice(list(kinds))
    return Step(f"{name} pool", kinds[name])


def resize(r, c, h, w):
    mode, size = r.choice(["nearest", "bilinear", "bicubic"]), r.choice([2, (7, 9), 1.5])
    options = {"size": size} if isinstance(size, tuple) else {"scale_factor": size}
    if mode != "nearest":
        options["align_corners"] = r.random() < 0.5
    return Step(f"{mode} {options}", lambda x: F.interpolate(x, mode=mode, **options))


def attention(r, c, h, w):
    if h * w > 256 or c < 2:
        return None
    heads, kind, tokens = divisor(r, c, 4), r.choice(["fused", "by hand", "module", "linear"]), h * w
    bias = [Number(heads, tokens, tokens)] if kind in ("fused", "by hand") and r.random() < 0.4 else []

    def mix(q, k, v):
        if kind == "fused":
            return F.scaled_dot_product_attention(q, k, v, attn_mask=bias[0].value if bias else None)
        if kind == "linear":
            return q.softmax(-1) @ (k.softmax(-2).transpose(-2, -1) @ v)
        seen = (q * (c // heads) ** -0.5) @ k.transpose(-2, -1)
        return (seen + bias[0].value if bias else seen).softmax(-1) @ v

    def run(first, qkv, last, *rest):
        x = rest[-1]
        n = x.shape[0]
        rows = x.flatten(2).transpose(1, 2)
        y = first(rows)
        if kind == "module":
            y = last(y, y, y, need_weights=False)[0]
        else:
            q, k, v = qkv(y).reshape(n, tokens, 3, heads, c // heads).permute(2, 0, 3, 1, 4).unbind(0)
            y = last(mix(q, k, v).transpose(1, 2).reshape(n, tokens, c))
        return (rows + y).transpose(1, 2).reshape(n, c, h, w)
    module = kind == "module"
    return Step(f"attention {kind}", run, nn.LayerNorm(c), nn.Identity() if module else nn.Linear(c, 3 * c, bias=r.random() < 0.5),
                nn.MultiheadAttention(c, heads, batch_first=True) if module else nn.Linear(c, c), *bias)


def windows(r, c, h, w):
    if h % 4 or w % 4 or h < 8:
        return None
    by = r.choice([0, 2])

    def run(qkv, x):
        n = x.shape[0]
        x = torch.roll(x, (-by, -by), (2, 3)) if by else x
        rows = x.view(n, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1).reshape(-1, 16, c)
        q, k, v = qkv(rows).chunk(3, -1)
        y = ((q @ k.transpose(1, 2)) * c ** -0.5).softmax(-1) @ v
        y = y.view(n, h // 4, w // 4, 4, 4, c).permute(0, 5, 1, 3, 2, 4).reshape(n, c, h, w)
        return x + (torch.roll(y, (by, by), (2, 3)) if by else y)
    return Step("windows", run, nn.Linear(c, 3 * c))


def mixer(r, c, h, w):
    kind = r.choice(["channels", "columns", "rows"] + ["tokens"] * (h * w <= 300))
    if kind == "channels":
        return Step(kind, lambda a, b, x: x + b(F.gelu(a(x.permute(0, 2, 3, 1)))).permute(0, 3, 1, 2), nn.Linear(c, 2 * c), nn.Linear(2 * c, c))
    if kind == "columns":
        return Step(kind, apply, nn.Linear(w, 8))
    if kind == "rows":
        return Step(kind, lambda a, x: a(x.transpose(2, 3)).transpose(2, 3), nn.Linear(h, 8, bias=False))
    return Step(kind, lambda a, x: x + a(x.flatten(2)).view_as(x), nn.Linear(h * w, h * w))


def parameter(r, c, h, w):
    def response(gain, bias, x):
        length = torch.sqrt((x * x).sum((2, 3), keepdim=True) + 1e-6)
        return x + gain.value * (x * length / (length.mean(1, keepdim=True) + 1e-6)) + bias.value
    return r.choice([
        lambda: Step("scale", lambda p, x: x * p.value, Number(1, c, 1, 1, mean=1)),
        lambda: Step("shift", lambda p, x: x + p.value, Number(1, c, 1, 1)),
        lambda: Step("places", lambda p, x: x + p.value, Number(1, c, h, w)),
        lambda: Step("one number", lambda p, x: x * p.value + 0.1, Number(mean=0.7)),
        lambda: Step("slopes", apply, nn.PReLU(r.choice([1, c]))),
        lambda: Step("response", response, Number(1, c, 1, 1), Number(1, c, 1, 1)),
        lambda: Step("temperature", lambda p, x: torch.softmax(x / p.value, 1) * 4, Number(1, mean=2)),
        lambda: Step("unit length", lambda x: F.normalize(x, dim=1, eps=1e-3) * 3),
        lambda: Step("mixture", lambda p, x: torch.softmax(p.value, 0)[0] * x + torch.softmax(p.value, 0)[1] * x.abs(), Number(2))])()


def repeated(r, c, h, w):
    def run(layer, norm, x):
        for _ in range(2):
            x = x + torch.tanh(norm(layer(x)))
        return x
    return Step("repeated", run, nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c) if r.random() < 0.5 else nn.Identity())


def statistics(r, c, h, w):
    if c < 2 or h * w < 4:
        return None
    kinds = {"centred": lambda x: x - x.mean((2, 3), keepdim=True),
             "standard": lambda x: (x - x.mean(1, keepdim=True)) / torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-3),
             "softmax": lambda x: x.flatten(2).softmax(-1).view_as(x) * h * w, "sums": lambda x: x.cumsum(3) / w,
             "product": lambda x: torch.tanh(x @ x.transpose(2, 3) / w), "logsumexp": lambda x: x - torch.logsumexp(x, 1, keepdim=True),
             "einsum": lambda x: torch.einsum("bchw,bdhw->bcd", x, x).unsqueeze(1) / (h * w),
             "covariance": lambda x: (x.flatten(2) @ x.flatten(2).transpose(1, 2)).unsqueeze(1) / (h * w),
             "largest": lambda x: x - x.amax(1, keepdim=True)}
    name = r.choice(list(kinds))
    return Step(name, kinds[name])


def recurrence(r, c, h, w):
    if w > 16:
        return None
    columns = c * h <= 64
    layer = r.choice([nn.LSTM, nn.GRU])(c * h if columns else c, 6, batch_first=True, bidirectional=r.random() < 0.5)

    def run(layer, x):
        rows = x.permute(0, 3, 1, 2).flatten(2) if columns else x.mean(2).transpose(1, 2)
        # Dense: of the strides that unsqueeze leaves PyTorch 2.8's batch norms make wrong gradients, as finite differences say.
        return layer(rows)[0].transpose(1, 2).unsqueeze(2).clone(memory_format=torch.contiguous_format)
    return Step(str(layer), run, layer)


KINDS = [convolution] * 4 + [binary] * 4 + [residual, pool, parameter, parts, norm, activation] * 3 + [statistics] * 2 + [
    depthwise, transposed, padded, standardised, join, gate, shuffle, resize, attention, windows, mixer, repeated, recurrence]
HEADS = {
    "mean": lambda x: x.mean((2, 3)), "pool": lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1),
    "largest": lambda x: F.adaptive_max_pool2d(x, 1).flatten(1), "flat": lambda x: x.flatten(1),
    "gem": lambda x: x.clamp(min=1e-3).pow(2).mean((-2, -1)).sqrt()}


class Network(nn.Module):
    def __init__(self, seed, exported):
        super().__init__()
        torch.manual_seed(seed)
        r = random.Random(seed)
        self.steps, self.reads = nn.ModuleList(), []
        self.values = [torch.zeros(2, 3, SIZE, SIZE)]
        stem = nn.Conv2d(3, r.choice([6, 8, 12]), 3, r.choice([1, 2]), 1)
        self.add(Step("stem", apply, stem), 0)
        kinds = [k for k in KINDS if not exported or k not in (standardised, residual)]
        for _ in range(r.randint(5, 24)):
            self.grow(r, r.choice(kinds), exported)
        self.end(r)

    def add(self, step, *reads):
        with torch.no_grad():
            y = step(*(self.values[i] for i in reads))
        if y.dim() != 4 or y.numel() > LARGEST * 2 or not y.numel():
            return
        self.values.append(y)
        self.steps.append(step)
        self.reads.append(reads)

    def grow(self, r, kind, exported):
        """A step that reads one of the last values, sometimes an early one."""
        first = max(1, len(self.values) - 1 - int(r.expovariate(0.7)))
        x = self.values[first]
        step = kind(r, *x.shape[1:])
        if not step or (exported and any(isinstance(part, nn.BatchNorm2d) for part in step.modules())):
            return
        others = [i for i in range(1, len(self.values)) if self.values[i].shape == x.shape and i != first]
        if step.pair and not others:
            return
        try:
            self.add(step, first, *([r.choice(others)] if step.pair else []))
        except (RuntimeError, ValueError):
            pass  # a kernel that is larger than the image, and the like

    def end(self, r):
        last = len(self.values) - 1
        self.tops = [(r.choice(list(HEADS)), i) for i in [last] + r.choices(range(1, last + 1), k=r.randint(0, 2))]
        self.tops = [("mean" if kind == "flat" and self.values[i][0].numel() > 4096 else kind, i) for kind, i in self.tops]
        needed = {i for _, i in self.tops}
        for i in range(last, 0, -1):
            if i in needed:
                needed |= set(self.reads[i - 1])
        place = {old: new for new, old in enumerate(sorted(needed | {0}))}
        kept = [i for i in range(last) if i + 1 in needed]
        width = sum(HEADS[kind](self.values[i]).shape[1] for kind, i in self.tops)
        self.steps = nn.ModuleList(self.steps[i] for i in kept)
        self.reads = [tuple(place[k] for k in self.reads[i]) for i in kept]
        self.tops = [(kind, place[i]) for kind, i in self.tops]
        self.head = nn.Linear(width, 10)
        del self.values

    def forward(self, x):
        values = [x]
        for step, reads in zip(self.steps, self.reads):
            values.append(step(*(values[i] for i in reads)))
        return self.head(torch.cat([HEADS[kind](values[i]) for kind, i in self.tops], 1))

    def text(self):
        lines = [f"{i + 1}: {step.name} of {', '.join(map(str, reads))}" for i, (step, reads) in enumerate(zip(self.steps, self.reads))]
        return "\n".join(lines + [f"head: {self.tops}"]) + "\n"


def main():
    exported = "--exported" in sys.argv
    exporter = EXPORTED if exported else dict(EXPORTED, optimize=False) if "--whole" in sys.argv else TRACED
    names = [a for a in sys.argv[1:] if not a.startswith("--")]
    if len(names) != 3:
        sys.exit(__doc__)
    warnings.filterwarnings("ignore")
    os.makedirs(names[2], exist_ok=True)
    for seed in range(int(names[0]), int(names[1])):
        path = os.path.join(names[2], str(seed))
        try:
            network = Network(seed, exported)
            write_pair(lambda: network, path, exporter, size=(SIZE, SIZE))
            with open(path + ".txt", "w") as text:
                text.write(network.text())
        except Exception as error:  # what PyTorch cannot export
            print(f"{seed}: not exported: {str(error).splitlines()[0][:100]}", flush=True)


main()
