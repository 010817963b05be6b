"""TAP for the suites: one `ok` or `not ok` line a check, a plan at the end.

A suite that dies prints no plan, and the runner counts that as a failure.
Skips name the missing feature; NSBOX_MUST_RUN=1 turns them into failures.
"""

import os
import sys

# A guest of tests/vm without a real processor does everything, only later.
EMULATED = os.environ.get("NSBOX_TEST_ACCEL") == "tcg"
SLOWNESS = 5 if EMULATED else 1
MUST_RUN = os.environ.get("NSBOX_MUST_RUN") == "1"


class Tap:
    def __init__(self):
        self.count = 0
        self.failed = 0

    def _line(self, good, name, directive=""):
        self.count += 1
        self.failed += not good
        name = name.replace("#", "no. ").replace("\n", " ")
        print(f"{'ok' if good else 'not ok'} {self.count} - {name}{directive}", flush=True)

    def ok(self, good, name, detail=""):
        self._line(bool(good), name)
        if not good and detail:
            self.note(detail)
        return bool(good)

    def equal(self, got, want, name, detail=""):
        """Exactly equal; what came instead goes to the log."""
        return self.ok(got == want, name, f"want: {want!r}\n got: {got!r}\n{detail}")

    def among(self, got, choices, name, detail=""):
        return self.ok(got in choices, name, f"want one of: {choices!r}\n got: {got!r}\n{detail}")

    def within(self, got, low, high, name, detail=""):
        return self.ok(low <= got <= high, name,
                       f"want: {low} to {high}\n got: {got}\n{detail}")

    def takes(self, got, low, high, name, detail=""):
        """Seconds; @high is what a real processor needs at most."""
        if SLOWNESS != 1:
            high, name = high * SLOWNESS, f"{name} (emulated: {high * SLOWNESS:g} s)"
        return self.within(got, low, high, name, detail)

    def skip(self, name, feature):
        if MUST_RUN:
            self._line(False, name)
            self.note(f"cannot be skipped (NSBOX_MUST_RUN=1), but lacks: {feature}")
        else:
            self._line(True, name, f" # SKIP {feature}")

    def note(self, text):
        for line in str(text).rstrip("\n").split("\n"):
            print("# " + line[:2000], flush=True)

    def done(self):
        print(f"1..{self.count}", flush=True)
        sys.exit(1 if self.failed else 0)


def needs(probe, feature):
    """Decorator: a test that is skipped, loudly, where @probe() says no."""
    def mark(test):
        test.lacks = lambda: None if probe() else feature
        return test
    return mark


def run_tests(tests):
    """Run functions taking a Tap. One that raises is a failure, not the end."""
    import traceback
    tap = Tap()
    only = os.environ.get("NSBOX_TEST_ONLY", "")
    for test in tests:
        if only and only not in test.__name__:
            continue
        feature = getattr(test, "lacks", lambda: None)()
        if feature:
            tap.skip(test.__name__, feature)
            continue
        try:
            test(tap)
        except Exception as e:
            tap.ok(False, f"{test.__name__} runs to its end", traceback.format_exc())
            del e
    tap.done()
