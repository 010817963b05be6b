"""AsyncKernel, and Kernel on top of it: an interpreter that stays, in a box that is held open.

Functions of the host can be called from the box. Must: answer every call, also when the function
raises, takes too long or returns what cannot cross; take nothing from the box but plain values
(see `_typed`).
"""

from __future__ import annotations

import asyncio
import base64
import html
import inspect
import weakref
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Iterable, Mapping, Sequence, TypeVar

from . import _frames, _typed
from ._background import Background, Caller
from ._options import request_fields
from ._rpc import Connection, Event
from .errors import BusyError, NsboxError, UsageError
from .result import Result

T = TypeVar("T")
Function = Callable[..., Any]
Show = Callable[["Display"], None]
CALL_SECONDS = 300.0            # for one function of the host
REPLY_BYTES = 16 << 20          # of one value that a function returns
_FINAL = "final"
# How a plain function of the host is run: in a thread, or by the thread that waits for the cell.
_RUN_SYNC: ContextVar[Callable[[Function], Awaitable[Any]]] = ContextVar(
    "nsbox_run_sync", default=asyncio.to_thread)
# The kernels that wait for the function that runs here.
_INSIDE: ContextVar[tuple[int, ...]] = ContextVar("nsbox_inside", default=())


@dataclass(frozen=True)
class CellError:
    """The exception that ended a cell: class name, text, lines of the user's code alone."""

    name: str
    value: str
    traceback: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}: {self.value}" if self.value else self.name


class ExecutionError(NsboxError):
    """Cell.unwrap() of a cell that failed; `cell` is it."""

    code = "execution"

    def __init__(self, cell: "Cell") -> None:
        super().__init__(str(cell.error) if cell.error is not None else cell.status)
        self.cell = cell


@dataclass(frozen=True)
class Display:
    """One rich result: MIME type -> text, or base64 of bytes for pictures."""

    mime: Mapping[str, str]

    def data(self, kind: str) -> bytes:
        """The bytes of one type. KeyError when the cell gave no such one."""
        text = self.mime[kind]
        if kind.startswith("image/") and kind != "image/svg+xml":
            return base64.b64decode(text)
        return text.encode("utf-8", "replace")


@dataclass(frozen=True)
class Cell:
    """How one cell, command or file operation ended.

    `status`: ok, error, final (a function marked as final ended it), interrupted, timed_out,
    exited (the interpreter died). `text` is the repr() of the last expression, `value` the value
    itself. `restarted`: the interpreter is a new one, and its variables are gone.
    """

    status: str
    stdout: str = ""
    stderr: str = ""
    text: str | None = None
    displays: tuple[Display, ...] = ()
    error: CellError | None = None
    execution_count: int | None = None
    exit_code: int | None = None
    restarted: bool = False
    record: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    types: tuple[type, ...] = field(default=(), repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """It ran to its end, or to a final answer."""
        return self.status in ("ok", _FINAL)

    @property
    def is_final(self) -> bool:
        """A function marked as final ended it; `value` is its value."""
        return self.status == _FINAL

    @property
    def stdout_truncated(self) -> bool:
        """There was more than limits.stdout; `stdout` is the begin of it."""
        return bool(self.record.get("stdout_truncated"))

    @property
    def stderr_truncated(self) -> bool:
        """There was more than limits.stderr; `stderr` is the begin of it."""
        return bool(self.record.get("stderr_truncated"))

    @property
    def value(self) -> Any:
        """The value of the last expression, decoded anew at each use; None when there was none.
        A Remote when it could not cross; ValueError when the box sent what is no value."""
        return _typed.decode(self.record.get("value"), self.types)

    @property
    def data(self) -> bytes:
        """The bytes of a file (get). KeyError for other operations."""
        return base64.b64decode(self.record["data"])

    def unwrap(self) -> Any:
        """The value; raises ExecutionError when the cell did not end well."""
        if not self.ok:
            raise ExecutionError(self)
        return self.value

    def _repr_html_(self) -> str:
        parts = [f"<pre>{html.escape(text)}{' [...]' if is_cut else ''}</pre>" for text, is_cut in (
            (self.stdout, self.stdout_truncated), (self.stderr, self.stderr_truncated)) if text]
        for display in self.displays:
            if "image/png" in display.mime:
                data = base64.b64encode(display.data("image/png")).decode("ascii")
                parts.append(f"<img src='data:image/png;base64,{data}'>")
            elif "text/plain" in display.mime:
                parts.append(f"<pre>{html.escape(display.mime['text/plain'])}</pre>")
        if self.error is not None:
            lines = "\n".join(self.error.traceback) or str(self.error)
            parts.append(f"<pre>{html.escape(lines)}</pre>")
        elif self.text is not None:
            parts.append(f"<pre>{html.escape(self.text)}</pre>")
        return f"<div class='nsbox-cell'>{''.join(parts)}</div>"


def _base64(data: str | bytes) -> str:
    """Lone surrogates as the bytes that they would be, as in source text."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    return base64.b64encode(raw).decode("ascii")


def _error_of(record: Mapping[str, Any] | None) -> CellError | None:
    if record is None:
        return None
    return CellError(str(record.get("name")), str(record.get("value")),
                     tuple(map(str, record.get("traceback") or ())))


async def _caught(work: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The value of @work, or what it raised. SystemExit as a value: as an exception of a task
    it would end the event loop, and with it every call."""
    try:
        return await work, None
    except (Exception, SystemExit) as e:
        return None, e


class _Pieces:
    """What comes before the done of one request, calls of the host's functions included."""

    def __init__(self, kernel: "AsyncKernel", on_stdout: Any, on_stderr: Any,
                 on_display: Show | None, on_input: Function | None) -> None:
        self.kernel = kernel
        self.own = {"input": on_input} if on_input is not None else {}
        self.run_sync = _RUN_SYNC.get()
        self.calls: set[asyncio.Task[None]] = set()
        self.keep = True
        self.text: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self.displays: list[Display] = []
        self.takers = {"stdout": on_stdout, "stderr": on_stderr, "display": on_display}

    def on_event(self, event: Event) -> None:
        kind = event["event"]
        if kind in self.text:
            text = event.get("text", event.get("data", ""))
            if isinstance(text, dict):
                text = base64.b64decode(text.get("base64", "")).decode("utf-8", "replace")
            text = str(text)
            if self.keep:
                self.text[kind].append(text)
            if self.takers[kind] is not None:
                self.takers[kind](text)
        elif kind == "display":
            display = Display({str(k): str(v) for k, v in (event.get("mime") or {}).items()})
            self.displays.append(display)
            if self.takers[kind] is not None:
                self.takers[kind](display)
        elif kind == "call":
            task = asyncio.get_running_loop().create_task(self._answer(event))
            self.calls.add(task)
            task.add_done_callback(self.calls.discard)

    async def _answer(self, event: Event) -> None:
        kernel = self.kernel
        try:
            reply = {"value": _typed.encode(await self._in_time(event))}
            if len(_frames.encode(reply)) > kernel.reply_bytes:
                raise UsageError(f"the value has more than {kernel.reply_bytes} bytes")
        except (Exception, SystemExit) as e:    # whatever the function raises is the answer
            # str() of a KeyError is the repr() of its key, and would be quoted once more there.
            text = str(e.args[0]) if type(e) is KeyError and len(e.args) == 1 else str(e)
            text = text.encode("utf-8", "backslashreplace").decode("utf-8")[:1 << 16]
            reply = {"error": {"name": type(e).__name__, "value": text}}
        kernel._reply(event["call"], reply)

    async def _in_time(self, event: Event) -> Any:
        # Not wait_for(): its TimeoutError cannot be told from one that the function raises.
        seconds = self.kernel.call_seconds
        task = asyncio.ensure_future(_caught(self._invoke(event)))
        try:
            await asyncio.wait([task], timeout=seconds)
        finally:
            task.cancel()       # does nothing to one that is done
        if not task.done():
            raise TimeoutError(f"{event.get('name')}() took more than {seconds:g} s")
        if task.cancelled():    # by itself: what it waited for was cancelled
            raise RuntimeError(f"{event.get('name')}() was cancelled")
        value, error = task.result()
        if error is not None:
            raise error
        return value

    async def _invoke(self, event: Event) -> Any:
        name = event.get("name", "")
        function = self.own.get(name) or self.kernel._functions.get(name)
        if function is None:
            raise NameError(f"the host has no function {name!r}")
        types = self.kernel._types
        _INSIDE.set((*_INSIDE.get(), id(self.kernel)))
        args = _typed.decode(event.get("args") or [], types)
        kwargs = {str(k): _typed.decode(v, types) for k, v in (event.get("kwargs") or {}).items()}
        if inspect.iscoroutinefunction(function):
            return await function(*args, **kwargs)
        value = await self.run_sync(lambda: function(*args, **kwargs))
        return await value if inspect.isawaitable(value) else value

    def cell(self, done: Mapping[str, Any]) -> Cell:
        displays = list(self.displays)
        if done.get("mime"):
            displays.append(Display({str(k): str(v) for k, v in done["mime"].items()}))
        return Cell(status=str(done.get("status")), stdout="".join(self.text["stdout"]),
                    stderr="".join(self.text["stderr"]), text=done.get("repr"),
                    displays=tuple(displays), error=_error_of(done.get("error")),
                    execution_count=done.get("execution_count"), exit_code=done.get("exit_code"),
                    restarted=bool(done.get("restarted")), record=done, types=self.kernel._types)


class AsyncKernel:
    """`kernel = await box.open("python"); (await kernel.execute("x = 6; x * 7")).value`

    Made by AsyncSandbox.open(). Requests are done one after another. A cancelled execute()
    interrupts the cell. Used by one event loop.
    """

    def __init__(self, connection: Connection, box: str, language: str,
                 types: Iterable[type] = ()) -> None:
        self._connection = connection
        self._box = box
        self._types = tuple(types)
        self._functions: dict[str, Function] = {}
        self._turn = asyncio.Lock()
        self._closed = False
        # Whoever forgets the kernel forgets the box: it would be held for a day.
        self._forgotten = weakref.finalize(self, connection.abandon, {"op": "close", "box": box})
        self._forgotten.atexit = False
        self.language = language
        self.call_seconds = CALL_SECONDS
        self.reply_bytes = REPLY_BYTES

    async def __aenter__(self) -> "AsyncKernel":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- requests -----------------------------------------------------------
    async def _ask(self, op: str, fields: dict[str, Any], on_stdout: Any = None,
                   on_stderr: Any = None, on_display: Show | None = None,
                   on_input: Function | None = None, keep_output: bool = True) -> Cell:
        if self._closed:
            raise UsageError("the kernel is closed")
        if id(self) in _INSIDE.get():
            raise BusyError("the kernel waits for this function, which asks the kernel",
                            hint="return first, or use another kernel")
        pieces = _Pieces(self, on_stdout, on_stderr, on_display, on_input)
        pieces.keep = keep_output
        async with self._turn:      # what is not sent yet can be cancelled
            try:
                done = await self._connection.request(op, {"box": self._box, **fields},
                                                      pieces.on_event)
            finally:
                for task in pieces.calls:   # of a cell that ended without waiting for them
                    task.cancel()
        return pieces.cell(done)

    async def execute(self, code: str, *, timeout: float | None = None,
                      env: Mapping[str, str] | None = None, store: bool = True,
                      on_input: Callable[[str], str] | None = None,
                      on_stdout: Callable[[str], None] | None = None,
                      on_stderr: Callable[[str], None] | None = None,
                      on_display: Show | None = None, keep_output: bool = True) -> Cell:
        """Run a cell. What it raises is in the Cell.

        timeout: seconds, then it is interrupted; env: variables of this cell alone; store=False:
        out of the history and the count; on_input: answers input(prompt), without it input()
        reads an empty stdin; on_*: called with pieces as they come; keep_output=False: the Cell
        has no stdout and stderr, for callers that bound them while they come.
        """
        fields: dict[str, Any] = {"code": code}
        if timeout is not None:
            fields["timeout_ms"] = max(1, round(timeout * 1000))
        if env:
            fields["env"] = dict(env)
        if not store:
            fields["store"] = False
        if on_input is not None:
            fields["stdin"] = True
        return await self._ask("execute", fields, on_stdout, on_stderr, on_display, on_input,
                               keep_output)

    async def set(self, **values: Any) -> Cell:
        """Put values into the namespace. UsageError for one that cannot cross."""
        return await self._ask("set", {"values": {k: _typed.encode(v)
                                                  for k, v in values.items()}})

    async def tools(self, functions: Mapping[str, Function], final: Iterable[str] = ()) -> Cell:
        """Make functions of the host callable from cells, under their keys.

        A name in @final ends the cell with the function's value (status "final"). Coroutine
        functions are awaited; others run in a thread. What one raises is raised in the cell.
        """
        ending = set(final)
        specs = []
        for name, function in functions.items():
            if not callable(function):
                raise UsageError(f"the tool {name!r} is no function")
            spec: dict[str, Any] = {"name": name, "doc": inspect.getdoc(function) or ""}
            if name in ending:
                spec["final"] = True
            specs.append(spec)
        self._functions.update(functions)
        return await self._ask("tools", {"tools": specs})

    async def exec(self, argv: Sequence[str], *, stdin: str | bytes | None = None,
                   cwd: str | None = None, env: Mapping[str, str] | None = None,
                   timeout: float | None = None,
                   on_stdout: Callable[[str], None] | None = None,
                   on_stderr: Callable[[str], None] | None = None) -> Cell:
        """Run a command in the same box; `exit_code` is 128+n after signal n, 127 not found."""
        fields: dict[str, Any] = {"argv": list(argv)}
        if stdin is not None:
            fields["stdin"] = _base64(stdin)
        if cwd is not None:
            fields["cwd"] = cwd
        if env:
            fields["env"] = dict(env)
        if timeout is not None:
            fields["timeout_ms"] = max(1, round(timeout * 1000))
        return await self._ask("exec", fields, on_stdout, on_stderr)

    async def put(self, path: str, data: str | bytes, mode: int | None = None) -> Cell:
        """Write a file in the box."""
        fields: dict[str, Any] = {"path": path, "data": _base64(data)}
        if mode is not None:
            fields["mode"] = mode
        return await self._ask("put", fields)

    async def get(self, path: str, max_bytes: int | None = None) -> bytes:
        """Read a file of the box; with @max_bytes its first so many. Raises ExecutionError when
        it cannot be read, UsageError when it is too large to come back whole and no @max_bytes
        says that a part will do."""
        fields: dict[str, Any] = {"path": path}
        if max_bytes is not None:
            fields["max_bytes"] = max_bytes
        cell = await self._ask("get", fields)
        if not cell.ok:
            raise ExecutionError(cell)
        if max_bytes is None and cell.record.get("truncated"):
            raise UsageError(f"{path} has {cell.record.get('size')} bytes, of which "
                             f"{len(cell.data)} can come back at once",
                             hint="give max_bytes for a part, or split the file in the box")
        return cell.data

    async def list(self, path: str = ".") -> Any:
        """What is in a folder of the box: the entries as the box tells them."""
        cell = await self._ask("list", {"path": path})
        if not cell.ok:
            raise ExecutionError(cell)
        return cell.record.get("entries")

    async def interrupt(self) -> None:
        """Interrupt the cell in hand; one that goes on for 2 s is killed, and the interpreter
        started anew."""
        await self._connection.request("interrupt", {"box": self._box})

    async def close(self) -> Result | None:
        """End the interpreter and its box; the result of its run. None the second time."""
        if self._closed:
            return None
        self._closed = True
        self._forgotten.detach()
        if self._connection.lost:
            return None
        got = await self._connection.request("close", {"box": self._box})
        return Result.from_record(got) if got and "schema" in got else None

    def _reply(self, call: Any, reply: dict[str, Any]) -> None:
        if not self._closed and not self._connection.lost:
            self._connection.post("reply", {"box": self._box, "call": call, **reply})


async def open_kernel(connection: Connection, language: str, options: Mapping[str, Any],
                      types: Iterable[type],
                      on_event: Callable[[Event], None] | None = None) -> AsyncKernel:
    """The op open; see AsyncSandbox.open(). @on_event: for what comes before its answer."""
    asked = {"language": language, **request_fields(options)}
    if on_event is not None:
        asked["progress"] = True
    got = await connection.request("open", asked, on_event)
    return AsyncKernel(connection, got["box"], language, types)


class Kernel:
    """The synchronous face of AsyncKernel: same methods, same meaning.

    Callbacks and functions of the host run in the thread that waits for the cell.
    """

    def __init__(self, background: Background, kernel: AsyncKernel) -> None:
        self._background = background
        self._async = kernel
        self.language = kernel.language

    def __enter__(self) -> "Kernel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, make: Callable[[Caller], Awaitable[T]]) -> T:
        async def work(caller: Caller) -> T:
            _RUN_SYNC.set(caller.run)
            return await make(caller)
        return self._background.call(work)

    def execute(self, code: str, *, timeout: float | None = None,
                env: Mapping[str, str] | None = None, store: bool = True,
                on_input: Callable[[str], str] | None = None,
                on_stdout: Callable[[str], None] | None = None,
                on_stderr: Callable[[str], None] | None = None,
                on_display: Show | None = None, keep_output: bool = True) -> Cell:
        """As AsyncKernel.execute()."""
        return self._call(lambda caller: self._async.execute(
            code, timeout=timeout, env=env, store=store, on_input=on_input,
            on_stdout=caller.soon(on_stdout), on_stderr=caller.soon(on_stderr),
            on_display=caller.soon(on_display), keep_output=keep_output))

    def set(self, **values: Any) -> Cell:
        """As AsyncKernel.set()."""
        return self._call(lambda _: self._async.set(**values))

    def tools(self, functions: Mapping[str, Function], final: Iterable[str] = ()) -> Cell:
        """As AsyncKernel.tools()."""
        return self._call(lambda _: self._async.tools(functions, final))

    def exec(self, argv: Sequence[str], *, on_stdout: Callable[[str], None] | None = None,
             on_stderr: Callable[[str], None] | None = None, **options: Any) -> Cell:
        """As AsyncKernel.exec()."""
        return self._call(lambda caller: self._async.exec(
            argv, on_stdout=caller.soon(on_stdout), on_stderr=caller.soon(on_stderr), **options))

    def put(self, path: str, data: str | bytes, mode: int | None = None) -> Cell:
        """As AsyncKernel.put()."""
        return self._call(lambda _: self._async.put(path, data, mode))

    def get(self, path: str, max_bytes: int | None = None) -> bytes:
        """As AsyncKernel.get()."""
        return self._call(lambda _: self._async.get(path, max_bytes))

    def list(self, path: str = ".") -> Any:
        """As AsyncKernel.list()."""
        return self._call(lambda _: self._async.list(path))

    def interrupt(self) -> None:
        """As AsyncKernel.interrupt(); from another thread than the one that waits."""
        self._background.call(lambda _: self._async.interrupt())

    def close(self) -> Result | None:
        """As AsyncKernel.close(). None as well when the interpreter ends, and ended it."""
        if self._background.is_over:
            return None
        return self._background.call(lambda _: self._async.close())
