"""The host's side of a kernel, whatever the box says."""

import asyncio
import json
import os
import threading
import unittest
from unittest import mock

import nsbox
from cases.fake import FAKE, with_fake


class HostCalls(unittest.TestCase):
    def play(self, *steps, functions=None, types=(), seconds=60.0, **how):
        """One cell of the fake kernel, which plays @steps and ends with @how."""
        async def work(box):
            kernel = await box.open("python", types=types)
            kernel.call_seconds, kernel.reply_bytes = seconds, 1000
            if functions:
                await kernel.tools(functions)
            return await kernel.execute(json.dumps([*steps, {"status": "ok", **how}]))
        return with_fake("kernel", work)

    def call(self, function, *args, **how):
        """What the box is answered when it calls @function with @args, as typed JSON."""
        cell = self.play({"event": "call", "call": 7, "name": "f", "args": list(args),
                          "kwargs": {}}, "reply", functions={"f": function}, **how)
        reply, = cell.record["replies"]
        self.assertEqual((reply["call"], reply["box"]), (7, "b1"))
        return reply.get("value", reply.get("error"))

    def test_pieces(self):
        """output, rich results and the value make a cell"""
        cell = self.play({"event": "stdout", "text": "a"}, {"event": "stderr", "text": "e"},
                         {"event": "stdout", "text": "b\n"},
                         {"event": "display", "mime": {"image/png": "iVBORw=="}},
                         repr="{1}", value={"$t": "set", "v": [1]}, execution_count=3,
                         mime={"text/html": "<b>"})
        self.assertEqual((cell.stdout, cell.stderr, cell.text, cell.value, cell.execution_count),
                         ("ab\n", "e", "{1}", {1}, 3))
        self.assertEqual(cell.displays[0].data("image/png"), b"\x89PNG")
        self.assertEqual(cell.displays[1].mime, {"text/html": "<b>"})
        self.assertNotIn("<b>", cell._repr_html_())
        self.assertEqual(cell.unwrap(), {1})

    def test_error(self):
        """a failed cell: its error, and unwrap() raises"""
        cell = self.play(status="error", error={"name": "KeyError", "value": "'k'",
                                                "traceback": ["line\n"]})
        self.assertEqual((cell.ok, str(cell.error), cell.error.traceback),
                         (False, "KeyError: 'k'", ("line\n",)))
        with self.assertRaisesRegex(nsbox.ExecutionError, "KeyError: 'k'"):
            cell.unwrap()

    def test_call(self):
        """a function of the host gets values and answers with values"""
        got = self.call(lambda a, b: (a, b), {"$t": "tuple", "v": [1]}, {"k": None})
        self.assertEqual(got, {"$t": "tuple", "v": [{"$t": "tuple", "v": [1]}, {"k": None}]})

        async def later(a):
            await asyncio.sleep(0)
            return a + 1
        self.assertEqual(self.call(later, 1), 2)

    def test_call_raises(self):
        """what a function raises is the answer"""
        def broken():
            raise LookupError("no \ud800 such")
        self.assertEqual(self.call(broken), {"name": "LookupError", "value": "no \\ud800 such"})

    def test_call_hangs(self):
        """a function that takes too long: the box is told, and nothing hangs"""
        async def never():
            await asyncio.sleep(3600)
        got = self.call(never, seconds=0.05)
        self.assertEqual(got["name"], "TimeoutError")

    def test_call_wrong(self):
        """values that cannot cross, too large ones, hostile ones: an error for the box"""
        self.assertEqual(self.call(lambda: object())["name"], "UsageError")
        self.assertIn("more than 1000 bytes", self.call(lambda: "x" * 2000)["value"])
        self.assertEqual(self.call(lambda a: a, {"$t": "int", "v": "x"})["name"], "ValueError")
        self.assertEqual(self.call(lambda: 1, 1, 2)["name"], "TypeError")

    def test_call_unknown(self):
        """a function that the host never gave is not called"""
        cell = self.play({"event": "call", "call": 1, "name": "__import__", "args": ["os"],
                          "kwargs": {}}, "reply")
        self.assertEqual(cell.record["replies"][0]["error"]["name"], "NameError")

    def test_synchronous(self):
        """the synchronous face: functions run in the thread that waits"""
        threads = []

        def where(a):
            threads.append(threading.current_thread())
            return a
        with mock.patch.dict(os.environ, NSBOX_FAKE="kernel"), nsbox.Sandbox(binary=FAKE) as box:
            kernel = box.open("python")
            kernel.tools({"f": where})
            cell = kernel.execute(json.dumps([
                {"event": "call", "call": 1, "name": "f", "args": [5], "kwargs": {}}, "reply",
                {"status": "ok", "value": 6}]))
            self.assertEqual((cell.value, cell.record["replies"][0]["value"]), (6, 5))
            self.assertEqual(threads, [threading.current_thread()])
            self.assertEqual(kernel.set(a={1}).record["request"]["values"],
                             {"a": {"$t": "set", "v": [1]}})
