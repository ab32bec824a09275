"""Writes .pth files as torch.save does, without torch, from the safetensors of a run.

usage: write_pth.py IN.safetensors OUT.pth [prefix=P] [under=KEY.KEY] [statistics=initial] [affine=initial]
"""
import collections
import io
import json
import pickle
import struct
import sys
import types
import zipfile

source, out = sys.argv[1:3]
options = dict(word.split("=", 1) for word in sys.argv[3:])
torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})
for kind in ("FloatStorage", "LongStorage"):
    setattr(torch, kind, type(kind, (), {"__module__": "torch"}))


def _rebuild_tensor_v2(*_):
    raise NotImplementedError


_rebuild_tensor_v2.__module__ = "torch._utils"
utils._rebuild_tensor_v2 = _rebuild_tensor_v2


class Storage:
    def __init__(self, kind, data, size):
        self.kind, self.data, self.size = kind, data, size


class Tensor:
    def __init__(self, dtype, shape, data):
        self.shape = tuple(shape)
        size = 8 if dtype == "I64" else 4
        self.storage = Storage(torch.LongStorage if size == 8 else torch.FloatStorage, data, len(data) // size)

    def __reduce__(self):
        strides, step = [], 1
        for length in reversed(self.shape):
            strides.insert(0, step)
            step *= length
        return _rebuild_tensor_v2, (self.storage, 0, self.shape, tuple(strides), False, collections.OrderedDict())


class Pickler(pickle.Pickler):
    stored = []

    def persistent_id(self, item):
        if not isinstance(item, Storage):
            return None
        self.stored.append(item.data)
        return "storage", item.kind, str(len(self.stored) - 1), "cpu", item.size


def initial(name, data):
    """The statistics, or scale and shift, of a batch norm that has not learned."""
    last = name.rsplit(".", 1)[1]
    kind = "statistics" if last.startswith("running_") else "affine"
    is_norm = name.rsplit(".", 1)[0] + ".running_mean" in header
    if not is_norm or last == "num_batches_tracked" or options.get(kind) != "initial":
        return data
    return struct.pack("<f", 1.0 if last in ("running_var", "weight") else 0.0) * (len(data) // 4)


blob = open(source, "rb").read()
size, = struct.unpack("<Q", blob[:8])
header = json.loads(blob[8:8 + size])
header.pop("__metadata__", None)
weights = collections.OrderedDict()
for name, item in sorted(header.items(), key=lambda pair: pair[1]["data_offsets"]):
    begin, end = item["data_offsets"]
    data = initial(name, blob[8 + size + begin:8 + size + end])
    weights[options.get("prefix", "") + name] = Tensor(item["dtype"], item["shape"], data)
for key in reversed(options.get("under", "").split(".") if "under" in options else []):
    weights = {"epoch": 3, key: weights}
pickled = io.BytesIO()
Pickler(pickled, protocol=2).dump(weights)
with zipfile.ZipFile(out, "w") as archive:
    archive.writestr("archive/data.pkl", pickled.getvalue())
    archive.writestr("archive/version", "3\n")
    for index, data in enumerate(Pickler.stored):
        archive.writestr(f"archive/data/{index}", data)
