#!/usr/bin/env python3
# as: root user
"""nsbox.mellea against what mellea's own code interpreter does: cases M1 to M83.

Where nsbox decided otherwise the title says "ours". Where the real mellea is importable its
classes are the ones tested.
"""

import ast
import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
import zipfile
from pathlib import Path
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
# This file has the name of the package that nsbox.mellea looks for.
sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != os.path.dirname(
    os.path.abspath(__file__))]
from nsbox import mellea as m  # noqa: E402
from nsbox.mellea import text  # noqa: E402

EXECUTING = ("local_unsafe", "local")
# Folders of this suite alone, so that "nothing is left" is about this suite.
OURS = tempfile.TemporaryDirectory(dir=os.environ.get("NSBOX_SCRATCH"))
tempfile.tempdir = os.environ["TMPDIR"] = OURS.name


def execute(tier, code, timeout=None, **how):
    return m.make_execution_environment(tier, **how).execute(code, timeout=timeout)


def folder():
    return tempfile.TemporaryDirectory()


def policy(**fields):
    """A policy whose booleans allow all that needs no network, as LOCAL_POLICY."""
    return m.CapabilityPolicy(**{"subprocess_execution": True, **fields})


@contextlib.contextmanager
def warned():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


class Case(unittest.TestCase):
    def each(self, tiers, code, check, timeout=None, **how):
        for tier in tiers:
            with self.subTest(tier=tier):
                check(execute(tier, code, timeout, **how))

    def skipped(self, result, message=None):
        self.assertEqual((result.success, result.skipped, result.exit_code), (False, True, None),
                         result)
        if message is not None:
            self.assertEqual(result.skip_message, message)


class Static(Case):
    def test_m01(self):
        """M1 static, valid code: success and skipped, no streams, the tree"""
        got = execute("static", "x = 1\nprint(x)\n")
        self.assertEqual((got.success, got.skipped, got.stdout, got.stderr, got.exit_code,
                          got.execution_mode), (True, True, None, None, None, "static"), got)
        self.assertIsInstance(got.analysis_result, ast.Module)
        self.assertEqual(ast.dump(got.analysis_result), ast.dump(ast.parse("x = 1\nprint(x)\n")))
        self.assertTrue(got.skip_message)

    def test_m02(self):
        """M2 static, syntax error: 'Parse failed.' and the SyntaxError object"""
        got = execute("static", "x = 1\ndef f(:\n")
        self.skipped(got, "Parse failed.")
        self.assertIsInstance(got.analysis_result, SyntaxError)
        self.assertEqual((got.analysis_result.lineno, got.analysis_result.offset), (2, 7))

    def test_m03(self):
        """M3 static, a NUL byte in the source: a parse failure"""
        self.skipped(execute("static", "x = 1\0\n"), "Parse failed.")

    def test_m04(self):
        """M4 static, 2,000 nested parentheses: a parse failure"""
        self.skipped(execute("static", "(" * 2000 + ")" * 2000), "Parse failed.")

    def test_m05(self):
        """M5 static, 100,000 unary minus; ours: a result, no MemoryError in the caller"""
        got = execute("static", "x = " + "-" * 100_000 + "1")
        self.assertTrue(got.skipped)
        self.assertFalse(got.success)
        self.assertEqual(got.skip_message, "Parse failed.")

    def test_m06(self):
        """M6 static ignores policy and timeout"""
        env = m.make_execution_environment("static", policy=policy(timeout=0))
        self.assertTrue(env.execute("print(1)", timeout=0).success)

    def test_m07(self):
        """M7 static ignores packages"""
        tool = m.python_tool(tier="static", packages=["no-such-package-of-nsbox"])
        self.assertTrue(tool.run(code="print(1)").success)


class Imports(Case):
    TIERS = ("static",) + EXECUTING

    def unauthorized(self, code, names, allowed=("math",), tiers=TIERS):
        self.each(tiers, code, lambda got: self.skipped(
            got, f"Unauthorized imports detected: {names}"), allowed_imports=list(allowed))

    def test_m08(self):
        """M8 a disallowed import: skipped, named, and nothing ran"""
        with folder() as place:
            mark = os.path.join(place, "ran")
            self.unauthorized(f"open({mark!r}, 'w')\nimport os", "os")
            self.assertEqual(os.listdir(place), [])

    def test_m09(self):
        """M9 import a.b, c: reported as a and c"""
        self.unauthorized("import a.b, c", "a, c", tiers=("static", "local"))

    def test_m10(self):
        """M10 duplicates once, in the order first seen"""
        self.unauthorized("import os\nimport sys\nimport os", "os, sys", tiers=("static", "local"))

    def test_m11(self):
        """M11 import math.foo with math allowed: accepted"""
        self.assertTrue(execute("static", "import math.foo", allowed_imports=["math"]).success)
        got = execute("local", "import math.foo", allowed_imports=["math"])
        self.assertEqual((got.skipped, got.exit_code), (False, 1))
        self.assertIn("ModuleNotFoundError", got.stderr)

    def test_m12(self):
        """M12 from os.path import join: reported as os"""
        self.unauthorized("from os.path import join", "os", tiers=("static", "local"))

    def relative(self, code, **how):
        for tier in ("static", "local"):
            got = execute(tier, code, allowed_imports=["math", "os"])
            self.skipped(got)
            self.assertIn("relative import", got.skip_message)

    def test_m13(self):
        """M13 from .os import x; ours: refused as a relative import, not judged as os"""
        self.relative("from .os import x")

    def test_m14(self):
        """M14 from . import os; ours: refused, where mellea contradicts itself"""
        self.relative("from . import os")

    def test_m15(self):
        """M15 imports in functions, try and if 0 are seen"""
        self.unauthorized("def f():\n import os\ntry:\n import sys\nexcept E: pass\n"
                          "if 0:\n import json\n", "os, sys, json", tiers=("static", "local"))

    def test_m16(self):
        """M16 import os as math: reported as os"""
        self.unauthorized("import os as math", "os", tiers=("static", "local"))

    def test_m17(self):
        """M17 __import__, importlib, exec; ours: refused while it runs"""
        for code in ("__import__('shutil')", "exec('import shutil')", "eval(\"__import__('shutil')\")",
                     "import importlib; importlib.import_module('shutil')"):
            with self.subTest(code=code):
                got = execute("local", code, allowed_imports=["importlib"])
                self.assertEqual((got.skipped, got.exit_code), (False, 1), got)
                self.assertRegex(got.stderr, r"ImportError.*shutil")
                # The positive control: the same code, allowed.
                self.assertEqual(execute("local", code, allowed_imports=["importlib", "shutil"])
                                 .exit_code, 0)

    def test_m18(self):
        """M18 allowed_imports=[]; ours: nothing may be imported"""
        self.unauthorized("import math", "math", allowed=())
        self.each(self.TIERS, "print(1)", lambda got: self.assertTrue(got.success, got),
                  allowed_imports=[])

    def test_m19(self):
        """M19 a syntax error with an allow-list; ours: refused, not run"""
        for tier in EXECUTING:
            got = execute(tier, "import os\ndef f(:", allowed_imports=["math"])
            self.skipped(got, "Parse failed.")
            self.assertEqual(got.analysis_result.lineno, 2)

    def test_m20(self):
        """M20 the check comes before packages, and before the missing engine of docker"""
        for tier in EXECUTING:
            tool = m.python_tool(tier=tier, packages=["no-such-package-of-nsbox"],
                                 allowed_imports=["math"])
            self.skipped(tool.run(code="import os"), "Unauthorized imports detected: os")
        for tier in ("docker", "docker_unsafe"):
            self.skipped(execute(tier, "import os", allowed_imports=["math"]),
                         "Unauthorized imports detected: os")


class Execution(Case):
    def test_m21(self):
        """M21 print(1+1) gives '2': streams are stripped"""
        self.each(EXECUTING, "print(1+1)", lambda got: self.assertEqual(got.stdout, "2"))
        self.each(EXECUTING, "print('  a  \\n\\n')", lambda got: self.assertEqual(got.stdout, "a"))

    def test_m22(self):
        """M22 CRLF and CR become LF"""
        self.each(EXECUTING, "import sys; sys.stdout.buffer.write(b'a\\r\\nb\\rc')",
                  lambda got: self.assertEqual(got.stdout, "a\nb\nc"))

    def test_m23(self):
        """M23 success is exit code 0"""
        for code in (0, 1, 2, 255):
            self.each(EXECUTING, f"import sys; sys.exit({code})", lambda got: self.assertEqual(
                (got.success, got.exit_code, got.skipped), (code == 0, code, False)))

    def test_m24(self):
        """M24 SystemExit(3): exit code 3"""
        self.each(EXECUTING, "raise SystemExit(3)",
                  lambda got: self.assertEqual(got.exit_code, 3))

    def test_m25(self):
        """M25 SIGKILL of itself: exit code -9, no success, not skipped"""
        self.each(EXECUTING, "import os; os.kill(os.getpid(), 9)", lambda got: self.assertEqual(
            (got.exit_code, got.success, got.skipped), (-9, False, False)))

    def test_m26(self):
        """M26 a syntax error that runs: exit code 1, told on stderr; ours: no path of the host"""
        def check(got):
            self.assertEqual((got.exit_code, got.skipped), (1, False))
            self.assertIn("SyntaxError", got.stderr)
            self.assertNotIn(tempfile.gettempdir() + "/tmp", got.stderr)
        self.each(EXECUTING, "def f(:", check)

    def test_m27(self):
        """M27 a timeout: no success, skipped, timed_out, its message, no exit code"""
        self.each(EXECUTING, "while True: pass", lambda got: self.assertEqual(
            (got.success, got.skipped, got.timed_out, got.skip_message, got.exit_code),
            (False, True, True, "Execution timed out.", None)), timeout=1)

    def test_m28(self):
        """M28 output before a timeout; ours: kept"""
        self.each(EXECUTING, "print('half', flush=True)\nwhile True: pass",
                  lambda got: self.assertEqual((got.timed_out, got.stdout), (True, "half")),
                  timeout=2)

    def test_m29(self):
        """M29 timeout=0: times out at once"""
        self.each(EXECUTING, "print(1)", lambda got: self.assertEqual(
            (got.timed_out, got.skip_message), (True, "Execution timed out.")), timeout=0)

    def sleepers(self, mark):
        found = 0
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as line:
                words = line.read().split(b"\0")
                found += words[0].endswith(b"sleep") and mark.encode() in words
        return found

    def test_m30(self):
        """M30 grandchildren at a timeout; ours: none survives"""
        for tier in EXECUTING:
            mark = f"4{os.getpid()}.{EXECUTING.index(tier)}"
            code = ("import subprocess, sys\n"
                    f"subprocess.Popen(['sh', '-c', 'sleep {mark}; :'])\n"
                    "print('started', flush=True)\nwhile True: pass")
            got = execute(tier, code, timeout=2)
            self.assertEqual((got.timed_out, got.stdout), (True, "started"))
            self.assertEqual(self.sleepers(mark), 0, tier)

    def test_m31(self):
        """M31 exit 0 with a background child that holds stdout; ours: exit code 0, no timeout"""
        mark = f"5{os.getpid()}.5"
        code = f"import subprocess; subprocess.Popen(['sleep', '{mark}']); print('done')"
        self.each(EXECUTING, code, lambda got: self.assertEqual(
            (got.exit_code, got.timed_out, got.stdout), (0, False, "done")), timeout=20)
        self.assertEqual(self.sleepers(mark), 0)

    def test_m32(self):
        """M32 output that is not UTF-8; ours: replaced, the exit code stays"""
        self.each(EXECUTING, "import sys; sys.stdout.buffer.write(b'a\\xffb'); sys.exit(4)",
                  lambda got: self.assertEqual((got.stdout, got.exit_code, got.skipped),
                                               ("a\ufffdb", 4, False)))

    def test_m33(self):
        """M33 a lone surrogate in the code; ours: a result, and nothing left in /tmp"""
        before = set(os.listdir(tempfile.gettempdir()))
        for tier in ("static",) + EXECUTING:
            got = execute(tier, "x = '\ud800'")
            self.assertFalse(got.success)
        gc.collect()
        left = {n for n in set(os.listdir(tempfile.gettempdir())) - before
                if n.startswith(("nsbox", "tmp"))}
        self.assertEqual(left, set())

    def test_m34(self):
        """M34 stdin of the caller; ours: empty"""
        for tier in EXECUTING:
            ran = subprocess.run(
                [sys.executable, "-c", "from nsbox.mellea import make_execution_environment as e\n"
                 f"print(e({tier!r}).execute('import sys; print(repr(sys.stdin.read()))').stdout)"],
                input="secret", capture_output=True, text=True, timeout=60)
            self.assertEqual(ran.stdout, "''\n", ran.stderr)

    def test_m35(self):
        """M35 the caller's environment; ours: without secret names, none when not allowed"""
        code = "import os; print(os.environ.get('PLAIN_OF_M35'), os.environ.get('M35_API_TOKEN'))"
        with mock.patch.dict(os.environ, PLAIN_OF_M35="plain", M35_API_TOKEN="secret"):
            self.assertEqual(execute("local", code).stdout, "plain None")
            self.assertEqual(execute("local", code, policy=policy(env_var_access=False)).stdout,
                             "None None")
            self.assertIn("plain", execute("local_unsafe", code).stdout)

    def test_m36(self):
        """M36 the caller's uid; ours: local has one of its own, local_unsafe the caller's"""
        self.assertEqual(execute("local", "import os; print(os.getuid())").stdout, "1000")
        self.assertEqual(execute("local_unsafe", "import os; print(os.getuid())").stdout,
                         str(os.getuid()))

    def test_m37(self):
        """M37 cwd is working_directory, and is in the result; None; ours on local: /workspace"""
        # Not below /var/tmp, which in a box is another name of /tmp.
        with tempfile.TemporaryDirectory(dir="/tmp") as place:
            self.each(EXECUTING, "import os; print(os.getcwd())", lambda got: self.assertEqual(
                (got.stdout, got.working_directory), (place, place)), working_directory=place)
        got = execute("local_unsafe", "import os; print(os.getcwd())")
        self.assertEqual((got.stdout, got.working_directory), (os.getcwd(), None))
        self.assertEqual(execute("local", "import os; print(os.getcwd())").stdout, "/workspace")

    def test_m38(self):
        """M38 execution_mode is the tier asked for, also with a policy"""
        for tier in m.COMPATIBILITY_MATRIX:
            for given in (None, policy()):
                self.assertEqual(execute(tier, "print(1)", policy=given).execution_mode, tier)

    def test_m39(self):
        """M39 truncation: at most max bytes, the marker at the end"""
        given = policy(stdout_max_bytes=50, stderr_max_bytes=40)
        code = "import sys; print('a' * 1000); print('b' * 1000, file=sys.stderr)"
        for tier in EXECUTING:
            got = execute(tier, code, policy=given)
            self.assertEqual(got.stdout, "a" * 35 + "... [truncated]")
            self.assertEqual(got.stderr, "b" * 25 + "... [truncated]")

    def test_m40(self):
        """M40 the boundaries of truncation, for 100 bytes of two-byte characters"""
        full = "\u00e9" * 50
        marker = "... [truncated]"
        for limit, want in ((0, ""), (1, ""), (14, full[:7]), (15, full[:7]), (16, marker),
                            (20, full[:2] + marker), (100, full), (99, full[:42] + marker)):
            self.assertEqual(text.cut(full, limit), want, limit)
        for limit, want in ((16, marker), (20, full[:2] + marker), (100, full)):
            got = execute("local", "print('\\u00e9' * 50)", policy=policy(stdout_max_bytes=limit))
            self.assertEqual(got.stdout, want)

    def test_m41(self):
        """M41 30 MB of output; ours: bounded, from the front, with the marker"""
        got = execute("local", "import sys\nfor i in range(30):\n"
                      " sys.stdout.write(chr(97 + i % 26) * 1000000)")
        self.assertEqual(got.exit_code, 0)
        self.assertLessEqual(len(got.stdout), 16 << 20)
        self.assertTrue(got.stdout.startswith("a" * 1000000 + "b"))
        self.assertTrue(got.stdout.endswith(text.MARKER))
        # Far more than the limit, and the first bytes are still the program's first.
        got = execute("local", "print('x' * 20 + 'y' * 30000000)",
                      policy=policy(stdout_max_bytes=35))
        self.assertEqual(got.stdout, "x" * 20 + text.MARKER)

    def test_m42(self):
        """M42 the timeout: argument, then policy, then the default"""
        for tier, default in (("local_unsafe", 30), ("local", 30)):
            env = m.make_execution_environment(tier)
            self.assertEqual(env._resolve_timeout(None), default)
            self.assertEqual(env._resolve_timeout(7), 7)
            env = m.make_execution_environment(tier, policy=policy(timeout=9))
            self.assertEqual((env._resolve_timeout(None), env._resolve_timeout(7)), (9, 7))
        self.assertEqual(m.make_execution_environment("docker")._resolve_timeout(None), 60)
        got = execute("local", "while True: pass", policy=policy(timeout=1))
        self.assertTrue(got.timed_out)

    def test_m43(self):
        """M43 copy_in, copy_out: static refuses and names a tier; ours: local copies"""
        for tier in ("static", "local_unsafe"):
            env = m.make_execution_environment(tier)
            with self.assertRaisesRegex(NotImplementedError, "docker"):
                env.copy_in(Path("/etc/passwd"), "/x")
            with self.assertRaisesRegex(NotImplementedError, "docker"):
                env.copy_out("/x", Path("/tmp/x"))

    def test_m43_local(self):
        """M43 ours: files go into a box and come out of it"""
        with folder() as place:
            given = Path(place, "given")
            given.write_text("abc")
            env = m.make_execution_environment("local")
            env.copy_in(given, "/data/in.txt")
            env.copy_in(given, "here.txt")
            given.write_text("changed since")
            got = env.execute("print(open('/data/in.txt').read() + open('here.txt').read())\n"
                              "import os; os.makedirs('d'); open('d/o', 'w').write('out')\n"
                              "os.symlink('/etc/passwd', 'link')")
            self.assertEqual(got.stdout, "abcabc", got)
            for name in ("d/o", "/workspace/d/o"):
                env.copy_out(name, Path(place, "back"))
                self.assertEqual(Path(place, "back").read_text(), "out")
            for wrong in ("link", "missing"):
                with self.assertRaises(OSError):
                    env.copy_out(wrong, Path(place, "no"))
            for wrong in ("/etc/passwd", "../x"):
                with self.assertRaises(ValueError):
                    env.copy_out(wrong, Path(place, "no"))
            self.assertFalse(Path(place, "no").exists())

    def test_m43_directory(self):
        """M43 ours: the same with a working directory"""
        with folder() as place, folder() as host:
            given = Path(host, "given")
            given.write_text("abc")
            env = m.make_execution_environment("local", working_directory=place)
            env.copy_in(given, "in.txt")
            got = env.execute("open('o', 'w').write(open('in.txt').read().upper())\n"
                              "import os; os.symlink('/etc/passwd', 'link')")
            self.assertEqual(got.exit_code, 0, got)
            env.copy_out(f"{place}/o", Path(host, "back"))
            self.assertEqual(Path(host, "back").read_text(), "ABC")
            with self.assertRaises(OSError):
                env.copy_out("link", Path(host, "no"))

    def test_m44(self):
        """M44 an unknown tier: ValueError that lists the five"""
        with self.assertRaises(ValueError) as caught:
            m.make_execution_environment("cloud")
        for tier in m.COMPATIBILITY_MATRIX:
            self.assertIn(tier, str(caught.exception))


class Enforced(Case):
    """Every field of a policy, on local."""

    def test_network(self):
        """network_access=False: no socket reaches anything; True: there is a network"""
        code = ("import socket\ns = socket.socket()\ns.settimeout(5)\n"
                "try: s.connect(('192.0.2.1', 9))\nexcept OSError as e: print(e.errno)")
        self.assertIn(execute("local", code).stdout, ("101", "1", "13"))
        got = execute("local", "import os; print(sorted(os.listdir('/sys/class/net')) "
                      "if os.path.exists('/sys/class/net') else open('/proc/net/dev').read())")
        self.assertNotIn("eth", got.stdout)

    def test_subprocess(self):
        """subprocess_execution=False: no process can be started"""
        code = "import subprocess; print(subprocess.run(['true']).returncode)"
        self.assertEqual(execute("local", code, policy=policy()).stdout, "0")
        got = execute("local", code, policy=policy(subprocess_execution=False))
        self.assertEqual((got.exit_code, "PermissionError" in got.stderr or
                          "BlockingIOError" in got.stderr), (1, True), got)

    def test_roots(self):
        """roots: what is listed can be read or written, and nothing else"""
        with folder() as readable, folder() as writable, folder() as other:
            for place in (readable, writable, other):
                Path(place, "f").write_text(place)
            code = (f"import os\nfor p in {[readable, writable, other]!r}:\n"
                    "  for mode in 'ra':\n"
                    "    try: open(p + '/f', mode).close(); print('yes', end=' ')\n"
                    "    except OSError: print('no', end=' ')")
            given = policy(filesystem_read_roots=[Path(readable)],
                           filesystem_write_roots=[Path(writable)])
            self.assertEqual(execute("local", code, policy=given).stdout, "yes no yes yes no no")
            self.assertEqual(execute("local", code).stdout, "no no no no no no")

    def test_write_roots_and_directory(self):
        """filesystem_write_roots=[] makes the working directory read-only"""
        code = "try: open('f', 'w'); print('written')\nexcept OSError: print('refused')"
        with folder() as place:
            got = execute("local", code, working_directory=place,
                          policy=policy(filesystem_write_roots=[]))
            self.assertEqual(got.stdout, "refused")
            got = execute("local", code, working_directory=place, policy=policy())
            self.assertEqual(got.stdout, "written")

    def test_flags(self):
        """every field says that it is enforced; a subclass may say otherwise"""
        self.assertEqual(m.CapabilityPolicy().unenforced_capabilities(), [])
        self.assertEqual(len(m.CapabilityPolicy().enforced_capabilities()), 11)

        class Weaker(m.CapabilityPolicy):
            ENFORCED_network_access = False
        self.assertEqual(Weaker().unenforced_capabilities(), ["network_access"])

    def test_defaults(self):
        """the two canonical policies and the matrix"""
        self.assertEqual((m.LOCAL_POLICY.timeout, m.LOCAL_POLICY.package_installation,
                          m.LOCAL_POLICY.subprocess_execution), (30, False, True))
        self.assertEqual((m.DOCKER_POLICY.timeout, m.DOCKER_POLICY.package_installation),
                         (60, True))
        self.assertEqual(set(m.COMPATIBILITY_MATRIX),
                         {"static", "local_unsafe", "local", "docker_unsafe", "docker"})
        self.assertTrue(m.COMPATIBILITY_MATRIX["local"]["copy_in"])

    def test_limit(self):
        """a limit that is hit is told to the model on stderr"""
        got = execute("local", "x = [b'a' * (1 << 20) for i in range(2000)]")
        self.assertEqual((got.success, got.skipped, got.exit_code), (False, False, -9), got)
        self.assertIn("out_of_memory", got.stderr)

    def test_refused(self):
        """a policy that cannot be had is a skipped result with the reason"""
        got = execute("local", "print(1)", policy=policy(filesystem_read_roots=[Path("/no/such")]))
        self.skipped(got)
        self.assertIn("/no/such", got.skip_message)


class Artifacts(Case):
    MAKE = ("import os\nos.makedirs('sub')\nopen('b.csv', 'w').write('1,2')\n"
            "open('a.png', 'wb').write(b'x')\nopen('sub/c.json', 'w').write('{}')\n"
            "open('d.unknown-kind', 'w')")

    def shapes(self, result, base):
        return [(str(a.path.relative_to(base)), a.size_bytes, a.content_type)
                for a in result.artifacts]

    def test_m45(self):
        """M45 every regular file, recursive, sorted, with size and type"""
        for tier in EXECUTING:
            with folder() as place:
                got = m.python_tool(tier=tier, artifact_dir=Path(place)).run(code=self.MAKE)
                self.assertEqual(self.shapes(got, place), [
                    ("a.png", 1, "image/png"), ("b.csv", 3, "text/csv"),
                    ("d.unknown-kind", 0, None), ("sub/c.json", 2, "application/json")], got)

    def test_m46(self):
        """M46 a failure or a timeout: no artifacts, even if files exist"""
        for tier in EXECUTING:
            with folder() as place:
                tool = m.python_tool(tier=tier, artifact_dir=Path(place), policy=policy(timeout=2)
                                     if tier == "local" else None)
                got = tool.run(code="open('a', 'w'); raise SystemExit(1)")
                self.assertEqual((got.exit_code, got.artifacts), (1, []))
        got = m.python_tool(tier="local", policy=policy(timeout=2)).run(
            code="open('a', 'w').close()\nwhile True: pass")
        self.assertEqual((got.timed_out, got.artifacts), (True, []))

    def test_m47(self):
        """M47 files that were there before; ours: not reported unless they changed"""
        for tier in EXECUTING:
            with folder() as place:
                Path(place, "old").write_text("old")
                Path(place, "touched").write_text("old")
                tool = m.python_tool(tier=tier, artifact_dir=Path(place))
                got = tool.run(code="open('touched', 'a').write('new'); open('new', 'w')")
                self.assertEqual([n for n, _, _ in self.shapes(got, place)], ["new", "touched"], got)
                self.assertEqual(tool.run(code="print(open('old').read())").artifacts, [])

    LINKS = ("import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/no', 'dangling')\n"
             "os.symlink('/etc', 'dir')\nos.mkfifo('fifo')\nopen('f', 'w').write('1')\n"
             "os.link('f', 'hard')\nopen('g', 'w')")

    def test_m48(self):
        """M48 links; ours: no symlink, no second name, no FIFO is an artifact"""
        for tier in EXECUTING:
            with folder() as place:
                got = m.python_tool(tier=tier, artifact_dir=Path(place)).run(code=self.LINKS)
                self.assertEqual(self.shapes(got, place), [("g", 0, None)], got)
            got = m.python_tool(tier=tier).run(code=self.LINKS)
            self.assertEqual([a.path.name for a in got.artifacts], ["g"], got)

    def test_m49(self):
        """M49 the same name in two folders: two artifacts"""
        got = m.python_tool(tier="local").run(
            code="import os\nfor d in 'xy': os.mkdir(d); open(d + '/n', 'w')")
        self.assertEqual([str(a.path)[-3:] for a in got.artifacts], ["x/n", "y/n"])

    def test_m50(self):
        """M50 count, size and depth; ours: 64 files, 32 MiB, 8 levels"""
        many = "for i in range(70): open(f'{i:02}', 'w')"
        deep = ("import os\np = '.'\nfor i in range(10):\n open(p + '/f', 'w'); p += '/d'; "
                "os.mkdir(p)")
        big = "open('a', 'wb').truncate(33 << 20); open('b', 'w')"
        for code, count in ((many, 64), (deep, 8), (big, 1)):
            for tier in EXECUTING:
                got = m.python_tool(tier=tier).run(code=code)
                self.assertEqual(len(got.artifacts), count, (tier, code, got))

    def test_m51(self):
        """M51 without artifact_dir: a folder of 0700 that lives as long as the result"""
        for tier in EXECUTING:
            got = m.python_tool(tier=tier).run(code="open('a', 'w')")
            place = got.artifacts[0].path.parent
            self.assertEqual(place.stat().st_mode & 0o777, 0o700)
            got = None
            gc.collect()
            self.assertFalse(place.exists())
        before = set(os.listdir(tempfile.gettempdir()))
        m.python_tool(tier="local").run(code="print(1)")
        gc.collect()
        left = set(os.listdir(tempfile.gettempdir())) - before
        self.assertEqual({n for n in left if n.startswith("nsbox-")}, set())

    def test_m52(self):
        """M52 artifact_dir is made, with its parents"""
        for tier in EXECUTING:
            with folder() as place:
                target = Path(place, "a", "b")
                got = m.python_tool(tier=tier, artifact_dir=target).run(code="open('f', 'w')")
                self.assertEqual(self.shapes(got, target), [("f", 0, None)])

    def exported(self, code, *paths):
        return m.python_tool(tier="local", policy=policy(
            artifact_export_paths=[Path(p) for p in paths])).run(code=code)

    def test_m53(self):
        """M53 artifact_export_paths; ours: on local too, only those, into a folder of 0700"""
        got = self.exported("open('a', 'w'); open('b', 'w')", "a")
        self.assertEqual([a.path.name for a in got.artifacts], ["a"])
        self.assertEqual(got.artifacts[0].path.parent.stat().st_mode & 0o777, 0o700)
        with self.assertRaisesRegex(ValueError, "outside"):
            self.exported("print(1)", "/etc/passwd").run

    def test_m54(self):
        """M54 a folder as export path: all of it; ours: each file with its size"""
        got = self.exported("import os; os.mkdir('d'); open('d/x', 'w').write('1'); open('y', 'w')",
                            "/workspace/d")
        self.assertEqual([(a.path.name, a.size_bytes) for a in got.artifacts], [("x", 1)])

    def test_m55(self):
        """M55 content types of exported files; ours: as for all others"""
        got = self.exported("open('a.csv', 'w')", "a.csv")
        self.assertEqual(got.artifacts[0].content_type, "text/csv")

    def test_m56(self):
        """M56 a failed run exports nothing"""
        got = self.exported("open('a', 'w'); raise SystemExit(1)", "a")
        self.assertEqual((got.exit_code, got.artifacts), (1, []))

    def test_m57(self):
        """M57 export_dir '' or '.' is none"""
        for given in (Path(""), Path("."), "", None):
            env = m.make_execution_environment("docker", export_dir=given)
            self.assertIsNone(env._export_dir)

    def test_m58(self):
        """M58 an export path that does not exist: no error, no artifact"""
        got = self.exported("print(1)", "missing")
        self.assertEqual((got.success, got.artifacts), (True, []))

    def test_m59(self):
        """M59 a stale file at an export path; ours: not exported again"""
        tool = m.python_tool(tier="local", policy=policy(artifact_export_paths=[Path("a")]))
        self.assertEqual(len(tool.run(code="open('a', 'w')").artifacts), 1)
        self.assertEqual(tool.run(code="print(1)").artifacts, [])

    def test_m60(self):
        """M60 warnings: artifact_dir without export paths; export paths outside of a with block"""
        with warned() as caught, folder() as place:
            m.python_tool(tier="docker", artifact_dir=Path(place))
            execute("docker", "print(1)", policy=policy(artifact_export_paths=[Path("a")]))
        self.assertEqual([w.category for w in caught], [RuntimeWarning, RuntimeWarning])


def make_wheel(place, name, version="1.0", body="value = 7\n"):
    """A wheel of one module, so that installing needs no index."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(os.path.join(place, f"{name}-{version}-py3-none-any.whl"), "w") as out:
        out.writestr(f"{name}.py", body)
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\n"
                     f"Version: {version}\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\n"
                     "Root-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n"
                     f"{info}/RECORD,,\n")


class Packages(Case):
    @classmethod
    def setUpClass(cls):
        cls.wheels = folder()
        os.chmod(cls.wheels.name, 0o755)
        make_wheel(cls.wheels.name, "nsboxprobe")
        make_wheel(cls.wheels.name, "nsboxother")
        cls.cache = folder()
        cls.environ = mock.patch.dict(os.environ, PIP_NO_INDEX="1",
                                      PIP_FIND_LINKS=cls.wheels.name, XDG_CACHE_HOME=cls.cache.name)
        cls.environ.start()

    @classmethod
    def tearDownClass(cls):
        cls.environ.stop()
        cls.wheels.cleanup()
        cls.cache.cleanup()

    def test_m61(self):
        """M61 an empty or flag-style specifier: ValueError"""
        for wrong in ("", "   "):
            with self.assertRaisesRegex(ValueError, "non-empty"):
                m.python_tool(tier="local", packages=[wrong])
        for wrong in ("-r x", "  --index-url=http://x"):
            with self.assertRaisesRegex(ValueError, "flag-style"):
                m.python_tool(tier="local", packages=[wrong])

    def test_m62(self):
        """M62 newlines, shell, paths; ours: refused, never handed to an installer"""
        with self.assertRaises(ValueError):
            m.python_tool(tier="local", packages=["a\n-r x"])
        for wrong in ("a; rm -rf", ".", "/etc", "../x"):
            got = m.python_tool(tier="local", packages=[wrong]).run(code="print(1)")
            self.skipped(got)

    def test_m63(self):
        """M63 packages=[] is None"""
        got = m.python_tool(tier="local", packages=[]).run(code="print(1)")
        self.assertEqual((got.stdout, got.execution_mode), ("1", "local"))

    def test_m64(self):
        """M64 packages join the policy's, each once, in order, installing allowed"""
        from nsbox.mellea.policy import with_packages
        with warned() as caught:
            got = with_packages(policy(packages=["b", "a"], timeout=9), ["a", "c"])
        self.assertEqual((got.packages, got.package_installation, got.timeout),
                         (["b", "a", "c"], True, 9))
        self.assertEqual(caught, [])

    def test_m65(self):
        """M65 the caller's own interpreter; ours: never installed into"""
        tool = m.python_tool(tier="local", packages=["nsboxprobe"])
        self.assertEqual(tool.run(code="import nsboxprobe; print(nsboxprobe.value)").stdout, "7")
        ran = subprocess.run([sys.executable, "-c", "import nsboxprobe"], capture_output=True,
                             timeout=60)
        self.assertIn(b"ModuleNotFoundError", ran.stderr)

    def test_m66(self):
        """M66 pip or uv; ours: whichever the box finds, the result is the same"""
        tool = m.python_tool(tier="local", packages=["nsboxprobe==1.0", "nsboxother"])
        got = tool.run(code="import nsboxprobe, nsboxother; print(nsboxother.value)")
        self.assertEqual(got.stdout, "7", got)

    def test_m67(self):
        """M67 success marks all as installed; a failure marks all as failed, with the prefix"""
        done, failed = set(), set()
        env = m.make_execution_environment("local", policy=policy(
            packages=["nsboxprobe"], package_installation=True), _install_cache=done,
            _failed_cache=failed)
        self.assertTrue(env.execute("print(1)").success)
        self.assertEqual((done, failed), ({"nsboxprobe"}, set()))
        env = m.make_execution_environment("local", policy=policy(
            packages=["nsboxprobe", "nsboxmissing"], package_installation=True),
            _install_cache=done, _failed_cache=failed)
        got = env.execute("print(1)")
        self.skipped(got)
        self.assertTrue(got.skip_message.startswith("Package installation failed: "), got)
        self.assertIn("nsboxmissing", got.skip_message)
        self.assertEqual(failed, {"nsboxprobe", "nsboxmissing"})

    def test_m68(self):
        """M68 the next call after a failure; ours: the code does not run either"""
        tool = m.python_tool(tier="local", packages=["nsboxmissing2"])
        for _ in range(2):
            got = tool.run(code="print('ran')")
            self.skipped(got)
            self.assertTrue(got.skip_message.startswith("Package installation failed: "), got)

    def test_m69(self):
        """M69 caches of docker's one-shot runs; ours: no engine, so nothing is marked"""
        done, failed = set(), set()
        got = m.make_execution_environment("docker", policy=policy(packages=["nsboxprobe"]),
                                           _install_cache=done, _failed_cache=failed).execute("1")
        self.skipped(got)
        self.assertEqual((done, failed), (set(), set()))

    def test_m70(self):
        """M70 the message names what failed; ours: that alone, not all that was asked"""
        got = m.python_tool(tier="local", packages=["nsboxprobe", "nsboxmissing3"]).run(code="1")
        self.assertIn("nsboxmissing3", got.skip_message)
        self.assertNotIn("nsboxprobe", got.skip_message)

    def test_m71(self):
        """M71 two first runs at once; ours: both have the package"""
        make_wheel(self.wheels.name, "nsboxrace")
        tool = m.python_tool(tier="local", packages=["nsboxrace"])
        got = []
        threads = [threading.Thread(target=lambda: got.append(
            tool.run(code="import nsboxrace; print(nsboxrace.value)"))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        self.assertEqual([r.stdout for r in got], ["7", "7"], got)


class Construction(Case):
    def test_m72(self):
        """M72 no tier: one UserWarning with local_unsafe; a tier: none"""
        with warned() as caught:
            tool = m.python_tool()
        self.assertEqual([w.category for w in caught], [UserWarning])
        self.assertIn("tier", str(caught[0].message))
        self.assertIn("local_unsafe", str(caught[0].message))
        self.assertEqual(caught[0].filename, __file__)
        self.assertEqual(tool.run(code="print(1)").execution_mode, "local_unsafe")
        with warned() as caught:
            m.python_tool(tier="local_unsafe")
        self.assertEqual(caught, [])

    def test_m73(self):
        """M73 a policy that forbids, on local_unsafe: one UserWarning; ours on local: enforced"""
        given = m.CapabilityPolicy()
        with warned() as caught:
            tool = m.python_tool(tier="local_unsafe", policy=given)
        self.assertEqual([w.category for w in caught], [UserWarning])
        self.assertIn("network_access=False", str(caught[0].message))
        with warned() as caught:
            tool.run(code="print(1)")
            for tier in ("local", "docker", "docker_unsafe"):
                m.python_tool(tier=tier, policy=given)
            m.python_tool(tier="local_unsafe")
        self.assertEqual(caught, [])

    def test_m74(self):
        """M74 roots in a policy; ours: enforced, so no warning, also when packages join it"""
        with warned() as caught:
            given = policy(filesystem_read_roots=[Path("/etc")])
            m.python_tool(tier="local", policy=given, packages=["six"])
        self.assertEqual(caught, [])

    def test_m75(self):
        """M75 the name of the tool: python, or the one given"""
        self.assertEqual(m.python_tool(tier="local").name, "python")
        tool = m.python_tool(tier="local", name="snake")
        self.assertEqual(tool.name, "snake")
        schema = tool.as_json_tool["function"]
        self.assertEqual((schema["name"], schema["parameters"]["required"],
                          schema["parameters"]["properties"]["code"]["type"]),
                         ("snake", ["code"], "string"))


class Matplotlib(Case):
    def backend(self, code="", **how):
        return m.python_tool(tier="local", **how).run(
            code=code + "import os; print(os.environ.get('MPLBACKEND'))")

    def test_m76(self):
        """M76 matplotlib draws to files; ours: by MPLBACKEND, which suppress_agg takes away"""
        self.assertEqual(self.backend().stdout, "Agg")
        self.assertEqual(self.backend(suppress_agg=True).stdout, "")

    def test_m77(self):
        """M77 seaborn, pylab, dynamic imports; ours: the variable holds for all"""
        got = m.python_tool(tier="local").run(
            code="exec(\"import os; print(os.environ['MPLBACKEND'])\")")
        self.assertEqual(got.stdout, "Agg")

    def test_m78(self):
        """M78 __future__, line numbers, docstrings; ours: the source is not touched"""
        got = self.backend("'doc'\nfrom __future__ import annotations\n"
                           "if 0: import matplotlib\nprint(__doc__)\n")
        self.assertEqual(got.stdout, "doc\nAgg")
        got = m.python_tool(tier="local").run(code="if 0: import matplotlib\n1/0")
        self.assertIn("line 2", got.stderr)


class Docker(Case):
    def test_m79(self):
        """M79 docker without a network mode or limits; ours: refused until it enforces"""
        for tier in ("docker", "docker_unsafe"):
            got = execute(tier, "print(1)")
            self.skipped(got)
            self.assertIn("not built yet", got.skip_message)
            self.assertIn("local", got.skip_message)

    def test_m80(self):
        """M80 docker timeouts; ours: nothing ran, so nothing timed out"""
        self.assertFalse(execute("docker", "while True: pass", timeout=1).timed_out)

    def test_m81(self):
        """M81 the engine is missing: a skipped result; entering raises ImportError"""
        self.skipped(execute("docker", "print(1)"))
        with self.assertRaisesRegex(ImportError, "tier='local'"):
            m.make_execution_environment("docker").__enter__()

    def test_m82(self):
        """M82 docker copy_in and copy_out outside of a with block: RuntimeError"""
        env = m.make_execution_environment("docker")
        with self.assertRaises(RuntimeError):
            env.copy_in(Path("/etc/passwd"), "/x")
        with self.assertRaises(RuntimeError):
            env.copy_out("/x", Path("/tmp/x"))

    def test_m83(self):
        """M83 docker with export paths opens at construction: its error comes there"""
        with self.assertRaises(ImportError):
            m.python_tool(tier="docker", policy=policy(artifact_export_paths=[Path("a")]))

    def test_deprecated(self):
        """the two old functions warn and name python_tool"""
        with warned() as caught:
            self.skipped(m.code_interpreter("print(1)"))
            self.assertEqual(m.local_code_interpreter("print(1)").stdout, "1")
        self.assertEqual([w.category for w in caught], [DeprecationWarning] * 2)
        self.assertTrue(all("python_tool" in str(w.message) for w in caught))

    def test_reason(self):
        """to_validationresult_reason: skip message, else stdout or stderr"""
        self.assertEqual(execute("local", "print(5)").to_validationresult_reason(), "5")
        got = execute("local", "raise SystemExit('why')")
        self.assertEqual(got.to_validationresult_reason(), "why")
        got = execute("docker", "print(1)")
        self.assertEqual(got.to_validationresult_reason(), got.skip_message)


if __name__ == "__main__":
    tap_unittest.main()
