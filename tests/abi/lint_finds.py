#!/usr/bin/env python3
# as: user
"""Each lint check finds the thing it is for, and passes a tree without it.

Works on a small tree of its own: the checks, and one or two files.
"""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap  # noqa: E402

ROOT = os.getcwd()
CLEAN = '/* Owns nothing. */\n#include "base/clean.h"\n\nint clean_add(int a)\n{\n\treturn a + 1;\n}\n'
STAGES = "#define STAGES(X) \\\n\tX(mounts, CHILD, \"x\") \\\n\tX(exec, INIT, \"y\")\n"
BASE = {"base/clean.c": CLEAN, "base/clean.h": "int clean_add(int a);\n", "runtime/stage.h": STAGES,
        "tests/box/run.py": "def a_sentence(t):\n    pass\n", "tests/escape/rows.py": 'ROWS = ["E05"]\n',
        "SECURITY.md": "| promise | stage | test |\n|---|---|---|\n| a | mounts | `tests/escape/E05` |\n"
                       "| b | - | `tests/box/run.py:a_sentence` |\n"}
CLAIMS = "| promise | stage | test |\n|---|---|---|\n"
LONG = "int f(void)\n{\n" + "\tint a = 0;\n" * 90 + "\treturn 0;\n}\n"
DEEP = ("void f(int a)\n{\n\tif (a) {\n\t\twhile (a) {\n\t\t\tfor (;;) {\n\t\t\t\tif (a) {\n\t\t\t\t\ta--;\n\t\t\t\t}\n"
        "\t\t\t}\n\t\t}\n\t}\n}\n")

# (check, file, its text, what the check must say)
ROWS = (
    ("layers", "base/up.c", '#include "policy/policy.h"\n', 'base may not include "policy/policy.h"'),
    ("layers", "tools/nsbox/in.c", '#include "base/fd.h"\n', 'tools/nsbox may not include "base/fd.h"'),
    ("layers", "policy/other.c", "#include <jansson.h>\n", "<jansson.h> belongs to policy/load.c"),
    ("shape", "base/long.c", LONG, "f is 94 lines (max 80)"),
    ("shape", "base/wide.c", "int f(int a, int b, int c, int d, int e, int g)\n{\n\treturn 0;\n}\n", "f takes 6 parameters"),
    ("shape", "base/deep.c", DEEP, "nested 5 deep"),
    ("shape", "base/big.h", "/* x */\n" * 601, "601 lines (max 600)"),
    ("banned", "base/b.c", "void f(char *a, char *b)\n{\n\tstrcpy(a, b);\n}\n", "base/b.c:3: strcpy()"),
    ("banned", "runtime/b.c", 'void f(void)\n{\n\tprintf("x");\n}\n', "runtime/b.c:3: printf() prints from a library"),
    ("banned", "policy/b.c", "void f(void)\n{\n\texit(1);\n}\n", "exit() ends or talks over"),
    ("banned", "runtime/c.c", "void f(void)\n{\n\tsetresuid(1, 1, 1);\n}\n", "libc's version changes every thread"),
    ("banned", "rootfs/b.c", 'int f(void)\n{\n\treturn open("x", O_RDONLY);\n}\n', "open() without CLOEXEC"),
    ("banned", "base/d.c", "int a; // b\n", "// comment"),
    ("banned", "base/e.c", "/* TO" + "DO later */\n", "without an issue number"),
    ("claims", "SECURITY.md", CLAIMS + "| a | mounts | `tests/escape/E06` |\n", "no such test: tests/escape/E06"),
    ("claims", "SECURITY.md", CLAIMS + "| a | mounts | |\n", "no test for: a"),
    ("claims", "SECURITY.md", CLAIMS + "| a | mount | `tests/escape/E05` |\n", "no such stage: mount"),
    ("claims", "SECURITY.md", CLAIMS + "| a | - | `tests/box/run.py:another` |\n", "no such test: tests/box/run.py:another"),
    ("claims", "SECURITY.md", "no table\n", "no claims table"),
    ("text", "base/t.c", "int a; \n", "blanks at the end"),
    ("text", "base/t.c", "void f(void)\n{\n        g();\n}\n", "eight blanks"),
    ("text", "base/t.md", "a\r\n", "carriage return"),
    ("text", "base/t.md", "no newline", "no newline at the end"),
    ("text", "base/t.md", "see @HERE@/x\n", "path of this machine"),
    ("headers", "base/t.h", "size_t f(void);\n", "base/t.h: gcc"),
    ("shell", "tools/t.sh", "#!/bin/sh\ncd $1 && [ a = b\n", "tools/t.sh"),
    ("shell", "tools/t.py", "def f(:\n", "SyntaxError"),
)
NEEDS = {"shape": "ctags", "shell": "shellcheck"}


def plant(folder, files):
    for path, text in files.items():
        place = os.path.join(folder, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8", newline="") as file:
            file.write(text.replace("@HERE@", folder))


def judge(check, extra):
    """(exit status, output) of one check on the clean tree plus `extra`."""
    with tempfile.TemporaryDirectory(prefix="lint.") as folder:
        folder = os.path.join(os.path.realpath(folder), "tree")
        shutil.copytree(os.path.join(ROOT, "tools/lint"), os.path.join(folder, "tools/lint"))
        os.makedirs(os.path.join(folder, "runtime/include"))
        shutil.copy(os.path.join(ROOT, "runtime/include/nsbox.h"), os.path.join(folder, "runtime/include"))
        plant(folder, BASE | extra)
        done = subprocess.run([f"tools/lint/check-{check}"], cwd=folder, capture_output=True, text=True,
                              env=dict(os.environ, GIT_DIR="/nonexistent"))
        return done.returncode, done.stdout + done.stderr


def each_check_passes_a_clean_tree(t):
    for check in dict.fromkeys(row[0] for row in ROWS):
        if check in NEEDS and not shutil.which(NEEDS[check]):
            t.skip(f"{check} passes a clean tree", NEEDS[check])
            continue
        status, text = judge(check, {})
        t.equal(status, 0, f"{check} passes a clean tree", text)


def each_check_finds_its_thing(t):
    for check, path, text, expected in ROWS:
        name = f"{check} finds: {expected}"
        if check in NEEDS and not shutil.which(NEEDS[check]):
            t.skip(name, NEEDS[check])
            continue
        status, found = judge(check, {path: text})
        t.ok(status != 0 and expected in found, name, f"status {status}\n{found}")


tap.run_tests([each_check_passes_a_clean_tree, each_check_finds_its_thing])
