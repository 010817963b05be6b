"""Output as mellea has it: stripped, lines ended by LF, cut in bytes with a marker."""

from __future__ import annotations

import re

MARKER = "... [truncated]"
_NOTICE = re.compile(rb"\n\.\.\. \[(\d+) bytes omitted\] \.\.\.\n")


def head_of(raw: bytes, total: int, truncated: bool) -> bytes:
    """The first part of a stream of which the box kept both ends. The program may have printed
    such a notice itself; ours is the one whose count adds up."""
    if truncated:
        for notice in _NOTICE.finditer(raw):
            if int(notice[1]) + len(raw) - len(notice[0]) == total:
                return raw[:notice.start()]
    return raw


def cut(text: str, limit: int | None, more: bool = False) -> str:
    """At most @limit bytes of UTF-8, the marker included where it fits. @more: there was more
    than @text."""
    if limit is None:
        return text + MARKER if more else text
    data = text.encode("utf-8", "replace")
    if len(data) <= limit and not more:
        return text
    room = limit - len(MARKER)
    if room <= 0:
        return data[:limit].decode("utf-8", "ignore")
    return data[:room].decode("utf-8", "ignore") + MARKER


def as_mellea(raw: bytes, total: int, truncated: bool, limit: int | None) -> str:
    """What the box kept of a stream (@total bytes were written) as a result's field."""
    data = head_of(raw, total, truncated)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n").strip()
    return cut(text, limit, more=truncated)
