#!/usr/bin/env python3
# as: root user
"""nsbox.smolagents against what smolagents' remote executors do: cases S47 to S62; tools, agents.

Where nsbox decided otherwise the title says "ours". Where the real smolagents is importable,
bases, results and errors are its own.
"""

import collections
import dataclasses
import datetime
import decimal
import io
import math
import os
import pathlib
import pickle
import sys
import threading
import uuid
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap_unittest  # noqa: E402
import executors  # noqa: E402
from executors import Card, Case, Color, Point, local, out, remote, s  # noqa: E402
import nsbox  # noqa: E402
from nsbox._typed import Remote, decode, encode  # noqa: E402


class Crossing(Case):
    def both_ways(self, value):
        remote().send_variables({"crossing": value})
        return out("crossing", remote())

    def test_s47(self):
        """S47 ours: send_tools({}) runs nothing and installs nothing"""
        with s.NsboxExecutor([]) as executor:
            with mock.patch.object(executor._session, "_guard", side_effect=AssertionError), \
                    mock.patch.object(executor, "install_packages", side_effect=AssertionError):
                executor.send_tools({})

    def test_s48(self):
        """S48 send_variables({}) does nothing; others arrive, tuples and bytes as such"""
        with s.NsboxExecutor([]) as executor:
            with mock.patch.object(executor._session, "_guard", side_effect=AssertionError):
                executor.send_variables({})
        remote().send_variables({"pair": (1, "a"), "raw": b"\x00\xff", "nothing": None})
        self.assertEqual(out("type(pair).__name__, pair, raw, nothing", remote()),
                         ("tuple", (1, "a"), b"\x00\xff", None))

    def test_s49(self):
        """S49 ours: allow_pickle=True is refused, and nothing here unpickles"""
        with self.assertRaisesRegex(ValueError, "a pickle from a box would run code"):
            s.NsboxExecutor([], allow_pickle=True)
        with mock.patch.object(pickle, "loads", side_effect=AssertionError), \
                mock.patch.object(pickle, "dumps", side_effect=AssertionError):
            self.assertEqual(self.both_ways({1: [Card("x", [1.5])]}), {1: [Card("x", [1.5])]})

    def test_s50(self):
        """S50 a final answer that is text, or a pickle, is no serialised value"""
        for text in ("no prefix", "pickle:gASVAQAAAAAAAABLAS4=", "safe:1"):
            with self.assertRaises(s.SerializationError):
                s.NsboxExecutor._deserialize_final_answer(text, True)
        with self.assertRaisesRegex(ValueError, "the tag 'pickle'"):
            decode({"$t": "pickle", "v": "gASVAQAAAAAAAABLAS4="})
        got = remote()("final_answer('pickle:gASVAQAAAAAAAABLAS4=')")
        self.assertEqual(got.output, "pickle:gASVAQAAAAAAAABLAS4=")

    def test_s51(self):
        """S51 ours: bytearray, range, namedtuple, OrderedDict, deque, UUID, enums cross"""
        for value in (bytearray(b"ab"), range(1, 9, 2), Point(1, 2),
                      collections.OrderedDict([("b", 1), ("a", 2)]),
                      collections.deque([1, 2], maxlen=3), uuid.UUID(int=5),
                      {1, "a"}, frozenset([2]), complex(1, -0.5), decimal.Decimal("1.10"),
                      datetime.datetime(2024, 2, 29, 1, 2, 3, 4), datetime.date(2024, 2, 29),
                      datetime.time(1, 2), datetime.timedelta(days=-1, microseconds=5),
                      pathlib.Path("/a b"), {(1, 2): "pair"}):
            with self.subTest(value=value):
                got = self.both_ways(value)
                self.assertEqual((type(got), got), (type(value), value))
        self.assertEqual(self.both_ways(collections.deque([1], 3)).maxlen, 3)
        self.assertEqual(self.both_ways(Color.RED), 1)      # the box has no such class
        self.assertIs(out("import enum\nclass Color(enum.IntEnum):\n    RED = 1\nColor.RED",
                          remote()), Color.RED)
        self.assertEqual(repr(self.both_ways(ValueError("why"))), "ValueError('why')")
        self.assertEqual(self.both_ways(collections.defaultdict(int, a=1)), {"a": 1})

    def test_s51_refused(self):
        """S51 functions, classes, generators and locks cannot be sent, and the error says so"""
        for value in (print, int, (n for n in ()), threading.Lock(), io.StringIO()):
            with self.assertRaisesRegex(s.SerializationError, type(value).__name__):
                remote().send_variables({"x": value})
        self.assertIn("generator", out("(n for n in ())", remote()))
        with self.assertRaisesRegex(s.AgentError, "cannot cross"):
            remote()("final_answer(print)")

    def test_s52(self):
        """S52 ours: a dataclass crosses both ways as a dataclass"""
        self.assertEqual(self.both_ways(Card("n", [Point(1, 2)])), Card("n", [Point(1, 2)]))
        got = out("from dataclasses import dataclass\n@dataclass\nclass Mine:\n    n: int\nMine(3)",
                  remote())
        self.assertTrue(dataclasses.is_dataclass(got))
        self.assertEqual((type(got).__name__, got.n), ("Mine", 3))

    def test_s53(self):
        """S53 ours: NaN and infinity are no JSON tokens; huge integers are bounded; surrogates"""
        self.assertTrue(math.isnan(self.both_ways(math.nan)))
        self.assertEqual(self.both_ways([math.inf, -math.inf]), [math.inf, -math.inf])
        self.assertEqual(self.both_ways(10 ** 5000), 10 ** 5000)
        self.assertEqual(self.both_ways("\ud800x"), "\ud800x")
        with self.assertRaisesRegex(s.SerializationError, "bits"):
            remote().send_variables({"x": 1 << 1_000_000})

    def test_s54(self):
        """S54 ours: a dict that looks like a tag stays a dict"""
        for value in ({"__type__": "bytes", "data": "AAAA"}, {"$t": "bytes", "v": "AAAA"},
                      {"a": {"$t": "tuple", "v": [1]}}):
            self.assertEqual(self.both_ways(value), value)

    def test_s55(self):
        """S55 ours: what holds itself, or is too deep, is an error that says so"""
        ring = []
        ring.append(ring)
        deep = []
        for _ in range(2000):
            deep = [deep]
        for value in (ring, deep):
            with self.assertRaisesRegex(s.SerializationError, "nested too deeply"):
                remote().send_variables({"x": value})
        self.assertEqual(out("r = []\nr.append(r)\nr", remote()), "[[...]]")

    def test_s56(self):
        """S56 ours: host and box encode alike: subclasses are what they are made of"""
        class Text(str):
            pass

        class Number(int):
            pass
        self.assertEqual(self.both_ways([Text("a"), Number(3), True]), ["a", 3, True])
        self.assertEqual(encode(Text("a")), "a")
        for value in (1, "a", [1, (2,)], {"a": b"x"}, {1: 2}, Point(1, 2)):
            remote().send_variables({"same": value})
            cell = remote()._session.look("same")
            self.assertEqual(cell.record["value"], encode(value))

    def test_arrays(self):
        """arrays of numpy cross both ways"""
        try:
            import numpy
        except ImportError:
            self.skipTest("needs numpy")
        for value in (numpy.arange(6).reshape(2, 3), numpy.array([1.5, math.nan]),
                      numpy.array(["a", "bc"]), numpy.array([True, False]),
                      numpy.array([1 + 2j]), numpy.zeros((0, 4)), numpy.float32(2.5)):
            got = self.both_ways(value)
            numpy.testing.assert_array_equal(got, value)
            self.assertEqual(got.dtype, value.dtype)
        with self.assertRaises(s.SerializationError):
            remote().send_variables({"x": numpy.array([print])})
        self.assertIn("object", out("import numpy\nnumpy.array([print, None])", remote()))

    def test_images(self):
        """images of PIL cross both ways"""
        try:
            import PIL.Image
        except ImportError:
            self.skipTest("needs pillow")
        image = PIL.Image.new("RGB", (3, 2), (1, 2, 3))
        got = self.both_ways(image)
        self.assertEqual((got.size, got.getpixel((0, 0))), ((3, 2), (1, 2, 3)))
        got = remote()("from PIL import Image\nfinal_answer(Image.new('L', (4, 5), 9))")
        self.assertEqual((got.output.size, got.output.getpixel((0, 0)), got.is_final_answer),
                         ((4, 5), 9, True))


class Remotely(Case):
    def test_s57(self):
        """S57 state lives on; a syntax error is an AgentError with SyntaxError in it"""
        out("far = 21", remote())
        self.assertEqual(out("far * 2", remote()), 42)
        self.fails("def f(:", "SyntaxError", remote(), s.AgentError)

    def test_s58(self):
        """S58 ours: a call has a time limit; an error keeps what was printed, without ANSI"""
        with s.NsboxExecutor([], timeout_seconds=1) as executor:
            text = self.fails("print('begun')\nwhile True: pass", "maximum execution time of 1 sec",
                              executor, s.AgentError)
            self.assertTrue(text.startswith("begun\n"), text)
        text = self.fails("print('seen')\ndef f(): 1 / 0\nf()", "ZeroDivisionError", remote(),
                          s.AgentError)
        self.assertTrue(text.startswith("seen\n"), text)
        self.assertNotIn("\x1b", text)
        self.assertEqual(text.count("<cell "), 2, text)

    def test_s59(self):
        """S59 ours: the name of a package reaches no shell, and a failure is an error"""
        for name in ("x; touch /tmp/nsbox-was-here", "$(touch /tmp/nsbox-was-here)"):
            with self.assertRaises(nsbox.NsboxError):
                with s.NsboxExecutor([name]) as executor:
                    executor("1")
        self.assertFalse(os.path.exists("/tmp/nsbox-was-here"))
        with s.NsboxExecutor(["json"]) as executor:     # the interpreter has it
            self.assertEqual(executor.installed_packages, ["json"])

    def test_s59_late(self):
        """S59 ours: packages are mounted at the start; later it is said, and state is kept"""
        with s.NsboxExecutor([]) as executor:
            out("v = 1", executor)
            with self.assertRaisesRegex(nsbox.UsageError, "mounted when a box is opened"):
                executor.install_packages(["no-such-package-of-ours"])
            self.assertEqual(out("v", executor), 1)

    def test_s60(self):
        """S60 ours: limits hold without being asked for, and nothing is left behind"""
        with s.NsboxExecutor([], memory="200M") as executor:
            self.fails("x = bytearray(600 << 20)", "MemoryError|died|killed|started anew", executor,
                       s.AgentError)
            with self.assertRaisesRegex(s.AgentError, "OSError|PermissionError"):
                executor("import socket\nsocket.create_connection(('192.0.2.1', 80), 2)")
            pid = executor._session._sandbox.hello["pid"]
        self.assertFalse(os.path.exists(f"/proc/{pid}"))
        with self.assertRaisesRegex(nsbox.UsageError, "cleaned up|closed"):
            executor("1")
        executor.delete()

    def test_s61(self):
        """S61 ours: managed agents work, for they are called on the host"""
        class Manager:
            name = description = "helper"

            def __call__(self, task, **_):
                return f"did {task} in {os.getpid()}"
        remote().send_tools({"helper": Manager()})
        self.assertEqual(out("helper('it')", remote()), f"did it in {os.getpid()}")
        if s.HAVE_SMOLAGENTS:
            from smolagents import CodeAgent, Model
            with self.assertRaisesRegex(ValueError, "executor type"):
                CodeAgent(tools=[], model=Model(), executor_type="no such")

    def test_s62(self):
        """S62 what stays in the box is shown in its richest form, in e2b's order"""
        code = ("class R:\n    def _repr_{0}_(self): return {1}\n"
                "    def _repr_{2}_(self): return {3}\n    def __repr__(self): return 'text'\nR()")
        for first, a, second, b, want in (
                ("html", "'<b>'", "latex", "'$'", "<b>"),
                ("json", "{'a': 1}", "html", "'<b>'", "<b>"),
                ("javascript", "'alert()'", "json", "{'a': 1}", "alert()"),
                ("json", "{'a': 1}", "latex", "'$'", {"a": 1}),
                ("latex", "'$x$'", "markdown", "'*'", "$x$"),
                ("markdown", "'*m*'", "svg", "'<svg/>'", "*m*"),
                ("svg", "'<svg/>'", "nothing", "0", "<svg/>"),
                ("nothing", "0", "none", "0", "text")):
            with self.subTest(first=first, second=second):
                self.assertEqual(out(code.format(first, a, second, b), remote()), want)
        png = ("import base64\nclass R:\n    def _repr_png_(self): return base64.b64decode("
               "'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAA"
               "AElFTkSuQmCC')\n    def _repr_html_(self): return '<img>'\nR()")
        got = out(png, remote())
        if not isinstance(got, bytes):      # without PIL, the bytes of the picture
            got = got.tobytes() and b"\x89PNG"
        self.assertTrue(got.startswith(b"\x89PNG"))


class Tools(Case):
    def test_tools(self):
        """tools run on the host, in the calling thread, with its state"""
        seen = []

        def note(text, *, times=1):
            seen.append((text, times, threading.get_ident(), os.getpid()))
            return {"noted": text * times}
        remote().send_tools({"note": note})
        self.assertEqual(out("note('ab', times=2)['noted']", remote()), "abab")
        self.assertEqual(seen, [("ab", 2, threading.get_ident(), os.getpid())])

    def test_tool_errors(self):
        """what a tool raises is raised in the cell, where it can be caught"""
        def fail(how):
            raise LookupError(how)
        remote().send_tools({"fail": fail})
        self.assertEqual(out("try:\n    fail('so')\nexcept LookupError as e:\n    got = str(e)\ngot",
                             remote()), "so")
        self.fails("fail('so')", "LookupError\nso", remote(), s.AgentError)
        self.still_lives(remote())

    def test_functions(self):
        """additional_functions are there with send_tools and without it"""
        with s.NsboxPythonExecutor([], additional_functions={"triple": lambda n: 3 * n}) as executor:
            self.assertEqual(out("triple(3)", executor), 9)
            executor.send_tools({"final_answer": lambda a: a})
            self.assertEqual(out("sqrt(triple(3)) + ceil(0.5)", executor), 4.0)

    def test_itself(self):
        """a tool that uses the executor which called it gets an error, no deadlock"""
        with s.NsboxExecutor([]) as executor:
            executor.send_tools({"again": lambda: executor("1").output})
            with self.assertRaisesRegex(s.AgentError, "cannot use the executor"):
                executor("again()")

    def test_hostile(self):
        """an interpreter that lies gives wrong values, and nothing else"""
        with s.NsboxExecutor([]) as executor:
            for lies, want in (("value={'$t': 'pickle', 'v': 'gASV'}, repr=5", "5"),
                               ("value={'$t': 'repr', 'v': {'type': 't', 'repr': 'r'}}, "
                                "mime={'image/png': '!', 'text/html': 7}", 7),
                               ("value={'$t': 'repr', 'v': {'type': 't', 'repr': 'r'}}, "
                                "mime={'image/png': 'AAAA'}, repr='shown'", "shown"),
                               ("value={'$t': 'image', 'v': 'AAAA'}, repr='bad'", "bad")):
                got = executor("g = display.__globals__\nold = g.setdefault('true_send', g['send'])\n"
                               f"g['send'] = lambda m: old(dict(m, {lies}))\n1")
                self.assertEqual(got.output if not isinstance(got.output, Remote)
                                 else repr(got.output), want)

    def test_interrupted(self):
        """Ctrl-C while a tool runs reaches the caller, and the box goes on"""
        with s.NsboxExecutor([]) as executor:
            def stop():
                raise KeyboardInterrupt
            executor.send_tools({"stop": stop})
            with self.assertRaises(KeyboardInterrupt):
                executor("kept = 1\nstop()")
            self.assertEqual(out("kept + 1", executor), 2)

    def test_names(self):
        """a cell's own names for built-in functions break nothing of ours"""
        with s.NsboxPythonExecutor([]) as executor:
            out("list = isinstance = getattr = hasattr = len = type = 5", executor)
            self.assertEqual(out("x = 6", executor), 6)
            self.assertEqual(executor.state["x"], 6)
            self.assertIn("isinstance", set(executor.state))

    def test_state(self):
        """state reads, writes and deletes variables of the box"""
        state = local().state
        state["put"] = [1]
        self.assertEqual(out("put + [2]"), [1, 2])
        del state["put"]
        self.fails("put", "NameError")
        with self.assertRaises(KeyError):
            state["put"]

    def test_bases(self):
        """the classes are those of smolagents where it is installed"""
        self.assertEqual(isinstance(local()("1"), s.CodeOutput), True)
        if not s.HAVE_SMOLAGENTS:
            self.skipTest("needs smolagents")
        from smolagents import local_python_executor, remote_executors, utils
        self.assertTrue(issubclass(s.NsboxExecutor, remote_executors.RemotePythonExecutor))
        self.assertTrue(issubclass(s.NsboxPythonExecutor, local_python_executor.PythonExecutor))
        self.assertIs(s.AgentError, utils.AgentError)
        self.assertIs(s.CodeOutput, local_python_executor.CodeOutput)

    def test_agent(self):
        """a CodeAgent with a scripted model works through an error to its answer, on both"""
        if not s.HAVE_SMOLAGENTS:
            self.skipTest("needs smolagents")
        from smolagents import CodeAgent, Tool
        from smolagents.models import ChatMessage, Model
        pid = os.getpid()

        class Price(Tool):
            name, description = "price", "Price of a fruit in cents."
            inputs = {"fruit": {"type": "string", "description": "which"}}
            output_type = "integer"

            def forward(self, fruit: str) -> int:
                assert os.getpid() == pid
                return {"apple": 30, "pear": 45}[fruit]

        class Scripted(Model):
            steps = ["cost = 3 * price('apple')\nprint('so far', cost)",
                     "cost += price('plum')",
                     "cost += price(fruit='pear') + bonus",
                     "import os\nprint(os.getcwd())",
                     "final_answer(cost)"]

            def __init__(self):
                super().__init__(model_id="scripted")
                self.seen = []

            def generate(self, messages, **_):
                said = messages[-1].content
                self.seen.append(said if isinstance(said, str) else said[-1]["text"])
                code = self.steps[len(self.seen) - 1]
                return ChatMessage(role="assistant", content=f"Next.\n<code>\n{code}\n</code>")
        for executor, refused in ((s.NsboxExecutor([]), "so far"),
                                  (s.NsboxPythonExecutor([]), "Import of os is not allowed")):
            model = Scripted()
            with CodeAgent(tools=[Price()], model=model, executor=executor, verbosity_level=-1,
                           max_steps=6) as agent:
                self.assertEqual(agent.run("How much?", additional_args={"bonus": 5}), 140)
            self.assertIn("so far 90", model.seen[1])
            self.assertIn("KeyError: 'plum'", model.seen[2])
            self.assertIn(refused, " ".join(model.seen))


def tearDownModule():
    executors.clean_up()


if __name__ == "__main__":
    tap_unittest.main()
