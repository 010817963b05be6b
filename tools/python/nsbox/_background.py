"""The event loop behind the synchronous face: one daemon thread a process.

Callbacks of the caller (output, host functions) run in the caller's own thread, while it waits:
they may use the synchronous face themselves, and see their own thread-local values.

Must: let no call wait for a loop that ended. What lives longer than it (a finalizer, a generator
that is closed while the interpreter shuts down) finds its boxes gone, and closing them done.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextvars
import os
import queue
import threading
from typing import Any, Callable, Coroutine, TypeVar

from ._rpc import _children
from .errors import ConnectionLostError, UsageError

T = TypeVar("T")
_END_SECONDS = 5.0      # at exit, for tasks whose child has ended


class Background:
    """The thread and its loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.owner = os.getpid()
        # Reentrant: a finalizer may call while this thread holds it.
        self._door = threading.RLock()
        self.is_over = False        # by stop(): all boxes are gone, in order
        self.thread = threading.Thread(target=self._run, name="nsbox", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self.is_over:
            try:
                self.loop.run_forever()
            except (SystemExit, KeyboardInterrupt):
                # asyncio throws what one task raised out of the loop. It is the answer of that
                # task; the others, and their callers, have nothing to do with it.
                continue

    def alive(self) -> bool:
        return self.owner == os.getpid() and not self.is_over and self.thread.is_alive()

    def submit(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Start @work on the loop. ConnectionLostError when that has ended, UsageError in a
        forked process."""
        if os.getpid() != self.owner:   # before the door, which a thread of the parent may hold
            work.close()
            raise UsageError("this sandbox belongs to the process that was forked",
                             hint="make a new one after the fork")
        with self._door:
            if self.alive():
                return asyncio.run_coroutine_threadsafe(work, self.loop)
        work.close()
        raise ConnectionLostError("nsbox has ended with the interpreter, and its boxes with it")

    def call(self, make: Callable[["Caller"], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine of @make to its end; KeyboardInterrupt cancels it."""
        if threading.current_thread() is self.thread:
            raise UsageError("the synchronous face was called from its own event loop",
                             hint="use AsyncSandbox there")
        caller = Caller()
        future = self.submit(make(caller))
        future.add_done_callback(lambda _: caller.inbox.put(None))
        try:
            caller.serve()
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def stop(self) -> None:
        """End every task, then the loop. Blocks for at most two times _END_SECONDS."""
        if not self.alive():
            return
        with self._door:
            ends = asyncio.run_coroutine_threadsafe(_end_tasks(), self.loop)
            self.is_over = True        # nothing is submitted behind it
        concurrent.futures.wait([ends], _END_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(_END_SECONDS)
        if not self.thread.is_alive():
            self.loop.close()


async def _end_tasks() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if not others:
        return
    # Their children have ended: most find out by themselves, and why.
    _, late = await asyncio.wait(others, timeout=_END_SECONDS / 4)
    for task in late:
        task.cancel()
    if late:
        await asyncio.wait(late, timeout=_END_SECONDS / 4)


class Caller:
    """The waiting thread, which runs what is put into its inbox."""

    def __init__(self) -> None:
        self.inbox: "queue.SimpleQueue[Callable[[], None] | None]" = queue.SimpleQueue()

    def serve(self) -> None:
        while (todo := self.inbox.get()) is not None:
            todo()

    async def run(self, function: Callable[[], T]) -> T:
        """@function's value, from the waiting thread. For a coroutine on the loop."""
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        done: "asyncio.Future[T]" = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if done.cancelled():
                return
            if error is None:
                done.set_result(value)
            else:
                done.set_exception(error)

        def work() -> None:
            try:
                value, error = context.run(function), None
            except Exception as e:
                value, error = None, e
            loop.call_soon_threadsafe(settle, value, error)
        self.inbox.put(work)
        return await done

    def soon(self, function: Callable[..., Any] | None) -> Callable[..., None] | None:
        """@function for a caller on the loop: it is run later, by the waiting thread."""
        if function is None:
            return None
        return lambda *args: self.inbox.put(lambda: function(*args))


_lock = threading.Lock()
_background: Background | None = None


def background() -> Background:
    """The one of this process; made at first use, and anew after a fork."""
    global _background
    with _lock:
        if _background is None or not _background.alive():
            _background = Background()
        return _background


def _after_fork() -> None:
    global _background, _lock
    _lock = threading.Lock()    # the parent's may have been held by a thread that is not here
    _background = None


def _at_exit() -> None:
    for child in list(_children):
        child.end()
    if _background is not None:
        _background.stop()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
