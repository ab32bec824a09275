#!/usr/bin/env python3
"""Times training steps of xtrain and of PyTorch, alternating, and prints their medians.

usage: against-torch.py NETWORK[,...] [--batch 16] [--size 224] [--amp f32|bf16] [--threads 2] [--turns 3] [--steps 6]
                        [--isa avx2] [--xtrain build/xtrain]    needs torch and torchvision
NETWORK is a name in both xtrain and torchvision, an ONNX file named as in torchvision (convnext_tiny.onnx), lprnet
(24x94 whatever --size says), or crnn (Shi et al. 2017: convolutions and two LSTMs in both directions, 32x128; exported
first, which needs onnx)

A turn is one process of each. PyTorch's step: zero the gradients, forward (autocast for bf16), cross entropy, backward,
a fused SGD; channels-last. LPRNet's and CRNN's: CTC in
float32, clip_grad_norm_, a fused AdamW. Images are random and in memory;
the first steps of each are not counted. Peak memory is that of the process; PyTorch's holds its library too (given
behind the slash: without what it held before the first step). --isa avx2 holds both programs and their oneDNN to AVX2.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def lprnet(torch, classes):
    """As published, the 3-D max pools written as a stride over the channels and a 2-D pool."""
    nn = torch.nn

    class Pool(nn.MaxPool2d):
        def __init__(self, every, stride):
            super().__init__(3, (1, stride))
            self.every = every

        def forward(self, x):
            return super().forward(x[:, ::self.every])

    def block(inputs, outputs):
        inner = outputs // 4
        return nn.Sequential(nn.Conv2d(inputs, inner, 1), nn.ReLU(), nn.Conv2d(inner, inner, (3, 1), padding=(1, 0)),
                             nn.ReLU(), nn.Conv2d(inner, inner, (1, 3), padding=(0, 1)), nn.ReLU(),
                             nn.Conv2d(inner, outputs, 1), nn.BatchNorm2d(outputs), nn.ReLU())

    def conv(inputs, outputs, kernel):
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel), nn.BatchNorm2d(outputs), nn.ReLU())

    class LPRNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.stages = nn.ModuleList([
                conv(3, 64, 3), nn.Sequential(Pool(1, 1), block(64, 128)),
                nn.Sequential(Pool(2, 2), block(64, 256), block(256, 256)),
                nn.Sequential(Pool(4, 2), nn.Dropout(), conv(64, 256, (1, 4)), nn.Dropout(),
                              conv(256, classes, (13, 1)))])
            self.pools = nn.ModuleList([nn.AvgPool2d(5), nn.AvgPool2d(5), nn.AvgPool2d((4, 10), (4, 2)), nn.Identity()])
            self.container = nn.Conv2d(448 + classes, classes, 1)

        def forward(self, x):
            taps = []
            for stage, pool in zip(self.stages, self.pools):
                x = stage(x)
                tap = pool(x)
                taps.append(tap / tap.square().mean())
            return self.container(torch.cat(taps, 1)).mean(2)

    return LPRNet()


def crnn(torch, classes):
    """Batch norms as published, the last convolution's too."""
    nn = torch.nn

    def conv(inputs, outputs, norm=False, kernel=3, pad=1):
        return [nn.Conv2d(inputs, outputs, kernel, 1, pad), *([nn.BatchNorm2d(outputs)] if norm else []), nn.ReLU()]

    class CRNN(nn.Module):
        def __init__(self):
            super().__init__()
            self.cnn = nn.Sequential(
                *conv(3, 64), nn.MaxPool2d(2), *conv(64, 128), nn.MaxPool2d(2), *conv(128, 256, True), *conv(256, 256),
                nn.MaxPool2d(2, (2, 1), (0, 1)), *conv(256, 512, True), *conv(512, 512), nn.MaxPool2d(2, (2, 1), (0, 1)),
                *conv(512, 512, True, 2, 0))
            self.rnn = nn.LSTM(512, 256, 2, bidirectional=True)
            self.fc = nn.Linear(512, classes)

        def forward(self, x):
            return self.fc(self.rnn(self.cnn(x).squeeze(2).permute(2, 0, 1))[0])

    return CRNN()


CLASSES = 68


def export_crnn(path):
    import torch
    net = crnn(torch, CLASSES).train()
    torch.onnx.export(net, torch.randn(2, 3, 32, 128), path, training=torch.onnx.TrainingMode.TRAINING, dynamo=False,
                      do_constant_folding=False, opset_version=17, input_names=['input'], output_names=['logits'],
                      dynamic_axes={'input': {0: 'n'}, 'logits': {1: 'n'}})


def torch_task(torch, args):
    """The network, a batch, its loss by logits, and the update."""
    if args.network in ('lprnet', 'crnn'):
        is_lprnet = args.network == 'lprnet'
        steps, symbols = 18 if is_lprnet else 33, 7
        net = (lprnet if is_lprnet else crnn)(torch, CLASSES)
        optim = torch.optim.AdamW(net.parameters(), lr=1e-6, fused=True)
        labels = torch.randint(CLASSES - 1, (args.batch, symbols))
        lengths = [torch.full((args.batch,), length) for length in (steps, symbols)]

        def loss(logits):
            scores = (logits.permute(2, 0, 1) if is_lprnet else logits).log_softmax(2)
            return torch.nn.functional.ctc_loss(scores, labels, *lengths, blank=CLASSES - 1)

        def update():
            torch.nn.utils.clip_grad_norm_(net.parameters(), 5)
            optim.step()

        return net, torch.randn(args.batch, 3, *((24, 94) if is_lprnet else (32, 128))), loss, update, optim
    import torchvision
    net = getattr(torchvision.models, os.path.splitext(os.path.basename(args.network))[0])()
    optim = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9, fused=True)
    labels = torch.randint(1000, (args.batch,))
    return (net, torch.randn(args.batch, 3, args.size, args.size),
            lambda logits: torch.nn.functional.cross_entropy(logits, labels), optim.step, optim)


def torch_steps(args):
    import torch
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    net, x, loss, update, optim = torch_task(torch, args)
    net.to(memory_format=torch.channels_last).train()
    x = x.to(memory_format=torch.channels_last)
    before = peak_mb()
    times = []
    for _ in range(args.steps + 3):
        began = time.time()
        optim.zero_grad()
        with torch.autocast('cpu', torch.bfloat16, enabled=args.amp == 'bf16'):
            logits = net(x)
        loss(logits.float()).backward()
        update()
        times.append(time.time() - began)
    print(json.dumps({'ms': 1e3 * statistics.median(times[3:]), 'peak': peak_mb(), 'own': peak_mb() - before}))


# The variables that oneDNN, ATen and MKL read.
ISA = {'avx2': {'ONEDNN_MAX_CPU_ISA': 'AVX2', 'ATEN_CPU_CAPABILITY': 'avx2', 'MKL_ENABLE_INSTRUCTIONS': 'AVX2'}}


def run(command, isa):
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ISA.get(isa, {})})
    if done.returncode or not done.stdout.strip():
        sys.exit(f'{" ".join(command)}: {done.stderr.strip()}')
    return json.loads(done.stdout)


def turn(args, network, model):
    size = [] if network in ('lprnet', 'crnn') else ['--classes', '1000', '--image-size', str(args.size)]
    bench = run([args.xtrain, 'bench', 'step', '--model', model, *size, '--batch', str(args.batch), '--amp', args.amp,
                 '--threads', str(args.threads), '--steps', str(args.steps), '--json'], args.isa)
    torch = run([sys.executable, __file__, network, '--torch', '--batch', str(args.batch), '--size', str(args.size),
                 '--amp', args.amp, '--threads', str(args.threads), '--steps', str(args.steps)], args.isa)
    return bench, torch


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('network')
    parser.add_argument('--amp', default='f32', choices=['f32', 'bf16'])
    parser.add_argument('--isa', choices=list(ISA))
    parser.add_argument('--xtrain', default='build/xtrain')
    parser.add_argument('--torch', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--export', help=argparse.SUPPRESS)
    for name, value in (('batch', 16), ('size', 224), ('threads', 2), ('turns', 3), ('steps', 6)):
        parser.add_argument(f'--{name}', type=int, default=value)
    args = parser.parse_args()
    if args.torch:
        torch_steps(args)
        return
    if args.export:
        export_crnn(args.export)
        return
    print('| network | xtrain ms | PyTorch ms | ratio (of single turns) | first step s | peak MB | PyTorch peak MB |')
    print('|---|---|---|---|---|---|---|')
    for network in args.network.split(','):
        with tempfile.TemporaryDirectory() as folder:
            model = network
            if network == 'crnn':
                model = os.path.join(folder, 'crnn.onnx')
                subprocess.run([sys.executable, __file__, network, '--export', model], check=True, capture_output=True)
            turns = [turn(args, network, model) for _ in range(args.turns)]
        ours = statistics.median(t[0]['step_ms'] for t in turns)
        theirs = statistics.median(t[1]['ms'] for t in turns)
        ratios = sorted(t[1]['ms'] / t[0]['step_ms'] for t in turns)
        first = statistics.median(t[0]['first_step_seconds'] for t in turns)
        peak = max(t[0]['peak_rss_mb'] for t in turns)
        print(f'| {network} {args.amp} | {ours:.0f} | {theirs:.0f} | '
              f'{theirs / ours:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) | {first:.1f} | {peak:.0f} | '
              f'{max(t[1]["peak"] for t in turns):.0f} / {max(t[1]["own"] for t in turns):.0f} |', flush=True)


if __name__ == '__main__':
    main()
