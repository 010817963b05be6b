"""What the cases of mellea share: how to execute, folders of this suite alone, one assertion."""

import contextlib
import os
import tempfile
import unittest
import warnings

from nsbox import mellea as m

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
