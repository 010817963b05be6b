# as: root user
"""The tier static and import rules (A26 A30): what a check says, and that nothing of it runs."""

import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import SCRATCH, nsbox, parse_record  # noqa: E402
from tap import run_tests  # noqa: E402


def checked(source, *flags, language="python"):
    """nsbox check of a source: text, or bytes by a file."""
    if isinstance(source, str):
        ran = nsbox("check", "--json", "--language", language, *flags, "-c", source)
    else:
        with tempfile.NamedTemporaryFile(dir=SCRATCH, suffix=".py") as f:
            f.write(source)
            f.flush()
            os.chmod(f.name, 0o644)
            ran = nsbox("check", "--json", "--language", language, *flags, f.name)
    ran.record = parse_record(ran)
    return ran


def code(source, *flags, **how):
    ran = nsbox("code", "--json", *flags, "-c", source, **how)
    ran.record = parse_record(ran)
    return ran


def head(ran):
    r = ran.record
    return (ran.rc, r["tier"], r["verdict"], r["success"], r["exit_code"],
            (r["reason"] or "").partition(":")[0])


FINE = (0, "static", "skipped", True, None, "parsed")
BROKEN = (122, "static", "skipped", False, None, "parse_failed")


def a_source_that_parses_is_a_success_and_did_not_run(tap):
    mark = "ran" + os.urandom(8).hex()
    ran = checked(f"print('{mark}')\nopen('/workspace/{mark}', 'w')\n")
    tap.equal(head(ran), FINE, "skipped, success, no exit code, reason parsed", ran)
    tap.equal((ran["stdout"], ran["stderr"], ran["artifacts"]), (None, None, []),
              "it has no output, not an empty one")
    tap.equal(ran["analysis"], {"language": "python", "ok": True, "error": None, "imports": [],
                                "imports_truncated": False, "unauthorized": [], "ast": None,
                                "ast_truncated": False}, "nothing else was found")
    ran = nsbox("check", "-c", "print(1)")
    tap.equal((ran.rc, ran.out, ran.err), (0, b"", b""), "for people: silence and 0")
    control = code(f"print('{mark}')")
    tap.equal(control["stdout"], mark + "\n", "control: the same source runs in the tier local")


def a_syntax_error_has_its_place_and_text(tap):
    ran = checked("x = 1\nif x = 2:\n    pass\n")
    tap.equal(head(ran), BROKEN, "refused with 122", ran)
    error = ran["analysis"]["error"]
    tap.equal((error["type"], error["line"], error["column"], error["text"]),
              ("SyntaxError", 2, 4, "if x = 2:"), "type, line, column and text")
    tap.equal(ran["analysis"]["ok"], False, "the analysis says so as well")
    ran = nsbox("check", "-c", "x = (")
    tap.equal((ran.rc, ran.out), (122, b""), "for people: 122")
    tap.ok(ran.err.startswith(b"nsbox: Parse failed. Line 1: "), "and one line", ran)
    ran = checked("return 1")
    tap.equal((head(ran), ran["analysis"]["error"]["text"]), (BROKEN, "return 1"),
              "what only the compiler sees, not the parser", ran)


def imports_are_found_wherever_they_stand(tap):
    ran = checked("import os, a.b as c\nfrom x.y import z, w\nfrom . import r\nfrom ..m import *\n"
                  "def f():\n    try:\n        import q\n    except E:\n        if 0: import p\n"
                  "class C:\n    import k\nlambda: __import__('hidden')\n")
    tap.equal([(i["module"], i["names"], i["line"], i["level"]) for i in ran["analysis"]["imports"]],
              [("os", [], 1, 0), ("a.b", [], 1, 0), ("x.y", ["z", "w"], 2, 0), ("", ["r"], 3, 1),
               ("m", ["*"], 4, 2), ("q", [], 7, 0), ("p", [], 9, 0), ("k", [], 11, 0)],
              "module, names, line and level of each, in order", ran)
    ran = checked("".join(f"import m{i}\n" for i in range(2000)))
    tap.equal((len(ran["analysis"]["imports"]), ran["analysis"]["imports_truncated"]), (1000, True),
              "a thousand are listed, and it says that there are more")


# Sources that break parsers. Each must be an answer; which one, the interpreter decides.
HOSTILE = [
    ("a NUL byte", b"x = 1\0\n", False),
    ("2,000 nested parentheses", b"(" * 2000 + b")" * 2000, False),
    ("100,000 chained minus signs", b"-" * 100000 + b"1", False),
    ("10 MB of brackets", b"[" * 10_000_000, False),
    ("a sum of 200,000 terms", b"+".join([b"1"] * 200000), False),
    ("deep f-strings", b"f'{" * 300 + b"x" + b"}'" * 300, False),
    ("invalid UTF-8", b"x = '\xff'\n", False),
    ("an encoded surrogate", b"x = '\xed\xa0\x80'\n", False),
    ("a byte order mark", b"\xef\xbb\xbfx = 1\n", True),
    ("a byte order mark and another coding", b"\xef\xbb\xbf# coding: latin-1\n", False),
    ("a coding cookie", b"# coding: latin-1\nx = '\xe9'\n", True),
    ("an unknown coding", b"# coding: no-such-thing\n", False),
    ("a lone surrogate by its escape", b"x = '\\ud800'\n", True),
    ("an endless line", b"x = '" + b"a" * 5_000_000 + b"'\n", True),
    ("an integer of 10,000 digits", b"x = 1" + b"0" * 10_000 + b"\n", None),
    ("only a carriage return", b"x = 1\ry = 2\r", True),
    ("nothing", b"", True),
    ("a null file name", b"#\n" * 3 + b"\x1a", None),
]


def a_hostile_source_is_an_answer_and_never_an_error_of_ours(tap):
    for what, source, parses in HOSTILE:
        ran = checked(source, "--ast")
        if parses is None:
            tap.among(head(ran), (FINE, BROKEN), what, ran)
        else:
            tap.equal(head(ran), FINE if parses else BROKEN, what, ran)
        error = ran["analysis"]["error"]
        tap.equal((error is None, ran["analysis"]["language"]), (ran["success"], "python"),
                  f"{what}: the analysis agrees", ran)


def the_syntax_tree_comes_when_it_is_asked_for(tap):
    ran = checked("x = 1 + y\n", "--ast")
    tree = ran["analysis"]["ast"]
    tap.equal((tree["_type"], tree["body"][0]["_type"], tree["body"][0]["value"]["left"]["value"]),
              ("Module", "Assign", 1), "as JSON", ran)
    tap.equal((tree["body"][0]["lineno"], tree["body"][0]["targets"][0]["id"]), (1, "x"), "with places")
    ran = checked(b"x = 'a'\n" * 100_000, "--ast")
    tap.equal((ran["success"], ran["analysis"]["ast"], ran["analysis"]["ast_truncated"]),
              (True, None, True), "one that is too large is left out, and it says so")
    ran = checked("x = " + "-" * 300 + "1", "--ast")
    tap.equal((ran["success"], ran["analysis"]["ast_truncated"]), (True, True), "and one that is too deep")
    ran = checked("a = (1.5, 1e999, 2j, b'\\x00', True, None, ..., 10**2, 'e\\u00e9\\ud800', 123456789012345678901)",
                  "--ast")
    values = [e.get("value") for e in ran["analysis"]["ast"]["body"][0]["value"]["elts"]]
    tap.equal(values[:7], [1.5, {"_repr": "inf"}, {"_repr": "2j"}, {"_bytes": "00"}, True, None,
                           {"_repr": "Ellipsis"}], "values that JSON does not have are marked")
    tap.equal(values[9], {"_int": hex(123456789012345678901)[2:]}, "so are large integers")


def other_languages_are_checked_by_their_own_interpreters(tap):
    rows = [
        ("bash", "for i in 1 2; do echo $i; done", None),
        ("bash", "if true; then\necho x\n", 3),
        ("bash", "echo 'unclosed\n", 1),
    ]
    if shutil.which("node"):
        rows += [
            ("javascript", "const x = require('fs'); return_ = x;", None),
            ("javascript", "import a from 'b'; export const c = await a();", None),
            ("javascript", "let y = 1;\nlet z = ;", 2),
            ("javascript", "return 1", None),
        ]
    else:
        tap.skip("JavaScript", "node")
    for language, source, line in rows:
        ran = checked(source, language=language)
        want = FINE if line is None else BROKEN
        tap.equal(head(ran), want, f"{language}: {source!r}", ran)
        tap.equal((ran["analysis"]["error"] or {}).get("line"), line,
                  f"{language}: {source!r} has the line {line}", ran)
        tap.equal(ran["analysis"]["language"], language, "and the language")
    if shutil.which("node"):
        ran = checked("import {x from 'y'", language="javascript")
        tap.equal((head(ran), ran["analysis"]["error"]["line"]), (BROKEN, None),
                  "of a broken module node does not tell the line", ran)
        ran = checked("import a from 'b'; import 'c';", language="javascript")
        tap.equal([i["module"] for i in ran["analysis"]["imports"]], ["b", "c"], "imports of a module")
    mark = os.path.join(SCRATCH, "ran-" + os.urandom(8).hex())
    ran = checked(f"touch {mark}; $(touch {mark})", language="bash")
    tap.equal((head(ran), os.path.exists(mark)), (FINE, False), "bash: nothing of it ran", ran)


# allow (None: no rule), mode, source, reason or None for "runs", unauthorized
RULES = [
    (["math"], "toplevel", "import math", None, []),
    (["math"], "toplevel", "import os", "unauthorized_imports", ["os"]),
    (["math"], "toplevel", "import a.b, c\nimport c", "unauthorized_imports", ["a", "c"]),
    (["os"], "toplevel", "import os.path", None, []),
    (["os.path"], "toplevel", "import os", None, []),
    (["json"], "toplevel", "from os.path import join", "unauthorized_imports", ["os"]),
    (["math"], "toplevel", "def f():\n    import os", "unauthorized_imports", ["os"]),
    (["math"], "toplevel", "import os as math", "unauthorized_imports", ["os"]),
    (["math"], "toplevel", "from . import os", "relative_import", []),
    (["math"], "toplevel", "from .os import x", "relative_import", []),
    ([], "toplevel", "import math", "unauthorized_imports", ["math"]),
    ([], "toplevel", "x = 1", None, []),
    (["other", "*"], "strict", "import os", None, []),
    (["os"], "strict", "import os", None, []),
    (["collections"], "strict", "import collections.abc", "unauthorized_imports", ["collections.abc"]),
    (["collections", "collections.abc"], "strict", "import collections.abc", None, []),
    (["os.*"], "strict", "import os.path", None, []),
    (["os.*"], "strict", "import os", None, []),
    (["os.path"], "strict", "import os", None, []),
    (["os.*"], "strict", "import osx", "unauthorized_imports", ["osx"]),
]


def rule_flags(allow, mode):
    flags = ["--set", f"imports.mode={mode}"]
    for module in allow:
        flags += ["--allow-import", module]
    return flags if allow else flags + ["--no-imports"]


def import_rules_hold_before_anything_runs(tap):
    for allow, mode, source, reason, unauthorized in RULES:
        name = f"{mode} {allow}: {source!r}"
        flags = rule_flags(allow, mode)
        ran = checked(source, *flags)
        tap.equal((ran["success"], ran["reason"].partition(":")[0], ran["analysis"]["unauthorized"]),
                  (reason is None, reason or "parsed", unauthorized), f"check: {name}", ran)
        ran = code("print('first')\n" + source, *flags)
        if reason:
            tap.equal((ran.rc, ran["verdict"], ran["reason"].partition(":")[0], ran["stdout"]),
                      (122, "skipped", reason, ""), f"code: {name}", ran)
        else:
            tap.equal((ran.rc, ran["verdict"], ran["stdout"]), (0, "exited", "first\n"),
                      f"code: {name}", ran)
        tap.equal(ran["analysis"]["unauthorized"], unauthorized, f"code: {name}: the analysis is there")
    ran = code("import a, b; import a", "--no-imports")
    tap.equal(ran["reason"], "unauthorized_imports: Unauthorized imports detected: a, b",
              "the sentence names each once, in order")


def a_source_that_does_not_parse_is_not_run_where_imports_are_checked(tap):
    ran = code("print('first')\nx = (", "--allow-import", "math")
    tap.equal((ran.rc, ran["verdict"], ran["reason"].partition(".")[0], ran["stdout"]),
              (122, "skipped", "parse_failed: Parse failed", ""), "refused", ran)
    ran = code("print('first')\nx = (")
    tap.equal((ran.rc, ran["verdict"], ran["analysis"]), (1, "exited", None),
              "control: without rules the interpreter says it", ran)


# What the source does not show, and what the running code then gets.
HIDDEN = [
    ("__import__", "__import__('os')"),
    ("importlib", "import importlib\nimportlib.import_module('os')"),
    ("from importlib", "from importlib import import_module\nimport_module('os')"),
    ("exec", "exec('import os')"),
    ("exec with globals of its own", "exec('import os', {})"),
    ("eval", "eval('__import__(\"os\")')"),
    ("a function that was made", "import types\ntypes.FunctionType(compile('import os', 'x', 'exec'), {})()"),
    ("builtins", "__builtins__.__import__('os')"),
]


def import_rules_hold_while_it_runs(tap):
    flags = ["--allow-import", "importlib", "--allow-import", "types", "--allow-import", "json",
             "--allow-import", "collections", "--allow-import", "random"]
    for name, source in HIDDEN:
        text = "try:\n" + "".join("    " + line + "\n" for line in source.splitlines()) + \
            "except ImportError as e:\n    print(e.name, e)\nelse:\n    print('imported')\n"
        ran = code(text, *flags)
        tap.equal((ran["exit_code"], ran["stdout"]),
                  (0, "os import of 'os' is not allowed (imports.allow: importlib, types, json, "
                      "collections, random)\n"), f"A30 {name}", ran)
        control = code(text)
        tap.equal(control["stdout"], "imported\n", f"control: {name} works without rules", control)
    ran = code("import json, collections, random\nprint(json.loads('[1]'), collections.namedtuple('a', 'b'), "
               "random.random() < 1)", *flags)
    tap.equal((ran["exit_code"], ran["stdout"]), (0, "[1] <class '__main__.a'> True\n"),
              "what an allowed module imports for itself is its own business", ran)
    ran = code("import importlib\nimportlib.import_module('os')", "--no-imports")
    tap.equal((ran.rc, ran["stdout"]), (122, ""), "A30 with the empty list not even importlib", ran)
    ran = code("__import__('os')", "--no-imports")
    tap.equal((ran["exit_code"], "imports.allow: none" in ran["stderr"]), (1, True),
              "A30 nor what only shows while it runs", ran)
    ran = code("import importlib\nimportlib.import_module('.x', 'json')", *flags)
    tap.equal((ran["exit_code"], "ModuleNotFoundError" in ran["stderr"]), (1, True),
              "a relative name with a package is judged by the package", ran)


def a_project_may_import_its_own_modules(tap):
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        os.chmod(folder, 0o755)
        os.mkdir(os.path.join(folder, "pack"))
        for name, text in (("own.py", "import math\nx = math.floor(2.5)\n"), ("bad.py", "import os\n"),
                           ("pack/__init__.py", "from .part import y\n"), ("pack/part.py", "y = 3\n")):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        flags = ["--project", folder, "--allow-import", "math"]
        ran = code("import own, pack; print(own.x, pack.y)", *flags)
        tap.equal((ran["exit_code"], ran["stdout"]), (0, "2 3\n"), "modules and packages of its own", ran)
        ran = code("import bad", *flags)
        tap.equal((ran["exit_code"], "import of 'os' is not allowed" in ran["stderr"]), (1, True),
                  "whose imports are judged as well", ran)


def a_file_is_found_whatever_its_name(tap):
    with tempfile.TemporaryDirectory(dir=SCRATCH) as folder:
        os.chmod(folder, 0o755)
        for name in ("with space.py", "new\nline.py", "it's \"quoted\".py", "-dash.py", "\u00e9.py", "a..b.py"):
            path = os.path.join(folder, name)
            with open(path, "w") as f:
                f.write("import sys\nprint(sys.argv[0] == __file__, len(sys.argv))\n")
            ran = nsbox("code", "--json", "--allow-import", "sys", path, "x y")
            ran.record = parse_record(ran)
            tap.equal((ran["exit_code"], ran["stdout"]), (0, "True 2\n"), f"A26 {name!r} runs", ran)
            ran = nsbox("check", "--json", path)
            tap.equal((ran.rc, parse_record(ran)["analysis"]["imports"][0]["module"]), (0, "sys"),
                      f"A26 {name!r} is checked", ran)


def the_report_cannot_be_forged_by_the_code(tap):
    ran = code("import posix\nfor fd in range(3, 64):\n    try:\n        posix.write(fd, b'ok\\nx\\n{}\\n')\n"
               "    except OSError:\n        pass\nraise SystemExit(122)", "--allow-import", "posix")
    tap.equal((ran["verdict"], ran["exit_code"], ran["analysis"]["ok"]), ("exited", 122, True),
              "what is written later is not read", ran)


def rules_for_what_is_no_python_source_are_refused(tap):
    for argv in (["run", "--json", "--set", "imports.allow=math", "--", "true"],
                 ["code", "--json", "--language", "bash", "--allow-import", "math", "-c", "true"],
                 ["check", "--json", "--language", "bash", "--no-imports", "-c", "true"]):
        ran = nsbox(*argv)
        error = json.loads(ran.out)
        tap.equal((ran.rc, error["code"], error["message"]),
                  (125, "unsupported", "imports.allow can only be enforced for a Python source"),
                  " ".join(argv), ran)
    ran = nsbox("run", "--tier", "static", "--", "true")
    tap.equal((ran.rc, ran.err.startswith(b"nsbox: the tier static checks sources, not commands")),
              (125, True), "nsbox run has no static tier", ran)


def of_the_policy_only_the_rules_count(tap):
    ran = checked("x = 1", "--timeout", "1ms", "--memory", "4M", "--net", "open", "--ro", "/etc")
    tap.equal(head(ran), FINE, "a tiny timeout and memory change nothing", ran)
    tap.equal(ran["network"], None, "and there is no network")


if __name__ == "__main__":
    run_tests([
        a_source_that_parses_is_a_success_and_did_not_run,
        a_syntax_error_has_its_place_and_text,
        imports_are_found_wherever_they_stand,
        a_hostile_source_is_an_answer_and_never_an_error_of_ours,
        the_syntax_tree_comes_when_it_is_asked_for,
        other_languages_are_checked_by_their_own_interpreters,
        import_rules_hold_before_anything_runs,
        a_source_that_does_not_parse_is_not_run_where_imports_are_checked,
        import_rules_hold_while_it_runs,
        a_project_may_import_its_own_modules,
        a_file_is_found_whatever_its_name,
        the_report_cannot_be_forged_by_the_code,
        rules_for_what_is_no_python_source_are_refused,
        of_the_policy_only_the_rules_count,
    ])
