#!/usr/bin/env python3
# as: root user
"""nsbox.smolagents against what smolagents' own executors do: cases S1 to S62.

Where nsbox decided otherwise the title says "ours". Where the real smolagents is importable,
bases, results and errors are its own.
"""

import collections
import dataclasses
import datetime
import decimal
import enum
import io
import math
import os
import pathlib
import pickle
import sys
import threading
import time
import typing
import unittest
import uuid
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
# A suite beside this one may have the name of a package of upstream's.
sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(
    os.path.abspath(__file__))]
import nsbox  # noqa: E402
from nsbox import smolagents as s  # noqa: E402
from nsbox._typed import Remote, decode, encode  # noqa: E402
from nsbox.smolagents import output  # noqa: E402

NOTICE = "\n..._This content has been truncated to stay below {} characters_...\n"
MINUTE = 60
_held = {}


class Point(typing.NamedTuple):
    x: int
    y: int


class Color(enum.IntEnum):
    RED = 1


@dataclasses.dataclass
class Card:
    name: str
    tags: list


def local(name="", **how):
    """An executor of the local shape; one for all tests that ask for the same."""
    if name not in _held:
        _held[name] = s.NsboxPythonExecutor(timeout_seconds=MINUTE, **how)
        _held[name].send_tools({"final_answer": lambda answer: answer})
    return _held[name]


def remote(name="remote", **how):
    """The same of the remote shape."""
    if name not in _held:
        _held[name] = s.NsboxExecutor(timeout_seconds=MINUTE, types=[Point, Color, Card], **how)
        _held[name].send_tools({"final_answer": lambda answer: answer})
    return _held[name]


def trusting():
    """May import everything, as authorized_imports=["*"]."""
    return local("trusting", additional_authorized_imports=["*"])


def tearDownModule():
    for executor in _held.values():
        executor.cleanup()


def out(code, executor=None):
    return (executor or local())(code).output


def logs(code, executor=None):
    return (executor or local())(code).logs


class Case(unittest.TestCase):
    def fails(self, code, pattern, executor=None, error=s.InterpreterError):
        with self.assertRaisesRegex(error, pattern) as caught:
            (executor or local())(code)
        return str(caught.exception)

    def still_lives(self, executor):
        self.assertEqual(out("40 + 2", executor), 42)


class Values(Case):
    def test_s01(self):
        """S1 the output is the value of the last statement"""
        for code, value in (
                ("x = 5", 5), ("a, b = 1, 2", (1, 2)), ("x = y = 7", 7), ("x = 5\nx += 2", 7),
                ("d = {}\nd['k'] = 4", 4), ("d = {'k': 1}\nd['k'] += 1", 2), ("n: int = 9", 9),
                ("1 + 1", 2), ("print(3)", None), ("", None), ("# nothing", None), ("pass", None),
                ("x = 3;", 3), ("import math", None), ("while False:\n    pass", None),
                ("if True:\n    1\n    y = 2\n    print(3)\nelse:\n    9", 2),
                ("for i in range(4):\n    i * 2", 6),
                ("for i in range(3):\n    if i == 1:\n        z = i\n    else:\n        pass", 1),
                ("for i in []:\n    i", None)):
            with self.subTest(code=code):
                self.assertEqual(out(code), value)
        for code, word in (("def f(): pass", "<function f"), ("class A: pass", "A'>")):
            self.assertIsInstance(out(code), Remote)
            self.assertIn(word, repr(out(code)))

    def test_s02(self):
        """S2 prints come apart from the value, a line each, and anew at each call"""
        got = local()("print('a')\nprint('b', 1)\n7")
        self.assertEqual((got.output, got.logs, got.is_final_answer), (7, "a\nb 1\n", False))
        self.assertEqual(logs("print('c')"), "c\n")
        self.assertEqual(str(local().state["_print_outputs"]), "c\n")

    def test_s03(self):
        """S3 ours: print's sep, end and file are heeded"""
        self.assertEqual(logs("import math\nprint(1, 2, sep='-', end='!')"), "1-2!")
        self.assertEqual(logs("import io\nf = io.StringIO()\nprint('x', file=f)\nprint(2)",
                              trusting()), "2\n")

    def test_s04(self):
        """S4 prints inside functions and comprehensions keep their order"""
        self.assertEqual(logs("def f(n):\n    print('f', n)\n    return n\n"
                              "print('first')\nv = [f(i) for i in range(2)]\nprint('last')"),
                         "first\nf 0\nf 1\nlast\n")

    def test_s05(self):
        """S5 state lives from call to call, functions and classes too"""
        out("counter = 1\ndef bump(): return counter + 1\nclass Box:\n    size = 3")
        self.assertEqual(out("bump() + Box().size"), 5)
        self.assertEqual(local().state["counter"], 1)

    def test_s06(self):
        """S6 variables that were assigned before an error stay"""
        self.fails("kept = 11\n1 / 0", "ZeroDivisionError")
        self.assertEqual(out("kept"), 11)

    def test_s07(self):
        """S7 prints before an error are in executor.state"""
        self.fails("print('before')\n1 / 0", "ZeroDivisionError")
        self.assertEqual(str(local().state["_print_outputs"]), "before\n")
        self.assertIn("_print_outputs", local().state)

    def test_s08(self):
        """S8 __name__ is __main__"""
        self.assertEqual(out("__name__"), "__main__")
        self.assertEqual(local().state["__name__"], "__main__")

    def test_s09(self):
        """S9 ours: send_variables gives copies; what the code changes stays in the box"""
        mine = [1]
        local().send_variables({"mine": mine})
        self.assertEqual(out("mine.append(2)\nmine"), [1, 2])
        self.assertEqual((mine, local().state["mine"]), ([1], [1, 2]))

    def test_s10(self):
        """S10 prints that are too long: first half, notice, last half"""
        with s.NsboxPythonExecutor([], max_print_outputs_length=11) as executor:
            self.assertEqual(logs("print('abcdefghijklmnopqrstuvwxyz')", executor),
                             "abcde" + NOTICE.format(11) + "vwxyz\n")
            self.assertEqual(logs("print('0123456789')", executor), "0123456789\n")
        text = "".join(map(str, range(1000)))
        for most in (1, 2, 7, 100, 2889, 2890):
            if most < len(text):    # as smolagents writes it
                want = text[:most // 2] + NOTICE.format(most) + text[-most // 2:]
            else:
                want = text
            self.assertEqual(s.truncate_content(text, most), want)
        self.assertEqual(len(logs("print('x' * 200_000)")), 50_000 + len(NOTICE.format(50_000)))

    def test_s11(self):
        """S11 ours: a million characters are bounded while they come"""
        prints = output.Prints(1000)
        for _ in range(1000):
            prints.add("y" * 1000)
        self.assertLessEqual(len(prints._first) + len(prints._last), 1500)
        got = logs("for i in range(1000):\n    print('z' * 1000)\nprint('the end')")
        self.assertTrue(got.startswith("zzz") and got.endswith("zzz\nthe end\n"), got[-50:])
        self.assertEqual(len(got), 50_000 + len(NOTICE.format(50_000)))


class Errors(Case):
    def test_s12(self):
        """S12 a syntax error: line, text and caret"""
        text = self.fails("x = 1\ndef f(:\n    pass", "Code parsing failed on line 2 due to: SyntaxError")
        self.assertRegex(text, r"(?m)^\s+def f\(:\n\s+\^")

    def test_s13(self):
        """S13 a runtime error names the line, the type and the message"""
        self.fails("x = 1\ny = {}['k']", r"^Code execution failed at line 'y = \{\}\['k'\]' due to: "
                                         r"KeyError: 'k'$")
        self.fails("def f():\n    return undefined_name\nf()",
                   r"at line 'f\(\)' due to: NameError: name 'undefined_name' is not defined")

    def test_s14(self):
        """S14 ours: SystemExit and KeyboardInterrupt end the call, not the agent"""
        self.fails("raise SystemExit(3)", "SystemExit: 3")
        self.fails("raise KeyboardInterrupt", "KeyboardInterrupt")
        self.fails("exit(4)", "SystemExit: 4")
        self.still_lives(local())

    def test_s15(self):
        """S15 ours: a bare raise in an except clause"""
        self.fails("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise", "ZeroDivisionError")

    def test_s16(self):
        """S16 del of what is not defined is an error; ours: del of an attribute works"""
        self.fails("del never_defined", "NameError")
        self.assertEqual(out("class O: pass\no = O()\no.a = 1\ndel o.a\nhasattr(o, 'a')"), False)

    def test_s17(self):
        """S17 a tuple of another size is an error"""
        self.fails("a, b = 1, 2, 3", "ValueError: too many values to unpack")
        self.fails("a, b = (1,)", "ValueError: not enough values to unpack")

    def test_s18(self):
        """S18 the name of a tool cannot be assigned to; a function of the code's own can"""
        for code in ("final_answer = 5", "for final_answer in [1]:\n    pass",
                     "def final_answer(): pass", "(final_answer := 3)",
                     "if True:\n    a, *final_answer = 1, 2"):
            self.fails(code, "Cannot assign to name 'final_answer': doing this would erase the "
                             "existing tool!")
        self.assertEqual(out("def mine(): return 1\ndef mine(): return 2\nmine()"), 2)
        self.assertEqual(out("def g():\n    final_answer = 4\n    return final_answer\ng()"), 4)
        self.assertTrue(local()("final_answer(1)").is_final_answer)

    def test_s19(self):
        """S19 ours: match, async, yield, global, walrus, unpacking in displays and assignments"""
        for code, value in (
                ("match (1, 2):\n    case (a, b):\n        got = a + b\ngot", 3),
                ("async def f(): return 4\nawait f()", 4),
                ("def g():\n    yield 1\n    yield from [2]\nlist(g())", [1, 2]),
                ("n = 1\ndef h():\n    global n\n    n = 6\nh()\nn", 6),
                ("def k():\n    c = 0\n    def i():\n        nonlocal c\n        c += 1\n"
                 "    i()\n    return c\nk()", 1),
                ("(w := 7) + 1", 8), ("d = {'a': 1}\n{**d, 'b': 2}", {"a": 1, "b": 2}),
                ("a, *b = 1, 2, 3\nb", [2, 3])):
            with self.subTest(code=code):
                self.assertEqual(out(code), value)

    def test_s20(self):
        """S20 ours: decorators are applied"""
        self.assertEqual(out("def double(f):\n    return lambda n: 2 * f(n)\n"
                             "@double\ndef inc(n): return n + 1\ninc(4)"), 10)

    def test_s21(self):
        """S21 ours: a misspelled variable is an error, not the nearest one"""
        self.fails("population = 1\npopulatoin", "NameError: name 'populatoin' is not defined")

    def test_s22(self):
        """S22 ours: a missing key is a plain KeyError that names it"""
        self.fails("{'name': 1}['nmae']", "KeyError: 'nmae'")

    def test_s23(self):
        """S23 += of what is no list to a list is an error"""
        self.fails("v = [1]\nv += 5", "TypeError")

    def test_s24(self):
        """S24 with, try, classes, enums, all augmented assignments, scopes, lazy generators"""
        self.assertEqual(out(
            "seen = []\n"
            "class C:\n"
            "    def __init__(self, n): self.n = n\n"
            "    def __enter__(self): seen.append(('in', self.n)); return self\n"
            "    def __exit__(self, *e): seen.append(('out', self.n)); return self.n == 1\n"
            "with C(1) as a, C(2) as b:\n    raise ValueError\nseen"),
            [("in", 1), ("in", 2), ("out", 2), ("out", 1)])
        self.assertEqual(out("o = []\ntry:\n    o.append(1)\nexcept ValueError:\n    o.append(2)\n"
                             "else:\n    o.append(3)\nfinally:\n    o.append(4)\no"), [1, 3, 4])
        self.assertEqual(out("class P:\n    def hi(self): return 'p'\nclass Q(P):\n"
                             "    def hi(self): return super().hi() + 'q'\nQ().hi()"), "pq")
        self.assertEqual(out("from enum import Enum\nclass E(Enum):\n    A = 1\n"
                             "[e.name for e in E]", trusting()), ["A"])
        for op, value in (("+=", 9), ("-=", 5), ("*=", 14), ("/=", 3.5), ("//=", 3), ("%=", 1),
                          ("**=", 49), ("<<=", 28), (">>=", 1), ("&=", 2), ("|=", 7), ("^=", 5)):
            self.assertEqual(out(f"i = 7\ni {op} 2"), value, op)
        self.assertEqual(out("x = 'kept'\n[x for x in range(3)]\nx"), "kept")
        self.assertEqual(out("import itertools\nlist(itertools.islice((n * n for n in "
                             "itertools.count()), 3))"), [0, 1, 4])


class Limits(Case):
    def test_s25(self):
        """S25 ours: operations are not counted; a call may do more than ten million"""
        self.assertEqual(out("t = 0\nfor i in range(11_000_000):\n    t += 1"), 11_000_000)

    def test_s26(self):
        """S26 ours: a while loop may turn more than a million times; its time ends it"""
        self.assertEqual(out("i = 0\nwhile i < 1_500_000:\n    i += 1\ni"), 1_500_000)
        with s.NsboxPythonExecutor([], timeout_seconds=1) as executor:
            self.fails("while True:\n    pass", "exceeded the maximum execution time of 1 seconds",
                       executor, s.ExecutionTimeoutError)

    def test_s27(self):
        """S27 a timeout is an ExecutionTimeoutError, from any thread; None is no limit"""
        caught = []

        def work():
            with s.NsboxPythonExecutor([], timeout_seconds=1) as executor:
                try:
                    executor("print('begun')\nwhile True: pass")
                except s.ExecutionTimeoutError as e:
                    caught.append((str(e), str(executor.state["_print_outputs"])))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(caught, [("Code execution exceeded the maximum execution time of "
                                   "1 seconds", "begun\n")])
        with s.NsboxPythonExecutor([], timeout_seconds=None) as executor:
            self.assertEqual(out("import time\ntime.sleep(1.2)\n1", executor), 1)

    def test_s28(self):
        """S28 ours: the call returns when its time is over, and state is kept"""
        with s.NsboxPythonExecutor([], timeout_seconds=1) as executor:
            out("held = 5", executor)
            began = time.monotonic()
            self.fails("import time\ntime.sleep(600)", "1 seconds", executor,
                       s.ExecutionTimeoutError)
            self.assertLess(time.monotonic() - began, 300)
            self.assertEqual(out("held", executor), 5)

    def test_s28_stubborn(self):
        """S28 ours: code that ignores its interrupt is killed, the interpreter starts anew"""
        with s.NsboxPythonExecutor([], timeout_seconds=1) as executor:
            executor.send_tools({"twice": lambda n: 2 * n})
            executor.send_variables({"given": 3})
            out("own = 5", executor)
            self.fails("import time\nwhile True:\n    try:\n        time.sleep(600)\n"
                       "    except BaseException:\n        pass", "started anew", executor, s.ExecutionTimeoutError)
            self.assertEqual(out("twice(given)", executor), 6)
            self.fails("own", "NameError", executor)

    def test_s29(self):
        """S29 a RecursionError is reported as an error"""
        self.fails("def f(): return f()\nf()", "RecursionError")
        self.still_lives(local())


class Imports(Case):
    TABLE = (("os", ["other", "*"], True), ("Module.os", ["Module"], False),
             ("Module.os", ["Module", "Module.os"], True), ("os", ["os"], True),
             ("os.path", ["os.*"], True), ("os", ["os.path"], True), ("anything", ["*"], True),
             ("anything.below", ["*"], True), ("os", ["other"], False),
             ("osprey", ["os", "os.*"], False), ("os", ["os.*"], True), ("os", [], False))

    def test_s30(self):
        """S30 check_import_authorized, and the box judges as it does"""
        for module, allowed, verdict in self.TABLE:
            self.assertEqual(s.check_import_authorized(module, allowed), verdict,
                             (module, allowed))
        with s.NsboxPythonExecutor(["os.path", "xml.*"]) as executor:
            out("import os\nimport os.path\nimport xml.dom.minidom", executor)
            self.fails("import email", "Import of email is not allowed", executor)

    def test_s31(self):
        """S31 an authorised module that is not installed is an error of the constructor"""
        with self.assertRaisesRegex(s.InterpreterError, "Non-installed authorized modules: "
                                    "no_such_module_of_ours. Please install"):
            s.NsboxPythonExecutor(["no_such_module_of_ours.*", "os", "*"])

    def test_s32(self):
        """S32 collections.abc needs more than collections"""
        text = self.fails("import collections.abc", "Import of collections.abc is not allowed. "
                          "Authorized imports are: ")
        self.assertIn("'collections'", text)
        self.assertEqual(out("import collections\ncollections.Counter('aab')['a']"), 2)

    def test_s33(self):
        """S33 ours: a relative import is refused as one"""
        self.fails("from . import x", "relative import")

    def test_s34(self):
        """S34 ours: __import__ and importlib obey the same rule; eval, exec and open work"""
        self.fails("__import__('os')", "Import of os is not allowed")
        self.fails("exec('import os')", "Import of os is not allowed")
        self.fails("eval(\"__import__('subprocess')\")", "Import of subprocess is not allowed")
        self.assertEqual(out("exec('q = 3')\neval('q + 1')"), 4)
        self.assertEqual(out("open('f', 'w').write('abc')\nopen('f').read()"), "abc")

    def test_s35(self):
        """S35 from m import * honours __all__"""
        out("import sys, types\nm = types.ModuleType('star_of_ours')\nm.__all__ = ['yes']\n"
            "m.yes, m.no = 1, 2\nsys.modules['star_of_ours'] = m", trusting())
        self.assertEqual(out("from star_of_ours import *\nyes", trusting()), 1)
        self.fails("no", "NameError", trusting())

    def test_s36(self):
        """S36 a submodule needs itself or pkg.*: xml.dom as numpy.random"""
        with s.NsboxPythonExecutor(["xml"]) as executor:
            self.fails("import xml.dom", "Import of xml.dom is not allowed", executor)
        with s.NsboxPythonExecutor(["xml.dom"]) as executor:
            self.assertEqual(out("from xml import dom\ndom.__name__", executor), "xml.dom")
        with s.NsboxPythonExecutor(["xml.*"]) as executor:
            self.assertEqual(out("import xml.dom\nxml.dom.__name__", executor), "xml.dom")

    def test_s37(self):
        """S37 ours: a module that is reached by another's attribute acts inside the box alone"""
        self.assertEqual(out("import random\nrandom._os.getpid() != 0"), True)
        host = out("import random\nrandom._os.listdir('/proc')")
        self.assertNotIn(str(os.getpid()), host)
        self.fails("import random\nrandom._os.kill(%d, 0)" % os.getpid(),
                   "ProcessLookupError|PermissionError")
        self.fails("import queue\nqueue.threading._sys.modules['importlib'].import_module('os')",
                   "Import of os is not allowed|KeyError")

    def test_s38(self):
        """S38 ours: dunder attributes are Python's own, and lead nowhere but the box"""
        self.assertEqual(out("().__class__.__name__"), "tuple")
        self.assertEqual(out("getattr(1, '__class__').__name__"), "int")

    def test_s39(self):
        """S39 ours: functions of an authorised module work, in the box"""
        code = "import os\nos.popen('id -u; cat /etc/shadow 2>&1 | head -1; echo $HOME').read()"
        with s.NsboxPythonExecutor(["os"]) as executor:
            got = out(code, executor)
        self.assertNotIn("root:", got)
        self.assertTrue(got.splitlines()[0].isdigit(), got)

    def test_s40(self):
        """S40 ours: a format string reaches nothing that the code has not got anyway"""
        self.assertIn("object", out("'{0.__class__.__mro__}'.format(1)"))

    def test_s41(self):
        """S41 ours: ctypes is refused unless authorised; then the box holds without it"""
        self.fails("import ctypes", "Import of ctypes is not allowed")
        with s.NsboxPythonExecutor(["ctypes"]) as executor:
            got = out("import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
                      "(libc.mount(b'none', b'/tmp', b'tmpfs', 0, None), ctypes.get_errno())",
                      executor)
        self.assertEqual(got[0], -1)
        self.assertIn(got[1], (1, 38))     # EPERM, ENOSYS


class Final(Case):
    def test_s42(self):
        """S42 final_answer stops the code; earlier prints are kept"""
        got = local()("print('a')\nfinal_answer('done')\nprint('never')")
        self.assertEqual((got.output, got.logs, got.is_final_answer), ("done", "a\n", True))

    def test_s43(self):
        """S43 final_answer cannot be caught; ours: not even by a bare except"""
        for clause in ("except Exception:", "except:", "except BaseException:"):
            got = local()(f"try:\n    final_answer(1)\n{clause}\n    print('caught')")
            self.assertEqual((got.output, got.is_final_answer), (1, True), clause)
        got = local()("try:\n    final_answer(1)\nfinally:\n    final_answer(2)")
        self.assertEqual((got.output, got.is_final_answer), (2, True))
        self.assertFalse(local()("3").is_final_answer)

    def test_s44(self):
        """S44 final_answer by keyword, and one of several arguments"""
        self.assertEqual(local()("final_answer(answer=3)").output, 3)
        with s.NsboxPythonExecutor([]) as executor:
            executor.send_tools({"final_answer": lambda text, score=0, *more: (text, score, more)})
            self.assertEqual(executor("final_answer('x', 2, 3)").output, ("x", 2, (3,)))

    def test_s45(self):
        """S45 an assignment to final_answer in code that calls it: an error, which the agent
        avoids by another name"""
        self.fails("final_answer = 3\nfinal_answer(final_answer)", "Cannot assign to name")
        got = local()("final_answer_variable = 3\nfinal_answer(final_answer_variable)")
        self.assertEqual((got.output, got.is_final_answer), (3, True))

    def test_rewriting(self):
        """S45 the six rewritings of smolagents' agent run here as it wants them"""
        if not s.HAVE_SMOLAGENTS:
            self.skipTest("needs smolagents, whose agent rewrites the text")
        from smolagents.local_python_executor import fix_final_answer_code as fix
        for before, after in (
                ("final_answer = 3\nfinal_answer(final_answer)",
                 "final_answer_variable = 3\nfinal_answer(final_answer_variable)"),
                ("final_answer = 3", "final_answer = 3"),
                ("o.final_answer = 3\nfinal_answer(o)", "o.final_answer = 3\nfinal_answer(o)"),
                ("x = 1\nfinal_answer(x)", "x = 1\nfinal_answer(x)"),
                ("my_final_answer = 1\nfinal_answer(my_final_answer)",) * 2,
                ("final_answer = 1\nprint(final_answer)\nfinal_answer(2)",
                 "final_answer_variable = 1\nprint(final_answer_variable)\nfinal_answer(2)")):
            self.assertEqual(fix(before), after)
        got = local()(fix("final_answer = 3\nfinal_answer(final_answer)"))
        self.assertEqual((got.output, got.is_final_answer), (3, True))

    def test_s46(self):
        """S46 without the tool, calling final_answer is an error"""
        with s.NsboxPythonExecutor([]) as executor:
            self.fails("final_answer(1)", "NameError: name 'final_answer' is not defined", executor)


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
        got = out("from dataclasses import dataclass\n@dataclass\nclass Own:\n    n: int\nOwn(3)",
                  remote())
        self.assertTrue(dataclasses.is_dataclass(got))
        self.assertEqual((type(got).__name__, got.n), ("Own", 3))

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
            self.assertEqual({**encode(value), "module": 0} if isinstance(value, dict) and 0
                             else cell.record["value"], encode(value))

    def test_arrays(self):
        """S56 arrays of numpy cross both ways"""
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
        """S57 images of PIL cross both ways"""
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


if __name__ == "__main__":
    tap_unittest.main()
