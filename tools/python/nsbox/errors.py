"""What can go wrong, one class for each code of an nsbox error record.

Every error has `code`, `stage` (the step of making a box that failed, or ""), `os_errno`
(0: none), `message` and `hint` (what to do about it, or ""). A program that failed in its box
is no error: its verdict is in the `Result`.
"""

from __future__ import annotations

import os
from typing import Any, Mapping


class NsboxError(Exception):
    """Base of all errors of this package. `str(e)` is one line: where, what, why, remedy."""

    code = "system"

    def __init__(self, message: str, *, stage: str = "", os_errno: int = 0, hint: str = "",
                 code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.stage = stage
        self.os_errno = os_errno
        self.hint = hint
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        where = f"{self.stage}: " if self.stage else ""
        why = f": {os.strerror(self.os_errno)}" if self.os_errno else ""
        if self.message.endswith(why):      # the record's message may have it already
            why = ""
        remedy = f"; {self.hint}" if self.hint else ""
        return f"{where}{self.message}{why}{remedy}"

    def __reduce__(self) -> Any:
        return _restore, (type(self), self.message, self.stage, self.os_errno, self.hint, self.code)


class UsageError(NsboxError, ValueError):
    """The call is wrong: an unknown option, a wrong type, an object used from elsewhere."""

    code = "usage"


class PolicyError(NsboxError, ValueError):
    """The policy is wrong, or forbids what was asked for."""

    code = "policy"


class UnsupportedError(NsboxError):
    """This host or this version cannot do or enforce what was asked for."""

    code = "unsupported"


class SetupError(NsboxError):
    """The box could not be made; `stage` says at which step. Nothing of the caller's ran."""

    code = "setup"


class BusyError(NsboxError):
    """The box does something else just now."""

    code = "busy"


class OutOfMemoryError(NsboxError, MemoryError):
    """The host has no memory for the box. (A box at its own limit is a verdict.)"""

    code = "nomem"


class HostError(NsboxError):
    """A system call of nsbox itself failed; `os_errno` says how."""

    code = "system"


class ConnectionLostError(NsboxError, ConnectionError):
    """The `nsbox rpc` process is gone, or spoke what it must not. Its boxes are gone too."""

    code = "connection"


_CLASSES: dict[str, type[NsboxError]] = {
    cls.code: cls for cls in (UsageError, PolicyError, UnsupportedError, SetupError, BusyError,
                              OutOfMemoryError, HostError, ConnectionLostError)}


def _restore(cls: type[NsboxError], message: str, stage: str, os_errno: int, hint: str,
             code: str) -> NsboxError:
    return cls(message, stage=stage, os_errno=os_errno, hint=hint, code=code)


def error_from_record(record: Mapping[str, Any]) -> NsboxError:
    """The exception for an error object of the protocol; an unknown code keeps its name."""
    code = str(record.get("code") or "system")
    return _CLASSES.get(code, NsboxError)(
        str(record.get("message") or "nsbox gave no reason"), code=code,
        stage=str(record.get("stage") or ""), os_errno=int(record.get("os_errno") or 0),
        hint=str(record.get("hint") or ""))
