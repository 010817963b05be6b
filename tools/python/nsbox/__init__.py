"""nsbox: runs code that nobody has reviewed in a box of its own, on this Linux machine.

    import nsbox
    nsbox.code("print(6 * 7)").stdout              # '42\\n'
    nsbox.run(["sh", "-c", "id"], memory="64M")    # a Result
    nsbox.check("import os", allow_imports=["math"]).analysis.unauthorized

`Sandbox` and `AsyncSandbox` keep one connection for many runs. No daemon, no root: the package
starts `nsbox rpc` and speaks with it. Errors are the classes of `nsbox.errors`; a program that
failed is a Result, not an error.
"""

from __future__ import annotations

import os
import threading
from typing import Any, Sequence

from ._kernel import AsyncKernel, Cell, CellError, Display, ExecutionError, Kernel
from ._sandbox import AsyncSandbox, Sandbox, connect
from ._typed import Remote, RemoteError
from .errors import (BusyError, ConnectionLostError, HostError, NsboxError, OutOfMemoryError,
                     PolicyError, SetupError, UnsupportedError, UsageError)
from .result import (Analysis, Artifact, Denial, ImportedModule, Package, Packages, Result,
                     SyntaxProblem, Usage)

__version__ = "0.1.0"

__all__ = [
    "Analysis", "Artifact", "AsyncKernel", "AsyncSandbox", "BusyError", "Cell", "CellError",
    "ConnectionLostError", "Denial", "Display", "ExecutionError", "HostError", "ImportedModule",
    "Kernel", "NsboxError", "OutOfMemoryError", "Package", "Packages", "PolicyError", "Remote", "RemoteError", "Result",
    "Sandbox", "SetupError", "SyntaxProblem", "UnsupportedError", "Usage", "UsageError",
    "check", "code", "connect", "run", "sandbox",
]

_lock = threading.Lock()
_shared: Sandbox | None = None


def _forget() -> None:
    global _lock, _shared
    _lock, _shared = threading.Lock(), None


os.register_at_fork(after_in_child=_forget)


def sandbox() -> Sandbox:
    """The Sandbox behind run(), code() and check(): one a process, made anew when it died."""
    global _shared
    with _lock:
        if _shared is None or _shared.lost:
            _shared = Sandbox()
        return _shared


def run(argv: Sequence[str], **options: Any) -> Result:
    """Run a command in a fresh box; options as for Sandbox."""
    return sandbox().run(argv, **options)


def code(source: str | bytes, language: str = "python", **options: Any) -> Result:
    """Run source text in a fresh box; options as for Sandbox."""
    return sandbox().code(source, language, **options)


def check(source: str | bytes, language: str = "python", **options: Any) -> Result:
    """Parse source text without running it; options as for Sandbox."""
    return sandbox().check(source, language, **options)
