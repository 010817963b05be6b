# as: root user
"""Kernels of the library: cells in Python, what becomes of each way to end one, and what a
hostile box can say. K1 to K10 are cases of the code interpreters that people know."""

import base64
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from cells import BUSY, SYSTEM, UNSUPPORTED, USAGE, Kernel, Refused  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402


def refusal(work):
    try:
        work()
    except Refused as error:
        return error.code, error.message
    return None


def state_stays_between_cells(tap):
    with Kernel() as k:
        k.run("x = 1")
        done = k.run("x += 1; x")
        tap.equal((done["repr"], done["value"], done["status"]), ("2", 2, "ok"), "K1 x = 1, then x += 1; x is 2")
        tap.equal([k.run("None")["execution_count"] for _ in range(3)], [3, 4, 5], "K7 execution_count goes up")
        tap.equal(k.run("1", store=False)["execution_count"], 5, "but not by a cell that is not stored")
        tap.equal(k.run("print(1); x;")["repr"], None, "a semicolon keeps the value back")
        done = k.run("class B:\n    def __repr__(self): raise ValueError\nB()")
        tap.equal((done["status"], done["repr"]), ("ok", "<B object, its repr() raised ValueError>"),
                  "a value without a repr() is no error of the cell")
        k.run("def five(tree, ast):\n    tree.body[-1].value = ast.Constant(5, lineno=1, col_offset=0, end_lineno=1,"
              " end_col_offset=1)\n    return tree\n__nsbox_transformers__.append(five)\n0")
        tap.equal(k.run("1 + 1")["value"], 5, "a client may change the tree of a cell")
        with Kernel() as other:
            tap.equal(other.run("x")["error"]["name"], "NameError", "K2 two kernels do not see each other")


def environment_of_one_cell(tap):
    with Kernel(env=["A=box"]) as k:
        ask = "import os; [os.environ.get(n) for n in 'AB']"
        tap.equal(k.run(ask, env={"A": "cell", "B": "new"})["value"], ["cell", "new"], "K4 a cell's env is on top")
        tap.equal(k.run(ask)["value"], ["box", None], "K4 and gone with the cell")


def a_cell_that_goes_on_is_interrupted(tap):
    with Kernel() as k:
        k.run("x = 5")
        done = k.run("while True: pass", timeout_ms=300)
        tap.equal((done["status"], done["restarted"], done["error"]["name"]),
                  ("timed_out", False, "KeyboardInterrupt"), "K5 a cell that runs out of time is interrupted")
        tap.equal(k.run("x")["value"], 5, "K5 and the next one has its state")
        number = k.start(code="print('on', flush=True)\nwhile True: pass")
        tap.equal(k.next_event()["text"], "on\n", "a cell runs")
        k.interrupt()
        tap.equal(k.finish(number)["status"], "interrupted", "and an interrupt ends it")
        stubborn = "import time\nwhile True:\n  try: time.sleep(60)\n  except KeyboardInterrupt: pass"
        done = k.run(stubborn, timeout_ms=300)
        tap.equal((done["status"], done["restarted"]), ("timed_out", True), "one that goes on is killed")
        tap.equal(k.run("'x' in globals()")["value"], False, "and the interpreter started anew")
        tap.equal([e["event"] for e in k.seen], ["ready", "dead", "ready"], "which events tell")


def a_killed_box_is_told(tap):
    with Kernel() as k:
        number = k.start(code="print('on', flush=True)\nwhile True: pass")
        waiting = k.start(code="1")
        k.next_event()
        tap.equal(k.next_event()["text"], "on\n", "a cell runs")
        k.kill_box()
        done = k.finish(number)
        tap.equal((done["status"], done["error"]["name"], done["restarted"]), ("exited", "InterpreterDied", False),
                  "K6 a box killed meanwhile ends the cell")
        tap.equal(k.finish(waiting)["status"], "exited", "and the one that waited")
        tap.equal(k.next_event(), {"event": "dead", "restarted": False, "reason": "killed: by the caller"}, "says why")
        tap.equal((refusal(k.next_event) or [0])[0], BUSY, "and the kernel is over")
        tap.equal((refusal(lambda: k.run("1")) or [0])[0], BUSY, "for requests as well")


def programs_and_awaits(tap):
    with Kernel() as k:
        done = k.run("!echo out; echo err >&2; exit 4")
        tap.equal((done["out"], done["err"]), ("out\n", "err\n"), "K8 !cmd runs a shell command")
        tap.equal(k.run("_exit_code")["value"], 4, "and keeps its status")
        tap.equal(k.run("word = 'w'\nfor i in range(2):\n    !echo {i} {word}\nfound = !echo a; echo b\nfound")["value"],
                  ["a", "b"], "in a block, with values, and as a list of lines")
        tap.equal(k.run("text = '''\n!no command\n'''\ntext")["value"], "\n!no command\n", "but not in a string")
        tap.equal(k.run("import asyncio\nawait asyncio.sleep(0, 'slept')")["value"], "slept", "K8 await at the top")
        done = k.run("await asyncio.sleep(60)", timeout_ms=300)
        tap.equal((done["status"], done["restarted"], done["error"]["traceback"][-1]),
                  ("timed_out", False, "KeyboardInterrupt"), "which is interrupted")
        tap.ok(not [line for line in done["error"]["traceback"] if "asyncio" in line], "without a line of the event loop")


class Rich:
    code = ("class H:\n"
            "    def _repr_html_(self): return '<b>h</b>'\n"
            "    def _repr_png_(self): return b'png'\n"
            "    def _repr_json_(self): return {'a': [1]}\n"
            "    def _repr_svg_(self): raise ValueError\n"
            "    def __repr__(self): return 'H'\n"
            "h = H()\n")
    forms = {"text/plain": "H", "text/html": "<b>h</b>", "image/png": base64.b64encode(b"png").decode(),
             "application/json": {"a": [1]}}


def rich_results(tap):
    with Kernel() as k:
        k.run(Rich.code)
        tap.equal(k.run("h")["mime"], Rich.forms, "K9 a value's rich forms; one that raises is left out")
        tap.equal(k.run("1")["mime"], None, "a value without any")
        done = k.run("print('before')\ndisplay(h, 2)\n3")
        tap.equal((done["shown"], done["value"], done["out"]), ([Rich.forms, {"text/plain": "2"}], 3, "before\n"),
                  "display() shows on the way")
        number = k.start(code="print('a'); display(1); print('b')")
        events = [k.next_event()["event"] for _ in range(4)]
        tap.equal(events, ["stdout", "display", "stdout", "done"], "in the order of the cell")
        k.finish(k.start(code="None"))
        tap.ok(number, "and goes on")


def output_comes_before_done(tap):
    with Kernel(limits__stdout="64K") as k:
        tap.equal(k.run("print('one')\nprint('two')")["out"], "one\ntwo\n", "K10 lines keep their newlines")
        number = k.start(code="import time\nfor i in range(3): print(i); time.sleep(0.2)")
        texts = [k.next_event()["text"] for _ in range(3)]
        tap.equal(texts, ["0\n", "1\n", "2\n"], "K10 a line comes when it is printed")
        k.finish(number)
        done = k.run("import sys\nfor i in range(9): print(i); print(-i, file=sys.stderr)")
        tap.equal((done["out"].split()[-1], done["err"].split()[-1]), ("8", "-8"), "all of it before done")
        done = k.run("print('x' * 99999)")
        tap.equal((len(done["out"]), done["stdout_bytes"], done["stdout_truncated"]), (65536, 100000, True),
                  "limits.stdout is a cell's; what is over is counted")
        tap.equal(k.run("print('again')")["out"], "again\n", "the next has its own")
        tap.equal(k.run("import os; _ = os.write(1, b'\\xff\\xc3'); _ = os.write(1, b'\\xa9')")["out"], "\ufffd\u00e9",
                  "bytes that are no UTF-8 are replaced, characters never split")
        tap.equal(k.run("import threading\nt = threading.Timer(0.2, print, ['late'])\nt.start()")["out"], "", "a thread")
        tap.equal(k.run("t.join()")["out"], "late\n", "prints into a later cell")


ENDS = [
    ("import sys; sys.exit(3)", "exited", 3, False, "sys.exit() ends the cell, not the kernel"),
    ("raise SystemExit('why')", "exited", 1, False, "SystemExit with a text"),
    ("raise KeyboardInterrupt", "interrupted", None, False, "KeyboardInterrupt"),
    ("def f(): f()\nf()", "error", None, False, "endless recursion"),
    ("b'x' * (1 << 60)", "error", None, False, "no memory"),
    ("import os; os._exit(7)", "exited", 7, True, "os._exit() ends the interpreter"),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "exited", None, True, "and so does SIGKILL"),
    ("import ctypes; ctypes.string_at(0)", "exited", None, True, "and a bad pointer"),
    ("import os; os.execv('/bin/sh', ['sh', '-c', 'echo other; exit 5'])", "exited", 5, True, "and another program"),
    ("import os; os.closerange(3, 1000)", "exited", None, True, "and one who closes the channel"),
]


def every_end_is_a_result(tap):
    with Kernel() as k:
        for code, status, exit_code, restarted, what in ENDS:
            done = k.run(code)
            got = (done["status"], done["exit_code"], done["restarted"])
            if code.startswith("import os; os.closerange"):
                got = (got[0], None, got[2])     # how it dies then is the interpreter's business
            tap.equal(got, (status, exit_code, restarted), f"A13 {what}", done)
            tap.equal(k.run("6 * 7")["value"], 42, "and the kernel goes on")


def closed_output_comes_back(tap):
    with Kernel() as k:
        done = k.run("import os\nos.close(1)\nos.close(2)\nprint('lost')")
        tap.equal((done["status"], done["error"]["name"]), ("error", "OSError"), "a cell without output")
        tap.equal(k.run("import sys; print('out'); print('err', file=sys.stderr)")["out"], "out\n", "the next has one")
        tap.equal(k.run("sys.stdout.close()")["status"], "ok", "a closed sys.stdout")
        tap.equal(k.run("print('again')")["out"], "again\n", "is opened anew")


def a_fork_is_not_the_kernel(tap):
    with Kernel() as k:
        k.tools["add"] = lambda a, b: a + b
        k.do("tools", tools=[{"name": "add"}])
        done = k.run("import os\npid = os.fork()\nif pid:\n    print('parent', os.waitpid(pid, 0)[1])\n"
                     "else:\n    print('child')\n'value'")
        tap.equal((done["out"], done["value"]), ("child\nparent 0\n", "value"), "the child ends with the cell")
        done = k.run("pid = os.fork()\nif not pid: 1/0\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        tap.equal((done["value"], "ZeroDivisionError" in done["err"]), (1, True), "an error there is told and its status 1")
        done = k.run("pid = os.fork()\nif not pid: add(1, 2)\nos.waitpid(pid, 0)[1] != 0")
        tap.equal((done["value"], "RuntimeError: add()" in done["err"]), (True, True), "it cannot call the host")
        tap.equal(k.run("add(1, 2)")["value"], 3, "but the kernel can")
        fork = "import ctypes\npid = ctypes.CDLL(None).fork()\nif pid: os.waitpid(pid, 0)\n'here'"
        tap.equal(k.run(fork)["value"], "here", "nor can one that Python does not know of")


def tools_run_on_the_host(tap):
    with Kernel() as k:
        k.tools.update(add=lambda a, b=2: a + b, final=lambda v: v, big=lambda n: "x" * n)
        done = k.do("tools", tools=[{"name": "add", "doc": "Adds."}, {"name": "final", "final": True}, {"name": "big"}])
        tap.equal(done["status"], "ok", "tools are taken over")
        tap.equal(k.run("add(1), add(1, b=5), add.__doc__")["value"], {"$t": "tuple", "v": [3, 6, "Adds."]}, "called")
        done = k.run("add(1, 'a')")
        tap.equal((done["error"]["name"], len(done["error"]["traceback"])), ("TypeError", 4), "an error comes back")
        done = k.run("try:\n    final({'a': 1})\nexcept Exception: pass\nprint('not here')")
        tap.equal((done["status"], done["value"], done["out"]), ("final", {"a": 1}, ""), "a final answer ends the cell")
        done = k.run("add(object(), 1)")
        tap.equal((done["status"], done["error"]["name"]), ("error", "TypeError"), "what cannot cross is refused there")
        tap.equal(k.run("len(big(5000000))")["value"], 5000000, "a large answer")
        threads = ("import threading\ngot = []\n"
                   "ts = [threading.Thread(target=lambda i=i: got.append(add(i))) for i in range(16)]\n"
                   "[t.start() for t in ts]; add(1); [t.join() for t in ts]\nsorted(got)")
        tap.equal(k.run(threads)["value"], [i + 2 for i in range(16)], "from threads at once")
        tap.equal(k.do("tools", tools=[{"name": "no name"}])["status"], "error", "a tool without a name is refused")
        done = k.run("input('? ')")
        tap.equal((done["error"]["name"], done["out"]), ("EOFError", "? "), "input() has an end")
        k.tools["input"] = lambda prompt: prompt + "yes"
        tap.equal(k.run("input('? ')", stdin=True)["value"], "? yes", "or asks the host")
        number = k.start(code="add(1)")
        while k.next_event()["event"] != "call":
            pass
        k.interrupt()
        tap.equal(k.finish(number)["status"], "interrupted", "a call that nobody answers is interrupted")


VALUES = [
    ("float('nan'), float('-inf')", ["nan", "-inf"]), ("2**60", "1152921504606846976"),
    ("2**53", None), ("b'x'", "eA=="), ("{1: 2}", [[1, 2]]), ("{'$t': 'set', 'v': 1}", [["$t", "set"], ["v", 1]]),
    ("1+2j", [1.0, 2.0]), ("range(1, 9, 2)", [1, 9, 2]), ("'\\ud800'", "7aCA"),
    ("__import__('decimal').Decimal('1.10')", "1.10"), ("__import__('pathlib').Path('/a')", "/a"),
    ("__import__('datetime').timedelta(1, 2, 3)", [1, 2, 3]), ("ValueError('no')", {"name": "ValueError",
                                                                                  "module": "builtins", "value": "no"}),
]


def values_are_typed(tap):
    with Kernel() as k:
        k.tools["same"] = lambda v: v
        k.do("tools", tools=[{"name": "same"}])
        for code, want in VALUES:
            value = k.run(code)["value"]
            inner = value["v"] if isinstance(value, dict) else None
            if isinstance(inner, list) and inner and isinstance(inner[0], dict):
                inner = [i["v"] for i in inner]
            tap.equal(inner, want, f"{code} has its tag")
            same = "str(same(v)) == str(v)" if "ValueError" in code or "nan" in code else "same(v) == v"
            tap.equal(k.run(f"v = {code}\n{same} and type(same(v)) is type(v)")["value"], True, "and comes back")
        tap.equal(k.run("a = []; a.append(a); a")["value"]["$t"], "repr", "A25 a list in itself is its repr")
        done = k.run("a = []\nfor i in range(40): a = [a, a]\nsame(a)")
        tap.equal((done["error"] or {}).get("value"), "the value is too large", "A25 a forest does not cross", done)
        deep = k.run("a = 1\nfor i in range(30): a = [a]\na")["value"]
        tap.equal(json.dumps(deep).count("["), 30, "30 levels are fine")
        k.do("set", values={"n": {"$t": "tuple", "v": [1, {"$t": "bytes", "v": "eA=="}]}, "plain": {"__type__": "x"}})
        tap.equal(k.run("n == (1, b'x') and plain == {'__type__': 'x'}")["value"], True, "A24 values of the host")
        tap.equal(k.do("set", values={"n": {"$t": "what", "v": 1}})["status"], "error", "an unknown tag is refused")


def tracebacks_are_the_users(tap):
    with Kernel() as k:
        k.run("def f(n):\n    return 1 / n")
        trace = k.run("f(1)\nf(0)")["error"]["traceback"]
        tap.equal([line.strip() for line in trace if "File" in line],
                  ['File "<cell 2>", line 2, in <module>', 'File "<cell 1>", line 2, in f'], "no line of ours")
        tap.ok("    return 1 / n" in trace, "the source is shown", trace)
        tap.equal(k.run("import inspect; inspect.getsource(f)")["value"], "def f(n):\n    return 1 / n\n", "inspect sees it")
        done = k.run("def g(:")
        tap.equal((done["error"]["name"], done["error"]["traceback"][0]), ("SyntaxError", '  File "<cell 4>", line 1'),
                  "a syntax error")
        done = k.run("import json\njson.loads('{')")
        tap.equal(done["error"]["name"], "JSONDecodeError", "an error in a library")
        tap.equal(k.run("class A: pass\nimport pickle\npickle.loads(pickle.dumps(A())).__class__ is A")["value"], True,
                  "classes of cells can be pickled")
        tap.equal(k.run("__name__, __import__('sys').argv")["value"]["v"], ["__main__", ["-c"]], "it is __main__")
        tap.equal(k.run("raise ValueError('\\ud800')")["error"]["value"], "\\ud800", "half a character in a message")
        done = k.run("class B(Exception):\n    def __str__(self): raise ValueError\nraise B")
        tap.equal((done["status"], done["error"]["name"]), ("error", "B"), "an error that cannot be shown")


def commands_and_files(tap):
    with Kernel() as k:
        done = k.do("exec", argv=["sh", "-c", "cat; pwd; echo $A >&2; exit 3"], stdin=base64.b64encode(b"in ").decode(),
                    cwd="/usr", env={"A": "env"})
        tap.equal((done["status"], done["exit_code"], done["out"], done["err"]), ("ok", 3, "in /usr\n", "env\n"), "exec")
        done = k.do("exec", argv=["nonesuch"])
        tap.equal((done["status"], done["exit_code"]), ("error", 127), "a program that is not there")
        done = k.do("exec", argv=["sleep", "60"], timeout_ms=300)
        tap.equal((done["status"], done["restarted"]), ("timed_out", False), "one that takes too long is ended alone")
        data = base64.b64encode(bytes(range(256))).decode()
        tap.equal(k.do("put", path="sub/a..b", data=data, mode=0o640)["size"], 256, "put")
        done = k.do("get", path="/workspace/sub/a..b")
        tap.equal((done["data"], done["mode"], done["truncated"]), (data, 0o640, False), "get")
        done = k.do("get", path="sub/a..b", max_bytes=3)
        tap.equal((done["data"], done["size"], done["truncated"]), ("AAEC", 256, True), "a part of it")
        entries = k.do("list", path="sub")["entries"]
        tap.equal([(e["name"], e["type"], e["size"]) for e in entries], [("a..b", "file", 256)], "list")
        k.run("import os; os.mkfifo('pipe')")
        tap.equal(k.do("get", path="pipe")["status"], "error", "a pipe is no file")
        done = k.do("get", path="/nonesuch")
        tap.equal((done["error"]["name"], done["error"]["traceback"]), ("FileNotFoundError", []), "no such file")


def wrong_requests_are_refused(tap):
    deep = '{"id":9,"op":"set","values":' + '{"a":' * 64 + "1" + "}" * 65
    wrong = ["", "[]", "{", '{"id":1}', '{"id":1,"op":"what"}', '{"op":"execute","code":""}',
             '{"id":0,"op":"execute","code":""}', '{"id":1,"op":"execute"}', '{"id":1,"op":"execute","code":1}',
             '{"id":1,"op":"execute","code":"","what":1}', '{"id":1,"id":1,"op":"execute","code":""}', deep,
             '{"id":1,"op":"execute","code":"","timeout_ms":-1}', '{"call":1}', '{"call":1,"value":1,"error":{}}',
             b'{"id":1,"op":"execute","code":"\xff"}', '{"id":1,"op":"execute","code":""} x']
    with Kernel() as k:
        for text in wrong:
            tap.equal((refusal(lambda: k.send_text(text)) or [0])[0], USAGE, f"refused: {text[:60]}")
        tap.equal((refusal(lambda: k.send(call=1, value=1)) or [0])[0], BUSY, "and an answer that nobody waits for")
        k.send(id=7, op="execute", code="1")
        tap.equal((refusal(lambda: k.send(id=7, op="execute", code="2")) or [0])[0], USAGE, "and an id twice")
        k.last_id = 7
        tap.equal(k.finish(7)["value"], 1, "the kernel goes on")


WRITE = "import os\ndef say(b): os.write(CHANNEL, len(b).to_bytes(4, 'big') + b)\n" \
    "for CHANNEL in range(100, 200):\n    try: os.fstat(CHANNEL); break\n    except OSError: pass\n"
GARBAGE = [
    ("say(b'x')", "not JSON"), ("say(b'[]')", "not an object"), ("os.write(CHANNEL, b'\\xff' * 4)", "its length"),
    ("os.write(CHANNEL, bytes(4))", "its length"), ("say(b'[' * 100 + b']' * 100)", "nested too deep"),
    ("say(b'\"\\xff\"')", "UTF-8"), ("say(b'{\"event\":\"done\",\"id\":2,\"id\":3}')", "a key comes twice"),
    ("say(b'{\"a\":1}')", "no \"event\""), ("say(b'{\"\\\\u0069d\":1}')", "keys"),
]


def a_hostile_box_says_anything(tap):
    for code, why in GARBAGE:
        with Kernel() as k:
            done = k.run(WRITE + code)
            tap.equal((done["status"], why in done["error"]["value"]), ("exited", True), f"garbage ends it: {code}", done)
            tap.equal(k.next_event()["restarted"], False, "without a new start")
            tap.equal((refusal(k.next_event) or [0])[0], SYSTEM, "and an error says what it was")
    with Kernel() as k:
        code = "say(b'{\"event\":\"%s\",\"id\":%d,\"text\":\"no\",\"status\":\"ok\"}')"
        lies = [("done", 99), ("stdout", 1), ("dead", 1), ("ready", 1), ("what", 1), ("call", 1)]
        done = k.run(WRITE + "\n".join(code % lie for lie in lies) + "\n'true'")
        tap.equal((done["value"], done["out"], k.seen[1:]), ("true", "", []), "what belongs to nothing is dropped", k.seen)
        done = k.run(WRITE + "say(b'{\"event\":\"done\",\"id\":2,\"status\":\"so\",\"restarted\":7,\"stdout_bytes\":-1}')\n"
                     "import time; time.sleep(0.2)")
        tap.equal((done["status"], done["restarted"], done["stdout_bytes"]), ("error", False, 0),
                  "a cell may end itself, but not say what only we know")
        tap.equal(k.run("'still'")["value"], "still", "and its own end is dropped then")
        for i in range(2):
            k.run(WRITE + "for i in range(5000): say(b'{\"event\":\"call\",\"id\":1,\"call\":1}')")
        tap.equal(k.run("1")["value"], 1, "thousands of messages for nobody")
        k.run(WRITE + "import threading\n"
              "def flood():\n    while True: say(b'{\"event\":\"what\"}')\nthreading.Thread(target=flood, daemon=True).start()")
        tap.equal(k.run("2")["value"], 2, "even while they go on")


# What a cell may overwrite, and no driver may stumble over.
PYTHON_CELLS = [
    "import subprocess; builtins.eval = builtins.compile = builtins.print = None", "import linecache; linecache.cache = None",
    "import json; json.loads = json.dumps = None", "import os; os.getpid = lambda: 1",
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)", "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))",
    "import sys; sys.settrace(lambda *a: 1 / 0)", "import sys; sys.setrecursionlimit(70)",
]


def cells_leave_the_driver_alone(tap):
    for code in PYTHON_CELLS:
        with Kernel() as k:
            k.run("import builtins; kept = 5")
            k.run(code)
            done = k.run("kept + 1")
            tap.equal((done["value"], done["status"], done["err"]), (6, "ok", ""), code)
            tap.equal(k.do("exec", argv=["sh", "-c", "echo hi"])["out"], "hi\n", "and a command runs after it")
            done = k.run("while True: kept += 1", timeout_ms=300)
            tap.equal((done["status"], done["restarted"]), ("timed_out", False), "and a loop is interrupted")
    with Kernel() as k:
        k.run("import signal\ndef late(*_):\n    raise TimeoutError('late')\n"
              "old = signal.signal(signal.SIGALRM, late); left = signal.setitimer(signal.ITIMER_REAL, 0.1)")
        time.sleep(0.5)     # between two cells
        done = k.run("left")
        tap.equal((done["status"], done["value"], done["restarted"]), ("ok", {"$t": "tuple", "v": [0.0, 0.0]}, False),
                  "what a handler raises between two cells ends neither")
        tap.equal(done["err"].splitlines()[-1:], ["TimeoutError: late"], "and is told")
        k.run("signal.setitimer(signal.ITIMER_REAL, 0.05); import time; time.sleep(5)")
        tap.equal(k.run("signal.sigpending()")["value"], {"$t": "set", "v": []}, "no signal is held back in a cell")
        k.run("def f():\n    return 1 / 0")
        for _ in range(36):
            k.run("x = '" + "a" * 500000 + "'")
        tap.equal(k.run("sum(n.startswith('<cell') for n in __import__('linecache').cache) < 36")["value"], True,
                  "the lines of old cells are forgotten")
        tap.equal(k.run("f()")["error"]["traceback"][-2:], ['  File "<cell 5>", line 2, in f', "ZeroDivisionError: division by zero"],
                  "and tracebacks do without")


def import_rules_hold_in_cells(tap):
    with Kernel(imports__allow="json") as k:
        tap.equal(k.run("import json\njson.dumps([1])")["value"], "[1]", "what imports.allow names can be imported")
        done = k.run("print('ran')\nimport os")
        tap.equal((done["error"]["name"], done["error"]["value"], done["out"]),
                  ("ImportError", "Unauthorized imports detected: os", ""), "a cell with another import does not run")
        done = k.run("__import__('os')")
        tap.equal((done["status"], done["error"]["name"]), ("error", "ImportError"), "A30 nor does __import__ import it")
    with Kernel() as k:
        tap.equal(k.run("__import__('os').sep")["value"], "/", "without the rule it does")
    got = refusal(lambda: Kernel("bash", imports__allow="json"))
    tap.equal(got and got[0], UNSUPPORTED, "the rule is refused for another language", got)


def the_life_of_a_kernel_ends(tap):
    with Kernel(life_ms=1500) as k:
        done = k.run("while True: pass")
        tap.equal((done["status"], done["restarted"]), ("exited", False), "the kernel's time is over")
        tap.equal(k.next_event()["reason"].split(":")[0], "timeout", "says the event")
        tap.equal((refusal(k.next_event) or [0])[0], BUSY, "and nothing more")
    with Kernel(limits__memory="256M") as k:
        done = k.run("b = []\nwhile True: b.append(bytearray(1 << 22))")
        tap.among((done["status"], done["restarted"]), [("exited", True), ("error", False)], "A11 memory is limited", done)
        tap.equal(k.run("1")["value"], 1, "and the kernel goes on")
    with Kernel() as k:
        k.run("1")
        record = k.close()
        tap.equal((record["verdict"], record["reason"]), ("signaled", "killed: by the caller"), "a closed kernel's record")


def nothing_is_left(tap):
    tap.equal(leftovers(), [], "A20 no process is left")


if __name__ == "__main__":
    become_reaper()
    sys.exit(run_tests([
        state_stays_between_cells, environment_of_one_cell, a_cell_that_goes_on_is_interrupted, a_killed_box_is_told,
        programs_and_awaits, rich_results, output_comes_before_done, every_end_is_a_result, closed_output_comes_back,
        a_fork_is_not_the_kernel, tools_run_on_the_host, values_are_typed, tracebacks_are_the_users,
        commands_and_files, wrong_requests_are_refused, a_hostile_box_says_anything,
        cells_leave_the_driver_alone, import_rules_hold_in_cells, the_life_of_a_kernel_ends,
        nothing_is_left]))
