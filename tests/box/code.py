# as: root user
"""nsbox code: a snippet, a file, standard input, in each language."""

import os
import shutil
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import AS, BARE_ENV, NSBOX, SCRATCH, nsbox, parse_record, run  # noqa: E402
from host import become_reaper, leftovers  # noqa: E402
from tap import needs, run_tests  # noqa: E402

HAS_NODE = shutil.which("node") is not None
IMAGE_LIBRARIES = "/usr/bin/python3"


def code(*args, **how):
    """nsbox code --json ARGS, its record."""
    ran = nsbox("code", "--json", *args, **how)
    ran.record = parse_record(ran)
    return ran


def put(name, text):
    path = os.path.join(SCRATCH, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


# language, code, exit code, exact stdout, part of stderr or "" for nothing at all
ROWS = (
    ("python", "print(6 * 7)", 0, "42\n", ""),
    ("python", "import sys; sys.exit(3)", 3, "", ""),
    ("python", "raise SystemExit('bye')", 1, "", "bye\n"),
    ("python", "def f():\n    return 1 / 0\nf()", 1, "",
     'File "<code>", line 3, in <module>\n    f()\n  File "<code>", line 2, in f\n'),
    ("python", "x = (", 1, "", 'File "<code>", line 1'),
    ("python", "from __future__ import annotations\nimport matplotlib\nprint('ok')", 0, "ok\n", ""),
    ("python", "import os; print(os.getcwd(), os.environ['HOME'], os.listdir())", 0,
     "/workspace /workspace []\n", ""),
    ("python", "import sys; print(sys.stdin.read() == '', sys.argv)", 0, "True ['-c']\n", ""),
    ("python", "input()", 1, "", "EOFError"),
    ("python", "import multiprocessing as m\ndef f(x): return x * x\nif __name__ == '__main__':\n"
     "    for way in 'fork', 'spawn':\n        with m.get_context(way).Pool(2) as p:\n"
     "            print(p.map(f, range(4)))", 0, "[0, 1, 4, 9]\n[0, 1, 4, 9]\n", ""),
    ("python", "import tempfile, os\nwith tempfile.NamedTemporaryFile() as f:"
     " print(os.path.dirname(f.name))", 0, "/tmp\n", ""),
    ("python", "open('m.py', 'w').write('x = 1')\nimport subprocess, sys, os\n"
     "subprocess.run([sys.executable, '-c', 'import m'])\nprint(sorted(os.listdir()))", 0,
     "['m.py']\n", ""),
    ("bash", "echo $0 $#; nonesuch", 127, "<code> 0\n", "<code>: line 1: nonesuch: command not found"),
    ("bash", "set -e\nfalse\necho no", 1, "", ""),
    ("bash", "if ; then", 2, "", "<code>: line 1: syntax error"),
    ("bash", "pwd; cat; echo end", 0, "/workspace\nend\n", ""),
    ("javascript", "console.log(6 * 7)", 0, "42\n", ""),
    ("javascript", "process.exit(3)", 3, "", ""),
    ("javascript", "import fs from 'fs';\nconst x = await 5;\nconsole.log(x, process.cwd())", 0,
     "5 /workspace\n", ""),
    ("javascript", "function f() {\n  throw new Error('boom');\n}\nf()", 1, "", "at f (<code>:2:9)"),
    ("javascript", "const w = require('worker_threads');\nif (w.isMainThread)\n"
     "  new w.Worker(__filename).on('message', (m) => console.log(m));\n"
     "else w.parentPort.postMessage('hi')", 0, "hi\n", ""),
)


def snippets_behave(tap):
    for language, text, status, out, err in ROWS:
        name = f"{language}: {text.splitlines()[0][:50]}"
        if language == "javascript" and not HAS_NODE:
            tap.skip(name, "node")
            continue
        ran = code("--language", language, "-c", text)
        tap.equal((ran["verdict"], ran["exit_code"], ran["stdout"]), ("exited", status, out),
                  name, ran["stderr"])
        tap.ok(err in ran["stderr"] if err else not ran["stderr"], f"{name}: stderr",
               ran["stderr"])
        for mark in ("/run/nsbox", "bootstrap", "boot.js"):
            tap.ok(mark not in ran["stderr"], f"{name}: no {mark} on stderr", ran["stderr"])


def the_same_snippet_comes_from_stdin(tap):
    ran = code("-", stdin=b"import sys; print(sys.argv[1:], sys.stdin.read())")
    tap.equal((ran["exit_code"], ran["stdout"]), (0, "[] \n"), "code on stdin runs", ran)
    ran = code("--language", "sh", "-", "a b", stdin=b"echo \"$1\"")
    tap.equal(ran["stdout"], "a b\n", "and gets its arguments", ran)


def a_file_keeps_its_name_and_is_alone(tap):
    path = put("deep/folder/prog.py", "import os, sys\nprint(__file__, sys.argv)\n"
               "print(os.listdir(os.path.dirname(__file__)))\nimport sibling\n")
    put("deep/folder/sibling.py", "x = 'found'\n")
    ran = code(path, "one", "--two")
    tap.equal(ran["stdout"], f"{path} {[path, 'one', '--two']}\n['prog.py']\n",
              "a file is alone in its folder, and has its name and arguments", ran)
    tap.ok(f'File "{path}", line 4, in <module>\n    import sibling\n' in ran["stderr"],
           "its traceback shows its name and line", ran["stderr"])
    tap.ok("No module named 'sibling'" in ran["stderr"], "what stands next to it is not there",
           ran["stderr"])


def a_project_is_importable_and_shadows_nothing(tap):
    path = put("project/main.py", "import json, sibling\nprint(sibling.x, json.dumps([1]))\n"
               "open(sibling.__file__, 'w')\n")
    put("project/sibling.py", "x = 'found'\n")
    put("project/json.py", "raise SystemExit('shadowed')\n")
    ran = code("--project", os.path.dirname(path), path)
    tap.equal((ran["stdout"], ran["exit_code"]), ("found [1]\n", 1),
              "siblings import, a file named like a library module does not", ran)
    tap.ok("Read-only file system" in ran["stderr"], "the project is read-only", ran["stderr"])


def bytes_that_are_no_text(tap):
    for text, want in ((b"# coding: latin-1\nprint(ascii('\xe9'))\n", "'\\xe9'\n"),
                       (b"\xef\xbb\xbfprint('bom')\n", "bom\n"),
                       (b"print('a')\r\nprint('b')\r\n", "a\nb\n")):
        ran = code(put("bytes.py", text))
        tap.equal((ran["exit_code"], ran["stdout"]), (0, want), f"{text[:20]!r} runs", ran)
        ran = code("-", stdin=text)
        tap.equal((ran["exit_code"], ran["stdout"]), (0, want), f"{text[:20]!r} runs from stdin",
                  ran)
    for text in (b"x = '\xff'\n", b"x = '\0'\n", b"x = '\xed\xa0\x80'\n"):
        ran = code("-", stdin=text)
        tap.equal((ran["verdict"], ran["exit_code"]), ("exited", 1), f"{text!r} is refused", ran)
        tap.ok("SyntaxError" in ran["stderr"] and "<code>" in ran["stderr"],
               f"{text!r} is a syntax error of <code>", ran["stderr"])
    ran = code("-c", "import sys; sys.stdout.buffer.write(b'\\xff\\n'); sys.exit(5)")
    tap.equal((ran["exit_code"], ran["stdout_bytes"]), (5, 2),
              "output that is no text keeps the exit code", ran)


def a_source_of_megabytes_runs(tap):
    ran = code("-", stdin=b"#" * (8 << 20) + b"\nprint('end')")
    tap.equal((ran["exit_code"], ran["stdout"]), (0, "end\n"), "8 MiB of source run", ran)


def what_was_printed_before_a_timeout_is_kept(tap):
    for language, text in (("python", "import time\nprint('kept')\nprint('part', end='')\ntime.sleep(60)"),
                           ("bash", "echo kept; printf part; sleep 60"),
                           ("javascript", "console.log('kept'); process.stdout.write('part');"
                            " setTimeout(() => {}, 60000)")):
        if language == "javascript" and not HAS_NODE:
            tap.skip(f"{language} output before a timeout is kept", "node")
            continue
        ran = code("--language", language, "--timeout", "2", "-c", text)
        tap.equal((ran["verdict"], ran["stdout"]), ("timed_out", "kept\npart"),
                  f"{language} output before a timeout is kept", ran)


def the_environment_is_not_the_callers(tap):
    secret = {"MY_TOKEN": "s3cret", "COLOR": "red", "PYTHONPATH": "/nonexistent", "BASH_ENV": "/x"}
    show = "import os; print({k: os.environ.get(k) for k in ('MY_TOKEN', 'COLOR', 'PYTHONPATH')})"
    ran = code("-c", show, env=secret)
    tap.equal(ran["stdout"], "{'MY_TOKEN': None, 'COLOR': None, 'PYTHONPATH': None}\n",
              "nothing of the caller's environment is seen", ran)
    control = run([sys.executable, "-c", show], env=secret)
    tap.equal(control.text(), "{'MY_TOKEN': 's3cret', 'COLOR': 'red', 'PYTHONPATH': '/nonexistent'}",
              "which a bare interpreter does see", control)
    ran = code("-e", "COLOR", "-e", "MY_TOKEN=given", "-c", show, env=secret)
    tap.equal(ran["stdout"], "{'MY_TOKEN': 'given', 'COLOR': 'red', 'PYTHONPATH': None}\n",
              "-e passes by name, and sets", ran)


def caches_are_private_and_silent(tap):
    ran = code("--interpreter", IMAGE_LIBRARIES, "-c",
               "import matplotlib, os\nprint(matplotlib.get_backend(), matplotlib.get_cachedir())\n"
               "import matplotlib.pyplot\nprint(os.listdir('/workspace'))")
    if "No module named" in ran["stderr"]:
        tap.skip("matplotlib's caches are in /tmp", f"matplotlib for {IMAGE_LIBRARIES}")
    else:
        tap.equal((ran["stdout"], ran["stderr"]), ("agg /tmp/.cache/matplotlib\n[]\n", ""),
                  "matplotlib's caches are in /tmp, and it warns of nothing", ran)
    if not shutil.which("npm"):
        tap.skip("npm's cache is in /tmp", "npm")
        return
    ran = nsbox("run", "--", "npm", "config", "get", "cache")
    tap.equal(ran.text(), "/tmp/.cache/npm", "npm's cache is in /tmp", ran)


@needs(lambda: AS == "root", "the host's root, to give up CAP_SYS_ADMIN")
def an_interpreter_out_of_reach_stops_only_who_asked_for_it(tap):
    """Without CAP_SYS_ADMIN root's box walks as another user, and a 0700 home ends that."""
    home = os.path.join(SCRATCH, "private")
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(home, 0o700)
    made = run(["/usr/bin/python3", "-m", "venv", "--without-pip", f"{home}/venv"])
    tap.equal(made.rc, 0, "a venv in a private home", made)
    env = {"PATH": f"{home}/venv/bin:{BARE_ENV['PATH']}"}
    less = ("setpriv", "--bounding-set", "-sys_admin")
    show = ("--", "python3", "-I", "-c", "import sys; print(sys.prefix)")
    for what, before, prefix in (("with", (), f"{home}/venv"), ("without", less, "/usr")):
        ran = run([*before, NSBOX, "run", "--json", *show], env=env)
        ran.record = parse_record(ran)
        tap.equal((ran.rc, ran["stdout"]), (0, prefix + "\n"),
                  f"{what} CAP_SYS_ADMIN a bare command runs with the python3 of {prefix}", ran)
        tap.equal(any(f"{home}/venv, which" in note for note in ran["notes"]), prefix == "/usr",
                  f"{what} CAP_SYS_ADMIN: the record says whether something is missing", ran["notes"])
    ran = run([NSBOX, "code", "-c", "print(1)"], env=env)
    tap.equal((ran.rc, ran.out), (0, b"1\n"), "nsbox code with CAP_SYS_ADMIN runs it", ran)
    ran = run([*less, NSBOX, "code", "-c", "print(1)"], env=env)
    tap.equal((ran.rc, ran.out), (125, b""), "nsbox code without is an error", ran)
    tap.ok(b"Permission denied" in ran.err and b"searchable" in ran.err, "that says why", ran)
    shutil.rmtree(home)


def nothing_is_left_behind(tap):
    tap.equal(leftovers(), [], "no process of a snippet is left")


if __name__ == "__main__":
    become_reaper()
    run_tests([snippets_behave, the_same_snippet_comes_from_stdin,
               a_file_keeps_its_name_and_is_alone, a_project_is_importable_and_shadows_nothing,
               bytes_that_are_no_text, a_source_of_megabytes_runs,
               what_was_printed_before_a_timeout_is_kept, the_environment_is_not_the_callers,
               caches_are_private_and_silent,
               an_interpreter_out_of_reach_stops_only_who_asked_for_it, nothing_is_left_behind])
