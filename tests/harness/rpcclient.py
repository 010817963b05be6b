"""Speaks to `nsbox rpc` in frames; one object is one process of it."""

import json
import os
import select
import struct
import subprocess
import time

from box import NSBOX, SCRATCH, environ

LIMIT = 60      # seconds without a byte: something hangs


def frame(data):
    """Bytes, or anything that json knows, as one frame."""
    if not isinstance(data, bytes):
        data = json.dumps(data).encode()
    return struct.pack(">I", len(data)) + data


class Rpc:
    def __init__(self, **popen):
        popen.setdefault("cwd", SCRATCH)
        popen.setdefault("stdin", subprocess.PIPE)
        popen.setdefault("stdout", subprocess.PIPE)
        self.proc = subprocess.Popen([NSBOX, "rpc"], stderr=subprocess.PIPE,
                                     env=environ(popen.pop("env", None)), **popen)
        self.last_id = 0
        self.buffer = bytearray()
        self.events = []        # those that call() and answers() passed

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.end()

    @property
    def pid(self):
        return self.proc.pid

    def write(self, data):
        self.proc.stdin.write(data)
        self.proc.stdin.flush()

    def send(self, op, **keys):
        """One request; its id."""
        self.last_id += 1
        self.write(frame({"id": self.last_id, "op": op, **keys}))
        return self.last_id

    def _more(self):
        fd = self.proc.stdout.fileno()
        if not select.select([fd], [], [], LIMIT)[0]:
            raise AssertionError(f"nothing came for {LIMIT} s")
        data = os.read(fd, 1 << 20)
        self.buffer += data
        return data

    def receive(self):
        """The next frame's object; None: the stream has ended, and not within a frame."""
        while len(self.buffer) < 4:
            if not self._more():
                assert not self.buffer, f"ended within a frame: {self.buffer!r}"
                return None
        size = struct.unpack(">I", self.buffer[:4])[0]
        while len(self.buffer) < 4 + size:
            if not self._more():
                raise AssertionError(f"ended within a frame of {size} bytes")
        text = bytes(self.buffer[4:4 + size])
        del self.buffer[:4 + size]
        return json.loads(text)

    def answers(self, ids):
        """id -> answer of each of @ids, each exactly once; events go to self.events."""
        left, found = set(ids), {}
        while left:
            got = self.receive()
            assert got is not None, f"the stream ended before the answers of {left}"
            if "event" in got:
                self.events.append(got)
                continue
            assert got["id"] in left, f"an answer that nobody waits for: {str(got)[:300]}"
            left.remove(got["id"])
            found[got["id"]] = got
        return found

    def call(self, op, **keys):
        """One request to its answer."""
        number = self.send(op, **keys)
        return self.answers([number])[number]

    def result(self, op, **keys):
        answer = self.call(op, **keys)
        assert answer["ok"], answer
        return answer["result"]

    def error(self, op, **keys):
        """The refusal; None when it was taken."""
        return self.call(op, **keys).get("error")

    def hang_up(self):
        self.proc.stdin.close()

    def status(self, seconds=LIMIT):
        return self.proc.wait(timeout=seconds)

    def end(self):
        """Close everything; the exit status and what it said on stderr."""
        for stream in (self.proc.stdin, self.proc.stdout):
            if stream and not stream.closed:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass
        try:
            self.status()
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            raise AssertionError("nsbox rpc did not end with its connection") from None
        finally:
            said = self.proc.stderr.read() if not self.proc.stderr.closed else b""
            self.proc.stderr.close()
        return self.proc.returncode, said.decode()


def text_of(events, number, name):
    """What the events of one stream hold, as bytes."""
    import base64
    out = b""
    for event in events:
        if event["id"] == number and event["event"] == name:
            data = event["data"]
            out += base64.b64decode(data["base64"]) if isinstance(data, dict) else data.encode()
    return out


def wait_until(holds, what, seconds=LIMIT):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)
