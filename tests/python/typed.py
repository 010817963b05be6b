#!/usr/bin/env python3
# as: user
"""Values across a kernel's boundary: what comes back equals what went, and no name from a box is
looked up."""

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import json
import math
import os
import pathlib
import random
import struct
import sys
import unittest
import uuid
import zlib
from collections import OrderedDict, deque, namedtuple
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
from nsbox import _frames, errors  # noqa: E402
from nsbox._typed import Remote, RemoteError, decode, encode  # noqa: E402

Point = namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = "r"


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Box:
    name: str
    inner: object = None


def across(value, types=()):
    """Through real JSON, as a frame would carry it."""
    frame = _frames.encode({"v": encode(value)})
    return decode(_frames.decode(frame[4:])["v"], types)


def same(a, b):
    """Equal in value and in type, all the way down; nan equals nan."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return a == b and math.copysign(1, a) == math.copysign(1, b) or a != a and b != b
    if isinstance(a, (list, tuple, deque)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return len(a) == len(b) and all(same(x, y) and same(a[x], b[y])
                                        for x, y in zip(a, b))
    return a == b


LEAVES = [
    None, True, False, 0, -1, 2**53, 2**53 + 1, -2**63, 10**300, 1.5, -0.0, 1e308, math.inf,
    -math.inf, math.nan, "", "text", "\u00e9\U0001f600", "\x00", "\ud800", "$t", b"", b"\x00\xff",
    bytearray(b"ab"), 1 + 2j, complex(math.inf, -0.0), range(3), range(10, 0, -2), range(2**60),
    datetime.datetime(2024, 2, 29, 1, 2, 3, 4), datetime.date(1, 1, 1), datetime.time(23, 59),
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), datetime.timedelta(-1, 5, 7),
    decimal.Decimal("1.10"), decimal.Decimal("-Infinity"), pathlib.Path("/a b/c"), uuid.UUID(int=5),
]


def random_value(pick, depth):
    if depth == 0 or pick.random() < 0.3:
        return pick.choice(LEAVES)
    size = pick.randrange(4)
    inner = [random_value(pick, depth - 1) for _ in range(size)]
    keys = pick.sample(["a", "$t", "v", "", "\ud801", "k k"], size)
    mixed = pick.sample([1, None, (1, 2), "x", 2.5, b"b", frozenset([1])], size)
    return pick.choice([
        inner, tuple(inner), dict(zip(keys, inner)), dict(zip(mixed, inner)), deque(inner, 9),
        OrderedDict(zip(keys, inner)), {1, "a", (2, 3)}, frozenset("ab"), inner])


class RoundTrips(unittest.TestCase):
    def test_leaves(self):
        """every simple value comes back equal and of its type"""
        for value in LEAVES:
            self.assertTrue(same(across(value), value), repr(value))

    def test_random(self):
        """1,000 random trees come back equal and of their types"""
        pick = random.Random(20240229)
        for _ in range(1000):
            value = random_value(pick, 5)
            self.assertTrue(same(across(value), value), repr(value))

    def test_tag_in_a_dict(self):
        """a user's dict that looks like a tag stays a dict (S54)"""
        for value in ({"$t": "bytes", "v": "AA=="}, {"$t": 1}, {"v": {"$t": "int", "v": "5"}},
                      {"__type__": "bytes", "data": "AA=="}):
            self.assertTrue(same(across(value), value), value)

    def test_own_classes(self):
        """classes that were given come back as themselves"""
        value = [Point(1, [2]), Color.RED, Level.HIGH, Box("a", Box("b"))]
        got = across(value, [Point, Color, Level, Box])
        self.assertEqual(got, value)
        self.assertEqual([type(v) for v in got], [Point, Color, Level, Box])

    def test_unknown_classes(self):
        """classes that were not given come back as plain ones with the same fields"""
        point, color, level, box = across([Point(1, 2), Color.RED, Level.HIGH, Box("a")])
        self.assertEqual((point, point.x, point.y), ((1, 2), 1, 2))
        self.assertEqual((color, level), ("r", 3))
        self.assertEqual((type(box).__name__, box.name, box.inner), ("Box", "a", None))
        self.assertIsNot(type(box), Box)

    def test_exceptions(self):
        """built-in exceptions come back, others as RemoteError"""
        got = across(ValueError("x"))
        self.assertEqual((type(got), got.args), (ValueError, ("x",)))
        got = decode({"$t": "exception", "v": {"name": "Mine", "module": "m", "value": "why"}})
        self.assertEqual((type(got), got.name, got.value), (RemoteError, "Mine", "why"))

    def test_subclasses(self):
        """subclasses cross as what they are made of"""
        class Text(str):
            pass
        self.assertEqual(across([Text("a"), collections.defaultdict(int, a=1)]), ["a", {"a": 1}])

    def test_remote(self):
        """what could not cross is its type and its repr"""
        self.assertEqual(decode({"$t": "repr", "v": {"type": "m.C", "repr": "<C>"}}),
                         Remote("m.C", "<C>"))

    def test_numpy(self):
        """arrays and scalars of numpy come back"""
        try:
            import numpy
        except ImportError:
            self.skipTest("numpy")
        for value in (numpy.arange(6, dtype="<i2").reshape(2, 3), numpy.array("text"),
                      numpy.array([], dtype="f8"), numpy.array([1 + 2j]),
                      numpy.array(["2024-01-01"], dtype="M8[D]")):
            got = across(value)
            self.assertEqual((got.dtype, got.shape), (value.dtype, value.shape))
            self.assertTrue((got == value).all())
        self.assertEqual(across(numpy.float32(1.5)), 1.5)
        with self.assertRaises(errors.UsageError):
            encode(numpy.array([object()]))

    def test_image(self):
        """images of PIL come back"""
        try:
            import PIL.Image
        except ImportError:
            self.skipTest("PIL")
        image = PIL.Image.new("RGBA", (3, 2), (1, 2, 3, 4))
        got = across(image)
        self.assertEqual((got.size, got.mode, got.getpixel((0, 0))), ((3, 2), "RGBA",
                                                                     (1, 2, 3, 4)))


    def test_large_integers(self):
        """integers of more digits than str() takes come back, and the limit of the process stays"""
        for n in (10 ** 599, 10 ** 600, -10 ** 601 - 1, 10 ** 4299, 10 ** 12000 + 7, -(7 ** 20000)):
            self.assertEqual(across(n), n)
        self.assertEqual(encode(10 ** 600 + 5)["v"], "1" + "0" * 599 + "5")
        for wrong in ("", "-", "--1", "1_0", " 1", "+1", "\u0661", "1" * 600 + "x"):
            with self.assertRaises(ValueError, msg=wrong):
                decode({"$t": "int", "v": wrong})
        with mock.patch.object(sys, "set_int_max_str_digits", create=True) as changed:
            across(10 ** 12000)
        changed.assert_not_called()


class Refusals(unittest.TestCase):
    def test_cannot_cross(self):
        """functions, classes, generators, open files: an error that names the type"""
        for value in (len, Box, (x for x in ()), object(), sys):
            with self.assertRaisesRegex(errors.UsageError, "cannot be sent"):
                encode([value])

    def test_cycles(self):
        """a value that holds itself, or is too deep: an error, no recursion"""
        loop: list = []
        loop.append(loop)
        deep: object = 1
        for _ in range(100):
            deep = {"a": deep}
        for value in (loop, deep):
            with self.assertRaisesRegex(errors.UsageError, "nested"):
                encode(value)

    def test_deepest_fits(self):
        """what encode() takes, a frame takes"""
        value: object = Box("x")
        while True:
            try:
                encode((value,))
            except errors.UsageError:
                break
            value = (value,)
        _frames.encode({"id": 1, "op": "set", "values": {"x": encode(value)}})

    def test_hostile(self):
        """wrong tags and shapes of a box are ValueError, whatever they hold"""
        for tag, value in (
                ("nothing", 1), ("int", "x"), ("int", "9" * 50000), ("float", "1e5"),
                ("bytes", "!"), ("bytes", 5), ("tuple", 5), ("set", [[1]]), ("set", [{"a": 1}]),
                ("dict", [[1]]), ("dict", [[[1], 2]]), ("complex", ["a"]), ("range", [1, 2]),
                ("range", [1, 2, 0]), ("datetime", "never"), ("timedelta", [10**30]),
                ("Decimal", "x"), ("UUID", "x"), ("deque", {"items": 1, "maxlen": 2}),
                ("deque", {"items": []}), ("enum", {}), ("namedtuple", {"name": "n", "fields":
                 ["class"], "values": [1]}), ("namedtuple", {"name": "n", "fields": ["__init__"],
                 "values": [1]}), ("dataclass", {"name": "n", "fields": {"a b": 1}}),
                ("dataclass", {"name": "n", "fields": {"__class__": 1}}), ("exception", []),
                ("repr", {}), ("str", "AA"), (["list"], 1), (None, 1)):
            with self.assertRaises(ValueError, msg=(tag, value)):
                decode({"$t": tag, "v": value})
        for value in ({"$t": "int"}, {"$t": "int", "v": "1", "w": 2}):
            with self.assertRaises(ValueError):
                decode(value)

    def test_foreign_errors(self):
        """what a class of the caller's or a reader of pictures raises is a ValueError as well"""
        class Picky:
            pass

        @dataclasses.dataclass
        class Strict:
            name: str

            def __post_init__(self):
                raise Picky.error("no")
        Picky.error = type("NeverHeardOf", (Exception,), {})
        v = {"name": Strict.__qualname__, "module": Strict.__module__, "fields": {"name": "a"}}
        with self.assertRaisesRegex(ValueError, "NeverHeardOf: no"):
            decode({"$t": "dataclass", "v": v}, [Strict])
        try:
            import PIL.Image  # noqa: F401
        except ImportError:
            return
        bomb = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
        bomb += struct.pack(">I", zlib.crc32(bomb[12:])) + b"\0\0\0\0IDAT" + struct.pack(
            ">I", zlib.crc32(b"IDAT"))
        with self.assertRaisesRegex(ValueError, "DecompressionBomb"):
            decode({"$t": "image", "v": base64.b64encode(bomb).decode()})

    def test_no_objects(self):
        """an array of objects, whose bytes would be pointers, is refused"""
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy")
        for kind in ("O", "|O8", "i4,i4", "(2,)O"):
            with self.assertRaises(ValueError, msg=kind):
                decode({"$t": "ndarray", "v": {"dtype": kind, "shape": [1], "data": "AAAAAAAAAAA="}})
        for shape in ([-1, -1], [1 << 60], [3]):
            with self.assertRaises(ValueError):
                decode({"$t": "ndarray", "v": {"dtype": "<i8", "shape": shape,
                                               "data": "AAAAAAAAAAA="}})

    def test_no_lookup(self):
        """names of classes from a box find nothing but what was given"""
        v = {"name": "Popen", "module": "subprocess", "fields": {"args": "true"}}
        got = decode({"$t": "dataclass", "v": v})
        self.assertEqual((type(got).__module__ != "subprocess", got.args), (True, "true"))
        got = decode({"$t": "exception", "v": {"name": "SystemExit", "module": "builtins",
                                               "value": "0"}})
        self.assertIs(type(got), RemoteError)
        got = decode({"$t": "dataclass", "v": {"name": "Box", "module": "elsewhere",
                                               "fields": {"name": "a"}}}, [Box])
        self.assertIsNot(type(got), Box)

    def test_mutations(self):
        """20,000 random changes of good messages: a value or a ValueError, nothing else"""
        pick = random.Random(7)
        seeds = [json.dumps(encode(v)) for v in LEAVES + [Point(1, 2), Color.RED, Box("a"),
                                                          OSError("x"), {1: 2}, deque([1], 3)]]
        alphabet = '[]{}",:0123456789.-$tvabdnul'
        for _ in range(20000):
            text = list(pick.choice(seeds))
            for _ in range(pick.randrange(1, 4)):
                text[pick.randrange(len(text))] = pick.choice(alphabet)
            try:
                message = json.loads("".join(text))
            except (ValueError, RecursionError):
                continue
            try:
                decode(message)
            except ValueError:
                pass


if __name__ == "__main__":
    tap_unittest.main()
