#!/usr/bin/env python3
"""Trains ResNet-50 on CIFAR-10 by PyTorch, with the settings of xtrain's learning run.

usage: pytorch-cifar-curve.py CIFAR_FOLDER SEEDS OUT.json      needs torch, torchvision; a GPU helps

CIFAR_FOLDER holds train/CLASS/*.jpg and test/CLASS/*.jpg; SEEDS is how many. OUT.json holds, for
"fp32" and "bf16" (autocast), one list a seed of [training loss, test accuracy] by epoch.
"""
import json
import sys

import torch
import torch.nn.functional as F
import torchvision

EPOCHS, BATCH = 10, 128
device = 'cuda' if torch.cuda.is_available() else 'cpu'


def load(folder):
    images = torchvision.datasets.ImageFolder(folder, torchvision.transforms.PILToTensor())
    pixels = torch.stack([image for image, _ in images])
    return (pixels.float() / 127.5 - 1).to(device), torch.tensor(images.targets, device=device)


def train_epoch(net, optim, x, y, cast):
    net.train()
    order = torch.randperm(len(x), device=device)
    steps = len(x) // BATCH
    total = 0
    for i in range(steps):
        batch = order[i * BATCH:(i + 1) * BATCH]
        optim.zero_grad()
        with cast():
            loss = F.cross_entropy(net(x[batch]).float(), y[batch])
        loss.backward()
        optim.step()
        total += loss.item()
    return total / steps


def evaluate(net, x, y, cast):
    net.eval()
    with torch.no_grad(), cast():
        answers = torch.cat([net(part).argmax(1) for part in x.split(250)])
    return (answers == y).float().mean().item()


def main():
    folder, seeds, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    x, y = load(f'{folder}/train')
    test_x, test_y = load(f'{folder}/test')
    curves = {'fp32': [], 'bf16': []}
    for kind in curves:
        def cast():
            return torch.autocast(device, torch.bfloat16, enabled=kind == 'bf16')
        for seed in range(seeds):
            torch.manual_seed(seed)
            net = torchvision.models.resnet50(num_classes=10).to(device)
            optim = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
            curves[kind].append([[round(train_epoch(net, optim, x, y, cast), 4),
                                  round(evaluate(net, test_x, test_y, cast), 4)] for _ in range(EPOCHS)])
            print(kind, seed, *curves[kind][-1][-1], flush=True)
    with open(out, 'w') as file:
        json.dump(curves, file)


if __name__ == '__main__':
    main()
