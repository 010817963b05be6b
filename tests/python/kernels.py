#!/usr/bin/env python3
# as: root user
"""Kernels from Python: state, values, functions of the host, interruptions, deaths."""

import asyncio
import dataclasses
import datetime
import os
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
import nsbox  # noqa: E402


@dataclasses.dataclass
class Point:
    x: int
    y: object


class Kernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.box = nsbox.Sandbox(timeout=600)

    @classmethod
    def tearDownClass(cls):
        cls.box.close()

    def setUp(self):
        self.kernel = self.box.open("python", types=[Point])
        self.addCleanup(self.kernel.close)

    def value(self, code):
        cell = self.kernel.execute(code)
        self.assertEqual(cell.status, "ok", cell)
        return cell.value

    def test_state(self):
        """x = 1, then x += 1; x gives 2 and its repr; prints stand apart; cells are counted"""
        self.kernel.execute("x = 1")
        cell = self.kernel.execute("print('printed'); x += 1; x")
        self.assertEqual((cell.value, cell.text, cell.stdout, cell.execution_count),
                         (2, "2", "printed\n", 2))
        with self.box.open("python") as other:
            self.assertEqual(other.execute("x").error.name, "NameError")

    def test_values(self):
        """values go in and come out as they are"""
        values = {"a": {1: (2, {3})}, "b": b"\xff", "c": datetime.date(2024, 2, 29),
                  "d": {"$t": "int", "v": "5"}, "e": 2**70, "f": [None, 1.5, "\ud800"],
                  "g": complex(1, -2), "h": range(3), "i": float("inf")}
        self.assertTrue(self.kernel.set(**values).ok)
        self.assertEqual(self.value("[a, b, c, d, e, f, g, h, i]"), list(values.values()))

    def test_classes(self):
        """a dataclass of the box is one of ours when it was given, and a repr when it cannot be"""
        got = self.value("import dataclasses\n@dataclasses.dataclass\nclass Point:\n x: int\n"
                         " y: object\nPoint(1, [2])")
        self.assertEqual((type(got), got), (Point, Point(1, [2])))
        got = self.value("len")
        self.assertEqual((type(got), repr(got)), (nsbox.Remote, "<built-in function len>"))

    def test_science(self):
        """arrays and images come out whole"""
        try:
            import numpy
            import PIL.Image
        except ImportError:
            self.skipTest("numpy and PIL")
        got = self.value("import numpy; numpy.arange(6).reshape(2, 3)")
        self.assertTrue((got == numpy.arange(6).reshape(2, 3)).all())
        got = self.value("import PIL.Image; PIL.Image.new('RGB', (2, 1), (1, 2, 3))")
        self.assertIsInstance(got, PIL.Image.Image)
        self.assertEqual((got.size, got.getpixel((1, 0))), ((2, 1), (1, 2, 3)))

    def test_error(self):
        """an exception: name, text, lines of the user's code; unwrap() raises"""
        cell = self.kernel.execute("def f():\n    1/0\nf()")
        self.assertEqual((cell.status, cell.error.name, cell.ok), ("error", "ZeroDivisionError",
                                                                   False))
        self.assertIn("line 2, in f", "\n".join(cell.error.traceback))
        self.assertNotIn("importlib_bootstrap", "\n".join(cell.error.traceback))
        with self.assertRaisesRegex(nsbox.ExecutionError, "ZeroDivisionError"):
            cell.unwrap()
        self.assertIn("ZeroDivisionError", cell._repr_html_())

    def test_tools(self):
        """functions of the host: arguments, values, exceptions, this very thread"""
        seen = []

        def double(value, *, plus=0):
            """Twice as much."""
            seen.append(threading.current_thread())
            return value * 2 + plus

        def broken():
            raise LookupError("of the host")

        async def later(value):
            await asyncio.sleep(0)
            return {value}
        self.assertTrue(self.kernel.tools({"double": double, "broken": broken,
                                           "later": later}).ok)
        self.assertEqual(self.value("double(20, plus=2)"), 42)
        self.assertEqual(seen, [threading.current_thread()])
        self.assertEqual(self.value("double.__doc__"), "Twice as much.")
        self.assertEqual(self.value("later('a')"), {"a"})
        self.assertEqual(self.value("try: broken()\nexcept LookupError as e: got = str(e)\ngot"),
                         "of the host")
        self.assertEqual(self.kernel.execute("double()").error.name, "TypeError")

    def test_tool_ends_badly(self):
        """SystemExit, TimeoutError and a cancelled wait of a function are errors of the cell, in
        its own words, and the event loop goes on; a function over its time is told so"""
        async def leave():
            sys.exit(3)

        async def cancelled():
            raise asyncio.CancelledError

        async def never():
            await asyncio.sleep(600)

        def slow():
            raise TimeoutError("the database is slow")
        self.kernel.tools({"leave": leave, "cancelled": cancelled, "slow": slow, "never": never})
        self.kernel._async.call_seconds, usual = 0.2, self.kernel._async.call_seconds
        self.addCleanup(setattr, self.kernel._async, "call_seconds", usual)
        got = [self.value(f"try: {name}()\nexcept BaseException as e: got = [type(e).__name__, str(e)]"
                          "\ngot") for name in ("leave", "slow", "cancelled", "never")]
        self.assertEqual(got[1:], [["TimeoutError", "the database is slow"],
                                   ["RuntimeError", "cancelled() was cancelled"],
                                   ["TimeoutError", "never() took more than 0.2 s"]])
        self.assertIn("3", got[0][1])

    def test_cut(self):
        """what was cut says so: output over its limit, a file that is too large to come back"""
        cell = self.kernel.execute("print('x' * 3000000)")
        self.assertEqual((len(cell.stdout), cell.stdout_truncated, cell.stderr_truncated),
                         (1 << 20, True, False))
        self.assertIn(" [...]</pre>", cell._repr_html_())
        self.assertFalse(self.kernel.execute("print(1)").stdout_truncated)
        self.kernel.exec(["truncate", "-s", "60M", "large"])
        self.assertEqual(self.kernel.get("large", max_bytes=3), bytes(3))
        with self.assertRaisesRegex(nsbox.UsageError, "large has 62914560 bytes"):
            self.kernel.get("large")

    def test_surrogates(self):
        """text that is not Unicode goes into files as the bytes it would be; a name is refused"""
        self.kernel.put("surrogate", "\ud800")
        self.assertEqual(self.kernel.get("surrogate"), b"\xed\xa0\x80")
        for wrong in ("\ud800", "a\0b"):
            with self.assertRaises((nsbox.NsboxError, nsbox.ExecutionError)):
                self.kernel.get(wrong)

    def test_final(self):
        """a final function ends the cell with its value, past except Exception"""
        self.kernel.tools({"final_answer": lambda v: v}, final=["final_answer"])
        cell = self.kernel.execute("print('before')\ntry: final_answer((1, 'a'))\n"
                                   "except Exception: print('caught')\nprint('after')")
        self.assertEqual((cell.status, cell.is_final, cell.value, cell.stdout),
                         ("final", True, (1, "a"), "before\n"))

    def test_tool_asks_its_kernel(self):
        """a function that asks the kernel that waits for it is refused, not deadlocked"""
        self.kernel.tools({"again": lambda: self.kernel.execute("1").value})
        cell = self.kernel.execute("again()")
        self.assertEqual(cell.error.name, "BusyError", cell)
        self.kernel.tools({"elsewhere": lambda: self.box.code("print(5)").stdout})
        self.assertEqual(self.value("elsewhere()"), "5\n")

    def test_input(self):
        """input() is answered by the caller, or reads an empty stdin"""
        asked = []

        def answer(prompt):
            asked.append(prompt)
            return "me"
        cell = self.kernel.execute("input('who? ')", on_input=answer)
        self.assertEqual((cell.value, asked), ("me", ["who? "]))
        self.assertEqual(self.kernel.execute("input()").error.name, "EOFError")

    def test_pieces(self):
        """output comes while the cell runs"""
        pieces = []
        self.kernel.tools({"so_far": lambda: "".join(pieces)})
        cell = self.kernel.execute("print('first', flush=True)\nso_far()", on_stdout=pieces.append)
        self.assertEqual((cell.value, cell.stdout), ("first\n", "first\n"))

    def test_env_and_store(self):
        """env is of one cell; store=False is not counted"""
        code = "import os; os.environ.get('OF_A_CELL')"
        self.assertEqual(self.kernel.execute(code, env={"OF_A_CELL": "1"}).value, "1")
        self.assertIsNone(self.kernel.execute(code, store=False).value)
        self.assertEqual(self.kernel.execute("1").execution_count, 2)

    def test_commands_and_files(self):
        """commands and files of the same box"""
        self.assertTrue(self.kernel.put("made/a.bin", b"\x00\xff", mode=0o600).ok)
        self.assertEqual(self.value("open('made/a.bin', 'rb').read()"), b"\x00\xff")
        self.assertEqual(self.kernel.get("made/a.bin"), b"\x00\xff")
        self.assertEqual([e["name"] for e in self.kernel.list("made")], ["a.bin"])
        cell = self.kernel.exec(["sh", "-c", "cat; echo err >&2; exit 3"], stdin="given")
        self.assertEqual((cell.stdout, cell.stderr, cell.exit_code), ("given", "err\n", 3))
        with self.assertRaisesRegex(nsbox.ExecutionError, "FileNotFoundError"):
            self.kernel.get("missing")

    def test_time_of_cells(self):
        """the sandbox's timeout ends a cell that says none, and not the kernel"""
        with nsbox.Sandbox(timeout=1) as box, box.open("python") as kernel:
            cell = kernel.execute("x = 5\nwhile True: pass")
            self.assertEqual((cell.status, cell.restarted), ("timed_out", False))
            cell = kernel.execute("import time; time.sleep(1.5); x", timeout=60)
            self.assertEqual((cell.status, cell.value), ("ok", 5))

    def test_timeout(self):
        """a cell out of time is interrupted, and the state stays"""
        self.kernel.execute("x = 5")
        cell = self.kernel.execute("while True: pass", timeout=0.3)
        self.assertEqual((cell.status, cell.restarted), ("timed_out", False))
        self.assertEqual(self.value("x"), 5)

    def test_interrupt(self):
        """interrupt() from another thread ends the cell, and the state stays"""
        self.kernel.execute("x = 6")
        started = threading.Event()
        self.kernel.tools({"started": started.set})

        def interrupt():
            started.wait(60)
            self.kernel.interrupt()
        thread = threading.Thread(target=interrupt)
        thread.start()
        cell = self.kernel.execute("started()\nwhile True: pass", timeout=60)
        thread.join(60)
        self.assertEqual(cell.status, "interrupted", cell)
        self.assertEqual(self.value("x"), 6)

    def test_death(self):
        """an interpreter that dies: the cell says how, a new one goes on without the state"""
        self.kernel.execute("x = 7")
        for code in ("import os; os._exit(4)", "import os, signal; os.kill(os.getpid(), 9)"):
            cell = self.kernel.execute(code)
            self.assertEqual((cell.status, cell.restarted), ("exited", True), cell)
        self.assertEqual(self.kernel.execute("x").error.name, "NameError")

    def test_results_not_accidents(self):
        """SystemExit, KeyboardInterrupt, deep recursion, closed output: cells, and it goes on"""
        for code in ("raise SystemExit(3)", "raise KeyboardInterrupt", "def f(): f()\nf()",
                     "import os; os.close(1)", "raise MemoryError"):
            self.kernel.execute(code)
            self.assertEqual(self.value("1 + 1"), 2, code)

    def test_hostile_value(self):
        """a value that lies about itself harms nobody here"""
        for raised in ("RuntimeError", "SystemExit", "KeyboardInterrupt"):
            cell = self.kernel.execute(
                "class L(dict):\n __class__ = property(lambda s: 1/0)\n"
                f" def __iter__(s): raise RuntimeError\n def __repr__(s): raise {raised}\nL(a=1)")
            self.assertTrue(cell.value is None or isinstance(cell.value, (nsbox.Remote, dict)))
            self.assertEqual(self.value("1 + 1"), 2)

    def test_other_languages(self):
        """JavaScript and bash keep their state too"""
        with self.box.open("javascript") as kernel:
            kernel.execute("let x = 20")
            self.assertEqual(kernel.execute("x * 2 + 2").value, 42)
        with self.box.open("bash") as kernel:
            kernel.execute("x=42; cd /tmp")
            self.assertEqual(kernel.execute("echo $x; pwd").stdout, "42\n/tmp\n")

    def test_closed(self):
        """close() gives the result; afterwards it says that it is closed"""
        result = self.kernel.close()
        self.assertEqual(result.tier, "local")
        self.assertIsNone(self.kernel.close())
        with self.assertRaisesRegex(nsbox.UsageError, "closed"):
            self.kernel.execute("1")

    def test_wrong_language(self):
        """an unknown language is an error that says so"""
        with self.assertRaises(nsbox.NsboxError):
            self.box.open("cobol")


class Asynchronous(unittest.TestCase):
    def test_cancel(self):
        """a cancelled cell is interrupted, one that waits behind it never runs"""
        async def main():
            async with nsbox.AsyncSandbox(timeout=600) as box, await box.open() as kernel:
                ready = asyncio.Event()

                async def is_ready():
                    ready.set()
                await kernel.tools({"ready": is_ready})
                await kernel.execute("x = []")
                first = asyncio.create_task(kernel.execute("ready()\nwhile True: pass"))
                await ready.wait()
                second = asyncio.create_task(kernel.execute("x.append('second')"))
                await asyncio.sleep(0)
                second.cancel()
                first.cancel()
                got = await asyncio.gather(first, second, return_exceptions=True)
                self.assertEqual([type(e) for e in got], [asyncio.CancelledError] * 2)
                return (await kernel.execute("x")).value
        self.assertEqual(asyncio.run(asyncio.wait_for(main(), 120)), [])

    def test_many(self):
        """ten kernels at once on one connection"""
        async def one(box, i):
            async with await box.open() as kernel:
                await kernel.set(i=i)
                return (await kernel.execute("i * i")).value

        async def main():
            async with nsbox.AsyncSandbox(timeout=600) as box:
                return await asyncio.gather(*(one(box, i) for i in range(10)))
        self.assertEqual(asyncio.run(asyncio.wait_for(main(), 120)), [i * i for i in range(10)])

    def test_child_killed(self):
        """the child dies while a cell waits for a function: an error at once"""
        async def main():
            async with nsbox.AsyncSandbox(timeout=600) as box:
                kernel = await box.open()
                await kernel.tools({"end": lambda: os.kill(box.hello["pid"], signal.SIGKILL)})
                with self.assertRaisesRegex(nsbox.ConnectionLostError, "signal 9"):
                    await kernel.execute("end()\nwhile True: pass")
                self.assertIsNone(await kernel.close())
        asyncio.run(asyncio.wait_for(main(), 120))

    def test_round_trip(self):
        """a thousand round trips; their time is printed, not judged"""
        async def main():
            async with nsbox.AsyncSandbox(timeout=600) as box, await box.open() as kernel:
                await kernel.execute("x = 1")
                took = []
                for _ in range(1000):
                    start = time.perf_counter()
                    cell = await kernel.execute("x+1", store=False)
                    took.append(time.perf_counter() - start)
                    self.assertEqual(cell.value, 2)
                took.sort()
                return took
        took = asyncio.run(asyncio.wait_for(main(), 300))
        print(f"# x+1: median {took[500] * 1e3:.2f} ms, best {took[0] * 1e3:.2f} ms, "
              f"99 of 100 within {took[990] * 1e3:.2f} ms")


if __name__ == "__main__":
    tap_unittest.main()
