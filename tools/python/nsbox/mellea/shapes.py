"""Results, artifacts and tools: mellea's own classes where it is installed, else the same here."""

from __future__ import annotations

import inspect
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

__all__ = ["HAVE_MELLEA", "Artifact", "ExecutionResult", "MelleaTool"]
HAVE_MELLEA = True
try:
    from mellea.backends.tools import MelleaTool
    from mellea.stdlib.tools.execution_policy import Artifact
    from mellea.stdlib.tools.interpreter import ExecutionResult
except ImportError:
    HAVE_MELLEA = False

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array",
               dict: "object"}

if not HAVE_MELLEA:

    @dataclass
    class Artifact:  # type: ignore[no-redef]
        """A file that the code made: absolute path on the host, bytes, MIME type or None."""

        path: Path
        size_bytes: int | None = None
        content_type: str | None = None

    @dataclass
    class ExecutionResult:  # type: ignore[no-redef]
        """How an execution ended. `skipped`: nothing ran, or it timed out; `skip_message` says."""

        success: bool
        stdout: str | None
        stderr: str | None
        skipped: bool = False
        skip_message: str | None = None
        analysis_result: Any | None = None
        exit_code: int | None = None
        timed_out: bool = False
        artifacts: list[Artifact] = field(default_factory=list)
        execution_mode: str = "unknown"
        working_directory: str | None = None

        def to_validationresult_reason(self) -> str:
            """The text that a requirement shows: why it was skipped, what it printed, or what
            it complained about."""
            assert self.skip_message is not None or \
                (self.stdout is not None and self.stderr is not None), \
                "a result has a skip_message or both streams"
            if self.skip_message:
                return self.skip_message
            return (self.stdout if self.success else self.stderr) or ""

    class MelleaTool:  # type: ignore[no-redef]
        """A function with the JSON schema that model servers want."""

        def __init__(self, name: str, tool_call: Callable[..., Any],
                     as_json_tool: dict[str, Any]) -> None:
            self.name = name
            self._call_tool = tool_call
            self._as_json_tool = as_json_tool

        @property
        def as_json_tool(self) -> dict[str, Any]:
            return dict(self._as_json_tool)

        def run(self, *args: Any, **kwargs: Any) -> Any:
            return self._call_tool(*args, **kwargs)

        @classmethod
        def from_callable(cls, func: Callable[..., Any], name: str | None = None) -> "MelleaTool":
            name = name or func.__name__
            hints = typing.get_type_hints(func)
            properties, required = {}, []
            for parameter in inspect.signature(func).parameters.values():
                kind = _JSON_TYPES.get(hints.get(parameter.name, str), "string")
                properties[parameter.name] = {"type": kind, "description": ""}
                if parameter.default is parameter.empty:
                    required.append(parameter.name)
            return cls(name, func, {"type": "function", "function": {
                "name": name, "description": inspect.getdoc(func) or "",
                "parameters": {"type": "object", "properties": properties,
                               "required": required}}})
