#!/usr/bin/env python3
"""Draws runs of ResNet-50 on CIFAR-10 over the reference curves of PyTorch.

usage: plot-cifar-curve.py CURVE.json OUT.png NAME=RUN_FOLDER...      needs matplotlib

CURVE.json holds, for "fp32" and "bf16", one list a seed of [training loss, test accuracy] by epoch
(pytorch-cifar-curve.py makes it). Runs of the same name get the same colour.
"""
import json
import sys

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt


def read_run(folder):
    """Mean training loss and top-1 accuracy of each epoch."""
    losses, accuracy, done = {}, {}, 0
    with open(f'{folder}/metrics.jsonl') as lines:
        for line in lines:
            record = json.loads(line)
            if 'top1' in record:
                accuracy[record['epoch']] = record['top1']
            elif 'loss' in record:
                steps, done = record['step'] - done, record['step']
                losses.setdefault(record['epoch'], []).append((record['loss'], steps))
    epochs = sorted(accuracy)
    mean = [sum(l * n for l, n in losses[e]) / sum(n for _, n in losses[e]) for e in epochs]
    return epochs, mean, [accuracy[e] for e in epochs]


def main():
    reference, out, runs = sys.argv[1], sys.argv[2], sys.argv[3:]
    with open(reference) as file:
        curves = json.load(file)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), dpi=100)
    for kind, colour in (('fp32', '0.6'), ('bf16', '0.8')):
        for number, seed in enumerate(curves[kind]):
            epochs = range(1, len(seed) + 1)
            for axis, column in zip(axes, (0, 1)):
                axis.plot(epochs, [point[column] for point in seed], color=colour, linewidth=1,
                          label=f'PyTorch {kind}' if number == 0 else None)
    colours = {}
    for run in runs:
        name, folder = run.split('=', 1)
        epochs, loss, accuracy = read_run(folder)
        label = name if name not in colours else None
        colour = colours.setdefault(name, f'C{len(colours)}')
        for axis, values in zip(axes, (loss, accuracy)):
            axis.plot(epochs, values, marker='o', markersize=2, linewidth=1, color=colour, label=label)
        print(f'{name}: epoch {epochs[-1]}, loss {loss[-1]:.3f}, accuracy {accuracy[-1]:.3f}')
    axes[0].axhline(2.15, color='red', linestyle=':', linewidth=1)
    axes[1].axhline(0.34, color='red', linestyle=':', linewidth=1)
    axes[0].set(title='mean training loss', xlabel='epoch')
    axes[1].set(title='test accuracy', xlabel='epoch')
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(out)


if __name__ == '__main__':
    main()
