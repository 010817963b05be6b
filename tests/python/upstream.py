#!/usr/bin/env python3
# as: root
# needs: an index
"""The same with the real mellea: installed into a throw-away venv, skipped where no package index
is reached. Its classes are used then, and its agent loop takes the tool."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import prepared  # noqa: E402
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
HERE = os.path.dirname(os.path.abspath(__file__))
# What the parts under test import; all that mellea asks for is ten times as much.
MELLEA = ["mellea==0.8.0"]
NEEDS = ["pydantic", "jinja2", "pyyaml", "requests", "packaging", "pillow", "numpy", "tqdm",
         "typing-extensions"]


def install(place):
    """The interpreter of a new venv with mellea in it; else None and why not."""
    pip = [os.path.join(place, "bin", "python"), "-m", "pip", "install", "-q",
           "--disable-pip-version-check", "--retries", "1"]
    for argv in ([sys.executable, "-m", "venv", place], [*pip, *NEEDS],
                 [*pip, "--no-deps", *MELLEA]):
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        try:
            ran = subprocess.run(argv, capture_output=True, text=True, timeout=240, env=env)
        except subprocess.TimeoutExpired:
            return None, f"{' '.join(argv[-3:])} took more than 240 s"
        if ran.returncode:
            lines = (ran.stderr or ran.stdout).strip().splitlines()
            return None, lines[-1] if lines else f"status {ran.returncode}"
    return os.path.join(place, "bin", "python"), None

REQUIREMENTS = '''
import sys, warnings
from mellea.core import ModelOutputThunk
from mellea.stdlib.context import ChatContext
from nsbox.mellea.requirements import PythonExecutionReq as Req
from nsbox.mellea.requirements import python_code_generation_requirements as bundle
warnings.simplefilter("ignore")
SECRET = f"import os\\nprint(os.path.exists({sys.argv[1]!r}), os.getuid())"

def check(req, code):
    text = f"Here:\\n```python\\n{code}\\n```\\nDone."
    got = req.validation_fn(ChatContext().add(ModelOutputThunk(text)))
    return got.as_bool(), got.reason

def refused(make):
    try:
        make()
    except ValueError as e:
        return str(e)

print('told', check(Req("local"), SECRET))
print('told', check(Req("local_unsafe"), SECRET)[1].split()[0])
print('told', check(Req(), "def f(:"), check(Req(max_output_chars=1), "print(111)")[0])
print('told', check(Req(allow_unsafe_execution=True, timeout=1), "while True: pass"))
print('told', check(Req(use_sandbox=True), "print(1)")[0], check(Req("local", allowed_imports=["math"]), "import os"))
print('told', check(Req("local", max_output_chars=3), "print(1234)")[0], refused(lambda: Req("local", max_output_chars=0)))
print('told', [type(r) is Req for r in bundle()].count(True), refused(lambda: bundle(timeout_seconds=0)),
      refused(lambda: bundle(output_limit_chars=0)))
'''


class Upstream(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = prepared.get(__file__, install)
        cls.python, cls.why = cls.place.python, cls.place.why

    @classmethod
    def tearDownClass(cls):
        cls.place.cleanup()

    def setUp(self):
        if self.python is None:
            self.skipTest(f"mellea cannot be installed: {self.why}")

    def run_it(self, *argv):
        env = {k: v for k, v in os.environ.items() if k != "NSBOX_TEST_ONLY"}
        return subprocess.run([self.python, *argv], capture_output=True, text=True, timeout=300,
                              env=env)

    def test_classes(self):
        """with mellea installed, results, artifacts and tools are of its classes"""
        ran = self.run_it("-c", "from nsbox import mellea as m\n"
                          "from mellea.stdlib.tools.interpreter import ExecutionResult\n"
                          "from mellea.stdlib.tools.execution_policy import CapabilityPolicy\n"
                          "from mellea.core.base import AbstractMelleaTool\n"
                          "tool = m.python_tool(tier='local', policy=CapabilityPolicy(timeout=9))\n"
                          "result = tool.run(code='open(\"a\", \"w\")')\n"
                          "print(type(result) is ExecutionResult, len(result.artifacts),\n"
                          "      isinstance(tool, AbstractMelleaTool),\n"
                          "      issubclass(m.CapabilityPolicy, CapabilityPolicy))")
        self.assertEqual(ran.stdout, "True 1 True True\n", ran.stderr)

    def test_requirements(self):
        """mellea's requirements run code in a box: extraction, deprecated flags, limits (M84 to M87)"""
        with tempfile.NamedTemporaryFile(dir=os.environ.get("NSBOX_SCRATCH")) as secret:
            ran = self.run_it("-c", REQUIREMENTS, secret.name)
        told = [line[5:] for line in ran.stdout.splitlines() if line.startswith("told ")]
        self.assertEqual(told, [
            "(True, 'False 1000')", "True", "(False, 'Parse failed.') True",
            "(False, 'Execution timed out.')",
            "False (False, 'Unauthorized imports detected: os')",
            "False max_output_chars must be positive, got 0",
            "1 timeout_seconds must be positive, got 0 output_limit_chars must be positive, got 0"],
            ran.stdout + ran.stderr)

    def test_cases(self):
        """all cases hold with the real classes as well"""
        ran = self.run_it(os.path.join(HERE, "mellea.py"))
        bad = [line for line in ran.stdout.splitlines() if line.startswith("not ok")]
        self.assertEqual((bad, ran.returncode), ([], 0), ran.stdout[-4000:] + ran.stderr[-2000:])
        self.assertRegex(ran.stdout, re.compile(r"^# seed M: 83 cases, 83 passed", re.M))

    def test_agent(self):
        """mellea's ReACT loop with a scripted model calls the tool and has its answer"""
        ran = self.run_it(os.path.join(tap_unittest.REPO, "examples", "mellea_tool.py"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("What is the sum of the first ten squares? 385\n", ran.stdout)


if __name__ == "__main__":
    prepared.if_asked(__file__, install)
    tap_unittest.main()
