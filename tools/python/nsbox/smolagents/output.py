"""Prints, cut as smolagents cuts them: first half, a notice, last half."""

from __future__ import annotations

from typing import Any, Mapping

DEFAULT_MAX_LEN_OUTPUT = 50_000     # characters


def _notice(most: int) -> str:
    return f"\n..._This content has been truncated to stay below {most} characters_...\n"


class Prints:
    """What was printed, at most @most characters of it and, when cut, a notice.

    Bounded while it comes: holds 1.5 times @most, however much is printed.
    """

    def __init__(self, most: int) -> None:
        if most < 0:
            raise ValueError(f"a number of characters, not {most}")
        self._most = most
        self._first, self._last, self._total = "", "", 0

    def add(self, text: str) -> None:
        self._total += len(text)
        room = self._most - len(self._first)
        self._first += text[:room]
        half = (self._most + 1) // 2
        self._last = (self._last + text)[-half:] if half else ""

    def __len__(self) -> int:
        return len(str(self))

    def __str__(self) -> str:
        if self._total <= self._most:
            return self._first
        return self._first[:self._most // 2] + _notice(self._most) + self._last


def truncate_content(content: str, max_length: int = 20_000) -> str:
    """@content with at most @max_length characters: halves of it around a notice when longer."""
    prints = Prints(max_length)
    prints.add(content)
    return str(prints)


# What a value that stayed in the box is shown as, in the order in which remote executors look.
_FORMS = ("application/vnd.nsbox.chart+json", "application/vnd.nsbox.data+json", "text/html",
          "application/javascript", "application/json", "text/latex", "text/markdown",
          "application/pdf", "image/svg+xml", "text/plain")
_IMAGES = ("image/jpeg", "image/png")


def image_of(mime: Mapping[str, Any]) -> str | None:
    """base64 of the picture among the forms of a value, or None."""
    return next((mime[kind] for kind in _IMAGES if isinstance(mime.get(kind), str)), None)


def form_of(mime: Mapping[str, Any]) -> Any:
    """The richest form that is no picture, or None."""
    return next((mime[kind] for kind in _FORMS if mime.get(kind) is not None), None)
