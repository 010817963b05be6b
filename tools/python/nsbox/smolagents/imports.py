"""Which imports are authorised: the rule that a box enforces with imports.mode = strict."""

from __future__ import annotations

from typing import Iterable

BASE_BUILTIN_MODULES = ["collections", "datetime", "itertools", "math", "queue", "random", "re",
                        "stat", "statistics", "time", "unicodedata"]


def check_import_authorized(import_to_check: str, authorized_imports: Iterable[str]) -> bool:
    """May this module be imported? Exact names; "pkg.*" is pkg and all below it, "*" is all.

    A package is allowed when a module below it is, because it is imported with it.
    """
    for allowed in authorized_imports:
        if allowed == "*" or import_to_check == allowed or \
                allowed.startswith(import_to_check + "."):
            return True
        if allowed.endswith(".*") and (import_to_check + ".").startswith(allowed[:-1]):
            return True
    return False
