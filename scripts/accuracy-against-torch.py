#!/usr/bin/env python3
"""Trains networks from one ONNX file by xtrain and by PyTorch with the same recipe, and prints the accuracy of both.

usage: accuracy-against-torch.py DATA [--networks resnet18,mobilenet_v3_small,reader] [--seeds 3] [--first-seed 0]
                                      [--amp f32|bf16] [--threads 2] [--xtrain build/xtrain]
DATA holds cifar10/{train,test}/CLASS/*.jpg and plates/{train,val}/LABEL.jpg.   needs torch, torchvision, onnx and Pillow

A seed's network is made and written by PyTorch; both programs begin with those weights and see the same pixels, in another
order. The last epoch counts. RECIPES holds what differs by network; common are a rate that rises over the first steps and
falls by half a cosine, gradients clipped by their norm, no weight decay, no augmentation. `reader` is a small reader of
plates with CTC. Each seed is a line on stderr as it ends.
"""
import argparse
import collections
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.nn.functional as F
import torchvision
from PIL import Image

warnings.filterwarnings('ignore', module='torch.onnx')
Recipe = collections.namedtuple('Recipe', 'optim lr epochs batch size')
RECIPES = {'resnet18': Recipe('sgd', 0.05, 10, 128, (32, 32)),
           'mobilenet_v3_small': Recipe('adam', 0.003, 15, 128, (64, 64)),
           'reader': Recipe('adam', 0.01, 40, 16, (24, 94))}
WARMUP, CLIP, MOMENTUM = 0.1, 5, 0.9

# The mainland's symbols, CTC's blank last.
PROVINCES = '京沪津渝冀晋蒙辽吉黑苏浙皖闽赣鲁豫鄂湘粤桂琼川贵云藏陕甘青宁新'
SYMBOLS = list(PROVINCES + '0123456789ABCDEFGHJKLMNPQRSTUVWXYZIO') + ['-']


class Reader(torch.nn.Module):
    """[n][3][24][94] to [n][symbols][24]: depthwise-separable blocks, the height averaged at the end."""

    def __init__(self):
        super().__init__()
        layers, width = [], 3
        for out, stride in ((32, (1, 2)), (64, (2, 1)), (64, (1, 1)), (128, (2, 2)), (128, (1, 1)), (128, (2, 1))):
            layers += [torch.nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False) if width > 3 else
                       torch.nn.Conv2d(3, 3, 3, stride, 1, bias=False), torch.nn.BatchNorm2d(width),
                       torch.nn.Conv2d(width, out, 1, bias=False), torch.nn.BatchNorm2d(out), torch.nn.SiLU()]
            width = out
        self.features = torch.nn.Sequential(*layers)
        self.head = torch.nn.Conv2d(width, len(SYMBOLS), 1)

    def forward(self, x):
        return self.head(self.features(x)).mean(2)


def files(folder):
    return sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names)


def pixels(paths):
    images = [torchvision.transforms.functional.pil_to_tensor(Image.open(path).convert('RGB')) for path in paths]
    return torch.stack(images).float() / 127.5 - 1


def resize(source, folder, size):
    """Writes the pictures of a folder at the size [height, width] that both programs read."""
    for path in files(source):
        name = os.path.splitext(os.path.join(folder, os.path.relpath(path, source)))[0]
        os.makedirs(os.path.dirname(name), exist_ok=True)
        Image.open(path).convert('RGB').resize(size[::-1], Image.BILINEAR).save(f'{name}.png')


class Classes:
    """Pictures of ten classes."""
    parts, options = ('cifar10/train', 'cifar10/test'), []

    def __init__(self, name, size, _):
        self.network = getattr(torchvision.models, name)
        self.options = ['--image-size', str(size[0])]

    def make(self):
        net = self.network(num_classes=10)
        for layer in net.modules():    # MobileNetV3's 0.01 is for long trainings: after 600 steps averages would lag behind
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.momentum = 0.1
        return net

    def load(self, folder):
        paths = files(folder)
        names = sorted({path.split('/')[-2] for path in paths})
        return pixels(paths), torch.tensor([names.index(path.split('/')[-2]) for path in paths])

    def loss(self, output, y):
        return F.cross_entropy(output, y)

    def right(self, output, y):
        return (output.argmax(1) == y).sum().item()


class Plates:
    """Plates as strings."""
    parts = 'plates/train', 'plates/val'

    def __init__(self, _, size, work):
        with open(f'{work}/alphabet.txt', 'w') as file:
            file.write('\n'.join(SYMBOLS) + '\n')
        self.options = ['--alphabet', f'{work}/alphabet.txt']

    def make(self):
        return Reader()

    def load(self, folder):
        paths = files(folder)
        labels = [os.path.splitext(os.path.basename(path))[0].split('_')[0] for path in paths]
        rows = [[SYMBOLS.index(symbol) for symbol in label] for label in labels]
        return pixels(paths), torch.tensor([row + [-1] * (8 - len(row)) for row in rows])

    def loss(self, output, y):
        lengths = (y >= 0).sum(1)
        steps = torch.full((len(y),), output.shape[2])
        return F.ctc_loss(output.permute(2, 0, 1).log_softmax(2), y[y >= 0], steps, lengths, blank=len(SYMBOLS) - 1)

    def right(self, output, y):
        hits = 0
        for best, label in zip(output.argmax(1).tolist(), y.tolist()):
            read = [s for s, before in zip(best, [None] + best) if s != before and s != len(SYMBOLS) - 1]
            hits += read == [s for s in label if s >= 0]
        return hits


def rate(step, steps):
    """The part of the highest rate at a step: xtrain's --sched cosine with --warmup."""
    warm = round(WARMUP * steps)
    return (step + 1) / warm if step < warm else (1 + math.cos(math.pi * (step - warm) / (steps - warm))) / 2


def by_torch(task, recipe, net, args, work):
    x, y = task.load(f'{work}/train')
    test_x, test_y = task.load(f'{work}/test')
    optim = (torch.optim.SGD(net.parameters(), recipe.lr, MOMENTUM) if recipe.optim == 'sgd' else
             torch.optim.Adam(net.parameters(), recipe.lr))
    steps = len(x) // recipe.batch
    schedule = torch.optim.lr_scheduler.LambdaLR(optim, lambda step: rate(step, recipe.epochs * steps))

    def answer(part):
        with torch.autocast('cpu', torch.bfloat16, enabled=args.amp == 'bf16'):
            return net(part).float()

    for _ in range(recipe.epochs):
        net.train()
        order = torch.randperm(len(x))
        for i in range(steps):
            batch = order[i * recipe.batch:(i + 1) * recipe.batch]
            optim.zero_grad()
            task.loss(answer(x[batch]), y[batch]).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), CLIP)
            optim.step()
            schedule.step()
    net.eval()
    with torch.no_grad():
        return sum(task.right(answer(a), b) for a, b in zip(test_x.split(250), test_y.split(250))) / len(test_y)


def by_xtrain(task, recipe, onnx, seed, args, work):
    command = [args.xtrain, 'train', '--model', onnx, '--data', f'{work}/train', '--val', f'{work}/test',
               '--normalize', 'half', '--no-augment', '--no-flip', '--jitter', '0', '--label-smoothing', '0', '--ema', '0',
               '--optim', recipe.optim, '--lr', str(recipe.lr), '--momentum', str(MOMENTUM), '--weight-decay', '0',
               '--sched', 'cosine', '--min-lr', '0', '--warmup', str(WARMUP), '--clip', str(CLIP),
               '--epochs', str(recipe.epochs), '--batch', str(recipe.batch), '--amp', args.amp, '--threads', str(args.threads),
               '--seed', str(seed), '--eval-every', '0', '--json', '--out', f'{work}/run-{seed}'] + task.options
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f'{" ".join(command)}: {done.stderr.strip()}')
    return json.loads(done.stdout)['accuracy']


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('data')
    parser.add_argument('--networks', default='resnet18,mobilenet_v3_small,reader')
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--first-seed', type=int, default=0)
    parser.add_argument('--amp', default='f32', choices=('f32', 'bf16'))
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--xtrain', default='build/xtrain')
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print('| network | xtrain, mean (each) | PyTorch, mean (each) |\n|---|---|---|', flush=True)
    for name in args.networks.split(','):
        with tempfile.TemporaryDirectory() as work:
            recipe = RECIPES[name]
            task = (Plates if name == 'reader' else Classes)(name, recipe.size, work)
            for source, part in zip(task.parts, ('train', 'test')):
                resize(f'{args.data}/{source}', f'{work}/{part}', recipe.size)
            ours, theirs = [], []
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                torch.manual_seed(seed)
                net = task.make().train()
                torch.onnx.export(net, torch.randn(2, 3, *recipe.size), f'{work}/net.onnx', dynamo=False,
                                  training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=17,
                                  input_names=['input'], output_names=['logits'],
                                  dynamic_axes={'input': {0: 'n'}, 'logits': {0: 'n'}})
                start = {key: value.clone() for key, value in net.state_dict().items()}
                ours.append(by_xtrain(task, recipe, f'{work}/net.onnx', seed, args, work))
                net.load_state_dict(start)
                theirs.append(by_torch(task, recipe, net, args, work))
                print(f'{name}, seed {seed}: xtrain {ours[-1]:.3f}, PyTorch {theirs[-1]:.3f}', file=sys.stderr, flush=True)
            print(f'| {name} {args.amp} |', ' | '.join(
                f'{statistics.mean(all_):.3f} ({", ".join(f"{one:.3f}" for one in all_)})' for all_ in (ours, theirs)), '|', flush=True)


if __name__ == '__main__':
    main()
