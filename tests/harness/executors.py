"""Executors of nsbox.smolagents for the suites of its cases: one for all tests that ask for the same."""

import dataclasses
import enum
import os
import sys
import typing
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
# A suite may have the name of a package of upstream's.
_SUITES = os.path.join(tap_unittest.REPO, "tests", "python")
sys.path[:] = [p for p in sys.path if os.path.abspath(p or ".") != _SUITES]
from nsbox import smolagents as s  # noqa: E402

MINUTE = 60
_held = {}


class Point(typing.NamedTuple):
    x: int
    y: int


class Color(enum.IntEnum):
    RED = 1


@dataclasses.dataclass
class Card:
    name: str
    tags: list


def _keep(name, executor):
    _held[name] = executor
    executor.send_tools({"final_answer": lambda answer: answer})
    return executor


def local():
    """An executor of the local shape."""
    return _held.get("local") or _keep("local", s.NsboxPythonExecutor(timeout_seconds=MINUTE))


def trusting():
    """One that may import everything."""
    return _held.get("trusting") or _keep("trusting", s.NsboxPythonExecutor(
        ["*"], timeout_seconds=MINUTE))


def remote():
    """One of the remote shape, which knows the three classes above."""
    return _held.get("remote") or _keep("remote", s.NsboxExecutor(
        timeout_seconds=MINUTE, types=[Point, Color, Card]))


def clean_up():
    for executor in _held.values():
        executor.cleanup()


def out(code, executor=None):
    return (executor or local())(code).output


def logs(code, executor=None):
    return (executor or local())(code).logs


class Case(unittest.TestCase):
    def fails(self, code, pattern, executor=None, error=s.InterpreterError):
        with self.assertRaisesRegex(error, pattern) as caught:
            (executor or local())(code)
        return str(caught.exception)

    def still_lives(self, executor):
        self.assertEqual(out("40 + 2", executor), 42)
