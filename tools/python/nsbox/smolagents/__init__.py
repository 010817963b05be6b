"""smolagents' executors of Python code, on nsbox.

    from nsbox.smolagents import NsboxExecutor
    agent = CodeAgent(tools=[...], model=model, executor=NsboxExecutor(["numpy"], logger))

`NsboxExecutor` has the shape of smolagents' remote executors, `NsboxPythonExecutor` that of its
`LocalPythonExecutor`: same arguments, same `CodeOutput`, same errors. Where smolagents can be
imported, base classes, results and errors are its own; else they have the same shape.

The code runs in the real CPython of a box that lives as long as the executor. Tools run on the
host, in the thread that called the executor. Values cross as typed JSON; never as pickle.
Every difference is listed in the README beside this package.
"""

from .executors import NsboxExecutor, NsboxPythonExecutor
from .imports import BASE_BUILTIN_MODULES, check_import_authorized
from .output import truncate_content
from .shapes import (HAVE_SMOLAGENTS, AgentError, CodeOutput, ExecutionTimeoutError,
                     InterpreterError, SerializationError)

__all__ = [
    "AgentError", "BASE_BUILTIN_MODULES", "CodeOutput", "ExecutionTimeoutError",
    "HAVE_SMOLAGENTS", "InterpreterError", "NsboxExecutor", "NsboxPythonExecutor",
    "SerializationError", "check_import_authorized", "truncate_content",
]
