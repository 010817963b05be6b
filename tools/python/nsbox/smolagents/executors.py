"""The two executors. Both run their code in one box that lives as long as they do."""

from __future__ import annotations

import base64
import io
import json
import re
import sys
from typing import Any, Callable, Iterable, Iterator, Mapping, MutableMapping

from .._kernel import Cell
from .._typed import Remote
from ..errors import UsageError
from .imports import BASE_BUILTIN_MODULES
from .output import DEFAULT_MAX_LEN_OUTPUT, Prints, form_of, image_of
from .session import GONE, Session
from .shapes import (AgentError, CodeOutput, ExecutionTimeoutError, InterpreterError,
                     PythonExecutor, Quiet, RemotePythonExecutor, SerializationError)

_PRINTS = "_print_outputs"
_REFUSED = re.compile(r"(?:Unauthorized imports detected: (?P<before>.*)"
                      r"|import of '(?P<during>.*)' is not allowed \(imports\.allow: .*)")
_PLACE = re.compile(r'  File "<cell [^"]*>", line (\d{1,9})\b')
_FIND = """
import importlib.metadata as metadata, importlib.util as util, json
def is_there(name):
    try:
        metadata.version(name)
    except Exception:
        try:
            return util.find_spec(name.partition('.')[0]) is not None
        except (ImportError, ValueError):
            return False
    return True
print(json.dumps([name for name in %r if not is_there(name)]))
"""
_IMPORTED_AS = {"PIL": "pillow"}


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's options; his interpreter, whose packages the code expects, unless he says."""
    return {"interpreter": sys.executable or None, **options}


def _missing(session: Session, names: Iterable[str]) -> list[str]:
    """Those that the interpreter in the box cannot import."""
    wanted = sorted(set(names))
    if not wanted:
        return []
    return [str(n) for n in json.loads(session.plain_code(_FIND % (wanted,)))]


def _value_of(cell: Cell) -> Any:
    try:
        return cell.value
    except (ValueError, ImportError):   # ImportError: an array, and the host has no numpy
        return Remote("object", str(cell.text))


def _picture(data: str) -> Any:
    """An image of PIL; its bytes where the host has no PIL, None for what is no picture."""
    try:
        raw = base64.b64decode(data, validate=True)
    except ValueError:
        return None
    if not raw.startswith((b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")):
        return None
    try:
        import PIL.Image
    except ImportError:
        return raw
    try:
        image = PIL.Image.open(io.BytesIO(raw), formats=["PNG", "JPEG"])
        image.load()
        return image
    except Exception:       # whatever its readers say of bytes from a box, a bomb among them
        return None


def _timeout_text(seconds: float | None) -> str:
    return f"Code execution exceeded the maximum execution time of {seconds:g} seconds"


def _send_variables(session: Session, variables: Mapping[str, Any]) -> None:
    if not variables:
        return
    try:
        session.send_variables(variables)
    except UsageError as e:
        raise SerializationError(f"Cannot safely serialize: {e}") from None


class State(MutableMapping[str, Any]):
    """Variables of the code, read from the box as copies, and the prints of the last call."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._own: dict[str, Any] = {"__name__": "__main__"}

    def __getitem__(self, name: str) -> Any:
        if name in self._own:
            return self._own[name]
        if not name.isidentifier() or name not in self._session.names():
            raise KeyError(name)
        return _value_of(self._session.look(name))

    def __setitem__(self, name: str, value: Any) -> None:
        if name == _PRINTS:
            self._own[name] = value
        else:
            _send_variables(self._session, {name: value})

    def __delitem__(self, name: str) -> None:
        if name not in self._session.names():
            raise KeyError(name)
        self._session.look(f"del {name}")

    def __iter__(self) -> Iterator[str]:
        return iter([*self._own, *self._session.names()])

    def __len__(self) -> int:
        return len(list(iter(self)))


class _Ending:
    """cleanup(), delete() and `with`, the same for both."""

    _session: Session

    def cleanup(self) -> None:
        """End the box. May be called again."""
        self._session.close()

    def delete(self) -> None:
        """The same under its other name."""
        self.cleanup()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()


class NsboxPythonExecutor(_Ending, PythonExecutor):
    """As smolagents' LocalPythonExecutor, in a box and with the whole of Python.

    additional_authorized_imports: modules beside BASE_BUILTIN_MODULES; "pkg.*", "*".
    max_print_outputs_length: characters of prints that a call gives back, 50,000 by default.
    additional_functions: name -> function of the host. timeout_seconds: of one call, its
    tools included; None is no limit. Other options are those of nsbox.Sandbox (`memory`, `net`,
    `ro`, ...); `timeout` is
    the life of the box. `types`: classes of the caller's that values may come back as.
    Raises InterpreterError when an authorised module is not installed.
    """

    def __init__(self, additional_authorized_imports: list[str] = [],
                 max_print_outputs_length: int | None = None,
                 additional_functions: dict[str, Callable[..., Any]] | None = None,
                 timeout_seconds: float | None = 30, *, types: Iterable[type] = (),
                 binary: str | None = None, **options: Any) -> None:
        self.additional_authorized_imports = list(additional_authorized_imports)
        self.authorized_imports = sorted({*BASE_BUILTIN_MODULES,
                                          *self.additional_authorized_imports})
        self.max_print_outputs_length = DEFAULT_MAX_LEN_OUTPUT \
            if max_print_outputs_length is None else max_print_outputs_length
        self.additional_functions = dict(additional_functions or {})
        self.timeout_seconds = timeout_seconds
        rules = {"imports_allow": self.authorized_imports, "imports_mode": "strict"}
        self._session = Session({**_options(options), **rules}, is_local=True, types=types,
                                binary=binary)
        self.state = State(self._session)
        self._check_authorized_imports_are_installed()
        self._session.send_tools(self.additional_functions)

    def _check_authorized_imports_are_installed(self) -> None:
        bases = {name.partition(".")[0] for name in self.authorized_imports} - {"*"}
        missing = _missing(self._session, bases - set(BASE_BUILTIN_MODULES))
        if missing:
            raise InterpreterError(
                f"Non-installed authorized modules: {', '.join(missing)}. Please install these "
                "modules or remove them from the authorized imports list.")

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Copies of @variables: what the code changes stays in the box. Raises
        SerializationError for what cannot cross."""
        _send_variables(self._session, variables)

    def send_tools(self, tools: dict[str, Callable[..., Any]]) -> None:
        """Functions of the host that the code may call; `final_answer` ends it."""
        self._session.send_tools({**tools, **self.additional_functions})

    def __call__(self, code_action: str) -> CodeOutput:
        """Run code. Raises InterpreterError, or ExecutionTimeoutError; both keep `state`."""
        prints = self.state[_PRINTS] = Prints(self.max_print_outputs_length)
        cell, answer = self._session.run(code_action, self.timeout_seconds, prints.add)
        if answer is not None:
            return CodeOutput(output=answer[0], logs=str(prints), is_final_answer=True)
        if cell.status == "timed_out":
            raise ExecutionTimeoutError(_timeout_text(self.timeout_seconds) +
                                        (f" ({GONE})" if cell.restarted else ""))
        if not cell.ok:
            error = InterpreterError(self._complaint(cell, code_action))
            setattr(error, "cell", cell)    # smolagents' own class knows of none
            raise error
        return CodeOutput(output=_value_of(cell), logs=str(prints), is_final_answer=False)

    def _complaint(self, cell: Cell, code: str) -> str:
        assert cell.error is not None
        name, value, trace = cell.error.name, cell.error.value, cell.error.traceback
        refused = _REFUSED.match(value) if name == "ImportError" else None
        if refused is not None:
            return (f"Import of {refused['before'] or refused['during']} is not allowed. "
                    f"Authorized imports are: {self.authorized_imports}")
        place = next((m for m in map(_PLACE.match, trace) if m), None)
        number = int(place[1]) if place else 0
        if place and not trace[0].startswith("Traceback"):
            shown = "\n".join(line for line in trace if line.startswith("    "))
            return f"Code parsing failed on line {number} due to: {name}: {value}\n{shown}"
        lines = code.splitlines()
        line = lines[number - 1].strip() if 0 < number <= len(lines) else ""
        why = f"{name}: {value}" if value else name
        if cell.restarted:
            why += f" ({GONE})"
        where = f" at line '{line}'" if line else ""
        return f"Code execution failed{where} due to: {why}"


class NsboxExecutor(_Ending, RemotePythonExecutor):
    """As smolagents' remote executors: `CodeAgent(..., executor=NsboxExecutor(["numpy"], logger))`

    additional_imports: packages that the code may use; installed for the box when its interpreter
    has not got them. logger: with log() and log_error(), or None. allow_pickle: only False.
    timeout_seconds: of one call, its tools included; None is no limit.
    max_print_outputs_length: characters. Other options are those of nsbox.Sandbox; `timeout` is
    the life of the box, `allow_imports` limits imports. `types`: classes of the caller's that
    values may come back as.
    """

    def __init__(self, additional_imports: list[str] = [], logger: Any = None,
                 allow_pickle: bool = False, *, timeout_seconds: float | None = 300,
                 max_print_outputs_length: int = DEFAULT_MAX_LEN_OUTPUT,
                 types: Iterable[type] = (), binary: str | None = None, **options: Any) -> None:
        if allow_pickle:
            raise ValueError("allow_pickle=True: a pickle from a box would run code of the box's "
                             "choice on the host; nsbox never reads or writes one. Plain values, "
                             "arrays, images and dataclasses cross without")
        super().__init__(list(additional_imports), logger if logger is not None else Quiet(),
                         False)
        self.timeout_seconds = timeout_seconds
        self.max_print_outputs_length = max_print_outputs_length
        self._session = Session(_options(options), is_local=False, types=types, binary=binary)
        self.state = State(self._session)
        self.installed_packages = self.install_packages(self.additional_imports)
        self.logger.log("nsbox is ready")

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Have these packages in the box; never through a shell, never into the host's
        interpreter. Gives @additional_imports back. UsageError once code has run."""
        specs = [_IMPORTED_AS.get(name, name) for name in additional_imports]
        missing = _missing(self._session, specs)
        if missing:
            self._session.add_packages([s for s in specs if s in missing])
            self._session.look("None")      # a failure is told here
        return list(additional_imports)

    def send_tools(self, tools: dict[str, Callable[..., Any]]) -> None:
        """Tools, and managed agents too: they run on the host, so the box needs none of what
        they require. `final_answer` ends the code."""
        self._session.send_tools(tools)

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Copies of @variables. Raises SerializationError for what cannot cross."""
        _send_variables(self._session, variables)

    @staticmethod
    def _deserialize_final_answer(encoded_value: str, allow_pickle: bool = False) -> Any:
        """Of the base class. Answers come as typed values; a text that claims to hold one is
        refused, a pickle above all."""
        if encoded_value.startswith("pickle:"):
            raise SerializationError("Pickle data rejected: nsbox never reads one")
        raise SerializationError("Unknown final answer format: an answer is a typed value")

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Run code. Raises AgentError with the prints, the error and its traceback."""
        prints = self.state[_PRINTS] = Prints(self.max_print_outputs_length)
        cell, answer = self._session.run(code, self.timeout_seconds, prints.add)
        if answer is not None:
            return CodeOutput(output=answer[0], logs=str(prints), is_final_answer=True)
        if not cell.ok:
            raise AgentError(self._complaint(cell, str(prints)), self.logger)
        return CodeOutput(output=self._output(cell), logs=str(prints), is_final_answer=False)

    def _complaint(self, cell: Cell, logs: str) -> str:
        error = cell.error
        name, value, trace = (error.name, error.value, "\n".join(error.traceback)) \
            if error is not None else (cell.status, "", "")
        if cell.status == "timed_out":
            name, value = "ExecutionTimeoutError", _timeout_text(self.timeout_seconds)
        if cell.restarted:
            trace += f"\n({GONE})"
        return f"{logs}\nExecuting code yielded an error:\n{name}\n{value}\n{trace}"

    @staticmethod
    def _output(cell: Cell) -> Any:
        """The value itself; of one that stays in the box a picture, else its richest form."""
        value = _value_of(cell)
        if not isinstance(value, Remote):
            return value
        mime = cell.record.get("mime") or {}
        data = image_of(mime)
        picture = _picture(data) if data is not None else None
        return picture if picture is not None else form_of(
            {"text/plain": str(cell.text), **mime})
