"""unittest as TAP: one line a test, named by the first line of its docstring.

A name that starts with the number of a case of a seed (M12, S3) is counted for that seed, and
`# seed M: 83 cases, 83 passed, 0 failed, 0 skipped` ends the suite.
"""

import os
import re
import sys
import unittest

from tap import Tap

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CASE = re.compile(r"^([A-Z])(\d+)(?:-[A-Z]?(\d+))?\b")


class _Result(unittest.TestResult):
    def __init__(self, tap):
        super().__init__()
        self.tap = tap
        self.cases = {}

    def _end(self, test, word, detail=""):
        name = test.shortDescription() or test.id()
        found = CASE.match(name)
        if found:
            first = int(found[2])
            for number in range(first, int(found[3] or first) + 1):
                # A case with several tests is as good as its worst.
                old = self.cases.setdefault(found[1], {}).get(number, "passed")
                order = ("passed", "skipped", "failed")
                self.cases[found[1]][number] = max(old, word, key=order.index)
        if word == "skipped":
            self.tap.skip(name, detail)
        else:
            self.tap.ok(word == "passed", name, detail)

    def addSuccess(self, test):
        self._end(test, "passed")

    def addError(self, test, err):
        self._end(test, "failed", self._exc_info_to_string(err, test))

    addFailure = addError

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._failed_part = True
            self._end(subtest, "failed", self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        self._end(test, "skipped", reason)


def main(*modules):
    """Run every test of @modules (none: the calling one), or those whose name has
    NSBOX_TEST_ONLY."""
    only = os.environ.get("NSBOX_TEST_ONLY", "")
    load = unittest.defaultTestLoader.loadTestsFromModule
    tests = unittest.TestSuite(t for module in modules or [sys.modules["__main__"]]
                               for group in load(module) for t in group if only in t.id())
    tap = Tap()
    result = _Result(tap)
    tests.run(result)
    for seed, cases in sorted(result.cases.items()):
        counts = [list(cases.values()).count(w) for w in ("passed", "failed", "skipped")]
        tap.note(f"seed {seed}: {len(cases)} cases, {counts[0]} passed, {counts[1]} failed, "
                 f"{counts[2]} skipped")
    tap.done()


def use_this_checkout():
    """The package of this checkout and the command under test, also for child processes."""
    package = os.path.join(REPO, "tools", "python")
    sys.path.insert(0, package)
    os.environ["PYTHONPATH"] = package
    os.environ.setdefault("NSBOX_BIN", os.environ.get("NSBOX")
                          or os.path.join(REPO, "build", "bin", "nsbox"))
