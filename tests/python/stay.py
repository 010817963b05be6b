#!/usr/bin/env python3
# as: root user
"""A box that stays, behind the adapters: commands side by side, files between them, every end."""

import asyncio
import errno
import gc
import os
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "harness"))
import tap_unittest  # noqa: E402

tap_unittest.use_this_checkout()
from nsbox import _stay, errors  # noqa: E402

MIB = 1 << 20
SECONDS = 120       # for what must come; never how long something takes


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stay = _stay.Stay()

    @classmethod
    def tearDownClass(cls):
        cls.stay.call(cls.stay.inner.close())

    def exec(self, *argv, **how):
        return self.stay.call(self.stay.inner.exec(argv, **how))

    def write(self, path, data):
        self.stay.call(self.stay.inner.write(path, data))

    def read(self, path, *room):
        return self.stay.call(self.stay.inner.read(path, *room))

    def test_output(self):
        """a command's status and both of its streams come back apart"""
        got = self.exec("sh", "-c", "echo out; echo err >&2; exit 70")
        self.assertEqual(got, _stay.Finished(70, b"out\n", b"err\n"))

    def test_merged(self):
        """merged, they come in the order of writing"""
        got = self.exec("sh", "-c", "echo 1; echo 2 >&2; echo 3", merged=True)
        self.assertEqual(got, _stay.Finished(0, b"1\n2\n3\n", b""))

    def test_signal(self):
        """a command that a signal killed has 128 + its number"""
        self.assertEqual(self.exec("sh", "-c", "kill -TERM $$", timeout=SECONDS).code, 143)

    def test_missing(self):
        """a command that is not there, a folder that is not, a file that is no program"""
        with self.assertRaises(_stay.CommandError) as caught:
            self.exec("nsbox-no-such-command")
        self.assertEqual((caught.exception.errno, caught.exception.filename),
                         (2, "nsbox-no-such-command"))
        with self.assertRaises(_stay.CommandError) as caught:
            self.exec("true", cwd="nowhere")
        self.assertEqual((caught.exception.errno, caught.exception.filename), (2, "nowhere"))
        with self.assertRaises(PermissionError) as caught:
            self.exec("/etc/passwd")
        self.assertEqual(caught.exception.filename, "/etc/passwd")
        self.assertEqual(self.exec("true").code, 0)

    def test_words(self):
        """words, variables and folders cross as bytes, whatever is in them"""
        odd = os.fsdecode(b"\xff'\"$HOME\n\xc3\xa9")
        self.write(f"{odd}/x", b"")
        got = self.exec("sh", "-c", 'printf "%s|%s|" "$1" "$V"; ls', "sh", odd, env={"V": odd},
                        cwd=odd)
        self.assertEqual(got.stdout, os.fsencode(f"{odd}|{odd}|x\n"))

    def test_stdin(self):
        """standard input: none, empty, bytes, and more than a frame holds"""
        self.assertEqual(self.exec("cat").stdout, b"")
        self.assertEqual(self.exec("cat", input=b"").stdout, b"")
        self.assertEqual(self.exec("cat", input=b"\0\xff\n").stdout, b"\0\xff\n")
        got = self.exec("sh", "-c", "wc -c; echo end", input=b"a" * (50 * MIB))
        self.assertEqual(got.stdout.split(), [b"52428800", b"end"])

    def test_timeout(self):
        """a command that is over its time is killed with all that it started"""
        with self.assertRaises(_stay.CommandTimeoutError) as caught:
            self.exec("sh", "-c", "echo begun; sleep 3210 & setsid sleep 3211 & sleep 3212", timeout=1)
        self.assertEqual(caught.exception.finished.stdout, b"begun\n")
        got = self.exec("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        self.assertNotIn(b"sleep 321", got.stdout)
        self.assertIn(b"tr", got.stdout)

    def test_left_running(self):
        """what a command leaves behind goes on, also when it prints; nobody waits for it"""
        got = self.exec("sh", "-c", "echo > left; (while :; do echo busy; echo more >> left; sleep 0.05; done)"
                        " & echo $! > pid; echo gone")
        self.assertIn(b"gone\n", got.stdout)
        size = len(self.read("left", MIB))
        deadline = time.monotonic() + SECONDS
        while len(self.read("left", MIB)) < size + 50:
            self.assertLess(time.monotonic(), deadline, "it does not go on")
            time.sleep(0.05)
        self.assertEqual(self.exec("sh", "-c", "kill $(cat pid)").code, 0)

    def test_side_by_side(self):
        """commands do not wait for one another"""
        answers = []
        waits = threading.Thread(target=lambda: answers.append(
            self.exec("sh", "-c", "mkfifo p; read line < p; echo $line", timeout=SECONDS)))
        waits.start()
        self.exec("sh", "-c", "until [ -p p ]; do sleep 0.05; done; echo hello > p",
                  timeout=SECONDS)
        waits.join()
        self.assertEqual(answers[0].stdout, b"hello\n")

    def test_many(self):
        """a hundred commands at once each have their own answer"""
        async def all_of_them():
            return await asyncio.gather(*(self.stay.inner.exec(
                ["sh", "-c", f"echo {n}; exit {n}"], timeout=SECONDS) for n in range(100)))
        got = self.stay.call(all_of_them())
        self.assertEqual([(one.code, one.stdout) for one in got],
                         [(n, b"%d\n" % n) for n in range(100)])

    def test_many_left_behind(self):
        """hundreds of commands whose children hold their output a moment longer: each has its
        own answer, and nothing is used up"""
        async def all_of_them():
            return await asyncio.gather(*(self.stay.inner.exec(
                ["sh", "-c", f"sleep 0.0{n % 10} & echo {n}"], timeout=SECONDS)
                for n in range(100)))
        for _ in range(4):
            self.assertEqual([one.stdout for one in self.stay.call(all_of_them())],
                             [b"%d\n" % n for n in range(100)])
        self.exec("sh", "-c", "until [ $(ls -l /proc/$PPID/fd | grep -c pipe:) -lt 12 ]; do "
                  "sleep 0.05; done", timeout=60)

    def test_room(self):
        """of an output the begin is kept; strictly, more of it is the end of the command"""
        got = self.exec("sh", "-c", "yes | head -c 3000000; exit 5", room=1000)
        self.assertEqual(got, _stay.Finished(5, b"y\n" * 500, b"", True))
        exact = self.exec("head", "-c", "1000", "/dev/zero", room=1000, strict=True)
        self.assertEqual(exact, _stay.Finished(0, bytes(1000), b"", False))
        with self.assertRaises(_stay.OutputTooLongError) as caught:
            self.exec("yes", room=1000, strict=True)
        self.assertEqual(caught.exception.finished.stdout, b"y\n" * 500)

    def test_files(self):
        """files are kept between commands, folders are made, names are relative to the work folder"""
        self.write("a/b/c", b"text")
        self.assertEqual(self.exec("cat", "a/b/c").stdout, b"text")
        self.exec("sh", "-c", "printf more >> a/b/c; printf abs > /tmp/abs")
        self.assertEqual((self.read("a/b/c"), self.read("/tmp/abs")), (b"textmore", b"abs"))
        self.write("a/b/c", b"")
        self.assertEqual(self.read("/workspace/a/b/c"), b"")

    def test_large_file(self):
        """a file of 50 MiB goes in and comes back"""
        data = os.urandom(MIB) * 50
        self.write("large", data)
        self.assertEqual(self.read("large") == data, True)
        self.exec("rm", "large")

    def test_file_errors(self):
        """each trouble with a file has its class, and names it"""
        self.write("only", b"1234")
        self.exec("sh", "-c", "chmod 200 only; printf x > unwritable; chmod 400 unwritable; "
                  "mkfifo pipe; mkdir folder")
        for work, kind in ((lambda: self.read("missing"), FileNotFoundError),
                           (lambda: self.read("only"), PermissionError),
                           (lambda: self.read("folder"), IsADirectoryError),
                           (lambda: self.read("only/x"), NotADirectoryError),
                           (lambda: self.read("pipe"), OSError),
                           (lambda: self.write("folder", b""), IsADirectoryError),
                           (lambda: self.write("unwritable", b"y"), PermissionError),
                           (lambda: self.write("/usr/x", b""), OSError)):
            with self.assertRaises(kind) as caught:
                work()
            self.assertTrue(caught.exception.filename)
            self.assertNotIsInstance(caught.exception, errors.NsboxError)
        self.assertEqual(self.read("unwritable"), b"x")

    def test_file_room(self):
        """a file of more bytes than were asked for is not fetched"""
        self.write("ten", b"0123456789")
        self.assertEqual(self.read("ten", 10), b"0123456789")
        with self.assertRaises(_stay.FileTooLargeError):
            self.read("ten", 9)
        with self.assertRaises(_stay.FileTooLargeError):
            self.read("/proc/self/status", 9)   # its size is told as 0

    def test_cancel(self):
        """a cancelled await kills the command, from any event loop"""
        async def cancelled():
            task = asyncio.ensure_future(self.stay.on_loop(self.stay.inner.exec(
                ["sh", "-c", "echo $$ > cancel-me; sleep 3213"])))
            deadline = time.monotonic() + SECONDS
            while True:
                try:
                    if await self.stay.on_loop(self.stay.inner.read("cancel-me")):
                        break
                except FileNotFoundError:
                    pass
                self.assertLess(time.monotonic(), deadline)
                await asyncio.sleep(0.02)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
        asyncio.run(cancelled())
        got = self.exec("sh", "-c", "while kill -0 $(cat cancel-me) 2>/dev/null; do sleep 0.05; "
                        "done; echo gone", timeout=SECONDS)
        self.assertEqual(got.stdout, b"gone\n")

    def test_cancel_early(self):
        """a command that is cancelled before it started does not run"""
        async def early(steps):
            tasks = [asyncio.ensure_future(self.stay.inner.exec(
                ["sh", "-c", "sleep 3216; echo ran >> early"])) for _ in range(8)]
            for _ in range(steps):
                await asyncio.sleep(0)
            for task in tasks:
                task.cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)
        for steps in range(1, 5):
            self.assertEqual({type(e) for e in self.stay.call(early(steps))},
                             {asyncio.CancelledError})
        got = self.exec("sh", "-c", "while cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | "
                        "grep -q '[s]leep 3216'; do sleep 0.05; done; ls early", timeout=30)
        self.assertEqual(got.code, 2)

    def test_odd_words(self):
        """NUL, lone surrogates and too long words and names: an answer each, and the box goes on"""
        for work in (lambda: self.exec("echo", "a\0b"), lambda: self.exec("true", cwd="a\0b"),
                     lambda: self.exec("true", env={"A": "a\0b"}), lambda: self.read("a\0b"),
                     lambda: self.exec("true", env={"A=B": "x"}),
                     lambda: self.write("a\0b", b""), lambda: self.exec("echo", "x" * (1 << 20)),
                     lambda: self.exec("echo", "x" * (60 << 20)),
                     lambda: self.exec("true", env={"A": "x" * (60 << 20)}),
                     lambda: self.exec("true", cwd="x" * 5000),
                     lambda: self.write("x" * (60 << 20), b""), lambda: self.read("x" * 5000)):
            with self.assertRaises(OSError) as caught:
                work()
            self.assertIn(caught.exception.errno, (errno.EINVAL, errno.E2BIG, errno.ENAMETOOLONG))
        self.assertEqual(self.exec("echo", "\ud800\udcff").stdout, b"\xed\xa0\x80\xed\xb3\xbf\n")
        self.assertEqual(self.exec("echo", "\udcff").stdout, b"\xff\n")

    def test_walls(self):
        """commands run as the box's one user, without privileges"""
        got = self.exec("sh", "-c", "id -un; id -u; grep CapEff /proc/self/status")
        self.assertEqual(got.stdout, b"nsbox\n1000\nCapEff:\t0000000000000000\n")

    def test_polite_kill(self):
        """pkill python is no end of the box; nor is ldd where there are 32-bit libraries"""
        self.exec("sh", "-c", "kill -TERM -1; kill -INT -1; kill -HUP -1")
        self.exec("ldd", "/bin/sh")
        self.assertEqual(self.exec("echo", "here").stdout, b"here\n")

    def test_usage(self):
        """a wrong call is told before anything runs"""
        for how in ({"timeout": 0}, {"timeout": -1}):
            with self.assertRaises(errors.UsageError):
                self.exec("true", **how)
        with self.assertRaises(errors.UsageError):
            self.stay.call(self.stay.inner.exec("ls -l"))
        with self.assertRaises(errors.UsageError):
            _stay.Stay(memroy="1G")


class Ends(unittest.TestCase):
    def test_killed(self):
        """who kills everything in the box ends it: each command is told, files are gone"""
        stay = _stay.Stay()
        self.assertEqual(stay.call(stay.inner.exec(["true"])).code, 0)
        for _ in range(2):
            with self.assertRaises(errors.ConnectionLostError):
                stay.call(stay.inner.exec(["sh", "-c", "kill -9 -1; sleep 3214"]))
        self.assertTrue(stay.inner.lost)
        stay.call(stay.inner.close())

    def test_closed(self):
        """close ends what runs, may come twice, and nothing works after it"""
        stay = _stay.Stay()
        stay.call(stay.inner.open())
        future = asyncio.run_coroutine_threadsafe(
            stay.inner.exec(["sh", "-c", "echo > started; sleep 3215"]), stay._background.loop)
        stay.call(stay.inner.exec(["sh", "-c", "until [ -e started ]; do sleep 0.05; done"]))
        stay.call(stay.inner.close())
        with self.assertRaises(errors.UsageError):
            future.result(SECONDS)
        stay.call(stay.inner.close())
        with self.assertRaises(errors.UsageError):
            stay.call(stay.inner.exec(["true"]))

    def test_no_processes(self):
        """where no thread, process or descriptor can be had a command fails, and the box goes on"""
        async def many(stay):
            return await asyncio.gather(*(stay.inner.exec(["sleep", "0.2"], timeout=SECONDS)
                                          for _ in range(60)), return_exceptions=True)
        for limit, words in (({"pids": 40}, {errno.EAGAIN}), ({"limits_files": 110}, {errno.EMFILE})):
            stay = _stay.Stay(**limit)
            got = stay.call(many(stay))
            self.assertEqual({e.errno for e in got if isinstance(e, Exception)}, words, got)
            self.assertTrue(any(one == _stay.Finished(0, b"", b"") for one in got))
            self.assertEqual(stay.call(stay.inner.exec(["echo", "on"])).stdout, b"on\n")
            stay.close()

    def test_forgotten(self):
        """a box that nobody has any more ends, without close()"""
        stay = _stay.Stay()
        stay.call(stay.inner.open())
        child = stay.inner._connection.child
        del stay
        gc.collect()
        self.assertIsNotNone(child.process.wait(SECONDS))

    def test_policy(self):
        """options are the box's, and a wrong policy is an error of opening"""
        stay = _stay.Stay(limits_pids=40, env={"OPT": "of the box"}, fs_hidden=["/usr/share"])
        got = stay.call(stay.inner.exec(["sh", "-c", "echo $OPT; ls /usr/share | wc -l"]))
        self.assertEqual(got.stdout, b"of the box\n0\n")
        stay.call(stay.inner.close())
        with self.assertRaises(errors.UsageError):
            _stay.Stay(allow_imports=["math"])
        wrong = _stay.Stay(ro=["/nsbox-no-such-folder"])
        for _ in range(2):      # the second time it has the same to say
            with self.assertRaises(errors.NsboxError) as caught:
                wrong.call(wrong.inner.exec(["true"]))
            self.assertIn("/nsbox-no-such-folder", str(caught.exception))
        wrong.call(wrong.inner.close())


class Hostile(unittest.TestCase):
    """What the box may say, said by hand."""

    def setUp(self):
        self.loop = asyncio.new_event_loop()
        self.addCleanup(self.loop.close)
        self.loop.run_until_complete(self.make())

    async def make(self):
        self.stay = _stay.AsyncStay()
        self.stay._connection = self
        self.replies = []
        self.errand = _stay._Errand(4, self.loop.create_future())
        self.stay._errands[7] = self.errand

    def post(self, op, fields):
        self.replies.append((op, fields["call"], fields["value"]))

    def say(self, *args, name="errand_said", call=1):
        self.stay._hear({"event": "call", "call": call, "name": name, "args": list(args)})

    def test_too_much(self):
        """more than was asked for is no more believed"""
        self.say(7, "stdout", {"$t": "bytes", "v": "YWJjZA=="})
        self.assertEqual(bytes(self.errand.streams["stdout"]), b"abcd")
        self.say(7, "stdout", {"$t": "bytes", "v": "YQ=="})
        with self.assertRaises(errors.ConnectionLostError):
            self.errand.end.result()

    def test_nonsense(self):
        """streams that are none and bytes that are none fail that errand"""
        for number, (what, value) in enumerate((
                ("stdin", {"$t": "bytes", "v": ""}), ("stdout", "abc"), ("stdout", None),
                ("stdout", {"$t": "bytes", "v": "%%"}), ("end", "x"), (None, None), ([], {})), 20):
            self.stay._errands[number] = _stay._Errand(9, self.loop.create_future())
            self.say(number, what, value)
            with self.assertRaises(errors.ConnectionLostError):
                self.stay._errands[number].end.result()

    def test_numbers(self):
        """numbers that no system has are taken for none of its"""
        for wrong in (10 ** 30, -1, True, "2", [], 0):
            with self.assertRaises(OSError) as caught:
                _stay.AsyncStay._raise_for_file({"errno": wrong}, "a")
            self.assertEqual(caught.exception.errno, errno.EIO)

    def test_others(self):
        """numbers and functions of nobody are answered and forgotten"""
        self.say(8, "end", {"code": 0})
        self.say("7", "end", {"code": 0})
        self.say(7, "end", {"code": 0}, name="os.system")
        self.say()
        self.assertFalse(self.errand.end.done())
        self.assertEqual(self.replies, [("reply", 1, None)] * 4)
        self.say(7, "end", {"code": 3})
        self.assertEqual(self.errand.end.result(), {"code": 3})


if __name__ == "__main__":
    tap_unittest.main()
