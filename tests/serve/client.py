"""A client of the service, good and bad: client.py WHAT URL IMAGE [...]. Exits with 1 and a sentence where it is not
answered as it should be."""
import http.client
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
import zlib

what, where, path = sys.argv[1:4]
image = open(path, "rb").read()
address = None if what == "unix" else (where.split("//")[1].rsplit(":", 1)[0], int(where.rsplit(":", 1)[1]))


def check(is_so, *why):
    if not is_so:
        print("client:", *why)
        sys.exit(1)


class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(where)


def connection():
    return Unix("localhost") if what == "unix" else http.client.HTTPConnection(*address, timeout=20)


def ask(method, url, body=None, headers={}, over=None):
    here = over or connection()
    here.request(method, url, body, headers)
    answer = here.getresponse()
    text = answer.read().decode()
    if not over:
        here.close()
    return answer.status, text, answer


def post(body, query="", headers={}, over=None):
    status, text, answer = ask("POST", "/predict" + query, body, headers, over)
    return status, json.loads(text), answer


def refused(code, sentence, *request, **more):
    status, text, _ = ask(*request, **more)
    check(status == code and sentence in json.loads(text)["error"], request[:2], status, text)


def raw(*pieces, pause=0.0):
    """Sends bytes as they are; returns what comes until the other side hangs up, and how long that took."""
    begin = time.time()
    with socket.create_connection(address, 20) as s:
        said = b""
        try:
            for piece in pieces:
                s.sendall(piece)
                time.sleep(pause)
            while part := s.recv(65536):
                said += part
        except (ConnectionError, TimeoutError):
            pass
        return said, time.time() - begin


def together(*tasks):
    """Side by side; one that fails fails the client."""
    ends = []
    threading.excepthook = lambda failure: print("client:", repr(failure.exc_value))
    threads = [threading.Thread(target=lambda task=task: ends.append(task())) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(len(ends) == len(tasks), "see above")


def png(width, height, row=b"", rows=None):
    """Every row has these bytes; black where there are none. With `rows` fewer than it says."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress((b"\0" + row + bytes(3 * width))[:3 * width + 1]) for _ in range(rows or height)) + packer.flush()
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", rows) + chunk(b"IEND", b""))


def resident(process):
    with open(f"/proc/{process}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def answers():
    expected = json.loads(sys.argv[4])["predictions"][0]
    del expected["path"]
    here = connection()
    for query in "", "?region=0,0,5000,5000":
        status, answer, _ = post(image, query, over=here)
        check(status == 200 and answer == expected, query, status, answer, expected)
    for query in "?beam=1", "?regoin=1,2,3,4", "?region=0,0,9,9&other=1", "?region=0,0,9,9&region=0,0,8,8", "?beam":
        status, answer, _ = post(image, query)
        check(status == 400 and "region=x,y,width,height once" in answer["error"], query, status, answer)
    slope = png(94, 24, bytes(range(1, 255)) * 2)
    all_of_it = post(slope, over=here)[1]
    for region in "0,0,94,0,94,24,0,24", "10,2,40,20":
        status, answer, _ = post(slope, "?region=" + region, over=here)
        check(status == 200 and (answer == all_of_it) == region.startswith("0"), region, answer, all_of_it)
    # In pieces.
    here.request("POST", "/predict", iter([image[:100], image[100:]]), encode_chunked=True,
                 headers={"Transfer-Encoding": "chunked"})
    check(json.loads(here.getresponse().read()) == expected, "in pieces")

    for query in "1,2,3", "a", "", "1,2,3,4,5", "1,2,3,nan", "1,2,3,4,5,6,7,8,9", "0,0,9,9%00":
        refused(400, "region takes", "POST", "/predict?region=" + query, image)
    refused(400, "region takes", "POST", "/predict?region", image)
    refused(400, "no size", "POST", "/predict?region=0,0,0,5", image)
    refused(400, "outside the picture", "POST", "/predict?region=9000,0,5,5", image)
    refused(400, "is empty", "POST", "/predict", b"")
    refused(400, "not a JPEG, PNG or WebP", "POST", "/predict", b"no image")
    refused(400, "looks like a GIF", "POST", "/predict", b"GIF89a, one would think")
    refused(400, "", "POST", "/predict", image[:200])
    refused(404, "/healthz", "GET", "/nowhere")
    refused(405, "POST", "GET", "/predict")
    refused(405, "GET", "POST", "/metrics", image)
    refused(413, "larger than", "POST", "/predict", bytes(2 << 20), over=None, headers={"Content-Length": str(2 << 20)})
    refused(415, "not a form", "POST", "/predict", image, headers={"Content-Type": "multipart/form-data; boundary=x"})
    check(ask("GET", "/predict")[2].getheader("Allow") == "POST", "no Allow")

    status, text, answer = ask("GET", "/healthz")
    check(status == 200 and json.loads(text)["status"] == "ok", text)
    check(ask("HEAD", "/healthz")[0] == 200 and ask("GET", "/")[0] == 200, "HEAD, or /")
    status, text, answer = ask("GET", "/metrics")
    check(status == 200 and answer.getheader("Content-Type").startswith("text/plain; version=0.0.4"), answer.headers)
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    check(int(figures['xtrain_requests_total{code="200"}']) >= 8 and int(figures['xtrain_requests_total{code="404"}']) == 1 and
          int(figures["xtrain_batch_images_count"]) == 6 and float(figures["xtrain_batch_images_sum"]) == 6 and
          int(figures['xtrain_request_seconds_bucket{le="+Inf"}']) == int(figures["xtrain_request_seconds_count"]) > 5 and
          int(figures["xtrain_resident_bytes"]) > 1e6 and figures["xtrain_queue_limit"] == "64", text)


def drains():
    """A stop is requested while a request waits for its batch and another one is half received."""
    process = int(sys.argv[4])
    got = []
    waiting = threading.Thread(target=lambda: got.append(post(image)))
    waiting.start()
    with socket.create_connection(address, 20) as half:
        half.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(image) + image[:100])
        time.sleep(0.5)
        os.kill(process, signal.SIGTERM)
        time.sleep(0.3)
        try:
            connection().connect()
            check(False, "it takes connections still")
        except ConnectionError:
            pass
        half.sendall(image[100:])
        said = b""
        while part := half.recv(65536):
            said += part
        check(said.startswith(b"HTTP/1.1 200") and b"Connection: close" in said, said)
    waiting.join()
    check(got and got[0][0] == 200 and got[0][1]["confidence"] > 0, got)


def unix():
    check(post(image)[0] == 200, "no answer over the socket")


def hostile():
    process = int(sys.argv[4])
    check(post(image)[0] == 200, "no answer before")
    before = resident(process)
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"

    # Half of a body, of a header, nothing at all.
    def slow(*pieces, pause=0.0):
        said, took = raw(*pieces, pause=pause)
        check(not said.startswith(b"HTTP/1.1 2") and took < 8, "not hung up on", pieces[:2], said, took)

    together(lambda: slow(head % len(image), image[:500]), lambda: slow(b"POST /pre"), lambda: slow(b""))

    # Garbage beyond what xtrain serve --selftest sends.
    together(*[lambda garbage=garbage: slow(garbage) for garbage in (
        b"\0\xff" * 3000 + b"\r\n\r\n", b"GET\r\n\r\n", b"G" * 100000)])

    # Small files that are large images.
    status, answer, _ = post(png(9000, 9000, rows=9))
    check(status == 413 and "--max-pixels" in answer["error"], answer)
    status, answer, _ = post(png(4000, 4000))
    check(status == 200, "16 million pixels", answer)

    # More clients than may be; those in excess wait, and all are gone in time.
    crowd = [socket.create_connection(address, 20) for _ in range(100)]
    time.sleep(0.2)
    begin = time.time()
    check(post(image)[0] == 200 and time.time() - begin < 19, "it answers nobody else")
    for one in crowd:
        one.close()
    check(post(image)[0] == 200, "no answer after")
    grown = resident(process) - before
    print(f"hostile clients: {before} kB before, {grown} kB more after")
    check(grown < 30000, "memory stays taken:", before, grown)


def slow():
    """Who dribbles headers is hung up on before who dribbles a body; who asks nothing has a time of its own."""
    def took(head, piece):
        begin = time.time()
        with socket.create_connection(address, 30) as s:
            s.settimeout(0.2)
            s.sendall(head)
            while time.time() - begin < 12:
                try:
                    if piece:
                        s.sendall(piece)
                    if not s.recv(4096):
                        break
                except TimeoutError:
                    pass
                except ConnectionError:
                    break
        return time.time() - begin

    times = {}
    together(lambda: times.update(idle=took(b"", b"")), lambda: times.update(headers=took(b"GET / HTTP/1.1\r\n", b"a: b\r\n")),
             lambda: times.update(body=took(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n", b"x")))
    check(1.5 < times["idle"] < 4.5 < times["headers"] < 6.5 < times["body"] < 11, times)


def browsers():
    """What a page that a browser shows could send, and requests that two readers read differently."""
    def said_by(*lines, body=b""):
        return raw("\r\n".join(lines).encode() + b"\r\nConnection: close\r\n\r\n" + body)[0]

    host = "Host: %s:%d" % address
    ask_health = "GET /healthz HTTP/1.1"
    send = "POST /predict HTTP/1.1"
    for lines, code in (
            ((ask_health, host), 200), ((ask_health, "Host: localhost"), 200), ((ask_health, "Host: [::1]:80"), 200),
            ((ask_health, "Host: MY.plates.example:80"), 200),
            ((ask_health, "Host: evil.example"), 403), ((ask_health, "Host: 127.0.0.1.evil.example"), 403),
            ((ask_health, "Host: my.plates.example.evil"), 403), ((ask_health, "Host:"), 403),
            ((ask_health, host, "Origin: http://evil.example"), 403), ((ask_health, host, "Origin: null"), 403),
            ((ask_health, host, "Origin: http://%s:%d" % address), 200),
            ((ask_health, host, "Origin: https://my.plates.example"), 200),
            ((send, host, "Content-Length: 5", "Content-Length: 5"), 400)):
        said = said_by(*lines)
        check(said.startswith(b"HTTP/1.1 %d" % code), lines, said[:200])
    check(ask("GET", "/healthz")[0] == 200, "no answer after")


def apart():
    """Pictures that take long to decode, beside clients that keep their connections: nobody is hung up on."""
    heavy = png(5600, 5600, bytes(range(256)) * 60)
    too_heavy = png(6000, 6000)
    check(post(too_heavy)[0] == 413, "more pixels than may be")
    worst = []

    def client():
        here = connection()
        for _ in range(40):
            begin = time.time()
            status, _, _ = post(image, over=here)
            check(status == 200, status)
            worst.append(time.time() - begin)

    def heavy_client():
        status, answer, _ = post(heavy)
        check(status in (200, 422), status, answer)

    together(*[heavy_client] * 4, *[client] * 12)
    check(len(worst) == 480, len(worst))


def costly():
    """Decoding may take 0.01 s of CPU time here."""
    status, answer, _ = post(png(5000, 5000))
    check(status == 422 and "more than 0.01 s to decode" in answer["error"], status, answer)
    check(post(image)[0] == 200, "no answer after")


def short():
    """Little memory is left: pictures that need more than there is are refused, and side by side all others have room."""
    figure = int(sys.argv[4])  # pixels of the largest that fits
    side = int(figure**0.5) - 8
    largest = png(side, side, bytes(range(256)) * 60)
    outside = "?region=" + ",".join(str(side * k) for k in (-1, -1, 2, -1, 2, 2, -1, 2))

    def whole(query=""):
        status, answer, _ = post(largest, query)
        check(status == 200, status, answer)

    def refused_one():
        status, answer, _ = post(png(2 * side, 2 * side))
        check(status == 413 and "memory" in answer["error"], status, answer)

    together(*[whole] * 3, *[lambda: whole(outside)] * 3, refused_one, refused_one)
    # Bodies that are received: more than there is memory for, but not more than sixteen of --max-body.
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 16000000\r\n\r\n"
    crowd = [socket.create_connection(address, 2) for _ in range(12)]

    def send(one):
        try:
            one.sendall(head + bytes(15000000))
        except OSError:
            pass

    together(*[lambda one=one: send(one) for one in crowd])
    check(ask("GET", "/healthz")[0] == 200, "no answer beside large bodies")
    for one in crowd:
        one.close()
    check(post(image)[0] == 200, "no answer after")


def crowd():
    """Connections that ask nothing, more than may be: others are let in at once, and /healthz always."""
    held = [socket.create_connection(address, 20) for _ in range(300)]
    for _ in range(20):
        begin = time.time()
        check(ask("GET", "/healthz")[0] == 200 and post(image)[0] == 200, "it answers nobody else")
        check(time.time() - begin < 2, "held connections shut others out")
    for one in held:
        one.close()


def many():
    process = int(sys.argv[4])

    def busy():
        with open(f"/proc/{process}/stat") as stat:
            return sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))

    crowd = [socket.create_connection(address, 20) for _ in range(60)]
    time.sleep(0.3)
    before = busy()
    time.sleep(0.7)
    check(busy() - before < 20, "it computes for clients that ask nothing:", busy() - before)
    check(post(image)[0] == 200, "it answers nobody else")
    for one in crowd:
        one.close()


def steady():
    process = int(sys.argv[4])
    here = connection()
    for _ in range(100):
        post(image, over=here)
    before = resident(process)
    for i in range(300):
        body = image if i % 3 else image[: 100 + i % 90]
        status, _, _ = post(body, over=here)
        check(status in (200, 400), status)
    grown = resident(process) - before
    check(grown < 2000, "memory grows:", before, grown)


def busy():
    codes = {}
    lock = threading.Lock()

    def flood():
        here = connection()
        for _ in range(10):
            status, answer, whole = post(image, over=here)
            check(status == 200 or (status == 503 and whole.getheader("Retry-After") == "1" and "waiting already" in answer["error"]),
                  status, answer)
            with lock:
                codes[status] = codes.get(status, 0) + 1

    together(*[flood] * 24)
    check(sum(codes.values()) == 240 and codes.get(200, 0) > 0 and codes.get(503, 0) > 0, codes)


globals()[what]()
