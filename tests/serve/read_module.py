"""The module xtrain: read_module.py WEIGHTS. Every kind of picture gets the answer of the same pixels as a file."""

import os
import struct
import sys
import threading
import zlib

import xtrain

WIDTH, HEIGHT = 94, 24


def png(rows: bytes) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = b"".join(b"\0" + rows[i : i + 3 * WIDTH] for i in range(0, len(rows), 3 * WIDTH))
    head = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def array(data: bytes, *shape: int) -> memoryview:
    return memoryview(bytearray(data)).cast("B", shape)


def refuses(sentence: str, status: xtrain.Status, call, *arguments, **options) -> None:
    try:
        call(*arguments, **options)
    except xtrain.Error as error:
        assert sentence in str(error) and error.status == status, (error, error.status)
    else:
        raise AssertionError(f"nothing was said of: {sentence}")


network = xtrain.Network(sys.argv[1], threads=1, batch=4)
assert network.model == "lprnet" and network.reads_plates and network.image_size == (94, 24)
assert network.device.startswith("cpu: ") and xtrain.version()

rgb = bytes(i * 7 >> 3 & 255 for i in range(3 * WIDTH * HEIGHT))
bgr = bytes(rgb[i ^ 0 if i % 3 == 1 else i + 2 - 2 * (i % 3)] for i in range(len(rgb)))
with open("picture.png", "wb") as file:
    file.write(png(rgb))
want = network.read("picture.png")
text, confidence, parts = want[:3]
assert len(parts) == len(text) and 0 <= confidence <= 1 and "".join(part.text for part in parts) == text
assert network.read(png(rgb)) == want and network.read(bytearray(png(rgb))) == want
assert network.read(array(rgb, HEIGHT, WIDTH, 3)) == want
assert network.read(array(bgr, HEIGHT, WIDTH, 3), pixels="bgr") == want != network.read(array(bgr, HEIGHT, WIDTH, 3))
assert network.read(array(rgb * 2, 2 * HEIGHT, WIDTH, 3), region=(0, HEIGHT, WIDTH, HEIGHT)) == want
grey = bytes(i % 251 for i in range(WIDTH * HEIGHT))
as_grey = network.read(array(grey, HEIGHT, WIDTH))
assert as_grey == network.read(array(bytes(x for x in grey for _ in range(3)), HEIGHT, WIDTH, 3))
many = [array(rgb, HEIGHT, WIDTH, 3), "picture.png", array(grey, HEIGHT, WIDTH)] * 5
assert [answer.text for answer in network.read_many(many)] == [want.text, want.text, as_grey.text] * 5
assert network.read_many([]) == []

refuses("nowhere.safetensors", xtrain.Status.DATA, xtrain.Network, "nowhere.safetensors")
refuses("type", xtrain.Status.USAGE, xtrain.Network, sys.argv[1], type="f99")
refuses("cannot open nowhere.jpg", xtrain.Status.DATA, network.read, "nowhere.jpg")
refuses("picture 1: ", xtrain.Status.DATA, network.read_many, ["picture.png", b"no picture"])
refuses("int is no picture", xtrain.Status.USAGE, network.read, 7)
refuses("an array of 2x2x4 numbers of format 'B'", xtrain.Status.USAGE, network.read, array(bytes(16), 2, 2, 4))
refuses("format 'd'", xtrain.Status.USAGE, network.read, memoryview(bytes(32)).cast("d", (2, 2)))
refuses("the picture is empty", xtrain.Status.DATA, network.read, b"")
refuses("a region has 4 or 8 numbers", xtrain.Status.USAGE, network.read, "picture.png", region=[1])
refuses('pixels="rbg"', xtrain.Status.USAGE, network.read, "picture.png", pixels="rbg")

try:
    import numpy
except ImportError:
    print("without numpy")
else:
    pixels = numpy.frombuffer(rgb, numpy.uint8).reshape(HEIGHT, WIDTH, 3)
    frame = numpy.zeros((50, 200, 3), numpy.uint8)
    frame[9 : 9 + HEIGHT, 30 : 30 + WIDTH] = pixels
    for same in (pixels, frame[9 : 9 + HEIGHT, 30 : 30 + WIDTH], numpy.frombuffer(png(rgb), numpy.uint8)):
        assert network.read(same) == want
    assert network.read(pixels[:, :, ::-1], pixels="bgr") == want
    assert network.read(type("Image", (), {"__array_interface__": pixels.__array_interface__})()) == want

# Threads share a network; close() waits for them.
answers: list = []
threads = [threading.Thread(target=lambda: answers.extend(network.read_many(many))) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert [answer.text for answer in answers] == [want.text, want.text, as_grey.text] * 15

if os.fork() == 0:
    refuses("before a fork", xtrain.Status.USAGE, network.read, "picture.png")
    network.close()
    os._exit(0)
assert os.wait()[1] == 0
with network:
    pass
network.close()
refuses("the network is closed", xtrain.Status.USAGE, network.read, "picture.png")
