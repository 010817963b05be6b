# as: root user
"""Kernels of JavaScript and bash; that of Python without a box around it."""

import base64
import json
import os
import shutil
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import SCRATCH  # noqa: E402
from cells import POLICY, UNSUPPORTED, USAGE, Kernel, Refused  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import run_tests  # noqa: E402

ENTRY = {"name": "a..b", "type": "file", "size": 256, "mode": 0o640}


def refusal(work):
    try:
        work()
    except Refused as error:
        return error.code
    return None


def needs_node(test):
    def run(tap):
        if shutil.which("node"):
            test(tap)
        else:
            tap.skip(test.__name__, "node")
    run.__name__ = test.__name__
    return run


def files_go_in_and_out(tap, k):
    data = base64.b64encode(bytes(range(256))).decode()
    tap.equal(k.do("put", path="sub/a..b", data=data, mode=0o640)["size"], 256, "put")
    done = k.do("get", path="sub/a..b")
    tap.equal((done["data"], done["mode"], done["truncated"]), (data, 0o640, False), "get")
    done = k.do("get", path="sub/a..b", max_bytes=3)
    tap.equal((done["data"], done["size"], done["truncated"]), ("AAEC", 256, True), "a part of it")
    tap.equal(k.do("get", path="/nonesuch")["status"], "error", "no such file")
    with open("/proc/version", "rb") as file:
        tap.equal(k.do("get", path="/proc/version")["data"], base64.b64encode(file.read()).decode(), "one that tells no size")


def commands_run(tap, k):
    done = k.do("exec", argv=["sh", "-c", "cat; pwd; echo $A >&2; exit 3"], stdin=base64.b64encode(b"in ").decode(),
                cwd="/usr", env={"A": "env"})
    tap.equal((done["status"], done["exit_code"], done["out"], done["err"]), ("ok", 3, "in /usr\n", "env\n"), "exec")
    tap.equal(k.do("exec", argv=["nonesuch"])["exit_code"], 127, "a program that is not there")
    done = k.do("exec", argv=["sleep", "60"], timeout_ms=500)
    tap.equal((done["status"], done["restarted"]), ("timed_out", False), "one that takes too long is ended alone")


@needs_node
def javascript_keeps_its_state(tap):
    with Kernel("javascript") as k:
        k.run("const a = 1; let b = 1; function f(x) { return x * 2 } class C {}")
        tap.equal(k.run("b += a; f(b)")["value"], 4, "K1 const, let and functions live on")
        tap.equal(k.run("const z = await Promise.resolve(7)\nz + 1")["value"], 8, "K8 await at the top")
        tap.equal(k.run("z")["value"], 7, "whose names live on as well")
        tap.equal(k.run('import fs, { existsSync as has } from "fs"\nimport * as path from "node:path";\n'
                        'path.join("a", typeof fs.statSync, String(has("/")))')["value"], "a/function/true",
                  "K8 import")
        tap.equal(k.run('(await import("node:os")).EOL')["value"], "\n", "and import()")
        done = k.run('console.log("hi"); console.error("err"); ({ x: [1, null] })')
        tap.equal((done["out"], done["err"], done["repr"], done["value"]),
                  ("hi\n", "err\n", "{ x: [ 1, null ] }", {"x": [1, None]}), "output apart from the value")
        tap.equal(k.run("process.env.A", env={"A": "1"})["value"], "1", "K4 env of a cell")
        tap.equal(k.run("process.env.A")["repr"], None, "K4 is gone with it")
        tap.equal(k.run("[typeof require, __dirname === undefined]")["status"], "error", "no file, no __dirname")
        tap.equal(k.run('require("path").sep')["value"], "/", "but require()")
        with Kernel("javascript") as other:
            tap.equal(other.run("a")["error"]["name"], "ReferenceError", "K2 two kernels do not see each other")


@needs_node
def javascript_ends_are_results(tap):
    with Kernel("javascript") as k:
        done = k.run("function g() { throw new TypeError('no') }\ng()")
        tap.equal((done["error"]["name"], done["error"]["traceback"]),
                  ("TypeError", ["TypeError: no", "    at g (<cell 1>:1:22)", "    at <cell 1>:2:1"]), "an error")
        tap.equal(k.run("let q = ;")["error"]["name"], "SyntaxError", "a syntax error")
        tap.equal(k.run("if (1) {")["error"]["name"], "SyntaxError", "a cell that does not end")
        tap.equal(k.run("throw 5")["error"]["value"], "5", "a thrown number")
        k.run("let kept = 3")
        for code in ("while (true) {}", "await new Promise(() => {})"):
            done = k.run(code, timeout_ms=500)
            tap.equal((done["status"], done["restarted"]), ("timed_out", False), f"K5 {code} is interrupted")
            tap.equal(k.run("kept")["value"], 3, "K5 and the state is there")
        done = k.run("setTimeout(() => { throw new Error('late') }, 10); await new Promise((r) => setTimeout(r, 5000))")
        tap.equal((done["status"], done["error"]["value"]), ("error", "late"), "an error in a callback")
        done = k.run("Promise.reject(new Error('lost')); await new Promise((r) => setTimeout(r, 5000))")
        tap.equal((done["status"], done["error"]["value"]), ("error", "lost"), "a rejection that nobody takes")
        tap.equal(k.run("kept")["value"], 3, "end the cell alone")
        done = k.run("console.log('x'); process.exit(3)")
        tap.equal((done["status"], done["exit_code"], done["restarted"], done["out"]), ("exited", 3, True, "x\n"),
                  "process.exit() ends the interpreter")
        tap.equal(k.run("typeof kept")["value"], "undefined", "and a new one is there")


JS_VALUES = [
    ("[NaN, -Infinity]", [{"$t": "float", "v": "nan"}, {"$t": "float", "v": "-inf"}]),
    ("2n ** 70n", {"$t": "int", "v": "1180591620717411303424"}), ("undefined", None),
    ("new Map([[1, 2]])", {"$t": "dict", "v": [[1, 2]]}), ("new Set([1])", {"$t": "set", "v": [1]}),
    ("Buffer.from('x')", {"$t": "bytes", "v": "eA=="}), ("({ $t: 1 })", {"$t": "dict", "v": [["$t", 1]]}),
    ("new Date(0)", {"$t": "datetime", "v": "1970-01-01T00:00:00.000+00:00"}),
    ("'\\ud800'", {"$t": "str", "v": "7aCA"}), ("new TypeError('x')", {"$t": "exception", "v": {
        "name": "TypeError", "value": "x"}}), ("'\\u00e9\\ud83d\\ude00'", "\u00e9\U0001f600"),
]


@needs_node
def javascript_calls_the_host(tap):
    with Kernel("javascript") as k:
        k.tools.update(add=lambda a, b: a + b, final=lambda v: v, same=lambda v: v)
        k.do("tools", tools=[{"name": "add"}, {"name": "final", "final": True}, {"name": "same"}])
        tap.equal(k.run("await add(1, await add(2, 3))")["value"], 6, "a tool")
        done = k.run("await add(1, 'a')")
        tap.equal((done["status"], done["error"]["name"]), ("error", "TypeError"), "an error comes back")
        done = k.run("try { await final([1]) } catch {}\nconsole.log('not here')")
        tap.equal((done["status"], done["value"], done["out"]), ("final", [1], ""), "a final answer ends the cell")
        for code, want in JS_VALUES:
            tap.equal(k.run(code)["value"], want, f"the value of {code}")
        tap.equal(k.run("const a = []; a.push(a); a")["value"]["$t"], "repr", "A25 a list in itself is its repr")
        k.do("set", values={"v": {"$t": "tuple", "v": [1, {"$t": "bytes", "v": "eA=="}]}})
        tap.equal(k.run("[v[0], v[1].toString()]")["value"], [1, "x"], "values of the host")
        k.run("let mine = 1")
        k.do("set", values={"mine": {"__proto__": {"x": 1}}})
        tap.equal(k.run("[Object.keys(mine), mine.x === undefined]")["value"], [["__proto__"], True],
                  "in place of a cell's own; no prototype changes")
        tap.equal(k.do("set", values={"__proto__": {"x": 1}})["status"], "error", "and none can be named")
        tap.equal(k.run("util.isDeepStrictEqual(await same(new Map([[1, 2]])), new Map([[1, 2]]))")["value"], True,
                  "and back")
        done = k.run("display({ [Symbol.for('Jupyter.display')]: () => ({ 'text/html': '<b>' }) })")
        tap.equal(done["shown"][0]["text/html"], "<b>", "rich forms")


@needs_node
def javascript_finds_a_projects_packages(tap):
    folder = os.path.join(SCRATCH, "kernel-project")
    shutil.rmtree(folder, ignore_errors=True)
    for name, entry, text in (("old", "index.js", "module.exports = 'old'"), ("new", "index.mjs", "export default 'new'")):
        package = os.path.join(folder, "node_modules", name)
        os.makedirs(package)
        with open(os.path.join(package, "package.json"), "w", encoding="utf-8") as f:
            f.write(json.dumps({"name": name, "exports": f"./{entry}"}))
        with open(os.path.join(package, entry), "w", encoding="utf-8") as f:
            f.write(text)
    both = 'import old, { default as same } from "old"\nimport other from "new"\n[old, same, other].join()'
    with Kernel("javascript", project=folder) as k:
        tap.equal(k.run(both)["value"], "old,old,new", "import of what the project has")
        tap.equal(k.run('(await import("new")).default + require("old")')["value"], "newold", "import() and require()")
        tap.equal(k.run('await import("./new")')["status"], "error", "a path is one of the current folder")
        error = k.run('await import("nonesuch")')["error"]
        tap.ok("Cannot find package 'nonesuch' imported from /workspace/" in error["value"], "what nobody has", error)
    with Kernel("javascript") as k:
        tap.equal(k.run(both)["status"], "error", "without the project there are none")


# Names that a cell makes its own, and prototypes that it changes.
JAVASCRIPT_CELLS = [
    "const process = await import('node:process')", "class Map {}", "let Promise = require('util').promisify",
    "var Object = 3, Array = 4, Error = 5", "let JSON = 1, Buffer = 2", "process = null", "delete globalThis.process",
    "JSON.stringify = () => '{}'; JSON.parse = () => 0", "Object.keys = Object.entries = Array.from = null",
    "Buffer.from = Buffer.alloc = Buffer.concat = () => 7", "Object.prototype.toJSON = () => 1",
    "Object.defineProperty(Object.prototype, 'call', { get() { return 1 } })",
    "Promise.prototype.then = () => {}; Promise.prototype.finally = null", "require('util').inspect = () => { throw 1 }",
    "Object.prototype.cwd = '/nonesuch'; Object.prototype.stdin = 'x'",
]


@needs_node
def javascript_cells_leave_the_driver_alone(tap):
    for code in JAVASCRIPT_CELLS:
        with Kernel("javascript") as k:
            tap.equal(k.run(f"{code}; 5")["value"], 5, code)
            done = k.run("({ a: [6 * 7, 'x'] })", env={"A": "on"})
            tap.equal((done["status"], done["value"], done["err"], done["restarted"]), ("ok", {"a": [42, "x"]}, "", False),
                      "the next cell has its value")
            tap.equal(k.do("exec", argv=["echo", "hi"])["out"], "hi\n", "and a command runs after it")
    with Kernel("javascript") as k:
        done = k.run("globalThis.n = (globalThis.n || 0) + 1; `\nimport a from 'fs'\n`; JSON.parse('{')")
        tap.equal((done["error"]["name"], k.run("n")["value"]), ("SyntaxError", 1), "no cell runs twice")
        tap.equal(k.run("await 1\nimport os from 'node:os'\nos.EOL")["value"], "\n", "but import works behind an await")
        for code in ("({ [Symbol.for('Jupyter.display')]: () => ({ a: 1n }) })",
                     "({ [util.inspect.custom]() { throw new Error('x') } })"):
            tap.equal(k.run(code)["status"], "ok", f"a value is one, whatever it says of itself: {code}")
        k.run("setTimeout(() => { throw new Error('stray') }, 50)")
        done = k.do("exec", argv=["sh", "-c", "sleep 1; echo end"])
        tap.equal((done["status"], done["out"], "stray" in done["err"]), ("ok", "end\n", True),
                  "an error of a cell that is over ends no command")


@needs_node
def javascript_has_commands_and_files(tap):
    with Kernel("javascript") as k:
        commands_run(tap, k)
        files_go_in_and_out(tap, k)
        entries = k.do("list", path="sub")["entries"]
        tap.equal([{n: e[n] for n in ENTRY} for e in entries], [ENTRY], "list")
        k.do("exec", argv=["mkfifo", "pipe"])
        done = k.do("put", path="pipe", data="eA==", timeout_ms=3000)
        tap.equal((done["status"], done["restarted"]), ("error", False), "a pipe that nobody reads is no place for a file")


def bash_keeps_its_state(tap):
    with Kernel("bash") as k:
        k.run("x=1; declare -A m; m[a]=5; f() { echo \"f $1\"; }; cd /tmp")
        done = k.run("echo $x ${m[a]} $PWD $#; f 2; echo err >&2")
        tap.equal((done["status"], done["out"], done["err"]), ("ok", "1 5 /tmp 0\nf 2\n", "err\n"), "K1 state lives on")
        done = k.run("(exit 7)")
        tap.equal((done["status"], done["exit_code"], done["error"]["value"]), ("error", 7, "7"), "a status is a result")
        tap.equal((k.run("foo")["exit_code"], k.run("if")["exit_code"]), (127, 2), "no such command, bad syntax")
        tap.equal(k.run("echo $A", env={"A": "1 2"})["out"], "1 2\n", "K4 env of a cell")
        tap.equal(k.run("echo [$A]")["out"], "[]\n", "K4 is gone with it")
        tap.equal(k.run("read y; echo \"[$y]\"")["out"], "[]\n", "the input is empty")
        k.run("set -u")
        tap.equal(k.run("case $- in *u*) echo on;; esac; set +u")["out"], "on\n", "options live on")
        tap.equal(k.run("set -x")["err"] + k.run("set +x")["err"], "+++ set +x\n", "and trace no line of ours")
        tap.equal(k.run("printf '\\xff'")["out"], "\ufffd", "bytes that are no UTF-8")
        tap.equal(k.run("ls /proc/self/fd; echo x >&100")["exit_code"], 1, "a cell has no channel")
        k.do("set", values={"v": "a  b'\"$x", "n": 3})
        tap.equal(k.run("echo \"$v\" $n")["out"], "a  b'\"$x 3\n", "values of the host")
        with Kernel("bash") as other:
            tap.equal(other.run("echo [$x]")["out"], "[]\n", "K2 two kernels do not see each other")


LOOPS = ["while :; do :; done", "g() { while :; do :; done; }; h() { g; echo no; }; h; echo no",
         "sleep 60 | cat; echo no", "for i in 1 2 3; do sleep 60; done; echo no"]


def bash_ends_are_results(tap):
    with Kernel("bash") as k:
        k.run("kept=3")
        for code in LOOPS:
            done = k.run(code, timeout_ms=500)
            tap.equal((done["status"], done["restarted"], done["out"]), ("timed_out", False, ""), f"K5 interrupted: {code}")
            tap.equal(k.run("echo $kept")["out"], "3\n", "K5 and the state is there")
        for code, status in (("exit 3", 3), ("set -e; false; echo no", 1), ("exec sh -c 'exit 5'", 5)):
            done = k.run(code)
            tap.equal((done["status"], done["exit_code"], done["restarted"], done["out"]), ("exited", status, True, ""),
                      f"{code} ends the shell")
            tap.equal(k.run("echo [$kept]")["out"], "[]\n", "and a new one is there")


# What a cell may well do, and no driver may stumble over.
BASH_CELLS = [
    "readonly pair=1 old=2 name=3 head=4 path=5 data=6 mode=7 size=8 cwd=9", "IFS=0123456789", "continue", "break",
    "break 2", "break 9", "continue 9", ":() { echo no; }", ".() { echo no; }", "trap() { echo no; }; set() { echo no; }; shopt() { echo no; }",
    "cd() { builtin cd \"$@\" && echo no; }", "stat() { echo 1 7; }; head() { echo; }; base64() { :; }; mkdir() { :; }",
    "PATH=/", "export LC_ALL=xx_XX.UTF-8", "export() { echo no; }; exec() { echo no; }; exit() { echo no; }",
    "set -akC", "set -o posix; set -o pipefail", "set -TE; trap : DEBUG ERR", "shopt -s nocasematch failglob extdebug",
    "readonly LC_ALL=C.UTF-8", "LC_ALL=C; IFS=", "exec 1>&- 2>&-", "exec 10>&- 11>&- 12>&- 13>&-", "A=(x y)",
    "shopt -s expand_aliases; alias head=no stat=no base64=no local=no",
]


def bash_cells_leave_the_driver_alone(tap):
    for code in BASH_CELLS:
        with Kernel("bash") as k:
            k.run(code)
            done = k.run("echo $A", env={"A": "on"})
            tap.equal((done["status"], done["out"], done["err"], done["restarted"]), ("ok", "on\n", "", False), code)
            k.do("put", path="sub/x", data="aGk=")
            done = k.do("exec", argv=["/bin/cat", "x"], cwd="sub")
            tap.equal((done["out"], done["exit_code"]), ("hi", 0), "and a command runs after it")
            tap.equal(k.do("get", path="sub/x").get("data"), "aGk=", "and a file is read")
    with Kernel("bash") as k:
        tap.equal(k.run("echo a; break; echo b")["out"], "a\n", "break at the top ends the cell")
        done = k.run("continue")
        tap.equal((done["status"], done["exit_code"], "loop" in done["err"]), ("error", 1, True), "which is an error")
        tap.equal(k.run("for i in 1 2; do break; done; echo $i")["out"], "1\n", "in a loop it is the loop's")
        k.run("trap 'echo T' DEBUG")
        tap.equal(k.run("echo a; echo b")["out"], "T\na\nT\nb\n", "a trap of DEBUG lives on, for cells alone")
        k.run("trap - DEBUG")
        tap.equal(k.run("echo a")["out"], "a\n", "until it is taken away")
        for name in ("name", "pair", "old", "cwd", "nsbox"):
            tap.equal(k.run(f"echo ${name}", env={name: "1"})["out"], "1\n", f"env of a cell: {name}")
            done = k.do("exec", argv=["sh", "-c", f"echo ${name}; pwd"], env={name: "/nonesuch"}, cwd="/usr")
            tap.equal(done["out"], "/nonesuch\n/usr\n", f"env of a command: {name}")
        k.run("v=(a b); p=1; set -u; set +u")
        k.do("set", values={"v": "($(echo no) 2)"})
        tap.equal(k.run('echo "${#v[@]} $v"')["out"], "1 ($(echo no) 2)\n", "a value of the host is a text, and not run")
        tap.equal(k.run("exec 10< /etc/passwd; read -ru 10 x; echo ${x%%:*}")["out"], "root\n", "a descriptor of a cell")
        tap.equal(k.run("read -ru 10 x && echo more; sh -c 'echo x >&101' 2>/dev/null || echo no")["out"], "more\nno\n",
                  "lives on; programs do not have the channel")
        k.run(":", env={"p": "2"})
        tap.equal(k.run("echo $p; env | grep ^p=")["out"], "1\n", "what was not exported is not so afterwards")


def bash_has_commands_and_files(tap):
    with Kernel("bash") as k:
        commands_run(tap, k)
        files_go_in_and_out(tap, k)
        entries = k.do("list", path="sub")["entries"]
        tap.equal([{n: e[n] for n in ENTRY} for e in entries], [ENTRY], "list")
        k.run("mkdir -p odd; cd odd; touch $'a\\nb' $'\\xff' -- -n '*' 'a b'; mkdir .d; ln -s /nonesuch l; mkfifo p; "
              "touch -d '1969-12-31 23:59:58.5 UTC' old; cd ..")
        done = k.do("list", path="odd")
        kinds = [(e["name"], e["type"]) for e in done["entries"]]
        tap.equal(kinds, [("*", "file"), ("-n", "file"), (".d", "directory"), ("a\nb", "file"), ("a b", "file"),
                          ("l", "symlink"), ("old", "file"), ("p", "other"), ("\ufffd", "file")], "names of any bytes")
        tap.equal(([e["mtime_ms"] for e in done["entries"] if e["name"] == "old"], done["truncated"]), ([-1500], False),
                  "a time before 1970")
        for path in ("nonesuch", "sub/x", ""):
            tap.equal((k.do("list", path=path)["status"]), "error", f"no folder: '{path}'")
        tap.equal(refusal(lambda: k.do("tools", tools=[{"name": "f", "final": True}])), UNSUPPORTED, "what a shell has not is refused")
        tap.equal(refusal(lambda: k.run("a\0b")), USAGE, "and a NUL byte")
        tap.equal(refusal(lambda: k.run("", env={"a b": "1"})), USAGE, "and a name that is none")
        tap.equal(k.run("echo on")["out"], "on\n", "and it goes on")


BASH_TOOLS = {
    "add": lambda *n: sum(map(int, n)), "same": lambda text: text, "words": lambda *w: list(w), "none": lambda: None,
    "fail": lambda: 1 // 0, "blob": lambda: {"$t": "bytes", "v": "/wBh"}, "long": lambda n: "\u00e9\n" * int(n),
    "input": lambda prompt: f"{prompt} is asked",
}
BASH_CALLS = [      # a cell, its output, its error output
    ("add 1 2", "3\n", ""), ("x=$(add 3 4); echo \"[$x]\"", "[7]\n", ""), ("add 1 2 | tr 3 4", "4\n", ""),
    ("same $'a\\nb  \u00e9 \\\\ %s $x'", "a\nb  \u00e9 \\ %s $x\n", ""), ("none; echo $?", "0\n", ""),
    ("words a '' 'b c' $'\\xff'", '["a", "", "b c", {"$t": "bytes", "v": "/w=="}]\n', ""),
    ("fail || echo $?", "1\n", "ZeroDivisionError: integer division or modulo by zero\n"),
    ("blob | od -An -tx1", " ff 00 61\n", ""), ("x=$(long 50000); echo ${#x}", "99999\n", ""),
    ("for i in 1 2 3 4; do add $i 0 & done | sort; wait", "1\n2\n3\n4\n", ""),
    ("set -eu; IFS=0123456789; add 1 4", "5\n", ""), ("set +eu; unset IFS; sh -c 'add 1 2' 2>/dev/null || echo no", "no\n", ""),
    ("(until [[ -e go ]]; do sleep 0.1; done; add 1 5 > late 2>&1; echo $? > end) &", "", ""),
    ("touch go; until [[ -s end ]]; do sleep 0.1; done; cat late end; add 6 0", "RuntimeError: the host can be called only while the cell runs\n1\n6\n", ""),
]
BASH_READS = [
    ("read -rp Who who what; echo \"$what, $who\"", "is asked, Who\n"), ("read x <<< here; echo $x", "here\n"),
    ("echo p | { read x; echo $x; }", "p\n"), ("exec 7<<< seven; read -ru 7 x; echo $x; exec 7<&-", "seven\n"),
    ("while read -rp 1 x; do echo $x; break; done", "1 is asked\n"), ("read x y < /etc/passwd; echo ${x%%:*}", "root\n"),
]


def bash_calls_the_host(tap):
    if not shutil.which("flock"):
        tap.skip("calls of a shell", "flock")
        return
    for tier in (2, 4):
        with Kernel("bash", tier=tier) as k:
            k.tools = BASH_TOOLS
            tap.equal(k.do("tools", tools=[{"name": n} for n in BASH_TOOLS if n != "input"])["status"], "ok", f"tier {tier}")
            for code, out, err in BASH_CALLS if tier == 2 else BASH_CALLS[:3]:
                done = k.run(code)
                tap.equal((done["out"], done["err"], done["status"]), (out, err, "ok"), code)
            for code, out in BASH_READS:
                tap.equal(k.run(code, stdin=True)["out"], out, code)
            tap.equal(k.run("read x; echo $?; declare -F read")["out"], "1\n", "without it the input is empty")
    with Kernel("bash") as k:
        k.tools = {"add": BASH_TOOLS["add"]}
        k.do("tools", tools=[{"name": "add"}])
        for code in ("add 1 2; echo no", "x=$(add 1 2 | cat); echo no"):
            number = k.start(code=code)
            while k.next_event()["event"] != "call":
                pass
            time.sleep(0.1)
            k.interrupt()
            done = k.finish(number)
            tap.equal((done["status"], done["restarted"], done["out"]), ("interrupted", False, ""), "a call is interrupted")
            tap.equal(k.run("add 2 2")["out"], "4\n", "and the next one is answered")
        k.run("read() { builtin read \"$@\" <<< mine; }")
        tap.equal(k.run("read x; echo $x", stdin=True)["out"], "mine\n", "a cell's own function stays")
        tap.equal(k.run("exec 105<&-; add 1 2; echo $?")["status"], "ok", "who closes the answers has none")


# About 8 ms, about 15 ms, for ever.
SHORT_AND_LONG = (
    ("python", "import time; time.sleep(0.008)", "time.sleep(0.015)", "while True: pass"),
    ("javascript", "var end = Date.now() + 8; while (Date.now() < end);", "var end = Date.now() + 15; while (Date.now() < end);",
     "for (;;);"),
    ("bash", "sleep 0.006", "for ((i = 0; i < 1000; i++)); do :; done", "while :; do :; done"))


def an_interrupt_ends_its_own_cell_alone(tap):
    """Sent around the end of a short cell, which the library has not been told of yet."""
    for language, short, long, endless in SHORT_AND_LONG:
        if language == "javascript" and not shutil.which("node"):
            tap.skip(f"{language}: the next cell", "node")
            continue
        with Kernel(language) as k:
            k.run(short)
            wrong = []
            for i in range(40):
                first, second = k.start(code=short), k.start(code=long)
                time.sleep(0.006 + i % 40 / 4000)
                k.interrupt()
                ends = k.finish(first), k.finish(second)
                # node may die of a signal in the microseconds around a script: that is told
                if ends[1]["status"] != "ok" or ends[1]["restarted"] or ends[1]["err"]:
                    wrong.append((i, ends))
            tap.equal(wrong, [], f"{language}: the cell after one that was over already is never hit")
            number = k.start(code=endless)
            time.sleep(0.2)
            k.interrupt()
            tap.equal(k.finish(number)["status"], "interrupted", f"{language}: a cell that runs is")
            first, second = k.start(code=short), k.start(code=endless)
            time.sleep(0.02)
            k.interrupt()       # the library has not read yet that the first is over
            k.finish(first)
            k.interrupt()       # for the second, which waits until the first interrupt is dealt with
            tap.equal(k.finish(second)["status"], "interrupted", f"{language}: so is one that is about to begin")


def too_few_descriptors_for_a_driver_are_refused(tap):
    for language, least in (("python", 104), ("bash", 120)):
        tap.equal(refusal(lambda: Kernel(language, limits__files=least - 1).close()), POLICY, f"{language}: one too few")
        with Kernel(language, limits__files=least) as k:
            tap.equal(k.run("echo on" if language == "bash" else "print('on')")["out"], "on\n", "enough are enough")
    if shutil.which("node"):
        with Kernel("javascript", limits__files=32) as k:
            tap.equal(k.run("1 + 1")["repr"], "2", "JavaScript takes no more than node")


def without_a_box_it_is_the_same(tap):
    with Kernel(tier=4) as k:
        k.run("x = 1")
        tap.equal(k.run("x + 1")["value"], 2, "a kernel of local_unsafe")
        tap.equal(k.run("while True: pass", timeout_ms=300)["status"], "timed_out", "is interrupted")
        done = k.run("import os; os._exit(3)")
        tap.equal((done["exit_code"], done["restarted"]), (3, True), "and started anew")
    tap.equal(refusal(lambda: Kernel(tier=1)), USAGE, "the tier static has none")
    tap.equal(refusal(lambda: Kernel("cobol", profile="default")), USAGE, "nor has an unknown language")


def nothing_is_left(tap):
    tap.equal(leftovers(), [], "no process is left")


if __name__ == "__main__":
    become_reaper()
    sys.exit(run_tests([
        javascript_keeps_its_state, javascript_ends_are_results, javascript_calls_the_host,
        javascript_finds_a_projects_packages, javascript_cells_leave_the_driver_alone,
        javascript_has_commands_and_files,
        bash_keeps_its_state, bash_ends_are_results,
        bash_cells_leave_the_driver_alone, bash_has_commands_and_files, bash_calls_the_host,
        an_interrupt_ends_its_own_cell_alone, too_few_descriptors_for_a_driver_are_refused,
        without_a_box_it_is_the_same, nothing_is_left]))
