#!/usr/bin/env python3
"""Loads `xtrain serve` and a server around OpenVINO's Python API, alternating, and prints their medians.

usage: against-openvino.py WEIGHTS IMAGES [--model NAME] [--amp f32|bf16|int8] [--calibrate DIR] [--clients 1,16,64] [--turns 5]
                           [--seconds 3] [--cpus 0,1] [--client-cpus 0,1] [--xtrain build/xtrain]
                           needs openvino, numpy and Pillow

Both serve the same network and the same contract: a JPEG in by POST over HTTP/1.1, the text out as JSON. OpenVINO's runs
the model that `xtrain export --with-preprocess` writes (int8: --for openvino), with PERFORMANCE_HINT THROUGHPUT, a thread
and an infer request for each CPU; Pillow decodes, asyncio speaks HTTP. Clients are connections of one process, each with
one request on its way. CPU ms is the server's time for a request. Both servers stay up, on the same CPUs, and are
loaded one after the other, --turns times; what a client sees in the first half second of a turn does not count.
"""
import argparse
import glob
import json
import os
import random
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

WARM = 0.5


def serve(args):
    import asyncio
    import concurrent.futures
    import io
    import numpy
    import openvino
    from PIL import Image
    threads = len(args.cpus)
    model = openvino.Core().read_model(args.serve)
    meta = {key: model.get_rt_info(['framework', key]).astype(str) for key in ('input_size', 'pixel_order', 'alphabet', 'blank')}
    size, blank = tuple(map(int, meta['input_size'].split('x'))), int(meta['blank'])
    model.reshape([1, size[1], size[0], 3])
    compiled = openvino.Core().compile_model(model, 'CPU', {
        'PERFORMANCE_HINT': 'THROUGHPUT', 'INFERENCE_NUM_THREADS': threads,
        'INFERENCE_PRECISION_HINT': 'bf16' if args.amp == 'bf16' else 'f32'})
    own = threading.local()

    def answer(body):
        if not hasattr(own, 'request'):
            own.request = compiled.create_infer_request()
        image = Image.open(io.BytesIO(body)).convert('RGB')
        pixels = numpy.asarray(image if image.size == size else image.resize(size, Image.BILINEAR))[None]
        pixels = pixels[..., ::-1] if meta['pixel_order'] == 'BGR' else pixels
        best = own.request.infer({0: numpy.ascontiguousarray(pixels)}, share_inputs=True)[0][0].argmax(1).tolist()
        text = ''.join(meta['alphabet'][s] for s, last in zip(best, [-1, *best]) if s not in (last, blank))
        reply = json.dumps({'prediction': text}, ensure_ascii=False).encode()
        return b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' % (len(reply), reply)

    class Connection(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport, self.data = transport, bytearray()

        def data_received(self, data):
            self.data += data
            head = self.data.find(b'\r\n\r\n')
            if head < 0:
                return
            end = head + 4 + length_of(self.data[:head])
            if len(self.data) >= end:
                job = loop.run_in_executor(pool, answer, bytes(self.data[head + 4:end]))
                job.add_done_callback(lambda done: self.transport.write(done.result()))
                del self.data[:end]

    async def main():
        server = await loop.create_server(Connection, '127.0.0.1', args.port)
        await server.serve_forever()

    pool = concurrent.futures.ThreadPoolExecutor(threads)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())


def length_of(head):
    at = head.lower().index(b'content-length:') + 15
    return int(head[at:].split(b'\r\n', 1)[0])


class Client:
    """A connection with one request on its way."""

    def __init__(self, port, requests, at):
        self.socket = socket.create_connection(('127.0.0.1', port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.requests, self.at = requests, at
        self.ask()

    def ask(self):
        self.data, self.began = b'', time.perf_counter()
        self.socket.sendall(self.requests[self.at % len(self.requests)])
        self.at += 1

    def answer(self):
        """The body once it is whole."""
        part = self.socket.recv(65536)
        if not part:
            sys.exit('a server hung up')
        self.data += part
        head = self.data.find(b'\r\n\r\n')
        if head < 0 or len(self.data) < head + 4 + length_of(self.data[:head]):
            return None
        if not self.data.startswith(b'HTTP/1.1 200'):
            sys.exit(self.data.decode())
        return self.data[head + 4:]


def cpu_seconds(process):
    fields = open(f'/proc/{process.pid}/stat').read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def load(server, requests, clients, seconds):
    """Requests per second, the sorted times to answer in ms, and the server's CPU time for one of them in ms."""
    port, process = server
    waiting = selectors.DefaultSelector()
    for i in range(clients):
        client = Client(port, requests, i * len(requests) // clients)
        waiting.register(client.socket, selectors.EVENT_READ, client)
    begin = time.perf_counter() + WARM
    end = begin + seconds
    times = []
    asked, cpu = 0, cpu_seconds(process)
    now = time.perf_counter()
    while waiting.get_map():
        for key, _ in waiting.select():
            if key.data.answer() is None:
                continue
            now = time.perf_counter()
            asked += 1
            if begin <= now < end:
                times.append(1e3 * (now - key.data.began))
            if now < end:
                key.data.ask()
            else:
                waiting.unregister(key.data.socket)
                key.data.socket.close()
    return len(times) / seconds, sorted(times), 1e3 * (cpu_seconds(process) - cpu) / asked


def texts(port, requests):
    client = Client(port, requests, 0)
    out = []
    while len(out) < len(requests):
        body = client.answer()
        if body is not None:
            out.append(json.loads(body)['prediction'])
            client.ask()
    return out


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def start(command, port, cpus):
    process = subprocess.Popen(command, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    for _ in range(1200):
        if process.poll() is not None:
            sys.exit(f'{" ".join(command)}: exit code {process.returncode}')
        try:
            socket.create_connection(('127.0.0.1', port)).close()
            return process
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit(f'{" ".join(command)} does not listen')


def percentile(times, part):
    return times[min(len(times) - 1, int(part * len(times)))]


def compare(args, servers, requests):
    ours, theirs = (texts(port, requests) for port, _ in servers)
    print(f'{sum(a == b for a, b in zip(ours, theirs))} of {len(ours)} answers are the same\n')
    print('| clients | xtrain serve: requests/s, p50, p99, CPU ms | OpenVINO: the same | ratio (of single turns) |')
    print('|---|---|---|---|')
    for clients in args.clients:
        turns = []
        for turn in range(args.turns):
            order = (0, 1) if turn % 2 == 0 else (1, 0)
            got = {i: load(servers[i], requests, clients, args.seconds) for i in order}
            turns.append((got[0], got[1]))
        cells = []
        for which in range(2):
            rate = statistics.median(turn[which][0] for turn in turns)
            p50, p99 = (statistics.median(percentile(turn[which][1], p) for turn in turns) for p in (0.5, 0.99))
            cpu = statistics.median(turn[which][2] for turn in turns)
            cells.append(f'{rate:.0f}, {p50:.1f}, {p99:.1f}, {cpu:.2f}')
        ratios = sorted(a[0] / b[0] for a, b in turns)
        print(f'| {clients} | {cells[0]} | {cells[1]} | {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) |', flush=True)


def main():
    def numbers(text):
        return [int(n) for n in text.split(',')]

    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument('weights', nargs='?')
    parser.add_argument('images', nargs='?')
    parser.add_argument('--model')
    parser.add_argument('--amp', default='f32', choices=['f32', 'bf16', 'int8'])
    parser.add_argument('--calibrate')
    parser.add_argument('--turns', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=3)
    parser.add_argument('--clients', type=numbers, default=[1, 16, 64])
    parser.add_argument('--cpus', type=numbers, default=sorted(os.sched_getaffinity(0)))
    parser.add_argument('--client-cpus', type=numbers, default=sorted(os.sched_getaffinity(0)))
    parser.add_argument('--xtrain', default='build/xtrain')
    parser.add_argument('--serve', help=argparse.SUPPRESS)
    parser.add_argument('--port', type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args)
    paths = sorted(glob.glob(os.path.join(args.images, '*.jpg')))
    bodies = [open(path, 'rb').read() for path in paths]
    random.Random(1).shuffle(bodies)
    requests = [b'POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s' % (len(b), b) for b in bodies]
    network = ['--model', args.model] if args.model else []
    as_int8 = ['--amp', 'int8', '--calibrate', args.calibrate] if args.amp == 'int8' else []
    as_type = as_int8 or ['--amp', args.amp]
    own, other = free_port(), free_port()
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, 'model.onnx')
        subprocess.run([args.xtrain, 'export', args.weights, model, '--with-preprocess', '--quiet', *network, *as_int8,
                        *(['--for', 'openvino'] if as_int8 else [])], check=True, stdout=subprocess.DEVNULL)
        servers = []
        try:
            servers.append(start([args.xtrain, 'serve', args.weights, '--listen', f'127.0.0.1:{own}', '--quiet', '--threads',
                                  str(len(args.cpus)), *network, *as_type], own, args.cpus))
            servers.append(start([sys.executable, __file__, '--serve', model, '--port', str(other), '--amp', args.amp, '--cpus',
                                  ','.join(map(str, args.cpus))], other, args.cpus))
            os.sched_setaffinity(0, args.client_cpus)
            compare(args, list(zip((own, other), servers)), requests)
        finally:
            for server in servers:
                server.terminate()
                server.wait()


main()
