# as: root user
"""libnsbox inside another language's process: Python through ctypes, with threads,
children and an event loop of its own."""

import asyncio
import concurrent.futures
import ctypes as c
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import REPO  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

LOCAL, BUSY, USAGE, POLICY = 2, -5, -1, -2


class Error(c.Structure):
    _fields_ = [("size", c.c_uint32), ("code", c.c_int32), ("os_errno", c.c_int32),
                ("stage", c.c_char * 24), ("message", c.c_char * 512), ("hint", c.c_char * 512)]


class Run(c.Structure):
    _fields_ = [("size", c.c_uint32), ("flags", c.c_uint32), ("language", c.c_char_p), ("code", c.c_char_p),
                ("code_len", c.c_size_t), ("file", c.c_char_p), ("project", c.c_char_p),
                ("interpreter", c.c_char_p), ("argv", c.POINTER(c.c_char_p)), ("env", c.POINTER(c.c_char_p)),
                ("cwd", c.c_char_p), ("timeout_ms", c.c_uint64),
                ("stdin", c.c_int32), ("stdout", c.c_int32), ("stderr", c.c_int32),
                ("in_fd", c.c_int32), ("out_fd", c.c_int32), ("err_fd", c.c_int32),
                ("artifacts_dir", c.c_char_p), ("tty_rows", c.c_uint32), ("tty_cols", c.c_uint32)]


lib = c.CDLL(os.path.join(REPO, "build/lib/libnsbox.so.0"))
lib.nsbox_version.restype = lib.nsbox_result_json.restype = c.c_char_p
lib.nsbox_result_json.argtypes = [c.c_void_p]
for name in ("policy_free", "box_close", "box_kill", "result_free"):
    getattr(lib, "nsbox_" + name).argtypes = [c.c_void_p]
    getattr(lib, "nsbox_" + name).restype = None
lib.nsbox_box_fd.argtypes = [c.c_void_p]
lib.nsbox_box_open.argtypes = [c.c_void_p, c.c_int, c.c_void_p, c.c_void_p]
lib.nsbox_box_run.argtypes = [c.c_void_p] * 4
lib.nsbox_box_start.argtypes = lib.nsbox_box_collect.argtypes = [c.c_void_p] * 3
lib.nsbox_policy_new.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p]


class Box:
    def __init__(self, profile=b"python"):
        self.err, policy, self.box = Error(size=c.sizeof(Error)), c.c_void_p(), c.c_void_p()
        assert lib.nsbox_policy_new(c.byref(policy), profile, c.byref(self.err)) == 0, self.err.message
        assert lib.nsbox_box_open(c.byref(self.box), LOCAL, policy, c.byref(self.err)) == 0, self.err.message
        lib.nsbox_policy_free(policy)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.nsbox_box_close(self.box)

    def request(self, *argv, **fields):
        run = Run(size=c.sizeof(Run), **fields)
        if argv:
            run.argv = (c.c_char_p * (len(argv) + 1))(*[a.encode() for a in argv], None)
        return run

    def take(self, code, result):
        if code < 0:
            return code
        record = json.loads(lib.nsbox_result_json(result))
        lib.nsbox_result_free(result)
        return record

    def run(self, *argv, **fields):
        result = c.c_void_p()
        run = self.request(*argv, **fields)
        return self.take(lib.nsbox_box_run(self.box, c.byref(run), c.byref(result), c.byref(self.err)), result)

    def start(self, *argv, **fields):
        run = self.request(*argv, **fields)
        return lib.nsbox_box_start(self.box, c.byref(run), c.byref(self.err))

    def collect(self):
        result = c.c_void_p()
        return self.take(lib.nsbox_box_collect(self.box, c.byref(result), c.byref(self.err)), result)


def python_runs_python_in_a_box(tap):
    with Box() as box:
        record = box.run(language=b"python", code=b"import os; print(6 * 7, os.getuid())")
        tap.equal((record["verdict"], record["stdout"]), ("exited", "42 1000\n"), "code runs in a box", record)
        record = box.run("sh", "-c", "exit 5")
        tap.equal((record["exit_code"], record["stdout"]), (5, ""), "and then a command", record)


def failures_are_records_and_no_exceptions(tap):
    with Box() as box:
        code = box.run()
        tap.equal((code, box.err.code), (USAGE, USAGE), "nothing to run is a usage error", box.err.message)
        code = box.run("true", cwd=b"/no-such-folder")
        tap.equal((code, box.err.stage, box.err.os_errno), (POLICY, b"mounts", 2),
                  "the record has code, stage and errno", box.err.message)
        tap.ok(b"/no-such-folder" in box.err.message, "and names the folder", box.err.message)
        code = box.collect()
        tap.equal(code, USAGE, "nothing was started, nothing is to collect", box.err.message)


def threads_and_children_of_the_program_do_not_disturb(tap):
    def work(number):
        with Box() as box:
            records = [box.run("sh", "-c", f"echo {number}; exit {number}") for _ in range(6)]
        return [(r["stdout"], r["exit_code"]) for r in records]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work, n) for n in range(4)]
        own = [subprocess.run(["sh", "-c", f"exit {n}"], check=False).returncode for n in range(20)]
        answers = [f.result() for f in futures]
    tap.equal(answers, [[(f"{n}\n", n)] * 6 for n in range(4)], "four threads, six runs each")
    tap.equal(own, list(range(20)), "and every child of the program's own keeps its status")


def an_event_loop_needs_one_descriptor(tap):
    async def one(box, number):
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        assert box.start("sh", "-c", f"sleep 0.{number}; echo {number}") == 0, box.err.message
        fd = lib.nsbox_box_fd(box.box)
        loop.add_reader(fd, done.set)
        try:
            while True:
                await asyncio.wait_for(done.wait(), 20)
                done.clear()
                record = box.collect()
                if record != BUSY:
                    return record["stdout"]
        finally:
            loop.remove_reader(fd)

    async def several():
        boxes = [Box() for _ in range(8)]
        try:
            return await asyncio.gather(*(one(box, n) for n, box in enumerate(boxes)))
        finally:
            for box in boxes:
                lib.nsbox_box_close(box.box)

    tap.equal(asyncio.run(several()), [f"{n}\n" for n in range(8)], "eight boxes in one asyncio loop")


def signals_of_the_interpreter_arrive_and_break_nothing(tap):
    seen = []
    signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    with Box() as box:
        record = box.run("sh", "-c", "sleep 0.4; echo through")
    signal.setitimer(signal.ITIMER_REAL, 0)
    tap.equal(record["stdout"], "through\n", "the run goes on under a timer", record)
    tap.ok(seen, "whose handler ran")


def nothing_is_left(tap):
    before = sorted(os.listdir("/proc/self/fd"))
    with Box() as box:
        for _ in range(20):
            box.run("true")
        box.start("sleep", "60")
    tap.equal(sorted(os.listdir("/proc/self/fd")), before, "no descriptor is left, with a run in flight")
    tap.equal(leftovers(), [], "no process is left")


if __name__ == "__main__":
    become_reaper()
    run_tests([python_runs_python_in_a_box, failures_are_records_and_no_exceptions,
               threads_and_children_of_the_program_do_not_disturb, an_event_loop_needs_one_descriptor,
               signals_of_the_interpreter_arrive_and_break_nothing, nothing_is_left])
