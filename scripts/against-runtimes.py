#!/usr/bin/env python3
"""Times inference of xtrain, OpenVINO and ONNX Runtime, alternating, and prints their medians.

usage: against-runtimes.py WEIGHTS IMAGES [--batch 1,32] [--amp f32,bf16,int8] [--threads 2] [--turns 5] [--seconds 2]
                           [--shared] [--xtrain build/xtrain]     needs numpy, onnxruntime and openvino; IMAGES give int8's ranges

A turn is one process of each, from bytes in memory to logits. xtrain runs the weights by `bench infer`; the others run
what `xtrain export --with-preprocess --fixed-batch` writes of them; for bf16 the float32 model, which OpenVINO is told to
run in bf16 and ONNX Runtime, without bf16 on CPUs, in float32. A process's figure is the median of its passes, the
first ones left out; p99 is that of all its passes. xtrain's p99 is of another process, by its Python module, from pixels
to answers: decoding the logits and making Python's objects are part of it.
--shared: all three in one process (xtrain by its Python module, libxtrain.so.1 beside --xtrain), batch 1, float32: each
called again and again while the others are loaded and idle, then each in turn, when the others' threads still wait.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def module_of(args):
    sys.path.insert(0, os.path.join(os.path.dirname(__file__), '../python'))
    os.environ.setdefault('XTRAIN_LIBRARY', os.path.join(os.path.dirname(args.xtrain), 'libxtrain.so.1'))
    import xtrain
    return xtrain


def passes_of(args, peer):
    if peer == 'xtrain':
        network = module_of(args).Network(args.weights, type=args.amp, threads=args.threads, batch=int(args.batch),
                                          calibrate=args.images if args.amp == 'int8' else None)
        width, height = network.image_size
        return [int(args.batch), height, width, 3], network.read_many
    if peer == 'openvino':
        import openvino
        model = openvino.Core().compile_model(args.model, 'CPU', {
            'INFERENCE_NUM_THREADS': args.threads, 'PERFORMANCE_HINT': 'LATENCY', 'NUM_STREAMS': 1,
            'INFERENCE_PRECISION_HINT': 'bf16' if args.amp == 'bf16' else 'f32'})
        request = model.create_infer_request()
        shape = list(model.input(0).shape)
        return shape, lambda images: request.infer({0: images}, share_inputs=True)
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(args.model, options, providers=['CPUExecutionProvider'])
    images = session.get_inputs()[0]
    return images.shape, lambda some: session.run(None, {images.name: some})


def run_peer(args):
    import numpy
    shape, infer = passes_of(args, args.peer)
    images = numpy.random.default_rng(0).integers(0, 256, shape, dtype=numpy.uint8)
    for _ in range(5):
        infer(images)
    times = []
    end = time.perf_counter() + args.seconds
    while len(times) < 5 or time.perf_counter() < end:
        began = time.perf_counter()
        infer(images)
        times.append(time.perf_counter() - began)
    times.sort()
    print(json.dumps({'ms': 1e3 * statistics.median(times), 'p99': 1e3 * times[int(0.99 * (len(times) - 1))]}))


def run_shared(args):
    import itertools
    import numpy
    xtrain = module_of(args)
    calls = {}
    shape, calls['openvino'] = passes_of(args, 'openvino')
    _, calls['onnxruntime'] = passes_of(args, 'onnxruntime')
    network = xtrain.Network(args.weights, model=args.model_name or None, threads=args.threads)
    calls['xtrain'] = lambda images: network.read(images[0])
    images = numpy.random.default_rng(0).integers(0, 256, shape, dtype=numpy.uint8)

    def timed(names, seconds):
        times = {name: [] for name in names}
        end = time.perf_counter() + seconds
        for name in itertools.cycle(names):
            began = time.perf_counter()
            calls[name](images)
            times[name].append(time.perf_counter() - began)
            if time.perf_counter() > end and min(map(len, times.values())) > 9:
                return {name: 1e3 * statistics.median(some[5:]) for name, some in times.items()}

    names = ['xtrain', 'openvino', 'onnxruntime']
    alone = {name: timed([name], args.seconds)[name] for name in names}
    print(json.dumps([alone, timed(names, 3 * args.seconds)]))


def compare_shared(args, folder):
    model = f'{folder}/shared.onnx'
    named = ['--model', args.model_name] if args.model_name else []
    run([args.xtrain, 'export', args.weights, model, '--with-preprocess', '--fixed-batch', '1', '--json', *named])
    turns = [run([sys.executable, __file__, args.weights, args.images, '--peer', 'shared', '--model', model, '--model-name',
                  args.model_name, '--threads', str(args.threads), '--seconds', str(args.seconds), '--xtrain', args.xtrain])
             for _ in range(args.turns)]
    print('                 xtrain  OpenVINO       ORT ms a picture   OpenVINO / xtrain   best peer / xtrain')
    for which, what in enumerate(('others idle', 'each in turn')):
        xtrain, openvino, ort = ([t[which][name] for t in turns] for name in ('xtrain', 'openvino', 'onnxruntime'))
        ratios = sorted(b / a for a, b in zip(xtrain, openvino))
        best = statistics.median(min(b, c) / a for a, b, c in zip(xtrain, openvino, ort))
        medians = ' '.join(f'{statistics.median(some):9.3f}' for some in (xtrain, openvino, ort))
        print(f'{what:13} {medians}                {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})   {best:.2f}')


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        sys.exit(f'{" ".join(command)}: {done.stdout.strip()} {done.stderr.strip()}')
    return json.loads(done.stdout.strip().splitlines()[-1])


def turn(args, model, kind, batch):
    bench = run([args.xtrain, 'bench', 'infer', args.weights, '--amp', kind, '--batch', str(batch), '--threads',
                 str(args.threads), '--steps', str(args.steps), '--json'])
    fused = [r for r in bench.get('runs', [bench]) if r['type'] == 'fused ' + kind]
    peers = [run([sys.executable, __file__, args.weights, args.images, '--peer', peer, '--model', model, '--amp', kind, '--batch',
                  str(batch), '--threads', str(args.threads), '--seconds', str(args.seconds), '--xtrain', args.xtrain])
             for peer in ('openvino', 'onnxruntime', 'xtrain')]
    return [fused[0]['pass_ms']] + [p['ms'] for p in peers[:2]] + [p['p99'] for p in peers]


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split('usage: ')[1].split('\n\n')[0])
    parser.add_argument('weights')
    parser.add_argument('images')
    for name, default in (('batch', '1,32'), ('amp', 'f32,int8'), ('threads', 2), ('turns', 5), ('steps', 12),
                          ('seconds', 2.0), ('xtrain', 'build/xtrain'), ('peer', ''), ('model', ''), ('model-name', '')):
        parser.add_argument('--' + name, default=default, type=type(default))
    parser.add_argument('--shared', action='store_true')
    args = parser.parse_args()
    if args.peer:
        return run_shared(args) if args.peer == 'shared' else run_peer(args)
    if args.shared:
        with tempfile.TemporaryDirectory() as folder:
            return compare_shared(args, folder)
    print(f'{"type":5} {"batch":>5} {"xtrain":>9} {"OpenVINO":>9} {"ORT":>9} ms a pass   best peer / xtrain   p99: OpenVINO, ORT, xtrain')
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.amp.split(','):
            for batch in args.batch.split(','):
                model = f'{folder}/{kind}-{batch}.onnx'
                run([args.xtrain, 'export', args.weights, model, '--with-preprocess', '--fixed-batch', batch, '--json',
                     '--amp', 'f32' if kind == 'bf16' else kind] + (['--calibrate', args.images] if kind == 'int8' else []))
                turns = [turn(args, model, kind, batch) for _ in range(args.turns)]
                xtrain, openvino, ort, *p99 = [statistics.median(column) for column in zip(*turns)]
                ratios = sorted(min(t[1], t[2]) / t[0] for t in turns)
                print(f'{kind:5} {batch:>5} {xtrain:9.3f} {openvino:9.3f} {ort:9.3f}             '
                      f'{min(openvino, ort) / xtrain:5.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})   '
                      f'{p99[0]:.2f} {p99[1]:.2f} {p99[2]:.2f}', flush=True)


if __name__ == '__main__':
    main()
