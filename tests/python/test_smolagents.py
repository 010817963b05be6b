#!/usr/bin/env python3
# as: root user
"""nsbox.smolagents against what smolagents' own local executor does: cases S1 to S46.

Where nsbox decided otherwise the title says "ours". Where the real smolagents is importable,
bases, results and errors are its own.
"""

import os
import sys
import threading
import time
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap_unittest  # noqa: E402
import executors  # noqa: E402
from executors import Case, local, logs, out, s, trusting  # noqa: E402
from nsbox._typed import Remote  # noqa: E402
from nsbox.smolagents import output  # noqa: E402

NOTICE = "\n..._This content has been truncated to stay below {} characters_...\n"


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

    def test_threads(self):
        """an answer belongs to its own call, also when another thread calls right after it"""
        with s.NsboxPythonExecutor([]) as executor:
            executor.send_tools({"final_answer": lambda value: value})
            guard, others = executor._session._guard, []

            def pause(work):
                cell = guard(work)
                if not others:
                    others.append(threading.Thread(target=executor, args=("1",)))
                    others[0].start()
                    others[0].join(0.5)     # must not get to run before the answer was taken
                return cell
            with mock.patch.object(executor._session, "_guard", pause):
                got = executor("final_answer(5)")
                others[0].join()
            self.assertEqual((got.output, got.is_final_answer), (5, True))

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
                       "    except BaseException:\n        pass", "started anew", executor,
                       s.ExecutionTimeoutError)
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
        """the six rewritings of smolagents' agent run here as it wants them"""
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


def tearDownModule():
    executors.clean_up()


if __name__ == "__main__":
    tap_unittest.main()
