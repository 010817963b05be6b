"""Bases, results and errors: smolagents' own where it is installed, else the same shape here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

HAVE_SMOLAGENTS = True
try:
    from smolagents.local_python_executor import (CodeOutput, ExecutionTimeoutError,
                                                  InterpreterError, PythonExecutor)
    from smolagents.remote_executors import RemotePythonExecutor
    from smolagents.serialization import SerializationError
    from smolagents.utils import AgentError
except ImportError:
    HAVE_SMOLAGENTS = False


class Quiet:
    """A logger for callers that have none."""

    def log(self, *_: Any, **__: Any) -> None:
        """Say nothing."""

    def log_error(self, *_: Any, **__: Any) -> None:
        """Say nothing; the error is raised as well."""


if not HAVE_SMOLAGENTS:

    @dataclass
    class CodeOutput:  # type: ignore[no-redef]
        """What a piece of code came to: its value, its prints, whether it is the final answer."""

        output: Any
        logs: str
        is_final_answer: bool

    class InterpreterError(ValueError):  # type: ignore[no-redef]
        """The code of an NsboxPythonExecutor failed, or was refused."""

    class ExecutionTimeoutError(Exception):  # type: ignore[no-redef]
        """The code of an NsboxPythonExecutor took longer than `timeout_seconds`."""

    class AgentError(Exception):  # type: ignore[no-redef]
        """The code of an NsboxExecutor failed. `message` is the whole text."""

        def __init__(self, message: str, logger: Any) -> None:
            super().__init__(message)
            self.message = message
            logger.log_error(message)

        def dict(self) -> dict[str, str]:
            """Type and message, as agents store them."""
            return {"type": type(self).__name__, "message": str(self.message)}

    class SerializationError(Exception):  # type: ignore[no-redef]
        """A value cannot cross between host and box."""

    class PythonExecutor:  # type: ignore[no-redef]
        """send_tools(), send_variables() and a call with code."""

    class RemotePythonExecutor(PythonExecutor):  # type: ignore[no-redef,misc]
        """The arguments of every executor that is not in the agent's process."""

        def __init__(self, additional_imports: list[str], logger: Any,
                     allow_pickle: bool = False) -> None:
            self.additional_imports = additional_imports
            self.logger = logger
            self.allow_pickle = allow_pickle
            self.logger.log("Initializing executor, hold on...")
            self.installed_packages: list[str] = []

        def __call__(self, code_action: str) -> "CodeOutput":
            return self.run_code_raise_errors(code_action)

        def run_code_raise_errors(self, code: str) -> "CodeOutput":
            """Run @code. Raises AgentError."""
            raise NotImplementedError

__all__ = ["HAVE_SMOLAGENTS", "AgentError", "CodeOutput", "ExecutionTimeoutError",
           "InterpreterError", "PythonExecutor", "Quiet", "RemotePythonExecutor",
           "SerializationError"]
