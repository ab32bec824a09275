#!/usr/bin/env python3
# CIFAR's batches as Python 2's cPickle wrote them, without numpy: write_cifar.py FOLDER KIND [FAULT=VALUE...]
# KIND: 10 or 100 (pickles), 10.bin (the same images as records). Images are drawn from a fixed seed.
import os, random, struct, sys

folder, kind = sys.argv[1:3]
fault = dict(word.split("=") for word in sys.argv[3:])
classes = 10 if kind.startswith("10.") or kind == "10" else 100
short = lambda text: b"U" + bytes([len(text)]) + text
number = lambda n: b"K" + bytes([n]) if n < 256 else b"M" + struct.pack("<H", n)
listed = lambda items: b"](" + b"".join(items) + b"e"
word = lambda module, name: b"c" + module + b"\n" + name + b"\n"


def array(rows, columns, pixels):
    start = word(b"numpy.core.multiarray", b"_reconstruct") + word(b"numpy", b"ndarray") + b"K\0\x85U\1b\x87R(K\1"
    kind = word(b"numpy", b"dtype") + short(fault.get("dtype", "u1").encode()) + b"K\0K\1\x87R"
    state = b"(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb"
    return start + number(rows) + number(columns) + b"\x86" + kind + state + b"\x89T" + struct.pack("<i", len(pixels)) + pixels + b"tb"


def batch(name, images):
    rows = int(fault.get("rows", len(images)))
    pixels = b"".join(pixels for _, pixels in images)
    labels = [number(int(fault.get("label", label))) for label, _ in images][int(fault.get("lost", 0)):]
    keys = [b"labels"] if classes == 10 else [b"fine_labels", b"coarse_labels"]
    items = b"".join(short(key) + listed(labels) for key in keys)
    items += short(b"batch_label") + short(name.encode()) + short(b"data") + array(rows, 3072, pixels)
    items += short(b"filenames") + listed([short(b"a.png") for _ in images])
    if "call" in fault:
        items += short(b"more") + word(b"os", b"system") + short(b"true") + b"\x85R"
    return b"\x80\2}(" + items + b"u."


random.seed(5)
os.makedirs(folder, exist_ok=True)
save = lambda name, data: open(os.path.join(folder, name), "wb").write(data)
files = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"] if classes == 10 else ["train", "test"]
for name in files:
    images = [(i * 7 % classes, random.randbytes(3072)) for i in range(20)]
    if kind == "10.bin":
        save(name + ".bin", b"".join(bytes([label]) + pixels for label, pixels in images))
    else:
        save(name, batch(name, images))
names = [f"class{i:02}" for i in range(classes)]
if kind == "10.bin":
    save("batches.meta.txt", "".join(name + "\n" for name in names).encode())
else:
    key = b"label_names" if classes == 10 else b"fine_label_names"
    save("batches.meta" if classes == 10 else "meta", b"\x80\2}(" + short(key) + listed([short(n.encode()) for n in names]) + b"u.")
