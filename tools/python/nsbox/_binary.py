"""Finds the command `nsbox`: NSBOX_BIN, this package, the checkout around it, PATH."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from .errors import SetupError

_HERE = Path(__file__).resolve().parent


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def find_binary() -> str:
    """The path of the command. Raises SetupError that names the remedy.

    Its companions (nsbox-egress and others) are found by it beside itself, so a copy of the
    command alone is not enough for networks.
    """
    named = os.environ.get("NSBOX_BIN")
    if named:
        if not _runs(Path(named)):
            raise SetupError(f"NSBOX_BIN names {named!r}, which is no program", stage="client")
        return named
    for place in (_HERE / "_bin" / "nsbox", _HERE.parents[2] / "build" / "bin" / "nsbox"):
        if _runs(place):
            return str(place)
    found = shutil.which("nsbox")
    if found is None:
        raise SetupError("the command nsbox was not found", stage="client",
                         hint="run make in the checkout and install this package again, "
                              "or set NSBOX_BIN")
    return found
