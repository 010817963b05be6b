"""A kernel of libnsbox through ctypes: for the suites that run cells."""

import ctypes as c
import json
import os
import select
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box import REPO  # noqa: E402

LOCAL = 2
USAGE, POLICY, UNSUPPORTED, BUSY, SYSTEM = -1, -2, -3, -5, -7


class Error(c.Structure):
    _fields_ = [("size", c.c_uint32), ("code", c.c_int32), ("os_errno", c.c_int32),
                ("stage", c.c_char * 24), ("message", c.c_char * 512), ("hint", c.c_char * 512)]


class Run(c.Structure):
    _fields_ = [("size", c.c_uint32), ("flags", c.c_uint32), ("language", c.c_char_p), ("code", c.c_char_p),
                ("code_len", c.c_size_t), ("file", c.c_char_p), ("project", c.c_char_p),
                ("interpreter", c.c_char_p), ("argv", c.POINTER(c.c_char_p)), ("env", c.POINTER(c.c_char_p)),
                ("cwd", c.c_char_p), ("timeout_ms", c.c_uint64)]


lib = c.CDLL(os.path.join(REPO, "build/lib/libnsbox.so.0"))
lib.nsbox_result_json.restype = c.c_char_p
lib.nsbox_result_json.argtypes = [c.c_void_p]
for _name in ("policy_free", "box_close", "box_kill", "result_free"):
    getattr(lib, "nsbox_" + _name).argtypes = [c.c_void_p]
    getattr(lib, "nsbox_" + _name).restype = None
lib.nsbox_policy_new.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]
lib.nsbox_policy_set.argtypes = [c.c_void_p, c.c_char_p, c.c_char_p, c.c_void_p]
lib.nsbox_box_open.argtypes = [c.c_void_p, c.c_int, c.c_void_p, c.c_void_p]
lib.nsbox_kernel_open.argtypes = [c.c_void_p] * 4
lib.nsbox_kernel_fd.argtypes = [c.c_void_p]
lib.nsbox_kernel_send.argtypes = [c.c_void_p, c.c_char_p, c.c_size_t, c.c_void_p]
lib.nsbox_kernel_next.argtypes = [c.c_void_p] * 4
lib.nsbox_kernel_interrupt.argtypes = [c.c_void_p] * 2
lib.nsbox_kernel_close.argtypes = [c.c_void_p] * 3


class Refused(Exception):
    """A call of the library that failed: code and message."""

    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class Kernel:
    """One kernel in a box of its own; keys: net__mode="open" sets net.mode."""

    def __init__(self, language="python", profile=None, life_ms=120000, env=(), argv=(), tier=LOCAL, interpreter=None,
                 project=None, **keys):
        self.err, self.box, self.kernel = Error(size=c.sizeof(Error)), c.c_void_p(), c.c_void_p()
        profile = profile or {"javascript": "node", "bash": "shell"}.get(language, language)
        policy = c.c_void_p()
        self.check(lib.nsbox_policy_new(c.byref(policy), profile.encode(), c.byref(self.err)))
        for key, value in keys.items():
            name = key.replace("__", ".").encode()
            self.check(lib.nsbox_policy_set(policy, name, str(value).encode(), c.byref(self.err)))
        self.check(lib.nsbox_box_open(c.byref(self.box), tier, policy, c.byref(self.err)))
        lib.nsbox_policy_free(policy)
        run = Run(size=c.sizeof(Run), language=language.encode(), timeout_ms=life_ms)
        run.env = (c.c_char_p * (len(env) + 1))(*[e.encode() for e in env], None)
        run.interpreter = interpreter.encode() if interpreter else None
        run.project = project.encode() if project else None
        if argv:
            run.argv = (c.c_char_p * (len(argv) + 1))(*[a.encode() for a in argv], None)
        self.check(lib.nsbox_kernel_open(c.byref(self.kernel), self.box, c.byref(run), c.byref(self.err)))
        self.last_id = 0
        self.tools = {}
        self.seen = []      # events that nobody asked for: ready, dead

    def check(self, code):
        if code < 0:
            raise Refused(self.err.code, self.err.message.decode())
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """The record of the box's last run, or None when it has been closed."""
        record, result = None, c.c_void_p()
        if self.kernel:
            code = lib.nsbox_kernel_close(self.kernel, c.byref(result), c.byref(self.err))
            self.kernel = c.c_void_p()
            if code == 0:
                record = json.loads(lib.nsbox_result_json(result))
                lib.nsbox_result_free(result)
        lib.nsbox_box_close(self.box)
        self.box = c.c_void_p()
        return record

    def kill_box(self):
        lib.nsbox_box_kill(self.box)

    def interrupt(self):
        self.check(lib.nsbox_kernel_interrupt(self.kernel, c.byref(self.err)))

    def send_text(self, text):
        data = text if isinstance(text, bytes) else text.encode()
        self.check(lib.nsbox_kernel_send(self.kernel, data, len(data), c.byref(self.err)))

    def send(self, **message):
        self.send_text(json.dumps(message))

    def start(self, op="execute", **keys):
        """Send a request; its id."""
        self.last_id += 1
        self.send(id=self.last_id, op=op, **keys)
        return self.last_id

    def next_event(self, timeout=60):
        """The next event; None: the time is over. Refused: the kernel is over."""
        text, size = c.c_char_p(), c.c_size_t()
        until = time.monotonic() + timeout
        while self.check(lib.nsbox_kernel_next(self.kernel, c.byref(text), c.byref(size), c.byref(self.err))) == 0:
            rest = until - time.monotonic()
            if rest <= 0:
                return None
            select.select([lib.nsbox_kernel_fd(self.kernel)], [], [], rest)
        return json.loads(c.string_at(text, size.value))

    def finish(self, number, timeout=60):
        """Wait for a request: its event "done", with "out", "err", "shown" of what came before."""
        texts, shown = {"stdout": [], "stderr": []}, []
        while True:
            event = self.next_event(timeout)
            if event is None:
                raise TimeoutError(f"no event in {timeout} s")
            kind = event["event"]
            if event.get("id") != number:
                self.seen.append(event)
            elif kind in texts:
                texts[kind].append(event["text"])
            elif kind == "display":
                shown.append(event["mime"])
            elif kind == "call":
                self.answer(event)
            elif kind == "done":
                return dict(event, out="".join(texts["stdout"]), err="".join(texts["stderr"]),
                            chunks=texts["stdout"], shown=shown)

    def answer(self, event):
        try:
            value = self.tools[event["name"]](*event["args"], **event["kwargs"])
        except Exception as error:
            self.send(call=event["call"], error={"name": type(error).__name__, "value": str(error)})
        else:
            self.send(call=event["call"], value=value)

    def do(self, op, timeout=60, **keys):
        return self.finish(self.start(op, **keys), timeout)

    def run(self, code, timeout=60, **keys):
        return self.do("execute", timeout, code=code, **keys)
