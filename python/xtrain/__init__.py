"""Inference with networks trained by xtrain: pictures in, plates or classes out, through libxtrain.

    import xtrain

    with xtrain.Network("best.safetensors") as network:
        text, confidence, parts = network.read("car.jpg")
        for answer in network.read_many([frame[100:124, 50:144], jpeg_bytes]):
            print(answer.text, answer.confidence)

A picture is a path, a JPEG, PNG or WebP as bytes, or an array of uint8: height x width x 3, or height x width for grey.
Arrays are those of numpy or of anything with Python's buffer protocol; numpy itself is imported only for objects that
have nothing but its array interface (Pillow's images).

Threads: a Network may be used by any number of threads at once. They run without Python's lock while they decode and
wait, and pictures from several threads share batches. After ``os.fork`` a Network of the parent is refused in the child
(``multiprocessing``: use the start method "spawn", or open it in the child).

Notes and warnings go to the logger "xtrain". Whatever fails raises xtrain.Error with the library's sentence.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import enum
import functools
import logging
import os
import pathlib
import threading
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple, Union

__all__ = ["Answer", "Array", "Error", "Network", "Part", "Picture", "Status", "version"]

_log = logging.getLogger("xtrain")
_log.addHandler(logging.NullHandler())


class Status(enum.IntEnum):
    """Why something failed: enum xtrain_status of xtrain.h."""

    FAILED = 1
    USAGE = 2
    DATA = 3
    DEVICE = 4
    MEMORY = 5
    BUSY = 6
    COSTLY = 7

    @classmethod
    def _missing_(cls, _value: object) -> Status:
        return cls.FAILED


class Error(Exception):
    """One sentence: what failed, why, and what to do."""

    def __init__(self, sentence: str, status: Status) -> None:
        super().__init__(sentence)
        self.status = status


class Array(Protocol):
    """An array of numpy, or what it takes for one."""

    @property
    def __array_interface__(self) -> Mapping[str, Any]: ...


Picture = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Array]


class Part(NamedTuple):
    """A character of a plate, or a class."""

    text: str
    confidence: float


class Answer(NamedTuple):
    """The plate, or the likeliest class; its parts are the characters from left to right, or the likeliest classes, best first."""

    text: str
    confidence: float
    parts: Tuple[Part, ...]
    #: Its confidence is too low, or nothing was read: as the weights say, or Network's reject.
    rejected: bool = False


# --- libxtrain: the structures and functions of xtrain.h ---------------------------------------------------------------
class _ErrorText(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char * 1024)]


class _Options(ctypes.Structure):
    _fields_ = [
        ("device", ctypes.c_char_p),
        ("type", ctypes.c_char_p),
        ("calibrate", ctypes.c_char_p),
        ("model", ctypes.c_char_p),
        ("alphabet", ctypes.c_char_p),
        ("batch", ctypes.c_int),
        ("threads", ctypes.c_int),
        ("top", ctypes.c_int),
        ("beam", ctypes.c_int),
        ("queue", ctypes.c_int),
        ("refuse", ctypes.c_int),
        ("wait", ctypes.c_double),
        ("reject", ctypes.c_char_p),
        ("reserved", ctypes.c_void_p * 7),
    ]


class _Image(ctypes.Structure):
    _fields_ = [
        ("path", ctypes.c_char_p),
        ("bytes", ctypes.c_void_p),
        ("size", ctypes.c_size_t),
        ("width", ctypes.c_int),
        ("height", ctypes.c_int),
        ("stride", ctypes.c_size_t),
        ("pixels", ctypes.c_int),
        ("region", ctypes.POINTER(ctypes.c_double)),
        ("region_numbers", ctypes.c_int),
        ("done", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p * 8),
    ]


_PIXELS = {"rgb": 0, "bgr": 1, "grey": 2}
_Said = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)
_said = _Said(lambda _context, sentence: _log.info("%s", sentence.decode("utf-8", "replace")))


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    """$XTRAIN_LIBRARY, the library within this package, or the system's."""
    own = pathlib.Path(__file__).parent / "lib" / "libxtrain.so.1"
    lib = ctypes.CDLL(os.environ.get("XTRAIN_LIBRARY") or (str(own) if own.exists() else "libxtrain.so.1"))
    handle, out = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    number, text, error = ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_ErrorText)
    sizes = ctypes.POINTER(ctypes.c_int)
    for name, result, *arguments in (
        ("open", number, out, text, ctypes.POINTER(_Options), error),
        ("close", None, handle),
        ("model", text, handle),
        ("reads_plates", number, handle),
        ("image_size", None, handle, sizes, sizes),
        ("device", text, handle),
        ("send", number, handle, ctypes.POINTER(_Image), out, error),
        ("wait", number, handle, error),
        ("flush", None, handle),
        ("answer_text", text, handle),
        ("answer_confidence", ctypes.c_double, handle),
        ("answer_rejected", number, handle),
        ("answer_count", number, handle),
        ("answer_part", text, handle, number),
        ("answer_part_confidence", ctypes.c_double, handle, number),
        ("answer_free", None, handle),
        ("log", None, _Said, ctypes.c_void_p),
        ("version", text),
    ):
        function = getattr(lib, "xtrain_" + name)
        function.restype, function.argtypes = result, arguments
    lib.xtrain_log(_said, None)
    atexit.register(lib.xtrain_log, _Said(), None)
    return lib


def _text(value: Optional[bytes]) -> str:
    return (value or b"").decode("utf-8", "replace")


def _check(status: int, error: _ErrorText) -> None:
    if status:
        raise Error(_text(error.text), Status(status))


def version() -> str:
    """The version of libxtrain."""
    return _text(_library().xtrain_version())


# --- pictures ----------------------------------------------------------------------------------------------------------
def _view(picture: Any) -> memoryview:
    try:
        return memoryview(picture)
    except TypeError:
        if not hasattr(picture, "__array_interface__") and not hasattr(picture, "__array__"):
            sentence = f"{type(picture).__name__} is no picture: a path, bytes, or an array of uint8 is one"
            raise Error(sentence, Status.USAGE) from None
    import numpy

    array: Any = numpy.asarray(picture)
    return memoryview(array)


def _image(picture: Picture, order: str, region: Optional[Sequence[float]]) -> _Image:
    image = _Image()
    if region is not None:
        image.region_numbers = len(region)
        image.region = (ctypes.c_double * len(region))(*region)
    if isinstance(picture, (str, os.PathLike)):
        image.path = os.fsencode(picture)
        return image
    view = _view(picture)
    shape = view.shape or ()
    if view.format != "B" or not (len(shape) in (1, 2) or (len(shape) == 3 and shape[2] in (1, 3))):
        numbers = f"{'x'.join(map(str, shape))} numbers of format {view.format!r}"
        sentence = f"an array of {numbers} is no picture: one is uint8, height x width x 3 or height x width"
        raise Error(sentence, Status.USAGE)
    if not view.nbytes:
        raise Error("the picture is empty", Status.DATA)
    if len(shape) > 1:
        image.height, image.width = shape[:2]
        image.pixels = _PIXELS[order] if shape[2:] == (3,) else _PIXELS["grey"]
    # The structure holds an address alone; the attribute keeps what is there alive.
    memory = ctypes.c_char * view.nbytes
    image.memory = memory.from_buffer(view) if view.c_contiguous and not view.readonly else memory.from_buffer_copy(view.tobytes())
    image.bytes, image.size = ctypes.addressof(image.memory), view.nbytes
    return image


def _answer(lib: ctypes.CDLL, answer: ctypes.c_void_p) -> Answer:
    parts = tuple(
        Part(_text(lib.xtrain_answer_part(answer, i)), lib.xtrain_answer_part_confidence(answer, i))
        for i in range(lib.xtrain_answer_count(answer))
    )
    confidence, rejected = lib.xtrain_answer_confidence(answer), bool(lib.xtrain_answer_rejected(answer))
    return Answer(_text(lib.xtrain_answer_text(answer)), confidence, parts, rejected)


# --- networks ----------------------------------------------------------------------------------------------------------
class Network:
    """Weights (a .safetensors or .pth file, or a run's folder) on a device, ready for inference.

    device: "cpu", "xpu", "xpu:N", "auto". type: "f32", "bf16", "fp16", "int8" (which wants calibrate, a folder of images
    like those to be read, or weights that `xtrain export` wrote for int8). model, alphabet: for weights that do not name theirs. batch: most pictures in one pass (16).
    threads: computing threads, 0 for all. top: likeliest classes in an answer (5). beam: decode plates by beam search.
    wait: seconds that a picture may wait for others to share its pass. reject: answers of less confidence are rejected;
    "none": none is; without it, those that the rule in the weights rejects.
    """

    def __init__(
        self,
        weights: Union[str, os.PathLike[str]],
        *,
        device: str = "cpu",
        type: str = "f32",
        calibrate: Union[str, os.PathLike[str], None] = None,
        model: Optional[str] = None,
        alphabet: Union[str, os.PathLike[str], None] = None,
        batch: int = 0,
        threads: int = 0,
        top: int = 0,
        beam: bool = False,
        wait: float = 0,
        reject: Union[float, str, None] = None,
    ) -> None:
        self._idle = threading.Condition()
        self._users = 0
        self._process = os.getpid()
        self._handle: Optional[ctypes.c_void_p] = None
        self._lib = lib = _library()
        options = _Options(batch=batch, threads=threads, top=top, beam=beam, wait=wait)
        options.device, options.type = device.encode(), type.encode()
        options.calibrate = os.fsencode(calibrate) if calibrate is not None else None
        options.reject = str(reject).encode() if reject is not None else None
        options.model = model.encode() if model is not None else None
        options.alphabet = os.fsencode(alphabet) if alphabet is not None else None
        handle, error = ctypes.c_void_p(), _ErrorText()
        _check(lib.xtrain_open(ctypes.byref(handle), os.fsencode(weights), ctypes.byref(options), ctypes.byref(error)), error)
        self._handle = handle
        width, height = ctypes.c_int(), ctypes.c_int()
        lib.xtrain_image_size(handle, ctypes.byref(width), ctypes.byref(height))
        #: "lprnet"
        self.model = _text(lib.xtrain_model(handle))
        #: Whether it reads plates; else it classifies.
        self.reads_plates = bool(lib.xtrain_reads_plates(handle))
        #: Width and height to which pictures are scaled.
        self.image_size = (width.value, height.value)
        #: "cpu: ..., 8 threads"
        self.device = _text(lib.xtrain_device(handle))

    @contextlib.contextmanager
    def _used(self) -> Iterator[ctypes.c_void_p]:
        """The handle, which close() leaves alone until it is no longer used."""
        with self._idle:
            if self._handle is None:
                raise Error("the network is closed", Status.USAGE)
            if self._process != os.getpid():
                raise Error("the network was opened before a fork: open one in this process", Status.USAGE)
            handle = self._handle
            self._users += 1
        try:
            yield handle
        finally:
            with self._idle:
                self._users -= 1
                self._idle.notify_all()

    def read(self, picture: Picture, *, pixels: str = "rgb", region: Optional[Sequence[float]] = None) -> Answer:
        """The answer for one picture.

        pixels: the order within an array, "rgb" or OpenCV's "bgr". region: the part that is read, as x, y, width, height,
        or as x and y of four corners: left top, right top, right bottom, left bottom, as seen upright.
        """
        return self._read([picture], pixels, region, one=True)[0]

    def read_many(self, pictures: Iterable[Picture], *, pixels: str = "rgb") -> list[Answer]:
        """The answers for several pictures, computed in batches. If one cannot be read, Error names it by its index."""
        return self._read(pictures, pixels, None, one=False)

    def _read(self, pictures: Iterable[Picture], order: str, region: Optional[Sequence[float]], one: bool) -> list[Answer]:
        if order not in ("rgb", "bgr"):
            raise Error(f'pixels="{order}" is not known: "rgb" or "bgr"', Status.USAGE)
        lib, error, sent = self._lib, _ErrorText(), []
        with self._used() as handle:
            try:
                for index, picture in enumerate(pictures):
                    image, answer = _image(picture, order, region), ctypes.c_void_p()
                    _check(lib.xtrain_send(handle, ctypes.byref(image), ctypes.byref(answer), ctypes.byref(error)), error)
                    sent.append(answer)
                lib.xtrain_flush(handle)
                for index, answer in enumerate(sent):
                    _check(lib.xtrain_wait(answer, ctypes.byref(error)), error)
                return [_answer(lib, answer) for answer in sent]
            except Error as failure:
                raise failure if one else Error(f"picture {index}: {failure}", failure.status) from None
            finally:
                for answer in sent:
                    lib.xtrain_answer_free(answer)

    def close(self) -> None:
        """Releases the network, once no thread reads any more."""
        with self._idle:
            handle, self._handle = self._handle, None
            if self._process == os.getpid():
                self._idle.wait_for(lambda: self._users == 0)
        if handle is not None and self._process == os.getpid():
            self._lib.xtrain_close(handle)

    def __enter__(self) -> Network:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()
