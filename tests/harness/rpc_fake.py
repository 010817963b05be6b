#!/usr/bin/env python3
"""A child that misbehaves, in place of `nsbox rpc`: `rpc_fake.py`, NSBOX_FAKE says how.

Answers hello, then: silent: nothing; die: SIGKILL to itself; exit: status 3 with a line on standard
error; garbage: text that is no frame; long: a length that cannot be; list: JSON that is no object;
fatal: the error with id null and status 125; half: half a frame; echo: the request as its result.
kernel: open, and execute whose code is
a JSON list of events to send, where "reply" waits for an answer to a call and an object without
"event" is the result, to which the replies are added. `mute`: not even the hello. `stubborn`: silent, and ignores the end of its input.
"""

import json
import os
import signal
import struct
import sys
import time

HOW = os.environ["NSBOX_FAKE"]


def send(message):
    body = json.dumps(message).encode()
    os.write(1, struct.pack(">I", len(body)) + body)


def receive():
    header = sys.stdin.buffer.read(4)
    if len(header) < 4:
        if HOW == "stubborn":
            time.sleep(1000)
        sys.exit(0)
    return json.loads(sys.stdin.buffer.read(struct.unpack(">I", header)[0]))


def play(request):
    """Send the events that the code lists; the result has the replies that came meanwhile."""
    replies = []
    for step in json.loads(request["code"]):
        if step == "reply":
            while (got := receive())["op"] != "reply":
                pass
            replies.append(got)
        elif "event" in step:
            send({"id": request["id"], **step})
        else:
            send({"id": request["id"], "ok": True, "result": {**step, "replies": replies}})


def kernel(request):
    if request["op"] == "open":
        send({"id": request["id"], "ok": True, "result": {"box": "b1"}})
    elif request["op"] == "execute":
        play(request)
    else:
        send({"id": request["id"], "ok": True, "result": {"status": "ok", "request": request}})


def misbehave(request):
    if HOW == "kernel":
        return kernel(request)
    if HOW == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    elif HOW == "exit":
        sys.stderr.write("first line\nthe reason\n")
        sys.exit(3)
    elif HOW == "garbage":
        os.write(1, b"hello, this is no frame at all\n")
    elif HOW == "long":
        os.write(1, struct.pack(">I", 1 << 31))
    elif HOW == "list":
        os.write(1, struct.pack(">I", 2) + b"[]")
    elif HOW == "fatal":
        send({"id": None, "ok": False, "error": {"code": "usage", "message": "not JSON"}})
        sys.exit(125)
    elif HOW == "half":
        os.write(1, struct.pack(">I", 100) + b"{")
        sys.exit(0)
    elif HOW == "echo":
        send({"id": request["id"], "ok": True, "result": request})
    return None


if HOW == "mute":
    os.write(2, b"cannot start: no such thing\n")
    sys.exit(1)
while True:
    got = receive()
    if got["op"] == "hello" and not (HOW == "silent" and got["id"] != 1):
        send({"id": got["id"], "ok": True, "result": {"protocol": 1, "pid": os.getpid()}})
    else:
        misbehave(got)
