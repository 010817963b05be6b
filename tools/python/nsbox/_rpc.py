"""One `nsbox rpc` child and the requests in flight on it. Runs on one event loop.

Must: fail every pending request with a clear error when the child dies, hangs or speaks nonsense;
leave no child behind, however this process goes on. Must not: touch the parent's child or socket
from a forked process.

The child's standard input and output are one end of a socket pair, so its end of file is the
death of this process, even by SIGKILL; the boxes die with it.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import os
import socket
import subprocess
import time
import weakref
from dataclasses import dataclass
from typing import Any, Callable

from . import _frames
from .errors import ConnectionLostError, NsboxError, UsageError, error_from_record

Event = dict[str, Any]
_END_SECONDS = 2.0      # for the child to kill its boxes and leave
_READ_BUFFER = 1 << 20


class Child:
    """The process. Knows nothing of event loops, so that a finalizer may end it."""

    def __init__(self, argv: list[str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.owner = os.getpid()
        self.socket = ours
        self.complaints = os.memfd_create("nsbox-stderr", os.MFD_CLOEXEC)
        try:
            # A session of its own: Ctrl-C at the terminal is for this process, which then
            # cancels what it wants cancelled.
            self.process = subprocess.Popen(argv, stdin=theirs.fileno(), stdout=theirs.fileno(),
                                            stderr=self.complaints, start_new_session=True)
        except OSError as e:
            ours.close()
            os.close(self.complaints)
            raise ConnectionLostError(f"{argv[0]} cannot be started",
                                      os_errno=e.errno or 0) from None
        finally:
            theirs.close()
        _children.add(self)

    def hang_up(self) -> None:
        """End of file for the child; it kills its boxes and exits."""
        if os.getpid() == self.owner:
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass    # the child is gone already, or the socket is closed: the same news

    def end(self) -> None:
        """Hang up, wait a little, kill. Blocks for at most _END_SECONDS and a kill."""
        if os.getpid() != self.owner:
            return
        self.hang_up()
        deadline = time.monotonic() + _END_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        self.reap()

    async def ended(self) -> None:
        """The same for an event loop."""
        self.hang_up()
        deadline = time.monotonic() + _END_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.002)
        self.reap()

    def reap(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def last_words(self) -> str:
        """How the child ended, and the last line that it wrote to standard error."""
        code = self.process.poll()
        if code is None:
            how = "it still runs"
        else:
            how = f"signal {-code} killed it" if code < 0 else f"it exited with status {code}"
        if self.complaints >= 0:
            size = os.fstat(self.complaints).st_size
            tail = os.pread(self.complaints, 2000, max(0, size - 2000))
            lines = tail.decode("utf-8", "replace").strip().splitlines()
            if lines:
                return f"{how}: {lines[-1]}"
        return how

    def close(self) -> None:
        """Give the descriptors back; the child must have ended."""
        _children.discard(self)
        self.socket.close()
        if self.complaints >= 0:
            os.close(self.complaints)
            self.complaints = -1

    def forget(self) -> None:
        """In a forked process: close our copies, so that the parent's death is still seen.

        Never shutdown() or unregister: socket and epoll are shared with the parent.
        """
        fd = self.socket.detach()
        for held in (fd, self.complaints):
            if held >= 0:
                os.close(held)
        self.complaints = -1


_children: "weakref.WeakSet[Child]" = weakref.WeakSet()


def _after_fork() -> None:
    for child in list(_children):
        child.forget()
    _children.clear()


os.register_at_fork(after_in_child=_after_fork)


@dataclass
class _Pending:
    answer: "asyncio.Future[Any]"
    on_event: Callable[[Event], None] | None


class Connection:
    """Requests and answers. Every method but `hang_up` belongs to the loop that opened it."""

    # Seconds of silence, with requests in flight, after which the child is asked for a sign of
    # life, and after as many again is taken for dead.
    silence = 60.0

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv
        self._ids = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._lost: NsboxError | None = None
        self._closing = False
        self._heard = 0.0
        self._probe: int | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._reader_task: asyncio.Task[None] | None = None
        self.child: Child | None = None
        self.hello: dict[str, Any] = {}

    async def open(self) -> None:
        """Start the child and hear its hello. Raises ConnectionLostError, or what it says."""
        self._loop = asyncio.get_running_loop()
        self._owner = os.getpid()
        child = self.child = Child(self._argv)
        try:
            self._reader, self._writer = await asyncio.open_connection(
                sock=child.socket, limit=_READ_BUFFER)
            self._heard = self._loop.time()
            self._reader_task = self._loop.create_task(self._read())
            self.hello = await self.request("hello", {})
        except BaseException:
            await self.aclose()
            raise

    @property
    def lost(self) -> bool:
        """No request can succeed any more."""
        return self._lost is not None or self._closing

    def _why_lost(self) -> NsboxError:
        """The reason, each time a new exception: one that is raised twice adds up tracebacks."""
        return copy.copy(self._lost) if self._lost is not None \
            else ConnectionLostError("nsbox rpc is gone")

    # --- asking ---------------------------------------------------------------
    def usable(self) -> None:
        """Raises when this connection cannot be used from here and now."""
        if self.child is None:
            raise UsageError("the sandbox is not open", hint="use it in a with block")
        if os.getpid() != self._owner:
            raise UsageError("this sandbox belongs to the process that was forked",
                             hint="make a new one after the fork")
        if self._lost is not None:
            raise self._why_lost()
        if self._closing:
            raise UsageError("the sandbox is closed")
        if asyncio.get_running_loop() is not self._loop:
            raise UsageError("this sandbox belongs to another event loop",
                             hint="connect once in each asyncio.run()")

    async def request(self, op: str, fields: dict[str, Any],
                      on_event: Callable[[Event], None] | None = None) -> Any:
        """One request to its one answer. When the task is cancelled, so is the run."""
        self.usable()
        number = next(self._ids)
        frame = _frames.encode({"id": number, "op": op, **fields})
        pending = _Pending(self._loop.create_future(), on_event)
        self._pending[number] = pending
        self._watch_silence()
        try:
            await self._send(frame)
            return await pending.answer
        except asyncio.CancelledError:
            self.cancel(number)
            raise
        finally:
            self._pending.pop(number, None)
            if pending.answer.done() and not pending.answer.cancelled():
                pending.answer.exception()  # seen, also when sending had failed before

    def post(self, op: str, fields: dict[str, Any]) -> None:
        """A message that has no answer."""
        self.usable()
        self._writer.write(_frames.encode({"op": op, **fields}))

    def cancel(self, number: int) -> None:
        """Ask for the end of a run whose answer nobody waits for."""
        if self._lost is None and not self._closing and number in self._pending:
            self._writer.write(_frames.encode(
                {"id": next(self._ids), "op": "cancel", "target": number}))

    def abandon(self, fields: dict[str, Any]) -> None:
        """Send a request whose answer nobody waits for. From any thread, also from a finalizer;
        where it cannot be sent any more, what it would end has ended."""
        def send() -> None:
            if self._lost is None and not self._closing:
                self._writer.write(_frames.encode({"id": next(self._ids), **fields}))
        if os.getpid() == self._owner and not self.lost and not self._loop.is_closed():
            try:
                self._loop.call_soon_threadsafe(send)
            except RuntimeError:
                pass    # the loop was closed meanwhile

    async def _send(self, frame: bytes) -> None:
        self._writer.write(frame)
        try:
            await self._writer.drain()
        except ConnectionError:
            # The reader sees the same end and knows why; its error is the better one.
            if self._reader_task is not None:
                await asyncio.wait([self._reader_task])
            raise self._why_lost() from None

    # --- hearing --------------------------------------------------------------
    async def _read(self) -> None:
        why: NsboxError | None = None
        try:
            while True:
                header = await self._reader.readexactly(_frames.HEADER.size)
                body = await self._reader.readexactly(_frames.length_of(header))
                self._heard = self._loop.time()
                self._dispatch(_frames.decode(body))
        except (asyncio.IncompleteReadError, ConnectionError) as e:
            why = e if isinstance(e, NsboxError) else None
        finally:
            await self._ended(why)

    def _dispatch(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        if number is None:
            raise ConnectionLostError(str(error_from_record(message.get("error") or {})))
        if number == self._probe:
            self._probe = None
            return
        pending = self._pending.get(number)
        if pending is None or pending.answer.done():
            return      # of a request that was cancelled
        if "event" in message:
            if pending.on_event is not None:
                try:
                    pending.on_event(message)
                except Exception as e:  # a callback of the caller: its error is the answer
                    pending.answer.set_exception(e)
                    self.cancel(number)
        elif message.get("ok") is True:
            pending.answer.set_result(message.get("result"))
        else:
            pending.answer.set_exception(error_from_record(message.get("error") or {}))

    async def _ended(self, why: NsboxError | None) -> None:
        child = self.child
        assert child is not None
        try:
            await child.ended()
        finally:
            child.reap()
            if why is None:
                why = UsageError("the sandbox is closed") if self._closing else \
                    ConnectionLostError(f"nsbox rpc ended: {child.last_words()}",
                                        hint="its boxes are gone; connect again")
            self._lost = self._lost or why
            if self._watch is not None:
                self._watch.cancel()
            for pending in list(self._pending.values()):
                if not pending.answer.done():
                    pending.answer.set_exception(self._why_lost())
            self._writer.close()
            child.close()

    # --- a child that hangs ----------------------------------------------------
    def _watch_silence(self) -> None:
        if self._watch is None:
            self._watch = self._loop.call_later(self.silence, self._look)

    def _look(self) -> None:
        self._watch = None
        if self._lost is not None or not self._pending:
            self._probe = None
            return
        quiet = self._loop.time() - self._heard >= self.silence * 0.9
        if quiet and self._probe is not None:
            assert self.child is not None
            self._lost = ConnectionLostError(
                f"nsbox rpc did not answer for {2 * self.silence:g} s and was killed")
            self.child.reap()
            return
        if quiet:
            self._probe = next(self._ids)
            self._writer.write(_frames.encode({"id": self._probe, "op": "hello"}))
        self._watch_silence()

    # --- the end ----------------------------------------------------------------
    async def aclose(self) -> None:
        """End the child and its boxes; pending requests fail. May be called again."""
        self._closing = True
        if self.child is None or os.getpid() != self._owner:
            return
        await self.child.ended()
        if self._reader_task is None:
            self.child.close()
            return
        # Its end of the socket closed with it; should a process of its own hold a copy, the
        # reader is told in another way.
        _, late = await asyncio.wait([self._reader_task], timeout=_END_SECONDS)
        if late:
            self._reader_task.cancel()
            await asyncio.wait([self._reader_task])
