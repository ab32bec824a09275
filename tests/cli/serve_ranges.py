#!/usr/bin/env python3
# An HTTP server on the loopback that sends one file's bytes by Range, and fails as told:
# serve_ranges.py FILE LOG [cut=BYTES] [ranges=no] [then=hang]. Prints its address; cut: each answer ends after that many bytes.
import http.server, re, sys, time

data = open(sys.argv[1], "rb").read()
told = dict(word.split("=") for word in sys.argv[3:])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_GET(self):
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and told.get("ranges") != "no" else 0
        print(self.path, self.headers.get("Range", "all"), file=open(sys.argv[2], "a"))
        body = data[start:]
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: int(told.get("cut", len(body)))])
        self.wfile.flush()
        time.sleep(60 if told.get("then") == "hang" else 0)
        self.close_connection = True


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.handle_error = lambda *words: None  # a client that was killed
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
