#!/usr/bin/env python3
"""Times training steps of xtrain and of PyTorch, alternating, and prints their medians.

usage: against-torch.py NETWORK[,...] [--batch 16] [--size 224] [--amp f32|bf16] [--threads 2] [--turns 3] [--steps 6]
                        [--xtrain build/xtrain]          needs torch and torchvision; NETWORK is a name in both

A turn is one process of each. PyTorch's step: zero the gradients, forward (autocast for bf16), cross entropy, backward,
a fused SGD; channels-last. Images are random and in memory; the first steps of each are not counted. Peak memory is that
of the process; PyTorch's holds its library too (given behind the slash: without what it held before the first step).
"""
import argparse
import json
import resource
import statistics
import subprocess
import sys
import time


def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def torch_steps(args):
    import torch
    import torchvision
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    net = getattr(torchvision.models, args.network)().to(memory_format=torch.channels_last).train()
    optim = torch.optim.SGD(net.parameters(), lr=1e-6, momentum=0.9, fused=True)
    x = torch.randn(args.batch, 3, args.size, args.size).to(memory_format=torch.channels_last)
    y = torch.randint(1000, (args.batch,))
    before = peak_mb()
    times = []
    for _ in range(args.steps + 3):
        began = time.time()
        optim.zero_grad()
        with torch.autocast('cpu', torch.bfloat16, enabled=args.amp == 'bf16'):
            loss = torch.nn.functional.cross_entropy(net(x).float(), y)
        loss.backward()
        optim.step()
        times.append(time.time() - began)
    print(json.dumps({'ms': 1e3 * statistics.median(times[3:]), 'peak': peak_mb(), 'own': peak_mb() - before}))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        sys.exit(f'{" ".join(command)}: {done.stderr.strip()}')
    return json.loads(done.stdout)


def turn(args, network):
    bench = run([args.xtrain, 'bench', 'step', '--model', network, '--classes', '1000', '--batch', str(args.batch),
                 '--image-size', str(args.size), '--amp', args.amp, '--threads', str(args.threads),
                 '--steps', str(args.steps), '--json'])
    torch = run([sys.executable, __file__, network, '--torch', '--batch', str(args.batch), '--size', str(args.size),
                 '--amp', args.amp, '--threads', str(args.threads), '--steps', str(args.steps)])
    return bench, torch


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('network')
    parser.add_argument('--amp', default='f32', choices=['f32', 'bf16'])
    parser.add_argument('--xtrain', default='build/xtrain')
    parser.add_argument('--torch', action='store_true', help=argparse.SUPPRESS)
    for name, value in (('batch', 16), ('size', 224), ('threads', 2), ('turns', 3), ('steps', 6)):
        parser.add_argument(f'--{name}', type=int, default=value)
    args = parser.parse_args()
    if args.torch:
        torch_steps(args)
        return
    print('| network | xtrain ms | PyTorch ms | ratio (of single turns) | first step s | peak MB | PyTorch peak MB |')
    print('|---|---|---|---|---|---|---|')
    for network in args.network.split(','):
        turns = [turn(args, network) for _ in range(args.turns)]
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
