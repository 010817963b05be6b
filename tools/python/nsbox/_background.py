"""The event loop behind the synchronous face: one daemon thread a process.

Callbacks of the caller (output, host functions) run in the caller's own thread, while it waits:
they may use the synchronous face themselves, and see their own thread-local values.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import os
import queue
import threading
from typing import Any, Callable, Coroutine, TypeVar

from .errors import UsageError

T = TypeVar("T")


class Background:
    """The thread and its loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.owner = os.getpid()
        self.thread = threading.Thread(target=self._run, name="nsbox", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def alive(self) -> bool:
        return self.owner == os.getpid() and self.thread.is_alive()

    def call(self, make: Callable[["Caller"], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine of @make to its end; KeyboardInterrupt cancels it."""
        if threading.current_thread() is self.thread:
            raise UsageError("the synchronous face was called from its own event loop",
                             hint="use AsyncSandbox there")
        caller = Caller()
        future = asyncio.run_coroutine_threadsafe(make(caller), self.loop)
        future.add_done_callback(lambda _: caller.inbox.put(None))
        try:
            caller.serve()
        except BaseException:
            future.cancel()
            raise
        return future.result()

    def stop(self) -> None:
        if self.alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(5)


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
    from ._rpc import _children
    for child in list(_children):
        child.end()
    if _background is not None:
        _background.stop()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
