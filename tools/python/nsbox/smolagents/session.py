"""The interpreter of one executor: opened at first use, and put back into shape when it died.

Must: run tools on the host, in the thread that waits for the cell; keep a final answer even when
the cell catches what ends it. Must not: take anything from the box but plain values.
"""

from __future__ import annotations

import importlib.resources
import threading
from typing import Any, Callable, Iterable, Mapping

from .._kernel import Cell, Kernel
from .._options import request_fields
from .._sandbox import Sandbox
from .._typed import encode
from ..errors import BusyError, ConnectionLostError, UsageError

Tool = Callable[..., Any]
FINAL = "final_answer"
LIFE = 86_400.0     # seconds that a box may live, unless the option `timeout` says otherwise
STREAM = "16M"      # of one cell's output are looked at; what is kept of it is far less
GONE = "the interpreter was started anew: its variables are gone"


def _prelude(is_local: bool) -> str:
    source = importlib.resources.files("nsbox.smolagents").joinpath("prelude.py").read_text("utf-8")
    return (f"exec(compile({source!r}, '<nsbox>', 'exec'), {{'__name__': 'nsbox_smolagents', "
            "'__builtins__': __builtins__, 'MAIN': globals(), "
            f"'TRANSFORMERS': __nsbox_transformers__, 'LOCAL': {is_local}}})")


def _in_prelude(name: str) -> str:
    """An expression for what prelude.py calls @name."""
    return f"__nsbox_transformers__[0].__globals__[{name!r}]"


class Session:
    """Cells, variables and tools of one box. Options are those of a Sandbox."""

    def __init__(self, options: Mapping[str, Any], *, is_local: bool,
                 types: Iterable[type] = (), binary: str | None = None) -> None:
        self._options = {"timeout": LIFE, "limits_stdout": STREAM, "limits_stderr": STREAM,
                         **options}
        request_fields(self._options)       # a wrong option is told here
        self._is_local, self._types = is_local, tuple(types)
        self._sandbox = Sandbox(binary=binary)
        self._lock = threading.RLock()
        self._is_busy = self._is_closed = False
        self._kernel: Kernel | None = None
        self._is_ready = False              # prelude, tools and variables are in the box
        self._tools: dict[str, Tool] = {}
        self._variables: dict[str, Any] = {}
        self._answer: tuple[Any] | None = None
        self.has_run = False                # there may be variables of the code's own

    # --- what the code has ------------------------------------------------------
    def send_variables(self, variables: Mapping[str, Any]) -> None:
        """Copies of @variables, for all later cells. Raises UsageError for what cannot cross."""
        if "self" in variables:
            raise UsageError("a variable of the box cannot be called 'self'")
        for value in variables.values():
            encode(value)
        self._variables.update(variables)
        if self._is_ready:
            self._guard(lambda kernel: kernel.set(**variables))

    def send_tools(self, tools: Mapping[str, Tool]) -> None:
        """Functions that cells call and the host runs. `final_answer` ends the cell."""
        made = {name: self._host_function(name, tool) for name, tool in tools.items()}
        self._tools.update(made)
        if self._is_ready and made:
            self._guard(lambda kernel: self._put_tools(kernel, made))

    def _host_function(self, name: str, tool: Tool) -> Tool:
        def call(*args: Any, **kwargs: Any) -> Any:
            return tool(*args, **kwargs)

        def finish(*args: Any, **kwargs: Any) -> None:
            # The answer stays here, where it cannot be lost to an "except:" of the code.
            self._answer = (tool(*args, **kwargs),)

        made: Tool = finish if name == FINAL else call
        made.__name__ = name
        made.__doc__ = getattr(tool, "description", None) or tool.__doc__
        return made

    def _put_tools(self, kernel: Kernel, tools: Mapping[str, Tool]) -> None:
        self._expect(kernel.tools(tools, final=[FINAL] if FINAL in tools else ()))
        self._expect(kernel.execute(f"{_in_prelude('PROTECTED')}.update({sorted(tools)!r})",
                                    store=False))

    # --- running ------------------------------------------------------------------
    def run(self, code: str, timeout: float | None,
            on_print: Callable[[str], None]) -> tuple[Cell, tuple[Any] | None]:
        """One cell, and (value,) when it gave the final answer."""
        def work(kernel: Kernel) -> Cell:
            self._answer = None
            self.has_run = True
            return kernel.execute(code, timeout=timeout, on_stdout=on_print, on_stderr=on_print,
                                  keep_output=False)
        with self._lock:        # until the answer is taken: another thread's call clears it
            cell = self._guard(work)
            answer, self._answer = self._answer, None
        return cell, answer

    def look(self, expression: str) -> Cell:
        """Evaluate something of ours, out of the history of cells."""
        cell: Cell = self._guard(lambda kernel: kernel.execute(expression, store=False,
                                                               timeout=60))
        return cell

    def names(self) -> list[str]:
        """Of the variables that cells and send_variables() made."""
        return [str(n) for n in self._expect(self.look(f"{_in_prelude('names_of_user')}()")).value
                if n not in self._tools]

    def _guard(self, work: Callable[[Kernel], Any]) -> Any:
        with self._lock:
            if self._is_busy:
                raise UsageError("a tool cannot use the executor whose code called it",
                                 hint="give it an executor of its own")
            self._is_busy = True
            try:
                got = work(self._ready())
            except (ConnectionLostError, BusyError):
                self._drop()
                raise
            finally:
                self._is_busy = False
            if isinstance(got, Cell) and got.restarted:
                self._is_ready = self.has_run = False
            return got

    def _ready(self) -> Kernel:
        if self._is_closed:
            raise UsageError("the executor was cleaned up")
        if self._kernel is None:
            self._kernel = self._sandbox.open("python", types=self._types, **self._options)
            self._kernel._async.call_seconds = LIFE     # a tool may be an agent
        if not self._is_ready:
            self._expect(self._kernel.execute(_prelude(self._is_local), store=False))
            if self._tools:
                self._put_tools(self._kernel, self._tools)
            if self._variables:
                self._expect(self._kernel.set(**self._variables))
            self._is_ready = True
        return self._kernel

    @staticmethod
    def _expect(cell: Cell) -> Cell:
        cell.unwrap()
        return cell

    # --- packages and the end -------------------------------------------------------
    def plain_code(self, source: str) -> str:
        """What @source prints in a box of its own with the same options but no import rules."""
        options = {k: v for k, v in self._options.items()
                   if k not in ("allow_imports", "imports_allow", "imports_mode")}
        result = self._sandbox.code(source, **{**options, "timeout": 60})
        if not result.success:
            raise UsageError(f"the interpreter of the box cannot be asked: "
                             f"{result.reason or result.stderr.strip()[-500:]}")
        return result.stdout

    def add_packages(self, specs: list[str]) -> None:
        """Have the next box with @specs installed."""
        if self.has_run:
            raise UsageError("packages are mounted when a box is opened, and this one has run code",
                             hint="give them to the executor as additional_imports, or make a "
                                  "new executor")
        held = self._options.get("packages") or ()
        packages = [held] if isinstance(held, str) else list(held)
        with self._lock:
            self._options["packages"] = packages + [s for s in specs if s not in packages]
            self._drop()

    def _drop(self) -> None:
        kernel, self._kernel = self._kernel, None
        self._is_ready = self.has_run = False
        if kernel is not None and not self._sandbox.lost:
            kernel.close()
        if self._sandbox.lost:
            self._sandbox = Sandbox(binary=self._sandbox._async._binary)

    def close(self) -> None:
        """End the box. May be called again."""
        if not self._is_closed:
            self._is_closed = True
            self._sandbox.close()
