"""M1 to M44: the static tier, import rules, execution; and every field of a policy."""

import ast
import contextlib
import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from nsbox import mellea as m
from nsbox.mellea import text
from cases.mellea_case import EXECUTING, Case, execute, folder, policy


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
