#!/usr/bin/env python3
"""Trains networks from one ONNX file by xtrain and by PyTorch with the same recipe, and prints the accuracy of both.

usage: accuracy-against-torch.py DATA [--networks resnet18,mobilenet_v3_small,reader] [--seeds 3] [--first-seed 0]
                                      [--amp f32|bf16] [--epochs N] [--threads 2] [--xtrain build/xtrain]
DATA holds cifar10/{train,test}/CLASS/*.jpg and plates/{train,val}/LABEL.jpg.   needs torch, torchvision, onnx and Pillow

A seed's network is made and written by PyTorch; both programs begin with those weights and see the same pixels, in another
order. The last epoch counts. No augmentation, constant learning rate: SGD 0.01 with momentum for CIFAR-10 at 32x32, Adam
0.001 for `reader`, a small reader of plates with CTC. Each seed is a line on stderr as it ends.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
import torchvision
from PIL import Image

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


class Classes:
    """Ten classes of 32x32 pictures."""
    options = ['--image-size', '32', '--batch', '128', '--optim', 'sgd', '--lr', '0.01', '--momentum', '0.9']
    epochs, batch = 10, 128

    def __init__(self, data, name, _):
        self.train, self.test = f'{data}/cifar10/train', f'{data}/cifar10/test'
        self.network, self.shape = getattr(torchvision.models, name), (3, 32, 32)

    def make(self):
        return self.network(num_classes=10)

    def optimizer(self, net):
        return torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)

    def load(self, folder):
        paths = files(folder)
        names = sorted({path.split('/')[-2] for path in paths})
        return pixels(paths), torch.tensor([names.index(path.split('/')[-2]) for path in paths])

    def loss(self, output, y):
        return F.cross_entropy(output, y)

    def right(self, output, y):
        return (output.argmax(1) == y).sum().item()


class Plates:
    """Plates as strings, resized once for both programs."""
    epochs, batch = 60, 32

    def __init__(self, data, _, work):
        self.shape = (3, 24, 94)
        for part in ('train', 'val'):
            os.makedirs(f'{work}/{part}', exist_ok=True)
            for path in files(f'{data}/plates/{part}'):
                name = os.path.splitext(os.path.basename(path))[0]
                Image.open(path).convert('RGB').resize((94, 24), Image.BILINEAR).save(f'{work}/{part}/{name}.png')
        self.train, self.test = f'{work}/train', f'{work}/val'
        with open(f'{work}/alphabet.txt', 'w') as file:
            file.write('\n'.join(SYMBOLS) + '\n')
        self.options = ['--alphabet', f'{work}/alphabet.txt', '--batch', '32', '--optim', 'adam', '--lr', '0.001']

    def make(self):
        return Reader()

    def optimizer(self, net):
        return torch.optim.Adam(net.parameters(), 0.001)

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


def by_torch(task, net, args):
    x, y = task.load(task.train)
    test_x, test_y = task.load(task.test)
    optim = task.optimizer(net)

    def answer(part):
        with torch.autocast('cpu', torch.bfloat16, enabled=args.amp == 'bf16'):
            return net(part).float()

    for _ in range(args.epochs or task.epochs):
        net.train()
        order = torch.randperm(len(x))
        for i in range(len(x) // task.batch):
            batch = order[i * task.batch:(i + 1) * task.batch]
            optim.zero_grad()
            task.loss(answer(x[batch]), y[batch]).backward()
            optim.step()
    net.eval()
    with torch.no_grad():
        return sum(task.right(answer(a), b) for a, b in zip(test_x.split(250), test_y.split(250))) / len(test_y)


def by_xtrain(task, onnx, seed, args, work):
    command = [args.xtrain, 'train', '--model', onnx, '--data', task.train, '--val', task.test, '--normalize', 'half',
               '--no-augment', '--no-flip', '--jitter', '0', '--weight-decay', '0', '--sched', 'constant', '--warmup', '0',
               '--label-smoothing', '0', '--clip', '0', '--ema', '0', '--threads', str(args.threads), '--amp', args.amp,
               '--epochs', str(args.epochs or task.epochs), '--eval-every', '0', '--seed', str(seed), '--json',
               '--out', f'{work}/run-{seed}'] + task.options
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
    parser.add_argument('--epochs', type=int)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--xtrain', default='build/xtrain')
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print('| network | xtrain, mean (each) | PyTorch, mean (each) |\n|---|---|---|', flush=True)
    for name in args.networks.split(','):
        with tempfile.TemporaryDirectory() as work:
            task = (Plates if name == 'reader' else Classes)(args.data, name, work)
            ours, theirs = [], []
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                torch.manual_seed(seed)
                net = task.make().train()
                torch.onnx.export(net, torch.randn(2, *task.shape), f'{work}/net.onnx', dynamo=False,
                                  training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=17,
                                  input_names=['input'], output_names=['logits'],
                                  dynamic_axes={'input': {0: 'n'}, 'logits': {0: 'n'}})
                start = {key: value.clone() for key, value in net.state_dict().items()}
                ours.append(by_xtrain(task, f'{work}/net.onnx', seed, args, work))
                net.load_state_dict(start)
                theirs.append(by_torch(task, net, args))
                print(f'{name}, seed {seed}: xtrain {ours[-1]:.3f}, PyTorch {theirs[-1]:.3f}', file=sys.stderr, flush=True)
            print(f'| {name} {args.amp} |', ' | '.join(
                f'{statistics.mean(all_):.3f} ({", ".join(f"{one:.3f}" for one in all_)})' for all_ in (ours, theirs)), '|', flush=True)


if __name__ == '__main__':
    main()
