"""AsyncSandbox, and Sandbox on top of it.

A sandbox is a connection with default options. Each run has a fresh box that is gone after it.
"""

from __future__ import annotations

import asyncio
import base64
import os
import weakref
from typing import Any, Callable, Coroutine, Iterable, Sequence, TypeVar

from ._background import Caller, background
from ._binary import find_binary
from ._options import data_field, request_fields
from ._kernel import AsyncKernel, Kernel, open_kernel
from ._rpc import Connection, Event
from .errors import UsageError
from .result import Result

T = TypeVar("T")
Output = Callable[[bytes], None]
Progress = Callable[[str], None]
LANGUAGES = ("python", "javascript", "bash")


def _chunk(event: Event) -> bytes:
    data = event.get("data", event.get("text", ""))
    if isinstance(data, dict):
        return base64.b64decode(data.get("base64", ""))
    return str(data).encode("utf-8", "surrogatepass")


def _outputs(on_stdout: Output | None, on_stderr: Output | None,
             on_progress: Progress | None = None) -> Callable[[Event], None] | None:
    """Hands pieces of output and lines of an install on; None when nobody wants them."""
    takers = {"stdout": on_stdout, "stderr": on_stderr}
    if on_stdout is None and on_stderr is None and on_progress is None:
        return None

    def on_event(event: Event) -> None:
        taker = takers.get(event["event"])
        if taker is not None:
            taker(_chunk(event))
        elif on_progress is not None and event["event"] == "progress":
            on_progress(_chunk(event).decode("utf-8", "replace"))
    return on_event


def _argv(argv: Any) -> list[str]:
    if isinstance(argv, (str, bytes)) or not argv:
        raise UsageError("argv wants a list of words, the command first",
                         hint='run(["sh", "-c", "..."]) for a line of shell')
    words = [os.fsdecode(w) if isinstance(w, (bytes, os.PathLike)) else w for w in argv]
    if not all(isinstance(w, str) for w in words):
        raise UsageError("argv wants texts")
    return words


def _source(source: Any, language: str) -> dict[str, Any]:
    if isinstance(source, (bytes, bytearray)):
        return {"language": language, "code": data_field(source, "source")}
    if not isinstance(source, str):
        raise UsageError(f"source wants text, not {type(source).__name__}")
    try:
        source.encode("utf-8")
    except UnicodeEncodeError:
        # Lone surrogates: as the bytes that they would be, which the interpreter then refuses.
        return {"language": language,
                "code": data_field(source.encode("utf-8", "surrogatepass"), "source")}
    return {"language": language, "code": source}


class AsyncSandbox:
    """`async with AsyncSandbox(memory="256M") as box: result = await box.code("print(1)")`

    Options are defaults for every call: flags of the command (`timeout` in seconds, `memory` in
    bytes or as "64M", `net`, `allow_out`, `ro`, `rw`, ...), policy keys with underscores
    (`limits_stdout`), `profile`, `policy` (a dict), `set` (key -> value), `cwd`, `env`, `stdin`,
    `artifacts` (a folder that files of the run are copied to), `interpreter`, `project`, `tier`.
    An option of a call replaces the default of that name.

    Belongs to one event loop. Many calls may be in flight. A cancelled call kills its box; the
    end of the sandbox kills all of them. Raises the classes of `nsbox.errors`.
    """

    def __init__(self, *, binary: str | None = None, **options: Any) -> None:
        request_fields(options)     # a wrong option is told here, not at the first run
        self._options = options
        self._binary = binary
        self._connection: Connection | None = None
        self._opening = asyncio.Lock()

    async def connect(self) -> "AsyncSandbox":
        """Start the `nsbox rpc` child. Done by `async with`; once is enough."""
        async with self._opening:
            if self._connection is None:
                connection = Connection([self._binary or find_binary(), "rpc"])
                await connection.open()
                self._connection = connection
                if connection.child is not None:
                    weakref.finalize(self, connection.child.hang_up)
        return self

    async def close(self) -> None:
        """End all boxes and the child. May be called again."""
        if self._connection is not None:
            await self._connection.aclose()

    def hang_up(self) -> None:
        """Have the child end all boxes, without waiting for that; from any thread."""
        if self._connection is not None and self._connection.child is not None:
            self._connection.child.hang_up()

    async def __aenter__(self) -> "AsyncSandbox":
        return await self.connect()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def hello(self) -> dict[str, Any]:
        """What the child said of itself: version, protocol, tiers, languages, pid."""
        return self._open().hello

    @property
    def lost(self) -> bool:
        """The child is gone: every call would raise. A new sandbox is needed."""
        return self._connection is not None and self._connection.lost

    def _open(self) -> Connection:
        if self._connection is None:
            raise UsageError("the sandbox is not open", hint="use it in an async with block")
        return self._connection

    async def _ask(self, op: str, fields: dict[str, Any], options: dict[str, Any],
                   on_stdout: Output | None, on_stderr: Output | None,
                   on_progress: Progress | None = None) -> Result:
        asked = {**fields, **request_fields({**self._options, **options})}
        on_event = _outputs(on_stdout, on_stderr, on_progress)
        if on_stdout is not None or on_stderr is not None:
            asked["stream"] = True
        if on_progress is not None:
            asked["progress"] = True
        return Result.from_record(await self._open().request(op, asked, on_event))

    async def run(self, argv: Sequence[str], *, on_stdout: Output | None = None,
                  on_stderr: Output | None = None, on_progress: Progress | None = None,
                  **options: Any) -> Result:
        """Run a command in a fresh box. Its failure is a result, not an error.

        @on_stdout, @on_stderr: called with pieces of output (bytes) as they come.
        @on_progress: called with a line of text when packages have to be installed first.
        """
        return await self._ask("run", {"argv": _argv(argv)}, options, on_stdout, on_stderr, on_progress)

    async def code(self, source: str | bytes, language: str = "python", *,
                   args: Sequence[str] = (), on_stdout: Output | None = None,
                   on_stderr: Output | None = None, on_progress: Progress | None = None,
                   **options: Any) -> Result:
        """Run source text (python, javascript, bash) in a fresh box, with @args as its argv."""
        fields = _source(source, language)
        if args:
            fields["args"] = _argv(args)
        return await self._ask("code", fields, options, on_stdout, on_stderr, on_progress)

    async def check(self, source: str | bytes, language: str = "python", *, ast: bool = False,
                    **options: Any) -> Result:
        """Parse only: nothing of it runs. `result.analysis` has error and imports, and with
        @ast the syntax tree of Python, bounded."""
        fields = _source(source, language)
        if ast:
            fields["ast"] = True
        return await self._ask("check", fields, options, None, None)

    async def open(self, language: str = "python", *, types: Iterable[type] = (),
                   on_progress: Progress | None = None, **options: Any) -> AsyncKernel:
        """An interpreter that stays (python, javascript, bash), in a box that is held open.

        @types: classes of the caller's (enums, namedtuples, dataclasses) that values from the
        box may be made of. It lives for a day; `timeout` (30 s) ends a cell that says none.
        @on_progress: as of run().
        """
        return await open_kernel(self._open(), language, {**self._options, **options}, types,
                                 _outputs(None, None, on_progress))

    async def doctor(self) -> dict[str, Any]:
        """What this host can enforce: the object nsbox.doctor/1."""
        return dict(await self._open().request("doctor", {}))


async def connect(**options: Any) -> AsyncSandbox:
    """An open AsyncSandbox with these options; close it."""
    return await AsyncSandbox(**options).connect()


class Sandbox:
    """The synchronous face: `with Sandbox(timeout=5) as box: box.code("print(1)").stdout`

    Same options and errors as AsyncSandbox. Works in any thread, in notebooks (where an event
    loop runs already), and opens itself at first use. Callbacks run in the calling thread.
    """

    def __init__(self, *, binary: str | None = None, **options: Any) -> None:
        self._async = AsyncSandbox(binary=binary, **options)
        self._background = background()

    def _call(self, make: Callable[[Caller], Coroutine[Any, Any, T]]) -> T:
        return self._background.call(make)

    def _with(self, make: Callable[[Caller], Coroutine[Any, Any, T]]) -> T:
        async def work(caller: Caller) -> T:
            await self._async.connect()
            return await make(caller)
        return self._call(work)

    def __enter__(self) -> "Sandbox":
        self._with(_nothing)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all boxes and the child. May be called again, also while the interpreter ends."""
        if not self._background.is_over:
            self._call(lambda _: self._async.close())

    @property
    def hello(self) -> dict[str, Any]:
        """What the child said of itself: version, protocol, tiers, languages, pid."""
        self._with(_nothing)
        return self._async.hello

    @property
    def lost(self) -> bool:
        """The child is gone: every call would raise. A new sandbox is needed."""
        return self._async.lost or not self._background.alive()

    def run(self, argv: Sequence[str], *, on_stdout: Output | None = None,
            on_stderr: Output | None = None, on_progress: Progress | None = None,
            **options: Any) -> Result:
        """As AsyncSandbox.run()."""
        return self._with(lambda caller: self._async.run(
            argv, on_stdout=caller.soon(on_stdout), on_stderr=caller.soon(on_stderr),
            on_progress=caller.soon(on_progress), **options))

    def code(self, source: str | bytes, language: str = "python", *, args: Sequence[str] = (),
             on_stdout: Output | None = None, on_stderr: Output | None = None,
             on_progress: Progress | None = None, **options: Any) -> Result:
        """As AsyncSandbox.code()."""
        return self._with(lambda caller: self._async.code(
            source, language, args=args, on_stdout=caller.soon(on_stdout),
            on_stderr=caller.soon(on_stderr), on_progress=caller.soon(on_progress), **options))

    def check(self, source: str | bytes, language: str = "python", *, ast: bool = False,
              **options: Any) -> Result:
        """As AsyncSandbox.check()."""
        return self._with(lambda _: self._async.check(source, language, ast=ast, **options))

    def open(self, language: str = "python", *, types: Iterable[type] = (),
             on_progress: Progress | None = None, **options: Any) -> Kernel:
        """As AsyncSandbox.open()."""
        return Kernel(self._background, self._with(
            lambda caller: self._async.open(language, types=types,
                                            on_progress=caller.soon(on_progress), **options)))

    def doctor(self) -> dict[str, Any]:
        """As AsyncSandbox.doctor()."""
        return self._with(lambda _: self._async.doctor())


async def _nothing(_: Caller) -> None:
    return None
