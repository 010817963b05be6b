#!/usr/bin/env python3
# as: root user
"""The Python client: options, results, errors, many runs at once, and every way to an end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
import nsbox  # noqa: E402
from nsbox import _frames, _options, errors, result  # noqa: E402
from cases import host_calls  # noqa: E402
from cases.fake import FAKE, is_alive, with_fake  # noqa: E402

RECORD = {"schema": "nsbox.result/1", "tier": "local", "verdict": "exited", "exit_code": 0,
          "signal": None, "success": True, "reason": None, "stdout": "a", "stderr": "",
          "stdout_encoding": "utf-8", "stderr_encoding": "utf-8", "stdout_bytes": 1,
          "stderr_bytes": 0, "new_field": 7}


def gone(pid, seconds=20.0):
    """Wait until the process is gone; False when it is not."""
    deadline = time.monotonic() + seconds
    while is_alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def python(source, *args, seconds=60, **env):
    """Another interpreter with this client."""
    # A fork of a process with threads, which Python 3.12 warns of, is what is tested.
    return subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", source, *args],
                          env={**os.environ, **env},
                          capture_output=True, text=True, timeout=seconds)


class Results(unittest.TestCase):
    def test_fields(self):
        """a record becomes a result; fields of a newer nsbox stay in the record"""
        got = nsbox.Result.from_record(RECORD)
        self.assertEqual((got.verdict, got.exit_code, got.stdout, got.stdout_raw),
                         ("exited", 0, "a", b"a"))
        self.assertEqual(got.record["new_field"], 7)
        self.assertEqual(got.returncode, 0)

    def test_bytes(self):
        """output that is not UTF-8 keeps its bytes, and is readable text"""
        got = nsbox.Result.from_record({**RECORD, "stdout": "/4A=", "stdout_encoding": "base64"})
        self.assertEqual(got.stdout_raw, b"\xff\x80")
        self.assertEqual(got.stdout, "\ufffd\ufffd")

    def test_other_schema(self):
        """another schema is refused"""
        with self.assertRaises(ValueError):
            nsbox.Result.from_record({**RECORD, "schema": "nsbox.error/1"})

    def test_html(self):
        """a notebook's table escapes what the program printed"""
        text = nsbox.Result.from_record({**RECORD, "stdout": "<script>x</script>"})._repr_html_()
        self.assertIn("&lt;script&gt;", text)
        self.assertNotIn("<script>", text)

    def test_analysis(self):
        """an analysis becomes dataclasses"""
        got = nsbox.Result.from_record({**RECORD, "analysis": {
            "language": "python", "ok": False, "error": {"type": "SyntaxError", "message": "m",
                                                         "line": 2, "column": 3},
            "imports": [{"module": "os", "names": ["path"], "line": 1, "level": 0}],
            "unauthorized": ["os"], "ast": None, "ast_truncated": False}}).analysis
        self.assertEqual(got.error, result.SyntaxProblem("SyntaxError", "m", 2, 3))
        self.assertEqual(got.imports, (result.ImportedModule("os", ("path",), 1, 0),))
        self.assertEqual(got.unauthorized, ("os",))


class Errors(unittest.TestCase):
    def test_classes(self):
        """each code has a class, an unknown code keeps its name"""
        for code, cls in (("usage", nsbox.UsageError), ("policy", nsbox.PolicyError),
                          ("unsupported", nsbox.UnsupportedError), ("setup", nsbox.SetupError),
                          ("busy", nsbox.BusyError), ("nomem", nsbox.OutOfMemoryError),
                          ("system", nsbox.HostError)):
            got = errors.error_from_record({"code": code, "message": "m", "stage": "mounts",
                                            "os_errno": 13, "hint": "h"})
            self.assertIs(type(got), cls)
            self.assertEqual((got.code, got.stage, got.os_errno, got.hint),
                             (code, "mounts", 13, "h"))
            self.assertEqual(str(got), "mounts: m: Permission denied; h")
        self.assertEqual(errors.error_from_record({"code": "new"}).code, "new")

    def test_once(self):
        """the system's words are said once, whoever says them"""
        for message in ("open /nope", "open /nope: No such file or directory"):
            self.assertEqual(str(nsbox.SetupError(message, stage="prepare", os_errno=2, hint="h")),
                             "prepare: open /nope: No such file or directory; h")

    def test_pickle(self):
        """an error crosses process pools whole"""
        import pickle
        got = pickle.loads(pickle.dumps(nsbox.SetupError("m", stage="s", os_errno=1, hint="h")))
        self.assertEqual((type(got), str(got)), (nsbox.SetupError,
                                                 "s: m: Operation not permitted; h"))


class Options(unittest.TestCase):
    def test_names(self):
        """flags, policy keys and fields of a run find their places"""
        self.assertEqual(_options.request_fields(
            {"memory": "64M", "timeout": 0.25, "ro": "/a", "net_allow_out": ["x", "y"],
             "subprocesses": False, "cwd": "/w", "stdin": b"\xff", "env": {"A": "b"},
             "allow_imports": [], "pids": None, "set": {"limits.tmp": 1}}),
            {"cwd": "/w", "stdin": {"base64": "/w=="}, "env": {"A": "b"},
             "set": {"limits.memory": "64M", "limits.timeout": "250000us", "fs.read": ["/a"],
                     "net.allow_out": ["x", "y"], "process.subprocesses": "false",
                     "imports.allow": [], "limits.tmp": "1"}})

    def test_unknown(self):
        """a misspelt option is an error that names the right one, before anything starts"""
        with self.assertRaisesRegex(nsbox.UsageError, "'memroy'; did you mean 'memory'"):
            nsbox.Sandbox(memroy="1G")

    def test_types(self):
        """values of wrong types are errors"""
        for wrong in ({"memory": object()}, {"env": {"A": 1}}, {"env": "A=b"}, {"stdin": 3},
                      {"timeout": -1}, {"timeout": float("nan")}, {"ro": 5}, {"policy": "x"}):
            with self.assertRaises(nsbox.UsageError, msg=str(wrong)):
                _options.request_fields(wrong)

    def test_schema(self):
        """the keys known here are those of `nsbox policy schema`"""
        ran = subprocess.run([os.environ["NSBOX_BIN"], "policy", "schema"], capture_output=True,
                             timeout=60, check=True)
        self.assertEqual(sorted(k for k in json.loads(ran.stdout)["$defs"]),
                         sorted(_options.KEYS))


class Frames(unittest.TestCase):
    def test_round_trip(self):
        """a message survives its frame"""
        message = {"id": 1, "text": "\u00e9\U0001f600\x00", "list": [1, 2.5, None, True]}
        frame = _frames.encode(message)
        self.assertEqual(_frames.length_of(frame[:4]), len(frame) - 4)
        self.assertEqual(_frames.decode(frame[4:]), message)

    def test_refused(self):
        """what the other side would end the connection for is refused here"""
        deep: list = []
        for _ in range(64):
            deep = [deep]
        for wrong in ({"a": deep}, {"a": "\ud800"}, {"a": float("inf")}, {"a": object()},
                      {"a": "x" * (65 << 20)}):
            with self.assertRaises(nsbox.UsageError):
                _frames.encode(wrong)


class Deaths(unittest.TestCase):
    """The child dies, or worse. Never a hang, always a reason."""

    def _error_of(self, how, silence=60.0):
        async def work(box):
            # Several in flight: all of them must end.
            got = await asyncio.gather(*(box.run(["true"]) for _ in range(3)),
                                       return_exceptions=True)
            self.assertEqual({type(e) for e in got}, {nsbox.ConnectionLostError})
            self.assertEqual(len({str(e) for e in got}), 1)
            with self.assertRaises(nsbox.ConnectionLostError):
                await box.run(["true"])
            return str(got[0])
        return with_fake(how, work, silence)

    def test_killed(self):
        """a child that is killed: every run in flight fails, with the signal"""
        self.assertIn("signal 9 killed it", self._error_of("die"))

    def test_exits(self):
        """a child that exits: its status and its last words are told"""
        self.assertIn("status 3: the reason", self._error_of("exit"))

    def test_garbage(self):
        """a child that prints something else: said, and ended"""
        self.assertIn("announced a frame of 1751477356 bytes", self._error_of("garbage"))

    def test_long(self):
        """a frame that is too long: refused before it is read"""
        self.assertIn("announced a frame of 2147483648 bytes", self._error_of("long"))

    def test_not_an_object(self):
        """JSON that is no object: refused"""
        self.assertIn("not a JSON object", self._error_of("list"))

    def test_fatal(self):
        """the error without an id: its text is the reason"""
        self.assertIn("not JSON", self._error_of("fatal"))

    def test_half(self):
        """half a frame and the end: the end is told"""
        self.assertIn("exited with status 0", self._error_of("half"))

    def test_hangs(self):
        """a child that hangs: asked, then killed"""
        self.assertIn("did not answer for", self._error_of("silent", silence=0.3))

    def test_never_starts(self):
        """a child that says nothing at all: its last words are the error of connecting"""
        async def main():
            await nsbox.AsyncSandbox(binary=FAKE).connect()
        with mock.patch.dict(os.environ, NSBOX_FAKE="mute"), \
                self.assertRaisesRegex(nsbox.ConnectionLostError, "cannot start: no such thing"):
            asyncio.run(main())

    def test_no_binary(self):
        """no command: an error that says where it was looked for"""
        got = python("import nsbox\ntry: nsbox.run(['true'])\n"
                     "except nsbox.SetupError as e: print(e)", NSBOX_BIN="/nonexistent/nsbox")
        self.assertIn("NSBOX_BIN names '/nonexistent/nsbox'", got.stdout)

    def test_stubborn(self):
        """a child that ignores the end of its input is killed when the sandbox closes"""
        async def work(box):
            task = asyncio.create_task(box.run(["true"]))
            await asyncio.sleep(0.05)
            await box.close()
            with self.assertRaises(nsbox.UsageError):
                await task
        with_fake("stubborn", work)

    def test_callback(self):
        """what a callback raises is what the run raises"""
        async def main():
            async with nsbox.AsyncSandbox() as box:
                def broken(_):
                    raise LookupError("mine")
                with self.assertRaisesRegex(LookupError, "mine"):
                    await box.run(["echo", "x"], on_stdout=broken)
                self.assertEqual((await box.run(["echo", "y"])).stdout, "y\n")
        asyncio.run(main())


class Runs(unittest.TestCase):
    def test_module_functions(self):
        """run, code: the program's own end is a result"""
        self.assertEqual(nsbox.code("print(6 * 7)").stdout, "42\n")
        got = nsbox.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
        self.assertEqual((got.stdout, got.stderr, got.exit_code, got.success),
                         ("out\n", "err\n", 3, False))

    def test_options_hold(self):
        """options of the sandbox and of the call hold; the call's win"""
        with nsbox.Sandbox(timeout=30, memory="64M", env={"A": "1"}) as box:
            got = box.run(["sh", "-c", "echo $A; cat; pwd"], stdin="given\n", memory="32M", cwd="/tmp")
            self.assertEqual(got.stdout, "1\ngiven\n/tmp\n")
            self.assertEqual(got.limits["memory_bytes"], 32 << 20)
            self.assertEqual(got.limits["timeout_ms"], 30000)

    def test_timeout(self):
        """a timeout is a verdict, with what was printed until then"""
        got = nsbox.code("print('x', flush=True)\nwhile True: pass", timeout=0.5)
        self.assertEqual((got.verdict, got.timed_out, got.stdout), ("timed_out", True, "x\n"))

    def test_wrong_policy(self):
        """what nsbox refuses is an exception of its class"""
        with self.assertRaisesRegex(nsbox.PolicyError, "limits.memory"):
            nsbox.run(["true"], memory="1")
        self.assertTrue(nsbox.run(["true"]).success)

    def test_argv(self):
        """a string is no argv"""
        with self.assertRaises(nsbox.UsageError):
            nsbox.run("ls")

    def test_surrogates(self):
        """source with a lone surrogate is refused by the interpreter, not by an accident here"""
        got = nsbox.code("x = '\ud800'")
        self.assertEqual((got.verdict, got.exit_code), ("exited", 1))
        self.assertIn("SyntaxError", got.stderr)

    def test_artifacts(self):
        """artifacts come out, and show themselves"""
        import tempfile
        with tempfile.TemporaryDirectory(dir=os.environ.get("NSBOX_SCRATCH")) as folder:
            got = nsbox.code("open('a.txt', 'w').write('x')", artifacts=folder)
            self.assertEqual([(a.path, a.size_bytes) for a in got.artifacts], [("a.txt", 1)])
            self.assertEqual(got.artifacts[0].host_path.read_text(), "x")
            self.assertIn("a.txt", got._repr_html_())

    def test_many(self):
        """fifty runs at once on one connection, each with its own answer"""
        async def main():
            async with nsbox.AsyncSandbox() as box:
                got = await asyncio.gather(*(box.run(["sh", "-c", f"echo {i}; exit {i % 7}"])
                                             for i in range(50)))
                self.assertEqual([(r.stdout, r.exit_code) for r in got],
                                 [(f"{i}\n", i % 7) for i in range(50)])
        asyncio.run(main())

    def test_stream(self):
        """output comes in pieces while the program runs"""
        pieces = []
        got = nsbox.run(["sh", "-c", "echo one; read line; echo $line"], stdin="two\n",
                        on_stdout=pieces.append)
        self.assertEqual(b"".join(pieces), b"one\ntwo\n")
        self.assertEqual(got.stdout, "one\ntwo\n")

    def test_nested(self):
        """a callback of the synchronous face may use it again"""
        inner = []
        nsbox.run(["echo", "x"], on_stdout=lambda _: inner.append(nsbox.run(["echo", "y"]).stdout))
        self.assertEqual(inner, ["y\n"])

    def test_threads(self):
        """threads share the synchronous face"""
        got = []
        threads = [threading.Thread(target=lambda i=i: got.append(
            nsbox.run(["echo", str(i)]).stdout)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(sorted(got), [f"{i}\n" for i in range(8)])

    def test_in_a_running_loop(self):
        """the synchronous face works where an event loop runs, as in a notebook"""
        async def main():
            return nsbox.run(["echo", "x"]).stdout
        self.assertEqual(asyncio.run(main()), "x\n")


class Ends(unittest.TestCase):
    """Cancellation, forks, loops and interpreters that end."""

    def _box_of_sleep(self, mark):
        """Pids of processes of a box whose argv has @mark."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    words = line.read().split(b"\0")
            except OSError:
                continue
            if mark.encode() in words and words[0].endswith(b"sleep"):
                found.append(int(pid))
        return found

    def _wait_for(self, mark, present, seconds=20):
        deadline = time.monotonic() + seconds
        while bool(self._box_of_sleep(mark)) != present:
            self.assertLess(time.monotonic(), deadline, f"sleep {mark}: present={not present}")
            time.sleep(0.02)

    def test_cancel(self):
        """a cancelled run ends its box, and the connection goes on"""
        mark = f"3{os.getpid()}.5"

        async def main():
            async with nsbox.AsyncSandbox() as box:
                task = asyncio.create_task(box.run(["sleep", mark], timeout=600))
                while not self._box_of_sleep(mark):
                    await asyncio.sleep(0.02)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                while self._box_of_sleep(mark):
                    await asyncio.sleep(0.02)
                self.assertEqual((await box.run(["echo", "on"])).stdout, "on\n")
        asyncio.run(asyncio.wait_for(main(), 60))

    def test_forgotten(self):
        """a kernel that nobody has any more ends its box; the sandbox and its others go on"""
        mark = f"3{os.getpid()}.75"
        with nsbox.Sandbox() as box:
            kernel, other = box.open(), box.open()
            kernel.execute(f"import subprocess; subprocess.Popen(['sleep', '{mark}'])")
            self._wait_for(mark, True)
            del kernel
            self._wait_for(mark, False)
            self.assertEqual(other.execute("6 * 7").value, 42)

    def test_interrupt(self):
        """Ctrl-C while the synchronous face waits: KeyboardInterrupt, and the box is gone"""
        mark = f"3{os.getpid()}.25"
        child = subprocess.Popen([sys.executable, "-c", "import nsbox, sys\n"
                                  "try: nsbox.run(['sleep', sys.argv[1]], timeout=600)\n"
                                  "except KeyboardInterrupt: print('interrupted')\n"
                                  "print(nsbox.run(['echo', 'on']).stdout)", mark],
                                 stdout=subprocess.PIPE, text=True)
        self._wait_for(mark, True)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
        self.assertEqual(out, "interrupted\non\n\n")
        self._wait_for(mark, False)

    def test_caller_killed(self):
        """SIGKILL of the caller ends its boxes and its child"""
        mark = f"3{os.getpid()}.125"
        child = subprocess.Popen([sys.executable, "-c", "import nsbox, sys\n"
                                  "print(nsbox.sandbox().hello['pid'], flush=True)\n"
                                  "nsbox.run(['sleep', sys.argv[1]], timeout=600)", mark],
                                 stdout=subprocess.PIPE, text=True)
        rpc = int(child.stdout.readline())
        self._wait_for(mark, True)
        child.kill()
        child.communicate(timeout=60)
        self._wait_for(mark, False)
        self.assertTrue(gone(rpc))

    def test_exit(self):
        """an interpreter that ends with an open sandbox, in either face, ends its child"""
        for source in ("import nsbox; print(nsbox.sandbox().hello['pid'])",
                       "import asyncio, nsbox\n"
                       "async def main():\n"
                       "    global box\n"
                       "    box = await nsbox.connect()\n"
                       "    print(box.hello['pid'])\n"
                       "asyncio.run(main())",
                       "import nsbox, threading\n"
                       "print(nsbox.sandbox().hello['pid'])\n"
                       "threading.Thread(target=nsbox.run, args=(['sleep', '1'],)).start()"):
            got = python(source)
            self.assertEqual((got.returncode, got.stderr), (0, ""))
            self.assertTrue(gone(int(got.stdout)), source)

    def test_late_close(self):
        """what is closed while the interpreter ends (generators, finalizers, __del__) is closed,
        without a hang and without a word; a late call says why it cannot be"""
        for source in ("def boxes():\n"
                       "    with nsbox.Sandbox() as box: yield box\n"
                       "held = boxes(); box = next(held)\n",
                       "box = nsbox.Sandbox(); weakref.finalize(nsbox.Sandbox, box.close)\n",
                       "class Held:\n"
                       "    def __del__(self): kernel.close(); box.close()\n"
                       "box = nsbox.Sandbox(); kernel = box.open(); held = Held()\n",
                       "def late():\n"
                       "    try: box.run(['true'])\n"
                       "    except nsbox.ConnectionLostError as e: assert 'interpreter' in str(e)\n"
                       "    else: print('ran', file=sys.stderr)\n"
                       "box = nsbox.Sandbox(); weakref.finalize(nsbox.Sandbox, late)\n",
                       "from nsbox import _stay\n"
                       "stay = _stay.Stay(); stay.call(stay.inner.open()); box = nsbox.sandbox()\n"
                       "weakref.finalize(_stay.Stay, stay.close)\n"):
            # A finalizer before the import: what is registered first at exit runs last.
            got = python("import sys, weakref\nweakref.finalize(sys.stdin, int)\nimport nsbox\n"
                         f"{source}print(box.hello['pid'])", PYTHONDEVMODE="1")
            self.assertEqual((got.returncode, got.stderr), (0, ""), source)
            self.assertTrue(gone(int(got.stdout)), source)

    def test_fork(self):
        """after a fork the child has a connection of its own, and the parent's goes on"""
        got = python("import nsbox, os\n"
                     "box = nsbox.Sandbox(); kernel = box.open()\n"
                     "print(box.run(['echo', 'before']).stdout, end='', flush=True)\n"
                     "nsbox.run(['true'])\n"
                     "if os.fork() == 0:\n"
                     "    try: box.run(['true'])\n"
                     "    except nsbox.UsageError as e: print(e.message, flush=True)\n"
                     "    try: kernel.execute('1')\n"
                     "    except nsbox.UsageError as e: print(e.message, flush=True)\n"
                     "    print(nsbox.run(['echo', 'child']).stdout, end='', flush=True)\n"
                     "    raise SystemExit(0)\n"
                     "assert os.wait()[1] == 0\n"
                     "print(box.run(['echo', 'after']).stdout, end='')\n"
                     "print(nsbox.run(['echo', 'after']).stdout, end='')\n")
        self.assertEqual((got.stdout, got.stderr), (
            "before\n" + "this sandbox belongs to the process that was forked\n" * 2 + "child\nafter\nafter\n",
            ""))

    def test_pool(self):
        """a pool of forked workers: each runs boxes, none disturbs the parent"""
        got = python("import multiprocessing, nsbox\n"
                     "def work(i): return nsbox.run(['echo', str(i)]).stdout\n"
                     "nsbox.run(['true'])\n"
                     "with multiprocessing.get_context('fork').Pool(3) as pool:\n"
                     "    print(pool.map(work, range(6)))\n"
                     "print(nsbox.run(['echo', 'on']).stdout)\n")
        self.assertEqual(got.stdout, f"{[str(i) + chr(10) for i in range(6)]}\non\n\n", got.stderr)

    def test_fork_keeps_nothing(self):
        """a forked process that lives on does not keep the parent's child alive"""
        source = ("import nsbox, os, sys, time\n"
                  "print(nsbox.sandbox().hello['pid'], flush=True)\n"
                  "if os.fork() == 0:\n"
                  "    sys.stdin.read()\n"
                  "    os._exit(0)\n"
                  "os._exit(0)\n")
        child = subprocess.Popen([sys.executable, "-W", "ignore", "-c", source], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, text=True)
        rpc = int(child.stdout.readline())
        child.wait(60)
        ended = gone(rpc)
        child.stdin.close()     # now the forked one ends too
        child.stdout.close()
        self.assertTrue(ended)

    def test_other_loop(self):
        """a sandbox of another event loop says so"""
        async def open_one():
            return await nsbox.connect()

        async def use(box):
            await box.run(["true"])
        box = asyncio.run(open_one())
        with self.assertRaises(nsbox.NsboxError):
            asyncio.run(use(box))

    def test_closed(self):
        """a closed sandbox says so, closing twice is fine"""
        box = nsbox.Sandbox()
        box.run(["true"])
        box.close()
        box.close()
        with self.assertRaisesRegex(nsbox.UsageError, "closed"):
            box.run(["true"])

    def test_child_killed(self):
        """the shared child is killed: one clear error, then a new one"""
        os.kill(nsbox.sandbox().hello["pid"], signal.SIGKILL)
        try:
            nsbox.run(["true"])
        except nsbox.ConnectionLostError as e:
            self.assertIn("signal 9 killed it", str(e))
        self.assertEqual(nsbox.run(["echo", "on"]).stdout, "on\n")


if __name__ == "__main__":
    tap_unittest.main(sys.modules["__main__"], host_calls)
