# as: root user
"""nsbox rpc: many runs over one connection, streamed, cancelled, broken in every way."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import NSBOX, SCRATCH, box, environ, has_writable_binds, nsbox  # noqa: E402
from host import become_reaper, descendants, kill_leftovers, leftovers  # noqa: E402
from rpcclient import Rpc, frame, text_of, wait_until  # noqa: E402
from tap import needs, run_tests  # noqa: E402

MIB = 1 << 20
SHELL = ["sh", "-c"]


def nothing_is_left(tap, name):
    left = leftovers(5)
    if not tap.equal(left, [], name):
        kill_leftovers()


# --- what the operations answer -------------------------------------------------------

def hello_says_who_is_there(tap):
    with Rpc() as rpc:
        got = rpc.result("hello")
        tap.equal(sorted(got), ["languages", "pid", "protocol", "tiers", "version"], "hello: the keys")
        tap.equal((got["protocol"], got["pid"]), (1, rpc.pid), "hello: protocol 1, and our child's pid")
        tap.equal(got["version"], nsbox("version").text().split()[1], "hello: the version of the command")
        tap.equal(got["languages"], ["python", "javascript", "bash"], "hello: the languages")
        tap.ok("local" in got["tiers"], "hello: the tier local", got)
        for tier in ("static", "local_unsafe", "docker"):
            error = rpc.error("run", argv=["true"], tier=tier)
            if tier in got["tiers"]:
                tap.ok(not error or error["code"] != "unsupported", f"{tier} is listed, and opens", error)
            else:
                tap.equal(error and error["code"], "unsupported", f"{tier} is not listed, and refused")


def a_run_has_the_record_of_the_command(tap):
    command = [*SHELL, "cat; echo err >&2; exit 3"]
    want = box(("-i",), *command, stdin=b"in \xc3\xa9").record
    with Rpc() as rpc:
        got = rpc.result("run", argv=command, stdin="in é")
        tap.equal(list(got), list(want), "the same keys in the same order")
        for key in ("schema", "tier", "verdict", "exit_code", "stdout", "stderr", "stdout_encoding",
                    "enforced", "limits", "working_directory", "success", "denials"):
            tap.equal(got[key], want[key], f"the same {key}")
        got = rpc.result("run", argv=["cat"], stdin={"base64": "AP8="})
        tap.equal((got["stdout"], got["stdout_encoding"]), ("AP8=", "base64"),
                  "bytes go in and come out as base64")
        tap.equal(rpc.result("run", argv=["cat"])["stdout"], "", "without stdin it is empty")
        got = rpc.result("run", argv=["no-such-command"])
        tap.equal((got["exit_code"], got["reason"].split(":")[0]), (127, "not_found"),
                  "a command that is not there is a result")


def a_request_shapes_its_box(tap):
    with Rpc() as rpc:
        got = rpc.result("run", argv=[*SHELL, "echo $A; pwd"], env={"A": "b c"}, cwd="/tmp",
                         policy={"limits": {"memory": "64M"}}, set={"limits.pids": 9, "limits.files": "77"})
        tap.equal(got["stdout"], "b c\n/tmp\n", "env and cwd")
        tap.equal([got["limits"][k] for k in ("memory_bytes", "pids", "files")], [64 * MIB, 9, 77],
                  "policy and set, as number and as text")
        got = rpc.result("run", argv=["true"], policy={"limits": {"pids": 8}}, set={"limits.pids": 9})
        tap.equal(got["limits"]["pids"], 9, "set goes over policy")
        got = rpc.result("run", argv=["true"], profile="strict")
        strict = box(("-p", "strict"), "true").record
        tap.equal(got["limits"], strict["limits"], "a profile")
        got = rpc.result("run", argv=["sleep", "60"], timeout_ms=100)
        tap.equal(got["verdict"], "timed_out", "timeout_ms")
        with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
            os.chmod(folder, 0o755)
            path = os.path.join(folder, "é")
            with open(path, "w", encoding="utf-8") as f:
                f.write("seen")
            tap.ok(rpc.result("run", argv=["cat", path])["exit_code"] != 0, "control: not visible")
            got = rpc.result("run", argv=["cat", path], set={"fs.read": [path]})
            tap.equal(got["stdout"], "seen", "a list in set", got)


def code_runs_in_its_language(tap):
    with Rpc() as rpc:
        got = rpc.result("code", language="python", code="import sys\nprint(sys.argv[1:], input())",
                         args=["a", "b"], stdin="x\n")
        tap.equal(got["stdout"], "['a', 'b'] x\n", "python with args and stdin")
        tap.equal(rpc.result("code", language="sh", code="echo $0 $1", args=["z"])["stdout"].split()[-1], "z",
                  "another name of a language")
        with tempfile.NamedTemporaryFile("w", suffix=".sh", dir=SCRATCH) as f:
            f.write("echo from a file")
            f.flush()
            os.chmod(f.name, 0o644)
            tap.equal(rpc.result("code", file=f.name)["stdout"], "from a file\n", "a file by its suffix")
        got = rpc.result("code", language="python", code="print('\ud800')")
        tap.equal((got["verdict"], got["exit_code"]), ("exited", 1),
                  "half a character in code is the interpreter's to judge", got)
        tap.equal(rpc.error("code", language="pythn", code="")["hint"], "did you mean 'python'?",
                  "an unknown language")
        tap.equal(rpc.error("code", language="python")["message"], "no code given", "no code")
        tap.equal(rpc.error("code", code="", file="/x")["message"], "'code' and 'file' exclude each other",
                  "code and file")


def the_schema_is_printed(tap):
    printed = nsbox("rpc", "--schema")
    tap.equal(printed.rc, 0, "nsbox rpc --schema")
    with Rpc() as rpc:
        tap.equal(rpc.result("schema"), json.loads(printed.out), "the operation schema says the same")
        tap.equal(rpc.result("doctor")["schema"], "nsbox.doctor/1", "doctor")
    known = {r["properties"]["op"]["allOf"][0]["const"]: r
             for r in json.loads(printed.out)["$defs"]["request"]["oneOf"]}
    tap.ok("id" not in known.pop("reply")["properties"], "a reply has no id")
    with Rpc() as rpc:
        for name, request in known.items():
            wanted = [k for k in request["required"] if k not in ("id", "op")]
            error = rpc.error(name) if wanted else None
            tap.ok(not wanted or f"needs '{wanted[0]}'" in error["message"],
                   f"{name} needs what the schema says", f"{wanted} {error}")
    tap.equal(nsbox("rpc", "x").rc, 125, "operands are refused")


# --- many at once ----------------------------------------------------------------------

@needs(has_writable_binds, "writable binds")
def many_runs_are_in_flight(tap):
    count = 24
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder, Rpc() as rpc:
        os.chmod(folder, 0o777)
        meet = (f"touch {folder}/$1; until [ $(ls {folder} | wc -l) -ge {count} ]; do sleep 0.05; done; "
                "echo $1")
        ids = {rpc.send("run", argv=[*SHELL, meet, "sh", str(i)], set={"fs.write": [folder]},
                        timeout_ms=60000): i for i in range(count)}
        found = rpc.answers(ids)
        tap.equal({n: a["result"]["stdout"] for n, a in found.items()},
                  {n: f"{i}\n" for n, i in ids.items()},
                  f"{count} runs that all wait for each other end, each with its own output")
    nothing_is_left(tap, "no process is left")


def an_answer_need_not_wait_for_another(tap):
    with Rpc() as rpc:
        slow = rpc.send("run", argv=["sleep", "60"])
        tap.equal(rpc.result("run", argv=["echo", "x"])["stdout"], "x\n", "the second is answered first")
        tap.equal(rpc.result("cancel", target=slow), {"target": slow, "found": True}, "cancel finds it")
        got = rpc.answers([slow])[slow]["result"]
        tap.equal((got["verdict"], got["signal"], got["reason"].split(":")[0]), ("signaled", 9, "killed"),
                  "its own answer comes: killed")
        tap.equal(rpc.result("cancel", target=slow)["found"], False, "it is not found twice")
    nothing_is_left(tap, "no process is left")


def an_id_in_flight_is_not_taken_twice(tap):
    with Rpc() as rpc:
        slow = rpc.send("run", argv=["sleep", "60"])
        rpc.write(frame({"id": slow, "op": "hello"}))
        got = rpc.receive()
        tap.equal((got["id"], got["ok"], got["error"]["code"]), (None, False, "usage"),
                  "refused without an id, which would be the other's", got)
        rpc.result("cancel", target=slow)
        tap.equal(rpc.answers([slow])[slow]["ok"], True, "the first one has its answer")
        rpc.write(frame({"id": slow, "op": "hello"}))
        tap.equal(rpc.answers([slow])[slow]["ok"], True, "afterwards the id is free")


# --- starts that take long ------------------------------------------------------------

BACKEND = """\
import time
def build_wheel(folder, config_settings=None, metadata_directory=None):
    time.sleep(1000)
"""


def endless_package(folder):
    """A source package that is never built to its end; the environment that finds it."""
    parts = {"own.py": BACKEND, "PKG-INFO": "Metadata-Version: 2.1\nName: endless\nVersion: 1.0\n",
             "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'}
    with tarfile.open(os.path.join(folder, "endless-1.0.tar.gz"), "w:gz") as tar:
        for path, text in parts.items():
            item = tarfile.TarInfo(f"endless-1.0/{path}")
            item.size = len(text)
            tar.addfile(item, io.BytesIO(text.encode()))
    os.chmod(folder, 0o755)
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": folder, "PIP_CONFIG_FILE": "/dev/null",
            "XDG_CACHE_HOME": os.path.join(folder, "cache")}


def an_installation_holds_up_nobody(tap):
    keys = {"language": "python", "packages": ["endless"], "interpreter": "/usr/bin/python3"}
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        env = endless_package(folder)
        rpc = Rpc(env=env)
        slow = rpc.send("code", code="1", stream=True, progress=True, **keys)
        wait_until(lambda: any(name.startswith("python") for _, name, _ in descendants(rpc.pid)), "pip is at work")
        tap.equal(rpc.result("run", argv=["echo", "x"])["stdout"], "x\n", "a run meanwhile")
        got = rpc.result("run", argv=["sleep", "60"], timeout_ms=100)
        tap.equal(got["verdict"], "timed_out", "clocks go on")
        tap.equal(rpc.result("cancel", target=slow)["found"], True, "it can be cancelled")
        got = rpc.answers([slow])[slow]
        tap.ok(not got["ok"] or got["result"]["verdict"] in ("signaled", "skipped"), "and is answered", got)
        said = [e["data"] for e in rpc.events if e["id"] == slow and e["event"] == "progress"]
        tap.equal([s.split(" from ")[0] for s in said], ["installing endless"], "an event told what went on", rpc.events)
        inline = "# /// script\n# dependencies = ['endless']\n# ///\n"
        for name, op, more in (
                ("a command's packages", "run", {"argv": ["true"], "set": {"packages.list": "endless"}}),
                ("a source's own list", "code", {"language": "python", "code": inline,
                                                 "interpreter": "/usr/bin/python3", "set": {"packages.inline": "true"}})):
            slow = rpc.send(op, **more)
            wait_until(lambda: any(name.startswith("python") for _, name, _ in descendants(rpc.pid)), "pip once more")
            tap.equal(rpc.result("run", argv=["echo", "x"])["stdout"], "x\n", f"nor do {name}")
            rpc.result("cancel", target=slow)
            rpc.answers([slow])
        opening = rpc.send("open", **keys)
        wait_until(lambda: any(name.startswith("python") for _, name, _ in descendants(rpc.pid)), "pip again")
        cancel = rpc.send("cancel", target=opening)
        found = rpc.answers([opening, cancel])
        tap.equal((found[cancel]["result"]["found"], found[opening]["error"]["code"]), (True, "busy"),
                  "so can an opening, which is answered")
        rpc.send("code", code="1", progress=True, **keys)
        rpc.send("open", **keys)
        rpc.call("hello")
        rpc.hang_up()
        tap.equal(rpc.status(), 0, "the end of input ends installations too")
        nothing_is_left(tap, "no process is left")
        rpc.end()


def a_judged_source_is_started_like_any_other(tap):
    with Rpc() as rpc:
        ids = {rpc.send("code", language="python", code=f"import {name}; print({name}.__name__)", stream=True,
                        set={"imports.allow": ["json"]}): name for name in ("json", "socket", "json", "json")}
        found = rpc.answers(ids)
        tap.equal([found[n]["result"]["stdout"] if name == "json" else found[n]["result"]["verdict"]
                   for n, name in ids.items()], ["json\n", "skipped", "json\n", "json\n"],
                  "with import rules, several at once")
        box = rpc.result("open", language="python", timeout_ms=60000, set={"imports.allow": ["json"]})["box"]
        got = rpc.result("execute", box=box, code="import json; json.__name__")
        tap.equal(got["value"], "json", "a box that stays as well")
    nothing_is_left(tap, "no process is left")


# --- streaming ---------------------------------------------------------------------------

def output_is_streamed_in_order(tap):
    with Rpc() as rpc:
        number = rpc.send("run", argv=[*SHELL, "echo one; read x; echo two $x; echo err >&2"], stdin="s\n",
                          stream=True)
        got = rpc.answers([number])[number]["result"]
        tap.equal(text_of(rpc.events, number, "stdout"), b"one\ntwo s\n", "stdout by events, before the answer")
        tap.equal(text_of(rpc.events, number, "stderr"), b"err\n", "stderr by events")
        tap.equal((got["stdout"], got["stderr"], got["stdout_bytes"], got["stdout_truncated"]),
                  ("one\ntwo s\n", "err\n", 10, False), "the record has both as well")
        rpc.events.clear()
        rpc.call("run", argv=["echo", "x"], stream=False)
        tap.equal(rpc.events, [], "without stream no event")


@needs(has_writable_binds, "writable binds")
def output_comes_while_the_program_runs(tap):
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder, Rpc() as rpc:
        os.chmod(folder, 0o777)
        rpc.send("run", argv=[*SHELL, f"echo begun; until [ -e {folder}/go ]; do sleep 0.05; done"],
                 set={"fs.read": [folder]}, stream=True)
        tap.equal(rpc.receive(), {"id": 1, "event": "stdout", "data": "begun\n"},
                  "the event of a program that waits for us")
        with open(os.path.join(folder, "go"), "w", encoding="utf-8"):
            pass
        tap.equal(rpc.receive()["result"]["exit_code"], 0, "then it ends")


def characters_are_not_split(tap):
    split = "printf '\\303'; sleep 0.3; printf '\\251\\360\\237'; sleep 0.3; printf '\\230\\200'"
    with Rpc() as rpc:
        got = rpc.result("run", argv=[*SHELL, split], stream=True)
        tap.ok(all(isinstance(e["data"], str) for e in rpc.events), "no event has half a character", rpc.events)
        tap.equal("".join(e["data"] for e in rpc.events), "é😀", "together they are what was written")
        tap.equal(got["stdout"], "é😀", "and so is the record")
        rpc.events.clear()
        got = rpc.result("run", argv=[*SHELL, "printf 'a\\377\\303'"], stream=True)
        tap.equal(text_of(rpc.events, rpc.last_id, "stdout"), b"a\xff\xc3", "bytes that are no text, exactly")
        tap.equal((got["stdout"], got["stdout_encoding"]), ("Yf/D", "base64"), "in the record as base64")


def a_stream_has_the_policys_limit(tap):
    with Rpc() as rpc:
        got = rpc.result("run", argv=[*SHELL, "head -c 300000 /dev/zero | tr '\\0' x"], stream=True,
                         set={"limits.stdout": "100K"})
        sent = len(text_of(rpc.events, rpc.last_id, "stdout"))
        tap.equal((sent, got["stdout_bytes"], got["stdout_truncated"], len(got["stdout"])),
                  (102400, 300000, True, 102400), "100 KiB are sent and kept, all of it is counted")


def what_fits_no_frame_is_said(tap):
    with Rpc() as rpc:
        error = rpc.error("run", argv=["head", "-c", str(65 * MIB), "/dev/zero"],
                          set={"limits.stdout": "80M", "limits.memory": "256M"})
        tap.equal(error and (error["code"], error["message"]),
                  ("usage", f"the answer is larger than a frame, {64 * MIB} bytes"),
                  "a record larger than a frame is an error, not a broken frame")
        tap.equal(rpc.result("run", argv=["echo", "x"])["stdout"], "x\n", "the connection goes on")


def status_of(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith(field + ":"))


def ticks_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return tuple(f.read().rsplit(")", 1)[1].split()[11:13])


class Idle:
    """True once a process took no processor time for 25 looks, half a second at least."""

    def __init__(self, pid):
        self.pid, self.last, self.same = pid, None, 0

    def __call__(self):
        now = ticks_of(self.pid)
        self.same = self.same + 1 if now == self.last else 0
        self.last = now
        return self.same > 25


def a_client_that_does_not_read_costs_no_memory(tap):
    runs, size = 4, 60 * MIB
    with Rpc() as rpc:
        ids = [rpc.send("run", argv=[*SHELL, f"yes | head -c {size}"], stream=True, timeout_ms=200000,
                        set={"limits.stdout": "100M"}) for _ in range(runs)]
        wait_until(Idle(rpc.pid), "nothing moves while nobody reads")
        peak = status_of(rpc.pid, "VmHWM") * 1024
        tap.within(peak, 1, 40 * MIB, f"{runs} times {size} bytes are on their way, and little is held")
        total = {i: 0 for i in ids}
        left = set(ids)
        while left:
            got = rpc.receive()
            if "event" in got:
                total[got["id"]] += len(got["data"])
            else:
                tap.equal((got["ok"], got["result"]["stdout_bytes"]), (True, size), "a run was delayed, not cut")
                left.remove(got["id"])
        tap.equal(set(total.values()), {size}, "every byte came")


def a_client_that_only_writes_costs_no_memory(tap):
    with Rpc() as rpc:
        request = frame({"id": 1, "op": "schema"})
        fd = rpc.proc.stdin.fileno()
        os.set_blocking(fd, False)
        idle, sent = Idle(rpc.pid), 0

        def is_stuck():
            nonlocal sent
            try:
                while True:
                    sent += os.write(fd, request * 100)
            except BlockingIOError:
                return idle()
        wait_until(is_stuck, "it stops to read what nobody takes the answers of")
        tap.within(status_of(rpc.pid, "VmHWM") * 1024, 1, 20 * MIB, f"{sent} bytes of requests, little memory")
        rpc.proc.kill()


# --- refusals ------------------------------------------------------------------------------

def wrong_requests_are_refused_and_the_connection_goes_on(tap):
    rows = [
        ({"op": "rum"}, "unknown operation 'rum'", "did you mean 'run'?"),
        ({"op": "run", "argv": ["true"], "timeot_ms": 1}, "unknown key 'timeot_ms' of \"run\"",
         "did you mean 'timeout_ms'?"),
        ({"op": "hello", "argv": []}, "unknown key 'argv' of \"hello\"", None),
        ({"op": "run", "argv": ["true"], "timeout_ms": "1"},
         "'timeout_ms' takes a whole number from 1 to 2^53, not a string", ""),
        ({"op": "run", "argv": ["true"], "timeout_ms": -1},
         "'timeout_ms' takes a whole number from 1 to 2^53, not this number", ""),
        ({"op": "run", "argv": []}, "'argv' is empty: no command given", ""),
        ({"op": "run", "argv": ["a\0b"]}, "'argv' has a NUL in it", ""),
        ({"op": "run", "argv": ["\ud800"]},
         "\\ud800 is half of a character: a surrogate without its partner", ""),
        ({"op": "run", "argv": ["true"], "env": {"A=B": "c"}},
         "a name in 'env' is empty or has a '=' in it", ""),
        ({"op": "run", "argv": ["true"], "stdin": {"base64": "!"}}, "not base64 (RFC 4648, one line)", ""),
        ({"op": "run", "argv": ["true"], "tier": "locl"}, "unknown tier 'locl'", "did you mean 'local'?"),
        ({"op": "run", "argv": ["true"], "profile": "stric"}, "unknown profile 'stric'",
         "did you mean 'strict'?"),
        ({"op": "run", "argv": ["true"], "set": {"limits.memry": "1M"}}, 'unknown key "limits.memry"',
         "did you mean limits.memory?"),
        ({"op": "run", "argv": ["true"], "policy": {"limits": {"memry": "1M"}}},
         'policy:1:13: unknown key "limits.memry"', "did you mean limits.memory?"),
    ]
    with Rpc() as rpc:
        for keys, message, hint in rows:
            error = rpc.error(**keys)
            tap.equal(error and error["message"], message, f"refused: {str(keys)[:80]!a}")
            if hint is not None:
                tap.equal(error and error["hint"], hint, f"its hint: {hint!r}")
            tap.equal(sorted(error or ()), ["code", "hint", "message", "os_errno", "stage"], "code, stage, hint")
        for raw in (b'{"op":"hello"}', b'{"id":0,"op":"hello"}', b'{"id":"1","op":"hello"}', b"[1]", b"5"):
            rpc.write(frame(raw))
            got = rpc.receive()
            tap.equal((got["id"], got["ok"], got["error"]["code"]), (None, False, "usage"),
                      f"no usable id: {raw.decode()}")
        rpc.write(frame(b'{"id":900,"id":901,"op":"hello"}'))
        tap.equal(rpc.receive()["error"]["message"], "the key 'id' is given twice", "a key twice")
        deep = b'{"id":902,"op":"run","argv":["true"],"policy":' + b'{"a":' * 62 + b"1" + b"}" * 62 + b"}"
        rpc.write(frame(deep))
        tap.equal(rpc.receive()["id"], 902, "63 levels are read")
        tap.equal(rpc.call("hello")["ok"], True, "and the connection goes on")


def a_broken_frame_ends_the_connection(tap):
    hello = frame({"id": 1, "op": "hello"})
    rows = [
        ("length 0", b"\0\0\0\0", "a frame of 0 bytes"),
        ("one byte too long", b"\4\0\0\1", f"a frame of {64 * MIB + 1} bytes"),
        ("a length of 4 GiB", b"\xff\xff\xff\xff", "a frame of 4294967295 bytes"),
        ("text instead of frames", b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
        ("not UTF-8", frame(b'"\xff"'), "not UTF-8"),
        ("not JSON", frame(b"{]"), "not JSON at byte 1"),
        ("two values", frame(b"{} {}"), "more than one value"),
        ("10,000 nested lists", frame(b"[" * 10000 + b"]" * 10000), "nested too deep"),
        ("10,000 open objects", frame(b'{"a":' * 10000), "nested too deep"),
        ("65 levels", frame(b"[" * 65 + b"]" * 65), "nested too deep"),
    ]
    for name, data, message in rows:
        with Rpc() as rpc:
            slow = rpc.send("run", argv=["sleep", "60"])
            rpc.write(hello.replace(b'"id": 1', b'"id": 9') + data + hello)
            tap.equal(rpc.receive()["id"], 9, f"{name}: what came before is answered")
            got = rpc.receive()
            tap.ok(got and got["id"] is None and not got["ok"] and message in got["error"]["message"],
                   f"{name}: one answer without id", got)
            tap.equal((rpc.receive(), rpc.status()), (None, 125), f"{name}: nothing more, status 125", slow)
    with Rpc() as rpc:
        rpc.write(hello[:-1])
        rpc.hang_up()
        got = rpc.receive()
        tap.ok(got["id"] is None and "bytes into a frame" in got["error"]["message"], "a frame cut short", got)
        tap.equal((rpc.receive(), rpc.status()), (None, 125), "is a broken one")
    nothing_is_left(tap, "no process is left")


# --- the end ----------------------------------------------------------------------------------

def busy(**popen):
    """An rpc with three boxes that would run for a minute, one of which streams."""
    rpc = Rpc(**popen)
    for script in ("sleep 60", "setsid sleep 60 & sleep 60", "while :; do echo x; sleep 0.01; done"):
        rpc.send("run", argv=[*SHELL, script], stream="echo" in script, timeout_ms=60000)
    while "event" not in (rpc.receive() or ()):
        pass
    wait_until(lambda: sum(name == "sleep" for _, name, _ in descendants(rpc.pid)) >= 3, "the boxes run")
    return rpc


def the_end_of_input_kills_all_boxes(tap):
    rpc = busy()
    rpc.hang_up()
    tap.equal(rpc.status(10), 0, "end of input: exit 0")
    nothing_is_left(tap, "and no process is left")
    tap.equal(rpc.end()[1], "", "nothing on stderr")


def signals_end_it_as_well(tap):
    for name in ("SIGTERM", "SIGHUP"):
        rpc = busy()
        rpc.proc.send_signal(getattr(signal, name))
        tap.equal(rpc.status(10), 0, f"{name}: exit 0")
        nothing_is_left(tap, "and no process is left")
        rpc.end()
    rpc = busy()
    rpc.proc.send_signal(signal.SIGINT)
    answer = rpc.call("hello")
    tap.equal(answer["ok"], True, "SIGINT is the client's: it goes on")
    rpc.end()


def a_killed_one_leaves_nothing(tap):
    rpc = busy()
    rpc.proc.kill()
    tap.equal(rpc.status(10), -9, "kill -9")
    nothing_is_left(tap, "no process of any box is left")
    rpc.end()


def a_client_that_vanishes_ends_it(tap):
    rpc = busy()
    rpc.proc.stdout.close()
    tap.equal(rpc.status(10), 0, "its output is closed, its input still open: it ends")
    nothing_is_left(tap, "no process is left")
    rpc.end()
    with Rpc() as rpc:
        rpc.result("hello")
        rpc.proc.stdout.close()
        tap.equal(rpc.status(10), 0, "an idle one notices too")


def what_was_asked_before_the_end_is_answered(tap):
    with tempfile.TemporaryFile(dir=SCRATCH) as given, tempfile.TemporaryFile(dir=SCRATCH) as out:
        given.write(b"".join(frame({"id": i, "op": "hello"}) for i in range(1, 51)))
        given.seek(0)
        proc = subprocess.run([NSBOX, "rpc"], stdin=given, stdout=out, stderr=subprocess.PIPE, env=environ(),
                              cwd=SCRATCH, timeout=60, check=False)
        out.seek(0)
        tap.equal((proc.returncode, out.read().count(b'"ok":true')), (0, 50), "files for both: 50 answers",
                  proc.stderr)


def a_run_leaves_nothing_for_the_next(tap):
    leave = "for d in /workspace /tmp /dev/shm; do echo x > $d/left; done; (setsid sleep 300 &); echo done"
    look = ("for d in /workspace /tmp /dev/shm; do ls -A $d; done; echo \"[$LEFT]\"; "
            "grep -l sleep /proc/[0-9]*/comm | wc -l")
    with Rpc() as rpc:
        got = rpc.result("run", argv=["sh", "-c", leave], env={"LEFT": "1"})
        tap.equal((got["stdout"], got["orphans_killed"]), ("done\n", True), "A21 control: a run leaves files and a process", got)
        got = rpc.result("run", argv=["sh", "-c", look])
        tap.equal(got["stdout"], "[]\n0\n", "A21 the next one finds no file, variable or process of it", got)


def a_socket_serves_as_well(tap):
    ours, theirs = socket.socketpair()
    with Rpc(stdin=theirs, stdout=theirs) as rpc:
        theirs.close()
        ours.settimeout(60)
        ours.sendall(frame({"id": 1, "op": "run", "stream": True,
                            "argv": [*SHELL, "head -c 3000000 /dev/zero | tr '\\0' x"], "set": {"limits.stdout": "4M"}}))
        told = 0
        with ours.makefile("rb") as stream:
            while True:
                message = json.loads(stream.read(int.from_bytes(stream.read(4), "big")))
                if "ok" in message:
                    break
                told += len(message["data"])
        tap.equal((told, len(message["result"]["stdout"])), (3000000, 3000000),
                  "3,000,000 bytes by events and in the record")
        ours.close()
        tap.equal(rpc.status(10), 0, "it ends when the socket is closed")


become_reaper()
run_tests([
    hello_says_who_is_there, a_run_has_the_record_of_the_command, a_request_shapes_its_box,
    code_runs_in_its_language, the_schema_is_printed,
    many_runs_are_in_flight, an_answer_need_not_wait_for_another, an_id_in_flight_is_not_taken_twice,
    an_installation_holds_up_nobody, a_judged_source_is_started_like_any_other,
    output_is_streamed_in_order, output_comes_while_the_program_runs, characters_are_not_split,
    a_stream_has_the_policys_limit, what_fits_no_frame_is_said,
    a_client_that_does_not_read_costs_no_memory, a_client_that_only_writes_costs_no_memory,
    wrong_requests_are_refused_and_the_connection_goes_on, a_broken_frame_ends_the_connection,
    the_end_of_input_kills_all_boxes, signals_end_it_as_well, a_killed_one_leaves_nothing,
    a_client_that_vanishes_ends_it, what_was_asked_before_the_end_is_answered, a_run_leaves_nothing_for_the_next, a_socket_serves_as_well,
])
