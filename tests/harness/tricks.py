"""A client of TLS and HTTP with tricks, run in a box as `python3 tricks.py CASE...`.

A case is a JSON object: {"to": [host, port], "sni": name or null, "host": Host header,
"again": Host of a second request on the same connection, "record": bytes of the ClientHello
in one TLS record, "segment": bytes in one write, "raw": text sent instead of all that}.
Prints one JSON value a case: what the server says it saw, "closed", or the error's name.
"""

import errno
import json
import socket
import ssl
import sys

LIMIT = 20


def name_of(error):
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, socket.gaierror):
        return "lookup"
    return errno.errorcode.get(error.errno, type(error).__name__)


def send(sock, data, segment):
    step = segment or len(data)
    for at in range(0, len(data), step):
        sock.sendall(data[at:at + step])


def in_records(data, size):
    """The same handshake message, in records of @size bytes."""
    payload, out = data[5:], b""
    for at in range(0, len(payload), size):
        part = payload[at:at + size]
        out += data[:3] + len(part).to_bytes(2, "big") + part
    return out


class Plain:
    def __init__(self, sock):
        self.sock = sock

    def write(self, data, segment=None):
        send(self.sock, data, segment)

    def read(self):
        return self.sock.recv(65536)


class Tls:
    """A handshake whose first flight goes out as the case wants."""

    def __init__(self, sock, case):
        self.sock, self.into, self.out = sock, ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if case.get("alpn"):
            context.set_alpn_protocols(["x" * 200] * case["alpn"])
        self.tls = context.wrap_bio(self.into, self.out, server_hostname=case.get("sni"))
        first = True
        while True:
            try:
                self.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                data = self.out.read()
                if first and case.get("record"):
                    data = in_records(data, case["record"])
                send(sock, data, case.get("segment") if first else None)
                first = False
                self.hear()
        self.flush()

    def hear(self):
        data = self.sock.recv(65536)
        if not data:
            raise EOFError
        self.into.write(data)

    def flush(self):
        if self.out.pending:
            self.sock.sendall(self.out.read())

    def write(self, data, _segment=None):
        self.tls.write(data)
        self.flush()

    def read(self):
        while True:
            try:
                return self.tls.read(65536)
            except ssl.SSLWantReadError:
                self.hear()


def response(stream):
    """The JSON of one answer."""
    data = b""
    while b"\n" not in data.partition(b"\r\n\r\n")[2]:
        more = stream.read()
        if not more:
            return "closed"
        data += more
    return json.loads(data.partition(b"\r\n\r\n")[2])


def request(stream, host, case):
    head = f"GET {case.get('target', '/')} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1")
    stream.write(head, case.get("segment"))
    return response(stream)


def act(case):
    with socket.create_connection(tuple(case["to"]), timeout=LIMIT) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if "raw" in case:
            send(sock, case["raw"].encode("latin-1"), case.get("segment"))
            return response(Plain(sock))
        stream = Tls(sock, case) if case["to"][1] in (443, 8443) else Plain(sock)
        said = request(stream, case["host"], case)
        if "again" in case and said != "closed":
            said = [said, request_again(stream, case)]
        return said


def request_again(stream, case):
    try:
        return request(stream, case["again"], case)
    except (EOFError, OSError):
        return "closed"


def main():
    for text in sys.argv[1:]:
        try:
            said = act(json.loads(text))
        except (EOFError, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
            said = "closed"
        except (OSError, ssl.SSLError) as e:
            said = name_of(e)
        print(json.dumps(said), flush=True)


main()
