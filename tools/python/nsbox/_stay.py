"""A box that stays: commands, many at once, and files that are kept between them.

One `nsbox rpc` child with one Python kernel in its box, in which a single cell runs: the program
of `_errand.py`. It asks the host for errands and says what came of them. Commands do not wait for
one another, and what one leaves running goes on running.

What comes from the box is hostile. Must: bound what is kept of it by what was asked for; take the
death of the cell for the death of the box, files and all, and fail every errand with that.
Must not: call anything by a name from the box.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import collections
import copy
import errno
import itertools
import os
import weakref
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Coroutine, Mapping, Sequence, TypeVar

from ._background import background
from ._options import request_fields
from ._rpc import Connection
from ._sandbox import AsyncSandbox
from .errors import BusyError, ConnectionLostError, NsboxError, UsageError

T = TypeVar("T")
_CHUNK = 8 << 20        # bytes in a message; as base64 it fits into a frame
_BATCH = 16 << 20       # about the most bytes of errands in one answer
_NAME_BYTES = 4095      # PATH_MAX
_WORDS_BYTES = 6 << 20  # of argv and env together; no Linux takes more
_PATIENCE = 20.0        # seconds over its timeout until a command is given up

# For a box that many commands share; what the caller sets wins.
DEFAULTS: dict[str, Any] = {"timeout": 86400, "memory": "1G", "disk": "1G", "limits_tmp": "512M",
                            "pids": 512, "limits_oom": "process", "enforce_optional": ["limits.oom"]}
# A call of another ABI is the end of a box, and on a host with 32-bit libraries `ldd` alone makes
# one: without their loader a program of that kind does not start, and the box goes on.
_FOREIGN = ("/usr/lib32", "/usr/libx32", "/usr/lib/ld-linux.so.2")


def _box_options(options: Mapping[str, Any]) -> dict[str, Any]:
    for name in ("allow_imports", "allow_import", "imports_allow"):
        if options.get(name) is not None:
            raise UsageError(f"{name}: a box of commands has no rules for imports")
    hidden = options.get("fs_hidden") or []
    return {**DEFAULTS, **options,
            "fs_hidden": [*_FOREIGN, *([hidden] if isinstance(hidden, str) else hidden)]}


@dataclass(frozen=True)
class Finished:
    """How a command ended.

    code: its status; 128 + number when a signal killed it.
    stdout, stderr: bytes; with merged=True all of it is in stdout.
    truncated: there was more output than was asked for.
    """

    code: int
    stdout: bytes
    stderr: bytes
    truncated: bool = False


class CommandError(OSError):
    """The command was not started: `errno` says why, `filename` what (a command, a folder)."""


class FileTooLargeError(OSError):
    """The file has more bytes than were asked for."""


class CommandTimeoutError(TimeoutError):
    """The command was killed at the end of its time. `finished` has what it printed until then."""

    def __init__(self, text: str, finished: Finished) -> None:
        super().__init__(text)
        self.finished = finished


class OutputTooLongError(Exception):
    """There was more output than was asked for, and the command was killed. `finished` has the begin."""

    def __init__(self, finished: Finished) -> None:
        super().__init__(f"the output has more than {len(finished.stdout)} bytes")
        self.finished = finished


def _pack(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def bytes_of(text: str) -> bytes:
    """As os.fsencode(); a lone surrogate that is no byte, as a model may write one, becomes the
    bytes that it would be: the command judges them, not we."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _packed(text: str) -> str:
    return _pack(bytes_of(text))


def _check_name(path: str) -> None:
    if len(bytes_of(path)) > _NAME_BYTES:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path[:80])


@dataclass
class _Errand:
    room: int                               # bytes of each stream
    end: "asyncio.Future[dict[str, Any]]"
    streams: dict[str, bytearray] = field(
        default_factory=lambda: {"stdout": bytearray(), "stderr": bytearray()})


def _tagged_bytes(value: Any) -> bytes:
    if not isinstance(value, dict) or value.get("$t") != "bytes":
        raise ValueError("no bytes")
    return base64.b64decode(value["v"], validate=True)


def _errno_of(end: Mapping[str, Any]) -> int | None:
    number = end.get("errno")
    if number is None:
        return None
    return number if type(number) is int and 0 < number < 4096 else errno.EIO


class AsyncStay:
    """Belongs to one event loop; `Stay` does not."""

    def __init__(self, *, binary: str | None = None, **options: Any) -> None:
        self._sandbox = AsyncSandbox(binary=binary)
        self._fields = request_fields(_box_options(options))
        self._numbers = itertools.count(1)
        self._errands: dict[int, _Errand] = {}
        self._orders: "collections.deque[tuple[int, dict[str, Any]]]" = collections.deque()
        self._asked: int | None = None      # the call that waits for errands
        self._cell: "asyncio.Task[None] | None" = None
        self._lost: Exception | None = None
        self._opening = asyncio.Lock()
        self._name = ""

    # --- open and close ------------------------------------------------------------
    async def open(self) -> None:
        """Start the box, once. The first command does it as well. Raises nsbox.errors."""
        async with self._opening:
            if self._cell is None and self._lost is None:
                try:
                    await self._start()
                except BaseException as e:
                    self._fail(e if isinstance(e, Exception) else
                               ConnectionLostError("opening the box was cancelled"))
                    await self._sandbox.close()
                    raise
        self._usable()

    def _usable(self) -> None:
        # Each time a new exception: one that is raised twice adds up tracebacks.
        if self._lost is not None:
            raise copy.copy(self._lost)

    async def _start(self) -> None:
        await self._sandbox.connect()
        self._connection: Connection = self._sandbox._open()
        opened = await self._connection.request("open", {"language": "python", **self._fields})
        self._name = opened["box"]
        await self._in_box("tools", tools=[{"name": "errand_next", "doc": ""},
                                           {"name": "errand_said", "doc": ""}])
        self._cell = asyncio.get_running_loop().create_task(self._run_cell())

    async def close(self) -> None:
        """Kill all that runs in the box; its files are gone."""
        self._fail(UsageError("the box is closed"))
        await self._sandbox.close()
        if self._cell is not None:
            await asyncio.wait([self._cell])

    def hang_up(self) -> None:
        """End the box without waiting; from any thread."""
        self._sandbox.hang_up()

    async def _in_box(self, op: str, **fields: Any) -> dict[str, Any]:
        done: dict[str, Any] = await self._connection.request(op, {"box": self._name, **fields}, self._hear)
        if done.get("status") != "ok":
            error = done.get("error") or {}
            raise ConnectionLostError(
                f"the box ended: {done.get('status')}: {error.get('name')}: {error.get('value')}",
                hint="its files are gone; make a new one")
        return done

    async def _run_cell(self) -> None:
        source = resources.files("nsbox").joinpath("_errand.py").read_text("utf-8")
        try:
            await self._in_box("execute", code=source, store=False)
            self._fail(ConnectionLostError("the box stopped taking commands"))
        except Exception as e:
            self._fail(e)

    def _fail(self, why: Exception) -> None:
        self._lost = self._lost or why
        for errand in list(self._errands.values()):
            if not errand.end.done():
                errand.end.set_exception(copy.copy(self._lost))

    @property
    def lost(self) -> bool:
        """Every call would raise: the box is over, or was closed."""
        return self._lost is not None

    # --- the errands ---------------------------------------------------------------
    def _hear(self, event: Mapping[str, Any]) -> None:
        if event.get("event") != "call" or self._lost is not None:
            return
        call, name, args = event.get("call"), event.get("name"), event.get("args")
        if not isinstance(call, int):
            return
        if name == "errand_next":
            self._asked = call
            self._hand_out()
            return
        if name == "errand_said" and isinstance(args, list) and len(args) == 3:
            self._take(*args)
        self._reply(call, None)

    def _reply(self, call: int, value: Any) -> None:
        self._connection.post("reply", {"box": self._name, "call": call, "value": value})

    def _hand_out(self) -> None:
        if self._asked is None or not self._orders:
            return
        batch, size = [], 0
        while self._orders and size < _BATCH:
            bytes_, order = self._orders.popleft()
            batch.append(order)
            size += bytes_
        call, self._asked = self._asked, None
        self._reply(call, batch)

    def _take(self, number: Any, what: Any, value: Any) -> None:
        errand = self._errands.get(number) if isinstance(number, int) else None
        if errand is None or errand.end.done():
            return
        if what == "end" and isinstance(value, dict):
            errand.end.set_result(value)
            return
        try:
            data = _tagged_bytes(value)
            stream = errand.streams[what]
        except (ValueError, KeyError, TypeError, binascii.Error):
            errand.end.set_exception(ConnectionLostError("the box said what it must not"))
            return
        if len(stream) + len(data) > errand.room:
            errand.end.set_exception(ConnectionLostError("the box said more than it was asked"))
            return
        stream += data

    def _order(self, number: int, what: str, data: bytes = b"", size: int = 0,
               **fields: Any) -> None:
        self._usable()
        order = {"n": number, "do": what, **fields}
        if what in ("stdin", "write"):
            order["data"] = _pack(data)
        self._orders.append((len(data) + size, order))
        self._hand_out()

    async def _begin(self, number: int, room: int) -> _Errand:
        await self.open()
        if len(self._errands) >= 1024:
            raise BusyError("1024 commands run in this box already")
        errand = _Errand(room, asyncio.get_running_loop().create_future())
        self._errands[number] = errand
        return errand

    async def _end(self, number: int, patience: float | None = None) -> dict[str, Any]:
        try:
            return await asyncio.wait_for(self._errands[number].end, patience)
        except (asyncio.CancelledError, asyncio.TimeoutError) as e:
            try:
                self._order(number, "kill")
                self._order(number, "drop")
            except NsboxError:
                pass    # the box is gone, and the command with it
            if isinstance(e, asyncio.CancelledError):
                raise
            raise CommandTimeoutError("the box says nothing of a command that is over its time",
                                      Finished(-1, b"", b"")) from None
        finally:
            del self._errands[number]

    # --- commands --------------------------------------------------------------------
    async def exec(self, argv: Sequence[str], *, input: bytes | None = None, cwd: str = "",
                   env: Mapping[str, str] | None = None, timeout: float | None = None,
                   room: int = 10 << 20, strict: bool = False, merged: bool = False) -> Finished:
        """Run a command in the box and wait for its end.

        @cwd: relative ones are within the box's working folder. @timeout: seconds; then it and
        all that it started is killed, and CommandTimeoutError raised. @room: bytes kept of each stream.
        @strict: more output is OutputTooLongError, and kills. @merged: stderr goes to stdout.
        Raises CommandError when it cannot be started, PermissionError when it may not be.
        """
        if isinstance(argv, (str, bytes)) or not argv:
            raise UsageError("argv wants a list of words, the command first")
        if timeout is not None and timeout <= 0:
            raise UsageError(f"timeout: {timeout!r} is no number of seconds")
        size = sum(len(bytes_of(w)) for w in (*argv, *(x for pair in (env or {}).items() for x in pair)))
        if size > _WORDS_BYTES:
            raise CommandError(errno.E2BIG, os.strerror(errno.E2BIG), argv[0][:80])
        _check_name(cwd)
        number = next(self._numbers)
        errand = await self._begin(number, room)
        pairs = [[_packed(k), _packed(v)] for k, v in (env or {}).items()]
        try:
            if input is not None:
                for at in range(0, len(input) or 1, _CHUNK):
                    self._order(number, "stdin", input[at:at + _CHUNK])
            self._order(number, "exec", size=size, argv=[_packed(word) for word in argv], env=pairs,
                        cwd=_packed(cwd), timeout=timeout, room=room, strict=strict,
                        merged=merged)
        except BaseException:
            del self._errands[number]
            raise
        end = await self._end(number, None if timeout is None else timeout + _PATIENCE)
        self._raise_for(end, argv[0], cwd)
        code = end.get("code")
        finished = Finished(code if type(code) is int and 0 <= code < 256 else -1,
                            bytes(errand.streams["stdout"]), bytes(errand.streams["stderr"]),
                            end.get("cut") is True)
        if end.get("why") == "timeout":
            raise CommandTimeoutError(f"{argv[0]}: no end within {timeout:g} s", finished)
        if end.get("why") == "output" or strict and finished.truncated:
            raise OutputTooLongError(finished)
        return finished

    @staticmethod
    def _raise_for(end: Mapping[str, Any], command: str, cwd: str) -> None:
        number = _errno_of(end)
        if number is None:
            return
        if end.get("what") == "cwd":
            raise CommandError(number, os.strerror(number), cwd)
        if isinstance(error := OSError(number, os.strerror(number), command), PermissionError):
            raise error
        raise CommandError(number, os.strerror(number), command)

    # --- files -----------------------------------------------------------------------
    async def write(self, path: str, data: bytes) -> None:
        """Make or replace a file, and the folders above it. Raises the classes of OSError."""
        _check_name(path)
        number = next(self._numbers)
        for at in range(0, len(data) or 1, _CHUNK):
            await self._begin(number, 0)
            try:
                self._order(number, "write", data[at:at + _CHUNK], path=_packed(path),
                            more=at + _CHUNK < len(data))
            except BaseException:
                del self._errands[number]
                raise
            self._raise_for_file(await self._end(number), path)

    async def read(self, path: str, room: int = 100 << 20) -> bytes:
        """A file's bytes. Raises the classes of OSError; FileTooLargeError: more than @room."""
        _check_name(path)
        number = next(self._numbers)
        errand = await self._begin(number, room)
        try:
            self._order(number, "read", path=_packed(path), room=room)
        except BaseException:
            del self._errands[number]
            raise
        self._raise_for_file(await self._end(number), path)
        return bytes(errand.streams["stdout"])

    @staticmethod
    def _raise_for_file(end: Mapping[str, Any], path: str) -> None:
        number = _errno_of(end)
        if number is not None:
            if number == errno.EFBIG:
                raise FileTooLargeError(number, os.strerror(number), path)
            raise OSError(number, os.strerror(number), path)


class Stay:
    """AsyncStay for any thread and any event loop: it lives on the loop of the background thread.

    `call()` waits; `on_loop()` is for `await` in an asyncio loop. A cancelled await kills the
    command.
    """

    def __init__(self, **options: Any) -> None:
        self._background = background()
        self.inner = AsyncStay(**options)
        # The task of its cell keeps `inner` alive; who forgets this object forgets the box.
        weakref.finalize(self, self.inner.hang_up).atexit = False

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run @work, of `inner`, and wait."""
        return self._background.call(lambda _: work)

    async def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run @work, of `inner`, from another asyncio loop."""
        return await asyncio.wrap_future(self._background.submit(work))

    def close(self) -> None:
        """End the box, also while the interpreter ends. May be called again."""
        if not self._background.is_over:
            self.call(self.inner.close())
