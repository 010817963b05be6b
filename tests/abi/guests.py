# as: user
"""tests/vm/run adds up what guests report, and takes no silence for success."""

import importlib.machinery
import importlib.util
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "harness"))
from box import REPO, SCRATCH  # noqa: E402
from tap import run_tests  # noqa: E402

RUNNER = os.path.join(REPO, "tests/vm/run")
REPORT = "ok 1 - a\nnot ok 2 - b\n# why\n1..2\n=== tally\nN 1 1 2\nF tests/x.py (root): b\n" \
         "S tests/x.py (user): c # SKIP d\nN 4 0 0\n=== end\n"


def load_runner():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("vm_run", RUNNER)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("vm_run", loader))
    sys.modules["vm_run"] = module      # a dataclass looks itself up there
    loader.exec_module(module)
    return module


class DeadMachine:
    """As a Machine that has ended, with what its guest wrote."""
    seconds = 60

    def __init__(self, text, late=False):
        self.results = os.path.join(SCRATCH, "results")
        self._late = late
        with open(self.results, "w", encoding="utf-8") as f:
            f.write(text)

    def late(self):
        return self._late

    def close(self):
        return 12.0

    def last_lines(self):
        return ["one", "Kernel panic"]


def report(text, late=False):
    runner = load_runner()
    result = runner.Result("g")
    runner.read_results(result, DeadMachine(text, late))
    return result


def counts(result):
    return result.passed, result.failed, result.skipped


def a_whole_report_is_added_up(tap):
    result = report(REPORT)
    tap.equal(counts(result), (5, 1, 2), "the counts of all suites are added")
    tap.equal(result.lines, ["F g: tests/x.py (root): b", "S g: tests/x.py (user): c # SKIP d"],
              "what failed or was skipped carries the guest's name")


def silence_is_a_failure(tap):
    for text, what in (("", "a guest that wrote nothing"), (REPORT[:-9], "one that was cut short"),
                       ("ok 1 - a\n1..1\n1 passed, 0 failed\n", "one that only looks good"),
                       ("x\n=== tally\n=== end\n", "one that ran no test"),
                       ("x\n=== tally\nN 0 0 3\n=== end\n", "one that skipped everything")):
        result = report(text)
        tap.equal(result.failed, 1, f"{what} is a failure", result.lines)
    tap.ok("Kernel panic" in report("").lines[0], "and its last words are told", report("").lines)
    tap.ok("still running after 60 s" in report("", late=True).lines[0], "of a hung one it says that it hung")


def a_missing_guest_is_a_loud_skip(tap):
    runner = load_runner()
    for must_run, want in ((False, (0, 0, 1)), (True, (0, 1, 0))):
        runner.MUST_RUN = must_run
        result = runner.Result("g")
        result.skip("a kernel")
        tap.equal(counts(result), want, f"NSBOX_MUST_RUN={int(must_run)}: a skip counts as it should")
        tap.ok("a kernel" in result.lines[0], "and names what is missing", result.lines)


def run_without(path, tally):
    return subprocess.run([sys.executable, RUNNER, "--tally", tally, "debian61"], capture_output=True,
                          text=True, env={"PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}, check=False)


def no_qemu_is_a_skip_of_every_guest(tap):
    tally = os.path.join(SCRATCH, "tally")
    empty = os.path.join(SCRATCH, "empty")
    os.makedirs(empty, exist_ok=True)
    ran = run_without(empty, tally)
    with open(tally, encoding="utf-8") as f:
        text = f.read()
    tap.equal(ran.returncode, 0, "without QEMU the guests are skipped", ran.stderr)
    tap.ok(text.startswith("S debian61: the whole guest # SKIP qemu-system-x86_64"), "the skip names QEMU", text)
    tap.ok(text.endswith("\nN 0 0 1\n"), "and is counted", text)


if __name__ == "__main__":
    run_tests([a_whole_report_is_added_up, silence_is_a_failure, a_missing_guest_is_a_loud_skip,
               no_qemu_is_a_skip_of_every_guest])
