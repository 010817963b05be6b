"""The frames of `nsbox rpc`: 4 bytes, big-endian, the length of the UTF-8 JSON object behind them.

A frame that the other side would refuse ends the connection there, so a message that is too long,
too deep or not UTF-8 is refused here, before anything is sent, and the connection goes on.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from .errors import ConnectionLostError, UsageError

MAX_BYTES = 64 << 20
MAX_DEPTH = 64
HEADER = struct.Struct(">I")


def depth_of(value: Any, limit: int = MAX_DEPTH) -> int:
    """How deep lists and dicts of @value are nested; stops counting one above @limit."""
    depth, level = 0, [value]
    while level and depth <= limit:
        inner: list[Any] = []
        found = False
        for item in level:
            if isinstance(item, dict):
                found = True
                inner.extend(v for v in item.values() if isinstance(v, (dict, list, tuple)))
            elif isinstance(item, (list, tuple)):
                found = True
                inner.extend(v for v in item if isinstance(v, (dict, list, tuple)))
        if not found:
            break
        depth, level = depth + 1, inner
    return depth


def encode(message: dict[str, Any]) -> bytes:
    """The frame of @message. Raises UsageError for what cannot travel."""
    if depth_of(message) > MAX_DEPTH:
        raise UsageError(f"the request is nested deeper than {MAX_DEPTH} levels")
    try:
        body = json.dumps(message, ensure_ascii=False, allow_nan=False,
                          separators=(",", ":")).encode("utf-8")
    except UnicodeEncodeError as e:
        raise UsageError(f"text that is not Unicode: {e.reason} at character {e.start}",
                         hint="lone surrogates cannot be sent; encode them first") from None
    except (TypeError, ValueError) as e:
        raise UsageError(f"the request cannot be written as JSON: {e}") from None
    if len(body) > MAX_BYTES:
        raise UsageError(f"the request has {len(body)} bytes, the limit is {MAX_BYTES}",
                         hint="pass large data by a file, or in parts")
    return HEADER.pack(len(body)) + body


def length_of(header: bytes) -> int:
    """The length that @header announces. Raises ConnectionLostError for one that cannot be."""
    length: int = HEADER.unpack(header)[0]
    if not 0 < length <= MAX_BYTES:
        raise ConnectionLostError(f"nsbox rpc announced a frame of {length} bytes",
                                  hint="is something else printing on its standard output?")
    return length


def decode(body: bytes) -> dict[str, Any]:
    """The message in @body. Raises ConnectionLostError when it is not one."""
    try:
        message = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as e:
        raise ConnectionLostError(f"nsbox rpc sent a frame that is not JSON: {e}") from None
    if not isinstance(message, dict):
        raise ConnectionLostError("nsbox rpc sent a frame that is not a JSON object")
    return message
