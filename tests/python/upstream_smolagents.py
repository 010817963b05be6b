#!/usr/bin/env python3
# as: root
# needs: an index
"""The same with the real smolagents: installed into a throw-away venv, skipped where no package
index is reached. Its bases and errors are used then, and its agents run on the executors."""

import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import prepared  # noqa: E402
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
HERE = os.path.dirname(os.path.abspath(__file__))
WANTED = ["smolagents==1.26.0", "numpy", "pillow"]


def install(place):
    """The interpreter of a new venv with smolagents in it; else None and why not."""
    python = os.path.join(place, "bin", "python")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    for argv in ([sys.executable, "-m", "venv", place],
                 [python, "-m", "pip", "install", "-q", "--disable-pip-version-check",
                  "--retries", "1", *WANTED]):
        try:
            ran = subprocess.run(argv, capture_output=True, text=True, timeout=240, env=env)
        except subprocess.TimeoutExpired:
            return None, f"{' '.join(argv[-3:])} took more than 240 s"
        if ran.returncode:
            lines = (ran.stderr or ran.stdout).strip().splitlines()
            return None, lines[-1] if lines else f"status {ran.returncode}"
    return python, None


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
            self.skipTest(f"smolagents cannot be installed: {self.why}")

    def run_it(self, *argv):
        env = {k: v for k, v in os.environ.items() if k != "NSBOX_TEST_ONLY"}
        return subprocess.run([self.python, *argv], capture_output=True, text=True, timeout=400,
                              env=env)

    def cases(self, suite, count):
        ran = self.run_it(os.path.join(HERE, suite))
        bad = [line for line in ran.stdout.splitlines()
               if line.startswith("not ok") or "# SKIP" in line]
        self.assertEqual((bad, ran.returncode), ([], 0), ran.stdout[-4000:] + ran.stderr[-2000:])
        self.assertRegex(ran.stdout, re.compile(r"^# seed S: %d cases, %d passed" % (count, count), re.M))

    def test_local(self):
        """the cases S1 to S46 hold with the real classes"""
        self.cases("test_smolagents.py", 46)

    def test_remote(self):
        """the cases S47 to S62 hold with the real classes, and two agents run to their answers"""
        self.cases("test_smolagents_remote.py", 16)

    def test_packages(self):
        """additional_imports are installed for the box; what cannot be is an error at once"""
        ran = self.run_it("-c", "from nsbox.smolagents import NsboxExecutor\n"
                          "import importlib.util\n"
                          "with NsboxExecutor(['humanize==4.9.0']) as executor:\n"
                          "    executor.send_variables({'n': 10 ** 6})\n"
                          "    print(executor('import humanize\\nhumanize.intcomma(n)').output)\n"
                          "print(importlib.util.find_spec('humanize'))\n"
                          "try:\n    NsboxExecutor(['no-such-package-of-nsbox'])\n"
                          "except Exception as e:\n    print(e)")
        lines = ran.stdout.splitlines()
        self.assertEqual(lines[:2], ["1,000,000", "None"], ran.stderr)
        self.assertIn("Package installation failed: no-such-package-of-nsbox", lines[2])

    def test_example(self):
        """the example runs smolagents' own loop to the answer"""
        ran = self.run_it(os.path.join(tap_unittest.REPO, "examples", "smolagents_agent.py"))
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn("CodeAgent of smolagents\n", ran.stdout)
        self.assertIn("the answer: 385\n", ran.stdout)


if __name__ == "__main__":
    prepared.if_asked(__file__, install)
    tap_unittest.main()
